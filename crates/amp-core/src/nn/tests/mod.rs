//! Layers as a model uses them.

mod attention;
mod batch_norm;
mod embedding;
mod recurrent;

use super::*;
use crate::optim::{Optimizer, Sgd};
use crate::precision::{BF16, Bool, F16, F32, Float, I64};
use crate::{Device, GradScaler, Parameter, PoolOptions, Result, Tensor, checkpoint, manual_seed, no_grad};

fn cpu() -> Device {
    Device::cpu()
}

fn randn(shape: &[usize]) -> Tensor<F32> {
    Tensor::randn(shape, &cpu()).unwrap()
}

fn within(a: &Tensor<F32>, b: &Tensor<F32>, tolerance: f32) {
    assert_eq!(a.dims(), b.dims());
    for (a, b) in a.to_vec().unwrap().iter().zip(b.to_vec().unwrap()) {
        let diff = (a - b).abs();
        assert!(!(diff.is_nan() || diff > tolerance), "{a} and {b} differ by more than {tolerance}");
    }
}

/// `[lengths, most]`, true for the first keys of each sequence.
fn first(lengths: &[usize], most: usize) -> Result<Tensor<Bool>> {
    Tensor::from_fn([lengths.len(), most], |i| i[1] < lengths[i[0]], &cpu())
}

fn names(module: &dyn Module) -> Vec<String> {
    module.named_parameters().into_iter().map(|(name, _)| name).collect()
}

#[test]
fn layers_without_weights_are_their_functions() {
    let x = randn(&[3, 5]);
    let half = x.to::<BF16>().unwrap();
    let log = LogSoftmax::new(-1).forward(&half).unwrap();
    assert_eq!(log.to_vec().unwrap(), half.to::<F32>().unwrap().log_softmax(-1).unwrap().to_vec().unwrap());
    let net = Sequential((Identity, LogSoftmax::new(-1)));
    assert_eq!(net.forward(&half).unwrap().to_vec().unwrap(), log.to_vec().unwrap());
    assert_eq!(Identity.forward(&half).unwrap().to_vec().unwrap(), half.to_vec().unwrap());
}

#[test]
fn names_are_those_of_pytorch() {
    let d = cpu();
    assert_eq!(names(&Lstm::stacked(2, 3, 2, true, &d).unwrap()).len(), 16);
    assert_eq!(names(&Gru::new(2, 3, &d).unwrap()), ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"]);
    assert_eq!(names(&Lstm::stacked(2, 3, 1, true, &d).unwrap())[7], "bias_hh_l0_reverse");
    assert_eq!(names(&LstmCell::new(2, 3, &d).unwrap()), ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]);
    let attention = MultiHeadAttention::new(4, 2, &d).unwrap();
    assert_eq!(names(&attention), ["in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"]);
    assert_eq!(names(&attention.without_bias()), ["in_proj_weight", "out_proj.weight"]);
    let across = MultiHeadAttention::across(4, 2, 3, 5, &d).unwrap();
    assert_eq!(names(&across)[..4], ["q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias"]);
    assert_eq!(names(&Lstm::new(2, 3, &d).unwrap().without_bias()), ["weight_ih_l0", "weight_hh_l0"]);
    assert_eq!(names(&RnnCell::new(2, 3, &d).unwrap().without_bias()), ["weight_ih", "weight_hh"]);
    let norm = BatchNorm2d::new(2, &d).unwrap();
    let statistics: Vec<_> = norm.named_statistics().into_iter().map(|(name, _)| name).collect();
    assert_eq!(statistics, ["running_mean", "running_var", "num_batches_tracked"]);
    let nested = (vec![Linear::new(1, 1, &d).unwrap()], Some(Linear::new(1, 1, &d).unwrap().without_bias()));
    assert_eq!(names(&nested), ["0.0.weight", "0.0.bias", "1.weight"]);
}

