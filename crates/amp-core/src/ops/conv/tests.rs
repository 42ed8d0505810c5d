use crate::ops::window::ConvOptions;
use crate::testing::numbers;
use crate::{BF16, Device, F16, F32, F64, Tensor, gradcheck};

#[test]
fn image_gradients_agree_with_differences() {
    let plain = ConvOptions::<2>::default();
    for (x, w, o, options) in [
        ([2, 2, 4, 5], [3, 2, 3, 2], 3, plain),
        ([1, 2, 5, 4], [2, 2, 3, 3], 2, plain.stride(2).padding([1, 2]).dilation([1, 2])),
        ([2, 4, 3, 3], [4, 2, 2, 2], 4, plain.groups(2).padding(1)),
        ([1, 3, 4, 4], [6, 1, 3, 3], 6, plain.groups(3)),
    ] {
        let inputs = [numbers(&x, 0.1), numbers(&w, 0.2), numbers(&[o], 0.3)];
        let worst = gradcheck(|x| x[0].conv2d(&x[1], Some(&x[2]), options), &inputs).unwrap();
        assert!(worst.agrees(), "{x:?} {w:?} {options:?}: {worst:?}");
    }
}

#[test]
fn transposed_gradients_agree_with_differences() {
    let plain = ConvOptions::<2>::default();
    for (x, w, o, options) in [
        ([2, 2, 3, 2], [2, 3, 3, 2], 3, plain),
        ([1, 2, 3, 3], [2, 2, 3, 3], 2, plain.stride([2, 3]).padding(1).output_padding([1, 2])),
        ([1, 4, 3, 2], [4, 1, 2, 2], 2, plain.groups(2).dilation(2)),
    ] {
        let inputs = [numbers(&x, 0.1), numbers(&w, 0.2), numbers(&[o], 0.3)];
        let worst = gradcheck(|x| x[0].conv_transpose2d(&x[1], Some(&x[2]), options), &inputs).unwrap();
        assert!(worst.agrees(), "{x:?} {w:?} {options:?}: {worst:?}");
    }
}

#[test]
fn line_gradients_agree_with_differences() {
    let options = ConvOptions::<1>::default().stride(2).padding(1).dilation(2);
    let inputs = [numbers(&[2, 2, 9], 0.1), numbers(&[3, 2, 3], 0.2), numbers(&[3], 0.3)];
    let worst = gradcheck(|x| x[0].conv1d(&x[1], Some(&x[2]), options), &inputs).unwrap();
    assert!(worst.agrees(), "{worst:?}");
    let inputs = [numbers(&[2, 3, 4], 0.1), numbers(&[3, 2, 3], 0.2), numbers(&[2], 0.3)];
    let worst = gradcheck(|x| x[0].conv_transpose1d(&x[1], Some(&x[2]), options), &inputs).unwrap();
    assert!(worst.agrees(), "{worst:?}");
}

#[test]
fn gradients_of_two_ways_through_a_block_meet() {
    let (plain, padded) = (ConvOptions::<2>::default(), ConvOptions::<2>::default().padding(1));
    let inputs = [numbers(&[2, 3, 4, 3], 0.1), numbers(&[10, 3, 1, 1], 0.2), numbers(&[10, 10, 3, 3], 0.3)];
    for skips in [false, true] {
        let block = |x: &[Tensor<F64>]| {
            let start = x[0].conv2d(&x[1], None, plain)?;
            let skip = if skips { start.clone() } else { start.conv2d(&x[2], None, padded)?.relu()? };
            skip + start.conv2d(&x[2], None, padded)?
        };
        let worst = gradcheck(block, &inputs).unwrap();
        assert!(worst.agrees(), "{skips}: {worst:?}");
    }
}

#[test]
fn gradients_of_two_ways_from_a_line_meet() {
    let options = ConvOptions::<1>::default().padding(1);
    let of = |shape: &[usize], seed: f64| numbers(shape, seed).to::<F32>().unwrap();
    let (x, w) = (of(&[2, 32, 40], 0.1).detach().tracked(), of(&[32, 32, 3], 0.2));
    let start = x.conv1d(&w, None, options).unwrap();
    let grad = |y: Tensor<F32>| {
        let grads = y.sum_all().unwrap().backward().unwrap();
        grads.get(&x).unwrap().unwrap().to_vec().unwrap()
    };
    let start_twice =
        grad((start.conv1d(&w, None, options).unwrap() + start.conv1d(&w, None, options).unwrap()).unwrap());
    let once = grad(x.conv1d(&w, None, options).unwrap().conv1d(&w, None, options).unwrap());
    for (twice, once) in start_twice.iter().zip(once) {
        assert!((twice - 2.0 * once).abs() <= 1e-3 * once.abs().max(1.0), "{twice} is not twice {once}");
    }
}

