//! Max pooling by windows at places that are drawn (Graham, 2015).

use super::window::IntoExtent;
use crate::precision::{F32, Float, I64};
use crate::tensor::Tensor;
use crate::{Error, Result, shape};

impl<P: Float> Tensor<P> {
    /// Greatest values of `size` windows of `kernel` pixels each in images `[N, C, H, W]`, which lie somewhat evenly at places
    /// that the global generator draws for each channel (`F.fractional_max_pool2d`).
    ///
    /// # Errors
    /// As those of [`fractional_max_pool2d_with`](Self::fractional_max_pool2d_with).
    #[track_caller]
    pub fn fractional_max_pool2d(&self, kernel: impl IntoExtent<2>, size: impl IntoExtent<2>) -> Result<Self> {
        let [n, channels, ..] = images(self)?;
        let samples = Tensor::<F32>::rand([n, channels, 2], self.device())?;
        Ok(self.fractional_max_pool2d_with(kernel, size, &samples)?.0)
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
        let [n, channels, height, width] = images(self)?;
        let ([kh, kw], [oh, ow]) = (kernel.into_extent(), size.into_extent());
        for (image, kernel, size) in [(height, kh, oh), (width, kw, ow)] {
            if kernel == 0 || size == 0 || kernel.saturating_add(size - 1) > image {
                let found = format!("{size} of {kernel} in {image}");
                return Err(Error::argument(OP, "the windows", "within the image, none of them empty", found));
            }
        }
        shape::check_same(OP, "the samples", &[n, channels, 2], samples.dims())?;
        let rows = windows(&samples.detach().select(2, 1)?, height, kh, oh)?.reshape([n, channels, oh, 1, kh, 1])?;
        let columns = windows(&samples.detach().select(2, 0)?, width, kw, ow)?.reshape([n, channels, 1, ow, 1, kw])?;
        let pixels = ((rows * width as i64)? + columns)?.reshape([n, channels, oh * ow, kh * kw])?;
        let flat = self.reshape([n, channels, height * width])?;
        let inside = flat.detach().gather(2, &pixels.flatten(2, 3)?)?.reshape(pixels.dims())?;
        let places = pixels.gather(3, &inside.argmax(3, true)?)?.squeeze(3)?;
        let y = flat.gather(2, &places)?.reshape([n, channels, oh, ow])?;
        Ok((y, places.reshape([n, channels, oh, ow])?))
    }
}

const OP: &str = "fractional_max_pool2d";

fn images<P: Float>(x: &Tensor<P>) -> Result<[usize; 4]> {
    let expected = "4 dimensions";
    <[usize; 4]>::try_from(x.dims()).map_err(|_| Error::Rank {
        op: OP,
        what: "the input",
        expected,
        found: x.raw.shape().into(),
    })
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
    starts.to::<I64>()?.unsqueeze(3)? + Tensor::<I64>::arange(0, kernel as i64, device)?
}

#[cfg(test)]
mod tests {
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
