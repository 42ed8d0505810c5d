// What every kernel file starts with: element types, operands, and reductions of a block.
//
// No CUDA header is needed, so that NVRTC compiles the files as they are and a host compiler can run them under an
// emulation of threads. Elements are stored in any of seven types, named at run time by a tag, and computed with in C,
// which is float, double or i64: loading widens, storing rounds once, and there is one kernel per C instead of one per
// combination of types. The tag is the same for all threads, so branches on it do not diverge.
#pragma once

#if defined(__CUDACC_RTC__)
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#else
#include "emulation.h"
#endif

// Largest number of threads of a block, for kernels that do not say otherwise.
#define THREADS 256
#define WARP 32
// Elements that one thread loads at once: 16 bytes of a 16-bit type.
#define PACK 8
// The same of an element-wise loop, 16 bytes of float: what neighbours load or store is side by side whatever the types.
#define QUAD 4

// What reads and writes elements: inlined where code has to be fast, functions of their own in the code that ships, which
// is less than half as large for it.
#if defined(COMPACT)
#define ACCESS __device__ __noinline__
#else
#define ACCESS __device__ inline
#endif

// A kernel takes one struct by value; its fields are `a.field`. The second form names the largest block, the third has
// registers for four blocks per multiprocessor, where they hide the latency of memory.
#if defined(__CUDACC_RTC__)
#define KERNEL(name, Args) KERNEL_OF(name, Args, THREADS)
#define KERNEL_OF(name, Args, threads) \
    extern "C" __global__ void __launch_bounds__(threads, 2) name(const __grid_constant__ Args a)
// Four of them on a multiprocessor leave 64 registers, which are too few before sm_80.
#if __CUDA_ARCH__ >= 800
#define STREAMING_KERNEL(name, Args) \
    extern "C" __global__ void __launch_bounds__(THREADS, 4) name(const __grid_constant__ Args a)
#else
#define STREAMING_KERNEL(name, Args) KERNEL(name, Args)
#endif
#endif

#include "elements.cuh"

// -------------------------------------------------------------------------------------------------------------------
// Operands

#define MAX_RANK 8

// Anyhow, side by side where one access reads them, or all in one place.
enum Quads { SCATTERED, ADJACENT, REPEATED };

// A strided tensor argument; dimensions that can be walked as one have been merged. `data` is at the first element.
struct Operand {
    const void* data;
    int stored;   // type of the elements in memory
    int rounds;   // precision that they count as where it has fewer bits, else -1
    int rank;     // at least 1
    int packed;   // contiguous, 16-byte aligned and of a packable type
    int quads;    // how QUAD elements lie that begin at a multiple of QUAD
    i64 shape[MAX_RANK];
    i64 strides[MAX_RANK];
};

// Quotient of non-negative numbers; 64-bit division is slow, and most numbers fit in 32 bits.
__device__ inline i64 divide(i64 a, i64 b) {
    return (u64)(a | b) >> 32 ? a / b : (i64)((u32)a / (u32)b);
}

// The same by a stride, which mostly is 1 or 2.
__device__ inline i64 divide_by_stride(i64 a, i64 stride) {
    return stride == 1 ? a : stride == 2 ? a >> 1 : divide(a, stride);
}

// Position in memory of element `i` in row-major order.
ACCESS i64 place(const Operand& x, i64 i) {
    i64 at = 0;
#pragma unroll 1
    for (int d = x.rank - 1; d > 0; --d) {
        i64 q = divide(i, x.shape[d]);
        at += (i - q * x.shape[d]) * x.strides[d];
        i = q;
    }
    return at + i * x.strides[0];
}

template <class C> __device__ inline C load_at(const Operand& x, i64 position) {
    return round_to(x.rounds, load_as<C>(x.data, x.stored, position));
}

template <class C> ACCESS C load(const Operand& x, i64 i) { return load_at<C>(x, place(x, i)); }

