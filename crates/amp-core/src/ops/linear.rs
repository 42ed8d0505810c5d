//! The dense layer's product.

use super::matmul::{accumulate, accumulator, give_product, transposed};
use crate::autograd::{Pass, Saved, SavedInput, Spread, record};
use crate::backend::Buffer;
use crate::precision::{Element, Float, SamePrecision};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result};
use amp_cpu::{Dims, Layout};

impl<P: Float> Tensor<P> {
    /// `x · weightᵀ + bias` for `x` `[.., I]`, `weight` `[O, I]` and `bias` `[O]`, as `[.., O]` (`F.linear`).
    ///
    /// # Precision
    /// Accumulates and adds the bias in F32 (F64 for F64) and rounds once. Gradients of narrowed F32 parameters come
    /// straight from the accumulators in F32.
    #[track_caller]
    pub fn linear<Q: Element>(&self, weight: &Tensor<Q>, bias: Option<&Self>) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        Ok(Self::from_raw(linear(&self.raw, &weight.raw, bias.map(|bias| &bias.raw))?))
    }
}

#[track_caller]
fn linear(x: &RawTensor, w: &RawTensor, bias: Option<&RawTensor>) -> Result<RawTensor> {
    let shape = check("linear", x, *x.shape(), w, bias)?;
    let left = matrices(x, x.layout.is_contiguous());
    let right = transposed(&repeated(w, &left)?);
    let operand = bias.map(RawTensor::operand).transpose()?;
    let buffer = x.backend().matmul(left.operand()?, right.operand()?, operand, x.logical)?;
    let inputs: Vec<&RawTensor> = [Some(x), Some(w), bias].into_iter().flatten().collect();
    record("linear", &inputs, RawTensor::new(x.device(), buffer, shape), |_| {
        let (x, w) = (SavedInput::new(x)?, Saved::new(w)?);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let fold = pass.grad().layout.is_contiguous() && x.is_contiguous();
            let grad = matrices(pass.grad(), fold);
            give_product(pass, 0, &grad, &repeated(&w, &grad)?)?;
            let outputs = pass.grad().clone();
            if pass.wants(1) {
                return give_parameters(pass, [1, 2], &outputs, &transposed(&grad), &matrices(&x.get()?, fold));
            }
            pass.give(2, outputs)
        }))
    })
}

/// Gives inputs `weight` and `bias` theirs: `grad` `[.., O, R]` times `x` `[.., R, I]`, and the sums of the rows of `grad`, which
/// are those of `outputs` `[.., O]`; from one pass where both are collected in the accumulators' precision.
pub(super) fn give_parameters(
    pass: &mut Pass<'_>,
    [weight, bias]: [usize; 2],
    outputs: &RawTensor,
    grad: &RawTensor,
    x: &RawTensor,
) -> Result<()> {
    let together = pass.wants(weight) && pass.wants(bias) && grad.shape().len() == 2;
    if !together || [weight, bias].iter().any(|&i| pass.dtype(i) != accumulator(grad.logical)) {
        give_product(pass, weight, grad, x)?;
        return pass.give(bias, outputs.detached());
    }
    let (backend, sums) = (grad.backend(), std::cell::Cell::new(None));
    let fresh = |dtype| {
        let (product, rows) = backend.matmul_sums(grad.operand()?, x.operand()?, dtype)?;
        sums.set(rows);
        Ok(product)
    };
    let add = |into: &mut Buffer| {
        sums.set(backend.matmul_accumulate_sums(grad.operand()?, x.operand()?, into)?);
        Ok(())
    };
    accumulate(pass, weight, Spread::of(grad.logical, x.logical, grad.shape()[1], 1), fresh, add)?;
    let sums = match sums.take() {
        Some(sums) => RawTensor::new(grad.device(), sums, Dims::new(&[grad.shape()[0]]).expect("one dimension")),
        None => outputs.detached(),
    };
    pass.give(bias, sums)
}

/// The shape of the result for an input of shape `input` on the device of `x`.
pub(super) fn check(
    op: &'static str,
    x: &RawTensor,
    input: Dims,
    w: &RawTensor,
    bias: Option<&RawTensor>,
) -> Result<Dims> {
    x.device().check_same(w.device(), op)?;
    let weight = *w.shape();
    if input.is_empty() {
        return Err(Error::Rank { op, what: "the input", expected: "at least 1 dimension", found: input });
    }
    if weight.len() != 2 {
        return Err(Error::Rank { op, what: "the weight", expected: "2 dimensions", found: weight });
    }
    let mut shape = input;
    let last = shape.len() - 1;
    if input[last] != weight[1] {
        let expected = format!("[.., {}] to fit the weight {weight:?}", weight[1]);
        return Err(Error::Shape { op, what: "the input", expected, found: input });
    }
    shape[last] = weight[0];
    if let Some(bias) = bias {
        x.device().check_same(bias.device(), op)?;
        if **bias.shape() != [weight[0]] {
            let (expected, found) = (format!("[{}]", weight[0]), *bias.shape());
            return Err(Error::Shape { op, what: "the bias", expected, found });
        }
    }
    crate::IntoShape::into_shape(shape, op)
}

