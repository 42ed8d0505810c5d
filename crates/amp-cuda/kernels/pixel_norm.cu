// Batch normalisation of images whose channels lie together, [pixels, channels]: statistics, the result with residual and relu,
// and gradients. A thread keeps a pack of neighbouring channels and takes every so many pixels of them, so that it reads once
// what belongs to a channel, and neighbours read neighbours. Of [200704, 64] a block takes 32 pixels at a time, of [3136, 2048] one.
#include "lines.cuh"

// The pack of this thread, and which pixels it takes: number `row`, and every `rows`-th after that.
struct Pixels {
    i64 channels, channel;  // of a pixel, and the first of the pack
    int lanes, row, rows;   // packs that the block takes of a pixel, number of the thread's pixel, pixels taken at a time

    __device__ inline Pixels(i64 channels) : channels(channels) {
        i64 first = (i64)blockIdx.x * blockDim.x;
        lanes = (int)least(channels / PACK - first, blockDim.x);
        rows = blockDim.x / lanes;
        row = threadIdx.x / lanes;
        channel = (first + threadIdx.x % lanes) * PACK;
    }

    // Threads that are too few for another pixel have nothing to do.
    __device__ inline bool works() const { return row < rows; }
    __device__ inline Run<PACK> fetch(const Operand& x, i64 pixel) const { return fetch_run<PACK>(x.data, x.stored, at(pixel)); }
    __device__ inline i64 at(i64 pixel) const { return pixel * channels + channel; }
    // How many of `count` pixels the threads of a row take.
    __device__ inline int taken(int row, i64 count) const { return count > row ? (int)((count - row - 1) / rows) + 1 : 0; }
    // The channel of lane `i % lanes` at place `i / lanes` of its pack.
    __device__ inline i64 channel_of(int i) const { return ((i64)blockIdx.x * blockDim.x + i % lanes) * PACK + i / lanes; }

    // What belongs to the channels of the pack, before anything else and all at once: number by number it took 20 us of an H200.
    __device__ inline void fetch(const float* of, float v[PACK]) const { load_pack(of, F32, channel, v); }
    __device__ inline void fetch(const Operand& of, float missing, float v[PACK]) const {
        if (of.data) load_pack(of, channel / PACK, v);
        else for (int j = 0; j < PACK; ++j) v[j] = missing;
    }

    // The packs at the thread's next pixels from `pixel` on, and how many these are; behind them is the first once more.
    template <int N> __device__ inline int ahead(const Operand& x, i64 pixel, i64 end, Run<PACK> (&runs)[N]) const {
        if (!works() || pixel >= end) return 0;
        int n = (int)least((end - pixel + rows - 1) / rows, N);
#pragma unroll
        for (int u = 0; u < N; ++u) runs[u] = fetch(x, pixel + (u < n ? u * rows : 0));
        return n;
    }

    // f(pixel, v) with the packs of all tensors at the thread's pixels from `start` on; `packs` of each are under way at a time.
    template <int packs, int N, class F>
    __device__ inline void each(const Operand* const (&x)[N], i64 start, i64 end, i64 step, F f) const {
        if (!works()) return;
        for (i64 pixel = start + row; pixel < end; pixel += packs * step) {
            Run<PACK> runs[packs][N];
#pragma unroll
            for (int u = 0; u < packs; ++u) {
#pragma unroll
                for (int n = 0; n < N && pixel + u * step < end; ++n) runs[u][n] = fetch(*x[n], pixel + u * step);
            }
#pragma unroll
            for (int u = 0; u < packs; ++u) {
                if (pixel + u * step >= end) continue;
                float v[N][PACK];
                for (int n = 0; n < N; ++n) widen_run(*x[n], runs[u][n], v[n]);
                f(pixel + u * step, v);
            }
        }
    }

    // The same for all pixels, by the whole grid.
    template <int packs, int N, class F> __device__ inline void each(const Operand* const (&x)[N], i64 pixels, F f) const {
        each<packs>(x, (i64)blockIdx.y * rows, pixels, (i64)gridDim.y * rows, f);
    }
};

// -------------------------------------------------------------------------------------------------------------------
// Statistics

struct PixelMomentsArgs {
    Operand x;
    float* mean;     // [splits, channels]
    float* squares;  // [splits, channels], sums of squared deviations
    i64 pixels, channels, per_split;
};

