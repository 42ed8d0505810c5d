//! Gradients of leaves that are computed last, in the memory that activations had.

use super::engine::{Collected, Walk};
use super::graph::{Edge, Node};
use super::pass::Pass;
use super::peaks::Lookout;
use super::{IdSet, watch};
use crate::Result;
use crate::raw::RawTensor;
use std::fmt;
use std::sync::Arc;

type Share = Box<dyn FnOnce(&mut Pass<'_>) -> Result<()>>;

/// A leaf's gradient that is still to be computed.
///
/// The gradient of a wide layer's weight may be many times as large as the activations it is a product of: ResNet-18's last
/// four layers have 33 of 43 MiB of gradients, from activations of 0.5 MiB each. Computed in their turn, they would need memory
/// beside the activations of all earlier layers; computed later, they take the memory that those had.
pub(crate) struct Deferred {
    node: Arc<Node>,
    grad: RawTensor,
    leaf: u64,
    share: Share,
}

impl fmt::Debug for Deferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a gradient of {} at {}", self.node.op, self.node.location)
    }
}

impl Pass<'_> {
    /// Runs `share`, which gives input `i` its gradient from `operands`: [later](Self::defer) if that
    /// [saves memory](Self::defers), otherwise at once.
    pub(crate) fn give_or_defer(
        &mut self,
        i: usize,
        operands: [RawTensor; 2],
        share: impl FnOnce(&mut Pass<'_>, &[RawTensor; 2]) -> Result<()> + 'static,
    ) -> Result<()> {
        if self.defers(&[i], operands.each_ref()) {
            self.defer(i, move |pass| share(pass, &operands));
            return Ok(());
        }
        share(self, &operands)
    }

    /// Runs `share`, which gives input `i`, a leaf, its gradient, after all nodes had their turns.
    pub(crate) fn defer(&mut self, i: usize, share: impl FnOnce(&mut Pass<'_>) -> Result<()> + 'static) {
        let Some(leaf) = self.edge(i).map(Edge::id) else { return };
        let (node, grad) = (self.node.clone(), self.grad.clone());
        self.collected.deferred.push(Deferred { node, grad, leaf, share: Box::new(share) });
    }

    /// Whether computing the gradients of `inputs` from `operands` later saves memory: the first input is a leaf, and its
    /// gradient takes more memory than the operands.
    ///
    /// Not where another input is a node, which would miss its turn, nor where the leaf has a share already, nor while every
    /// turn is watched. Operands count at their logical precision, so that the answer does not depend on how they are stored.
    pub(crate) fn defers(&self, inputs: &[usize], operands: [&RawTensor; 2]) -> bool {
        /// Gradients of up to this many bytes are not deferred.
        const SMALL: usize = 1 << 20;
        let Some(Edge::Leaf(leaf)) = self.edge(inputs[0]) else { return false };
        let bytes = leaf.shape.count() * leaf.dtype.size();
        let held: usize = operands.map(|of| of.layout.count() * of.logical.size()).iter().sum();
        let Collected { grads, deferred, .. } = &*self.collected;
        let is_first = || !grads.contains_key(&leaf.id) && deferred.iter().all(|other| other.leaf != leaf.id);
        let all_end_here = || inputs.iter().all(|&i| !matches!(self.edge(i), Some(Edge::Node(_))));
        bytes > held.max(SMALL) && all_end_here() && is_first() && !watch::on()
    }
}

/// Computes the deferred gradients; each frees its operands.
pub(super) fn give_deferred(
    wanted: &IdSet,
    walk: Walk<'_>,
    collected: &mut Collected,
    mut lookout: Option<&mut Lookout>,
) -> Result<()> {
    for Deferred { node, grad, share, .. } in std::mem::take(&mut collected.deferred) {
        share(&mut Pass { node: &node, grad, wanted, walk, collected, lookout: lookout.as_deref_mut() })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Pass;
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
                pass.give_or_defer(1, [grad.clone(), grad], move |pass, _| {
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
