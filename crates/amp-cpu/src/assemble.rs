//! Tensors put together from stretches of each axis: reversed, rolled, repeated.

use crate::elementwise::same_dtype;
use crate::parallel::{Cost, for_each_part};
use crate::simd::{Kernel, Simd, dispatch};
use crate::walk::copy_run;
use crate::{Layout, MAX_RANK, Slice, SliceMut, Storage, View, copy};

/// Positions along an axis that follow one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The first position.
    pub start: usize,
    /// How many.
    pub len: usize,
    /// Whether each is followed by the one before it.
    pub reversed: bool,
}

impl Stretch {
    /// Positions `start..start + len`.
    pub const fn new(start: usize, len: usize) -> Self {
        Self { start, len, reversed: false }
    }

    /// Positions 0 to `len - 1`, the last one first.
    pub const fn backward(len: usize) -> Self {
        Self { start: len.saturating_sub(1), len, reversed: true }
    }

    /// The positions, in their order.
    pub fn positions(self) -> impl Iterator<Item = usize> {
        (0..self.len).map(move |i| if self.reversed { self.start - i } else { self.start + i })
    }

    /// Stretches of `inner` elements in the place of single ones, which are not reversed.
    fn scaled(self, inner: usize) -> Self {
        Self { start: self.start * inner, len: self.len * inner, ..self }
    }

    /// Copies its elements from number `skipped` on out of `row`.
    #[inline(always)]
    fn read<E: Copy>(self, row: &[E], skipped: usize, dst: &mut [E]) {
        if self.reversed {
            let end = self.start + 1 - skipped;
            let from = &row[end - dst.len()..end];
            return dst.iter_mut().zip(from.iter().rev()).for_each(|(to, &value)| *to = value);
        }
        copy_run(&row[self.start + skipped..][..dst.len()], dst);
    }
}

/// The elements of `x` at the positions that the stretches of each axis name, in its precision.
///
/// PyTorch: `flip`, `roll`. One pass, whatever the number of axes. Picked by index, 4 M elements of reversed rows took three times as
/// long; rolled by joining two parts along each axis, up to nine times.
pub fn assemble(x: &View, axes: &[Vec<Stretch>]) -> Storage {
    if x.data.dtype() != x.logical || !has_dense_rows(x.layout) {
        let (whole, layout) = (copy(x, x.logical), Layout::contiguous(x.layout.shape));
        return assemble(&View { data: whole.as_slice(), layout: &layout, logical: x.logical }, axes);
    }
    let rows = Rows::new(x.layout, axes);
    let mut out = Storage::unwritten(x.logical, rows.count());
    for_each_part(out.as_mut_slice(), Cost::Light, &|start, part| {
        same_dtype!(
            x.data, part,
            (src, dst) => dispatch(Part { rows: &rows, src, start, dst }),
            else unreachable!("both sides have one type")
        );
    });
    out
}

/// Whether neighbours along the last axis that has any are neighbours in memory.
pub(crate) fn has_dense_rows(layout: &Layout) -> bool {
    let steps = layout.shape.iter().zip(layout.strides.iter());
    steps.rev().find(|(size, _)| **size != 1).is_none_or(|(_, &stride)| stride == 1)
}

/// A result as rows, each of which is made of stretches of one row of the source.
struct Rows {
    /// Elements of a row.
    len: usize,
    row: Vec<Stretch>,
    /// Of each axis before those that make up the row, where each position lies.
    outer: Vec<Vec<usize>>,
    offset: usize,
}

impl Rows {
    /// Axes that follow one another in memory are one row as long as those behind the first are taken as they are.
    fn new(layout: &Layout, axes: &[Vec<Stretch>]) -> Self {
        let (mut row, mut size, mut rest) = (vec![Stretch::new(0, 1)], 1, axes.len());
        for (axis, stretches) in axes.iter().enumerate().rev() {
            let (len, stride) = (layout.shape[axis], layout.strides[axis]);
            let whole = row == [Stretch::new(0, size)];
            let goes_on = whole && stride == size && (size == 1 || stretches.iter().all(|s| !s.reversed));
            if goes_on {
                row = stretches.iter().map(|s| s.scaled(size)).collect();
                size *= len;
            } else if len != 1 || *stretches != [Stretch::new(0, 1)] {
                break;
            }
            rest = axis;
        }
        let places = |(stretches, &stride): (&Vec<Stretch>, &usize)| {
            stretches.iter().flat_map(|s| s.positions()).map(|at| at * stride).collect()
        };
        let outer = axes[..rest].iter().zip(layout.strides.iter()).map(places).collect();
        Self { len: row.iter().map(|s| s.len).sum(), row, outer, offset: layout.offset }
    }

