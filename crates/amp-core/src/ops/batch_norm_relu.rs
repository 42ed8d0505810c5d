//! Batch normalisation with the residual and relu that follow it, in its own passes where the device has a kernel for that.

use super::arithmetic;
use super::batch_norm::{GivenGradient, Moments, batch_norm_eval, batch_norm_train, check_given, correction};
use super::normalize::{Affine, SavedAffine, in_16_bits, row};
use super::pointwise::exact;
use crate::Result;
use crate::autograd::{Origin, Pass, Saved, SavedSigns, grad_enabled, note_origin, record, watching};
use crate::backend::{Buffer, Rectified, Statistics};
use crate::order::{order_of, pixels, tensor};
use crate::raw::RawTensor;
use amp_cpu::{DType, NormKind, Unary};
use std::sync::Arc;

/// What follows a batch normalisation: relu, of the sum with a residual if there is one.
#[derive(Clone, Copy)]
pub(crate) struct Relu<'a> {
    /// Broadcasts to the normalised tensor.
    pub residual: Option<&'a RawTensor>,
}

/// `relu(y + residual)` and the batch's statistics, where [`batch_norm_train`] gives `y` and them.
///
/// Values and gradients have the bits of the separate operations; the result is rounded once, to `writes` if that is given. The
/// backward pass keeps the input and a bit for each element.
#[track_caller]
pub(crate) fn batch_norm_train_relu(
    x: &RawTensor,
    affine: Affine<'_>,
    eps: f64,
    relu: Relu<'_>,
    writes: Option<DType>,
) -> Result<(RawTensor, Moments)> {
    let (correction, order) = (correction(x, affine)?, order_of([x]));
    let fused = match x.layout.count() {
        0 => None,
        _ => relu.fused(x, None, affine, eps, writes)?,
    };
    let Some(Rectified { normalized: n, dead }) = fused else {
        let (y, moments) = batch_norm_train(x, affine, eps, relu.first(writes))?;
        return Ok((relu.after(&y, writes)?, moments));
    };
    let (mean, var, rstd) = (row(x, n.mean), row(x, n.var), row(x, n.rstd));
    let y = tensor(order, x.device(), n.y, *x.shape()).counted(x.logical);
    let absent = x.detached();
    let y = record("batch_norm_relu", &relu.inputs(x, affine, &absent), y, |y| {
        let dead = dead.expect("a recorded normalisation was asked for its signs");
        let signs = SavedSigns::of_bits(x.device(), dead, *x.shape(), order)?;
        let (parameters, rstd, statistics) =
            (*mean.shape(), Saved::new(&rstd)?, [Saved::new(&mean)?, Saved::new(&var)?]);
        let kept = Arc::new(Kept { x: Saved::new(x)?, affine: SavedAffine::new(affine)?, statistics, eps });
        if relu.residual.is_none() && in_16_bits(&kept.x, y) {
            note_origin(y, &kept);
        }
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let masked = pass.wants(3);
            if masked {
                // One gradient serves both: the one that came is freed before that of the input is made.
                pass.replace_grad(signs.grad(pass.grad(), pass.grad().logical)?);
                pass.give(3, pass.grad().clone())?;
            }
            let (x, (factor, _), [mean, _]) = (&kept.x, kept.affine.operands()?, &kept.statistics);
            let (grad, input) = (pixels(order, pass.grad())?, pixels(order, x)?);
            let (grad, input, saved) = (grad.operand()?, input.operand()?, (mean.operand()?, rstd.operand()?));
            let grads = match masked {
                true => x.backend().normalize_grad(grad, input, saved, factor, NormKind::Batch, (pass.dtype(0), None)),
                false => signs.with_bits(|dead| {
                    x.backend().batch_norm_relu_grad((grad, dead), input, saved, factor, pass.dtype(0))
                }),
            }?;
            pass.give(0, tensor(order, x.device(), grads.x, *x.shape()))?;
            pass.give(1, RawTensor::new(x.device(), grads.weight, parameters))?;
            pass.give(2, RawTensor::new(x.device(), grads.bias, parameters))
        }))
    })?;
    Ok((y, Moments { mean, var, correction }))
}

/// A normalisation with relu by the input that its backward pass keeps, and the batch's statistics. A residual would have to be
/// kept for it.
#[derive(Debug)]
struct Kept {
    x: Saved,
    affine: SavedAffine,
    statistics: [Saved; 2],
    eps: f64,
}

impl Origin for Kept {
    fn again(&self, out: DType) -> Result<Buffer> {
        let (x, [mean, var]) = (pixels(order_of([&self.x]), &self.x)?, &self.statistics);
        let given = Statistics { mean: mean.operand()?, var: var.operand()? };
        let affine = self.affine.operands()?;
        let again = x.backend().batch_norm_relu(x.operand()?, Some(given), affine, self.eps, (None, false), out)?;
        Ok(again.expect("the device had the kernel in the forward pass").normalized.y)
    }
}

