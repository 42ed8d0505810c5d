// Element by element: functions of one, two and three operands, comparison, selection, copies and fills.
//
// Operands have the shape of the result; a stride of 0 repeats an element. The operation is a number, equal for all
// threads. The lists mirror the CPU kernels', formula by formula.
//
// float kernels move whole packs where every operand is packed; what is left, and every other case, goes one by one.
#include "common.cuh"

#define SQRT_HALF 0.70710678118654752440
#define TWO_OVER_SQRT_PI 1.12837916709551257390
#define LN_2 0.69314718055994530942
#define GELU_SCALE (TWO_OVER_SQRT_PI * SQRT_HALF)
#define GELU_CUBIC 0.044715

enum Unary {
    NEG, ABS, SIGN, SQR, SQRT, RSQRT, RECIP, EXP, EXPM1, LOG, LOG1P, LOG2, SIN, COS, TANH, SIGMOID, LOG_SIGMOID, ERF,
    FLOOR, CEIL, ROUND, RELU, LEAKY_RELU, ELU, GELU, GELU_TANH, SILU, SOFTPLUS, HARDSWISH, CLAMP, HUBER, POWF, AFFINE
};
enum Binary { ADD, SUB, MUL, DIV, POW, MINIMUM, MAXIMUM, LEAKY, ATAN2 };
enum Compare { EQ, NE, LT, LE, GT, GE };
enum Ternary { ADDCMUL, ADDCDIV, LERP };

