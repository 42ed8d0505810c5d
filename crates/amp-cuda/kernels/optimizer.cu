// Optimizers, gradient norms, finite checks and the loss scale: one launch for many tensors.
//
// Scale, flags and step counters live in device memory and are read there: a training step never waits for the host.
// Gradients are contiguous F32; an optimizer reads them scaled, multiplies by the product of some factors, does nothing
// where the flag says skip, and writes the 16-bit copies of the parameters in the same pass.
#include "common.cuh"

// Tensors of one launch; blockIdx.y is the tensor.
#define TENSORS 40
#define FACTORS 8

struct Factors {
    const float* each[FACTORS];
    int count;
};

__device__ inline float product(const Factors& f) {
    float p = 1;
    for (int i = 0; i < FACTORS; ++i) {
        if (i < f.count) p *= *f.each[i];
    }
    return p;
}

// -------------------------------------------------------------------------------------------------------------------
// Sums of squares and finite checks

struct Gradient {
    const float* data;
    i64 n;
};

struct SquareSumsArgs {
    Gradient tensor[TENSORS];
    Factors factors;
    double* parts;      // [tensors, gridDim.x]
};

// Part blockIdx.x of the sum of squares of each tensor, in F64: finite exactly when every product is a finite F32.
KERNEL(square_sums, SquareSumsArgs) {
    __shared__ double shared[WARP];
    const Gradient& t = a.tensor[blockIdx.y];
    float factor = product(a.factors);
    double sum = 0;
    i64 packs = ((u64)t.data & 15) == 0 ? t.n / PACK : 0;
    FOR_EACH(i, packs) {
        float v[PACK];
        load_pack(t.data, F32, i * PACK, v);
        for (int j = 0; j < PACK; ++j) {
            double scaled = (double)(v[j] * factor);
            sum += scaled * scaled;
        }
    }
    FOR_EACH(k, t.n - packs * PACK) {
        double scaled = (double)(t.data[packs * PACK + k] * factor);
        sum += scaled * scaled;
    }
    sum = block_reduce(Add{}, sum, shared);
    if (threadIdx.x == 0) a.parts[(i64)blockIdx.y * gridDim.x + blockIdx.x] = sum;
}

struct JoinPartsArgs {
    const double* parts;  // [gridDim.x, per]
    double* sums;         // [gridDim.x]
    i64 per;
};

// Sum blockIdx.x.
KERNEL(join_parts, JoinPartsArgs) {
    __shared__ double shared[WARP];
    double sum = 0;
    for (i64 p = threadIdx.x; p < a.per; p += blockDim.x) sum += a.parts[blockIdx.x * a.per + p];
    sum = block_reduce(Add{}, sum, shared);
    if (threadIdx.x == 0) a.sums[blockIdx.x] = sum;
}

#define CHOSEN 400

struct AnyNonFiniteArgs {
    const double* sums;
    u8* flag;             // set, never cleared
    int which[CHOSEN];
    int count;
};

// All writers write the same.
KERNEL(any_non_finite, AnyNonFiniteArgs) {
    FOR_EACH(i, (i64)a.count) {
        if (!is_finite(a.sums[a.which[i]])) *a.flag = 1;
    }
}

struct MagnitudeArgs {
    Operand x;
    i64 n;
    i64* bad;             // [gridDim.x] how many are not finite
    double* largest;      // [gridDim.x] largest magnitude of the others
};

KERNEL(magnitude, MagnitudeArgs) {
    __shared__ i64 counts[WARP];
    __shared__ double values[WARP];
    i64 bad = 0;
    double largest = 0;
    FOR_EACH(i, a.n) {
        double v = fabs(load<double>(a.x, i));
        bad += !is_finite(v);
        largest = is_finite(v) && v > largest ? v : largest;
    }
    bad = block_reduce(Add{}, bad, counts);
    largest = block_reduce(Larger{}, largest, values);
    if (threadIdx.x == 0) {
        a.bad[blockIdx.x] = bad;
        a.largest[blockIdx.x] = largest;
    }
}

// -------------------------------------------------------------------------------------------------------------------
// The loss scale

#define FLAGS 64

