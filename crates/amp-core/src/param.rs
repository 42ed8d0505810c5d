//! Parameters (F32 masters) and state that a forward pass changes only when the step is taken.

use crate::Result;
use crate::autograd::{Differentiable, Edge, GradMode, Leaf, Typed, grad_mode};
use crate::backend::Buffer;
use crate::device::Device;
use crate::locks::{lock, read, write};
use crate::optim::Skip;
use crate::precision::{Element, F32};
use crate::raw::{RawTensor, Value};
use crate::shape::check_same;
use crate::tensor::Tensor;
use amp_cpu::{DType, Layout};
use std::fmt;
use std::marker::PhantomPinned;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock, RwLockWriteGuard, Weak};

/// A trainable tensor: an F32 master that optimizers update in place.
///
/// Products of many rows round the master as they pack it. For other operations a 16-bit copy is made at most once per
/// update, when a region first needs it, and is shared by micro-batches, evaluation and recomputation. Clones are handles of
/// the same parameter.
///
/// ```
/// # use amp_core::{Device, Parameter, Tensor};
/// let w = Parameter::new(&Tensor::ones([2], &Device::cpu())?)?;
/// let grads = (w.tensor() * 3.0)?.sum_all()?.backward()?;
/// assert_eq!(grads.get(&w)?.expect("the loss depends on w").to_vec()?, [3.0, 3.0]);
///
/// w.set_trainable(false); // frozen: graphs do not lead here any more
/// assert!(!w.tensor().requires_grad());
/// # Ok::<_, amp_core::Error>(())
/// ```
// Not `Unpin`: so `#[derive(Module)]` finds fields that hold parameters and are no modules (see `nn::derive`).
#[derive(Clone)]
pub struct Parameter(Arc<Inner>, PhantomPinned);

struct Inner {
    leaf: Arc<Leaf>,
    device: Device,
    layout: Layout,
    value: RwLock<Arc<Value>>,
    trainable: AtomicBool,
}

impl Parameter {
    /// A parameter that starts as a copy of `tensor`.
    pub fn new(tensor: &Tensor<F32>) -> Result<Self> {
        let device = tensor.device().clone();
        let buffer = device.backend().copy(tensor.raw.operand()?, DType::F32)?;
        let layout = Layout::contiguous(*tensor.raw.shape());
        let leaf = Arc::new(Leaf::new(layout.shape, DType::F32));
        let value = RwLock::new(Arc::new(Value::new(device.clone(), buffer, true)));
        Ok(Self(Arc::new(Inner { leaf, device, layout, value, trainable: AtomicBool::new(true) }), PhantomPinned))
    }

    /// The parameter as a tensor at its present value, recorded as a leaf of the graph.
    pub fn tensor(&self) -> Tensor<F32> {
        let edge = (grad_mode() != GradMode::Off && self.is_trainable()).then(|| Edge::Leaf(self.0.leaf.clone()));
        Tensor::from_raw(RawTensor { value: self.value(), layout: self.0.layout, logical: DType::F32, edge })
    }

    /// The parameter in precision `Q`: its shared 16-bit copy, or the master itself.
    pub fn to<Q: Element>(&self) -> Result<Tensor<Q>> {
        let master = self.tensor();
        if Q::DTYPE == DType::F32 { Ok(Tensor::from_raw(master.raw)) } else { master.to() }
    }

    /// Size of each dimension.
    #[doc(alias("shape", "size"))]
    pub fn dims(&self) -> &[usize] {
        &self.0.layout.shape
    }

    /// Number of elements.
    #[doc(alias("numel", "nelement"))]
    pub fn count(&self) -> usize {
        self.0.layout.count()
    }

    /// Where the parameter lives.
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// The elements in row-major order; synchronises with the device.
    pub fn to_vec(&self) -> Result<Vec<f32>> {
        self.tensor().to_vec()
    }

    /// Replaces the value by a copy of `tensor`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) when the shapes differ; the parameter is then unchanged.
    #[doc(alias = "copy_")]
    pub fn set(&self, tensor: &Tensor<F32>) -> Result<()> {
        check_same("set", "the new value", self.dims(), tensor.dims())?;
        let tensor = tensor.to_device(&self.0.device)?;
        let buffer = self.0.device.backend().copy(tensor.raw.operand()?, DType::F32)?;
        self.replace(Value::new(self.0.device.clone(), buffer, true));
        Ok(())
    }

    /// Whether the parameter takes part in training.
    #[doc(alias = "requires_grad")]
    pub fn is_trainable(&self) -> bool {
        self.0.trainable.load(Ordering::Relaxed)
    }

