//! Every operation in F32 and in 16 bits against the same operation in F64, which computes with other functions.

use super::{layout, storage, to_f64};
use crate::testing::{Random, Tensor};
use crate::*;

/// All functions, with arguments that take every branch.
const FUNCTIONS: [Unary; 43] = [
    Unary::Neg,
    Unary::Abs,
    Unary::Sign,
    Unary::Sqr,
    Unary::Sqrt,
    Unary::Rsqrt,
    Unary::Recip,
    Unary::Exp,
    Unary::Expm1,
    Unary::Log,
    Unary::Log1p,
    Unary::Log2,
    Unary::Sin,
    Unary::Cos,
    Unary::Tanh,
    Unary::Sigmoid,
    Unary::LogSigmoid,
    Unary::Erf,
    Unary::Floor,
    Unary::Ceil,
    Unary::Round,
    Unary::Trunc,
    Unary::Relu,
    Unary::LeakyRelu(0.01),
    Unary::Elu(1.5),
    Unary::Gelu,
    Unary::GeluTanh,
    Unary::Silu,
    Unary::Softplus { beta: 1.0, threshold: 20.0 },
    Unary::Softplus { beta: -2.0, threshold: 3.0 },
    Unary::Hardswish,
    Unary::Clamp { min: -1.5, max: 2.0 },
    Unary::Hardtanh { min: -0.5, max: 1.25 },
    Unary::Huber { delta: 1.25, factor: 0.8 },
    Unary::Powf(0.0),
    Unary::Powf(0.5),
    Unary::Powf(-0.5),
    Unary::Powf(2.0),
    Unary::Powf(3.0),
    Unary::Powf(-2.0),
    Unary::Powf(1.75),
    Unary::Affine { mul: 0.75, add: -1.25 },
    Unary::Affine { mul: 1.0, add: 0.0 },
];

/// What is not a number, what is barely one, and everything between -12 and 12 in F16's steps.
pub(super) fn arguments() -> Vec<f64> {
    let special = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 65504.0, -65504.0, 6e-8, -6e-8, 0.5, -0.5];
    let fine = (-3072..3072).map(|i| f64::from(i) / 256.0);
    special.into_iter().chain(fine).collect()
}

fn agree(got: f64, exact: f64, tolerance: f64) -> bool {
    got == exact || (got.is_nan() && exact.is_nan()) || (got - exact).abs() <= tolerance
}

/// Spacing of `dtype` around `v`.
fn ulp(v: f64, dtype: DType) -> f64 {
    let (digits, least) = match dtype {
        DType::F16 => (11, -14),
        DType::BF16 => (8, -126),
        _ => (24, -126),
    };
    let exponent = if v == 0.0 || !v.is_finite() { least } else { (v.abs().log2().floor() as i32).max(least) };
    2f64.powi(exponent + 1 - digits)
}

/// A value beyond the largest of `dtype` may be infinite.
fn bounded(exact: f64, dtype: DType) -> f64 {
    let overflow = match dtype {
        DType::F16 => 65520.0,
        DType::BF16 => 3.396e38,
        _ => 3.402_823_5e38,
    };
    if exact.abs() >= overflow { exact.signum() * f64::INFINITY } else { exact }
}

#[test]
fn functions_agree_with_f64() {
    let x = arguments();
    let at = layout(&[x.len()], &[1], 0);
    for dtype in [DType::F32, DType::F16, DType::BF16] {
        let stored = storage(&x, dtype);
        let x = to_f64(&stored);
        let exact_x = storage(&x, DType::F64);
        for op in FUNCTIONS {
            let got = to_f64(&unary(op, &View { data: stored.as_slice(), layout: &at, logical: dtype }, dtype));
            let exact = View { data: exact_x.as_slice(), layout: &at, logical: DType::F64 };
            let exact = to_f64(&unary(op, &exact, DType::F64));
            for ((x, got), exact) in x.iter().zip(got).zip(exact) {
                let exact = bounded(exact, dtype);
                // The exponent of the tanh form is a cubic whose rounding the exponential magnifies.
                let slack = if op == Unary::GeluTanh { 6.0 + 2.0 * x * x } else { 6.0 };
                let tolerance = slack * ulp(exact, DType::F32) + 0.5 * ulp(exact, dtype);
                assert!(agree(got, exact, tolerance), "{op:?} of {x:e} in {dtype}: {got:e}, exactly {exact:e}");
            }
        }
    }
}

