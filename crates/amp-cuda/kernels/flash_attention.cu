// Scaled dot-product attention of 16-bit vectors on tensor cores (sm_80 and newer), and its gradients: what attention.cu
// does for all others.
//
// A block of four warps owns 64 queries (or keys), 16 per warp, and walks over tiles of keys (or queries) in shared memory.
// Scores, statistics and sums are float and stay in registers: scores come out of one product as the next one wants its
// left factor. That factor, weights or slopes of scores, is rounded to the operands' type, as in PyTorch's flash attention.
// Vectors have up to W elements. Gradients of queries and of keys are kernels of their own, so that sums have an order.
#include "common.cuh"
#include "mma.cuh"
#include "attention.cuh"

#define FLASH_THREADS 128
#define ROWS 64
#define LOG2_E 1.4426950408889634
#define LN_2 0.6931471805599453f

// Vectors of all heads, elements side by side; distances in elements. `packed` where 16-byte accesses may read them.
struct Heads {
    void* data;
    i64 batch, head, row;
    i64 packed;
};

struct FlashArgs {
    Heads q, k, v, y, grad;       // [batch, heads, rows, width]
    Heads out, out_k, out_v;      // result or gradient of q, gradients of k and v
    const u8* mask;               // [batch, heads, queries, keys], true where a query may attend; null for none
    i64 mask_strides[4];
    float* lse;                   // [batch, heads, queries] log-sum-exp of the scores
    float* delta;                 // as lse: sums of y * grad, made by the gradient of q and read by that of k
    i64 batch, heads, queries, keys, width, value_width;
    double scale;
    int causal;
    int narrow;                   // whether out, out_k and out_v are of the operands' type, else float
};

// `N` vectors in shared memory; rows are apart such that the eight rows of a matrix lie in different banks.
template <int N, int W> struct alignas(16) Tile {
    u16 value[N][W + 8];
};

// Which head of which sample; `group` counts both.
struct Place {
    i64 sample, head, group;
    __device__ inline Place(const FlashArgs& a, i64 group) : sample(group / a.heads), head(group % a.heads), group(group) {}
    __device__ inline i64 at(const Heads& x, i64 row) const { return sample * x.batch + head * x.head + row * x.row; }
};

// Starts to load rows row0.. of a head; what lies outside is 0.
template <int N, int W>
__device__ inline void load_tile(Tile<N, W>& tile, const Heads& x, const Place& place, i64 row0, i64 rows, i64 width) {
#pragma unroll 2
    for (int t = threadIdx.x; t < N * W / PACK; t += FLASH_THREADS) {
        int r = t / (W / PACK), d = t % (W / PACK) * PACK;
        const u16* from = (const u16*)x.data + place.at(x, row0 + r) + d;
        u16* to = &tile.value[r][d];
        bool inside = row0 + r < rows && d < width;
        if (inside && x.packed) {
            copy_later(to, from);
        } else {
            for (int j = 0; j < PACK; ++j) to[j] = inside && d + j < width ? from[j] : 0;
        }
    }
}

// Rows row0.. and columns column0.. as a left factor.
template <int N, int W> __device__ inline void load_left(u32 to[4], const Tile<N, W>& tile, int row0, int column0) {
    int lane = threadIdx.x % WARP;
    load_matrices<false>(to, &tile.value[row0 + lane % 16][column0 + lane / 16 * 8]);
}

// Two right factors: columns row0.. and row0 + 8.. of the transposed tile, terms column0..
template <int N, int W> __device__ inline void load_turned(u32 to[4], const Tile<N, W>& tile, int row0, int column0) {
    int lane = threadIdx.x % WARP;
    load_matrices<false>(to, &tile.value[row0 + lane / 16 * 8 + lane % 8][column0 + lane / 8 % 2 * 8]);
}

// Two right factors: columns column0.. and column0 + 8.. of the tile, terms row0..
template <int N, int W> __device__ inline void load_right(u32 to[4], const Tile<N, W>& tile, int row0, int column0) {
    int lane = threadIdx.x % WARP;
    load_matrices<true>(to, &tile.value[row0 + lane % 16][column0 + lane / 16 * 8]);
}

// c [16, N] = a [16, W] * transposed tile
template <int T, int N, int W>
__device__ inline void multiply_turned(float c[N / 8][4], const u32 a[W / 16][4], const Tile<N, W>& tile) {
#pragma unroll
    for (int n = 0; n < N / 8; ++n) c[n][0] = c[n][1] = c[n][2] = c[n][3] = 0;
#pragma unroll
    for (int k = 0; k < W / 16; ++k) {
#pragma unroll
        for (int n = 0; n < N / 16; ++n) {
            u32 b[4];
            load_turned(b, tile, n * 16, k * 16);
            multiply<T>(c[2 * n], a[k], b);
            multiply<T>(c[2 * n + 1], a[k], b + 2);
        }
    }
}

