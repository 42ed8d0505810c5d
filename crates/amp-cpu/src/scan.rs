//! Running sums and products.

use crate::line::map_lines;
use crate::num::{Num, in_num};
use crate::{DType, Scan, Storage, View};

/// Running fold of `x` along `axis`, from the last element to the first when `reverse`.
///
/// Runs in F32 (F64, wrapping I64); every element is rounded to `out` once.
pub fn scan(op: Scan, x: &View, axis: usize, reverse: bool, out: DType) -> Storage {
    in_num!(x.logical, A => match op {
        Scan::Sum => map_lines::<A>(x, axis, out, |_, line| run(line, reverse, A::add)),
        Scan::Prod => map_lines::<A>(x, axis, out, |_, line| run(line, reverse, A::mul)),
    })
}

fn run<A: Num>(line: &mut [A], reverse: bool, join: impl Fn(A, A) -> A) {
    let step = |acc: &mut Option<A>, x: &mut A| {
        *x = acc.map_or(*x, |a| join(a, *x));
        *acc = Some(*x);
    };
    let mut acc = None;
    if reverse {
        line.iter_mut().rev().for_each(|x| step(&mut acc, x))
    } else {
        line.iter_mut().for_each(|x| step(&mut acc, x))
    }
}
