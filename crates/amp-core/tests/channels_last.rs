//! Images and volumes whose channels lie together in memory give what row-major ones give, and gradients too.
//!
//! Elements are multiples of an eighth, so that sums are exact and results equal in every order of summation.

use amp_core::nn::BatchNorm2d;
use amp_core::{BF16, ConvOptions, Device, F32, F64, Module, Parameter, PoolOptions, Result, Tensor, manual_seed};

type Function = fn(&Tensor<F64>, &Tensor<F64>) -> Result<Tensor<F64>>;

fn eighths(shape: &[usize], phase: usize) -> Tensor<F64> {
    let mut i = phase;
    let next = |_: &[usize]| {
        i = (i * 97 + 31) % 1009;
        (i % 33) as f64 / 8.0 - 2.0
    };
    Tensor::from_fn(shape, next, &Device::cpu()).unwrap()
}

/// The same elements in a memory of `[N, .., C]`.
fn turned(x: &Tensor<F64>) -> Tensor<F64> {
    x.movedim(1, -1).unwrap().contiguous().unwrap().movedim(-1, 1).unwrap().detach()
}

fn lies_together<P: amp_core::Element>(x: &Tensor<P>) -> bool {
    !x.is_contiguous() && x.movedim(1, -1).unwrap().is_contiguous()
}

/// Result and gradients of both operands.
fn run(f: Function, a: &Tensor<F64>, b: &Tensor<F64>) -> [Vec<f64>; 3] {
    let (a, b) = (a.detach().tracked(), b.detach().tracked());
    let y = f(&a, &b).unwrap();
    let factors: Vec<f64> = (0..y.count()).map(|i| (i % 5) as f64 - 2.0).collect();
    let factors = Tensor::from_vec(factors, y.dims(), &Device::cpu()).unwrap();
    let grads = y.backward_with(&factors).unwrap();
    let grad = |x| grads.get(x).unwrap().map_or(Vec::new(), |grad| grad.to_vec().unwrap());
    [y.to_vec().unwrap(), grad(&a), grad(&b)]
}

const SHAPES: [[usize; 4]; 8] =
    [[2, 3, 4, 5], [1, 4, 3, 3], [3, 1, 2, 5], [2, 5, 1, 3], [2, 5, 3, 1], [2, 4, 1, 1], [0, 3, 2, 2], [2, 33, 5, 7]];

fn agree(name: &str, f: Function, tolerance: f64) {
    SHAPES.iter().for_each(|shape| agree_of(shape, name, f, tolerance));
}

fn agree_of(shape: &[usize], name: &str, f: Function, tolerance: f64) {
    let (a, b) = (eighths(shape, 1), eighths(shape, 5));
    let expected = run(f, &a, &b);
    for (order, a, b) in
        [("both", &turned(&a), &turned(&b)), ("the first", &turned(&a), &b), ("the second", &a, &turned(&b))]
    {
        for (expected, found) in expected.iter().zip(run(f, a, b)) {
            assert_eq!(expected.len(), found.len());
            let equal = |(&e, &f): (&f64, &f64)| e == f || (e - f).abs() <= tolerance * (1.0 + e.abs());
            assert!(
                expected.iter().zip(&found).all(equal),
                "{name} of {shape:?}, {order}: {found:?}, not {expected:?}"
            );
        }
    }
}

#[test]
fn element_by_element() {
    let functions: [(&str, Function); 14] = [
        ("add", |a, b| a + b),
        ("mul", |a, b| a * b),
        ("sub of itself", |a, b| (a - a)? + b),
        ("relu", |a, b| (a.relu()? + b)?.relu()),
        ("abs", |a, b| a.abs()? * b),
        ("silu", |a, b| a.silu()? + b.tanh()?),
        ("clamp", |a, b| a.clamp(-1.0, 1.0)? + b),
        ("maximum", |a, b| a.maximum(b)),
        ("where", |a, b| a.gt(b)?.where_(a, b)),
        ("lerp", |a, b| a.lerp(b, 0.25)),
        ("addcmul", |a, b| a.addcmul(a, b, 0.5)),
        ("a bias for each channel", |a, b| a + &b.sum([0, 2, 3], true)?),
        ("a factor for each image", |a, b| a * &b.sum([1, 2, 3], true)?),
        ("a map for all channels", |a, b| a * &b.sum([1], true)?),
    ];
    for (name, f) in functions {
        agree(name, f, 0.0);
    }
}

