//! The innermost loops of convolutions: tiles of sums held in registers, operands read where they lie.
//!
//! Both kernels have one side packed as panels and read the other as vectors of a pixel's channels, at an offset for each
//! pixel ([`super::planes`]): a patch is never copied. As in [`crate::gemm::kernel`] there is one algorithm over a
//! minimal trait, and each term goes through a fused multiply-add (a BF16 dot product of two) in a fixed order.

use crate::gemm::{
    self,
    kernel::{Multiply, Vector},
};
use crate::simd::Level;
use half::bf16;

/// Elements that are neighbours in the scratch plane: a part of a patch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Run {
    /// Distance from the pixel.
    pub at: usize,
    /// Number of elements.
    pub len: usize,
}

/// Multiplies the patches of as many pixels as a tile has rows by one panel: `c (+)= patches · panel`.
///
/// A patch is the elements `data[pixel + run.at..][..run.len]` of all runs in turn; every length is a multiple of the
/// kernel's group. The panel has the kernel's columns for each of these elements, grouped.
///
/// # Safety
/// The pointers must be valid for those elements, `c` for the writes of rows `stride` apart, and the CPU must have the
/// kernel's instructions.
pub(super) type Patches<E> = unsafe fn(
    data: *const E,
    pixels: &[usize],
    runs: &[Run],
    panel: *const E,
    c: *mut <E as Multiply>::Sum,
    stride: usize,
    accumulate: bool,
);

/// Multiplies one panel of slopes by the vectors that begin at each pixel: `c (+)= slopesᵀ · vectors`.
///
/// The panel has the kernel's rows for each pixel, grouped; the vectors are as long as the kernel has columns.
///
/// # Safety
/// As [`Patches`].
pub(super) type Slopes<E> = unsafe fn(
    panel: *const E,
    data: *const E,
    pixels: &[usize],
    c: *mut <E as Multiply>::Sum,
    stride: usize,
    accumulate: bool,
);

/// The kernels of an instruction set.
#[derive(Clone, Copy)]
pub(super) struct Kernel<E: Multiply> {
    /// Rows of a tile.
    pub rows: usize,
    /// Columns of a tile.
    pub columns: usize,
    /// Neighbours along the sum that lie together in a panel of columns.
    pub group: usize,
    /// What sums are padded to a multiple of.
    pub step: usize,
    /// Terms that are summed before the next tile: a panel of that depth fits the L1 cache.
    pub depth: usize,
    /// How the other side is read.
    pub reading: Reading<E>,
}

/// How a tile's code reads the side that lies in a scratch plane.
#[derive(Clone, Copy)]
pub(super) enum Reading<E: Multiply> {
    /// Where it lies.
    Direct(Patches<E>, Slopes<E>),
    /// From panels, as matrix products do: for instructions that want whole rows.
    Packed(gemm::kernel::Kernel<E>),
}

impl<E: Multiply> Kernel<E> {
    /// The tiles of matrix products.
    pub(super) fn packed(gemm: gemm::kernel::Kernel<E>) -> Self {
        let (left, right) = (gemm.left, gemm.right);
        let reading = Reading::Packed(gemm);
        Self { rows: left.width, columns: right.width, group: right.group, step: left.step, depth: gemm.depth, reading }
    }
}

/// Types that convolutions multiply.
pub(super) trait Convolve: Multiply {
    /// The kernels of an instruction set, or of the best this machine has if that is less.
    fn convolve(level: Level) -> Kernel<Self>;
}

/// A register full of sums and what is multiplied into it.
trait Lanes {
    type Element: Copy;
    type Sum: Copy;
    /// [`Self::GROUP`] elements for each lane.
    type Factors: Copy;
    type Sums: Copy;
    const LANES: usize;
    const GROUP: usize;

    /// # Safety
    /// The CPU must have the vector's instructions; a group must be readable.
    unsafe fn splat(group: *const Self::Element) -> Self::Factors;
    /// # Safety
    /// The CPU must have the vector's instructions; a group for each lane must be readable.
    unsafe fn load(from: *const Self::Element) -> Self::Factors;
    /// Two registers of which each lane holds an element of every pixel, zero where there are fewer than a group.
    ///
    /// # Safety
    /// The CPU must have the vector's instructions; two registers' lanes must be readable from each pixel.
    unsafe fn of_pixels(data: *const Self::Element, pixels: &[usize]) -> [Self::Factors; 2];
    /// # Safety
    /// The CPU must have the vector's instructions.
    unsafe fn multiply_add(a: Self::Factors, b: Self::Factors, c: Self::Sums) -> Self::Sums;
    /// # Safety
    /// The CPU must have the vector's instructions.
    unsafe fn zero() -> Self::Sums;
    /// # Safety
    /// The CPU must have the vector's instructions; all lanes must be readable.
    unsafe fn read(from: *const Self::Sum) -> Self::Sums;
    /// # Safety
    /// The CPU must have the vector's instructions; all lanes must be writable.
    unsafe fn write(sums: Self::Sums, to: *mut Self::Sum);
}

