//! Small owned tensors for tests: any precision, any strides, values as F64.

use crate::load::load;
use crate::{DType, Dims, Layout, MemoryOrder, Slice, Storage, View};
use half::{bf16, f16};

/// A reproducible stream of numbers (SplitMix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Between -1 and 1.
    pub(crate) fn number(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }

    /// Less than `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub(crate) fn tensor(&mut self, shape: &[usize], dtype: DType) -> Tensor {
        let values: Vec<f64> = (0..shape.iter().product()).map(|_| self.number()).collect();
        Tensor::from_values(shape, dtype, &values)
    }
}

/// Runs the tests whose paths contain one of `filters` and none of `skipped` again, in a process that is held to a level by
/// `AMP_CPU`. Each filter must have run a test: one whose module was renamed would pass without any.
pub(crate) fn run_again(level: &str, filters: &[&str], skipped: &[&str]) {
    let program = std::env::current_exe().expect("the test binary has a path");
    let mut again = std::process::Command::new(program);
    again.args(filters).args(skipped.iter().flat_map(|name| ["--skip", name])).env("AMP_CPU", level);
    // What tests print would stand in the lines that are read.
    again.env_remove("RUST_TEST_NOCAPTURE");
    let run = again.output().expect("the test binary starts");
    let output = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{level}: {output}");
    for filter in filters {
        let passed = output.lines().any(|line| line.contains(filter) && line.ends_with("... ok"));
        assert!(passed, "{level}: no test of {filter} ran: {output}");
    }
}

/// Half the distance between 1 and the next number: the relative error of one rounding.
pub(crate) fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2.0_f64.powi(-11),
        DType::BF16 => 2.0_f64.powi(-8),
        DType::F32 => 2.0_f64.powi(-24),
        _ => 2.0_f64.powi(-53),
    }
}

/// A buffer with its layout and logical precision.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub storage: Storage,
    layout: Layout,
    logical: DType,
}

impl Tensor {
    pub(crate) fn contiguous(shape: &[usize], storage: Storage) -> Self {
        let layout = Layout::contiguous(Dims::new(shape).expect("few dimensions"));
        assert_eq!(layout.count(), storage.len());
        let logical = storage.dtype();
        Self { storage, layout, logical }
    }

    pub(crate) fn from_values(shape: &[usize], dtype: DType, values: &[f64]) -> Self {
        let storage = Self::storage(dtype, values);
        Self::contiguous(shape, storage)
    }

    fn storage(dtype: DType, values: &[f64]) -> Storage {
        match dtype {
            DType::F16 => Storage::F16(values.iter().map(|&v| f16::from_f32(v as f32)).collect()),
            DType::BF16 => Storage::BF16(values.iter().map(|&v| bf16::from_f32(v as f32)).collect()),
            DType::F32 => Storage::F32(values.iter().map(|&v| v as f32).collect()),
            DType::F64 => Storage::from(values.to_vec()),
            DType::Bool => Storage::Bool(values.iter().map(|&v| v != 0.0).collect()),
            DType::I64 => Storage::I64(values.iter().map(|&v| v as i64).collect()),
            DType::U8 => Storage::U8(values.iter().map(|&v| v as u8).collect()),
        }
    }

    pub(crate) fn filled(shape: &[usize], dtype: DType, value: f64) -> Self {
        Self::from_values(shape, dtype, &vec![value; shape.iter().product()])
    }

    pub(crate) fn view(&self) -> View<'_> {
        View { data: self.storage.as_slice(), layout: &self.layout, logical: self.logical }
    }

    pub(crate) fn shape(&self) -> &[usize] {
        &self.layout.shape
    }

    pub(crate) fn logical(&self) -> DType {
        self.logical
    }

    pub(crate) fn meant_as(mut self, logical: DType) -> Self {
        self.logical = logical;
        self
    }

    pub(crate) fn transposed(&self, i: usize, j: usize) -> Self {
        let mut tensor = self.clone();
        tensor.layout.shape.swap(i, j);
        tensor.layout.strides.swap(i, j);
        tensor
    }

    /// The same elements, stored with the channels of a pixel together.
    pub(crate) fn channels_last(&self) -> Self {
        let layout = MemoryOrder::ChannelsLast.walked(&self.layout);
        let stored = View { data: self.storage.as_slice(), layout: &layout, logical: self.storage.dtype() };
        let storage = crate::copy(&stored, self.storage.dtype());
        Self { storage, layout: Layout::channels_last(self.layout.shape), logical: self.logical }
    }

    /// A result that a kernel wrote in an order, in row-major order.
    pub(crate) fn row_major(shape: &[usize], order: MemoryOrder, storage: &Storage) -> Storage {
        let layout = order.layout(Dims::new(shape).expect("few dimensions"));
        crate::copy(&View { data: storage.as_slice(), layout: &layout, logical: storage.dtype() }, storage.dtype())
    }

    /// Every `step`-th element along `axis`, from the second one on.
    pub(crate) fn every(&self, axis: usize, step: usize) -> Self {
        let mut tensor = self.clone();
        tensor.layout.offset += tensor.layout.strides[axis];
        tensor.layout.shape[axis] = (tensor.layout.shape[axis] - 1).div_ceil(step);
        tensor.layout.strides[axis] *= step;
        tensor
    }

    /// Elements `start..start + len` along an axis.
    pub(crate) fn narrow(&self, axis: usize, start: usize, len: usize) -> Self {
        let mut part = self.clone();
        part.layout.offset += start * part.layout.strides[axis];
        part.layout.shape[axis] = len;
        part
    }

    /// Repeats along new leading dimensions and along those of size 1.
    pub(crate) fn broadcast(&self, shape: &[usize]) -> Self {
        let mut tensor = self.clone();
        let new = shape.len() - self.shape().len();
        let mut strides = Dims::new(shape).expect("few dimensions");
        for (i, stride) in strides.iter_mut().enumerate() {
            let repeats = i < new || self.shape()[i - new] == 1;
            *stride = if repeats { 0 } else { self.layout.strides[i - new] };
        }
        tensor.layout.shape = Dims::new(shape).expect("few dimensions");
        tensor.layout.strides = strides;
        tensor
    }

    /// The value at an index, rounded to the logical precision.
    pub(crate) fn at(&self, index: &[usize]) -> f64 {
        let offset: usize = index.iter().zip(self.layout.strides.iter()).map(|(&i, &s)| i * s).sum();
        let offset = self.layout.offset + offset;
        match self.storage.as_slice() {
            Slice::Bool(s) => return f64::from(u8::from(s[offset])),
            Slice::I64(s) => return s[offset] as f64,
            Slice::U8(s) => return f64::from(s[offset]),
            _ => {}
        }
        let mut value = [0.0_f64];
        load(&self.view(), offset, 1, &mut value);
        value[0]
    }

    /// All values, row-major.
    pub(crate) fn values(&self) -> Vec<f64> {
        self.indices().iter().map(|index| self.at(index)).collect()
    }

    /// All indices, row-major.
    pub(crate) fn indices(&self) -> Vec<Vec<usize>> {
        let strides = self.layout.shape.contiguous_strides();
        (0..self.layout.count())
            .map(|i| self.shape().iter().zip(strides.iter()).map(|(&size, &stride)| i / stride.max(1) % size).collect())
            .collect()
    }
}
