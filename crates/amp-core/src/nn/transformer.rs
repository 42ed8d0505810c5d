//! Layers of transformers: attention and a feed-forward part, each added to what it was given and normalised.

use super::{Activation, Dropout, FeedForward, LayerNorm, Module, MultiHeadAttention, Visitor};
use crate::precision::{Bool, F32, Float};
use crate::tensor::Tensor;
use crate::{Device, Result};

/// What stands around each part of a layer: `norm(x + part(x))`, or `x + part(norm(x))`.
#[derive(Debug)]
struct Around {
    norm: LayerNorm,
    dropout: Dropout,
}

impl Around {
    fn new(width: usize, device: &Device) -> Result<Self> {
        Ok(Self { norm: LayerNorm::new([width], device)?, dropout: Dropout::new(DROPOUT) })
    }

    #[track_caller]
    fn part<P: Float>(
        &self,
        norm_first: bool,
        x: &Tensor<F32>,
        part: impl FnOnce(&Tensor<P>) -> Result<Tensor<P>>,
    ) -> Result<Tensor<F32>> {
        let given = if norm_first { self.norm.forward(x)? } else { x.clone() };
        let sum = x.add(&self.dropout.forward(&part(&given.to::<P>()?)?)?.to::<F32>()?)?;
        if norm_first { Ok(sum) } else { self.norm.forward(&sum) }
    }
}

/// The probability to be dropped, by default.
const DROPOUT: f64 = 0.1;

/// Two linear layers with an activation and a dropout between them.
#[derive(Debug)]
struct Hidden {
    layers: FeedForward,
    dropout: Dropout,
}

impl Hidden {
    fn new(width: usize, hidden: usize, device: &Device) -> Result<Self> {
        let layers = FeedForward::new(width, hidden, Activation::Relu, device)?;
        Ok(Self { layers, dropout: Dropout::new(DROPOUT) })
    }

    #[track_caller]
    fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<P>> {
        let FeedForward { up, activation, down } = &self.layers;
        down.forward(&self.dropout.forward(&activation.of(&up.forward(x)?)?)?)
    }
}

/// The options that layers of both kinds have.
macro_rules! options {
    ($layer:ident, $($attention:ident),*) => {
        impl $layer {
            /// The probability with which weights of attentions, elements of the hidden layer and of what each part adds are
            /// dropped in training (0.1 by default).
            pub fn dropout(mut self, p: f64) -> Self {
                self.hidden.dropout = Dropout::new(p);
                self.around.iter_mut().for_each(|around| around.dropout = Dropout::new(p));
                $( self.$attention = self.$attention.dropout(p); )*
                self
            }

            /// What stands between the linear layers ([`Activation::Relu`] by default).
            pub fn activation(mut self, activation: Activation) -> Self {
                self.hidden.layers.activation = activation;
                self
            }

            /// Whether the input of each part is normalised, instead of the sum with what it gives (not by default).
            pub fn norm_first(mut self, norm_first: bool) -> Self {
                self.norm_first = norm_first;
                self
            }

            /// Added to the variances of the normalisations (1e-5 by default).
            #[doc(alias = "layer_norm_eps")]
            pub fn eps(mut self, eps: f64) -> Self {
                self.around = self.around.map(|around| Around { norm: around.norm.eps(eps), ..around });
                self
            }

            /// Whether position `t` attends to positions `0..=t` of its own sequence only (not by default).
            #[doc(alias = "is_causal")]
            pub fn causal(mut self, causal: bool) -> Self {
                self.attention = self.attention.causal(causal);
                self
            }
        }
    };
}
options!(TransformerEncoderLayer, attention);
options!(TransformerDecoderLayer, attention, across);

