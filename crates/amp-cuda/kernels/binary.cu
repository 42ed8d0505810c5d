// Element by element: functions of two and three operands, comparison, selection; in the way of unary.cu.
#include "quads.cuh"

enum Binary { ADD, SUB, MUL, DIV, POW, MINIMUM, MAXIMUM, LEAKY, ATAN2, FLOOR_DIVIDE, REMAINDER, FMOD };
enum Compare { EQ, NE, LT, LE, GT, GE };
enum Ternary { ADDCMUL, ADDCDIV, LERP };

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

// Whether 0 lies between what is left of a division and its divisor.
template <class C> __device__ inline bool crosses(C rest, C r) { return rest != 0 && (rest < 0) != (r < 0); }

// A quotient that is rounded down, or what is left of it, of floats too: their quotients are numbers of double.
__device__ inline double division(int op, double l, double r) {
    double rest = fmod(l, r);
    if (op != FLOOR_DIVIDE) return op == REMAINDER && crosses(rest, r) ? rest + r : rest;
    if (r == 0) return l / r;
    // An integer but for its rounding.
    double whole = rint((l - rest) / r - crosses(rest, r));
    return whole == 0 ? copysign(whole, l / r) : whole;
}

// A division by 0 gives 0.
__device__ inline i64 division(int op, i64 l, i64 r) {
    if (r == 0) return 0;
    if (r == -1) return op == FLOOR_DIVIDE ? minus((i64)0, l) : 0;
    i64 rest = l % r;
    if (op == FLOOR_DIVIDE) return l / r - crosses(rest, r);
    return op == REMAINDER && crosses(rest, r) ? rest + r : rest;
}

template <class C, class F> __device__ inline void binary_rest(const BinaryArgs& a, i64 done, F f) {
    FOR_EACH(k, a.n - done) {
        i64 i = done + k;
        C y = f(load<C>(a.l, i), load<C>(a.r, i));
        store_as(a.y, a.out, i, y);
        if (a.narrow) store_as(a.narrow, a.narrow_type, i, y);
    }
}

struct IntoBoth {
    Into y, narrow;
    template <int W> __device__ inline void operator()(i64 at, const float (&v)[W]) const {
        y(at, v);
        if (narrow.data) narrow(at, v);
    }
};

template <bool KNOWN, int M, int H = M> __device__ inline void binary_quads(const BinaryArgs& a, int op) {
    i64 done = join_quads<KNOWN, M, 2, H>({&a.l, &a.r}, a.n, a.out,
        [&](const float* v) { return binary<float>(op, v[0], v[1]); },
        IntoBoth{{a.y, a.out}, {a.narrow, a.narrow_type}});
    binary_rest<float>(a, done, [&](float l, float r) { return binary<float>(op, l, r); });
}

template <class C> __device__ inline void binary_all(const BinaryArgs& a) {
    binary_rest<C>(a, 0, [&](C l, C r) { return binary<C>(a.op, l, r); });
}

template <class C> __device__ inline void division_all(const BinaryArgs& a) {
    binary_rest<C>(a, 0, [&](C l, C r) { return (C)division(a.op, l, r); });
}

KERNEL(binary_f32, BinaryArgs) { binary_quads<false, 1>(a, a.op); }
KERNEL(binary_f64, BinaryArgs) { binary_all<double>(a); }
KERNEL(binary_i64, BinaryArgs) { binary_all<i64>(a); }

// On their own, because they need many registers.
KERNEL(division_f32, BinaryArgs) { division_all<float>(a); }
KERNEL(division_f64, BinaryArgs) { division_all<double>(a); }
KERNEL(division_i64, BinaryArgs) { division_all<i64>(a); }

STREAMING_KERNEL(arithmetic_f32, BinaryArgs) {
    switch (a.op) {
        case ADD: return binary_quads<true, 4>(a, ADD);
        case SUB: return binary_quads<true, 4>(a, SUB);
        case MUL: return binary_quads<true, 4>(a, MUL);
        default: return binary_quads<true, 4, 2>(a, DIV);  // it needs registers of its own
    }
}

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

__device__ inline i64 compare_quads(const BinaryArgs& a) {
    return join_quads<true, 2, 2>({&a.l, &a.r}, a.n, BOOL,
        [&](const float* v) { return (float)compare<float>(a.op, v[0], v[1]); },
        Into{a.y, BOOL});
}

KERNEL(compare_f32, BinaryArgs) { compare_rest<float>(a, compare_quads(a)); }
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

template <class C> __device__ void ternary_rest(const TernaryArgs& a, i64 done) {
    FOR_EACH(k, a.n - done) {
        i64 i = done + k;
        C x = load<C>(a.x[0], i), y = load<C>(a.x[1], i), z = load<C>(a.x[2], i);
        store_as(a.y, a.out, i, ternary<C>(a.op, x, y, z, (C)a.p));
    }
}

template <class F> __device__ inline i64 ternary_quads(const TernaryArgs& a, F f) {
    return join_quads<true, 2, 3, 1>({&a.x[0], &a.x[1], &a.x[2]}, a.n, a.out, f, Into{a.y, a.out});
}

KERNEL(ternary_f32, TernaryArgs) {
    float value = (float)a.p;
    auto f = [&](const float* v) { return ternary<float>(a.op, v[0], v[1], v[2], value); };
    ternary_rest<float>(a, ternary_quads(a, f));
}
KERNEL(ternary_f64, TernaryArgs) { ternary_rest<double>(a, 0); }

template <class C> __device__ void select_rest(const TernaryArgs& a, i64 done) {
    FOR_EACH(k, a.n - done) {
        i64 i = done + k;
        C condition = load<C>(a.x[0], i), x = load<C>(a.x[1], i), y = load<C>(a.x[2], i);
        store_as(a.y, a.out, i, condition != (C)0 ? x : y);
    }
}

KERNEL(select_f32, TernaryArgs) {
    select_rest<float>(a, ternary_quads(a, [](const float* v) { return v[0] != 0 ? v[1] : v[2]; }));
}
KERNEL(select_f64, TernaryArgs) { select_rest<double>(a, 0); }
KERNEL(select_i64, TernaryArgs) { select_rest<i64>(a, 0); }
