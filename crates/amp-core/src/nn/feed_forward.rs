//! The feed-forward half of a transformer block.

use super::{Linear, Module, Visitor};
use crate::ops::feed_forward;
use crate::param::Parameter;
use crate::precision::Float;
use crate::tensor::Tensor;
use crate::{Device, Error, Result};
use amp_cpu::Unary;

/// What stands between the layers of a [`FeedForward`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `max(x, 0)`
    Relu,
    /// Gelu in its erf form.
    Gelu,
    /// The tanh approximation of gelu.
    GeluTanh,
    /// `x * sigmoid(x)`
    Silu,
}

impl Activation {
    /// Same shape and precision.
    #[track_caller]
    pub(super) fn of<P: Float>(self, x: &Tensor<P>) -> Result<Tensor<P>> {
        match self {
            Self::Relu => x.relu(),
            Self::Gelu => x.gelu(),
            Self::GeluTanh => x.gelu_tanh(),
            Self::Silu => x.silu(),
        }
    }
}

/// `down(activation(up(x)))`: bit for bit what `Sequential((up, Gelu, down))` computes on a CPU.
///
/// It is one operation of the graph: the backward pass keeps one tensor of the hidden layer. A GPU may compute
/// the activation and its derivative inside the products; gelu's tanh approximation is then taken of 16-bit products before
/// they are rounded, which is more exact.
///
/// ```
/// # use amp_core::{nn::{Activation, FeedForward}, Device, F16, F32, Tensor};
/// # let device = Device::cpu();
/// let layer = FeedForward::new(8, 32, Activation::Gelu, &device)?;
/// let y: Tensor<F16> = layer.forward(&Tensor::<F16>::zeros([2, 5, 8], &device)?)?;
/// # assert_eq!(y.dims(), [2, 5, 8]);
/// # Ok::<_, amp_core::Error>(())
/// ```
#[derive(Debug)]
pub struct FeedForward {
    pub(super) up: Linear,
    pub(super) activation: Activation,
    pub(super) down: Linear,
}

impl FeedForward {
    /// From `width` to `hidden` and back; weights and biases as of [`Linear::new`].
    pub fn new(width: usize, hidden: usize, activation: Activation, device: &Device) -> Result<Self> {
        let (up, down) = (Linear::new(width, hidden, device)?, Linear::new(hidden, width, device)?);
        Ok(Self { up, activation, down })
    }

    /// From existing layers.
    ///
    /// # Errors
    /// [`Error::Shape`] when the outputs of `up` are not the inputs of `down`.
    pub fn from_layers(up: Linear, activation: Activation, down: Linear) -> Result<Self> {
        let (hidden, found) = (up.weight().dims()[0], *down.weight().tensor().raw.shape());
        if found[1] != hidden {
            let expected = format!("[_, {hidden}]");
            return Err(Error::Shape { op: "FeedForward", what: "the second weight", expected, found: found.into() });
        }
        Ok(Self { up, activation, down })
    }

    /// The layer before the activation.
    pub fn up(&self) -> &Linear {
        &self.up
    }

    /// The layer after it.
    pub fn down(&self) -> &Linear {
        &self.down
    }

    /// `[.., width]` to `[.., width]`, in the precision of `x`.
    ///
    /// # Precision
    /// Each product accumulates in F32 (F64 for F64), adds its bias and is rounded; the activation is computed from the
    /// rounded values in F32 and rounded. Parameters' gradients come straight from the accumulators in F32.
    #[track_caller]
    pub fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<P>> {
        let op = match self.activation {
            Activation::Relu => Unary::Relu,
            Activation::Gelu => Unary::Gelu,
            Activation::GeluTanh => Unary::GeluTanh,
            Activation::Silu => Unary::Silu,
        };
        let [up, down] = [self.up.weight().to::<P>()?, self.down.weight().to::<P>()?];
        let bias = |layer: &Linear| layer.bias().map(Parameter::to::<P>).transpose();
        let [up_bias, down_bias] = [bias(&self.up)?, bias(&self.down)?];
        let raw = |bias: &'_ Option<Tensor<P>>| bias.as_ref().map(|bias| bias.raw.clone());
        let (up_bias, down_bias) = (raw(&up_bias), raw(&down_bias));
        let y = feed_forward(&x.raw, (&up.raw, up_bias.as_ref()), op, (&down.raw, down_bias.as_ref()))?;
        Ok(Tensor::from_raw(y))
    }
}