/// `relu(y + residual)`, where [`batch_norm_eval`] gives `y`.
#[track_caller]
pub(crate) fn batch_norm_eval_relu(
    x: &RawTensor,
    statistics: [&RawTensor; 2],
    affine: Affine<'_>,
    eps: f64,
    relu: Relu<'_>,
    writes: Option<DType>,
) -> Result<RawTensor> {
    check_given(x, statistics, affine)?;
    let Some(fused) = relu.fused(x, Some(statistics), affine, eps, writes)? else {
        return relu.after(&batch_norm_eval(x, statistics, affine, eps, relu.first(writes))?, writes);
    };
    let order = order_of([x]);
    let y = tensor(order, x.device(), fused.normalized.y, *x.shape()).counted(x.logical);
    let absent = x.detached();
    record("batch_norm_relu", &relu.inputs(x, affine, &absent), y, |_| {
        let rule = GivenGradient::new(x, statistics, affine, eps)?;
        let dead = fused.dead.expect("a recorded normalisation was asked for its signs");
        let signs = SavedSigns::of_bits(x.device(), dead, *x.shape(), order)?;
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let grad = signs.grad(pass.grad(), pass.grad().logical)?;
            pass.give(3, grad.clone())?;
            rule.give(pass, &grad)
        }))
    })
}

impl<'a> Relu<'a> {
    /// All in one pass, where the device has a kernel for that and nobody looks for what overflows in between.
    fn fused(
        &self,
        x: &RawTensor,
        given: Option<[&RawTensor; 2]>,
        affine: Affine<'_>,
        eps: f64,
        writes: Option<DType>,
    ) -> Result<Option<Rectified>> {
        let residual = self.residual.map(|residual| {
            x.device().check_same(residual.device(), "batch_norm")?;
            pixels(order_of([x]), &residual.broadcast_to("batch_norm", x.shape())?)
        });
        let residual = residual.transpose()?;
        if watching() {
            return Ok(None);
        }
        let given = match given {
            Some([mean, var]) => Some(Statistics { mean: mean.operand()?, var: var.operand()? }),
            None => None,
        };
        let residual = residual.as_ref().map(RawTensor::operand).transpose()?;
        let signs = grad_enabled() && self.inputs(x, affine, &x.detached()).iter().any(|input| input.edge.is_some());
        let out = writes.unwrap_or(x.logical);
        let input = pixels(order_of([x]), x)?;
        x.backend().batch_norm_relu(input.operand()?, given, affine.operands()?, eps, (residual, signs), out)
    }

    /// All inputs in the graph; `absent` takes the place of those that are missing.
    fn inputs<'b>(&self, x: &'b RawTensor, affine: Affine<'b>, absent: &'b RawTensor) -> [&'b RawTensor; 4]
    where
        'a: 'b,
    {
        [x, affine.weight.unwrap_or(absent), affine.bias.unwrap_or(absent), self.residual.unwrap_or(absent)]
    }

    /// What a normalisation is rounded to that relu alone follows: in BF16 rounding makes no zeros, so that signs stay.
    fn first(&self, writes: Option<DType>) -> Option<DType> {
        writes.filter(|&writes| writes == DType::BF16 && self.residual.is_none())
    }

    /// What follows the normalisation, as operations of their own.
    #[track_caller]
    fn after(&self, y: &RawTensor, writes: Option<DType>) -> Result<RawTensor> {
        let sum = self.residual.map(|residual| arithmetic::add(y, residual)).transpose()?;
        exact("relu", Unary::Relu, sum.as_ref().unwrap_or(y), writes)
    }
}

#[cfg(test)]
mod tests {
    use super::{Relu, batch_norm_eval_relu, batch_norm_train_relu};
    use crate::nn::BatchNorm2d;
    use crate::ops::Affine;
    use crate::ops::normalize::tests::wave;
    use crate::precision::{Float, Rounding};
    use crate::{BF16, Device, F16, F32, F64, Module, Result, Tensor, gradcheck};

