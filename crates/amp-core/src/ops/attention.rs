//! Scaled dot-product attention.

use super::grouped_attention::Groups;
use super::matmul::{accumulator, with_axis};
use super::reduce::fold;
use super::stored_attention::weights;
use crate::autograd::{Pass, Saved, record};
use crate::backend::{AttentionScores, Buffer};
use crate::precision::{Bool, Element, F32, F64, Float, SamePrecision};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, IntoShape, Result, shape};
use amp_cpu::{AttentionGrads, DType, Dims, Layout, Reduce};

pub(super) const OP: &str = "scaled_dot_product_attention";

/// Which scores of an attention count and what they are multiplied by; `Default` is all of them, scaled by `1 / sqrt(D)`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AttentionOptions {
    pub(crate) causal: bool,
    pub(crate) scale: Option<f64>,
    pub(crate) dropout: f64,
    pub(crate) grouped: bool,
}

impl AttentionOptions {
    /// All scores count and are scaled by `1 / sqrt(D)`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether query `t` attends to keys `0..=t` only, counted from the first of each (`is_causal`).
    ///
    /// Not for queries that follow keys kept from before, as in a cache: a single query may attend to all of those and itself, and
    /// needs no mask; several need one in which query `t` of `T` may attend to keys `0..=t + S - T`.
    pub fn causal(mut self, causal: bool) -> Self {
        self.causal = causal;
        self
    }

    /// Factor of the dot products instead of `1 / sqrt(D)`.
    pub fn scale(mut self, scale: f64) -> Self {
        self.scale = Some(scale);
        self
    }

    /// The probability with which weights, which add up to 1, are dropped (`dropout_p`); the others are divided by `1 - p`.
    /// None by default, and none in evaluation, of which the caller knows.
    #[doc(alias = "dropout_p")]
    pub fn dropout(mut self, p: f64) -> Self {
        self.dropout = p;
        self
    }

    /// Whether keys and values may have fewer heads than queries, a divisor of their number, each for as many neighbouring heads
    /// of queries (`enable_gqa`).
    #[doc(alias = "enable_gqa")]
    pub fn grouped(mut self, grouped: bool) -> Self {
        self.grouped = grouped;
        self
    }
}

