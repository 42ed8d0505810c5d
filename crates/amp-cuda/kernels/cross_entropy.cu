// Softmax and cross-entropy in one pass, and its gradient.
#include "common.cuh"

struct CrossEntropyArgs {
    Operand logits;         // [N, C]
    Operand targets;        // [N] class of each row
    Operand weight;         // [C] weight of each class; null data for ones
    Operand lse;            // [N] for the gradient: what the forward pass returned
    Operand scale;          // [N] for the gradient: gradient of each row's loss
    void* loss;             // [N] forward only, 0 for ignored rows
    void* lse_out;          // [N] forward only, ln(sum(exp(logits)))
    void* dx;               // [N, C] gradient only
    i64 classes;
    i64 ignore_index;
    double smoothing;       // share of the target that is spread evenly over all classes
    int out;
};

// A target that a check has refused must not reach past the end before the host hears of it.
__device__ inline i64 within(i64 target, i64 classes) { return target >= 0 && target < classes ? target : 0; }

template <class C> __device__ inline C weight_of(const CrossEntropyArgs& a, i64 k) {
    return a.weight.data ? load<C>(a.weight, k) : (C)1;
}

// Sum of the class weights; every thread gets it.
template <class C> __device__ inline C total_weight(const CrossEntropyArgs& a, C* shared) {
    if (!a.weight.data) return (C)a.classes;
    C total = 0;
    for (i64 k = threadIdx.x; k < a.classes; k += blockDim.x) total += weight_of<C>(a, k);
    return block_reduce(Add{}, total, shared);
}

// Row blockIdx.x: weighted loss and log-sum-exp.
template <class C> __device__ void cross_entropy(const CrossEntropyArgs& a, C* shared) {
    i64 row = blockIdx.x, base = row * a.classes, target = load<i64>(a.targets, row);
    if (target == a.ignore_index) {
        if (threadIdx.x == 0) ((C*)a.loss)[row] = ((C*)a.lse_out)[row] = 0;
        return;
    }
    C max = Limits<C>::least(), sum = 0, weighted = 0;
    for (i64 k = threadIdx.x; k < a.classes; k += blockDim.x) {
        C x = load<C>(a.logits, base + k);
        max = Greatest{}.join(max, x);
    }
    max = block_reduce(Greatest{}, max, shared);
    // Relative to the largest, so that logits far from zero keep their digits. One that is infinite makes all NaN, as it makes the
    // softmax.
    bool none = max == Limits<C>::least();
    C shift = none ? (C)0 : max;
    for (i64 k = threadIdx.x; k < a.classes; k += blockDim.x) {
        C x = load<C>(a.logits, base + k) - shift;
        sum += exp_of(x);
        if (a.smoothing != 0) weighted += weight_of<C>(a, k) * x;
    }
    sum = block_reduce(Add{}, sum, shared);
    i64 sure = within(target, a.classes);
    C lse = none ? max : log_of(sum);
    C loss = (C)(1 - a.smoothing) * weight_of<C>(a, sure) * (lse - (load<C>(a.logits, base + sure) - shift));
    if (a.smoothing != 0) {
        weighted = block_reduce(Add{}, weighted, shared);
        loss += (C)(a.smoothing / (double)a.classes) * (total_weight(a, shared) * lse - weighted);
    }
    if (threadIdx.x == 0) {
        ((C*)a.loss)[row] = loss;
        ((C*)a.lse_out)[row] = shift + lse;
    }
}

// A log-sum-exp so far from zero that its rounding shows in the softmax.
template <class C> __device__ inline bool rounded(C lse) { return !(lse > -(C)32 && lse < (C)32); }

// Row blockIdx.x: (softmax - target) times the row's scale.
template <class C> __device__ void cross_entropy_grad(const CrossEntropyArgs& a, C* shared) {
    i64 row = blockIdx.x, base = row * a.classes, target = load<i64>(a.targets, row);
    bool ignored = target == a.ignore_index;
    C sharp = ignored ? (C)0 : (C)(1 - a.smoothing) * weight_of<C>(a, within(target, a.classes));
    C even = (C)(a.smoothing / (double)a.classes), scale = load<C>(a.scale, row), lse = load<C>(a.lse, row);
    C all = (sharp + (a.smoothing != 0 ? even * total_weight(a, shared) : (C)0)) * scale;
    if (!ignored && rounded(lse)) {
        C sum = 0;
        for (i64 k = threadIdx.x; k < a.classes; k += blockDim.x) sum += exp_of(load<C>(a.logits, base + k) - lse);
        all /= block_reduce(Add{}, sum, shared);
    }
    for (i64 k = threadIdx.x; k < a.classes; k += blockDim.x) {
        C d = 0;
        if (!ignored) {
            d = exp_of(load<C>(a.logits, base + k) - lse) * all - even * weight_of<C>(a, k) * scale;
            if (k == target) d -= sharp * scale;
        }
        store_as(a.dx, a.out, base + k, d);
    }
}

KERNEL(cross_entropy_f32, CrossEntropyArgs) { __shared__ float shared[WARP]; cross_entropy<float>(a, shared); }
KERNEL(cross_entropy_f64, CrossEntropyArgs) { __shared__ double shared[WARP]; cross_entropy<double>(a, shared); }
KERNEL(cross_entropy_grad_f32, CrossEntropyArgs) { __shared__ float shared[WARP]; cross_entropy_grad<float>(a, shared); }
KERNEL(cross_entropy_grad_f64, CrossEntropyArgs) { __shared__ double shared[WARP]; cross_entropy_grad<double>(a, shared); }
