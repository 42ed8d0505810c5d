//! Strips of rows that are multiplied as lines, and stored as their sums end.
//!
//! Tiles that end sums add the bias, round in registers and write where the result belongs, where all their rows and columns are
//! wanted; the rest waits for a sink. On one thread of Zen 5 a batch of 256 × 64 by 64 × 256 was 1.08 to 1.12 times as fast as with
//! rounding behind the tiles, a step of GPT 1.06. The batch's result is then not prefetched ([`super::ahead`]): whole cache lines
//! are written at once. More in `benches/record/findings.md`.

use super::kernel::{Finish, Finishing, MicroKernel, Multiply, OfLines, Prepared, Rows};
use super::operand::Lines;
use super::product::Place;
use crate::output::prefetch;
use std::ops::Range;

/// Cuts rows into strips of a tile's height, the last ones lower where lines are multiplied and that saves some.
pub(super) fn strips<E: Multiply>(
    kernel: &MicroKernel<E>,
    rows: &Range<usize>,
    by_lines: bool,
) -> impl Iterator<Item = Range<usize>> {
    let mr = kernel.left.width;
    let low = kernel.lower.filter(|_| by_lines).map_or(mr, |_| 2 * mr / 3);
    let rest = rows.len() % mr;
    // A whole strip and a few rows are two low strips.
    let whole = (rows.len() / mr).saturating_sub(usize::from((1..=2 * low - mr).contains(&rest) && low < mr));
    let (middle, size) = (rows.start + whole * mr, if rest > low { mr } else { low });
    let cut =
        |part: Range<usize>, size: usize| part.clone().step_by(size).map(move |row| row..part.end.min(row + size));
    cut(rows.start..middle, mr).chain(cut(middle..rows.end, size))
}

/// The lines of a tile's rows.
pub(super) struct Strip<'a, E: Multiply> {
    pub lines: Lines<'a, E>,
    /// Elements of a line, with the padding.
    pub depth: usize,
    /// The tile of so many lines.
    pub tile: OfLines<E>,
    /// This thread, which is prepared for it.
    pub _prepared: &'a Prepared,
}

impl<E: Multiply> Strip<'_, E> {
    /// How tiles write what belongs at a place, so many columns, if they can.
    pub(super) fn finish<'b>(&self, place: Place<'b, E::Sum>, columns: usize) -> Option<(Finishing<E>, Finish<'b, E>)> {
        Some((self.tile.finishing?, place.finish(self.tile.rows, columns)?))
    }

    /// Multiplies by packed panels of `nr` columns into rows `stride` wide, or as a [`finish`](Self::finish) of so many columns
    /// says, `tiled` being told each tile's.
    ///
    /// A few lines are prefetched with each tile: as many as are under way at once, while a burst would be waited for.
    pub(super) fn multiply(
        &self,
        (right, nr): (&[E], usize),
        sums: &mut [E::Sum],
        stride: usize,
        accumulate: bool,
        finish: Option<(Finishing<E>, Finish<'_, E>)>,
        tiled: &dyn Fn(usize, usize),
    ) {
        let Self { lines: Lines { elements, stride: apart }, depth, tile: OfLines { rows, tile, .. }, .. } = *self;
        assert!((rows - 1) * apart + depth <= elements.len());
        let per_tile = (rows * nr).div_ceil(stride);
        for (j, b) in right.chunks_exact(depth * nr).enumerate() {
            tiled(j * nr, (j + 1) * nr);
            for line in (j * per_tile..rows.min((j + 1) * per_tile)).map_while(|i| elements.get((rows + i) * apart..)) {
                prefetch(&line[..depth.min(line.len())]);
            }
            let c = &mut sums[j * nr..];
            assert!(c.len() >= (rows - 1) * stride + nr && (j + 1) * nr <= stride);
            let (a, b, c) = (Rows::of(elements, apart), b.as_ptr(), c.as_mut_ptr());
            // SAFETY: as many lines as the tile takes lie inside `elements` (asserted), `b` is a whole panel
            // (`chunks_exact`) of the same padded depth, the tile's last row ends inside `c` (asserted), a `MicroKernel` is only
            // made for levels the CPU has, and this thread is prepared for it. Columns up to `stride` (asserted) have their place
            // where sums finish ([`Output::rows`]), which is this thread's alone ([`Sink`]).
            unsafe {
                match finish {
                    None => tile(depth, a, b, c, stride, accumulate),
                    Some((tile, finish)) => {
                        let bias = finish.bias.get(j * nr..).unwrap_or_default();
                        let finish = Finish { to: finish.to.add(j * nr), bias, ..finish };
                        tile(depth, a, b, c, stride, accumulate, finish);
                    }
                }
            }
        }
    }
}
