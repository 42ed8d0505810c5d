//! Operations on parameters: those of the F32 tensor at the parameter's present value.

use super::operand::{Operand, Term};
use crate::param::Parameter;
use crate::precision::{Bool, F32, I64};
use crate::shape::{Axes, IntoReshape, IntoShape, Position};
use crate::{Fill, Result, Tensor};
use std::ops;

/// One line a method: its arguments, and what it gives if that is not a tensor.
macro_rules! forwarded {
    ($($name:ident($($arg:ident: $type:ty),*) $(-> $given:ty)?;)*) => {
        impl Parameter { $(
            #[doc = concat!("[`Tensor::", stringify!($name), "`] of the parameter, which it trains.")]
            #[track_caller]
            pub fn $name(&self, $($arg: $type),*) -> Result<forwarded!(@given $($given)?)> {
                self.tensor().$name($($arg),*)
            }
        )* }
    };
    (@given) => { Tensor<F32> };
    (@given $given:ty) => { $given };
}

// Those that move elements.
forwarded! {
    reshape(shape: impl IntoReshape);
    flatten(start: isize, end: isize);
    permute(order: impl Axes);
    transpose(a: isize, b: isize);
    t();
    unsqueeze(axis: isize);
    squeeze(axis: isize);
    narrow(axis: isize, start: usize, length: usize);
    slice(axis: isize, range: impl ops::RangeBounds<usize>);
    select(axis: isize, index: impl Position);
    expand(shape: impl IntoShape);
    contiguous();
    repeat(times: impl AsRef<[usize]>);
    split(size: usize, axis: isize) -> Vec<Tensor<F32>>;
    chunk(count: usize, axis: isize) -> Vec<Tensor<F32>>;
    unbind(axis: isize) -> Vec<Tensor<F32>>;
    flip(axes: impl Axes);
    roll(shifts: impl Axes, axes: impl Axes);
    tril(diagonal: i64);
    triu(diagonal: i64);
    diagonal(above: i64, rows: isize, columns: isize);
    index_select(axis: isize, index: &Tensor<I64>);
    gather(axis: isize, index: &Tensor<I64>);
    embedding(indices: &Tensor<I64>);
    masked_fill(mask: &Tensor<Bool>, value: impl Into<Fill>);
}

// Those that compute weights from trained values, and those that penalties are made of.
forwarded! {
    neg();
    abs();
    sign();
    relu();
    tanh();
    sigmoid();
    softplus();
    exp();
    log();
    sqr();
    square();
    sqrt();
    rsqrt();
    recip();
    expm1();
    exp2();
    log1p();
    log2();
    sin();
    cos();
    tan();
    atan();
    erf();
    floor();
    ceil();
    round();
    gelu();
    silu();
    elu(alpha: impl Into<f64>);
    leaky_relu(negative_slope: impl Into<f64>);
    clamp(min: impl Into<f64>, max: impl Into<f64>);
    clamp_min(min: impl Into<f64>);
    clamp_max(max: impl Into<f64>);
    softmax(axis: isize);
    log_softmax(axis: isize);
    normalize(p: f64, axis: isize, eps: f64);
    norm(p: f64, axes: impl Axes, keep: bool);
    norm_all();
    sum(axes: impl Axes, keep: bool);
    sum_all();
    mean(axes: impl Axes, keep: bool);
    mean_all();
    amax(axes: impl Axes, keep: bool);
    amin(axes: impl Axes, keep: bool);
    prod(axes: impl Axes, keep: bool);
    var(axes: impl Axes, keep: bool);
    std(axes: impl Axes, keep: bool);
    logsumexp(axes: impl Axes, keep: bool);
    cumsum(axis: isize);
    cumprod(axis: isize);
    argmax(axis: isize, keep: bool) -> Tensor<I64>;
    argmin(axis: isize, keep: bool) -> Tensor<I64>;
    isfinite() -> Tensor<Bool>;
    isnan() -> Tensor<Bool>;
    matmul(other: &Tensor<F32>);
    size(axis: isize) -> usize;
    item() -> f32;
}

impl Parameter {
    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims().len()
    }

    /// The parameter at its present value, as a tensor that no graph reaches (`p.detach()`).
    pub fn detach(&self) -> Tensor<F32> {
        self.tensor().detach()
    }
}

/// One line a method that takes what stands beside the parameter, and what it gives.
macro_rules! beside {
    ($($name:ident -> $given:ty;)*) => {
        impl Parameter { $(
            #[doc = concat!("[`Tensor::", stringify!($name), "`] of the parameter, which it trains.")]
            #[track_caller]
            pub fn $name<R: Operand<F32>>(&self, other: R) -> Result<$given> {
                self.tensor().$name(other)
            }
        )* }
    };
}
beside! {
    add -> Tensor<F32>;
    sub -> Tensor<F32>;
    mul -> Tensor<F32>;
    div -> Tensor<F32>;
    pow -> Tensor<F32>;
    maximum -> Tensor<F32>;
    minimum -> Tensor<F32>;
    eq -> Tensor<Bool>;
    ne -> Tensor<Bool>;
    lt -> Tensor<Bool>;
    le -> Tensor<Bool>;
    gt -> Tensor<Bool>;
    ge -> Tensor<Bool>;
}

impl Operand<F32> for &Parameter {
    fn term(self) -> Term {
        Operand::<F32>::term(self.tensor())
    }
}

macro_rules! operators {
    ($($trait:ident, $method:ident;)*) => { $(
        impl<R: Operand<F32>> ops::$trait<R> for &Parameter {
            type Output = Result<Tensor<F32>>;

            #[track_caller]
            fn $method(self, other: R) -> Self::Output {
                self.tensor().$method(other)
            }
        }

        impl ops::$trait<&Parameter> for f64 {
            type Output = Result<Tensor<F32>>;

            #[track_caller]
            fn $method(self, parameter: &Parameter) -> Self::Output {
                ops::$trait::$method(self, parameter.tensor())
            }
        }
    )* };
}
operators! {
    Add, add;
    Sub, sub;
    Mul, mul;
    Div, div;
}

impl ops::Neg for &Parameter {
    type Output = Result<Tensor<F32>>;

    #[track_caller]
    fn neg(self) -> Self::Output {
        self.tensor().neg()
    }
}
