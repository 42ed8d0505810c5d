//! Operations of one element of each input.

use amp::Fill;
use amp::prelude::*;

use crate::compare::Bound::{Exact, OfLargest, Ulps};
use crate::compare::{Arg, conform};
use crate::devices;
use crate::inputs::Values;

const REAL: Values = Values::Uniform(-3.0, 3.0);
const POSITIVE: Values = Values::Uniform(0.1, 4.0);

/// One input: no dimensions, empty, of one element, of prime and of other sizes, and of special values.
fn unary(values: Values) -> Vec<Vec<Arg>> {
    let shapes = [&[] as &[usize], &[0], &[1], &[3, 0, 2], &[13, 7], &[1031], &[2, 5, 17]];
    let ordinary = shapes.iter().map(|s| vec![Arg::Float(values, s.to_vec())]);
    ordinary.chain([vec![Arg::Float(Values::Special, vec![61])]]).collect()
}

/// As [`unary`] without the special values: for functions whose bound says nothing about them.
fn ordinary(values: Values) -> Vec<Vec<Arg>> {
    let mut args = unary(values);
    args.pop();
    args
}

/// Two inputs: equal shapes and shapes that broadcast.
fn binary(left: Values, right: Values) -> Vec<Vec<Arg>> {
    let shapes =
        [([5, 7], vec![5, 7]), ([0, 3], vec![3]), ([1, 1], vec![1]), ([4, 1], vec![1, 9]), ([11, 13], vec![13])];
    shapes.map(|(a, b)| vec![Arg::Float(left, a.to_vec()), Arg::Float(right, b)]).to_vec()
}

/// As [`binary`], with every pair of special values too.
fn binary_special(right: Values) -> Vec<Vec<Arg>> {
    let mut args = binary(REAL, right);
    args.push(vec![Arg::Float(Values::Special, vec![17, 1]), Arg::Float(Values::Special, vec![19])]);
    args
}

fn ternary(third: Values) -> Vec<Vec<Arg>> {
    let shapes = [([5, 7], vec![5, 7], vec![7]), ([0, 3], vec![3], vec![1, 1]), ([4, 1], vec![9], vec![4, 9])];
    shapes.map(|(a, b, c)| vec![Arg::Float(REAL, a.to_vec()), Arg::Float(REAL, b), Arg::Float(third, c)]).to_vec()
}

fn masked() -> Vec<Vec<Arg>> {
    let shapes = [(vec![5, 7], vec![7]), (vec![0, 3], vec![3]), (vec![2, 3, 5], vec![3, 1])];
    shapes.map(|(x, mask)| vec![Arg::Float(REAL, x.clone()), Arg::Float(REAL, x), Arg::Mask(mask)]).to_vec()
}