impl<P: Float> Tensor<P> {
    /// `softmax(scale · q · kᵀ) · v` for queries `[.., T, D]` (this tensor), keys `[.., S, D]` and values `[.., S, E]`, as
    /// `[.., T, E]` (`F.scaled_dot_product_attention`).
    ///
    /// Leading dimensions (batch, heads; at most two) broadcast; see [`AttentionOptions::grouped`]. `mask` broadcasts to `[.., T, S]` and is true where a
    /// query may attend to a key; a query that may attend to none gives zeros.
    ///
    /// # Precision
    /// Scores, softmax and sums in F32 (F64 for F64), never stored; the result is rounded once. Where the hardware multiplies
    /// 16-bit numbers, the softmax is rounded before it is multiplied, as are slopes of scores for the gradients. The mean of a
    /// row's slopes is taken from the rounded result. With dropout, scores and weights are stored, in F32.
    #[track_caller]
    pub fn scaled_dot_product_attention<Q: Element>(
        &self,
        key: &Tensor<Q>,
        value: &Tensor<Q>,
        mask: Option<&Tensor<Bool>>,
        options: AttentionOptions,
    ) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        if let Some(groups) = Groups::new([self.dims(), key.dims(), value.dims()], options)? {
            let [q, k, v] = groups.split_all([self, &key.to()?, &value.to()?])?;
            let mask = mask.map(|mask| groups.split_scores(mask)).transpose()?;
            let y = q.scaled_dot_product_attention(&k, &v, mask.as_ref(), options.grouped(false))?;
            return groups.joined(&y);
        }
        if options.dropout == 0.0 {
            let qkv = [&self.raw, &key.raw, &value.raw];
            return Ok(Self::from_raw(attention(qkv, mask.map(|mask| &mask.raw), options)?));
        }
        Ok(self.stored_attention::<P>([&key.to()?, &value.to()?], None, mask, options)?.0)
    }

    /// As [`scaled_dot_product_attention`](Self::scaled_dot_product_attention), with `bias` added to the scores, to
    /// `[.., T, S]` of which it broadcasts: distances of positions, learned or not (a float `attn_mask`).
    ///
    /// # Precision
    /// Scores, biases, softmax and weights are stored, in F32 (F64 for F64); weights are rounded before they multiply the values.
    #[track_caller]
    pub fn scaled_dot_product_attention_biased<Q: Element, R: Float>(
        &self,
        key: &Tensor<Q>,
        value: &Tensor<Q>,
        bias: &Tensor<R>,
        mask: Option<&Tensor<Bool>>,
        options: AttentionOptions,
    ) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        if let Some(groups) = Groups::new([self.dims(), key.dims(), value.dims()], options)? {
            let [q, k, v] = groups.split_all([self, &key.to()?, &value.to()?])?;
            let (mask, bias) = (mask.map(|mask| groups.split_scores(mask)).transpose()?, groups.split_scores(bias)?);
            let y = q.scaled_dot_product_attention_biased(&k, &v, &bias, mask.as_ref(), options.grouped(false))?;
            return groups.joined(&y);
        }
        Ok(self.stored_attention([&key.to()?, &value.to()?], Some(bias), mask, options)?.0)
    }

    /// The attention, and the weights `[.., T, S]` that it multiplies the values by.
    #[track_caller]
    pub(crate) fn stored_attention<R: Float>(
        &self,
        [key, value]: [&Self; 2],
        bias: Option<&Tensor<R>>,
        mask: Option<&Tensor<Bool>>,
        options: AttentionOptions,
    ) -> Result<(Self, Self)> {
        let plan = Plan::new([&self.raw, &key.raw, &value.raw], mask.map(|mask| &mask.raw), options)?;
        plan.mask(bias.map(|bias| &bias.raw))?;
        let (qk, scale) = ([self, key], plan.scale);
        let weights = match P::DTYPE {
            DType::F64 => weights::<F64, P>(qk, bias.map(Tensor::to).transpose()?.as_ref(), mask, scale, options)?,
            _ => weights::<F32, P>(qk, bias.map(Tensor::to).transpose()?.as_ref(), mask, scale, options)?,
        };
        Ok((weights.matmul(value)?, weights))
    }

    /// The mean over the heads, `[N, heads, T, S]` to `[N, T, S]`.
    #[track_caller]
    pub(crate) fn mean_of_heads(&self) -> Result<Self> {
        let share = 1.0 / self.dims()[1] as f64;
        Self::from_raw(fold(OP, Reduce::Mean, &self.raw, &[1], share)?).drop_axes(&[1], false)
    }
}