    #[test]
    fn gradients_agree_with_differences() {
        let (w, b, m) = (wave(&[3], 0.2), wave(&[3], 0.7), wave(&[3], 0.4));
        let var = Tensor::<F64>::from_vec(vec![0.5, 2.0, 1.5], [3], &Device::cpu()).unwrap();
        for (shape, added) in [(&[4, 3][..], &[4, 3][..]), (&[2, 3, 4], &[3, 1]), (&[2, 3, 5, 4], &[2, 3, 5, 4])] {
            let inputs = [wave(shape, 0.1), w.clone(), b.clone(), wave(added, 1.1)];
            for count in [3, 4] {
                let relu = |t: &[Tensor<F64>], train: bool| {
                    let affine = Affine::new(Some(&t[1]), Some(&t[2]));
                    let relu = Relu { residual: t.get(3).map(|residual| &residual.raw) };
                    Ok(Tensor::from_raw(match train {
                        true => batch_norm_train_relu(&t[0].raw, affine, 1e-5, relu, None)?.0,
                        false => batch_norm_eval_relu(&t[0].raw, [&m.raw, &var.raw], affine, 1e-5, relu, None)?,
                    }))
                };
                for train in [true, false] {
                    let worst = gradcheck(|t| relu(t, train), &inputs[..count]).unwrap();
                    assert!(worst.agrees(), "{shape:?} with {count} inputs, train {train}: {worst:?}");
                }
            }
        }
    }

    /// Result, and gradients of the input, the residual and the parameters; then the running variance.
    fn step<P: Float, Q: Float, R: Float>(train: bool, fused: bool, added: bool) -> Result<Vec<Vec<f64>>> {
        let norm = BatchNorm2d::new(5, &Device::cpu())?;
        if !train {
            norm.eval();
        }
        let x = wave(&[3, 5, 7, 6], 0.3).to::<P>()?.tracked();
        let residual = wave(&[3, 5, 7, 6], 0.9).to::<R>()?.tracked();
        let input = x.to::<Q>()?;
        let y = match (fused, added) {
            (true, false) => norm.forward_relu(&input)?,
            (true, true) => norm.forward_add_relu(&input, &residual)?,
            (false, false) => norm.forward(&x)?.to::<Q>()?.relu()?.to::<F32>()?,
            (false, true) => (norm.forward(&x)? + residual.to::<F32>()?)?.to::<Q>()?.relu()?.to::<F32>()?,
        };
        let slopes = wave(&[3, 5, 7, 6], 0.7).to::<F32>()?;
        let grads = (&y * &slopes)?.sum_all()?.backward()?;
        let wide = |x: Tensor<F32>| x.to::<F64>()?.to_vec();
        let mut found = vec![y.to::<F64>()?.to_vec()?, grads.get(&x)?.expect("used").to::<F64>()?.to_vec()?];
        if added {
            found.push(grads.get(&residual)?.expect("used").to::<F64>()?.to_vec()?);
        }
        for parameter in [norm.weight(), norm.bias()].into_iter().flatten() {
            found.push(wide(grads.get(parameter)?.expect("used"))?);
        }
        norm.commit()?;
        found.push(wide(norm.running_var().tensor())?);
        Ok(found)
    }

    #[test]
    fn one_pass_has_the_bits_of_the_operations_one_after_the_other() -> Result<()> {
        for (train, added) in [(true, false), (true, true), (false, false), (false, true)] {
            let steps = [true, false].map(|fused| {
                Ok([
                    step::<F32, F32, F32>(train, fused, added)?,
                    step::<BF16, F32, F32>(train, fused, added)?,
                    step::<F16, F32, BF16>(train, fused, added)?,
                ])
            });
            let [fused, parts]: [Result<[Vec<Vec<f64>>; 3]>; 2] = steps;
            let (fused, parts) = (fused?, parts?);
            assert!(fused == parts, "train {train}, residual {added}");
            let rounded = step::<BF16, Rounding<BF16>, F32>(train, true, added)?;
            let narrow: Vec<f64> = Tensor::<F64>::from_vec(fused[1][0].clone(), [fused[1][0].len()], &Device::cpu())?
                .to::<F32>()?
                .to::<BF16>()?
                .to::<F64>()?
                .to_vec()?;
            assert!(rounded[0] == narrow, "rounded once");
            assert!(rounded[1..] == fused[1][1..], "gradients of what is rounded, train {train}, residual {added}");
        }
        Ok(())
    }

    #[test]
    fn what_is_not_recorded_keeps_nothing_and_bad_shapes_are_errors() -> Result<()> {
        let norm = BatchNorm2d::new(5, &Device::cpu())?;
        let x = wave(&[3, 5, 7, 6], 0.3).to::<F32>()?;
        let tracked = norm.forward_relu(&x)?;
        let plain = crate::no_grad(|| norm.forward_relu(&x))?;
        assert!(tracked.raw.edge.is_some() && plain.raw.edge.is_none());
        assert_eq!(tracked.to_vec()?, plain.to_vec()?);
        let error = norm.forward_add_relu(&x, &wave(&[3, 5, 7, 7], 0.1)).unwrap_err().to_string();
        assert_eq!(error, "batch_norm: shapes [3, 5, 7, 7] and [3, 5, 7, 6] do not broadcast");
        Ok(())
    }
}
