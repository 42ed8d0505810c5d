// Element by element: functions of one operand, their derivatives, and what relu lets pass.
//
// Operands have the shape of the result; a stride of 0 repeats an element. The operation is a number, equal for all
// threads. The lists mirror the CPU kernels', formula by formula.
//
// float kernels move quads of elements where no operand is scattered; what is left, and every other case, goes one by one.
// Operations that most elements are for have kernels of their own: next to all others they would get as many registers as
// the greediest, and few threads would be there to wait for memory.
#include "quads.cuh"

#define SQRT_HALF 0.70710678118654752440
#define TWO_OVER_SQRT_PI 1.12837916709551257390
#define LN_2 0.69314718055994530942
#define GELU_SCALE (TWO_OVER_SQRT_PI * SQRT_HALF)
#define GELU_CUBIC 0.044715

enum Unary {
    NEG, ABS, SIGN, SQR, SQRT, RSQRT, RECIP, EXP, EXPM1, LOG, LOG1P, LOG2, SIN, COS, TANH, SIGMOID, LOG_SIGMOID, ERF,
    FLOOR, CEIL, ROUND, RELU, LEAKY_RELU, ELU, GELU, GELU_TANH, SILU, SOFTPLUS, HARDSWISH, CLAMP, HUBER, POWF, AFFINE,
    HARDTANH, TRUNC
};

template <class C> __device__ inline C sign_of(C v) { return v > 0 ? (C)1 : v < 0 ? (C)-1 : (C)0; }
template <class C> __device__ inline C clamp(C v, C min, C max) { v = v < min ? min : v; return v > max ? max : v; }

// Density of the normal distribution at v, and its integral up to there.
template <class C> struct Normal { C density, integral; };
__device__ inline Normal<double> normal(double v) {
    return {0.5 * SQRT_HALF * TWO_OVER_SQRT_PI * exp(-0.5 * v * v), 0.5 * erfc(v * -SQRT_HALF)};
}
// The integral up to -|v| is exp(-v * v / 2) times a polynomial in 1 / (1 + 0.34 |v|), fitted for |v| < 14 with a relative
// error of 3e-8. Nothing cancels where it is small.
__device__ inline Normal<float> normal(float v) {
    const float LOG2_E_HALF = 0.72134752044448170f;
    float bell = exp2_fast(-LOG2_E_HALF * v * v), t = reciprocal_fast(0.34f * fabsf(v) + 1);
    float p = -0.026120556f;
    p = p * t + 0.13949985f;
    p = p * t - 0.27313341f;
    p = p * t + 0.20218334f;
    p = p * t - 0.044718852f;
    p = p * t + 0.11535931f;
    p = p * t + 0.11519786f;
    p = p * t + 0.13611220f;
    p = p * t + 0.13562050f;
    float tail = bell * (p * t);
    return {(float)(0.5 * SQRT_HALF * TWO_OVER_SQRT_PI) * bell, v < 0 ? tail : 1 - tail};
}
template <class C> __device__ inline C gelu_derivative(C v) {
    Normal<C> at = normal(v);
    return at.integral + v * at.density;
}

// (1 + tanh(z)) / 2 = sigmoid(2 z), which does not cancel where it is small.
template <class C> __device__ inline C gelu_gate(C v) {
    return sigmoid((C)(2 * GELU_SCALE) * v * (v * v * (C)GELU_CUBIC + 1));
}

// -------------------------------------------------------------------------------------------------------------------
// y = op(x)

struct UnaryArgs {
    Operand x;
    void* y;
    i64 n;
    int out;
    int op;
    double p[2];  // parameters of the operation
};

template <class C> __device__ inline C powf_of(C v, double p) {
    if (p == 0.5) return sqrt_of(v);
    if (p == -0.5) return 1 / sqrt_of(v);
    if (p == 1) return v;
    if (p == 2) return v * v;
    if (p == 3) return v * v * v;
    if (p == -1) return 1 / v;
    if (p == -2) return 1 / (v * v);
    return pow_of(v, (C)p);
}

