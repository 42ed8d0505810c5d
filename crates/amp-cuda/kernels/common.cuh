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

// -------------------------------------------------------------------------------------------------------------------
// Element types

enum DType { F16, BF16, F32, F64, I64, U8, BOOL };

__device__ inline int size_of(int dtype) {
    switch (dtype) {
        case F64: case I64: return 8;
        case F32: return 4;
        case F16: case BF16: return 2;
        default: return 1;
    }
}

#if defined(__CUDACC_RTC__)
// Whether floats are rounded to 16 bits by one instruction, two at a time.
#if __CUDA_ARCH__ >= 800
#define HALF_PAIRS
#endif
__device__ inline float f16_to_float(u16 h) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f; }
__device__ inline u16 float_to_f16(float f) { u16 h; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f)); return h; }
__device__ inline u32 bits_of(float f) { return __float_as_uint(f); }
__device__ inline float float_of(u32 bits) { return __uint_as_float(bits); }
__device__ inline float toward_zero(double d) { return __double2float_rz(d); }
#else
inline u32 bits_of(float f) { return __builtin_bit_cast(u32, f); }
inline float float_of(u32 bits) { return __builtin_bit_cast(float, bits); }
inline float f16_to_float(u16 h) {
    u32 sign = (u32)(h & 0x8000) << 16, exponent = (h >> 10) & 31, mantissa = h & 0x3ff;
    if (exponent == 31) return float_of(sign | 0x7f800000 | mantissa << 13);
    if (exponent == 0) return (sign ? -1.0f : 1.0f) * (float)mantissa * 5.9604644775390625e-8f;
    return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
}
inline u16 float_to_f16(float f) {
    u32 bits = bits_of(f), magnitude = bits & 0x7fffffff, sign = (bits >> 16) & 0x8000;
    if (magnitude > 0x7f800000) return 0x7fff;
    if (magnitude >= 0x477ff000) return sign | 0x7c00;  // 65520 and above round to infinity
    if (magnitude < 0x38800000) {                       // subnormal: adding 0.5 rounds at the right bit
        return sign | (bits_of(float_of(magnitude) + 0.5f) - 0x3f000000);
    }
    return sign | ((magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13);
}
inline float toward_zero(double d) {
    float f = (float)d;
    bool away = d > 0 ? (double)f > d : (double)f < d;
    return away ? float_of(bits_of(f) - 1) : f;
}
#endif

__device__ inline float bf16_to_float(u16 h) { return float_of((u32)h << 16); }

// Two numbers in one register, each rounded.
__device__ inline u32 to_f16_pair(float low, float high) {
#if defined(HALF_PAIRS)
    u32 both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
#else
    return float_to_f16(low) | (u32)float_to_f16(high) << 16;
#endif
}

// To nearest even, the same bits on every architecture but for those of NaN.
#if defined(HALF_PAIRS)
__device__ inline u32 to_bf16_pair(float low, float high) {
    u32 both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
__device__ inline u16 float_to_bf16(float f) { return (u16)to_bf16_pair(f, 0); }
#else
__device__ inline u16 float_to_bf16(float f) {
    u32 bits = bits_of(f);
    if ((bits & 0x7fffffff) > 0x7f800000) return (u16)(bits >> 16 | 0x40);
    return (u16)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
__device__ inline u32 to_bf16_pair(float low, float high) { return float_to_bf16(low) | (u32)float_to_bf16(high) << 16; }
#endif

// A float that rounds to 16 bits as the double does: the last bit remembers whether something was cut off.
__device__ inline float round_to_odd(double d) {
    float f = toward_zero(d);
    return (double)f == d || d != d ? f : float_of(bits_of(f) | 1);
}

__device__ inline u16 to_f16(float v) { return float_to_f16(v); }
__device__ inline u16 to_f16(double v) { return float_to_f16(round_to_odd(v)); }
__device__ inline u16 to_f16(i64 v) { return to_f16((double)v); }
__device__ inline u16 to_bf16(float v) { return float_to_bf16(v); }
__device__ inline u16 to_bf16(double v) { return float_to_bf16(round_to_odd(v)); }
__device__ inline u16 to_bf16(i64 v) { return to_bf16((double)v); }

// To an integer: truncates and saturates, NaN becomes 0.
template <class C> __device__ inline i64 to_i64(C v) {
    if (v != v) return 0;
    if (v >= (C)9223372036854775808.0) return 0x7fffffffffffffffLL;
    if (v <= (C)-9223372036854775808.0) return -0x7fffffffffffffffLL - 1;
    return (i64)v;
}
__device__ inline i64 to_i64(i64 v) { return v; }

template <class C> __device__ inline u8 to_u8(C v) { return !(v > (C)0) ? 0 : v >= (C)255 ? 255 : (u8)v; }
__device__ inline u8 to_u8(i64 v) { return (u8)v; }

// Bytes moved by one instruction.
template <int N> struct alignas(N) Bytes { u32 word[N / 4]; };

template <class C> ACCESS C load_as(const void* data, int dtype, i64 i) {
    switch (dtype) {
        case F16: return (C)f16_to_float(((const u16*)data)[i]);
        case BF16: return (C)bf16_to_float(((const u16*)data)[i]);
        case F32: return (C)((const float*)data)[i];
        case F64: return (C)((const double*)data)[i];
        case I64: return (C)((const i64*)data)[i];
        default: return (C)((const u8*)data)[i];
    }
}
// Floats read as integers must not overflow the conversion.
template <> ACCESS i64 load_as<i64>(const void* data, int dtype, i64 i) {
    switch (dtype) {
        case F16: return to_i64(f16_to_float(((const u16*)data)[i]));
        case BF16: return to_i64(bf16_to_float(((const u16*)data)[i]));
        case F32: return to_i64(((const float*)data)[i]);
        case F64: return to_i64(((const double*)data)[i]);
        case I64: return ((const i64*)data)[i];
        default: return ((const u8*)data)[i];
    }
}

template <class C> ACCESS void store_as(void* data, int dtype, i64 i, C v) {
    switch (dtype) {
        case F16: ((u16*)data)[i] = to_f16(v); break;
        case BF16: ((u16*)data)[i] = to_bf16(v); break;
        case F32: ((float*)data)[i] = (float)v; break;
        case F64: ((double*)data)[i] = (double)v; break;
        case I64: ((i64*)data)[i] = to_i64(v); break;
        case U8: ((u8*)data)[i] = to_u8(v); break;
        default: ((u8*)data)[i] = v != (C)0; break;
    }
}

// Rounds to the precision of `dtype`; a negative tag or an integer type rounds nothing.
template <class C> ACCESS C round_to(int dtype, C v) {
    switch (dtype) {
        case F16: return (C)f16_to_float(to_f16(v));
        case BF16: return (C)bf16_to_float(to_bf16(v));
        case F32: return (C)(float)v;
        default: return v;
    }
}

// Whether packs of this type are moved in 16-byte (8-byte) accesses.
__device__ inline bool packable(int dtype) { return dtype != F64 && dtype != I64; }

// N elements as they are in memory, in as many words as their type needs.
template <int N> struct Run { u32 word[N]; };

template <int N, int SIZE> __device__ inline void fetch_run(const void* data, i64 i, Run<N>& run) {
    const int MOST = N * SIZE < 16 ? N * SIZE : 16;
    for (int k = 0; k < N * SIZE / MOST; ++k) {
        Bytes<MOST> b = ((const Bytes<MOST>*)((const u8*)data + i * SIZE))[k];
        for (int j = 0; j < MOST / 4; ++j) run.word[k * MOST / 4 + j] = b.word[j];
    }
}

template <int N, int SIZE> __device__ inline void put_run(void* data, i64 i, const Run<N>& run) {
    const int MOST = N * SIZE < 16 ? N * SIZE : 16;
    for (int k = 0; k < N * SIZE / MOST; ++k) {
        Bytes<MOST> b;
        for (int j = 0; j < MOST / 4; ++j) b.word[j] = run.word[k * MOST / 4 + j];
        ((Bytes<MOST>*)((u8*)data + i * SIZE))[k] = b;
    }
}

// N elements of a packable type from `i` on, a multiple of N, in memory that is aligned for as many, up to 16 bytes.
template <int N> ACCESS Run<N> fetch_run(const void* data, int dtype, i64 i) {
    Run<N> run = {};
    if (dtype == F16 || dtype == BF16) fetch_run<N, 2>(data, i, run);
    else if (dtype == F32) fetch_run<N, 4>(data, i, run);
    else fetch_run<N, 1>(data, i, run);
    return run;
}

template <int N> ACCESS void widen_run(const Run<N>& run, int dtype, float* v) {
    if (dtype == F32) {
        for (int j = 0; j < N; ++j) v[j] = float_of(run.word[j]);
    } else if (dtype == BF16) {
        for (int j = 0; j < N; ++j) v[j] = bf16_to_float((u16)(run.word[j / 2] >> j % 2 * 16));
    } else if (dtype == F16) {
        for (int j = 0; j < N; ++j) v[j] = f16_to_float((u16)(run.word[j / 2] >> j % 2 * 16));
    } else {
        for (int j = 0; j < N; ++j) v[j] = (u8)(run.word[j / 4] >> j % 4 * 8);
    }
}

template <int N> ACCESS void store_run(void* data, int dtype, i64 i, const float* v) {
    Run<N> run = {};
    if (dtype == F32) {
        for (int j = 0; j < N; ++j) run.word[j] = bits_of(v[j]);
        put_run<N, 4>(data, i, run);
    } else if (dtype == BF16) {
        for (int j = 0; j < N; j += 2) run.word[j / 2] = to_bf16_pair(v[j], v[j + 1]);
        put_run<N, 2>(data, i, run);
    } else if (dtype == F16) {
        for (int j = 0; j < N; j += 2) run.word[j / 2] = to_f16_pair(v[j], v[j + 1]);
        put_run<N, 2>(data, i, run);
    } else {
        for (int j = 0; j < N; ++j) run.word[j / 4] |= (u32)(dtype == U8 ? to_u8(v[j]) : v[j] != 0) << j % 4 * 8;
        put_run<N, 1>(data, i, run);
    }
}

// PACK elements from `i` on, which is a multiple of PACK in 16-byte aligned memory of a packable type.
ACCESS void load_pack(const void* data, int dtype, i64 i, float v[PACK]) {
    widen_run(fetch_run<PACK>(data, dtype, i), dtype, v);
}
ACCESS void store_pack(void* data, int dtype, i64 i, const float v[PACK]) { store_run<PACK>(data, dtype, i, v); }

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
FUNCTION(erf) FUNCTION(erfc) FUNCTION(sqrt) FUNCTION(floor) FUNCTION(ceil) FUNCTION(rint) FUNCTION(fabs)
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