struct NextScaleArgs {
    const u8* flags[FLAGS];
    i64* state;           // exponent, clean updates, bad updates, refused backoffs
    i64* notice;          // the refused backoffs once more, in the host's memory, or null
    i64 interval, hysteresis;
    int growth, backoff, floor, ceiling;
    int count;
};

__device__ inline float power_of_two(int exponent) {
    if (exponent > 127) return INFINITY;
    if (exponent < -149) return 0;
    return exponent < -126 ? float_of(1u << (exponent + 149)) : float_of((u32)(exponent + 127) << 23);
}

struct ScaleOfArgs {
    const i64* state;
    float* scale;
    float* inverse;
};

// Runs as a single thread.
KERNEL(scale_of, ScaleOfArgs) {
    if (blockIdx.x != 0 || threadIdx.x != 0) return;
    *a.scale = power_of_two((int)a.state[0]);
    *a.inverse = power_of_two((int)-a.state[0]);
}

struct JoinFlagsArgs {
    const u8* flags[FLAGS];
    u8* joined;           // set, never cleared
    int count;
};

// Flags that are more than a decision takes; runs as a single thread.
KERNEL(join_flags, JoinFlagsArgs) {
    if (blockIdx.x != 0 || threadIdx.x != 0) return;
    for (int i = 0; i < a.count; ++i) *a.joined |= *a.flags[i];
}

// One decision per iteration; runs as a single thread.
KERNEL(next_scale, NextScaleArgs) {
    if (blockIdx.x != 0 || threadIdx.x != 0) return;
    bool found = false;
    for (int i = 0; i < a.count; ++i) found |= *a.flags[i] != 0;
    i64 exponent = a.state[0], clean = a.state[1] + 1, bad = a.state[2] + 1, refused = a.state[3];
    if (found) {
        bool backs_off = bad >= a.hysteresis;
        if (backs_off) refused = exponent <= a.floor || a.backoff == 0 ? refused + 1 : 0;
        i64 lower = exponent + a.backoff > a.floor ? exponent + a.backoff : a.floor;
        if (backs_off && lower < exponent) exponent = lower;
        clean = 0;
    } else {
        bool grows = a.interval > 0 && clean >= a.interval;
        i64 higher = exponent + a.growth < a.ceiling ? exponent + a.growth : a.ceiling;
        if (grows && higher > exponent) exponent = higher;
        if (grows) clean = 0;
        bad = refused = 0;
    }
    a.state[0] = exponent;
    a.state[1] = clean;
    a.state[2] = bad;
    a.state[3] = refused;
    if (a.notice) *(volatile i64*)a.notice = refused;
}

// -------------------------------------------------------------------------------------------------------------------
// Schedules

#define MOVES 65

struct MoveScheduleArgs {
    double factors[MOVES];  // of learning rates, after `first` steps taken, after one more, and so on
    const u8* skip;         // null, or the step was not taken where it is set
    i64* state;             // moves, steps taken
    i64* notice;            // both once more, 32 bits each, in the host's memory, or null
    double* rates;          // [groups, 3]: learning rate, weight decay, what factors multiply
    i64 groups, first;
    int count;
};

// Runs as a single thread.
KERNEL(move_schedule, MoveScheduleArgs) {
    if (blockIdx.x != 0 || threadIdx.x != 0) return;
    bool taken = !(a.skip && *a.skip);
    i64 moves = ++a.state[0], steps = a.state[1] += taken;
    if (a.notice) *(volatile i64*)a.notice = (i64)((u64)moves << 32 | (u64)(u32)steps);
    i64 at = steps - a.first;
    if (!taken || at < 0 || at >= a.count) return;
    for (i64 g = 0; g < a.groups; ++g) a.rates[3 * g] = a.rates[3 * g + 2] * a.factors[at];
}

// -------------------------------------------------------------------------------------------------------------------
// Optimizer steps

enum Rule { SGD, ADAM, RMSPROP, ADAGRAD, ADADELTA, RADAM, ADAMAX, LION, NADAM };

struct Parameter {
    float* master;
    const float* grad;
    float* moments[3];
    void* copy[2];      // F16 and BF16 copies to refresh, or null
    i64* steps;         // taken before this one
    i64 n;
    const i64* rows;    // null, or grad's rows of `width` elements are these of the parameter
    i64 width;
};

