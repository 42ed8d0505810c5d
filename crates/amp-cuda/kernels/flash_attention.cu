// Scaled dot-product attention of 16-bit vectors on tensor cores (sm_80 and newer): what attention.cu does for all others.
#include "flash.cuh"

#define LN_2 0.6931471805599453f

template <int T, int W> struct Flash {
    static const int M = Block<W>::M, ROWS = Block<W>::ROWS, KEYS = Block<W>::HALF;
    Block<W> block;

    // Before some become -infinity, which cannot be multiplied by 0.
    static __device__ inline void scale_scores(float (&s)[M][KEYS / 8][4], float scale) {
#pragma unroll
        for (int n = 0; n < M * KEYS / 2; ++n) s[n / (KEYS / 2)][n / 4 % (KEYS / 8)][n % 4] *= scale;
    }

    // Weights in place of scores, which are yet to be multiplied by `scale`, not negative. They are relative to `most`, which
    // follows the row's largest score at a distance: weights of up to 2^8 are as exact, and sums are rarely scaled anew.
    static __device__ inline void weigh(float (&s)[M][KEYS / 8][4], float scale, float (&y)[M][W / 8][4], float (&most)[M][2],
                                        float (&total)[M][2]) {
        float largest[M][2];
        bool grown = false;
#pragma unroll
        for (int i = 0; i < 2 * M; ++i) {
            float v = -INFINITY;
#pragma unroll
            for (int n = 0; n < KEYS / 4; ++n) v = fmaxf(v, value(s, i, n));
            v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, 1));
            v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, 2));
            largest[i / 2][i % 2] = v * scale;
            grown |= v * scale > most[i / 2][i % 2] + 8;
        }
        if (__any_sync(0xffffffff, grown)) follow(largest, y, most, total);
#pragma unroll
        for (int i = 0; i < 2 * M; ++i) {
            const float shift = finite_shift(most[i / 2][i % 2]);
#pragma unroll
            for (int n = 0; n < KEYS / 4; ++n) {
                float& v = value(s, i, n);
                total[i / 2][i % 2] += v = exp2_fast(v * scale - shift);
            }
        }
    }

    // Makes sums relative to the largest score where it has grown.
    static __device__ inline void follow(const float (&largest)[M][2], float (&y)[M][W / 8][4], float (&most)[M][2],
                                         float (&total)[M][2]) {
#pragma unroll
        for (int i = 0; i < 2 * M; ++i) {
            float &now = most[i / 2][i % 2], before = now;
            if (largest[i / 2][i % 2] > before + 8) now = largest[i / 2][i % 2];
            const float kept = exp2_fast(before - finite_shift(now));
            total[i / 2][i % 2] *= kept;
#pragma unroll
            for (int n = 0; n < W / 4; ++n) value(y, i, n) *= kept;
        }
    }

    // The warp's queries as left factors, negated where that makes a factor of the scores positive.
    __device__ inline void load_queries(u32 (&q)[M][W / 16][4], const FlashArgs& a, int row0) {
        block.take_queries(q, row0);
        const u32 sign = a.scale < 0 ? 0x80008000 : 0;
#pragma unroll
        for (int i = 0; i < M * W / 4; ++i) q[i / (W / 4)][i / 4 % (W / 16)][i % 4] ^= sign;
    }

    __device__ inline void run(const FlashArgs& a) {
        const int row0 = threadIdx.x / WARP * 16 * M;
        if (threadIdx.x == 0) block.place = Place(a, blockIdx.x % groups_of(a));
        __syncthreads();
        const int first = query_tile(a, ROWS), query0 = first + row0, end = (int)keys_of(a, first + ROWS);
        const float scale = fabsf((float)(a.scale * LOG2_E));
        u32 q[M][W / 16][4];
        block.load_queries(a, first);
        block.load_next(0, a, a.k, a.v, 0, a.keys);
        finish_copies();
        __syncthreads();
        load_queries(q, a, row0);
        float y[M][W / 8][4] = {}, most[M][2], total[M][2] = {};
#pragma unroll
        for (int m = 0; m < M; ++m) most[m][0] = most[m][1] = -INFINITY;
#pragma unroll 1
        for (int key0 = 0; key0 < end; key0 += KEYS) {
            const int at = (u32)key0 % ROWS;
            finish_copies();
            __syncthreads();
            if (key0 + KEYS < end) block.load_next(KEYS - at, a, a.k, a.v, key0 + KEYS, a.keys);
            if (none_attend(a, query0, 16 * M, key0)) continue;
            const bool all = all_attend(a, query0, 16 * M, key0, KEYS);
            const u64 allowed = all ? 0 : keys_allowed<u64, 2 * M, KEYS / 4>(a, block.place, query0, key0);
            float s[M][KEYS / 8][4];
            multiply_turned<T>(s, q, block.left, at);
            if (!all) {
                scale_scores(s, scale);
                mask_pairs(s, allowed, -INFINITY);
            }
            weigh(s, all ? scale : 1, y, most, total);
            add_product<T>(y, s, block.right, at);
        }
        finish_copies();
        finish(a, block.place, query0, y, most, total);
    }

    static __device__ inline void finish(const FlashArgs& a, const Place& place, int query0, const float (&y)[M][W / 8][4],
                                         const float (&most)[M][2], const float (&total)[M][2]) {
        const int lane = threadIdx.x % WARP;
        float inverse[M][2];
#pragma unroll
        for (int i = 0; i < 2 * M; ++i) {
            const float sum = row_join(Add{}, total[i / 2][i % 2]);
            inverse[i / 2][i % 2] = sum == 0 ? 0 : 1 / sum;
            const int row = query0 + lane / 4 + i * 8;
            if (lane % 4 == 0 && row < a.queries) {
                a.lse[place.group * a.queries + row] = log_of(sum) + finite_shift(most[i / 2][i % 2]) * LN_2;
            }
        }
        store_rows<T>(a.out, place, query0, a.queries, a.value_width, a.narrow, y, inverse);
    }
};

#define FLASH(name, T, width)                                      \
    KERNEL_OF(flash_attention_##name, FlashArgs, FLASH_THREADS) {  \
        __shared__ Flash<T, width> block;                          \
        block.run(a);                                              \
    }

FLASH(64_f16, F16, 64)
FLASH(64_bf16, BF16, 64)
FLASH(128_f16, F16, 128)
FLASH(128_bf16, BF16, 128)
