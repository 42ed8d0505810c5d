use crate::case::{Input, check, on_gpu, to_f64};
use crate::convolve::{forward, image_gradient, image_gradient_twice, last, weight_gradient};
use crate::wide;
use amp_core::Result;
use amp_core::backend::MemoryOrder::{ChannelsLast, RowMajor};
use amp_core::backend::{Backend, Buffer, Conv2d, DType, Interpolation, Layout, MemoryOrder, Operand, Pool2d};

#[test]
fn products_of_any_layout_and_precision() {
    for (i, dtype) in [DType::F16, DType::BF16, DType::F32, DType::F64].into_iter().enumerate() {
        let a = Input::strided(&[2, 65, 33], &[2145, 33, 1], 0, dtype, i as u64).stored(if i == 0 {
            DType::F32
        } else {
            dtype
        });
        let b = Input::strided(&[2, 33, 70], &[0, 1, 33], 0, dtype, 8);
        let bias = Input::noise(&[70], DType::F32, 1.0, 9);
        check("matmul", &[a, b, bias], dtype, 100.0, &|b, x, out| {
            Ok(vec![b.matmul(x[0], x[1], Some(x[2]), out)?, b.matmul(x[0], x[1], None, out)?])
        });
    }
    let (a, b) = (Input::noise(&[3, 5, 7], DType::BF16, 1.0, 1), Input::noise(&[3, 7, 4], DType::BF16, 1.0, 2));
    check("accumulate", &[a, b], DType::F32, 100.0, &|b, x, out| {
        let (mut all, mut one) = (b.fill(0.5, 60, out)?, b.fill(0.5, 20, out)?);
        b.matmul_accumulate(x[0], x[1], &mut all)?;
        b.matmul_accumulate(x[0], x[1], &mut one)?;
        Ok(vec![all, one])
    });
    let (a, b) = (Input::new(vec![], &[3, 0], DType::F32), Input::new(vec![], &[0, 2], DType::F32));
    check("no terms", &[a, b], DType::F32, 1.0, &|b, x, out| Ok(vec![b.matmul(x[0], x[1], None, out)?]));
}

#[test]
fn convolutions_with_strides_padding_dilation_and_groups() {
    let specs = [
        Conv2d::default(),
        Conv2d { stride: [2, 1], padding: [1, 2], dilation: [1, 2], groups: 1 },
        Conv2d { stride: [2, 2], padding: [1, 1], dilation: [1, 1], groups: 2 },
    ];
    for (i, spec) in specs.into_iter().enumerate() {
        let dtype = [DType::F16, DType::F32, DType::F64][i];
        let x = Input::strided(&[2, 4, 7, 6], &[168, 1, 24, 4], 0, dtype, 1);
        let w = Input::noise(&[6, 4 / spec.groups, 3, 2], dtype, 1.0, 2);
        let bias = Input::noise(&[6], DType::F32, 1.0, 3);
        let [oh, ow] = spec.output_size([7, 6], [3, 2]).expect("the kernel fits");
        let grad = Input::noise(&[2, 6, oh, ow], dtype, 1.0, 4);
        let channels = Input::noise(&[4], DType::F32, 1.0, 5);
        check(&format!("{spec:?}"), &[x, w, bias, grad, channels], dtype, 200.0, &|b, x, out| {
            let kernel = std::array::from_fn(|i| x[1].layout.shape[i]);
            let mut sum = b.conv2d_grad_weight(x[3], x[0], kernel, &spec)?;
            b.conv2d_grad_weight_accumulate(x[3], x[0], kernel, &spec, &mut sum)?;
            Ok(vec![
                b.conv2d(x[0], x[1], Some(x[2]), &spec, out)?,
                b.conv_transpose2d(x[3], x[1], Some(x[4]), [2, 4, 7, 6], &spec, out)?,
                b.conv2d_grad_weight(x[3], x[0], kernel, &spec)?,
                sum,
            ])
        });
    }
    let (x, grad) =
        (Input::noise(&[1, 1, 70, 70], DType::F32, 1.0, 6), Input::noise(&[1, 2, 70, 70], DType::F32, 1.0, 7));
    let spec = Conv2d { padding: [1, 1], ..Conv2d::default() };
    check("a long weight gradient", &[x, grad], DType::F32, 4000.0, &|b, x, _| {
        Ok(vec![b.conv2d_grad_weight(x[1], x[0], [2, 1, 3, 3], &spec)?])
    });
}

