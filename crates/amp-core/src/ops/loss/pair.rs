//! Element-wise losses by fused kernels.

use super::{LossReduction, slopes};
use crate::Result;
use crate::autograd::{Saved, record};
use crate::order::{self, order_of, walk};
use crate::raw::RawTensor;
use amp_cpu::{Dims, PairLoss};

/// The loss of `input` and a `target` of its shape, one pass over both, where the device has a kernel for that.
///
/// Only the operands are kept for the gradient.
#[track_caller]
pub(super) fn fused(
    op: &'static str,
    loss: PairLoss,
    input: &RawTensor,
    target: &RawTensor,
    reduction: LossReduction,
) -> Result<Option<RawTensor>> {
    let (shape, pair) = (*input.shape(), [input, target]);
    let Some(result) = reduced(loss, pair, reduction)? else { return Ok(None) };
    let result = record(op, &pair, result, move |_| {
        let (x, t) = (Saved::new(input)?, Saved::new(target)?);
        Ok(slopes(shape, 2, reduction, move |i, grad| {
            order::elementwise([&*x, &*t, grad], |backend, [x, t, g]| {
                backend.loss_grad(loss, [x, t], g, i == 1, grad.logical)
            })
        }))
    })?;
    Ok(Some(result))
}

fn reduced(loss: PairLoss, pair: [&RawTensor; 2], reduction: LossReduction) -> Result<Option<RawTensor>> {
    let (order, device, out) = (order_of(pair), pair[0].device(), pair[0].logical);
    if reduction == LossReduction::None {
        let losses = walk(order, pair, |backend, [x, t]| backend.losses(loss, x, t, out))?;
        return Ok(losses.map(|losses| order::tensor(order, device, losses, *pair[0].shape())));
    }
    let mean = reduction == LossReduction::Mean;
    let Some(total) = walk(order, pair, |backend, [x, t]| backend.loss_total(loss, x, t, mean, out))? else {
        return Ok(None);
    };
    reduction.finished(RawTensor::new(device, total, Dims::default()), pair[0].shape()).map(Some)
}