// sums [16, W] += p [16, N] * tile, p rounded
template <int T, int N, int W>
__device__ inline void add_product(float sums[W / 8][4], const float p[N / 8][4], const Tile<N, W>& tile) {
#pragma unroll
    for (int k = 0; k < N / 16; ++k) {
        const float *left = p[2 * k], *right = p[2 * k + 1];
        u32 a[4] = {pack<T>(left[0], left[1]), pack<T>(left[2], left[3]), pack<T>(right[0], right[1]), pack<T>(right[2], right[3])};
#pragma unroll
        for (int n = 0; n < W / 16; ++n) {
            u32 b[4];
            load_right(b, tile, k * 16, n * 16);
            multiply<T>(sums[2 * n], a, b);
            multiply<T>(sums[2 * n + 1], a, b + 2);
        }
    }
}

// Rows row0.. of a head, `factor` times the warp's sums.
template <int T, int W>
__device__ inline void store_rows(const Heads& x, const Place& place, i64 row0, i64 rows, i64 width, int narrow,
                                  const float sums[W / 8][4], const float factor[2]) {
    int lane = threadIdx.x % WARP;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        i64 row = row0 + lane / 4 + half * 8;
        if (row >= rows) continue;
        i64 start = place.at(x, row);
#pragma unroll
        for (int n = 0; n < W / 8; ++n) {
            i64 d = n * 8 + lane % 4 * 2;
            float low = sums[n][2 * half] * factor[half], high = sums[n][2 * half + 1] * factor[half];
            u32 both = pack<T>(low, high);
            if (narrow && d + 1 < width && start % 2 == 0) {
                ((u32*)x.data)[(start + d) / 2] = both;
                continue;
            }
            for (int i = 0; i < 2; ++i) {
                if (d + i >= width) continue;
                if (narrow) {
                    ((u16*)x.data)[start + d + i] = (u16)(both >> 16 * i);
                } else {
                    ((float*)x.data)[start + d + i] = i ? high : low;
                }
            }
        }
    }
}

__device__ inline bool attends(const FlashArgs& a, const Place& place, i64 query, i64 key) {
    if (!within(a, query, key)) return false;
    const i64* s = a.mask_strides;
    return !a.mask || a.mask[place.sample * s[0] + place.head * s[1] + query * s[2] + key * s[3]];
}

// Whether every query of query0.. may attend to every key of key0.., so that no pair has to be asked.
__device__ inline bool all_attend(const FlashArgs& a, i64 query0, int queries, i64 key0, int keys) {
    return !a.mask && query0 + queries <= a.queries && key0 + keys <= a.keys && (!a.causal || key0 + keys - 1 <= query0);
}

// Over the four lanes that share a row.
template <class Op> __device__ inline float row_join(Op op, float v) {
    v = op.join(v, __shfl_xor_sync(0xffffffff, v, 1));
    return op.join(v, __shfl_xor_sync(0xffffffff, v, 2));
}

// The last tiles first: with a causal mask they have the most to do.
__device__ inline i64 query_tile(const FlashArgs& a) {
    i64 tiles = (a.queries + ROWS - 1) / ROWS;
    return (tiles - 1 - blockIdx.x / (a.batch * a.heads)) * ROWS;
}

