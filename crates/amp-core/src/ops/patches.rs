//! Images as columns of patches (`im2col`), and back.

use super::window::{ConvOptions, IntoExtent};
use crate::memory::on_host;
use crate::precision::{Float, I64};
use crate::tensor::Tensor;
use crate::{Device, Error, Result, shape};
use amp_cpu::Conv2d;

/// How patches lie in padded images.
struct Patches {
    op: &'static str,
    kernel: [usize; 2],
    options: ConvOptions<2>,
    /// Height and width with the padding.
    padded: [usize; 2],
    /// Patches down and across.
    count: [usize; 2],
}

impl Patches {
    fn new(op: &'static str, size: [usize; 2], kernel: [usize; 2], options: ConvOptions<2>) -> Result<Self> {
        let ConvOptions { stride, padding, dilation, groups, .. } = options;
        if groups != 1 {
            return Err(Error::argument(op, "groups", "1", groups));
        }
        let spec = Conv2d { stride, padding, dilation, groups };
        let fits = spec.output_size(size, kernel).filter(|_| kernel.iter().chain(&dilation).all(|&n| n > 0));
        let Some(count) = fits else {
            let expected =
                format!("at least 1 and to fit in {size:?} with its padding; stride and dilation at least 1");
            return Err(Error::argument(op, "kernel", expected, format!("{kernel:?}")));
        };
        let padded = [0, 1].map(|i| size[i] + 2 * padding[i]);
        Ok(Self { op, kernel, options, padded, count })
    }

    /// Places along an axis: of all patches for the first element of the kernel, then for the next.
    fn places(&self, axis: usize, device: &Device) -> Result<Tensor<I64>> {
        let (count, ConvOptions { stride, dilation, .. }) = (self.count[axis], self.options);
        let len = shape::product(self.op, &[self.kernel[axis], count])?;
        let place = |i: usize| (i / count.max(1) * dilation[axis] + i % count.max(1) * stride[axis]) as i64;
        Tensor::from_vec(on_host(self.op, len, (0..len).map(place))?, [len], device)
    }
}

impl<P: Float> Tensor<P> {
    /// The patches of images `[N, C, H, W]` as columns, `[N, C kh kw, L]` (`F.unfold`); `options` say stride, padding and
    /// dilation. Gradients are summed in F32 and rounded once for each of the two dimensions.
    ///
    /// # Errors
    /// [`Error::Rank`] unless there are 4 dimensions, [`Error::Argument`] for a kernel that does not fit.
    #[track_caller]
    pub fn unfold(&self, kernel: impl IntoExtent<2>, options: ConvOptions<2>) -> Result<Self> {
        const OP: &str = "unfold";
        let &[n, c, h, w] = self.dims() else {
            let (expected, found) = ("4 dimensions", self.raw.shape().into());
            return Err(Error::Rank { op: OP, what: "the input", expected, found });
        };
        let patches = Patches::new(OP, [h, w], kernel.into_extent(), options)?;
        let ([kh, kw], [down, across], [ph, pw]) = (patches.kernel, patches.count, options.padding);
        let channels = shape::product(OP, &[c, kh, kw])?;
        let x = if ph + pw > 0 { &self.pad([pw, pw, ph, ph], 0.0)? } else { self };
        let rows = x.index_select(2, &patches.places(0, x.device())?)?;
        let both = rows.index_select(3, &patches.places(1, x.device())?)?;
        let parts = both.reshape([n, c, kh, down, kw, across])?.permute([0, 1, 2, 4, 3, 5])?;
        parts.reshape([n, channels, down * across])
    }

