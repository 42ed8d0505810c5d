//! The threads that kernels share: workers that wait awake for a moment before they sleep.
//!
//! Kernels of a training step follow each other within microseconds, while waking a sleeping thread takes tens of them:
//! a worker that has run out of work looks for more for a while before it lies down. A kernel is a job of numbered tasks;
//! its caller and the workers take the next number until none is left. Jobs may start jobs, and several threads of a
//! program may run kernels at once: then each gets fewer helpers, so that no more threads work than were asked for.
//!
//! As many threads as the machine has work by default; `AMP_NUM_THREADS` (or `RAYON_NUM_THREADS`) and
//! [`set_num_threads`] change that for the process, [`with_num_threads`] for a closure.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;

/// How often an idle thread looks for work before it sleeps: this takes one or two hundred microseconds. A quarter as often, 1024³
/// in BF16 took two threads of a Xeon with AMX 1.02 ms and takes 0.96, for one of them had lain down while the other one ended.
const LOOKS: usize = 1 << 12;

/// More than any machine has: tasks, of which there are some for each thread, can be counted.
const MOST: usize = 1 << 16;

/// Threads that kernels of this process use; 0 until somebody asks.
static THREADS: AtomicUsize = AtomicUsize::new(0);
/// What the environment or the machine says.
static CONFIGURED: OnceLock<usize> = OnceLock::new();
/// Threads of the program that run a kernel's tasks at the moment, workers left out.
static CALLERS: AtomicUsize = AtomicUsize::new(0);
static POOL: Pool = Pool { board: Mutex::new(Board::new()), posted: Condvar::new(), version: AtomicUsize::new(0) };

thread_local! {
    /// Threads that kernels called from this thread use, where it differs from the process.
    static LIMIT: Cell<Option<usize>> = const { Cell::new(None) };
    /// Whether this thread is inside a task, its own or, as a worker, somebody else's.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Threads that a kernel called here would use at most.
pub fn num_threads() -> usize {
    LIMIT.get().unwrap_or_else(|| match THREADS.load(Ordering::Relaxed) {
        0 => {
            let threads = *CONFIGURED.get_or_init(|| {
                configured().unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from)).min(MOST)
            });
            // Somebody may have set them meanwhile.
            THREADS
                .compare_exchange(0, threads, Ordering::Relaxed, Ordering::Relaxed)
                .map_or_else(|set| set, |_| threads)
        }
        threads => threads,
    })
}

fn configured() -> Option<usize> {
    let text = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
    let number = |text: &String| text.trim().parse().ok().filter(|&threads| threads > 0);
    let own = text("AMP_NUM_THREADS");
    let threads = own.as_ref().and_then(number);
    if let (None, Some(text)) = (threads, own) {
        eprintln!("amp: AMP_NUM_THREADS={text} is ignored: it must be a whole number of at least 1");
    }
    threads.or_else(|| number(&text("RAYON_NUM_THREADS")?))
}

/// Sets how many threads kernels of this process use (`torch.set_num_threads`); 0 counts as 1, more than 65536 as that many.
pub fn set_num_threads(threads: usize) {
    THREADS.store(threads.clamp(1, MOST), Ordering::Relaxed);
}

/// Runs `f` with another number of threads for the kernels that it calls on this thread, as [`set_num_threads`] counts it.
pub fn with_num_threads<R>(threads: usize, f: impl FnOnce() -> R) -> R {
    let _restored = Restored::set(&LIMIT, Some(threads.clamp(1, MOST)));
    f()
}

/// Puts a thread's setting back when dropped, whichever way the scope is left.
struct Restored<T: Copy + 'static>(&'static std::thread::LocalKey<Cell<T>>, T);

impl<T: Copy> Restored<T> {
    fn set(key: &'static std::thread::LocalKey<Cell<T>>, value: T) -> Self {
        Self(key, key.replace(value))
    }
}

impl<T: Copy> Drop for Restored<T> {
    fn drop(&mut self) {
        self.0.set(self.1);
    }
}

