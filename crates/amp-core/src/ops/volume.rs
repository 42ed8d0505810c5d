//! Volumes as images: convolution over them, and how they lie.

use super::slices::Places;
use super::window::ConvOptions;
use crate::backend::MemoryOrder;
use crate::order::order_of;
use crate::precision::{Element, Float, SamePrecision};
use crate::tensor::Tensor;
use crate::{Error, Result, shape};

/// The sizes of volumes `[N, C, D, H, W]`.
#[track_caller]
pub(super) fn volumes<P: Element>(op: &'static str, what: &'static str, x: &Tensor<P>) -> Result<[usize; 5]> {
    x.dims().try_into().map_err(|_| Error::Rank { op, what, expected: "5 dimensions", found: x.raw.shape().into() })
}

/// An error unless volumes have the number of channels that a weight takes.
#[track_caller]
fn check_channels<P: Element, Q: Element>(
    op: &'static str,
    x: &Tensor<P>,
    weight: &Tensor<Q>,
    taken: usize,
) -> Result<()> {
    if x.dims()[1] == taken {
        return Ok(());
    }
    let expected = format!("[N, {taken}, ..] to fit the weight {:?}", weight.dims());
    Err(Error::Shape { op, what: "the input", expected, found: x.raw.shape().into() })
}

/// An error unless `groups` divides the channels of the input.
#[track_caller]
fn check_groups(op: &'static str, groups: usize, channels: usize) -> Result<()> {
    if groups > 0 && channels.is_multiple_of(groups) {
        return Ok(());
    }
    Err(Error::argument(op, "groups", format!("a divisor of the input's {channels} channels"), groups))
}

