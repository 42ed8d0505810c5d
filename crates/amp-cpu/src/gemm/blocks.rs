//! How a result is cut into tasks.
//!
//! What one core has just written is far away from another: on a Xeon with AMX two threads took as long as one for 256³ when each
//! packed half of the operands for both. So blocks are as few as threads where that lets each pack what it multiplies
//! ([`Blocks::apart`]), those lines too that another packs as well: 256³ on two threads takes two thirds of the time. More in
//! `benches/record/findings.md`.

use super::kernel::{MicroKernel, Multiply};
use super::panel::Panel;
use super::product::Threads;
use crate::num_threads;
use std::ops::Range;

/// Most rows and columns of a task's block (MC and NC of BLIS): its packed operands and its result then fit the L2 cache.
const ROWS: usize = 384;
const COLUMNS: usize = 256;
/// Most sums of a block that packs its operands itself, where they are kept until it ends.
const APART: usize = 3 << 16;
/// Least rows or columns of such a block: fewer would not be worth packing the other side again.
const LEAST_APART: usize = 96;
/// Blocks wanted at least otherwise, and one for each thread, so that all have something to do.
const TASKS: usize = 8;
/// Least columns of a right side that stays in the cache: fewer would read the left side too often. 64 of 4096 elements of F32, half of
/// what was kept before, make 4096³ 1.09 times as fast, 64 of 8192 in BF16 2048 × 8192 by 8192 × 2048 1.24; 4096³ in F16, whose
/// left side is twice as large, takes 1.09 times as long.
const LEAST_RESIDENT: usize = COLUMNS / 4;

/// Blocks of a result of `m` rows and `n` columns.
pub(super) struct Blocks {
    pub m: usize,
    pub n: usize,
    pub rows: usize,
    pub columns: usize,
    /// Whether each task packs its operands itself, those too that another packs as well.
    pub apart: bool,
    /// Whether each task multiplies strip after strip by all of its right side ([`super::resident`]).
    pub resident: bool,
}

impl Blocks {
    pub(super) fn new<E: Multiply>(
        kernel: &MicroKernel<E>,
        by_lines: bool,
        [m, n]: [usize; 2],
        depth: usize,
        threads: Threads,
    ) -> Self {
        if let Some(most) = resident_columns(kernel, depth) {
            return Self::resident(kernel, most, [m, n], depth, threads);
        }
        let mr = if by_lines && kernel.lower.is_some() { kernel.left.width / 3 } else { kernel.left.width };
        let nr = kernel.right.width;
        let blocks =
            Self { m, n, rows: even(m, ROWS, mr), columns: even(n, COLUMNS, nr), apart: false, resident: false };
        if threads == Threads::One {
            return blocks;
        }
        let by_panels = kernel.direct.is_none() || kernel.resident.is_some();
        let fits = |blocks: &Self| by_panels && blocks.rows * blocks.columns <= APART;
        Self::apart([m, n], [mr, nr]).filter(fits).unwrap_or_else(|| blocks.divided(&kernel.left, mr, nr))
    }

    /// For right sides of which at `most` so many columns stay in the cache.
    fn resident<E: Multiply>(
        kernel: &MicroKernel<E>,
        most: usize,
        [m, n]: [usize; 2],
        depth: usize,
        threads: Threads,
    ) -> Self {
        let (mr, nr) = (kernel.left.width, kernel.right.width);
        let blocks =
            Self { m, n, rows: m.next_multiple_of(mr), columns: even(n, most, nr), apart: false, resident: true };
        if threads == Threads::One {
            return blocks;
        }
        if let Some(apart) = Self::apart([m, n], [mr, nr]).filter(|blocks| blocks.columns <= most) {
            return Self { resident: true, ..apart };
        }
        if (COLUMNS..=depth).contains(&m) {
            // As high as the result: each thread packs its own part of the right side, once.
            let across = blocks.across().next_multiple_of(num_threads());
            return Self { columns: n.div_ceil(across).next_multiple_of(nr), ..blocks };
        }
        blocks.divided(&kernel.left, mr, 2 * nr)
    }

    /// A block for each thread, as wide or as high as the result: the one whose other side is the longer one.
    fn apart([m, n]: [usize; 2], [mr, nr]: [usize; 2]) -> Option<Self> {
        let threads = num_threads();
        let (rows, columns) = if n >= m { (m, n.div_ceil(threads)) } else { (m.div_ceil(threads), n) };
        let (rows, columns) = (rows.next_multiple_of(mr), columns.next_multiple_of(nr));
        let worth = if n >= m { columns } else { rows } >= LEAST_APART;
        worth.then_some(Self { m, n, rows, columns, apart: true, resident: false })
    }

    /// Halves blocks until there are as many as are wanted, down to multiples of `mr` and of `nr`.
    fn divided(mut self, left: &Panel, mr: usize, nr: usize) -> Self {
        let wanted = TASKS.max(num_threads());
        while self.down() * self.across() < wanted && self.rows > 4 * left.width {
            self.rows = (self.rows / 2).next_multiple_of(mr);
        }
        while self.down() * self.across() < wanted && self.columns > nr {
            self.columns = (self.columns / 2).next_multiple_of(nr);
        }
        self
    }

    pub(super) fn down(&self) -> usize {
        self.m.div_ceil(self.rows)
    }

    pub(super) fn across(&self) -> usize {
        self.n.div_ceil(self.columns)
    }

    /// Rows and columns of a task.
    pub(super) fn get(&self, task: usize) -> [Range<usize>; 2] {
        let row = task / self.across() * self.rows;
        let column = task % self.across() * self.columns;
        [row..self.m.min(row + self.rows), column..self.n.min(column + self.columns)]
    }
}

/// Columns of a right side that stay in the cache, where the kernel has it so and enough of them do.
pub(super) fn resident_columns<E: Multiply>(kernel: &MicroKernel<E>, depth: usize) -> Option<usize> {
    let most = kernel.resident?.checked_div(size_of::<E>() * depth)?;
    (most >= LEAST_RESIDENT).then_some(most.min(3 * COLUMNS) / kernel.right.width * kernel.right.width)
}

/// Parts of `size` that are alike, multiples of `unit` and no larger than `most`, about.
fn even(size: usize, most: usize, unit: usize) -> usize {
    size.div_ceil(size.div_ceil(most)).next_multiple_of(unit)
}
