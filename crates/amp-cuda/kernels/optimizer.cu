// Optimizers, the gradient scaler, norms and clipping: one launch for many tensors.
//
// The scale, whether a gradient was not finite, and the growth counter live in device memory (ScalerState) and are read
// there: a step never waits for the host. An optimizer reads scaled gradients, unscales them, does nothing where the
// step is to be skipped, and writes the 16-bit copies of the parameters in the same pass.
#include "common.cuh"

// Tensors of one launch; blockIdx.y is the tensor.
#define TENSORS 24

// The scale is 2^exponent; every field is one the host uploads and downloads as it is.
struct ScalerState {
    int exponent;
    int tracker;       // clean steps since the last change
    int refused;       // backoffs refused at the floor, one after the other
    int found_inf;     // sum over the optimizers of this iteration
};

struct Gradient {
    void* data;
    i64 n;
    int dtype;
    int number;        // of the parameter, for the report of the first bad one
};

// -------------------------------------------------------------------------------------------------------------------
// Unscale and finite check

struct UnscaleArgs {
    Gradient tensor[TENSORS];
    const ScalerState* state;  // null: multiply by `factor` only
    int* found;                // [2]: number of bad launches' flags (0 or 1), least number of a bad tensor
    double factor;
};

__device__ inline float power_of_two(int exponent) {
    return exponent < -126 ? float_of(1u << (exponent + 149)) : float_of((u32)(exponent + 127) << 23);
}

// Not finite before or after the multiplication; all writers write the same, and the least number wins.
__device__ inline void report(int* found, int number) {
    found[0] = 1;
    atomicMin(&found[1], number);
}

KERNEL(unscale, UnscaleArgs) {
    const Gradient& t = a.tensor[blockIdx.y];
    double inverse = a.factor;
    if (a.state) inverse *= (double)power_of_two(-a.state->exponent);
    bool bad = false;
    i64 done = 0;
    if (packable(t.dtype)) {
        FOR_EACH(i, t.n / PACK) {
            float v[PACK];
            load_pack(t.data, t.dtype, i * PACK, v);
            for (int j = 0; j < PACK; ++j) {
                bad |= !is_finite(v[j]);
                v[j] = round_to(t.dtype, v[j] * (float)inverse);
                bad |= !is_finite(v[j]);
            }
            store_pack(t.data, t.dtype, i * PACK, v);
        }
        done = t.n / PACK * PACK;
    }
    FOR_EACH(k, t.n - done) {
        double v = load_as<double>(t.data, t.dtype, done + k), u = round_to(t.dtype, v * inverse);
        bad |= !is_finite(v) || !is_finite(u);
        store_as(t.data, t.dtype, done + k, u);
    }
    if (bad) report(a.found, t.number);
}

// -------------------------------------------------------------------------------------------------------------------
// Scale update

struct UpdateArgs {
    ScalerState* state;
    const int* found;    // [2] as in UnscaleArgs
    int growth;          // exponents; the scale is multiplied by 2^growth or 2^backoff
    int backoff;
    int interval;
    int floor;
    int ceiling;
};

// One decision per iteration; runs as a single thread.
KERNEL(update_scale, UpdateArgs) {
    if (blockIdx.x != 0 || threadIdx.x != 0) return;
    ScalerState& s = *a.state;
    s.found_inf = a.found[0];
    if (a.found[0]) {
        int next = s.exponent + a.backoff;
        s.refused = next < a.floor ? s.refused + 1 : 0;
        s.exponent = next < a.floor ? a.floor : next;
        s.tracker = 0;
    } else {
        s.refused = 0;
        s.tracker += 1;
        if (s.tracker >= a.interval) {
            s.exponent = s.exponent + a.growth > a.ceiling ? a.ceiling : s.exponent + a.growth;
            s.tracker = 0;
        }
    }
}

// -------------------------------------------------------------------------------------------------------------------
// Global L2 norm and clipping

struct NormArgs {
    Gradient tensor[TENSORS];
    double* parts;      // [tensors, gridDim.x]
    i64 first;          // number of the launch's first tensor
};

// Part blockIdx.x of the sum of squares of each tensor, in F64 so that it cannot overflow.
KERNEL(sum_squares, NormArgs) {
    __shared__ double shared[WARP];
    const Gradient& t = a.tensor[blockIdx.y];
    double sum = 0;
    FOR_EACH(i, t.n) {
        double v = load_as<double>(t.data, t.dtype, i);
        sum += v * v;
    }
    sum = block_reduce(Add{}, sum, shared);
    if (threadIdx.x == 0) a.parts[(a.first + blockIdx.y) * gridDim.x + blockIdx.x] = sum;
}

struct ClipFactorArgs {
    const double* parts;
    i64 count;
    float* norm;
    float* factor;      // min(1, max_norm / (norm + 1e-6)); 1 where max_norm is not positive
    double max_norm;
};

// One block.
KERNEL(clip_factor, ClipFactorArgs) {
    __shared__ double shared[WARP];
    double sum = 0;
    for (i64 i = threadIdx.x; i < a.count; i += blockDim.x) sum += a.parts[i];
    sum = sqrt(block_reduce(Add{}, sum, shared));
    if (threadIdx.x == 0) {
        double factor = a.max_norm / (sum + 1e-6);
        *a.norm = (float)sum;
        *a.factor = a.max_norm > 0 && !(factor >= 1) ? (float)factor : 1.0f;
    }
}

