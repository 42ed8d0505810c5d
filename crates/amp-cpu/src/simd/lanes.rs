//! Sixteen elements at once, in the level's own registers.
//!
//! LLVM turns plain loops over slices into vectors, but what a loop carries from one element to the next (a sum, a
//! maximum) it keeps in memory as often as not: a row's maximum took ten times as long as reading the row. Kernels that
//! carry something are written with [`Lanes`].

#[cfg(target_arch = "x86_64")]
mod x86;

use super::Simd;
use crate::math::Float;
use std::marker::PhantomData;
use std::ops::{Add, Mul, Sub};
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Wide256, Wide512};

/// Elements of one [`Lanes`], the same at every level.
pub(crate) const LANES: usize = 16;

/// Sixteen elements that are computed with together.
pub(crate) trait Lanes<A: Float>: Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> {
    /// The same element in every lane.
    fn splat(value: A) -> Self;

    /// Reads sixteen elements.
    fn load(from: &[A; LANES]) -> Self;

    /// Writes all lanes.
    fn store(self, to: &mut [A; LANES]);

    /// `self * b + c`, fused where that is one instruction.
    fn mul_add(self, b: Self, c: Self) -> Self;

    /// The greater of each two; either where one is NaN.
    fn greater(self, other: Self) -> Self;

    /// The greater of each two; NaN where one of them is.
    #[inline(always)]
    #[expect(clippy::eq_op, reason = "only NaN differs from itself")]
    fn greatest(self, other: Self) -> Self {
        let (a, b) = (self.array(), other.array());
        Self::load(&std::array::from_fn(|i| if (b[i] > a[i]) | (b[i] != b[i]) { b[i] } else { a[i] }))
    }

    /// The lesser of each two; NaN where one of them is.
    #[inline(always)]
    #[expect(clippy::eq_op, reason = "only NaN differs from itself")]
    fn least(self, other: Self) -> Self {
        let (a, b) = (self.array(), other.array());
        Self::load(&std::array::from_fn(|i| if (b[i] < a[i]) | (b[i] != b[i]) { b[i] } else { a[i] }))
    }

    /// In each lane `other` and the second mark where it is greater or NaN; else the lane itself and the first mark.
    #[inline(always)]
    #[expect(clippy::eq_op, reason = "only NaN differs from itself")]
    fn outdone(self, other: Self, marks: [Self; 2]) -> [Self; 2] {
        let [mut best, other, mut mark, other_mark] = [self, other, marks[0], marks[1]].map(Self::array);
        for i in 0..LANES {
            let greater = (other[i] > best[i]) | (other[i] != other[i]);
            best[i] = if greater { other[i] } else { best[i] };
            mark[i] = if greater { other_mark[i] } else { mark[i] };
        }
        [Self::load(&best), Self::load(&mark)]
    }

    /// `e^x` to 1.5 ulp.
    fn exp(self) -> Self;

    /// The same where no `x` is +inf, if that is less work.
    #[inline(always)]
    fn exp_below(self) -> Self {
        self.exp()
    }

    /// The first and every second one after it of these and the lanes that follow.
    #[inline(always)]
    fn evens(self, next: Self) -> Self {
        let all = [self.array(), next.array()];
        Self::load(&std::array::from_fn(|i| all.as_flattened()[2 * i]))
    }

    /// In each lane, the lane whose number differs in the bit `width`: 8, 4, 2 or 1.
    #[inline(always)]
    fn swapped(self, width: usize) -> Self {
        let all = self.array();
        Self::load(&std::array::from_fn(|i| all[i ^ width]))
    }

    /// 0 in the lanes that have a bit, the lowest for the first.
    #[inline(always)]
    fn without(self, bits: u16) -> Self {
        let (all, zero) = (self.array(), A::of(0.0));
        Self::load(&std::array::from_fn(|lane| if bits & 1 << lane == 0 { all[lane] } else { zero }))
    }

    /// A bit for each lane that is 0 or less, the lowest for the first.
    #[inline(always)]
    fn dead(self) -> u16 {
        let all = self.array();
        (0..LANES).fold(0, |bits, lane| bits | u16::from(all[lane] <= A::of(0.0)) << lane)
    }

    /// Reads fewer than sixteen elements; the other lanes get `rest`.
    #[inline(always)]
    fn load_part(from: &[A], rest: A) -> Self {
        let mut all = [rest; LANES];
        all[..from.len()].copy_from_slice(from);
        Self::load(&all)
    }

