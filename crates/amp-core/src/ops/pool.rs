//! Pooling over lines and images.

use super::reduce::fold;
use super::window::{IntoExtent, PoolOptions, flat};
use crate::autograd::{Pass, grad_enabled, record};
use crate::backend::{Buffer, MemoryOrder};
use crate::order::{in_order, tensor};
use crate::precision::{Float, I64};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, IntoShape, Result};
use amp_cpu::{DType, Dims, Layout, Pool2d, Reduce};

macro_rules! poolings {
    ($($dims:literal, $shape:literal, $max:ident, $max_with_indices:ident, $adaptive_max:ident,
        $adaptive_max_with_indices:ident, $avg:ident, $adaptive_avg:ident;)*) => {
        impl<P: Float> Tensor<P> { $(
            #[doc = concat!("Largest value of each window of `", $shape, "` (`F.", stringify!($max), "`); a number stands for windows of that size")]
            /// side by side. Exact; NaN counts as the largest, and the gradient goes to the first of equal values.
            #[track_caller]
            pub fn $max(&self, windows: impl Into<PoolOptions<$dims>>) -> Result<Self> {
                let windows = Windows::new(stringify!($max), $dims, &self.raw)?.fixed(windows.into())?;
                Ok(Self::from_raw(windows.largest(&self.raw)?))
            }

            #[doc = concat!("[`", stringify!($max), "`](Self::", stringify!($max), ") and the position of each maximum in its line or plane.")]
            #[track_caller]
            pub fn $max_with_indices(&self, windows: impl Into<PoolOptions<$dims>>) -> Result<(Self, Tensor<I64>)> {
                let windows = Windows::new(stringify!($max_with_indices), $dims, &self.raw)?.fixed(windows.into())?;
                let (y, indices) = windows.max(&self.raw)?;
                Ok((Self::from_raw(y), Tensor::from_raw(indices)))
            }

            #[doc = concat!("Largest value of each of `size` parts of `", $shape, "` (`F.", stringify!($adaptive_max), "`).")]
            #[track_caller]
            pub fn $adaptive_max(&self, size: impl IntoExtent<$dims>) -> Result<Self> {
                let windows = Windows::new(stringify!($adaptive_max), $dims, &self.raw)?.adaptive(size.into_extent())?;
                Ok(Self::from_raw(windows.largest(&self.raw)?))
            }

            #[doc = concat!("[`", stringify!($adaptive_max), "`](Self::", stringify!($adaptive_max), ") and the position of each maximum in its line or plane.")]
            #[track_caller]
            pub fn $adaptive_max_with_indices(&self, size: impl IntoExtent<$dims>) -> Result<(Self, Tensor<I64>)> {
                let windows = Windows::new(stringify!($adaptive_max_with_indices), $dims, &self.raw)?.adaptive(size.into_extent())?;
                let (y, indices) = windows.max(&self.raw)?;
                Ok((Self::from_raw(y), Tensor::from_raw(indices)))
            }

            #[doc = concat!("Mean of each window of `", $shape, "` (`F.", stringify!($avg), "`); a number stands for windows of that size side by")]
            /// side. Sums in F32 (F64 for F64), rounds once.
            #[track_caller]
            pub fn $avg(&self, windows: impl Into<PoolOptions<$dims>>) -> Result<Self> {
                let windows = Windows::new(stringify!($avg), $dims, &self.raw)?.fixed(windows.into().dilation(1))?;
                Ok(Self::from_raw(windows.average(&self.raw)?))
            }

            #[doc = concat!("Mean of each of `size` parts of `", $shape, "` (`F.", stringify!($adaptive_avg), "`). Sums in F32 (F64 for F64),")]
            /// rounds once.
            #[track_caller]
            pub fn $adaptive_avg(&self, size: impl IntoExtent<$dims>) -> Result<Self> {
                let windows = Windows::new(stringify!($adaptive_avg), $dims, &self.raw)?.adaptive(size.into_extent())?;
                Ok(Self::from_raw(windows.average(&self.raw)?))
            }
        )* }
    };
}
poolings! {
    1, "[N, C, L]", max_pool1d, max_pool1d_with_indices, adaptive_max_pool1d, adaptive_max_pool1d_with_indices,
        avg_pool1d, adaptive_avg_pool1d;
    2, "[N, C, H, W]", max_pool2d, max_pool2d_with_indices, adaptive_max_pool2d, adaptive_max_pool2d_with_indices,
        avg_pool2d, adaptive_avg_pool2d;
}

#[derive(Clone, Copy)]
enum Kind {
    Fixed { spec: Pool2d, count_include_pad: bool },
    Adaptive,
}