#[test]
fn derivatives_agree_with_f64() {
    let x: Vec<f64> = arguments().into_iter().filter(|v| v.is_finite()).collect();
    let at = layout(&[x.len()], &[1], 0);
    let gradient: Vec<f64> = (0..x.len()).map(|i| 0.5 + (i % 7) as f64 * 0.25).collect();
    let view =
        |data: &'static Storage| View { data: data.as_slice(), layout: Box::leak(Box::new(at)), logical: data.dtype() };
    let leak = |s: Storage| -> &'static Storage { Box::leak(Box::new(s)) };
    let (x32, g32) = (leak(storage(&x, DType::F32)), leak(storage(&gradient, DType::F32)));
    let (x64, g64) = (leak(storage(&x, DType::F64)), leak(storage(&gradient, DType::F64)));
    for op in FUNCTIONS {
        let exact_y = leak(unary(op, &view(x64), DType::F64));
        let saved64 = if op.grad_from_output() { exact_y } else { x64 };
        let saved32 = if op.grad_from_output() { leak(storage(&to_f64(exact_y), DType::F32)) } else { x32 };
        let exact = to_f64(&unary_grad(op, &view(saved64), &view(g64), DType::F64));
        let got = to_f64(&unary_grad(op, &view(saved32), &view(g32), DType::F32));
        for (((x, g), got), exact) in x.iter().zip(&gradient).zip(got).zip(exact) {
            let exact = bounded(exact, DType::F32);
            // Sums of terms of the size of the gradient cancel; an output rounded to F32 carries half an ulp.
            let tolerance = 16.0 * (ulp(exact, DType::F32) + ulp(*g, DType::F32) * (1.0 + x.abs()));
            assert!(agree(got, exact, tolerance), "{op:?}' of {x:e}: {got:e}, exactly {exact:e}");
        }
    }
}

/// What a threshold alone decides passes as `torch` lets it pass; whatever is computed is NaN.
#[test]
fn derivatives_at_nan_are_nan_unless_a_threshold_gives_them() {
    let at = layout(&[70], &[1], 0);
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        let (x, g) = (storage(&[f64::NAN; 70], dtype), storage(&[2.0; 70], dtype));
        let [x, g] = [&x, &g].map(|data| View { data: data.as_slice(), layout: &at, logical: dtype });
        for op in FUNCTIONS {
            let expected = match op {
                Unary::Neg => -2.0,
                Unary::Relu | Unary::Hardtanh { .. } => 2.0,
                Unary::LeakyRelu(slope) => 2.0 * slope,
                Unary::Affine { mul, .. } => 2.0 * mul,
                Unary::Abs | Unary::Sign | Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc => 0.0,
                Unary::Clamp { .. } | Unary::Powf(0.0) => 0.0,
                _ => f64::NAN,
            };
            let got = to_f64(&unary_grad(op, &x, &g, dtype));
            let ok = |&y: &f64| agree(y, expected, ulp(expected, dtype));
            assert!(got.iter().all(ok), "{op:?}' of NaN in {dtype}: {got:?}, not {expected}");
        }
    }
}

#[test]
fn clamp_passes_no_gradient_at_its_bounds_and_all_at_open_ends() {
    let x = [f64::NEG_INFINITY, -2.0, -1.0, 0.5, 1.0, f64::INFINITY, f64::NAN];
    let at = layout(&[x.len()], &[1], 0);
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        let (x, g) = (storage(&x, dtype), storage(&[2.0; 7], dtype));
        let [x, g] = [&x, &g].map(|data| View { data: data.as_slice(), layout: &at, logical: dtype });
        for (min, max, expected) in [
            (-1.0, 1.0, [0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0]),
            (-1.0, f64::INFINITY, [0.0, 0.0, 0.0, 2.0, 2.0, 2.0, 0.0]),
            (f64::NEG_INFINITY, 1.0, [2.0, 2.0, 2.0, 2.0, 0.0, 0.0, 0.0]),
        ] {
            let got = to_f64(&unary_grad(Unary::Clamp { min, max }, &x, &g, dtype));
            assert_eq!(got, expected, "between {min} and {max} in {dtype}");
        }
    }
}

