//! Whatever layer a value overflows in, the report names the line of the program that called it, not one of the library.

use amp::nn::*;
use amp::prelude::*;
use amp::{Culprit, diagnose};

/// Input that no layer can make finite.
fn huge(shape: &[usize], device: &Device) -> Result<Tensor<F32>> {
    Tensor::full(shape, f32::INFINITY, device)
}

fn assert_here(what: &str, (result, culprit): (Result<()>, Option<Culprit>)) {
    result.unwrap_or_else(|e| panic!("{what}: {e}"));
    let culprit = culprit.unwrap_or_else(|| panic!("{what}: nothing was found"));
    assert_eq!(culprit.location.file(), file!(), "{what}: {culprit}");
}

/// The forward pass of a layer meets an infinity; so does the backward pass of a finite one.
macro_rules! check {
    ($device:ident, $layer:expr, $shape:expr, |$net:ident, $x:ident| $call:expr) => {{
        let $net = $layer;
        let $x = huge(&$shape, &$device)?;
        let forward = diagnose(|| $call.map(drop));
        assert_here(concat!(stringify!($layer), " forward"), forward);
        let $x = Tensor::<F32>::randn($shape, &$device)?.tracked();
        let slope = Tensor::full($call?.dims(), f32::NAN, &$device)?;
        let backward = diagnose(|| $call?.backward_with(&slope).map(drop));
        assert_here(concat!(stringify!($layer), " backward"), backward);
    }};
}

#[test]
fn every_layer_blames_its_caller() -> Result<()> {
    let d = Device::cpu();
    check!(d, Linear::new(4, 3, &d)?, [2, 4], |net, x| net.forward(&x));
    check!(d, Conv1d::new(2, 3, 3, &d)?, [1, 2, 5], |net, x| net.forward(&x));
    check!(d, Conv2d::new(2, 3, 3, &d)?, [1, 2, 5, 5], |net, x| net.forward(&x));
    check!(d, ConvTranspose1d::new(2, 3, 3, &d)?, [1, 2, 5], |net, x| net.forward(&x));
    check!(d, ConvTranspose2d::new(2, 3, 3, &d)?, [1, 2, 5, 5], |net, x| net.forward(&x));
    check!(d, ConvTranspose3d::new(2, 3, 2, &d)?, [1, 2, 3, 3, 3], |net, x| net.forward(&x));
    check!(d, Bilinear::new(4, 4, 3, &d)?, [2, 4], |net, x| net.forward(&x, &x));
    check!(d, LocalResponseNorm::new(3), [1, 2, 4], |net, x| net.forward(&x));
    check!(d, Glu::new(-1), [2, 4], |net, x| net.forward(&x));
    check!(d, PixelShuffle::new(2), [1, 4, 3, 3], |net, x| net.forward(&x));
    check!(d, Upsample::new(2).bicubic(false), [1, 2, 3, 3], |net, x| net.forward(&x));
    check!(d, BatchNorm3d::new(2, &d)?, [2, 2, 3, 3, 2], |net, x| net.forward(&x));
    check!(d, BatchNorm2d::new(2, &d)?, [2, 2, 3, 3], |net, x| net.forward(&x));
    check!(d, LayerNorm::new([4], &d)?, [2, 4], |net, x| net.forward(&x));
    check!(d, RmsNorm::new([4], &d)?, [2, 4], |net, x| net.forward(&x));
    check!(d, GroupNorm::new(1, 2, &d)?, [2, 2, 3, 3], |net, x| net.forward(&x));
    check!(d, MultiHeadAttention::new(4, 2, &d)?, [1, 3, 4], |net, x| net.forward(&x, &x, &x, None));
    check!(d, Lstm::new(4, 3, &d)?, [1, 3, 4], |net, x| net.forward(&x).map(|(y, _)| y));
    check!(d, Lstm::stacked(4, 3, 2, true, &d)?, [1, 3, 4], |net, x| net.forward(&x).map(|(y, _)| y));
    check!(d, Gru::new(4, 3, &d)?, [1, 3, 4], |net, x| net.forward(&x).map(|(y, _)| y));
    check!(d, Rnn::new(4, 3, &d)?, [1, 3, 4], |net, x| net.forward(&x).map(|(y, _)| y));
    check!(d, LstmCell::new(4, 3, &d)?, [2, 4], |net, x| net.forward(&x).map(|state| state.h));
    check!(d, GruCell::new(4, 3, &d)?, [2, 4], |net, x| net.forward(&x));
    check!(d, RnnCell::new(4, 3, &d)?, [2, 4], |net, x| net.forward(&x));
    check!(d, Relu, [2, 4], |net, x| net.forward(&x));
    check!(d, Gelu, [2, 4], |net, x| net.forward(&x));
    check!(d, Silu, [2, 4], |net, x| net.forward(&x));
    check!(d, LeakyRelu::new(0.1), [2, 4], |net, x| net.forward(&x));
    check!(d, Softmax::new(-1), [2, 4], |net, x| net.forward(&x));
    check!(d, MaxPool2d::new(2), [1, 2, 4, 4], |net, x| net.forward(&x));
    check!(d, AvgPool2d::new(2), [1, 2, 4, 4], |net, x| net.forward(&x));
    check!(d, MaxPool1d::new(2), [1, 2, 4], |net, x| net.forward(&x));
    check!(d, AvgPool3d::new(2), [1, 2, 4, 4, 4], |net, x| net.forward(&x));
    check!(d, Softsign, [2, 4], |net, x| net.forward(&x));
    check!(d, AdaptiveAvgPool2d::new(1), [1, 2, 4, 4], |net, x| net.forward(&x));
    check!(d, Sequential((Linear::new(4, 3, &d)?, Relu, LayerNorm::new([3], &d)?)), [2, 4], |net, x| net.forward(&x));
    let full = || Tensor::<F32>::full([2], f32::NAN, &d).map(drop);
    assert_here("full", diagnose(full));
    Ok(())
}