/// Attention of a sequence to itself, then two linear layers (`torch.nn.TransformerEncoderLayer`, batch first).
///
/// A stack of them is a `Vec`; a field `layers` gives its parameters the names that PyTorch's `TransformerEncoder` gives them.
///
/// ```
/// # use amp_core::{nn::{Activation, TransformerEncoderLayer}, Device, F16, F32, Result, Tensor};
/// # let device = Device::cpu();
/// let layer = |_| Ok(TransformerEncoderLayer::new(8, 2, 32, &device)?.activation(Activation::Gelu).norm_first(true));
/// let layers = (0..3).map(layer).collect::<Result<Vec<_>>>()?;
/// let mut x = Tensor::<F32>::randn([2, 5, 8], &device)?;
/// for layer in &layers {
///     x = layer.forward(&x.to::<F16>()?, None)?;
/// }
/// # assert_eq!(x.dims(), [2, 5, 8]);
/// # Ok::<_, amp_core::Error>(())
/// ```
#[derive(Debug)]
pub struct TransformerEncoderLayer {
    attention: MultiHeadAttention,
    hidden: Hidden,
    around: [Around; 2],
    norm_first: bool,
}

impl TransformerEncoderLayer {
    /// Over sequences of `width` elements a position, with a layer of `hidden` elements (2048 in PyTorch by default) between
    /// the linear layers; parameters as of [`MultiHeadAttention::new`], [`Linear::new`](super::Linear::new) and [`LayerNorm::new`].
    ///
    /// # Errors
    /// [`Error::Argument`](crate::Error::Argument) unless `heads` divides `width`.
    pub fn new(width: usize, heads: usize, hidden: usize, device: &Device) -> Result<Self> {
        Ok(Self {
            attention: MultiHeadAttention::new(width, heads, device)?.dropout(DROPOUT),
            hidden: Hidden::new(width, hidden, device)?,
            around: [Around::new(width, device)?, Around::new(width, device)?],
            norm_first: false,
        })
    }

    /// `[N, T, width]` to `[N, T, width]`, in F32. `mask` is that of [`MultiHeadAttention::forward`]; where sequences are
    /// filled up, `present.unsqueeze(1)?.unsqueeze(1)?` of `present` `[N, T]` is one.
    ///
    /// # Precision
    /// Attention and linear layers work in the precision of `x`, to which a region narrows it; sums and normalisations are F32.
    #[track_caller]
    pub fn forward<P: Float>(&self, x: &Tensor<P>, mask: Option<&Tensor<Bool>>) -> Result<Tensor<F32>> {
        let [attended, fed] = &self.around;
        let x =
            attended.part(self.norm_first, &x.to::<F32>()?, |x: &Tensor<P>| self.attention.forward(x, x, x, mask))?;
        fed.part(self.norm_first, &x, |x: &Tensor<P>| self.hidden.forward(x))
    }
}

impl Module for TransformerEncoderLayer {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        let [attended, fed] = &self.around;
        visitor.field("self_attn", &self.attention);
        visitor.field("linear1", &self.hidden.layers.up);
        visitor.field("dropout", &self.hidden.dropout);
        visitor.field("linear2", &self.hidden.layers.down);
        visitor.field("norm1", &attended.norm);
        visitor.field("norm2", &fed.norm);
        visitor.field("dropout1", &attended.dropout);
        visitor.field("dropout2", &fed.dropout);
    }
}

/// Attention of a sequence to itself and to an encoder's, then two linear layers (`torch.nn.TransformerDecoderLayer`, batch
/// first).
#[derive(Debug)]
pub struct TransformerDecoderLayer {
    attention: MultiHeadAttention,
    across: MultiHeadAttention,
    hidden: Hidden,
    around: [Around; 3],
    norm_first: bool,
}

impl TransformerDecoderLayer {
    /// As [`TransformerEncoderLayer::new`], with a second attention.
    ///
    /// # Errors
    /// [`Error::Argument`](crate::Error::Argument) unless `heads` divides `width`.
    pub fn new(width: usize, heads: usize, hidden: usize, device: &Device) -> Result<Self> {
        Ok(Self {
            attention: MultiHeadAttention::new(width, heads, device)?.dropout(DROPOUT),
            across: MultiHeadAttention::new(width, heads, device)?.dropout(DROPOUT),
            hidden: Hidden::new(width, hidden, device)?,
            around: [Around::new(width, device)?, Around::new(width, device)?, Around::new(width, device)?],
            norm_first: false,
        })
    }

