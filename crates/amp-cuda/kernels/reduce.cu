// Reductions along any axes, moments, and positions of extremes.
//
// The elements of one output lie at kept position + inner position, for all positions of the reduced axes. Long
// reductions are split: the host folds the partial results, a tensor [splits, outputs], with the same kernels until one
// is left, so that the order of additions depends on sizes alone.
#include "lines.cuh"

enum Reduce { SUM, MEAN, PROD, MAX, MIN, SUM_SQUARES, SUM_ABS, ALL, ANY };

struct ReduceArgs {
    Operand x;      // the tensor itself, in packs if it can be
    Operand kept;   // position of each output's first element
    Operand inner;  // distances of the others from it
    void* y;        // [splits, outputs]
    i64 outputs;
    i64 count;      // elements of one output
    i64 per_split;
    int op;
    int out;
    double divisor;  // of a mean
    int height;      // threads of a column
};

// Elements blockIdx.y * per_split and so on of an output, up to `count`.
template <class Args> struct Part {
    const Args& a;
    i64 start, end, first;

    __device__ inline Part(const Args& a, i64 output)
        : a(a), start(blockIdx.y * a.per_split), end(least(start + a.per_split, a.count)), first(place(a.kept, output)) {}

    template <class C> __device__ inline C head() const { return load_at<C>(a.kept, first + place(a.inner, start)); }

    // f(v) with W elements of a thread's share after the other; `missing` stands for what of a pack is other outputs'.
    template <int W, class C, class Team, class F> __device__ inline void each(Team team, C missing, F f) const {
        if constexpr (W == 1) {
            for (i64 r = start + team.rank(); r < end; r += team.size()) {
                C v[1] = {load_at<C>(a.kept, first + place(a.inner, r))};
                f(v);
            }
        } else {
            i64 run = a.inner.shape[a.inner.rank - 1];
            each_run(start, end, run, 2 * W, [&](Lanes lanes, i64 number, i64 from, i64 to) {
                Line<C, W> line = {first + place(a.inner, number * run) + from, to - from, 1};
                line.template each<2>(lanes, {&a.x}, missing, [&](i64, const C (&v)[1][W]) { f(v[0]); });
            });
        }
    }
};

// Whether elements of an output are neighbours, in packs.
template <class Args> __device__ inline bool in_packs(const Args& a) {
    int last = a.inner.rank - 1;
    return in_packs(a.x) && a.inner.strides[last] == 1 && a.inner.shape[last] >= PACK;
}

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
template <class C, int W, class Team> __device__ void reduce(const ReduceArgs& a, Team team) {
    i64 output = least(team.number(), a.outputs - 1);
    Fold fold = {a.op};
    C acc = fold.start<C>();
    Part<ReduceArgs>(a, output).template each<W>(team, acc, [&](const C (&v)[W]) {
        for (int j = 0; j < W; ++j) acc = fold.join(acc, fold.map(v[j]));
    });
    acc = team.reduce(fold, acc);
    if (team.rank() == 0 && team.number() < a.outputs) {
        if (a.op == MEAN) acc = acc / (C)a.divisor;
        store_as(a.y, a.out, blockIdx.y * a.outputs + output, acc);
    }
}

// The kernels of outputs: by blocks where their elements are neighbours, else by columns of a block.
#define OUTPUT_KERNELS(stem, Args, name, C)                                                 \
    KERNEL(stem##_rows_##name, Args) {                                                      \
        __shared__ C shared[WARP];                                                          \
        stem<C, 1>(a, BlockTeam<C>{shared});                                                \
    }                                                                                       \
    OUTPUT_COLUMNS(stem, Args, name, C)
#define OUTPUT_KERNELS_IN_PACKS(stem, Args)                                                 \
    ROW_KERNEL_IN_PACKS(stem, Args)                                                         \
    OUTPUT_COLUMNS(stem, Args, f32, float)
#define OUTPUT_COLUMNS(stem, Args, name, C)                                                 \
    KERNEL(stem##_columns_##name, Args) {                                                   \
        __shared__ C shared[THREADS];                                                       \
        stem<C, 1>(a, ColumnTeam<C>{shared, a.height});                                     \
    }

