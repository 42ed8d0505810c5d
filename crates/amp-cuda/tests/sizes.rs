//! Sizes that 32 bits do not hold: elements further apart than 2^31, and more heads, matrices and groups than a grid is deep.

#[path = "standin/mod.rs"]
mod standin;

use amp_core::backend::{
    AttentionScores, Backend, Binary, Buffer, Conv2d, DType, Layout, NormKind, Operand, Reduce, Storage, Unary,
};
use amp_core::{Dims, Result};

fn dims(of: &[usize]) -> Dims {
    Dims::new(of).expect("a rank")
}

fn contiguous(shape: &[usize]) -> Layout {
    Layout::contiguous(dims(shape))
}

/// Distance of the rows of a matrix that no 32-bit index reaches.
const FAR: usize = (1 << 31) + 8;
const SHAPE: [usize; 2] = [2, 24];

/// What every kind of kernel makes of a matrix.
fn results(gpu: &dyn Backend, x: Operand<'_>) -> Result<Vec<Buffer>> {
    let out = x.logical;
    let index = gpu.upload(Storage::I64(vec![1, 0, 1].into()))?;
    let three = contiguous(&[3]);
    let index = Operand { buffer: &index, layout: &three, logical: DType::I64 };
    let turned = Layout {
        shape: dims(&[SHAPE[1], SHAPE[0]]),
        strides: dims(&[x.layout.strides[1], x.layout.strides[0]]),
        offset: x.layout.offset,
    };
    let t = Operand { layout: &turned, ..x };
    Ok(vec![
        gpu.copy(x, DType::F32)?,
        gpu.unary(Unary::Gelu, x, out)?,
        gpu.binary(Binary::Mul, x, x, out)?,
        gpu.reduce(Reduce::Sum, x, &[1], DType::F32)?,
        gpu.reduce(Reduce::Sum, x, &[0], DType::F32)?,
        gpu.softmax(x, 1, false, out)?,
        gpu.softmax(x, 0, true, out)?,
        gpu.normalize(x, NormKind::Layer { inner: SHAPE[1] }, None, None, 1e-5, out)?.y,
        gpu.matmul(x, t, None, DType::F32)?,
        gpu.index_select(x, 0, index)?,
    ])
}

/// Values that halves hold, in row-major order.
fn matrix(gpu: &dyn Backend) -> Buffer {
    let values: Vec<f32> = (0..SHAPE[0] * SHAPE[1]).map(|i| (i * 7 % 13) as f32 - 5.5).collect();
    let wide = gpu.upload(Storage::F32(values.into())).expect("an upload");
    gpu.copy(Operand { buffer: &wide, layout: &contiguous(&SHAPE), logical: DType::F32 }, DType::F16).expect("a copy")
}

fn numbers(gpu: &dyn Backend, x: &Buffer) -> Vec<f32> {
    let wide = Operand { buffer: x, layout: &contiguous(&[x.len()]), logical: x.dtype() };
    match gpu.copy(wide, DType::F32).and_then(|x| gpu.download(&x)).expect("a download") {
        Storage::F32(values) => values.to_vec(),
        other => unreachable!("asked for F32, got {}", other.dtype()),
    }
}

/// Compares what every kind of kernel makes of the matrix as it lies in `memory` with what it makes of a dense one.
///
/// Sums run in other orders where rows are read in packs: F32 roundings, and one of the result.
fn same_as_dense(gpu: &dyn Backend, memory: &mut Buffer, at: Layout) {
    let (dense, layout) = (matrix(gpu), contiguous(&SHAPE));
    let dense = Operand { buffer: &dense, layout: &layout, logical: DType::F16 };
    gpu.copy_into(dense, memory, &at).expect("a copy");
    let other = Operand { buffer: memory, layout: &at, logical: DType::F16 };
    let [expected, found] = [dense, other].map(|x| results(gpu, x).expect("every operation"));
    for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
        for (a, b) in numbers(gpu, found).into_iter().zip(numbers(gpu, expected)) {
            let bound = (1.0 + b.abs()) / 1024.0;
            assert!((a - b).abs() <= bound, "result {number} in {at:?}: {a}, expected {b} within {bound}");
        }
    }
}

#[test]
fn elements_may_be_further_apart_than_32_bits_count() {
    let (standin, _alone) = standin::open();
    if !standin.counts() {
        return;
    }
    let gpu = standin::gpu();
    let mut memory = gpu.fill(0.0, FAR + 100, DType::F16).expect("4 GiB that nobody touches");
    let at = Layout { shape: dims(&SHAPE), strides: dims(&[FAR, 1]), offset: 3 };
    same_as_dense(&*gpu, &mut memory, at);
}

#[test]
fn slices_may_begin_anywhere() {
    let (_, _alone) = standin::open();
    let gpu = standin::gpu();
    for offset in 0..9 {
        for row in [SHAPE[1], SHAPE[1] + 1, SHAPE[1] + 8] {
            let mut memory = gpu.fill(0.0, 100, DType::F16).expect("memory");
            let at = Layout { shape: dims(&SHAPE), strides: dims(&[row, 1]), offset };
            same_as_dense(&*gpu, &mut memory, at);
        }
    }
}

#[test]
fn grids_are_deep_enough_for_many_heads_matrices_and_groups() {
    const MANY: usize = 70_000;
    let (standin, _alone) = standin::open();
    if !standin.counts() {
        return;
    }
    let gpu = standin::gpu();
    // What is launched matters here, not what it computes.
    standin.idle(true);
    let buffer = gpu.fill(1.0, MANY, DType::F32).expect("a fill");
    let [heads, kernel] = [[1, MANY, 1, 1], [MANY, 1, 1, 1]].map(|shape| contiguous(&shape));
    let matrices = contiguous(&[MANY, 1, 1]);
    let of = |layout| Operand { buffer: &buffer, layout, logical: DType::F32 };
    let scores = AttentionScores { mask: None, causal: true, scale: 1.0 };
    let done = (|| -> Result<()> {
        let x = of(&heads);
        let (y, lse) = gpu.attention(x, x, x, &scores, DType::F32)?;
        gpu.attention_grad(x, [x; 3], Operand { buffer: &y, ..x }, &lse, &scores, DType::F32)?;
        gpu.matmul(of(&matrices), of(&matrices), None, DType::F32)?;
        let spec = Conv2d { groups: MANY, ..Conv2d::default() };
        gpu.conv2d(of(&heads), of(&kernel), None, &spec, DType::F32)?;
        gpu.conv_transpose2d(of(&heads), of(&kernel), None, [1, MANY, 1, 1], &spec, DType::F32)?;
        gpu.conv2d_grad_weight(of(&heads), of(&heads), [MANY, 1, 1, 1], &spec).map(drop)
    })();
    standin.idle(false);
    done.expect("every launch fits");
}