// ln(1 + e^v) without an exponential that overflows.
template <class C> __device__ inline C softplus(C v) { return (v > 0 ? v : (C)0) + log1p_of(exp_of(-fabs_of(v))); }

template <class C> __device__ __forceinline__ C unary(int op, C v, double p0, double p1) {
    switch (op) {
        case NEG: return -v;
        case ABS: return fabs_of(v);
        case SIGN: return sign_of(v);
        case SQR: return v * v;
        case SQRT: return sqrt_of(v);
        case RSQRT: return 1 / sqrt_of(v);
        case RECIP: return 1 / v;
        case EXP: return exp_of(v);
        case EXPM1: return expm1_of(v);
        case LOG: return log_of(v);
        case LOG1P: return log1p_of(v);
        case LOG2: return log2_of(v);
        case SIN: return sin_of(v);
        case COS: return cos_of(v);
        case TANH: return tanh_of(v);
        case SIGMOID: return sigmoid(v);
        case LOG_SIGMOID: return -softplus(-v);
        case ERF: return erf_of(v);
        case FLOOR: return floor_of(v);
        case CEIL: return ceil_of(v);
        case ROUND: return rint_of(v);
        case TRUNC: return trunc_of(v);
        case RELU: return v <= 0 ? (C)0 : v;
        case LEAKY_RELU: return v > 0 ? v : v * (C)p0;
        case ELU: return v > 0 ? v : (C)p0 * expm1_of(v);
        case GELU: return v * normal(v).integral;
        case GELU_TANH: return v * gelu_gate(v);
        case SILU: return v * sigmoid(v);
        case SOFTPLUS: return v * (C)p0 > (C)p1 ? v : softplus(v * (C)p0) / (C)p0;
        case HARDSWISH: return v * clamp(v + 3, (C)0, (C)6) / 6;
        case CLAMP: case HARDTANH: return clamp(v, (C)p0, (C)p1);
        case HUBER: {
            // With c limited to delta, parabola and tangents are both c (v - c / 2).
            C c = clamp(v, -(C)p0, (C)p0);
            return c * (v - c / 2) * (C)p1;
        }
        case POWF: return powf_of(v, p0);
        default: return v * (C)p0 + (C)p1;
    }
}

// Integers stay integers where the operation has an integer form; the rest goes through double.
template <> __device__ i64 unary<i64>(int op, i64 v, double p0, double p1) {
    switch (op) {
        case NEG: return minus((i64)0, v);
        case ABS: return v < 0 ? minus((i64)0, v) : v;
        case SIGN: return sign_of(v);
        case SQR: return times(v, v);
        case FLOOR: case CEIL: case ROUND: case TRUNC: return v;
        case RELU: return v > 0 ? v : 0;
        case CLAMP: {
            i64 min = to_i64(ceil(p0)), max = to_i64(floor(p1));
            v = v > min ? v : min;
            return v < max ? v : max;
        }
        case AFFINE:
            if (p0 == floor(p0) && p1 == floor(p1)) return plus(times(v, to_i64(p0)), to_i64(p1));
            return to_i64((double)v * p0 + p1);
        default: return to_i64(unary<double>(op, (double)v, p0, p1));
    }
}

template <class C> __device__ inline void unary_rest(const UnaryArgs& a, int op, i64 done) {
    FOR_EACH(i, a.n - done) {
        store_as(a.y, a.out, done + i, unary<C>(op, load<C>(a.x, done + i), a.p[0], a.p[1]));
    }
}

template <bool KNOWN, int M> __device__ inline void unary_quads(const UnaryArgs& a, int op) {
    i64 done = join_quads<KNOWN, M, 1>({&a.x}, a.n, a.out,
        [&](const float* v) { return unary<float>(op, v[0], a.p[0], a.p[1]); },
        Into{a.y, a.out});
    unary_rest<float>(a, op, done);
}

