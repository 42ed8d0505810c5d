//! Resizing of images.

use super::window::IntoExtent;
use crate::autograd::{Pass, record};
use crate::order::{in_order, tensor};
use crate::precision::{Float, full_range};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, IntoShape, Result};
use amp_cpu::{DType, Interpolation};

full_range! {
    UpsamplePrecision, "upsampling must run in `F32`";
}

impl<P: Float> Tensor<P> {
    /// `[N, C, H, W]` resized to `size`, each pixel a copy of the one at the same relative place
    /// (`F.interpolate(mode="nearest")`).
    #[doc(alias = "interpolate")]
    #[track_caller]
    pub fn upsample_nearest(&self, size: impl IntoExtent<2>) -> Result<Self>
    where
        P: UpsamplePrecision,
    {
        let (size, how) = (size.into_extent(), Interpolation::Nearest);
        Ok(Self::from_raw(resize("upsample_nearest", &self.raw, size, how, P::WRITES)?))
    }

    /// `[N, C, H, W]` resized to `size`, each pixel a mix of the four around its place
    /// (`F.interpolate(mode="bilinear")`); `align_corners` lets the centres of the corner pixels coincide.
    #[doc(alias = "interpolate")]
    #[track_caller]
    pub fn upsample_bilinear(&self, size: impl IntoExtent<2>, align_corners: bool) -> Result<Self>
    where
        P: UpsamplePrecision,
    {
        let how = Interpolation::Bilinear { align_corners };
        Ok(Self::from_raw(resize("upsample_bilinear", &self.raw, size.into_extent(), how, P::WRITES)?))
    }
}

/// The image resized, rounded to `writes` if that is given.
#[track_caller]
fn resize(
    op: &'static str,
    x: &RawTensor,
    size: [usize; 2],
    how: Interpolation,
    writes: Option<DType>,
) -> Result<RawTensor> {
    let from = *x.shape();
    if from.len() != 4 {
        return Err(Error::Rank { op, what: "the input", expected: "4 dimensions", found: from.into() });
    }
    if from[2..].contains(&0) {
        return Err(Error::Empty { op, shape: from.into() });
    }
    let shape = [from[0], from[1], size[0], size[1]].into_shape(op)?;
    let (order, out) = (x.backend().pooling_order(&x.layout), writes.unwrap_or(x.logical));
    let upsampled = x.backend().upsample2d(in_order(order, x)?.operand()?, size, how, (out, order));
    let buffer = upsampled.map_err(|e| e.named(op))?;
    record(op, &[x], tensor(order, x.device(), buffer, shape).counted(x.logical), |_| {
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let (grad, input) = (in_order(order, pass.grad())?, [from[2], from[3]]);
            let buffer = grad.backend().upsample2d_grad(grad.operand()?, input, how, (pass.dtype(0), order))?;
            pass.give(0, tensor(order, grad.device(), buffer, from))
        }))
    })
}

#[cfg(test)]
mod tests {
    use crate::{Device, F64, Tensor, gradcheck};

    #[test]
    fn gradients_agree_with_differences() {
        let x = Tensor::<F64>::from_fn([2, 1, 3, 2], |i| (i[0] + 2 * i[2] + 5 * i[3]) as f64 / 7.0, &Device::cpu());
        let x = [x.unwrap()];
        for (name, worst) in [
            ("nearest", gradcheck(|x| x[0].upsample_nearest([5, 4]), &x)),
            ("smaller", gradcheck(|x| x[0].upsample_nearest([2, 1]), &x)),
            ("bilinear", gradcheck(|x| x[0].upsample_bilinear([5, 3], false), &x)),
            ("aligned", gradcheck(|x| x[0].upsample_bilinear(4, true), &x)),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let x = Tensor::<F64>::zeros([1, 1, 0, 2], &Device::cpu()).unwrap();
        let text = x.upsample_nearest(2).err().unwrap().to_string();
        assert_eq!(text, "upsample_nearest: a tensor of shape [1, 1, 0, 2] has no elements to choose from");
        assert!(x.reshape([0, 2]).unwrap().upsample_bilinear(2, true).is_err());
    }
}