    /// `[N, T, width]` and what an encoder gave, `[N, S, width]`, to `[N, T, width]`, in F32. The masks of the attentions to the
    /// sequence itself and to the encoder's are those of [`MultiHeadAttention::forward`]; a mask of its own that hides what
    /// comes later is [`causal`](Self::causal).
    ///
    /// # Precision
    /// Attention and linear layers work in the precision of `x`, to which a region narrows it; sums and normalisations are F32.
    #[track_caller]
    pub fn forward<P: Float>(
        &self,
        x: &Tensor<P>,
        memory: &Tensor<P>,
        mask: Option<&Tensor<Bool>>,
        memory_mask: Option<&Tensor<Bool>>,
    ) -> Result<Tensor<F32>> {
        let ([attended, crossed, fed], first) = (&self.around, self.norm_first);
        let x = attended.part(first, &x.to::<F32>()?, |x: &Tensor<P>| self.attention.forward(x, x, x, mask))?;
        let x = crossed.part(first, &x, |x: &Tensor<P>| self.across.forward(x, memory, memory, memory_mask))?;
        fed.part(first, &x, |x: &Tensor<P>| self.hidden.forward(x))
    }
}

impl Module for TransformerDecoderLayer {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        let [attended, crossed, fed] = &self.around;
        visitor.field("self_attn", &self.attention);
        visitor.field("multihead_attn", &self.across);
        visitor.field("linear1", &self.hidden.layers.up);
        visitor.field("dropout", &self.hidden.dropout);
        visitor.field("linear2", &self.hidden.layers.down);
        visitor.field("norm1", &attended.norm);
        visitor.field("norm2", &crossed.norm);
        visitor.field("norm3", &fed.norm);
        visitor.field("dropout1", &attended.dropout);
        visitor.field("dropout2", &crossed.dropout);
        visitor.field("dropout3", &fed.dropout);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BF16;
    use crate::testing::numbers;

    fn sequence(shape: &[usize]) -> Tensor<F32> {
        numbers(shape, 0.3).to::<F32>().unwrap()
    }

    #[test]
    fn dropout_is_for_training() -> Result<()> {
        let device = Device::cpu();
        let (x, memory) = (sequence(&[2, 5, 8]), sequence(&[2, 3, 8]));
        let encoder = TransformerEncoderLayer::new(8, 2, 16, &device)?.dropout(0.5);
        let decoder = TransformerDecoderLayer::new(8, 2, 16, &device)?.dropout(0.5).causal(true);
        let run = || Ok::<_, crate::Error>([encoder.forward(&x, None)?, decoder.forward(&x, &memory, None, None)?]);
        let [a, b] = [run()?, run()?];
        assert!(!a[0].equal(&b[0])? && !a[1].equal(&b[1])?);
        encoder.eval();
        decoder.eval();
        let [a, b] = [run()?, run()?];
        assert!(a[0].equal(&b[0])? && a[1].equal(&b[1])?);
        Ok(())
    }

    #[test]
    fn a_causal_layer_does_not_look_ahead() -> Result<()> {
        let x = sequence(&[1, 5, 8]);
        let layer = TransformerEncoderLayer::new(8, 2, 16, &Device::cpu())?.dropout(0.0).norm_first(true).causal(true);
        let (whole, part) = (layer.forward(&x, None)?, layer.forward(&x.narrow(1, 0, 3)?, None)?);
        assert!((whole.narrow(1, 0, 3)? - part)?.abs()?.max([], false)?.item()? <= 1e-5);
        Ok(())
    }

    #[test]
    fn every_parameter_of_a_narrow_pass_learns() -> Result<()> {
        let device = Device::cpu();
        let encoder = TransformerEncoderLayer::new(8, 2, 16, &device)?.activation(Activation::Gelu);
        let decoder = TransformerDecoderLayer::new(8, 2, 16, &device)?.norm_first(true);
        let x = sequence(&[2, 4, 8]).to::<BF16>()?;
        let memory = encoder.forward(&x, None)?;
        let grads = decoder.forward(&x, &memory.to()?, None, None)?.sqr()?.sum_all()?.backward()?;
        for (name, parameter) in (encoder, decoder).named_parameters() {
            assert!(grads.get(&parameter)?.is_some(), "{name}");
        }
        assert!(TransformerEncoderLayer::new(8, 3, 16, &device).is_err());
        Ok(())
    }
}