impl<P: Float> Tensor<P> {
    /// Convolution of volumes `[N, C, D, H, W]` with kernels `[O, C / groups, kd, kh, kw]` and a bias `[O]` (`F.conv3d`).
    ///
    /// The slices under a kernel are laid side by side as channels of images, for which there must be memory, and convolved
    /// as [`conv2d`](Self::conv2d) does it, whose precision and gradients these are. That of the input is rounded for each slice, and
    /// once more where slices that share it are summed. What is kept for the gradient is the input.
    ///
    /// # Errors
    /// [`Error::Rank`] unless there are 5 dimensions, [`Error::Argument`] for a kernel that does not fit.
    #[track_caller]
    pub fn conv3d<Q: Element>(&self, weight: &Tensor<Q>, bias: Option<&Self>, options: ConvOptions<3>) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        const OP: &str = "conv3d";
        let [n, channels, depth, ..] = volumes(OP, "the input", self)?;
        let [outputs, inputs, kd, kh, kw] = volumes(OP, "the weight", weight)?;
        check_channels(OP, self, weight, inputs.saturating_mul(options.groups))?;
        check_groups(OP, options.groups, channels)?;
        let [(stride, sh, sw), (pad, ph, pw), (dilation, dh, dw)] =
            [options.stride, options.padding, options.dilation].map(|[d, h, w]| (d, h, w));
        let reach = dilation.saturating_mul(kd.saturating_sub(1)).saturating_add(1);
        let padded = depth.saturating_add(pad.saturating_mul(2));
        if kd == 0 || stride == 0 || dilation == 0 || reach > padded {
            let expected = format!(
                "at least 1 and to fit in a depth of {padded} with its padding; stride and dilation at least 1"
            );
            return Err(Error::argument(OP, "kernel", expected, format!("{:?}", [kd, kh, kw])));
        }
        let count = (padded - reach) / stride + 1;
        let at = |place: usize, k: usize| (place * stride + k * dilation).checked_sub(pad);
        let places = Places::new(OP, &self.raw, [count, kd, options.groups], at)?;
        let images = Self::from_raw(places.of(&self.raw)?);
        let kernel = weight.permute([0, 2, 1, 3, 4])?.reshape([outputs, kd * inputs, kh, kw])?;
        let flat = ConvOptions::default().stride([sh, sw]).padding([ph, pw]).dilation([dh, dw]).groups(options.groups);
        let y = images.conv2d(&kernel, bias, flat).map_err(|error| error.within(OP, self.raw.shape()))?;
        let &[_, _, h, w] = y.dims() else { unreachable!("an image for each place") };
        y.reshape([n, count, outputs, h, w])?.permute([0, 2, 1, 3, 4])
    }

    /// Transposed convolution of volumes `[N, C, D, H, W]` with kernels `[C, O / groups, kd, kh, kw]` and a bias `[O]`
    /// (`F.conv_transpose3d`).
    ///
    /// The slices that reach a place of the result are laid side by side as channels of images, zeros where there is none, for
    /// which there must be memory, as [`conv_transpose2d`](Self::conv_transpose2d) takes them, whose precision and gradients these
    /// are. That of the input is rounded for each slice, and once more where slices that share it are summed. What is kept for the
    /// gradient is the input.
    ///
    /// # Errors
    /// [`Error::Rank`] unless there are 5 dimensions, [`Error::Argument`] for a kernel of no size or a depth without a result.
    #[track_caller]
    pub fn conv_transpose3d<Q: Element>(
        &self,
        weight: &Tensor<Q>,
        bias: Option<&Self>,
        options: ConvOptions<3>,
    ) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        const OP: &str = "conv_transpose3d";
        let [n, _, depth, ..] = volumes(OP, "the input", self)?;
        let [inputs, outputs, kd, kh, kw] = volumes(OP, "the weight", weight)?;
        check_channels(OP, self, weight, inputs)?;
        check_groups(OP, options.groups, inputs)?;
        let count = slices_of_result(depth, kd, options)?;
        let ([stride, ..], [pad, ..], [dilation, ..]) = (options.stride, options.padding, options.dilation);
        let at = |place: usize, k: usize| {
            let below = (place + pad).checked_sub(k * dilation)?;
            (below % stride == 0).then_some(below / stride)
        };
        let places = Places::new(OP, &self.raw, [count, kd, options.groups], at)?;
        let images = Self::from_raw(places.of(&self.raw)?);
        let kernel = weight.reshape([options.groups, inputs / options.groups, outputs, kd, kh, kw])?;
        let kernel = kernel.permute([0, 3, 1, 2, 4, 5])?.reshape([inputs * kd, outputs, kh, kw])?;
        let flat = ConvOptions::default()
            .stride(image(options.stride))
            .padding(image(options.padding))
            .output_padding(image(options.output_padding))
            .dilation(image(options.dilation))
            .groups(options.groups);
        let y = images.conv_transpose2d(&kernel, bias, flat).map_err(|error| error.within(OP, self.raw.shape()))?;
        let &[_, outputs, h, w] = y.dims() else { unreachable!("an image for each place") };
        y.reshape([n, count, outputs, h, w])?.permute([0, 2, 1, 3, 4])
    }
}

/// Numbers of height and width, without that of the depth.
pub(super) fn image([_, height, width]: [usize; 3]) -> [usize; 2] {
    [height, width]
}

/// The slices of volumes as images, as they lie: `[N * C * D, 1, H, W]`, or `[N * D, C, H, W]` where channels lie together.
#[track_caller]
pub(super) fn images<P: Float>(op: &'static str, x: &Tensor<P>) -> Result<Tensor<P>> {
    let [n, channels, depth, height, width] = volumes(op, "the input", x)?;
    if order_of([&x.raw]) == MemoryOrder::ChannelsLast {
        return x.permute([0, 2, 1, 3, 4])?.reshape([shape::product(op, &[n, depth])?, channels, height, width]);
    }
    x.reshape([shape::product(op, &[n, channels, depth])?, 1, height, width])
}

