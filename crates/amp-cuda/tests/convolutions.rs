//! Convolutions through cuDNN's stand-in: which ones go there, what they give, and what is remembered of them.

#[path = "kernels/case.rs"]
mod case;
#[path = "kernels/convolve.rs"]
mod convolve;
#[path = "standin/mod.rs"]
mod standin;

use amp_core::backend::{Conv2d, DType, Operand};
use case::{Call, Input, check};
use convolve::{forward, image_gradient, image_gradient_twice, last, weight_gradient};
use std::io::Write as _;

/// Checks a call and how much of each schedule's run went to cuDNN, or to cuBLASLt, where calls are counted.
fn goes_to(library: &str, name: &str, inputs: &[Input], out: DType, times: u64, call: Call) {
    let standin = {
        let (standin, _alone) = standin::open_with_products();
        standin
    };
    let before = standin.calls(library);
    check(name, inputs, out, 200.0, call);
    let each = standin.calls(library) - before;
    let expected = if standin.counts() { times * standin::schedules().len() as u64 } else { 0 };
    assert_eq!(each, expected, "{name}: calls of {library}");
}

fn goes(name: &str, inputs: &[Input], out: DType, convolutions: u64, call: Call) {
    goes_to("cudnnConvolution", name, inputs, out, convolutions, call);
}

const KERNEL: [usize; 2] = [3, 2];

/// Image, kernel and gradient of the result.
fn inputs(spec: &Conv2d, dtype: DType) -> [Input; 3] {
    let [oh, ow] = spec.output_size([7, 6], KERNEL).expect("the kernel fits");
    let w = Input::noise(&[6, 4 / spec.groups, KERNEL[0], KERNEL[1]], dtype, 1.0, 2);
    [Input::noise(&[2, 4, 7, 6], dtype, 1.0, 1), w, Input::noise(&[2, 6, oh, ow], dtype, 1.0, 3)]
}

// One test: the counts are of the whole process.
#[test]
fn convolutions_go_to_cudnn_where_it_can_do_them() {
    every_pass_of_every_type();
    products_of_unfolded_images();
    products_of_images_as_they_lie();
    channels_that_lie_together();
    biases();
    other_layouts();
    sizes_of_nothing();
    plans_are_remembered();
    refusals_come_late();
}

// In a process of its own, so that the counts are not of two runs.
#[test]
fn kernels_around_products_stay_within_their_memory() {
    let (_, _alone) = standin::open_with_products();
    let Some((folder, variables)) = standin::sanitized() else {
        let _ = writeln!(std::io::stderr(), "NOT RUN: no kernel ran under AddressSanitizer, the compiler has none");
        return;
    };
    let mut command = std::process::Command::new(std::env::current_exe().expect("this test's file"));
    command.arg("convolutions_go_to").env("AMP_STANDIN", folder).envs(variables).env_remove("AMP_CUDA_LIB_DIR");
    let output = command.output().expect("the child runs");
    let [text, errors] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{errors}");
}

fn every_pass_of_every_type() {
    let specs = [
        Conv2d::default(),
        Conv2d { stride: [2, 1], padding: [1, 2], dilation: [1, 2], groups: 1 },
        Conv2d { stride: [2, 2], padding: [1, 1], dilation: [1, 1], groups: 2 },
    ];
    for spec in specs {
        for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
            let (name, inputs) = (format!("{spec:?} of {dtype}"), inputs(&spec, dtype));
            let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
            goes(&format!("{name}: result"), &inputs, dtype, 1, &|b, x, out| forward(b, x, &spec, out));
            goes(&format!("{name}: image"), &inputs, dtype, 1, &|b, x, out| {
                Ok(vec![b.conv_transpose2d(x[2], x[1], None, [2, 4, 7, 6], &spec, out)?])
            });
            // cuDNN would round the gradients of 16-bit kernels to 16 bits: products of matrices do not.
            let library = if dtype.is_half() { "cublasLtMatmul" } else { "cudnnConvolution" };
            let name = format!("{name}: kernel");
            goes_to(library, &name, &inputs, wide, 2, &|b, x, _| weight_gradient(b, x, &spec));
        }
    }
}

