//! Matrix products through cuBLASLt's stand-in: which ones go there, what they give, and what is remembered of them.

#![allow(clippy::cloned_ref_to_slice_refs, reason = "lists of inputs read alike whether they hold one or several")]

#[path = "kernels/case.rs"]
mod case;
#[path = "standin/mod.rs"]
mod standin;

use amp_core::Result;
use amp_core::backend::{Backend, Buffer, DType, Layout, Operand, Reduce, Unary};
use case::{Call, Input, check, check_same};

/// Checks a call and how many products of each schedule's run went to cuBLASLt, where they are counted.
fn goes(name: &str, inputs: &[Input], out: DType, products: u64, call: Call) {
    goes_within(100.0, name, inputs, out, products, call);
}

/// As [`goes`], with the results of `terms` roundings.
fn goes_within(terms: f64, name: &str, inputs: &[Input], out: DType, products: u64, call: Call) {
    let standin = {
        let (standin, _alone) = standin::open_with_products();
        standin
    };
    let before = standin.calls("cublasLtMatmul");
    check(name, inputs, out, terms, call);
    let each = standin.calls("cublasLtMatmul") - before;
    let expected = if standin.counts() { products * standin::schedules().len() as u64 } else { 0 };
    assert_eq!(each, expected, "{name}: products that went to cuBLASLt");
}