/// `[.., C]` as `[.., R, C]`, or all of it as one matrix `[R, C]`; a vector becomes a row.
pub(super) fn matrices(x: &RawTensor, fold: bool) -> RawTensor {
    let layout = &x.layout;
    let two = |first: usize, second: usize| Dims::new(&[first, second]).expect("two dimensions");
    match layout.shape.len() {
        1 => {
            let (shape, strides) = (two(1, layout.shape[0]), two(0, layout.strides[0]));
            x.with_layout(Layout { shape, strides, offset: layout.offset })
        }
        3.. if fold => {
            let columns = layout.shape[layout.shape.len() - 1];
            let rows = layout.shape[..layout.shape.len() - 1].iter().product();
            x.with_layout(Layout { offset: layout.offset, ..Layout::contiguous(two(rows, columns)) })
        }
        _ => x.detached(),
    }
}

/// The weight, once for every one of `matrices`.
fn repeated(w: &RawTensor, matrices: &RawTensor) -> Result<RawTensor> {
    let outer = matrices.shape().len() - 2;
    let batch = Dims::new(&matrices.shape()[..outer]).expect("fewer dimensions");
    let shape = batch.pushed(w.shape()[0]).and_then(|dims| dims.pushed(w.shape()[1]));
    w.broadcast_to("linear", &shape.ok_or(Error::TooManyDimensions { op: "linear", rank: outer + 2 })?)
}

#[cfg(test)]
mod tests {
    use crate::precision::Float;
    use crate::{BF16, Device, F32, F64, Result, Tensor, gradcheck};

    fn numbers(shape: &[usize], start: f64) -> Tensor<F64> {
        let mut value = start;
        let mut next = |_: &[usize]| {
            value = (value * 7.3 + 0.41).fract();
            value - 0.5
        };
        Tensor::<F64>::from_fn(shape, &mut next, &Device::cpu()).unwrap()
    }

    #[test]
    fn gradients_agree_with_differences() {
        let (w, b) = (numbers(&[3, 4], 0.1), numbers(&[3], 0.2));
        for shape in [vec![4], vec![2, 4], vec![2, 3, 4], vec![2, 1, 3, 4], vec![0, 4]] {
            let x = numbers(&shape, 0.3);
            let worst = gradcheck(|x| x[0].linear(&x[1], Some(&x[2])), &[x.clone(), w.clone(), b.clone()]).unwrap();
            assert!(worst.error <= 1e-6, "{shape:?}: {worst:?}");
            let worst = gradcheck(|x| x[0].linear(&x[1], None), &[x, w.clone()]).unwrap();
            assert!(worst.error <= 1e-6, "{shape:?}: {worst:?}");
        }
        let x = numbers(&[4, 2, 3], 0.3);
        let strided = |x: &[Tensor<F64>]| x[0].transpose(0, 2)?.linear(&x[1], Some(&x[2]));
        let worst = gradcheck(strided, &[x, w, b]).unwrap();
        assert!(worst.error <= 1e-6, "strided: {worst:?}");
    }

    type Step<P> = fn(&Tensor<P>) -> Result<Tensor<P>>;

    /// Gradients of the input, the weight and the bias behind an activation. A value times 1 has to be kept.
    fn gradients<P: Float>(activation: Step<P>, view: Step<P>, kept: bool) -> Vec<Vec<f32>> {
        let leaves = [[6, 5, 40].as_slice(), &[7, 40], &[7]].map(|s| numbers(s, 0.7).to::<F32>().unwrap().tracked());
        let [x, w, b] = [&leaves[0], &leaves[1], &leaves[2]].map(|leaf| leaf.to::<P>().unwrap());
        let h = activation(&x).unwrap();
        let h = view(&if kept { (&h * 1.0_f32).unwrap() } else { h }).unwrap();
        let y = h.linear(&w, Some(&b)).unwrap().to::<F32>().unwrap();
        let grads = (&y * &y).unwrap().sum_all().unwrap().backward().unwrap();
        leaves.iter().map(|leaf| grads.get(leaf).unwrap().unwrap().to_vec().unwrap()).collect()
    }

    #[test]
    fn activations_that_are_computed_again_give_the_same_bits() {
        fn check<P: Float>() {
            let activations: [Step<P>; 5] =
                [Tensor::gelu, Tensor::gelu_tanh, Tensor::silu, Tensor::hardswish, |x| x.gelu()?.silu()];
            let views: [Step<P>; 4] =
                [|x| x.reshape([6, 5, 40]), |x| x.reshape([30, 40]), |x| x.transpose(0, 1), |x| x.narrow(0, 2, 3)];
            for (i, activation) in activations.into_iter().enumerate() {
                for (j, view) in views.into_iter().enumerate() {
                    let [computed, kept] = [false, true].map(|kept| gradients(activation, view, kept));
                    assert!(computed == kept, "activation {i}, view {j}");
                }
            }
        }
        check::<BF16>();
        check::<F32>();
    }

    #[test]
    fn mismatches_name_the_shapes() {
        let zeros = |shape: &[usize]| Tensor::<F32>::zeros(shape, &Device::cpu()).unwrap();
        let text = |x: &[usize], w: &[usize], b: &[usize]| {
            zeros(x).linear(&zeros(w), Some(&zeros(b))).err().unwrap().to_string()
        };
        let expected = "linear: the input must have shape [.., 4] to fit the weight [3, 4], found [2, 5]";
        assert_eq!(text(&[2, 5], &[3, 4], &[3]), expected);
        assert_eq!(text(&[2, 4], &[3, 4], &[4]), "linear: the bias must have shape [3], found [4]");
        assert_eq!(text(&[2, 4], &[3], &[3]), "linear: the weight must have 2 dimensions, found shape [3]");
    }
}
