// Layer, RMS, group, instance and batch normalisation, and their gradients.
//
// x is seen as [samples, channels, repeat]; weight and bias have one element per channel. Rows that share statistics are
// groups of neighbouring channels of one sample (layer and RMS norm: one group, repeat 1), or one channel of all samples
// (batch norm). Statistics are F32, F64 for F64 input.
#include "common.cuh"

struct NormArgs {
    Operand x;
    Operand weight;   // [channels]; null data for ones
    Operand bias;     // [channels]; null data for zeros
    void* y;
    void* mean;       // one per row
    void* var;
    void* rstd;
    i64 n;
    i64 len;          // elements of a row
    i64 channels;
    i64 repeat;       // consecutive elements of one channel
    double eps;
    int rms;
    int out;
};

// weight or bias of a channel
template <class C> __device__ inline C parameter(const Operand& p, i64 channel, C missing) {
    return p.data ? load<C>(p, channel) : missing;
}

// Channel of element i.
__device__ inline i64 channel_of(i64 i, i64 repeat, i64 channels) {
    i64 q = repeat == 1 ? i : divide(i, repeat);
    return q - divide(q, channels) * channels;
}

// Row blockIdx.x: two passes for the statistics, one for the result.
template <class C> __device__ void norm_rows(const NormArgs& a, C* shared) {
    i64 base = blockIdx.x * a.len;
    C mean = 0, squares = 0;
    if (!a.rms) {
        for (i64 k = threadIdx.x; k < a.len; k += blockDim.x) mean += load<C>(a.x, base + k);
        mean = block_reduce(Add{}, mean, shared) / (C)a.len;
    }
    for (i64 k = threadIdx.x; k < a.len; k += blockDim.x) {
        C d = load<C>(a.x, base + k) - mean;
        squares += d * d;
    }
    squares = block_reduce(Add{}, squares, shared);
    if (!a.rms && may_be_rounding(mean, squares, a.len)) {
        C head = load<C>(a.x, base), others = 0;
        for (i64 k = threadIdx.x; k < a.len; k += blockDim.x) others += load<C>(a.x, base + k) != head;
        if (block_reduce(Add{}, others, shared) == 0) {
            mean = head;
            squares = 0;
        }
    }
    C var = squares / (C)a.len, rstd = 1 / sqrt_of(var + (C)a.eps);
    for (i64 k = threadIdx.x; k < a.len; k += blockDim.x) {
        i64 c = channel_of(base + k, a.repeat, a.channels);
        C normal = (load<C>(a.x, base + k) - mean) * rstd;
        store_as(a.y, a.out, base + k, normal * parameter<C>(a.weight, c, 1) + parameter<C>(a.bias, c, 0));
    }
    if (threadIdx.x == 0) {
        ((C*)a.mean)[blockIdx.x] = mean;
        ((C*)a.var)[blockIdx.x] = var;
        ((C*)a.rstd)[blockIdx.x] = rstd;
    }
}