/// # Safety
/// As [`Patches`].
#[inline(always)]
unsafe fn patches<L: Lanes, const ROWS: usize>(
    data: *const L::Element,
    pixels: &[usize],
    runs: &[Run],
    panel: *const L::Element,
    c: *mut L::Sum,
    stride: usize,
    accumulate: bool,
) {
    let pixels: &[usize; ROWS] = pixels.try_into().expect("a pixel for each row");
    // SAFETY: reads stay inside the runs of these pixels and inside the panel, writes inside the tile (caller).
    unsafe {
        let mut sums = begin::<L, ROWS>(c, stride, accumulate);
        let mut panel = panel;
        for run in runs {
            let rows: [*const L::Element; ROWS] = pixels.map(|pixel| data.add(pixel + run.at));
            for d in (0..run.len).step_by(L::GROUP) {
                let columns = [L::load(panel), L::load(panel.add(L::LANES * L::GROUP))];
                for (row, sums) in rows.iter().zip(&mut sums) {
                    let row = L::splat(row.add(d));
                    *sums = [L::multiply_add(row, columns[0], sums[0]), L::multiply_add(row, columns[1], sums[1])];
                }
                panel = panel.add(2 * L::LANES * L::GROUP);
            }
        }
        end::<L, ROWS>(sums, c, stride);
    }
}

/// # Safety
/// As [`Slopes`].
#[inline(always)]
unsafe fn slopes<L: Lanes, const ROWS: usize>(
    panel: *const L::Element,
    data: *const L::Element,
    pixels: &[usize],
    c: *mut L::Sum,
    stride: usize,
    accumulate: bool,
) {
    // SAFETY: reads stay inside the panel and the vectors of these pixels, writes inside the tile (caller).
    unsafe {
        let mut sums = begin::<L, ROWS>(c, stride, accumulate);
        let mut panel = panel;
        for pixels in pixels.chunks(L::GROUP) {
            let columns = L::of_pixels(data, pixels);
            for (i, sums) in sums.iter_mut().enumerate() {
                let row = L::splat(panel.add(i * L::GROUP));
                *sums = [L::multiply_add(row, columns[0], sums[0]), L::multiply_add(row, columns[1], sums[1])];
            }
            panel = panel.add(ROWS * L::GROUP);
        }
        end::<L, ROWS>(sums, c, stride);
    }
}

/// # Safety
/// If `accumulate`, the tile at `c` must be readable.
#[inline(always)]
unsafe fn begin<L: Lanes, const ROWS: usize>(
    c: *const L::Sum,
    stride: usize,
    accumulate: bool,
) -> [[L::Sums; 2]; ROWS] {
    // SAFETY: the caller's duty.
    unsafe {
        let mut sums = [[L::zero(); 2]; ROWS];
        if accumulate {
            for (i, sums) in sums.iter_mut().enumerate() {
                *sums = [L::read(c.add(i * stride)), L::read(c.add(i * stride + L::LANES))];
            }
        }
        sums
    }
}

/// # Safety
/// The tile at `c` must be writable.
#[inline(always)]
unsafe fn end<L: Lanes, const ROWS: usize>(sums: [[L::Sums; 2]; ROWS], c: *mut L::Sum, stride: usize) {
    for (i, [first, second]) in sums.into_iter().enumerate() {
        // SAFETY: the caller's duty.
        unsafe {
            L::write(first, c.add(i * stride));
            L::write(second, c.add(i * stride + L::LANES));
        }
    }
}

impl<V: Vector> Lanes for V {
    type Element = V::Element;
    type Sum = V::Element;
    type Factors = V;
    type Sums = V;
    const LANES: usize = V::LANES;
    const GROUP: usize = 1;

    #[inline(always)]
    unsafe fn splat(group: *const V::Element) -> V {
        // SAFETY: the caller's duty.
        unsafe { <V as Vector>::splat(*group) }
    }

    #[inline(always)]
    unsafe fn load(from: *const V::Element) -> V {
        // SAFETY: the caller's duty.
        unsafe { <V as Vector>::load(from) }
    }

