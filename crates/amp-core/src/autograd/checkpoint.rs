//! Trading time for memory: run again in the backward pass what was not kept.

use super::grad_mode::{GradMode, grad_enabled, with_grad_mode};
use super::graph::record;
use super::pass::Pass;
use crate::precision::{Element, Float};
use crate::random::{noted, repeated};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result};

/// Runs `f(x)` without keeping its intermediate results and runs it again when the backward pass needs them
/// (`torch.utils.checkpoint`).
///
/// The second run calls the same compiled function and draws the same random numbers, whatever has been drawn since: neither
/// precision nor dropout masks can differ. Parameters and other tensors that `f` uses receive their gradients as usual.
///
/// `f` is kept for the backward pass and owns what it uses. Parts of a model are shared with it through an `Arc`, which a
/// module may hold in place of a plain field:
///
/// ```
/// # use amp_core::{checkpoint, nn::Linear, Device, F32, Result, Tensor};
/// use std::sync::Arc;
///
/// struct Net { blocks: Vec<Arc<Linear>> }
///
/// impl Net {
///     fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
///         let mut h = x.clone();
///         for block in &self.blocks {
///             let block = Arc::clone(block);
///             h = checkpoint(move |h| block.forward(h)?.relu(), &h)?;
///         }
///         Ok(h)
///     }
/// }
/// # let device = Device::cpu();
/// # let net = Net { blocks: vec![Arc::new(Linear::new(4, 4, &device)?)] };
/// # let grads = net.forward(&Tensor::ones([2, 4], &device)?)?.mean_all()?.backward()?;
/// # assert!(grads.get(net.blocks[0].weight())?.is_some());
/// # Ok::<_, amp_core::Error>(())
/// ```
///
/// # Errors
/// [`Error::Shape`] in the backward pass when the second run gives another shape than the first.
#[track_caller]
pub fn checkpoint<P, Q, F>(f: F, x: &Tensor<P>) -> Result<Tensor<Q>>
where
    P: Float,
    Q: Element,
    F: Fn(&Tensor<P>) -> Result<Tensor<Q>> + Send + Sync + 'static,
{
    if !grad_enabled() {
        return f(x);
    }
    // The outline tells the backward walk which parameters and captured tensors `f` depends on, and what runs in F16.
    let (outline, draws) = noted(|| with_grad_mode(GradMode::Outline, || f(x)));
    let outline = outline?;
    if !outline.requires_grad() {
        return Ok(outline);
    }
    let input = x.raw.detached();
    let raw = record("checkpoint", &[&x.raw, &outline.raw], outline.raw.detached(), |_| {
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let x = Tensor::from_raw(RawTensor { edge: pass.input(0), ..input.detached() });
            let y = repeated(draws.clone(), || with_grad_mode(GradMode::On, || f(&x)))?;
            if y.raw.shape() != pass.grad().shape() {
                let (expected, found) = (format!("{:?}, as it had", pass.grad().shape()), (*y.raw.shape()).into());
                return Err(Error::Shape { op: "checkpoint", what: "the result of the second run", expected, found });
            }
            pass.walk(&y.raw)
        }))
    })?;
    Ok(Tensor::from_raw(raw))
}