/// What was made of the [`images`] of volumes, as images of the depth `[N, C, D, h * w]`.
#[track_caller]
pub(super) fn stacked<P: Float>(x: &Tensor<P>, y: &Tensor<P>) -> Result<Tensor<P>> {
    let (&[n, channels, depth, ..], &[.., h, w]) = (x.dims(), y.dims()) else { unreachable!("volumes") };
    if order_of([&x.raw]) == MemoryOrder::ChannelsLast {
        return y.reshape([n, depth, channels, h * w])?.permute([0, 2, 1, 3]);
    }
    y.reshape([n, channels, depth, h * w])
}

/// How many slices a transposed convolution gives.
#[track_caller]
fn slices_of_result(depth: usize, kernel: usize, options: ConvOptions<3>) -> Result<usize> {
    const OP: &str = "conv_transpose3d";
    let first = |numbers: [usize; 3]| numbers[0];
    let (stride, dilation, extra) = (first(options.stride), first(options.dilation), first(options.output_padding));
    if kernel == 0 || stride == 0 || dilation == 0 {
        let expected = "at least 1, with a stride and a dilation of at least 1";
        return Err(Error::argument(OP, "the depth of the kernel", expected, kernel));
    }
    if extra >= stride.max(dilation) {
        let expected = "less than the stride or the dilation in each dimension";
        return Err(Error::argument(OP, "output_padding", expected, format!("{:?}", options.output_padding)));
    }
    let all = |depth: usize| {
        let reach = dilation.checked_mul(kernel - 1)?.checked_add(1)?.checked_add(extra)?;
        let padded = (depth - 1).checked_mul(stride)?.checked_add(reach)?;
        padded.checked_sub(first(options.padding).checked_mul(2)?).filter(|count| *count > 0)
    };
    (if depth == 0 { None } else { all(depth) }).ok_or_else(|| {
        let expected = format!("less than half of what a depth of {depth} gives");
        Error::argument(OP, "padding", expected, first(options.padding))
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::wave;
    use crate::{ConvOptions, Device, F64, Result, Tensor, gradcheck};

    fn options() -> ConvOptions<3> {
        ConvOptions::default().stride([2, 1, 1]).padding([1, 0, 1]).dilation([2, 1, 1]).groups(2)
    }

    fn turned() -> ConvOptions<3> {
        ConvOptions::default()
            .stride([2, 1, 2])
            .padding([1, 0, 1])
            .output_padding([1, 0, 0])
            .dilation([2, 1, 1])
            .groups(2)
    }

    /// Slices that nothing reaches are behind the others, which a dilation allows.
    fn spread() -> ConvOptions<3> {
        ConvOptions::default().stride([1, 2, 1]).dilation([3, 1, 2]).output_padding([2, 0, 1]).groups(2)
    }

    fn turned_inputs() -> [Tensor<F64>; 3] {
        [wave(&[1, 4, 2, 3, 2]), wave(&[4, 1, 2, 2, 3]), wave(&[2])]
    }

    /// Volumes `[N, D, H, W, C]` as `[N, C, D, H, W]`.
    fn together(x: &Tensor<F64>) -> Result<Tensor<F64>> {
        x.permute([0, 4, 1, 2, 3])
    }

    #[test]
    fn gradients_agree_with_differences() {
        let conv = [wave(&[1, 4, 4, 3, 3]), wave(&[2, 2, 2, 2, 3]), wave(&[2])];
        for (name, worst) in [
            ("conv3d", gradcheck(|x| x[0].conv3d(&x[1], Some(&x[2]), options()), &conv)),
            ("conv_transpose3d", gradcheck(|x| x[0].conv_transpose3d(&x[1], Some(&x[2]), turned()), &turned_inputs())),
            ("conv3d of channels that lie together", {
                let [_, w, b] = &conv;
                gradcheck(
                    |x| together(&x[0])?.conv3d(&x[1], Some(&x[2]), options()),
                    &[wave(&[1, 4, 3, 3, 4]), w.clone(), b.clone()],
                )
            }),
            (
                "an output padding of a stride",
                gradcheck(|x| x[0].conv_transpose3d(&x[1], Some(&x[2]), spread()), &turned_inputs()),
            ),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    /// Convolved slice by slice: each slice of a kernel, with the slices of the input that lie under it.
    #[test]
    fn sums_of_convolutions_over_slices() {
        let (x, w) = (wave(&[2, 4, 5, 4, 3]), wave(&[6, 2, 3, 2, 2]));
        let options = ConvOptions::<3>::default().stride([2, 1, 1]).padding([2, 1, 0]).dilation([2, 1, 1]).groups(2);
        let y = x.conv3d(&w, None, options).unwrap();
        let flat = ConvOptions::<2>::default().padding([1, 0]).groups(2);
        assert_eq!(y.dims(), [2, 6, 3, 5, 2]);
        for place in 0..3 {
            let under = (0..3).filter_map(|k| Some((k, (place * 2 + k * 2_usize).checked_sub(2).filter(|d| *d < 5)?)));
            let sum = under.fold(Tensor::zeros([2, 6, 5, 2], &Device::cpu()).unwrap(), |sum: Tensor<F64>, (k, d)| {
                let slice = x.select(2, d as isize).unwrap();
                (sum + slice.conv2d(&w.select(2, k as isize).unwrap(), None, flat).unwrap()).unwrap()
            });
            let apart = (sum - y.select(2, place as isize).unwrap()).unwrap().abs().unwrap().amax([], false).unwrap();
            assert!(apart.item().unwrap() <= 1e-12, "slice {place}: {apart:?}");
        }
    }

    #[test]
    fn volumes_that_do_not_fit_are_errors() {
        let x = wave(&[1, 2, 3, 4, 4]);
        let text = |result: Result<Tensor<F64>>| result.unwrap_err().to_string();
        assert_eq!(
            text(x.conv3d(&wave(&[1, 2, 4, 2, 2]), None, ConvOptions::default())),
            "conv3d: kernel must be at least 1 and to fit in a depth of 3 with its padding; stride and dilation at least 1, \
             found [4, 2, 2]"
        );
        assert!(text(x.conv3d(&wave(&[1, 2, 2]), None, ConvOptions::default())).contains("the weight must have 5"));
        let turned = |kernel: &[usize], options| x.conv_transpose3d(&wave(kernel), None, options);
        assert_eq!(
            text(turned(&[2, 1, 2, 1, 1], ConvOptions::default().padding([2, 0, 0]))),
            "conv_transpose3d: padding must be less than half of what a depth of 3 gives, found 2"
        );
        let extra = ConvOptions::default().output_padding([1, 0, 0]);
        assert!(
            text(turned(&[2, 1, 2, 1, 1], extra))
                .contains("output_padding must be less than the stride or the dilation")
        );
        assert_eq!(
            text(turned(&[3, 1, 1, 1, 1], ConvOptions::default())),
            "conv_transpose3d: the input must have shape [N, 3, ..] to fit the weight [3, 1, 1, 1, 1], found [1, 2, 3, 4, 4]"
        );
        assert!(
            text(x.conv3d(&wave(&[1, 3, 1, 1, 1]), None, ConvOptions::default()))
                .contains("[N, 3, ..] to fit the weight")
        );
        assert!(turned(&[2, 1, 0, 1, 1], ConvOptions::default()).is_err());
        assert_eq!(
            text(turned(&[2, 1, 1, 1, 1], ConvOptions::default().groups(0))),
            "conv_transpose3d: groups must be a divisor of the input's 2 channels, found 0"
        );
        assert!(turned(&[2, 1, 1, 1, 1], ConvOptions::default().groups(3)).is_err());
        assert!(
            wave(&[1, 0, 3, 4, 4]).conv3d(&wave(&[1, 1, 1, 1, 1]), None, ConvOptions::default().groups(0)).is_err()
        );
    }
}