#[test]
fn folds_joins_and_views() {
    let functions: [(&str, Function); 13] = [
        ("sum of pixels", |a, b| (a + b)?.sum([2, 3], false)),
        ("sum of channels", |a, b| (a + b)?.sum([1], false)),
        ("sum of images", |a, b| (a + b)?.sum([0], true)),
        ("sum", |a, b| (a * b)?.sum_all()),
        ("maxima of columns", |a, b| (a * b)?.max([3], true)),
        ("cat of channels", |a, b| Tensor::cat(&[a, b, a], 1)),
        ("cat of rows", |a, b| Tensor::cat(&[a, b], 2)),
        ("flatten", |a, b| (a + b)?.flatten(1, -1)),
        ("flatten of pixels", |a, b| (a + b)?.flatten(2, -1)?.transpose(1, 2)),
        ("reshape", |a, b| (a + b)?.flatten(0, -1)),
        ("narrow", |a, b| a.narrow(1, 0, 1)? + b.narrow(3, 0, 1)?),
        ("permute", |a, b| a.permute([0, 2, 3, 1])? + b.permute([0, 2, 3, 1])?),
        ("transpose", |a, b| a.transpose(2, 3)?.abs()? + b.transpose(2, 3)?),
    ];
    for (name, f) in functions {
        agree(name, f, 0.0);
    }
}

#[test]
fn normalisations_and_windows() {
    let functions: [(&str, Function); 5] = [
        ("softmax of channels", |a, b| a.softmax(1)? * b),
        ("log_softmax of rows", |a, b| a.log_softmax(3)? * b),
        ("batch_norm_eval", |a, b| {
            let (mean, var) = (b.sum([0, 2, 3], false)?.detach(), Tensor::ones([b.dims()[1]], b.device())?);
            a.batch_norm_eval(&mean, &var, None, None, 1e-5)
        }),
        ("group_norm", |a, b| a.group_norm(1, None, None, 1e-5)? * b),
        ("layer_norm", |a, b| a.layer_norm(&a.dims()[1..], None, None, 1e-5)? * b),
    ];
    for (name, f) in functions {
        agree(name, f, 1e-12);
    }
}

#[test]
fn poolings_and_resizing() {
    let functions: [(&str, Function); 11] = [
        ("max_pool2d", |a, b| (a + b)?.max_pool2d(PoolOptions::new(3).stride(1).padding(1))),
        ("max_pool2d of far pixels", |a, b| (a + b)?.max_pool2d(PoolOptions::new(2).stride(2).padding(1).dilation(2))),
        ("avg_pool2d", |a, b| (a + b)?.avg_pool2d(PoolOptions::new(3).stride(2).padding(1))),
        ("avg_pool2d, uncounted", |a, b| {
            (a + b)?.avg_pool2d(PoolOptions::new(3).stride(2).padding(1).count_include_pad(false))
        }),
        ("adaptive_max_pool2d", |a, b| (a + b)?.adaptive_max_pool2d([2, 3])),
        ("adaptive_avg_pool2d", |a, b| (a + b)?.adaptive_avg_pool2d([3, 2])),
        ("upsample_nearest", |a, b| (a + b)?.upsample_nearest([6, 7])),
        ("upsample_bilinear", |a, b| (a + b)?.upsample_bilinear([3, 7], false)),
        ("upsample_bilinear, aligned", |a, b| (a + b)?.upsample_bilinear([9, 2], true)),
        ("mean of pixels", |a, b| (a + b)?.adaptive_avg_pool2d(1)?.flatten(1, -1)),
        ("maxima of pixels", |a, b| (a + b)?.adaptive_max_pool2d(1)?.flatten(1, -1)),
    ];
    for (name, f) in functions {
        agree(name, f, 0.0);
    }
}

