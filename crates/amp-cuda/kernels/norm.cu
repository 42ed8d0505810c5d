// Layer, RMS, group, instance and batch normalisation, and their gradients.
//
// x is seen as [samples, channels, repeat]; weight and bias have one element per channel. Rows that share statistics are
// groups of neighbouring channels of one sample (layer and RMS norm: one group, repeat 1), or one channel of all samples
// (batch norm). Statistics are F32, F64 for F64 input.
#include "lines.cuh"

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

// f(channel, from, to) for the parts of elements i to i + W that are of one channel each.
template <int W, class F> __device__ inline void each_channel(i64 i, i64 repeat, i64 channels, F f) {
    i64 plane = repeat == 1 ? i : divide(i, repeat), channel = plane - divide(plane, channels) * channels;
    int to = (int)least((plane + 1) * repeat - i, W), most = (int)least(repeat, W);
#pragma unroll 1
    for (int from = 0; from < W; from = to, to = from + most < W ? from + most : W) {
        f(channel, from, to);
        channel = channel + 1 < channels ? channel + 1 : 0;
    }
}

// weight or bias of a channel, of a tensor of one axis
template <class C> __device__ inline C parameter(const Operand& p, i64 channel, C missing) {
    return p.data ? load_at<C>(p, channel * p.strides[0]) : missing;
}

// Rows whose elements have a channel each, the same in every row.
template <class Args> __device__ inline bool is_layer(const Args& a) { return a.repeat == 1 && a.len == a.channels; }

// v = f(v, weight or bias) for elements k to k + W of a row, as far as it has them
template <class C, int W, class Args, class F>
__device__ inline void apply(const Args& a, const Operand& p, const Line<C, W>& row, i64 k, C v[W], F f) {
    if (!p.data) return;
    if (is_layer(a)) {
        Ahead<C, W> ahead;
        C of[W];
        ahead.fetch_whole(p, k);
        ahead.widen(p, of);
        for (int j = 0; j < W; ++j) v[j] = f(v[j], of[j]);
        return;
    }
    each_channel<W>(row.at(k), a.repeat, a.channels, [&](i64 channel, int from, int to) {
        C of = parameter(p, channel, (C)0);
        for (int j = 0; j < W; ++j) v[j] = j >= from && j < to && row.has(k + j) ? f(v[j], of) : v[j];
    });
}

__device__ inline bool whole(const Operand& p) { return !p.data || in_packs(p); }

// Whether rows are walked in packs, of which each has a pack of parameters, or few channels.
template <class Args> __device__ inline bool in_packs(const Args& a, const Operand& weight, const Operand& bias) {
    bool parameters = is_layer(a) && a.len % PACK == 0 && whole(weight) && whole(bias);
    return in_packs(a.x) && in_packs(a.out) && (a.repeat >= PACK || parameters);
}

// Row blockIdx.x: two passes for the statistics, one for the result.
template <class C, int W, class Row> __device__ void norm_rows(const NormArgs& a, Row row) {
    C mean = 0, squares = 0;
    if (!a.rms) {
        row.each(0, [&](i64, const C (&v)[1][W]) {
            for (int j = 0; j < W; ++j) mean += v[0][j];
        });
        mean = row.team.reduce(Add{}, mean) / (C)a.len;
    }
    row.each(mean, [&](i64, const C (&v)[1][W]) {
        for (int j = 0; j < W; ++j) squares += (v[0][j] - mean) * (v[0][j] - mean);
    });
    squares = row.team.reduce(Add{}, squares);
    if (!a.rms && may_be_rounding(mean, squares, a.len)) {
        C head = load<C>(a.x, row.line.base), others = 0;
        row.each(head, [&](i64, const C (&v)[1][W]) {
            for (int j = 0; j < W; ++j) others += v[0][j] != head;
        });
        if (row.team.reduce(Add{}, others) == 0) {
            mean = head;
            squares = 0;
        }
    }
    C var = squares / (C)a.len, rstd = 1 / sqrt_of(var + (C)a.eps);
    row.each(mean, [&](i64 k, C (&v)[1][W]) {
        for (int j = 0; j < W; ++j) v[0][j] = (v[0][j] - mean) * rstd;
        apply(a, a.weight, row.line, k, v[0], [](C normal, C weight) { return normal * weight; });
        apply(a, a.bias, row.line, k, v[0], [](C normal, C bias) { return normal + bias; });
        row.store(a.y, a.out, k, v[0]);
    });
    if (threadIdx.x == 0) {
        ((C*)a.mean)[blockIdx.x] = mean;
        ((C*)a.var)[blockIdx.x] = var;
        ((C*)a.rstd)[blockIdx.x] = rstd;
    }
}

