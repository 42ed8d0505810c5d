//! Slices of volumes, side by side as channels of images: how convolutions over volumes become those over images.

use crate::autograd::{Origin, Pass, SavedInput, note_origin, record};
use crate::backend::{Buffer, MemoryOrder};
use crate::memory::on_host;
use crate::order::order_of;
use crate::raw::RawTensor;
use crate::{IntoShape, Result, shape};
use amp_cpu::{DType, Dims, Layout, Storage};
use std::sync::Arc;

/// For each slice of a result the slices of volumes that lie under its kernel.
#[derive(Clone, Debug)]
pub(super) struct Places {
    op: &'static str,
    /// `[count * kernel]`; the depth of the volumes where there is no slice.
    index: RawTensor,
    kernel: usize,
    groups: usize,
    beyond: bool,
}

/// What images were made of, which is kept in their place: they are as many times as large as a kernel is deep.
#[derive(Debug)]
struct Kept {
    places: Places,
    x: SavedInput,
    /// In which the images were laid.
    order: MemoryOrder,
}

impl Origin for Kept {
    fn again(&self, out: DType) -> Result<Buffer> {
        let images = self.places.laid(&*self.x.get()?, self.order)?;
        let images = images.with_layout(self.order.walked(&images.layout)).cast_view(out)?;
        images.into_buffer().or_else(|images| images.backend().copy(images.operand()?, out))
    }
}

impl Places {
    /// `kernel` slices for each of `count`: `at(place, k)` is which of the `depth` there are, if any.
    pub(super) fn new(
        op: &'static str,
        x: &RawTensor,
        [count, kernel, groups]: [usize; 3],
        at: impl Fn(usize, usize) -> Option<usize>,
    ) -> Result<Self> {
        let (length, depth) = (shape::product(op, &[count, kernel])?, x.shape()[2]);
        let at = |i: usize| at(i / kernel, i % kernel).filter(|slice| *slice < depth).unwrap_or(depth) as i64;
        let places = on_host(op, length, (0..length).map(at))?;
        let beyond = places.contains(&(depth as i64));
        let index = RawTensor::new(x.device(), x.backend().upload(Storage::from(places))?, [length].into_shape(op)?);
        Ok(Self { op, index, kernel, groups, beyond })
    }

    /// The images `[N * count, groups * kernel * C / groups, H, W]` of volumes `[N, C, D, H, W]`, zeros where there is no slice.
    #[track_caller]
    pub(super) fn of(self, x: &RawTensor) -> Result<RawTensor> {
        let volumes = *x.shape();
        let order = order_of([x]);
        record(self.op, &[x], self.laid(x, order)?, |y| {
            let kept = Arc::new(Kept { places: self, x: SavedInput::new(x)?, order });
            note_origin(y, &kept);
            Ok(Box::new(move |pass: &mut Pass<'_>| {
                let grad = kept.places.folded(pass.grad(), &volumes, pass.dtype(0))?;
                pass.give(0, grad)
            }))
        })
    }

    /// How many slices the result has.
    fn count(&self) -> usize {
        self.index.layout.count() / self.kernel
    }

    fn laid(&self, volumes: &RawTensor, order: MemoryOrder) -> Result<RawTensor> {
        let x = volumes.stored();
        let &[n, channels, depth, height, width] = &x.shape()[..] else { unreachable!("volumes") };
        let mut deep = x.with_layout(order.walked(&x.layout).moved(order.axis(2, 5), 1));
        if self.beyond {
            let mut shape = deep.layout.shape;
            shape[1] = depth + 1;
            let around = [[0, 0], [0, 1], [0, 0], [0, 0], [0, 0]];
            deep = RawTensor::new(x.device(), x.backend().pad(deep.operand()?, &around, 0.0, shape)?, shape);
        }
        let picked = x.backend().index_select(deep.operand()?, 1, self.index.operand()?)?;
        let (shape, kernel) = self.parted(order, [n, channels, height, width])?;
        let picked = RawTensor::new(x.device(), picked, shape.moved(kernel, 2));
        let images = picked.with_layout(picked.layout.moved(2, kernel)).contiguous()?;
        let shape = [n * self.count(), self.kernel * channels, height, width].into_shape(self.op)?;
        Ok(images.with_layout(order.layout(shape)).counted(volumes.logical))
    }

    /// The sums, in precision `out`, of what the images gave to each slice of `volumes`.
    fn folded(&self, images: &RawTensor, volumes: &Dims, out: DType) -> Result<RawTensor> {
        let &[n, channels, depth, height, width] = &volumes[..] else { unreachable!("volumes") };
        let order = order_of([images]);
        let (shape, kernel) = self.parted(order, [n, channels, height, width])?;
        let images = if order == MemoryOrder::RowMajor { images.contiguous()? } else { images.detached() };
        let apart = order.walked(&images.layout).reshaped(shape).expect("elements that follow one another");
        let slices = images.with_layout(apart.moved(kernel, 2)).contiguous()?;
        let mut deep = order.walked(&Layout::contiguous(*volumes)).shape.moved(order.axis(2, 5), 1);
        deep[1] = self.count() * self.kernel;
        let slices = slices.with_layout(Layout::contiguous(deep));
        deep[1] = depth + usize::from(self.beyond);
        let (index, slices) = (self.index.operand()?, slices.operand()?);
        let buffer = images.backend().index_add(None, deep[1], 1, index, slices, out)?;
        let mut layout = Layout::contiguous(deep);
        layout.shape[1] = depth;
        let layout = match order {
            MemoryOrder::RowMajor => layout.moved(1, 2),
            MemoryOrder::ChannelsLast => layout.moved(4, 1),
        };
        Ok(RawTensor::new(images.device(), buffer, deep).with_layout(layout))
    }

    /// The sizes of images in the order in which they lie, places and slices of a kernel apart, and which of them the latter is.
    fn parted(&self, order: MemoryOrder, [n, channels, height, width]: [usize; 4]) -> Result<(Dims, usize)> {
        let (count, groups, kernel, each) = (self.count(), self.groups, self.kernel, channels / self.groups);
        Ok(match order {
            MemoryOrder::RowMajor => ([n, count, groups, kernel, each, height, width].into_shape(self.op)?, 3),
            MemoryOrder::ChannelsLast => ([n, count, height, width, groups, kernel, each].into_shape(self.op)?, 5),
        })
    }
}