#[test]
fn poolings_and_resizing_keep_the_channels_together() {
    let x = eighths(&[2, 24, 6, 5], 1);
    let options = PoolOptions::new(2).padding(1);
    let (values, places) = x.max_pool2d_with_indices(options).unwrap();
    let x = turned(&x).tracked();
    let (found, found_places) = x.max_pool2d_with_indices(options).unwrap();
    assert!(lies_together(&found) && lies_together(&found_places));
    assert_eq!(found.to_vec().unwrap(), values.to_vec().unwrap());
    assert_eq!(found_places.to_vec().unwrap(), places.to_vec().unwrap());
    let pooled: [Function; 6] = [
        |x, _| x.upsample_nearest([7, 4]),
        |x, _| x.upsample_bilinear([3, 9], true),
        |x, _| x.max_pool2d(3),
        |x, _| x.avg_pool2d(3),
        |x, _| x.adaptive_max_pool2d([3, 2]),
        |x, _| x.adaptive_avg_pool2d([2, 3]),
    ];
    for f in pooled {
        let y = f(&x, &x).unwrap();
        assert!(lies_together(&y) || y.dims()[2..] == [2, 1]);
        // The gradient lies as what was pooled, whatever the order of the one that comes.
        let slopes = eighths(y.dims(), 3);
        for slopes in [turned(&slopes), slopes] {
            let grads = f(&x, &x).unwrap().backward_with(&slopes).unwrap();
            assert!(lies_together(&grads.get(&x).unwrap().unwrap()));
        }
    }
    // One pixel is both: its channels are a row without a copy, and the gradient, one pixel for all, lies together again behind
    // what reads it.
    let y = x.relu().unwrap().adaptive_avg_pool2d(1).unwrap();
    let row = y.flatten(1, -1).unwrap();
    assert!(y.is_contiguous() && row.is_contiguous() && row.dims() == [2, 24]);
    assert!(lies_together(&row.sqr().unwrap().sum_all().unwrap().backward().unwrap().get(&x).unwrap().unwrap()));
}

#[test]
fn batch_statistics() {
    for shape in [[2, 3, 4, 5], [1, 4, 3, 3], [3, 1, 2, 5], [2, 33, 5, 7]] {
        let (a, b) = (eighths(&shape, 1), eighths(&shape, 5));
        let f: Function = |a, b| {
            let (weight, bias) = (b.sum([0, 2, 3], false)?, b.narrow(0, 0, 1)?.sum([0, 2, 3], false)?);
            (a.batch_norm_train(Some(&weight), Some(&bias), 1e-5)?.0 * b)?.relu()
        };
        let expected = run(f, &a, &b);
        for (a, b) in [(&turned(&a), &turned(&b)), (&turned(&a), &b), (&a, &turned(&b))] {
            for (expected, found) in expected.iter().zip(run(f, a, b)) {
                let close = |(&e, &f): (&f64, &f64)| (e - f).abs() <= 1e-10 * (1.0 + e.abs());
                assert!(expected.iter().zip(&found).all(close), "{shape:?}: {found:?}, not {expected:?}");
            }
        }
        let together = turned(&a).batch_norm_train(None, None, 1e-5).unwrap().0;
        assert_eq!(lies_together(&together), shape[1] > 1);
    }
}