#[test]
fn functions_that_keep_their_precision() {
    for device in &devices() {
        conform!(device, "abs", all, unary(REAL), Exact, |a| a.x[0].abs());
        conform!(device, "neg", all, unary(REAL), Exact, |a| -&a.x[0]);
        conform!(device, "sign", all, unary(REAL), Exact, |a| a.x[0].sign());
        conform!(device, "floor", all, unary(REAL), Exact, |a| a.x[0].floor());
        conform!(device, "ceil", all, unary(REAL), Exact, |a| a.x[0].ceil());
        conform!(device, "round", all, unary(REAL), Exact, |a| a.x[0].round());
        conform!(device, "relu", all, unary(REAL), Exact, |a| a.x[0].relu());
        conform!(device, "clamp", all, unary(REAL), Exact, |a| a.x[0].clamp(-1.0, 1.5));
        conform!(device, "leaky_relu", all, unary(REAL), Ulps(2.0), |a| a.x[0].leaky_relu(0.25));
        conform!(device, "elu", all, unary(REAL), Ulps(4.0), |a| a.x[0].elu(1.5));
        conform!(device, "sqrt", all, unary(POSITIVE), Ulps(1.0), |a| a.x[0].sqrt());
        conform!(device, "tanh", all, unary(REAL), Ulps(4.0), |a| a.x[0].tanh());
        conform!(device, "erf", all, unary(REAL), Ulps(4.0), |a| a.x[0].erf());
        conform!(device, "sigmoid", all, unary(REAL), Ulps(4.0), |a| a.x[0].sigmoid());
        conform!(device, "log_sigmoid", all, ordinary(REAL), Ulps(4.0), |a| a.x[0].log_sigmoid());
        conform!(device, "sin", all, ordinary(REAL), Ulps(4.0), |a| a.x[0].sin());
        conform!(device, "cos", all, ordinary(REAL), OfLargest(1.0), |a| a.x[0].cos());
        conform!(device, "gelu", all, ordinary(REAL), Ulps(8.0), |a| a.x[0].gelu());
        conform!(device, "gelu_tanh", all, ordinary(REAL), Ulps(16.0), |a| a.x[0].gelu_tanh());
        conform!(device, "silu", all, ordinary(REAL), Ulps(4.0), |a| a.x[0].silu());
        conform!(device, "hardswish", all, ordinary(REAL), OfLargest(1.0), |a| a.x[0].hardswish());
        conform!(device, "trunc", all, unary(REAL), Exact, |a| a.x[0].trunc());
        conform!(device, "frac", all, ordinary(REAL), Exact, |a| a.x[0].frac());
        conform!(device, "atan", all, unary(REAL), Ulps(4.0), |a| a.x[0].atan());
        conform!(device, "asinh", all, ordinary(REAL), Ulps(4.0), |a| a.x[0].asinh());
        conform!(device, "acosh", all, ordinary(Values::Uniform(1.5, 9.0)), Ulps(8.0), |a| a.x[0].acosh());
        conform!(device, "atanh", all, ordinary(Values::Uniform(-0.9, 0.9)), Ulps(8.0), |a| a.x[0].atanh());
        conform!(device, "erfc", all, unary(REAL), Ulps(4.0), |a| a.x[0].erfc());
        conform!(device, "sinc", all, ordinary(Values::Uniform(-0.8, 0.8)), Ulps(16.0), |a| a.x[0].sinc());
        conform!(device, "hypot", all, binary(REAL, REAL), Ulps(4.0), |a| a.x[0].hypot(&a.x[1]));
        conform!(device, "xlogy", all, binary(REAL, Values::Uniform(1.5, 4.0)), Ulps(8.0), |a| a.x[0].xlogy(&a.x[1]));
        conform!(device, "heaviside", all, binary(REAL, REAL), Exact, |a| a.x[0].heaviside(&a.x[1]));
        conform!(device, "logit", all, ordinary(Values::Uniform(0.05, 0.45)), Ulps(16.0), |a| a.x[0].logit());
        conform!(device, "hardshrink", all, unary(REAL), Exact, |a| a.x[0].hardshrink(0.5));
        conform!(device, "softshrink", all, unary(REAL), Ulps(1.0), |a| a.x[0].softshrink(0.5));
        conform!(device, "tanhshrink", all, ordinary(Values::Uniform(0.5, 3.0)), Ulps(64.0), |a| a.x[0].tanhshrink());
        conform!(device, "threshold", all, unary(REAL), Exact, |a| a.x[0].threshold(0.5, -2.0));
        conform!(device, "nan_to_num", all, unary(REAL), Exact, |a| a.x[0].nan_to_num_with(0.5, 1.0, -1.0));
        conform!(device, "relu6", all, unary(REAL), Exact, |a| a.x[0].relu6());
        conform!(device, "hardtanh", all, unary(REAL), Exact, |a| a.x[0].hardtanh(-1.0, 1.5));
        conform!(device, "hardsigmoid", all, ordinary(REAL), OfLargest(2.0), |a| a.x[0].hardsigmoid());
        conform!(device, "selu", all, unary(REAL), Ulps(4.0), |a| a.x[0].selu());
        conform!(device, "celu", all, unary(REAL), Ulps(8.0), |a| a.x[0].celu(1.5));
        conform!(device, "mish", all, ordinary(REAL), Ulps(16.0), |a| a.x[0].mish());
        conform!(device, "clamp_min", all, unary(REAL), Exact, |a| a.x[0].clamp_min(-1.0));
        conform!(device, "clamp_max", all, unary(REAL), Exact, |a| a.x[0].clamp_max(1.5));
        conform!(device, "atan2", all, binary(REAL, POSITIVE), Ulps(4.0), |a| a.x[0].atan2(&a.x[1]));
        conform!(device, "softsign", all, ordinary(REAL), Ulps(4.0), |a| a.x[0].softsign());
    }
}

