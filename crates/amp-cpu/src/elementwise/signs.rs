//! Which elements `relu` makes 0, a bit each: what its gradient needs of a tensor that nobody else keeps.

use super::Domain;
use super::stream::{Body, chunked, stream};
use crate::buffer::{Buffer, memory};
use crate::convert::Compute;
use crate::math::Float;
use crate::parallel::{CHUNK, Cost, for_each_chunk_of, for_each_part};
use crate::simd::{Kernel, LANES, Lanes, Level, Simd, dispatch};
use crate::source::Source;
use crate::{DType, SliceMut, Storage, View};

/// Elements of a byte.
const BITS: usize = 8;

/// Where `x` is 0 or less: a bit for each element in row-major order, eight in a U8, the first one lowest.
pub fn dead(x: &View) -> Storage {
    if Domain::of(&[x.logical]) == Domain::F64 { bits::<f64>(x) } else { bits::<f32>(x) }
}

/// `grad` in precision `out`, and 0 where [`dead`] has a bit.
pub fn alive(dead: &[u8], grad: &View, out: DType) -> Storage {
    match Domain::of(&[grad.logical, out]) {
        Domain::F64 => chunked::<f64, 1>([grad], out, Cost::Light, Alive(dead)),
        _ => stream([grad], out, Cost::Light, Alive(dead)),
    }
}

fn bits<T: Compute + Float>(x: &View) -> Storage {
    let (source, count) = (Source::new(x), x.layout.count());
    let mut output = Storage::unwritten(DType::U8, count.div_ceil(BITS));
    // A byte costs eight elements.
    for_each_part(output.as_mut_slice(), Cost::Heavy, &|start, part| {
        let mut loaded = memory();
        let mut loaded = Buffer::new(&mut loaded);
        for_each_chunk_of(CHUNK / BITS, start, part, &mut |at, chunk| {
            let len = (chunk.len() * BITS).min(count - at * BITS);
            let x = source.load_lazily::<T>(at * BITS, len, &mut loaded);
            if let SliceMut::U8(bits) = chunk {
                dispatch(Pack { x, bits });
            }
        });
    });
    output
}

/// Up to [`CHUNK`] elements.
struct Pack<'a, T> {
    x: &'a [T],
    bits: &'a mut [u8],
}

impl<T: Float> Kernel for Pack<'_, T> {
    type Output = ();
    const WIDEST: Level = T::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        pack_dead(self.x, self.bits);
    }
}

/// The bits of `x`, from that of its first element on, as far as there is room.
#[inline(always)]
fn pack_dead<T: Float>(x: &[T], bits: &mut [u8]) {
    /// Brings the lowest bit of each of eight bytes into the highest byte, in order; no two sums of places are equal.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    for (x, bits) in x.chunks(CHUNK).zip(bits.chunks_mut(CHUNK / BITS)) {
        let mut dead = [0; CHUNK];
        dead.iter_mut().zip(x).for_each(|(dead, &x)| *dead = u8::from(x <= T::of(0.0)));
        for (bits, &eight) in bits.iter_mut().zip(dead.as_chunks().0) {
            *bits = (u64::from_le_bytes(eight).wrapping_mul(GATHER) >> 56) as u8;
        }
    }
}

/// `x`, and 0 where there is a bit.
#[derive(Clone, Copy)]
struct Alive<'a>(&'a [u8]);

impl Body<f32, 1> for Alive<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, at: usize, [x]: [&[f32]; 1], y: &mut [f32]) {
        let dead = &self.0[at / BITS..];
        let ((x, x_rest), (y, y_rest), (bits, _)) = (x.as_chunks(), y.as_chunks_mut(), dead.as_chunks());
        for ((y, x), &bits) in y.iter_mut().zip(x).zip(bits) {
            S::F32::load(x).without(u16::from_le_bytes(bits)).store(y);
        }
        one_by_one(&dead[x.len() * LANES / BITS..], x_rest, y_rest);
    }
}

impl Body<f64, 1> for Alive<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, at: usize, [x]: [&[f64]; 1], y: &mut [f64]) {
        one_by_one(&self.0[at / BITS..], x, y);
    }
}

#[inline(always)]
fn one_by_one<T: Float>(dead: &[u8], x: &[T], y: &mut [T]) {
    for (i, (y, &x)) in y.iter_mut().zip(x).enumerate() {
        *y = if dead[i / BITS] >> (i % BITS) & 1 == 0 { x } else { T::of(0.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::{alive, dead};
    use crate::testing::Random;
    use crate::{DType, Dims, Layout, Storage, View, with_num_threads};

    #[test]
    fn every_bit_is_where_its_element_is_not_above_zero() {
        let mut random = Random::new(41);
        for len in [0, 1, 7, 8, 9, 1023, 1024, 1031, 40_000, 400_001] {
            let tensor = random.tensor(&[len], DType::F32);
            let Storage::F32(mut x) = tensor.storage.clone() else { unreachable!("asked for F32") };
            let odd = [f32::NAN, -0.0, 0.0, 1e-45, -1e-45, f32::INFINITY, f32::NEG_INFINITY];
            x.iter_mut().zip(odd).for_each(|(x, odd)| *x = odd);
            let layout = Layout::contiguous(Dims::new(&[len]).expect("one dimension"));
            let storage = Storage::F32(x);
            let view = View { data: storage.as_slice(), layout: &layout, logical: DType::F32 };
            let (Storage::U8(bits), Storage::F32(x)) = (dead(&view), &storage) else { unreachable!("bits are bytes") };
            assert_eq!(bits.len(), len.div_ceil(8));
            let is_dead = |i: usize| bits[i / 8] >> (i % 8) & 1 == 1;
            assert!((0..len).all(|i| is_dead(i) == (x[i] <= 0.0)), "{len}");
            let grads = [DType::BF16, DType::F32].map(|dtype| random.tensor(&[len], dtype));
            let to = [(0, DType::F32), (0, DType::BF16), (0, DType::F64), (1, DType::F32)];
            for (grad, out) in to.map(|(grad, out)| (&grads[grad], out)) {
                let all = crate::copy(&grad.view(), DType::F64);
                let kept = alive(&bits, &grad.view(), out);
                assert_eq!(kept, with_num_threads(1, || alive(&bits, &grad.view(), out)));
                let view = View { data: kept.as_slice(), layout: &layout, logical: out };
                let (Storage::F64(all), Storage::F64(kept)) = (all, crate::copy(&view, DType::F64)) else {
                    unreachable!("asked for F64")
                };
                assert!((0..len).all(|i| kept[i] == if is_dead(i) { 0.0 } else { all[i] }), "{len} {out:?}");
            }
            let rounded = crate::copy(&grads[1].view(), DType::BF16);
            let rounded = View { data: rounded.as_slice(), layout: &layout, logical: DType::BF16 };
            assert_eq!(alive(&bits, &grads[1].view(), DType::BF16), alive(&bits, &rounded, DType::BF16), "{len}");
        }
    }
}
