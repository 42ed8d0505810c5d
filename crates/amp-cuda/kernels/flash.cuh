// What flash_attention.cu and flash_attention_grad.cu have in common.
//
// A block of four warps owns some queries (or keys), a warp one or two matrices of 16, and walks over tiles of keys (or
// queries) in shared memory, where the next tile arrives while one is worked on. Factors that stay are kept in registers, as
// are scores, statistics and sums, which are float: scores come out of one product as the next one wants its left factor.
// That factor, weights or slopes of scores, is rounded to the operands' type, as in PyTorch's flash attention.
// Vectors have up to W elements.
#pragma once
#include "common.cuh"
#include "mma.cuh"
#include "attention.cuh"

#define FLASH_THREADS 128
#define LOG2_E 1.4426950408889634

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
    int sample, head, group;
    Place() = default;
    __device__ inline Place(const FlashArgs& a, int group)
        : sample(group / (int)a.heads), head(group % (int)a.heads), group(group) {}
    __device__ inline i64 at(const Heads& x, int row) const { return sample * x.batch + head * x.head + row * x.row; }
};

// Starts to load rows row0.. of a head as rows at.. of a tile, K of them; what lies outside is 0.
template <int K, int N, int W>
__device__ inline void load_rows(Tile<N, W>& tile, int at, const Heads& x, const Place& place, int row0, i64 rows,
                                 i64 width) {
    const int PACKS = W / PACK, STEP = FLASH_THREADS / PACKS;
    const u32 thread = thread_here();
    const int first = thread / PACKS, d = thread % PACKS * PACK, inside = (int)rows - row0, left = (int)width - d;
    const u16* from = (const u16*)x.data + place.at(x, row0 + first) + d;
    if (x.packed) {
#pragma unroll
        for (int r = 0; r < K; r += STEP, from += STEP * x.row) {
            // Of a single row the next ones need not be aligned: outside, an address that is.
            const bool counts = first + r < inside && left > 0;
            copy_later(&tile.value[at + first + r][d], counts ? from : (const u16*)x.data, counts);
        }
    } else {
#pragma unroll 1
        for (int r = first; r < K; r += STEP, from += STEP * x.row) {
#pragma unroll 4
            for (int j = 0; j < PACK; ++j) tile.value[at + r][d + j] = r < inside && j < left ? from[j] : 0;
        }
    }
}

// Where a block's vectors go. What it owns fills both tiles, to be taken into registers; what it walks over takes their
// halves in turns, of which one arrives while the other is worked on.
template <int W> struct Block {
    static const int M = W > 64 ? 1 : 2;  // matrices of 16 rows that a warp owns: as many as its registers hold
    static const int ROWS = 16 * M * FLASH_THREADS / WARP, HALF = ROWS / 2;
    Tile<ROWS, W> left, right;
    Place place;

    // Of two heads; queries or keys with gradients or values.
    __device__ inline void load_own(const FlashArgs& a, const Heads& x, i64 x_width, const Heads& y, int row0, i64 rows) {
        load_rows<ROWS>(left, 0, x, place, row0, rows, x_width);
        load_rows<ROWS>(right, 0, y, place, row0, rows, a.value_width);
    }
    __device__ inline void load_next(int at, const FlashArgs& a, const Heads& x, const Heads& y, int row0, i64 rows) {
        load_rows<HALF>(left, at, x, place, row0, rows, a.width);
        load_rows<HALF>(right, at, y, place, row0, rows, a.value_width);
    }

    // Queries go where the second halves will be.
    __device__ inline void load_queries(const FlashArgs& a, int row0) {
        load_rows<HALF>(left, HALF, a.q, place, row0, a.queries, a.width);
        load_rows<HALF>(right, HALF, a.q, place, row0 + HALF, a.queries, a.width);
    }
    __device__ inline void take_queries(u32 (&to)[M][W / 16][4], int row0) const {
        load_left(to, row0 < HALF ? left : right, HALF + row0 % HALF);
    }
};

