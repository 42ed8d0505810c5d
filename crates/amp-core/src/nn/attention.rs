//! Multi-head attention.

use super::{Linear, Mode, Module, Visitor, init};
use crate::param::Parameter;
use crate::precision::{Bool, Float};
use crate::tensor::Tensor;
use crate::{AttentionOptions, Device, Error, Result};

/// Attention of several heads, each over its part of the embedding (`torch.nn.MultiheadAttention`, batch first).
#[derive(Debug)]
pub struct MultiHeadAttention {
    in_proj_weight: Parameter,
    in_proj_bias: Parameter,
    out_proj: Linear,
    heads: usize,
    options: AttentionOptions,
    mode: Mode,
}

impl MultiHeadAttention {
    /// The projections of queries, keys and values lie in one weight `[3 * width, width]` (Xavier uniform); biases are 0.
    ///
    /// # Errors
    /// [`Error::Argument`] unless `heads` divides `width`.
    pub fn new(width: usize, heads: usize, device: &Device) -> Result<Self> {
        if heads == 0 || !width.is_multiple_of(heads) {
            let expected = format!("a divisor of the width {width}");
            return Err(Error::argument("MultiHeadAttention", "heads", expected, heads));
        }
        let rows = width.saturating_mul(3);
        let in_proj_weight = init::xavier_uniform([rows, width], width, rows, device)?;
        let out_weight = init::fan_in([width, width], width, device)?;
        Ok(Self {
            in_proj_weight,
            in_proj_bias: init::zeros([rows], device)?,
            out_proj: Linear::from_parameters(out_weight, Some(init::zeros([width], device)?))?,
            heads,
            options: AttentionOptions::default(),
            mode: Mode::new(),
        })
    }

    /// Whether position `t` attends to positions `0..=t` only (not by default).
    pub fn causal(mut self, causal: bool) -> Self {
        self.options = self.options.causal(causal);
        self
    }

    /// The probability with which weights are dropped in training (none by default); they are then stored.
    pub fn dropout(mut self, p: f64) -> Self {
        self.options = self.options.dropout(p);
        self
    }

    /// Queries `[N, T, width]`, keys and values `[N, S, width]`, to `[N, T, width]`, in the precision of the query.
    ///
    /// `mask` broadcasts to `[N, heads, T, S]` and is true where a query may attend to a key; keys that only fill up a
    /// sequence are left out by [`forward_padded`](Self::forward_padded).
    ///
    /// # Precision
    /// Scores and softmax are F32, and stored for dropout only.
    #[track_caller]
    pub fn forward<P: Float>(
        &self,
        query: &Tensor<P>,
        key: &Tensor<P>,
        value: &Tensor<P>,
        mask: Option<&Tensor<Bool>>,
    ) -> Result<Tensor<P>> {
        let parts = [query, key, value];
        let mut split = Vec::with_capacity(3);
        for (i, x) in parts.into_iter().enumerate() {
            split.push(self.projected(i, x)?);
        }
        fits(query, key, value)?;
        let options = if self.mode.is_training() { self.options } else { self.options.dropout(0.0) };
        let out = split[0].scaled_dot_product_attention(&split[1], &split[2], mask, options)?;
        let (n, t) = (query.dims()[0], query.dims()[1]);
        self.out_proj.forward(&out.transpose(1, 2)?.reshape([n, t, self.width()])?)
    }

    /// As [`forward`](Self::forward), over sequences of different lengths: `present` `[N, S]` is true where there is a key and
    /// false where there is padding. PyTorch's `key_padding_mask` says the opposite: hand its `logical_not` over.
    ///
    /// A key counts where `present`, `mask` and, if the layer is causal, its position allow it. A query without any such
    /// key, which PyTorch makes NaN, gets the output's bias, and no gradient goes by way of its attention.
    ///
    /// # Precision
    /// Scores and softmax are F32, and stored for dropout only.
    #[track_caller]
    pub fn forward_padded<P: Float>(
        &self,
        query: &Tensor<P>,
        key: &Tensor<P>,
        value: &Tensor<P>,
        present: &Tensor<Bool>,
        mask: Option<&Tensor<Bool>>,
    ) -> Result<Tensor<P>> {
        if let (&[n, ..], &[_, s, ..]) = (query.dims(), key.dims())
            && ![[1, s], [n, s]].iter().any(|fitting| present.dims() == fitting)
        {
            let (what, expected) = ("`present`", format!("[{n}, {s}], one value for each key"));
            return Err(Error::Shape { op: "MultiHeadAttention", what, expected, found: present.raw.shape().into() });
        }
        let present = present.unsqueeze(1)?.unsqueeze(1)?;
        let both = mask.map(|mask| mask.logical_and(&present)).transpose()?;
        self.forward(query, key, value, Some(both.as_ref().unwrap_or(&present)))
    }

    /// Part `i` of the input projection, divided into heads: `[N, heads, T, width / heads]`.
    #[track_caller]
    fn projected<P: Float>(&self, i: usize, x: &Tensor<P>) -> Result<Tensor<P>> {
        let width = self.width();
        let &[n, t, w] = x.dims() else {
            let (what, expected) = ("each input", "3 dimensions, [N, T, width]");
            return Err(Error::Rank { op: "MultiHeadAttention", what, expected, found: x.raw.shape().into() });
        };
        if w != width {
            let (what, expected) = ("each input", format!("[N, T, {width}]"));
            return Err(Error::Shape { op: "MultiHeadAttention", what, expected, found: x.raw.shape().into() });
        }
        let weight = self.in_proj_weight.to::<P>()?.narrow(0, i * width, width)?;
        let bias = self.in_proj_bias.to::<P>()?.narrow(0, i * width, width)?;
        x.linear(&weight, Some(&bias))?.reshape([n, t, self.heads, width / self.heads])?.transpose(1, 2)
    }

    fn width(&self) -> usize {
        self.in_proj_bias.count() / 3
    }
}

/// Keys and values belong to each other and to the batch of the queries (or to all of it).
fn fits<P: Float>(query: &Tensor<P>, key: &Tensor<P>, value: &Tensor<P>) -> Result<()> {
    let (n, s) = (query.dims()[0], key.dims()[1]);
    for (what, x) in [("the key", key), ("the value", value)] {
        if ![1, n].contains(&x.dims()[0]) || x.dims()[1] != s {
            let expected = format!("[{n}, {s}, {}] to fit the query {:?}", x.dims()[2], query.dims());
            return Err(Error::Shape { op: "MultiHeadAttention", what, expected, found: x.raw.shape().into() });
        }
    }
    Ok(())
}

impl Module for MultiHeadAttention {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.field("in_proj_weight", &self.in_proj_weight);
        visitor.field("in_proj_bias", &self.in_proj_bias);
        visitor.field("out_proj", &self.out_proj);
        visitor.field("mode", &self.mode);
    }
}

#[cfg(test)]
mod tests {
    use super::MultiHeadAttention;
    use crate::testing::numbers;
    use crate::{Device, F32, Module, Result};

    #[test]
    fn weights_are_dropped_in_training() -> Result<()> {
        let x = numbers(&[2, 5, 8], 0.3).to::<F32>()?;
        let layer = MultiHeadAttention::new(8, 2, &Device::cpu())?.dropout(0.5);
        let run = || layer.forward(&x, &x, &x, None);
        assert!(!run()?.equal(&run()?)?);
        layer.eval();
        assert!(run()?.equal(&run()?)?);
        Ok(())
    }
}
