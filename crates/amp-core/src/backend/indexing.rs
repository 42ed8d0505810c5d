//! Selecting and adding by index.

use super::{Buffer, Memory, Operand};
use crate::Result;
use crate::memory::on_host;
use amp_cpu::{DType, Dims, Layout, Storage, Stretch};

/// Kernels that follow I64 indices, which callers have checked with [`check_indices`](Self::check_indices).
pub trait Indexing: Memory {
    /// Refuses indices outside `0..size` other than `ignored`.
    ///
    /// A device that would have to wait for the answer may report it with a later call.
    fn check_indices(&self, op: &'static str, index: Operand<'_>, size: usize, ignored: Option<i64>) -> Result<()>;

    /// Slices of `x` at the positions `index` `[K]` of `axis`.
    fn index_select(&self, x: Operand<'_>, axis: usize, index: Operand<'_>) -> Result<Buffer>;

    /// Elements of `x` at positions `index` along `axis`, the other coordinates being those of `index`.
    fn gather(&self, x: Operand<'_>, axis: usize, index: Operand<'_>) -> Result<Buffer>;

    /// `base` with `src` added where [`gather`](Self::gather) would read; sums run in F32 (F64) in a fixed order.
    fn scatter_add(
        &self,
        base: Operand<'_>,
        axis: usize,
        index: Operand<'_>,
        src: Operand<'_>,
        out: DType,
    ) -> Result<Buffer>;

    /// `base` with `src` in the places where [`gather`](Self::gather) would read; of several elements for one place the last in
    /// row-major order stays.
    fn scatter(
        &self,
        base: Operand<'_>,
        axis: usize,
        index: Operand<'_>,
        src: Operand<'_>,
        out: DType,
    ) -> Result<Buffer>;

    /// `base`, or zeros, with `len` slices along `axis`, to which the slices of `src` are added at the positions `index` `[K]`; sums
    /// run as those of [`scatter_add`](Self::scatter_add).
    fn index_add(
        &self,
        base: Option<Operand<'_>>,
        len: usize,
        axis: usize,
        index: Operand<'_>,
        src: Operand<'_>,
        out: DType,
    ) -> Result<Buffer>;

    /// `x` in its precision, padded with `value`: `around` holds the counts before and after it along each axis, `shape` is that
    /// of the result.
    fn pad(&self, x: Operand<'_>, around: &[[usize; 2]], value: f64, shape: Dims) -> Result<Buffer> {
        let mut inner = Layout::contiguous(shape);
        inner.offset = around.iter().zip(inner.strides.iter()).map(|([before, _], stride)| before * stride).sum();
        inner.shape = x.layout.shape;
        let mut buffer = self.fill(value, shape.count(), x.logical)?;
        if x.layout.count() > 0 {
            self.copy_into(x, &mut buffer, &inner)?;
        }
        Ok(buffer)
    }

    /// The elements of `x` at the positions that the stretches of each axis name, in its precision.
    ///
    /// The default does one axis at a time: it picks reversed ones by index and copies the stretches of others.
    fn assemble(&self, op: &'static str, x: Operand<'_>, axes: &[Vec<Stretch>]) -> Result<Buffer> {
        let mut layout = *x.layout;
        let mut found = None;
        for (axis, stretches) in axes.iter().enumerate() {
            if *stretches == [Stretch::new(0, layout.shape[axis])] {
                continue;
            }
            let from = found.as_ref().map_or(x, |buffer| Operand { buffer, layout: &layout, logical: x.logical });
            let next = assembled(self, op, from, axis, stretches)?;
            layout.shape[axis] = stretches.iter().map(|s| s.len).sum();
            (layout, found) = (Layout::contiguous(layout.shape), Some(next));
        }
        found.map_or_else(|| self.copy(x, x.logical), Ok)
    }
}

/// [`Indexing::assemble`] along one axis.
fn assembled<B: Indexing + ?Sized>(
    on: &B,
    op: &'static str,
    x: Operand<'_>,
    axis: usize,
    stretches: &[Stretch],
) -> Result<Buffer> {
    if stretches.iter().any(|s| s.reversed) {
        let len = stretches.iter().map(|s| s.len).sum();
        let places = on_host(op, len, stretches.iter().flat_map(|s| s.positions()).map(|at| at as i64))?;
        let layout = Layout::contiguous(Dims::new(&[places.len()]).expect("one dimension"));
        let index = on.upload(Storage::from(places))?;
        return on.index_select(x, axis, Operand { buffer: &index, layout: &layout, logical: DType::I64 });
    }
    let layouts: Vec<Layout> = stretches.iter().map(|stretch| part(x.layout, axis, stretch)).collect();
    let parts: Vec<Operand<'_>> = layouts.iter().map(|layout| Operand { layout, ..x }).collect();
    on.join(op, &parts, axis, x.logical)
}

fn part(layout: &Layout, axis: usize, stretch: &Stretch) -> Layout {
    let mut part = *layout;
    part.offset += stretch.start * part.strides[axis];
    part.shape[axis] = stretch.len;
    part
}