KERNEL(unary_f32, UnaryArgs) { unary_quads<false, 1>(a, a.op); }
KERNEL(unary_f64, UnaryArgs) { unary_rest<double>(a, a.op, 0); }
KERNEL(unary_i64, UnaryArgs) { unary_rest<i64>(a, a.op, 0); }

KERNEL(activation_f32, UnaryArgs) {
    switch (a.op) {
        case RELU: return unary_quads<true, 4>(a, RELU);
        case GELU: return unary_quads<true, 4>(a, GELU);
        case GELU_TANH: return unary_quads<true, 4>(a, GELU_TANH);
        case SILU: return unary_quads<true, 4>(a, SILU);
        default: return unary_quads<true, 4>(a, AFFINE);
    }
}

// -------------------------------------------------------------------------------------------------------------------
// dx = grad * op'(saved)

struct UnaryGradArgs {
    Operand saved;  // output of exp, tanh, relu and the like, input of the others
    Operand grad;
    void* y;
    i64 n;
    int out;
    int op;
    double p[2];
};

template <class C> __device__ inline C gelu_tanh_derivative(C x) {
    C gate = gelu_gate(x), inner = (C)(2 * GELU_SCALE) * (x * x * (C)(3 * GELU_CUBIC) + 1);
    return gate + x * gate * (1 - gate) * inner;
}

template <class C> __device__ inline C powf_grad(C x, C g, double p) {
    C factor = (C)p;
    if (p == 0) return 0;
    if (p == 1) return g;
    if (p == 2) return g * (factor * x);
    if (p == 3) return g * (factor * (x * x));
    return g * (factor * pow_of(x, (C)(p - 1)));
}

template <class C> __device__ __forceinline__ C unary_grad(int op, C s, C g, double p0, double p1) {
    switch (op) {
        case NEG: return -g;
        case ABS: return g * sign_of(s);
        case SIGN: case FLOOR: case CEIL: case ROUND: case TRUNC: return 0;
        case SQR: return g * (2 * s);
        case SQRT: return g / (2 * s);
        case RSQRT: return g * ((C)-0.5 * (s * s * s));
        case RECIP: return -g * (s * s);
        case EXP: return g * s;
        case EXPM1: return g * (s + 1);
        case LOG: return g / s;
        case LOG1P: return g / (s + 1);
        case LOG2: return g / (s * (C)LN_2);
        case SIN: return g * cos_of(s);
        case COS: return -g * sin_of(s);
        case TANH: return g * (1 - s * s);
        case SIGMOID: return g * (s * (1 - s));
        case LOG_SIGMOID: return g * sigmoid(-s);
        case ERF: return g * ((C)TWO_OVER_SQRT_PI * exp_of(-(s * s)));
        case RELU: return s <= 0 ? (C)0 : g;
        case LEAKY_RELU: return s > 0 ? g : g * (C)p0;
        case ELU: return s > 0 ? g : g * ((C)p0 * exp_of(s));
        case GELU: return g * gelu_derivative(s);
        case GELU_TANH: return g * gelu_tanh_derivative(s);
        case SILU: { C r = sigmoid(s); return g * (r * (1 + s * (1 - r))); }
        case SOFTPLUS: return s * (C)p0 > (C)p1 ? g : g * sigmoid(s * (C)p0);
        case HARDSWISH: return s <= -3 ? (C)0 : s >= 3 ? g : g * (s / 3 + (C)0.5);
        case CLAMP: return (s > (C)p0 || p0 == -INFINITY) && (s < (C)p1 || p1 == INFINITY) ? g : (C)0;
        case HARDTANH: return s <= (C)p0 || s >= (C)p1 ? (C)0 : g;
        case HUBER: return clamp(s, -(C)p0, (C)p0) * (C)p1 * g;
        case POWF: return powf_grad(s, g, p0);
        default: return g * (C)p0;
    }
}

template <class C> __device__ inline void unary_grad_rest(const UnaryGradArgs& a, int op, i64 done) {
    FOR_EACH(k, a.n - done) {
        i64 i = done + k;
        C s = load<C>(a.saved, i), g = load<C>(a.grad, i);
        store_as(a.y, a.out, i, unary_grad<C>(op, s, g, a.p[0], a.p[1]));
    }
}

