//! Max pooling by windows at places that are drawn (Graham, 2015).

use super::window::IntoExtent;
use crate::precision::{F32, Float, I64};
use crate::tensor::Tensor;
use crate::{Error, Result, shape};

/// What a pooling of `D` dimensions is called, and what it takes.
struct Pooling {
    op: &'static str,
    rank: &'static str,
    /// Which of a channel's samples places the windows along each axis.
    samples: &'static [isize],
}

const IMAGES: Pooling = Pooling { op: "fractional_max_pool2d", rank: "4 dimensions", samples: &[1, 0] };
const VOLUMES: Pooling = Pooling { op: "fractional_max_pool3d", rank: "5 dimensions", samples: &[0, 1, 2] };

impl<P: Float> Tensor<P> {
    /// Greatest values of `size` windows of `kernel` pixels each in images `[N, C, H, W]`, which lie somewhat evenly at places
    /// that the global generator draws for each channel (`F.fractional_max_pool2d`).
    ///
    /// # Errors
    /// As those of [`fractional_max_pool2d_with`](Self::fractional_max_pool2d_with).
    #[track_caller]
    pub fn fractional_max_pool2d(&self, kernel: impl IntoExtent<2>, size: impl IntoExtent<2>) -> Result<Self> {
        Ok(IMAGES.largest(self, kernel.into_extent(), size.into_extent(), None)?.0)
    }

    /// [`fractional_max_pool2d`](Self::fractional_max_pool2d) with the numbers from 0 to 1 that place the windows of each
    /// channel, `[N, C, 2]`, horizontally and vertically; also where in the flattened image each value was.
    ///
    /// # Errors
    /// [`Error::Rank`] unless there are 4 dimensions, [`Error::Argument`] when the windows would leave the image,
    /// [`Error::Shape`] for samples of another shape.
    #[track_caller]
    pub fn fractional_max_pool2d_with(
        &self,
        kernel: impl IntoExtent<2>,
        size: impl IntoExtent<2>,
        samples: &Tensor<F32>,
    ) -> Result<(Self, Tensor<I64>)> {
        IMAGES.largest(self, kernel.into_extent(), size.into_extent(), Some(samples))
    }

    /// Greatest values of `size` windows of `kernel` elements each in volumes `[N, C, D, H, W]`, which lie somewhat evenly at
    /// places that the global generator draws for each channel (`F.fractional_max_pool3d`).
    ///
    /// # Errors
    /// As those of [`fractional_max_pool3d_with`](Self::fractional_max_pool3d_with).
    #[track_caller]
    pub fn fractional_max_pool3d(&self, kernel: impl IntoExtent<3>, size: impl IntoExtent<3>) -> Result<Self> {
        Ok(VOLUMES.largest(self, kernel.into_extent(), size.into_extent(), None)?.0)
    }

    /// [`fractional_max_pool3d`](Self::fractional_max_pool3d) with the numbers from 0 to 1 that place the windows of each
    /// channel, `[N, C, 3]`, in depth, vertically and horizontally; also where in the flattened volume each value was.
    ///
    /// # Errors
    /// [`Error::Rank`] unless there are 5 dimensions, [`Error::Argument`] when the windows would leave the volume,
    /// [`Error::Shape`] for samples of another shape.
    #[track_caller]
    pub fn fractional_max_pool3d_with(
        &self,
        kernel: impl IntoExtent<3>,
        size: impl IntoExtent<3>,
        samples: &Tensor<F32>,
    ) -> Result<(Self, Tensor<I64>)> {
        VOLUMES.largest(self, kernel.into_extent(), size.into_extent(), Some(samples))
    }
}

impl Pooling {
    /// The greatest value of each window and its place, the windows where `samples` put them, or drawn ones.
    #[track_caller]
    fn largest<P: Float, const D: usize>(
        &self,
        x: &Tensor<P>,
        kernel: [usize; D],
        size: [usize; D],
        samples: Option<&Tensor<F32>>,
    ) -> Result<(Tensor<P>, Tensor<I64>)> {
        let op = self.op;
        if x.rank() != D + 2 {
            let found = x.raw.shape().into();
            return Err(Error::Rank { op, what: "the input", expected: self.rank, found });
        }
        let (outer, image) = x.dims().split_at(2);
        let each = [outer, &[D]].concat();
        let samples = match samples {
            Some(samples) => samples.detach(),
            None => Tensor::<F32>::rand(each.as_slice(), x.device())?,
        };
        shape::check_same(op, "the samples", &each, samples.dims())?;
        let result = [outer, &size].concat();
        let pixels = self.pixels(&samples, image, kernel, size)?;
        let flat = x.flatten(2, -1)?;
        let inside = flat.detach().gather(2, &pixels.flatten(2, 3)?)?.reshape(pixels.dims())?;
        let places = pixels.gather(3, &inside.argmax(3, true)?)?.squeeze(3)?;
        Ok((flat.gather(2, &places)?.reshape(result.as_slice())?, places.reshape(result)?))
    }