// Rows of whole packs, kept in registers between the passes: up to 4 packs per thread.
#define KEPT 4
__device__ void norm_packed_rows(const NormArgs& a, float* shared) {
    i64 packs = a.len / PACK, base = blockIdx.x * packs;
    float v[KEPT][PACK], mean = 0, squares = 0;
#pragma unroll
    for (int p = 0; p < KEPT; ++p) {
        i64 pack = threadIdx.x + (i64)p * blockDim.x;
        if (pack >= packs) break;
        load_pack(a.x, base + pack, v[p]);
        for (int j = 0; j < PACK; ++j) mean += v[p][j];
    }
    mean = a.rms ? 0 : block_reduce(Add{}, mean, shared) / (float)a.len;
#pragma unroll
    for (int p = 0; p < KEPT; ++p) {
        if (threadIdx.x + (i64)p * blockDim.x >= packs) break;
        for (int j = 0; j < PACK; ++j) squares += (v[p][j] - mean) * (v[p][j] - mean);
    }
    squares = block_reduce(Add{}, squares, shared);
    if (!a.rms && may_be_rounding(mean, squares, a.len)) {
        float head = load<float>(a.x, base * PACK), others = 0;
#pragma unroll
        for (int p = 0; p < KEPT; ++p) {
            if (threadIdx.x + (i64)p * blockDim.x >= packs) break;
            for (int j = 0; j < PACK; ++j) others += v[p][j] != head;
        }
        if (block_reduce(Add{}, others, shared) == 0) {
            mean = head;
            squares = 0;
        }
    }
    float var = squares / (float)a.len, rstd = 1 / sqrtf(var + (float)a.eps);
#pragma unroll
    for (int p = 0; p < KEPT; ++p) {
        i64 pack = threadIdx.x + (i64)p * blockDim.x;
        if (pack >= packs) break;
        float parameters[PACK];
        for (int j = 0; j < PACK; ++j) v[p][j] = (v[p][j] - mean) * rstd;
        if (a.weight.data) {
            load_pack(a.weight, pack, parameters);
            for (int j = 0; j < PACK; ++j) v[p][j] *= parameters[j];
        }
        if (a.bias.data) {
            load_pack(a.bias, pack, parameters);
            for (int j = 0; j < PACK; ++j) v[p][j] += parameters[j];
        }
        store_pack(a.y, a.out, (base + pack) * PACK, v[p]);
    }
    if (threadIdx.x == 0) {
        ((float*)a.mean)[blockIdx.x] = mean;
        ((float*)a.var)[blockIdx.x] = var;
        ((float*)a.rstd)[blockIdx.x] = rstd;
    }
}

__device__ inline bool whole(const Operand& p) { return !p.data || p.packed; }

KERNEL(norm_rows_f32, NormArgs) {
    __shared__ float shared[WARP];
    bool packs = a.x.packed && a.len % PACK == 0 && a.len <= (i64)KEPT * PACK * blockDim.x && packable(a.out);
    if (packs && a.repeat == 1 && a.len == a.channels && whole(a.weight) && whole(a.bias)) {
        norm_packed_rows(a, shared);
    } else {
        norm_rows<float>(a, shared);
    }
}
KERNEL(norm_rows_f64, NormArgs) { __shared__ double shared[WARP]; norm_rows<double>(a, shared); }

// Batch norm by given statistics: mean and variance per channel.
template <class C> __device__ void norm_apply(const NormArgs& a) {
    FOR_EACH(i, a.n) {
        i64 c = channel_of(i, a.repeat, a.channels);
        C rstd = 1 / sqrt_of(((const C*)a.var)[c] + (C)a.eps), scale = rstd * parameter<C>(a.weight, c, 1);
        C y = (load<C>(a.x, i) - ((const C*)a.mean)[c]) * scale + parameter<C>(a.bias, c, 0);
        store_as(a.y, a.out, i, y);
    }
}

KERNEL(norm_apply_f32, NormArgs) { norm_apply<float>(a); }
KERNEL(norm_apply_f64, NormArgs) { norm_apply<double>(a); }

// -------------------------------------------------------------------------------------------------------------------
// Gradients

struct NormGradArgs {
    Operand grad;
    Operand x;
    Operand weight;
    const void* mean;
    const void* rstd;
    const void* sum_grad;    // batch norm: sums over each channel, from norm_sums
    const void* sum_normal;
    void* dx;
    void* parts;             // norm_sums: [2, splits, channels], of grad * normal and of grad
    i64 n;
    i64 len;
    i64 channels;
    i64 repeat;
    i64 groups;              // of a sample; 0 for batch norm
    i64 count;               // elements of a channel
    i64 per_split;
    int rms;
    int out;
    void* narrow;            // null, or where dx goes in 16 bits too
    int narrow_type;
};