template <bool KNOWN, int M> __device__ inline void unary_grad_quads(const UnaryGradArgs& a, int op) {
    i64 done = join_quads<KNOWN, M, 2>({&a.saved, &a.grad}, a.n, a.out,
        [&](const float* v) { return unary_grad<float>(op, v[0], v[1], a.p[0], a.p[1]); },
        Into{a.y, a.out});
    unary_grad_rest<float>(a, op, done);
}

KERNEL(unary_grad_f32, UnaryGradArgs) { unary_grad_quads<false, 1>(a, a.op); }
KERNEL(unary_grad_f64, UnaryGradArgs) { unary_grad_rest<double>(a, a.op, 0); }

KERNEL(activation_grad_f32, UnaryGradArgs) {
    switch (a.op) {
        case RELU: return unary_grad_quads<true, 2>(a, RELU);
        case GELU: return unary_grad_quads<true, 2>(a, GELU);
        case GELU_TANH: return unary_grad_quads<true, 2>(a, GELU_TANH);
        default: return unary_grad_quads<true, 2>(a, SILU);
    }
}

// -------------------------------------------------------------------------------------------------------------------
// What relu lets pass: a bit for each element in row-major order, eight in a byte, the first one lowest

struct SignsArgs {
    Operand x;          // input or output of relu, or the gradient of the output
    u8* dead;           // a bit is set where relu gives 0
    void* y;            // where bits are read: x, and 0 where there is a bit
    i64 n;
    int out;
};

template <class C> __device__ inline void dead_bits(const SignsArgs& a) {
    FOR_EACH(byte, (a.n + 7) / 8) {
        u32 bits = 0;
        for (int j = 0; j < 8; ++j) {
            i64 i = byte * 8 + j;
            if (i < a.n && load<C>(a.x, i) <= 0) bits |= 1u << j;
        }
        a.dead[byte] = (u8)bits;
    }
}
template <> __device__ inline void dead_bits<float>(const SignsArgs& a) {
    bool quads = a.x.quads != SCATTERED;
    FOR_EACH(byte, (a.n + 7) / 8) {
        i64 left = a.n - byte * 8;
        float v[2 * QUAD];
        if (quads && left >= 8) {
            load_quad(a.x, 2 * byte, v);
            load_quad(a.x, 2 * byte + 1, v + QUAD);
        } else {
            for (int j = 0; j < 8; ++j) v[j] = j < left ? load<float>(a.x, byte * 8 + j) : 1;
        }
        u32 bits = 0;
        for (int j = 0; j < 8; ++j) bits |= (u32)(v[j] <= 0) << j;
        a.dead[byte] = (u8)bits;
    }
}

template <class C> __device__ inline void alive_rest(const SignsArgs& a, i64 done) {
    FOR_EACH(k, a.n - done) {
        i64 i = done + k;
        store_as(a.y, a.out, i, a.dead[i / 8] >> i % 8 & 1 ? (C)0 : load<C>(a.x, i));
    }
}

struct IntoAlive {
    const SignsArgs& a;
    template <int W> __device__ inline void operator()(i64 at, float (&y)[W]) const {
        u32 bits = a.dead[at / 8] >> at % 8;
        for (int j = 0; j < W; ++j) y[j] = bits >> j & 1 ? 0 : y[j];
        Into{a.y, a.out}(at, y);
    }
};

KERNEL(dead_f32, SignsArgs) { dead_bits<float>(a); }
KERNEL(dead_f64, SignsArgs) { dead_bits<double>(a); }
KERNEL(alive_f32, SignsArgs) {
    alive_rest<float>(a, join_quads<true, 4, 1>({&a.x}, a.n, a.out, [](const float* v) { return v[0]; }, IntoAlive{a}));
}
KERNEL(alive_f64, SignsArgs) { alive_rest<double>(a, 0); }
