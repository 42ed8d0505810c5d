// Reductions along any axes, moments, and positions of extremes.
//
// The elements of one output lie at kept position + inner position, for all positions of the reduced axes. Long
// reductions are split: the host folds the partial results, a tensor [splits, outputs], with the same kernels until one
// is left, so that the order of additions depends on sizes alone.
#include "common.cuh"

enum Reduce { SUM, MEAN, PROD, MAX, MIN, SUM_SQUARES, SUM_ABS, ALL, ANY };

struct ReduceArgs {
    Operand kept;   // position of each output's first element
    Operand inner;  // distances of the others from it
    void* y;        // [splits, outputs]
    i64 outputs;
    i64 count;      // elements of one output
    i64 per_split;
    int op;
    int out;
    double divisor;  // of a mean
};

struct Fold {
    int op;
    template <class C> __device__ inline C start() const {
        switch (op) {
            case PROD: case ALL: return (C)1;
            case MAX: return Limits<C>::least();
            case MIN: return Limits<C>::greatest();
            default: return (C)0;
        }
    }
    template <class C> __device__ inline C map(C x) const {
        switch (op) {
            case SUM_SQUARES: return times(x, x);
            case SUM_ABS: return x < 0 ? minus((C)0, x) : x;
            case ALL: case ANY: return x != (C)0 ? (C)1 : (C)0;
            default: return x;
        }
    }
    template <class C> __device__ inline C join(C a, C b) const {
        switch (op) {
            case PROD: case ALL: return times(a, b);
            case MAX: case ANY: return b > a || is_nan(b) ? b : a;
            case MIN: return b < a || is_nan(b) ? b : a;
            default: return plus(a, b);
        }
    }
};

// Output `team.number()`, part blockIdx.y of its elements.
template <class C, class Team> __device__ void reduce(const ReduceArgs& a, Team team) {
    i64 output = team.number();
    if (output >= a.outputs) return;
    Fold fold = {a.op};
    i64 start = blockIdx.y * a.per_split, end = start + a.per_split < a.count ? start + a.per_split : a.count;
    i64 first = place(a.kept, output);
    C acc = fold.start<C>();
    for (i64 r = start + team.rank(); r < end; r += team.size()) {
        acc = fold.join(acc, fold.map(load_at<C>(a.kept, first + place(a.inner, r))));
    }
    acc = team.reduce(fold, acc);
    if (team.rank() == 0) {
        if (a.op == MEAN) acc = acc / (C)a.divisor;
        store_as(a.y, a.out, blockIdx.y * a.outputs + output, acc);
    }
}

