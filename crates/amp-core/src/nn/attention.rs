//! Multi-head attention.

use super::{Linear, Mode, Module, Visitor, init};
use crate::param::Parameter;
use crate::precision::{Bool, Float};
use crate::tensor::Tensor;
use crate::{AttentionOptions, Device, Error, Result};

/// The weights of queries, keys and values.
#[derive(Debug)]
enum Projections {
    /// One below the other, `[3 * width, width]`.
    Packed(Parameter),
    /// Each `[width, inputs]`.
    Apart([Parameter; 3]),
}

/// Attention of several heads, each over its part of the embedding (`torch.nn.MultiheadAttention`, batch first).
#[derive(Debug)]
pub struct MultiHeadAttention {
    projections: Projections,
    in_proj_bias: Option<Parameter>,
    out_proj: Linear,
    width: usize,
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
        let rows = width.saturating_mul(3);
        let weight = init::xavier_uniform([rows, width], width, rows, device)?;
        Self::projecting(Projections::Packed(weight), width, heads, device)
    }

    /// For keys `[N, S, keys]` and values `[N, S, values]` of other widths (`kdim`, `vdim`), as of another modality: weights apart
    /// from each other, `[width, width]`, `[width, keys]` and `[width, values]` (Xavier uniform); biases are 0.
    ///
    /// # Errors
    /// [`Error::Argument`] unless `heads` divides `width`.
    #[doc(alias("kdim", "vdim"))]
    pub fn across(width: usize, heads: usize, keys: usize, values: usize, device: &Device) -> Result<Self> {
        let weight = |inputs| init::xavier_uniform([width, inputs], inputs, width, device);
        Self::projecting(Projections::Apart([weight(width)?, weight(keys)?, weight(values)?]), width, heads, device)
    }

    fn projecting(projections: Projections, width: usize, heads: usize, device: &Device) -> Result<Self> {
        if heads == 0 || !width.is_multiple_of(heads) {
            let expected = format!("a divisor of the width {width}");
            return Err(Error::argument("MultiHeadAttention", "heads", expected, heads));
        }
        let out_weight = init::fan_in([width, width], width, device)?;
        Ok(Self {
            projections,
            in_proj_bias: Some(init::zeros([width.saturating_mul(3)], device)?),
            out_proj: Linear::from_parameters(out_weight, Some(init::zeros([width], device)?))?,
            width,
            heads,
            options: AttentionOptions::default(),
            mode: Mode::new(),
        })
    }

    /// Removes the biases of all projections.
    pub fn without_bias(mut self) -> Self {
        self.in_proj_bias = None;
        self.out_proj = self.out_proj.without_bias();
        self
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
        let [q, k, v] = self.split([query, key, value])?;
        self.joined(&q.scaled_dot_product_attention(&k, &v, mask, self.current())?)
    }

    /// As [`forward`](Self::forward), with the weights of the keys for each query, `[N, heads, T, S]`, or their mean over the
    /// heads, `[N, T, S]`, if `averaged` (`need_weights`, where they are averaged by default). In training dropout has been at
    /// them. They are stored, which `forward` spares.
    ///
    /// # Precision
    /// Scores and softmax are F32; the weights are rounded to the precision of the query before they multiply the values.
    #[doc(alias("need_weights", "average_attn_weights"))]
    #[track_caller]
    pub fn forward_with_weights<P: Float>(
        &self,
        query: &Tensor<P>,
        key: &Tensor<P>,
        value: &Tensor<P>,
        mask: Option<&Tensor<Bool>>,
        averaged: bool,
    ) -> Result<(Tensor<P>, Tensor<P>)> {
        let [q, k, v] = self.split([query, key, value])?;
        let (out, weights) = q.stored_attention::<P>([&k, &v], None, mask, self.current())?;
        Ok((self.joined(&out)?, if averaged { weights.mean_of_heads()? } else { weights }))
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

    fn current(&self) -> AttentionOptions {
        if self.mode.is_training() { self.options } else { self.options.dropout(0.0) }
    }

    /// Queries, keys and values, projected and divided into heads.
    #[track_caller]
    fn split<P: Float>(&self, inputs: [&Tensor<P>; 3]) -> Result<[Tensor<P>; 3]> {
        let [query, key, value] = inputs;
        let split = [self.projected(0, query)?, self.projected(1, key)?, self.projected(2, value)?];
        fits(query, key, value)?;
        Ok(split)
    }

    /// What the heads give, `[N, heads, T, width / heads]`, side by side and projected.
    #[track_caller]
    fn joined<P: Float>(&self, heads: &Tensor<P>) -> Result<Tensor<P>> {
        let (n, t) = (heads.dims()[0], heads.dims()[2]);
        self.out_proj.forward(&heads.transpose(1, 2)?.reshape([n, t, self.width])?)
    }

    /// Part `i` of the input projection, divided into heads: `[N, heads, T, width / heads]`.
    #[track_caller]
    fn projected<P: Float>(&self, i: usize, x: &Tensor<P>) -> Result<Tensor<P>> {
        let width = self.width;
        let weight = match &self.projections {
            Projections::Packed(all) => all.to::<P>()?.narrow(0, i * width, width)?,
            Projections::Apart(each) => each[i].to::<P>()?,
        };
        let &[n, t, w] = x.dims() else {
            let (what, expected) = ("each input", "3 dimensions, [N, T, width]");
            return Err(Error::Rank { op: "MultiHeadAttention", what, expected, found: x.raw.shape().into() });
        };
        if w != weight.dims()[1] {
            let what = ["the query", "the key", "the value"][i];
            let expected = format!("[N, T, {}]", weight.dims()[1]);
            return Err(Error::Shape { op: "MultiHeadAttention", what, expected, found: x.raw.shape().into() });
        }
        let bias = match &self.in_proj_bias {
            Some(bias) => Some(bias.to::<P>()?.narrow(0, i * width, width)?),
            None => None,
        };
        x.linear(&weight, bias.as_ref())?.reshape([n, t, self.heads, width / self.heads])?.transpose(1, 2)
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
        match &self.projections {
            Projections::Packed(all) => visitor.field("in_proj_weight", all),
            Projections::Apart(each) => {
                for (name, weight) in ["q_proj_weight", "k_proj_weight", "v_proj_weight"].into_iter().zip(each) {
                    visitor.field(name, weight);
                }
            }
        }
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
