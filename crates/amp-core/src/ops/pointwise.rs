//! Functions of one element without parameters.

use super::kernel;
use crate::Result;
use crate::autograd::{Applied, Pass, Saved, SavedSigns, Turn, note_origin, record, record_turn};
use crate::order::elementwise;
use crate::precision::{Float, Numeric, full_range};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use amp_cpu::{DType, Unary};
use std::sync::Arc;

/// Applies `op` in the tensor's own precision and records it under `name`.
#[track_caller]
pub(crate) fn unary(name: &'static str, op: Unary, x: &RawTensor) -> Result<RawTensor> {
    match op {
        Unary::Relu | Unary::Abs => exact(name, op, x, None),
        _ => smooth(name, op, x, kernel::unary(op, x, x.logical)?, false),
    }
}

/// As [`unary`], rounded to `writes` if that is given.
#[track_caller]
pub(crate) fn full(name: &'static str, op: Unary, x: &RawTensor, writes: Option<DType>) -> Result<RawTensor> {
    let y = kernel::unary(op, x, writes.unwrap_or(x.logical))?.counted(x.logical);
    smooth(name, op, x, y, writes.is_some())
}

/// Records `y`, which `op` made of `x`.
#[track_caller]
fn smooth(name: &'static str, op: Unary, x: &RawTensor, y: RawTensor, rounded: bool) -> Result<RawTensor> {
    record(name, &[x], y, |y| {
        // A gradient that needs the result needs it before it was rounded; computed again from the input it has the same bits.
        let again = rounded && op.grad_from_output();
        let x = Saved::new(if op.grad_from_output() && !again { y } else { x })?;
        let kept = Arc::new(Applied { op, x });
        if kept.is_activation() {
            note_origin(y, &kept);
        }
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let grad = pass.grad();
            let again = if again { Some(kernel::unary(op, &kept.x, kept.x.logical)?) } else { None };
            let of = again.as_ref().unwrap_or(&kept.x);
            let dtype = pass.dtype(0);
            pass.give(0, elementwise([of, grad], |backend, [of, grad]| backend.unary_grad(op, of, grad, dtype))?)
        }))
    })
}

/// As [`full`], for `relu` and `abs`: every precision that holds `x` holds the result too.
#[track_caller]
pub(super) fn exact(name: &'static str, op: Unary, x: &RawTensor, writes: Option<DType>) -> Result<RawTensor> {
    let stored = x.stored();
    let out = writes.unwrap_or(stored.logical);
    let (rounded, y) = (out != stored.logical, kernel::unary(op, &stored, out)?.counted(x.logical));
    if op == Unary::Abs {
        return smooth(name, op, x, y, rounded);
    }
    // An element that only rounding made 0 has a gradient.
    let signs = |y: &RawTensor| if rounded { SavedSigns::of_input(x) } else { SavedSigns::new(y) };
    record_turn(name, &[x], y, |y| signs(y).map(Turn::Relu))
}

/// As [`unary`], for steps: their derivative is 0, so nothing is kept.
#[track_caller]
fn step(name: &'static str, op: Unary, x: &RawTensor) -> Result<RawTensor> {
    record(name, &[x], kernel::unary(op, x, x.logical)?, |_| {
        Ok(Box::new(|pass: &mut Pass<'_>| {
            let zeros = kernel::zeros(pass.grad(), pass.dtype(0))?;
            pass.give(0, zeros)
        }))
    })
}

impl<P: Numeric> Tensor<P> {
    #[track_caller]
    pub(crate) fn pointwise(&self, name: &'static str, op: Unary) -> Result<Self> {
        Ok(Self::from_raw(unary(name, op, &self.raw)?))
    }

    /// As [`pointwise`](Self::pointwise), for an operation that can write a narrow result.
    #[track_caller]
    pub(crate) fn full_pointwise(&self, name: &'static str, op: Unary) -> Result<Self> {
        Ok(Self::from_raw(full(name, op, &self.raw, P::WRITES)?))
    }
}