#[test]
fn functions_that_need_full_precision() {
    for device in &devices() {
        conform!(device, "exp", full, unary(REAL), Ulps(4.0), |a| a.x[0].exp());
        conform!(device, "expm1", full, unary(REAL), Ulps(4.0), |a| a.x[0].expm1());
        conform!(device, "log", full, unary(POSITIVE), Ulps(4.0), |a| a.x[0].log());
        conform!(device, "log1p", full, unary(POSITIVE), Ulps(4.0), |a| a.x[0].log1p());
        conform!(device, "log2", full, unary(POSITIVE), Ulps(4.0), |a| a.x[0].log2());
        conform!(device, "log10", full, unary(POSITIVE), Ulps(4.0), |a| a.x[0].log10());
        conform!(device, "lgamma", full, unary(Values::Uniform(2.5, 9.0)), Ulps(2.0), |a| a.x[0].lgamma());
        conform!(device, "digamma", full, unary(Values::Uniform(2.0, 9.0)), Ulps(2.0), |a| a.x[0].digamma());
        conform!(device, "erfinv", full, unary(Values::Uniform(-1.0, 1.0)), Ulps(2.0), |a| a.x[0].erfinv());
        conform!(device, "exp2", full, unary(REAL), Ulps(2.0), |a| a.x[0].exp2());
        conform!(device, "tan", full, ordinary(REAL), Ulps(4.0), |a| a.x[0].tan());
        conform!(device, "asin", full, unary(Values::Uniform(-1.0, 1.0)), Ulps(4.0), |a| a.x[0].asin());
        conform!(device, "acos", full, unary(Values::Uniform(-1.0, 1.0)), Ulps(4.0), |a| a.x[0].acos());
        conform!(device, "sinh", full, ordinary(REAL), Ulps(6.0), |a| a.x[0].sinh());
        conform!(device, "cosh", full, unary(REAL), Ulps(6.0), |a| a.x[0].cosh());
        conform!(device, "logaddexp2", full, binary(POSITIVE, POSITIVE), Ulps(4.0), |a| a.x[0].logaddexp2(&a.x[1]));
        conform!(device, "logaddexp", full, binary(POSITIVE, POSITIVE), Ulps(4.0), |a| a.x[0].logaddexp(&a.x[1]));
        conform!(device, "sqr", full, unary(REAL), Ulps(1.0), |a| a.x[0].sqr());
        conform!(device, "rsqrt", full, unary(POSITIVE), Ulps(2.0), |a| a.x[0].rsqrt());
        conform!(device, "recip", full, unary(POSITIVE), Ulps(1.0), |a| a.x[0].recip());
        conform!(device, "reciprocal", full, unary(POSITIVE), Ulps(1.0), |a| a.x[0].reciprocal());
        conform!(device, "softplus", full, unary(REAL), Ulps(4.0), |a| a.x[0].softplus());
        conform!(device, "pow_2.5", full, unary(POSITIVE), Ulps(16.0), |a| a.x[0].pow(2.5));
        conform!(device, "pow_3", full, unary(REAL), Ulps(8.0), |a| a.x[0].pow(3.0));
        conform!(device, "pow", full, binary(POSITIVE, REAL), Ulps(32.0), |a| a.x[0].pow(&a.x[1]));
    }
}

