// Copies, conversions and fills: elements in any layout, and whatever they are stored in.
#include "quads.cuh"

struct CopyArgs {
    Operand x;
    void* y;
    i64 n;
    int out;
};

template <class C> __device__ void copy_rest(const CopyArgs& a, i64 done) {
    FOR_EACH(i, a.n - done) store_as(a.y, a.out, done + i, load<C>(a.x, done + i));
}

// Where QUAD elements from `i` on in row-major order lie.
__device__ inline void quad_places(const Operand& x, i64 i, i64 at[QUAD]) {
    i64 len = x.shape[x.rank - 1], step = x.strides[x.rank - 1], column = i - divide(i, len) * len;
    at[0] = place(x, i);
#pragma unroll
    for (int j = 1; j < QUAD; ++j) {
        bool same_row = ++column < len;
        at[j] = same_row ? at[j - 1] + step : place(x, i + j);
        column = same_row ? column : 0;
    }
}

// Every element is on its way before the first is used.
__device__ inline void gather_quad(const Operand& x, i64 i, float v[QUAD]) {
    i64 at[QUAD];
    quad_places(x, i, at);
    Run<QUAD> run = {};
    if (x.stored == F32) {
        for (int j = 0; j < QUAD; ++j) run.word[j] = ((const u32*)x.data)[at[j]];
    } else if (x.stored == F16 || x.stored == BF16) {
        u16 half[QUAD];
        for (int j = 0; j < QUAD; ++j) half[j] = ((const u16*)x.data)[at[j]];
        for (int j = 0; j < QUAD; ++j) run.word[j / 2] |= (u32)half[j] << j % 2 * 16;
    } else {
        for (int j = 0; j < QUAD; ++j) v[j] = load_at<float>(x, at[j]);
        return;
    }
    widen_run(x, run, v);
}

// Gives `put` all quads below `n`, if what they go to is packable; returns how many elements these are.
template <class Put> __device__ inline i64 copy_quads(const Operand& x, i64 n, int out, Put put) {
    if (x.quads != SCATTERED || !packable(out)) {
        return join_quads<true, 4, 1>({&x}, n, out, [](const float* v) { return v[0]; }, put);
    }
    FOR_EACH(quad, n / QUAD) {
        float v[QUAD];
        gather_quad(x, quad * QUAD, v);
        put(quad * QUAD, v);
    }
    return n / QUAD * QUAD;
}

KERNEL(copy_f32, CopyArgs) {
    copy_rest<float>(a, copy_quads(a.x, a.n, a.out, Into{a.y, a.out}));
}
KERNEL(copy_f64, CopyArgs) { copy_rest<double>(a, 0); }
KERNEL(copy_i64, CopyArgs) { copy_rest<i64>(a, 0); }

#define TILE 32

// A copy of a tensor whose elements lie side by side along `axis`, which is not the last one.
struct TransposeArgs {
    Operand x;
    void* y;
    i64 n;
    int out;
    int axis;
};

// Where a matrix of `axis` and the last one begins: matrix number `matrix` of those that the other axes number.
struct Matrix { i64 from, to, row; };
__device__ inline Matrix matrix_of(const TransposeArgs& a, i64 matrix) {
    Matrix m = {0, 0, 1};
    i64 size = a.x.shape[a.x.rank - 1];
#pragma unroll 1
    for (int d = a.x.rank - 2; d >= 0; --d) {
        if (d == a.axis) {
            m.row = size;
        } else {
            i64 rest = divide(matrix, a.x.shape[d]), at = matrix - rest * a.x.shape[d];
            m.from += at * a.x.strides[d];
            m.to += at * size;
            matrix = rest;
        }
        size *= a.x.shape[d];
    }
    return m;
}

// Tiles go through shared memory, so that neighbours both read and write what lies side by side.
template <class C> __device__ inline void transpose(const TransposeArgs& a, C (*tile)[TILE + 1]) {
    i64 rows = a.x.shape[a.axis], columns = a.x.shape[a.x.rank - 1], step = a.x.strides[a.x.rank - 1];
    i64 down = (rows - 1) / TILE + 1, across = (columns - 1) / TILE + 1, tiles = a.n / (rows * columns) * down * across;
    int lane = threadIdx.x % TILE, warp = threadIdx.x / TILE;
    for (i64 t = blockIdx.x; t < tiles; t += gridDim.x) {
        i64 band = divide(t, across), matrix = divide(band, down);
        i64 row = (band - matrix * down) * TILE, column = (t - band * across) * TILE;
        Matrix m = matrix_of(a, matrix);
        for (int k = warp; k < TILE; k += THREADS / TILE) {
            if (row + lane >= rows || column + k >= columns) continue;
            tile[k][lane] = load_at<C>(a.x, m.from + row + lane + (column + k) * step);
        }
        __syncthreads();
        for (int k = warp; k < TILE; k += THREADS / TILE) {
            if (row + k >= rows || column + lane >= columns) continue;
            store_as(a.y, a.out, m.to + (row + k) * m.row + column + lane, tile[lane][k]);
        }
        __syncthreads();
    }
}

#define TRANSPOSE(C, name)                       \
    KERNEL(transpose_##name, TransposeArgs) {    \
        __shared__ C tile[TILE][TILE + 1];       \
        transpose<C>(a, tile);                   \
    }
TRANSPOSE(float, f32)
TRANSPOSE(double, f64)
TRANSPOSE(i64, i64)
#undef TRANSPOSE

struct CopyIntoArgs {
    Operand x;
    Operand y;  // written; no two of its places coincide
    i64 n;
};

template <class C> __device__ void copy_into_rest(const CopyIntoArgs& a, i64 done) {
    FOR_EACH(k, a.n - done) {
        i64 i = done + k;
        store_as((void*)a.y.data, a.y.stored, place(a.y, i), load<C>(a.x, i));
    }
}

__device__ inline void put_quad(const Operand& y, i64 i, const float v[QUAD]) {
    if (y.quads == ADJACENT) return store_run<QUAD>((void*)y.data, y.stored, quad_place(y, i / QUAD), v);
    i64 at[QUAD];
    quad_places(y, i, at);
    for (int j = 0; j < QUAD; ++j) store_as((void*)y.data, y.stored, at[j], v[j]);
}

struct IntoPlaces {
    const Operand& y;
    template <int W> __device__ inline void operator()(i64 i, const float (&v)[W]) const {
        if (W == PACK && y.packed) return Into{(void*)y.data, y.stored}(i, v);
        for (int j = 0; j < W; j += QUAD) put_quad(y, i + j, v + j);
    }
};

KERNEL(copy_into_f32, CopyIntoArgs) {
    copy_into_rest<float>(a, copy_quads(a.x, a.n, a.y.stored, IntoPlaces{a.y}));
}
KERNEL(copy_into_f64, CopyIntoArgs) { copy_into_rest<double>(a, 0); }
KERNEL(copy_into_i64, CopyIntoArgs) { copy_into_rest<i64>(a, 0); }

struct FillArgs {
    void* y;
    i64 n;
    int out;
    double value;
};

KERNEL(fill, FillArgs) {
    FOR_EACH(i, a.n) store_as(a.y, a.out, i, a.value);
}

struct PutArgs {
    u8* y;
    i64 n;          // bytes
    u64 words[64];  // which these are
};

// A few bytes of the host travel with the launch: for a copy of its memory the driver may wait until all that is queued is done.
KERNEL(put, PutArgs) {
    FOR_EACH(i, a.n) a.y[i] = (u8)(a.words[i / 8] >> i % 8 * 8);
}
