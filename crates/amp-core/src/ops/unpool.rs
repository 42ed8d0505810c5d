//! Maxima put back to where a pooling found them.

use super::window::IntoExtent;
use crate::precision::{Float, I64};
use crate::tensor::Tensor;
use crate::{Error, Result, shape};

impl<P: Float> Tensor<P> {
    /// Images `[N, C, h, w]` put at the places that [`max_pool2d_with_indices`](Self::max_pool2d_with_indices) gave, in images
    /// `[N, C, H, W]` of zeros of `size` (`F.max_unpool2d`). Of several for one place, the last stays.
    ///
    /// # Errors
    /// [`Error::Shape`] unless there is an index for each pixel, [`Error::IndexOutOfRange`] for one outside of `size`.
    #[track_caller]
    pub fn max_unpool2d(&self, indices: &Tensor<I64>, size: impl IntoExtent<2>) -> Result<Self> {
        const OP: &str = "max_unpool2d";
        let &[n, channels, h, w] = self.dims() else {
            let found = self.raw.shape().into();
            return Err(Error::Rank { op: OP, what: "the input", expected: "4 dimensions", found });
        };
        shape::check_same(OP, "the indices", self.dims(), indices.dims())?;
        let [height, width] = size.into_extent();
        let pixels = shape::product(OP, &[height, width])?;
        let none = Self::zeros([n, channels, pixels], self.device())?;
        let places = indices.reshape([n, channels, h * w])?;
        let y = none.scatter(2, &places, &self.reshape([n, channels, h * w])?);
        y.map_err(|error| error.within(OP, self.raw.shape()))?.reshape([n, channels, height, width])
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, F64, Tensor, gradcheck};

    #[test]
    fn maxima_come_back_to_their_places() {
        let value = |i: &[usize]| ((i[1] * 24 + i[2] * 6 + i[3]) as f64 * 1.9).sin() + 2.0;
        let x = Tensor::<F64>::from_fn([1, 2, 4, 6], value, &Device::cpu()).unwrap();
        let (y, places) = x.max_pool2d_with_indices(2).unwrap();
        let back = y.max_unpool2d(&places, [4, 6]).unwrap();
        let kept = back.gt(0.0).unwrap();
        assert_eq!(back.count_nonzero([]).unwrap().item().unwrap(), 12);
        assert!(kept.where_(&x, 0.0).unwrap().equal(&back).unwrap());
        let worst = gradcheck(|y| y[0].max_unpool2d(&places, [5, 6]), std::slice::from_ref(&y)).unwrap();
        assert!(worst.agrees(), "{worst:?}");
        assert!(y.max_unpool2d(&places, 2).is_err() && x.max_unpool2d(&places, 6).is_err());
    }
}