fn product(b: &dyn Backend, x: &[Operand<'_>], out: DType) -> Result<Vec<Buffer>> {
    Ok(vec![b.matmul(x[0], x[1], None, out)?])
}

// One test: the counts are of the whole process.
#[test]
fn products_go_to_cublaslt_where_it_can_do_them() {
    a_first_product_within_a_graph();
    every_layout();
    types();
    biases();
    activations();
    relus();
    a_first_relu_within_a_graph();
    accumulation();
    sums();
    batches();
    mixed_storage();
    plans_are_remembered();
}

/// What comes first in a graph goes to cuBLASLt, as what comes after it.
fn a_first_product_within_a_graph() {
    let (standin, _alone) = standin::open_with_products();
    let (gpu, device) = (standin::gpu(), amp_core::Device::cuda(0).expect("the stand-in is a GPU"));
    let buffer = gpu.fill(1.0, 16 * 16, DType::F32).expect("a fill");
    let layout = Input::noise(&[16, 16], DType::F32, 1.0, 1).layout;
    let x = Operand { buffer: &buffer, layout: &layout, logical: DType::F32 };
    let step = || gpu.matmul(x, x, None, DType::F32).map(drop);
    let graph = amp_core::cuda::Graph::capture(&device, step).expect("a graph");
    graph.replay().expect("a replay");
    step().expect("the same at once");
    assert!(!standin.counts() || standin.calls("cublasLtMatmul") == 2);
}

fn every_layout() {
    let row = |seed| Input::strided(&[5, 7], &[7, 1], 0, DType::F32, seed);
    let column = |seed| Input::strided(&[7, 3], &[1, 7], 0, DType::F32, seed);
    goes("row by column", &[row(1), column(2)], DType::F32, 1, &product);
    let far = Input::strided(&[5, 7], &[9, 1], 3, DType::F32, 3);
    goes("rows far apart, unaligned", &[far, column(4)], DType::F32, 1, &product);
    let turned = Input::strided(&[5, 7], &[1, 6], 1, DType::F32, 5);
    goes("column by column", &[turned, column(6)], DType::F32, 1, &product);
    let (a, b) =
        (Input::strided(&[1, 7], &[50, 1], 0, DType::F32, 7), Input::strided(&[7, 1], &[2, 9], 0, DType::F32, 8));
    goes("vectors", &[a, b], DType::F32, 1, &product);
    let scattered = Input::strided(&[5, 7], &[20, 2], 0, DType::F32, 9);
    goes("neither side is dense", &[scattered, column(10)], DType::F32, 0, &product);
    let repeated = Input::strided(&[5, 7], &[0, 1], 0, DType::F32, 11);
    goes("one row repeated", &[repeated, column(12)], DType::F32, 0, &product);
    let (a, b) = (Input::new(vec![], &[3, 0], DType::F32), Input::new(vec![], &[0, 2], DType::F32));
    goes("no terms", &[a, b], DType::F32, 0, &product);
}

fn types() {
    use DType::{BF16, F16, F32, F64};
    let pair = |dtype| [Input::noise(&[4, 9], dtype, 1.0, 1), Input::noise(&[9, 6], dtype, 1.0, 2)];
    for (input, out, products) in
        [(F16, F16, 1), (F16, F32, 1), (BF16, BF16, 1), (BF16, F32, 1), (F64, F64, 1), (F32, F16, 0), (F16, BF16, 0)]
    {
        goes(&format!("{input} to {out}"), &pair(input), out, products, &product);
    }
    let widened = pair(F16).map(|x| Input { logical: F32, ..x });
    goes("halves that count as F32", &widened, F32, 1, &product);
}

fn biases() {
    let inputs = |dtype, stored| {
        let bias = Input::noise(&[6], dtype, 1.0, 3).stored(stored);
        [Input::noise(&[4, 9], dtype, 1.0, 1), Input::noise(&[9, 6], dtype, 1.0, 2), bias]
    };
    let call: Call = &|b, x, out| Ok(vec![b.matmul(x[0], x[1], Some(x[2]), out)?]);
    goes("bias", &inputs(DType::BF16, DType::BF16), DType::BF16, 1, call);
    goes("bias of a master", &inputs(DType::F16, DType::F32), DType::F16, 1, call);
    goes("bias in F32", &inputs(DType::F32, DType::F32), DType::F32, 1, call);
    goes("bias in F64", &inputs(DType::F64, DType::F64), DType::F64, 0, call);
    for dtype in [DType::F16, DType::F32] {
        let [a, b, _] = inputs(dtype, dtype);
        let part = Input::strided(&[6], &[1], 2, dtype, 3);
        goes("bias in the middle of a vector", &[a, b, part], dtype, 1, call);
    }
    let [a, b, bias] = inputs(DType::F32, DType::F32);
    let one = Input { layout: Input::strided(&[6], &[0], 0, DType::F32, 1).layout, ..bias };
    goes("one bias for all", &[a, b, one], DType::F32, 1, call);
}

fn activations() {
    use DType::{BF16, F16, F32};
    let inputs = |dtype, columns: usize| {
        let bias = Input::noise(&[columns], dtype, 1.0, 3);
        let saved = Input::noise(&[4, columns], dtype, 2.0, 4);
        [Input::noise(&[4, 9], dtype, 1.0, 1), Input::noise(&[9, columns], dtype, 1.0, 2), bias, saved]
    };
    let gelu: Call = &|b, x, out| {
        let [sums, y] = b.matmul_unary(x[0], x[1], Some(x[2]), Unary::GeluTanh, out)?;
        let [plain, z] = b.matmul_unary(x[0], x[1], None, Unary::GeluTanh, out)?;
        Ok(vec![sums, y, plain, z, b.matmul_unary_grad(x[0], x[1], Unary::GeluTanh, x[3], out)?])
    };
    let launches = |name| standin::open_with_products().0.calls(name);
    let before = ["activation_f32", "activation_grad_f32"].map(launches);
    // A GPU's own tanh is off by up to 2^-11. Of its error GELU has x / 2 times as much, and its slope, for |x| < 2, no more than
    // three times, times a gradient of up to three; the stand-in's is exact.
    let exact = standin::open_with_products().0.counts();
    let terms = if exact { 100.0 } else { 100.0 + 9.0 * 2f64.powi(-11) / 6e-8 };
    goes_within(terms, "gelu of F16", &inputs(F16, 16), F16, 3, gelu);
    goes_within(terms, "gelu of BF16", &inputs(BF16, 8), BF16, 3, gelu);
    assert_eq!(["activation_f32", "activation_grad_f32"].map(launches), before, "activations are part of the products");
    goes("gelu of F32 is a pass of its own", &inputs(F32, 8), F32, 3, gelu);
    let after = ["activation_f32", "activation_grad_f32"].map(launches);
    let counts = standin::open_with_products().0.counts();
    assert!(!counts || after.iter().zip(before).all(|(now, then)| *now > then), "{before:?} {after:?}");
    let [a, b, ..] = inputs(F16, 6);
    goes("rows that the epilogue does not take", &[a, b], F16, 1, &|b, x, out| {
        let [sums, _] = b.matmul_unary(x[0], x[1], None, Unary::GeluTanh, out)?;
        Ok(vec![sums])
    });
}

/// The result and a gradient through it, of products with ReLU in between: `[a, b, bias, grad, c]`.
fn relu(b: &dyn Backend, x: &[Operand<'_>], bias: bool, out: DType) -> Result<Vec<Buffer>> {
    let [_, y] = b.matmul_unary(x[0], x[1], bias.then_some(x[2]), Unary::Relu, out)?;
    let layout = Layout::contiguous(x[5].layout.shape);
    let saved = Operand { buffer: &y, layout: &layout, logical: x[5].logical };
    let grad = b.matmul_unary_grad(x[3], x[4], Unary::Relu, saved, out)?;
    Ok(vec![y, grad])
}

fn relus() {
    use DType::{BF16, F16, F32};
    // The last says what the result's shape is.
    let inputs = |dtype, columns: usize| {
        [[4, 9], [9, columns], [1, columns], [4, 5], [5, columns], [4, columns]].map(|shape| {
            let layout = Input::noise(&shape, dtype, 1.0, 10 + shape[1] as u64);
            if shape[0] == 1 { Input::noise(&shape[1..], dtype, 1.0, 3) } else { layout }
        })
    };
    let launches = || {
        let (standin, _alone) = standin::open_with_products();
        standin.calls("activation_f32") + standin.calls("activation_grad_f32")
    };
    // A GPU's product may round a sum to 16 bits before it adds a bias of at most 1: half a unit of |y| + 1.
    let exact = standin::open_with_products().0.counts();
    let terms = |dtype| match dtype {
        F16 if !exact => 100.0 + 2f64.powi(-11) / 6e-8,
        BF16 if !exact => 100.0 + 2f64.powi(-8) / 6e-8,
        _ => 100.0,
    };
    for (columns, mode) in [(16, 0), (24, 1), (32, 2)] {
        let before = launches();
        let standin = standin::open_with_products().0;
        standin.relu(mode);
        for (dtype, bias) in [(F16, true), (F16, false), (BF16, true), (F32, false)] {
            let call: Call = &|b, x, out| relu(b, x, bias, out);
            let name = format!("relu of {dtype}, {columns} columns, bias {bias}");
            let inputs = inputs(dtype, columns);
            // The first of its kind is tried.
            check(&name, &inputs, dtype, terms(dtype), call);
            goes_within(terms(dtype), &name, &inputs, dtype, 2, call);
            let mut with_nan = inputs.clone();
            with_nan[0].values[12] = f64::NAN;
            with_nan[3].values[2] = f64::NAN;
            check_same(&format!("{name}, with NaN"), &with_nan, dtype, terms(dtype), call);
        }
        let passes = launches() - before;
        assert!(!standin.counts() || (passes == 0) == (mode == 0), "mode {mode}: {passes} passes of their own");
    }
    standin::open_with_products().0.relu(0);
    let before = launches();
    goes("rows that are no whole bytes", &inputs(F16, 6), F16, 2, &|b, x, out| relu(b, x, true, out));
    assert!(launches() > before || !standin::open_with_products().0.counts());
}

/// A graph cannot wait for the outcome of a first try; the code after it does.
fn a_first_relu_within_a_graph() {
    let (standin, _alone) = standin::open_with_products();
    let (gpu, device) = (standin::gpu(), amp_core::Device::cuda(0).expect("the stand-in is a GPU"));
    let buffer = gpu.fill(1.0, 16 * 16, DType::F16).expect("a fill");
    let layout = Input::noise(&[16, 16], DType::F16, 1.0, 1).layout;
    let x = Operand { buffer: &buffer, layout: &layout, logical: DType::F16 };
    let step = || gpu.matmul_unary(x, x, None, Unary::Relu, DType::F32).map(drop);
    let passes = || standin.calls("activation_f32");
    let before = passes();
    let graph = amp_core::cuda::Graph::capture(&device, step).expect("a graph");
    graph.replay().expect("a replay");
    let after = passes();
    step().expect("the same at once");
    assert!(!standin.counts() || (after, passes()) == (before + 1, before + 1));
}

fn accumulation() {
    let (a, b) = (Input::noise(&[3, 5, 7], DType::BF16, 1.0, 1), Input::noise(&[3, 7, 4], DType::BF16, 1.0, 2));
    goes("added to what is there", &[a.clone(), b.clone()], DType::F32, 1, &|b, x, out| {
        let mut into = b.fill(0.5, 60, out)?;
        b.matmul_accumulate(x[0], x[1], &mut into)?;
        Ok(vec![into])
    });
    let sum: Call = &|b, x, out| {
        let mut into = b.fill(0.5, 20, out)?;
        b.matmul_accumulate(x[0], x[1], &mut into)?;
        Ok(vec![into])
    };
    goes("a batch that does not follow", &[a, b], DType::F32, 0, sum);
    let a = Input::strided(&[3, 5, 7], &[35, 1, 5], 0, DType::F16, 3);
    let b = Input::strided(&[3, 7, 4], &[28, 4, 1], 0, DType::F16, 4);
    goes("a weight gradient over a batch", &[a, b], DType::F32, 1, sum);
}

fn sums() {
    use DType::{BF16, F16, F32, F64};
    let call: Call = &|b, x, out| {
        let (product, rows) = b.matmul_sums(x[0], x[1], out)?;
        let mut into = b.fill(0.5, 5 * 4, out)?;
        let again = b.matmul_accumulate_sums(x[0], x[1], &mut into)?;
        // Who has none sums up the rows alone, as the CPU does here.
        let alone = |given: Option<Buffer>| given.map_or_else(|| b.reduce(Reduce::Sum, x[0], &[1], out), Ok);
        Ok(vec![product, into, alone(rows)?, alone(again)?])
    };
    for (input, out, products) in [(F16, F32, 2), (BF16, F32, 2), (F32, F32, 2), (F64, F64, 2)] {
        let turned = Input::strided(&[5, 70], &[1, 5], 0, input, 1);
        goes(&format!("sums of {input}"), &[turned, Input::noise(&[70, 4], input, 1.0, 2)], out, products, call);
    }
}

fn batches() {
    let weight = Input::strided(&[2, 3, 7, 4], &[0, 0, 1, 7], 0, DType::F16, 2);
    let x = Input::noise(&[2, 3, 5, 7], DType::F16, 1.0, 1);
    goes("one weight for a batch", &[x.clone(), weight], DType::F16, 1, &product);
    let heads = Input::strided(&[2, 3, 7, 4], &[84, 4, 12, 1], 0, DType::F16, 3);
    goes("heads that cannot be walked as one batch", &[x.clone(), heads], DType::F16, 0, &product);
    let all = Input::strided(&[2, 3, 7, 4], &[84, 28, 4, 1], 0, DType::F16, 4);
    goes("a batch", &[x, all], DType::F16, 1, &product);
}

fn mixed_storage() {
    let pair = |n| {
        let a = Input::noise(&[n, 256], DType::BF16, 1.0, 1).stored(DType::F32);
        [a, Input::noise(&[256, n], DType::BF16, 1.0, 2)]
    };
    goes("small: converted as it is loaded", &pair(8), DType::F32, 0, &product);
    goes("large: worth a copy", &pair(256), DType::F32, 1, &product);
}

fn plans_are_remembered() {
    let (standin, _alone) = standin::open_with_products();
    let gpu = standin::gpu();
    let x = gpu.fill(1.0, 400, DType::F32).expect("a fill");
    let layout = Input::noise(&[20, 20], DType::F32, 1.0, 1).layout;
    let x = Operand { buffer: &x, layout: &layout, logical: DType::F32 };
    gpu.matmul(x, x, None, DType::F32).expect("a product");
    let before = (standin.calls("cublasLtMatmulAlgoGetHeuristic"), standin.bytes());
    for _ in 0..100 {
        gpu.matmul(x, x, None, DType::F32).expect("a product");
    }
    assert_eq!((standin.calls("cublasLtMatmulAlgoGetHeuristic"), standin.bytes()), before);
}
