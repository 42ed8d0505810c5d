//! Images sampled at places that a grid names, as spatial transformers do.

use super::window::IntoExtent;
use crate::memory::on_host;
use crate::precision::{Bool, Element, F64, Float, I64, SamePrecision};
use crate::tensor::Tensor;
use crate::{Device, Error, Result, shape};

/// How [`Tensor::grid_sample`] mixes the pixels around a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GridMode {
    /// The four around it, by their distance.
    #[default]
    Bilinear,
    /// The nearest one; halfway, that of the even number.
    Nearest,
    /// The sixteen around it, by a cubic of slope -0.75.
    Bicubic,
}

/// What [`Tensor::grid_sample`] finds outside of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GridPadding {
    /// Zeros.
    #[default]
    Zeros,
    /// The pixel at the border.
    Border,
    /// The image, reflected at its borders as often as it takes.
    Reflection,
}

/// Options of [`Tensor::grid_sample`]; `Default` is PyTorch's: bilinear, zeros outside, corners not aligned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GridOptions {
    mode: GridMode,
    padding: GridPadding,
    align_corners: bool,
}

impl GridOptions {
    /// Bilinear, zeros outside, corners not aligned.
    pub fn new() -> Self {
        Self::default()
    }

    /// How pixels are mixed.
    pub fn mode(mut self, mode: GridMode) -> Self {
        self.mode = mode;
        self
    }

    /// What lies outside of an image.
    pub fn padding(mut self, padding: GridPadding) -> Self {
        self.padding = padding;
        self
    }

    /// Whether -1 and 1 are the centres of the corner pixels, not their outer edges.
    pub fn align_corners(mut self, align_corners: bool) -> Self {
        self.align_corners = align_corners;
        self
    }
}

/// Pixels of a line that take part in each place: their numbers, whole, and their shares.
type Taps<W> = Vec<(Tensor<W>, Tensor<W>)>;

/// One of the two directions of an image of `size` pixels.
#[derive(Clone, Copy)]
struct Line {
    size: usize,
    options: GridOptions,
}

impl Line {
    /// -1 to 1 as numbers of pixels.
    #[track_caller]
    fn pixels<W: Float>(self, place: &Tensor<W>) -> Result<Tensor<W>> {
        let size = self.size as f64;
        match self.options.align_corners {
            true => place.add(1.0)?.mul((size - 1.0) / 2.0),
            false => place.add(1.0)?.mul(size)?.sub(1.0)?.div(2.0),
        }
    }

    /// Numbers of pixels brought into the image, unless zeros lie outside. What is brought to a border has no slope.
    #[track_caller]
    fn inside<W: Float>(self, pixel: Tensor<W>) -> Result<Tensor<W>> {
        let pixel = match self.options.padding {
            GridPadding::Zeros => return Ok(pixel),
            GridPadding::Border => pixel,
            GridPadding::Reflection => self.reflected(&pixel)?,
        };
        let last = (self.size - 1) as f64;
        let least = pixel.detach().gt(0.0)?.where_(&pixel, 0.0)?;
        pixel.detach().lt(last)?.where_(&least, last)
    }

    /// Reflected at the ends: the centres of the first and the last pixel, or their outer edges.
    #[track_caller]
    fn reflected<W: Float>(self, pixel: &Tensor<W>) -> Result<Tensor<W>> {
        let (low, span) =
            if self.options.align_corners { (0.0, self.size as f64 - 1.0) } else { (-0.5, self.size as f64) };
        if span == 0.0 {
            return pixel.zeros_like();
        }
        let from = pixel.sub(low)?;
        let from = from.detach().lt(0.0)?.where_(&from.neg()?, &from)?;
        let times = from.detach().div(span)?.floor()?;
        let rest = from.sub(&times.mul(span)?)?;
        let odd = times.remainder(2.0)?.eq(1.0)?;
        odd.where_(&rest.neg()?.add(span)?, &rest)?.add(low)
    }

