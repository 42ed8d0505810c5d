//! Driver errors in the library's words.

use crate::device::Gpu;
use amp_core::Error;
use cudarc::driver::{DriverError, sys};

/// What a driver call of `op` reported.
pub(crate) fn driver(gpu: &Gpu, op: &'static str, error: DriverError) -> Error {
    Error::Backend { op, device: gpu.name().into(), message: text(&error) }
}

/// Memory that cannot be had: what was asked for and what there is.
pub(crate) fn allocation(gpu: &Gpu, op: &'static str, bytes: usize, error: DriverError) -> Error {
    if error.0 != sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
        return driver(gpu, op, error);
    }
    let message = match gpu.free_memory() {
        Some((free, total)) => format!("out of memory: {bytes} bytes asked for, {free} of {total} are free"),
        None => format!("out of memory: {bytes} bytes asked for"),
    };
    Error::Backend { op, device: gpu.name().into(), message }
}

/// An operand that another backend made.
pub(crate) fn foreign(gpu: &Gpu, op: &'static str) -> Error {
    Error::Device { op, left: gpu.name().into(), right: "another device".into() }
}

/// The driver's own sentence, with the error's name.
pub(crate) fn text(error: &DriverError) -> String {
    match (error.error_name(), error.error_string()) {
        (Ok(name), Ok(sentence)) => format!("{} ({})", sentence.to_string_lossy(), name.to_string_lossy()),
        _ => format!("error {}", error.0 as u32),
    }
}
