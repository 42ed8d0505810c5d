//! Resizing of lines and volumes, and of images by cubics.

use super::grid::{cubic, plus};
use super::volume::{images, stacked};
use super::window::IntoExtent;
use crate::memory::on_host;
use crate::precision::{F64, Float, I64, full_range};
use crate::tensor::Tensor;
use crate::{Error, Result};

full_range! {
    InterpolatePrecision, "resizing must run in `F32`";
}

#[track_caller]
fn sizes<P: Float, const R: usize>(op: &'static str, expected: &'static str, x: &Tensor<P>) -> Result<[usize; R]> {
    let found = x.raw.shape();
    let sizes =
        x.dims().try_into().map_err(|_| Error::Rank { op, what: "the input", expected, found: found.into() })?;
    match found[2..].contains(&0) {
        true => Err(Error::Empty { op, shape: found.into() }),
        false => Ok(sizes),
    }
}

/// A line as an image of height 1.
#[track_caller]
fn nearest_line<P: InterpolatePrecision + Float>(x: &Tensor<P>, size: usize) -> Result<Tensor<P>> {
    const OP: &str = "upsample_nearest1d";
    let [n, channels, _] = sizes(OP, "3 dimensions", x)?;
    let y = x.unsqueeze(2)?.upsample_nearest([1, size]).map_err(|error| error.within(OP, x.raw.shape()))?;
    y.reshape([n, channels, size])
}

/// Height and width, then the depth.
#[track_caller]
fn nearest_volume<P: InterpolatePrecision + Float>(x: &Tensor<P>, [d, h, w]: [usize; 3]) -> Result<Tensor<P>> {
    const OP: &str = "upsample_nearest3d";
    let [n, channels, _, _, _] = sizes(OP, "5 dimensions", x)?;
    let within = |error: Error| error.within(OP, x.raw.shape());
    let y = images(OP, x)?.upsample_nearest([h, w]).map_err(within)?;
    let z = stacked(x, &y)?.upsample_nearest([d, h * w]).map_err(within)?;
    z.reshape([n, channels, d, h, w])
}

impl<P: InterpolatePrecision + Float> Tensor<P> {
    /// `[N, C, L]` resized to `size`, each element a copy of the one at the same relative place
    /// (`F.interpolate(mode="nearest")`).
    #[doc(alias = "interpolate")]
    #[track_caller]
    pub fn upsample_nearest1d(&self, size: usize) -> Result<Self> {
        nearest_line(self, size)
    }

    /// `[N, C, D, H, W]` resized to `size`, each element a copy of the one at the same relative place
    /// (`F.interpolate(mode="nearest")`).
    #[doc(alias = "interpolate")]
    #[track_caller]
    pub fn upsample_nearest3d(&self, size: impl IntoExtent<3>) -> Result<Self> {
        nearest_volume(self, size.into_extent())
    }

    /// `[N, C, L]` resized to `size`, each element a mix of the two around its place (`F.interpolate(mode="linear")`);
    /// `align_corners` lets the centres of the first and the last coincide.
    #[doc(alias = "interpolate")]
    #[track_caller]
    pub fn upsample_linear1d(&self, size: usize, align_corners: bool) -> Result<Self> {
        const OP: &str = "upsample_linear1d";
        let [_, _, _] = sizes(OP, "3 dimensions", self)?;
        Cells { op: OP, align_corners }.mixed(self, 2, size)
    }

    /// `[N, C, D, H, W]` resized to `size`, each element a mix of the eight around its place
    /// (`F.interpolate(mode="trilinear")`); `align_corners` lets the centres of the corners coincide.
    #[doc(alias = "interpolate")]
    #[track_caller]
    pub fn upsample_trilinear3d(&self, size: impl IntoExtent<3>, align_corners: bool) -> Result<Self> {
        const OP: &str = "upsample_trilinear3d";
        let [_, _, _, _, _] = sizes(OP, "5 dimensions", self)?;
        let ([depth, height, width], cells) = (size.into_extent(), Cells { op: OP, align_corners });
        cells.mixed(&cells.mixed(&cells.mixed(self, 4, width)?, 3, height)?, 2, depth)
    }

