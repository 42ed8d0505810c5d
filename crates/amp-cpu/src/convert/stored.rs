//! Elements as they are stored, sixteen at a time, for kernels that compute in registers what they read from memory.

use super::Each;
use super::bits16::{NarrowBF16, NarrowF16, WidenF16};
use crate::num::Real;
use crate::scratch::Plain;
use crate::simd::{Kernel, LANES, Lanes, Simd};
use crate::storage::Element;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use half::{bf16, f16};

/// Elements of two vectors, which are rounded together.
pub(crate) const PAIR: usize = 2 * LANES;

/// A type of which elements are widened to `A` as they are read, and rounded as they are written.
pub(crate) trait Stored<A: Real>: Element + Plain {
    /// Nothing is less.
    const LOWEST: Self;

    /// Reads sixteen elements.
    fn read<S: Simd>(from: &[Self; LANES]) -> A::Lanes<S>;

    /// Reads fewer than sixteen elements; the other lanes get `rest`.
    fn read_part<S: Simd>(from: &[Self], rest: Self) -> A::Lanes<S>;

    /// Writes the lanes of two vectors.
    fn write<S: Simd>(lanes: [A::Lanes<S>; 2], to: &mut [Self; PAIR]);

    /// Reads the elements of two vectors.
    #[inline(always)]
    fn read_pair<S: Simd>(from: &[Self; PAIR]) -> [A::Lanes<S>; 2] {
        let (vectors, _) = from.as_chunks();
        [Self::read::<S>(&vectors[0]), Self::read::<S>(&vectors[1])]
    }

    /// Reads fewer elements than that; the other lanes get 0.
    #[inline(always)]
    fn read_rest<S: Simd>(from: &[Self]) -> [A::Lanes<S>; 2] {
        let (first, second) = from.split_at(from.len().min(LANES));
        [Self::read_part::<S>(first, Self::default()), Self::read_part::<S>(second, Self::default())]
    }

    /// Writes fewer elements than two vectors have.
    fn write_rest<S: Simd>(lanes: [A::Lanes<S>; 2], to: &mut [Self]);
}

macro_rules! wide {
    ($($type:ident)*) => {$(
        impl Stored<$type> for $type {
            const LOWEST: Self = $type::NEG_INFINITY;

            #[inline(always)]
            fn read<S: Simd>(from: &[Self; LANES]) -> <$type as Real>::Lanes<S> {
                Lanes::load(from)
            }

            #[inline(always)]
            fn read_part<S: Simd>(from: &[Self], rest: $type) -> <$type as Real>::Lanes<S> {
                Lanes::load_part(from, rest)
            }

            #[inline(always)]
            fn write<S: Simd>([first, second]: [<$type as Real>::Lanes<S>; 2], to: &mut [Self; PAIR]) {
                let (vectors, _) = to.as_chunks_mut();
                first.store(&mut vectors[0]);
                second.store(&mut vectors[1]);
            }

            #[inline(always)]
            fn write_rest<S: Simd>([first, second]: [<$type as Real>::Lanes<S>; 2], to: &mut [Self]) {
                let (one, two) = to.split_at_mut(to.len().min(LANES));
                first.store_part(one);
                second.store_part(two);
            }
        }
    )*};
}
wide! { f32 f64 }

macro_rules! narrow {
    ($($type:ident $widen:ident $narrow:ident)*) => {$(
        impl Stored<f32> for $type {
            const LOWEST: Self = $type::NEG_INFINITY;

            #[inline(always)]
            fn read<S: Simd>(from: &[Self; LANES]) -> S::F32 {
                let mut wide = [0.0; LANES];
                $widen(from, &mut wide).run::<S>();
                Lanes::load(&wide)
            }

            #[inline(always)]
            fn read_part<S: Simd>(from: &[Self], rest: Self) -> S::F32 {
                let all: [u16; LANES] = S::some_of_16(from.reinterpret_cast(), rest.to_bits());
                Self::read::<S>(all[..].reinterpret_cast().try_into().expect("as many"))
            }

            #[inline(always)]
            fn write<S: Simd>(lanes: [S::F32; 2], to: &mut [Self; PAIR]) {
                let mut wide = [0.0; PAIR];
                f32::write::<S>(lanes, &mut wide);
                $narrow(&wide, to).run::<S>();
            }

            #[inline(always)]
            fn write_rest<S: Simd>(lanes: [S::F32; 2], to: &mut [Self]) {
                let mut all = [Self::ZERO; PAIR];
                Self::write::<S>(lanes, &mut all);
                let bits: &[u16] = all.reinterpret_cast();
                S::store_some(bits.try_into().expect("as many"), to.reinterpret_cast_mut());
            }
        }
    )*};
}
narrow! { f16 WidenF16 NarrowF16 bf16 Each NarrowBF16 }