template <class C> __device__ inline C sign_of(C v) { return v > 0 ? (C)1 : v < 0 ? (C)-1 : (C)0; }
template <class C> __device__ inline C clamp(C v, C min, C max) { v = v < min ? min : v; return v > max ? max : v; }
template <class C> __device__ inline C sigmoid(C v) { return 1 / (1 + exp_of(-v)); }
template <class C> __device__ inline C normal_cdf(C v) { return (C)0.5 * erfc_of(v * (C)-SQRT_HALF); }
template <class C> __device__ inline C normal_pdf(C v) {
    return (C)(0.5 * SQRT_HALF * TWO_OVER_SQRT_PI) * exp_of((C)-0.5 * v * v);
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

// Drops the first element and appends another: a loop that works on v[0] eight times keeps the pack in registers, with
// one copy of its body.
__device__ inline void rotate(float v[PACK], float last) {
    for (int j = 0; j + 1 < PACK; ++j) v[j] = v[j + 1];
    v[PACK - 1] = last;
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
        case RELU: return v <= 0 ? (C)0 : v;
        case LEAKY_RELU: return v > 0 ? v : v * (C)p0;
        case ELU: return v > 0 ? v : (C)p0 * expm1_of(v);
        case GELU: return v * normal_cdf(v);
        case GELU_TANH: return v * gelu_gate(v);
        case SILU: return v * sigmoid(v);
        case SOFTPLUS: return v * (C)p0 > (C)p1 ? v : softplus(v * (C)p0) / (C)p0;
        case HARDSWISH: return v * clamp(v + 3, (C)0, (C)6) / 6;
        case CLAMP: return clamp(v, (C)p0, (C)p1);
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
        case FLOOR: case CEIL: case ROUND: return v;
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

template <class C> __device__ void unary_rest(const UnaryArgs& a, i64 done) {
    FOR_EACH(i, a.n - done) {
        store_as(a.y, a.out, done + i, unary<C>(a.op, load<C>(a.x, done + i), a.p[0], a.p[1]));
    }
}

// Operations that most elements are for are known when this is compiled, and have no branch for each element. The code that
// ships does without.
#if defined(COMPACT)
#define KNOWN(...)
#else
#define KNOWN(...) __VA_ARGS__
#endif

template <int OP> __device__ inline i64 unary_known(const UnaryArgs& a) {
    FOR_EACH(i, a.n / PACK) {
        float v[PACK];
        load_pack(a.x, i, v);
#pragma unroll
        for (int j = 0; j < PACK; ++j) v[j] = unary<float>(OP, v[j], a.p[0], a.p[1]);
        store_pack(a.y, a.out, i * PACK, v);
    }
    return a.n / PACK * PACK;
}

__device__ i64 unary_packs(const UnaryArgs& a) {
    if (!a.x.packed || !packable(a.out)) return 0;
    KNOWN(switch (a.op) {
        case RELU: return unary_known<RELU>(a);
        case GELU: return unary_known<GELU>(a);
        case GELU_TANH: return unary_known<GELU_TANH>(a);
        case SILU: return unary_known<SILU>(a);
        case AFFINE: return unary_known<AFFINE>(a);
    })
    FOR_EACH(i, a.n / PACK) {
        float v[PACK];
        load_pack(a.x, i, v);
#pragma unroll 1
        for (int j = 0; j < PACK; ++j) rotate(v, unary<float>(a.op, v[0], a.p[0], a.p[1]));
        store_pack(a.y, a.out, i * PACK, v);
    }
    return a.n / PACK * PACK;
}

KERNEL(unary_f32, UnaryArgs) { unary_rest<float>(a, unary_packs(a)); }
KERNEL(unary_f64, UnaryArgs) { unary_rest<double>(a, 0); }
KERNEL(unary_i64, UnaryArgs) { unary_rest<i64>(a, 0); }

// -------------------------------------------------------------------------------------------------------------------
// Two operands

// Gives `put` what `f` makes of each pack of two operands; returns how many elements these were. An operation that is `known`
// has a copy for each element, a switch over all of them is there once.
template <bool known, class F, class Put>
__device__ inline i64 pair_packs(const Operand& l, const Operand& r, i64 n, F f, Put put) {
    FOR_EACH(i, n / PACK) {
        float x[PACK], y[PACK];
        load_pack(l, i, x);
        load_pack(r, i, y);
        if (known) {
#pragma unroll
            for (int j = 0; j < PACK; ++j) x[j] = f(x[j], y[j]);
        } else {
#pragma unroll 1
            for (int j = 0; j < PACK; ++j) {
                rotate(x, f(x[0], y[0]));
                rotate(y, y[0]);
            }
        }
        put(i * PACK, x);
    }
    return n / PACK * PACK;
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
        case SIGN: case FLOOR: case CEIL: case ROUND: return 0;
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
        case GELU: return g * (normal_cdf(s) + s * normal_pdf(s));
        case GELU_TANH: return g * gelu_tanh_derivative(s);
        case SILU: { C r = sigmoid(s); return g * (r * (1 + s * (1 - r))); }
        case SOFTPLUS: return s * (C)p0 > (C)p1 ? g : g * sigmoid(s * (C)p0);
        case HARDSWISH: return s <= -3 ? (C)0 : s >= 3 ? g : g * (s / 3 + (C)0.5);
        case CLAMP: return (s > (C)p0 || p0 == -INFINITY) && (s < (C)p1 || p1 == INFINITY) ? g : (C)0;
        case HUBER: return clamp(s, -(C)p0, (C)p0) * (C)p1 * g;
        case POWF: return powf_grad(s, g, p0);
        default: return g * (C)p0;
    }
}

template <class C> __device__ void unary_grad_rest(const UnaryGradArgs& a, i64 done) {
    FOR_EACH(k, a.n - done) {
        i64 i = done + k;
        C s = load<C>(a.saved, i), g = load<C>(a.grad, i);
        store_as(a.y, a.out, i, unary_grad<C>(a.op, s, g, a.p[0], a.p[1]));
    }
}

template <int OP> __device__ inline i64 unary_grad_known(const UnaryGradArgs& a) {
    return pair_packs<true>(a.saved, a.grad, a.n,
        [&](float s, float g) { return unary_grad<float>(OP, s, g, a.p[0], a.p[1]); },
        [&](i64 at, const float* y) { store_pack(a.y, a.out, at, y); });
}

__device__ i64 unary_grad_packs(const UnaryGradArgs& a) {
    if (!a.saved.packed || !a.grad.packed || !packable(a.out)) return 0;
    KNOWN(switch (a.op) {
        case RELU: return unary_grad_known<RELU>(a);
        case GELU: return unary_grad_known<GELU>(a);
        case GELU_TANH: return unary_grad_known<GELU_TANH>(a);
        case SILU: return unary_grad_known<SILU>(a);
    })
    return pair_packs<false>(a.saved, a.grad, a.n,
        [&](float s, float g) { return unary_grad<float>(a.op, s, g, a.p[0], a.p[1]); },
        [&](i64 at, const float* y) { store_pack(a.y, a.out, at, y); });
}

KERNEL(unary_grad_f32, UnaryGradArgs) { unary_grad_rest<float>(a, unary_grad_packs(a)); }
KERNEL(unary_grad_f64, UnaryGradArgs) { unary_grad_rest<double>(a, 0); }

// -------------------------------------------------------------------------------------------------------------------
// y = op(a, b)

struct BinaryArgs {
    Operand l, r;
    void* y;
    i64 n;
    int out;
    int op;
    void* narrow;       // null, or where the result goes in 16 bits too
    int narrow_type;
};

template <class C> __device__ inline C binary(int op, C l, C r) {
    switch (op) {
        case ADD: return l + r;
        case SUB: return l - r;
        case MUL: return l * r;
        case DIV: return l / r;
        case POW: return pow_of(l, r);
        case MINIMUM: return l < r || is_nan(l) ? l : r;
        case MAXIMUM: return l > r || is_nan(l) ? l : r;
        case LEAKY: return l > 0 ? l : l * r;
        default: return atan2_of(l, r);
    }
}

__device__ inline i64 integer_power(i64 base, i64 exponent) {
    if (exponent < 0) return base == 1 || (base == -1 && exponent % 2 == 0) ? 1 : base == -1 ? -1 : 0;
    i64 result = 1;
    for (; exponent > 0; exponent >>= 1, base = times(base, base)) {
        if (exponent & 1) result = times(result, base);
    }
    return result;
}

template <> __device__ inline i64 binary<i64>(int op, i64 l, i64 r) {
    switch (op) {
        case ADD: return plus(l, r);
        case SUB: return minus(l, r);
        case MUL: return times(l, r);
        case DIV: return r == 0 ? 0 : r == -1 ? minus((i64)0, l) : l / r;
        case POW: return integer_power(l, r);
        case MINIMUM: return l < r ? l : r;
        case MAXIMUM: return l > r ? l : r;
        case LEAKY: return l > 0 ? l : times(l, r);
        default: return to_i64(atan2((double)l, (double)r));
    }
}

template <class C> __device__ void binary_rest(const BinaryArgs& a, i64 done) {
    FOR_EACH(k, a.n - done) {
        i64 i = done + k;
        C y = binary<C>(a.op, load<C>(a.l, i), load<C>(a.r, i));
        store_as(a.y, a.out, i, y);
        if (a.narrow) store_as(a.narrow, a.narrow_type, i, y);
    }
}

__device__ inline void store_twice(const BinaryArgs& a, i64 at, const float* y) {
    store_pack(a.y, a.out, at, y);
    if (a.narrow) store_pack(a.narrow, a.narrow_type, at, y);
}

template <int OP> __device__ inline i64 binary_known(const BinaryArgs& a) {
    return pair_packs<true>(a.l, a.r, a.n,
        [](float l, float r) { return binary<float>(OP, l, r); },
        [&](i64 at, const float* y) { store_twice(a, at, y); });
}

__device__ i64 binary_packs(const BinaryArgs& a) {
    if (!a.l.packed || !a.r.packed || !packable(a.out)) return 0;
    KNOWN(switch (a.op) {
        case ADD: return binary_known<ADD>(a);
        case SUB: return binary_known<SUB>(a);
        case MUL: return binary_known<MUL>(a);
        case DIV: return binary_known<DIV>(a);
    })
    return pair_packs<false>(a.l, a.r, a.n,
        [&](float l, float r) { return binary<float>(a.op, l, r); },
        [&](i64 at, const float* y) { store_twice(a, at, y); });
}

KERNEL(binary_f32, BinaryArgs) { binary_rest<float>(a, binary_packs(a)); }
KERNEL(binary_f64, BinaryArgs) { binary_rest<double>(a, 0); }
KERNEL(binary_i64, BinaryArgs) { binary_rest<i64>(a, 0); }

template <class C> __device__ inline bool compare(int op, C l, C r) {
    switch (op) {
        case EQ: return l == r;
        case NE: return l != r;
        case LT: return l < r;
        case LE: return l <= r;
        case GT: return l > r;
        default: return l >= r;
    }
}

// Truth values: bytes of 0 or 1, with `out` BOOL.
template <class C> __device__ void compare_rest(const BinaryArgs& a, i64 done) {
    FOR_EACH(k, a.n - done) {
        i64 i = done + k;
        ((u8*)a.y)[i] = compare<C>(a.op, load<C>(a.l, i), load<C>(a.r, i));
    }
}

__device__ i64 compare_packs(const BinaryArgs& a) {
    if (!a.l.packed || !a.r.packed) return 0;
    FOR_EACH(i, a.n / PACK) {
        float l[PACK], r[PACK];
        load_pack(a.l, i, l);
        load_pack(a.r, i, r);
        for (int j = 0; j < PACK; ++j) l[j] = compare<float>(a.op, l[j], r[j]);
        store_pack(a.y, BOOL, i * PACK, l);
    }
    return a.n / PACK * PACK;
}

KERNEL(compare_f32, BinaryArgs) { compare_rest<float>(a, compare_packs(a)); }
KERNEL(compare_f64, BinaryArgs) { compare_rest<double>(a, 0); }
KERNEL(compare_i64, BinaryArgs) { compare_rest<i64>(a, 0); }

// -------------------------------------------------------------------------------------------------------------------
// y = op(a, b, c), and y = a ? b : c

struct TernaryArgs {
    Operand x[3];
    void* y;
    i64 n;
    int out;
    int op;
    double p;
};

template <class C> __device__ inline C ternary(int op, C x, C y, C z, C value) {
    switch (op) {
        case ADDCMUL: return x + value * y * z;
        case ADDCDIV: return x + value * y / z;
        default: {  // from the nearer end, so that a weight of 1 gives `y` exactly
            C d = y - x;
            return fabs_of(z) < (C)0.5 ? x + z * d : y - d * (1 - z);
        }
    }
}

__device__ inline bool packed(const TernaryArgs& a) {
    return a.x[0].packed && a.x[1].packed && a.x[2].packed && packable(a.out);
}

__device__ inline void load_packs(const TernaryArgs& a, i64 i, float x[PACK], float y[PACK], float z[PACK]) {
    load_pack(a.x[0], i, x);
    load_pack(a.x[1], i, y);
    load_pack(a.x[2], i, z);
}

template <class C> __device__ void ternary_rest(const TernaryArgs& a, i64 done) {
    FOR_EACH(k, a.n - done) {
        i64 i = done + k;
        C x = load<C>(a.x[0], i), y = load<C>(a.x[1], i), z = load<C>(a.x[2], i);
        store_as(a.y, a.out, i, ternary<C>(a.op, x, y, z, (C)a.p));
    }
}

__device__ i64 ternary_packs(const TernaryArgs& a) {
    if (!packed(a)) return 0;
    FOR_EACH(i, a.n / PACK) {
        float x[PACK], y[PACK], z[PACK];
        load_packs(a, i, x, y, z);
        for (int j = 0; j < PACK; ++j) x[j] = ternary<float>(a.op, x[j], y[j], z[j], (float)a.p);
        store_pack(a.y, a.out, i * PACK, x);
    }
    return a.n / PACK * PACK;
}

KERNEL(ternary_f32, TernaryArgs) { ternary_rest<float>(a, ternary_packs(a)); }
KERNEL(ternary_f64, TernaryArgs) { ternary_rest<double>(a, 0); }

template <class C> __device__ void select_rest(const TernaryArgs& a, i64 done) {
    FOR_EACH(k, a.n - done) {
        i64 i = done + k;
        C condition = load<C>(a.x[0], i), x = load<C>(a.x[1], i), y = load<C>(a.x[2], i);
        store_as(a.y, a.out, i, condition != (C)0 ? x : y);
    }
}

__device__ i64 select_packs(const TernaryArgs& a) {
    if (!packed(a)) return 0;
    FOR_EACH(i, a.n / PACK) {
        float condition[PACK], x[PACK], y[PACK];
        load_packs(a, i, condition, x, y);
        for (int j = 0; j < PACK; ++j) x[j] = condition[j] != 0 ? x[j] : y[j];
        store_pack(a.y, a.out, i * PACK, x);
    }
    return a.n / PACK * PACK;
}

KERNEL(select_f32, TernaryArgs) { select_rest<float>(a, select_packs(a)); }
KERNEL(select_f64, TernaryArgs) { select_rest<double>(a, 0); }
KERNEL(select_i64, TernaryArgs) { select_rest<i64>(a, 0); }

// -------------------------------------------------------------------------------------------------------------------
// Copies, conversions and fills

struct CopyArgs {
    Operand x;
    void* y;
    i64 n;
    int out;
};

template <class C> __device__ void copy_rest(const CopyArgs& a, i64 done) {
    FOR_EACH(i, a.n - done) store_as(a.y, a.out, done + i, load<C>(a.x, done + i));
}

__device__ i64 copy_packs(const CopyArgs& a) {
    if (!a.x.packed || !packable(a.out)) return 0;
    FOR_EACH(i, a.n / PACK) {
        float v[PACK];
        load_pack(a.x, i, v);
        store_pack(a.y, a.out, i * PACK, v);
    }
    return a.n / PACK * PACK;
}

KERNEL(copy_f32, CopyArgs) { copy_rest<float>(a, copy_packs(a)); }
KERNEL(copy_f64, CopyArgs) { copy_rest<double>(a, 0); }
KERNEL(copy_i64, CopyArgs) { copy_rest<i64>(a, 0); }

struct CopyIntoArgs {
    Operand x;
    Operand y;  // written; no two of its places coincide
    i64 n;
};

template <class C> __device__ void copy_into_kernel(const CopyIntoArgs& a) {
    FOR_EACH(i, a.n) store_as((void*)a.y.data, a.y.stored, place(a.y, i), load<C>(a.x, i));
}

KERNEL(copy_into_f32, CopyIntoArgs) { copy_into_kernel<float>(a); }
KERNEL(copy_into_f64, CopyIntoArgs) { copy_into_kernel<double>(a); }
KERNEL(copy_into_i64, CopyIntoArgs) { copy_into_kernel<i64>(a); }

struct FillArgs {
    void* y;
    i64 n;
    int out;
    double value;
};

KERNEL(fill, FillArgs) {
    FOR_EACH(i, a.n) store_as(a.y, a.out, i, a.value);
}
