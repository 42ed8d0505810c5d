//! Maxima put back to where a pooling found them.

use super::volume::volumes;
use super::window::IntoExtent;
use crate::precision::{Float, I64};
use crate::tensor::Tensor;
use crate::{Error, Result, shape};

/// Elements `[N, C, ..]` at places of `size`, flattened, in zeros.
#[track_caller]
fn put_back<P: Float>(op: &'static str, x: &Tensor<P>, indices: &Tensor<I64>, size: &[usize]) -> Result<Tensor<P>> {
    shape::check_same(op, "the indices", x.dims(), indices.dims())?;
    let outer = &x.dims()[..2];
    let none = Tensor::zeros([outer, &[shape::product(op, size)?]].concat(), x.device())?;
    let y = none.scatter(2, &indices.flatten(2, -1)?, &x.flatten(2, -1)?);
    y.map_err(|error| error.within(op, x.raw.shape()))?.reshape([outer, size].concat())
}

impl<P: Float> Tensor<P> {
    /// Images `[N, C, h, w]` put at the places that [`max_pool2d_with_indices`](Self::max_pool2d_with_indices) gave, in images
    /// `[N, C, H, W]` of zeros of `size` (`F.max_unpool2d`). Of several for one place, the last stays.
    ///
    /// # Errors
    /// [`Error::Rank`] unless there are 4 dimensions, [`Error::Shape`] unless there is an index for each pixel,
    /// [`Error::IndexOutOfRange`] for one outside of `size`.
    #[track_caller]
    pub fn max_unpool2d(&self, indices: &Tensor<I64>, size: impl IntoExtent<2>) -> Result<Self> {
        const OP: &str = "max_unpool2d";
        if self.rank() != 4 {
            let found = self.raw.shape().into();
            return Err(Error::Rank { op: OP, what: "the input", expected: "4 dimensions", found });
        }
        put_back(OP, self, indices, &size.into_extent())
    }

    /// Volumes `[N, C, d, h, w]` put at the places that [`max_pool3d_with_indices`](Self::max_pool3d_with_indices) gave, in
    /// volumes `[N, C, D, H, W]` of zeros of `size` (`F.max_unpool3d`). Of several for one place, the last stays.
    ///
    /// # Errors
    /// [`Error::Rank`] unless there are 5 dimensions, [`Error::Shape`] unless there is an index for each element,
    /// [`Error::IndexOutOfRange`] for one outside of `size`.
    #[track_caller]
    pub fn max_unpool3d(&self, indices: &Tensor<I64>, size: impl IntoExtent<3>) -> Result<Self> {
        const OP: &str = "max_unpool3d";
        volumes(OP, "the input", self)?;
        put_back(OP, self, indices, &size.into_extent())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::wave;
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

    #[test]
    fn maxima_of_volumes_come_back_to_their_places() {
        let x = (wave(&[2, 1, 4, 2, 6]) + 2.0).unwrap();
        let (y, places) = x.max_pool3d_with_indices(2).unwrap();
        let back = y.max_unpool3d(&places, [4, 2, 6]).unwrap();
        assert_eq!(back.count_nonzero([]).unwrap().item().unwrap(), 12);
        assert!(back.gt(0.0).unwrap().where_(&x, 0.0).unwrap().equal(&back).unwrap());
        let worst = gradcheck(|y| y[0].max_unpool3d(&places, [4, 2, 7]), std::slice::from_ref(&y)).unwrap();
        assert!(worst.agrees(), "{worst:?}");
        assert!(y.max_unpool3d(&places, 2).is_err() && y.select(0, 0).unwrap().max_unpool3d(&places, 4).is_err());
    }
}
