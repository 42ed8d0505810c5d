//! The innermost loops of convolutions: tiles of sums held in registers, operands read where they lie.
//!
//! Both kernels have one side packed as panels and read the other as vectors of a pixel's channels, at an offset for each
//! pixel ([`super::planes`]): a patch is never copied. As in [`crate::gemm::vector`] there is one algorithm over a
//! minimal trait, and each term goes through a fused multiply-add (a BF16 dot product of two) in a fixed order.
//!
//! Over 128 channels of 16 by 16, 3 x 3, a core of Zen 5 reaches 0.94 of 465 GFLOP/s of BF16 dot products with patches, and 0.8
//! with gradients of weights, whose pixels have to be interleaved in pairs first. More in `benches/record/findings.md`.

use super::lanes::{self, FourPairs, Lanes};
use super::patch::{Pixel, Run};
use crate::gemm;
use crate::gemm::cut::Cut;
use crate::gemm::kernel::Multiply;
use crate::output::prefetch_at;
use crate::scratch::Plain;
use crate::simd::Level;
use half::bf16;

/// Registers of the columns of a whole tile.
const WHOLE: usize = 2;

/// Multiplies the patches of as many pixels as a tile has rows by one panel: each pixel's `patch · panel` goes to its row
/// of `ends`.
///
/// A patch is the elements `data[pixel.at + run.at..][..run.len]` of all runs in turn; every length is a multiple of the
/// kernel's group. The panel has the kernel's columns for each of these elements from element `run.start` on, grouped.
///
/// # Safety
/// The pointers must be valid for those elements, rows for reads and writes of as many columns at each pixel's index, and the
/// CPU must have the kernel's instructions.
pub(super) type Patches<E> = unsafe fn(
    data: *const E,
    pixels: &[Pixel],
    runs: &[Run],
    panel: *const E,
    ends: &Ends<<E as Multiply>::Sum, <E as Convolve>::Result>,
);

/// A row for each pixel.
#[derive(Clone, Copy)]
pub(super) struct Rows<T> {
    /// That of the pixel of index 0.
    pub to: *mut T,
    /// Elements from index to index.
    pub stride: usize,
}

impl<T> Rows<T> {
    /// Prefetches a pixel's row.
    pub(super) fn prefetch(&self, pixel: &Pixel, columns: usize) {
        prefetch_at(self.to.wrapping_add(pixel.index * self.stride), columns);
    }
}

/// Where tiles begin and end.
#[derive(Clone, Copy)]
pub(super) struct Ends<S, R> {
    /// What sums are added to; zeros without them.
    pub begin: Option<Rows<S>>,
    pub end: End<S, R>,
}

/// Where tiles leave their sums.
#[derive(Clone, Copy)]
pub(super) enum End<S, R> {
    Sums(Rows<S>),
    /// Rounded.
    Results(Rows<R>),
}

/// Multiplies one panel of the gradient by the vectors that begin at each pixel: `c (+)= gradᵀ · vectors`.
///
/// The panel has the kernel's rows for each pixel, grouped; the vectors are as long as the kernel has columns.
///
/// # Safety
/// The pointers must be valid for those elements, `c` for the writes of rows `stride` apart, and the CPU must have the
/// kernel's instructions.
pub(super) type WeightGrad<E> = unsafe fn(
    panel: *const E,
    data: *const E,
    pixels: &[usize],
    c: *mut <E as Multiply>::Sum,
    stride: usize,
    accumulate: bool,
);

/// The kernels of an instruction set.
#[derive(Clone, Copy)]
pub(super) struct Kernel<E: Convolve> {
    /// Rows of a tile.
    pub rows: usize,
    /// Columns of a tile.
    pub columns: usize,
    /// Neighbours along the sum that lie together in a panel of columns.
    pub group: usize,
    /// What sums are padded to a multiple of.
    pub step: usize,
    /// Terms that are summed before the next tile: a panel of that depth fits the L1 cache.
    pub depth: Cut,
    /// How the other side is read.
    pub reading: Reading<E>,
}

