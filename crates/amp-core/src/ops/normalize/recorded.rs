//! A normalisation in the graph: what its backward pass keeps, and what it makes of that.

use super::{Affine, SavedAffine, in_16_bits, row};
use crate::Result;
use crate::autograd::{Origin, Pass, Saved, note_origin, record, records};
use crate::backend::{Buffer, MemoryOrder, NormGrads};
use crate::order::{order_of, pixels, tensor};
use crate::raw::RawTensor;
use amp_cpu::{DType, NormKind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Normalises `x` by its own statistics and records the gradients; returns the means and variances too. The result is
/// rounded to `writes`, if to anything.
#[track_caller]
pub(in crate::ops) fn normalize(
    name: &'static str,
    x: &RawTensor,
    kind: NormKind,
    affine: Affine<'_>,
    eps: f64,
    writes: Option<DType>,
) -> Result<(RawTensor, RawTensor, RawTensor)> {
    // Only for batch normalisation a pixel is what a sample is.
    let order = if kind == NormKind::Batch { order_of([x]) } else { MemoryOrder::RowMajor };
    // A missing parameter takes the input's place in the list of inputs, out of the graph.
    let absent = x.detached();
    let inputs = [x, affine.weight.unwrap_or(&absent), affine.bias.unwrap_or(&absent)];
    let out = writes.unwrap_or(x.logical);
    let keeps = kind != NormKind::Batch && out.is_half() && is_kept_for_this(x) && records(&inputs);
    let (walked, (weight, bias)) = (pixels(order, x)?, affine.operands()?);
    let (operand, backend) = (walked.operand()?, x.backend());
    let kept = if keeps { backend.normalize_keeping(operand, kind, weight, bias, eps, (out, out))? } else { None };
    let (n, normal) = match kept {
        Some((n, normal)) => (n, Some(RawTensor::new(x.device(), normal, *x.shape()))),
        None => (backend.normalize(operand, kind, weight, bias, eps, out)?, None),
    };
    let (mean, var, rstd) = (row(x, n.mean), row(x, n.var), row(x, n.rstd));
    let y = record(name, &inputs, tensor(order, x.device(), n.y, *x.shape()).counted(x.logical), |y| {
        let basis = match &normal {
            Some(normal) => Basis::Normal(Saved::new(normal)?),
            None => Basis::Input(Saved::new(x)?, Saved::new(&mean)?),
        };
        let kept = Arc::new(Kept { basis, rstd: Saved::new(&rstd)?, affine: SavedAffine::new(affine)?, kind, eps });
        if kind != NormKind::Batch && in_16_bits(kept.basis.tensor(), y) {
            note_origin(y, &kept);
        }
        let (shape, parameters) = (*x.shape(), affine.shape(x, kind));
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let (grads, device) = (kept.gradients(pass, order)?, kept.rstd.device());
            pass.give(0, tensor(order, device, grads.x, shape).with_narrowed(grads.narrowed))?;
            pass.give(1, RawTensor::new(device, grads.weight, parameters))?;
            pass.give(2, RawTensor::new(device, grads.bias, parameters))
        }))
    })?;
    Ok((y, mean, var))
}

/// Whether `x` would be kept in F32 for its normalisation alone.
fn is_kept_for_this(x: &RawTensor) -> bool {
    let value = &x.value;
    value.buffer.dtype() == DType::F32 && !value.is_leaf && value.saves.load(Ordering::Relaxed) == 0
}

/// What a normalisation's backward pass starts from.
#[derive(Debug)]
enum Basis {
    /// The input, and the means. Statistics of rows and groups are taken again as the row is read, by the same kernel.
    Input(Saved, Saved),
    /// The normalised elements in the 16 bits that the result is rounded to, in place of an input in F32, as that of a residual
    /// is: of GPT's and ViT's activations a quarter are such inputs. They are of the order of 1, so that neither precision loses
    /// more than its rounding, which the result's own is as large as.
    Normal(Saved),
}

impl Basis {
    fn tensor(&self) -> &RawTensor {
        match self {
            Self::Input(x, _) | Self::Normal(x) => x,
        }
    }
}

/// A normalisation by what its backward pass keeps.
#[derive(Debug)]
struct Kept {
    basis: Basis,
    rstd: Saved,
    affine: SavedAffine,
    kind: NormKind,
    eps: f64,
}

impl Kept {
    /// The gradients, that of the input with what others gave to it so far where the device adds them at once.
    fn gradients(&self, pass: &mut Pass<'_>, order: MemoryOrder) -> Result<NormGrads> {
        let Self { basis, kind, .. } = self;
        let earlier = if *kind == NormKind::Batch { None } else { pass.take_sum(0, self.rstd.logical) };
        let out = (pass.dtype(0), pass.narrows(0));
        let (grad, input, weight) =
            (pixels(order, pass.grad())?, pixels(order, basis.tensor())?, self.affine.operands()?.0);
        let (backend, grad, input) = (input.backend(), grad.operand()?, input.operand()?);
        let (mean, rstd) = match basis {
            Basis::Input(_, mean) => (mean.operand()?, self.rstd.operand()?),
            Basis::Normal(_) => {
                let onto = earlier.as_ref().map(RawTensor::operand).transpose()?;
                return backend.normalize_kept_grad((grad, onto), input, self.rstd.operand()?, weight, *kind, out);
            }
        };
        if let Some(earlier) = &earlier {
            let grad = (grad, earlier.operand()?);
            let grads = backend.normalize_grad_onto(grad, input, (mean, rstd), weight, *kind, out)?;
            if let Some(grads) = grads {
                return Ok(grads);
            }
        }
        let also = out.1.filter(|_| earlier.is_none());
        let grads = backend.normalize_grad(grad, input, (mean, rstd), weight, *kind, (out.0, also))?;
        earlier.into_iter().for_each(|earlier| pass.put_back(0, earlier));
        Ok(grads)
    }
}

impl Origin for Kept {
    fn again(&self, out: DType) -> Result<Buffer> {
        let (weight, bias) = self.affine.operands()?;
        match &self.basis {
            Basis::Input(x, _) => {
                let x = pixels(MemoryOrder::RowMajor, x)?;
                Ok(x.backend().normalize(x.operand()?, self.kind, weight, bias, self.eps, out)?.y)
            }
            Basis::Normal(normal) => normal.backend().normalize_again(normal.operand()?, self.kind, weight, bias, out),
        }
    }
}
