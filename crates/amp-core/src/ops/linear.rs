//! The dense layer's product.

use super::matmul::{accumulate, accumulator, give_product, turned};
use crate::autograd::{Pass, Saved, SavedInput, Spread, record};
use crate::backend::{Buffer, Operand};
use crate::precision::{Element, Float, SamePrecision};
use crate::raw::RawTensor;
use crate::shape::check_same;
use crate::tensor::Tensor;
use crate::{Error, Result};
use amp_cpu::{Dims, Layout, Unary};
use std::borrow::Cow;

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
    let weight = repeated(w, &left)?;
    let right = turned(&weight.layout);
    let right = Operand { layout: &right, ..weight.factor(count(&left))? };
    let operand = bias.map(RawTensor::operand).transpose()?;
    let buffer = x.backend().matmul(left.operand()?, right, operand, x.logical)?;
    recorded(x, w, bias, RawTensor::new(x.device(), buffer, shape))
}

/// `y` in the graph as the result of a layer.
#[track_caller]
pub(super) fn recorded(x: &RawTensor, w: &RawTensor, bias: Option<&RawTensor>, y: RawTensor) -> Result<RawTensor> {
    let inputs = [x, w, bias.unwrap_or(w)];
    record("linear", &inputs[..2 + usize::from(bias.is_some())], y, |_| {
        let (x, w) = (SavedInput::new(x)?, Saved::new(w)?);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let fold = pass.grad().layout.is_contiguous() && x.is_contiguous();
            let outputs = pass.grad().clone();
            let grad = matrices(&outputs, fold);
            // First: an input that is computed again for this is freed before its gradient is made.
            if pass.wants(1) {
                give_parameters(pass, [1, 2], &outputs, &grad, &matrices(&*x.get()?, fold))?;
            } else {
                pass.give(2, outputs.detached())?;
            }
            if pass.wants(0) { give_input(pass, &grad, &*repeated(&w, &grad)?, fold) } else { Ok(()) }
        }))
    })
}

/// Gives input 0 the product of `grad` and `weight`. If input 0 is the output of a relu, the product goes to relu's input at
/// once, with 0 where relu was 0: a separate pass for that took 1.5 of the 19 µs of a step of 8-16-16-1 on Zen 5 (batch 512,
/// F32).
fn give_input(pass: &mut Pass<'_>, grad: &RawTensor, weight: &RawTensor, fold: bool) -> Result<()> {
    let Some((y, before)) = pass.through_relu(0) else {
        return give_product(pass, 0, grad.operand()?, weight.factor(count(grad))?);
    };
    let (saved, dtype) = (matrices(&y, fold), pass.dtype(0));
    let (a, b) = (grad.operand()?, weight.factor(count(grad))?);
    let buffer = grad.backend().matmul_unary_grad(a, b, Unary::Relu, saved.operand()?, dtype)?;
    pass.give_to(before, RawTensor::new(grad.device(), buffer, *y.shape()), None)
}

/// Gives inputs `weight` and `bias` theirs: `grad` `[.., R, O]`, turned, times `x` `[.., R, I]`, and the sums of the rows of
/// `grad`, which are those of `outputs` `[.., O]`.
pub(super) fn give_parameters(
    pass: &mut Pass<'_>,
    [weight, bias]: [usize; 2],
    outputs: &RawTensor,
    grad: &RawTensor,
    x: &RawTensor,
) -> Result<()> {
    if pass.defers(&[weight, bias], [grad, x]) {
        let [outputs, grad, x] = [outputs, grad, x].map(RawTensor::detached);
        pass.defer(weight, move |pass| give_both(pass, [weight, bias], &outputs, &grad, &x));
        return Ok(());
    }
    give_both(pass, [weight, bias], outputs, grad, x)
}