#[test]
fn a_shared_parameter_counts_once() {
    let embedding = Embedding::new(5, 3, &cpu()).unwrap();
    let head = Linear::from_parameters(embedding.weight().clone(), None).unwrap();
    let net = (embedding, head);
    assert_eq!(names(&net), ["0.weight"]);
    assert_eq!(net.parameter_count(), 15);
    assert_eq!(net.parameters()[0].name(), "0.weight");
}

#[test]
fn initial_values_have_pytorchs_ranges() {
    manual_seed(11);
    let d = cpu();
    let check = |p: &Parameter, bound: f32| {
        let largest = p.to_vec().unwrap().iter().fold(0f32, |m, v| m.max(v.abs()));
        assert!(largest <= bound && largest > 0.9 * bound, "{p:?}: {largest} of {bound}");
    };
    let conv = Conv2d::grouped(8, 16, [3, 5], 2, &d).unwrap();
    assert_eq!(conv.weight().dims(), [16, 4, 3, 5]);
    check(conv.weight(), 1.0 / 60f32.sqrt());
    let transposed = ConvTranspose2d::grouped(8, 16, 3, 2, &d).unwrap();
    assert_eq!(transposed.weight().dims(), [8, 8, 3, 3]);
    check(transposed.weight(), 1.0 / 72f32.sqrt());
    check(Linear::new(100, 50, &d).unwrap().weight(), 0.1);
    check(&Lstm::new(30, 25, &d).unwrap().parameters()[0], 0.2);
    check(&MultiHeadAttention::new(32, 2, &d).unwrap().parameters()[0], (6.0f32 / 128.0).sqrt());
    assert!(Conv2d::grouped(8, 16, 3, 3, &d).is_err());
    assert!(MultiHeadAttention::new(10, 3, &d).is_err());
    assert!(GroupNorm::new(0, 4, &d).is_err());
    assert_eq!(Linear::new(0, 3, &d).unwrap().bias().unwrap().to_vec().unwrap(), [0.0; 3]);
}

#[test]
fn lower_modules_work_in_the_precision_of_their_input_and_norms_return_f32() -> Result<()> {
    manual_seed(12);
    let d = cpu();
    let x = randn(&[2, 4, 6, 6]);
    let conv = Conv2d::new(4, 8, 3, &d)?.stride(2).padding(1);
    let y: Tensor<BF16> = conv.forward(&x.to::<BF16>()?)?;
    within(&y.to()?, &conv.forward(&x)?, 0.05);
    let norm: Tensor<F32> = GroupNorm::new(2, 8, &d)?.forward(&y)?;
    within(&norm.mean([1, 2, 3], false)?, &Tensor::zeros([2], &d)?, 1e-3);
    let line = Conv1d::new(3, 5, 3, &d)?.dilation(2);
    assert_eq!(line.forward(&randn(&[2, 3, 10]))?.dims(), [2, 5, 6]);
    let up = ConvTranspose2d::new(8, 4, 3, &d)?.stride(2).padding(1).output_padding(1);
    assert_eq!(up.forward(&y)?.dims(), [2, 4, 6, 6]);
    let pool = MaxPool2d::new(PoolOptions::new(2).stride(1));
    assert_eq!(pool.forward(&y)?.dims(), [2, 8, 2, 2]);
    assert_eq!(AdaptiveAvgPool2d::new(1).forward(&y)?.dims(), [2, 8, 1, 1]);
    let sound = Sequential((line, MaxPool1d::new(2), LogSigmoid, AdaptiveAvgPool1d::new(1)));
    assert_eq!(sound.forward(&randn(&[2, 3, 10]).to::<F16>()?)?.dims(), [2, 5, 1]);
    let volume = randn(&[1, 2, 4, 4, 6]);
    let conv = Conv3d::new(2, 3, [1, 2, 3], &d)?.stride([1, 2, 1]);
    let (options, bias) = (crate::ConvOptions::default().stride([1, 2, 1]), conv.bias().map(Parameter::tensor));
    let exact = volume.conv3d(&conv.weight().tensor(), bias.as_ref(), options)?;
    assert_eq!(conv.forward(&volume)?.to_vec()?, exact.to_vec()?);
    let larger = Sequential((Softplus, Upsample::new([2, 3]).bilinear(true)));
    let exact = y.to::<F32>()?.softplus()?.upsample_bilinear([6, 9], true)?;
    assert_eq!(larger.forward(&y)?.to_vec()?, exact.to_vec()?);
    assert_eq!(Upsample::new(2).forward(&y.to::<F16>()?)?.dims(), [2, 8, 6, 6]);
    assert!(Upsample::new(2).forward(&volume).is_err());
    assert_eq!(AvgPool3d::new(2).forward(&volume)?.to_vec()?, volume.avg_pool3d(2)?.to_vec()?);
    assert_eq!(MaxPool3d::new([1, 2, 3]).forward(&volume)?.to_vec()?, volume.max_pool3d([1, 2, 3])?.to_vec()?);
    let rms: Tensor<F32> = RmsNorm::new([6], &d)?.forward(&x.to::<F16>()?)?;
    within(&rms.sqr()?.mean_all()?, &Tensor::ones((), &d)?, 1e-3);
    Ok(())
}