// The row of this block.
template <class C, int W, class Args> __device__ inline Line<C, W> row_of_block(const Args& a) {
    return {blockIdx.x * a.len, a.len, 1};
}

// Rows of 16 bits are bound by instructions before bytes: of a thread with two packs, about 40% of them are the same however
// many it has (sums over the block, their quotients, the root). So it has four of a row that is kept, and the block half as
// many warps: more rows are under way, and a barrier waits for fewer. Both sums by one reduction would save less than means
// that are merged with squares cost, and sums of distances from the first element cancel where that is far from the others.
STREAMING_KERNEL(norm_rows_f32, NormArgs) {
    __shared__ float shared[WARP];
    BlockTeam<float> team = {shared};
    Line<float, PACK> row = row_of_block<float, PACK>(a);
    typedef KeptHalves<4> Halves;
    typedef Kept<2, 1> Short;
    if (!in_packs(a, a.weight, a.bias)) {
        norm_rows<float, 1>(a, Reread<float, 1, 1, 1>{row_of_block<float, 1>(a), team, {&a.x}});
    } else if (Halves::fits(row, team, a.x)) {
        norm_rows<float, PACK>(a, Halves(row, team, a.x));
    } else if (Short::fits(row, team)) {
        norm_rows<float, PACK>(a, Short(row, team, {&a.x}));
    } else {
        norm_rows<float, PACK>(a, Reread<float, PACK, 2, 1>{row, team, {&a.x}});
    }
}
KERNEL(norm_rows_f64, NormArgs) {
    __shared__ double shared[WARP];
    norm_rows<double, 1>(a, Reread<double, 1, 1, 1>{row_of_block<double, 1>(a), {shared}, {&a.x}});
}

// Batch norm by given statistics: mean and variance per channel.
template <class C, int W> __device__ void norm_apply(const NormArgs& a) {
    Line<C, W> all = {0, a.n, 1};
    all.each(GridTeam{}, {&a.x}, 0, [&](i64 i, C (&v)[1][W]) {
        each_channel<W>(i, a.repeat, a.channels, [&](i64 c, int from, int to) {
            C rstd = 1 / sqrt_of(((const C*)a.var)[c] + (C)a.eps), scale = rstd * parameter<C>(a.weight, c, 1);
            C mean = ((const C*)a.mean)[c], bias = parameter<C>(a.bias, c, 0);
            for (int j = 0; j < W; ++j) v[0][j] = j >= from && j < to ? (v[0][j] - mean) * scale + bias : v[0][j];
        });
        all.store(a.y, a.out, i, v[0]);
    });
}

STREAMING_KERNEL(norm_apply_f32, NormArgs) {
    if (in_packs(a.x) && in_packs(a.out) && a.repeat >= PACK) norm_apply<float, PACK>(a);
    else norm_apply<float, 1>(a);
}
KERNEL(norm_apply_f64, NormArgs) { norm_apply<double, 1>(a); }

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
    Operand onto;            // rows and groups: null data, or what is added to dx
    const u8* dead;          // batch norm: null, or a bit for each element whose gradient counts as 0
};

// Elements k to k + W of dx, in 16 bits too if asked for.
template <class C, int W> __device__ inline void store_dx(const NormGradArgs& a, const Line<C, W>& line, i64 k, const C v[W]) {
    line.store(a.dx, a.out, k, v);
    if (a.narrow) line.store(a.narrow, a.narrow_type, k, v);
}