/// How a tile's code reads the side that lies in a scratch plane.
#[derive(Clone, Copy)]
pub(super) enum Reading<E: Convolve> {
    /// Where it lies. The second code of each is for tiles of which the first half of the columns is all that is wanted: it
    /// leaves out the other. On a core of Zen 4, 16 channels of 32 by 32 (128 images), 3 x 3, take 0.52 of the time in F32 and 0.63
    /// in BF16, with gradients 0.55 and 0.63.
    Direct([Patches<E>; 2], [WeightGrad<E>; 2]),
    /// From panels, as matrix products do: for instructions that want whole rows.
    Packed(gemm::kernel::MicroKernel<E>),
}

impl<E: Convolve> Kernel<E> {
    /// The tiles of matrix products, in blocks of the depth of which what a tile reads of patches stays in the L1 cache for all panels.
    ///
    /// On a Xeon with AMX 384 and 512 are alike over 128 to 512 channels (3 x 3), 768 takes 5 to 15 % more over 512, all of it at once
    /// 15 % over 128.
    pub(super) fn packed(gemm: gemm::kernel::MicroKernel<E>) -> Self {
        let (left, right) = (gemm.left, gemm.right);
        let depth = Cut { usual: 384, longest: 576, step: left.step };
        let reading = Reading::Packed(gemm);
        Self { rows: left.width, columns: right.width, group: right.group, step: left.step, depth, reading }
    }

    /// Whether steps of the depth may lie anywhere: pixels are then in whatever order suits them.
    pub(super) fn anywhere(&self) -> bool {
        matches!(self.reading, Reading::Packed(_))
    }

    /// Columns of a tile that are computed where so many are wanted.
    pub(super) fn computed(&self, wanted: usize) -> usize {
        let half = self.columns / 2;
        if wanted <= half && !self.anywhere() { half } else { self.columns }
    }

    /// Which code of [`Reading::Direct`] computes so many columns.
    pub(super) fn form(&self, wanted: usize) -> usize {
        usize::from(self.computed(wanted) < self.columns)
    }

    /// What a pixel's channels are padded to a multiple of where patches are gathered.
    pub(super) fn padding(&self) -> usize {
        if self.anywhere() { 1 } else { self.group }
    }

    /// Code for tiles whose steps lie anywhere and are read once.
    pub(super) fn streamed(&self) -> Option<gemm::kernel::Scattered<E>> {
        match self.reading {
            Reading::Packed(gemm) => gemm.streamed,
            Reading::Direct(..) => None,
        }
    }
}

/// Types that convolutions multiply.
pub(super) trait Convolve: Multiply {
    /// What tiles can round to as they end.
    type Result: Plain;

    /// The kernels of an instruction set, or of the best this machine has if that is less.
    fn convolve(level: Level) -> Kernel<Self>;

    /// [`Self::convolve`] for the gradient of so many outputs: they are the rows.
    fn for_weight_grad(level: Level, _outputs: usize) -> Kernel<Self> {
        Self::convolve(level)
    }
}

/// # Safety
/// As [`Patches`].
#[inline(always)]
unsafe fn patches<L: Lanes, const ROWS: usize, const VECTORS: usize>(
    data: *const L::Element,
    pixels: &[Pixel],
    runs: &[Run],
    panel: *const L::Element,
    ends: &Ends<L::Sum, L::Result>,
) {
    let pixels: &[Pixel; ROWS] = pixels.try_into().expect("a pixel for each row");
    // SAFETY: reads stay inside the runs of these pixels, the panel and the pixels' rows, writes inside these (caller).
    unsafe {
        let mut sums = match ends.begin {
            Some(Rows { to, stride }) => begin::<L, ROWS, VECTORS>(to, |i| pixels[i].index * stride, true),
            None => [[L::zero(); VECTORS]; ROWS],
        };
        for run in runs {
            let rows: [*const L::Element; ROWS] = pixels.map(|pixel| data.add(pixel.at + run.at));
            let mut panel = panel.add(run.start * WHOLE * L::LANES);
            for d in (0..run.len).step_by(L::GROUP) {
                let mut columns = [L::load(panel); VECTORS];
                for (v, columns) in columns.iter_mut().enumerate().skip(1) {
                    *columns = L::load(panel.add(v * L::LANES * L::GROUP));
                }
                for (row, sums) in rows.iter().zip(&mut sums) {
                    let row = L::splat(row.add(d));
                    for (sums, &columns) in sums.iter_mut().zip(&columns) {
                        *sums = L::multiply_add(row, columns, *sums);
                    }
                }
                panel = panel.add(WHOLE * L::LANES * L::GROUP);
            }
        }
        match ends.end {
            End::Sums(Rows { to, stride }) => end::<L, ROWS, VECTORS>(sums, to, |i| pixels[i].index * stride),
            End::Results(Rows { to, stride }) => {
                pixels.iter().zip(&sums).for_each(|(pixel, sums)| L::finish(*sums, to.add(pixel.index * stride)));
            }
        }
    }
}

