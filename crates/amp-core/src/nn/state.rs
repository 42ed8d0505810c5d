//! State of modules that is not trained: running statistics, the train/eval mode, and changes that wait for a step.

use crate::autograd::{Edge, GradMode, grad_mode};
use crate::backend::Buffer;
use crate::locks::{lock, read, write};
use crate::optim::Skip;
use crate::param::PendingUpdate;
use crate::precision::{Element, F32, I64};
use crate::random::is_repeating;
use crate::raw::RawTensor;
use crate::shape::check_same;
use crate::tensor::Tensor;
use crate::{Device, Result};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock, Weak};

/// A persistent tensor of a module that no optimizer touches (`register_buffer`), such as a running mean.
///
/// F32 by signature: an exponential average with a small weight stands still in 16 bits. Clones are handles of the
/// same tensor.
#[doc(alias = "register_buffer")]
#[derive(Clone)]
pub struct Statistics(Arc<RwLock<RawTensor>>);

impl Statistics {
    /// Starts at `tensor`.
    pub fn new(tensor: &Tensor<F32>) -> Self {
        Self::erased(tensor.raw.detached())
    }

    /// A counter that starts at 0 (`num_batches_tracked`).
    pub(crate) fn counter(device: &Device) -> Result<Self> {
        Ok(Self::erased(Tensor::<I64>::zeros((), device)?.raw))
    }

    fn erased(raw: RawTensor) -> Self {
        Self(Arc::new(RwLock::new(raw)))
    }

    /// The present value.
    pub fn tensor(&self) -> Tensor<F32> {
        let raw = self.raw();
        Tensor::from_raw(raw.cast_view(F32::DTYPE).unwrap_or(raw))
    }

    /// Replaces the value at once, whether or not a step is taken.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) when the shapes differ.
    pub fn set(&self, tensor: &Tensor<F32>) -> Result<()> {
        self.set_raw(tensor.raw.detached())
    }

    /// Which tensor this is a handle of.
    pub(super) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    pub(crate) fn raw(&self) -> RawTensor {
        read(&self.0).clone()
    }

    /// Changes the memory in place; tensors taken earlier keep the old one.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Buffer) -> Result<()>) -> Result<()> {
        let mut slot = write(&self.0);
        change(slot.own()?)
    }

    pub(crate) fn set_raw(&self, value: RawTensor) -> Result<()> {
        let mut slot = write(&self.0);
        check_same("set", "the new value", slot.shape(), value.shape())?;
        *slot = value.to_device(slot.device())?.cast_view(slot.logical)?;
        Ok(())
    }
}

impl fmt::Debug for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Statistics{:?}", self.raw().shape())
    }
}

/// Whether a module trains or evaluates; switched by [`Module::train`](super::Module::train) and
/// [`Module::eval`](super::Module::eval). Starts in training mode.
pub struct Mode(AtomicBool);

impl Mode {
    /// Training mode.
    pub fn new() -> Self {
        Self(AtomicBool::new(true))
    }

    /// Whether the module is in training mode.
    pub fn is_training(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, training: bool) {
        self.0.store(training, Ordering::Relaxed);
    }
}

impl Default for Mode {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_training() { "training" } else { "evaluation" })
    }
}

/// Changes of state that forward passes want and no step has made yet.
///
/// A graph owns the changes of its forward pass and drops them with itself; a forward pass under `no_grad` leaves its change
/// here. A pass that is recorded but has no graph, because nothing in the layer or below is trained, has no step to wait for:
/// its change is made at once. Of a checkpointed segment the first run has the change, however often it runs again.
///
/// A field of a module beside the statistics that it changes:
///
/// ```
/// # use amp_core::{BF16, Device, F32, Parameter, Result, Tensor};
/// use amp_core::nn::{Module, Statistics, Visitor, Waiting};
///
/// /// Subtracts the mean of all that it has seen in training.
/// struct Centred {
///     mean: Statistics,
///     waiting: Waiting,
/// }
///
/// impl Centred {
///     fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
///         let mean = self.mean.tensor();
///         let y = x.sub(&mean)?;
///         let seen = mean.lerp(&x.detach().mean([0], false)?, 0.1)?;
///         // A step that is skipped, because a gradient overflowed, leaves the mean as it is.
///         self.waiting.set([(&self.mean, &seen)], &y)?;
///         Ok(y)
///     }
/// }
///
/// impl Module for Centred {
///     fn visit(&self, visitor: &mut Visitor<'_>) {
///         visitor.field("mean", &self.mean);
///         visitor.field("waiting", &self.waiting);
///     }
/// }
/// ```
#[derive(Default)]
pub struct Waiting(Mutex<Vec<Entry>>);

enum Entry {
    InGraph(Weak<Mutex<Option<Change>>>),
    Here(PendingUpdate),
}

pub(crate) use crate::param::Change;