    #[track_caller]
    fn taps<W: Float>(self, place: &Tensor<W>) -> Result<Taps<W>> {
        let pixel = self.pixels(place)?;
        match self.options.mode {
            GridMode::Nearest => {
                let pixel = self.inside(pixel)?.detach().round()?;
                Ok(vec![(pixel.clone(), pixel.ones_like()?)])
            }
            GridMode::Bilinear => {
                let pixel = self.inside(pixel)?;
                let first = pixel.detach().floor()?;
                let share = pixel.sub(&first)?;
                Ok(vec![(first.clone(), share.neg()?.add(1.0)?), (first.add(1.0)?, share)])
            }
            GridMode::Bicubic => {
                let first = pixel.detach().floor()?;
                let shares = cubic(&pixel.sub(&first)?)?;
                let mut taps = Taps::new();
                for (step, share) in (-1..3).zip(shares) {
                    taps.push((self.inside(first.add(f64::from(step))?)?, share));
                }
                Ok(taps)
            }
        }
    }
}

/// Shares of the four pixels around a place at a distance of `t` behind the second (Keys, 1981, with `a = -0.75`).
#[track_caller]
pub(super) fn cubic<W: Float>(t: &Tensor<W>) -> Result<[Tensor<W>; 4]> {
    let rest = t.neg()?.add(1.0)?;
    Ok([far(&t.add(1.0)?)?, near(t)?, near(&rest)?, far(&rest.add(1.0)?)?])
}

const A: f64 = -0.75;

#[track_caller]
fn near<W: Float>(x: &Tensor<W>) -> Result<Tensor<W>> {
    x.mul(A + 2.0)?.sub(A + 3.0)?.mul(x)?.mul(x)?.add(1.0)
}

#[track_caller]
fn far<W: Float>(x: &Tensor<W>) -> Result<Tensor<W>> {
    x.mul(A)?.sub(5.0 * A)?.mul(x)?.add(8.0 * A)?.mul(x)?.sub(4.0 * A)
}

/// One term more of a sum.
#[track_caller]
pub(super) fn plus<W: Float>(sum: Option<Tensor<W>>, term: Tensor<W>) -> Result<Tensor<W>> {
    match sum {
        None => Ok(term),
        Some(sum) => sum.add(&term),
    }
}

impl<P: Float> Tensor<P> {
    /// Images `[N, C, H, W]` at the places of a grid `[N, h, w, 2]` of pairs x, y, which are -1 at the left and the top and 1 at
    /// the right and the bottom, as `[N, C, h, w]` (`F.grid_sample`); NaN counts as -1.
    ///
    /// # Precision
    /// Places and sums are F32 (F64 for F64), rounded once.
    ///
    /// # Errors
    /// [`Error::Shape`] unless the shapes are these, [`Error::Empty`] for images without pixels.
    #[track_caller]
    pub fn grid_sample<Q: Element>(&self, grid: &Tensor<Q>, options: GridOptions) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        const OP: &str = "grid_sample";
        let &[n, channels, height, width] = self.dims() else {
            let found = self.raw.shape().into();
            return Err(Error::Rank { op: OP, what: "the input", expected: "4 dimensions", found });
        };
        let &[grids, h, w, 2] = grid.dims() else { return Err(not_a_grid(n, grid)) };
        if grids != n {
            return Err(not_a_grid(n, grid));
        }
        if height == 0 || width == 0 {
            return Err(Error::Empty { op: OP, shape: self.raw.shape().into() });
        }
        let places = grid.to::<P::Wide>()?.reshape([n, h * w, 2])?;
        let places = places.eq(&places)?.where_(&places, -1.0)?;
        let columns = Line { size: width, options }.taps(&places.select(2, 0)?)?;
        let rows = Line { size: height, options }.taps(&places.select(2, 1)?)?;
        let pixels = self.to::<P::Wide>()?.reshape([n, channels, height * width])?;
        let mut sum: Option<Tensor<P::Wide>> = None;
        for (row, down) in &rows {
            for (column, across) in &columns {
                let term = taken(&pixels, [(row, down, height), (column, across, width)])?;
                sum = Some(plus(sum, term)?);
            }
        }
        sum.expect("at least one tap").reshape([n, channels, h, w])?.to()
    }
}

