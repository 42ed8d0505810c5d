//! Memory from the system, lent out in spans: what the pool of buffers stands on.
//!
//! A span that comes back joins its free neighbours, and the range serves requests of any size and element type: a step needs
//! hardly more memory than it holds at one time. Buffers that outlive a step ([`lasting`]) lie apart, so that they do not
//! divide the memory of every step: moments and 16-bit weights among the activations cost a step of ResNet-18 at batch 128 60 of
//! 434 MiB, and one of GPT 20 of 251.

mod ranges;
mod segment;
#[cfg(test)]
mod tests;

use ranges::Arena;
use std::alloc::{Layout, handle_alloc_error};
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A cache line: spans begin at one, so that no vector that is loaded from a multiple of its size crosses two.
const LINE: usize = 64;

/// Spans of up to this many bytes are set aside when they come back, [`ASIDE`] of them at most, for requests of the same size: in
/// steps of small models, finding and joining ranges took a tenth of the instructions outside of kernels. Before a larger
/// request they are joined, so that they do not divide free ranges.
const SMALL: usize = 64 << 10;
const ASIDE: usize = 16;

static POOL: Mutex<Pool> = Mutex::new(Pool::new());

thread_local! {
    static LASTING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `body`; the buffers that this thread takes in it lie apart from those that come and go with every step.
pub fn lasting<R>(body: impl FnOnce() -> R) -> R {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            LASTING.set(self.0);
        }
    }
    let _before = Before(LASTING.replace(true));
    body()
}

/// Initialised bytes that nobody else holds, given back when dropped.
#[derive(Debug)]
pub(crate) struct Span {
    start: NonNull<u8>,
    bytes: usize,
    lasting: bool,
}

// SAFETY: a span owns its bytes, which are tied to no thread.
unsafe impl Send for Span {}
// SAFETY: through a shared span only the address can be read.
unsafe impl Sync for Span {}

impl Span {
    /// At least `bytes` bytes of arbitrary content, aligned to 64.
    pub(crate) fn lend(bytes: usize) -> Self {
        let bytes = bytes.checked_next_multiple_of(LINE).filter(|&bytes| bytes <= isize::MAX as usize);
        let bytes = bytes.expect("as much as an address space holds");
        let lasting = LASTING.get();
        let lent = pool().lend(bytes, lasting);
        let start = lent.unwrap_or_else(|| handle_alloc_error(Layout::array::<u8>(bytes).expect("checked above")));
        let start = std::ptr::with_exposed_provenance_mut(start);
        Self { start: NonNull::new(start).expect("no segment at 0"), bytes, lasting }
    }

    /// Where they begin.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// How many there are.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        pool().take_back(self.start.addr().get(), self.bytes, self.lasting);
    }
}

/// Sets how many free bytes are kept.
pub(crate) fn set_limit(bytes: usize) {
    let mut pool = pool();
    pool.limit = bytes;
    pool.obey_limit();
}

/// Returns all free memory to the system.
pub(crate) fn empty() {
    pool().give_up();
}

/// Free bytes that are kept.
pub(crate) fn kept() -> usize {
    pool().kept()
}

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes that are kept by default.
const LIMIT: usize = if cfg!(target_pointer_width = "64") { 4 << 30 } else { 1 << 30 };

/// The memory of a step's buffers, and that of lasting ones.
struct Pool {
    step: Arena,
    lasting: Arena,
    /// Spans of a step that were set aside, as (start, bytes), the latest at the end.
    aside: Vec<(usize, usize)>,
    limit: usize,
}

impl Pool {
    const fn new() -> Self {
        Self { step: Arena::new(), lasting: Arena::new(), aside: Vec::new(), limit: LIMIT }
    }

    fn arena(&mut self, lasting: bool) -> &mut Arena {
        if lasting { &mut self.lasting } else { &mut self.step }
    }

    fn kept(&self) -> usize {
        let aside: usize = self.aside.iter().map(|(_, bytes)| bytes).sum();
        self.step.kept + self.lasting.kept + aside
    }

    /// What is kept for later requests is given up before this one is refused.
    fn lend(&mut self, bytes: usize, lasting: bool) -> Option<usize> {
        if !lasting {
            match self.aside.iter().rposition(|&(_, size)| size == bytes) {
                Some(last) => return Some(self.aside.swap_remove(last).0),
                None if bytes > SMALL => self.settle(),
                None => (),
            }
        }
        self.arena(lasting).lend(bytes).or_else(|| {
            self.give_up();
            self.arena(lasting).lend(bytes)
        })
    }

    fn take_back(&mut self, start: usize, bytes: usize, lasting: bool) {
        if lasting || bytes > SMALL {
            self.arena(lasting).join(start, bytes, true);
        } else {
            if self.aside.len() == ASIDE {
                self.settle();
            }
            self.aside.push((start, bytes));
        }
        self.obey_limit();
    }

    /// Joins all spans that were set aside with their free neighbours.
    fn settle(&mut self) {
        for (start, bytes) in self.aside.drain(..) {
            self.step.join(start, bytes, true);
        }
    }

    fn obey_limit(&mut self) {
        if self.kept() > self.limit {
            self.give_up();
        }
    }

    fn give_up(&mut self) {
        self.settle();
        self.step.give_up();
        self.lasting.give_up();
    }
}
