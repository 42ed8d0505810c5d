//! Two dense layers with an activation between them.

use super::linear::{check, count, give_parameters, matrices};
use super::matmul::{give_product, turned};
use crate::Result;
use crate::autograd::{Pass, Saved, SavedInput, record};
use crate::backend::Operand;
use crate::raw::RawTensor;
use amp_cpu::Unary;

/// A dense layer: weight `[O, I]`, bias `[O]`.
pub(crate) type Dense<'a> = (&'a RawTensor, Option<&'a RawTensor>);

/// `down(op(up(x)))`, bit for bit the three operations in turn for a contiguous `x`, unless `op` is part of a product
/// (`Backend::matmul_unary`).
///
/// The hidden layer is kept once, as what the derivative of `op` is computed from; activation and derivative may be part of
/// the products before them, if the backend has such products.
#[track_caller]
pub(crate) fn feed_forward(x: &RawTensor, up: Dense<'_>, op: Unary, down: Dense<'_>) -> Result<RawTensor> {
    const OP: &str = "feed_forward";
    let hidden_shape = check(OP, x, *x.shape(), up.0, up.1)?;
    let shape = check(OP, x, hidden_shape, down.0, down.1)?;
    let (backend, device, logical) = (x.backend(), x.device(), x.logical);
    let left = rows(x)?;
    let bias = up.1.map(RawTensor::operand).transpose()?;
    let [turned_up, turned_down] = [up.0, down.0].map(|weight| turned(&weight.layout));
    let weight = Operand { layout: &turned_up, ..up.0.factor(count(&left))? };
    let [sums, hidden] = backend.matmul_unary(left.operand()?, weight, bias, op, logical)?;
    let [sums, hidden] = [sums, hidden].map(|buffer| RawTensor::new(device, buffer, hidden_shape));
    let bias = down.1.map(RawTensor::operand).transpose()?;
    let product = matrices(&hidden, true);
    let weight = Operand { layout: &turned_down, ..down.0.factor(count(&left))? };
    let y = backend.matmul(product.operand()?, weight, bias, logical)?;

    let weights = [x, up.0, down.0].map(Some);
    let inputs: Vec<&RawTensor> = weights.into_iter().chain([up.1, down.1]).flatten().collect();
    // No input has the number of a bias that is not there.
    let up_bias = if up.1.is_some() { 3 } else { inputs.len() };
    let down_bias = if down.1.is_some() { inputs.len() - 1 } else { inputs.len() };
    record(OP, &inputs, RawTensor::new(device, y, shape), |_| {
        let kept = Saved::new(if op.grad_from_output() { &hidden } else { &sums })?;
        let (x, up, down) = (SavedInput::new(x)?, Saved::new(up.0)?, Saved::new(down.0)?);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let (outputs, grad) = (pass.grad().detached(), rows(pass.grad())?);
            if pass.wants(2) {
                let hidden =
                    if op.grad_from_output() { kept.detached() } else { super::kernel::unary(op, &kept, logical)? };
                give_parameters(pass, [2, down_bias], &outputs, &grad, &matrices(&hidden, true))?;
            } else {
                pass.give(down_bias, outputs)?;
            }
            if ![0, 1, up_bias].iter().any(|&i| pass.wants(i)) {
                return Ok(());
            }
            let saved = matrices(&kept, true);
            let derived = grad.backend().matmul_unary_grad(
                grad.operand()?,
                down.factor(count(&grad))?,
                op,
                saved.operand()?,
                logical,
            )?;
            let outputs = RawTensor::new(grad.device(), derived, *kept.shape());
            let grad = matrices(&outputs, true);
            give_product(pass, 0, grad.operand()?, up.factor(count(&grad))?)?;
            if pass.wants(1) {
                return give_parameters(pass, [1, up_bias], &outputs, &grad, &rows(&*x.get()?)?);
            }
            pass.give(up_bias, outputs)
        }))
    })
}

/// `[.., C]` as one matrix `[R, C]`.
fn rows(x: &RawTensor) -> Result<RawTensor> {
    let dense = if x.layout.is_contiguous() { x.detached() } else { x.contiguous()? };
    Ok(matrices(&dense, true).into_owned())
}