struct UpdateArgs {
    Parameter tensor[TENSORS];
    Factors factors;
    const u8* skip;     // null, or nothing changes where it is set
    const double* rates;  // null, or learning rate and weight decay that count instead of these
    double lr, momentum, dampening, beta1, beta2, eps, weight_decay;
    int rule;
    int nesterov;
    int amsgrad;
    int decoupled;
    int centered;
};

// The settings of one launch, as the arithmetic needs them.
struct Settings {
    float factor, rate, ahead, momentum, entering, beta1, new1, beta2, new2, root2, eps, penalty, keep;
};

// RAdam is Adam with a factor of the rate; before the variance of the adaptive rate is finite, momentum alone.
__device__ inline void rectify(const UpdateArgs& a, Settings& s, double rate, double step) {
    double power = pow(a.beta2, step), longest = 2 / (1 - a.beta2) - 1;
    double length = longest - 2 * step * power / (1 - power);
    bool adapts = length > 5;
    double shares = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length);
    s.rate = (float)(adapts ? rate * sqrt(shares) * sqrt(1 - power) : rate);
    s.root2 = adapts ? 1.0f : 0.0f;
    s.eps = adapts ? s.eps : 1.0f;
}

// NAdam is Adam that looks one step ahead, with a momentum that grows to beta1; how fast stands in the place of dampening.
__device__ inline void look_ahead(const UpdateArgs& a, Settings& s, double lr, double step) {
    double factor = pow(0.96, a.dampening), power = 1, product = 1;
    // A product this small changes no correction: it need not be kept over steps.
    for (double t = 0; t < step && product > 0x1p-54; ++t) {
        power *= factor;
        product *= a.beta1 * (1 - 0.5 * power);
    }
    double now = a.beta1 * (1 - 0.5 * pow(0.96, step * a.dampening));
    double next = a.beta1 * (1 - 0.5 * pow(0.96, (step + 1) * a.dampening));
    s.rate = (float)(lr * (next / (1 - product * next)));
    s.ahead = (float)(lr * ((1 - now) / (1 - product)));
}

__device__ inline Settings settings_of(const UpdateArgs& a, double step) {
    double lr = a.rates ? a.rates[0] : a.lr, weight_decay = a.rates ? a.rates[1] : a.weight_decay;
    Settings s = {};
    s.factor = product(a.factors);
    s.rate = (float)lr;
    s.momentum = (float)a.momentum;
    s.entering = step <= 1 ? 1.0f : (float)(1 - a.dampening);
    s.beta1 = (float)a.beta1;
    s.new1 = (float)(1 - a.beta1);
    s.beta2 = (float)a.beta2;
    s.new2 = (float)(1 - a.beta2);
    s.eps = (float)a.eps;
    s.penalty = a.decoupled ? 0.0f : (float)weight_decay;
    s.keep = a.decoupled ? (float)(1 - lr * weight_decay) : 1.0f;
    if (a.rule == ADAGRAD) {
        // RMSprop that forgets nothing; the decay of the learning rate stands in the place of momentum's.
        s.rate = (float)(lr / (1 + (step - 1) * a.dampening));
        s.beta2 = s.new2 = 1;
    }
    if (a.rule == ADAM || a.rule == ADAMAX) s.rate = (float)(lr / (1 - pow(a.beta1, step)));
    if (a.rule == ADAM || a.rule == NADAM) s.root2 = (float)(1 / sqrt(1 - pow(a.beta2, step)));
    if (a.rule == RADAM) rectify(a, s, lr / (1 - pow(a.beta1, step)), step);
    if (a.rule == NADAM) look_ahead(a, s, lr, step);
    return s;
}

__device__ inline void load_quad(const float* data, i64 i, float v[QUAD]) {
    widen_run(fetch_run<QUAD>(data, F32, i), F32, v);
}

// Values of one element while it is updated.
struct Element { float master, moments[3]; };

__device__ inline void sgd(const UpdateArgs& a, const Settings& s, Element& e, float g, bool has_momentum) {
    if (has_momentum) {
        e.moments[0] = s.momentum * e.moments[0] + s.entering * g;
        g = a.nesterov ? s.momentum * e.moments[0] + g : e.moments[0];
    }
    e.master -= s.rate * g;
}