#define REDUCE(name, C)                                        \
    KERNEL(reduce_rows_##name, ReduceArgs) {                   \
        __shared__ C shared[WARP];                             \
        reduce<C>(a, BlockTeam<C>{shared});                    \
    }                                                          \
    KERNEL(reduce_columns_##name, ReduceArgs) { reduce<C>(a, ThreadTeam<C>{nullptr}); }
REDUCE(f32, float)
REDUCE(f64, double)
REDUCE(i64, i64)
#undef REDUCE

// -------------------------------------------------------------------------------------------------------------------
// Mean and sum of squared deviations

struct MomentsArgs {
    Operand kept;
    Operand inner;
    void* mean;     // [splits, outputs]
    void* squares;  // [splits, outputs]
    i64 outputs;
    i64 count;
    i64 per_split;
};

// Two passes over part blockIdx.y of the elements of an output; results are C.
template <class C, class Team> __device__ void moments(const MomentsArgs& a, Team team) {
    i64 output = team.number();
    if (output >= a.outputs) return;
    i64 start = blockIdx.y * a.per_split, end = start + a.per_split < a.count ? start + a.per_split : a.count;
    i64 first = place(a.kept, output);
    C sum = 0, squares = 0;
    for (i64 r = start + team.rank(); r < end; r += team.size()) sum += load_at<C>(a.kept, first + place(a.inner, r));
    C mean = team.reduce(Add{}, sum) / (C)(end - start);
    for (i64 r = start + team.rank(); r < end; r += team.size()) {
        C d = load_at<C>(a.kept, first + place(a.inner, r)) - mean;
        squares += d * d;
    }
    squares = team.reduce(Add{}, squares);
    if (may_be_rounding(mean, squares, end - start)) {
        C head = load_at<C>(a.kept, first + place(a.inner, start)), others = 0;
        for (i64 r = start + team.rank(); r < end; r += team.size()) {
            others += load_at<C>(a.kept, first + place(a.inner, r)) != head;
        }
        if (team.reduce(Add{}, others) == 0) {
            mean = head;
            squares = 0;
        }
    }
    if (team.rank() == 0) {
        ((C*)a.mean)[blockIdx.y * a.outputs + output] = mean;
        ((C*)a.squares)[blockIdx.y * a.outputs + output] = squares;
    }
}

#define MOMENTS(name, C)                                        \
    KERNEL(moments_rows_##name, MomentsArgs) {                  \
        __shared__ C shared[WARP];                              \
        moments<C>(a, BlockTeam<C>{shared});                    \
    }                                                           \
    KERNEL(moments_columns_##name, MomentsArgs) { moments<C>(a, ThreadTeam<C>{nullptr}); }
MOMENTS(f32, float)
MOMENTS(f64, double)
#undef MOMENTS

struct VarianceArgs {
    const void* mean;     // [splits, outputs]
    const void* squares;  // [splits, outputs]
    void* mean_out;       // null where nobody asks
    void* var_out;
    void* rstd_out;       // null where nobody asks
    i64 outputs;
    i64 count;
    i64 per_split;
    i64 splits;
    double correction;
    double eps;
    int out;
};

// Merges the parts of each output in order (Chan, Golub, LeVeque); the variance divides by count - correction.
template <class C> __device__ void variance(const VarianceArgs& a) {
    FOR_EACH(output, a.outputs) {
        C count = 0, mean = 0, squares = 0;
        for (i64 s = 0; s < a.splits; ++s) {
            i64 part = a.count - s * a.per_split < a.per_split ? a.count - s * a.per_split : a.per_split;
            C other = ((const C*)a.mean)[s * a.outputs + output], both = count + (C)part;
            if (part == 0) continue;
            C delta = other - mean, share = (C)part / both;
            mean += delta * share;
            squares += ((const C*)a.squares)[s * a.outputs + output] + delta * (delta * (count * share));
            count = both;
        }
        double degrees = (double)a.count - a.correction;
        C var = squares / (C)(degrees > 0 ? degrees : 0);
        if (a.mean_out) store_as(a.mean_out, a.out, output, a.count == 0 ? (C)NAN : mean);
        store_as(a.var_out, a.out, output, var);
        if (a.rstd_out) store_as(a.rstd_out, a.out, output, 1 / sqrt_of(var + (C)a.eps));
    }
}

KERNEL(variance_f32, VarianceArgs) { variance<float>(a); }
KERNEL(variance_f64, VarianceArgs) { variance<double>(a); }

// -------------------------------------------------------------------------------------------------------------------
// Position of the largest or least element: the first of equals, NaN before all numbers, -1 where there is none

struct ArgReduceArgs {
    Operand kept;
    Operand inner;
    i64* y;
    i64 outputs;
    i64 count;
    int max;
};

template <class C> struct Best {
    C value;
    i64 at;
    // Whether `b` is to be preferred.
    static __device__ inline bool later(const Best& a, const Best& b, int max) {
        if (b.at < 0) return false;
        if (a.at < 0) return true;
        if (is_nan(a.value) || is_nan(b.value)) return is_nan(b.value) && (!is_nan(a.value) || b.at < a.at);
        if (a.value == b.value) return b.at < a.at;
        return max ? b.value > a.value : b.value < a.value;
    }
};

template <class C> __device__ void arg_reduce(const ArgReduceArgs& a, Best<C>* shared) {
    i64 first = place(a.kept, blockIdx.x);
    Best<C> best = {0, -1};
    for (i64 r = threadIdx.x; r < a.count; r += blockDim.x) {
        Best<C> other = {load_at<C>(a.kept, first + place(a.inner, r)), r};
        if (Best<C>::later(best, other, a.max)) best = other;
    }
    shared[threadIdx.x] = best;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half && Best<C>::later(shared[threadIdx.x], shared[threadIdx.x + half], a.max)) {
            shared[threadIdx.x] = shared[threadIdx.x + half];
        }
    }
    if (threadIdx.x == 0) a.y[blockIdx.x] = shared[0].at;
}

KERNEL(arg_reduce_f32, ArgReduceArgs) { __shared__ Best<float> shared[THREADS]; arg_reduce<float>(a, shared); }
KERNEL(arg_reduce_f64, ArgReduceArgs) { __shared__ Best<double> shared[THREADS]; arg_reduce<double>(a, shared); }
KERNEL(arg_reduce_i64, ArgReduceArgs) { __shared__ Best<i64> shared[THREADS]; arg_reduce<i64>(a, shared); }
