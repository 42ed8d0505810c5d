// Element types: how they are widened, rounded, loaded and stored.
#pragma once

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
// What has more bits than a double keeps 52, the last of which remembers whether something was cut off.
__device__ inline u16 to_bf16(i64 v) {
    i64 kept = v >> 12 | ((v & 0xfff) != 0), top = v >> 53;
    return to_bf16(top == 0 || top == -1 ? (double)v : (double)kept * 4096);
}

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