/// Checked windows of a pooling; lines are images of height 1.
#[derive(Clone, Copy)]
struct Windows {
    op: &'static str,
    dims: usize,
    shape: Dims,
    input: [usize; 2],
    size: [usize; 2],
    kind: Kind,
    /// In which operands, results and gradients lie.
    order: MemoryOrder,
}

impl Windows {
    fn new(op: &'static str, dims: usize, x: &RawTensor) -> Result<Self> {
        let shape = *x.shape();
        if shape.len() != dims + 2 {
            let expected = if dims == 1 { "3 dimensions" } else { "4 dimensions" };
            return Err(Error::Rank { op, what: "the input", expected, found: shape.into() });
        }
        if shape[2..].contains(&0) {
            return Err(Error::Empty { op, shape: shape.into() });
        }
        let (input, order) = match dims {
            1 => ([1, shape[2]], MemoryOrder::RowMajor),
            _ => ([shape[2], shape[3]], x.backend().pooling_order(&x.layout)),
        };
        Ok(Self { op, dims, shape, input, size: input, kind: Kind::Adaptive, order })
    }

    fn fixed<const D: usize>(self, options: PoolOptions<D>) -> Result<Self> {
        for (argument, values) in
            [("kernel", options.kernel), ("stride", options.stride), ("dilation", options.dilation)]
        {
            if values.contains(&0) {
                return Err(Error::argument(self.op, argument, "at least 1", format!("{values:?}")));
            }
        }
        if (0..D).any(|i| options.padding[i] > options.kernel[i] / 2) {
            let expected = format!("at most half of the kernel {:?}", options.kernel);
            return Err(Error::argument(self.op, "padding", expected, format!("{:?}", options.padding)));
        }
        let spec = Pool2d {
            kernel: flat(options.kernel, 1),
            stride: flat(options.stride, 1),
            padding: flat(options.padding, 0),
            dilation: flat(options.dilation, 1),
            ceil_mode: options.ceil_mode,
        };
        let size = spec.output_size(self.input).ok_or_else(|| {
            let expected =
                format!("[N, C, ..] in which the kernel {:?} fits with padding {:?}", options.kernel, options.padding);
            Error::Shape { op: self.op, what: "the input", expected, found: self.shape.into() }
        })?;
        Ok(Self { size, kind: Kind::Fixed { spec, count_include_pad: options.count_include_pad }, ..self })
    }

    fn adaptive<const D: usize>(self, size: [usize; D]) -> Result<Self> {
        let size = flat(size, 1);
        self.result(size)?;
        Ok(Self { size, ..self })
    }

    /// The shape of the result.
    fn result(&self, size: [usize; 2]) -> Result<Dims> {
        let mut shape = self.shape;
        shape[2..].copy_from_slice(&size[2 - self.dims..]);
        shape.into_shape(self.op)
    }

    /// Fixed windows, if they are.
    fn spec(&self) -> Option<&Pool2d> {
        if let Kind::Fixed { spec, .. } = &self.kind { Some(spec) } else { None }
    }

    /// The tensor in order; a line with a height.
    fn lifted(&self, x: &RawTensor) -> Result<RawTensor> {
        if self.dims == 2 {
            return in_order(self.order, x);
        }
        let inserted = |dims: &Dims, size: usize| dims.inserted(2, size).expect("four dimensions");
        let layout = &x.layout;
        let (shape, strides) = (inserted(&layout.shape, 1), inserted(&layout.strides, 0));
        Ok(x.with_layout(Layout { shape, strides, offset: layout.offset }))
    }

    /// The maxima alone, of which only the gradient asks for the positions.
    #[track_caller]
    fn largest(self, x: &RawTensor) -> Result<RawTensor> {
        if grad_enabled() && x.edge.is_some() {
            return Ok(self.max(x)?.0);
        }
        let y = x.backend().max_pool2d_values(self.lifted(x)?.operand()?, self.spec(), self.size, self.order)?;
        record(self.op, &[x], tensor(self.order, x.device(), y, self.result(self.size)?), |_| {
            unreachable!("a gradient is recorded with positions")
        })
    }