#[track_caller]
fn not_a_grid<Q: Element>(n: usize, grid: &Tensor<Q>) -> Error {
    let expected = format!("[{n}, h, w, 2]");
    Error::Shape { op: "grid_sample", what: "the grid", expected, found: grid.raw.shape().into() }
}

/// Pixels `[N, C, H W]` in rows and columns `[N, places]` times both shares; 0 outside of the image.
#[track_caller]
fn taken<W: Float>(pixels: &Tensor<W>, [row, column]: [(&Tensor<W>, &Tensor<W>, usize); 2]) -> Result<Tensor<W>> {
    let ((y, in_rows), (x, in_columns)) = (number(row.0, row.2)?, number(column.0, column.2)?);
    let within = (in_rows & in_columns)?;
    let share = row.1.mul(column.1)?;
    let share = within.where_(&share, 0.0)?;
    let place = y.mul(column.2 as i64)?.add(&x)?.unsqueeze(1)?;
    let &[n, _, places] = place.dims() else { unreachable!("three dimensions") };
    let each = pixels.gather(2, &place.expand([n, pixels.dims()[1], places])?)?;
    each.mul(&share.unsqueeze(1)?)
}

/// The number of a pixel, 0 where that is outside of a line of `size`, and whether it is within.
#[track_caller]
fn number<W: Float>(pixel: &Tensor<W>, size: usize) -> Result<(Tensor<I64>, Tensor<Bool>)> {
    let within = (pixel.ge(0.0)? & pixel.le((size - 1) as f64)?)?;
    Ok((within.where_(pixel, 0.0)?.to::<I64>()?, within))
}

impl<P: Float> Tensor<P> {
    /// The grid `[N, h, w, 2]` of [`grid_sample`](Self::grid_sample) in which affine maps `[N, 2, 3]` put an image of `size`
    /// (`F.affine_grid`).
    ///
    /// # Precision
    /// Computed in F32 (F64 for F64), rounded once; places in BF16 are half a pixel off in an image of 256, so that maps had better
    /// be F32. PyTorch computes them in the region's precision on a CPU.
    ///
    /// # Errors
    /// [`Error::Shape`] unless the maps are `[N, 2, 3]`.
    #[track_caller]
    pub fn affine_grid(&self, size: impl IntoExtent<2>, align_corners: bool) -> Result<Self> {
        const OP: &str = "affine_grid";
        let &[n, 2, 3] = self.dims() else {
            let (expected, found) = ("[N, 2, 3]".to_string(), self.raw.shape().into());
            return Err(Error::Shape { op: OP, what: "the maps", expected, found });
        };
        let [h, w] = size.into_extent();
        let base = places::<P::Wide>([h, w], align_corners, self.device())?;
        base.matmul(&self.to::<P::Wide>()?.transpose(1, 2)?)?.reshape([n, h, w, 2])?.to()
    }
}

/// x, y and 1 of each pixel, `[h w, 3]`.
#[track_caller]
fn places<W: Float>([h, w]: [usize; 2], align_corners: bool, device: &Device) -> Result<Tensor<W>> {
    const OP: &str = "affine_grid";
    let along = |i: usize, size: usize| match (align_corners, size) {
        (true, 1) => 0.0,
        (true, _) => 2.0 * i as f64 / (size - 1) as f64 - 1.0,
        (false, _) => (2 * i + 1) as f64 / size as f64 - 1.0,
    };
    let length = shape::product(OP, &[h, w, 3])?;
    let value = |i: usize| match (i % 3, i / 3 % w, i / 3 / w) {
        (0, column, _) => along(column, w),
        (1, _, row) => along(row, h),
        _ => 1.0,
    };
    let values = on_host(OP, length, (0..length).map(value))?;
    Tensor::<F64>::from_vec(values, [h * w, 3], device)?.to()
}