/// # Safety
/// As [`WeightGrad`].
#[inline(always)]
unsafe fn weight_grad<L: Lanes, const ROWS: usize, const VECTORS: usize>(
    panel: *const L::Element,
    data: *const L::Element,
    pixels: &[usize],
    c: *mut L::Sum,
    stride: usize,
    accumulate: bool,
) {
    // SAFETY: reads stay inside the panel and the vectors of these pixels, writes inside the tile (caller).
    unsafe {
        let mut sums = begin::<L, ROWS, VECTORS>(c, |i| i * stride, accumulate);
        let mut panel = panel;
        for pixels in pixels.chunks(L::GROUP) {
            let columns = L::of_pixels::<VECTORS>(data, pixels);
            for (i, sums) in sums.iter_mut().enumerate() {
                let row = L::splat(panel.add(i * L::GROUP));
                for (sums, &columns) in sums.iter_mut().zip(&columns) {
                    *sums = L::multiply_add(row, columns, *sums);
                }
            }
            panel = panel.add(ROWS * L::GROUP);
        }
        end::<L, ROWS, VECTORS>(sums, c, |i| i * stride);
    }
}

/// # Safety
/// If `accumulate`, each row's sums must be readable at their place behind `c`.
#[inline(always)]
unsafe fn begin<L: Lanes, const ROWS: usize, const VECTORS: usize>(
    c: *const L::Sum,
    place: impl Fn(usize) -> usize,
    accumulate: bool,
) -> [[L::Sums; VECTORS]; ROWS] {
    // SAFETY: the caller's duty.
    unsafe {
        let mut sums = [[L::zero(); VECTORS]; ROWS];
        if accumulate {
            for (i, sums) in sums.iter_mut().enumerate() {
                for (v, sums) in sums.iter_mut().enumerate() {
                    *sums = L::read(c.add(place(i) + v * L::LANES));
                }
            }
        }
        sums
    }
}

/// # Safety
/// Each row's sums must be writable at their place behind `c`.
#[inline(always)]
pub(super) unsafe fn end<L: Lanes, const ROWS: usize, const VECTORS: usize>(
    sums: [[L::Sums; VECTORS]; ROWS],
    c: *mut L::Sum,
    place: impl Fn(usize) -> usize,
) {
    for (i, sums) in sums.iter().enumerate() {
        let to = c.wrapping_add(place(i));
        // No loop over the registers: compilers kept them in memory for one, and 1 x 1 in BF16 took 1.8 times as long.
        // SAFETY: the caller's duty.
        unsafe {
            L::write(sums[0], to);
            if VECTORS > 1 {
                L::write(sums[1], to.add(L::LANES));
            }
        }
    }
}