/// Images whose channels lie together: unfolded, folded and as they lie, added up, with biases that are rounded and that are not.
#[test]
fn convolutions_of_whole_packs_of_channels() {
    let one = Conv2d::default();
    let cases = [
        ([8, 16], [3, 2], Conv2d { padding: [1, 2], dilation: [2, 1], ..one }),
        ([16, 8], [3, 3], Conv2d { stride: [2, 1], padding: [1, 0], ..one }),
        ([8, 8], [1, 1], one),
        ([3, 8], [2, 3], Conv2d { stride: [2, 2], padding: [1, 1], ..one }),
    ];
    for (i, ([channels, filters], [kh, kw], spec)) in cases.into_iter().enumerate() {
        let dtype = [DType::F16, DType::BF16][i % 2];
        let [oh, ow] = spec.output_size([7, 6], [kh, kw]).expect("the kernel fits");
        let (x, grad) = (last([2, channels, 7, 6], dtype, 1), Input::noise(&[2, filters, oh, ow], dtype, 1.0, 3));
        let w = Input::noise(&[filters, channels, kh, kw], dtype, 1.0, 2);
        let biases = [filters, channels].map(|n| Input::noise(&[n], DType::F32, 1.0, 4));
        let rounded = Input { logical: dtype, ..biases[0].clone() };
        let [of_filters, of_channels] = biases;
        check(&format!("{spec:?}"), &[x, w, grad, of_filters, of_channels, rounded], dtype, 200.0, &|b, x, out| {
            let mut results = vec![image_gradient_twice(b, x, &spec, wide(out))?];
            for bias in [3, 5] {
                results.extend(forward(b, &[x[0], x[1], x[2], x[bias]], &spec, out)?);
            }
            results.extend(image_gradient(b, &[x[0], x[1], x[2], x[4]], &spec, out)?);
            results.extend(weight_gradient(b, x, &spec)?);
            Ok(results)
        });
    }
}

#[test]
fn pooling_and_upsampling_with_their_gradients() {
    let specs = [
        Pool2d { kernel: [2, 3], stride: [2, 2], padding: [1, 1], dilation: [1, 1], ceil_mode: true },
        Pool2d { kernel: [3, 2], stride: [1, 3], padding: [0, 0], dilation: [1, 1], ceil_mode: false },
    ];
    for (i, spec) in specs.into_iter().enumerate() {
        let dtype = [DType::BF16, DType::F64][i];
        let x = Input::strided(&[2, 2, 7, 9], &[126, 1, 18, 2], 0, dtype, 1);
        let [oh, ow] = spec.output_size([7, 9]).expect("a window fits");
        let grad = Input::noise(&[2, 2, oh, ow], dtype, 1.0, 2);
        for order in [RowMajor, ChannelsLast] {
            check(&format!("{spec:?}, {order:?}"), &[x.clone(), grad.clone()], dtype, 40.0, &|b, x, out| {
                pooled(b, x, &spec, (out, order))
            });
        }
        let dilated = Pool2d { kernel: [3, 3], stride: [2, 1], padding: [1, 0], dilation: [2, 3], ceil_mode: false };
        let [oh, ow] = dilated.output_size([7, 9]).expect("a window fits");
        let slopes = Input::noise(&[2, 2, oh, ow], dtype, 1.0, 4);
        check("dilated maxima", &[x.clone(), slopes], dtype, 40.0, &|b, x, out| {
            let (y, indices) = b.max_pool2d(x[0], &dilated, RowMajor)?;
            Ok(vec![y, b.max_pool2d_grad(x[1], &indices, [7, 9], Some(&dilated), (out, RowMajor))?])
        });
        let slopes = Input::noise(&[2, 2, 2, 5], dtype, 1.0, 5);
        check("maxima of windows that divide the plane", &[x.clone(), slopes], dtype, 40.0, &|b, x, out| {
            let (y, indices) = b.adaptive_max_pool2d(x[0], [2, 5], RowMajor)?;
            Ok(vec![y, b.max_pool2d_grad(x[1], &indices, [7, 9], None, (out, RowMajor))?])
        });
        // The one row is skipped by windows of rows above and below it.
        let alone = Pool2d { kernel: [2, 1], stride: [1, 1], padding: [1, 0], dilation: [2, 1], ceil_mode: false };
        let row = Input::noise(&[2, 2, 1, 9], dtype, 1.0, 3);
        check("windows of padding alone", &[row.clone(), row], dtype, 0.0, &|b, x, out| {
            let (y, indices) = b.max_pool2d(x[0], &alone, RowMajor)?;
            Ok(vec![y, b.max_pool2d_grad(x[1], &indices, [1, 9], Some(&alone), (out, RowMajor))?, indices])
        });
        // Of equal maxima the first one counts, and NaN is larger than any number.
        let mut tied: Vec<f64> = (0..126).map(|i| f64::from(i * 7 % 3)).collect();
        tied[40] = f64::NAN;
        check("equal maxima", &[Input::new(tied, &[2, 1, 7, 9], dtype)], dtype, 0.0, &|b, x, _| {
            let (y, indices) = b.max_pool2d(x[0], &spec, RowMajor)?;
            Ok(vec![y, indices])
        });
        for how in WAYS {
            for order in [RowMajor, ChannelsLast] {
                check(&format!("{how:?}, {order:?}"), &[x.clone(), grad.clone()], dtype, 100.0, &|b, x, out| {
                    resized(b, x, how, (out, order))
                });
            }
        }
    }
}

