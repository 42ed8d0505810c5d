// Factors of square matrices, and systems of equations by triangles: a block has a matrix, or a matrix and some columns of its
// right side, and works in place where the result is to be. The formulas mirror the CPU kernels'.
#include "common.cuh"

// Columns of a right side that a block has.
#define COLUMNS 32

// Row-major matrix `number` of the operand, as the block's result.
template <class C> __device__ inline C* copied(const Operand& x, void* y, i64 number, i64 n) {
    C* to = (C*)y + number * n * n;
    for (i64 e = threadIdx.x; e < n * n; e += blockDim.x) to[e] = load<C>(x, number * n * n + e);
    __syncthreads();
    return to;
}

// -------------------------------------------------------------------------------------------------------------------
// Cholesky: column by column, each of which is taken from what lies behind it

struct CholeskyArgs {
    Operand x;  // [count, N, N]
    void* y;
    i64 n;
};

template <class C> __device__ void cholesky(const CholeskyArgs& a) {
    i64 n = a.n;
    C* y = copied<C>(a.x, a.y, blockIdx.x, n);
    for (i64 k = 0; k < n; ++k) {
        C pivot = y[k * n + k], root = pivot > 0 ? sqrt_of(pivot) : (C)NAN;
        __syncthreads();  // all have read the pivot
        for (i64 i = k + threadIdx.x; i < n; i += blockDim.x) y[i * n + k] = i == k ? root : y[i * n + k] / root;
        __syncthreads();
        i64 rest = n - k - 1, from = k + 1;
        for (i64 e = threadIdx.x; e < rest * rest; e += blockDim.x) {
            i64 row = divide(e, rest), i = from + row, j = from + e - row * rest;
            if (j <= i) y[i * n + j] -= y[i * n + k] * y[j * n + k];
            else if (k == 0) y[i * n + j] = 0;
        }
        if (k == 0) for (i64 j = 1 + threadIdx.x; j < n; j += blockDim.x) y[j] = 0;
        __syncthreads();
    }
}

KERNEL(cholesky_f32, CholeskyArgs) { cholesky<float>(a); }
KERNEL(cholesky_f64, CholeskyArgs) { cholesky<double>(a); }

// -------------------------------------------------------------------------------------------------------------------
// LU: elimination with the largest pivot of each column, the first of equals

struct LuArgs {
    Operand x;    // [count, N, N]
    void* y;
    i64* rows;    // [count, N]: where each row was
    void* signs;  // [count]
    i64 n;
};

template <class C> struct Pivot {
    C size;
    i64 row;
    __device__ inline void meet(const Pivot& o) {
        if (o.size > size || (o.size == size && o.row < row)) *this = o;
    }
};

// The row from `k` on with the largest magnitude in column `k`.
template <class C> __device__ i64 largest(const C* y, i64 n, i64 k, Pivot<C>* best) {
    Pivot<C> mine = {0, k};
    for (i64 i = k + threadIdx.x; i < n; i += blockDim.x) mine.meet(Pivot<C>{fabs_of(y[i * n + k]), i});
    best[threadIdx.x] = mine;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) best[threadIdx.x].meet(best[threadIdx.x + half]);
    }
    __syncthreads();
    return best[0].row;
}

template <class C> __device__ void lu(const LuArgs& a, Pivot<C>* best) {
    i64 n = a.n;
    C sign = 1, *y = copied<C>(a.x, a.y, blockIdx.x, n);
    i64* rows = a.rows + blockIdx.x * n;
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) rows[i] = i;
    for (i64 k = 0; k < n; ++k) {
        i64 chosen = largest(y, n, k, best);
        if (chosen != k) {
            sign = -sign;
            for (i64 j = threadIdx.x; j <= n; j += blockDim.x) {
                if (j == n) { i64 row = rows[k]; rows[k] = rows[chosen]; rows[chosen] = row; continue; }
                C upper = y[k * n + j];
                y[k * n + j] = y[chosen * n + j];
                y[chosen * n + j] = upper;
            }
        }
        __syncthreads();
        C pivot = y[k * n + k];
        if (pivot == 0) continue;  // so is what lies below
        for (i64 i = k + 1 + threadIdx.x; i < n; i += blockDim.x) y[i * n + k] /= pivot;
        __syncthreads();
        i64 rest = n - k - 1, from = k + 1;
        for (i64 e = threadIdx.x; e < rest * rest; e += blockDim.x) {
            i64 row = divide(e, rest), i = from + row, j = from + e - row * rest;
            y[i * n + j] -= y[i * n + k] * y[k * n + j];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) ((C*)a.signs)[blockIdx.x] = sign;
}

#define LU(name, C) KERNEL(lu_##name, LuArgs) { __shared__ Pivot<C> best[THREADS]; lu<C>(a, best); }
LU(f32, float)
LU(f64, double)
#undef LU

// -------------------------------------------------------------------------------------------------------------------
// Triangles: each row that is known is taken from those that are not

struct SolveTriangularArgs {
    Operand a;  // [count, N, N]
    Operand b;  // [count, N, K]
    void* x;
    i64 n;
    i64 columns;  // K
    i64 tiles;    // blocks that share a matrix
    int upper;
    int unit;
};

template <class C> __device__ void solve_triangular(const SolveTriangularArgs& a) {
    i64 n = a.n, number = divide(blockIdx.x, a.tiles), first = (blockIdx.x - number * a.tiles) * COLUMNS;
    i64 width = a.columns - first < COLUMNS ? a.columns - first : COLUMNS;
    i64 at = number * n * n, start = number * n * a.columns + first;
    C* x = (C*)a.x + start;
    for (i64 e = threadIdx.x; e < n * width; e += blockDim.x) {
        i64 row = divide(e, width), to = row * a.columns + e - row * width;
        x[to] = load<C>(a.b, start + to);
    }
    for (i64 step = 0; step < n; ++step) {
        i64 i = a.upper ? n - 1 - step : step, from = a.upper ? 0 : i + 1;
        __syncthreads();
        if (!a.unit && threadIdx.x < width) x[i * a.columns + threadIdx.x] /= load<C>(a.a, at + i * n + i);
        __syncthreads();
        for (i64 e = threadIdx.x; e < (n - 1 - step) * width; e += blockDim.x) {
            i64 row = divide(e, width), column = e - row * width, r = from + row;
            x[r * a.columns + column] -= load<C>(a.a, at + r * n + i) * x[i * a.columns + column];
        }
    }
}

KERNEL(solve_triangular_f32, SolveTriangularArgs) { solve_triangular<float>(a); }
KERNEL(solve_triangular_f64, SolveTriangularArgs) { solve_triangular<double>(a); }