#[test]
fn layers_that_move_bags_and_volumes_give_what_their_operations_give() -> Result<()> {
    let d = cpu();
    let (volume, image, line) = (randn(&[1, 2, 3, 4, 4]), randn(&[2, 8, 3, 4]), randn(&[2, 4, 6]));
    let same =
        |a: Tensor<F32>, b: Tensor<F32>| assert_eq!((a.dims(), a.to_vec().unwrap()), (b.dims(), b.to_vec().unwrap()));
    let up = ConvTranspose3d::new(2, 3, 2, &d)?.stride(2).padding(1).output_padding([1, 0, 1]);
    let options = crate::ConvOptions::default().stride(2).padding(1).output_padding([1, 0, 1]);
    let bias = up.bias().map(Parameter::tensor);
    same(up.forward(&volume)?, volume.conv_transpose3d(&up.weight().tensor(), bias.as_ref(), options)?);
    same(AdaptiveAvgPool3d::new(2).forward(&volume)?, volume.adaptive_avg_pool3d(2)?);
    same(AdaptiveMaxPool3d::new([1, 2, 3]).forward(&volume)?, volume.adaptive_max_pool3d([1, 2, 3])?);
    same(
        LocalResponseNorm::new(3).alpha(0.2).beta(0.5).k(2.0).forward(&image)?,
        image.local_response_norm(3, 0.2, 0.5, 2.0)?,
    );
    same(Upsample::new([2, 1]).bicubic(true).forward(&image)?, image.upsample_bicubic2d([6, 4], true)?);
    let moved =
        Sequential((PixelShuffle::new(2), ChannelShuffle::new(2), PixelUnshuffle::new(2), Unflatten::new(1, [4, 2])));
    let narrow: Tensor<F16> = moved.forward(&image.to::<F16>()?)?;
    assert_eq!(narrow.dims(), [2, 4, 2, 3, 4]);
    assert!(Unflatten::new(-2, [2, 2]).forward(&image).is_err());
    let bent =
        Sequential((Hardtanh::new(-0.5, 1.0), Celu::new(0.7), Hardshrink::new(0.1), Softshrink::new(0.1), Glu::new(1)));
    same(bent.forward(&line)?, line.hardtanh(-0.5, 1.0)?.celu(0.7)?.hardshrink(0.1)?.softshrink(0.1)?.glu(1)?);
    same(Threshold::new(0.1, 20.0).forward(&line)?, line.threshold(0.1, 20.0)?);
    same(ConstantPad1d::new([1, 2], 0.5).forward(&line)?, line.pad([1, 2], 0.5)?);
    same(ConstantPad2d::new(1, -1.0).forward(&image)?, image.pad([1; 4], -1.0)?);
    same(ConstantPad3d::new([0, 1, 0, 0, 2, 0], 3.0).forward(&volume)?, volume.pad([0, 1, 0, 0, 2, 0], 3.0)?);
    let options = crate::ConvOptions::default().stride(2).padding([1, 0]);
    let patches = Sequential((Unfold::new(2, options), Fold::new([3, 4], 2, options)));
    same(patches.forward(&image)?, image.unfold(2, options)?.fold([3, 4], [2, 2], options)?);
    let slopes = RRelu::default();
    manual_seed(8);
    let drawn = slopes.forward(&line)?;
    manual_seed(8);
    same(drawn, line.rrelu(0.125, 1.0 / 3.0, true)?);
    slopes.eval();
    same(slopes.forward(&line)?, line.leaky_relu(11.0 / 48.0)?);
    let form = Bilinear::new(6, 3, 5, &d)?;
    let (other, bias) = (randn(&[2, 4, 3]), form.bias().map(Parameter::tensor));
    same(form.forward(&line, &other)?, line.bilinear(&other, &form.weight().tensor(), bias.as_ref())?);
    let wide: Tensor<F32> = form.forward(&line.to::<F16>()?, &other)?;
    within(&wide, &form.forward(&line, &other)?, 1e-2);
    assert_eq!(names(&form), ["weight", "bias"]);
    Ok(())
}