__device__ inline void adam(const UpdateArgs& a, const Settings& s, Element& e, float g) {
    e.moments[0] += s.new1 * (g - e.moments[0]);
    e.moments[1] = s.new2 * (g * g) + s.beta2 * e.moments[1];
    float second = e.moments[1];
    if (a.amsgrad) second = e.moments[2] = e.moments[2] > second ? e.moments[2] : second;
    e.master = s.keep * e.master - (s.rate * e.moments[0] + s.ahead * g) / (sqrtf(second) * s.root2 + s.eps);
}

__device__ inline void rmsprop(const UpdateArgs& a, const Settings& s, Element& e, float g, bool has_momentum) {
    e.moments[0] = s.new2 * (g * g) + s.beta2 * e.moments[0];
    float spread = e.moments[0];
    if (a.centered) {
        e.moments[1] += s.new2 * (g - e.moments[1]);
        // Rounding may leave the variance of a constant gradient slightly below 0.
        spread -= e.moments[1] * e.moments[1];
        spread = spread < 0 ? 0 : spread;
    }
    g = g / (sqrtf(spread) + s.eps);
    if (has_momentum) {
        float& m = a.centered ? e.moments[2] : e.moments[1];
        g = m = s.momentum * m + g;
    }
    e.master -= s.rate * g;
}

__device__ inline void adadelta(const Settings& s, Element& e, float g) {
    e.moments[0] = s.new2 * (g * g) + s.beta2 * e.moments[0];
    float step = sqrtf(e.moments[1] + s.eps) / sqrtf(e.moments[0] + s.eps) * g;
    e.moments[1] = s.new2 * (step * step) + s.beta2 * e.moments[1];
    e.master -= s.rate * step;
}

__device__ inline void adamax(const Settings& s, Element& e, float g) {
    e.moments[0] += s.new1 * (g - e.moments[0]);
    float kept = s.beta2 * e.moments[1], seen = fabsf(g) + s.eps;
    e.moments[1] = kept > seen ? kept : seen;
    e.master -= s.rate * e.moments[0] / e.moments[1];
}

__device__ inline void lion(const Settings& s, Element& e, float g) {
    float direction = s.beta1 * e.moments[0] + s.new1 * g;
    // Of NaN the sign is NaN.
    float sign = direction > 0 ? 1.0f : direction < 0 ? -1.0f : direction;
    e.master = s.keep * e.master - s.rate * sign;
    e.moments[0] = s.new2 * g + s.beta2 * e.moments[0];
}

// One element's step from its gradient.
__device__ inline void advance(const UpdateArgs& a, const Settings& s, const Parameter& p, Element& e, float grad) {
    float g = grad * s.factor;
    // An infinite weight times 0 would be NaN.
    if (s.penalty != 0) g = s.penalty * e.master + g;
    if (a.rule == SGD) sgd(a, s, e, g, p.moments[0] != nullptr);
    else if (a.rule == ADAM || a.rule == RADAM || a.rule == NADAM) adam(a, s, e, g);
    else if (a.rule == ADAMAX) adamax(s, e, g);
    else if (a.rule == LION) lion(s, e, g);
    else if (a.rule == ADADELTA) adadelta(s, e, g);
    else rmsprop(a, s, e, g, a.momentum != 0);
}

// Whether whole quads of a parameter may be moved in one access.
__device__ inline bool in_quads(const Parameter& p) {
    u64 any = (u64)p.master | (u64)p.grad, half = 0;
    for (int m = 0; m < 3; ++m) any |= (u64)p.moments[m];
    for (int c = 0; c < 2; ++c) half |= (u64)p.copy[c];
    return any % 16 == 0 && half % 8 == 0 && (!p.rows || p.width % QUAD == 0);
}

// Where element `k` of the gradient is in the parameter.
__device__ inline i64 in_parameter(const Parameter& p, i64 k) {
    if (!p.rows) return k;
    i64 row = divide(k, p.width);
    return p.rows[row] * p.width + (k - row * p.width);
}