    /// `[N, C, H, W]` resized to `size`, each pixel a mix of the sixteen around its place by a cubic of slope -0.75
    /// (`F.interpolate(mode="bicubic")`), which may lie beyond the range of the pixels; `align_corners` lets the centres of the
    /// corner pixels coincide.
    ///
    /// # Precision
    /// Shares are computed in F64, sums in F32 (F64 for F64).
    #[doc(alias = "interpolate")]
    #[track_caller]
    pub fn upsample_bicubic2d(&self, size: impl IntoExtent<2>, align_corners: bool) -> Result<Self> {
        const OP: &str = "upsample_bicubic2d";
        let [_, _, _, _] = sizes(OP, "4 dimensions", self)?;
        let ([height, width], cells) = (size.into_extent(), Cells { op: OP, align_corners });
        cells.bent(&cells.bent(self, 3, width)?, 2, height)
    }
}

/// Where the elements of an axis in another size lie.
#[derive(Clone, Copy)]
struct Cells {
    op: &'static str,
    align_corners: bool,
}

impl Cells {
    /// The place of element `i` of `size` among the `from` that there are.
    fn place(self, i: usize, from: usize, size: usize) -> f64 {
        match self.align_corners {
            true if size == 1 => 0.0,
            true => i as f64 * (from - 1) as f64 / (size - 1) as f64,
            false => (i as f64 + 0.5) * from as f64 / size as f64 - 0.5,
        }
    }

    /// One axis in another size: the sum of two neighbours, each with its share.
    ///
    /// Other axes have no part in it: 0 times an infinity beside it would be NaN.
    #[track_caller]
    fn mixed<P: Float>(self, x: &Tensor<P>, axis: usize, size: usize) -> Result<Tensor<P>> {
        let from = x.dims()[axis];
        if size == from {
            return Ok(x.unchanged());
        }
        let place = |i| self.place(i, from, size).max(0.0);
        self.sum(x, axis, size, place, 0, |behind| Ok(vec![behind.neg()?.add(1.0)?, behind.clone()]))
    }

    /// One axis in another size: the sum of four neighbours, each with its share.
    #[track_caller]
    fn bent<P: Float>(self, x: &Tensor<P>, axis: usize, size: usize) -> Result<Tensor<P>> {
        let from = x.dims()[axis];
        self.sum(x, axis, size, |i| self.place(i, from, size), -1, |behind| Ok(cubic(behind)?.into()))
    }

