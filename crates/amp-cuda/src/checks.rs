//! Checks of indices that do not wait for the device: a bad index is noted in device memory and becomes an error at the
//! next download, which waits anyway.

use crate::device::{Gpu, Memory};
use amp_core::Result;
use amp_core::backend::DType;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Checks whose outcome is not known yet.
#[derive(Debug, Default)]
pub(crate) struct Checks(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Twin of `BadIndex` in `index.cu`: check, index, found; made with the first check or recording.
    bad: Option<Memory>,
    made: i64,
    pending: VecDeque<Pending>,
}

impl State {
    fn ready(&mut self, gpu: &Gpu, op: &'static str) -> Result<()> {
        if self.bad.is_none() {
            self.bad = Some(gpu.zeros(op, 3, DType::I64)?);
        }
        Ok(())
    }
}

/// Number, operation and size of a check.
pub(crate) type Pending = (i64, &'static str, usize);

/// Checks remembered by name; of older ones that fail only the number is known.
const REMEMBERED: usize = 4096;

impl Checks {
    /// Launches a check: `launch` is given the address that it reports to, and its number. Nobody asks for the outcome before it
    /// is queued.
    pub fn make(
        &self,
        gpu: &Gpu,
        op: &'static str,
        size: usize,
        launch: impl FnOnce(u64, i64) -> Result<()>,
    ) -> Result<()> {
        let mut state = self.state();
        state.ready(gpu, op)?;
        state.made += 1;
        let made = state.made;
        launch(state.bad.as_ref().map_or(0, Memory::address), made)?;
        state.pending.push_back((made, op, size));
        if state.pending.len() > REMEMBERED {
            state.pending.pop_front();
        }
        Ok(())
    }

    /// Makes what checks report to, unless it is there: memory of a graph, if a captured step had the first check, would be kept
    /// for good.
    pub fn ready(&self, gpu: &Gpu, op: &'static str) -> Result<()> {
        self.state().ready(gpu, op)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of the latest check.
    pub fn made(&self) -> i64 {
        self.state().made
    }

    /// The checks from number `first` on, for a graph to expect anew with every replay.
    pub fn from(&self, first: i64) -> Vec<Pending> {
        let state = self.state();
        state.pending.iter().filter(|p| p.0 >= first).copied().collect()
    }

    /// Launches checks that were made before. Nobody asks for the outcome before they are queued.
    pub fn again(&self, checks: &[Pending], launch: impl FnOnce() -> Result<()>) -> Result<()> {
        if checks.is_empty() {
            return launch();
        }
        let mut state = self.state();
        launch()?;
        for check in checks {
            if !state.pending.iter().any(|p| p.0 == check.0) {
                state.pending.push_back(*check);
            }
        }
        Ok(())
    }

    /// Operation, index and size of the first check that failed since the last call. Waits for the device.
    pub fn found(&self, gpu: &Gpu) -> Result<Option<(&'static str, i64, usize)>> {
        let mut state = self.state();
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