#[test]
fn functions_of_two_agree_with_f64_in_every_pair_of_types() {
    let types = [DType::F16, DType::BF16, DType::F32, DType::F64, DType::I64, DType::U8];
    let (a, b) =
        ((0..67).map(f64::from).collect::<Vec<_>>(), (0..67).map(|i| f64::from(i % 5 + 1)).collect::<Vec<_>>());
    let at = layout(&[67], &[1], 0);
    for left in types {
        for right in types {
            let (x, y) = (storage(&a, left), storage(&b, right));
            let x = View { data: x.as_slice(), layout: &at, logical: left };
            let y = View { data: y.as_slice(), layout: &at, logical: right };
            for op in [Binary::Add, Binary::Sub, Binary::Mul, Binary::Minimum, Binary::Maximum, Binary::Leaky] {
                let exact = a.iter().zip(&b).map(|(a, b)| match op {
                    Binary::Add => a + b,
                    Binary::Sub => a - b,
                    Binary::Mul => a * b,
                    Binary::Minimum => a.min(*b),
                    Binary::Maximum => a.max(*b),
                    _ => *a,
                });
                assert_eq!(to_f64(&binary(op, &x, &y, DType::F64)), exact.collect::<Vec<_>>(), "{op:?} {left} {right}");
            }
            let Storage::Bool(less) = compare(Compare::Lt, &x, &y) else { panic!("comparisons give truth values") };
            assert_eq!(less, a.iter().zip(&b).map(|(a, b)| a < b).collect::<Vec<_>>(), "{left} < {right}");
        }
    }
}

#[test]
fn what_is_not_above_zero_leaks() {
    let at = layout(&[6], &[1], 0);
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let (a, b) = ([3.0, -2.0, 0.0, nan, -inf, inf], [nan, 0.25, 5.0, 0.5, 0.5, -1.0]);
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        let (a, b) = (storage(&a, dtype), storage(&b, dtype));
        let [a, b] = [&a, &b].map(|data| View { data: data.as_slice(), layout: &at, logical: dtype });
        let found = to_f64(&binary(Binary::Leaky, &a, &b, dtype));
        let same = found.iter().zip([3.0, -0.5, 0.0, nan, -inf, inf]).all(|(f, e)| *f == e || f.is_nan() && e.is_nan());
        assert!(same, "{dtype}: {found:?}");
    }
    let (a, b) = (storage(&[-4.0, 4.0, 0.0, -1.0, 7.0, -2.0], DType::I64), storage(&[3.0; 6], DType::I64));
    let [a, b] = [&a, &b].map(|data| View { data: data.as_slice(), layout: &at, logical: DType::I64 });
    assert_eq!(to_f64(&binary(Binary::Leaky, &a, &b, DType::I64)), [-12.0, 4.0, 0.0, -3.0, 7.0, -6.0]);
}

/// Quotients of all sizes, and what F64 and F32 have besides numbers.
#[test]
fn divisions_leave_what_the_language_leaves() {
    let odd = [0.0, -0.0, 1.0, -3.0, 0.7, 1e-40, 3e38, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 2e9, -1e-3];
    let (a, b): (Vec<f64>, Vec<f64>) = odd.iter().flat_map(|&a| odd.iter().map(move |&b| (a, b))).unzip();
    let at = layout(&[a.len()], &[1], 0);
    let expected = |op, a: f64, b: f64| {
        let rest = a % b;
        let crosses = rest != 0.0 && (rest < 0.0) != (b < 0.0);
        match op {
            Binary::Fmod => rest,
            Binary::Remainder => rest + if crosses { b } else { 0.0 },
            _ if b == 0.0 => a / b,
            _ => ((a - rest) / b).round() - f64::from(crosses),
        }
    };
    for dtype in [DType::F64, DType::F32, DType::BF16] {
        let (x, y) = (storage(&a, dtype), storage(&b, dtype));
        let (wide_a, wide_b) = (to_f64(&x), to_f64(&y));
        let [x, y] = [&x, &y].map(|data| View { data: data.as_slice(), layout: &at, logical: dtype });
        for op in [Binary::FloorDivide, Binary::Remainder, Binary::Fmod] {
            for (i, found) in to_f64(&binary(op, &x, &y, dtype)).into_iter().enumerate() {
                let exact = to_f64(&storage(&[expected(op, wide_a[i], wide_b[i])], dtype))[0];
                let same = found == exact || found.is_nan() && exact.is_nan();
                assert!(same, "{op:?} of {} and {} as {dtype} is {found}, not {exact}", wide_a[i], wide_b[i]);
            }
        }
    }
}