// Elements of an operand, as they count.
template <int N> __device__ inline void widen_run(const Operand& x, const Run<N>& run, float* v) {
    widen_run(run, x.stored, v);
    if (x.rounds == BF16) {
        for (int j = 0; j < N; ++j) v[j] = bf16_to_float(to_bf16(v[j]));
    } else if (x.rounds == F16) {
        for (int j = 0; j < N; ++j) v[j] = f16_to_float(to_f16(v[j]));
    }
}

// Elements of pack number `pack` of a packed operand.
__device__ inline void load_pack(const Operand& x, i64 pack, float v[PACK]) {
    widen_run(x, fetch_run<PACK>(x.data, x.stored, pack * PACK), v);
}

// Where quad number `quad` begins in memory.
__device__ inline i64 quad_place(const Operand& x, i64 quad) { return x.packed ? quad * QUAD : place(x, quad * QUAD); }

// Quad number `quad` of an operand that is not scattered.
ACCESS void load_quad(const Operand& x, i64 quad, float v[QUAD]) {
    i64 at = quad_place(x, quad);
    if (x.quads == ADJACENT) {
        widen_run(x, fetch_run<QUAD>(x.data, x.stored, at), v);
        return;
    }
    float one = load_at<float>(x, at);
    for (int j = 0; j < QUAD; ++j) v[j] = one;
}

// Loops over 0..n with all threads of the grid.
#define FOR_EACH(i, n) \
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += (i64)gridDim.x * blockDim.x)

// -------------------------------------------------------------------------------------------------------------------
// Arithmetic

template <class C> __device__ inline bool is_nan(C v) { return v != v; }
__device__ inline bool is_nan(i64) { return false; }
template <class C> __device__ inline bool is_finite(C v) { return v - v == (C)0; }

template <class C> struct Limits;
template <> struct Limits<float> {
    static __device__ inline float least() { return -INFINITY; }
    static __device__ inline float greatest() { return INFINITY; }
    static __device__ inline float lowest() { return -3.402823466e38f; }
};
template <> struct Limits<double> {
    static __device__ inline double least() { return -INFINITY; }
    static __device__ inline double greatest() { return INFINITY; }
    static __device__ inline double lowest() { return -1.7976931348623157e308; }
};
template <> struct Limits<i64> {
    static __device__ inline i64 least() { return -0x7fffffffffffffffLL - 1; }
    static __device__ inline i64 greatest() { return 0x7fffffffffffffffLL; }
};

// Integer arithmetic wraps around.
template <class C> __device__ inline C plus(C a, C b) { return a + b; }
template <class C> __device__ inline C minus(C a, C b) { return a - b; }
template <class C> __device__ inline C times(C a, C b) { return a * b; }
__device__ inline i64 plus(i64 a, i64 b) { return (i64)((u64)a + (u64)b); }
__device__ inline i64 minus(i64 a, i64 b) { return (i64)((u64)a - (u64)b); }
__device__ inline i64 times(i64 a, i64 b) { return (i64)((u64)a * (u64)b); }

// One name for both precisions.
#define FUNCTION(name)                                                  \
    __device__ inline float name##_of(float v) { return name##f(v); }   \
    __device__ inline double name##_of(double v) { return name(v); }
FUNCTION(exp) FUNCTION(expm1) FUNCTION(log) FUNCTION(log1p) FUNCTION(log2) FUNCTION(sin) FUNCTION(cos) FUNCTION(tanh)
FUNCTION(erf) FUNCTION(erfc) FUNCTION(sqrt) FUNCTION(floor) FUNCTION(ceil) FUNCTION(rint) FUNCTION(trunc)
FUNCTION(fabs)
#undef FUNCTION
// 2^v; relative error below 2^-21, subnormal results are 0.
__device__ inline float exp2_fast(float v) {
#if defined(__CUDACC_RTC__)
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(v));
    return y;
#else
    return exp2f(v);
#endif
}

// 1 / v for magnitudes between 2^-126 and 2^126; relative error below 2^-22.
__device__ inline float reciprocal_fast(float v) {
#if defined(__CUDACC_RTC__)
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(v));
    return y;
#else
    return 1 / v;
