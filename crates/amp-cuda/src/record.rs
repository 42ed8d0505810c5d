//! Recording a step's work as a CUDA graph.
//!
//! While a thread records, what it launches is kept by the driver instead of being done. Three things follow. Memory made
//! meanwhile comes from the graph's own [`Arena`]. Memory made before, once the step has touched it, stays reserved for the
//! graph, whatever becomes of its tensor; frees of other such memory wait until the recording is over, for the recorded
//! stream takes none. And what would wait for the device is refused.
//!
//! The device's one stream takes work of all threads, so whoever gives it some holds a [`Turn`] meanwhile, and a recording
//! begins when nobody does. A turn is asked for last: what somebody may hold while waiting for one is not waited for during one.

use crate::arena::Arena;
use crate::checks::Pending;
use crate::device::{Gpu, Memory};
use crate::error;
use crate::launch::{self, Block, Notice};
use amp_core::backend::{Buffer, DType, Replay};
use amp_core::{RandomState, Result};
use cudarc::driver::DriverError;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::thread::{self, ThreadId};

/// What a device records, if it does.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    /// Number of the recording that runs, 0 for none: the answer that costs no lock.
    number: AtomicU64,
    state: Mutex<Option<State>>,
    /// Read by whoever gives the stream work, written by who begins a recording.
    turns: RwLock<()>,
}

/// The right to give the stream work: no recording begins before it is dropped. `None` for the thread that records.
pub(crate) type Turn<'a> = Option<RwLockReadGuard<'a, ()>>;

#[derive(Debug)]
struct State {
    thread: ThreadId,
    arena: Arc<Arena>,
    /// Seed and offset of the random stream when the recording began, and where replays find theirs.
    start: RandomState,
    base: Memory,
    draws: bool,
    first_check: i64,
    /// Memory that the graph needs, by address.
    touched: HashMap<u64, Arc<Region>>,
    /// Numbers of the host that the graph writes.
    notices: Vec<Arc<Notice>>,
    /// Memory that was dropped meanwhile.
    dropped: Vec<Block>,
}

/// Device memory of one buffer.
#[derive(Debug)]
pub(crate) struct Region {
    address: u64,
    bytes: usize,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// The driver's pool; `None` once the block is on its way back.
    Pool(Option<Block>, Arc<Recorder>),
    Arena(Arc<Arena>),
}

impl Region {
    /// Address of the first byte; a recording of the calling thread keeps the memory for its graph.
    pub fn address(self: &Arc<Self>) -> u64 {
        match &self.source {
            Source::Pool(_, recorder) => recorder.touch(self),
            // Of another graph, which may be gone before the one that is recorded.
            Source::Arena(arena) => arena.recorder().touch(self),
        }
        self.address
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn is_of(&self, arena: &Arc<Arena>) -> bool {
        matches!(&self.source, Source::Arena(own) if Arc::ptr_eq(own, arena))
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        match &mut self.source {
            Source::Pool(block, recorder) => block.take().into_iter().for_each(|block| recorder.free(block)),
            Source::Arena(arena) => arena.give_back(self.address),
        }
    }
}

impl Recorder {
    fn state(&self) -> std::sync::MutexGuard<'_, Option<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of the recording of the calling thread, 0 for none.
    pub fn number(&self) -> u64 {
        match self.number.load(Ordering::Acquire) {
            0 => 0,
            number => self.state().as_ref().map_or(0, |s| if s.thread == thread::current().id() { number } else { 0 }),
        }
    }

    /// A turn for the calling thread, which has none.
    ///
    /// # Errors
    /// When another thread records: the device's one stream would take this thread's work into that graph.
    pub fn turn(&self) -> Result<Turn<'_>, String> {
        if self.number() != 0 {
            return Ok(None);
        }
        let turn = self.turns.read().unwrap_or_else(PoisonError::into_inner);
        self.idle().map(|()| Some(turn))
    }

    fn idle(&self) -> Result<(), String> {
        match self.number.load(Ordering::Acquire) {
            0 => Ok(()),
            _ => Err("another thread is capturing a graph".into()),
        }
    }

    /// Memory for a buffer: the arena's while the thread records, else the pool's.
    pub fn allocate(self: &Arc<Self>, gpu: &Gpu, op: &'static str, bytes: usize) -> Result<Arc<Region>> {
        let failed = |e| error::allocation(gpu, op, bytes, e);
        let turn = gpu.turn(op)?;
        let arena = if turn.is_none() { self.arena() } else { None };
        let Some(arena) = arena else { return self.pooled(gpu, bytes).map_err(failed) };
        let address = arena.take(bytes).map_err(failed)?;
        Ok(Arc::new(Region { address, bytes: bytes.max(1), source: Source::Arena(arena) }))
    }

    fn arena(&self) -> Option<Arc<Arena>> {
        self.state().as_ref().map(|state| state.arena.clone())
    }

    fn pooled(self: &Arc<Self>, gpu: &Gpu, bytes: usize) -> Result<Arc<Region>, DriverError> {
        Ok(self.region(launch::allocate(gpu.shared_stream(), bytes)?))
    }

    fn region(self: &Arc<Self>, block: Block) -> Arc<Region> {
        let (address, bytes) = (block.address(), block.bytes());
        Arc::new(Region { address, bytes, source: Source::Pool(Some(block), self.clone()) })
    }

    /// Memory with these bytes that stays as it is while the graph lives.
    pub fn constant<T: launch::Plain>(self: &Arc<Self>, gpu: &Gpu, data: &[T]) -> Result<Arc<Region>, DriverError> {
        let Some(arena) = self.arena() else { return Err(DriverError(launch::INVALID)) };
        let block = launch::allocate_beside(arena.beside(), gpu.shared_stream(), size_of_val(data))?;
        let region = self.region(block);
        launch::upload(arena.beside(), data, &region)?;
        Ok(region)
    }

