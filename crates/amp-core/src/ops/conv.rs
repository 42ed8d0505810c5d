//! Convolutions over lines and images, and transposed ones.

use super::matmul::{accumulate, accumulator};
use super::window::{ConvOptions, flat};
use crate::autograd::{Pass, Saved, SavedInput, Spread, record};
use crate::backend::Operand;
use crate::order::{reduce, tensor};
use crate::precision::{Element, Float, SamePrecision};
use crate::raw::RawTensor;
use crate::shape::check_same;
use crate::tensor::Tensor;
use crate::{Error, IntoShape, Result};
use amp_cpu::{Conv2d, Dims, Layout, MemoryOrder, Reduce};

macro_rules! convolutions {
    ($($(#[$doc:meta])* $name:ident, $dims:literal, $direction:expr;)*) => {
        impl<P: Float> Tensor<P> { $(
            $(#[$doc])*
            ///
            /// # Precision
            /// Accumulates and adds the bias in F32 (F64 for F64) and rounds once. Gradients of narrowed F32 parameters
            /// come straight from the accumulators in F32.
            #[track_caller]
            pub fn $name<Q: Element>(
                &self,
                weight: &Tensor<Q>,
                bias: Option<&Self>,
                options: ConvOptions<$dims>,
            ) -> Result<Self>
            where
                P: SamePrecision<Q>,
            {
                let op = Conv::new(stringify!($name), $dims, $direction, options)?;
                Ok(Self::from_raw(op.run(&self.raw, &weight.raw, bias.map(|bias| &bias.raw))?))
            }
        )* }
    };
}
convolutions! {
    /// Convolution of `[N, C, L]` with `weight` `[O, C / groups, k]` plus `bias` `[O]`, as `[N, O, l]` (`F.conv1d`).
    conv1d, 1, Direction::Forward;
    /// Convolution of `[N, C, H, W]` with `weight` `[O, C / groups, kh, kw]` plus `bias` `[O]`, as `[N, O, h, w]`
    /// (`F.conv2d`).
    conv2d, 2, Direction::Forward;
    /// Transposed convolution of `[N, C, l]` with `weight` `[C, O / groups, k]` plus `bias` `[O]`, as `[N, O, L]`
    /// (`F.conv_transpose1d`).
    conv_transpose1d, 1, Direction::Transposed;
    /// Transposed convolution of `[N, C, h, w]` with `weight` `[C, O / groups, kh, kw]` plus `bias` `[O]`, as
    /// `[N, O, H, W]` (`F.conv_transpose2d`).
    conv_transpose2d, 2, Direction::Transposed;
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Direction {
    Forward,
    Transposed,
}

/// A checked convolution; lines are images of height 1.
#[derive(Clone, Copy)]
struct Conv {
    op: &'static str,
    dims: usize,
    direction: Direction,
    spec: Conv2d,
    output_padding: [usize; 2],
}

impl Conv {
    fn new<const D: usize>(
        op: &'static str,
        dims: usize,
        direction: Direction,
        options: ConvOptions<D>,
    ) -> Result<Self> {
        for (argument, values) in [("stride", options.stride), ("dilation", options.dilation)] {
            if values.contains(&0) {
                return Err(Error::argument(op, argument, "at least 1", format!("{values:?}")));
            }
        }
        if options.groups == 0 {
            return Err(Error::argument(op, "groups", "at least 1", 0));
        }
        let too_wide = (0..D).any(|i| options.output_padding[i] >= options.stride[i].max(options.dilation[i]));
        if direction == Direction::Transposed && too_wide {
            let expected = format!("less than the stride {:?} or the dilation", options.stride);
            return Err(Error::argument(op, "output_padding", expected, format!("{:?}", options.output_padding)));
        }
        let spec = Conv2d {
            stride: flat(options.stride, 1),
            padding: flat(options.padding, 0),
            dilation: flat(options.dilation, 1),
            groups: options.groups,
        };
        Ok(Self { op, dims, direction, spec, output_padding: flat(options.output_padding, 0) })
    }

    /// Strides, padding and dilation of a size that index arithmetic can hold.
    fn check_options(&self, image: [usize; 4]) -> Result<()> {
        const MOST: usize = 1 << 31;
        let spec = &self.spec;
        for (argument, sizes) in [("stride", spec.stride), ("padding", spec.padding), ("dilation", spec.dilation)] {
            if sizes.iter().any(|&size| size > MOST) {
                return Err(Error::argument(self.op, argument, "at most 2^31", format!("{sizes:?}")));
            }
        }
        if image[2].saturating_mul(image[3]) > MOST {
            let expected = match self.dims {
                1 => "[N, C, L] of at most 2^31 elements in a line",
                _ => "[N, C, H, W] of at most 2^31 pixels",
            };
            let found = self.lowered(image.into_shape(self.op)?).into();
            return Err(Error::Shape { op: self.op, what: "the input", expected: expected.into(), found });
        }
        let [height, width] = std::array::from_fn(|i| image[2 + i].saturating_add(2 * spec.padding[i]));
        if height.saturating_mul(width) > MOST {
            let expected = "so small that a padded image has at most 2^31 pixels";
            return Err(Error::argument(self.op, "padding", expected, format!("{:?}", spec.padding)));
        }
        Ok(())
    }

    #[track_caller]
    fn run(self, x: &RawTensor, w: &RawTensor, bias: Option<&RawTensor>) -> Result<RawTensor> {
        let (image, kernel) = (self.lifted(x, "the input")?, self.lifted(w, "the weight")?);
        self.check_options(four(&image))?;
        let sizes = self.check(&image, &kernel, bias)?;
        let operand = bias.map(RawTensor::operand).transpose()?;
        let (backend, from, with) = (x.backend(), image.operand()?, kernel.factor(pixels(&image))?);
        let (buffer, order) = match self.direction {
            Direction::Forward => (
                backend.conv2d(from, with, operand, &self.spec, x.logical)?,
                backend.conv2d_order(from, with, &self.spec)?,
            ),
            Direction::Transposed => (
                backend.conv_transpose2d(from, with, operand, sizes, &self.spec, x.logical)?,
                backend.conv_transpose2d_order(from, with, &self.spec)?,
            ),
        };
        let inputs: Vec<&RawTensor> = [Some(x), Some(w), bias].into_iter().flatten().collect();
        let y = tensor(order, x.device(), buffer, self.lowered(sizes.into_shape(self.op)?));
        record(self.op, &inputs, y, |_| {
            let (x, w, image) = (SavedInput::new(x)?, Saved::new(w)?, four(&image));
            Ok(Box::new(move |pass: &mut Pass<'_>| self.backward(pass, &x, &w, image)))
        })
    }

    /// Gives the inputs theirs; `image` is the size of `x`.
    fn backward(&self, pass: &mut Pass<'_>, x: &SavedInput, w: &RawTensor, image: [usize; 4]) -> Result<()> {
        let (grad, w) = (self.lifted(pass.grad(), "the gradient")?, self.lifted(w, "the weight")?);
        let (backend, of) = (grad.backend(), grad.operand()?);
        // First: an input that is computed again for this is freed before its gradient is made.
        if pass.wants(1) {
            let x = self.lifted(&*x.get()?, "the input")?;
            let (conv, weight) = (*self, four(&w));
            pass.give_or_defer(1, [grad.clone(), x], move |pass, [grad, x]| conv.give_weight(pass, grad, x, weight))?;
        }
        if let Some(shape) = pass.shape(0)
            && !self.add_input(pass, of, w.factor(pixels(&grad))?, image)?
        {
            let (with, dtype) = (w.factor(pixels(&grad))?, pass.dtype(0));
            let (buffer, order) = match self.direction {
                Direction::Forward => (
                    backend.conv_transpose2d(of, with, None, image, &self.spec, dtype)?,
                    backend.conv_transpose2d_order(of, with, &self.spec)?,
                ),
                Direction::Transposed => {
                    (backend.conv2d(of, with, None, &self.spec, dtype)?, backend.conv2d_order(of, with, &self.spec)?)
                }
            };
            let whole = tensor(order, grad.device(), buffer, self.lowered(self.returned(image, &grad, &w)));
            let layout = Layout { shape, ..whole.layout };
            pass.give(0, whole.with_layout(layout))?;
        }
        if pass.wants(2) {
            let sums = reduce(Reduce::Sum, &grad, &[0, 2, 3], pass.dtype(2))?;
            let shape = Dims::new(&[grad.shape()[1]]).expect("one dimension");
            pass.give(2, sums.with_layout(Layout::contiguous(shape)))?;
        }
        Ok(())
    }

    /// Adds the gradient of the input to what that has collected, where it is written in F32 and a kernel can; returns whether it did.
    fn add_input(&self, pass: &mut Pass<'_>, of: Operand<'_>, w: Operand<'_>, image: [usize; 4]) -> Result<bool> {
        if self.direction == Direction::Transposed || pass.dtype(0) != accumulator(of.logical) {
            return Ok(false);
        }
        let order = pass.grad().backend().conv_transpose2d_order(of, w, &self.spec)?;
        if order != MemoryOrder::ChannelsLast {
            return Ok(false);
        }
        let device = pass.grad().device().clone();
        let Some(mut buffer) = pass.take_in(order, 0) else { return Ok(false) };
        let added = device.backend().conv_transpose2d_accumulate(of, w, image, &self.spec, &mut buffer)?;
        let shape = Dims::new(&image).expect("four dimensions");
        pass.put_back(0, tensor(order, &device, buffer, shape));
        Ok(added)
    }

    /// Size of what the gradient of the result gives the input. An output padding of a stride or more, which a dilation
    /// allows, makes it larger than the input: pixels that nothing was computed from are behind it.
    fn returned(&self, image: [usize; 4], grad: &RawTensor, w: &RawTensor) -> Dims {
        let ([n, channels, ..], [.., height, width], [.., kh, kw]) = (image, four(grad), four(w));
        let size = match self.direction {
            Direction::Forward => None,
            Direction::Transposed => self.spec.output_size([height, width], [kh, kw]),
        };
        let whole = size.map_or(image, |[height, width]| [n, channels, height, width]);
        Dims::new(&whole).expect("four dimensions")
    }

    fn give_weight(&self, pass: &mut Pass<'_>, grad: &RawTensor, x: &RawTensor, weight: [usize; 4]) -> Result<()> {
        let (slope, image) = match self.direction {
            Direction::Forward => (grad, x),
            Direction::Transposed => (x, &self.reached(grad, x, weight)),
        };
        let depth = pixels(slope);
        let (slope, image) = (slope.operand()?, image.operand()?);
        let backend = grad.backend();
        if pass.dtype(1) == accumulator(slope.logical) {
            return accumulate(
                pass,
                1,
                Spread::of(slope.logical, image.logical, depth, self.spec.groups),
                |_| backend.conv2d_grad_weight(slope, image, weight, &self.spec),
                |into| backend.conv2d_grad_weight_accumulate(slope, image, weight, &self.spec, into),
            );
        }
        let buffer = backend.conv2d_grad_weight(slope, image, weight, &self.spec)?;
        let shape = self.lowered(Dims::new(&weight).expect("four dimensions"));
        pass.give(1, RawTensor::new(grad.device(), buffer, shape))
    }

    /// The part of `image` that pixels of `x` reach: an output padding of a stride or more, which a dilation allows, leaves others
    /// behind it, of which kernels would take more patches than `x` has pixels.
    fn reached(&self, image: &RawTensor, x: &RawTensor, weight: [usize; 4]) -> RawTensor {
        let ([n, channels, ..], spec) = (four(image), &self.spec);
        let along = |i: usize| {
            let reach = (x.shape()[i] - 1) * spec.stride[i - 2] + spec.dilation[i - 2] * (weight[i] - 1) + 1;
            image.shape()[i].min(reach.saturating_sub(spec.padding[i - 2]).max(1))
        };
        let shape = Dims::new(&[n, channels, along(2), along(3)]).expect("four dimensions");
        image.with_layout(Layout { shape, ..image.layout })
    }

    /// The tensor with a height.
    fn lifted(&self, x: &RawTensor, what: &'static str) -> Result<RawTensor> {
        if x.shape().len() != self.dims + 2 {
            let expected = if self.dims == 1 { "3 dimensions" } else { "4 dimensions" };
            return Err(Error::Rank { op: self.op, what, expected, found: x.shape().into() });
        }
        if self.dims == 2 {
            return Ok(x.detached());
        }
        let inserted = |dims: &Dims, size: usize| dims.inserted(2, size).expect("four dimensions");
        let layout = &x.layout;
        let (shape, strides) = (inserted(&layout.shape, 1), inserted(&layout.strides, 0));
        Ok(x.with_layout(Layout { shape, strides, offset: layout.offset }))
    }

    /// The shape without the height.
    fn lowered(&self, shape: Dims) -> Dims {
        if self.dims == 2 { shape } else { shape.removed(2) }
    }

    /// Checks shapes and returns that of the result, as `[N, O, h, w]`.
    fn check(&self, x: &RawTensor, w: &RawTensor, bias: Option<&RawTensor>) -> Result<[usize; 4]> {
        x.device().check_same(w.device(), self.op)?;
        let ([n, channels, height, width], [first, second, kh, kw]) = (four(x), four(w));
        let groups = self.spec.groups;
        let (taken, made) = match self.direction {
            Direction::Forward => (second.saturating_mul(groups), first),
            Direction::Transposed => (first, second.saturating_mul(groups)),
        };
        if !first.is_multiple_of(groups) {
            let expected = format!("a divisor of the weight's first dimension, {first}");
            return Err(Error::argument(self.op, "groups", expected, groups));
        }
        if channels != taken {
            let grouped = if groups == 1 { String::new() } else { format!(" in {groups} groups") };
            let expected = format!("[N, {taken}, ..] to fit the weight {:?}{grouped}", self.lowered(*w.shape()));
            return Err(Error::Shape {
                op: self.op,
                what: "the input",
                expected,
                found: self.lowered(*x.shape()).into(),
            });
        }
        if let Some(bias) = bias {
            x.device().check_same(bias.device(), self.op)?;
            check_same(self.op, "the bias", &[made], bias.shape())?;
        }
        let size = match self.direction {
            Direction::Forward => self.spec.output_size([height, width], [kh, kw]),
            Direction::Transposed => self.transposed_size([height, width], [kh, kw]),
        };
        let [height, width] = size.ok_or_else(|| {
            let expected = self.room([kh, kw]);
            Error::Shape { op: self.op, what: "the input", expected, found: self.lowered(*x.shape()).into() }
        })?;
        [n, made, height, width].into_shape(self.op)?;
        Ok([n, made, height, width])
    }

    /// The input that a kernel of this size needs, in as many numbers as the caller gave.
    fn room(&self, kernel: [usize; 2]) -> String {
        let (kernel, padding) = (&kernel[2 - self.dims..], &self.spec.padding[2 - self.dims..]);
        match self.direction {
            Direction::Forward => format!("[N, C, ..] in which the kernel {kernel:?} fits with padding {padding:?}"),
            Direction::Transposed => {
                format!("[N, C, ..] of which the kernel {kernel:?} makes more than padding {padding:?} takes away")
            }
        }
    }

    /// The size that [`Conv2d::output_size`] maps to `input`, enlarged by the output padding.
    fn transposed_size(&self, input: [usize; 2], kernel: [usize; 2]) -> Option<[usize; 2]> {
        let along = |i: usize| {
            let steps = input[i].checked_sub(1)?.checked_mul(self.spec.stride[i])?;
            let extent = self.spec.dilation[i].checked_mul(kernel[i].checked_sub(1)?)?;
            let size = steps.checked_add(extent)?.checked_add(self.output_padding[i])?.checked_add(1)?;
            size.checked_sub(self.spec.padding[i].checked_mul(2)?).filter(|&size| size > 0)
        };
        Some([along(0)?, along(1)?])
    }
}

/// Pixels of all images of `x` `[N, C, H, W]`.
fn pixels(x: &RawTensor) -> usize {
    let [n, _, height, width] = four(x);
    n * height * width
}

fn four(x: &RawTensor) -> [usize; 4] {
    std::array::from_fn(|i| x.shape()[i])
}

#[cfg(test)]
mod tests;