// The warp's rows row0.. as left factors.
template <int M, int N, int W>
__device__ inline void load_left(u32 (&to)[M][W / 16][4], const Tile<N, W>& tile, int row0) {
    int lane = threadIdx.x % WARP;
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
        for (int k = 0; k < W / 16; ++k) {
            load_matrices<false>(to[m][k], &tile.value[row0 + m * 16 + lane % 16][k * 16 + lane / 16 * 8]);
        }
    }
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

// c [16 M, columns] = a [16 M, W] * transposed rows row0.. of the tile
template <int T, int M, int C, int N, int W>
__device__ inline void multiply_turned(float (&c)[M][C][4], const u32 (&a)[M][W / 16][4], const Tile<N, W>& tile, int row0) {
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
        for (int n = 0; n < C; ++n) c[m][n][0] = c[m][n][1] = c[m][n][2] = c[m][n][3] = 0;
    }
#pragma unroll
    for (int k = 0; k < W / 16; ++k) {
#pragma unroll
        for (int n = 0; n < C / 2; ++n) {
            u32 b[4];
            load_turned(b, tile, row0 + n * 16, k * 16);
#pragma unroll
            for (int m = 0; m < M; ++m) {
                multiply<T>(c[m][2 * n], a[m][k], b);
                multiply<T>(c[m][2 * n + 1], a[m][k], b + 2);
            }
        }
    }
}

// sums [16 M, W] += p [16 M, terms] * rows row0.. of the tile, p rounded
template <int T, int M, int C, int N, int W>
__device__ inline void add_product(float (&sums)[M][W / 8][4], const float (&p)[M][C][4], const Tile<N, W>& tile, int row0) {
#pragma unroll
    for (int k = 0; k < C / 2; ++k) {
        u32 a[M][4];
#pragma unroll
        for (int m = 0; m < M; ++m) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float* pair = &p[m][2 * k + i / 2][i % 2 * 2];
                a[m][i] = pack<T>(pair[0], pair[1]);
            }
        }
#pragma unroll
        for (int n = 0; n < W / 16; ++n) {
            u32 b[4];
            load_right(b, tile, row0 + k * 16, n * 16);
#pragma unroll
            for (int m = 0; m < M; ++m) {
                multiply<T>(sums[m][2 * n], a[m], b);
                multiply<T>(sums[m][2 * n + 1], a[m], b + 2);
            }
        }
    }
}

// One of the thread's values, of 2 M rows and 2 C columns.
template <int M, int C> __device__ inline float& value(float (&s)[M][C][4], int row, int column) {
    return s[row / 2][column / 2][row % 2 * 2 + column % 2];
}
template <int M, int C> __device__ inline float value(const float (&s)[M][C][4], int row, int column) {
    return s[row / 2][column / 2][row % 2 * 2 + column % 2];
}

// Rows row0.. of a head, factors times the warp's sums; elements of the operands' type go two at a time where they may.
template <int T, int M, int C>
__device__ inline void store_rows(const Heads& x, const Place& place, int row0, int rows, int width, int narrow,
                                  const float (&sums)[M][C][4], const float (&factor)[M][2]) {
    const int lane = threadIdx.x % WARP, d = lane % 4 * 2, left = width - d;
#pragma unroll
    for (int i = 0; i < 2 * M; ++i) {
        const int row = row0 + lane / 4 + i * 8;
        const i64 start = place.at(x, row) + d;
        if (row >= rows) continue;
        const bool paired = narrow && start % 2 == 0 && width % 2 == 0;
        const float f = factor[i / 2][i % 2];
#pragma unroll
        for (int n = 0; n < C; ++n) {
            const u32 both = pack<T>(value(sums, i, 2 * n) * f, value(sums, i, 2 * n + 1) * f);
            if (paired && n * 8 < left) ((u32*)((u16*)x.data + start))[n * 4] = both;
        }
        if (paired) continue;
#pragma unroll
        for (int n = 0; n < 2 * C; ++n) {
            const float v = value(sums, i, n) * f;
            const int at = n / 2 * 8 + n % 2;
            if (at >= left) continue;
            if (narrow) {
                ((u16*)x.data)[start + at] = (u16)pack<T>(v, 0);
            } else {
                ((float*)x.data)[start + at] = v;
            }
        }
    }
}

// Over the four lanes that share a row.
template <class Op> __device__ inline float row_join(Op op, float v) {
    v = op.join(v, __shfl_xor_sync(0xffffffff, v, 1));
    return op.join(v, __shfl_xor_sync(0xffffffff, v, 2));
}

