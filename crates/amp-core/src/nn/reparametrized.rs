//! Weights that are computed from other parameters before each use.

use super::{Mode, Module, Statistics, Visitor, Waiting};
use crate::param::Parameter;
use crate::precision::F32;
use crate::tensor::Tensor;
use crate::{Error, Result, no_grad};

/// A weight of directions and, for each slice along axis 0, a magnitude (`torch.nn.utils.weight_norm`).
///
/// It stands in a module in place of a layer whose weight it is; an operation takes what it gives.
///
/// ```
/// # use amp_core::{nn::{Linear, WeightNorm}, Device, F32, Tensor};
/// # let device = Device::cpu();
/// let layer = Linear::new(8, 4, &device)?;
/// let norm = WeightNorm::new(layer.weight())?;
/// let x = Tensor::<F32>::randn([2, 8], &device)?;
/// let y = x.linear(&norm.weight()?, layer.bias().map(|bias| bias.tensor()).as_ref())?;
/// # assert!(((y - layer.forward(&x)?)?.abs()?.max([], false)?.item()?) <= 1e-5);
/// # Ok::<_, amp_core::Error>(())
/// ```
#[derive(Debug)]
pub struct WeightNorm {
    magnitude: Parameter,
    direction: Parameter,
}

impl WeightNorm {
    /// New parameters that together are what `weight` is now.
    ///
    /// # Errors
    /// [`Error::Rank`] for a weight without dimensions.
    pub fn new(weight: &Parameter) -> Result<Self> {
        let direction = weight.tensor().detach();
        let magnitude = Parameter::new(&lengths(&direction)?)?;
        Ok(Self { magnitude, direction: Parameter::new(&direction)? })
    }

    /// The magnitudes, `[outputs, 1, ..]`.
    pub fn magnitude(&self) -> &Parameter {
        &self.magnitude
    }

    /// The directions, in the shape of the weight.
    pub fn direction(&self) -> &Parameter {
        &self.direction
    }

    /// The weight: each direction divided by its length, times its magnitude. NaN for a direction of length 0. In F32.
    #[track_caller]
    pub fn weight(&self) -> Result<Tensor<F32>> {
        let direction = self.direction.tensor();
        direction.mul(&self.magnitude.tensor().div(&lengths(&direction)?)?)
    }
}

impl Module for WeightNorm {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.field("weight_g", &self.magnitude);
        visitor.field("weight_v", &self.direction);
    }
}

/// The Euclidean length of each slice along axis 0, which stays.
#[track_caller]
fn lengths(weight: &Tensor<F32>) -> Result<Tensor<F32>> {
    match weight.rank() {
        0 => Err(Error::Rank {
            op: "WeightNorm",
            what: "the weight",
            expected: "at least 1 dimension",
            found: weight.raw.shape().into(),
        }),
        1 => weight.abs(),
        rank => weight.norm(2.0, (1..rank as isize).collect::<Vec<_>>(), true),
    }
}

/// A weight divided by its largest singular value, as a matrix of what belongs to each output
/// (`torch.nn.utils.spectral_norm`).
///
/// The singular vectors are found by one step of power iteration each time that the weight is asked for in training, and lie in
/// the model's state; they move when an optimizer step is taken, as running statistics do. It stands in a module in place of
/// a layer, as [`WeightNorm`] does.
#[derive(Debug)]
pub struct SpectralNorm {
    weight: Parameter,
    left: Statistics,
    right: Statistics,
    waiting: Waiting,
    mode: Mode,
}

/// Steps of power iteration before the first use, as in PyTorch.
const STEPS: usize = 15;

impl SpectralNorm {
    /// Divides `weight`, which stays the parameter that is trained.
    ///
    /// # Errors
    /// [`Error::Rank`] for fewer than 2 dimensions.
    pub fn new(weight: &Parameter) -> Result<Self> {
        let matrix = matrix(&weight.tensor().detach())?;
        let mut right = Tensor::<F32>::randn([matrix.dims()[1]], weight.device())?;
        let mut left = right.clone();
        for _ in 0..STEPS {
            (left, right) = vectors(&matrix, &right)?;
        }
        let (left, right) = (Statistics::new(&left), Statistics::new(&right));
        Ok(Self { weight: weight.clone(), left, right, waiting: Waiting::new(), mode: Mode::new() })
    }

    /// The parameter that is divided.
    pub fn original(&self) -> &Parameter {
        &self.weight
    }

    /// The weight divided by its largest singular value, in F32. Gradients take the singular vectors for constant.
    #[track_caller]
    pub fn weight(&self) -> Result<Tensor<F32>> {
        let weight = self.weight.tensor();
        let matrix = matrix(&weight)?;
        if !self.mode.is_training() {
            return weight.div(&largest(&matrix, &self.left.tensor(), &self.right.tensor())?);
        }
        let (left, right) = no_grad(|| vectors(&matrix, &self.right.tensor()))?;
        let divided = weight.div(&largest(&matrix, &left, &right)?)?;
        let found = [(&self.left, &left), (&self.right, &right)];
        self.waiting.set_for(found, &divided.raw, [self.weight.id()].into())?;
        Ok(divided)
    }
}

