//! Attention, on tensor cores and without, and its gradients.

use crate::case::{Input, check_rounded, check_same};
use amp_core::backend::{AttentionGrads, AttentionScores, Backend, Buffer, DType, Layout, Operand};
use amp_core::{Dims, Result};

/// Gradients, result and log-sum-exp of the attention of `q`, `k`, `v` and the gradient of the result, `[B, H, .., ..]`.
fn attention_and_gradients(
    b: &dyn Backend,
    x: &[Operand<'_>],
    scores: &AttentionScores<'_>,
    out: DType,
) -> Result<Vec<Buffer>> {
    let [_, heads, queries, width] = std::array::from_fn(|i| x[3].layout.shape[i]);
    let (y, lse) = b.attention(x[0], x[1], x[2], scores, out)?;
    let strides = [heads * queries * width, width, heads * width, 1];
    let layout = Layout { strides: Dims::new(&strides).expect("rank 4"), offset: 0, ..*x[3].layout };
    let kept = Operand { buffer: &y, layout: &layout, logical: out };
    let grads = b.attention_grad(x[3], [x[0], x[1], x[2]], kept, &lse, scores, out)?;
    let AttentionGrads::Apart(grads) = grads else { unreachable!("operands in buffers of their own") };
    let mut results = Vec::from(grads);
    results.extend([b.copy(kept, out)?, lse]);
    Ok(results)
}

/// Attention and its gradients under no mask, a causal one and both.
///
/// `q`, `k`, `v` and the gradient of the result, `[B, H, .., ..]`.
fn attended(name: &str, inputs: [Input; 4], out: DType, of_largest: f64) {
    let [heads, queries, keys] = [inputs[3].layout.shape[1], inputs[3].layout.shape[2], inputs[1].layout.shape[2]];
    let scores = inputs[3].layout.shape[0] * heads * queries * keys;
    let allowed = (0..scores).map(|i| f64::from(u8::from(i % 5 != 1 && i / keys % queries != 3))).collect();
    let mask = Input::new(allowed, &[inputs[3].layout.shape[0], heads, queries, keys], DType::Bool);
    let inputs = [inputs.as_slice(), &[mask]].concat();
    for (causal, masked, scale) in [(false, false, 0.3), (true, false, -0.3), (true, true, 0.3), (true, true, 0.0)] {
        check_rounded(
            &format!("{name}, causal {causal}, masked {masked}, scale {scale}"),
            &inputs,
            out,
            600.0,
            of_largest,
            &|b, x, out| {
                let scores = AttentionScores { mask: masked.then_some(x[4]), causal, scale };
                attention_and_gradients(b, x, &scores, out)
            },
        );
    }
}

#[test]
fn attention_with_masks_and_its_gradients() {
    let sizes = [
        (33, 35, 16, 16, DType::F16),
        (20, 7, 70, 40, DType::BF16),
        (5, 18, 33, 33, DType::F64),
        (9, 9, 130, 8, DType::F32),
        (3, 140, 7, 257, DType::F16),
        (131, 2, 300, 5, DType::F64),
    ];
    for (t, s, d, e, dtype) in sizes {
        // Keys stored in another type: nothing for the tensor cores.
        let stored = if dtype == DType::F64 { dtype } else { DType::F32 };
        let q = Input::strided(&[1, 2, t, d], &[0, d, 2 * d, 1], 0, dtype, 1);
        let (k, v) = (Input::noise(&[1, 2, s, d], dtype, 1.0, 2), Input::noise(&[1, 2, s, e], dtype, 1.0, 3));
        let g = Input::noise(&[1, 2, t, e], dtype, 1.0, 4);
        attended(&format!("attention {t} {s} {d} {e}"), [q, k.stored(stored), v, g], stored, 0.0);
    }
}

/// Weights and slopes of the scores are rounded before they are multiplied, and `y` before the rows' mean slopes are taken of
/// it: sums of many products, which add up as noise does, to a few roundings of the largest one.
fn flash_error(dtype: DType) -> f64 {
    8.0 * if dtype == DType::F16 { 2f64.powi(-11) } else { 2f64.powi(-8) }
}

#[test]
fn flash_attention_with_masks_and_its_gradients() {
    use DType::{BF16, F16};
    let sizes = [
        (1, 2, 70, 133, 64, 64, F16),
        (1, 1, 66, 30, 40, 16, BF16),
        (2, 2, 5, 3, 20, 7, F16),
        (1, 2, 17, 70, 128, 96, F16),
        (2, 1, 1, 65, 33, 33, BF16),
        (1, 1, 65, 9, 8, 127, BF16),
        // Several blocks, of several tiles each.
        (1, 1, 129, 193, 64, 64, BF16),
        (1, 1, 128, 128, 64, 64, F16),
        (1, 1, 65, 97, 128, 128, BF16),
    ];
    for (b, h, t, s, d, e, dtype) in sizes {
        // As a projection leaves them: queries, keys and values of all heads beside each other.
        let lies = |rows: usize, width: usize, seed| {
            let strides = [rows * 3 * h * width, width, 3 * h * width, 1];
            // Some begin where no 16 bytes are copied at once.
            let offset = h * width + 3 * (b * h % 2);
            Input::strided(&[b, h, rows, width], &strides, offset, dtype, seed)
        };
        let inputs = [lies(t, d, 1), lies(s, d, 2), lies(s, e, 3), Input::noise(&[b, h, t, e], dtype, 1.0, 4)];
        attended(&format!("flash attention {t} {s} {d} {e}"), inputs, dtype, flash_error(dtype));
    }
    let (standin, _alone) = crate::standin::open();
    for variant in ["64_f16", "64_bf16", "128_f16", "128_bf16"] {
        let kernels = ["", "_grad_q", "_grad_k"].map(|pass| format!("flash_attention{pass}_{variant}"));
        let runs = kernels.map(|kernel| standin.calls(&kernel));
        assert!(standin.calls("cuLaunchKernel") == 0 || !runs.contains(&0), "{variant}: {runs:?}");
    }
}

/// Scores that overflow refuse their keys as a mask does: a query that is left with none changes nothing.
#[test]
fn queries_whose_scores_are_all_minus_infinity_have_gradients_of_zero() {
    for (width, dtype, huge) in [
        (64, DType::BF16, 1e30),
        (128, DType::BF16, 1e30),
        (64, DType::F32, 1e30),
        (300, DType::F32, 1e30),
        (20, DType::F64, 1e200),
    ] {
        let constant = |rows: usize, value: f64| Input::new(vec![value; rows * width], &[1, 1, rows, width], dtype);
        let noise = |rows: usize, seed| Input::noise(&[1, 1, rows, width], dtype, 1.0, seed);
        let inputs = [constant(3, huge), constant(5, -huge), noise(5, 1), noise(3, 2)];
        let name = format!("refused queries {width} {dtype}");
        check_same(&name, &inputs, dtype, 0.0, &|b, x, out| {
            let scores = AttentionScores { mask: None, causal: false, scale: 0.3 };
            attention_and_gradients(b, x, &scores, out)
        });
    }
}

/// Where there is one row, how far the next would be says nothing about how it can be read.
#[test]
fn flash_attention_of_single_rows_reads_nothing_beside_them() {
    let single = |seed| Input::strided(&[1, 1, 1, 64], &[64, 64, 67, 1], 0, DType::F16, seed);
    let inputs = [single(1), single(2), single(3), Input::noise(&[1, 1, 1, 64], DType::F16, 1.0, 4)];
    attended("flash attention of single rows", inputs, DType::F16, 600.0 + 8.0 * 2f64.powi(-11) / 6e-8);
}

#[test]
fn flash_attention_of_one_projection_has_its_gradients_in_one_buffer() {
    let [b, h, t, d] = [2, 2, 37, 16];
    let dims = |d: &[usize]| Dims::new(d).expect("a rank");
    let inputs =
        [Input::noise(&[b, t, 3, h, d], DType::BF16, 1.0, 1), Input::noise(&[b, h, t, d], DType::BF16, 1.0, 2)];
    let error = flash_error(DType::BF16);
    check_rounded("flash attention of a projection", &inputs, DType::BF16, 600.0, error, &|backend, x, out| {
        let layouts = [0, 1, 2].map(|i| {
            let strides = dims(&[t * 3 * h * d, d, 3 * h * d, 1]);
            Layout { shape: dims(&[b, h, t, d]), strides, offset: i * h * d }
        });
        let [q, k, v] = layouts.each_ref().map(|layout| Operand { layout, ..x[0] });
        let scores = AttentionScores { mask: None, causal: true, scale: 0.3 };
        let (y, lse) = backend.attention(q, k, v, &scores, out)?;
        let interleaved = Layout { strides: dims(&[t * h * d, d, h * d, 1]), offset: 0, ..layouts[0] };
        let layout = if backend.interleaves_heads() { &interleaved } else { x[1].layout };
        let y = Operand { buffer: &y, layout, logical: out };
        let grads = backend.attention_grad(x[1], [q, k, v], y, &lse, &scores, out)?;
        let AttentionGrads::Together(grads) = grads else { unreachable!("operands that are a buffer taken apart") };
        Ok(vec![grads])
    });
}
