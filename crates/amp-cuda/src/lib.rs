//! The CUDA backend of amp, loaded at run time.
//!
//! The crate builds without a CUDA toolkit and starts without a driver. A program that links it needs nothing else for
//! [`Device::cuda`] and [`Device::best`] to know it: a constructor in `launch` calls [`register`] before `main`. `launch` holds all unsafe code, `operand` and `args` what kernels are given, `module` and
//! `compile` turn `kernels/*.cu` into code, and `ops` implements one trait of the seam per file.
//!
//! [`Device::cuda`]: amp_core::Device::cuda
//! [`Device::best`]: amp_core::Device::best

#![deny(unsafe_code)]

mod arena;
mod args;
mod checks;
mod compile;
mod convolve;
mod device;
mod error;
#[allow(unsafe_code)]
mod launch;
mod library;
mod module;
mod operand;
mod ops;
mod product;
mod record;

pub use device::Gpu;

use amp_core::backend::Backend;
use amp_core::{Device, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// Makes `Device::cuda` open GPUs; calling it again changes nothing.
pub fn register() {
    Device::register_cuda(open);
}

/// The backend of GPU `index` itself, for tests of the seam.
#[doc(hidden)]
pub fn backend(index: usize) -> Result<Arc<dyn Backend>> {
    open(index)
}

/// The backend of GPU `index`, the same one every time.
fn open(index: usize) -> Result<Arc<dyn Backend>> {
    static OPEN: Mutex<Vec<(usize, Arc<Gpu>)>> = Mutex::new(Vec::new());
    let mut gpus = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, gpu)) = gpus.iter().find(|(i, _)| *i == index) {
        return Ok(gpu.clone());
    }
    let gpu = Gpu::open(index)?;
    gpus.push((index, gpu.clone()));
    Ok(gpu)
}

/// Bytes that gradients of convolutions unfold at once, for tests of many parts.
#[doc(hidden)]
pub fn unfold_at_most(bytes: usize) {
    ops::unfold::AT_ONCE.store(bytes, std::sync::atomic::Ordering::Relaxed);
}

/// Name and whole text of every file of kernels, for the test that compiles them.
#[doc(hidden)]
pub fn sources() -> Vec<(&'static str, String)> {
    module::Family::ALL.iter().map(|f| (f.name(), f.source())).collect()
}