impl Module for SpectralNorm {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.field("weight_orig", &self.weight);
        visitor.field("weight_u", &self.left);
        visitor.field("weight_v", &self.right);
        visitor.field("waiting", &self.waiting);
        visitor.field("mode", &self.mode);
    }
}

/// A weight with a row for each output.
#[track_caller]
fn matrix(weight: &Tensor<F32>) -> Result<Tensor<F32>> {
    if weight.rank() < 2 {
        let (expected, found) = ("at least 2 dimensions", weight.raw.shape().into());
        return Err(Error::Rank { op: "SpectralNorm", what: "the weight", expected, found });
    }
    weight.flatten(1, -1)
}

/// The singular vectors after a step of power iteration from the right one.
#[track_caller]
fn vectors(matrix: &Tensor<F32>, right: &Tensor<F32>) -> Result<(Tensor<F32>, Tensor<F32>)> {
    let left = matrix.matmul(right)?.normalize(2.0, 0, 1e-12)?;
    let right = matrix.t()?.matmul(&left)?.normalize(2.0, 0, 1e-12)?;
    Ok((left, right))
}

/// The singular value that belongs to these vectors.
#[track_caller]
fn largest(matrix: &Tensor<F32>, left: &Tensor<F32>, right: &Tensor<F32>) -> Result<Tensor<F32>> {
    left.matmul(&matrix.matmul(right)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optim::{Optimizer, Sgd};
    use crate::{Device, GradScaler};

    fn weight() -> Parameter {
        let values = [3.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0];
        Parameter::new(&Tensor::from_slice(&values, [2, 2, 2], &Device::cpu()).unwrap()).unwrap()
    }

    #[test]
    fn magnitudes_and_directions_are_the_weight() -> Result<()> {
        let norm = WeightNorm::new(&weight())?;
        assert_eq!(norm.magnitude().to_vec()?, [3.0, 0.5]);
        assert_eq!(norm.weight()?.to_vec()?, weight().to_vec()?);
        let line = WeightNorm::new(&Parameter::new(&Tensor::from_slice(&[-2.0, 5.0], [2], &Device::cpu())?)?)?;
        assert_eq!(line.weight()?.to_vec()?, [-2.0, 5.0]);
        let single = Parameter::new(&Tensor::scalar(1.0, &Device::cpu())?)?;
        let error = WeightNorm::new(&single).unwrap_err().to_string();
        assert_eq!(error, "WeightNorm: the weight must have at least 1 dimension, found shape []");
        Ok(())
    }

    #[test]
    fn the_largest_singular_value_becomes_1() -> Result<()> {
        let norm = SpectralNorm::new(&weight())?;
        let found = norm.weight()?.to_vec()?;
        // The other singular value is a sixth of it: 15 steps leave less than a rounding.
        assert!((found[0] - 1.0).abs() <= 4.0 * f32::EPSILON, "{found:?}");
        norm.eval();
        assert!(norm.weight()?.equal(&norm.weight()?)?);
        let line = Parameter::new(&Tensor::from_slice(&[1.0, 2.0], [2], &Device::cpu())?)?;
        let error = SpectralNorm::new(&line).unwrap_err().to_string();
        assert_eq!(error, "SpectralNorm: the weight must have at least 2 dimensions, found shape [2]");
        Ok(())
    }

    #[test]
    fn singular_vectors_move_with_a_step_that_is_taken() -> Result<()> {
        let (norm, device) = (SpectralNorm::new(&weight())?, Device::cpu());
        let state = || norm.named_statistics().iter().map(|(_, s)| s.tensor().to_vec()).collect::<Result<Vec<_>>>();
        norm.original().set(&Tensor::from_fn([2, 2, 2], |i| (i[0] + 3 * i[1]) as f32, &device)?)?;
        let (before, mut optimizer) = (state()?, Sgd::new(norm.parameters(), 0.1));
        let mut scaler = GradScaler::new(&device)?;
        for factor in [f32::INFINITY, 1.0] {
            let loss = norm.weight()?.sqr()?.sum_all()?.mul(f64::from(factor))?;
            assert_eq!(state()?, before);
            scaler.step(&mut optimizer, scaler.scale(&loss)?.backward()?)?;
            scaler.update()?;
            assert_eq!(state()? == before, factor.is_infinite());
        }
        let loss = norm.weight()?.sum_all()?;
        let before = state()?;
        optimizer.step(&loss.backward()?)?;
        assert!(state()? != before);
        Ok(())
    }
}
