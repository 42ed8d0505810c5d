//! Resizing of lines and volumes, and of images by cubics.

use super::grid::{cubic, plus};
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

/// How a resized element is computed.
#[derive(Clone, Copy)]
enum How {
    Nearest,
    Linear { align_corners: bool },
}

#[track_caller]
fn resized<P: InterpolatePrecision + Float>(x: &Tensor<P>, size: [usize; 2], how: How) -> Result<Tensor<P>> {
    match how {
        How::Nearest => x.upsample_nearest(size),
        How::Linear { align_corners } => x.upsample_bilinear(size, align_corners),
    }
}

/// A line as an image of height 1.
#[track_caller]
fn line<P: InterpolatePrecision + Float>(op: &'static str, x: &Tensor<P>, size: usize, how: How) -> Result<Tensor<P>> {
    let [n, channels, _] = sizes(op, "3 dimensions", x)?;
    let y = resized(&x.unsqueeze(2)?, [1, size], how).map_err(|error| error.within(op, x.raw.shape()))?;
    y.reshape([n, channels, size])
}

/// Height and width, then the depth.
#[track_caller]
fn volume<P: InterpolatePrecision + Float>(
    op: &'static str,
    x: &Tensor<P>,
    [d, h, w]: [usize; 3],
    how: How,
) -> Result<Tensor<P>> {
    let [n, channels, depth, height, width] = sizes(op, "5 dimensions", x)?;
    let within = |error: Error| error.within(op, x.raw.shape());
    let y = resized(&x.reshape([n, channels * depth, height, width])?, [h, w], how).map_err(within)?;
    let z = resized(&y.reshape([n, channels, depth, h * w])?, [d, h * w], how).map_err(within)?;
    z.reshape([n, channels, d, h, w])
}

impl<P: InterpolatePrecision + Float> Tensor<P> {
    /// `[N, C, L]` resized to `size`, each element a copy of the one at the same relative place
    /// (`F.interpolate(mode="nearest")`).
    #[track_caller]
    pub fn upsample_nearest1d(&self, size: usize) -> Result<Self> {
        line("upsample_nearest1d", self, size, How::Nearest)
    }

    /// `[N, C, D, H, W]` resized to `size`, each element a copy of the one at the same relative place
    /// (`F.interpolate(mode="nearest")`).
    #[track_caller]
    pub fn upsample_nearest3d(&self, size: impl IntoExtent<3>) -> Result<Self> {
        volume("upsample_nearest3d", self, size.into_extent(), How::Nearest)
    }

    /// `[N, C, L]` resized to `size`, each element a mix of the two around its place (`F.interpolate(mode="linear")`);
    /// `align_corners` lets the centres of the first and the last coincide.
    #[track_caller]
    pub fn upsample_linear1d(&self, size: usize, align_corners: bool) -> Result<Self> {
        line("upsample_linear1d", self, size, How::Linear { align_corners })
    }

    /// `[N, C, D, H, W]` resized to `size`, each element a mix of the eight around its place
    /// (`F.interpolate(mode="trilinear")`); `align_corners` lets the centres of the corners coincide.
    #[track_caller]
    pub fn upsample_trilinear3d(&self, size: impl IntoExtent<3>, align_corners: bool) -> Result<Self> {
        volume("upsample_trilinear3d", self, size.into_extent(), How::Linear { align_corners })
    }

    /// `[N, C, H, W]` resized to `size`, each pixel a mix of the sixteen around its place by a cubic of slope -0.75
    /// (`F.interpolate(mode="bicubic")`), which may lie beyond the range of the pixels; `align_corners` lets the centres of the
    /// corner pixels coincide.
    ///
    /// # Precision
    /// Shares are computed in F64, sums in F32 (F64 for F64).
    #[track_caller]
    pub fn upsample_bicubic2d(&self, size: impl IntoExtent<2>, align_corners: bool) -> Result<Self> {
        let [_, _, _, _] = sizes("upsample_bicubic2d", "4 dimensions", self)?;
        let [height, width] = size.into_extent();
        bent(&bent(self, 3, width, align_corners)?, 2, height, align_corners)
    }
}

/// One axis in another size: the sum of four neighbours, each with its share.
#[track_caller]
fn bent<P: Float>(x: &Tensor<P>, axis: usize, size: usize, align_corners: bool) -> Result<Tensor<P>> {
    const OP: &str = "upsample_bicubic2d";
    let from = x.dims()[axis];
    let place = |i: usize| match align_corners {
        true if size == 1 => 0.0,
        true => i as f64 * (from - 1) as f64 / (size - 1) as f64,
        false => (i as f64 + 0.5) * from as f64 / size as f64 - 0.5,
    };
    let behind = on_host(OP, size, (0..size).map(|i| place(i) - place(i).floor()))?;
    let shares = cubic(&Tensor::<F64>::from_vec(behind, [size], x.device())?)?;
    let mut along = vec![1; x.rank()];
    along[axis] = size;
    let mut sum: Option<Tensor<P>> = None;
    for (step, share) in (-1..3).zip(&shares) {
        let nearest = |i| (place(i).floor() as i64).saturating_add(step).clamp(0, from as i64 - 1);
        let index = Tensor::<I64>::from_vec(on_host(OP, size, (0..size).map(nearest))?, [size], x.device())?;
        let term = x.index_select(axis as isize, &index)?.mul(&share.to::<P>()?.reshape(along.as_slice())?)?;
        sum = Some(plus(sum, term)?);
    }
    Ok(sum.expect("four terms"))
}

#[cfg(test)]
mod tests {
    use crate::testing::wave;
    use crate::{F64, Result, Tensor, gradcheck};

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