OUTPUT_KERNELS_IN_PACKS(reduce, ReduceArgs)
OUTPUT_KERNELS(reduce, ReduceArgs, f64, double)
OUTPUT_KERNELS(reduce, ReduceArgs, i64, i64)

// -------------------------------------------------------------------------------------------------------------------
// Mean and sum of squared deviations

struct MomentsArgs {
    Operand x;
    Operand kept;
    Operand inner;
    void* mean;     // [splits, outputs]
    void* squares;  // [splits, outputs]
    i64 outputs;
    i64 count;
    i64 per_split;
    int height;
};

// Two passes over part blockIdx.y of the elements of an output; results are C.
template <class C, int W, class Team> __device__ void moments(const MomentsArgs& a, Team team) {
    i64 output = least(team.number(), a.outputs - 1);
    Part<MomentsArgs> part(a, output);
    C mean = 0, squares = 0;
    part.template each<W>(team, (C)0, [&](const C (&v)[W]) {
        for (int j = 0; j < W; ++j) mean += v[j];
    });
    mean = team.reduce(Add{}, mean) / (C)(part.end - part.start);
    part.template each<W>(team, mean, [&](const C (&v)[W]) {
        for (int j = 0; j < W; ++j) squares += (v[j] - mean) * (v[j] - mean);
    });
    squares = team.reduce(Add{}, squares);
    bool rounding = may_be_rounding(mean, squares, part.end - part.start);
    C head = rounding ? part.template head<C>() : mean, others = 0;
    if (rounding) {
        part.template each<W>(team, head, [&](const C (&v)[W]) {
            for (int j = 0; j < W; ++j) others += v[j] != head;
        });
    }
    // Every line of a column's block comes here, for the barrier's sake.
    others = team.reduce(Add{}, others);
    if (rounding && others == 0) {
        mean = head;
        squares = 0;
    }
    if (team.rank() == 0 && team.number() < a.outputs) {
        ((C*)a.mean)[blockIdx.y * a.outputs + output] = mean;
        ((C*)a.squares)[blockIdx.y * a.outputs + output] = squares;
    }
}

OUTPUT_KERNELS_IN_PACKS(moments, MomentsArgs)
OUTPUT_KERNELS(moments, MomentsArgs, f64, double)

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
    int height;
};

// Elements of part `s`.
template <class C> __device__ inline C size_of_part(const VarianceArgs& a, i64 s) {
    return (C)least(a.count - s * a.per_split, a.per_split);
}

// Joins the parts of each output (Chan, Golub, LeVeque), exactly where all of them are the same; the variance divides by
// count - correction.
template <class C> __device__ void variance(const VarianceArgs& a, ColumnTeam<C> team) {
    i64 output = least(team.number(), a.outputs - 1);
    const C *means = (const C*)a.mean + output, *sums = (const C*)a.squares + output;
    C first = means[0], mean = 0, squares = 0;
    each_part(team, means, a.splits, a.outputs, [&](i64 s, C other) {
        if (other != first) mean += (other - first) * size_of_part<C>(a, s);
    });
    each_part(team, sums, a.splits, a.outputs, [&](i64, C part) { squares += part; });
    mean = first + team.reduce(Add{}, mean) / (C)a.count;
    each_part(team, means, a.splits, a.outputs, [&](i64 s, C other) {
        C d = other - mean;
        squares += d * (d * size_of_part<C>(a, s));
    });
    squares = team.reduce(Add{}, squares);
    if (team.rank() != 0 || team.number() >= a.outputs) return;
    double degrees = (double)a.count - a.correction;
    C var = squares / (C)(degrees > 0 ? degrees : 0);
    if (a.mean_out) store_as(a.mean_out, a.out, output, a.count == 0 ? (C)NAN : mean);
    store_as(a.var_out, a.out, output, var);
    if (a.rstd_out) store_as(a.rstd_out, a.out, output, 1 / sqrt_of(var + (C)a.eps));
}

KERNEL(variance_f32, VarianceArgs) {
    __shared__ float shared[THREADS];
    variance(a, ColumnTeam<float>{shared, a.height});
}
KERNEL(variance_f64, VarianceArgs) {
    __shared__ double shared[THREADS];
    variance(a, ColumnTeam<double>{shared, a.height});
}

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
