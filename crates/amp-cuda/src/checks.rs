//! Checks of indices that do not wait for the device: a bad index is noted in device memory and becomes an error at the
//! next download, which waits anyway.

use crate::device::{Gpu, Memory};
use crate::{error, launch};
use amp_core::Result;
use amp_core::backend::DType;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Checks whose outcome is not known yet.
#[derive(Debug, Default)]
pub(crate) struct Checks(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Twin of `BadIndex` in `index.cu`: check, index, found; made with the first check.
    bad: Option<Memory>,
    made: i64,
    pending: VecDeque<(i64, &'static str, usize)>,
}

/// Checks remembered by name; of older ones that fail only the number is known.
const REMEMBERED: usize = 4096;

impl Checks {
    /// Address that a check reports to, and its number.
    pub fn next(&self, gpu: &Gpu, op: &'static str, size: usize) -> Result<(u64, i64)> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.bad.is_none() {
            state.bad = Some(gpu.zeros(op, 3, DType::I64)?);
        }
        state.made += 1;
        let made = state.made;
        state.pending.push_back((made, op, size));
        if state.pending.len() > REMEMBERED {
            state.pending.pop_front();
        }
        Ok((state.bad.as_ref().map_or(0, Memory::address), made))
    }

    /// Operation, index and size of the first check that failed since the last call. Waits for the device.
    pub fn found(&self, gpu: &Gpu) -> Result<Option<(&'static str, i64, usize)>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.pending.is_empty() {
            return Ok(None);
        }
        let Some(bad) = state.bad.as_mut() else { return Ok(None) };
        let mut report = [0; 3];
        let driver = |e| error::driver(gpu, "check_indices", e);
        launch::download(gpu.stream(), &bad.block, &mut report).map_err(driver)?;
        let [check, index, found] = report;
        if found != 0 {
            launch::clear(gpu.stream(), &mut bad.block).map_err(driver)?;
        }
        let named = state.pending.iter().find(|p| p.0 == check).map_or(("check_indices", 0), |p| (p.1, p.2));
        state.pending.clear();
        Ok((found != 0).then_some((named.0, index, named.1)))
    }
}
