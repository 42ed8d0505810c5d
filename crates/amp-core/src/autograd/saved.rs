//! Tensors kept for the backward pass, and how many bytes they hold.

use crate::Result;
use crate::raw::{RawTensor, Value};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

static BYTES: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// Bytes that graphs of this process hold for their backward passes; parameters and inputs do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavedBytes {
    /// Held now.
    pub now: usize,
    /// Most ever held since [`SavedBytes::reset_peak`].
    pub peak: usize,
}

impl SavedBytes {
    /// Starts a new measurement of the peak.
    pub fn reset_peak() {
        PEAK.store(BYTES.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// How much memory saved activations hold, each buffer counted once.
pub fn saved_bytes() -> SavedBytes {
    SavedBytes { now: BYTES.load(Ordering::Relaxed), peak: PEAK.load(Ordering::Relaxed) }
}

/// A tensor held until its node's backward has run. It keeps its storage: 16-bit activations are saved in 16 bits.
#[derive(Debug)]
pub(crate) struct Saved(RawTensor);

impl Saved {
    /// Holds `tensor`. A narrowed view is held as its 16-bit copy, so that the wide original can go.
    pub(crate) fn new(tensor: &RawTensor) -> Result<Self> {
        let keep = if tensor.value.is_leaf { tensor.detached() } else { tensor.settled()? };
        if !keep.value.is_leaf && keep.value.saves.fetch_add(1, Ordering::Relaxed) == 0 {
            let now = BYTES.fetch_add(bytes(&keep.value), Ordering::Relaxed) + bytes(&keep.value);
            PEAK.fetch_max(now, Ordering::Relaxed);
        }
        Ok(Self(keep))
    }
}

fn bytes(value: &Arc<Value>) -> usize {
    value.buffer.bytes()
}

impl Drop for Saved {
    fn drop(&mut self) {
        let value = &self.0.value;
        if !value.is_leaf && value.saves.fetch_sub(1, Ordering::Relaxed) == 1 {
            BYTES.fetch_sub(bytes(value), Ordering::Relaxed);
        }
    }
}

impl Deref for Saved {
    type Target = RawTensor;

    fn deref(&self) -> &RawTensor {
        &self.0
    }
}