// The thread's columns are two of every eight of a tile: of N, a bit for each of those that lie before `end`.
template <int N> __device__ inline u32 columns_before(int end) {
    end = end < 0 ? 0 : end > 4 * N ? 4 * N : end;
    return (1u << (end / 8 * 2 + (end % 8 < 2 ? end % 8 : 2))) - 1;
}

// Of N columns of a row those that lie in from..to - 1 and that the mask, null for none, allows.
template <int N> __device__ inline u32 columns_allowed(int from, int to, const u8* mask, i64 stride) {
    u32 bits = columns_before<N>(to) & ~columns_before<N>(from);
    if (!mask) return bits;
#pragma unroll
    for (int n = 0; n < N; ++n) {
        if ((bits >> n & 1) && !mask[(n / 2 * 8 + n % 2) * stride]) bits ^= 1u << n;
    }
    return bits;
}

__device__ inline const u8* mask_at(const FlashArgs& a, const Place& place, int query, int key) {
    const i64* s = a.mask_strides;
    return a.mask ? a.mask + place.sample * s[0] + place.head * s[1] + query * s[2] + key * s[3] : nullptr;
}

// Which of the thread's pairs of queries query0.. and keys key0.. may attend, a bit for each: N columns, keys, of R rows.
template <class Bits, int R, int N>
__device__ inline Bits keys_allowed(const FlashArgs& a, const Place& place, int query0, int key0) {
    const int lane = threadIdx.x % WARP, key = key0 + lane % 4 * 2;
    Bits bits = 0;
#pragma unroll
    for (int i = 0; i < R; ++i) {
        const int query = query0 + lane / 4 + i * 8, end = query < (int)a.queries ? (int)keys_of(a, query + 1) : 0;
        bits |= (Bits)columns_allowed<N>(0, end - key, mask_at(a, place, query, key), a.mask_strides[3]) << (i * N);
    }
    return bits;
}

// As above where columns are queries and rows are keys.
template <class Bits, int R, int N>
__device__ inline Bits queries_allowed(const FlashArgs& a, const Place& place, int query0, int key0) {
    const int lane = threadIdx.x % WARP, query = query0 + lane % 4 * 2;
    Bits bits = 0;
#pragma unroll
    for (int i = 0; i < R; ++i) {
        const int key = key0 + lane / 4 + i * 8, from = a.causal ? key : 0, end = key < (int)a.keys ? (int)a.queries : 0;
        const u8* mask = mask_at(a, place, query, key);
        bits |= (Bits)columns_allowed<N>(from - query, end - query, mask, a.mask_strides[2]) << (i * N);
    }
    return bits;
}

// In place of values of pairs without a bit.
template <class Bits, int M, int C> __device__ inline void mask_pairs(float (&s)[M][C][4], Bits allowed, float masked) {
#pragma unroll
    for (int i = 0; i < 2 * M; ++i) {
#pragma unroll
        for (int n = 0; n < 2 * C; ++n) {
            if (!(allowed >> (i * 2 * C + n) & 1)) value(s, i, n) = masked;
        }
    }
}

// Whether every query of query0.. may attend to every key of key0.., so that no pair has to be asked.
__device__ inline bool all_attend(const FlashArgs& a, int query0, int queries, int key0, int keys) {
    const bool within = query0 + queries <= (int)a.queries && key0 + keys <= (int)a.keys;
    return within && !a.mask && (!a.causal || key0 + keys - 1 <= query0);
}

// Whether no query of query0.. may attend to any key from key0 on.
__device__ inline bool none_attend(const FlashArgs& a, int query0, int queries, int key0) {
    return a.causal && key0 >= query0 + queries;
}

__device__ inline u32 groups_of(const FlashArgs& a) { return (u32)(a.batch * a.heads); }

// The last tiles of so many rows first: with a causal mask they have the most to do.
__device__ inline int query_tile(const FlashArgs& a, int rows) {
    const int tiles = ((int)a.queries + rows - 1) / rows;
    return (tiles - 1 - (int)(blockIdx.x / groups_of(a))) * rows;
}
