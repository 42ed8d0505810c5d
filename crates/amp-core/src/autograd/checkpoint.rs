//! Trading time for memory: run again in the backward pass what was not kept.

use super::engine::{Pass, run};
use super::grad_mode::{no_grad, with_grad_mode};
use super::graph::record;
use crate::precision::{Element, Float};
use crate::random::{random_state, set_random_state};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result};

/// Runs `f(x)` without keeping its intermediate results and runs it again when the backward pass needs them
/// (`torch.utils.checkpoint`).
///
/// The second run calls the same compiled function with the same random state, so neither its precision nor its dropout
/// masks can differ. Parameters used inside `f` receive their gradients as usual. It is kept for the backward pass, and so
/// holds what it uses: parts of a model are shared by an `Arc`, which a module may have in place of a field.
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
/// # Limits
/// What `f` does is known only when it runs again: a part that runs in F16 does not make `backward` ask for a `GradScaler`,
/// `backward_for` gives all parameters of `f` their gradients or none, and a tensor that `f` captures must have no graph of its
/// own that is walked elsewhere ([`Error::GraphFreed`]): give it to `f` as `x`, or detach it.
///
/// # Errors
/// [`Error::Shape`] in the backward pass when the second run gives another shape than the first.
pub fn checkpoint<P, Q, F>(f: F, x: &Tensor<P>) -> Result<Tensor<Q>>
where
    P: Float,
    Q: Element,
    F: Fn(&Tensor<P>) -> Result<Tensor<Q>> + Send + Sync + 'static,
{
    let random = random_state();
    let out = no_grad(|| f(x))?;
    let input = x.raw.detached();
    // Parameters are found only by running `f`, so the node is recorded whenever gradients are on.
    let anchor = if x.requires_grad() { x.clone() } else { x.tracked() };
    let raw = record("checkpoint", &[&anchor.raw], out.raw.detached(), |_| {
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let now = random_state();
            set_random_state(random);
            let recomputed = with_grad_mode(true, || recompute(&f, &input));
            set_random_state(now);
            let (x, y) = recomputed?;
            pass.walk(&y.raw, &x.raw)
        }))
    })?;
    Ok(Tensor::from_raw(raw))
}

fn recompute<P: Float, Q: Element>(
    f: &impl Fn(&Tensor<P>) -> Result<Tensor<Q>>,
    input: &RawTensor,
) -> Result<(Tensor<P>, Tensor<Q>)> {
    let x = Tensor::<P>::from_raw(input.detached()).tracked();
    let y = f(&x)?;
    Ok((x, y))
}

impl Pass<'_> {
    /// Walks the inner graph from `y` with this pass's gradient: leaves collect as usual, what arrives at `x` goes to
    /// input 0.
    fn walk(&mut self, y: &RawTensor, x: &RawTensor) -> Result<()> {
        if y.edge.is_none() {
            return Ok(());
        }
        if y.shape() != self.grad().shape() {
            let (expected, found) = (format!("{:?}, as it had", self.grad().shape()), (*y.shape()).into());
            return Err(Error::Shape { op: "checkpoint", what: "the result of the second run", expected, found });
        }
        let mut inner = run(y, self.grad().clone(), None, false, false)?;
        let id = x.edge.as_ref().map(super::graph::Edge::id);
        if let Some(grad) = id.and_then(|id| inner.grads.remove(&id)) {
            self.give(0, grad)?;
        }
        self.merge(inner)
    }
}