// dx = rstd (w g - mean(w g) - normal mean(w g normal)), row blockIdx.x
template <class C> __device__ void norm_rows_grad(const NormGradArgs& a, C* shared) {
    i64 base = blockIdx.x * a.len;
    C mean = ((const C*)a.mean)[blockIdx.x], rstd = ((const C*)a.rstd)[blockIdx.x], shift = 0, slope = 0;
    for (i64 k = threadIdx.x; k < a.len; k += blockDim.x) {
        C g = load<C>(a.grad, base + k) * parameter<C>(a.weight, channel_of(base + k, a.repeat, a.channels), 1);
        shift += g;
        slope += g * ((load<C>(a.x, base + k) - mean) * rstd);
    }
    slope = block_reduce(Add{}, slope, shared) / (C)a.len;
    shift = a.rms ? (C)0 : block_reduce(Add{}, shift, shared) / (C)a.len;
    for (i64 k = threadIdx.x; k < a.len; k += blockDim.x) {
        C g = load<C>(a.grad, base + k) * parameter<C>(a.weight, channel_of(base + k, a.repeat, a.channels), 1);
        C normal = (load<C>(a.x, base + k) - mean) * rstd;
        C dx = (g - shift - normal * slope) * rstd;
        store_as(a.dx, a.out, base + k, dx);
        if (a.narrow) store_as(a.narrow, a.narrow_type, base + k, dx);
    }
}

KERNEL(norm_rows_grad_f32, NormGradArgs) { __shared__ float shared[WARP]; norm_rows_grad<float>(a, shared); }
KERNEL(norm_rows_grad_f64, NormGradArgs) { __shared__ double shared[WARP]; norm_rows_grad<double>(a, shared); }

// Part blockIdx.y of the sums over channel `team.number()`.
template <class C, class Team> __device__ void norm_sums(const NormGradArgs& a, Team team) {
    i64 c = team.number();
    if (c >= a.channels) return;
    i64 start = blockIdx.y * a.per_split, end = start + a.per_split < a.count ? start + a.per_split : a.count;
    C sum_normal = 0, sum_grad = 0;
    for (i64 e = start + team.rank(); e < end; e += team.size()) {
        i64 sample = divide(e, a.repeat), i = (sample * a.channels + c) * a.repeat + (e - sample * a.repeat);
        i64 row = a.groups == 0 ? c : sample * a.groups + divide(c * a.groups, a.channels);
        C g = load<C>(a.grad, i);
        sum_normal += g * ((load<C>(a.x, i) - ((const C*)a.mean)[row]) * ((const C*)a.rstd)[row]);
        sum_grad += g;
    }
    sum_normal = team.reduce(Add{}, sum_normal);
    sum_grad = team.reduce(Add{}, sum_grad);
    if (team.rank() == 0) {
        ((C*)a.parts)[blockIdx.y * a.channels + c] = sum_normal;
        ((C*)a.parts)[(gridDim.y + blockIdx.y) * a.channels + c] = sum_grad;
    }
}

#define NORM_SUMS(name, C)                                                                       \
    KERNEL(norm_sums_rows_##name, NormGradArgs) {                                                \
        __shared__ C shared[WARP];                                                               \
        norm_sums<C>(a, BlockTeam<C>{shared});                                                   \
    }                                                                                            \
    KERNEL(norm_sums_columns_##name, NormGradArgs) { norm_sums<C>(a, ThreadTeam<C>{nullptr}); }
NORM_SUMS(f32, float)
NORM_SUMS(f64, double)
#undef NORM_SUMS

// dx of batch norm, from the sums over each channel
template <class C> __device__ void norm_apply_grad(const NormGradArgs& a) {
    FOR_EACH(i, a.n) {
        i64 c = channel_of(i, a.repeat, a.channels);
        C mean = ((const C*)a.mean)[c], rstd = ((const C*)a.rstd)[c];
        C shift = ((const C*)a.sum_grad)[c] / (C)a.count, slope = ((const C*)a.sum_normal)[c] / (C)a.count;
        C d = load<C>(a.grad, i) - shift - (load<C>(a.x, i) - mean) * rstd * slope;
        C dx = d * (rstd * parameter<C>(a.weight, c, 1));
        store_as(a.dx, a.out, i, dx);
        if (a.narrow) store_as(a.narrow, a.narrow_type, i, dx);
    }
}

KERNEL(norm_apply_grad_f32, NormGradArgs) { norm_apply_grad<float>(a); }
KERNEL(norm_apply_grad_f64, NormGradArgs) { norm_apply_grad<double>(a); }