    /// Keeps memory for the calling thread's recording, but for the graph's own, which its arena keeps: that outlives the step only
    /// as a result.
    fn touch(&self, region: &Arc<Region>) {
        if self.number() != 0
            && let Some(state) = &mut *self.state()
            && !region.is_of(&state.arena)
        {
            state.touched.entry(region.address).or_insert_with(|| region.clone());
        }
    }

    /// Where kernels write the number; it stays the graph's that the calling thread records.
    pub fn notice_address(&self, notice: &Arc<Notice>) -> u64 {
        if self.number() != 0
            && let Some(state) = &mut *self.state()
        {
            state.notices.push(notice.clone());
        }
        notice.address()
    }

    /// Frees in stream order, or after the recording that runs.
    pub fn free(&self, block: Block) {
        let mut state = self.state();
        match &mut *state {
            Some(state) => state.dropped.push(block),
            // Under the lock: no recording may begin in between.
            None => drop(block),
        }
    }

    /// For a draw at `at` that the calling thread records: where replays find their stream, and the draw's distance from its start.
    pub fn stream_of(&self, at: RandomState) -> Option<(u64, u64)> {
        if self.number() == 0 {
            return None;
        }
        let mut state = self.state();
        let state = state.as_mut().filter(|state| state.start.seed == at.seed)?;
        state.draws = true;
        Some((state.base.region().address, at.offset.wrapping_sub(state.start.offset)))
    }
}

impl Gpu {
    /// Starts recording for the calling thread; `start` is where the random stream stands.
    pub(crate) fn begin(&self, start: RandomState) -> Result<()> {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let failed = |e| error::driver(self, OP, e);
        let recorder = self.recorder();
        if recorder.number() != 0 {
            return Err(self.refusal(OP, "a graph is being captured already".into()));
        }
        // Opened by a recorded step they would want memory of the recorded stream, which gives none.
        let _ = (self.products()?, self.convolutions()?);
        self.checks.ready(self, OP)?;
        let base = self.memory(OP, 2, DType::I64)?;
        let arena = Arc::new(Arena::new(self.shared_stream(), recorder).map_err(failed)?);
        let (thread, first_check) = (thread::current().id(), self.checks.made() + 1);
        let _alone = recorder.turns.write().unwrap_or_else(PoisonError::into_inner);
        recorder.idle().map_err(|reason| self.refusal(OP, reason))?;
        let mut state = recorder.state();
        launch::begin_capture(self.stream()).map_err(failed)?;
        let (touched, notices, dropped) = Default::default();
        *state = Some(State { thread, arena, start, base, draws: false, first_check, touched, notices, dropped });
        recorder.number.store(MADE.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Release);
        Ok(())
    }

    /// Ends the recording; what was recorded has not been done.
    pub(crate) fn end(&self) -> Result<Recorded> {
        let recorder = self.recorder();
        // While it records: nobody downloads, which would forget them.
        let first_check = recorder.state().as_ref().map_or(i64::MAX, |state| state.first_check);
        let checks = self.checks.from(first_check);
        let mut slot = recorder.state();
        let graph = launch::end_capture(self.shared_stream());
        let mut state = slot.take();
        recorder.number.store(0, Ordering::Release);
        // Under the lock: no recording may begin in between.
        state.iter_mut().for_each(|state| state.dropped.clear());
        drop(slot);
        let Some(state) = state else { return Err(self.refusal(OP, "no graph is being captured".into())) };
        let settled = state.arena.settle();
        let graph = graph.and_then(|graph| settled.map(|()| graph)).map_err(|e| error::driver(self, OP, e))?;
        Ok(Recorded {
            graph,
            gpu: self.handle(),
            base: state.draws.then(|| Mutex::new(state.base)),
            checks,
            _kept: (state.touched.into_values().collect(), state.notices),
            arena: state.arena,
        })
    }
}

const OP: &str = "Graph";

/// A graph with all memory that it reads and writes.
#[derive(Debug)]
pub(crate) struct Recorded {
    graph: launch::Graph,
    gpu: Arc<Gpu>,
    /// Locked until the replay that it was written for is queued.
    base: Option<Mutex<Memory>>,
    checks: Vec<Pending>,
    _kept: (Vec<Arc<Region>>, Vec<Arc<Notice>>),
    arena: Arc<Arena>,
}

impl Replay for Recorded {
    fn replay(&self, at: RandomState) -> Result<()> {
        let gpu = &self.gpu;
        if gpu.recorder().number() != 0 {
            return Err(gpu.refusal(OP, "a replay cannot be captured".into()));
        }
        gpu.checks.again(&self.checks, || {
            let base = self.base.as_ref().map(|base| base.lock().unwrap_or_else(PoisonError::into_inner));
            if let Some(base) = &base {
                gpu.write(OP, &[at.seed as i64, at.offset as i64], base)?;
            }
            let _turn = gpu.turn(OP)?;
            self.graph.launch().map_err(|e| error::driver(gpu, OP, e))
        })
    }

    fn outliving(&self, results: &[&Buffer]) -> (usize, usize) {
        let own = results.iter().filter_map(|b| b.downcast::<Memory>()).map(Memory::region);
        let own: HashMap<u64, usize> = own.filter(|r| r.is_of(&self.arena)).map(|r| (r.address, r.bytes)).collect();
        let (count, bytes) = self.arena.taken();
        (count.saturating_sub(own.len()), bytes)
    }
}
