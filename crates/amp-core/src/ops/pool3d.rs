//! Pooling over volumes, as pooling over images and then over their stack; pooling of images by powers.

use super::volume::{image, images, stacked, volumes};
use super::window::{IntoExtent, PoolOptions};
use crate::precision::{Float, I64, full_range};
use crate::tensor::Tensor;
use crate::{Error, Result, shape};

full_range! {
    LpPoolPrecision, "`lp_pool2d` must run in `F32`";
}

impl<P: Float> Tensor<P> {
    /// Greatest value of each window of volumes `[N, C, D, H, W]` (`F.max_pool3d`).
    ///
    /// # Errors
    /// [`Error::Rank`] unless there are 5 dimensions, [`Error::Argument`] for windows that do not fit.
    #[track_caller]
    pub fn max_pool3d(&self, windows: impl Into<PoolOptions<3>>) -> Result<Self> {
        pooled("max_pool3d", self, windows.into(), Pool::Max)
    }

    /// [`max_pool3d`](Self::max_pool3d) and the position of each maximum in its flattened volume.
    ///
    /// # Errors
    /// As those of [`max_pool3d`](Self::max_pool3d).
    #[track_caller]
    pub fn max_pool3d_with_indices(&self, windows: impl Into<PoolOptions<3>>) -> Result<(Self, Tensor<I64>)> {
        const OP: &str = "max_pool3d";
        let [n, channels, depth, height, width] = volumes(OP, "the input", self)?;
        let ([flat, deep], within) = (apart(windows.into()), |error: Error| error.within(OP, self.raw.shape()));
        let images = self.reshape([shape::product(OP, &[n, channels, depth])?, 1, height, width])?;
        let (y, inside) = images.max_pool2d_with_indices(flat).map_err(within)?;
        let &[_, _, h, w] = y.dims() else { unreachable!("an image for each slice") };
        let (z, at) = y.reshape([n, channels, depth, h * w])?.max_pool2d_with_indices(deep).map_err(within)?;
        let result = [n, channels, z.dims()[2], h, w];
        // The slice, then the place in the slice's image.
        let at = at.flatten(2, 3)?;
        let inside = inside.reshape([n, channels, depth * h * w])?.gather(2, &at)?;
        let before = at.floor_divide((h * w) as i64)? * (height * width) as i64;
        Ok((z.reshape(result)?, (before? + inside)?.reshape(result)?))
    }

    /// Mean of each window of volumes `[N, C, D, H, W]` (`F.avg_pool3d`). Computed in F32, rounded once.
    ///
    /// # Errors
    /// [`Error::Rank`] unless there are 5 dimensions, [`Error::Argument`] for windows that do not fit.
    #[track_caller]
    pub fn avg_pool3d(&self, windows: impl Into<PoolOptions<3>>) -> Result<Self> {
        pooled("avg_pool3d", &self.to::<P::Wide>()?, windows.into(), Pool::Mean)?.to()
    }

    /// Greatest value of each of `size` parts of volumes `[N, C, D, H, W]` (`F.adaptive_max_pool3d`).
    ///
    /// # Errors
    /// [`Error::Rank`] unless there are 5 dimensions.
    #[track_caller]
    pub fn adaptive_max_pool3d(&self, size: impl IntoExtent<3>) -> Result<Self> {
        in_parts("adaptive_max_pool3d", self, size.into_extent(), Pool::Max)
    }

    /// Mean of each of `size` parts of volumes `[N, C, D, H, W]` (`F.adaptive_avg_pool3d`). Computed in F32, rounded once.
    ///
    /// # Errors
    /// [`Error::Rank`] unless there are 5 dimensions.
    #[track_caller]
    pub fn adaptive_avg_pool3d(&self, size: impl IntoExtent<3>) -> Result<Self> {
        let wide = self.to::<P::Wide>()?;
        in_parts("adaptive_avg_pool3d", &wide, size.into_extent(), Pool::Mean)?.to()
    }

    /// `(Σ x^p)^(1/p)` of each window of images `[N, C, H, W]` (`F.lp_pool2d`). Needs full precision, as
    /// [`norm`](Self::norm) does.
    ///
    /// # Errors
    /// [`Error::Rank`] unless there are 4 dimensions, [`Error::Argument`] for windows that do not fit or are padded.
    #[track_caller]
    pub fn lp_pool2d(&self, p: f64, windows: impl Into<PoolOptions<2>>) -> Result<Self>
    where
        P: LpPoolPrecision,
    {
        const OP: &str = "lp_pool2d";
        let windows = windows.into();
        if windows.padding != [0, 0] {
            return Err(Error::argument(OP, "padding", "0", format!("{:?}", windows.padding)));
        }
        let means = self.pow(p)?.avg_pool2d(windows).map_err(|error| error.within(OP, self.raw.shape()))?;
        let sums = means.mul((windows.kernel[0] * windows.kernel[1]) as f64)?;
        sums.sign()?.mul(&sums.abs()?.relu()?)?.pow(1.0 / p)
    }
}

/// How the elements of a window are reduced.
#[derive(Clone, Copy)]
enum Pool {
    Max,
    Mean,
}

impl Pool {
    #[track_caller]
    fn windows<P: Float>(self, x: &Tensor<P>, windows: PoolOptions<2>) -> Result<Tensor<P>> {
        match self {
            Self::Max => x.max_pool2d(windows),
            Self::Mean => x.avg_pool2d(windows),
        }
    }

    #[track_caller]
    fn parts<P: Float>(self, x: &Tensor<P>, size: [usize; 2]) -> Result<Tensor<P>> {
        match self {
            Self::Max => x.adaptive_max_pool2d(size),
            Self::Mean => x.adaptive_avg_pool2d(size),
        }
    }
}