template <int T, int W> struct Flash {
    Tile<ROWS, W> k, v;

    // Of tile q, which is the memory of k.
    __device__ inline void run(const FlashArgs& a) {
        const int lane = threadIdx.x % WARP, row0 = threadIdx.x / WARP * 16;
        const Place place(a, blockIdx.x % (a.batch * a.heads));
        const i64 query0 = query_tile(a), query = query0 + row0 + lane / 4;
        const i64 end = keys_of(a, query0 + ROWS);
        const float scale = (float)(a.scale * LOG2_E);
        u32 q[W / 16][4];
        load_tile(k, a.q, place, query0, a.queries, a.width);
        finish_copies();
        __syncthreads();
#pragma unroll
        for (int d = 0; d < W / 16; ++d) load_left(q[d], k, row0, d * 16);
        __syncthreads();
        load_tile(k, a.k, place, 0, a.keys, a.width);
        float y[W / 8][4] = {}, most[2] = {-INFINITY, -INFINITY}, total[2] = {};
#pragma unroll 1
        for (i64 key0 = 0; key0 < end; key0 += ROWS) {
            finish_copies();
            __syncthreads();
            load_tile(v, a.v, place, key0, a.keys, a.value_width);
            float s[ROWS / 8][4];
            multiply_turned<T>(s, q, k);
            const bool all = all_attend(a, query0 + row0, 16, key0, ROWS);
            float largest[2] = {most[0], most[1]};
#pragma unroll
            for (int n = 0; n < ROWS / 8; ++n) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    i64 key = key0 + n * 8 + lane % 4 * 2 + i % 2;
                    s[n][i] = all || attends(a, place, query + i / 2 * 8, key) ? s[n][i] * scale : -INFINITY;
                    largest[i / 2] = Larger{}.join(largest[i / 2], s[n][i]);
                }
            }
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                largest[half] = row_join(Larger{}, largest[half]);
                float shift = largest[half] == -INFINITY ? 0 : largest[half], kept = exp2_fast(most[half] - shift);
                most[half] = largest[half];
                total[half] *= kept;
#pragma unroll
                for (int n = 0; n < ROWS / 8; ++n) {
#pragma unroll
                    for (int i = 2 * half; i < 2 * half + 2; ++i) total[half] += s[n][i] = exp2_fast(s[n][i] - shift);
                }
#pragma unroll
                for (int n = 0; n < W / 8; ++n) {
                    y[n][2 * half] *= kept;
                    y[n][2 * half + 1] *= kept;
                }
            }
            finish_copies();
            __syncthreads();
            if (key0 + ROWS < end) load_tile(k, a.k, place, key0 + ROWS, a.keys, a.width);
            add_product<T>(y, s, v);
        }
        finish_copies();
        float inverse[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float sum = row_join(Add{}, total[half]);
            inverse[half] = sum == 0 ? 0 : 1 / sum;
            float shift = most[half] == -INFINITY ? 0 : most[half];
            i64 row = query + half * 8;
            if (lane % 4 == 0 && row < a.queries) a.lse[place.group * a.queries + row] = log_of(sum) + shift * LN_2;
        }
        store_rows<T, W>(a.out, place, query0 + row0, a.queries, a.value_width, a.narrow, y, inverse);
    }
};

// Weight and slope of a pair, in place of its score and of the gradient of its weight.
__device__ inline void pair_gradient(float& s, float& dp, float scale, float lse, float delta) {
    s = exp2_fast(s * scale - lse);
    dp = s * (dp - delta);
}

template <int T, int W> struct FlashGradientOfQueries {
    static const int KEYS = 32;
    struct Pair {
        Tile<KEYS, W> k, v;
    };
    union {
        Tile<ROWS, W> rows;
        Pair of;
    };

    // The warp's rows of a tile of x, as left factors.
    __device__ inline void load(u32 to[W / 16][4], const FlashArgs& a, const Heads& x, const Place& place, i64 query0, i64 width) {
        __syncthreads();
        load_tile(rows, x, place, query0, a.queries, width);
        finish_copies();
        __syncthreads();
#pragma unroll
        for (int d = 0; d < W / 16; ++d) load_left(to[d], rows, threadIdx.x / WARP * 16, d * 16);
    }

    __device__ inline void run(const FlashArgs& a) {
        const int lane = threadIdx.x % WARP, row0 = threadIdx.x / WARP * 16;
        const Place place(a, blockIdx.x % (a.batch * a.heads));
        const i64 query0 = query_tile(a), query = query0 + row0 + lane / 4;
        const i64 end = keys_of(a, query0 + ROWS);
        const float scale = (float)(a.scale * LOG2_E);
        u32 q[W / 16][4], g[W / 16][4];
        float delta[2] = {}, lse[2];
        load(g, a, a.grad, place, query0, a.value_width);
        load(q, a, a.y, place, query0, a.value_width);
#pragma unroll
        for (int d = 0; d < W / 16; ++d) {
#pragma unroll
            for (int i = 0; i < 8; ++i) delta[i / 2 % 2] += unpack<T>(q[d][i / 2], i % 2) * unpack<T>(g[d][i / 2], i % 2);
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            i64 row = query + half * 8, at = place.group * a.queries + row;
            delta[half] = row_join(Add{}, delta[half]);
            lse[half] = row < a.queries ? a.lse[at] * (float)LOG2_E : 0;
            if (lane % 4 == 0 && row < a.queries) a.delta[at] = delta[half];
        }
        load(q, a, a.q, place, query0, a.width);
        float dq[W / 8][4] = {};
#pragma unroll 1
        for (i64 key0 = 0; key0 < end; key0 += KEYS) {
            __syncthreads();
            load_tile(of.k, a.k, place, key0, a.keys, a.width);
            load_tile(of.v, a.v, place, key0, a.keys, a.value_width);
            finish_copies();
            __syncthreads();
            float s[KEYS / 8][4], dp[KEYS / 8][4];
            multiply_turned<T>(s, q, of.k);
            multiply_turned<T>(dp, g, of.v);
            const bool all = all_attend(a, query0 + row0, 16, key0, KEYS);
#pragma unroll
            for (int n = 0; n < KEYS / 8; ++n) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    i64 key = key0 + n * 8 + lane % 4 * 2 + i % 2;
                    pair_gradient(s[n][i], dp[n][i], scale, lse[i / 2], delta[i / 2]);
                    if (!all && !attends(a, place, query + i / 2 * 8, key)) dp[n][i] = 0;
                }
            }
            add_product<T>(dq, dp, of.k);
        }
        const float factor[2] = {(float)a.scale, (float)a.scale};
        store_rows<T, W>(a.out, place, query0 + row0, a.queries, a.width, a.narrow, dq, factor);
    }
};