/// `<conv(x), y> = <x, conv_transpose(y)>`
#[test]
fn transposed_is_the_transpose() {
    let options = ConvOptions::<2>::default().stride([2, 1]).padding([1, 0]);
    let (x, w) = (numbers(&[2, 3, 7, 5], 0.1), numbers(&[4, 3, 3, 2], 0.2));
    let y = x.conv2d(&w, None, options).unwrap();
    let g = numbers(y.dims(), 0.4);
    let back = g.conv_transpose2d(&w, None, options).unwrap();
    assert_eq!(back.dims(), x.dims());
    let dot = |a: &Tensor<F64>, b: &Tensor<F64>| (a * b).unwrap().sum_all().unwrap().item().unwrap();
    assert!((dot(&y, &g) - dot(&x, &back)).abs() <= 1e-10);
}

#[test]
fn weight_gradients_stay_in_f32_and_add_up() {
    let device = Device::cpu();
    let x = Tensor::<F32>::full([16, 1, 8, 8], 3.0, &device).unwrap().to::<BF16>().unwrap();
    let w = Tensor::<F32>::ones([1, 1, 1, 1], &device).unwrap().tracked();
    let half = w.to::<BF16>().unwrap();
    let once = || x.conv2d(&half, None, ConvOptions::default()).unwrap().to::<F32>().unwrap().sum_all().unwrap();
    let loss = (once() + once()).unwrap();
    // 2 * 16 * 64 * 3 + 1 would need 13 significant bits; even 6144 itself comes from sums of more than 256 terms.
    assert_eq!(loss.backward().unwrap().get(&w).unwrap().unwrap().to_vec().unwrap(), [6144.0]);
}

#[test]
fn mistakes_are_named() {
    let zeros = |shape: &[usize]| Tensor::<F16>::zeros(shape, &Device::cpu()).unwrap();
    let text = |x: &[usize], w: &[usize], b: &[usize], options: ConvOptions<2>| {
        zeros(x).conv2d(&zeros(w), Some(&zeros(b)), options).err().unwrap().to_string()
    };
    let plain = ConvOptions::default();
    for (x, w, b, options, expected) in [
        (
            vec![1, 2, 3, 3],
            vec![1, 3, 1, 1],
            vec![1],
            plain,
            "conv2d: the input must have shape [N, 3, ..] to fit the weight [1, 3, 1, 1], found [1, 2, 3, 3]",
        ),
        (
            vec![1, 1, 2, 2],
            vec![1, 1, 3, 3],
            vec![1],
            plain,
            "conv2d: the input must have shape [N, C, ..] in which the kernel [3, 3] fits with padding [0, 0], found [1, 1, 2, 2]",
        ),
        (vec![1, 1, 2, 2], vec![1, 1, 1, 1], vec![2], plain, "conv2d: the bias must have shape [1], found [2]"),
        (
            vec![1, 1, 2],
            vec![1, 1, 1, 1],
            vec![1],
            plain,
            "conv2d: the input must have 4 dimensions, found shape [1, 1, 2]",
        ),
        (
            vec![1, 2, 2, 2],
            vec![3, 1, 1, 1],
            vec![3],
            plain.groups(2),
            "conv2d: groups must be a divisor of the weight's first dimension, 3, found 2",
        ),
        (
            vec![1, 1, 2, 2],
            vec![1, 1, 1, 1],
            vec![1],
            plain.stride([0, 1]),
            "conv2d: stride must be at least 1, found [0, 1]",
        ),
        (vec![1, 1, 2, 2], vec![1, 1, 1, 1], vec![1], plain.groups(0), "conv2d: groups must be at least 1, found 0"),
        (
            vec![1, 1, 2, 2],
            vec![1, 1, 0, 1],
            vec![1],
            plain,
            "conv2d: the input must have shape [N, C, ..] in which the kernel [0, 1] fits with padding [0, 0], found [1, 1, 2, 2]",
        ),
    ] {
        assert_eq!(text(&x, &w, &b, options), expected);
    }
    let huge = plain.padding(usize::MAX / 2);
    assert!(zeros(&[1, 1, 2, 2]).conv2d(&zeros(&[1, 1, 1, 1]), None, huge).is_err());
}

