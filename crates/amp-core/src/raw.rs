//! The erased tensor under every `Tensor<P>`: a value, a layout, a logical precision, and a place in the graph.

use crate::autograd::{Edge, GradMode, Origin, SavedSigns, grad_mode};
use crate::backend::{Backend, Buffer, Operand};
use crate::device::Device;
use crate::order::{elementwise, reduce};
use crate::{Error, Result};
use amp_cpu::{DType, Dims, Layout, Storage, lasting};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock, Weak};

/// Device memory together with its narrowed copies.
///
/// A 16-bit copy of an F32 value is made when the first kernel asks for it and lives as long as the value: every view,
/// every consumer and every micro-batch shares it, and a new value (an optimizer step) starts without one.
#[derive(Debug)]
pub(crate) struct Value {
    pub(crate) device: Device,
    pub(crate) buffer: Buffer,
    narrowed: [OnceLock<Buffer>; 2],
    /// What a node of relu holds of this value; told when a 16-bit copy is made ([`SavedSigns::shrink`]).
    signs: OnceLock<Weak<SavedSigns>>,
    /// The operation that can compute the value again, while its node lives.
    pub(crate) origin: OnceLock<Weak<dyn Origin>>,
    /// How many saved tensors hold this value; it counts once towards the bytes of saved activations.
    pub(crate) saves: AtomicUsize,
    /// Parameters and inputs live anyway: holding them for the backward pass costs nothing.
    pub(crate) is_leaf: bool,
}

impl Value {
    pub(crate) fn new(device: Device, buffer: Buffer, is_leaf: bool) -> Self {
        let (narrowed, signs, origin) = Default::default();
        Self { device, buffer, narrowed, signs, origin, saves: AtomicUsize::new(0), is_leaf }
    }

    /// The memory and its 16-bit copies, for an optimizer to write. Copies that somebody else still holds are dropped.
    pub(crate) fn open(&mut self) -> (&mut Buffer, Vec<&mut Buffer>) {
        let mut copies = Vec::new();
        for slot in &mut self.narrowed {
            if slot.get_mut().is_some_and(|copy| !copy.is_unique()) {
                slot.take();
            }
            copies.extend(slot.get_mut());
        }
        (&mut self.buffer, copies)
    }

    /// The memory and its 16-bit copies.
    pub(crate) fn copies(&self) -> impl Iterator<Item = &Buffer> {
        std::iter::once(&self.buffer).chain(self.narrowed.iter().filter_map(OnceLock::get))
    }

    fn narrowed(&self, dtype: DType) -> Result<&Buffer> {
        let Some(slot) = slot(dtype) else { return Ok(&self.buffer) };
        if let Some(copy) = self.narrowed[slot].get() {
            return Ok(copy);
        }
        let layout = Layout::contiguous(Dims::new(&[self.buffer.len()]).unwrap_or_default());
        let whole = Operand { buffer: &self.buffer, layout: &layout, logical: self.buffer.dtype() };
        let copy = || self.device.backend().copy(whole, dtype);
        let copy = if self.is_leaf { lasting(copy) } else { copy() }?;
        let copy = self.narrowed[slot].get_or_init(|| copy);
        self.signs.get().and_then(Weak::upgrade).map_or(Ok(()), |signs| signs.shrink())?;
        Ok(copy)
    }

    /// Lets `signs` know when a 16-bit copy of this new value is made: then it need not hold the value any more.
    pub(crate) fn on_narrowing(&self, signs: Weak<SavedSigns>) {
        let _ = self.signs.set(signs);
    }
}

/// Parameters with fewer elements may have a 16-bit copy where they could do without: it takes hardly any memory.
const MANY: usize = 1 << 14;

/// Where [`Value`] keeps its copy in a 16-bit precision.
fn slot(dtype: DType) -> Option<usize> {
    match dtype {
        DType::F16 => Some(0),
        DType::BF16 => Some(1),
        _ => None,
    }
}

/// A tensor without its type parameter. Cloning shares the memory.
#[derive(Clone, Debug)]
pub struct RawTensor {
    pub(crate) value: Arc<Value>,
    pub(crate) layout: Layout,
    pub(crate) logical: DType,
    pub(crate) edge: Option<Edge>,
}

impl RawTensor {
    /// A contiguous tensor over a buffer that nobody else holds.
    pub(crate) fn new(device: &Device, buffer: Buffer, shape: Dims) -> Self {
        debug_assert_eq!(buffer.len(), shape.count());
        let logical = buffer.dtype();
        let value = Arc::new(Value::new(device.clone(), buffer, false));
        Self { value, layout: Layout::contiguous(shape), logical, edge: None }
    }

    /// The tensor together with the 16-bit copy that a kernel wrote in the same pass.
    pub(crate) fn with_narrowed(self, copy: Option<Buffer>) -> Self {
        if let Some((slot, copy)) = copy.and_then(|copy| Some((slot(copy.dtype())?, copy))) {
            // The value is new: nobody can have asked for another copy.
            let _ = self.value.narrowed[slot].set(copy);
        }
        self
    }

