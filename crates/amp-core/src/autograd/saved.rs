//! Tensors kept for the backward pass, and how many bytes they hold.

use crate::Result;
use crate::backend::{Buffer, MemoryOrder};
use crate::device::Device;
use crate::locks::lock;
use crate::order::{order_of, tensor, walk};
use crate::raw::{RawTensor, Value};
use amp_cpu::{Compare, DType, Dims, Layout, Unary};
use std::borrow::Cow;
use std::fmt::Debug;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

static BYTES: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// Bytes that graphs of this process hold for their backward passes; parameters and inputs do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedBytes {
    /// Held now.
    pub now: usize,
    /// Most ever held since [`SavedBytes::reset_peak`].
    pub peak: usize,
}

impl SavedBytes {
    /// Starts a new measurement of the peak.
    pub fn reset_peak() {
        PEAK.store(BYTES.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// How much memory saved activations hold, each buffer counted once.
pub fn saved_bytes() -> SavedBytes {
    SavedBytes { now: BYTES.load(Ordering::Relaxed), peak: PEAK.load(Ordering::Relaxed) }
}

/// A tensor held until its node's backward has run. It keeps its storage: 16-bit activations are saved in 16 bits.
#[derive(Debug)]
pub(crate) struct Saved(RawTensor);

impl Saved {
    /// Holds `tensor`. A narrowed view is held as its 16-bit copy, so that the wide original can go.
    pub(crate) fn new(tensor: &RawTensor) -> Result<Self> {
        let keep = if tensor.value.is_leaf { tensor.detached() } else { tensor.settled()? };
        if !keep.value.is_leaf && keep.value.saves.fetch_add(1, Ordering::Relaxed) == 0 {
            let now = BYTES.fetch_add(bytes(&keep.value), Ordering::Relaxed) + bytes(&keep.value);
            if now > PEAK.load(Ordering::Relaxed) {
                PEAK.fetch_max(now, Ordering::Relaxed);
            }
        }
        Ok(Self(keep))
    }
}

fn bytes(value: &Arc<Value>) -> usize {
    value.buffer.bytes()
}

impl Drop for Saved {
    fn drop(&mut self) {
        let value = &self.0.value;
        if !value.is_leaf && value.saves.fetch_sub(1, Ordering::Relaxed) == 1 {
            BYTES.fetch_sub(bytes(value), Ordering::Relaxed);
        }
    }
}

impl Deref for Saved {
    type Target = RawTensor;

    fn deref(&self) -> &RawTensor {
        &self.0
    }
}

/// An operation that can compute its result again, as long as its own backward pass keeps its input.
pub(crate) trait Origin: Debug + Send + Sync {
    /// The result's elements as they lay in memory, rounded once, to `out`.
    fn again(&self, out: DType) -> Result<Buffer>;
}

/// Notes on `y` that `origin` computes it again, which costs less than keeping it.
pub(crate) fn note_origin<O: Origin + 'static>(y: &RawTensor, origin: &Arc<O>) {
    let origin: Weak<O> = Arc::downgrade(origin);
    // A value is noted once, by the operation that made it.
    let _ = y.value.origin.set(origin);
}

/// An element-wise operation together with the input that its backward pass keeps.
#[derive(Debug)]
pub(crate) struct Applied {
    pub(crate) op: Unary,
    pub(crate) x: Saved,
}

impl Applied {
    /// Whether computing the result again is cheaper than keeping it.
    pub(crate) fn is_activation(&self) -> bool {
        matches!(
            self.op,
            Unary::Gelu
                | Unary::GeluTanh
                | Unary::Silu
                | Unary::Hardswish
                | Unary::Hardtanh { .. }
                | Unary::LeakyRelu(_)
                | Unary::Elu(_)
        )
    }
}

impl Origin for Applied {
    fn again(&self, out: DType) -> Result<Buffer> {
        walk(order_of([&self.x]), [&self.x], |backend, [x]| backend.unary(self.op, x, out))
    }
}

/// The input of a product, kept for the gradient of the weight.
///
/// The output of an activation or a normalisation is not kept. Their own backward pass keeps their input anyway, from which the
/// same bits are computed again at a fraction of what the product costs.
#[derive(Debug)]
pub(crate) enum SavedInput {
    Held(Saved),
    Computed { origin: Arc<dyn Origin>, device: Device, layout: Layout, dtype: DType },
}

impl SavedInput {
    pub(crate) fn new(x: &RawTensor) -> Result<Self> {
        let stored = &x.value.buffer;
        // A result computed again is rounded once, as this one was.
        let rounds = stored.dtype() == x.logical || (stored.dtype() == DType::F32 && x.logical.is_half());
        let whole = x.layout.count() == stored.len() && rounds;
        let origin = x.value.origin.get().filter(|_| whole);
        match origin.and_then(Weak::upgrade) {
            Some(origin) => {
                Ok(Self::Computed { origin, device: x.device().clone(), layout: x.layout, dtype: x.logical })
            }
            None => Saved::new(x).map(Self::Held),
        }
    }

    pub(crate) fn is_contiguous(&self) -> bool {
        match self {
            Self::Held(x) => x.layout.is_contiguous(),
            Self::Computed { layout, .. } => layout.is_contiguous(),
        }
    }

    /// The input, computed again if it was not kept.
    pub(crate) fn get(&self) -> Result<Cow<'_, RawTensor>> {
        match self {
            Self::Held(x) => Ok(Cow::Borrowed(x)),
            Self::Computed { origin, device, layout, dtype } => {
                let shape = Dims::new(&[layout.count()]).expect("one dimension");
                Ok(Cow::Owned(RawTensor::new(device, origin.again(*dtype)?, shape).with_layout(*layout)))
            }
        }
    }
}

/// The output of relu, of which the backward pass needs no more than where it is 0.
///
/// In full precision the output itself is kept: its consumers keep it too. Where they keep a 16-bit copy instead, the
/// wide output would be held for its signs alone, so a bit for each element takes its place when the copy is made (a truth
/// value on devices without a kernel for bits). Of a step of ResNet-18 in BF16 truth values were a fifth of what is held.
#[derive(Debug)]
pub(crate) struct SavedSigns {
    shape: Dims,
    /// Of the output, and of the bits.
    order: MemoryOrder,
    held: Mutex<Saved>,
}

impl SavedSigns {
    pub(crate) fn new(y: &RawTensor) -> Result<Arc<Self>> {
        let order = order_of([y]);
        let signs = Arc::new(Self { shape: *y.shape(), order, held: Mutex::new(Saved::new(y)?) });
        let dense = order.walked(&y.layout).is_contiguous();
        if y.logical == DType::F32 && y.value.buffer.dtype() == DType::F32 && dense {
            y.value.on_narrowing(Arc::downgrade(&signs));
        }
        Ok(signs)
    }

