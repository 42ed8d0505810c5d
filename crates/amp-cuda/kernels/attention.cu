// Scaled dot-product attention without the matrix of scores (flash attention), and its gradients.
//
// A block of ATTENTION_THREADS threads owns ROWS queries (or keys) and walks over tiles of as many keys (or queries) in
// shared memory. ATTENTION_THREADS / ROWS neighbouring lanes share a row: each takes every so-many-th score and result.
// WIDTH bounds the length of a head's vectors. Scores, statistics and sums are C.
#include "common.cuh"
#include "attention.cuh"

#define ATTENTION_THREADS 128

struct AttentionArgs {
    Operand q, k, v;    // [heads, queries, width], [heads, keys, width], [heads, keys, value_width]
    Operand mask;       // [heads, queries, keys], true where a query may attend; null data for none
    Operand y, grad;    // [heads, queries, value_width], for the gradients
    void* out;          // result, the heads of a query beside each other, or gradient of q
    void* out_k;        // gradient of k
    void* out_v;        // gradient of v
    void* lse;          // [heads, queries] log-sum-exp of the scores
    void* delta;        // [heads, queries] sums of y * grad
    void* sums;         // for vectors of any length: zeros, [heads, queries, value_width], or as the gradients of q and of k
    void* sums_v;       // as the gradient of v
    i64 heads;          // of a sample; `head` counts those of all samples
    i64 queries, keys, width, value_width;
    double scale;
    int causal;
    int dtype;
};

template <class C, int ROWS, int WIDTH> struct Row {
    C value[ROWS][WIDTH + 1];
};

// Rows row0.. of [heads, rows, width]; what lies outside is 0.
template <class C, int ROWS, int WIDTH>
__device__ inline void load_rows(Row<C, ROWS, WIDTH>& tile, const Operand& x, i64 head, i64 row0, i64 rows, i64 width) {
#pragma unroll 1
    for (int t = threadIdx.x; t < ROWS * WIDTH; t += blockDim.x) {
        int r = t / WIDTH, d = t % WIDTH;
        tile.value[r][d] = row0 + r < rows && d < width ? load<C>(x, (head * rows + row0 + r) * width + d) : (C)0;
    }
}

__device__ inline bool attends(const AttentionArgs& a, i64 head, i64 query, i64 key) {
    if (!within(a, query, key)) return false;
    return !a.mask.data || load<float>(a.mask, (head * a.queries + query) * a.keys + key) != 0;
}

// Row of the result that belongs to a query.
__device__ inline i64 result_row(const AttentionArgs& a, i64 head, i64 query) {
    i64 sample = head / a.heads;
    return (sample * a.queries + query) * a.heads + head - sample * a.heads;
}

template <class C, int WIDTH> __device__ inline C dot(const C* a, const C* b) {
    C sum = 0;
#pragma unroll 8
    for (int d = 0; d < WIDTH; ++d) sum += a[d] * b[d];
    return sum;
}

// Over the lanes that share a row.
template <int LANES, class Op, class C> __device__ inline C row_reduce(Op op, C v) {
    for (int lane = LANES / 2; lane > 0; lane /= 2) v = op.join(v, __shfl_xor_sync(0xffffffff, v, lane));
    return v;
}

// The block's head, and the first of its rows: heads of `rows` rows are cut into parts of `each`.
struct Part {
    i64 head, row0;
    __device__ inline Part(i64 rows, int each) {
        i64 parts = (rows + each - 1) / each;
        head = blockIdx.x / parts;
        row0 = (blockIdx.x - head * parts) * each;
    }
};

