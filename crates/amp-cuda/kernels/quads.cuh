// Elements moved four at a time, several fours of each thread under way at once.
#pragma once
#include "common.cuh"

// Quads of `N` operands, elements of which `f` makes one. What is `known` has a copy for each element, a switch over all
// operations is there once: it works on the first element, and the others move up.
template <bool KNOWN, int N, class F> __device__ inline void join(float v[N][QUAD], F f, float y[QUAD]) {
    if (KNOWN) {
#pragma unroll
        for (int j = 0; j < QUAD; ++j) {
            float each[N];
            for (int k = 0; k < N; ++k) each[k] = v[k][j];
            y[j] = f(each);
        }
        return;
    }
#pragma unroll 1
    for (int j = 0; j < QUAD; ++j) {
        float each[N];
        for (int k = 0; k < N; ++k) {
            each[k] = v[k][0];
            for (int i = 0; i + 1 < QUAD; ++i) v[k][i] = v[k][i + 1];
        }
        for (int i = 0; i + 1 < QUAD; ++i) y[i] = y[i + 1];
        y[QUAD - 1] = f(each);
    }
}

// What `f` makes of quad `i` of operands that are packed, and of M - 1 more, `step` apart, as far as they are below `quads`.
// All are on their way before the first is used.
template <bool KNOWN, int M, int N, class F, class Put>
__device__ inline void join_packed(const Operand* const (&x)[N], i64 i, i64 step, i64 quads, F f, Put put) {
    Run<QUAD> runs[M][N];
#pragma unroll
    for (int m = 0; m < M; ++m) {
        if (i + m * step >= quads) continue;
        for (int k = 0; k < N; ++k) runs[m][k] = fetch_run<QUAD>(x[k]->data, x[k]->stored, (i + m * step) * QUAD);
    }
#pragma unroll
    for (int m = 0; m < M; ++m) {
        if (i + m * step >= quads) continue;
        float v[N][QUAD], y[QUAD] = {};
        for (int k = 0; k < N; ++k) widen_run(*x[k], runs[m][k], v[k]);
        join<KNOWN, N>(v, f, y);
        put((i + m * step) * QUAD, y);
    }
}

// Gives `put` what `f` makes of all quads below `n`, if no operand is scattered; returns how many elements these are. A
// thread has up to M quads of each packed operand in flight; the code that ships is smaller without.
template <bool KNOWN, int M, int N, class F, class Put>
__device__ inline i64 join_quads(const Operand* const (&x)[N], i64 n, int out, F f, Put put) {
    bool packed = packable(out), placed = packed;
    for (int k = 0; k < N; ++k) {
        packed = packed && x[k]->packed;
        placed = placed && x[k]->quads != SCATTERED;
    }
    i64 quads = placed ? n / QUAD : 0, step = (i64)gridDim.x * blockDim.x;
    i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
#if !defined(COMPACT)
    if (packed) {
        for (; i < quads; i += M * step) join_packed<KNOWN, M, N>(x, i, step, quads, f, put);
    }
#endif
    for (; i < quads; i += step) {
        float v[N][QUAD], y[QUAD] = {};
        for (int k = 0; k < N; ++k) load_quad(*x[k], i, v[k]);
        join<KNOWN, N>(v, f, y);
        put(i * QUAD, y);
    }
    return quads * QUAD;
}
