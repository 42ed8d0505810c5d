//! A task whose sums stay in the L2 cache: one part of the depth after the other is packed and multiplied.
//!
//! This is for the gradient of a weight, whose sums are few and whose depth is all rows of a batch: the loop over the depth is
//! outside of those over tiles. Both sides lie across their vectors and are packed; here each part is multiplied as soon as it
//! is, so that nothing goes to memory and comes back.

use super::blocks::Blocks;
use super::kernel::Multiply;
use super::task::Task;
use crate::scratch;

/// Elements of the sums of a block, and of what may be packed again for each element that must be.
const SUMS: usize = 3 << 16;
const AGAIN: usize = 2;
/// Least depth, in blocks of the kernel's depth: sums are written and read again for each.
const LEAST: usize = 2;

impl Blocks {
    /// Blocks of which the sums stay in the cache, as many as threads or a multiple of them, if that does not have too much
    /// packed several times.
    pub(super) fn deep(
        [m, n]: [usize; 2],
        [mr, nr]: [usize; 2],
        [depth, long]: [usize; 2],
        threads: usize,
    ) -> Option<Self> {
        if depth < LEAST * long {
            return None;
        }
        let of = |down: usize, across: usize| Self {
            m,
            n,
            rows: m.div_ceil(down).next_multiple_of(mr),
            columns: n.div_ceil(across).next_multiple_of(nr),
            apart: true,
            resident: false,
        };
        let fits = |blocks: &Self| {
            blocks.rows * blocks.columns <= SUMS && (blocks.down() * blocks.across()).is_multiple_of(threads)
        };
        let packed = |blocks: &Self| blocks.down() * n + blocks.across() * m;
        let most = [m.div_ceil(mr), n.div_ceil(nr)].map(|most| most.min(8));
        let all = (1..=most[0]).flat_map(|down| (1..=most[1]).map(move |across| of(down, across)));
        let best = all.filter(fits).min_by_key(packed)?;
        (packed(&best) <= AGAIN * (m + n)).then_some(best)
    }
}

impl<E: Multiply> Task<'_, E> {
    /// Computes the block; the sums of a tile lie together, as in [`super::resident`].
    pub(super) fn run_deep(&self) {
        let (mr, nr) = (self.kernel.left.width, self.kernel.right.width);
        let (height, longest) =
            (self.kernel.left.rows(self.rows.len()), self.kernel.left.depth(self.depth.min(self.long)));
        scratch::with((height + self.stride) * longest, |packed: &mut [E]| {
            scratch::with(height * self.stride, |sums: &mut [E::Sum]| {
                let (of_right, of_left) = packed.split_at_mut(self.stride * longest);
                for start in (0..=self.last).step_by(self.long) {
                    let depth = start..self.depth.min(start + self.long);
                    let long = self.kernel.left.depth(depth.len());
                    let right = self.b.block(self.columns.clone(), depth.clone(), of_right);
                    let left = self.a.block(self.rows.clone(), depth, of_left);
                    let strips = left.chunks_exact(long * mr).zip(sums.chunks_exact_mut(mr * self.stride));
                    for (a, sums) in strips {
                        for (b, c) in right.chunks_exact(long * nr).zip(sums.chunks_exact_mut(mr * nr)) {
                            // SAFETY: `a` and `b` are whole panels (`chunks_exact`) of the same padded depth, `c` has the rows of a
                            // tile one after the other (`chunks_exact_mut`), a `MicroKernel` is only made for levels the CPU has, and
                            // this thread is prepared for it.
                            unsafe { (self.kernel.tile)(long, a.as_ptr(), b.as_ptr(), c.as_mut_ptr(), nr, start > 0) }
                        }
                    }
                }
                for (row, sums) in self.rows.clone().step_by(mr).zip(sums.chunks_exact_mut(mr * self.stride)) {
                    let rows = row..self.rows.end.min(row + mr);
                    for (column, c) in self.columns.clone().step_by(nr).zip(sums.chunks_exact_mut(mr * nr)) {
                        self.hand_over(&rows, column, c);
                    }
                }
            });
        });
    }
}
