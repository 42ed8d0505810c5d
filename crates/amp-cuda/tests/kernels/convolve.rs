//! Convolutions and their gradients as calls of a test, in row-major order whatever the backend's is.

use crate::case::Input;
use amp_core::backend::{Backend, Binary, Buffer, Conv2d, DType, Layout, MemoryOrder, Operand};
use amp_core::{Dims, Result};

/// Images of that shape that lie in `order`, in row-major order.
fn row_major(b: &dyn Backend, images: &Buffer, order: MemoryOrder, shape: [usize; 4]) -> Result<Buffer> {
    let layout = order.layout(Dims::new(&shape).expect("four dimensions"));
    b.copy(Operand { buffer: images, layout: &layout, logical: images.dtype() }, images.dtype())
}

fn sizes(x: &Operand<'_>) -> [usize; 4] {
    std::array::from_fn(|i| x.layout.shape[i])
}

pub fn forward(b: &dyn Backend, x: &[Operand<'_>], spec: &Conv2d, out: DType) -> Result<Vec<Buffer>> {
    let y = b.conv2d(x[0], x[1], x.get(3).copied(), spec, out)?;
    let ([n, _, height, width], [filters, _, kh, kw]) = (sizes(&x[0]), sizes(&x[1]));
    let [oh, ow] = spec.output_size([height, width], [kh, kw]).expect("the kernel fits");
    Ok(vec![row_major(b, &y, b.conv2d_order(x[0], x[1], spec)?, [n, filters, oh, ow])?])
}

/// The gradient of the image, or with a bias of its channels the transposed convolution.
pub fn image_gradient(b: &dyn Backend, x: &[Operand<'_>], spec: &Conv2d, out: DType) -> Result<Vec<Buffer>> {
    let image = b.conv_transpose2d(x[2], x[1], x.get(3).copied(), sizes(&x[0]), spec, out)?;
    Ok(vec![row_major(b, &image, b.conv_transpose2d_order(x[2], x[1], spec)?, sizes(&x[0]))?])
}

/// The gradient of the image in the precision `out` of sums, added to itself where it is made if the backend does that.
pub fn image_gradient_twice(b: &dyn Backend, x: &[Operand<'_>], spec: &Conv2d, out: DType) -> Result<Buffer> {
    let order = b.conv_transpose2d_order(x[2], x[1], spec)?;
    let mut sum = b.conv_transpose2d(x[2], x[1], None, sizes(&x[0]), spec, out)?;
    if !b.conv_transpose2d_accumulate(x[2], x[1], sizes(&x[0]), spec, &mut sum)? {
        let layout = Layout::contiguous(Dims::new(&[sum.len()]).expect("one dimension"));
        let one = Operand { buffer: &sum, layout: &layout, logical: sum.dtype() };
        sum = b.binary(Binary::Add, one, one, out)?;
    }
    row_major(b, &sum, order, sizes(&x[0]))
}

pub fn weight_gradient(b: &dyn Backend, x: &[Operand<'_>], spec: &Conv2d) -> Result<Vec<Buffer>> {
    let kernel = std::array::from_fn(|i| x[1].layout.shape[i]);
    let mut sum = b.conv2d_grad_weight(x[2], x[0], kernel, spec)?;
    b.conv2d_grad_weight_accumulate(x[2], x[0], kernel, spec, &mut sum)?;
    Ok(vec![sum])
}

/// Noise with the channels last.
pub fn last([n, c, h, w]: [usize; 4], dtype: DType, seed: u64) -> Input {
    Input::strided(&[n, c, h, w], &[c * h * w, 1, w * c, c], 0, dtype, seed)
}
