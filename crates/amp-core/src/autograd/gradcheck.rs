//! Comparing gradients with central differences, in F64.

use crate::Result;
use crate::precision::F64;
use crate::tensor::Tensor;

/// The worst disagreement that [`gradcheck`] found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GradCheck {
    /// Which input.
    pub input: usize,
    /// Which of its elements.
    pub element: usize,
    /// What the backward pass gave.
    pub analytic: f64,
    /// What central differences gave.
    pub numeric: f64,
    /// `|analytic - numeric| / max(1, |numeric|)`; infinite when either is not finite.
    pub error: f64,
}

#[cfg(test)]
impl GradCheck {
    /// Whether the gradients are those of the function, as far as central differences at steps of 1e-6 can tell.
    ///
    /// The rounding of a loss that is a sum of terms `t` makes them differ by about `eps / 1e-6 · Σ|t| = 2.2e-10 · Σ|t|`, the
    /// third derivative `f'''` by `1e-12 / 6 · f'''`. With up to a thousand terms of order 1 and third derivatives up to 1e5
    /// that is less than 1e-6; a wrong gradient is off by a part of itself.
    pub(crate) fn agrees(&self) -> bool {
        self.error <= 1e-6
    }
}

/// Compares the gradients of `f` with central differences at `inputs` and returns the worst disagreement
/// (`torch.autograd.gradcheck`).
///
/// `f` may return any shape: its elements are weighted by fixed irregular factors and summed. Central differences are exact
/// to about 1e-9 where `f` is smooth and neither it nor its derivatives are large.
///
/// ```
/// # use amp_core::{gradcheck, Device, F64, Tensor};
/// let x = Tensor::<F64>::from_vec(vec![0.5, -1.5], [2], &Device::cpu())?;
/// let worst = gradcheck(|x| x[0].tanh(), &[x])?;
/// assert!(worst.error <= 1e-8, "{worst:?}");
/// # Ok::<_, amp_core::Error>(())
/// ```
pub fn gradcheck(f: impl Fn(&[Tensor<F64>]) -> Result<Tensor<F64>>, inputs: &[Tensor<F64>]) -> Result<GradCheck> {
    const STEP: f64 = 1e-6;
    let loss = |inputs: &[Tensor<F64>]| -> Result<Tensor<F64>> {
        let y = f(inputs)?;
        let weights = Tensor::<F64>::from_fn(*y.raw.shape(), weight_of(&y), y.device())?;
        (y * &weights)?.sum_all()
    };
    let tracked: Vec<_> = inputs.iter().map(Tensor::tracked).collect();
    let grads = loss(&tracked)?.backward()?;
    let mut worst = GradCheck { input: 0, element: 0, analytic: 0.0, numeric: 0.0, error: 0.0 };
    for (input, x) in inputs.iter().enumerate() {
        let analytic = match grads.get(&tracked[input])? {
            Some(grad) => grad.to_vec()?,
            None => vec![0.0; x.count()],
        };
        let values = x.to_vec()?;
        for element in 0..values.len() {
            let at = |delta: f64| -> Result<f64> {
                let mut moved = values.clone();
                moved[element] += delta;
                let mut inputs = inputs.to_vec();
                inputs[input] = Tensor::from_vec(moved, *x.raw.shape(), x.device())?;
                crate::no_grad(|| loss(&inputs)?.item())
            };
            let numeric = (at(STEP)? - at(-STEP)?) / (2.0 * STEP);
            let analytic = analytic[element];
            let error = (analytic - numeric).abs() / numeric.abs().max(1.0);
            let error = if error.is_nan() { f64::INFINITY } else { error };
            if error > worst.error {
                worst = GradCheck { input, element, analytic, numeric, error };
            }
        }
    }
    Ok(worst)
}

/// Factors without symmetry, so that a gradient with swapped or doubled elements cannot pass.
fn weight_of(y: &Tensor<F64>) -> impl FnMut(&[usize]) -> f64 + use<> {
    let strides = y.raw.shape().contiguous_strides();
    move |index| {
        let flat: usize = index.iter().zip(strides.iter()).map(|(i, s)| i * s).sum();
        0.5 + (flat as f64 * 0.754_877_666).fract()
    }
}