// Queries of a tile of a head
template <class C, int ROWS, int WIDTH> struct Forward {
    Row<C, ROWS, WIDTH> q, kv;
    C p[ROWS][ROWS + 1];

    __device__ inline void run(const AttentionArgs& a) {
        const int LANES = ATTENTION_THREADS / ROWS;
        int row = threadIdx.x / LANES, lane = threadIdx.x % LANES;
        const Part part(a.queries, ROWS);
        i64 head = part.head, query0 = part.row0, query = query0 + row;
        C acc[WIDTH / LANES] = {}, most = Limits<C>::least(), total = 0;
        load_rows(q, a.q, head, query0, a.queries, a.width);
        i64 end = keys_of(a, query0 + ROWS);
        for (i64 key0 = 0; key0 < end; key0 += ROWS) {
            load_rows(kv, a.k, head, key0, a.keys, a.width);
            __syncthreads();
            C largest = most;
            for (int c = lane; c < ROWS; c += LANES) {
                bool counts = attends(a, head, query, key0 + c);
                C s = counts ? dot<C, WIDTH>(q.value[row], kv.value[c]) * (C)a.scale : Limits<C>::least();
                largest = s > largest ? s : largest;
                p[row][c] = s;
            }
            largest = row_reduce<LANES>(Larger{}, largest);
            C shift = finite_shift(largest), kept = exp_of(most - shift), sum = 0;
            for (int c = lane; c < ROWS; c += LANES) sum += p[row][c] = exp_of(p[row][c] - shift);
            total = total * kept + row_reduce<LANES>(Add{}, sum);
            most = largest;
            __syncthreads();
            load_rows(kv, a.v, head, key0, a.keys, a.value_width);
            __syncthreads();
#pragma unroll
            for (int j = 0; j < WIDTH / LANES; ++j) acc[j] *= kept;
#pragma unroll 2
            for (int c = 0; c < ROWS; ++c) {
                C weight = p[row][c];
#pragma unroll
                for (int j = 0; j < WIDTH / LANES; ++j) acc[j] += weight * kv.value[c][lane + j * LANES];
            }
            __syncthreads();
        }
        if (query >= a.queries) return;
#pragma unroll
        for (int j = 0; j < WIDTH / LANES; ++j) {
            int d = lane + j * LANES;
            C y = total == 0 ? (C)0 : acc[j] / total;
            if (d < a.value_width) store_as(a.out, a.dtype, result_row(a, head, query) * a.value_width + d, y);
        }
        if (lane == 0) ((C*)a.lse)[head * a.queries + query] = log_of(total) + finite_shift(most);
    }
};

// Sums of y * grad, one thread per query.
template <class C> __device__ void attention_delta(const AttentionArgs& a, i64 rows) {
    FOR_EACH(i, rows) {
        C sum = 0;
        for (i64 d = 0; d < a.value_width; ++d) {
            sum += load<C>(a.y, i * a.value_width + d) * load<C>(a.grad, i * a.value_width + d);
        }
        ((C*)a.delta)[i] = sum;
    }
}

struct AttentionDeltaArgs { AttentionArgs of; i64 rows; };

KERNEL(attention_delta_f32, AttentionDeltaArgs) { attention_delta<float>(a.of, a.rows); }
KERNEL(attention_delta_f64, AttentionDeltaArgs) { attention_delta<double>(a.of, a.rows); }

// A pair's probability and the gradient of its score; 0 where it does not count.
template <class C, int WIDTH>
__device__ inline void pair_gradient(const AttentionArgs& a, i64 head, i64 query, i64 key, const C* q, const C* k,
                                     const C* v, const C* g, C& p, C& ds) {
    p = ds = 0;
    if (!attends(a, head, query, key)) return;
    i64 i = head * a.queries + query;
    p = exp_of(dot<C, WIDTH>(q, k) * (C)a.scale - finite_shift(((const C*)a.lse)[i]));
    ds = p * (dot<C, WIDTH>(g, v) - ((const C*)a.delta)[i]) * (C)a.scale;
}

// Gradient of the queries of a tile
template <class C, int ROWS, int WIDTH> struct GradientOfQueries {
    Row<C, ROWS, WIDTH> q, g, k, v;
    C ds[ROWS][ROWS + 1];

    __device__ inline void run(const AttentionArgs& a) {
        const int LANES = ATTENTION_THREADS / ROWS;
        int row = threadIdx.x / LANES, lane = threadIdx.x % LANES;
        const Part part(a.queries, ROWS);
        i64 head = part.head, query0 = part.row0, query = query0 + row;
        C acc[WIDTH / LANES] = {};
        load_rows(q, a.q, head, query0, a.queries, a.width);
        load_rows(g, a.grad, head, query0, a.queries, a.value_width);
        i64 end = keys_of(a, query0 + ROWS);
        for (i64 key0 = 0; key0 < end; key0 += ROWS) {
            load_rows(k, a.k, head, key0, a.keys, a.width);
            load_rows(v, a.v, head, key0, a.keys, a.value_width);
            __syncthreads();
#pragma unroll 1
            for (int c = lane; c < ROWS; c += LANES) {
                C p;
                pair_gradient<C, WIDTH>(a, head, query, key0 + c, q.value[row], k.value[c], v.value[c], g.value[row], p,
                                        ds[row][c]);
            }
            __syncthreads();
#pragma unroll 4
            for (int c = 0; c < ROWS; ++c) {
                C slope = ds[row][c];
#pragma unroll
                for (int j = 0; j < WIDTH / LANES; ++j) acc[j] += slope * k.value[c][lane + j * LANES];
            }
            __syncthreads();
        }
        if (query >= a.queries) return;
#pragma unroll
        for (int j = 0; j < WIDTH / LANES; ++j) {
            int d = lane + j * LANES;
            if (d < a.width) store_as(a.out, a.dtype, (head * a.queries + query) * a.width + d, acc[j]);
        }
    }
};

