//! Maps and sets keyed by the ids of leaves and nodes.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

/// A map keyed by the id of a leaf or node.
pub(crate) type IdMap<T> = HashMap<u64, T, BuildHasherDefault<Scatter>>;
/// A set of ids of leaves and nodes.
pub(crate) type IdSet = HashSet<u64, BuildHasherDefault<Scatter>>;

/// Hashes ids, which this crate counts up itself.
///
/// No attacker chooses them, so one multiplication is enough; the standard hasher took a twentieth of a small model's step.
#[derive(Default)]
pub(crate) struct Scatter(u64);

impl Hasher for Scatter {
    fn write_u64(&mut self, id: u64) {
        // 2^64 over the golden ratio (Knuth): consecutive numbers end far apart.
        self.0 = id.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(32);
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(self.0 ^ u64::from(byte)));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
