//! The typed tensor: an erased tensor plus its precision as a type parameter.

pub(crate) mod backward;
mod count;
mod create;
mod display;
mod number;
mod part;
mod view;

pub use count::{FloatRange, Indexing};
pub use number::Number;

use crate::autograd::{Differentiable, Edge};
use crate::device::Device;
use crate::precision::{Element, Float};
use crate::raw::RawTensor;
use crate::{Error, Result};
use amp_cpu::DType;
use std::marker::PhantomData;

/// A tensor of precision `P` with a shape known at run time.
///
/// Cloning shares the memory; nothing mutates it. Operations are methods that return [`Result`]; operators do too.
///
/// ```
/// # use amp_core::{BF16, DType, Device, F32, Tensor};
/// let x = Tensor::<F32>::from_vec(vec![1.0, 2.0, 3.0, 4.0], [2, 2], &Device::cpu())?;
/// let y = ((&x * 2.0)?.matmul(&x)? + 1.0)?;
/// assert_eq!(y.sum(1, false)?.to_vec()?, [36.0, 76.0]);
///
/// let half = x.to::<BF16>()?; // a view of the same memory, rounded by the kernels that load it
/// assert_eq!((half.dtype(), half.stored_dtype()), (DType::BF16, DType::F32));
///
/// let w = x.tracked();
/// let grads = w.sqr()?.sum_all()?.backward()?;
/// assert_eq!(grads.get(&w)?.expect("the loss depends on w").to_vec()?, [2.0, 4.0, 6.0, 8.0]);
/// # Ok::<_, amp_core::Error>(())
/// ```
pub struct Tensor<P> {
    pub(crate) raw: RawTensor,
    precision: PhantomData<P>,
}

impl<P> Clone for Tensor<P> {
    fn clone(&self) -> Self {
        Self { raw: self.raw.clone(), precision: PhantomData }
    }
}

impl<P: Element> Tensor<P> {
    pub(crate) fn from_raw(raw: RawTensor) -> Self {
        debug_assert_eq!(raw.logical, P::DTYPE);
        Self { raw, precision: PhantomData }
    }

    /// Size of each dimension.
    #[doc(alias("shape", "size"))]
    pub fn dims(&self) -> &[usize] {
        self.raw.shape()
    }

    /// Size of dimension `axis`, negative from the end.
    pub fn size(&self, axis: isize) -> Result<usize> {
        Ok(self.dims()[crate::shape::axis("size", axis, self.rank())?])
    }

    /// Number of dimensions.
    #[doc(alias("ndim", "dim"))]
    pub fn rank(&self) -> usize {
        self.dims().len()
    }

    /// Number of elements.
    #[doc(alias("numel", "nelement"))]
    pub fn count(&self) -> usize {
        self.raw.layout.count()
    }

    /// Where the tensor lives.
    pub fn device(&self) -> &Device {
        self.raw.device()
    }

    /// The precision as a value.
    pub fn dtype(&self) -> DType {
        P::DTYPE
    }

    /// Element type of the memory, which a cast view does not change: an F16 tensor widened to F32 is still stored in F16.
    pub fn stored_dtype(&self) -> DType {
        self.raw.value.buffer.dtype()
    }

    /// Whether operations on this tensor are recorded.
    pub fn requires_grad(&self) -> bool {
        self.raw.edge.is_some()
    }

    /// The elements in row-major order; synchronises with the device.
    #[doc(alias("tolist", "numpy"))]
    pub fn to_vec(&self) -> Result<Vec<P::Host>> {
        let storage = self.raw.to_storage()?;
        Ok(P::unwrap(storage).expect("a tensor's logical precision is its type parameter"))
    }

    /// The only element of a tensor that holds one; synchronises with the device.
    ///
    /// # Errors
    /// [`Error::NotScalar`] when there are more or none.
    pub fn item(&self) -> Result<P::Host> {
        match self.to_vec()?.as_slice() {
            [value] => Ok(*value),
            _ => Err(Error::NotScalar { shape: self.raw.shape().into() }),
        }
    }

    /// The same elements in precision `Q`.
    ///
    /// # Precision
    /// Widening is exact and a view. Narrowing rounds to nearest even, once, when a kernel first loads the values.
    /// Floats become integers by truncation (NaN becomes 0), anything but zero becomes `true`. Within `no_grad` the result is out
    /// of the graph, also where nothing is cast.
    #[doc(alias("float", "half", "bfloat16", "double", "long", "bool", "astype"))]
    pub fn to<Q: Element>(&self) -> Result<Tensor<Q>> {
        let mut raw = self.raw.cast_view(Q::DTYPE)?;
        if P::DTYPE.is_float() && Q::DTYPE.is_float() {
            raw.edge = self.raw.shared_edge();
        }
        Ok(Tensor::from_raw(raw))
    }

    /// This tensor, as the result of an operation that has nothing to do.
    pub(crate) fn unchanged(&self) -> Self {
        Self::from_raw(RawTensor { edge: self.raw.shared_edge(), ..self.raw.detached() })
    }

    /// The same elements on `device`: this tensor where it lives there already (within `no_grad` out of the graph), otherwise a
    /// copy out of the graph.
    #[doc(alias("cpu", "cuda"))]
    pub fn to_device(&self, device: &Device) -> Result<Self> {
        if device == self.device() {
            return Ok(self.unchanged());
        }
        self.raw.to_device(device).map(Self::from_raw)
    }

    /// The same elements out of the graph (`torch.detach`).
    pub fn detach(&self) -> Self {
        Self::from_raw(self.raw.detached())
    }
}

impl<P: Float> Tensor<P> {
    /// The same elements as a new leaf of the graph, whose gradient a backward pass reports (`requires_grad_`).
    #[doc(alias = "requires_grad_")]
    pub fn tracked(&self) -> Self {
        let mut raw = self.raw.detached();
        raw.edge = Some(crate::autograd::leaf(&raw));
        Self::from_raw(raw)
    }

    /// Asks a backward pass to report the gradient of this intermediate result too (`torch.Tensor.retain_grad`). Norms, clipping
    /// and the check for infinities do not count it.
    pub fn retain_grad(&self) {
        if let Some(Edge::Node(node)) = &self.raw.edge {
            node.retain.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

impl<P> Differentiable for Tensor<P> {
    fn grad_id(&self) -> Option<u64> {
        self.raw.edge.as_ref().map(Edge::id)
    }

    fn grad_dims(&self) -> &[usize] {
        self.raw.shape()
    }
}