    #[inline(always)]
    unsafe fn of_pixels(data: *const V::Element, pixels: &[usize]) -> [V; 2] {
        // SAFETY: the caller's duty.
        unsafe { [<V as Vector>::load(data.add(pixels[0])), <V as Vector>::load(data.add(pixels[0] + V::LANES))] }
    }

    #[inline(always)]
    unsafe fn multiply_add(a: V, b: V, c: V) -> V {
        // SAFETY: the caller's duty.
        unsafe { a.mul_add(b, c) }
    }

    #[inline(always)]
    unsafe fn zero() -> V {
        // SAFETY: the caller's duty.
        unsafe { <V as Vector>::splat(V::ZERO) }
    }

    #[inline(always)]
    unsafe fn read(from: *const V::Element) -> V {
        // SAFETY: the caller's duty.
        unsafe { <V as Vector>::load(from) }
    }

    #[inline(always)]
    unsafe fn write(sums: V, to: *mut V::Element) {
        // SAFETY: the caller's duty.
        unsafe { sums.store(to) }
    }
}

/// Four sums of products of pairs, for machines without the instruction: what [`x86::Pairs`] computes.
struct FourPairs;

impl Lanes for FourPairs {
    type Element = bf16;
    type Sum = f32;
    type Factors = [[bf16; 2]; 4];
    type Sums = [f32; 4];
    const LANES: usize = 4;
    const GROUP: usize = 2;

    #[inline(always)]
    unsafe fn splat(group: *const bf16) -> Self::Factors {
        // SAFETY: two elements are readable (caller).
        [unsafe { group.cast::<[bf16; 2]>().read_unaligned() }; 4]
    }

