//! Where tensors live and which kernels run on them.

use crate::backend::{Backend, Buffer, CpuBackend};
use crate::{Error, Result};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// A device: the CPU or a GPU. Cheap to clone; equal when it is the same device.
///
/// ```
/// # use amp_core::{Device, F32, Tensor};
/// let device = Device::best();
/// let x = Tensor::<F32>::zeros([2], &device)?;
/// assert_eq!(x.device(), &device);
/// assert_eq!(x.to_device(&Device::cpu())?.device().name(), "cpu");
/// # Ok::<_, amp_core::Error>(())
/// ```
// The CPU is `None` and not an `Arc`: every value holds a clone, and counting references would cost on each of them.
#[derive(Clone)]
pub struct Device(Option<Arc<dyn Backend>>);

/// Makes the backend of GPU number `index`.
pub type CudaFactory = fn(index: usize) -> Result<Arc<dyn Backend>>;

static CUDA: OnceLock<CudaFactory> = OnceLock::new();

impl Device {
    /// The CPU.
    pub fn cpu() -> Self {
        Self(None)
    }

    /// GPU number `index`.
    ///
    /// # Errors
    /// [`Error::DeviceUnavailable`] with the reason when there is no such GPU, no driver, or no CUDA backend in the build.
    pub fn cuda(index: usize) -> Result<Self> {
        let factory = CUDA.get().ok_or_else(|| Error::DeviceUnavailable {
            device: format!("cuda:{index}"),
            reason: "this build has no CUDA backend; enable the `cuda` feature of amp".into(),
        })?;
        Ok(Self(Some(factory(index)?)))
    }

    /// The first GPU if one can be used, else the CPU.
    pub fn best() -> Self {
        Self::cuda(0).unwrap_or_else(|_| Self::cpu())
    }

    /// Makes a CUDA backend known to [`Device::cuda`] and [`Device::best`]; the first call wins.
    #[doc(hidden)]
    pub fn register_cuda(factory: CudaFactory) {
        CUDA.get_or_init(|| factory);
    }

    /// Name as printed: `cpu`, `cuda:0`.
    pub fn name(&self) -> String {
        self.backend().name()
    }

    /// Whether this is the CPU.
    pub fn is_cpu(&self) -> bool {
        self.0.is_none()
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        self.0.as_deref().unwrap_or(&CpuBackend)
    }

    /// A buffer of this device on `other`: the same handle if that is this device, otherwise a copy by way of the host.
    pub(crate) fn transfer(&self, buffer: &Buffer, other: &Self) -> Result<Buffer> {
        if self == other {
            return Ok(buffer.clone());
        }
        other.backend().upload(self.backend().download(buffer)?)
    }

    /// An error unless both are the same device.
    pub(crate) fn check_same(&self, other: &Self, op: &'static str) -> Result<()> {
        if self == other {
            return Ok(());
        }
        Err(Error::Device { op, left: self.name().into(), right: other.name().into() })
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (a, b) => a.is_none() && b.is_none(),
        }
    }
}

impl Eq for Device {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.name())
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}
