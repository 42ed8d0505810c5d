//! The number of steps that a schedule has seen taken.

use super::{ParameterGroups, Schedule, Step};
use crate::backend::{Buffer, ScheduleMove};
use crate::{Device, Error, Result};
use amp_cpu::Storage;

/// Steps taken: counted by the host, and by a device those whose outcome the host does not wait for.
#[derive(Debug, Default)]
pub struct Taken {
    before: u64,
    since: Option<Count>,
}

/// What a device counts.
#[derive(Debug)]
struct Count {
    device: Device,
    state: Buffer,
    /// Moves that were asked for.
    moves: u64,
}

/// Steps whose outcome the host may not know yet; with more it waits.
const UNDECIDED: u64 = 63;

impl Taken {
    /// The number; waits for the device where it has counted.
    pub(super) fn get(&self) -> u64 {
        self.before + self.since.as_ref().map_or(0, |count| count.exactly().unwrap_or_else(|_| count.soon().1))
    }

    /// Goes on from there; waits for the device where it has counted, so that nothing is counted later.
    pub(super) fn set(&mut self, steps: u64) {
        self.get();
        *self = Self { before: steps, since: None };
    }

    /// The least and the most that there may be after one more move.
    fn range(&self) -> (u64, u64) {
        let Some(count) = &self.since else { return (self.before, self.before + 1) };
        let (moves, taken) = count.soon();
        (self.before + taken, self.before + taken + (count.moves - moves) + 1)
    }

    /// The device's counters. What another device counted, and what is too far ahead of the host, is added up first.
    fn on(&mut self, device: &Device) -> Result<(&mut Count, u64)> {
        let far = |count: &Count| &count.device != device || count.moves - count.soon().0 >= UNDECIDED;
        if let Some(count) = self.since.as_ref().filter(|count| far(count)) {
            *self = Self { before: self.before + count.exactly()?, since: None };
        }
        let count = match &mut self.since {
            Some(count) => count,
            none => {
                let state = device.backend().schedule_state()?;
                none.insert(Count { device: device.clone(), state, moves: 0 })
            }
        };
        Ok((count, self.before))
    }
}

/// A copy counts for itself.
impl Clone for Taken {
    fn clone(&self) -> Self {
        Self { before: self.get(), since: None }
    }
}

impl Count {
    /// Moves and steps as far as the host knows.
    fn soon(&self) -> (u64, u64) {
        self.device.backend().scheduled(&self.state).map_or((0, 0), |[moves, taken]| (moves.min(self.moves), taken))
    }

    fn exactly(&self) -> Result<u64> {
        if let (moves, taken) = self.soon()
            && moves == self.moves
        {
            return Ok(taken);
        }
        match self.device.backend().download(&self.state)? {
            Storage::I64(counters) if counters.len() == 2 => Ok(counters[1] as u64),
            other => {
                Err(Error::Unsupported { op: "schedule", device: self.device.name().into(), dtype: other.dtype() })
            }
        }
    }
}

/// Lets the device move schedule and learning rates by what it knows of the step; `false` where the host must.
pub(super) fn follow(
    schedule: &mut (impl Schedule + ?Sized),
    groups: &mut ParameterGroups,
    step: &Step,
) -> Result<bool> {
    let Some(skip) = step.flag() else { return Ok(false) };
    let Some(rates) = groups.rates_on(skip.device()) else { return Ok(false) };
    let Some(taken) = schedule.taken() else { return Ok(false) };
    taken.on(skip.device())?;
    let (least, most) = taken.range();
    let factors: Vec<f64> = (least..=most).map(|steps| schedule.factor(steps)).collect();
    if let Some(bad) = factors.iter().find(|f| !(f.is_finite() && **f >= 0.0)) {
        return Err(Error::argument("step", "the schedule's factor", "finite and at least 0", bad));
    }
    let Some(taken) = schedule.taken() else { return Ok(false) };
    let (count, before) = taken.on(skip.device())?;
    let to = ScheduleMove { skip: Some(skip.buffer()), factors: &factors, first: least - before };
    rates.move_on();
    skip.device().backend().schedule(&to, &mut count.state, rates.memory())?;
    count.moves += 1;
    Ok(true)
}