/// Nothing in a batch, no channels in or out, one pixel, a stem, a depthwise image: values and gradients of every shape.
#[test]
fn dimensions_may_be_empty_or_small() {
    fn pass<P: crate::AutocastPrecision>(x: &[usize], w: &[usize], options: ConvOptions<2>, transposed: bool) {
        let what = format!("{x:?} {w:?} {options:?} {transposed}");
        let leaf = |shape: &[usize]| numbers(shape, 0.3).to::<P>().unwrap().tracked();
        let (empty, x, w) = (x[1] == 0, leaf(x), leaf(w));
        let y = if transposed { x.conv_transpose2d(&w, None, options) } else { x.conv2d(&w, None, options) };
        let y = y.unwrap_or_else(|error| panic!("{what}: {error}"));
        let values = y.to::<F32>().unwrap().to_vec().unwrap();
        assert!(values.iter().all(|v| v.is_finite() && (!empty || *v == 0.0)), "{what}: {values:?}");
        let grads = y.to::<F32>().unwrap().sum_all().unwrap().backward().unwrap();
        for leaf in [x, w] {
            let grad = grads.get(&leaf).unwrap().expect("it was used");
            assert!(grad.to::<F32>().unwrap().to_vec().unwrap().iter().all(|v| v.is_finite()), "{what}");
        }
    }
    for (n, c, o) in [0, 1, 2].into_iter().flat_map(|n| [0, 1, 3].map(|c| [0, 1, 2, 17].map(|o| (n, c, o)))).flatten() {
        for (size, kernel, stride) in [(1, 1, 1), (5, 3, 1), (6, 3, 2), (18, 1, 2), (17, 5, 2)] {
            let options = ConvOptions::<2>::default().stride(stride).padding(kernel / 2);
            for (w, transposed) in [([o, c, kernel, kernel], false), ([c, o, kernel, kernel], true)] {
                pass::<F32>(&[n, c, size, size], &w, options, transposed);
                pass::<BF16>(&[n, c, size, size], &w, options, transposed);
            }
            if c > 0 {
                pass::<F32>(&[n, c, size, size], &[c, 1, kernel, kernel], options.groups(c), false);
                pass::<BF16>(&[n, c, size, size], &[c, 1, kernel, kernel], options.groups(c), true);
            }
        }
    }
}

#[test]
fn f32_kernels_collect_what_f64_images_give_them() {
    let w = numbers(&[3, 2, 3, 3], 0.2).to::<F32>().unwrap().detach().tracked();
    let (x, wide) = (numbers(&[2, 2, 5, 4], 0.1), w.to::<F64>().unwrap());
    let conv = |w: &Tensor<F64>| x.conv2d(w, None, ConvOptions::default()).unwrap();
    let y = (conv(&wide) + conv(&wide)).unwrap();
    let found = y.sum_all().unwrap().backward().unwrap().get(&w).unwrap().unwrap().to_vec().unwrap();
    let wide = wide.detach().tracked();
    let expected = conv(&wide).sum_all().unwrap().backward().unwrap().get(&wide).unwrap().unwrap().to_vec().unwrap();
    for (found, expected) in found.into_iter().zip(expected) {
        assert!((f64::from(found) - 2.0 * expected).abs() <= 1e-6, "{found} is not twice {expected}");
    }
}

/// Where a dilation allows it: pixels are behind all that the input reaches.
#[test]
fn an_output_padding_of_a_stride_has_gradients() {
    let plain = ConvOptions::<2>::default();
    for options in [
        plain.dilation(2).output_padding(1),
        plain.dilation([3, 1]).output_padding([2, 0]).padding([1, 0]),
        plain.stride([2, 3]).dilation([3, 4]).output_padding([2, 3]).padding(2),
    ] {
        let inputs = [numbers(&[2, 2, 3, 4], 0.1), numbers(&[2, 3, 2, 3], 0.2), numbers(&[3], 0.3)];
        let worst = gradcheck(|x| x[0].conv_transpose2d(&x[1], Some(&x[2]), options), &inputs).unwrap();
        assert!(worst.agrees(), "{options:?}: {worst:?}");
    }
}