#[cfg(test)]
mod tests {
    use super::{GridMode, GridOptions, GridPadding};
    use crate::{BF16, Device, F32, F64, Tensor, gradcheck};

    fn wave(shape: &[usize], step: f64) -> Tensor<F64> {
        let value = |i: &[usize]| (i.iter().fold(1, |all, i| all * 5 + i) as f64 * step).sin();
        Tensor::from_fn(shape, value, &Device::cpu()).unwrap()
    }

    #[test]
    fn gradients_agree_with_differences() {
        let both = [wave(&[2, 2, 3, 4], 0.37), wave(&[2, 2, 3, 2], 0.71).mul(1.4).unwrap()];
        for mode in [GridMode::Bilinear, GridMode::Nearest, GridMode::Bicubic] {
            for padding in [GridPadding::Zeros, GridPadding::Border, GridPadding::Reflection] {
                for align in [false, true] {
                    let options = GridOptions::default().mode(mode).padding(padding).align_corners(align);
                    let worst = gradcheck(|x| x[0].grid_sample(&x[1], options), &both).unwrap();
                    assert!(worst.error <= 1e-5, "{options:?}: {worst:?}");
                }
            }
        }
        let worst = gradcheck(|x| x[0].affine_grid([3, 2], false), &[wave(&[2, 2, 3], 0.4)]).unwrap();
        assert!(worst.error <= 1e-6, "{worst:?}");
    }

    #[test]
    fn the_grid_that_changes_nothing_gives_the_image() {
        let device = Device::cpu();
        let map = Tensor::<F32>::from_vec(vec![1.0, 0.0, 0.0, 0.0, 1.0, 0.0], [1, 2, 3], &device).unwrap();
        let image = wave(&[1, 2, 5, 3], 0.3).to::<F32>().unwrap();
        let grid = map.affine_grid([5, 3], true).unwrap();
        let options = GridOptions::new().align_corners(true);
        let y = image.grid_sample(&grid, options).unwrap();
        assert!(y.allclose(&image, 0.0, 1e-6).unwrap());
        let narrow = image.to::<BF16>().unwrap();
        let same = narrow.grid_sample(&grid.to::<BF16>().unwrap(), options.mode(GridMode::Nearest)).unwrap();
        assert!(same.equal(&narrow).unwrap());
    }

    #[test]
    fn places_that_are_no_numbers_and_shapes_that_do_not_fit() {
        let device = Device::cpu();
        let image = Tensor::<F32>::from_vec(vec![1.0, 2.0, 3.0, 4.0], [1, 1, 2, 2], &device).unwrap();
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        let grid = Tensor::<F32>::from_vec(vec![nan, nan, inf, 0.0, -1e30, 1e30], [1, 1, 3, 2], &device).unwrap();
        let border = GridOptions::default().padding(GridPadding::Border);
        assert_eq!(image.grid_sample(&grid, border).unwrap().to_vec().unwrap(), [1.0, 3.0, 3.0]);
        assert_eq!(image.grid_sample(&grid, GridOptions::default()).unwrap().to_vec().unwrap(), [0.25, 0.0, 0.0]);
        let error = image.grid_sample(&image.reshape([1, 4, 1]).unwrap(), border).unwrap_err().to_string();
        assert_eq!(error, "grid_sample: the grid must have shape [1, h, w, 2], found [1, 4, 1]");
        let error = image.affine_grid(2, true).unwrap_err().to_string();
        assert_eq!(error, "affine_grid: the maps must have shape [N, 2, 3], found [1, 1, 2, 2]");
        assert!(image.select(0, 0).unwrap().grid_sample(&grid, border).is_err());
        assert!(image.narrow(2, 0, 0).unwrap().grid_sample(&grid, border).is_err());
    }
}