/// What pools `x[0]`, with the gradients of results of the size of `x[1]`.
fn pooled(
    b: &dyn Backend,
    x: &[Operand<'_>],
    spec: &Pool2d,
    (out, order): (DType, MemoryOrder),
) -> Result<Vec<Buffer>> {
    let [input, size] = [x[0], x[1]].map(|x| [x.layout.shape[2], x.layout.shape[3]]);
    let (y, indices) = b.max_pool2d(x[0], spec, order)?;
    let (largest, places) = b.adaptive_max_pool2d(x[0], size, order)?;
    Ok(vec![
        y,
        b.max_pool2d_grad(x[1], &indices, input, Some(spec), (out, order))?,
        indices,
        b.avg_pool2d(x[0], spec, true, order)?,
        b.avg_pool2d_grad(x[1], input, spec, false, (out, order))?,
        b.avg_pool2d_grad(x[1], input, spec, true, (out, order))?,
        b.adaptive_avg_pool2d(x[0], [3, 4], order)?,
        b.adaptive_avg_pool2d_grad(x[1], input, (out, order))?,
        largest,
        b.max_pool2d_grad(x[1], &places, input, None, (out, order))?,
    ])
}

/// `x[0]` resized, and `x[1]` as the gradient of what was.
fn resized(b: &dyn Backend, x: &[Operand<'_>], how: Interpolation, out: (DType, MemoryOrder)) -> Result<Vec<Buffer>> {
    Ok(vec![
        b.upsample2d(x[0], [13, 5], how, out)?,
        b.upsample2d_grad(x[1], [3, 2], how, out)?,
        b.upsample2d_grad(x[1], [1, 11], how, out)?,
    ])
}

const WAYS: [Interpolation; 3] = [
    Interpolation::Nearest,
    Interpolation::Bilinear { align_corners: false },
    Interpolation::Bilinear { align_corners: true },
];

#[test]
fn channels_that_lie_together_are_pooled_as_planes() {
    let spec = Pool2d { kernel: [3, 2], stride: [2, 1], padding: [1, 1], dilation: [1, 1], ceil_mode: false };
    let cases = [
        ([2, 16, 7, 9], DType::BF16),
        ([1, 8, 4, 5], DType::F16),
        ([2, 24, 1, 6], DType::F32),
        ([2, 8, 5, 4], DType::F64),
        ([2, 3, 5, 7], DType::BF16),
        ([3, 16, 1, 1], DType::BF16),
        ([0, 16, 5, 4], DType::BF16),
    ];
    for (shape, dtype) in cases {
        let [oh, ow] = spec.output_size([shape[2], shape[3]]).expect("a window fits");
        let inputs = [shape, [shape[0], shape[1], oh, ow]].map(|shape| images(&shape, dtype));
        for name in ["packed", "scattered"] {
            let mut inputs = inputs.clone();
            if name == "scattered" {
                inputs.iter_mut().for_each(|x| x.layout = Layout::contiguous(x.layout.shape));
            }
            let name = format!("{shape:?} {dtype}, {name}");
            same_as_planes(&name, &inputs, dtype, &|b, x, out| pooled(b, x, &spec, out));
            for how in WAYS {
                same_as_planes(&format!("{name}, {how:?}"), &inputs, dtype, &|b, x, out| resized(b, x, how, out));
            }
        }
    }
}

/// Noise in images whose channels lie together.
fn images(shape: &[usize; 4], dtype: DType) -> Input {
    let x = Input::noise(shape, dtype, 1.0, 3);
    Input { layout: Layout::channels_last(x.layout.shape), ..x }
}

/// A call whose results lie in an order that is given.
type Ordered<'a> = &'a dyn Fn(&dyn Backend, &[Operand<'_>], (DType, MemoryOrder)) -> Result<Vec<Buffer>>;

/// Checks that results are the CPU's, and the same bits as those of planes.
fn same_as_planes(name: &str, inputs: &[Input], dtype: DType, call: Ordered) {
    check(name, inputs, dtype, 100.0, &|b, x, out| call(b, x, (out, ChannelsLast)));
    let [planes, pixels] = [RowMajor, ChannelsLast]
        .map(|order| on_gpu(name, inputs, dtype, &|b, x, out| call(b, x, (out, order))).into_iter().map(to_f64));
    let (n, channels) = (inputs[0].layout.shape[0], inputs[0].layout.shape[1]);
    for (number, (planes, pixels)) in planes.zip(pixels).enumerate() {
        let size = planes.len() / (n * channels).max(1);
        for (i, value) in planes.iter().enumerate() {
            let (plane, pixel) = (i / size, i % size);
            let place = (plane / channels * size + pixel) * channels + plane % channels;
            assert_eq!(
                pixels[place].to_bits(),
                value.to_bits(),
                "{name}: result {number}, plane {plane}, pixel {pixel}"
            );
        }
    }
}
