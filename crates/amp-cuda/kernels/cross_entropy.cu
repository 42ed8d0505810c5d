// Softmax and cross-entropy in one pass, and its gradient.
#include "common.cuh"

struct CrossEntropyArgs {
    Operand logits;         // lines of classes, `inner` apart
    Operand targets;        // [N] class of each line
    Operand weight;         // [C] weight of each class; null data for ones
    Operand lse;            // [N] for the gradient: what the forward pass returned
    Operand scale;          // [N] for the gradient: gradient of each line's loss
    void* loss;             // [N] forward only, 0 for ignored lines
    void* lse_out;          // [N] forward only, ln(sum(exp(logits)))
    void* dx;               // as the logits, gradient only
    i64 lines;
    i64 classes;
    i64 inner;
    i64 ignore_index;
    double smoothing;       // share of the target that is spread evenly over all classes
    int out;
};

// A target that a check has refused must not reach past the end before the host hears of it.
__device__ inline i64 within(i64 target, i64 classes) { return target >= 0 && target < classes ? target : 0; }

template <class C> __device__ inline C weight_of(const CrossEntropyArgs& a, i64 k) {
    return a.weight.data ? load<C>(a.weight, k) : (C)1;
}

// Sum of the class weights; the whole team gets it.
template <class C, class Team> __device__ inline C total_weight(const CrossEntropyArgs& a, Team team) {
    if (!a.weight.data) return (C)a.classes;
    C total = 0;
    for (i64 k = team.rank(); k < a.classes; k += team.size()) total += weight_of<C>(a, k);
    return team.reduce(Add{}, total);
}

// Line `team.number()`: weighted loss and log-sum-exp.
template <class C, class Team> __device__ void cross_entropy(const CrossEntropyArgs& a, Team team) {
    i64 line = team.number();
    if (line >= a.lines) return;
    i64 base = line_base(line, a.classes, a.inner), target = load<i64>(a.targets, line);
    if (target == a.ignore_index) {
        if (team.rank() == 0) ((C*)a.loss)[line] = ((C*)a.lse_out)[line] = 0;
        return;
    }
    C max = Limits<C>::least(), sum = 0, weighted = 0;
    for (i64 k = team.rank(); k < a.classes; k += team.size()) {
        C x = load<C>(a.logits, base + k * a.inner);
        max = Greatest{}.join(max, x);
    }
    max = team.reduce(Greatest{}, max);
    // Relative to the largest, so that logits far from zero keep their digits. One that is infinite makes all NaN, as it makes the
    // softmax.
    bool none = max == Limits<C>::least();
    C shift = none ? (C)0 : max;
    for (i64 k = team.rank(); k < a.classes; k += team.size()) {
        C x = load<C>(a.logits, base + k * a.inner) - shift;
        sum += exp_of(x);
        if (a.smoothing != 0) weighted += weight_of<C>(a, k) * x;
    }
    sum = team.reduce(Add{}, sum);
    i64 sure = within(target, a.classes);
    C lse = none ? max : log_of(sum);
    C loss = (C)(1 - a.smoothing) * weight_of<C>(a, sure) * (lse - (load<C>(a.logits, base + sure * a.inner) - shift));
    if (a.smoothing != 0) {
        weighted = team.reduce(Add{}, weighted);
        loss += (C)(a.smoothing / (double)a.classes) * (total_weight<C>(a, team) * lse - weighted);
    }
    if (team.rank() == 0) {
        ((C*)a.loss)[line] = loss;
        ((C*)a.lse_out)[line] = shift + lse;
    }
}

// A log-sum-exp so far from zero that its rounding shows in the softmax.
template <class C> __device__ inline bool rounded(C lse) { return !(lse > -(C)32 && lse < (C)32); }

// Line `team.number()`: (softmax - target) times the line's scale.
template <class C, class Team> __device__ void cross_entropy_grad(const CrossEntropyArgs& a, Team team) {
    i64 line = team.number();
    if (line >= a.lines) return;
    i64 base = line_base(line, a.classes, a.inner), target = load<i64>(a.targets, line);
    bool ignored = target == a.ignore_index;
    C sharp = ignored ? (C)0 : (C)(1 - a.smoothing) * weight_of<C>(a, within(target, a.classes));
    C even = (C)(a.smoothing / (double)a.classes), scale = load<C>(a.scale, line), lse = load<C>(a.lse, line);
    C all = (sharp + (a.smoothing != 0 ? even * total_weight<C>(a, team) : (C)0)) * scale;
    if (!ignored && rounded(lse)) {
        C sum = 0;
        for (i64 k = team.rank(); k < a.classes; k += team.size()) sum += exp_of(load<C>(a.logits, base + k * a.inner) - lse);
        all /= team.reduce(Add{}, sum);
    }
    for (i64 k = team.rank(); k < a.classes; k += team.size()) {
        C d = 0;
        if (!ignored) {
            d = exp_of(load<C>(a.logits, base + k * a.inner) - lse) * all - even * weight_of<C>(a, k) * scale;
            if (k == target) d -= sharp * scale;
        }
        store_as(a.dx, a.out, base + k * a.inner, d);
    }
}

#define CROSS_ENTROPY(stem, C, name)                                                                    \
    KERNEL(stem##_rows_##name, CrossEntropyArgs) {                                                      \
        __shared__ C shared[WARP];                                                                      \
        stem<C>(a, BlockTeam<C>{shared});                                                               \
    }                                                                                                   \
    KERNEL(stem##_columns_##name, CrossEntropyArgs) { stem<C>(a, ThreadTeam<C>{nullptr}); }
CROSS_ENTROPY(cross_entropy, float, f32)
CROSS_ENTROPY(cross_entropy, double, f64)
CROSS_ENTROPY(cross_entropy_grad, float, f32)
CROSS_ENTROPY(cross_entropy_grad, double, f64)
#undef CROSS_ENTROPY