    /// As [`new`](Self::new), for a result that counts as `logical` although the kernel rounded it to a narrower storage.
    pub(crate) fn written(device: &Device, buffer: Buffer, shape: Dims, logical: DType) -> Self {
        Self::new(device, buffer, shape).counted(logical)
    }

    /// A tensor of equal elements: one stored element, repeated.
    pub(crate) fn full(device: &Device, value: f64, shape: Dims, dtype: DType) -> Result<Self> {
        let buffer = device.backend().fill(value, 1, dtype)?;
        let scalar = Self::new(device, buffer, Dims::default());
        let mut strides = shape;
        strides.fill(0);
        Ok(Self { layout: Layout { shape, strides, offset: 0 }, ..scalar })
    }

    /// Whether the buffer holds just these elements, row-major and in their logical precision.
    fn fills_its_buffer(&self) -> bool {
        let buffer = &self.value.buffer;
        self.layout.is_contiguous() && self.layout.count() == buffer.len() && buffer.dtype() == self.logical
    }

    /// The memory for writing, when it holds just these elements and nobody else holds it; otherwise the tensor itself.
    #[expect(clippy::result_large_err, reason = "a tensor that cannot be taken apart is handed back")]
    pub(crate) fn into_buffer(self) -> std::result::Result<Buffer, Self> {
        if !self.fills_its_buffer() {
            return Err(self);
        }
        let RawTensor { value, layout, logical, edge } = self;
        let mut value = Arc::try_unwrap(value).map_err(|value| Self { value, layout, logical, edge: edge.clone() })?;
        if !value.buffer.is_unique() {
            return Err(Self { value: Arc::new(value), layout, logical, edge });
        }
        Ok(value.buffer)
    }

    /// The memory for writing in place, copied first where it is shared or holds other elements too.
    pub(crate) fn own(&mut self) -> Result<&mut Buffer> {
        if !(self.fills_its_buffer() && Arc::get_mut(&mut self.value).is_some_and(|value| value.buffer.is_unique())) {
            let buffer = self.backend().copy(self.operand()?, self.logical)?;
            *self = Self::new(self.device(), buffer, *self.shape());
        }
        let value = Arc::get_mut(&mut self.value).expect("there is no other holder any more");
        (value.narrowed, value.origin) = Default::default();
        Ok(&mut value.buffer)
    }

    pub(crate) fn device(&self) -> &Device {
        &self.value.device
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        self.value.device.backend()
    }

    pub(crate) fn shape(&self) -> &Dims {
        &self.layout.shape
    }