    /// Freezes the parameter, or lets it train again (`requires_grad_`).
    #[doc(alias("requires_grad_", "freeze"))]
    pub fn set_trainable(&self, trainable: bool) {
        self.0.trainable.store(trainable, Ordering::Relaxed);
    }

    /// Path in the model that [`Module::parameters`](crate::nn::Module::parameters) was last called on; empty before.
    pub fn name(&self) -> String {
        read(&self.0.leaf.name).clone()
    }

    /// Remembers a path, unless a longer one is known: then this model is part of the one with that path.
    pub(crate) fn name_as(&self, path: &str) {
        let mut name = write(&self.0.leaf.name);
        if path.len() >= name.len() {
            path.clone_into(&mut name);
        }
    }

    /// Identity: equal for handles of the same parameter.
    pub(crate) fn id(&self) -> u64 {
        self.0.leaf.id
    }

    /// The present value.
    pub(crate) fn value(&self) -> Arc<Value> {
        read(&self.0.value).clone()
    }

    /// Locks the value for writing in place.
    ///
    /// A graph or tensor that still reads it keeps the old memory: then the guard holds a copy, and a tensor taken
    /// earlier never changes. Several parameters are locked in the order of their ids.
    pub(crate) fn write(&self) -> Result<ParameterGuard<'_>> {
        let mut slot = write(&self.0.value);
        let own = Arc::get_mut(&mut slot).is_some_and(|value| value.buffer.is_unique());
        if !own {
            let whole = RawTensor { value: slot.clone(), layout: self.0.layout, logical: DType::F32, edge: None };
            let buffer = self.0.device.backend().copy(whole.operand()?, DType::F32)?;
            *slot = Arc::new(Value::new(self.0.device.clone(), buffer, true));
        }
        Ok(ParameterGuard(slot))
    }

    fn replace(&self, value: Value) {
        *write(&self.0.value) = Arc::new(value);
    }
}

/// Exclusive access to a parameter's value; readers wait until it is dropped.
pub(crate) struct ParameterGuard<'a>(RwLockWriteGuard<'a, Arc<Value>>);

impl ParameterGuard<'_> {
    /// The F32 master and the 16-bit copies that are to be refreshed with it.
    pub(crate) fn open(&mut self) -> (&mut Buffer, Vec<&mut Buffer>) {
        Arc::get_mut(&mut self.0).expect("`write` made the value its own and holds the lock").open()
    }
}

impl Differentiable for Parameter {
    fn grad_id(&self) -> Option<u64> {
        Some(self.id())
    }

    fn grad_dims(&self) -> &[usize] {
        self.dims()
    }
}

impl Typed<F32> for Parameter {}

impl fmt::Debug for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parameter {}{:?}", self.name(), self.dims())
    }
}

/// Makes a change of state, unless the flag of a step that it is given says that the step was skipped.
pub(crate) type Change = Box<dyn FnOnce(Option<&Skip>) -> Result<()> + Send + Sync>;

/// A change of state made by a forward pass (running statistics) that lands once, when the optimizer step is taken.
#[derive(Clone)]
pub(crate) struct PendingUpdate {
    change: Arc<Mutex<Option<Change>>>,
    /// Ids of the layer's parameters: the step of the optimizer that has them decides about the change.
    parameters: Arc<[u64]>,
}

impl PendingUpdate {
    pub(crate) fn new(change: Change, parameters: Arc<[u64]>) -> Self {
        Self { change: Arc::new(Mutex::new(Some(change))), parameters }
    }

    /// Ids of the parameters of the layer that it changes.
    pub(crate) fn parameters(&self) -> &[u64] {
        &self.parameters
    }

    /// Makes the change, unless it has been made already, or the step was skipped.
    pub(crate) fn land(&self, skip: Option<&Skip>) -> Result<()> {
        let change = lock(&self.change).take();
        change.map_or(Ok(()), |change| change(skip))
    }

    /// Whether the change is still to be made.
    pub(crate) fn is_open(&self) -> bool {
        lock(&self.change).is_some()
    }

    pub(crate) fn downgrade(&self) -> Weak<Mutex<Option<Change>>> {
        Arc::downgrade(&self.change)
    }
}

impl From<Arc<Mutex<Option<Change>>>> for PendingUpdate {
    fn from(slot: Arc<Mutex<Option<Change>>>) -> Self {
        Self { change: slot, parameters: Arc::new([]) }
    }
}

impl fmt::Debug for PendingUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PendingUpdate")
    }
}