struct ScaleByArgs {
    Gradient tensor[TENSORS];
    const float* factor;
};

KERNEL(scale_by, ScaleByArgs) {
    const Gradient& t = a.tensor[blockIdx.y];
    double factor = (double)*a.factor;
    if (factor == 1) return;
    FOR_EACH(i, t.n) store_as(t.data, t.dtype, i, load_as<double>(t.data, t.dtype, i) * factor);
}

// -------------------------------------------------------------------------------------------------------------------
// Optimizer steps

enum Rule { SGD, ADAM, ADAMW, RMSPROP };

struct Parameter {
    void* value;        // F32 or F64 master
    const void* grad;
    void* first;        // momentum, or first moment; of the master's type; null where the rule has none
    void* second;       // second moment
    void* third;        // largest second moment (amsgrad), or mean gradient (centred RMSprop)
    void* copy[2];      // F16 and BF16 copies to refresh, or null
    i64 n;
    int dtype;          // of value and state
    int grad_dtype;
};

struct StepArgs {
    Parameter tensor[TENSORS / 2];
    const ScalerState* state;  // null without a scaler, or when gradients are unscaled already
    const int* found;          // null, or skip the step where found[0] is not 0
    const float* clip;         // null, or a factor of the gradients
    i64* steps;                // steps taken before this one
    double lr, momentum, dampening, beta1, beta2, eps, weight_decay, alpha;
    int rule;
    int nesterov;
    int amsgrad;
    int centred;
    int maximize;
};

// Values of one element while it is updated.
template <class C> struct Element { C value, grad, first, second, third; };

template <class C> __device__ inline void sgd(const StepArgs& a, Element<C>& e, double steps, bool has_first) {
    C g = e.grad + (C)a.weight_decay * e.value;
    if (has_first) {
        e.first = steps == 0 ? g : (C)a.momentum * e.first + (C)(1 - a.dampening) * g;
        g = a.nesterov ? g + (C)a.momentum * e.first : e.first;
    }
    e.value -= (C)a.lr * g;
}

template <class C> __device__ inline void adam(const StepArgs& a, Element<C>& e, double steps) {
    C g = e.grad;
    if (a.rule == ADAMW) e.value *= (C)(1 - a.lr * a.weight_decay);
    else g += (C)a.weight_decay * e.value;
    e.first += (C)(1 - a.beta1) * (g - e.first);
    e.second = (C)a.beta2 * e.second + (C)(1 - a.beta2) * g * g;
    double t = steps + 1, unbias1 = 1 - pow(a.beta1, t), unbias2 = sqrt(1 - pow(a.beta2, t));
    C second = e.second;
    if (a.amsgrad) second = e.third = e.third > second ? e.third : second;
    e.value -= (C)(a.lr / unbias1) * e.first / (sqrt_of(second) / (C)unbias2 + (C)a.eps);
}

template <class C> __device__ inline void rmsprop(const StepArgs& a, Element<C>& e, bool has_first) {
    C g = e.grad + (C)a.weight_decay * e.value;
    e.second = (C)a.alpha * e.second + (C)(1 - a.alpha) * g * g;
    C spread = e.second;
    if (a.centred) {
        e.third += (C)(1 - a.alpha) * (g - e.third);
        spread -= e.third * e.third;
    }
    g = g / (sqrt_of(spread) + (C)a.eps);
    if (has_first) g = e.first = (C)a.momentum * e.first + g;
    e.value -= (C)a.lr * g;
}

template <class C> __device__ void step(const StepArgs& a, const Parameter& p, double factor, double steps) {
    C *value = (C*)p.value, *first = (C*)p.first, *second = (C*)p.second, *third = (C*)p.third;
    FOR_EACH(i, p.n) {
        Element<C> e = {value[i], load_as<C>(p.grad, p.grad_dtype, i) * (C)factor, 0, 0, 0};
        if (first) e.first = first[i];
        if (second) e.second = second[i];
        if (third) e.third = third[i];
        if (a.rule == SGD) sgd(a, e, steps, first != nullptr);
        else if (a.rule == RMSPROP) rmsprop(a, e, first != nullptr);
        else adam(a, e, steps);
        value[i] = e.value;
        if (first) first[i] = e.first;
        if (second) second[i] = e.second;
        if (third) third[i] = e.third;
        if (p.copy[0]) ((u16*)p.copy[0])[i] = to_f16(e.value);
        if (p.copy[1]) ((u16*)p.copy[1])[i] = to_bf16(e.value);
    }
}

KERNEL(optimizer_step, StepArgs) {
    if (a.found && a.found[0]) return;
    const Parameter& p = a.tensor[blockIdx.y];
    double factor = a.maximize ? -1 : 1;
    if (a.state) factor *= (double)power_of_two(-a.state->exponent);
    if (a.clip) factor *= (double)*a.clip;
    double steps = (double)*a.steps;
    if (p.dtype == F64) step<double>(a, p, factor, steps);
    else step<float>(a, p, factor, steps);
}

struct CountArgs {
    i64* steps;
    const int* found;
};

// A step that was not skipped counts; one thread, after all launches of the step.
KERNEL(count_step, CountArgs) {
    if (blockIdx.x == 0 && threadIdx.x == 0 && !(a.found && a.found[0])) *a.steps += 1;
}