// Gradients of the keys and values of a tile
template <class C, int ROWS, int WIDTH> struct GradientOfKeys {
    Row<C, ROWS, WIDTH> q, g, k, v;
    C p[ROWS][ROWS + 1], ds[ROWS][ROWS + 1];

    __device__ inline void run(const AttentionArgs& a) {
        const int LANES = ATTENTION_THREADS / ROWS;
        int row = threadIdx.x / LANES, lane = threadIdx.x % LANES;
        const Part part(a.keys, ROWS);
        i64 head = part.head, key0 = part.row0, key = key0 + row;
        C dk[WIDTH / LANES] = {}, dv[WIDTH / LANES] = {};
        load_rows(k, a.k, head, key0, a.keys, a.width);
        load_rows(v, a.v, head, key0, a.keys, a.value_width);
        for (i64 query0 = a.causal ? key0 / ROWS * ROWS : 0; query0 < a.queries; query0 += ROWS) {
            load_rows(q, a.q, head, query0, a.queries, a.width);
            load_rows(g, a.grad, head, query0, a.queries, a.value_width);
            __syncthreads();
#pragma unroll 1
            for (int c = lane; c < ROWS; c += LANES) {
                pair_gradient<C, WIDTH>(a, head, query0 + c, key, q.value[c], k.value[row], v.value[row], g.value[c],
                                        p[row][c], ds[row][c]);
            }
            __syncthreads();
#pragma unroll 4
            for (int c = 0; c < ROWS; ++c) {
                C weight = p[row][c], slope = ds[row][c];
#pragma unroll
                for (int j = 0; j < WIDTH / LANES; ++j) {
                    dk[j] += slope * q.value[c][lane + j * LANES];
                    dv[j] += weight * g.value[c][lane + j * LANES];
                }
            }
            __syncthreads();
        }
        if (key >= a.keys) return;
#pragma unroll
        for (int j = 0; j < WIDTH / LANES; ++j) {
            int d = lane + j * LANES;
            i64 i = head * a.keys + key;
            if (d < a.width) store_as(a.out_k, a.dtype, i * a.width + d, dk[j]);
            if (d < a.value_width) store_as(a.out_v, a.dtype, i * a.value_width + d, dv[j]);
        }
    }
};

// Vectors of up to 64, 128 and 256 elements; tiles as large as 48 KB of shared memory allow.
#define ATTENTION(name, C, forward_rows, backward_rows, width)                   \
    KERNEL_OF(attention_##name, AttentionArgs, ATTENTION_THREADS) {              \
        __shared__ Forward<C, forward_rows, width> block;                        \
        block.run(a);                                                            \
    }                                                                            \
    KERNEL_OF(attention_grad_q_##name, AttentionArgs, ATTENTION_THREADS) {       \
        __shared__ GradientOfQueries<C, backward_rows, width> block;             \
        block.run(a);                                                            \
    }                                                                            \
    KERNEL_OF(attention_grad_k_##name, AttentionArgs, ATTENTION_THREADS) {       \
        __shared__ GradientOfKeys<C, backward_rows, width> block;                \
        block.run(a);                                                            \
    }
ATTENTION(64_f32, float, 32, 32, 64)
ATTENTION(128_f32, float, 32, 16, 128)
ATTENTION(256_f32, float, 16, 8, 256)
ATTENTION(64_f64, double, 16, 16, 64)
ATTENTION(128_f64, double, 16, 8, 128)
ATTENTION(256_f64, double, 8, 4, 256)

// -------------------------------------------------------------------------------------------------------------------
// Vectors of any length: a block owns one query (or key), a thread one pair at a time, and sums wait in memory

template <class C> __device__ inline C long_dot(const Operand& x, i64 i, const Operand& y, i64 j, i64 width) {
    C sum = 0;
    for (i64 d = 0; d < width; ++d) sum += load<C>(x, i * width + d) * load<C>(y, j * width + d);
    return sum;
}

// sums = sums * kept + the rows of x from `first` on times their weights
template <class C>
__device__ inline void add_rows(C* sums, C kept, const C* weights, const Operand& x, i64 first, i64 rows, i64 width) {
    for (i64 d = threadIdx.x; d < width; d += blockDim.x) {
        C sum = sums[d] * kept;
        for (i64 c = 0; c < rows; ++c) sum += weights[c] * load<C>(x, (first + c) * width + d);
        sums[d] = sum;
    }
}