#[track_caller]
fn attention(qkv: [&RawTensor; 3], mask: Option<&RawTensor>, options: AttentionOptions) -> Result<RawTensor> {
    let plan = Plan::new(qkv, mask, options)?;
    let [q, k, v] = plan.operands(qkv)?;
    let mask = plan.mask(mask)?;
    let scores = plan.scores(mask.as_ref())?;
    let device = q.device();
    let (y, lse) = q.backend().attention(q.operand()?, k.operand()?, v.operand()?, &scores, q.logical)?;
    let y = RawTensor::new(device, y, plan.result);
    let y = if q.backend().interleaves_heads() { plan.interleaved(&y) } else { y };
    record(OP, &qkv, y, |y| {
        let saved = [Saved::new(qkv[0])?, Saved::new(qkv[1])?, Saved::new(qkv[2])?, Saved::new(y)?];
        let mask = mask.as_ref().map(Saved::new).transpose()?;
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let [q, k, v] = plan.operands([&saved[0], &saved[1], &saved[2]])?;
            let (y, grad) = (plan.lifted(&saved[3])?, plan.lifted(pass.grad())?);
            let scores = plan.scores(mask.as_deref())?;
            let operands = [q.operand()?, k.operand()?, v.operand()?];
            let qkv = [&q, &k, &v].map(|x| x.layout.count());
            let narrow =
                (0..3).all(|i| pass.dtype(i) == grad.logical && pass.shape(i).is_none_or(|s| s.count() == qkv[i]));
            let dtype = if narrow { grad.logical } else { accumulator(grad.logical) };
            let grads = q.backend().attention_grad(grad.operand()?, operands, y.operand()?, &lse, &scores, dtype)?;
            let fresh = |buffer: Buffer, shape| RawTensor::new(grad.device(), buffer, shape);
            let layouts = [&q, &k, &v].map(|like| plan.lowered(&like.layout));
            let grads = match grads {
                AttentionGrads::Apart([dq, dk, dv]) => {
                    let [q, k, v] = layouts.map(|layout| layout.shape);
                    [fresh(dq, q), fresh(dk, k), fresh(dv, v)]
                }
                AttentionGrads::Together(buffer) => {
                    let len = [buffer.len()].into_shape(OP)?;
                    let whole = fresh(buffer, len);
                    layouts.map(|layout| whole.with_layout(layout))
                }
            };
            grads.into_iter().enumerate().try_for_each(|(i, grad)| pass.give(i, grad))
        }))
    })
}

/// Common leading dimensions, and the shape of the result.
#[derive(Clone, Copy)]
struct Plan {
    outer: Dims,
    result: Dims,
    /// T and S
    lengths: [usize; 2],
    causal: bool,
    scale: f64,
}

impl Plan {
    fn new(qkv: [&RawTensor; 3], mask: Option<&RawTensor>, options: AttentionOptions) -> Result<Self> {
        for x in qkv.into_iter().chain(mask) {
            qkv[0].device().check_same(x.device(), OP)?;
        }
        let [q, k, v] = qkv.map(|x| *x.shape());
        for (found, what) in [(q, "the query"), (k, "the key"), (v, "the value")] {
            if !(2..=4).contains(&found.len()) {
                return Err(Error::Rank { op: OP, what, expected: "2 to 4 dimensions", found: found.into() });
            }
        }
        let last = |dims: &Dims| [dims[dims.len() - 2], dims[dims.len() - 1]];
        let ([queries, width], [keys, key_width], [values, value_width]) = (last(&q), last(&k), last(&v));
        if width != key_width {
            let expected = format!("[.., {width}] to fit the query {q:?}");
            return Err(Error::Shape { op: OP, what: "the key", expected, found: k.into() });
        }
        if keys != values {
            let expected = format!("[.., {keys}, E] to fit the key {k:?}");
            return Err(Error::Shape { op: OP, what: "the value", expected, found: v.into() });
        }
        let outer = |dims: &Dims| Dims::new(&dims[..dims.len() - 2]).expect("fewer dimensions");
        let common = shape::broadcast(OP, &outer(&q), &outer(&k)).map_err(|_| Error::Broadcast {
            op: OP,
            left: q.into(),
            right: k.into(),
        })?;
        let common = shape::broadcast(OP, &common, &outer(&v)).map_err(|_| Error::Broadcast {
            op: OP,
            left: q.into(),
            right: v.into(),
        })?;
        let mut result = common.to_vec();
        result.extend([queries, value_width]);
        let scale = options.scale.unwrap_or(1.0 / (width as f64).sqrt());
        let lengths = [queries, keys];
        Ok(Self { outer: common, result: result.into_shape(OP)?, lengths, causal: options.causal, scale })
    }

    /// Broadcast to the common leading dimensions, as `[B, H, rows, columns]`.
    fn operands(&self, qkv: [&RawTensor; 3]) -> Result<[RawTensor; 3]> {
        let [q, k, v] = qkv.map(|x| self.repeated(x, [x.shape()[x.shape().len() - 2], x.shape()[x.shape().len() - 1]]));
        Ok([q?, k?, v?])
    }

