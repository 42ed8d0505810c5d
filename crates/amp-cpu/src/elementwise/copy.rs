//! Copies, conversions and constant fills.

use super::{Domain, for_chunks};
use crate::buffer::{Buffer, memory};
use crate::convert::{Cast, Compute, each_dtype};
use crate::parallel::CHUNK;
use crate::source::Source;
use crate::walk::{Run, Walk};
use crate::{DType, Layout, SliceMut, Storage, View};

/// The elements of `x` in row-major order, converted to `out`: exact where that is wider, else to nearest even.
pub fn copy(x: &View, out: DType) -> Storage {
    match Domain::of(&[x.logical, out]) {
        Domain::F32 => copy_as::<f32>(x, out),
        Domain::F64 => copy_as::<f64>(x, out),
        Domain::I64 => copy_as::<i64>(x, out),
    }
}

fn copy_as<T: Compute>(x: &View, out: DType) -> Storage {
    for_chunks([x], out, |[x]: [&[T]; 1], chunk, _| T::narrow(x, chunk))
}

/// Writes the elements of `x`, converted, to the places of `dst` that `at` names; the rest of `dst` stays.
///
/// `at` has the shape of `x` and no two of its places coincide.
pub fn copy_into(x: &View, dst: &mut Storage, at: &Layout) {
    match Domain::of(&[x.logical, dst.dtype()]) {
        Domain::F32 => copy_into_as::<f32>(x, dst.as_mut_slice(), at),
        Domain::F64 => copy_into_as::<f64>(x, dst.as_mut_slice(), at),
        Domain::I64 => copy_into_as::<i64>(x, dst.as_mut_slice(), at),
    }
}

fn copy_into_as<T: Compute>(x: &View, mut dst: SliceMut<'_>, at: &Layout) {
    let (source, walk, len) = (Source::new(x), Walk::new(at), at.count());
    let mut room = memory::<T>();
    let mut buffer = Buffer::new(&mut room);
    for start in (0..len).step_by(CHUNK) {
        let n = CHUNK.min(len - start);
        let mut values = source.load_lazily(start, n, &mut buffer);
        walk.for_each_run(start, n, |run| {
            let (now, later) = values.split_at(run.len);
            scatter(now, &mut dst, run);
            values = later;
        });
    }
}

fn scatter<T: Compute>(values: &[T], dst: &mut SliceMut<'_>, run: Run) {
    if run.stride == 1 {
        return T::narrow(values, &mut dst.range(run.start, run.len));
    }
    each_dtype!(dst, SliceMut, d => {
        for (i, &v) in values.iter().enumerate() {
            d[run.start + i * run.stride] = v.cast();
        }
    })
}

/// `len` times `value`, rounded to `dtype`.
pub fn fill(value: f64, len: usize, dtype: DType) -> Storage {
    match dtype {
        DType::F16 => vec![Cast::<half::f16>::cast(value); len].into(),
        DType::BF16 => vec![Cast::<half::bf16>::cast(value); len].into(),
        DType::F32 => vec![value as f32; len].into(),
        DType::F64 => vec![value; len].into(),
        DType::I64 => vec![value as i64; len].into(),
        DType::U8 => vec![value as u8; len].into(),
        DType::Bool => vec![value != 0.0; len].into(),
    }
}
