//! p-norms of vectors.

use super::kernel::{binary, compare, reduce, select, unary, zeros};
use crate::autograd::{Pass, Saved, record};
use crate::precision::{Float, full_range};
use crate::raw::RawTensor;
use crate::shape::Axes;
use crate::tensor::Tensor;
use crate::{Error, Result, shape};
use amp_cpu::{Binary, Compare, DType, Reduce, Unary};

full_range! {
    NormPrecision, "`norm` must run in `F32`";
}

/// `(Σ |x|^p)^(1/p)` over `axes`, which stay with size 1.
#[track_caller]
fn norm(x: &RawTensor, p: f64, axes: &[usize]) -> Result<RawTensor> {
    let y = match p {
        1.0 => reduce(Reduce::SumAbs, x, axes, x.logical)?,
        2.0 => unary(Unary::Sqrt, &reduce(Reduce::SumSquares, x, axes, x.logical)?, x.logical)?,
        _ => {
            let powers = unary(Unary::Powf(p), &unary(Unary::Abs, x, x.logical)?, x.logical)?;
            unary(Unary::Powf(1.0 / p), &reduce(Reduce::Sum, &powers, axes, x.logical)?, x.logical)?
        }
    };
    record("norm", &[x], y, |y| {
        let (x, y) = (Saved::new(x)?, Saved::new(y)?);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let slope = slope(&x, &y, p)?;
            pass.give(0, binary("norm", Binary::Mul, &slope, pass.grad(), pass.dtype(0))?)
        }))
    })
}

/// `sign(x) (|x| / y)^(p - 1)`, and 0 where the norm is 0.
fn slope(x: &RawTensor, y: &RawTensor, p: f64) -> Result<RawTensor> {
    let dtype = x.logical;
    if p == 1.0 {
        return unary(Unary::Sign, x, dtype);
    }
    let ratio = binary("norm", Binary::Div, x, y, dtype)?;
    let slope = if p == 2.0 { ratio } else { signed_power(&ratio, p - 1.0, dtype)? };
    let zero = zeros(y, dtype)?;
    let vanishes = compare("norm", Compare::Eq, y, &zero)?.broadcast_to("norm", x.shape())?;
    select("norm", &vanishes, &zero, &slope, dtype)
}

fn signed_power(x: &RawTensor, p: f64, dtype: DType) -> Result<RawTensor> {
    let power = unary(Unary::Powf(p), &unary(Unary::Abs, x, dtype)?, dtype)?;
    binary("norm", Binary::Mul, &unary(Unary::Sign, x, dtype)?, &power, dtype)
}

impl<P: Float> Tensor<P> {
    /// `(Σ |x|^p)^(1/p)` over `axes` (all when none are given); infinite `p` gives the largest or least magnitude
    /// (`torch.linalg.vector_norm`).
    ///
    /// # Precision
    /// Squares are summed in F32 (F64 for F64).
    ///
    /// # Errors
    /// [`Error::Argument`] for `p` that is 0 or NaN.
    #[track_caller]
    pub fn norm(&self, p: f64, axes: impl Axes, keep: bool) -> Result<Self>
    where
        P: NormPrecision,
    {
        if p == 0.0 || p.is_nan() {
            return Err(Error::argument("norm", "p", "a number other than 0", p));
        }
        let axes = shape::axes("norm", axes.as_axes(), self.rank())?;
        if p.is_infinite() {
            let magnitude = self.pointwise("norm", Unary::Abs)?;
            let all: Vec<isize> = axes.iter().map(|&a| a as isize).collect();
            let folds = !all.is_empty();
            return match (folds, p > 0.0) {
                (false, _) => Ok(magnitude),
                (true, true) => magnitude.max(all, keep),
                (true, false) => magnitude.min(all, keep),
            };
        }
        Self::from_raw(norm(&self.raw, p, &axes)?).drop_axes(&axes, keep)
    }

    /// Euclidean norm of all elements, as a tensor of no dimensions.
    #[track_caller]
    pub fn norm_all(&self) -> Result<Self>
    where
        P: NormPrecision,
    {
        self.norm(2.0, [], false)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, F32, F64, Tensor, gradcheck};

    #[test]
    fn gradients_agree_with_differences() {
        let x = Tensor::<F64>::from_vec(vec![0.3, -0.7, 1.9, 0.01, -2.2, 0.8], [2, 3], &Device::cpu()).unwrap();
        for p in [1.0, 2.0, 3.0, 0.5, f64::INFINITY, f64::NEG_INFINITY] {
            let worst = gradcheck(|x| x[0].norm(p, [1], false), std::slice::from_ref(&x)).unwrap();
            assert!(worst.error <= 1e-5, "p = {p}: {worst:?}");
        }
    }

    #[test]
    fn the_norm_of_zeros_has_no_slope() {
        let x = Tensor::<F32>::zeros([3], &Device::cpu()).unwrap().tracked();
        let grads = x.norm_all().unwrap().backward().unwrap();
        assert_eq!(grads.get(&x).unwrap().unwrap().to_vec().unwrap(), [0.0; 3]);
        assert!(x.norm(0.0, [], false).is_err());
    }
}
