//! Seeded random fills: Philox 4x32-10 with a counter, so any part of a draw can be made on its own.
//!
//! Element `i` of a draw depends on `seed` and `offset + i` alone: not on threads, chunks or the instruction set's
//! width. Every element owns one 32-bit word of a stream (F64 elements own two).

mod philox;
#[cfg(test)]
mod tests;

use crate::convert::Compute;
use crate::math::Float;
use crate::parallel::{CHUNK, Cost, for_each_chunk, for_each_part};
use crate::simd::{Kernel, Simd, dispatch};
use crate::{DType, SliceMut, Storage, fill};
use philox::Blocks;
use std::f32::consts::TAU;

const TWO_POW_32: f64 = 4_294_967_296.0;

/// Streams of words, by the third number of Philox's counter. An F64 element's words are in another block than those of an
/// F32 element at its place, and pairs of normal values may begin before their draw does: in one stream, either would repeat
/// what another draw has used.
#[derive(Clone, Copy)]
enum Stream {
    Uniform = 0,
    UniformF64 = 1,
    Normal = 2,
    NormalF64 = 3,
}

impl Stream {
    fn uniform(dtype: DType) -> Self {
        if dtype == DType::F64 { Self::UniformF64 } else { Self::Uniform }
    }

    fn normal(dtype: DType) -> Self {
        if dtype == DType::F64 { Self::NormalF64 } else { Self::Normal }
    }
}

/// `len` values of the uniform distribution on `[low, high)`, computed in F64 from 24 random bits (53 for F64).
///
/// A value that would round to `high` becomes the one before it.
pub fn random_uniform(seed: u64, offset: u64, low: f64, high: f64, len: usize, dtype: DType) -> Storage {
    let last = uniform_last(low, high, dtype);
    let range = Range { low, width: high - low, last };
    draw((seed, Stream::uniform(dtype)), offset, len, dtype, |words, chunk| {
        let mut values = [0.0; CHUNK];
        let values = &mut values[..chunk.len()];
        match words {
            Words::Single(words) => dispatch(Uniform { words, range, values }),
            Words::Double(words) => values.iter_mut().zip(words).for_each(|(v, w)| *v = range.at(unit_53(*w))),
        }
        f64::narrow(values, chunk);
    })
}

/// The largest value that [`random_uniform`] gives.
pub fn uniform_last(low: f64, high: f64, dtype: DType) -> f64 {
    before(high, dtype).max(low)
}

/// `len` values of the normal distribution by Box-Muller, computed in F32 (F64 for F64) and rounded to `dtype`.
pub fn random_normal(seed: u64, offset: u64, mean: f64, std: f64, len: usize, dtype: DType) -> Storage {
    // An even element and the odd one after it share a radius and an angle.
    let even = offset & !1;
    let skip = (offset - even) as usize;
    let of = (seed, Stream::normal(dtype));
    let whole = draw(of, even, (len + skip).next_multiple_of(2), dtype, |words, chunk| match words {
        Words::Single(words) => {
            let mut values = [0.0; CHUNK];
            let values = &mut values[..chunk.len()];
            dispatch(Normal { words, mean: mean as f32, std: std as f32, values });
            f32::narrow(values, chunk);
        }
        Words::Double(words) => {
            let mut values = [0.0; CHUNK];
            let values = &mut values[..chunk.len()];
            for (pair, w) in values.chunks_exact_mut(2).zip(words.chunks_exact(2)) {
                let radius = std * (-2.0 * (1.0 - unit_53(w[0])).ln()).sqrt();
                let (sin, cos) = (std::f64::consts::TAU * unit_53(w[1])).sin_cos();
                pair.copy_from_slice(&[mean + radius * cos, mean + radius * sin]);
            }
            f64::narrow(values, chunk);
        }
    });
    cut(whole, skip, len)
}

/// `len` truth values, each true with probability `keep`.
pub fn random_mask(seed: u64, offset: u64, keep: f64, len: usize) -> Storage {
    let threshold = (keep.clamp(0.0, 1.0) * TWO_POW_32) as u64;
    draw((seed, Stream::Uniform), offset, len, DType::Bool, |words, chunk| {
        if let (Words::Single(words), SliceMut::Bool(mask)) = (words, chunk) {
            dispatch(Below { words, threshold, mask });
        }
    })
}

