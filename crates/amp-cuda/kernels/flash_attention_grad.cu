// Gradients of flash_attention.cu's operands: those of queries and of keys are kernels of their own, so that sums have an
// order.
#include "flash.cuh"

// Weights and slopes of pairs, in place of their scores and of the gradients of their weights.
__device__ inline void pair_gradient(float& s, float& dp, float scale, float lse, float delta) {
    s = exp2_fast(s * scale - lse);
    dp = s * (dp - delta);
}

template <int T, int W> struct FlashGradientOfQueries {
    static const int M = Block<W>::M, ROWS = Block<W>::ROWS, KEYS = Block<W>::HALF, STEP = 32;
    Block<W> block;

    // Sums of y * grad of the warp's rows, which are kept for the gradient of keys, and the rows' log-sum-exps, of base 2.
    static __device__ inline void statistics(const FlashArgs& a, const Place& place, int query0, const u32 (&y)[M][W / 16][4],
                                             const u32 (&g)[M][W / 16][4], float (&delta)[M][2], float (&lse)[M][2]) {
        const int lane = threadIdx.x % WARP;
#pragma unroll
        for (int i = 0; i < 2 * M; ++i) {
            float sum = 0;
#pragma unroll
            for (int d = 0; d < W / 4; ++d) {
                const int at = i % 2 + d / 2 % 2 * 2;
                sum += unpack<T>(y[i / 2][d / 4][at], d % 2) * unpack<T>(g[i / 2][d / 4][at], d % 2);
            }
            delta[i / 2][i % 2] = sum = row_join(Add{}, sum);
            const int row = query0 + lane / 4 + i * 8;
            const i64 at = place.group * a.queries + row;
            lse[i / 2][i % 2] = row < a.queries ? finite_shift(a.lse[at]) * (float)LOG2_E : 0;
            if (lane % 4 == 0 && row < a.queries) a.delta[at] = sum;
        }
    }

    // Slopes of scores in place of gradients of weights, 0 for pairs that may not attend.
    static __device__ inline void slopes(float (&s)[M][STEP / 8][4], float (&dp)[M][STEP / 8][4], float scale,
                                         const float (&lse)[M][2], const float (&delta)[M][2]) {
#pragma unroll
        for (int m = 0; m < M; ++m) {
#pragma unroll
            for (int n = 0; n < STEP / 2; ++n) {
                pair_gradient(s[m][n / 4][n % 4], dp[m][n / 4][n % 4], scale, lse[m][n / 2 % 2], delta[m][n / 2 % 2]);
            }
        }
    }

    __device__ inline void run(const FlashArgs& a) {
        const int row0 = threadIdx.x / WARP * 16 * M;
        if (threadIdx.x == 0) block.place = Place(a, blockIdx.x % groups_of(a));
        __syncthreads();
        const int first = query_tile(a, ROWS), query0 = first + row0, end = (int)keys_of(a, first + ROWS);
        const float scale = (float)(a.scale * LOG2_E);
        u32 q[M][W / 16][4], g[M][W / 16][4];
        float delta[M][2], lse[M][2], dq[M][W / 8][4] = {};
        block.load_own(a, a.y, a.value_width, a.grad, first, a.queries);
        finish_copies();
        __syncthreads();
        load_left(q, block.left, row0);
        load_left(g, block.right, row0);
        __syncthreads();
        block.load_queries(a, first);
        block.load_next(0, a, a.k, a.v, 0, a.keys);
        statistics(a, block.place, query0, q, g, delta, lse);
        finish_copies();
        __syncthreads();
        block.take_queries(q, row0);
#pragma unroll 1
        for (int key0 = 0; key0 < end; key0 += STEP) {
            const int at = (u32)key0 % ROWS;
            if (at % KEYS == 0) {
                finish_copies();
                __syncthreads();
                if (key0 + KEYS < end) block.load_next(KEYS - at, a, a.k, a.v, key0 + KEYS, a.keys);
            }
            if (none_attend(a, query0, 16 * M, key0)) continue;
            const bool all = all_attend(a, query0, 16 * M, key0, STEP);
            const u32 allowed = all ? 0 : keys_allowed<u32, 2 * M, STEP / 4>(a, block.place, query0, key0);
            float s[M][STEP / 8][4], dp[M][STEP / 8][4];
            multiply_turned<T>(s, q, block.left, at);
            multiply_turned<T>(dp, g, block.right, at);
            slopes(s, dp, scale, lse, delta);
            if (!all) mask_pairs(dp, allowed, 0);
            add_product<T>(dq, dp, block.left, at);
        }
        finish_copies();
        float factor[M][2];
#pragma unroll
        for (int m = 0; m < M; ++m) factor[m][0] = factor[m][1] = (float)a.scale;
        store_rows<T>(a.out, block.place, query0, a.queries, a.width, a.narrow, dq, factor);
    }
};

