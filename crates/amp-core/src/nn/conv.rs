//! Convolutions and transposed convolutions.

use super::{Module, Visitor, init};
use crate::param::Parameter;
use crate::precision::Float;
use crate::tensor::Tensor;
use crate::{ConvOptions, Device, Error, IntoExtent, Result};
use std::array::from_fn;

macro_rules! convolutions {
    ($(
        $(#[$doc:meta])*
        $name:ident, $dims:literal, $op:ident, transposed: $transposed:literal, $input:literal => $output:literal;
    )*) => { $(
        $(#[$doc])*
        ///
        /// Options follow the constructor: stride, padding and dilation take one number or one for each dimension.
        #[derive(Debug)]
        pub struct $name {
            weight: Parameter,
            bias: Option<Parameter>,
            options: ConvOptions<$dims>,
            same: bool,
        }

        impl $name {
            /// Stride 1, no padding, with a bias; parameters are uniform in `±1 / sqrt(fan_in)`.
            pub fn new(
                channels_in: usize,
                channels_out: usize,
                kernel: impl IntoExtent<$dims>,
                device: &Device,
            ) -> Result<Self> {
                Self::grouped(channels_in, channels_out, kernel, 1, device)
            }

            /// As [`new`](Self::new), with the channels divided into `groups` that are convolved on their own.
            ///
            /// # Errors
            /// [`Error::Argument`] unless `groups` divides both numbers of channels.
            #[doc(alias = "groups")]
            pub fn grouped(
                channels_in: usize,
                channels_out: usize,
                kernel: impl IntoExtent<$dims>,
                groups: usize,
                device: &Device,
            ) -> Result<Self> {
                if groups == 0 || channels_in % groups != 0 || channels_out % groups != 0 {
                    let expected = format!("a divisor of {channels_in} and {channels_out} channels");
                    return Err(Error::argument(stringify!($name), "groups", expected, groups));
                }
                let (first, second) =
                    if $transposed { (channels_in, channels_out / groups) } else { (channels_out, channels_in / groups) };
                let mut shape = vec![first, second];
                shape.extend(kernel.into_extent());
                let fan_in = shape[1..].iter().fold(1, |product: usize, &size| product.saturating_mul(size));
                Ok(Self {
                    weight: init::fan_in(shape, fan_in, device)?,
                    bias: Some(init::fan_in([channels_out], fan_in, device)?),
                    options: ConvOptions::default().groups(groups),
                    same: false,
                })
            }

            /// Removes the bias.
            pub fn without_bias(mut self) -> Self {
                self.bias = None;
                self
            }

            /// Distance between neighbouring outputs (1 by default).
            pub fn stride(mut self, stride: impl IntoExtent<$dims>) -> Self {
                self.options = self.options.stride(stride);
                self
            }

            /// Zeros added on both sides of the input (0 by default).
            pub fn padding(mut self, padding: impl IntoExtent<$dims>) -> Self {
                (self.options, self.same) = (self.options.padding(padding), false);
                self
            }

            /// Distance between neighbouring kernel elements (1 by default).
            pub fn dilation(mut self, dilation: impl IntoExtent<$dims>) -> Self {
                self.options = self.options.dilation(dilation);
                self
            }

            /// Weight.
            pub fn weight(&self) -> &Parameter {
                &self.weight
            }

            /// Bias, one value for each output channel.
            pub fn bias(&self) -> Option<&Parameter> {
                self.bias.as_ref()
            }

            #[doc = concat!("`", $input, "` to `", $output, "`, in the precision of `x`.")]
            #[track_caller]
            pub fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<P>> {
                let bias = self.bias.as_ref().map(Parameter::to::<P>).transpose()?;
                let weight = self.weight.to::<P>()?;
                if !self.same {
                    return x.$op(&weight, bias.as_ref(), self.options);
                }
                let (x, options) = kept_in_size(stringify!($op), x, &weight.dims()[2..], self.options)?;
                x.$op(&weight, bias.as_ref(), options)
            }
        }

        impl Module for $name {
            fn visit(&self, visitor: &mut Visitor<'_>) {
                visitor.field("weight", &self.weight);
                visitor.field("bias", &self.bias);
            }
        }
    )* };
}
convolutions! {
    /// Convolution over a line (`torch.nn.Conv1d`); the weight is `[out, in / groups, k]`.
    Conv1d, 1, conv1d, transposed: false, "[N, in, L]" => "[N, out, l]";
    /// Convolution over an image (`torch.nn.Conv2d`); the weight is `[out, in / groups, kh, kw]`.
    Conv2d, 2, conv2d, transposed: false, "[N, in, H, W]" => "[N, out, h, w]";
    /// Convolution over a volume (`torch.nn.Conv3d`); the weight is `[out, in / groups, kd, kh, kw]`.
    Conv3d, 3, conv3d, transposed: false, "[N, in, D, H, W]" => "[N, out, d, h, w]";
    /// Transposed convolution over a line (`torch.nn.ConvTranspose1d`); the weight is `[in, out / groups, k]`.
    ConvTranspose1d, 1, conv_transpose1d, transposed: true, "[N, in, l]" => "[N, out, L]";
    /// Transposed convolution over an image (`torch.nn.ConvTranspose2d`); the weight is `[in, out / groups, kh, kw]`.
    ConvTranspose2d, 2, conv_transpose2d, transposed: true, "[N, in, h, w]" => "[N, out, H, W]";
    /// Transposed convolution over a volume (`torch.nn.ConvTranspose3d`); the weight is `[in, out / groups, kd, kh, kw]`.
    ConvTranspose3d, 3, conv_transpose3d, transposed: true, "[N, in, d, h, w]" => "[N, out, D, H, W]";
}

/// The input and the options of a convolution whose result has the size of `x`. The zero that an even number of kernel
/// elements has too many for both sides stands behind.
#[track_caller]
fn kept_in_size<P: Float, const D: usize>(
    op: &'static str,
    x: &Tensor<P>,
    kernel: &[usize],
    options: ConvOptions<D>,
) -> Result<(Tensor<P>, ConvOptions<D>)> {
    if options.stride != [1; D] {
        let expected = "1 for a result of the size of the input";
        return Err(Error::argument(op, "stride", expected, format!("{:?}", options.stride)));
    }
    let zeros: [usize; D] = from_fn(|d| options.dilation[d].saturating_mul(kernel[d].saturating_sub(1)));
    let options = options.padding(zeros.map(|zeros| zeros / 2));
    if zeros.iter().all(|zeros| zeros % 2 == 0) {
        return Ok((x.clone(), options));
    }
    let behind: Vec<usize> = zeros.iter().rev().flat_map(|zeros| [0, zeros % 2]).collect();
    Ok((x.pad(behind, 0.0)?, options))
}

macro_rules! same_padding {
    ($($name:ident),*) => { $(
        impl $name {
            /// As many zeros around the input as give a result of its size (`padding="same"`), with a stride of 1 only. Where
            /// their number is odd, there is one more behind.
            #[doc(alias = "same")]
            pub fn same_padding(mut self) -> Self {
                self.same = true;
                self
            }
        }
    )* };
}
same_padding! { Conv1d, Conv2d, Conv3d }

impl ConvTranspose1d {
    /// Elements added on one side of the result, less than the stride (0 by default).
    pub fn output_padding(mut self, padding: usize) -> Self {
        self.options = self.options.output_padding(padding);
        self
    }
}

impl ConvTranspose2d {
    /// Pixels added on one side of the result, less than the stride (0 by default).
    pub fn output_padding(mut self, padding: impl IntoExtent<2>) -> Self {
        self.options = self.options.output_padding(padding);
        self
    }
}

impl ConvTranspose3d {
    /// Voxels added on one side of the result, less than the stride (0 by default).
    pub fn output_padding(mut self, padding: impl IntoExtent<3>) -> Self {
        self.options = self.options.output_padding(padding);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::F32;
    use crate::testing::numbers;

    #[test]
    fn the_same_padding_keeps_the_size_whatever_follows() -> Result<()> {
        let device = Device::cpu();
        let x = numbers(&[2, 3, 7, 5], 0.3).to::<F32>()?;
        for (kernel, dilation) in [([3, 3], [1, 1]), ([4, 2], [1, 1]), ([3, 4], [2, 3]), ([1, 1], [1, 1])] {
            let layer = Conv2d::new(3, 2, kernel, &device)?.same_padding().dilation(dilation);
            let y = layer.forward(&x)?;
            let zeros: [usize; 2] = from_fn(|d| dilation[d] * (kernel[d] - 1));
            let sides = zeros.iter().rev().flat_map(|zeros| [zeros / 2, zeros.div_ceil(2)]).collect::<Vec<_>>();
            let by_hand = x.pad(sides, 0.0)?.conv2d(
                &layer.weight().tensor(),
                layer.bias().map(Parameter::tensor).as_ref(),
                ConvOptions::new().dilation(dilation),
            )?;
            assert_eq!(y.dims(), [2, 2, 7, 5]);
            assert!(y.equal(&by_hand)?, "{kernel:?} {dilation:?}");
        }
        Ok(())
    }

    #[test]
    fn the_same_padding_needs_a_stride_of_one() -> Result<()> {
        let layer = Conv1d::new(1, 1, 3, &Device::cpu())?.same_padding().stride(2);
        let x = Tensor::<F32>::ones([1, 1, 4], &Device::cpu())?;
        let text = layer.forward(&x).unwrap_err().to_string();
        assert_eq!(text, "conv1d: stride must be 1 for a result of the size of the input, found [2]");
        assert_eq!(layer.padding(1).forward(&x)?.dims(), [1, 1, 2]);
        Ok(())
    }
}
