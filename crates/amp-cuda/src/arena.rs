//! Memory of one graph: what its step makes and drops lies at the same addresses in every replay.
//!
//! Allocations while a graph is recorded come from here, not from the driver's pool, and parts that are dropped are given
//! out again: the graph runs on one stream, so whoever gets a part next runs after its last reader. Nothing goes back to
//! the driver before the graph and its results are gone.

use crate::launch::{self, Block};
use crate::record::Recorder;
use cudarc::driver::{CudaStream, DriverError};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Parts begin at multiples of this.
const GRAIN: usize = 512;
/// The least that is asked of the driver: many small tensors share it.
const CHUNK: usize = 2 << 20;

/// Memory of one graph.
#[derive(Debug)]
pub(crate) struct Arena {
    /// The recorded stream takes no allocations while it records; this one does.
    beside: Arc<CudaStream>,
    stream: Arc<CudaStream>,
    recorder: Arc<Recorder>,
    parts: Mutex<Parts>,
}

#[derive(Debug, Default)]
struct Parts {
    chunks: Vec<Block>,
    /// Address and bytes of what is free.
    free: BTreeMap<u64, usize>,
    /// Address and bytes of what is given out.
    taken: BTreeMap<u64, usize>,
}

impl Arena {
    pub fn new(stream: &Arc<CudaStream>, recorder: &Arc<Recorder>) -> Result<Self, DriverError> {
        let beside = stream.context().new_stream()?;
        Ok(Self { beside, stream: stream.clone(), recorder: recorder.clone(), parts: Mutex::default() })
    }

    /// Who records on the arena's device.
    pub fn recorder(&self) -> &Arc<Recorder> {
        &self.recorder
    }

    /// Address of uninitialised memory.
    pub fn take(&self, bytes: usize) -> Result<u64, DriverError> {
        let bytes = bytes.max(1).next_multiple_of(GRAIN);
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(address) = parts.take(bytes) {
            return Ok(address);
        }
        let size = if bytes < CHUNK { CHUNK } else { bytes };
        let chunk = launch::allocate_beside(&self.beside, &self.stream, size)?;
        parts.free.insert(chunk.address(), size);
        parts.chunks.push(chunk);
        Ok(parts.take(bytes).expect("the new chunk is large enough"))
    }

    /// Makes a part free for what is recorded next.
    pub fn give_back(&self, address: u64) {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).give_back(address);
    }

    /// How many parts are given out, and their bytes.
    pub fn taken(&self) -> (usize, usize) {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        (parts.taken.len(), parts.taken.values().sum())
    }

    /// Stream for what must happen at once although the other one records.
    pub fn beside(&self) -> &Arc<CudaStream> {
        &self.beside
    }

    /// Waits until the memory is there.
    pub fn settle(&self) -> Result<(), DriverError> {
        self.beside.synchronize()
    }
}

/// Another graph may be recorded meanwhile.
impl Drop for Arena {
    fn drop(&mut self) {
        let parts = self.parts.get_mut().unwrap_or_else(PoisonError::into_inner);
        parts.chunks.drain(..).for_each(|chunk| self.recorder.free(chunk));
    }
}

impl Parts {
    /// The smallest free part that is large enough; what is left of it stays free.
    fn take(&mut self, bytes: usize) -> Option<u64> {
        let fits = self.free.iter().filter(|(_, size)| **size >= bytes);
        let (address, size) = fits.min_by_key(|(_, size)| **size).map(|(a, s)| (*a, *s))?;
        self.free.remove(&address);
        if size > bytes {
            self.free.insert(address + bytes as u64, size - bytes);
        }
        self.taken.insert(address, bytes);
        Some(address)
    }

    /// Joins the part with free neighbours of its chunk.
    fn give_back(&mut self, address: u64) {
        let Some(mut bytes) = self.taken.remove(&address) else { return };
        let mut start = address;
        let begins_chunk = |at: u64| self.chunks.iter().any(|chunk| chunk.address() == at);
        let after = address + bytes as u64;
        if !begins_chunk(after)
            && let Some(size) = self.free.remove(&after)
        {
            bytes += size;
        }
        let before = self.free.range(..address).next_back().map(|(a, s)| (*a, *s));
        if let Some((at, size)) = before
            && at + size as u64 == address
            && !begins_chunk(address)
        {
            self.free.remove(&at);
            (start, bytes) = (at, bytes + size);
        }
        self.free.insert(start, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_split_given_out_again_and_joined() {
        let mut parts = Parts::default();
        parts.free.insert(4096, 4096);
        let [a, b, c] = [1024, 512, 1024].map(|bytes| parts.take(bytes).unwrap());
        assert_eq!([a, b, c], [4096, 5120, 5632]);
        parts.give_back(a);
        parts.give_back(c);
        assert_eq!(parts.take(1024), Some(a), "the smallest part that is large enough");
        parts.give_back(a);
        parts.give_back(b);
        assert_eq!((parts.free.clone(), parts.taken.len()), (BTreeMap::from([(4096, 4096)]), 0));
        assert_eq!(parts.take(8192), None);
    }
}
