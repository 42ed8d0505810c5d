//! Which elements `relu` makes 0, a bit each: what its gradient needs of a tensor that nobody else keeps.

use super::Domain;
use super::stream::{Body, WHOLE, stream};
use crate::buffer::Buffer;
use crate::lockstep::{BLOCK, Elements, memory, rooms};
use crate::num::{Real, in_real};
use crate::parallel::{CHUNK, Cost, for_each_chunk_of, for_each_part};
use crate::simd::{Kernel, LANES, Lanes, Level, Simd, dispatch};
use crate::source::Source;
use crate::{DType, SliceMut, Storage, View};

/// Elements of a byte.
const BITS: usize = 8;

/// Where `x` is 0 or less: a bit for each element in row-major order, eight in a U8, the first one lowest.
pub fn dead(x: &View) -> Storage {
    let (source, count) = (Source::new(x), x.layout.count());
    let mut output = Storage::unwritten(DType::U8, count.div_ceil(BITS));
    in_real!(x.logical, A => {
        let size = if source.in_place::<A>(0, 0).is_some() { usize::MAX } else { CHUNK / BITS };
        // A byte costs eight elements.
        for_each_part(output.as_mut_slice(), Cost::Heavy, &|start, part| {
            let mut room = Buffer::new();
            for_each_chunk_of(size, start, part, &mut |at, chunk| {
                let len = (chunk.len() * BITS).min(count - at * BITS);
                if let SliceMut::U8(bits) = chunk {
                    dispatch(Pack { x: source.elements::<A>(at * BITS, len, &mut room), bits });
                }
            });
        });
    });
    output
}

/// `grad` in precision `out`, and 0 where [`dead`] has a bit.
pub fn alive(dead: &[u8], grad: &View, out: DType) -> Storage {
    match Domain::of(&[grad.logical, out]) {
        Domain::F64 => stream::<f64, 1>([grad], out, Cost::Light, Alive(dead)),
        _ => stream::<f32, 1>([grad], out, Cost::Light, Alive(dead)),
    }
}

struct Pack<'a, A> {
    x: Elements<'a, A>,
    bits: &'a mut [u8],
}

impl<A: Real> Kernel for Pack<'_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let (mut memory, size) = (memory(), if self.x.is_wide() { WHOLE } else { BLOCK });
        let [room] = rooms(&mut memory, self.x.len());
        for (i, bits) in self.bits.chunks_mut(size / BITS).enumerate() {
            let n = size.min(self.x.len() - i * size);
            pack::<S, A>(self.x.block::<S>(i * size, n, room), bits);
        }
    }
}

/// The bits of `x`, from that of its first element on.
#[inline(always)]
fn pack<S: Simd, A: Real>(x: &[A], bits: &mut [u8]) {
    let ((x, rest), (bits, last)) = (x.as_chunks(), bits.split_at_mut(x.len() / LANES * (LANES / BITS)));
    for (x, bits) in x.iter().zip(bits.as_chunks_mut().0) {
        *bits = A::Lanes::<S>::load(x).dead().to_le_bytes();
    }
    let dead = A::Lanes::<S>::load_part(rest, A::ONE).dead().to_le_bytes();
    last.iter_mut().zip(dead).for_each(|(bits, dead)| *bits = dead);
}

/// `x`, and 0 where there is a bit.
#[derive(Clone, Copy)]
struct Alive<'a>(&'a [u8]);

impl<A: Real> Body<A, 1> for Alive<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, at: usize, [x]: [&[A]; 1], y: &mut [A]) {
        mask::<S, A>(self.0, at, x, y);
    }
}

/// `to ← x`, and 0 where there is a bit in `dead`, of which the first has number `at`.
///
/// Bits are masks of vectors: made bytes first, they took as long as all else in the gradients of a batch norm of 128 channels
/// of 16 by 16.
#[inline(always)]
pub(crate) fn mask<S: Simd, A: Real>(dead: &[u8], at: usize, x: &[A], to: &mut [A]) {
    let (bytes, skipped) = (&dead[at / BITS..], at % BITS);
    let ((x, x_rest), (to, to_rest)) = (x.as_chunks(), to.as_chunks_mut());
    let done = at + x.len() * LANES;
    if skipped == 0 {
        for ((x, to), &bits) in x.iter().zip(to).zip(bytes.as_chunks().0) {
            A::Lanes::<S>::load(x).without(u16::from_le_bytes(bits)).store(to);
        }
    } else {
        // The last bits of sixteen are in a third byte.
        for ((x, to), bits) in x.iter().zip(to).zip(bytes.windows(3).step_by(2)) {
            let bits = u32::from_le_bytes([bits[0], bits[1], bits[2], 0]) >> skipped;
            A::Lanes::<S>::load(x).without(bits as u16).store(to);
        }
    }
    for (i, (&x, to)) in (done..).zip(x_rest.iter().zip(to_rest)) {
        *to = if dead[i / BITS] >> (i % BITS) & 1 == 0 { x } else { A::ZERO };
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