    fn mask(&self, mask: Option<&RawTensor>) -> Result<Option<RawTensor>> {
        mask.map(|mask| self.repeated(mask, self.lengths)).transpose()
    }

    fn repeated(&self, x: &RawTensor, last: [usize; 2]) -> Result<RawTensor> {
        let mut shape = self.outer.to_vec();
        shape.extend(last);
        self.lifted(&x.broadcast_to(OP, &shape.into_shape(OP)?)?)
    }

    /// With dimensions of size 1 up to four: a single leading dimension is the batch.
    fn lifted(&self, x: &RawTensor) -> Result<RawTensor> {
        let mut layout = x.layout;
        while layout.shape.len() < 4 {
            layout = with_axis(&layout, layout.shape.len() - 2)?;
        }
        Ok(x.with_layout(layout))
    }

    /// Without them.
    fn lowered(&self, layout: &Layout) -> Layout {
        let outer = self.outer.len();
        let lowered = |dims: &Dims| Dims::new(&[&dims[..outer], &dims[2..]].concat()).expect("fewer dimensions");
        Layout { shape: lowered(&layout.shape), strides: lowered(&layout.strides), offset: layout.offset }
    }

    /// The result, of which the heads of a query lie beside each other.
    fn interleaved(&self, y: &RawTensor) -> RawTensor {
        let mut layout = Layout::contiguous(self.result);
        if let [_, heads, queries, width] = *self.result {
            (layout.strides[1], layout.strides[2]) = (width, heads * width);
            layout.strides[0] = queries * heads * width;
        }
        y.with_layout(layout)
    }

    fn scores<'a>(&self, mask: Option<&'a RawTensor>) -> Result<AttentionScores<'a>> {
        let mask = mask.map(RawTensor::operand).transpose()?;
        Ok(AttentionScores { mask, causal: self.causal, scale: self.scale })
    }
}

#[cfg(test)]
mod tests {
    use super::AttentionOptions;
    use crate::{BF16, Bool, Device, F32, F64, Result, Tensor, gradcheck};

    fn numbers(shape: &[usize], start: f64) -> Tensor<F64> {
        let mut value = start;
        let mut next = |_: &[usize]| {
            value = (value * 7.3 + 0.41).fract();
            2.0 * value - 1.0
        };
        Tensor::<F64>::from_fn(shape, &mut next, &Device::cpu()).unwrap()
    }

    /// The gradient of `[N, T, 3 * H * D]` by way of attention, and what else is made of its parts.
    fn grad_by_parts(copied: bool, other: fn(&[Tensor<BF16>]) -> Result<Tensor<F32>>) -> Vec<f32> {
        let x = numbers(&[2, 7, 24], 0.2).to::<BF16>().unwrap().tracked();
        let parts = x.reshape([2, 7, 3, 2, 4]).unwrap().permute([2, 0, 3, 1, 4]).unwrap();
        let parts: Vec<_> = (0..3).map(|i| parts.select(0, i).unwrap()).collect();
        let apart = |part: &Tensor<BF16>| if copied { (part * 1.0).unwrap() } else { part.clone() };
        let [q, k, v] = [0, 1, 2].map(|i| apart(&parts[i]));
        let y = q.scaled_dot_product_attention(&k, &v, None, AttentionOptions::new().causal(true)).unwrap();
        let weights = numbers(&[2, 2, 7, 4], 0.7).to::<F32>().unwrap();
        let weighted = (y.to::<F32>().unwrap() * weights).unwrap().sum_all().unwrap();
        let loss = (weighted + other(&parts).unwrap()).unwrap();
        loss.backward().unwrap().get(&x).unwrap().unwrap().to::<F32>().unwrap().to_vec().unwrap()
    }