// Mean and sum of squared deviations of the channels of a pack (Chan, Golub, LeVeque), exact where all elements are one number.
struct PackMoments {
    static const int AT_ONCE = 4;
    float count = 0, mean[PACK] = {}, squares[PACK] = {};

    // Joins the first `n` elements of each channel; those behind them are like the first.
    __device__ inline void add(const float (&v)[AT_ONCE][PACK], int n) {
        float both = count + (float)n, share = (float)n / both, weight = count * share, one = 1 / (float)n;
#pragma unroll
        for (int j = 0; j < PACK; ++j) {
            float sum = 0, square = 0;
            for (int u = 1; u < AT_ONCE; ++u) {
                float d = v[u][j] - v[0][j];
                sum += d;
                square += d * d;
            }
            float delta = v[0][j] + sum * one - mean[j];
            mean[j] += delta * share;
            squares[j] += square - sum * sum * one + delta * (delta * weight);
        }
        count = both;
    }
};

// Part blockIdx.y of the pixels.
KERNEL(pixel_moments_f32, PixelMomentsArgs) {
    __shared__ float mean[PACK][THREADS], squares[PACK][THREADS];
    Pixels p(a.channels);
    i64 start = blockIdx.y * a.per_split, end = least(start + a.per_split, a.pixels);
    PackMoments moments;
    Run<PACK> runs[PackMoments::AT_ONCE];
    i64 pixel = start + p.row;
    for (int n = p.ahead(a.x, pixel, end, runs); n > 0;) {
        float v[PackMoments::AT_ONCE][PACK];
        int here = n;
#pragma unroll
        for (int u = 0; u < PackMoments::AT_ONCE; ++u) widen_run(a.x, runs[u], v[u]);
        pixel += PackMoments::AT_ONCE * p.rows;
        n = p.ahead(a.x, pixel, end, runs);  // on their way while these are added up
        moments.add(v, here);
    }
#pragma unroll
    for (int j = 0; j < PACK; ++j) {
        mean[j][threadIdx.x] = moments.mean[j];
        squares[j][threadIdx.x] = moments.squares[j];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < p.lanes * PACK; i += blockDim.x) {
        const float *means = mean[i / p.lanes] + i % p.lanes, *sums = squares[i / p.lanes] + i % p.lanes;
        float shift = 0, sum = 0;
        for (int r = 1; r < p.rows; ++r) shift += (float)p.taken(r, end - start) * (means[r * p.lanes] - means[0]);
        float joined = means[0] + shift / (float)(end - start);
        for (int r = 0; r < p.rows; ++r) {
            float d = means[r * p.lanes] - joined;
            sum += sums[r * p.lanes] + d * (d * (float)p.taken(r, end - start));
        }
        a.mean[blockIdx.y * a.channels + p.channel_of(i)] = joined;
        a.squares[blockIdx.y * a.channels + p.channel_of(i)] = sum;
    }
}

// -------------------------------------------------------------------------------------------------------------------
// The result

struct PixelNormArgs {
    Operand x;
    Operand residual;   // like x; null data for none
    Operand weight;     // [channels]; null data for ones
    Operand bias;       // [channels]; null data for zeros
    const float* mean;  // [channels]
    const float* var;
    void* y;
    u8* dead;           // null, or where relu lets nothing pass: a bit for each element, eight in a byte, the first one lowest
    i64 pixels, channels;
    double eps;
    int relu;
    int out;
};

template <int N> __device__ inline void pixel_norm(const PixelNormArgs& a, const Operand* const (&x)[N]) {
    Pixels p(a.channels);
    float mean[PACK], scale[PACK], weight[PACK], bias[PACK];
    p.fetch(a.mean, mean);
    p.fetch(a.var, scale);
    p.fetch(a.weight, 1, weight);
    p.fetch(a.bias, 0, bias);
    for (int j = 0; j < PACK; ++j) scale[j] = 1 / sqrt_of(scale[j] + (float)a.eps) * weight[j];
    p.each<4 / N>(x, a.pixels, [&](i64 pixel, float (&v)[N][PACK]) {
        u32 dead = 0;
        for (int j = 0; j < PACK; ++j) {
            float y = (v[0][j] - mean[j]) * scale[j] + bias[j];
            if (N == 2) y += v[N - 1][j];
            dead |= (u32)(y <= 0) << j;
            v[0][j] = a.relu && y <= 0 ? 0 : y;
        }
        store_pack(a.y, a.out, p.at(pixel), v[0]);
        if (a.dead) a.dead[p.at(pixel) / PACK] = (u8)dead;
    });
}