/// The kernels of one vector type, inside functions that may use its instructions.
macro_rules! kernel {
    ($lanes:ty, $rows:literal, $element:ty, $depth:literal $(, $features:literal)?) => {{
        type L = $lanes;
        $(#[target_feature(enable = $features)])?
        unsafe fn of_patches<const VECTORS: usize>(
            data: *const $element,
            pixels: &[Pixel],
            runs: &[Run],
            panel: *const $element,
            ends: &Ends<<$element as Multiply>::Sum, <$element as Convolve>::Result>,
        ) {
            // SAFETY: the caller's duty; the instructions are enabled here.
            unsafe { patches::<L, $rows, VECTORS>(data, pixels, runs, panel, ends) }
        }
        $(#[target_feature(enable = $features)])?
        unsafe fn of_weight_grad<const VECTORS: usize>(
            panel: *const $element,
            data: *const $element,
            pixels: &[usize],
            c: *mut <$element as Multiply>::Sum,
            stride: usize,
            accumulate: bool,
        ) {
            // SAFETY: the caller's duty; the instructions are enabled here.
            unsafe { weight_grad::<L, $rows, VECTORS>(panel, data, pixels, c, stride, accumulate) }
        }
        let (columns, group) = (WHOLE * <L as Lanes>::LANES, <L as Lanes>::GROUP);
        let reading = Reading::Direct(
            [of_patches::<WHOLE>, of_patches::<1>],
            [of_weight_grad::<WHOLE>, of_weight_grad::<1>],
        );
        Kernel { rows: $rows, columns, group, step: group, depth: Cut::at_most($depth, group), reading }
    }};
}

/// Rows of a tile for the gradient of so many outputs: those that cost the least, padding included.
///
/// A tile takes the columns of a pixel as well, as long as two rows. Of 64 outputs six tiles of 11 rows instead of 12 are a twelfth
/// less to multiply, of 16 two of 8 a third.
#[cfg(target_arch = "x86_64")]
fn rows_of_weight_grad(outputs: usize) -> usize {
    [12, 11, 8].into_iter().min_by_key(|&rows| outputs.div_ceil(rows) * (rows + 2)).expect("three of them")
}

macro_rules! full {
    ($type:ident: $avx2:ident $avx512:ident) => {
        impl Convolve for $type {
            type Result = $type;

            fn convolve(level: Level) -> Kernel<Self> {
                match level.min(Level::best()) {
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => kernel!(crate::gemm::vector::x86::$avx2, 6, $type, 288, "avx2,fma"),
                    #[cfg(target_arch = "x86_64")]
                    level if level >= Level::Avx512 => {
                        kernel!(crate::gemm::vector::x86::$avx512, 12, $type, 288, "avx512f")
                    }
                    _ => kernel!(crate::gemm::vector::Four<$type>, 4, $type, 256),
                }
            }

            #[cfg(target_arch = "x86_64")]
            fn for_weight_grad(level: Level, outputs: usize) -> Kernel<Self> {
                use crate::gemm::vector::x86::$avx512 as Wide;
                match (level.min(Level::best()) >= Level::Avx512, rows_of_weight_grad(outputs)) {
                    (true, 8) => kernel!(Wide, 8, $type, 288, "avx512f"),
                    (true, 11) => kernel!(Wide, 11, $type, 288, "avx512f"),
                    _ => Self::convolve(level),
                }
            }
        }
    };
}

full!(f32: F32x8 F32x16);
full!(f64: F64x4 F64x8);

impl Convolve for bf16 {
    type Result = bf16;

    fn convolve(level: Level) -> Kernel<Self> {
        match level.min(Level::best()) {
            #[cfg(target_arch = "x86_64")]
            Level::Amx => Kernel::packed(Self::kernel(Level::Amx)),
            #[cfg(target_arch = "x86_64")]
            Level::Avx512Bf16 => kernel!(lanes::x86::Pairs, 12, bf16, 288, "avx512f,avx512bw,avx512bf16"),
            _ => kernel!(FourPairs, 4, bf16, 512),
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn for_weight_grad(level: Level, outputs: usize) -> Kernel<Self> {
        use lanes::x86::Pairs;
        match (level.min(Level::best()), rows_of_weight_grad(outputs)) {
            (Level::Avx512Bf16, 8) => kernel!(Pairs, 8, bf16, 288, "avx512f,avx512bw,avx512bf16"),
            (Level::Avx512Bf16, 11) => kernel!(Pairs, 11, bf16, 288, "avx512f,avx512bw,avx512bf16"),
            _ => Self::convolve(level),
        }
    }
}