    /// Where in the flattened image the elements of each window are: `[N, C, windows, elements]`.
    #[track_caller]
    fn pixels<const D: usize>(
        &self,
        samples: &Tensor<F32>,
        image: &[usize],
        kernel: [usize; D],
        size: [usize; D],
    ) -> Result<Tensor<I64>> {
        let (outer, mut sum) = (&samples.dims()[..2], None);
        for axis in 0..D {
            let (image, kernel, size) = (image[axis], kernel[axis], size[axis]);
            if kernel == 0 || size == 0 || kernel.saturating_add(size - 1) > image {
                let found = format!("{size} of {kernel} in {image}");
                return Err(Error::argument(self.op, "the windows", "within the image, none of them empty", found));
            }
            // The windows along this axis, and behind all windows the elements along it.
            let mut along = [outer, &[1; D], &[1; D]].concat();
            (along[2 + axis], along[2 + D + axis]) = (size, kernel);
            let places = windows(&samples.select(2, self.samples[axis])?, image, kernel, size)?.reshape(along)?;
            sum = Some(match sum {
                Some(before) => ((before * image as i64)? + places)?,
                None => places,
            });
        }
        let counts = [size.iter().product(), kernel.iter().product()];
        sum.expect("an axis").reshape([outer, &counts].concat())
    }
}

/// Positions in `length` elements of `count` windows of `kernel`, for each sample of `[N, C]`: `[N, C, count, kernel]`.
#[track_caller]
fn windows(samples: &Tensor<F32>, length: usize, kernel: usize, count: usize) -> Result<Tensor<I64>> {
    let (device, rest) = (samples.device(), length - kernel);
    let apart = rest as f64 / (count.max(2) - 1) as f64;
    let (first, samples) = (Tensor::<F32>::arange_step(0.0, (count - 1) as f64, 1.0, device)?, samples.unsqueeze(2)?);
    let starts = (((&samples + &first)? * apart)?.floor()? - (&samples * apart)?.floor()?)?;
    // The last window ends with the image.
    let starts = Tensor::cat(&[starts, samples.full_like(rest as f64)?], 2)?;
    starts.to::<I64>()?.unsqueeze(3)? + Tensor::<I64>::arange(0, kernel, device)?
}

#[cfg(test)]
mod tests {
    use crate::testing::wave;
    use crate::{BF16, Device, F32, F64, Result, Tensor, gradcheck};

    fn image() -> Result<Tensor<F64>> {
        Tensor::from_fn([1, 2, 5, 6], |i| ((i[1] * 30 + i[2] * 6 + i[3]) as f64 * 1.9).sin(), &Device::cpu())
    }

    #[test]
    fn windows_cover_the_ends_of_the_image() -> Result<()> {
        crate::manual_seed(3);
        let x = image()?;
        assert_eq!(x.fractional_max_pool2d(5, 1)?.to_vec()?.len(), 2);
        let whole = x.fractional_max_pool2d([5, 6], 1)?;
        assert_eq!(whole.to_vec()?, x.max([2, 3], false)?.to_vec()?);
        let same = x.fractional_max_pool2d(1, [5, 6])?;
        assert!(same.equal(&x)?);
        assert_eq!(x.to::<BF16>()?.fractional_max_pool2d(2, [3, 4])?.dims(), [1, 2, 3, 4]);
        let error = x.fractional_max_pool2d(2, 5).unwrap_err().to_string();
        let rule = "the windows must be within the image, none of them empty, found 5 of 2 in 5";
        assert_eq!(error, format!("fractional_max_pool2d: {rule}"));
        assert!(x.fractional_max_pool2d(0, 1).is_err() && x.select(0, 0)?.fractional_max_pool2d(2, 2).is_err());
        assert!(x.fractional_max_pool2d_with(2, 2, &Tensor::zeros([1, 2], &Device::cpu())?).is_err());
        Ok(())
    }

    #[test]
    fn windows_of_volumes_cover_their_ends() -> Result<()> {
        let x = wave(&[2, 1, 4, 5, 3]);
        assert_eq!(x.fractional_max_pool3d([4, 5, 3], 1)?.to_vec()?, x.max([2, 3, 4], false)?.to_vec()?);
        assert!(x.fractional_max_pool3d(1, [4, 5, 3])?.equal(&x)?);
        assert!(x.fractional_max_pool3d(2, [4, 2, 2]).is_err() && x.select(0, 0)?.fractional_max_pool3d(1, 2).is_err());
        let samples = Tensor::<F32>::from_vec(vec![0.1, 0.7, 0.5, 0.3, 0.9, 0.2], [2, 1, 3], &Device::cpu())?;
        let (y, places) = x.fractional_max_pool3d_with([2, 2, 1], [3, 3, 2], &samples)?;
        assert_eq!(x.flatten(2, -1)?.gather(2, &places.flatten(2, -1)?)?.to_vec()?, y.to_vec()?);
        let worst = gradcheck(|x| Ok(x[0].fractional_max_pool3d_with([2, 2, 1], [3, 3, 2], &samples)?.0), &[x])?;
        assert!(worst.agrees(), "{worst:?}");
        Ok(())
    }

    #[test]
    fn gradients_agree_with_differences() -> Result<()> {
        let samples = Tensor::<F32>::from_vec(vec![0.1, 0.7, 0.5, 0.3], [1, 2, 2], &Device::cpu())?;
        let worst = gradcheck(|x| Ok(x[0].fractional_max_pool2d_with(2, [3, 4], &samples)?.0), &[image()?])?;
        assert!(worst.agrees(), "{worst:?}");
        let (y, places) = image()?.fractional_max_pool2d_with(2, [3, 4], &samples)?;
        let found = image()?.reshape([1, 2, 30])?.gather(2, &places.reshape([1, 2, 12])?)?;
        assert_eq!(found.to_vec()?, y.to_vec()?);
        Ok(())
    }
}