    /// Writes the first lanes.
    #[inline(always)]
    fn store_part(self, to: &mut [A]) {
        to.copy_from_slice(&self.array()[..to.len()]);
    }

    /// Reads sixteen elements, or all where there are fewer; the other lanes get 0.
    #[inline(always)]
    fn load_up_to(from: &[A]) -> Self {
        match from.first_chunk() {
            Some(all) => Self::load(all),
            None => Self::load_part(from, A::of(0.0)),
        }
    }

    /// Writes all lanes, or as many as there is room for.
    #[inline(always)]
    fn store_up_to(self, to: &mut [A]) {
        match to.first_chunk_mut() {
            Some(all) => self.store(all),
            None => self.store_part(to),
        }
    }

    /// All lanes.
    #[inline(always)]
    fn array(self) -> [A; LANES] {
        let mut all = [A::default(); LANES];
        self.store(&mut all);
        all
    }
}

/// Lanes as the compiler sees fit: for the portable level, and for F64.
#[derive(Clone, Copy)]
pub(crate) struct Array<A, S>([A; LANES], PhantomData<S>);

impl<A: Float, S: Simd> Array<A, S> {
    #[inline(always)]
    fn map(self, f: impl Fn(A) -> A) -> Self {
        Self(self.0.map(f), PhantomData)
    }

    #[inline(always)]
    fn zip(mut self, other: Self, f: impl Fn(A, A) -> A) -> Self {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a = f(*a, b));
        self
    }
}

macro_rules! operators {
    ($($trait:ident $name:ident $op:tt;)*) => {$(
        impl<A: Float, S: Simd> $trait for Array<A, S> {
            type Output = Self;

            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                self.zip(other, |a, b| a $op b)
            }
        }
    )*};
}
operators! { Add add +; Sub sub -; Mul mul *; }

impl<A: Float, S: Simd> Lanes<A> for Array<A, S> {
    #[inline(always)]
    fn splat(value: A) -> Self {
        Self([value; LANES], PhantomData)
    }

    #[inline(always)]
    fn load(from: &[A; LANES]) -> Self {
        Self(*from, PhantomData)
    }

    #[inline(always)]
    fn store(self, to: &mut [A; LANES]) {
        *to = self.0;
    }

    #[inline(always)]
    fn mul_add(self, b: Self, c: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i].mul_add::<S>(b.0[i], c.0[i])), PhantomData)
    }

    #[inline(always)]
    fn greater(self, other: Self) -> Self {
        self.zip(other, |a, b| if b > a { b } else { a })
    }

    #[inline(always)]
    fn exp(self) -> Self {
        self.map(|x| x.exp::<S>())
    }
}

#[cfg(test)]
mod tests {
    use crate::simd::{Kernel, LANES, Lanes, Level, Simd, dispatch_at};

    /// The greater of two vectors, each loaded from fewer elements.
    struct Greater<'a>(&'a [f32], &'a [f32]);

    impl Kernel for Greater<'_> {
        type Output = [f32; LANES];

