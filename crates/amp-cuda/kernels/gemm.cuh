// A tiled matrix product whose operands are functions of two indices: what matmul.cu and conv.cu share.
//
// 64 x 64 results per block of 256 threads, 4 x 4 per thread, 16 terms at a time in shared memory. It serves what the
// vendor's libraries do not: F64 next to rounding on load, any stride, and machines without those libraries.
#pragma once
#include "common.cuh"

#define TILE 64
#define DEPTH 16
#define PER_THREAD 4

template <class C> struct Tiles {
    C left[DEPTH][TILE + 1];
    C right[DEPTH][TILE + 1];
};

// The block's tile of one of a launch's products, all of `rows` and `columns`.
struct Place {
    i64 product, row, column;
    __device__ inline Place(i64 rows, i64 columns) {
        i64 across = (columns + TILE - 1) / TILE, tiles = (rows + TILE - 1) / TILE * across;
        product = blockIdx.x / tiles;
        i64 tile = blockIdx.x - product * tiles;
        row = tile / across * TILE;
        column = tile % across * TILE;
    }
};

// Results of a tile; `k` runs over `from..to`. left(m, k), right(k, n), done(m, n, v).
template <class C, class Left, class Right, class Done>
__device__ inline void tile_product(Tiles<C>& tiles, const Place& place, i64 rows, i64 columns, i64 from, i64 to,
                                    Left left, Right right, Done done) {
    i64 row0 = place.row, column0 = place.column;
    int tx = threadIdx.x % (TILE / PER_THREAD), ty = threadIdx.x / (TILE / PER_THREAD);
    C acc[PER_THREAD][PER_THREAD] = {};
    for (i64 k0 = from; k0 < to; k0 += DEPTH) {
#pragma unroll 1
        for (int t = threadIdx.x; t < TILE * DEPTH; t += blockDim.x) {
            i64 k = k0 + t % DEPTH, m = row0 + t / DEPTH;
            tiles.left[t % DEPTH][t / DEPTH] = m < rows && k < to ? left(m, k) : (C)0;
        }
#pragma unroll 1
        for (int t = threadIdx.x; t < TILE * DEPTH; t += blockDim.x) {
            i64 k = k0 + t / TILE, n = column0 + t % TILE;
            tiles.right[t / TILE][t % TILE] = n < columns && k < to ? right(k, n) : (C)0;
        }
        __syncthreads();
        for (int k = 0; k < DEPTH; ++k) {
            for (int i = 0; i < PER_THREAD; ++i) {
                C l = tiles.left[k][ty + i * (TILE / PER_THREAD)];
                for (int j = 0; j < PER_THREAD; ++j) acc[i][j] += l * tiles.right[k][tx + j * (TILE / PER_THREAD)];
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < PER_THREAD; ++i) {
#pragma unroll
        for (int j = 0; j < PER_THREAD; ++j) {
            i64 m = row0 + ty + i * (TILE / PER_THREAD), n = column0 + tx + j * (TILE / PER_THREAD);
            if (m < rows && n < columns) done(m, n, acc[i][j]);
        }
    }
}