/// Windows over height and width, and those over the depth of a volume whose slices lie flat.
fn apart(windows: PoolOptions<3>) -> [PoolOptions<2>; 2] {
    let PoolOptions { kernel, stride, padding, dilation, ceil_mode, count_include_pad } = windows;
    let flat = PoolOptions {
        kernel: image(kernel),
        stride: image(stride),
        padding: image(padding),
        dilation: image(dilation),
        ceil_mode,
        count_include_pad,
    };
    let deep = PoolOptions {
        kernel: [kernel[0], 1],
        stride: [stride[0], 1],
        padding: [padding[0], 0],
        dilation: [dilation[0], 1],
        ceil_mode,
        count_include_pad,
    };
    [flat, deep]
}

/// Windows over height and width, then over the depth.
#[track_caller]
fn pooled<P: Float>(op: &'static str, x: &Tensor<P>, windows: PoolOptions<3>, pool: Pool) -> Result<Tensor<P>> {
    let [flat, deep] = apart(windows);
    let within = |error: Error| error.within(op, x.raw.shape());
    let y = pool.windows(&images(op, x)?, flat).map_err(within)?;
    let &[.., h, w] = y.dims() else { unreachable!("an image for each slice") };
    let z = pool.windows(&stacked(x, &y)?, deep).map_err(within)?;
    let &[n, channels, count, _] = z.dims() else { unreachable!("an image for each volume") };
    z.reshape([n, channels, count, h, w])
}

/// Parts of height and width, then of the depth.
#[track_caller]
fn in_parts<P: Float>(op: &'static str, x: &Tensor<P>, [d, h, w]: [usize; 3], pool: Pool) -> Result<Tensor<P>> {
    let within = |error: Error| error.within(op, x.raw.shape());
    let y = pool.parts(&images(op, x)?, [h, w]).map_err(within)?;
    let columns = shape::product(op, &[h, w])?;
    let [n, channels, ..] = volumes(op, "the input", x)?;
    if columns == 0 {
        return y.reshape([n, channels, d, h, w]);
    }
    pool.parts(&stacked(x, &y)?, [d, columns]).map_err(within)?.reshape([n, channels, d, h, w])
}

#[cfg(test)]
mod tests {
    use crate::testing::wave;
    use crate::{F64, PoolOptions, Result, Tensor, gradcheck};

    /// Volumes `[N, D, H, W, C]` as `[N, C, D, H, W]`.
    fn together(x: &Tensor<F64>) -> Result<Tensor<F64>> {
        x.permute([0, 4, 1, 2, 3])
    }

    #[test]
    fn gradients_agree_with_differences() {
        let x = [wave(&[1, 4, 4, 3, 3])];
        let windows = || PoolOptions::new([2, 2, 1]).padding([1, 0, 0]);
        for (name, worst) in [
            ("max_pool3d", gradcheck(|x| x[0].max_pool3d(windows()), &x)),
            ("max_pool3d of channels that lie together", gradcheck(|x| together(&x[0])?.max_pool3d(windows()), &x)),
            ("avg_pool3d of such", gradcheck(|x| together(&x[0])?.avg_pool3d(windows()), &x)),
            ("with indices", gradcheck(|x| Ok(x[0].max_pool3d_with_indices(windows())?.0), &x)),
            ("avg_pool3d", gradcheck(|x| x[0].avg_pool3d(windows()), &x)),
            ("adaptive_max_pool3d", gradcheck(|x| x[0].adaptive_max_pool3d([3, 2, 1]), &x)),
            ("adaptive_avg_pool3d", gradcheck(|x| x[0].adaptive_avg_pool3d([3, 2, 2]), &x)),
            ("lp_pool2d", gradcheck(|x| x[0].select(0, 0)?.lp_pool2d(2.0, 2), &x)),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn maxima_are_where_they_are_said_to_be() -> Result<()> {
        let x = wave(&[2, 3, 5, 4, 6]);
        let (y, places) =
            x.max_pool3d_with_indices(PoolOptions::new([2, 3, 2]).stride([2, 1, 2]).padding([1, 1, 0]))?;
        let found = x.flatten(2, -1)?.gather(2, &places.flatten(2, -1)?)?;
        assert_eq!(found.to_vec()?, y.to_vec()?);
        // The first of equal ones.
        let none = Tensor::<F64>::zeros([1, 1, 4, 2, 2], x.device())?.max_pool3d_with_indices(2)?.1;
        assert_eq!((none.dims(), none.to_vec()?), ([1, 1, 2, 1, 1].as_slice(), vec![0, 8]));
        Ok(())
    }

    #[test]
    fn volumes_that_do_not_fit_are_errors() {
        let x = wave(&[1, 2, 3, 4, 4]);
        let text = |result: Result<Tensor<F64>>| result.unwrap_err().to_string();
        assert!(text(x.select(0, 0).and_then(|x| x.max_pool3d(2))).contains("the input must have 5 dimensions"));
        assert!(
            text(x.select(0, 0).and_then(|x| x.adaptive_avg_pool3d(2))).contains("the input must have 5 dimensions")
        );
        assert!(x.avg_pool3d(5).is_err() && x.max_pool3d_with_indices(5).is_err());
        let flat = x.narrow(3, 0, 0).unwrap();
        for empty in [flat.adaptive_avg_pool3d(1), flat.adaptive_max_pool3d(1)] {
            assert!(text(empty).contains("a tensor of shape [1, 2, 3, 0, 4] has no elements"));
        }
    }
}