    #[test]
    fn gradients_of_one_projection_are_those_of_copies_of_its_parts() {
        let nothing = |_: &[Tensor<BF16>]| Tensor::<F32>::zeros((), &Device::cpu());
        assert_eq!(grad_by_parts(false, nothing), grad_by_parts(true, nothing));
        // What else a part gets makes its gradient another tensor: that of the others waits for it in vain.
        for other in [
            |parts: &[Tensor<BF16>]| (&parts[0] * &parts[0])?.to::<F32>()?.sum_all(),
            |parts: &[Tensor<BF16>]| (&parts[1] * &parts[1])?.to::<F32>()?.sum_all(),
            |parts: &[Tensor<BF16>]| (&parts[2] * &parts[2])?.to::<F32>()?.sum_all(),
        ] {
            assert_eq!(grad_by_parts(false, other), grad_by_parts(true, other));
        }
    }

    #[test]
    fn gradients_agree_with_differences() {
        let plain = AttentionOptions::default();
        let mask = Tensor::<Bool>::from_fn([3, 4], |i| (i[0] + 2 * i[1]) % 3 != 0, &Device::cpu()).unwrap();
        for (q, k, v, mask, options) in [
            (vec![3, 2], vec![4, 2], vec![4, 5], None, plain),
            (vec![2, 3, 2], vec![2, 4, 2], vec![4, 1], Some(&mask), plain),
            (vec![2, 2, 3, 2], vec![2, 1, 4, 2], vec![1, 2, 4, 3], Some(&mask), plain.causal(true)),
            (vec![1, 1, 3, 2], vec![1, 1, 4, 2], vec![1, 1, 4, 2], None, plain.causal(true).scale(-0.7)),
        ] {
            let inputs = [numbers(&q, 0.1), numbers(&k, 0.2), numbers(&v, 0.3)];
            let attend = |x: &[Tensor<F64>]| x[0].scaled_dot_product_attention(&x[1], &x[2], mask, options);
            let worst = gradcheck(attend, &inputs).unwrap();
            assert!(worst.agrees(), "{q:?} {k:?} {v:?}: {worst:?}");
        }
    }

    #[test]
    fn equals_the_composition() {
        let [q, k, v] = [0.1, 0.2, 0.3].map(|start| numbers(&[2, 2, 5, 4], start).to::<F32>().unwrap());
        let y = q.scaled_dot_product_attention(&k, &v, None, AttentionOptions::default()).unwrap();
        let scores = (q.matmul(&k.t().unwrap()).unwrap() * 0.5_f32).unwrap().exp().unwrap();
        let weights = (&scores / &scores.sum([-1], true).unwrap()).unwrap();
        let expected = weights.matmul(&v).unwrap().to_vec().unwrap();
        for (got, expected) in y.to_vec().unwrap().iter().zip(expected) {
            assert!((got - expected).abs() <= 1e-5, "{got} instead of {expected}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let zeros = |shape: &[usize]| Tensor::<BF16>::zeros(shape, &Device::cpu()).unwrap();
        let text = |q: &[usize], k: &[usize], v: &[usize]| {
            let result = zeros(q).scaled_dot_product_attention(&zeros(k), &zeros(v), None, AttentionOptions::default());
            result.err().unwrap().to_string()
        };
        for (q, k, v, expected) in [
            (
                vec![3, 2],
                vec![4, 3],
                vec![4, 1],
                "scaled_dot_product_attention: the key must have shape [.., 2] to fit the query [3, 2], found [4, 3]",
            ),
            (
                vec![3, 2],
                vec![4, 2],
                vec![5, 1],
                "scaled_dot_product_attention: the value must have shape [.., 4, E] to fit the key [4, 2], found [5, 1]",
            ),
            (
                vec![2, 3, 2],
                vec![3, 4, 2],
                vec![4, 1],
                "scaled_dot_product_attention: shapes [2, 3, 2] and [3, 4, 2] do not broadcast",
            ),
            (
                vec![2],
                vec![4, 2],
                vec![4, 1],
                "scaled_dot_product_attention: the query must have 2 to 4 dimensions, found shape [2]",
            ),
        ] {
            assert_eq!(text(&q, &k, &v), expected);
        }
    }
}
