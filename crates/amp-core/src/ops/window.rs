//! Options of operations that move a window over an image or a line.

/// One number for each of `D` spatial dimensions: `3` stands for `[3, 3]`.
pub trait IntoExtent<const D: usize> {
    /// The numbers, outermost dimension first.
    fn into_extent(self) -> [usize; D];
}

impl<const D: usize> IntoExtent<D> for usize {
    fn into_extent(self) -> [usize; D] {
        [self; D]
    }
}

impl<const D: usize> IntoExtent<D> for [usize; D] {
    fn into_extent(self) -> [usize; D] {
        self
    }
}

impl IntoExtent<2> for (usize, usize) {
    fn into_extent(self) -> [usize; 2] {
        [self.0, self.1]
    }
}

macro_rules! builder {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        pub fn $name(mut self, $name: impl IntoExtent<D>) -> Self {
            self.$name = $name.into_extent();
            self
        }
    )* };
}

/// How a convolution over `D` spatial dimensions moves; `Default` is stride 1, no padding, no dilation, one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvOptions<const D: usize> {
    pub(crate) stride: [usize; D],
    pub(crate) padding: [usize; D],
    pub(crate) output_padding: [usize; D],
    pub(crate) dilation: [usize; D],
    pub(crate) groups: usize,
}

impl<const D: usize> Default for ConvOptions<D> {
    fn default() -> Self {
        Self { stride: [1; D], padding: [0; D], output_padding: [0; D], dilation: [1; D], groups: 1 }
    }
}

impl<const D: usize> ConvOptions<D> {
    /// Stride 1, no padding, no dilation, one group.
    pub fn new() -> Self {
        Self::default()
    }

    builder! {
        /// Distance between neighbouring outputs, in input pixels.
        stride;
        /// Zeros added on both sides of the input.
        padding;
        /// Pixels added on one side of the result of a transposed convolution, less than the stride or the dilation;
        /// convolutions ignore it.
        output_padding;
        /// Distance between neighbouring kernel elements, in input pixels.
        dilation;
    }

    /// Parts that the channels are divided into, each convolved on its own.
    pub fn groups(mut self, groups: usize) -> Self {
        self.groups = groups;
        self
    }
}

/// Windows of a pooling over `D` spatial dimensions: `2` or `[2, 3]` converts into windows of that size side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolOptions<const D: usize> {
    pub(crate) kernel: [usize; D],
    pub(crate) stride: [usize; D],
    pub(crate) padding: [usize; D],
    pub(crate) dilation: [usize; D],
    pub(crate) ceil_mode: bool,
    pub(crate) count_include_pad: bool,
}

impl<const D: usize> PoolOptions<D> {
    /// Windows of size `kernel`, side by side.
    pub fn new(kernel: impl IntoExtent<D>) -> Self {
        let kernel = kernel.into_extent();
        let (padding, dilation) = ([0; D], [1; D]);
        Self { kernel, stride: kernel, padding, dilation, ceil_mode: false, count_include_pad: true }
    }

    builder! {
        /// Distance between windows.
        stride;
        /// Pixels added on both sides, at most half a window: minus infinity for maxima, zeros for averages.
        padding;
        /// Distance between the pixels of a window; averages ignore it.
        dilation;
    }

    /// Whether a last window may reach past the padding, as long as it begins before it.
    pub fn ceil_mode(mut self, ceil_mode: bool) -> Self {
        self.ceil_mode = ceil_mode;
        self
    }

    /// Whether averages count the padding they cover as zeros (the default).
    pub fn count_include_pad(mut self, count: bool) -> Self {
        self.count_include_pad = count;
        self
    }
}

impl<const D: usize, E: IntoExtent<D>> From<E> for PoolOptions<D> {
    fn from(kernel: E) -> Self {
        Self::new(kernel)
    }
}

/// The numbers of a line as those of an image of height 1, `outer` for the height.
pub(crate) fn flat<const D: usize>(values: [usize; D], outer: usize) -> [usize; 2] {
    match values.as_slice() {
        [height, width] => [*height, *width],
        [width] => [outer, *width],
        _ => unreachable!("operations exist for one and two dimensions"),
    }
}
