//! The global random generator: Philox 4x32-10, counter based.
//!
//! Element `i` of a draw depends on the seed and on its position in the stream only, so results do not depend on the
//! number of threads or on the device, and the whole state is two numbers.

use crate::Result;
use crate::device::Device;
use crate::raw::RawTensor;
use amp_cpu::{DType, Dims};
#[cfg(test)]
use std::cell::RefCell;
#[cfg(not(test))]
use std::sync::{Mutex, PoisonError};

/// Where the global random stream stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomState {
    /// Selects the stream.
    pub seed: u64,
    /// Elements drawn so far.
    pub offset: u64,
}

/// What `f` makes of the state.
#[cfg(not(test))]
fn with_state<T>(f: impl FnOnce(&mut RandomState) -> T) -> T {
    static STATE: Mutex<RandomState> = Mutex::new(RandomState { seed: 0, offset: 0 });
    f(&mut STATE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Unit tests run side by side, each in a thread: what one draws must not move the numbers of another.
#[cfg(test)]
fn with_state<T>(f: impl FnOnce(&mut RandomState) -> T) -> T {
    thread_local!(static STATE: RefCell<RandomState> = const { RefCell::new(RandomState { seed: 0, offset: 0 }) });
    STATE.with_borrow_mut(f)
}

/// Restarts the global generator from `seed` (`torch.manual_seed`).
pub fn manual_seed(seed: u64) {
    set_random_state(RandomState { seed, offset: 0 });
}

/// The state of the global generator, for checkpoints.
pub fn random_state() -> RandomState {
    with_state(|state| *state)
}

/// Puts the global generator back to an earlier state.
pub fn set_random_state(state: RandomState) {
    with_state(|current| *current = state);
}

/// Reserves `count` elements of the stream and returns where they start.
pub(crate) fn reserve(count: usize) -> RandomState {
    with_state(|state| {
        let start = *state;
        state.offset = state.offset.wrapping_add(count as u64);
        start
    })
}

pub(crate) fn normal(shape: Dims, mean: f64, std: f64, dtype: DType, device: &Device) -> Result<RawTensor> {
    let at = reserve(shape.count());
    let buffer = device.backend().normal(at, mean, std, shape.count(), dtype)?;
    Ok(RawTensor::new(device, buffer, shape))
}

pub(crate) fn uniform(shape: Dims, low: f64, high: f64, dtype: DType, device: &Device) -> Result<RawTensor> {
    let at = reserve(shape.count());
    let buffer = device.backend().uniform(at, low, high, shape.count(), dtype)?;
    Ok(RawTensor::new(device, buffer, shape))
}
