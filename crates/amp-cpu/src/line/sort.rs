//! Stable sorting along an axis.

use super::{Cut, Lines, map_lines};
use crate::num::{Num, in_num};
use crate::{DType, Storage, View};
use std::cmp::Ordering;

/// Sorts `x` along `axis`: the values in `x`'s precision and the positions they came from, as I64.
///
/// Equal elements keep their order in both directions. NaN counts as greater than everything.
pub fn sort(x: &View, axis: usize, descending: bool) -> (Storage, Storage) {
    let len = Cut::new(&x.layout.shape, axis).len;
    let positions = in_num!(x.logical, A => {
        let lines = Lines::new(x, axis);
        // Positions pass through the line driver as I64, so that they land in the layout of `x`.
        map_lines::<i64>(x, axis, DType::I64, &|number, _, out| {
            let mut line = vec![A::default(); len];
            lines.load(number, &mut line);
            out.iter_mut().enumerate().for_each(|(i, o)| *o = i as i64);
            out.sort_by(|&i, &j| {
                let (a, b) = (line[i as usize], line[j as usize]);
                if descending { order(b, a) } else { order(a, b) }
            });
        })
    });
    let values = in_num!(x.logical, A => map_lines::<A>(x, axis, x.logical, &|_, x, line| {
        line.copy_from_slice(x);
        line.sort_by(|&a, &b| if descending { order(b, a) } else { order(a, b) });
    }));
    (values, positions)
}

/// Numbers in order, then NaN.
fn order<A: Num>(a: A, b: A) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}