/// [`give_parameters`], from one pass where both are collected in the accumulators' precision.
fn give_both(
    pass: &mut Pass<'_>,
    [weight, bias]: [usize; 2],
    outputs: &RawTensor,
    grad: &RawTensor,
    x: &RawTensor,
) -> Result<()> {
    let together = pass.wants(weight) && pass.wants(bias) && grad.shape().len() == 2;
    let layout = turned(&grad.layout);
    let (turned, x) = (Operand { layout: &layout, ..grad.operand()? }, x.operand()?);
    if !together || [weight, bias].iter().any(|&i| pass.dtype(i) != accumulator(grad.logical)) {
        give_product(pass, weight, turned, x)?;
        return pass.give(bias, outputs.detached());
    }
    let (backend, sums) = (grad.backend(), std::cell::Cell::new(None));
    let fresh = |dtype| {
        let (product, rows) = backend.matmul_sums(turned, x, dtype)?;
        sums.set(rows);
        Ok(product)
    };
    let add = |into: &mut Buffer| {
        sums.set(backend.matmul_accumulate_sums(turned, x, into)?);
        Ok(())
    };
    accumulate(pass, weight, Spread::of(grad.logical, x.logical, grad.shape()[0], 1), fresh, add)?;
    let sums = match sums.take() {
        Some(sums) => RawTensor::new(grad.device(), sums, Dims::new(&[grad.shape()[1]]).expect("one dimension")),
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
        return Err(Error::Rank { op, what: "the input", expected: "at least 1 dimension", found: input.into() });
    }
    if weight.len() != 2 {
        return Err(Error::Rank { op, what: "the weight", expected: "2 dimensions", found: weight.into() });
    }
    let mut shape = input;
    let last = shape.len() - 1;
    if input[last] != weight[1] {
        let expected = format!("[.., {}] to fit the weight {weight:?}", weight[1]);
        return Err(Error::Shape { op, what: "the input", expected, found: input.into() });
    }
    shape[last] = weight[0];
    if let Some(bias) = bias {
        x.device().check_same(bias.device(), op)?;
        check_same(op, "the bias", &[weight[0]], bias.shape())?;
    }
    crate::IntoShape::into_shape(shape, op)
}

/// `[.., C]` as `[.., R, C]`, or all of it as one matrix `[R, C]`; a vector becomes a row.
pub(super) fn matrices(x: &RawTensor, fold: bool) -> Cow<'_, RawTensor> {
    let layout = &x.layout;
    let two = |first: usize, second: usize| Dims::new(&[first, second]).expect("two dimensions");
    match layout.shape.len() {
        1 => {
            let (shape, strides) = (two(1, layout.shape[0]), two(0, layout.strides[0]));
            Cow::Owned(x.with_layout(Layout { shape, strides, offset: layout.offset }))
        }
        3.. if fold => {
            let columns = layout.shape[layout.shape.len() - 1];
            let rows = layout.shape[..layout.shape.len() - 1].iter().product();
            Cow::Owned(x.with_layout(Layout { offset: layout.offset, ..Layout::contiguous(two(rows, columns)) }))
        }
        _ => Cow::Borrowed(x),
    }
}

/// Rows of a matrix, of which there may be several.
pub(super) fn count(matrices: &RawTensor) -> usize {
    matrices.shape()[matrices.shape().len() - 2]
}

/// The weight, once for every one of `matrices`.
pub(super) fn repeated<'w>(w: &'w RawTensor, matrices: &RawTensor) -> Result<Cow<'w, RawTensor>> {
    let outer = matrices.shape().len() - 2;
    if outer == 0 {
        return Ok(Cow::Borrowed(w));
    }
    let batch = Dims::new(&matrices.shape()[..outer]).expect("fewer dimensions");
    let shape = batch.pushed(w.shape()[0]).and_then(|dims| dims.pushed(w.shape()[1]));
    w.broadcast_to("linear", &shape.ok_or(Error::TooManyDimensions { op: "linear", rank: outer + 2 })?).map(Cow::Owned)
}

#[cfg(test)]
pub(super) mod tests {
    use crate::nn::Linear;
    use crate::param::Parameter;
    use crate::precision::Float;
    use crate::testing::numbers;
    use crate::{BF16, Device, F32, F64, Result, Tensor, gradcheck};

    pub fn layer(w: &Tensor<F64>, b: Option<&Tensor<F64>>) -> Linear {
        let parameter = |x: &Tensor<F64>| Parameter::new(&x.to::<F32>().unwrap()).unwrap();
        Linear::from_parameters(parameter(w), b.map(parameter)).unwrap()
    }