    #[inline(always)]
    unsafe fn load(from: *const bf16) -> Self::Factors {
        // SAFETY: eight elements are readable (caller).
        unsafe { from.cast::<Self::Factors>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn of_pixels(data: *const bf16, pixels: &[usize]) -> [Self::Factors; 2] {
        // SAFETY: eight elements are readable from each pixel (caller).
        let of = |pixel: usize| unsafe { data.add(pixel).cast::<[[bf16; 4]; 2]>().read_unaligned() };
        let (even, odd) = (of(pixels[0]), pixels.get(1).map_or_else(Default::default, |&pixel| of(pixel)));
        std::array::from_fn(|half| std::array::from_fn(|lane| [even[half][lane], odd[half][lane]]))
    }

    #[inline(always)]
    unsafe fn multiply_add(a: Self::Factors, b: Self::Factors, c: [f32; 4]) -> [f32; 4] {
        let product = |lane: usize, k: usize| f32::from(a[lane][k]) * f32::from(b[lane][k]);
        std::array::from_fn(|lane| c[lane] + product(lane, 0) + product(lane, 1))
    }

    #[inline(always)]
    unsafe fn zero() -> [f32; 4] {
        [0.0; 4]
    }

    #[inline(always)]
    unsafe fn read(from: *const f32) -> [f32; 4] {
        // SAFETY: four elements are readable (caller).
        unsafe { from.cast::<[f32; 4]>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn write(sums: [f32; 4], to: *mut f32) {
        // SAFETY: four elements are writable (caller).
        unsafe { to.cast::<[f32; 4]>().write_unaligned(sums) }
    }
}

/// The kernels of one vector type, inside functions that may use its instructions.
macro_rules! kernel {
    ($lanes:ty, $rows:literal, $element:ty, $depth:literal $(, $features:literal)?) => {{
        type L = $lanes;
        $(#[target_feature(enable = $features)])?
        unsafe fn of_patches(
            data: *const $element,
            pixels: &[usize],
            runs: &[Run],
            panel: *const $element,
            c: *mut <$element as Multiply>::Sum,
            stride: usize,
            accumulate: bool,
        ) {
            // SAFETY: the caller's duty; the instructions are enabled here.
            unsafe { patches::<L, $rows>(data, pixels, runs, panel, c, stride, accumulate) }
        }
        $(#[target_feature(enable = $features)])?
        unsafe fn of_slopes(
            panel: *const $element,
            data: *const $element,
            pixels: &[usize],
            c: *mut <$element as Multiply>::Sum,
            stride: usize,
            accumulate: bool,
        ) {
            // SAFETY: the caller's duty; the instructions are enabled here.
            unsafe { slopes::<L, $rows>(panel, data, pixels, c, stride, accumulate) }
        }
        let (columns, group) = (2 * <L as Lanes>::LANES, <L as Lanes>::GROUP);
        let reading = Reading::Direct(of_patches, of_slopes);
        Kernel { rows: $rows, columns, group, step: group, depth: $depth, reading }
    }};
}

macro_rules! full {
    ($type:ident: $avx2:ident $avx512:ident) => {
        impl Convolve for $type {
            fn convolve(level: Level) -> Kernel<Self> {
                match level.min(Level::best()) {
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => kernel!(crate::gemm::kernel::x86::$avx2, 6, $type, 256, "avx2,fma"),
                    #[cfg(target_arch = "x86_64")]
                    level if level >= Level::Avx512 => {
                        kernel!(crate::gemm::kernel::x86::$avx512, 12, $type, 256, "avx512f")
                    }
                    _ => kernel!(crate::gemm::kernel::Four<$type>, 4, $type, 256),
                }
            }
        }
    };
}

full!(f32: F32x8 F32x16);
full!(f64: F64x4 F64x8);

impl Convolve for bf16 {
    fn convolve(level: Level) -> Kernel<Self> {
        match level.min(Level::best()) {
            #[cfg(target_arch = "x86_64")]
            Level::Amx => Kernel::packed(Self::kernel(Level::Amx)),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512Bf16 => kernel!(x86::Pairs, 12, bf16, 256, "avx512f,avx512bw,avx512bf16"),
            _ => kernel!(FourPairs, 4, bf16, 512),
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Lanes;
    use half::bf16;
    use std::arch::x86_64::*;

    /// 16 sums of products of pairs by `vdpbf16ps`; see [`crate::gemm::dot`] for its rounding.
    pub(super) struct Pairs;

    impl Lanes for Pairs {
        type Element = bf16;
        type Sum = f32;
        type Factors = __m512i;
        type Sums = __m512;
        const LANES: usize = 16;
        const GROUP: usize = 2;

        #[inline(always)]
        unsafe fn splat(group: *const bf16) -> __m512i {
            // SAFETY: two elements are readable, and the instruction exists (caller).
            unsafe { _mm512_set1_epi32(group.cast::<i32>().read_unaligned()) }
        }

        #[inline(always)]
        unsafe fn load(from: *const bf16) -> __m512i {
            // SAFETY: 32 elements are readable, and the instruction exists (caller).
            unsafe { _mm512_loadu_si512(from.cast()) }
        }

        #[inline(always)]
        unsafe fn of_pixels(data: *const bf16, pixels: &[usize]) -> [__m512i; 2] {
            const fn places(from: u16) -> [u16; 32] {
                let mut places = [0; 32];
                let mut i = 0;
                while i < 16 {
                    places[2 * i] = from + i as u16;
                    places[2 * i + 1] = 32 + from + i as u16;
                    i += 1;
                }
                places
            }
            const PLACES: [[u16; 32]; 2] = [places(0), places(16)];
            // SAFETY: 32 elements are readable from each pixel, the instructions exist (caller), and the tables are as
            // long as a register.
            unsafe {
                let even = _mm512_loadu_si512(data.add(pixels[0]).cast());
                let odd = match pixels.get(1) {
                    Some(&pixel) => _mm512_loadu_si512(data.add(pixel).cast()),
                    None => _mm512_setzero_si512(),
                };
                PLACES
                    .each_ref()
                    .map(|places| _mm512_permutex2var_epi16(even, _mm512_loadu_si512(places.as_ptr().cast()), odd))
            }
        }

        #[inline(always)]
        unsafe fn multiply_add(a: __m512i, b: __m512i, c: __m512) -> __m512 {
            // SAFETY: the instruction exists (caller); the vector types are both 64 bytes of plain bits.
            unsafe {
                _mm512_dpbf16_ps(
                    c,
                    std::mem::transmute::<__m512i, __m512bh>(a),
                    std::mem::transmute::<__m512i, __m512bh>(b),
                )
            }
        }

        #[inline(always)]
        unsafe fn zero() -> __m512 {
            // SAFETY: the instruction exists (caller).
            unsafe { _mm512_setzero_ps() }
        }

        #[inline(always)]
        unsafe fn read(from: *const f32) -> __m512 {
            // SAFETY: readable, and the instruction exists (caller).
            unsafe { _mm512_loadu_ps(from) }
        }

        #[inline(always)]
        unsafe fn write(sums: __m512, to: *mut f32) {
            // SAFETY: writable, and the instruction exists (caller).
            unsafe { _mm512_storeu_ps(to, sums) }
        }
    }
}