#[test]
fn arithmetic() {
    for device in &devices() {
        conform!(device, "add", all, binary_special(REAL), Exact, |a| &a.x[0] + &a.x[1]);
        conform!(device, "sub", all, binary_special(REAL), Exact, |a| &a.x[0] - &a.x[1]);
        conform!(device, "mul", all, binary_special(REAL), Exact, |a| &a.x[0] * &a.x[1]);
        conform!(device, "div", all, binary_special(POSITIVE), Exact, |a| &a.x[0] / &a.x[1]);
        conform!(device, "minimum", all, binary_special(REAL), Exact, |a| a.x[0].minimum(&a.x[1]));
        conform!(device, "maximum", all, binary_special(REAL), Exact, |a| a.x[0].maximum(&a.x[1]));
        let divisor = Values::Uniform(0.5, 4.0);
        conform!(device, "remainder", all, binary(REAL, divisor), Ulps(1.0), |a| a.x[0].remainder(&a.x[1]));
        conform!(device, "fmod", all, binary(REAL, divisor), Ulps(1.0), |a| a.x[0].fmod(&a.x[1]));
        conform!(device, "floor_divide", all, binary(REAL, divisor), Exact, |a| a.x[0].floor_divide(&a.x[1]));
        conform!(device, "fmax", all, binary_special(REAL), Exact, |a| a.x[0].fmax(&a.x[1]));
        conform!(device, "fmin", all, binary_special(REAL), Exact, |a| a.x[0].fmin(&a.x[1]));
        conform!(device, "copysign", all, binary(REAL, REAL), Exact, |a| a.x[0].copysign(&a.x[1]));
        conform!(device, "mul_scalar", all, unary(REAL), Ulps(1.0), |a| &a.x[0] * 0.3);
        conform!(device, "add_scalar", all, unary(REAL), Ulps(1.0), |a| &a.x[0] + 0.25);
        conform!(device, "div_scalar", all, unary(REAL), Ulps(1.0), |a| &a.x[0] / 3.0);
        conform!(device, "scalar_sub", all, unary(REAL), Ulps(1.0), |a| 1.0 - &a.x[0]);
        conform!(device, "lerp", all, ternary(POSITIVE), OfLargest(4.0), |a| a.x[0].lerp(&a.x[1], &a.x[2]));
        conform!(device, "addcmul", all, ternary(REAL), OfLargest(4.0), |a| a.x[0].addcmul(&a.x[1], &a.x[2], 0.5));
        conform!(device, "addcdiv", all, ternary(POSITIVE), OfLargest(4.0), |a| a.x[0].addcdiv(&a.x[1], &a.x[2], 0.5));
        conform!(device, "prelu", all, binary(REAL, REAL)[..1].to_vec(), Ulps(1.0), |a| {
            a.x[0].prelu(&a.x[1].select(0, 0)?)
        });
    }
}

#[test]
fn choices() {
    for device in &devices() {
        conform!(device, "where", all, masked(), Exact, |a| a.mask[0].where_(&a.x[0], &a.x[1]));
        conform!(device, "masked_select", all, masked(), Exact, |a| a.x[0].masked_select(&a.mask[0]));
        conform!(device, "nonzero", all, masked(), Exact, |a| a.x[0].relu()?.nonzero()?.to::<F64>());
        conform!(device, "masked_fill", all, masked(), Exact, |a| a.x[0].masked_fill(&a.mask[0], 0.5));
        conform!(device, "masked_fill_neg_inf", all, masked(), Exact, |a| {
            a.x[0].masked_fill(&a.mask[0], Fill::NegInf)?.maximum(-1e4)
        });
        conform!(device, "lt", all, binary_special(REAL), Exact, |a| a.x[0].lt(&a.x[1])?.to::<F64>());
        conform!(device, "ge", all, binary_special(REAL), Exact, |a| a.x[0].ge(&a.x[1])?.to::<F64>());
        conform!(device, "eq", all, binary_special(REAL), Exact, |a| a.x[0].eq(&a.x[1])?.to::<F64>());
        conform!(device, "ne", all, binary_special(REAL), Exact, |a| a.x[0].ne(&a.x[1])?.to::<F64>());
    }
}