#[test]
fn convolutions_and_what_follows_them_keep_the_channels_together() {
    let x = eighths(&[2, 16, 6, 5], 1);
    let w = eighths(&[24, 16, 3, 3], 2);
    let options = ConvOptions::default().padding(1);
    let f: Function = |x, w| x.conv2d(w, None, ConvOptions::default().padding(1))?.relu();
    for (expected, found) in run(f, &x, &w).iter().zip(run(f, &turned(&x), &w)) {
        assert_eq!(*expected, found);
    }
    let (x, w) = (x.to::<F32>().unwrap().tracked(), w.to::<F32>().unwrap());
    let y = x.to::<BF16>().unwrap().conv2d(&w.to::<BF16>().unwrap(), None, options).unwrap();
    let h = (y.relu().unwrap().to::<F32>().unwrap() * 0.5).unwrap();
    let normal = h.batch_norm_train(None, None, 1e-5).unwrap().0;
    let sum = (normal + &y.to::<F32>().unwrap()).unwrap();
    assert!(lies_together(&y) && lies_together(&h) && lies_together(&sum));
    let squares = sum.sqr().unwrap().sum_all().unwrap();
    let grad = squares.backward().unwrap().get(&x).unwrap().unwrap();
    assert!(lies_together(&grad));
    // What has the size of one pixel, or of one channel, is both: it counts as row-major.
    let pixel = x.mean([2, 3], true).unwrap();
    assert!(pixel.is_contiguous());
    let values = sum.flatten(1, -1).unwrap();
    assert!(values.is_contiguous());
    assert_eq!(values.to_vec().unwrap(), sum.to_vec().unwrap());
    // Pixels as a sequence take no copy.
    assert!(sum.flatten(2, -1).unwrap().transpose(1, 2).unwrap().is_contiguous());
}

#[test]
fn lines_and_few_channels_stay_row_major() {
    let x = eighths(&[2, 16, 1, 9], 1).squeeze(2).unwrap();
    let w = eighths(&[24, 16, 1, 3], 2).squeeze(2).unwrap();
    let y = x.conv1d(&w, None, ConvOptions::default().padding(1)).unwrap();
    assert!(y.is_contiguous());
    let x = eighths(&[2, 16, 6, 5], 1);
    let y = x.conv2d(&eighths(&[3, 16, 1, 1], 2), None, ConvOptions::default()).unwrap();
    assert!(y.is_contiguous());
}

#[test]
fn omission_does_not_depend_on_the_order_in_memory() {
    let x = eighths(&[2, 5, 3, 4], 1);
    let dropped = |x: &Tensor<F64>| {
        manual_seed(5);
        let x = x.tracked();
        let y = x.dropout(0.5, true).unwrap();
        let grads = y.sum_all().unwrap().backward().unwrap();
        (y.to_vec().unwrap(), grads.get(&x).unwrap().unwrap().to_vec().unwrap())
    };
    assert_eq!(dropped(&x), dropped(&turned(&x)));
}

#[test]
fn batch_norm_with_the_relu_and_residual_that_follow_it() {
    let slopes = eighths(&[3, 5, 7, 6], 3);
    let step = |x: &Tensor<F64>, residual: &Tensor<F64>, train: bool| {
        let norm = BatchNorm2d::new(5, &Device::cpu()).unwrap();
        if !train {
            norm.eval();
        }
        let [x, residual] = [x, residual].map(|x| x.to::<F32>().unwrap().tracked());
        let first = norm.forward_relu(&x.to::<BF16>().unwrap()).unwrap();
        let y = norm.forward_add_relu(&(x.sqr().unwrap() + first).unwrap(), &residual).unwrap();
        let grads = y.backward_with(&slopes.to::<F32>().unwrap()).unwrap();
        let parameter = |p: Option<&Parameter>| grads.get(p.unwrap()).unwrap().unwrap().to_vec().unwrap();
        let of = |x: &Tensor<F32>| grads.get(x).unwrap().unwrap().to_vec().unwrap();
        [y.to_vec().unwrap(), of(&x), of(&residual), parameter(norm.weight()), parameter(norm.bias())]
    };
    let (x, residual) = (eighths(&[3, 5, 7, 6], 1), eighths(&[3, 5, 7, 6], 5));
    for train in [true, false] {
        let expected = step(&x, &residual, train);
        for (x, residual) in [(&turned(&x), &turned(&residual)), (&turned(&x), &residual), (&x, &turned(&residual))] {
            for (expected, found) in expected.iter().zip(step(x, residual, train)) {
                let close = |(&e, &f): (&f32, &f32)| (e - f).abs() <= 1e-4 * (1.0 + e.abs());
                assert!(expected.iter().zip(&found).all(close), "{found:?}, not {expected:?}");
            }
        }
    }
}