impl Waiting {
    /// Nothing waits.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets statistics, all of a layer at once, when the optimizer step is taken that trains what made `y`, a result of this
    /// forward pass. A skipped step leaves them as they are. Under `no_grad` the change waits for
    /// [`Module::commit`](super::Module::commit).
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) when the shapes of statistics and their new values differ.
    pub fn set<const N: usize, P: Element>(
        &self,
        values: [(&Statistics, &Tensor<F32>); N],
        y: &Tensor<P>,
    ) -> Result<()> {
        self.set_for(values, &y.raw, Arc::new([]))
    }

    /// As [`set`](Self::set); of several optimizers the one that has these parameters decides.
    pub(super) fn set_for<const N: usize>(
        &self,
        values: [(&Statistics, &Tensor<F32>); N],
        y: &RawTensor,
        parameters: Arc<[u64]>,
    ) -> Result<()> {
        for (state, value) in values {
            check_same("set", "the new value", state.raw().shape(), value.raw.shape())?;
        }
        let values = values.map(|(state, value)| (state.clone(), value.detach()));
        let change = move |skip: Option<&Skip>| {
            values.iter().try_for_each(|(state, value)| {
                let flag = skip.map(|skip| skip.on(value.device())).transpose()?;
                state.change(|state| value.raw.backend().average(state, value.raw.operand()?, 1.0, flag.as_ref()))
            })
        };
        self.add(y, parameters, Box::new(change))
    }

    /// Ties `change` to the graph of `y`. Without a graph it is made at once, or kept here under `no_grad`. Where several
    /// optimizers share gradients, the one that has the layer's `parameters` decides about it.
    pub(crate) fn add(&self, y: &RawTensor, parameters: Arc<[u64]>, change: Change) -> Result<()> {
        if is_repeating() {
            return Ok(());
        }
        let (update, recorded) = (PendingUpdate::new(change, parameters), grad_mode() != GradMode::Off);
        let mut entries = lock(&self.0);
        // Of forwards without a graph only the latest can still be meant by a later `commit`, and none of those that a
        // recorded one follows.
        entries.retain(|entry| matches!(entry, Entry::InGraph(_)) && entry.is_open());
        let entry = match &y.edge {
            Some(Edge::Node(node)) if recorded => {
                let weak = update.downgrade();
                lock(&node.held).pending.push(update);
                Entry::InGraph(weak)
            }
            _ if recorded => return update.land(None),
            _ => Entry::Here(update),
        };
        entries.push(entry);
        Ok(())
    }

    /// Makes all changes that are still open.
    pub(super) fn commit(&self) -> Result<()> {
        let entries = std::mem::take(&mut *lock(&self.0));
        entries.into_iter().try_for_each(|entry| match entry {
            Entry::InGraph(weak) => weak.upgrade().map_or(Ok(()), |slot| PendingUpdate::from(slot).land(None)),
            Entry::Here(update) => update.land(None),
        })
    }
}

impl Entry {
    fn is_open(&self) -> bool {
        match self {
            Self::InGraph(weak) => weak.upgrade().is_some_and(|slot| PendingUpdate::from(slot).is_open()),
            Self::Here(update) => update.is_open(),
        }
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Waiting")
    }
}

#[cfg(test)]
mod tests {
    use super::{Statistics, Waiting};
    use crate::nn::{Module, Visitor};
    use crate::optim::Sgd;
    use crate::{Device, F32, GradScaler, Parameter, Result, Tensor, no_grad};

    struct Centred {
        scale: Parameter,
        mean: Statistics,
        count: Statistics,
        waiting: Waiting,
    }

    impl Centred {
        fn new() -> Result<Self> {
            let (ones, zeros) = (Tensor::ones([2], &Device::cpu())?, Tensor::zeros([2], &Device::cpu())?);
            let (mean, count) = (Statistics::new(&zeros), Statistics::new(&zeros));
            Ok(Self { scale: Parameter::new(&ones)?, mean, count, waiting: Waiting::new() })
        }

        fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
            let y = x.sub(self.mean.tensor())?.mul(self.scale.tensor())?;
            let (seen, count) = (x.detach().mean([0], false)?, self.count.tensor().add(1.0)?);
            self.waiting.set([(&self.mean, &seen), (&self.count, &count)], &y)?;
            Ok(y)
        }

        fn state(&self) -> Result<Vec<f32>> {
            Ok([self.mean.tensor().to_vec()?, self.count.tensor().to_vec()?].concat())
        }
    }

    impl Module for Centred {
        fn visit(&self, visitor: &mut Visitor<'_>) {
            visitor.field("scale", &self.scale);
            visitor.field("mean", &self.mean);
            visitor.field("count", &self.count);
            visitor.field("waiting", &self.waiting);
        }
    }

    #[test]
    fn a_skipped_step_leaves_statistics_of_ones_own() -> Result<()> {
        let (net, mut scaler) = (Centred::new()?, GradScaler::new(&Device::cpu())?);
        let mut optimizer = Sgd::new(net.parameters(), 0.1);
        let mut step = |x: [f32; 4]| -> Result<bool> {
            let loss = net.forward(&Tensor::from_vec(x.to_vec(), [2, 2], &Device::cpu())?)?.sum_all()?;
            let grads = scaler.unscale(scaler.scale(&loss)?.backward()?)?;
            let step = scaler.step(&mut optimizer, grads)?;
            scaler.update()?;
            step.was_taken()
        };
        assert!(!step([f32::INFINITY, 1.0, 1.0, 1.0])?);
        assert_eq!(net.state()?, [0.0; 4]);
        assert!(step([1.0, 2.0, 3.0, 6.0])?);
        assert_eq!(net.state()?, [2.0, 4.0, 1.0, 1.0]);
        Ok(())
    }

    #[test]
    fn without_a_graph_they_wait_to_be_committed() -> Result<()> {
        let net = Centred::new()?;
        let x = Tensor::from_vec(vec![1.0_f32, 2.0, 3.0, 6.0], [2, 2], &Device::cpu())?;
        no_grad(|| net.forward(&x))?;
        assert_eq!(net.state()?, [0.0; 4]);
        net.commit()?;
        assert_eq!(net.state()?, [2.0, 4.0, 1.0, 1.0]);
        let wrong = net.waiting.set([(&net.mean, &x)], &x).unwrap_err().to_string();
        assert_eq!(wrong, "set: the new value must have shape [2], found [2, 2]");
        Ok(())
    }
}
