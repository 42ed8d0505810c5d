//! Copies, conversions and constant fills.

use super::Domain;
use super::stream::WHOLE;
use crate::buffer::Buffer;
use crate::cache::{self, Pooled};
use crate::convert::{Cast, Compute, each_dtype};
use crate::parallel::{CHUNK, Cost, distribute, for_each_chunk_mut, for_each_chunk_of, for_each_part};
use crate::source::Source;
use crate::split::PARALLEL;
use crate::walk::{Run, Walk};
use crate::{Block, DType, Layout, Slice, SliceMut, Storage, View};
use std::ops::Range;

/// `$body` with the elements of both sides, when they have the same type.
macro_rules! same_dtype {
    ($src:expr, $dst:expr, ($s:ident, $d:ident) => $body:expr, else $other:expr) => {
        match ($src, $dst) {
            (Slice::F16($s), SliceMut::F16($d)) => $body,
            (Slice::BF16($s), SliceMut::BF16($d)) => $body,
            (Slice::F32($s), SliceMut::F32($d)) => $body,
            (Slice::F64($s), SliceMut::F64($d)) => $body,
            (Slice::I64($s), SliceMut::I64($d)) => $body,
            (Slice::U8($s), SliceMut::U8($d)) => $body,
            (Slice::Bool($s), SliceMut::Bool($d)) => $body,
            _ => $other,
        }
    };
}

pub(crate) use same_dtype;

/// The elements of `x` in row-major order, converted to `out`: bit for bit where that is the stored type, exact where it
/// is wider, else to nearest even.
pub fn copy(x: &View, out: DType) -> Storage {
    if out == x.data.dtype() && out == x.logical {
        return rearranged(x);
    }
    let x = rounded_once(x, out);
    match domain(&x, out) {
        Domain::F32 => copy_as::<f32>(&x, out),
        Domain::F64 => copy_as::<f64>(&x, out),
        Domain::I64 => copy_as::<i64>(&x, out),
    }
}

/// `x` as it is stored, where storing in `out` is the rounding that its logical precision asks for: a stand-alone cast of 4 M
/// F32 to BF16 that rounded first took 1.5 ms, and takes 0.43.
fn rounded_once<'a>(x: &View<'a>, out: DType) -> View<'a> {
    if x.rounds_on_load() && x.logical == out { View { logical: x.data.dtype(), ..*x } } else { *x }
}

/// Integers become 16-bit numbers at once: in F32 large ones would be rounded before that.
fn domain(x: &View, out: DType) -> Domain {
    if x.logical == DType::I64 && out.is_half() { Domain::I64 } else { Domain::of(&[x.logical, out]) }
}

fn rearranged(x: &View) -> Storage {
    let walk = Walk::new(x.layout);
    let mut output = Storage::unwritten(x.logical, x.layout.count());
    for_each_part(output.as_mut_slice(), Cost::Light, &|start, part| {
        same_dtype!(x.data, part, (src, dst) => walk.read(src, start, dst), else unreachable!("both sides have one type"));
    });
    output
}

fn copy_as<T: Compute>(x: &View, out: DType) -> Storage {
    let (source, mut output) = (Source::new(x), Storage::unwritten(out, x.layout.count()));
    for_each_part(output.as_mut_slice(), Cost::Light, &|start, mut part| match T::same_mut(&mut part) {
        Some(part) => source.fill(start, part),
        None => narrowed::<T>(&source, start, part),
    });
    output
}

/// The elements from `start` on, converted to the type of `part`.
fn narrowed<T: Compute>(source: &Source, start: usize, part: SliceMut<'_>) {
    let mut buffer = Buffer::<T>::new();
    let size = if source.is_stored::<T>() { WHOLE } else { CHUNK };
    for_each_chunk_of(size, start, part, &mut |at, chunk| {
        T::narrow(source.load_lazily(at, chunk.len(), &mut buffer), chunk);
    });
}

