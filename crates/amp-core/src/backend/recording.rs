//! Recorded work, to be done again without the host.

use super::Buffer;
use crate::Result;
use crate::random::RandomState;
use std::fmt::Debug;

/// Work of a device that was recorded as a whole.
pub trait Replay: Debug + Send + Sync {
    /// Does the work once, as if the random stream stood at `at`; does not wait for the device.
    fn replay(&self, at: RandomState) -> Result<()>;

    /// How many buffers that were made while recording are in use, besides `results`; and the bytes of all of them.
    fn outliving(&self, results: &[&Buffer]) -> (usize, usize);
}
