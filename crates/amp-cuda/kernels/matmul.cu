// Matrix products of any layout and precision, for what cuBLASLt cannot do.
#include "gemm.cuh"

struct MatmulArgs {
    Operand l;          // [batch.., rows, terms]
    Operand r;          // [batch.., terms, columns]
    Operand bias;       // [columns]; null data for none
    void* y;            // [batch, rows, columns]
    i64 batch_shape[MAX_RANK];
    i64 l_batch[MAX_RANK];   // strides of the batch dimensions
    i64 r_batch[MAX_RANK];
    i64 rows, columns, terms;
    i64 l_strides[2];
    i64 r_strides[2];
    i64 batch;
    int batch_rank;
    int out;
    int accumulate;     // add to y
    int sum_batch;      // y holds one matrix, the sum over the batch
};

__device__ inline i64 batch_place(const MatmulArgs& a, const i64* strides, i64 b) {
    i64 at = 0;
#pragma unroll 1
    for (int d = a.batch_rank - 1; d >= 0; --d) {
        i64 q = divide(b, a.batch_shape[d]);
        at += (b - q * a.batch_shape[d]) * strides[d];
        b = q;
    }
    return at;
}

// A tile of one of the matrices; with sum_batch the terms of all matrices are one long sum.
template <class C> __device__ void matmul(const MatmulArgs& a, Tiles<C>& tiles) {
    const Place place(a.rows, a.columns);
    i64 b = place.product;
    i64 l0 = a.sum_batch ? 0 : batch_place(a, a.l_batch, b), r0 = a.sum_batch ? 0 : batch_place(a, a.r_batch, b);
    auto left = [&](i64 m, i64 k) {
        i64 at = l0 + m * a.l_strides[0];
        if (a.sum_batch) {
            i64 q = divide(k, a.terms);
            at += batch_place(a, a.l_batch, q);
            k -= q * a.terms;
        }
        return load_at<C>(a.l, at + k * a.l_strides[1]);
    };
    auto right = [&](i64 k, i64 n) {
        i64 at = r0 + n * a.r_strides[1];
        if (a.sum_batch) {
            i64 q = divide(k, a.terms);
            at += batch_place(a, a.r_batch, q);
            k -= q * a.terms;
        }
        return load_at<C>(a.r, at + k * a.r_strides[0]);
    };
    auto done = [&](i64 m, i64 n, C v) {
        i64 i = (b * a.rows + m) * a.columns + n;
        if (a.bias.data) v += load<C>(a.bias, n);
        if (a.accumulate) v += load_as<C>(a.y, a.out, i);
        store_as(a.y, a.out, i, v);
    };
    i64 terms = a.sum_batch ? a.terms * a.batch : a.terms;
    tile_product<C>(tiles, place, a.rows, a.columns, 0, terms, left, right, done);
}

KERNEL(matmul_f32, MatmulArgs) { __shared__ Tiles<float> tiles; matmul<float>(a, tiles); }
KERNEL(matmul_f64, MatmulArgs) { __shared__ Tiles<double> tiles; matmul<double>(a, tiles); }
