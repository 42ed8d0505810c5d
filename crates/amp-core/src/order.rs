//! The order in which the elements of a result lie in memory, and kernels that keep the order of their operands.

use crate::Result;
use crate::backend::{Backend, Buffer, MemoryOrder, Operand};
use crate::device::Device;
use crate::raw::RawTensor;
use amp_cpu::{DType, Dims, Layout, Reduce};

/// The order of the first operand whose elements follow one another in memory; see [`MemoryOrder::of`].
pub(crate) fn order_of<const N: usize>(operands: [&RawTensor; N]) -> MemoryOrder {
    MemoryOrder::of(&operands.map(|x| &x.layout))
}

/// The result of a kernel that wrote `buffer` in `order`.
pub(crate) fn tensor(order: MemoryOrder, device: &Device, buffer: Buffer, shape: Dims) -> RawTensor {
    RawTensor { layout: order.layout(shape), ..RawTensor::new(device, buffer, shape) }
}

/// Runs a kernel over operands of one shape, their dimensions arranged so that row-major loops visit elements in `order`.
pub(crate) fn walk<R, const N: usize>(
    order: MemoryOrder,
    operands: [&RawTensor; N],
    kernel: impl FnOnce(&dyn Backend, [Operand<'_>; N]) -> Result<R>,
) -> Result<R> {
    let (backend, arguments) = (operands[0].backend(), arguments(operands)?);
    if order == MemoryOrder::RowMajor {
        return kernel(backend, arguments);
    }
    kernel(backend, laid_out(arguments, &walked(order, operands)))
}

fn arguments<const N: usize>(operands: [&RawTensor; N]) -> Result<[Operand<'_>; N]> {
    let mut arguments = [operands[0].operand()?; N];
    for (argument, x) in arguments.iter_mut().zip(operands).skip(1) {
        *argument = x.operand()?;
    }
    Ok(arguments)
}

fn walked<const N: usize>(order: MemoryOrder, operands: [&RawTensor; N]) -> [Layout; N] {
    operands.map(|x| order.walked(&x.layout))
}

fn laid_out<'a, const N: usize>(mut arguments: [Operand<'a>; N], layouts: &'a [Layout; N]) -> [Operand<'a>; N] {
    for (argument, layout) in arguments.iter_mut().zip(layouts) {
        argument.layout = layout;
    }
    arguments
}

/// The tensor for kernels that work on planes or rows: copied where channels lie together; out of the graph.
pub(crate) fn row_major(x: &RawTensor) -> Result<RawTensor> {
    if order_of([x]) == MemoryOrder::RowMajor { Ok(x.detached()) } else { x.packed() }
}

/// The tensor with its elements in `order`, copied where they lie otherwise; out of the graph.
pub(crate) fn in_order(order: MemoryOrder, x: &RawTensor) -> Result<RawTensor> {
    if order == MemoryOrder::RowMajor {
        return row_major(x);
    }
    let stored = x.stored();
    if order.walked(&stored.layout).is_contiguous() {
        return Ok(stored.counted(x.logical));
    }
    let copy = walk(order, [&stored], |backend, [x]| backend.copy(x, stored.logical))?;
    Ok(tensor(order, x.device(), copy, *x.shape()).counted(x.logical))
}

/// Images `[N, C, ..]` as the matrix `[pixels, C]` of their channels where that is the order, [`row_major`] elsewhere; out
/// of the graph.
pub(crate) fn pixels(order: MemoryOrder, x: &RawTensor) -> Result<RawTensor> {
    let dense = in_order(order, x)?;
    if order == MemoryOrder::RowMajor {
        return Ok(dense);
    }
    let channels = x.shape()[1];
    let shape = Dims::new(&[x.layout.count() / channels, channels]).expect("two dimensions");
    Ok(dense.with_layout(Layout { offset: dense.layout.offset, ..Layout::contiguous(shape) }))
}

/// Runs an element-wise kernel over operands of one shape in the order in which they are stored; the result lies in
/// the same order ([`MemoryOrder::of`]).
pub(crate) fn elementwise<const N: usize>(
    operands: [&RawTensor; N],
    kernel: impl FnOnce(&dyn Backend, [Operand<'_>; N]) -> Result<Buffer>,
) -> Result<RawTensor> {
    let order = order_of(operands);
    let buffer = walk(order, operands, kernel)?;
    Ok(tensor(order, operands[0].device(), buffer, *operands[0].shape()))
}

/// Folds `axes`, which stay with size 1, of a tensor in the order in which it is stored, as [`elementwise`] does.
pub(crate) fn reduce(op: Reduce, x: &RawTensor, axes: &[usize], out: DType) -> Result<RawTensor> {
    let order = order_of([x]);
    let mut moved = Dims::new(axes).expect("at most as many as dimensions");
    moved.iter_mut().for_each(|axis| *axis = order.axis(*axis, x.shape().len()));
    moved.sort_unstable();
    let buffer = walk(order, [x], |backend, [x]| backend.reduce(op, x, &moved, out))?;
    let mut shape = *x.shape();
    axes.iter().for_each(|&axis| shape[axis] = 1);
    Ok(tensor(order, x.device(), buffer, shape))
}
