//! Split-K: a long depth in parts, where the result is too small for many tasks. Each part has sums of its own, which are added in
//! order.
//!
//! This is the gradient of a layer of few features over many samples, and the inner product of long vectors. Zen 5, two threads,
//! F32, least times while other work ran: 16 × 100000 × 16 2260 µs in one task, 231 in parts; 1 × 4000000 × 1 3200 and 270.

use super::operand::Matrix;

/// Elements of the largest result that is made so: larger ones are cut into blocks.
const RESULT: usize = 1 << 10;
/// Elements of both sides in a part.
const ELEMENTS: usize = 1 << 17;
/// Parts are a multiple of so many elements deep.
const STEP: usize = 1 << 10;
/// Least and most parts: few gain nothing, many take room.
const PARTS: [usize; 2] = [4, 64];

/// How deep the parts of a product are, if it is better done so. It depends on the shape alone, as the result's bits then do.
pub(super) fn depth_of_part(a: &Matrix, b: &Matrix) -> Option<usize> {
    let ([least, most], rows) = (PARTS, a.rows + b.rows);
    // Most products are less deep: nothing is divided for them.
    if a.depth < least * STEP || a.rows * b.rows > RESULT || rows == 0 {
        return None;
    }
    let part = (ELEMENTS / rows).max(a.depth.div_ceil(most)).next_multiple_of(STEP);
    (a.depth >= least * part).then_some(part)
}

/// One side of part number `index`.
pub(super) fn cut<'a>(matrix: &Matrix<'a>, part: usize, index: usize) -> Matrix<'a> {
    let start = index * part;
    Matrix { offset: matrix.offset + start * matrix.depth_stride, depth: part.min(matrix.depth - start), ..*matrix }
}