/// Runs `task(0)` to `task(count - 1)`, each once, in any order and on any thread; returns when all have ended.
///
/// A task's panic is passed on after the others have ended.
pub(crate) fn run(count: usize, task: &(dyn Fn(usize) + Sync)) {
    let threads = num_threads();
    let _caller = Caller::enter();
    let helpers = threads.saturating_sub(CALLERS.load(Ordering::Relaxed).max(1)).min(count.saturating_sub(1));
    if helpers == 0 {
        return (0..count).for_each(task);
    }
    // SAFETY: the reference is only followed for numbers below `count`, and `wait` below returns after all of those tasks
    // have ended; it runs on every way out of this function, because `work` catches panics.
    let task = unsafe { std::mem::transmute::<&(dyn Fn(usize) + Sync), &'static (dyn Fn(usize) + Sync)>(task) };
    let job = Arc::new(Job {
        task,
        count,
        threads,
        next: AtomicUsize::new(0),
        ended: AtomicUsize::new(0),
        seats: AtomicUsize::new(helpers),
        panic: Mutex::new(None),
        caller: std::thread::current(),
    });
    POOL.post(&job, helpers);
    job.work();
    POOL.withdraw(&job);
    job.wait();
    let panic = lock(&job.panic).take();
    if let Some(panic) = panic {
        resume_unwind(panic);
    }
}

/// Counts a thread of the program as a caller while it is inside its outermost job.
struct Caller(Option<Restored<bool>>);

impl Caller {
    fn enter() -> Self {
        if INSIDE.get() {
            return Self(None);
        }
        CALLERS.fetch_add(1, Ordering::Relaxed);
        Self(Some(Restored::set(&INSIDE, true)))
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        if self.0.is_some() {
            CALLERS.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Numbered tasks, and how far they are.
struct Job {
    task: &'static (dyn Fn(usize) + Sync),
    count: usize,
    /// The caller's number of threads, for jobs that tasks start.
    threads: usize,
    /// The next number to be taken.
    next: AtomicUsize,
    /// Tasks that have ended.
    ended: AtomicUsize,
    /// How many more workers may help.
    seats: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    caller: Thread,
}

impl Job {
    /// Takes tasks until none is left.
    fn work(&self) {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.count {
                return;
            }
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (self.task)(number))) {
                lock(&self.panic).get_or_insert(panic);
            }
            // The caller may return as soon as it sees the last one: `task` is not touched after this.
            if self.ended.fetch_add(1, Ordering::AcqRel) + 1 == self.count {
                self.caller.unpark();
            }
        }
    }

    /// Waits for the tasks that others have taken.
    fn wait(&self) {
        let mut looks = 0;
        while self.ended.load(Ordering::Acquire) < self.count {
            if looks < LOOKS {
                looks += 1;
                std::hint::spin_loop();
            } else {
                std::thread::park();
            }
        }
    }

    /// A place for one more worker, if there is something to do.
    fn seat(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.count
            && self.seats.try_update(Ordering::Relaxed, Ordering::Relaxed, |seats| seats.checked_sub(1)).is_ok()
    }
}

struct Pool {
    board: Mutex<Board>,
    posted: Condvar,
    /// Changes with every job that is posted.
    version: AtomicUsize,
}

/// Jobs that want helpers, and who could help.
struct Board {
    jobs: Vec<Arc<Job>>,
    workers: usize,
    asleep: usize,
}

impl Board {
    const fn new() -> Self {
        Self { jobs: Vec::new(), workers: 0, asleep: 0 }
    }
}

impl Pool {
    fn post(&'static self, job: &Arc<Job>, helpers: usize) {
        let mut board = lock(&self.board);
        while board.workers < helpers {
            let worker = std::thread::Builder::new().name(format!("amp-{}", board.workers + 1));
            // Without a thread the caller does the work itself.
            if worker.spawn(|| self.serve()).is_err() {
                break;
            }
            board.workers += 1;
        }
        board.jobs.push(job.clone());
        self.version.fetch_add(1, Ordering::Release);
        let asleep = board.asleep;
        drop(board);
        (0..helpers.min(asleep)).for_each(|_| self.posted.notify_one());
    }

    fn withdraw(&self, job: &Arc<Job>) {
        lock(&self.board).jobs.retain(|posted| !Arc::ptr_eq(posted, job));
    }

    /// A worker's life: the newest job first, for the callers of older ones may be waiting for it.
    fn serve(&self) {
        INSIDE.set(true);
        loop {
            let seen = self.version.load(Ordering::Acquire);
            let job = lock(&self.board).jobs.iter().rev().find(|job| job.seat()).cloned();
            match job {
                Some(job) => {
                    LIMIT.set(Some(job.threads));
                    job.work();
                    job.seats.fetch_add(1, Ordering::Relaxed);
                }
                None => self.idle(seen),
            }
        }
    }

    /// Returns when a job has been posted since version `seen`.
    fn idle(&self, seen: usize) {
        for _ in 0..LOOKS {
            if self.version.load(Ordering::Relaxed) != seen {
                return;
            }
            std::hint::spin_loop();
        }
        let mut board = lock(&self.board);
        board.asleep += 1;
        while self.version.load(Ordering::Acquire) == seen {
            board = self.posted.wait(board).unwrap_or_else(PoisonError::into_inner);
        }
        board.asleep -= 1;
    }
}

/// Nothing panics while it holds one of these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(count: usize, inner: usize) -> Vec<usize> {
        let counts: Vec<AtomicUsize> = (0..count * inner).map(|_| AtomicUsize::new(0)).collect();
        run(count, &|i| {
            run(inner, &|j| {
                counts[i * inner + j].fetch_add(1, Ordering::Relaxed);
            });
        });
        counts.into_iter().map(AtomicUsize::into_inner).collect()
    }

    #[test]
    fn every_task_runs_once_for_any_number_of_threads_and_tasks() {
        for threads in [1, 2, 3, 7] {
            with_num_threads(threads, || {
                for (count, inner) in [(0, 1), (1, 1), (2, 1), (1000, 1), (13, 17), (1, 50)] {
                    for _ in 0..20 {
                        assert!(counts(count, inner).iter().all(|&n| n == 1), "{threads} threads, {count} × {inner}");
                    }
                }
            });
        }
    }

    #[test]
    fn an_invalid_number_of_threads_is_reported_once() {
        if std::env::var_os("AMP_NUM_THREADS").is_some() {
            std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(num_threads))));
            assert!(num_threads() >= 1);
            return;
        }
        let program = std::env::current_exe().expect("the test binary has a path");
        let said = |threads: &str| {
            let mut again = std::process::Command::new(&program);
            again.args(["--nocapture", "--exact", "threads::tests::an_invalid_number_of_threads_is_reported_once"]);
            let output = again.env("AMP_NUM_THREADS", threads).output().expect("the test binary starts");
            assert!(output.status.success());
            String::from_utf8(output.stderr).expect("text")
        };
        for none in ["abc", "0", "-1", "1.5"] {
            assert_eq!(
                said(none),
                format!("amp: AMP_NUM_THREADS={none} is ignored: it must be a whole number of at least 1\n")
            );
        }
        assert_eq!(said("") + &said(" 3"), "");
    }

    #[test]
    fn callers_on_several_threads_do_not_disturb_each_other() {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        with_num_threads(3, || assert!(counts(40, 2).iter().all(|&n| n == 1)));
                    }
                });
            }
        });
    }

    #[test]
    fn a_panic_reaches_the_caller_after_all_tasks_and_the_threads_go_on() {
        for _ in 0..20 {
            let ended = AtomicUsize::new(0);
            let panic = catch_unwind(AssertUnwindSafe(|| {
                with_num_threads(3, || {
                    run(50, &|i| {
                        ended.fetch_add(1, Ordering::Relaxed);
                        assert!(i != 25, "task {i}");
                    });
                });
            }));
            let text = *panic.expect_err("task 25 panics").downcast::<String>().expect("a formatted message");
            assert_eq!((text.as_str(), ended.into_inner()), ("task 25", 50));
        }
        assert!(with_num_threads(3, || counts(100, 1)).iter().all(|&n| n == 1));
    }

    /// Numbers of tasks are computed from it.
    #[test]
    fn more_threads_than_any_machine_has_are_not_counted_on() {
        assert_eq!(with_num_threads(usize::MAX, num_threads), MOST);
        with_num_threads(usize::MAX, || assert!(counts(7, 3).iter().all(|&n| n == 1)));
        if std::env::var_os("AMP_NUM_THREADS").is_some() {
            assert_eq!(num_threads(), MOST);
            set_num_threads(usize::MAX);
            return assert_eq!(num_threads(), MOST);
        }
        let mut again = std::process::Command::new(std::env::current_exe().expect("the test binary has a path"));
        again.args(["--exact", "threads::tests::more_threads_than_any_machine_has_are_not_counted_on"]);
        let output = again.env("AMP_NUM_THREADS", usize::MAX.to_string()).output().expect("the test binary starts");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }

    #[test]
    fn the_number_of_threads_is_restored() {
        let before = num_threads();
        assert!(before >= 1);
        with_num_threads(5, || {
            assert_eq!(num_threads(), 5);
            with_num_threads(0, || assert_eq!(num_threads(), 1));
            assert_eq!(num_threads(), 5);
        });
        assert!(catch_unwind(|| with_num_threads(9, || panic!("on purpose"))).is_err());
        assert_eq!(num_threads(), before);
    }
}
