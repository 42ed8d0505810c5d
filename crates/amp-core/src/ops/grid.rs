//! Images sampled at places that a grid names, as spatial transformers do.

mod composed;

use super::window::IntoExtent;
use crate::autograd::{Pass, Saved, record};
use crate::memory::on_host;
use crate::order::tensor;
use crate::precision::{Element, F64, Float, SamePrecision};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Device, Error, IntoShape, Result, shape};
use amp_cpu::Sampling;
pub use amp_cpu::{GridMode, GridPadding};
pub(super) use composed::{cubic, plus};

/// Options of [`Tensor::grid_sample`]; `Default` is PyTorch's: bilinear, zeros outside, corners not aligned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GridOptions(Sampling);

impl GridOptions {
    /// Bilinear, zeros outside, corners not aligned.
    pub fn new() -> Self {
        Self::default()
    }

    /// How pixels are mixed.
    pub fn mode(mut self, mode: GridMode) -> Self {
        self.0.mode = mode;
        self
    }

    /// What lies outside of an image.
    pub fn padding(mut self, padding: GridPadding) -> Self {
        self.0.padding = padding;
        self
    }

    /// Whether -1 and 1 are the centres of the corner pixels, not their outer edges.
    pub fn align_corners(mut self, align_corners: bool) -> Self {
        self.0.align_corners = align_corners;
        self
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
        let &[n, _, height, width] = self.dims() else {
            let found = self.raw.shape().into();
            return Err(Error::Rank { op: OP, what: "the input", expected: "4 dimensions", found });
        };
        let &[grids, _, _, 2] = grid.dims() else { return Err(not_a_grid(n, grid)) };
        if grids != n {
            return Err(not_a_grid(n, grid));
        }
        if height == 0 || width == 0 {
            return Err(Error::Empty { op: OP, shape: self.raw.shape().into() });
        }
        let how = options.0;
        match sampled(&self.raw, &grid.raw, how)? {
            Some(y) => Ok(Self::from_raw(y)),
            None => composed::grid_sample(self, grid, how),
        }
    }
}

/// The images at the places, where the device has a kernel for it.
#[track_caller]
fn sampled(x: &RawTensor, grid: &RawTensor, how: Sampling) -> Result<Option<RawTensor>> {
    x.device().check_same(grid.device(), "grid_sample")?;
    let (order, from) = (x.backend().pooling_order(&x.layout), *x.shape());
    let sampled = x.backend().grid_sample(x.operand()?, grid.operand()?, how, (x.logical, order))?;
    let Some(buffer) = sampled else { return Ok(None) };
    let shape = [from[0], from[1], grid.shape()[1], grid.shape()[2]].into_shape("grid_sample")?;
    let y = tensor(order, x.device(), buffer, shape);
    let y = record("grid_sample", &[x, grid], y, |_| {
        let kept = grid.edge.is_some().then(|| Saved::new(x)).transpose()?;
        let grid = Saved::new(grid)?;
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let (grad, input) = (pass.grad().clone(), [from[2], from[3]]);
            if pass.wants(0) {
                let out = (pass.dtype(0), order);
                let slopes = grad.backend().grid_sample_grad(grad.operand()?, grid.operand()?, input, how, out)?;
                pass.give(0, tensor(order, grad.device(), slopes, from))?;
            }
            let Some(x) = kept.as_ref().filter(|_| pass.wants(1)) else { return Ok(()) };
            let (x, places, slopes) = (x.operand()?, grid.operand()?, grad.operand()?);
            let slopes = grad.backend().grid_sample_grad_grid(x, places, slopes, how, pass.dtype(1))?;
            pass.give(1, RawTensor::new(grad.device(), slopes, *grid.shape()))
        }))
    })?;
    Ok(Some(y))
}

#[track_caller]
fn not_a_grid<Q: Element>(n: usize, grid: &Tensor<Q>) -> Error {
    let expected = format!("[{n}, h, w, 2]");
    Error::Shape { op: "grid_sample", what: "the grid", expected, found: grid.raw.shape().into() }
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
    use super::{GridMode, GridOptions, GridPadding, composed};
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
                    assert!(worst.agrees(), "{options:?}: {worst:?}");
                    let worst = gradcheck(|x| composed::grid_sample(&x[0], &x[1], options.0), &both).unwrap();
                    assert!(worst.agrees(), "{options:?}, composed: {worst:?}");
                    let (y, composed) =
                        (both[0].grid_sample(&both[1], options), composed::grid_sample(&both[0], &both[1], options.0));
                    assert!(y.unwrap().allclose(&composed.unwrap(), 0.0, 1e-12).unwrap(), "{options:?}");
                }
            }
        }
        let worst = gradcheck(|x| x[0].affine_grid([3, 2], false), &[wave(&[2, 2, 3], 0.4)]).unwrap();
        assert!(worst.agrees(), "{worst:?}");
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
    fn what_is_no_number_stays_where_it_is() {
        let device = Device::cpu();
        let image = Tensor::<F32>::from_vec(vec![f32::NAN, 1.0, 1.0, 1.0, 1.0, 1.0], [1, 1, 2, 3], &device).unwrap();
        let grid = Tensor::<F32>::from_vec(vec![3.0, 3.0, 1.0, 1.0], [1, 1, 2, 2], &device).unwrap();
        for mode in [GridMode::Bilinear, GridMode::Nearest] {
            let options = GridOptions::new().mode(mode).align_corners(true);
            for y in [image.grid_sample(&grid, options), composed::grid_sample(&image, &grid, options.0)] {
                assert_eq!(y.unwrap().to_vec().unwrap(), [0.0, 1.0], "{mode:?}");
            }
        }
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