fn products_of_unfolded_images() {
    let specs = [
        Conv2d { stride: [1, 1], padding: [1, 2], dilation: [1, 2], groups: 1 },
        Conv2d { stride: [1, 1], padding: [2, 0], dilation: [2, 1], groups: 2 },
        Conv2d { stride: [2, 1], padding: [1, 2], dilation: [1, 2], groups: 1 },
        Conv2d { stride: [2, 2], padding: [1, 1], dilation: [1, 1], groups: 2 },
    ];
    let colours = [[2, 3, 7, 6], [8, 3, 3, 3], [2, 8, 5, 4]];
    let colours = colours.map(|shape| Input::noise(&shape, DType::F16, 1.0, 6));
    goes_to("cublasLtMatmul", "a kernel for three colours", &colours, DType::F32, 2, &|b, x, _| {
        weight_gradient(b, x, &Conv2d::default())
    });
    // All images at once, and one by one.
    for (bytes, parts) in [(usize::MAX, 1), (1, 2)] {
        amp_cuda::unfold_at_most(bytes);
        for spec in specs {
            let [x, w, grad] = inputs(&spec, DType::BF16);
            let bias = Input::noise(&[4], DType::F32, 1.0, 4);
            let name = format!("{spec:?} in {parts} parts");
            let all = [x, w, grad, bias];
            goes_to("cublasLtMatmul", &format!("{name}: kernel"), &all, DType::F32, 2 * parts, &|b, x, _| {
                weight_gradient(b, x, &spec)
            });
            goes_to("cublasLtMatmul", &format!("{name}: image in F32"), &all, DType::F32, parts, &|b, x, out| {
                Ok(vec![b.conv_transpose2d(x[2], x[1], None, [2, 4, 7, 6], &spec, out)?])
            });
            goes_to("cublasLtMatmul", &format!("{name}: transposed"), &all, DType::BF16, parts, &|b, x, out| {
                Ok(vec![b.conv_transpose2d(x[2], x[1], Some(x[3]), [2, 4, 7, 6], &spec, out)?])
            });
        }
    }
}

/// Kernels of one pixel unfold nothing: images of whole packs, of others, in parts, in groups, with a bias and with a stride.
fn products_of_images_as_they_lie() {
    let plain = Conv2d::default();
    let cases = [
        ([4, 6], plain, usize::MAX, 1),
        ([5, 7], plain, usize::MAX, 1),
        ([4, 6], plain, 1, 3),
        ([4, 6], Conv2d { groups: 2, ..plain }, usize::MAX, 1),
        ([5, 7], Conv2d { stride: [2, 2], ..plain }, usize::MAX, 1),
        ([4, 4], Conv2d { padding: [1, 0], ..plain }, usize::MAX, 1),
    ];
    for ([height, width], spec, bytes, parts) in cases {
        amp_cuda::unfold_at_most(bytes);
        let image = [3, 4, height, width];
        let [oh, ow] = spec.output_size([height, width], [1, 1]).expect("the kernel fits");
        for dtype in [DType::F16, DType::BF16] {
            let noise = |shape: [usize; 4], seed| Input::noise(&shape, dtype, 1.0, seed);
            let bias = Input::noise(&[4], DType::F32, 1.0, 4);
            let all = [noise(image, 1), noise([6, 4 / spec.groups, 1, 1], 2), noise([3, 6, oh, ow], 3), bias];
            let name = format!("{spec:?} of {dtype} {height} x {width} in {parts} parts");
            goes_to("cublasLtMatmul", &format!("{name}: kernel"), &all, DType::F32, 2 * parts, &|b, x, _| {
                weight_gradient(b, x, &spec)
            });
            let straight = spec == plain && height * width % 8 == 0;
            let products = if straight { 1 } else { parts };
            goes_to("cublasLtMatmul", &format!("{name}: image"), &all, DType::F32, products, &|b, x, out| {
                Ok(vec![b.conv_transpose2d(x[2], x[1], None, image, &spec, out)?])
            });
            goes_to("cublasLtMatmul", &format!("{name}: transposed"), &all, dtype, parts, &|b, x, out| {
                Ok(vec![b.conv_transpose2d(x[2], x[1], Some(x[3]), image, &spec, out)?])
            });
        }
    }
    amp_cuda::unfold_at_most(usize::MAX);
}