KERNEL(pixel_norm_f32, PixelNormArgs) {
    if (a.residual.data) pixel_norm(a, {&a.x, &a.residual});
    else pixel_norm(a, {&a.x});
}

// -------------------------------------------------------------------------------------------------------------------
// Gradients

struct PixelNormGradArgs {
    Operand grad;
    Operand x;
    Operand weight;           // [channels]; null data for ones
    const float* mean;        // [channels]
    const float* rstd;
    float* sum_normal;        // sums over each channel of grad * normal, and of grad
    float* sum_grad;
    float* parts;             // [2, splits, channels] of these
    void* dx;
    void* narrow;             // null, or where dx goes in 16 bits too
    const u8* dead;           // null, or a bit for each element whose gradient counts as 0
    i64 pixels, channels, per_split, splits;
    int out;
    int narrow_type;
};

// Part blockIdx.y of the sums.
KERNEL(pixel_norm_sums_f32, PixelNormGradArgs) {
    __shared__ float sums[2 * PACK][THREADS];
    Pixels p(a.channels);
    i64 start = blockIdx.y * a.per_split, end = least(start + a.per_split, a.pixels);
    float mean[PACK], normal[PACK] = {}, grad[PACK] = {};
    p.fetch(a.mean, mean);
    p.each<4>({&a.grad, &a.x}, start, end, p.rows, [&](i64 pixel, float (&v)[2][PACK]) {
        mask<float, PACK>(a.dead, p.at(pixel), v[0]);
        for (int j = 0; j < PACK; ++j) {
            normal[j] += v[0][j] * (v[1][j] - mean[j]);
            grad[j] += v[0][j];
        }
    });
#pragma unroll
    for (int j = 0; j < PACK; ++j) {
        sums[j][threadIdx.x] = normal[j];
        sums[PACK + j][threadIdx.x] = grad[j];
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 2 * p.lanes * PACK; i += blockDim.x) {
        int which = i / (p.lanes * PACK), own = i - which * p.lanes * PACK;
        const float* of = sums[which * PACK + own / p.lanes] + own % p.lanes;
        float sum = 0;
        for (int r = 0; r < p.rows; ++r) sum += of[r * p.lanes];
        a.parts[(which * a.splits + blockIdx.y) * a.channels + p.channel_of(own)] = sum;
    }
}

// Threads that share the parts of a channel; the same in ops/pixel_norm.rs.
#define JOINING 32

// Both sums of each channel from their parts.
KERNEL(pixel_norm_join_f32, PixelNormGradArgs) {
    __shared__ float shared[THREADS];
    ColumnTeam<float> team = {shared, JOINING};
    i64 output = least(team.number(), 2 * a.channels - 1), which = output >= a.channels, c = output - which * a.channels;
    const float* parts = a.parts + which * a.splits * a.channels + c;
    float sum = 0;
    each_part(team, parts, a.splits, a.channels, [&](i64, float part) { sum += part; });
    sum = team.reduce(Add{}, sum);
    if (team.rank() != 0 || team.number() >= 2 * a.channels) return;
    if (which) a.sum_grad[c] = sum;
    else a.sum_normal[c] = sum * a.rstd[c];
}

// dx = (grad - mean(grad) - normal mean(grad normal)) rstd weight
KERNEL(pixel_norm_grad_f32, PixelNormGradArgs) {
    Pixels p(a.channels);
    float mean[PACK], scale[PACK], shift[PACK], slope[PACK], weight[PACK], one = 1 / (float)a.pixels;
    p.fetch(a.mean, mean);
    p.fetch(a.rstd, scale);
    p.fetch(a.sum_grad, shift);
    p.fetch(a.sum_normal, slope);
    p.fetch(a.weight, 1, weight);
    for (int j = 0; j < PACK; ++j) {
        shift[j] *= one;
        slope[j] *= one * scale[j];
        scale[j] *= weight[j];
    }
    p.each<2>({&a.grad, &a.x}, a.pixels, [&](i64 pixel, float (&v)[2][PACK]) {
        mask<float, PACK>(a.dead, p.at(pixel), v[0]);
        for (int j = 0; j < PACK; ++j) v[0][j] = (v[0][j] - shift[j] - (v[1][j] - mean[j]) * slope[j]) * scale[j];
        store_pack(a.dx, a.out, p.at(pixel), v[0]);
        if (a.narrow) store_pack(a.narrow, a.narrow_type, p.at(pixel), v[0]);
    });
}
