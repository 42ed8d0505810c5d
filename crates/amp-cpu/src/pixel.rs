//! Kernels that turn images `[N, C, H, W]` whose channels lie together (NHWC) into such images, a row at a time; the channels of a
//! pixel are lanes.

use crate::line::{Span, store};
use crate::num::Real;
use crate::split::for_chunks_of;
use crate::{DType, Storage, View, scratch};

/// Images that are read row by row in the order `[N, H, W, C]`.
pub(crate) struct Images<'a> {
    span: Span<'a>,
    /// Number of images.
    pub count: usize,
    /// Elements of a pixel.
    pub channels: usize,
    height: usize,
    /// Elements of a row.
    pub row: usize,
}

impl<'a> Images<'a> {
    pub fn new(view: &View<'a>) -> Self {
        let [count, channels, height, width] = *view.layout.shape else { unreachable!("images have four dimensions") };
        Self { span: Span::new(view, [0, 2, 3, 1]), count, channels, height, row: width * channels }
    }
}

/// The rows of one image.
pub(crate) struct Rows<'a, T> {
    pub images: &'a Images<'a>,
    /// Number of the image.
    pub image: usize,
    pub scratch: &'a mut [T],
}

impl<T: Real> Rows<'_, T> {
    /// Row `y`, widened where that is not how it is stored.
    pub fn read(&mut self, y: usize) -> &[T] {
        let Images { span, height, row, .. } = self.images;
        span.read((self.image * height + y) * row, *row, self.scratch)
    }
}

/// Computes every row of images of `size` from the same image of `view`; `body` gets the source's rows, the number of the
/// (zeroed) row in its image, and the row.
pub(crate) fn map_rows<T: Real>(
    view: &View,
    size: [usize; 2],
    out: DType,
    body: impl Fn(Rows<'_, T>, usize, &mut [T]) + Sync,
) -> Storage {
    let images = Images::new(view);
    let len = size[1] * images.channels;
    let mut result = Storage::unwritten(out, images.count * size[0] * len);
    let elements = result.len().max(view.layout.count());
    for_chunks_of(&mut result, len, elements, &|i, mut row| {
        scratch::with(images.row + len, |buffer: &mut [T]| {
            let (scratch, to) = buffer.split_at_mut(images.row);
            let source = Rows { images: &images, image: i / size[0], scratch };
            store(&mut row, to, |to| {
                to.fill(T::ZERO);
                body(source, i % size[0], to);
            });
        });
    });
    result
}