/// Whole packs of channels: cuDNN's passes, what is left to products, images in any order, in parts, and nothing at all.
fn channels_that_lie_together() {
    let one = Conv2d::default();
    let cases = [
        ([8, 16], [3, 3], Conv2d { padding: [1, 1], ..one }),
        ([16, 8], [3, 2], Conv2d { padding: [1, 2], dilation: [1, 2], ..one }),
        ([8, 8], [3, 3], Conv2d { stride: [2, 2], padding: [1, 1], ..one }),
        ([24, 8], [2, 3], Conv2d { stride: [2, 1], padding: [0, 1], ..one }),
        ([16, 24], [1, 1], one),
        ([8, 16], [1, 1], Conv2d { stride: [2, 2], ..one }),
        ([8, 16], [1, 1], Conv2d { padding: [1, 0], ..one }),
        ([3, 8], [3, 3], Conv2d { stride: [2, 2], padding: [1, 1], ..one }),
        ([5, 16], [1, 1], one),
    ];
    for (i, ([channels, filters], [kh, kw], spec)) in cases.into_iter().enumerate() {
        for (bytes, parts) in [(usize::MAX, 1), (1, 3)] {
            amp_cuda::unfold_at_most(bytes);
            let dtype = [DType::F16, DType::BF16][i % 2];
            let [oh, ow] = spec.output_size([7, 6], [kh, kw]).expect("the kernel fits");
            let image = [3, channels, 7, 6];
            let all = [
                if i % 3 == 0 { last(image, dtype, 1) } else { Input::noise(&image, dtype, 1.0, 1) },
                Input::noise(&[filters, channels, kh, kw], dtype, 1.0, 2),
                if i % 2 == 0 {
                    last([3, filters, oh, ow], dtype, 3)
                } else {
                    Input::noise(&[3, filters, oh, ow], dtype, 1.0, 3)
                },
            ];
            let name = format!("{channels} to {filters} channels, {kh} x {kw}, {spec:?} in {parts} parts");
            goes(&format!("{name}: result"), &all, dtype, 1, &|b, x, out| forward(b, x, &spec, out));
            goes_to("cublasLtMatmul", &format!("{name}: result in F32"), &all, DType::F32, parts, &|b, x, out| {
                forward(b, x, &spec, out)
            });
            goes_to("cublasLtMatmul", &format!("{name}: kernel"), &all, DType::F32, 2 * parts, &|b, x, _| {
                weight_gradient(b, x, &spec)
            });
            if channels % 8 == 0 {
                goes(&format!("{name}: image"), &all, dtype, 1, &|b, x, out| image_gradient(b, x, &spec, out));
            }
            goes_to("cublasLtMatmul", &format!("{name}: image in F32"), &all, DType::F32, parts, &|b, x, out| {
                image_gradient(b, x, &spec, out)
            });
            check(&format!("{name}: image, added"), &all, DType::F32, 200.0, &|b, x, out| {
                Ok(vec![image_gradient_twice(b, x, &spec, out)?])
            });
            let with = |bias: Input| [all.clone().to_vec(), vec![bias]].concat();
            let bias = |n: usize| Input::noise(&[n], DType::F32, 1.0, 4);
            goes_to(
                "cublasLtMatmul",
                &format!("{name}: transposed"),
                &with(bias(channels)),
                dtype,
                parts,
                &|b, x, out| image_gradient(b, x, &spec, out),
            );
            goes_to("cublasLtMatmul", &format!("{name}: biased"), &with(bias(filters)), dtype, parts, &|b, x, out| {
                forward(b, x, &spec, out)
            });
            let bias = Input::noise(&[filters], dtype, 1.0, 4).stored(DType::F32);
            goes(&format!("{name}: biased alike"), &with(bias), dtype, 1, &|b, x, out| forward(b, x, &spec, out));
        }
    }
    amp_cuda::unfold_at_most(usize::MAX);
}

fn biases() {
    let spec = Conv2d { padding: [1, 0], ..Conv2d::default() };
    let bias = |dtype, stored| Input::noise(&[6], dtype, 1.0, 4).stored(stored);
    for (dtype, convolutions) in [(DType::F32, 1), (DType::F64, 1), (DType::F16, 0)] {
        let [x, w, grad] = inputs(&spec, dtype);
        let bias = Input::noise(&[4], dtype, 1.0, 5);
        goes(&format!("transposed, bias of {dtype}"), &[x, w, grad, bias], dtype, convolutions, &|b, x, out| {
            Ok(vec![b.conv_transpose2d(x[2], x[1], Some(x[3]), [2, 4, 7, 6], &spec, out)?])
        });
    }
    for (dtype, bias, convolutions) in [
        (DType::F32, bias(DType::F32, DType::F32), 1),
        (DType::BF16, bias(DType::BF16, DType::BF16), 1),
        (DType::F16, bias(DType::F16, DType::F32), 1),
        (DType::F16, bias(DType::F32, DType::F32), 0),
    ] {
        let [x, w, grad] = inputs(&spec, dtype);
        let name = format!("bias of {} stored in {} for {dtype}", bias.logical, bias.stored);
        goes(&name, &[x, w, grad, bias], dtype, convolutions, &|b, x, out| forward(b, x, &spec, out));
    }
}