#[test]
fn volumes() {
    let functions: [(&str, Function); 25] = [
        ("add", |a, b| (a + b)?.relu()? * a),
        ("a bias for each channel", |a, b| a + &b.sum([0, 2, 3, 4], true)?),
        ("a map for all channels", |a, b| a * &b.sum([1], true)?),
        ("sum of channels", |a, b| (a + b)?.sum([1], false)),
        ("sum of voxels", |a, b| (a + b)?.sum([2, 3, 4], false)),
        ("maxima of rows", |a, b| (a * b)?.max([3], true)),
        ("cat of channels", |a, b| Tensor::cat(&[a, b, a], 1)),
        ("cat of slices", |a, b| Tensor::cat(&[a, b], 2)),
        ("flatten", |a, b| (a + b)?.flatten(1, -1)),
        ("narrow", |a, b| a.narrow(1, 0, 1)? + b.narrow(4, 0, 1)?),
        ("permute", |a, b| a.permute([0, 2, 3, 4, 1])? + b.permute([0, 2, 3, 4, 1])?),
        ("flip", |a, b| a.flip([1, 2])? + b.flip([4])?),
        ("pad", |a, b| (a * b)?.pad([1, 0, 0, 2, 1, 1], 0.5)),
        ("softmax of channels", |a, b| a.softmax(1)? * b),
        ("log_softmax of rows", |a, b| a.log_softmax(4)? * b),
        ("group_norm", |a, b| a.group_norm(1, None, None, 1e-5)? * b),
        ("max_pool3d", |a, b| (a + b)?.max_pool3d(PoolOptions::new([2, 1, 2]).padding([1, 0, 1]))),
        ("max_pool3d with places", |a, b| {
            Ok((a + b)?.max_pool3d_with_indices(PoolOptions::new([1, 2, 2]).padding([0, 1, 1]))?.0)
        }),
        ("avg_pool3d", |a, b| (a + b)?.avg_pool3d(PoolOptions::new([2, 1, 2]).padding([1, 0, 1]))),
        ("adaptive_avg_pool3d", |a, b| (a + b)?.adaptive_avg_pool3d([2, 1, 3])),
        ("adaptive_max_pool3d", |a, b| (a + b)?.adaptive_max_pool3d([1, 2, 2])),
        ("nearest", |a, b| (a * b)?.upsample_nearest3d([3, 5, 4])),
        ("trilinear", |a, b| (a * b)?.upsample_trilinear3d([3, 5, 4], true)),
        ("conv3d", |a, b| a.conv3d(&b.narrow(0, 0, 1)?.narrow(2, 0, 1)?, None, ConvOptions::default())),
        ("conv_transpose3d", |a, b| {
            let kernel = b.narrow(0, 0, 1)?.transpose(0, 1)?.narrow(2, 0, 1)?;
            a.conv_transpose3d(&kernel, None, ConvOptions::default().stride([2, 1, 1]))
        }),
    ];
    let shapes =
        [[2, 3, 4, 5, 3], [1, 4, 1, 3, 3], [3, 1, 2, 5, 2], [2, 5, 3, 1, 3], [2, 4, 2, 1, 1], [2, 33, 2, 3, 4]];
    for (name, f) in functions {
        shapes.iter().for_each(|shape| agree_of(shape, name, f, 1e-12));
    }
}