    #[track_caller]
    fn max(self, x: &RawTensor) -> Result<(RawTensor, RawTensor)> {
        let image = self.lifted(x)?;
        let (y, indices) = match &self.kind {
            Kind::Fixed { spec, .. } => x.backend().max_pool2d(image.operand()?, spec, self.order)?,
            Kind::Adaptive => x.backend().adaptive_max_pool2d(image.operand()?, self.size, self.order)?,
        };
        let shape = self.result(self.size)?;
        let places = tensor(self.order, x.device(), indices.clone(), shape);
        let y = record(self.op, &[x], tensor(self.order, x.device(), y, shape), |_| {
            Ok(Box::new(move |pass: &mut Pass<'_>| {
                self.give(pass, |grad, out| {
                    grad.backend().max_pool2d_grad(grad.operand()?, &indices, self.input, self.spec(), out)
                })
            }))
        })?;
        Ok((y, places))
    }

    #[track_caller]
    fn average(self, x: &RawTensor) -> Result<RawTensor> {
        if matches!(self.kind, Kind::Adaptive) && self.size == [1, 1] {
            // One part is a mean: a sum that loses no digits ([300, 300] of 60000 were 59952), and a gradient that is not stored.
            let (axes, pixels): (Vec<usize>, usize) = ((2..self.shape.len()).collect(), self.input.iter().product());
            return fold(self.op, Reduce::Mean, x, &axes, 1.0 / pixels as f64);
        }
        let y = self.averages(x)?;
        record(self.op, &[x], y, |_| {
            Ok(Box::new(move |pass: &mut Pass<'_>| {
                self.give(pass, |grad, out| match &self.kind {
                    Kind::Fixed { spec, count_include_pad } => {
                        grad.backend().avg_pool2d_grad(grad.operand()?, self.input, spec, *count_include_pad, out)
                    }
                    Kind::Adaptive => grad.backend().adaptive_avg_pool2d_grad(grad.operand()?, self.input, out),
                })
            }))
        })
    }

    fn averages(&self, x: &RawTensor) -> Result<RawTensor> {
        let shape = self.result(self.size)?;
        let image = self.lifted(x)?;
        let y = match &self.kind {
            Kind::Fixed { spec, count_include_pad } => {
                x.backend().avg_pool2d(image.operand()?, spec, *count_include_pad, self.order)?
            }
            Kind::Adaptive => x.backend().adaptive_avg_pool2d(image.operand()?, self.size, self.order)?,
        };
        Ok(tensor(self.order, x.device(), y, shape))
    }

    fn give(
        &self,
        pass: &mut Pass<'_>,
        kernel: impl Fn(&RawTensor, (DType, MemoryOrder)) -> Result<Buffer>,
    ) -> Result<()> {
        let grad = self.lifted(pass.grad())?;
        let buffer = kernel(&grad, (pass.dtype(0), self.order))?;
        pass.give(0, tensor(self.order, grad.device(), buffer, self.shape))
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::window::PoolOptions;
    use crate::{Device, F16, F32, F64, Tensor, gradcheck};

    fn numbers(shape: &[usize]) -> Tensor<F64> {
        let mut value = 0.1;
        let mut next = |_: &[usize]| {
            value = (value * 7.3_f64 + 0.41).fract();
            value - 0.5
        };
        Tensor::<F64>::from_fn(shape, &mut next, &Device::cpu()).unwrap()
    }

    #[test]
    fn gradients_agree_with_differences() {
        let x = [numbers(&[2, 2, 5, 6])];
        let line = [numbers(&[2, 2, 7])];
        let overlapping = PoolOptions::<2>::new([3, 2]).stride([1, 2]).padding([1, 0]).ceil_mode(true);
        for (name, worst) in [
            ("max", gradcheck(|x| x[0].max_pool2d(2), &x)),
            ("overlapping max", gradcheck(|x| x[0].max_pool2d(overlapping.dilation([1, 2])), &x)),
            ("avg", gradcheck(|x| x[0].avg_pool2d([2, 3]), &x)),
            ("overlapping avg", gradcheck(|x| x[0].avg_pool2d(overlapping), &x)),
            ("uncounted", gradcheck(|x| x[0].avg_pool2d(overlapping.count_include_pad(false)), &x)),
            ("adaptive max", gradcheck(|x| x[0].adaptive_max_pool2d([2, 4]), &x)),
            ("adaptive avg", gradcheck(|x| x[0].adaptive_avg_pool2d([3, 7]), &x)),
            ("max1d", gradcheck(|x| x[0].max_pool1d(3), &line)),
            ("avg1d", gradcheck(|x| x[0].avg_pool1d(PoolOptions::new(3).stride(2).padding(1)), &line)),
            ("adaptive max1d", gradcheck(|x| x[0].adaptive_max_pool1d(2), &line)),
            ("adaptive avg1d", gradcheck(|x| x[0].adaptive_avg_pool1d(3), &line)),
            ("one large part", gradcheck(|x| x[0].adaptive_avg_pool2d(1), &[numbers(&[1, 2, 9, 8])])),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn means_of_large_planes_keep_their_digits() {
        let image = Tensor::<F32>::full([1, 2, 300, 300], 60000.0, &Device::cpu()).unwrap();
        let line = image.reshape([1, 2, 90000]).unwrap();
        for y in [image.adaptive_avg_pool2d(1).unwrap(), line.adaptive_avg_pool1d(1).unwrap().unsqueeze(3).unwrap()] {
            assert_eq!((y.dims(), y.to_vec().unwrap()), ([1, 2, 1, 1].as_slice(), vec![60000.0; 2]));
        }
        let half = image.to::<F16>().unwrap().adaptive_avg_pool2d(1).unwrap();
        assert_eq!(half.to_vec().unwrap(), [half::f16::from_f32(60000.0); 2]);
    }

    #[test]
    fn indices_point_into_the_plane() {
        let x = Tensor::<F64>::from_fn([1, 1, 2, 4], |i| (i[2] * 4 + i[3]) as f64, &Device::cpu()).unwrap();
        let (y, indices) = x.to::<F16>().unwrap().max_pool2d_with_indices(2).unwrap();
        assert_eq!(y.dims(), [1, 1, 1, 2]);
        assert_eq!(indices.to_vec().unwrap(), [5, 7]);
        // The parts of 4 are 0..2, 1..3 and 2..4.
        let (y, indices) = x.adaptive_max_pool2d_with_indices([1, 3]).unwrap();
        assert_eq!((y.to_vec().unwrap(), indices.to_vec().unwrap()), (vec![5.0, 6.0, 7.0], vec![5, 6, 7]));
        let line =
            Tensor::<F64>::from_vec(vec![3.0, 1.0, 2.0, 5.0, 4.0, 0.0, 9.0, 0.0], [2, 1, 4], x.device()).unwrap();
        let (y, indices) = line.max_pool1d_with_indices(2).unwrap();
        assert_eq!((y.to_vec().unwrap(), indices.to_vec().unwrap()), (vec![3.0, 5.0, 4.0, 9.0], vec![0, 3, 0, 2]));
        let (y, indices) = line.adaptive_max_pool1d_with_indices(3).unwrap();
        let expected = (vec![3.0, 2.0, 5.0, 4.0, 9.0, 9.0], vec![0, 2, 3, 0, 2, 2]);
        assert_eq!((y.to_vec().unwrap(), indices.to_vec().unwrap()), expected);
    }

    #[test]
    fn mistakes_are_named() {
        let x = numbers(&[1, 1, 2, 2]);
        for (got, text) in [
            (
                x.max_pool2d(3),
                "max_pool2d: the input must have shape [N, C, ..] in which the kernel [3, 3] fits with padding [0, 0], found [1, 1, 2, 2]",
            ),
            (x.avg_pool2d(0), "avg_pool2d: kernel must be at least 1, found [0, 0]"),
            (
                x.max_pool2d(PoolOptions::new(2).padding(2)),
                "max_pool2d: padding must be at most half of the kernel [2, 2], found [2, 2]",
            ),
            (x.max_pool1d(2), "max_pool1d: the input must have 3 dimensions, found shape [1, 1, 2, 2]"),
            (
                x.max_pool1d_with_indices(2).map(|y| y.0),
                "max_pool1d_with_indices: the input must have 3 dimensions, found shape [1, 1, 2, 2]",
            ),
            (
                x.adaptive_max_pool1d_with_indices(2).map(|y| y.0),
                "adaptive_max_pool1d_with_indices: the input must have 3 dimensions, found shape [1, 1, 2, 2]",
            ),
            (
                numbers(&[1, 1, 0, 2]).max_pool2d(1),
                "max_pool2d: a tensor of shape [1, 1, 0, 2] has no elements to choose from",
            ),
        ] {
            assert_eq!(got.err().unwrap().to_string(), text);
        }
        assert_eq!(numbers(&[0, 3, 4, 4]).max_pool2d(2).unwrap().dims(), [0, 3, 2, 2]);
        assert_eq!(x.adaptive_avg_pool2d(0).unwrap().dims(), [1, 1, 0, 0]);
    }

    /// The gradient of an image that was narrowed is not rounded on its way to the image.
    #[test]
    fn means_of_narrowed_images_have_gradients_of_full_precision() {
        let image = numbers(&[1, 1, 7, 7]).to::<F32>().unwrap().tracked();
        let y = image.to::<F16>().unwrap().adaptive_avg_pool2d(1).unwrap();
        let grads = y.backward_with(&Tensor::ones([1, 1, 1, 1], &Device::cpu()).unwrap()).unwrap();
        let share = 1.0 / 49.0;
        for found in grads.get(&image).unwrap().unwrap().to_vec().unwrap() {
            // A factor and a product, each rounded to F32.
            assert!((f64::from(found) - share).abs() <= 2.0 * share * f64::from(f32::EPSILON), "{found}");
        }
    }
}