// dx = rstd (w g - mean(w g) - normal mean(w g normal)), row blockIdx.x
template <class C, int W, class Row> __device__ void norm_rows_grad(const NormGradArgs& a, Row row) {
    C mean = ((const C*)a.mean)[blockIdx.x], rstd = ((const C*)a.rstd)[blockIdx.x], shift = 0, slope = 0;
    row.each(0, [&](i64 k, C (&v)[2][W]) {
        apply(a, a.weight, row.line, k, v[0], [](C g, C weight) { return g * weight; });
        for (int j = 0; j < W; ++j) {
            shift += v[0][j];
            slope += v[0][j] * ((v[1][j] - mean) * rstd);
        }
    });
    slope = row.team.reduce(Add{}, slope) / (C)a.len;
    shift = a.rms ? (C)0 : row.team.reduce(Add{}, shift) / (C)a.len;
    row.each(0, [&](i64 k, C (&v)[2][W]) {
        if (!Row::KEEPS) apply(a, a.weight, row.line, k, v[0], [](C g, C weight) { return g * weight; });
        for (int j = 0; j < W; ++j) v[0][j] = (v[0][j] - shift - (v[1][j] - mean) * rstd * slope) * rstd;
        if (a.onto.data) {
            Ahead<C, W> earlier;
            earlier.fetch(a.onto, row.line.at(k));
            earlier.widen(a.onto, v[1]);
            for (int j = 0; j < W; ++j) v[0][j] += v[1][j];
        }
        store_dx(a, row.line, k, v[0]);
    });
}

KERNEL(norm_rows_grad_f32, NormGradArgs) {
    __shared__ float shared[WARP];
    BlockTeam<float> team = {shared};
    Line<float, PACK> row = row_of_block<float, PACK>(a);
    typedef Kept<1, 2> Short;
    if (!in_packs(a.grad) || !whole(a.onto) || !in_packs(a, a.weight, a.weight)) {
        norm_rows_grad<float, 1>(a, Reread<float, 1, 1, 2>{row_of_block<float, 1>(a), team, {&a.grad, &a.x}});
    } else if (Short::fits(row, team)) {
        norm_rows_grad<float, PACK>(a, Short(row, team, {&a.grad, &a.x}));
    } else {
        norm_rows_grad<float, PACK>(a, Reread<float, PACK, 1, 2>{row, team, {&a.grad, &a.x}});
    }
}
KERNEL(norm_rows_grad_f64, NormGradArgs) {
    __shared__ double shared[WARP];
    norm_rows_grad<double, 1>(a, Reread<double, 1, 1, 2>{row_of_block<double, 1>(a), {shared}, {&a.grad, &a.x}});
}

// Sums over elements of a channel, and where a block's part of them goes.
template <class C> struct ChannelSums {
    C normal = 0, grad = 0;

    __device__ inline void add(C g, C x, C mean, C rstd) {
        normal += g * ((x - mean) * rstd);
        grad += g;
    }
    __device__ inline void store(const NormGradArgs& a, i64 channel) const {
        ((C*)a.parts)[blockIdx.y * a.channels + channel] = normal;
        ((C*)a.parts)[(gridDim.y + blockIdx.y) * a.channels + channel] = grad;
    }
};

// Row of the statistics of a channel of a sample.
__device__ inline i64 row_of(const NormGradArgs& a, i64 sample, i64 channel) {
    return a.groups == 0 ? channel : sample * a.groups + divide(channel * a.groups, a.channels);
}

// Part blockIdx.y of the sums over channel blockIdx.x, whose elements are neighbours within a sample.
template <class C, int W> __device__ void norm_sums(const NormGradArgs& a, BlockTeam<C> team) {
    i64 c = blockIdx.x, start = blockIdx.y * a.per_split, end = least(start + a.per_split, a.count);
    ChannelSums<C> sums;
    each_run(start, end, a.repeat, W, [&](Lanes lanes, i64 sample, i64 from, i64 to) {
        Line<C, W> line = {(sample * a.channels + c) * a.repeat + from, to - from, 1};
        i64 row = row_of(a, sample, c);
        C mean = ((const C*)a.mean)[row], rstd = ((const C*)a.rstd)[row];
        line.each(lanes, {&a.grad, &a.x}, 0, [&](i64 k, C (&v)[2][W]) {
            mask<C, W>(a.dead, line.at(k), v[0]);
            for (int j = 0; j < W; ++j) sums.add(v[0][j], v[1][j], mean, rstd);
        });
    });
    sums.normal = team.reduce(Add{}, sums.normal);
    sums.grad = team.reduce(Add{}, sums.grad);
    if (threadIdx.x == 0) sums.store(a, c);
}

STREAMING_KERNEL(norm_sums_rows_f32, NormGradArgs) {
    __shared__ float shared[WARP];
    if (in_packs(a.grad) && in_packs(a.x)) norm_sums<float, PACK>(a, {shared});
    else norm_sums<float, 1>(a, {shared});
}
KERNEL(norm_sums_rows_f64, NormGradArgs) { __shared__ double shared[WARP]; norm_sums<double, 1>(a, {shared}); }