    /// The images `[N, C, H, W]` of the given size that sums of patches `[N, C kh kw, L]` make, each where
    /// [`unfold`](Self::unfold) takes it from (`F.fold`). Sums are in F32 and rounded once for each of the two dimensions.
    ///
    /// # Errors
    /// [`Error::Shape`] unless there are as many patches as such images have, [`Error::Argument`] as for `unfold`.
    #[track_caller]
    pub fn fold(&self, size: [usize; 2], kernel: impl IntoExtent<2>, options: ConvOptions<2>) -> Result<Self> {
        const OP: &str = "fold";
        let patches = Patches::new(OP, size, kernel.into_extent(), options)?;
        let ([kh, kw], [down, across], [h, w]) = (patches.kernel, patches.count, patches.padded);
        let (parts, count) = (shape::product(OP, &[kh, kw])?, shape::product(OP, &[down, across])?);
        let n_and_c = match *self.dims() {
            [n, channels, l] if l == count && channels % parts == 0 => Some((n, channels / parts)),
            _ => None,
        };
        let Some((n, c)) = n_and_c else {
            let expected = format!("[N, C · {parts}, {count}]");
            return Err(Error::Shape { op: OP, what: "the input", expected, found: self.raw.shape().into() });
        };
        let (tall, high) = (shape::product(OP, &[kh, down])?, shape::product(OP, &[kw, across])?);
        let lines =
            self.reshape([n, c, kh, kw, down, across])?.permute([0, 1, 2, 4, 3, 5])?.reshape([n, c, tall, high])?;
        let none = |height| Self::zeros([n, c, height, w], self.device());
        let rows = none(tall)?.index_add(3, &patches.places(1, self.device())?, &lines)?;
        let images = none(h)?.index_add(2, &patches.places(0, self.device())?, &rows)?;
        let [ph, pw] = options.padding;
        images.narrow(2, ph, size[0])?.narrow(3, pw, size[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{F64, gradcheck};

    fn options() -> ConvOptions<2> {
        ConvOptions::default().stride([2, 1]).padding([1, 2]).dilation([1, 2])
    }

    #[test]
    fn gradients_agree_with_differences() {
        let x = Tensor::<F64>::from_fn([1, 2, 3, 4], |i| (i[1] * 12 + i[2] * 4 + i[3]) as f64 / 7.0, &Device::cpu());
        let x = x.unwrap();
        let columns = x.unfold([2, 3], options()).unwrap();
        let worst = gradcheck(|x| x[0].unfold([2, 3], options())?.sqr(), std::slice::from_ref(&x)).unwrap();
        assert!(worst.agrees(), "unfold: {worst:?}");
        let worst = gradcheck(|x| x[0].fold([3, 4], [2, 3], options())?.sqr(), &[columns]).unwrap();
        assert!(worst.agrees(), "fold: {worst:?}");
    }

    /// A product with the columns is a convolution.
    #[test]
    fn columns_are_what_a_convolution_multiplies() {
        let device = Device::cpu();
        let x =
            Tensor::<F64>::from_fn([2, 3, 5, 6], |i| ((i[0] * 7 + i[1] * 5 + i[2] * 3 + i[3]) % 11) as f64, &device);
        let w = Tensor::<F64>::from_fn([4, 3, 2, 3], |i| ((i[0] * 3 + i[1] + i[2] * 5 + i[3]) % 7) as f64, &device);
        let (x, w) = (x.unwrap(), w.unwrap());
        let convolved = x.conv2d(&w, None, options()).unwrap();
        let columns = x.unfold([2, 3], options()).unwrap();
        let product = w.reshape([4, 18]).unwrap().matmul(&columns).unwrap();
        assert_eq!(product.to_vec().unwrap(), convolved.to_vec().unwrap());
    }

    #[test]
    fn patches_that_do_not_fit_are_errors() {
        let x = Tensor::<F64>::zeros([1, 2, 3, 4], &Device::cpu()).unwrap();
        let text = |result: Result<Tensor<F64>>| result.unwrap_err().to_string();
        assert_eq!(
            text(x.unfold(4, ConvOptions::default())),
            "unfold: kernel must be at least 1 and to fit in [3, 4] with its padding; stride and dilation at least 1, \
             found [4, 4]"
        );
        assert!(x.unfold(0, ConvOptions::default()).is_err());
        assert!(x.unfold(1, ConvOptions::default().stride(0)).is_err());
        assert!(x.unfold(1, ConvOptions::default().dilation(0)).is_err());
        assert_eq!(text(x.unfold(1, ConvOptions::default().groups(2))), "unfold: groups must be 1, found 2");
        assert!(text(x.select(0, 0).unwrap().unfold(1, ConvOptions::default())).contains("4 dimensions"));
        let columns = x.unfold(2, ConvOptions::default()).unwrap();
        assert_eq!(columns.dims(), [1, 8, 6]);
        assert_eq!(
            text(columns.fold([3, 3], 2, ConvOptions::default())),
            "fold: the input must have shape [N, C · 4, 4], found [1, 8, 6]"
        );
    }
}