/// Kernels of one element that step over every pixel of an image.
#[test]
fn pixels_that_no_kernel_reads_have_no_gradient() {
    let options = ConvOptions::<2>::default().stride(3).padding(2);
    let (x, w) = (numbers(&[1, 1, 7, 1], 0.1), numbers(&[4, 1, 1, 1], 0.2));
    for channels in [1, 2] {
        let (x, options) = (x.repeat([1, channels, 1, 1]).unwrap().tracked(), options.groups(channels));
        let y = x.conv2d(&w, None, options).unwrap();
        assert!(y.to_vec().unwrap().iter().all(|&y| y == 0.0));
        let grads = y.sum_all().unwrap().backward().unwrap();
        assert!(grads.get(&x).unwrap().unwrap().to_vec().unwrap().iter().all(|&g| g == 0.0));
    }
}

/// A kernel of one element reads each pixel of a line alone; those of the output padding behind them are from none.
#[test]
fn an_output_padding_of_more_than_a_stride_leaves_pixels_behind() {
    let inputs = [numbers(&[2, 2, 3], 0.1), numbers(&[2, 2, 1], 0.2)];
    for dilation in [3, 4] {
        let options = ConvOptions::default().dilation(dilation).output_padding(2);
        let worst = gradcheck(|x| x[0].conv_transpose1d(&x[1], None, options), &inputs).unwrap();
        assert!(worst.agrees(), "dilation {dilation}: {worst:?}");
    }
    let images = [numbers(&[1, 2, 2, 3], 0.1), numbers(&[2, 1, 1, 2], 0.2)];
    let options = ConvOptions::default().stride([1, 2]).dilation([2, 1]).output_padding([1, 1]);
    let worst = gradcheck(|x| x[0].conv_transpose2d(&x[1], None, options), &images).unwrap();
    assert!(worst.agrees(), "{worst:?}");
}

#[test]
fn what_does_not_fit_is_told_in_the_numbers_that_were_given() {
    let zeros = |shape: &[usize]| Tensor::<F32>::zeros(shape, &Device::cpu()).unwrap();
    let text = |result: crate::Result<Tensor<F32>>| result.unwrap_err().to_string();
    let (line, image, volume) = (zeros(&[1, 1, 2]), zeros(&[1, 1, 2, 2]), zeros(&[1, 1, 3, 2, 2]));
    assert_eq!(
        text(line.conv1d(&zeros(&[1, 1, 5]), None, ConvOptions::default().padding(1))),
        "conv1d: the input must have shape [N, C, ..] in which the kernel [5] fits with padding [1], found [1, 1, 2]"
    );
    assert_eq!(
        text(line.conv_transpose1d(&zeros(&[1, 1, 3]), None, ConvOptions::default().padding(2))),
        "conv_transpose1d: the input must have shape [N, C, ..] of which the kernel [3] makes more than padding [2] takes away, \
         found [1, 1, 2]"
    );
    let wide = ConvOptions::default().padding([0, 2]);
    assert!(
        text(image.conv_transpose2d(&zeros(&[1, 1, 1, 3]), None, wide))
            .contains("the kernel [1, 3] makes more than padding [0, 2] takes away")
    );
    // Of volumes, height and width: a depth that does not fit is another error.
    assert_eq!(
        text(volume.conv3d(&zeros(&[1, 1, 2, 3, 1]), None, ConvOptions::default())),
        "conv3d: the input must have shape [N, C, ..] in which the kernel [3, 1] fits with padding [0, 0], found [1, 1, 3, 2, 2]"
    );
}

#[test]
fn an_image_of_too_many_pixels_is_named_before_its_padding() {
    let device = crate::Device::cpu();
    let wide = Tensor::<F32>::zeros([1, 1, 1, 1], &device).unwrap().expand([1, 1, 1 << 16, (1 << 15) + 1]).unwrap();
    let w = Tensor::<F32>::zeros([1, 1, 1, 1], &device).unwrap();
    let error = wide.conv2d(&w, None, ConvOptions::default()).unwrap_err().to_string();
    let rule = "conv2d: the input must have shape [N, C, H, W] of at most 2^31 pixels";
    assert_eq!(error, format!("{rule}, found [1, 1, 65536, 32769]"));
}