// The same, a thread per channel, where channels are neighbours.
template <class C> __device__ void norm_sums_columns(const NormGradArgs& a) {
    i64 c = ThreadTeam<C>{nullptr}.number();
    if (c >= a.channels) return;
    i64 start = blockIdx.y * a.per_split, end = least(start + a.per_split, a.count);
    ChannelSums<C> sums;
    for (i64 sample = start; sample < end; ++sample) {
        i64 i = sample * a.channels + c, row = row_of(a, sample, c);
        C g[1] = {load<C>(a.grad, i)};
        mask<C, 1>(a.dead, i, g);
        sums.add(g[0], load<C>(a.x, i), ((const C*)a.mean)[row], ((const C*)a.rstd)[row]);
    }
    sums.store(a, c);
}

KERNEL(norm_sums_columns_f32, NormGradArgs) { norm_sums_columns<float>(a); }
KERNEL(norm_sums_columns_f64, NormGradArgs) { norm_sums_columns<double>(a); }

// The same for samples that are rows and channels that are whole packs: a warp reads a pack per lane of every eighth row.
KERNEL(norm_sums_packs_f32, NormGradArgs) {
    __shared__ float shared[2][THREADS / WARP][WARP * PACK];
    i64 pack = (i64)blockIdx.x * WARP + threadIdx.x % WARP, warp = threadIdx.x / WARP;
    i64 start = blockIdx.y * a.per_split, end = least(start + a.per_split, a.count);
    ChannelSums<float> sums[PACK];
    for (i64 sample = start + warp; sample < end && pack * PACK < a.channels; sample += THREADS / WARP) {
        Ahead<float, PACK> grad, x;
        grad.fetch(a.grad, sample * a.channels + pack * PACK);
        x.fetch(a.x, sample * a.channels + pack * PACK);
        float mean = ((const float*)a.mean)[sample], rstd = ((const float*)a.rstd)[sample], v[2][PACK];
        grad.widen(a.grad, v[0]);
        x.widen(a.x, v[1]);
        for (int j = 0; j < PACK; ++j) sums[j].add(v[0][j], v[1][j], mean, rstd);
    }
    for (int j = 0; j < PACK; ++j) {
        shared[0][warp][threadIdx.x % WARP * PACK + j] = sums[j].normal;
        shared[1][warp][threadIdx.x % WARP * PACK + j] = sums[j].grad;
    }
    __syncthreads();
    i64 c = (i64)blockIdx.x * WARP * PACK + threadIdx.x;
    if (c >= a.channels) return;
    ChannelSums<float> all;
    for (int w = 0; w < THREADS / WARP; ++w) {
        all.normal += shared[0][w][threadIdx.x];
        all.grad += shared[1][w][threadIdx.x];
    }
    all.store(a, c);
}

// dx of batch norm, from the sums over each channel
template <class C, int W> __device__ void norm_apply_grad(const NormGradArgs& a) {
    Line<C, W> all = {0, a.n, 1};
    all.each(GridTeam{}, {&a.grad, &a.x}, 0, [&](i64 i, C (&v)[2][W]) {
        mask<C, W>(a.dead, i, v[0]);
        each_channel<W>(i, a.repeat, a.channels, [&](i64 c, int from, int to) {
            C mean = ((const C*)a.mean)[c], rstd = ((const C*)a.rstd)[c], scale = rstd * parameter<C>(a.weight, c, 1);
            C shift = ((const C*)a.sum_grad)[c] / (C)a.count, slope = ((const C*)a.sum_normal)[c] / (C)a.count;
            for (int j = 0; j < W; ++j) {
                C d = (v[0][j] - shift - (v[1][j] - mean) * rstd * slope) * scale;
                v[0][j] = j >= from && j < to ? d : v[0][j];
            }
        });
        store_dx(a, all, i, v[0]);
    });
}

STREAMING_KERNEL(norm_apply_grad_f32, NormGradArgs) {
    bool packs = in_packs(a.grad) && in_packs(a.x) && in_packs(a.out) && a.repeat >= PACK;
    if (packs) norm_apply_grad<float, PACK>(a);
    else norm_apply_grad<float, 1>(a);
}
KERNEL(norm_apply_grad_f64, NormGradArgs) { norm_apply_grad<double, 1>(a); }
