//! Operands in packed form: a block when it is needed, or the whole in advance.

use super::kernel::Multiply;
use super::operand::{Lines, Operand};
use super::panel::Panel;
use crate::parallel;
use std::ops::Range;

/// Vectors of an operand that a task packs in advance, about. 64, two cache lines of each row of BF16, took products 1 % longer.
const GROUP: usize = 256;
/// Most elements of an operand that is packed as a whole in advance.
const PREPACK: usize = 1 << 24;

/// An operand and, where it is used often enough, all of it in packed form.
pub(super) struct Packed<'a, E> {
    pub operand: &'a dyn Operand<E>,
    pub panel: Panel,
    pub whole: Option<&'a [E]>,
    /// Where it lies, if it is to be multiplied as it is.
    pub lines: Option<Lines<'a, E>>,
}

impl<'a, E: Multiply> Packed<'a, E> {
    /// The packed block, from `buffer` if it has to be packed now.
    pub(super) fn block<'b>(&'b self, rows: Range<usize>, depth: Range<usize>, buffer: &'b mut [E]) -> &'b [E] {
        let len = self.panel.len(rows.len(), depth.len());
        match self.whole {
            _ if len == 0 => &[],
            Some(whole) => {
                let padded = self.panel.rows(self.operand.rows());
                &whole[padded * depth.start + rows.start * self.panel.depth(depth.len())..][..len]
            }
            None => {
                self.operand.pack(rows, depth, self.panel, &mut buffer[..len]);
                &buffer[..len]
            }
        }
    }

    /// Where a row's part of the depth lies, or would if there were so many, in what was packed in advance.
    pub(super) fn ahead(&self, row: usize, depth: Range<usize>) -> Option<*const E> {
        let padded = self.panel.rows(self.operand.rows());
        let at = padded * depth.start + row * self.panel.depth(depth.len());
        Some(self.whole?.as_ptr().wrapping_add(at))
    }

    /// Whether blocks are lines and not panels for several of them.
    pub(super) fn are_lines(&self) -> bool {
        self.panel.width == 1
    }

    /// Up to `count` rows as so many lines, from `buffer` if they have to be packed now or others have to stand in for some.
    pub(super) fn lines<'b>(
        &'b self,
        rows: Range<usize>,
        depth: Range<usize>,
        count: usize,
        buffer: &'b mut [E],
    ) -> Lines<'b, E> {
        let stride = self.panel.depth(depth.len());
        match self.lines {
            _ if rows.len() < count => {}
            Some(Lines { elements, stride }) => {
                return Lines { elements: &elements[rows.start * stride + depth.start..], stride };
            }
            None if self.whole.is_some() => return Lines { elements: self.block(rows, depth, buffer), stride },
            None => {}
        }
        let (lines, rest) = buffer[..count * stride].split_at_mut(rows.len() * stride);
        self.operand.pack(rows, depth, self.panel, lines);
        rest.fill(E::default());
        Lines { elements: buffer, stride }
    }
}

/// How an operand that would otherwise be packed several times is packed as a whole in advance: block after block of the depth,
/// groups of panels within one.
pub(super) struct Plan<'a, E> {
    operand: &'a dyn Operand<E>,
    panel: Panel,
    block: usize,
    /// Vectors that are packed at a time.
    group: usize,
}

impl<'a, E: Multiply> Plan<'a, E> {
    /// If it is worth it for an operand that is used `uses` times.
    pub(super) fn new(operand: &'a dyn Operand<E>, panel: Panel, block: usize, uses: usize) -> Option<Self> {
        let plan = Self { operand, panel, block, group: GROUP.next_multiple_of(panel.width) };
        (uses >= 2 && Self::fits(operand, panel)).then_some(plan)
    }

    /// Whether an operand is not too large for it.
    pub(super) fn fits(operand: &dyn Operand<E>, panel: Panel) -> bool {
        panel.len(operand.rows(), operand.depth()) <= PREPACK
    }

    fn padded(&self) -> usize {
        self.panel.rows(self.operand.rows())
    }

    pub(super) fn len(&self) -> usize {
        self.panel.len(self.operand.rows(), self.operand.depth())
    }

    fn groups(&self) -> usize {
        self.padded().div_ceil(self.group)
    }

    fn tasks(&self) -> usize {
        self.groups() * self.operand.depth().div_ceil(self.block)
    }

    /// Packs up to two operands at once, each into a buffer of its length, on several threads if `work` is not 0.
    pub(super) fn run(plans: [(Option<&Self>, &mut [E]); 2], work: usize) {
        let work = if work == 0 { 0 } else { plans.iter().map(|(_, packed)| 4 * packed.len()).sum() };
        let [first, second] = plans.map(|(plan, packed)| (plan, Cuts { start: packed.as_mut_ptr() }));
        let before = first.0.map_or(0, Self::tasks);
        parallel::for_each(before + second.0.map_or(0, Self::tasks), work, |task| {
            let ((plan, cuts), task) = if task < before { (&first, task) } else { (&second, task - before) };
            if let Some(plan) = plan {
                plan.pack(task, cuts);
            }
        });
    }

    fn pack(&self, task: usize, cuts: &Cuts<E>) {
        let (operand, panel) = (self.operand, self.panel);
        let start = task / self.groups() * self.block;
        let depth = start..operand.depth().min(start + self.block);
        let row = task % self.groups() * self.group;
        let rows = row..operand.rows().min(row + self.group);
        let at = self.padded() * depth.start + row * panel.depth(depth.len());
        // SAFETY: the pieces of different tasks are disjoint parts of a buffer of `len` elements: blocks of the depth follow
        // one another, `padded` times their padded depth each (only the last one is padded), and within one the groups of
        // rows do.
        let piece = unsafe { cuts.get(at, panel.len(rows.len(), depth.len())) };
        operand.pack(rows, depth, panel, piece);
    }
}

/// A buffer that tasks cut disjoint pieces from.
struct Cuts<T> {
    start: *mut T,
}

// SAFETY: `get` is the only access, and its caller promises disjoint pieces.
unsafe impl<T: Send> Sync for Cuts<T> {}

impl<T> Cuts<T> {
    /// # Safety
    /// The piece must lie inside the buffer, which must outlive it, and overlap no other piece in use.
    #[allow(clippy::mut_from_ref)]
    unsafe fn get(&self, at: usize, len: usize) -> &mut [T] {
        // SAFETY: the caller's duty.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(at), len) }
    }
}