#[test]
fn nan_wins_and_integers_wrap() {
    let at = layout(&[3], &[1], 0);
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let a = storage(&[nan, 1.0, -inf], DType::F32);
    let b = storage(&[2.0, nan, inf], DType::F32);
    let (a, b) = (
        View { data: a.as_slice(), layout: &at, logical: DType::F32 },
        View { data: b.as_slice(), layout: &at, logical: DType::F32 },
    );
    for (op, last) in [(Binary::Minimum, -inf), (Binary::Maximum, inf)] {
        let y = to_f64(&binary(op, &a, &b, DType::F32));
        assert!(y[0].is_nan() && y[1].is_nan() && y[2] == last, "{op:?}: {y:?}");
    }
    let x = Storage::I64(vec![i64::MAX, 3, -7].into());
    let y = Storage::I64(vec![1, 0, -2].into());
    let x = View { data: x.as_slice(), layout: &at, logical: DType::I64 };
    let y = View { data: y.as_slice(), layout: &at, logical: DType::I64 };
    assert_eq!(binary(Binary::Add, &x, &y, DType::I64), Storage::I64(vec![i64::MIN, 3, -9].into()));
    assert_eq!(binary(Binary::Div, &x, &y, DType::I64), Storage::I64(vec![i64::MAX, 0, 3].into()));
    assert_eq!(binary(Binary::Pow, &y, &x, DType::I64), Storage::I64(vec![1, 0, 0].into()));
    for (op, expected) in
        [(Binary::FloorDivide, [i64::MAX, 0, 3]), (Binary::Remainder, [0, 0, -1]), (Binary::Fmod, [0, 0, -1])]
    {
        assert_eq!(binary(op, &x, &y, DType::I64), Storage::I64(expected.to_vec().into()), "{op:?}");
    }
}

#[test]
fn functions_of_three_and_choices_agree_with_their_definition() {
    let at = layout(&[4], &[1], 0);
    let stored = [
        storage(&[1.0, 2.0, -3.0, 0.5], DType::F16),
        storage(&[4.0, -1.0, 0.25, 8.0], DType::F32),
        storage(&[0.0, 1.0, 0.5, 0.25], DType::BF16),
    ];
    let [a, b, c] = stored.each_ref().map(|s| View { data: s.as_slice(), layout: &at, logical: s.dtype() });
    for (op, expected) in [(Ternary::Addcmul(2.0), [1.0, 0.0, -2.75, 4.5]), (Ternary::Lerp, [1.0, -1.0, -1.375, 2.375])]
    {
        assert_eq!(to_f64(&ternary(op, &a, &b, &c, DType::F32)), expected, "{op:?}");
        assert_eq!(to_f64(&ternary(op, &a, &b, &c, DType::F64)), expected, "{op:?}");
    }
    assert_eq!(to_f64(&ternary(Ternary::Addcdiv(0.5), &a, &c, &b, DType::F32)), [1.0, 1.5, -2.0, 0.515625]);
    let condition = Storage::Bool(vec![true, false, false, true].into());
    let condition = View { data: condition.as_slice(), layout: &at, logical: DType::Bool };
    assert_eq!(to_f64(&select(&condition, &a, &b, DType::F32)), [1.0, -1.0, 0.25, 0.5]);
}

#[test]
fn a_result_and_its_copy_are_those_of_two_passes() {
    let mut random = Random::new(19);
    for len in [0, 1, 17, 1024, 1025, 300_001] {
        let [a, b] = [0; 2].map(|_| random.tensor(&[len], DType::F32));
        for (b, also) in [(b.clone(), DType::BF16), (b.meant_as(DType::BF16), DType::F16)] {
            let (wide, copy) = binary_narrowed(Binary::Add, &a.view(), &b.view(), also);
            let expected = Tensor::contiguous(&[len], binary(Binary::Add, &a.view(), &b.view(), DType::F32));
            assert_eq!(copy, crate::copy(&expected.view(), also), "{len} in {also}");
            assert_eq!(wide, expected.storage);
        }
    }
}