impl Module for FeedForward {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.field("up", &self.up);
        visitor.field("down", &self.down);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BF16, F32, F64, gradcheck};

    fn numbers(shape: &[usize], start: f64) -> Tensor<F32> {
        let mut value = start;
        let mut next = |_: &[usize]| {
            value = (value * 7.3 + 0.41).fract();
            (value - 0.5) as f32
        };
        Tensor::<F32>::from_fn(shape, &mut next, &Device::cpu()).unwrap()
    }

    fn layer(inputs: usize, outputs: usize, biased: bool) -> Linear {
        let bias = biased.then(|| Parameter::new(&numbers(&[outputs], 0.3)).unwrap());
        Linear::from_parameters(Parameter::new(&numbers(&[outputs, inputs], 0.2)).unwrap(), bias).unwrap()
    }

    type Function<P> = fn(&Tensor<P>) -> Result<Tensor<P>>;

    /// The result, and the gradients of the input and of every parameter, of the module or of its parts in turn.
    fn run<P: Float>(
        shape: &[usize],
        biased: bool,
        activation: (Activation, Function<P>),
        fused: bool,
    ) -> Vec<Vec<f32>> {
        let (up, down) = (layer(16, 37, biased), layer(37, 5, !biased));
        let module = FeedForward::from_layers(up, activation.0, down).unwrap();
        let x = numbers(shape, 0.7).tracked();
        let narrow = x.to::<P>().unwrap();
        let y = if fused {
            module.forward(&narrow).unwrap()
        } else {
            module.down.forward(&activation.1(&module.up.forward(&narrow).unwrap()).unwrap()).unwrap()
        };
        let y = y.to::<F32>().unwrap();
        let grads = (&y * &y).unwrap().sum_all().unwrap().backward().unwrap();
        let mut found = vec![y.to_vec().unwrap(), grads.get(&x).unwrap().unwrap().to_vec().unwrap()];
        for layer in [&module.up, &module.down] {
            for parameter in [Some(layer.weight()), layer.bias()].into_iter().flatten() {
                found.push(grads.get(parameter).unwrap().unwrap().to_vec().unwrap());
            }
        }
        found
    }

    fn check<P: Float>() {
        let activations: [(Activation, Function<P>); 4] = [
            (Activation::Relu, Tensor::relu),
            (Activation::Gelu, Tensor::gelu),
            (Activation::GeluTanh, Tensor::gelu_tanh),
            (Activation::Silu, Tensor::silu),
        ];
        for activation in activations {
            for shape in [&[16][..], &[1, 16], &[26, 16], &[2, 7, 16], &[0, 16]] {
                for biased in [false, true] {
                    let [fused, parts] = [true, false].map(|fused| run(shape, biased, activation, fused));
                    assert!(fused == parts, "{:?} of {shape:?} in {:?}, biased: {biased}", activation.0, P::DTYPE);
                }
            }
        }
    }

    #[test]
    fn it_computes_the_bits_of_its_parts() {
        check::<F32>();
        check::<BF16>();
    }

    #[test]
    fn gradients_agree_with_differences() {
        let tensors = [(&[2, 3, 4][..], 0.1), (&[5, 4], 0.2), (&[5], 0.3), (&[3, 5], 0.4), (&[3], 0.5)]
            .map(|(shape, start)| numbers(shape, start).to::<F64>().unwrap());
        for op in [Unary::Gelu, Unary::GeluTanh, Unary::Silu, Unary::Tanh] {
            let f = |x: &[Tensor<F64>]| {
                let x = x.iter().map(|x| &x.raw).collect::<Vec<_>>();
                feed_forward(x[0], (x[1], Some(x[2])), op, (x[3], Some(x[4]))).map(Tensor::from_raw)
            };
            let worst = gradcheck(f, &tensors).unwrap();
            assert!(worst.agrees(), "{op:?}: {worst:?}");
        }
    }

    #[test]
    fn layers_that_do_not_meet_are_refused() {
        let error = FeedForward::from_layers(layer(4, 6, true), Activation::Gelu, layer(5, 4, true)).err().unwrap();
        assert_eq!(error.to_string(), "FeedForward: the second weight must have shape [_, 6], found [4, 5]");
        let module = FeedForward::new(4, 8, Activation::Gelu, &Device::cpu()).unwrap();
        let error = module.forward(&numbers(&[2, 5], 0.1)).err().unwrap();
        let expected = "feed_forward: the input must have shape [.., 4] to fit the weight [8, 4], found [2, 5]";
        assert_eq!(error.to_string(), expected);
    }
}