    /// Neighbours of each place, from `first` steps behind the one before it, times the shares that belong to how far it lies
    /// behind that one.
    #[track_caller]
    fn sum<P: Float>(
        self,
        x: &Tensor<P>,
        axis: usize,
        size: usize,
        place: impl Fn(usize) -> f64,
        first: i64,
        shares: impl Fn(&Tensor<F64>) -> Result<Vec<Tensor<F64>>>,
    ) -> Result<Tensor<P>> {
        let (from, mut along) = (x.dims()[axis], vec![1; x.rank()]);
        along[axis] = size;
        let behind = on_host(self.op, size, (0..size).map(|i| place(i) - place(i).floor()))?;
        let shares = shares(&Tensor::<F64>::from_vec(behind, [size], x.device())?)?;
        let mut sum: Option<Tensor<P>> = None;
        for (step, share) in (first..).zip(&shares) {
            let nearest = |i| (place(i).floor() as i64).saturating_add(step).clamp(0, from as i64 - 1);
            let index = Tensor::<I64>::from_vec(on_host(self.op, size, (0..size).map(nearest))?, [size], x.device())?;
            let term = x.index_select(axis as isize, &index)?.mul(&share.to::<P>()?.reshape(along.as_slice())?)?;
            sum = Some(plus(sum, term)?);
        }
        Ok(sum.expect("shares of neighbours"))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::wave;
    use crate::{Device, F64, Result, Tensor, gradcheck};

    #[test]
    fn gradients_agree_with_differences() {
        let (line, image, volume) = ([wave(&[2, 2, 5])], [wave(&[2, 1, 3, 4])], [wave(&[1, 2, 2, 3, 2])]);
        for (name, worst) in [
            ("nearest of lines", gradcheck(|x| x[0].upsample_nearest1d(8), &line)),
            ("nearest of volumes", gradcheck(|x| x[0].upsample_nearest3d([3, 2, 5]), &volume)),
            ("linear", gradcheck(|x| x[0].upsample_linear1d(8, false), &line)),
            ("trilinear", gradcheck(|x| x[0].upsample_trilinear3d([3, 2, 5], true), &volume)),
            ("bicubic", gradcheck(|x| x[0].upsample_bicubic2d([5, 3], false), &image)),
            ("bicubic, aligned", gradcheck(|x| x[0].upsample_bicubic2d([1, 7], true), &image)),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn the_same_size_changes_nothing() -> Result<()> {
        let image = wave(&[2, 1, 3, 4]);
        for align in [false, true] {
            assert!(image.upsample_bicubic2d([3, 4], align)?.equal(&image)?);
        }
        let volume = wave(&[1, 2, 2, 3, 2]);
        assert!(volume.upsample_trilinear3d([2, 3, 2], false)?.equal(&volume)?);
        Ok(())
    }

    /// 0 times infinity is NaN where an element lies on its place and the infinity beside it, as in PyTorch, and nowhere else.
    #[test]
    fn infinities_stay_infinite() -> Result<()> {
        let x = Tensor::<F64>::from_slice(&[1.0, f64::INFINITY, 2.0], [1, 1, 3], &Device::cpu())?;
        for (align, size, expected) in [
            (true, 5, "[NaN, inf, inf, inf, 2.0]"),
            (false, 6, "[NaN, inf, inf, inf, inf, 2.0]"),
            (false, 3, "[1.0, inf, 2.0]"),
        ] {
            let y = x.upsample_linear1d(size, align)?;
            assert_eq!(format!("{:?}", y.to_vec()?), expected);
            let z = x.reshape([1, 1, 3, 1, 1])?.upsample_trilinear3d([size, 1, 1], align)?;
            assert_eq!(format!("{:?}", z.to_vec()?), expected);
        }
        Ok(())
    }

    #[test]
    fn too_large_a_size_is_an_error_for_an_empty_batch_too() -> Result<()> {
        let none = Tensor::<F64>::zeros([0, 1, 2, 2], &Device::cpu())?;
        let large = 1 << 60;
        let error = none.upsample_bilinear([large, 1], false).unwrap_err().to_string();
        assert!(error.starts_with("upsample_bilinear: "), "{error}");
        assert!(
            none.adaptive_avg_pool2d([1, large]).is_err()
                && none.unsqueeze(2)?.adaptive_avg_pool3d([1, large, 1]).is_err()
        );
        assert!(none.select(3, 0)?.upsample_linear1d(large, true).is_err());
        Ok(())
    }

    #[test]
    fn mistakes_are_named() {
        let x = wave(&[1, 2, 3]);
        let text = |result: Result<Tensor<F64>>| result.unwrap_err().to_string();
        let (four, five) = (text(x.upsample_bicubic2d(2, true)), text(x.upsample_nearest3d(2)));
        assert_eq!(four, "upsample_bicubic2d: the input must have 4 dimensions, found shape [1, 2, 3]");
        assert_eq!(five, "upsample_nearest3d: the input must have 5 dimensions, found shape [1, 2, 3]");
        let none = x.narrow(2, 0, 0).unwrap();
        let empty = text(none.upsample_linear1d(4, true));
        assert_eq!(empty, "upsample_linear1d: a tensor of shape [1, 2, 0] has no elements to choose from");
    }
}