#[test]
fn channels_are_dropped_whole() -> Result<()> {
    manual_seed(4);
    let drop = Dropout2d::new(0.5);
    let x = Tensor::<F32>::ones([50, 40, 2, 3], &cpu())?;
    let y = drop.forward(&x)?;
    let (least, most) = (y.min([2, 3], false)?, y.max([2, 3], false)?);
    assert_eq!(least.to_vec()?, most.to_vec()?);
    let kept = most.to_vec()?.iter().filter(|v| **v == 2.0).count();
    // Six standard deviations of a binomial draw of 2000.
    assert!((kept as f64 - 1000.0).abs() < 6.0 * 500.0f64.sqrt(), "seed 4: {kept}");
    assert!(most.to_vec()?.iter().all(|v| [0.0, 2.0].contains(v)));
    let error = Dropout3d::new(0.5).forward(&x).unwrap_err().to_string();
    assert_eq!(error, "Dropout3d: the input must have 5 dimensions, found shape [50, 40, 2, 3]");
    drop.eval();
    assert_eq!(drop.forward(&x)?.to_vec()?, x.to_vec()?);
    let selu = Sequential((Selu, AlphaDropout::new(0.2), Dropout1d::new(0.0)));
    selu.eval();
    let line = randn(&[2, 3, 4]);
    assert_eq!(selu.forward(&line)?.to_vec()?, line.selu()?.to_vec()?);
    Ok(())
}

#[test]
fn a_sequential_knows_the_precision_between_its_layers() -> Result<()> {
    let d = cpu();
    let net =
        Sequential((Linear::new(6, 8, &d)?, LayerNorm::new([8], &d)?, Gelu, Linear::new(8, 3, &d)?, Softmax::new(-1)));
    let x = randn(&[4, 6]);
    let y: Tensor<F32> = net.forward(&x.to::<F16>()?)?;
    within(&y, &net.forward(&x)?, 5e-3);
    assert_eq!(names(&net), ["0.weight", "0.bias", "1.weight", "1.bias", "3.weight", "3.bias"]);
    let blocks = Sequential(vec![Linear::new(6, 6, &d)?, Linear::new(6, 6, &d)?]);
    let y: Tensor<F16> = blocks.forward(&x.to::<F16>()?)?;
    assert_eq!(y.dims(), [4, 6]);
    Ok(())
}

