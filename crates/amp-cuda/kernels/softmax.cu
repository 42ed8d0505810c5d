// Softmax, log-softmax, log-sum-exp and their gradients along one axis.
//
// A line's elements are `inner` apart in row-major order. The sum takes one pass over it, the result a second.
#include "lines.cuh"

struct SoftmaxArgs {
    Operand x;
    void* y;
    i64 lines;
    i64 len;
    i64 inner;
    int log;
    int out;
};

// NaN, and infinite maxima, make the sum NaN, and nothing but -infinity makes it 0: the whole line is NaN.
template <class C, int W, class Team> __device__ void softmax(const SoftmaxArgs& a, Team team) {
    if (team.number() >= a.lines) return;
    Line<C, W> line = {line_base(team.number(), a.len, a.inner), a.len, a.inner};
    SumExp<C> all;
    line.template each<2>(team, {&a.x}, Limits<C>::least(), [&](i64, const C (&v)[1][W]) { all.add(v[0]); });
    all.join(team);
    C log_sum = a.log ? log_of(all.sum) : 0, scale = 1 / all.sum;
    line.template each<2>(team, {&a.x}, all.largest, [&](i64 k, const C (&v)[1][W]) {
        C y[W];
        for (int j = 0; j < W; ++j) {
            C shifted = v[0][j] - all.largest;
            y[j] = a.log ? shifted - log_sum : exp_fast(shifted) * scale;
        }
        line.store(a.y, a.out, k, y);
    });
}

// An infinite maximum is its own result, unless there is NaN too; shifting by it makes NaN.
template <class C, int W, class Team> __device__ void logsumexp(const SoftmaxArgs& a, Team team) {
    if (team.number() >= a.lines) return;
    Line<C, W> line = {line_base(team.number(), a.len, a.inner), a.len, a.inner};
    SumExp<C> all;
    line.template each<2>(team, {&a.x}, Limits<C>::least(), [&](i64, const C (&v)[1][W]) { all.add(v[0]); });
    all.join(team);
    C result = all.largest + log_of(all.sum);
    if (all.largest == Limits<C>::greatest()) {
        C unknown = 0;
        line.template each<2>(team, {&a.x}, 0, [&](i64, const C (&v)[1][W]) {
            for (int j = 0; j < W; ++j) unknown += is_nan(v[0][j]);
        });
        if (team.reduce(Add{}, unknown) == 0) result = all.largest;
    }
    if (team.rank() == 0) store_as(a.y, a.out, team.number(), result);
}

struct SoftmaxGradArgs {
    Operand y;     // output of the forward pass
    Operand grad;  // gradient of it
    void* dx;
    i64 lines;
    i64 len;
    i64 inner;
    int log;
    int out;
};

// softmax: y (g - sum(g y)); log-softmax: g - exp(y) sum(g)
template <class C, int W, class Team> __device__ void softmax_grad(const SoftmaxGradArgs& a, Team team) {
    if (team.number() >= a.lines) return;
    Line<C, W> line = {line_base(team.number(), a.len, a.inner), a.len, a.inner};
    C sum = 0;
    line.each(team, {&a.grad, &a.y}, 0, [&](i64, const C (&v)[2][W]) {
        for (int j = 0; j < W; ++j) sum += a.log ? v[0][j] : v[0][j] * v[1][j];
    });
    sum = team.reduce(Add{}, sum);
    line.each(team, {&a.grad, &a.y}, 0, [&](i64 k, const C (&v)[2][W]) {
        C d[W];
        for (int j = 0; j < W; ++j) d[j] = a.log ? v[0][j] - exp_fast(v[1][j]) * sum : v[1][j] * (v[0][j] - sum);
        line.store(a.dx, a.out, k, d);
    });
}

__device__ inline bool in_packs(const SoftmaxArgs& a) { return in_packs(a.x) && in_packs(a.out); }
__device__ inline bool in_packs(const SoftmaxGradArgs& a) { return in_packs(a.y) && in_packs(a.grad) && in_packs(a.out); }

LINE_KERNELS(softmax, SoftmaxArgs)
LINE_KERNELS(logsumexp, SoftmaxArgs)
LINE_KERNELS(softmax_grad, SoftmaxGradArgs)
