// Softmax and cross-entropy in one pass, and its gradient.
#include "lines.cuh"

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
    void* narrow;           // gradient only: null, or where it goes in 16 bits too
    int narrow_type;
};

// A target that a check has refused must not reach past the end before the host hears of it.
__device__ inline i64 within(i64 target, i64 classes) { return target >= 0 && target < classes ? target : 0; }

template <class C> __device__ inline C weight_of(const CrossEntropyArgs& a, i64 k) {
    return a.weight.data ? load<C>(a.weight, k) : (C)1;
}

// Weight by which class k shares in the target that is spread. Lines with such weights are not walked in packs.
template <class C, int W> __device__ inline C share(const CrossEntropyArgs& a, i64 k) {
    return W == 1 && a.smoothing != 0 ? weight_of<C>(a, k) : (C)1;
}

// Sum of the class weights; the whole team gets it.
template <class C, class Team> __device__ inline C total_weight(const CrossEntropyArgs& a, Team team) {
    if (!a.weight.data) return (C)a.classes;
    C total = 0;
    for (i64 k = team.rank(); k < a.classes; k += team.size()) total += weight_of<C>(a, k);
    return team.reduce(Add{}, total);
}

// Line `team.number()`: weighted loss and log-sum-exp.
template <class C, int W, class Team> __device__ void cross_entropy(const CrossEntropyArgs& a, Team team) {
    i64 number = team.number();
    if (number >= a.lines) return;
    Line<C, W> line = {line_base(number, a.classes, a.inner), a.classes, a.inner};
    i64 target = load<i64>(a.targets, number);
    if (target == a.ignore_index) {
        if (team.rank() == 0) ((C*)a.loss)[number] = ((C*)a.lse_out)[number] = 0;
        return;
    }
    SumExp<C> all;
    line.template each<2>(team, {&a.logits}, Limits<C>::least(), [&](i64, const C (&v)[1][W]) { all.add(v[0]); });
    all.join(team);
    // Relative to the largest, so that logits far from zero keep their digits. One that is infinite makes all NaN, as it makes the
    // softmax.
    C shift = all.largest, lse = log_of(all.sum);
    i64 sure = within(target, a.classes);
    C loss = (C)(1 - a.smoothing) * weight_of<C>(a, sure) * (lse - (load<C>(a.logits, line.base + sure * a.inner) - shift));
    if (a.smoothing != 0) {
        C weighted = 0;
        line.template each<2>(team, {&a.logits}, shift, [&](i64 k, const C (&v)[1][W]) {
            for (int j = 0; j < W; ++j) weighted += share<C, W>(a, k) * (v[0][j] - shift);
        });
        weighted = team.reduce(Add{}, weighted);
        loss += (C)(a.smoothing / (double)a.classes) * (total_weight<C>(a, team) * lse - weighted);
    }
    if (team.rank() == 0) {
        ((C*)a.loss)[number] = loss;
        ((C*)a.lse_out)[number] = shift + lse;
    }
}

// A log-sum-exp so far from zero that its rounding shows in the softmax.
template <class C> __device__ inline bool rounded(C lse) { return !(lse > -(C)32 && lse < (C)32); }

// Line `team.number()`: (softmax - target) times the line's scale.
template <class C, int W, class Team> __device__ void cross_entropy_grad(const CrossEntropyArgs& a, Team team) {
    i64 number = team.number();
    if (number >= a.lines) return;
    Line<C, W> line = {line_base(number, a.classes, a.inner), a.classes, a.inner};
    i64 target = load<i64>(a.targets, number);
    bool ignored = target == a.ignore_index;
    C sharp = ignored ? (C)0 : (C)(1 - a.smoothing) * weight_of<C>(a, within(target, a.classes));
    C even = (C)(a.smoothing / (double)a.classes), scale = load<C>(a.scale, number), lse = load<C>(a.lse, number);
    C all = (sharp + (a.smoothing != 0 ? even * total_weight<C>(a, team) : (C)0)) * scale;
    if (!ignored && rounded(lse)) {
        C sum = 0;
        line.template each<2>(team, {&a.logits}, Limits<C>::least(), [&](i64, const C (&v)[1][W]) {
            for (int j = 0; j < W; ++j) sum += exp_fast(v[0][j] - lse);
        });
        all /= team.reduce(Add{}, sum);
    }
    line.template each<2>(team, {&a.logits}, lse, [&](i64 k, const C (&v)[1][W]) {
        C d[W];
        C spread = even * share<C, W>(a, k) * scale;
        for (int j = 0; j < W; ++j) d[j] = ignored ? (C)0 : exp_fast(v[0][j] - lse) * all - spread;
        if (!ignored && target >= k && target < k + W) {
            for (int j = 0; j < W; ++j) if (k + j == target) d[j] -= sharp * scale;
        }
        line.store(a.dx, a.out, k, d);
        if (a.narrow) line.store(a.narrow, a.narrow_type, k, d);
    });
}

__device__ inline bool in_packs(const CrossEntropyArgs& a) {
    return in_packs(a.logits) && in_packs(a.out) && (a.smoothing == 0 || !a.weight.data);
}

LINE_KERNELS(cross_entropy, CrossEntropyArgs)
LINE_KERNELS(cross_entropy_grad, CrossEntropyArgs)
