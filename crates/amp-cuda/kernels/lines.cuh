// Lines of elements, walked in packs where their tensors allow it; what softmax, losses, normalisations and sums are made of.
#pragma once
#include "common.cuh"

// Whether lines of neighbours are walked in packs: of what is read, and of what is written beside it.
__device__ inline bool in_packs(const Operand& x) { return x.packed && x.stored <= F32; }
__device__ inline bool in_packs(int dtype) { return dtype <= F32; }

// What a thread reads at once: one element of any type,
template <class C, int W> struct Ahead {
    C value;
    __device__ inline void fetch(const Operand& x, i64 at) { value = load<C>(x, at); }
    __device__ inline void fetch_whole(const Operand& x, i64 at) { fetch(x, at); }
    __device__ inline void widen(const Operand&, C v[W]) const { v[0] = value; }
    static __device__ inline void store(void* y, int dtype, i64 at, const C v[W]) { store_as(y, dtype, at, v[0]); }
};
// or a pack as it lies in memory, so that others are on their way before it is looked at.
template <> struct Ahead<float, PACK> {
    Run<PACK> run;

    // The pack at element `at`, a multiple of PACK, where the tensor has all of it. Words that are not read are set: loads
    // under a condition would keep registers for what these were before.
    __device__ inline void fetch_whole(const Operand& x, i64 at) {
        run = {};
        if (x.stored == F32) fetch_run<PACK, 4>(x.data, at, run);
        else fetch_run<PACK, 2>(x.data, at, run);
    }

    // The same anywhere; nothing is read past the end of the tensor.
    __device__ inline void fetch(const Operand& x, i64 at) {
        if (at + PACK <= x.shape[0]) return fetch_whole(x, at);
        int count = (int)(x.shape[0] - at);
        for (int j = 0; j < PACK; ++j) run.word[j] = x.stored == F32 && j < count ? ((const u32*)x.data)[at + j] : 0;
        for (int j = 0; j < PACK; ++j) {
            if (x.stored != F32 && j < count) run.word[j / 2] |= (u32)((const u16*)x.data)[at + j] << j % 2 * 16;
        }
    }

    __device__ inline void widen(const Operand& x, float v[PACK]) const { widen_run(x, run, v); }

    static __device__ inline void store(void* y, int dtype, i64 at, const float v[PACK]) { store_pack(y, dtype, at, v); }
};

// A line: `len` elements that lie `inner` apart from `base` on, in row-major order of its tensors. A thread works on W at
// once; packs lie as the memory does, not as the line: of the first and the last, some elements may be other lines'.
template <class C, int W> struct Line {
    i64 base, len, inner;

    __device__ inline i64 at(i64 k) const { return W == 1 ? base + k * inner : base + k; }
    __device__ inline bool has(i64 k) const { return k >= 0 && k < len; }
    __device__ inline bool whole(i64 k) const { return W == 1 || (k >= 0 && k + W <= len); }

    // f(k, v) with elements k to k + W of all tensors, `missing` for those that the line does not have; v is f's to change.
    // `packs` of every tensor are on their way at a time.
    template <int packs = 1, class Team, int N, class F>
    __device__ inline void each(Team team, const Operand* const (&x)[N], C missing, F f) const {
        i64 step = (i64)team.size() * W, k = (i64)team.rank() * W - (W == 1 ? 0 : base % W);
        for (; k < len; k += packs * step) {
            Ahead<C, W> ahead[packs][N];
#pragma unroll
            for (int u = 0; u < packs; ++u) {
#pragma unroll
                for (int n = 0; n < N && k + u * step < len; ++n) ahead[u][n].fetch(*x[n], at(k + u * step));
            }
#pragma unroll
            for (int u = 0; u < packs && k + u * step < len; ++u) open(k + u * step, x, ahead[u], missing, f);
        }
    }

    template <int N, class F>
    __device__ inline void open(i64 k, const Operand* const (&x)[N], const Ahead<C, W> (&ahead)[N], C missing, F f) const {
        C v[N][W];
        for (int n = 0; n < N; ++n) ahead[n].widen(*x[n], v[n]);
        if (!whole(k)) {
            for (int i = 0; i < N * W; ++i) v[i / W][i % W] = has(k + i % W) ? v[i / W][i % W] : missing;
        }
        f(k, v);
    }

    // Elements k to k + W of a result, as far as the line has them.
    __device__ inline void store(void* y, int dtype, i64 k, const C v[W]) const {
        if (whole(k)) return Ahead<C, W>::store(y, dtype, at(k), v);
        for (int j = 0; j < W; ++j) {
            if (!has(k + j)) continue;
            if (dtype == F32) ((float*)y)[at(k + j)] = (float)v[j];
            else ((u16*)y)[at(k + j)] = dtype == F16 ? to_f16(v[j]) : to_bf16(v[j]);
        }
    }
};

