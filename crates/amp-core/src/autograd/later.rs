//! Shares of gradients that are computed after everybody had their turns.

use super::engine::{Collected, Pass};
use super::graph::{Edge, Node};
use super::peaks::Lookout;
use super::{IdSet, watch};
use crate::Result;
use crate::raw::RawTensor;
use std::fmt;
use std::sync::Arc;

type Share = Box<dyn FnOnce(&mut Pass<'_>) -> Result<()>>;

/// What a node still has to give to leaves.
///
/// The gradient of a wide layer's weight may be many times as large as what it is a product of: ResNet-18's last four layers have
/// 33 of 43 MiB of gradients, of activations of 0.5 MiB each. Made in their turn, they lie beside the activations of all layers
/// before; made later, where those were.
pub(crate) struct Later {
    node: Arc<Node>,
    grad: RawTensor,
    leaf: u64,
    share: Share,
}

impl fmt::Debug for Later {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a gradient of {} at {}", self.node.op, self.node.location)
    }
}

impl Pass<'_> {
    /// Has `share`, which gives input `i` its gradient from `operands`, run [later](Self::later) if that [saves
    /// memory](Self::waits), otherwise at once.
    pub(crate) fn share(
        &mut self,
        i: usize,
        operands: [RawTensor; 2],
        share: impl FnOnce(&mut Pass<'_>, &[RawTensor; 2]) -> Result<()> + 'static,
    ) -> Result<()> {
        if self.waits(&[i], operands.each_ref()) {
            self.later(i, move |pass| share(pass, &operands));
            return Ok(());
        }
        share(self, &operands)
    }

    /// Has `share`, which gives input `i`, a leaf, its gradient, run when all nodes had their turns.
    pub(crate) fn later(&mut self, i: usize, share: impl FnOnce(&mut Pass<'_>) -> Result<()> + 'static) {
        let Some(leaf) = self.edge(i).map(Edge::id) else { return };
        let (node, grad) = (self.node.clone(), self.grad.clone());
        self.collected.later.push(Later { node, grad, leaf, share: Box::new(share) });
    }

    /// Whether gradients of `inputs` are to be made later of `operands`: the first is a leaf whose gradient takes more memory than
    /// they do, and none of the others a node, whose turn it would miss. Not where a gradient is there already, nor where every
    /// node's turn is watched. By the precision that operands count as: what is rounded as it is written has the same turn.
    pub(crate) fn waits(&self, inputs: &[usize], operands: [&RawTensor; 2]) -> bool {
        /// Bytes that are not worth it.
        const SMALL: usize = 1 << 20;
        let Some(Edge::Leaf(leaf)) = self.edge(inputs[0]) else { return false };
        let bytes = leaf.shape.count() * leaf.dtype.size();
        let held: usize = operands.map(|of| of.layout.count() * of.logical.size()).iter().sum();
        let Collected { grads, later, .. } = &*self.collected;
        let is_first = || !grads.contains_key(&leaf.id) && later.iter().all(|later| later.leaf != leaf.id);
        let all_end_here = || inputs.iter().all(|&i| !matches!(self.edge(i), Some(Edge::Node(_))));
        bytes > held.max(SMALL) && all_end_here() && is_first() && !watch::on()
    }
}

/// Gives the shares that were to come later, each of which frees what it is computed from.
pub(super) fn give_later(wanted: &IdSet, collected: &mut Collected, mut lookout: Option<&mut Lookout>) -> Result<()> {
    for Later { node, grad, share, .. } in std::mem::take(&mut collected.later) {
        share(&mut Pass { node: &node, grad, wanted, collected, lookout: lookout.as_deref_mut() })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::engine::Pass;
    use super::super::{Saved, record};
    use crate::{BF16, Device, F32, Result, Tensor, checkpoint};
    use std::sync::{Arc, Mutex};

    fn wave(shape: [usize; 2]) -> Tensor<F32> {
        let mut i = 0.0;
        let next = |_: &[usize]| {
            i += 1.0;
            (i * 1.7_f32).sin()
        };
        Tensor::from_fn(shape, next, &Device::cpu()).unwrap()
    }

    fn gradient(loss: &Tensor<F32>, of: &Tensor<F32>) -> Vec<f32> {
        loss.backward_retained().unwrap().get(of).unwrap().unwrap().to_vec().unwrap()
    }

    /// Whether what an earlier operation kept was still there as a leaf of `columns` columns got its gradient.
    fn kept_by_an_earlier_operation(columns: usize) -> bool {
        let (x, leaf) = (wave([2, 8]).tracked(), wave([1024, columns]).tracked());
        let early = x.exp().unwrap();
        let activation = Arc::downgrade(&early.raw.value);
        let seen = Arc::new(Mutex::new(None));
        let y = record("late", &[&early.raw, &leaf.raw], wave([2, 8]).raw, |_| {
            let (seen, leaf) = (seen.clone(), leaf.raw.detached());
            Ok(Box::new(move |pass: &mut Pass<'_>| {
                let (grad, seen, activation, leaf) =
                    (pass.grad().detached(), seen.clone(), activation.clone(), leaf.clone());
                pass.give(0, grad.clone())?;
                pass.share(1, [grad.clone(), grad], move |pass, _| {
                    *seen.lock().unwrap() = Some(activation.strong_count() > 0);
                    pass.give(1, leaf)
                })
            }))
        });
        drop(early);
        let grads = Tensor::<F32>::from_raw(y.unwrap()).sum_all().unwrap().backward().unwrap();
        assert_eq!(grads.get(&leaf).unwrap().unwrap().to_vec().unwrap(), leaf.to_vec().unwrap());
        seen.lock().unwrap().expect("the leaf has its gradient")
    }

    #[test]
    fn wide_leaves_have_their_gradients_when_activations_are_gone() {
        assert!(!kept_by_an_earlier_operation(1024));
        assert!(kept_by_an_earlier_operation(64), "256 KiB are not worth it");
    }

    #[test]
    fn gradients_are_those_that_come_at_once() {
        let (x, w) = (wave([3, 512]), wave([1024, 512]));
        type Layer = fn(&Tensor<F32>, &Tensor<F32>) -> Result<Tensor<F32>>;
        let layers: [Layer; 3] = [
            |x, w| x.linear(w, None),
            |x, w| x.matmul(&w.t()?),
            |x, w| x.to::<BF16>()?.linear(&w.to::<BF16>()?, None)?.to(),
        ];
        for layer in layers {
            let leaf = w.detach().tracked();
            let loss = |w: &Tensor<F32>| -> Result<_> { layer(&x, w)?.tanh()?.sum_all() };
            // The gradient of what is no leaf is needed at once.
            let at_once = gradient(&loss(&(&leaf * 1.0).unwrap()).unwrap(), &leaf);
            let late = loss(&leaf).unwrap();
            assert!(at_once.iter().any(|&g| g != 0.0));
            assert_eq!(gradient(&late, &leaf), at_once);
            assert_eq!(gradient(&late, &leaf), at_once, "a graph that is walked again");
            let w = leaf.clone();
            let again = checkpoint(move |x| layer(x, &w)?.tanh(), &x.clone().tracked()).unwrap().sum_all().unwrap();
            assert_eq!(gradient(&again, &leaf), at_once, "a part that is run again");
        }
    }

    #[test]
    fn a_leaf_that_is_used_twice_has_both_shares() {
        let (x, w) = (wave([3, 512]), wave([1024, 512]).tracked());
        let both = (x.linear(&w, None).unwrap() + (&x * 2.0).unwrap().linear(&w, None).unwrap()).unwrap();
        let twice = gradient(&both.sum_all().unwrap(), &w);
        let once = gradient(&x.linear(&w, None).unwrap().sum_all().unwrap(), &w);
        for (twice, once) in twice.iter().zip(once) {
            assert!((twice - 3.0 * once).abs() <= 1e-5, "{twice} is not three times {once}");
        }
    }

    #[test]
    fn a_bias_that_is_computed_has_its_gradient_in_time() {
        let (x, w, b) = (wave([3, 512]), wave([1024, 512]).tracked(), wave([1, 1024]).tracked());
        let bias = (&b * 2.0).unwrap().squeeze(0).unwrap();
        let full = x.linear(&w, Some(&bias)).unwrap();
        let half = x.to::<BF16>().unwrap().linear(&w.to::<BF16>().unwrap(), Some(&bias.to::<BF16>().unwrap())).unwrap();
        for y in [full, half.to::<F32>().unwrap()] {
            assert_eq!(gradient(&y.sum_all().unwrap(), &b), [6.0; 1024]);
        }
    }

    #[test]
    fn what_is_kept_for_later_is_let_go() {
        let (x, w) = (wave([3, 512]).tracked(), wave([1024, 512]).tracked());
        let h = x.exp().unwrap();
        let weak = Arc::downgrade(&Saved::new(&h.raw).unwrap().value);
        let loss = h.linear(&w, None).unwrap().sum_all().unwrap();
        drop(h);
        let grads = loss.backward().unwrap();
        assert_eq!(weak.strong_count(), 0);
        assert!(grads.get(&w).unwrap().is_some());
    }
}