    #[test]
    fn gradients_agree_with_differences() {
        let (w, b) = (numbers(&[3, 4], 0.1), numbers(&[3], 0.2));
        for shape in [vec![4], vec![2, 4], vec![2, 3, 4], vec![2, 1, 3, 4], vec![0, 4]] {
            let x = numbers(&shape, 0.3);
            let worst = gradcheck(|x| x[0].linear(&x[1], Some(&x[2])), &[x.clone(), w.clone(), b.clone()]).unwrap();
            assert!(worst.agrees(), "{shape:?}: {worst:?}");
            let worst = gradcheck(|x| x[0].linear(&x[1], None), &[x, w.clone()]).unwrap();
            assert!(worst.agrees(), "{shape:?}: {worst:?}");
        }
        let x = numbers(&[4, 2, 3], 0.3);
        let strided = |x: &[Tensor<F64>]| x[0].transpose(0, 2)?.linear(&x[1], Some(&x[2]));
        let worst = gradcheck(strided, &[x, w, b]).unwrap();
        assert!(worst.agrees(), "strided: {worst:?}");
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

    /// Gradients of what relu is made of, where products give to it past relu: one, two of them, one beside another operation,
    /// and with the gradient of relu's output asked for, which then is whole.
    #[test]
    fn products_give_past_relu_what_relu_would_give() {
        fn check<P: Float>(shape: &[usize]) {
            let leaves = [shape, &[7, 40]].map(|s| numbers(s, 0.7).to::<F32>().unwrap().tracked());
            let run = |asked: bool, uses: [bool; 3]| {
                let x = (leaves[0].to::<P>().unwrap() * 1.0_f32).unwrap();
                let y = x.relu().unwrap();
                if asked {
                    y.retain_grad();
                }
                let w = leaves[1].to::<P>().unwrap();
                let sum = |y: Tensor<P>| y.to::<F32>().unwrap().sum_all().unwrap();
                let terms = [
                    uses[0].then(|| sum(y.linear(&w, None).unwrap())),
                    uses[1].then(|| sum(y.linear(&(&w * 2.0_f32).unwrap(), None).unwrap())),
                    uses[2].then(|| sum((&y * 3.0_f32).unwrap())),
                ];
                let loss = terms.into_iter().flatten().reduce(|a, b| (a + b).unwrap()).unwrap();
                let grads = loss.backward_retained().unwrap();
                let again = loss.backward().unwrap();
                let of = |x: &Tensor<F32>| grads.get(x).unwrap().unwrap().to_vec().unwrap();
                assert!(again.get(&leaves[0]).unwrap().unwrap().to_vec().unwrap() == of(&leaves[0]));
                assert_eq!(grads.get(&y).unwrap().is_some(), asked);
                [of(&leaves[0]), of(&leaves[1])]
            };
            for uses in [[true, false, false], [true, true, false], [true, false, true]] {
                let [past, through] = [false, true].map(|asked| run(asked, uses));
                assert!(past == through, "{shape:?} {uses:?} {:?}", P::DTYPE);
                assert!(past[0].contains(&0.0) && past[0].iter().any(|&g| g != 0.0));
            }
        }
        for shape in [&[40][..], &[30, 40], &[6, 5, 40]] {
            check::<F32>(shape);
            check::<BF16>(shape);
        }
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

    #[test]
    fn many_rows_round_the_weight_as_it_is_packed_and_few_a_copy_to_the_same_bits() {
        let (w, b) = (numbers(&[160, 130], 0.1), numbers(&[160], 0.2));
        let rows = |rows: usize| numbers(&[rows, 130], 0.3).to::<BF16>().unwrap().tracked();
        let copies = |layer: &Linear| layer.weight().value().copies().count() - 1;
        let run = |layer: &Linear, x: &Tensor<BF16>| {
            let y = layer.forward(x).unwrap();
            let grads = y.to::<F32>().unwrap().square().unwrap().sum_all().unwrap().backward().unwrap();
            let [dx, dw] =
                [grads.get(x).unwrap().unwrap().to::<F32>(), grads.get(layer.weight()).unwrap().unwrap().to()];
            [y.to::<F32>().unwrap(), dx.unwrap(), dw.unwrap()].map(|x| x.to_vec().unwrap())
        };
        let (packed, copied, x) = (layer(&w, Some(&b)), layer(&w, Some(&b)), rows(700));
        run(&copied, &rows(3));
        assert_eq!(copies(&copied), 1);
        assert_eq!(run(&packed, &x), run(&copied, &x));
        assert_eq!(copies(&packed), 0);
    }
}