/// Methods that run in the precision they are given.
macro_rules! keep {
    ($bound:ident, $apply:ident: $($name:ident, $op:ident, $doc:literal;)*) => {
        impl<P: $bound> Tensor<P> { $(
            #[doc = $doc]
            #[track_caller]
            pub fn $name(&self) -> Result<Self> {
                Ok(Self::from_raw($apply(stringify!($name), Unary::$op, &self.raw)?))
            }
        )* }
    };
}
impl<P: Numeric> Tensor<P> {
    /// `|x|` (`torch.abs`); its derivative at 0 is 0.
    #[doc(alias = "absolute")]
    #[track_caller]
    pub fn abs(&self) -> Result<Self> {
        Ok(Self::from_raw(exact("abs", Unary::Abs, &self.raw, P::WRITES)?))
    }

    /// `max(x, 0)`; NaN stays NaN (`torch.relu`).
    #[track_caller]
    pub fn relu(&self) -> Result<Self> {
        Ok(Self::from_raw(exact("relu", Unary::Relu, &self.raw, P::WRITES)?))
    }
}
keep! { Numeric, step:
    sign, Sign, "-1, 0 or 1; 0 for NaN (`torch.sign`).";
    floor, Floor, "The integer below or at `x` (`torch.floor`).";
    ceil, Ceil, "The integer above or at `x` (`torch.ceil`).";
    trunc, Trunc, "The integer next to `x` on the side of 0 (`torch.trunc`).";
    round, Round, "The nearest integer, the even one of two (`torch.round`).";
}
keep! { Float, unary:
    sqrt, Sqrt, "`sqrt(x)`; NaN below 0 (`torch.sqrt`). Computed in F32, rounded once.";
    sin, Sin, "Sine of an angle in radians (`torch.sin`). Computed in F32, rounded once.";
    cos, Cos, "Cosine of an angle in radians (`torch.cos`). Computed in F32, rounded once.";
    tanh, Tanh, "Hyperbolic tangent (`torch.tanh`). Computed in F32, rounded once.";
    erf, Erf, "Gauss error function (`torch.erf`). Computed in F32, rounded once.";
    sigmoid, Sigmoid, "`1 / (1 + e^-x)` (`torch.sigmoid`). Computed in F32, rounded once.";
    log_sigmoid, LogSigmoid, "`ln(sigmoid(x))` without overflow (`F.logsigmoid`). Computed in F32, rounded once.";
    logsigmoid, LogSigmoid, "[`log_sigmoid`](Self::log_sigmoid) under PyTorch's name.";
    gelu, Gelu, "`x * Phi(x)` with the exact normal distribution (`F.gelu`). Computed in F32, rounded once.";
    gelu_tanh, GeluTanh, "The tanh approximation of gelu (`F.gelu(approximate=\"tanh\")`). Computed in F32, rounded once.";
    silu, Silu, "`x * sigmoid(x)` (`F.silu`). Computed in F32, rounded once.";
    hardswish, Hardswish, "`x * clamp(x + 3, 0, 6) / 6` (`F.hardswish`). Computed in F32, rounded once.";
}

/// Methods that exist in full precision only.
macro_rules! full {
    ($($name:ident, $bound:ident, $op:ident, $message:literal, $doc:literal;)*) => {
        full_range! { $($bound, $message;)* }

        impl<P: Float> Tensor<P> { $(
            #[doc = $doc]
            #[track_caller]
            pub fn $name(&self) -> Result<Self>
            where
                P: $bound,
            {
                self.full_pointwise(stringify!($name), Unary::$op)
            }
        )* }
    };
}
full! {
    exp, ExpPrecision, Exp, "`exp` must run in `F32`",
        "`e^x` (`torch.exp`). Needs full precision: `e^11.1` is already infinite in F16.";
    expm1, Expm1Precision, Expm1, "`expm1` must run in `F32`",
        "`e^x - 1`, exact near 0 (`torch.expm1`). Needs full precision: it overflows F16 as `exp` does.";
    log, LogPrecision, Log, "`log` must run in `F32`",
        "Natural logarithm (`torch.log`). Needs full precision: arguments below 6e-8 are 0 in F16.";
    log1p, Log1pPrecision, Log1p, "`log1p` must run in `F32`",
        "`ln(1 + x)`, exact near 0 (`torch.log1p`). Needs full precision: small arguments vanish in F16.";
    log2, Log2Precision, Log2, "`log2` must run in `F32`",
        "Logarithm to base 2 (`torch.log2`). Needs full precision: arguments below 6e-8 are 0 in F16.";
    sqr, SqrPrecision, Sqr, "`sqr` must run in `F32`",
        "`x * x` (`torch.square`). Needs full precision: squares leave the range of F16 above 256.";
    square, SquarePrecision, Sqr, "`square` must run in `F32`",
        "[`sqr`](Self::sqr) under PyTorch's name.";
    rsqrt, RsqrtPrecision, Rsqrt, "`rsqrt` must run in `F32`",
        "`1 / sqrt(x)` (`torch.rsqrt`). Needs full precision: small epsilons vanish in F16.";
    recip, RecipPrecision, Recip, "`recip` must run in `F32`",
        "`1 / x` (`torch.reciprocal`). Needs full precision: it overflows F16 for arguments below 1.5e-5.";
    reciprocal, ReciprocalPrecision, Recip, "`reciprocal` must run in `F32`",
        "[`recip`](Self::recip) under PyTorch's name.";
}