    /// The tensor as a kernel argument.
    ///
    /// A narrowed tensor is handed over as its 16-bit copy where most of the buffer is wanted anyway; a small slice of
    /// a large buffer keeps its storage and is rounded by the kernel as it loads.
    pub(crate) fn operand(&self) -> Result<Operand<'_>> {
        let buffer = &self.value.buffer;
        let narrows = self.logical.is_half() && buffer.dtype() != self.logical;
        if narrows && buffer.len() <= 2 * self.layout.count() {
            let copy = self.value.narrowed(self.logical)?;
            return Ok(Operand { buffer: copy, layout: &self.layout, logical: self.logical });
        }
        Ok(Operand { buffer, layout: &self.layout, logical: self.logical })
    }

    /// As [`operand`](Self::operand), for a product that multiplies each element with `met` elements of the other operand.
    ///
    /// Where the device rounds as it packs, a parameter is handed over as it is and gets no 16-bit copy: in a step of GPT with
    /// AdamW the copies were 20 of 243 MiB, and writing them with each update costs as much as reading twice the bytes.
    pub(crate) fn factor(&self, met: usize) -> Result<Operand<'_>> {
        let Value { buffer, narrowed, is_leaf, .. } = &*self.value;
        let is_narrowed = slot(self.logical).is_some_and(|slot| narrowed[slot].get().is_some());
        if *is_leaf && !is_narrowed && buffer.len() >= MANY && self.backend().rounds_as_it_packs(met) {
            return Ok(Operand { buffer, layout: &self.layout, logical: self.logical });
        }
        self.operand()
    }

    /// The same elements out of the graph.
    pub(crate) fn detached(&self) -> Self {
        self.with_layout(self.layout)
    }

    /// The place in the graph of what shares it with this tensor: none within `no_grad`.
    pub(crate) fn shared_edge(&self) -> Option<Edge> {
        self.edge.clone().filter(|_| grad_mode() != GradMode::Off)
    }

    /// The same memory read through another layout, out of the graph.
    pub(crate) fn with_layout(&self, layout: Layout) -> Self {
        Self { value: self.value.clone(), layout, logical: self.logical, edge: None }
    }

    /// The same elements in precision `dtype`, out of the graph.
    ///
    /// Between F16, BF16 and F32 this is a view: widening reads the 16-bit storage as it is, narrowing rounds on load,
    /// and a widened view narrowed again is the original storage.
    pub(crate) fn cast_view(&self, dtype: DType) -> Result<Self> {
        if dtype == self.logical {
            return Ok(self.detached());
        }
        let x = self.settled()?;
        let stored = x.value.buffer.dtype();
        let widens = dtype == DType::F32 && stored.is_half();
        let narrows = dtype.is_half() && (stored == DType::F32 || stored == dtype);
        if widens || narrows {
            return Ok(Self { logical: dtype, ..x });
        }
        elementwise([&x], |backend, [x]| backend.copy(x, dtype))
    }

    /// The same elements over storage in which a pending rounding has happened, out of the graph.
    pub(crate) fn settled(&self) -> Result<Self> {
        let stored = self.value.buffer.dtype();
        if !self.logical.is_half() || stored == self.logical {
            return Ok(self.detached());
        }
        let operand = self.operand()?;
        if operand.buffer.dtype() != self.logical {
            return elementwise([self], |backend, [x]| backend.copy(x, self.logical));
        }
        let value = Arc::new(Value::new(self.device().clone(), operand.buffer.clone(), false));
        Ok(Self { value, layout: self.layout, logical: self.logical, edge: None })
    }

    /// The elements in row-major order on the host; synchronises with the device.
    pub(crate) fn to_storage(&self) -> Result<Storage> {
        if self.fills_its_buffer() {
            return self.backend().download(&self.value.buffer);
        }
        let buffer = self.backend().copy(self.operand()?, self.logical)?;
        self.backend().download(&buffer)
    }

    /// The same elements on another device, out of the graph.
    pub(crate) fn to_device(&self, device: &Device) -> Result<Self> {
        if device == self.device() {
            return Ok(self.detached());
        }
        Ok(Self::new(device, device.backend().upload(self.to_storage()?)?, *self.shape()))
    }

    /// The same elements at the precision they are stored in, out of the graph, if that is narrower.
    ///
    /// What moves, drops or negates the elements of a widened view is exact in its 16-bit storage, and stays there:
    /// operations of that kind run on this and count their result as `logical` again ([`counted`](Self::counted)).
    pub(crate) fn stored(&self) -> Self {
        let stored = self.value.buffer.dtype();
        let logical = if self.logical == DType::F32 && stored.is_half() { stored } else { self.logical };
        Self { logical, ..self.detached() }
    }

    /// The same elements counted as `logical`, which holds them.
    pub(crate) fn counted(self, logical: DType) -> Self {
        Self { logical, ..self }
    }

    /// A contiguous tensor of the same elements, in the narrowest storage that holds them.
    pub(crate) fn packed(&self) -> Result<Self> {
        Ok(self.stored().contiguous()?.counted(self.logical))
    }

    /// A contiguous tensor of the same elements stored in their logical precision; shares memory where it already is.
    pub(crate) fn contiguous(&self) -> Result<Self> {
        if self.layout.is_contiguous() && self.value.buffer.dtype() == self.logical {
            return Ok(self.detached());
        }
        let buffer = self.backend().copy(self.operand()?, self.logical)?;
        Ok(Self::new(self.device(), buffer, *self.shape()))
    }

    /// A view repeated to `shape`, out of the graph.
    pub(crate) fn broadcast_to(&self, op: &'static str, shape: &Dims) -> Result<Self> {
        if self.shape() == shape {
            return Ok(self.detached());
        }
        let mismatch = || Error::Broadcast { op, left: self.shape().into(), right: shape.into() };
        let lead = shape.len().checked_sub(self.shape().len()).ok_or_else(mismatch)?;
        let mut strides = *shape;
        strides.fill(0);
        for (i, (&size, &stride)) in self.shape().iter().zip(self.layout.strides.iter()).enumerate() {
            if size == shape[lead + i] {
                strides[lead + i] = stride;
            } else if size != 1 {
                return Err(mismatch());
            }
        }
        Ok(self.with_layout(Layout { shape: *shape, strides, offset: self.layout.offset }))
    }

    /// Sums over the dimensions along which `shape` was broadcast to this tensor's shape; the result is in `dtype`.
    pub(crate) fn sum_to(&self, shape: &Dims, dtype: DType) -> Result<Self> {
        if self.shape() == shape {
            return self.cast_view(dtype);
        }
        let lead = self.shape().len() - shape.len();
        let axes: Vec<usize> =
            (0..self.shape().len()).filter(|&i| i < lead || shape[i - lead] != self.shape()[i]).collect();
        let sums = reduce(amp_cpu::Reduce::Sum, self, &axes, dtype)?;
        let strides = Dims::new(&sums.layout.strides[lead..]).expect("fewer dimensions");
        Ok(sums.with_layout(Layout { shape: *shape, strides, offset: 0 }))
    }
}