    /// As [`new`](Self::new), from relu's input `x`, for an output that was rounded as it was written.
    pub(crate) fn of_input(x: &RawTensor) -> Result<Arc<Self>> {
        let order = order_of([x]);
        Ok(Arc::new(Self { shape: *x.shape(), order, held: Mutex::new(dead(x, order)?) }))
    }

    /// As [`new`](Self::new), for an output in `order` whose `bits` a kernel wrote along with it.
    pub(crate) fn of_bits(device: &Device, bits: Buffer, shape: Dims, order: MemoryOrder) -> Result<Arc<Self>> {
        Ok(Arc::new(Self { shape, order, held: Mutex::new(packed(device, bits)?) }))
    }

    /// Calls `body` with the bits, eight in a byte.
    pub(crate) fn with_bits<T>(&self, body: impl FnOnce(&Buffer) -> T) -> T {
        body(&lock(&self.held).value.buffer)
    }

    /// The output, if it is still held and row-major.
    pub(crate) fn output(&self) -> Option<RawTensor> {
        let held = lock(&self.held);
        let whole = held.logical.is_float() && held.layout.is_contiguous();
        whole.then(|| held.detached())
    }

    /// Replaces the output, if it is still held, by a bit for each element; called when a 16-bit copy of it is made.
    pub(crate) fn shrink(&self) -> Result<()> {
        let mut held = lock(&self.held);
        if held.logical.is_float() {
            *held = dead(&held, self.order)?;
        }
        Ok(())
    }

    /// `grad` where the output is not 0, in precision `out`.
    pub(crate) fn grad(&self, grad: &RawTensor, out: DType) -> Result<RawTensor> {
        let held = lock(&self.held);
        let masked = match held.logical {
            DType::U8 => walk(self.order, [grad], |backend, [grad]| backend.alive(&held.value.buffer, grad, out))?,
            _ => None,
        };
        let buffer = match masked {
            Some(buffer) => buffer,
            None if held.logical == DType::Bool => {
                let zero = RawTensor::full(held.device(), 0.0, self.shape, out)?;
                walk(self.order, [&*held, &zero, grad], |backend, [dead, zero, grad]| {
                    backend.select(dead, zero, grad, out)
                })?
            }
            None => {
                walk(self.order, [&*held, grad], |backend, [y, grad]| backend.unary_grad(Unary::Relu, y, grad, out))?
            }
        };
        Ok(tensor(self.order, held.device(), buffer, self.shape))
    }
}

/// Where the gradient of `relu` is 0: bits in the order in which kernels walk `x`, where there is a kernel for that.
fn dead(x: &RawTensor, order: MemoryOrder) -> Result<Saved> {
    if let Some(bits) = walk(order, [x], |backend, [x]| backend.dead(x))? {
        return packed(x.device(), bits);
    }
    let zero = RawTensor::full(x.device(), 0.0, *x.shape(), DType::F32)?;
    let dead = walk(order, [x, &zero], |backend, [x, zero]| backend.compare(Compare::Le, x, zero))?;
    Saved::new(&tensor(order, x.device(), dead, *x.shape()))
}

/// Bits of signs, eight in a byte.
fn packed(device: &Device, bits: Buffer) -> Result<Saved> {
    let shape = Dims::new(&[bits.len()]).expect("one dimension");
    Saved::new(&RawTensor::new(device, bits, shape))
}