template <class C> struct AnyForward {
    C weights[ATTENTION_THREADS], shared[WARP];

    __device__ inline void run(const AttentionArgs& a) {
        const Part part(a.queries, 1);
        i64 head = part.head, query = part.row0, row = head * a.queries + query;
        i64 end = keys_of(a, query + 1);
        C* sums = (C*)a.sums + row * a.value_width;
        C most = Limits<C>::least(), total = 0;
        for (i64 key0 = 0; key0 < end; key0 += blockDim.x) {
            i64 key = key0 + threadIdx.x, first = head * a.keys + key0, rows = end - key0 < blockDim.x ? end - key0 : blockDim.x;
            bool counts = key < end && attends(a, head, query, key);
            C s = counts ? long_dot<C>(a.q, row, a.k, first + threadIdx.x, a.width) * (C)a.scale : Limits<C>::least();
            C largest = block_reduce(Larger{}, s > most ? s : most, shared);
            C shift = finite_shift(largest), kept = exp_of(most - shift), p = exp_of(s - shift);
            weights[threadIdx.x] = p;
            total = total * kept + block_reduce(Add{}, p, shared);
            most = largest;
            add_rows(sums, kept, weights, a.v, first, rows, a.value_width);
            __syncthreads();
        }
        for (i64 d = threadIdx.x; d < a.value_width; d += blockDim.x) {
            store_as(a.out, a.dtype, result_row(a, head, query) * a.value_width + d, total == 0 ? (C)0 : sums[d] / total);
        }
        if (threadIdx.x == 0) ((C*)a.lse)[row] = log_of(total) + finite_shift(most);
    }
};

template <class C> struct AnyGradient {
    C weights[ATTENTION_THREADS], slopes[ATTENTION_THREADS];

    // The thread's pair: its probability and the gradient of its score.
    __device__ inline void pair(const AttentionArgs& a, i64 head, i64 query, i64 key) {
        C p = 0, ds = 0;
        if (attends(a, head, query, key)) {
            i64 i = head * a.queries + query, j = head * a.keys + key;
            p = exp_of(long_dot<C>(a.q, i, a.k, j, a.width) * (C)a.scale - finite_shift(((const C*)a.lse)[i]));
            ds = p * (long_dot<C>(a.grad, i, a.v, j, a.value_width) - ((const C*)a.delta)[i]) * (C)a.scale;
        }
        weights[threadIdx.x] = p;
        slopes[threadIdx.x] = ds;
        __syncthreads();
    }

    __device__ inline void of_query(const AttentionArgs& a) {
        const Part part(a.queries, 1);
        i64 head = part.head, query = part.row0, row = head * a.queries + query;
        i64 end = keys_of(a, query + 1);
        C* sums = (C*)a.sums + row * a.width;
        for (i64 key0 = 0; key0 < end; key0 += blockDim.x) {
            pair(a, head, query, key0 + threadIdx.x);
            i64 rows = end - key0 < blockDim.x ? end - key0 : blockDim.x;
            add_rows(sums, (C)1, slopes, a.k, head * a.keys + key0, rows, a.width);
            __syncthreads();
        }
        for (i64 d = threadIdx.x; d < a.width; d += blockDim.x) store_as(a.out, a.dtype, row * a.width + d, sums[d]);
    }

    __device__ inline void of_key(const AttentionArgs& a) {
        const Part part(a.keys, 1);
        i64 head = part.head, key = part.row0, row = head * a.keys + key;
        C *dk = (C*)a.sums + row * a.width, *dv = (C*)a.sums_v + row * a.value_width;
        for (i64 query0 = a.causal ? key : 0; query0 < a.queries; query0 += blockDim.x) {
            pair(a, head, query0 + threadIdx.x, key);
            i64 rows = a.queries - query0 < blockDim.x ? a.queries - query0 : blockDim.x, first = head * a.queries + query0;
            add_rows(dk, (C)1, slopes, a.q, first, rows, a.width);
            add_rows(dv, (C)1, weights, a.grad, first, rows, a.value_width);
            __syncthreads();
        }
        for (i64 d = threadIdx.x; d < a.width; d += blockDim.x) store_as(a.out_k, a.dtype, row * a.width + d, dk[d]);
        for (i64 d = threadIdx.x; d < a.value_width; d += blockDim.x) store_as(a.out_v, a.dtype, row * a.value_width + d, dv[d]);
    }
};

#define ANY_ATTENTION(name, C) \
    KERNEL_OF(attention_any_##name, AttentionArgs, ATTENTION_THREADS) { \
        __shared__ AnyForward<C> block; \
        block.run(a); \
    } \
    KERNEL_OF(attention_grad_q_any_##name, AttentionArgs, ATTENTION_THREADS) { \
        __shared__ AnyGradient<C> block; \
        block.of_query(a); \
    } \
    KERNEL_OF(attention_grad_k_any_##name, AttentionArgs, ATTENTION_THREADS) { \
        __shared__ AnyGradient<C> block; \
        block.of_key(a); \
    }
ANY_ATTENTION(f32, float)
ANY_ATTENTION(f64, double)