#endif
}

__device__ inline float pow_of(float v, float p) { return powf(v, p); }
__device__ inline double pow_of(double v, double p) { return pow(v, p); }
__device__ inline float atan2_of(float y, float x) { return atan2f(y, x); }
__device__ inline double atan2_of(double y, double x) { return atan2(y, x); }

template <class C> __device__ inline C sigmoid(C v) { return 1 / (1 + exp_of(-v)); }

// -------------------------------------------------------------------------------------------------------------------
// Reductions of a block, in an order that depends on the block's size alone

struct Add {
    template <class C> __device__ inline C join(C a, C b) const { return plus(a, b); }
};
struct Larger {  // the first unless the second is larger: NaN does not count
    template <class C> __device__ inline C join(C a, C b) const { return b > a ? b : a; }
};
struct Least {  // of integers
    __device__ inline i64 join(i64 a, i64 b) const { return b < a ? b : a; }
};
struct Greatest {  // NaN wins
    template <class C> __device__ inline C join(C a, C b) const { return b > a || is_nan(b) ? b : a; }
};

// The value of all threads of the block, in every thread; `shared` holds one element per warp. All threads must call.
template <class Op, class C> __device__ inline C block_reduce(Op op, C v, C* shared) {
    for (int lane = WARP / 2; lane > 0; lane /= 2) v = op.join(v, __shfl_xor_sync(0xffffffff, v, lane));
    __syncthreads();  // an earlier call's readers are done with `shared`
    if (threadIdx.x % WARP == 0) shared[threadIdx.x / WARP] = v;
    __syncthreads();
    v = shared[0];
    for (int w = 1; w < (int)blockDim.x / WARP; ++w) v = op.join(v, shared[w]);
    return v;
}

// Whether squared deviations are so small in parts of the mean that they may be nothing but its rounding: then it is worth
// a look whether all elements are alike.
template <class C> __device__ inline bool may_be_rounding(C mean, C squares, i64 count) {
    C little = mean * (C)1e-5;
    return squares <= (C)count * little * little;
}

// Where a line of elements that are `inner` apart begins, in row-major order.
__device__ inline i64 line_base(i64 line, i64 len, i64 inner) {
    i64 outer = divide(line, inner);
    return outer * len * inner + (line - outer * inner);
}

// A line of elements is worked on by a team: a whole block where the line is contiguous, and one thread where its
// neighbours are, so that loads coalesce either way. Every thread of a block is in the same kind of team.
template <class C> struct BlockTeam {
    C* shared;  // one element per warp
    __device__ inline int rank() const { return threadIdx.x; }
    __device__ inline int size() const { return blockDim.x; }
    __device__ inline i64 number() const { return blockIdx.x; }
    template <class Op> __device__ inline C reduce(Op op, C v) const { return block_reduce(op, v, shared); }
};
template <class C> struct ThreadTeam {
    C* shared;
    __device__ inline int rank() const { return 0; }
    __device__ inline int size() const { return 1; }
    __device__ inline i64 number() const { return (i64)blockIdx.x * blockDim.x + threadIdx.x; }
    template <class Op> __device__ inline C reduce(Op, C v) const { return v; }
};
// The same by `height` threads of a block: those of a row of it have lines that are neighbours. All threads must call.
template <class C> struct ColumnTeam {
    C* shared;  // one element per thread
    int height;
    __device__ inline int width() const { return blockDim.x / height; }
    __device__ inline int column() const { return threadIdx.x % width(); }
    __device__ inline int rank() const { return threadIdx.x / width(); }
    __device__ inline int size() const { return height; }
    __device__ inline i64 number() const { return (i64)blockIdx.x * width() + column(); }
    template <class Op> __device__ inline C reduce(Op op, C v) const {
        if (height == 1) return v;
        __syncthreads();  // readers of an earlier value are done
        shared[threadIdx.x] = v;
        __syncthreads();
        v = shared[column()];
        for (int h = 1; h < height; ++h) v = op.join(v, shared[h * width() + column()]);
        return v;
    }
};