template <int T, int W> struct FlashGradientOfKeys {
    static const int QUERIES = W > 64 ? 16 : 32;
    Tile<ROWS, W> k, v;
    Tile<QUERIES, W> q, g;
    float lse[QUERIES], delta[QUERIES];

    // c [16, QUERIES] = the warp's rows of `left` * transposed tile
    __device__ inline void multiply_rows(float c[QUERIES / 8][4], const Tile<ROWS, W>& left, const Tile<QUERIES, W>& tile) {
#pragma unroll
        for (int n = 0; n < QUERIES / 8; ++n) c[n][0] = c[n][1] = c[n][2] = c[n][3] = 0;
#pragma unroll
        for (int d = 0; d < W; d += 16) {
            u32 x[4];
            load_left(x, left, threadIdx.x / WARP * 16, d);
#pragma unroll
            for (int n = 0; n < QUERIES / 16; ++n) {
                u32 b[4];
                load_turned(b, tile, n * 16, d);
                multiply<T>(c[2 * n], x, b);
                multiply<T>(c[2 * n + 1], x, b + 2);
            }
        }
    }

    __device__ inline void run(const FlashArgs& a) {
        const int lane = threadIdx.x % WARP, row0 = threadIdx.x / WARP * 16;
        const i64 groups = a.batch * a.heads;
        const Place place(a, blockIdx.x % groups);
        const i64 key0 = blockIdx.x / groups * ROWS, key = key0 + row0 + lane / 4;
        const float scale = (float)(a.scale * LOG2_E);
        load_tile(k, a.k, place, key0, a.keys, a.width);
        load_tile(v, a.v, place, key0, a.keys, a.value_width);
        float dk[W / 8][4] = {}, dv[W / 8][4] = {};
#pragma unroll 1
        for (i64 query0 = a.causal ? key0 : 0; query0 < a.queries; query0 += QUERIES) {
            __syncthreads();
            load_tile(q, a.q, place, query0, a.queries, a.width);
            load_tile(g, a.grad, place, query0, a.queries, a.value_width);
            if (threadIdx.x < QUERIES) {
                i64 row = query0 + threadIdx.x, at = place.group * a.queries + row;
                lse[threadIdx.x] = row < a.queries ? a.lse[at] * (float)LOG2_E : 0;
                delta[threadIdx.x] = row < a.queries ? a.delta[at] : 0;
            }
            finish_copies();
            __syncthreads();
            float s[QUERIES / 8][4], dp[QUERIES / 8][4];
            multiply_rows(s, k, q);
            multiply_rows(dp, v, g);
            const bool all = all_attend(a, query0, QUERIES, key0 + row0, 16);
#pragma unroll
            for (int n = 0; n < QUERIES / 8; ++n) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    int column = n * 8 + lane % 4 * 2 + i % 2;
                    pair_gradient(s[n][i], dp[n][i], scale, lse[column], delta[column]);
                    if (!all && !attends(a, place, query0 + column, key + i / 2 * 8)) s[n][i] = dp[n][i] = 0;
                }
            }
            add_product<T>(dv, s, g);
            add_product<T>(dk, dp, q);
        }
        finish_copies();
        const float factor[2] = {(float)a.scale, (float)a.scale}, one[2] = {1, 1};
        store_rows<T, W>(a.out_k, place, key0 + row0, a.keys, a.width, a.narrow, dk, factor);
        store_rows<T, W>(a.out_v, place, key0 + row0, a.keys, a.value_width, a.narrow, dv, one);
    }
};

#define FLASH(name, T, width)                                             \
    KERNEL_OF(flash_attention_##name, FlashArgs, FLASH_THREADS) {         \
        __shared__ Flash<T, width> block;                                 \
        block.run(a);                                                     \
    }                                                                     \
    KERNEL_OF(flash_attention_grad_q_##name, FlashArgs, FLASH_THREADS) {  \
        __shared__ FlashGradientOfQueries<T, width> block;                \
        block.run(a);                                                     \
    }                                                                     \
    KERNEL_OF(flash_attention_grad_k_##name, FlashArgs, FLASH_THREADS) {  \
        __shared__ FlashGradientOfKeys<T, width> block;                   \
        block.run(a);                                                     \
    }
FLASH(64_f16, F16, 64)
FLASH(64_bf16, BF16, 64)
FLASH(128_f16, F16, 128)
FLASH(128_bf16, BF16, 128)