// A line of neighbours that a block goes over more than once: read again each time, `packs` of a thread under way at once,
template <class C, int W, int packs, int N> struct Reread {
    Line<C, W> line;
    BlockTeam<C> team;
    const Operand* const x[N];
    static const bool KEEPS = false;

    template <class F> __device__ inline void each(C missing, F f) { line.template each<packs>(team, x, missing, f); }
    __device__ inline void store(void* y, int dtype, i64 k, const C v[W]) const { line.store(y, dtype, k, v); }
};
// or, if it is of whole packs, read once and kept in registers.
struct KeptLine {
    Line<float, PACK> line;
    BlockTeam<float> team;

    __device__ inline u32 at(int u) const { return (u32)(u * team.size() + team.rank()) * PACK; }
    __device__ inline bool has(int u) const { return at(u) < (u32)line.len; }
    __device__ inline void store(void* y, int dtype, i64 k, const float v[PACK]) const { store_pack(y, dtype, line.at(k), v); }
};
// These have room for `packs` of a thread, as floats
template <int packs, int N> struct Kept : KeptLine {
    float v[packs][N][PACK];
    static const bool KEEPS = true;  // what v is changed to

    // The code that ships is smaller without.
    static __device__ inline bool fits(const Line<float, PACK>& line, BlockTeam<float> team) {
#if defined(COMPACT)
        return false;
#else
        return line.len % PACK == 0 && line.len <= (i64)packs * PACK * team.size();
#endif
    }
    __device__ inline Kept(const Line<float, PACK>& line, BlockTeam<float> team, const Operand* const (&x)[N])
        : KeptLine{line, team} {
        Ahead<float, PACK> ahead[packs][N];
#pragma unroll
        for (int u = 0; u < packs; ++u) {
            for (int n = 0; n < N && has(u); ++n) ahead[u][n].fetch_whole(*x[n], line.at(at(u)));
        }
#pragma unroll
        for (int u = 0; u < packs; ++u) {
            for (int n = 0; n < N && has(u); ++n) ahead[u][n].widen(*x[n], v[u][n]);
        }
    }

    template <class F> __device__ inline void each(float, F f) {
#pragma unroll
        for (int u = 0; u < packs; ++u) {
            if (has(u)) f(at(u), v[u]);
        }
    }
};
// or, of elements of 16 bits, as they lie in memory, which takes half as many.
template <int packs> struct KeptHalves : KeptLine {
    const Operand& x;
    Run<PACK> runs[packs];

    static __device__ inline bool fits(const Line<float, PACK>& line, BlockTeam<float> team, const Operand& x) {
        return x.stored != F32 && Kept<packs, 1>::fits(line, team);
    }
    __device__ inline KeptHalves(const Line<float, PACK>& line, BlockTeam<float> team, const Operand& x)
        : KeptLine{line, team}, x(x) {
#pragma unroll
        for (int u = 0; u < packs; ++u) {
            if (has(u)) fetch_run<PACK, 2>(x.data, line.at(at(u)), runs[u]);
        }
    }

    template <class F> __device__ inline void each(float, F f) {
#pragma unroll
        for (int u = 0; u < packs; ++u) {
            if (!has(u)) continue;
            float v[1][PACK];
            widen_run(x, runs[u], v[0]);
            f(at(u), v);
        }
    }
};

// All threads of the grid, and those of a block that walk a line of `len` together while others walk the next ones: their
// number is a power of two, as the block's has to be.
struct GridTeam {
    __device__ inline i64 rank() const { return (i64)blockIdx.x * blockDim.x + threadIdx.x; }
    __device__ inline i64 size() const { return (i64)gridDim.x * blockDim.x; }
};
struct Lanes {
    int lanes = 1;
    __device__ inline Lanes(i64 len, int elements) {  // of a thread
        while (lanes < (int)blockDim.x && (i64)lanes * elements < len) lanes *= 2;
    }
    __device__ inline int rank() const { return threadIdx.x % lanes; }
    __device__ inline int size() const { return lanes; }
    __device__ inline int number() const { return threadIdx.x / lanes; }
    __device__ inline int teams() const { return blockDim.x / lanes; }
};

