//! Recorded work that a device can repeat.

use super::Buffer;
use crate::Result;
use crate::random::RandomState;
use std::fmt::Debug;

/// Work of a device that was recorded as a whole.
pub trait Replay: Debug + Send + Sync {
    /// Does the work once, as if the random stream stood at `at`; does not wait for the device.
    fn replay(&self, at: RandomState) -> Result<()>;

    /// How many buffers that were made while recording are still held by somebody other than `results`, and the bytes of those and
    /// of the results.
    fn outliving(&self, results: &[&Buffer]) -> (usize, usize);
}