#[test]
fn weights_of_a_prelu_are_learned() -> Result<()> {
    let (d, x) = (cpu(), randn(&[2, 3, 4]));
    for weights in [1, 3] {
        let layer = PRelu::new(weights, &d)?;
        assert_eq!(names(&layer), ["weight"]);
        within(&layer.forward(&x)?, &x.leaky_relu(0.25)?, 0.0);
        let half: Tensor<F16> = layer.forward(&x.to::<F16>()?)?;
        within(&half.to()?, &x.leaky_relu(0.25)?, 2e-3);
        let grads = layer.forward(&x)?.sum_all()?.backward()?;
        let slopes = grads.get(layer.weight())?.expect("a gradient");
        let below = (&x - x.relu()?)?.sum([0, 2], false)?;
        within(&slopes, &if weights == 1 { below.sum([0], true)? } else { below }, 1e-5);
    }
    let error = PRelu::new(2, &d)?.forward(&x).unwrap_err().to_string();
    assert_eq!(error, "prelu: the weight must have shape [1] or [3], found [2]");
    Ok(())
}

#[test]
fn an_instance_norm_is_a_group_norm_of_single_channels() -> Result<()> {
    let (d, x) = (cpu(), randn(&[2, 3, 4, 5]));
    let plain = InstanceNorm::new(3);
    assert!(names(&plain).is_empty());
    within(&plain.forward(&x)?, &GroupNorm::new(3, 3, &d)?.without_affine().forward(&x)?, 0.0);
    let (own, group) = (InstanceNorm::new(3).eps(0.1).affine(&d)?, GroupNorm::new(3, 3, &d)?.eps(0.1));
    assert_eq!(names(&own), ["weight", "bias"]);
    for (i, p) in own.parameters().iter().enumerate() {
        p.set(&randn(&[3]))?;
        group.parameters()[i].set(&p.tensor().detach())?;
    }
    within(&own.forward(&x)?, &group.forward(&x)?, 0.0);
    let half: Tensor<F32> = own.forward(&x.to::<F16>()?)?;
    within(&half, &own.forward(&x)?, 1e-2);
    let error = own.forward(&randn(&[2, 4, 5])).unwrap_err().to_string();
    assert_eq!(error, "InstanceNorm: the input must have shape [N, 3, positions ..], found [2, 4, 5]");
    assert!(plain.forward(&randn(&[2, 3])).is_err());
    Ok(())
}

#[test]
fn dropout_follows_the_mode_through_the_tree() -> Result<()> {
    manual_seed(14);
    let net = (vec![Dropout::new(0.5)], Some(Dropout::new(0.5)));
    let x = Tensor::<F32>::ones([1000], &cpu())?;
    let zeros = |y: Tensor<F32>| y.to_vec().unwrap().iter().filter(|v| **v == 0.0).count();
    let trained = zeros(net.0[0].forward(&x)?);
    assert!((400..600).contains(&trained), "{trained}");
    net.eval();
    assert_eq!(zeros(net.1.as_ref().unwrap().forward(&x)?), 0);
    net.train();
    assert!(zeros(net.0[0].forward(&x)?) > 0);
    assert!(Dropout::new(1.5).forward(&x).is_err());
    Ok(())
}

#[test]
fn state_is_loaded_whole_or_not_at_all() -> Result<()> {
    let d = cpu();
    let make = || Ok::<_, crate::Error>((Linear::new(2, 3, &d)?, BatchNorm2d::new(3, &d)?));
    let (a, b) = (make()?, make()?);
    b.load_state(&a.state())?;
    assert_eq!(a.0.weight().to_vec()?, b.0.weight().to_vec()?);
    let before = b.0.weight().to_vec()?;
    let other = (Linear::new(2, 3, &d)?, BatchNorm2d::new(4, &d)?);
    let error = b.load_state(&other.state()).unwrap_err().to_string();
    assert_eq!(error, "load: tensor `1.weight`: the model's shape is [3], the file's is [4]");
    assert_eq!(b.0.weight().to_vec()?, before);
    let error = b.load_state(&a.0.state()).unwrap_err().to_string();
    assert_eq!(error, "load: tensor `0.weight`: the file has no such tensor");
    let error = (Linear::new(2, 3, &d)?,).load_state(&a.state()).unwrap_err().to_string();
    assert_eq!(error, "load: tensor `1.bias`: the model has no such tensor");
    Ok(())
}