/// Writes the elements of `x`, converted, to the places of `dst` that `at` names; the rest of `dst` stays.
///
/// `at` has the shape of `x` and no two of its places coincide.
pub fn copy_into(x: &View, dst: &mut Storage, at: &Layout) {
    if dst.dtype() == x.data.dtype() && dst.dtype() == x.logical {
        let (from, to) = (Walk::new(x.layout), Walk::new(at));
        return same_dtype!(x.data, dst.as_mut_slice(), (src, dst) => rearrange(src, &from, dst, &to), else ());
    }
    let x = rounded_once(x, dst.dtype());
    match domain(&x, dst.dtype()) {
        Domain::F32 => copy_into_as::<f32>(&x, dst.as_mut_slice(), at),
        Domain::F64 => copy_into_as::<f64>(&x, dst.as_mut_slice(), at),
        Domain::I64 => copy_into_as::<i64>(&x, dst.as_mut_slice(), at),
    }
}

/// Copies elements of `src` in the order of `from` to their places in `dst`, on several threads where these follow one another.
///
/// Those of places that lie apart were read one at a time: joining two tensors of 2 M F32 along a new last dimension took 24 ms.
fn rearrange<E: Copy + Default + Send + Sync>(src: &[E], from: &Walk, dst: &mut [E], to: &Walk) {
    let count = to.count();
    if count < PARALLEL || !to.ascends() {
        return rearrange_part(src, from, 0..count, dst, (to, 0));
    }
    let size = PARALLEL.max(count.div_ceil(64));
    let (mut parts, mut rest, mut base) = (Vec::with_capacity(count.div_ceil(size)), dst, 0);
    for start in (0..count).step_by(size) {
        let next = if start + size < count { to.run(start + size, 1) } else { None };
        let end = next.map_or(base + rest.len(), |next| next.start);
        let (part, later) = rest.split_at_mut(end - base);
        parts.push((start..count.min(start + size), base, part));
        (rest, base) = (later, end);
    }
    distribute(parts, &|_, (elements, base, part)| rearrange_part(src, from, elements, part, (to, base)));
}

/// Some of the elements, to places of which `dst` holds those from `base` on.
fn rearrange_part<E: Copy + Default>(
    src: &[E],
    from: &Walk,
    elements: Range<usize>,
    dst: &mut [E],
    (to, base): (&Walk, usize),
) {
    let mut at = elements.start;
    to.for_each_run(at, elements.len(), |run| {
        place(src, from, at, &mut dst[run.start - base..], run);
        at += run.len;
    });
}

/// The elements of a run from `at` on in the order of `from`.
#[inline]
fn place<E: Copy + Default>(src: &[E], from: &Walk, at: usize, dst: &mut [E], run: Run) {
    match run.stride {
        1 => from.read(src, at, &mut dst[..run.len]),
        _ => place_apart(src, from, at, dst, run),
    }
}

/// Not inlined: what has a chunk on its stack takes longer to call.
#[inline(never)]
fn place_apart<E: Copy + Default>(src: &[E], from: &Walk, at: usize, dst: &mut [E], run: Run) {
    let mut room = Buffer::<E>::new();
    for start in (0..run.len).step_by(CHUNK) {
        let values = room.first(CHUNK.min(run.len - start));
        from.read(src, at + start, values);
        let places = dst[start * run.stride..].iter_mut().step_by(run.stride.max(1));
        places.zip(values).for_each(|(to, &mut value)| *to = value);
    }
}

fn copy_into_as<T: Compute>(x: &View, mut dst: SliceMut<'_>, at: &Layout) {
    let (source, walk, len) = (Source::new(x), Walk::new(at), at.count());
    let mut buffer = Buffer::<T>::new();
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
            d[run.start + i * run.stride] = v.converted();
        }
    })
}

/// `len` times `value`, rounded to `dtype`.
pub fn fill(value: f64, len: usize, dtype: DType) -> Storage {
    match dtype {
        DType::F16 => repeated(Cast::<half::f16>::converted(value), len).into(),
        DType::BF16 => repeated(Cast::<half::bf16>::converted(value), len).into(),
        DType::F32 => repeated(value as f32, len).into(),
        DType::F64 => repeated(value, len).into(),
        DType::I64 => repeated(value as i64, len).into(),
        DType::U8 => repeated(value as u8, len).into(),
        DType::Bool => repeated(value != 0.0, len).into(),
    }
}

/// Equal elements in memory from the cache: a fresh page costs more than writing it.
fn repeated<T: Pooled + Copy + Send + Sync>(value: T, len: usize) -> Block<T> {
    let mut buffer = cache::take(len);
    if len < PARALLEL {
        buffer.fill(value);
    } else {
        for_each_chunk_mut(&mut buffer, PARALLEL, &|_, part| part.fill(value));
    }
    buffer
}