template <int T, int W> struct FlashGradientOfKeys {
    static const int M = Block<W>::M, ROWS = Block<W>::ROWS, QUERIES = Block<W>::HALF, STEP = 16;
    Block<W> block;
    float lse[ROWS], delta[ROWS];  // of the queries in the tiles
    int first;
    float scale;

    // The warp's first key. It and `scale` lie in shared memory, as registers are used up.
    __device__ inline int key0() const { return first + threadIdx.x / WARP * 16 * M; }

    __device__ inline void load_next(int at, const FlashArgs& a, int query0) {
        block.load_next(at, a, a.q, a.grad, query0, a.queries);
        if (threadIdx.x >= QUERIES) return;
        const int query = query0 + threadIdx.x;
        const i64 row = block.place.group * a.queries + query;
        copy_later(&lse[at + threadIdx.x], a.lse + row, query < (int)a.queries);
        copy_later(&delta[at + threadIdx.x], a.delta + row, query < (int)a.queries);
    }

    __device__ inline void slopes(float (&s)[M][STEP / 8][4], float (&dp)[M][STEP / 8][4], int at) {
        const int lane = threadIdx.x % WARP;
#pragma unroll
        for (int n = 0; n < STEP / 4; ++n) {
            const int column = at + n / 2 * 8 + lane % 4 * 2 + n % 2;
            const float l = finite_shift(lse[column]) * (float)LOG2_E, d = delta[column];
#pragma unroll
            for (int i = 0; i < 2 * M; ++i) {
                pair_gradient(value(s, i, n), value(dp, i, n), scale, l, d);
            }
        }
    }

    __device__ inline void run(const FlashArgs& a) {
        const int row0 = threadIdx.x / WARP * 16 * M;
        if (threadIdx.x == 0) {
            block.place = Place(a, blockIdx.x % groups_of(a));
            first = (int)(blockIdx.x / groups_of(a)) * ROWS;
            scale = (float)(a.scale * LOG2_E);
        }
        __syncthreads();
        const int start = a.causal ? first : 0;
        u32 k[M][W / 16][4], v[M][W / 16][4];
        block.load_own(a, a.k, a.width, a.v, first, a.keys);
        finish_copies();
        __syncthreads();
        load_left(k, block.left, row0);
        load_left(v, block.right, row0);
        __syncthreads();
        float dk[M][W / 8][4] = {}, dv[M][W / 8][4] = {};
        load_next(0, a, start);
#pragma unroll 1
        for (int query0 = start; query0 < (int)a.queries; query0 += STEP) {
            const int at = (u32)query0 % ROWS;
            if (at % QUERIES == 0) {
                finish_copies();
                __syncthreads();
                if (query0 + QUERIES < (int)a.queries) load_next(QUERIES - at, a, query0 + QUERIES);
            }
            if (none_attend(a, query0, STEP, key0())) continue;
            const bool all = all_attend(a, query0, STEP, key0(), 16 * M);
            const u32 allowed = all ? 0 : queries_allowed<u32, 2 * M, STEP / 4>(a, block.place, query0, key0());
            float s[M][STEP / 8][4], dp[M][STEP / 8][4];
            multiply_turned<T>(s, k, block.left, at);
            multiply_turned<T>(dp, v, block.right, at);
            slopes(s, dp, at);
            if (!all) {
                mask_pairs(s, allowed, 0);
                mask_pairs(dp, allowed, 0);
            }
            add_product<T>(dv, s, block.right, at);
            add_product<T>(dk, dp, block.left, at);
        }
        finish_copies();
        float factor[M][2], one[M][2];
#pragma unroll
        for (int m = 0; m < M; ++m) {
            factor[m][0] = factor[m][1] = (float)a.scale;
            one[m][0] = one[m][1] = 1;
        }
        store_rows<T>(a.out_k, block.place, key0(), a.keys, a.width, a.narrow, dk, factor);
        store_rows<T>(a.out_v, block.place, key0(), a.keys, a.value_width, a.narrow, dv, one);
    }
};

#define FLASH_GRAD(name, T, width)                                        \
    KERNEL_OF(flash_attention_grad_q_##name, FlashArgs, FLASH_THREADS) {  \
        __shared__ FlashGradientOfQueries<T, width> block;                \
        block.run(a);                                                     \
    }                                                                     \
    KERNEL_OF(flash_attention_grad_k_##name, FlashArgs, FLASH_THREADS) {  \
        __shared__ FlashGradientOfKeys<T, width> block;                   \
        block.run(a);                                                     \
    }

FLASH_GRAD(64_f16, F16, 64)
FLASH_GRAD(64_bf16, BF16, 64)
FLASH_GRAD(128_f16, F16, 128)
FLASH_GRAD(128_bf16, BF16, 128)