#[cfg(test)]
mod tests {
    use crate::{Device, F16, F32, F64, I64, Result, Tensor, gradcheck};
    use half::f16;

    type Function = fn(&Tensor<F64>) -> Result<Tensor<F64>>;

    #[test]
    fn gradients_agree_with_differences() {
        let any = vec![0.3, -0.7, 1.9, 0.02, -2.2, 3.8];
        let x = Tensor::<F64>::from_vec(any.clone(), [2, 3], &Device::cpu()).unwrap();
        let positive =
            Tensor::<F64>::from_vec(any.iter().map(|v| v.abs() + 0.1).collect(), [6], &Device::cpu()).unwrap();
        let everywhere: [(&str, Function); 20] = [
            ("exp", |x| x.exp()),
            ("expm1", |x| x.expm1()),
            ("tanh", |x| x.tanh()),
            ("relu", |x| x.relu()),
            ("abs", |x| x.abs()),
            ("sign", |x| x.sign()),
            ("floor", |x| x.floor()),
            ("ceil", |x| x.ceil()),
            ("round", |x| x.round()),
            ("sqr", |x| x.sqr()),
            ("sin", |x| x.sin()),
            ("cos", |x| x.cos()),
            ("erf", |x| x.erf()),
            ("sigmoid", |x| x.sigmoid()),
            ("log_sigmoid", |x| x.log_sigmoid()),
            ("logsigmoid", |x| x.logsigmoid()),
            ("gelu", |x| x.gelu()),
            ("gelu_tanh", |x| x.gelu_tanh()),
            ("silu", |x| x.silu()),
            ("hardswish", |x| x.hardswish()),
        ];
        let above_zero: [(&str, Function); 7] = [
            ("log", |x| x.log()),
            ("log1p", |x| x.log1p()),
            ("log2", |x| x.log2()),
            ("sqrt", |x| x.sqrt()),
            ("rsqrt", |x| x.rsqrt()),
            ("recip", |x| x.recip()),
            ("reciprocal", |x| x.reciprocal()),
        ];
        for (functions, x) in [(&everywhere[..], &x), (&above_zero[..], &positive)] {
            for (name, f) in functions {
                let worst = gradcheck(|x| f(&x[0]), std::slice::from_ref(x)).unwrap();
                assert!(worst.agrees(), "{name}: {worst:?}");
            }
        }
    }

    #[test]
    fn half_results_are_f32_results_rounded_once() {
        let device = Device::cpu();
        let x = Tensor::<F32>::from_fn([257], |i| (i[0] as f32 - 128.0) / 16.0, &device).unwrap();
        let narrow = x.to::<F16>().unwrap();
        let wide = narrow.to::<F32>().unwrap();
        let rounded: Vec<f16> = wide.gelu().unwrap().to_vec().unwrap().into_iter().map(f16::from_f32).collect();
        assert_eq!(narrow.gelu().unwrap().to_vec().unwrap(), rounded);
    }

    #[test]
    fn integers_keep_their_type() {
        let x = Tensor::<I64>::from_vec(vec![-(1 << 60), 0, 5], [3], &Device::cpu()).unwrap();
        assert_eq!(x.abs().unwrap().to_vec().unwrap(), [1 << 60, 0, 5]);
        assert_eq!(x.sign().unwrap().to_vec().unwrap(), [-1, 0, 1]);
        assert_eq!(x.relu().unwrap().to_vec().unwrap(), [0, 0, 5]);
    }
}
