// What the kernels need of CUDA C++, on a host: a block's threads are fibers that run one at a time and change places at
// barriers and shuffles only. Every kernel is registered under its name with the size of its argument.
#pragma once
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef unsigned long long u64;
typedef long long i64;

#define __device__
#define __forceinline__ inline
// Shared memory of the one block that runs, that of a file's kernels side by side: filled with NaN before each block.
#ifdef UNIT
#define OF_UNIT_(name, unit) name##unit
#define OF_UNIT(name, unit) OF_UNIT_(name, unit)
#define TEXT_(name) #name
#define TEXT(name) TEXT_(name)
#define __shared__ static __attribute__((section(TEXT(OF_UNIT(shared_, UNIT)))))
// Where the section begins and ends; null if no kernel has any.
#define SHARED_START OF_UNIT(__start_shared_, UNIT)
#define SHARED_STOP OF_UNIT(__stop_shared_, UNIT)
extern "C" __attribute__((weak, visibility("hidden"))) char SHARED_START[], SHARED_STOP[];
#endif

struct Index { unsigned x, y, z; };

namespace emulation {
extern Index thread_index, block_index, block_size, grid_size;
void block_barrier();
void warp_barrier();
void put(u64 bits);
u64 peek(unsigned lane);

struct Range { char *start, *stop; };
struct Kernel {
    const char* name;
    size_t args;
    unsigned threads;
    Range shared;
    void (*run)(const void*);
    Kernel* next;
    Kernel(const char* name, size_t args, unsigned threads, Range shared, void (*run)(const void*));
};
Kernel* find(const char* name);
void launch(const Kernel& kernel, const void* args, Index grid, Index block);

// What the lanes of the caller's warp show one another; all lanes must come to be.
template <class T> struct Shown {
    explicit Shown(const T& mine) { put((u64)(uintptr_t)&mine); warp_barrier(); }
    ~Shown() { warp_barrier(); }
    const T& operator[](unsigned lane) const { return *(const T*)(uintptr_t)peek(lane); }
};

// Ends the process where a GPU would not read 16 bytes.
void aligned(const void* at);

// 4 or 16 bytes, zeros for null, that arrive in shared memory when their thread waits for them, no sooner; until then NaN
// is there.
void copy_later(void* to, const void* from, size_t bytes, bool inside);
void finish_copies();

template <class T> T exchange(T v, unsigned lane) {
    u64 bits = 0;
    memcpy(&bits, &v, sizeof v);
    put(bits);
    warp_barrier();
    bits = peek(lane);
    warp_barrier();
    memcpy(&v, &bits, sizeof v);
    return v;
}
}  // namespace emulation

#define threadIdx emulation::thread_index
#define blockIdx emulation::block_index
#define blockDim emulation::block_size
#define gridDim emulation::grid_size
#define __syncthreads() emulation::block_barrier()
template <class T> T __shfl_xor_sync(unsigned, T v, int mask) {
    return emulation::exchange(v, (threadIdx.x % 32) ^ (unsigned)mask);
}
inline int __any_sync(unsigned all, int holds) {
    for (int lane = 1; lane < 32; lane *= 2) holds |= __shfl_xor_sync(all, holds, lane);
    return holds;
}
inline int atomicMin(int* at, int v) { int old = *at; if (v < old) *at = v; return old; }

#define KERNEL(name, Args) KERNEL_OF(name, Args, THREADS)
#define STREAMING_KERNEL(name, Args) KERNEL_OF(name, Args, THREADS)
#define KERNEL_OF(name, Args, threads)                                                        \
    static void name(const Args& a);                                                          \
    static emulation::Kernel name##_entry(#name, sizeof(Args), threads, {SHARED_START, SHARED_STOP}, \
                                          [](const void* args) { name(*(const Args*)args); }); \
    static void name(const Args& a)
