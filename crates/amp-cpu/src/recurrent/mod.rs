//! Steps of recurrent layers behind their products: gates, what they let through and the new state in one pass, and its gradient.

mod gru;
mod lstm;

pub use gru::{gru_cell, gru_cell_grad};
pub use lstm::{lstm_cell, lstm_cell_grad};

use crate::parallel::{CHUNK, for_each};
use std::ops::Range;

/// Operations that an element of the state costs, with its sigmoids and hyperbolic tangents.
const WORK: usize = 64;

/// How the sequences of a batch are shared out: as many at a time as make a piece of work, however narrow the layer.
fn pieces(rows: usize, width: usize, piece: impl Fn(Range<usize>) + Sync + Send) {
    let together = (CHUNK / width.max(1)).max(1);
    let count = if width == 0 { 0 } else { rows.div_ceil(together) };
    for_each(count, WORK * rows * width, |i| piece(i * together..rows.min((i + 1) * together)));
}

/// Neighbouring rows of `width` elements.
#[inline(always)]
fn rows_of<const N: usize>(all: &[f32], width: usize) -> [&[f32]; N] {
    std::array::from_fn(|i| &all[i * width..][..width])
}

/// Neighbouring pieces of so many elements, to be written.
#[inline(always)]
fn cut<const N: usize>(mut all: &mut [f32], lens: [usize; N]) -> [&mut [f32]; N] {
    lens.map(|len| all.split_off_mut(..len).expect("as many elements as all pieces"))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Tensor, epsilon};
    use crate::{DType, with_num_threads};

    /// Rows and widths: one element, rows that are handled together, some that threads share, a wide one, none.
    pub(super) const SIZES: [[usize; 2]; 7] = [[1, 1], [3, 17], [501, 9], [32, 256], [2, 2100], [0, 4], [2, 0]];
    pub(super) const PRECISIONS: [DType; 3] = [DType::F32, DType::BF16, DType::F16];

    pub(super) fn sigmoid(x: f64) -> f64 {
        1.0 / (1.0 + (-x).exp())
    }

    /// Whether it is within some roundings, of F32 and one of `out`, of a sum of such terms.
    pub(super) fn assert_near(found: f64, terms: &[f64], out: DType, what: &str) {
        let (exact, sizes): (f64, f64) = (terms.iter().sum(), terms.iter().map(|term| term.abs()).sum());
        // Gates are off by 3 units at most, and so is 1 less a gate, of a unit of 1; a product of five has as many roundings. What a
        // gate let into a tangent makes that off by 10 units of 1 and 1 less its square by 20, where another gate takes a half.
        let tolerance = 24.0 * epsilon(DType::F32) * (sizes + 1.0) + epsilon(out) * exact.abs();
        assert!((found - exact).abs() <= tolerance, "{what}: {found} is not {exact}");
    }

    /// What `run` gives, the same to the last bit with one thread and with two.
    pub(super) fn for_any_threads<const N: usize>(run: impl Fn() -> [Tensor; N] + Sync) -> [Tensor; N] {
        let [one, two] = [1, 2].map(|threads| with_num_threads(threads, &run));
        for (one, two) in one.iter().zip(&two) {
            assert_eq!(format!("{one:?}"), format!("{two:?}"), "one thread and two");
        }
        two
    }
}
