//! A call of the seam with its inputs: run on the emulated GPU under every schedule, and on the CPU in F64.

use crate::standin;
use amp_core::backend::{Backend, Buffer, CpuBackend, DType, Layout, Memory, Operand, Storage};
use amp_core::{Dims, Result};

/// One tensor argument.
#[derive(Clone, Debug)]
pub struct Input {
    pub values: Vec<f64>,
    pub stored: DType,
    pub logical: DType,
    pub layout: Layout,
}

/// A call: operands and the precision of the result in, results out.
pub type Call<'a> = &'a dyn Fn(&dyn Backend, &[Operand<'_>], DType) -> Result<Vec<Buffer>>;

/// Reproducible numbers of the interval (-1, 1).
pub fn noise(len: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

impl Input {
    /// Contiguous, stored as it counts.
    pub fn new(values: Vec<f64>, shape: &[usize], dtype: DType) -> Self {
        let layout = Layout::contiguous(Dims::new(shape).expect("a rank"));
        Self { values, stored: dtype, logical: dtype, layout }
    }

    /// Noise of magnitude `scale`.
    pub fn noise(shape: &[usize], dtype: DType, scale: f64, seed: u64) -> Self {
        let values = noise(shape.iter().product(), seed).into_iter().map(|v| v * scale).collect();
        Self::new(values, shape, dtype)
    }

    /// Noise read with other strides, from a larger buffer.
    pub fn strided(shape: &[usize], strides: &[usize], offset: usize, dtype: DType, seed: u64) -> Self {
        let reach: usize = shape.iter().zip(strides).map(|(n, s)| n.saturating_sub(1) * s).sum();
        let dims = |d: &[usize]| Dims::new(d).expect("a rank");
        let layout = Layout { shape: dims(shape), strides: dims(strides), offset };
        Self { values: noise(offset + reach + 1, seed), stored: dtype, logical: dtype, layout }
    }

    /// Stored in another precision than it counts as.
    pub fn stored(self, stored: DType) -> Self {
        Self { stored, ..self }
    }

    /// Values as they are in memory, in their stored precision.
    fn storage(&self) -> Storage {
        converted(Storage::from(self.values.clone()), self.stored)
    }

    /// The values as F64, rounded to the stored and then to the logical precision.
    fn exact(&self) -> Storage {
        let cpu = CpuBackend;
        let buffer = Buffer::new(self.storage());
        let layout = Layout::contiguous(Dims::new(&[self.values.len()]).expect("rank 1"));
        let x = Operand { buffer: &buffer, layout: &layout, logical: self.logical };
        let exact = if self.logical.is_float() { DType::F64 } else { self.logical };
        cpu.download(&cpu.copy(x, exact).expect("a copy")).expect("on the host")
    }
}

/// `values` in another type, by the CPU's rules.
pub fn converted(values: Storage, dtype: DType) -> Storage {
    let (cpu, len, logical) = (CpuBackend, values.len(), values.dtype());
    let buffer = Buffer::new(values);
    let layout = Layout::contiguous(Dims::new(&[len]).expect("rank 1"));
    cpu.download(&cpu.copy(Operand { buffer: &buffer, layout: &layout, logical }, dtype).expect("a copy"))
        .expect("host")
}

pub fn to_f64(values: Storage) -> Vec<f64> {
    match converted(values, DType::F64) {
        Storage::F64(v) => v.into_vec(),
        other => unreachable!("asked for F64, got {}", other.dtype()),
    }
}

fn run(backend: &dyn Backend, inputs: &[(Storage, &Layout, DType)], call: Call, out: DType) -> Vec<Storage> {
    let upload = |(s, _, _): &(Storage, &Layout, DType)| backend.upload(s.clone()).expect("an upload");
    let buffers: Vec<Buffer> = inputs.iter().map(upload).collect();
    let operands: Vec<Operand> = buffers
        .iter()
        .zip(inputs)
        .map(|(buffer, (_, layout, logical))| Operand { buffer, layout, logical: *logical })
        .collect();
    let results = call(backend, &operands, out).expect("the call is valid");
    results.iter().map(|r| backend.download(r).expect("a download")).collect()
}

/// Results of the emulated GPU, the same under every schedule.
pub fn on_gpu(name: &str, inputs: &[Input], out: DType, call: Call) -> Vec<Storage> {
    let (standin, _alone) = standin::open();
    let gpu = standin::gpu();
    let inputs: Vec<_> = inputs.iter().map(|i| (i.storage(), &i.layout, i.logical)).collect();
    let mut first: Option<Vec<Storage>> = None;
    for &schedule in standin::schedules() {
        standin.schedule(schedule);
        let results = run(&*gpu, &inputs, call, out);
        match &first {
            None => first = Some(results),
            Some(first) => {
                let same = format!("{first:?}") == format!("{results:?}");
                assert!(same, "{name}: schedule {schedule:?} gives other bits\n{first:?}\n{results:?}");
            }
        }
    }
    first.expect("there are schedules")
}

/// Checks the GPU's results against the CPU's in F64: `terms` is how many F32 roundings a result may gather.
pub fn check(name: &str, inputs: &[Input], out: DType, terms: f64, call: Call) {
    check_rounded(name, inputs, out, terms, 0.0, call);
}

/// [`check`] of results whose terms are rounded, too: they may be off by another `of_largest` of the largest one.
pub fn check_rounded(name: &str, inputs: &[Input], out: DType, terms: f64, of_largest: f64, call: Call) {
    let results = on_gpu(name, inputs, out, call);
    let exact: Vec<_> = inputs
        .iter()
        .map(|i| (i.exact(), &i.layout, if i.logical.is_float() { DType::F64 } else { i.logical }))
        .collect();
    let wide = if out.is_float() { DType::F64 } else { out };
    let reference = run(&CpuBackend, &exact, call, wide);
    assert_eq!(results.len(), reference.len(), "{name}");
    for (number, (result, reference)) in results.into_iter().zip(reference).enumerate() {
        let dtype = result.dtype();
        let arithmetic =
            if inputs.iter().any(|i| i.logical == DType::F64) || out == DType::F64 { f64::EPSILON } else { 6e-8 };
        let label = format!("{name}: result {number} as {dtype}");
        let expected = to_f64(converted(reference, dtype));
        let largest = expected.iter().map(|v| v.abs()).filter(|v| v.is_finite()).fold(0.0, f64::max);
        compare(&label, &to_f64(result), &expected, [terms * arithmetic.max(2e-15), of_largest * largest], dtype);
    }
}

/// Checks the GPU against the CPU in the same precisions: for inputs that F32 and F64 do not treat alike.
#[allow(dead_code, reason = "a test file that checks products only does without")]
pub fn check_same(name: &str, inputs: &[Input], out: DType, terms: f64, call: Call) {
    let results = on_gpu(name, inputs, out, call);
    let same: Vec<_> = inputs.iter().map(|i| (i.storage(), &i.layout, i.logical)).collect();
    let reference = run(&CpuBackend, &same, call, out);
    for (result, reference) in results.into_iter().zip(reference) {
        let dtype = result.dtype();
        compare(&format!("{name} as {dtype}"), &to_f64(result), &to_f64(reference), [terms * 6e-8, 0.0], dtype);
    }
}

/// Bound: `relative` to the value and to 1, `more`, and one rounding to the result's precision.
fn compare(name: &str, found: &[f64], expected: &[f64], [relative, more]: [f64; 2], dtype: DType) {
    let ulp = match dtype {
        DType::F16 => 1.0 / 1024.0,
        DType::BF16 => 1.0 / 128.0,
        DType::F32 => 1.2e-7,
        _ => 0.0,
    };
    let least = if dtype == DType::F16 { 6e-8 } else { 0.0 };
    assert_eq!(found.len(), expected.len(), "{name}: number of elements");
    for (i, (&a, &b)) in found.iter().zip(expected).enumerate() {
        let same = a == b || (a.is_nan() && b.is_nan());
        let bound = relative * (1.0 + b.abs()) + more + ulp * b.abs() + least;
        assert!(same || (a - b).abs() <= bound, "{name}: element {i} is {a}, expected {b} within {bound}");
    }
}
