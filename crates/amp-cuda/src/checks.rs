//! Checks of indices that do not wait for the device: a bad index is noted in device memory and becomes an error at the
//! next download, which waits anyway.

use crate::device::{Gpu, Memory};
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
    pending: VecDeque<Pending>,
}

/// Number, operation and size of a check.
pub(crate) type Pending = (i64, &'static str, usize);

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

    /// Number of the latest check.
    pub fn made(&self) -> i64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).made
    }

    /// The checks from number `first` on, for a graph to expect anew with every replay.
    pub fn from(&self, first: i64) -> Vec<Pending> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.pending.iter().filter(|p| p.0 >= first).copied().collect()
    }

    /// Expects the outcome of checks that are made again.
    pub fn again(&self, checks: &[Pending]) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for check in checks {
            if !state.pending.iter().any(|p| p.0 == check.0) {
                state.pending.push_back(*check);
            }
        }
    }

    /// Operation, index and size of the first check that failed since the last call. Waits for the device.
    pub fn found(&self, gpu: &Gpu) -> Result<Option<(&'static str, i64, usize)>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.pending.is_empty() {
            return Ok(None);
        }
        let Some(bad) = state.bad.as_ref() else { return Ok(None) };
        let mut report = [0; 3];
        gpu.read("check_indices", bad, &mut report)?;
        let [check, index, found] = report;
        if found != 0 {
            gpu.clear("check_indices", bad)?;
        }
        let named = state.pending.iter().find(|p| p.0 == check).map_or(("check_indices", 0), |p| (p.1, p.2));
        state.pending.clear();
        Ok((found != 0).then_some((named.0, index, named.1)))
    }
}
