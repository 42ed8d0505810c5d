//! Operations in every precision their class allows, on every device: the same values in F64 on the CPU are the reference.
//! (Not every row of the table is here; `tests/contract` has a case for each, against the same operation by hand.)
//!
//! Inputs are seeded by the name of the case, contiguous, transposed, cut out of a larger buffer and broadcast, stored in
//! their own precision and in another one (casts are views), of sizes 0, 1, prime and larger. Bounds follow from the
//! arithmetic: F32 accumulators, one rounding of the result.

mod compare;
mod inputs;
mod large;
mod layers;
mod pointwise;
mod products;
mod recurrent;
mod reductions;
mod sampling;
mod shapes;
mod threads;
mod variants;

use amp::prelude::*;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The devices that the suite runs on: always the CPU, and the first GPU where there is one (`AMP_REQUIRE_CUDA` makes its
/// absence a failure).
fn devices() -> Vec<Device> {
    match Device::cuda(0) {
        Ok(gpu) => vec![Device::cpu(), gpu],
        Err(reason) => {
            assert!(std::env::var_os("AMP_REQUIRE_CUDA").is_none(), "{reason}");
            vec![Device::cpu()]
        }
    }
}

/// Held by a test that seeds the program's generator and draws from it.
fn seeding() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
