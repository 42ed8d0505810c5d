// Elements moved four at a time, eight where all have 16 bits; several fours or eights of a thread are under way at once.
#pragma once
#include "common.cuh"

// W elements of each of `N` operands, of which `f` makes W. What is `known` has a copy for each element, a switch over all
// operations is there once: it works on the first element, and the others move up.
template <bool KNOWN, int N, int W, class F> __device__ inline void join(float v[N][W], F f, float y[W]) {
    if (KNOWN) {
#pragma unroll
        for (int j = 0; j < W; ++j) {
            float each[N];
            for (int k = 0; k < N; ++k) each[k] = v[k][j];
            y[j] = f(each);
        }
        return;
    }
#pragma unroll 1
    for (int j = 0; j < W; ++j) {
        float each[N];
        for (int k = 0; k < N; ++k) {
            each[k] = v[k][0];
            for (int i = 0; i + 1 < W; ++i) v[k][i] = v[k][i + 1];
        }
        for (int i = 0; i + 1 < W; ++i) y[i] = y[i + 1];
        y[W - 1] = f(each);
    }
}

// How runs of packed operands are read: quads of any types,
struct AnyRuns {
    static const int W = QUAD;
    static __device__ inline bool can_read(const Operand& x) { return x.packed; }
    static __device__ inline bool can_write(int dtype) { return packable(dtype); }
    static __device__ inline void fetch(const Operand& x, i64 at, Run<W>& run) { run = fetch_run<W>(x.data, x.stored, at); }
    static __device__ inline void widen(const Operand& x, const Run<W>& run, float* v) { widen_run(x, run, v); }
};
// or 16 bytes of 16-bit types. A quad of these is 8: with as many accesses under way as F32 has, half as many bytes would
// be, which is too few to hide the latency of memory. No branch is between one access and the next.
struct HalfRuns {
    static const int W = PACK;
    static __device__ inline bool can_read(const Operand& x) { return x.packed && can_write(x.stored) && x.rounds < 0; }
    static __device__ inline bool can_write(int dtype) { return dtype == F16 || dtype == BF16; }
    static __device__ inline void fetch(const Operand& x, i64 at, Run<W>& run) { fetch_run<W, 2>(x.data, at, run); }
    static __device__ inline void widen(const Operand& x, const Run<W>& run, float* v) {
        widen_run(run, x.stored == BF16 ? BF16 : F16, v);
    }
};

template <class Runs, int N> __device__ inline bool can_join(const Operand* const (&x)[N], int out) {
    bool can = Runs::can_write(out);
    for (int k = 0; k < N; ++k) can = can && Runs::can_read(*x[k]);
    return can;
}

// What `f` makes of run `i` of the operands, and of M - 1 more, `step` apart, as far as they are below `end`. All are on
// their way before the first is used.
template <class Runs, bool KNOWN, int M, int N, class F, class Put>
__device__ inline void join_runs(const Operand* const (&x)[N], i64 i, i64 step, i64 end, F f, Put put) {
    const int W = Runs::W;
    Run<W> runs[M][N];
#pragma unroll
    for (int m = 0; m < M; ++m) {
        if (i + m * step >= end) continue;
        for (int k = 0; k < N; ++k) Runs::fetch(*x[k], (i + m * step) * W, runs[m][k]);
    }
#pragma unroll
    for (int m = 0; m < M; ++m) {
        if (i + m * step >= end) continue;
        float v[N][W], y[W] = {};
        for (int k = 0; k < N; ++k) Runs::widen(*x[k], runs[m][k], v[k]);
        join<KNOWN, N, W>(v, f, y);
        put((i + m * step) * W, y);
    }
}

// The same for all runs below `n`; returns how many elements these are.
template <class Runs, bool KNOWN, int M, int N, class F, class Put>
__device__ inline i64 join_packed(const Operand* const (&x)[N], i64 n, F f, Put put) {
    i64 end = n / Runs::W, step = (i64)gridDim.x * blockDim.x;
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i < end; i += M * step) join_runs<Runs, KNOWN, M>(x, i, step, end, f, put);
    return end * Runs::W;
}

// Where results go that are side by side from an element on, a multiple of their number; as many as PACK have 16 bits.
struct Into {
    void* data;
    int dtype;
    template <int W> __device__ inline void operator()(i64 at, const float (&y)[W]) const {
        store_run<W>(data, W == PACK && dtype != BF16 ? F16 : dtype, at, y);
    }
};

// Gives `put` what `f` makes of all quads below `n`, or runs of PACK, if no operand is scattered; returns how many elements
// these are. A thread has up to M runs of each packed operand in flight, or H runs of PACK; the code that ships is smaller
// without.
template <bool KNOWN, int M, int N, int H = M, class F, class Put>
__device__ inline i64 join_quads(const Operand* const (&x)[N], i64 n, int out, F f, Put put) {
#if !defined(COMPACT)
    if constexpr (KNOWN) {
        if (can_join<HalfRuns>(x, out)) return join_packed<HalfRuns, KNOWN, H>(x, n, f, put);
    }
    if (can_join<AnyRuns>(x, out)) return join_packed<AnyRuns, KNOWN, M>(x, n, f, put);
#endif
    bool placed = packable(out);
    for (int k = 0; k < N; ++k) placed = placed && x[k]->quads != SCATTERED;
    i64 quads = placed ? n / QUAD : 0;
    FOR_EACH(i, quads) {
        float v[N][QUAD], y[QUAD] = {};
        for (int k = 0; k < N; ++k) load_quad(*x[k], i, v[k]);
        join<KNOWN, N, QUAD>(v, f, y);
        put(i * QUAD, y);
    }
    return quads * QUAD;
}