/// The random words of one chunk, one or two for each element.
enum Words<'a> {
    Single(&'a [u32]),
    Double(&'a [[u32; 2]]),
}

/// Lets `f` turn the words of every chunk into elements.
fn draw(
    (seed, stream): (u64, Stream),
    offset: u64,
    len: usize,
    dtype: DType,
    f: impl Fn(Words<'_>, &mut SliceMut<'_>) + Sync,
) -> Storage {
    /// A chunk's F64 words, and the rest of the block in which it starts.
    const BLOCKS: usize = CHUNK / 2 + 1;
    let mut out = Storage::unwritten(dtype, len);
    let per_block: u64 = if dtype == DType::F64 { 2 } else { 4 };
    for_each_part(out.as_mut_slice(), Cost::Heavy, &|start, part| {
        let mut blocks = [[0; 4]; BLOCKS];
        for_each_chunk(start, part, &mut |at, chunk| {
            let element = offset.wrapping_add(at as u64);
            let skip = (element % per_block) as usize;
            let words = &mut blocks[..(skip + chunk.len()).div_ceil(per_block as usize)];
            dispatch(Blocks { seed, stream: stream as u32, first: element / per_block, words });
            let flat = words.as_flattened();
            let words = match dtype {
                DType::F64 => Words::Double(&flat.as_chunks().0[skip..][..chunk.len()]),
                _ => Words::Single(&flat[skip..][..chunk.len()]),
            };
            f(words, chunk);
        });
    });
    out
}

/// Elements `skip..skip + len`.
fn cut(mut whole: Storage, skip: usize, len: usize) -> Storage {
    macro_rules! cut {
        ($($tag:ident),*) => { match &mut whole { $(Storage::$tag(v) => {
            v.copy_within(skip..skip + len, 0);
            v.shorten(len);
        })* } };
    }
    cut!(F16, BF16, F32, F64, I64, U8, Bool);
    whole
}

/// The greatest value of `dtype` below `high`, or `high` where that is unknown.
fn before(high: f64, dtype: DType) -> f64 {
    let step = |v: f64, next_down: f64| if v >= high { next_down } else { v };
    match fill(high, 1, dtype) {
        Storage::F16(v) => step(v[0].to_f64(), below_f16(v[0]).to_f64()),
        Storage::BF16(v) => step(v[0].to_f64(), below_bf16(v[0]).to_f64()),
        Storage::F32(v) => step(v[0].into(), v[0].next_down().into()),
        Storage::F64(v) => v[0].next_down(),
        Storage::I64(_) | Storage::U8(_) | Storage::Bool(_) => high,
    }
}

macro_rules! below {
    ($($name:ident, $type:ty;)*) => { $(
        fn $name(v: $type) -> $type {
            let bits = v.to_bits();
            match bits & 0x7fff {
                0 => <$type>::from_bits(0x8001),
                _ if v.is_sign_negative() => <$type>::from_bits(bits + 1),
                _ => <$type>::from_bits(bits - 1),
            }
        }
    )* };
}
below! { below_f16, half::f16; below_bf16, half::bf16; }

#[inline(always)]
fn unit_53([high, low]: [u32; 2]) -> f64 {
    ((u64::from(high) << 32 | u64::from(low)) >> 11) as f64 / (1u64 << 53) as f64
}

#[derive(Clone, Copy)]
struct Range {
    low: f64,
    width: f64,
    last: f64,
}

impl Range {
    #[inline(always)]
    fn at(self, unit: f64) -> f64 {
        let value = self.low + unit * self.width;
        if value > self.last { self.last } else { value }
    }
}

struct Uniform<'a> {
    words: &'a [u32],
    range: Range,
    values: &'a mut [f64],
}

impl Kernel for Uniform<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        for (v, &word) in self.values.iter_mut().zip(self.words) {
            *v = self.range.at(f64::from(word >> 8) / f64::from(1 << 24));
        }
    }
}

struct Normal<'a> {
    words: &'a [u32],
    mean: f32,
    std: f32,
    values: &'a mut [f32],
}

impl Kernel for Normal<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { words, mean, std, values } = self;
        const UNIT: f32 = (1.0 / TWO_POW_32) as f32;
        for (pair, w) in values.as_chunks_mut::<2>().0.iter_mut().zip(words.as_chunks::<2>().0) {
            let radius = std * Float::sqrt(-2.0 * Float::ln::<S>((!w[0] as f32 + 0.5) * UNIT));
            // Half a turn either way: the word as a signed number keeps the angle's last bits.
            let angle = TAU * UNIT * (w[1] as i32) as f32;
            *pair = [mean + radius * Float::cos::<S>(angle), mean + radius * Float::sin::<S>(angle)];
        }
    }
}

struct Below<'a> {
    words: &'a [u32],
    threshold: u64,
    mask: &'a mut [bool],
}

impl Kernel for Below<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        for (m, &word) in self.mask.iter_mut().zip(self.words) {
            *m = u64::from(word) < self.threshold;
        }
    }
}