    fn count(&self) -> usize {
        self.len * self.outer.iter().map(Vec::len).product::<usize>()
    }

    /// Where row `number` of the result is along each outer axis.
    fn locate(&self, mut number: usize) -> [usize; MAX_RANK] {
        let mut index = [0; MAX_RANK];
        for (axis, places) in self.outer.iter().enumerate().rev() {
            (index[axis], number) = (number % places.len(), number / places.len());
        }
        index
    }

    /// Moves on to the next row.
    #[inline(always)]
    fn advance(&self, index: &mut [usize; MAX_RANK]) {
        for (axis, places) in self.outer.iter().enumerate().rev() {
            index[axis] += 1;
            if index[axis] < places.len() {
                return;
            }
            index[axis] = 0;
        }
    }

    #[inline(always)]
    fn start(&self, index: &[usize; MAX_RANK]) -> usize {
        self.offset + self.outer.iter().zip(index).map(|(places, &at)| places[at]).sum::<usize>()
    }
}

/// Elements from `start` on of what `rows` describes.
struct Part<'a, E> {
    rows: &'a Rows,
    src: &'a [E],
    start: usize,
    dst: &'a mut [E],
}

impl<E: Copy> Kernel for Part<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { rows, src, start, mut dst } = self;
        let (mut index, mut column) = (rows.locate(start / rows.len), start % rows.len);
        while !dst.is_empty() {
            let row = &src[rows.start(&index)..];
            for stretch in &rows.row {
                let skipped = column.min(stretch.len);
                let (now, later) = dst.split_at_mut((stretch.len - skipped).min(dst.len()));
                stretch.read(row, skipped, now);
                (dst, column) = (later, column - skipped);
            }
            rows.advance(&mut index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Stretch, assemble};
    use crate::testing::{Random, Tensor};
    use crate::{DType, with_num_threads};

    const DTYPES: [DType; 7] = [DType::F16, DType::BF16, DType::F32, DType::F64, DType::I64, DType::U8, DType::Bool];

    /// Reversed, rolled, repeated, cut or as it is.
    fn stretches(kind: usize, size: usize) -> Vec<Stretch> {
        let front = 3.min(size);
        match kind {
            0 => vec![Stretch::new(0, size)],
            1 => vec![Stretch::backward(size)],
            2 => vec![Stretch::new(size - front, front), Stretch::new(0, size - front)],
            3 => vec![Stretch::new(0, size); 3],
            4 => vec![Stretch::backward(size), Stretch::new(0, 0), Stretch::new(size / 2, size - size / 2)],
            _ => vec![],
        }
    }

    fn check(x: &Tensor, kinds: [usize; 3]) {
        let axes = [0, 1, 2].map(|axis| stretches(kinds[axis], x.shape()[axis]));
        let places = axes.each_ref().map(|axis| axis.iter().flat_map(|s| s.positions()).collect::<Vec<_>>());
        let found = |threads| with_num_threads(threads, || assemble(&x.view(), &axes));
        let two = Tensor::contiguous(&places.each_ref().map(Vec::len), found(2));
        assert_eq!(two.logical(), x.logical());
        assert_eq!(found(1), two.storage);
        for at in two.indices() {
            let from = [0, 1, 2].map(|axis| places[axis][at[axis]]);
            assert_eq!(two.at(&at), x.at(&from), "{kinds:?} of {:?} at {at:?}", x.shape());
        }
    }

    #[test]
    fn every_element_comes_from_where_its_stretches_say() {
        let mut random = Random::new(1);
        for (i, dtype) in DTYPES.into_iter().enumerate() {
            let x = random.tensor(&[4, 5, 7], dtype);
            for x in [x.clone(), x.transposed(0, 2), x.narrow(1, 1, 3), x.every(2, 2), x.narrow(1, 0, 1)] {
                (0..216).skip(i % 2).step_by(2).for_each(|kind| check(&x, [kind / 36, kind / 6 % 6, kind % 6]));
            }
            check(&random.tensor(&[1, 5, 1], dtype).broadcast(&[2, 5, 3]), [1, 2, 3]);
            check(&random.tensor(&[2, 0, 3], dtype), [1, 2, 3]);
        }
        check(&random.tensor(&[4, 5, 7], DType::F32).meant_as(DType::BF16), [1, 2, 4]);
    }

    /// More than one part, which begin anywhere in a row.
    #[test]
    fn rows_of_any_length_are_cut_for_several_threads() {
        let mut random = Random::new(2);
        for (shape, kinds) in [([3, 1, 70_001], [0, 0, 2]), ([1, 1, 250_007], [0, 0, 1]), ([50_003, 2, 3], [1, 0, 2])] {
            check(&random.tensor(&shape, DType::BF16), kinds);
        }
    }
}