__device__ inline i64 least(i64 a, i64 b) { return a < b ? a : b; }

// f(lanes, number, from, to) for the parts of runs of `run` elements that lie in start..end, divided among the block's threads.
template <class F> __device__ inline void each_run(i64 start, i64 end, i64 run, int elements, F f) {
    if (start >= end) return;  // runs may be empty
    Lanes lanes(run, elements);
    for (i64 number = divide(start, run) + lanes.number(); number * run < end; number += lanes.teams()) {
        i64 from = start - number * run, to = least(end - number * run, run);
        f(lanes, number, from < 0 ? 0 : from, to);
    }
}

// f(s, x[s * step]) for a team's parts of all that are below `n`, of which many are on their way before the first is used.
template <class C, class Team, class F> __device__ inline void each_part(Team team, const C* x, i64 n, i64 step, F f) {
    const int AT_ONCE = 8;
    for (i64 first = team.rank(); first < n; first += AT_ONCE * team.size()) {
        C v[AT_ONCE];
#pragma unroll
        for (int u = 0; u < AT_ONCE; ++u) v[u] = first + u * team.size() < n ? x[(first + u * team.size()) * step] : (C)0;
#pragma unroll
        for (int u = 0; u < AT_ONCE; ++u) {
            if (first + u * team.size() < n) f(first + u * team.size(), v[u]);
        }
    }
}

// The gradient of elements `at` to `at` + W, as far as relu let them pass.
template <class C, int W> __device__ inline void mask(const u8* dead, i64 at, C g[W]) {
    if (!dead) return;
    u32 bits = dead[at / PACK] >> at % PACK;
    for (int j = 0; j < W; ++j) g[j] = bits >> j & 1 ? (C)0 : g[j];
}

// e^v; float to about 2^-21, and |v| 2^-24 for a large v, and 0 where it would be subnormal.
__device__ inline float exp_fast(float v) { return exp2_fast(v * 1.44269504f); }
__device__ inline double exp_fast(double v) { return exp(v); }

__device__ inline float larger(float a, float b) { return fmaxf(a, b); }
__device__ inline double larger(double a, double b) { return fmax(a, b); }

// The largest of the elements added, and the sum of exp(x - largest), which a new largest scales: one read is enough.
// NaN and infinity make the sum NaN; without anything but -infinity it is 0, and the largest finite.
template <class C> struct SumExp {
    C largest = Limits<C>::lowest(), sum = 0;

    template <int W> __device__ inline void add(const C (&v)[W]) {
        C most = largest;
        for (int j = 0; j < W; ++j) most = larger(most, v[j]);
        sum *= exp_fast(largest - most);
        for (int j = 0; j < W; ++j) sum += exp_fast(v[j] - most);
        largest = most;
    }

    template <class Team> __device__ inline void join(Team team) {
        C most = team.reduce(Larger{}, largest);
        sum = team.reduce(Add{}, sum * exp_fast(largest - most));
        largest = most;
    }
};

// A block for each line of neighbours, in packs where `in_packs` says so.
#define ROW_KERNEL_IN_PACKS(stem, Args)                                                             \
    STREAMING_KERNEL(stem##_rows_f32, Args) {                                                       \
        __shared__ float shared[WARP];                                                              \
        if (in_packs(a)) stem<float, PACK>(a, BlockTeam<float>{shared});                            \
        else stem<float, 1>(a, BlockTeam<float>{shared});                                           \
    }

// The kernels of lines: by blocks where their elements are neighbours, else by threads.
#define LINE_KERNELS(stem, Args)                                                                    \
    ROW_KERNEL_IN_PACKS(stem, Args)                                                                 \
    KERNEL(stem##_rows_f64, Args) {                                                                 \
        __shared__ double shared[WARP];                                                             \
        stem<double, 1>(a, BlockTeam<double>{shared});                                              \
    }                                                                                               \
    KERNEL(stem##_columns_f32, Args) { stem<float, 1>(a, ThreadTeam<float>{nullptr}); }             \
    KERNEL(stem##_columns_f64, Args) { stem<double, 1>(a, ThreadTeam<double>{nullptr}); }