fn other_layouts() {
    let spec = Conv2d::default();
    let [x, w, grad] = inputs(&spec, DType::F16);
    let last = Input::strided(&[2, 4, 7, 6], &[168, 1, 24, 4], 0, DType::F16, 1);
    goes("channels last", &[last, w.clone(), grad.clone()], DType::F16, 1, &|b, x, out| forward(b, x, &spec, out));
    let master = w.clone().stored(DType::F32);
    goes("a kernel's master", &[x.clone(), master, grad.clone()], DType::F16, 1, &|b, x, out| {
        forward(b, x, &spec, out)
    });
    // The second image of a batch may begin anywhere.
    let rows = |shape: [usize; 4], offset| {
        let strides = [shape[1] * shape[2] * shape[3], shape[2] * shape[3], shape[3], 1];
        Input::strided(&shape, &strides, offset, DType::F16, 5)
    };
    let [oh, ow] = spec.output_size([7, 6], KERNEL).expect("the kernel fits");
    let odd = [rows([2, 4, 7, 6], 3), rows([6, 4, 3, 2], 5), rows([2, 6, oh, ow], 7)];
    goes("elements from odd ones on", &odd, DType::F16, 2, &|b, x, out| {
        let image = b.conv_transpose2d(x[2], x[1], None, [2, 4, 7, 6], &spec, out)?;
        Ok([forward(b, x, &spec, out)?, vec![image]].concat())
    });
    let odd = odd.map(|x| x.stored(DType::F32)).map(|x| Input { logical: DType::F32, ..x });
    goes("a gradient of a kernel from odd ones", &odd, DType::F32, 2, &|b, x, _| weight_gradient(b, x, &spec));
    goes("a wide result of halves", &[x, w, grad], DType::F32, 0, &|b, x, out| forward(b, x, &spec, out));
}

fn sizes_of_nothing() {
    let spec = Conv2d::default();
    let (x, w) = (Input::new(vec![], &[0, 4, 7, 6], DType::F32), Input::noise(&[6, 4, 3, 2], DType::F32, 1.0, 1));
    goes("no images", &[x, w], DType::F32, 0, &|b, x, out| forward(b, x, &spec, out));
}

fn plans_are_remembered() {
    let (standin, _alone) = standin::open_with_products();
    let gpu = standin::gpu();
    let buffers = [gpu.fill(1.0, 2 * 4 * 7 * 6, DType::F32), gpu.fill(1.0, 6 * 4 * 3 * 2, DType::F32)];
    let layouts = inputs(&Conv2d::default(), DType::F32).map(|input| input.layout);
    let [x, w] = [0, 1].map(|i| {
        let buffer = buffers[i].as_ref().expect("a fill");
        Operand { buffer, layout: &layouts[i], logical: DType::F32 }
    });
    let convolve = || gpu.conv2d(x, w, None, &Conv2d::default(), DType::F32).expect("a convolution");
    convolve();
    let before = (standin.calls("cudnnGetConvolutionWorkspaceSize"), standin.bytes());
    for _ in 0..100 {
        convolve();
    }
    assert_eq!((standin.calls("cudnnGetConvolutionWorkspaceSize"), standin.bytes()), before);
}

fn refusals_come_late() {
    let standin = {
        let (standin, _alone) = standin::open_with_products();
        standin
    };
    let spec = Conv2d { padding: [0, 1], ..Conv2d::default() };
    let all = inputs(&spec, DType::BF16);
    standin.refuse(true);
    check("what is planned but not done", &all, DType::BF16, 200.0, &|b, x, out| {
        let image = b.conv_transpose2d(x[2], x[1], None, [2, 4, 7, 6], &spec, out)?;
        Ok([forward(b, x, &spec, out)?, weight_gradient(b, x, &spec)?, vec![image]].concat())
    });
    standin.refuse(false);
    // They are not asked again.
    goes("what was refused", &all, DType::BF16, 0, &|b, x, out| forward(b, x, &spec, out));
}
