//! The global random generator: Philox 4x32-10, counter based.
//!
//! Element `i` of a draw depends on the seed and on its position in the stream only, so results do not depend on the
//! number of threads or on the device, and the whole state is two numbers.

use crate::device::Device;
use crate::raw::RawTensor;
use crate::{Error, Result};
use amp_cpu::{DType, Dims};
use std::cell::RefCell;
use std::sync::Arc;
#[cfg(not(test))]
use std::sync::Mutex;

/// Where the global random stream stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomState {
    /// Selects the stream.
    pub seed: u64,
    /// Elements drawn so far.
    pub offset: u64,
}

/// How the draws of a thread are noted or repeated (for [`checkpoint`](crate::checkpoint)).
#[derive(Default)]
struct Draws {
    /// Elements of the global stream that the thread drew so far.
    drawn: u64,
    /// Where draws start, for each part that is to run again; the innermost part at the end.
    noted: Vec<Vec<RandomState>>,
    /// The draws of the part that runs again at present.
    repeated: Option<Repeated>,
}

/// The noted draws of a part that runs again, and where its own stream stands; the global one does not move.
struct Repeated {
    draws: Arc<[RandomState]>,
    next: usize,
    state: RandomState,
}

impl Repeated {
    fn reserve(&mut self, count: usize) -> RandomState {
        let start = self.draws.get(self.next).copied().unwrap_or(self.state);
        self.next += 1;
        self.state = RandomState { offset: start.offset.wrapping_add(count as u64), ..start };
        start
    }
}

thread_local! {
    static DRAWS: RefCell<Draws> = RefCell::default();
}

/// Runs `f` and returns its result and where each of its draws on this thread started.
pub(crate) fn noted<R>(f: impl FnOnce() -> R) -> (R, Arc<[RandomState]>) {
    /// Restores the list also when `f` panics.
    struct Guard(usize);
    impl Drop for Guard {
        fn drop(&mut self) {
            DRAWS.with_borrow_mut(|draws| draws.noted.truncate(self.0));
        }
    }
    let depth = DRAWS.with_borrow_mut(|draws| {
        draws.noted.push(Vec::new());
        draws.noted.len() - 1
    });
    let _guard = Guard(depth);
    let result = f();
    let mine = DRAWS.with_borrow_mut(|draws| {
        let mine = draws.noted.pop().unwrap_or_default();
        if let Some(around) = draws.noted.last_mut() {
            around.extend_from_slice(&mine);
        }
        mine
    });
    (result, mine.into())
}

/// Runs `f` so that its draws on this thread repeat `draws`; those of other threads go on as usual.
pub(crate) fn repeated<R>(draws: Arc<[RandomState]>, f: impl FnOnce() -> R) -> R {
    struct Guard(Draws);
    impl Drop for Guard {
        fn drop(&mut self) {
            DRAWS.set(std::mem::take(&mut self.0));
        }
    }
    let state = draws.first().copied().unwrap_or_else(random_state);
    let _guard = Guard(DRAWS.take());
    let repeated = Some(Repeated { draws, next: 0, state });
    DRAWS.set(Draws { repeated, ..Draws::default() });
    f()
}

/// Whether what runs on this thread repeats an earlier run.
pub(crate) fn is_repeating() -> bool {
    DRAWS.with_borrow(|draws| draws.repeated.is_some())
}

/// Calls `f` with the state that draws of this thread start from.
fn with_state<T>(f: impl FnOnce(&mut RandomState) -> T) -> T {
    DRAWS.with_borrow_mut(|draws| match &mut draws.repeated {
        Some(repeated) => f(&mut repeated.state),
        None => with_global(f),
    })
}

#[cfg(not(test))]
fn with_global<T>(f: impl FnOnce(&mut RandomState) -> T) -> T {
    static STATE: Mutex<RandomState> = Mutex::new(RandomState { seed: 0, offset: 0 });
    f(&mut crate::locks::lock(&STATE))
}

/// Unit tests run side by side, each in a thread: what one draws must not move the numbers of another.
#[cfg(test)]
fn with_global<T>(f: impl FnOnce(&mut RandomState) -> T) -> T {
    thread_local!(static STATE: RefCell<RandomState> = const { RefCell::new(RandomState { seed: 0, offset: 0 }) });
    STATE.with_borrow_mut(f)
}

/// Restarts the global generator from `seed` (`torch.manual_seed`).
pub fn manual_seed(seed: u64) {
    set_random_state(RandomState { seed, offset: 0 });
}

/// The state of the global generator, for checkpoints.
pub fn random_state() -> RandomState {
    with_state(|state| *state)
}

/// Puts the global generator back to an earlier state.
pub fn set_random_state(state: RandomState) {
    with_state(|current| *current = state);
}

/// Reserves `count` elements of the stream and returns where they start.
pub(crate) fn reserve(count: usize) -> RandomState {
    DRAWS.with_borrow_mut(|draws| {
        let start = match &mut draws.repeated {
            Some(repeated) => repeated.reserve(count),
            None => {
                draws.drawn = draws.drawn.wrapping_add(count as u64);
                with_global(|state| {
                    let start = *state;
                    state.offset = state.offset.wrapping_add(count as u64);
                    start
                })
            }
        };
        if let Some(noted) = draws.noted.last_mut() {
            noted.push(start);
        }
        start
    })
}

/// How many elements of the global stream this thread drew so far.
pub(crate) fn drawn() -> u64 {
    DRAWS.with_borrow(|draws| draws.drawn)
}

/// Puts the global generator back from `end` to `start`, unless somebody has drawn since.
pub(crate) fn take_back(start: RandomState, end: RandomState) {
    with_state(|state| {
        if *state == end {
            *state = start;
        }
    });
}

/// A mean and a deviation that normal values can have.
pub(crate) fn check_normal(op: &'static str, mean: f64, std: f64) -> Result<()> {
    if !mean.is_finite() {
        return Err(Error::argument(op, "mean", "finite", mean));
    }
    match std.is_finite() && std >= 0.0 {
        true => Ok(()),
        false => Err(Error::argument(op, "std", "finite and at least 0", std)),
    }
}

/// A range whose ends and width `dtype` can hold.
pub(crate) fn check_uniform(op: &'static str, low: f64, high: f64, dtype: DType) -> Result<()> {
    let most = match dtype {
        DType::F16 => half::f16::MAX.to_f64(),
        DType::BF16 => half::bf16::MAX.to_f64(),
        DType::F32 => f32::MAX.into(),
        _ => f64::MAX,
    };
    match low.abs() <= most && high.abs() <= most && (0.0..=most).contains(&(high - low)) {
        true => Ok(()),
        false => {
            let expected = format!("a range from less to more, no wider than {} reaches", dtype.name());
            Err(Error::argument(op, "low..high", expected, format!("{low}..{high}")))
        }
    }
}

pub(crate) fn normal(shape: Dims, mean: f64, std: f64, dtype: DType, device: &Device) -> Result<RawTensor> {
    let at = reserve(shape.count());
    let buffer = device.backend().normal(at, mean, std, shape.count(), dtype)?;
    Ok(RawTensor::new(device, buffer, shape))
}

pub(crate) fn uniform(shape: Dims, low: f64, high: f64, dtype: DType, device: &Device) -> Result<RawTensor> {
    let at = reserve(shape.count());
    let buffer = device.backend().uniform(at, low, high, shape.count(), dtype)?;
    Ok(RawTensor::new(device, buffer, shape))
}