__device__ inline void advance_quad(const UpdateArgs& a, const Settings& s, const Parameter& p, i64 k) {
    i64 at = in_parameter(p, k);
    float master[QUAD], grad[QUAD], moments[3][QUAD] = {};
    load_quad(p.master, at, master);
    load_quad(p.grad, k, grad);
    for (int m = 0; m < 3; ++m) {
        if (p.moments[m]) load_quad(p.moments[m], at, moments[m]);
    }
    for (int j = 0; j < QUAD; ++j) {
        Element e = {master[j], {moments[0][j], moments[1][j], moments[2][j]}};
        advance(a, s, p, e, grad[j]);
        master[j] = e.master;
        for (int m = 0; m < 3; ++m) moments[m][j] = e.moments[m];
    }
    store_run<QUAD>(p.master, F32, at, master);
    for (int m = 0; m < 3; ++m) {
        if (p.moments[m]) store_run<QUAD>(p.moments[m], F32, at, moments[m]);
    }
    if (p.copy[0]) store_run<QUAD>(p.copy[0], F16, at, master);
    if (p.copy[1]) store_run<QUAD>(p.copy[1], BF16, at, master);
}

__device__ inline void advance_one(const UpdateArgs& a, const Settings& s, const Parameter& p, i64 k) {
    i64 i = in_parameter(p, k);
    Element e = {p.master[i], {0, 0, 0}};
    for (int m = 0; m < 3; ++m) {
        if (p.moments[m]) e.moments[m] = p.moments[m][i];
    }
    advance(a, s, p, e, p.grad[k]);
    p.master[i] = e.master;
    for (int m = 0; m < 3; ++m) {
        if (p.moments[m]) p.moments[m][i] = e.moments[m];
    }
    if (p.copy[0]) ((u16*)p.copy[0])[i] = to_f16(e.master);
    if (p.copy[1]) ((u16*)p.copy[1])[i] = to_bf16(e.master);
}

// Quads, or elements where there are none, that a thread handles before another block would help.
#define TURNS 8

KERNEL(update, UpdateArgs) {
    __shared__ Settings shared;
    const Parameter& p = a.tensor[blockIdx.y];
    i64 quads = in_quads(p) ? p.n / QUAD : 0, first = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    // The launch has blocks for its largest tensor, and settings are worth their time for several turns of a thread.
    i64 blocks = ((quads > 0 ? quads : p.n) - 1) / blockDim.x / TURNS + 1;
    if (blockIdx.x >= blocks) return;
    if (a.skip && *a.skip) return;
    i64 step = (blocks < gridDim.x ? blocks : gridDim.x) * blockDim.x;
    // Powers in double take longer than an element does: one thread has them for all.
    if (threadIdx.x == 0) shared = settings_of(a, (double)(*p.steps + 1));
    __syncthreads();
    const Settings s = shared;
    for (i64 quad = first; quad < quads; quad += step) advance_quad(a, s, p, quad * QUAD);
    for (i64 k = quads * QUAD + first; k < p.n; k += step) advance_one(a, s, p, k);
}

struct AverageArgs {
    float* into[2];       // [n] each; the second may be none, of no elements
    Operand x[2];         // [n] each
    i64 n[2];
    float factor[2];      // of x
    i64* counter;         // of moves, or null
    const u8* skip;
    float share;
};

// Running averages move a share of the way to x, times its factor: from the nearer end, so that a share of 1 gives x exactly.
KERNEL(average, AverageArgs) {
    if (a.skip && *a.skip) return;
    if (a.counter && blockIdx.x == 0 && threadIdx.x == 0) *a.counter += 1;
    for (int k = 0; k < 2; ++k) {
        FOR_EACH(i, a.n[k]) {
            float from = a.into[k][i], to = a.factor[k] * load<float>(a.x[k], i), way = to - from;
            a.into[k][i] = a.share < 0.5f ? from + a.share * way : to - way * (1 - a.share);
        }
    }
}

struct CountStepsArgs {
    i64* steps[400];
    const u8* skip;
    int count;
};

// A step that was not skipped counts; runs after the updates that read the counters.
KERNEL(count_steps, CountStepsArgs) {
    if (a.skip && *a.skip) return;
    FOR_EACH(i, (i64)a.count) *a.steps[i] += 1;
}