        #[inline(always)]
        fn run<S: Simd>(self) -> [f32; LANES] {
            let mut all = [7.0; LANES];
            S::F32::load_part(self.0, -1.0).greater(Lanes::load_part(self.1, 2.0)).store_part(&mut all[..LANES - 1]);
            all
        }
    }

    /// What stays of elements and their marks when others come.
    struct Outdone<'a>([&'a [f32; LANES]; 2]);

    impl Kernel for Outdone<'_> {
        type Output = [[f32; LANES]; 2];

        #[inline(always)]
        fn run<S: Simd>(self) -> [[f32; LANES]; 2] {
            let marks = [1.0, 2.0].map(S::F32::splat);
            S::F32::load(self.0[0]).outdone(Lanes::load(self.0[1]), marks).map(Lanes::array)
        }
    }

    #[test]
    fn what_is_greater_or_nan_outdoes() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        let cases =
            [(1.0, 2.0, 2.0), (2.0, 1.0, 1.0), (0.0, -0.0, 1.0), (-0.0, 0.0, 1.0), (nan, 1.0, 1.0), (1.0, nan, 2.0)];
        let rare = [(nan, nan, 2.0), (-inf, -inf, 1.0), (-inf, -1.0, 2.0), (nan, inf, 1.0), (inf, nan, 2.0)];
        for turn in 0..LANES {
            let each: [_; LANES] = std::array::from_fn(|i| cases.iter().chain(&rare).cycle().nth(i + turn).copied());
            let each = each.map(|case| case.expect("without end"));
            for level in Level::ALL.into_iter().filter(|level| *level <= Level::best()) {
                let [best, mark] = dispatch_at(level, Outdone([&each.map(|case| case.0), &each.map(|case| case.1)]));
                let expected = each.map(|(a, b, mark)| if mark == 1.0 { a } else { b }.to_bits());
                assert_eq!((best.map(f32::to_bits), mark), (expected, each.map(|case| case.2)), "{level:?}");
            }
        }
    }

    /// The greater and the lesser of each two.
    struct Extremes<'a>([&'a [f32; LANES]; 2]);

    impl Kernel for Extremes<'_> {
        type Output = [[f32; LANES]; 2];

        #[inline(always)]
        fn run<S: Simd>(self) -> [[f32; LANES]; 2] {
            let [a, b] = self.0.map(S::F32::load);
            [a.greatest(b), a.least(b)].map(Lanes::array)
        }
    }

    #[test]
    fn nan_is_both_the_greatest_and_the_least() {
        let all = [f32::NAN, 1.0, f32::INFINITY, 0.0, -0.0, -1.5, f32::NEG_INFINITY, 2.0];
        for (turn, level) in (0..8).flat_map(|turn| Level::ALL.map(|level| (turn, level))) {
            if level > Level::best() {
                continue;
            }
            let a: [f32; LANES] = std::array::from_fn(|i| all[i % 8]);
            let b: [f32; LANES] = std::array::from_fn(|i| all[(i + turn) % 8]);
            let [greatest, least] = dispatch_at(level, Extremes([&a, &b])).map(|found| found.map(f32::to_bits));
            for i in 0..LANES {
                let expected = |second: bool| if second || b[i].is_nan() { b[i] } else { a[i] }.to_bits();
                assert_eq!(greatest[i], expected(b[i] > a[i]), "{level:?}: {} and {}", a[i], b[i]);
                assert_eq!(least[i], expected(b[i] < a[i]), "{level:?}: {} and {}", a[i], b[i]);
            }
        }
    }

    /// Sixteen elements with each bit of their places turned.
    struct Swapped<'a>(&'a [f32; LANES]);

    impl Kernel for Swapped<'_> {
        type Output = [[f32; LANES]; 4];

        #[inline(always)]
        fn run<S: Simd>(self) -> [[f32; LANES]; 4] {
            let all = S::F32::load(self.0);
            [all.swapped(1).array(), all.swapped(2).array(), all.swapped(4).array(), all.swapped(8).array()]
        }
    }

    #[test]
    fn lanes_change_places_with_those_a_power_of_two_away() {
        let numbers = std::array::from_fn(|i| i as f32);
        for level in Level::ALL.into_iter().filter(|level| *level <= Level::best()) {
            let expected = [1, 2, 4, 8].map(|width| numbers.map(|n| (n as usize ^ width) as f32));
            assert_eq!(dispatch_at(level, Swapped(&numbers)), expected, "{level:?}");
        }
    }

    /// Numbers from 1 on, and 0 where there is a bit.
    struct Without(u16);

    impl Kernel for Without {
        type Output = [f32; LANES];

        #[inline(always)]
        fn run<S: Simd>(self) -> [f32; LANES] {
            S::F32::load(&std::array::from_fn(|i| i as f32 + 1.0)).without(self.0).array()
        }
    }

    #[test]
    fn lanes_with_a_bit_are_left_out() {
        for level in Level::ALL.into_iter().filter(|level| *level <= Level::best()) {
            for bits in [0, 1, 0x8000, 0xffff, 0x1234] {
                let expected = std::array::from_fn(|i| if bits >> i & 1 == 0 { i as f32 + 1.0 } else { 0.0 });
                assert_eq!(dispatch_at(level, Without(bits)), expected, "{level:?}: {bits:x}");
            }
        }
    }

    #[test]
    fn the_greater_of_numbers_is_found_and_parts_are_filled() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        let (left, right) = ([nan, 1.0, -inf, 4.0, nan, -0.5], [3.0, nan, -inf, inf, nan]);
        for level in Level::ALL.into_iter().filter(|level| *level <= Level::best()) {
            let found = dispatch_at(level, Greater(&left, &right));
            let expected = [3.0, 1.0, -inf, inf, nan, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 7.0];
            for (i, (f, e)) in found.iter().zip(&expected).enumerate() {
                let nan = [left.get(i), right.get(i)].into_iter().flatten().any(|v| v.is_nan());
                assert!(f == e || f.is_nan() && nan, "{level:?}: {found:?}");
            }
        }
    }
}
