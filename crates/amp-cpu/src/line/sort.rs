//! Stable sorting along an axis.

use super::{Cut, Lines, map_lines};
use crate::{DType, Layout, Storage, View, gather};

/// Sorts `x` along `axis`: the values in `x`'s precision and the positions they came from, as I64.
///
/// Equal elements keep their order in both directions. NaN counts as greater than everything.
pub fn sort(x: &View, axis: usize, descending: bool) -> (Storage, Storage) {
    let lines = Lines::new(x, axis);
    let len = Cut::new(&x.layout.shape, axis).len;
    // Positions pass through the line driver as I64, so that they land in the layout of `x`.
    let positions = map_lines::<i64>(x, axis, DType::I64, &|number, _, out| {
        let mut ranks = vec![0; len];
        load_ranks(&lines, x.logical, number, &mut ranks);
        if descending {
            ranks.iter_mut().for_each(|rank| *rank = !*rank);
        }
        out.iter_mut().zip(ascending(&ranks)).for_each(|(o, i)| *o = i as i64);
    });
    let layout = Layout::contiguous(x.layout.shape);
    let index = View { data: positions.as_slice(), layout: &layout, logical: DType::I64 };
    (gather(x, axis, &index), positions)
}

/// The positions of `keys` from the least to the greatest; of equal ones in their order.
pub(crate) fn ascending(keys: &[i64]) -> Vec<usize> {
    let mut positions: Vec<usize> = (0..keys.len()).collect();
    positions.sort_by_key(|&i| keys[i]);
    positions
}

/// Integers in the order of a line's elements: sorting is compiled once for them, and not for every type.
fn load_ranks(lines: &Lines, dtype: DType, number: usize, ranks: &mut [i64]) {
    if !dtype.is_float() {
        return lines.load(number, ranks);
    }
    let mut line = vec![0.0_f64; ranks.len()];
    lines.load(number, &mut line);
    ranks.iter_mut().zip(line).for_each(|(rank, value)| *rank = rank_of(value));
}

/// Numbers in order, both zeros as one, then NaN.
fn rank_of(value: f64) -> i64 {
    if value.is_nan() {
        return i64::MAX;
    }
    let bits = (value + 0.0).to_bits() as i64;
    // The greater a negative number's magnitude, the less it is.
    bits ^ (bits >> 63 & i64::MAX)
}
