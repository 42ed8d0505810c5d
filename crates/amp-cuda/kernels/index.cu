// Selecting, gathering and adding by index. Sums run over sources in their order, so they are deterministic.
#include "common.cuh"

// The first index outside 0..size that a check met since the host last asked.
struct BadIndex { i64 check, index, found; };

struct CheckArgs {
    Operand index;
    BadIndex* bad;
    i64 n;
    i64 size;
    i64 ignored;      // allowed all the same, if has_ignored
    i64 check;        // number of this check
    int has_ignored;
};

// One block: position of the first bad index, reported unless an earlier check has.
KERNEL(check_indices, CheckArgs) {
    __shared__ i64 shared[WARP];
    i64 first = a.n;
    for (i64 i = threadIdx.x; i < a.n && first == a.n; i += blockDim.x) {
        i64 index = load<i64>(a.index, i);
        if ((index < 0 || index >= a.size) && !(a.has_ignored && index == a.ignored)) first = i;
    }
    first = block_reduce(Least{}, first, shared);
    if (threadIdx.x == 0 && first < a.n && !a.bad->found) *a.bad = {a.check, load<i64>(a.index, first), 1};
}

// An index that a check has refused must not reach past the end before the host hears of it.
__device__ inline i64 within(i64 index, i64 size) { return index >= 0 && index < size ? index : 0; }

struct IndexSelectArgs {
    Operand x;      // [outer, len, inner] in row-major order
    Operand index;  // [count]
    void* y;        // [outer, count, inner]
    i64 n;
    i64 len;
    i64 inner;
    i64 count;
    int out;
};

// Slices of x at positions `index`; an embedding is one with outer = 1.
template <class C> __device__ void index_select(const IndexSelectArgs& a) {
    FOR_EACH(i, a.n) {
        i64 row = divide(i, a.inner), outer = divide(row, a.count), at = within(load<i64>(a.index, row - outer * a.count), a.len);
        store_as(a.y, a.out, i, load<C>(a.x, (outer * a.len + at) * a.inner + (i - row * a.inner)));
    }
}

KERNEL(index_select_f32, IndexSelectArgs) { index_select<float>(a); }
KERNEL(index_select_f64, IndexSelectArgs) { index_select<double>(a); }
KERNEL(index_select_i64, IndexSelectArgs) { index_select<i64>(a); }

struct GatherArgs {
    Operand x;
    Operand index;              // its shape is the shape of the result
    void* y;
    i64 n;
    i64 shape[MAX_RANK];        // of index, not merged
    i64 steps[MAX_RANK];        // row-major strides of x, 0 along the axis
    i64 step;                   // row-major stride of x along the axis
    i64 size;                   // of x along the axis
    int rank;
    int out;
};

// Row-major position in the indexed tensor that element i of an index tensor names.
__device__ inline i64 named(const i64* shape, const i64* steps, int rank, i64 i, i64 along) {
    i64 at = along;
#pragma unroll 1
    for (int d = rank - 1; d >= 0; --d) {
        i64 q = divide(i, shape[d]);
        at += (i - q * shape[d]) * steps[d];
        i = q;
    }
    return at;
}

template <class C> __device__ void gather(const GatherArgs& a) {
    FOR_EACH(i, a.n) {
        i64 at = named(a.shape, a.steps, a.rank, i, within(load<i64>(a.index, i), a.size) * a.step);
        store_as(a.y, a.out, i, load<C>(a.x, at));
    }
}

KERNEL(gather_f32, GatherArgs) { gather<float>(a); }
KERNEL(gather_f64, GatherArgs) { gather<double>(a); }
KERNEL(gather_i64, GatherArgs) { gather<i64>(a); }

// Positions named by every element of an index tensor, as I64: what a deterministic scatter sorts by.
KERNEL(scatter_targets, GatherArgs) {
    FOR_EACH(i, a.n) ((i64*)a.y)[i] = named(a.shape, a.steps, a.rank, i, within(load<i64>(a.index, i), a.size) * a.step);
}

struct TargetsArgs {
    Operand index;
    i64* y;
    i64 n;
    i64 size;
};

// A slice index as I64.
KERNEL(slice_targets, TargetsArgs) { FOR_EACH(i, a.n) a.y[i] = within(load<i64>(a.index, i), a.size); }

struct SegmentAddArgs {
    Operand source;     // [outer, count, inner]
    const i64* target;  // [count]; what is for -1 is added nowhere
    const i64* order;   // [count], target sorted stably
    Operand base;       // [outer, len, inner] added to; null data for zeros
    void* y;            // [outer, len, inner], which holds `base` already
    i64 outer;
    i64 count;
    i64 inner;
    i64 len;
    int out;
    int last;           // what is last for a target takes its place
};

// y[target[j]] = base + sum of source[j] over equal targets, in the order of j; a thread per head of a run and column.
template <class C> __device__ void segment_add(const SegmentAddArgs& a) {
    FOR_EACH(t, a.outer * a.count * a.inner) {
        i64 row = divide(t, a.inner), lane = t - row * a.inner, outer = divide(row, a.count), p = row - outer * a.count;
        i64 target = a.target[a.order[p]];
        if (target < 0 || (p > 0 && a.target[a.order[p - 1]] == target)) continue;
        i64 at = (outer * a.len + target) * a.inner + lane;
        C sum = a.base.data ? load<C>(a.base, at) : (C)0;
        for (; p < a.count && a.target[a.order[p]] == target; ++p) {
            C value = load<C>(a.source, (outer * a.count + a.order[p]) * a.inner + lane);
            sum = a.last ? value : plus(sum, value);
        }
        store_as(a.y, a.out, at, sum);
    }
}

KERNEL(segment_add_f32, SegmentAddArgs) { segment_add<float>(a); }
KERNEL(segment_add_f64, SegmentAddArgs) { segment_add<double>(a); }
KERNEL(segment_add_i64, SegmentAddArgs) { segment_add<i64>(a); }
