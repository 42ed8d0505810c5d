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
    let form = Bilinear::new(6, 3, 5, &d)?;
    let (other, bias) = (randn(&[2, 4, 3]), form.bias().map(Parameter::tensor));
    same(form.forward(&line, &other)?, line.bilinear(&other, &form.weight().tensor(), bias.as_ref())?);
    let wide: Tensor<F32> = form.forward(&line.to::<F16>()?, &other)?;
    within(&wide, &form.forward(&line, &other)?, 1e-2);
    assert_eq!(names(&form), ["weight", "bias"]);
    Ok(())
}

#[test]
fn bags_sum_their_rows_and_train_only_those() -> Result<()> {
    let bag = EmbeddingBag::new(5, 3, &cpu())?.mode(crate::BagMode::Sum).sparse(true);
    assert_eq!(names(&bag), ["weight"]);
    let (rows, offsets) =
        (Tensor::<I64>::from_vec(vec![1, 3, 3], [3], &cpu())?, Tensor::from_vec(vec![0, 1], [2], &cpu())?);
    let table = bag.weight().tensor().detach();
    let expected = [table.select(0, 1)?, table.select(0, 3)?.mul(2.0)?];
    within(&bag.forward(&rows, Some(&offsets))?, &Tensor::stack(&[&expected[0], &expected[1]], 0)?, 1e-6);
    let grads = bag.forward(&rows, Some(&offsets))?.sum_all()?.backward()?;
    let (used, slopes) = grads.rows(bag.weight())?.expect("two rows were used");
    assert_eq!((used.to_vec()?, slopes.to_vec()?), (vec![1, 3], vec![1.0, 1.0, 1.0, 2.0, 2.0, 2.0]));
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
fn attention_over_one_key_is_its_value() -> Result<()> {
    let d = cpu();
    let attention = MultiHeadAttention::new(8, 2, &d)?;
    let (q, kv) = (randn(&[2, 3, 8]), randn(&[2, 1, 8]));
    let y = attention.forward(&q, &kv, &kv, None)?;
    // With a single key the softmax is 1 whatever the query says.
    within(&y, &attention.forward(&randn(&[2, 3, 8]), &kv, &kv, None)?, 1e-5);
    let causal = MultiHeadAttention::new(8, 2, &d)?.causal(true);
    let x = randn(&[1, 4, 8]);
    let (all, first) = (causal.forward(&x, &x, &x, None)?, x.narrow(1, 0, 1)?);
    within(&all.narrow(1, 0, 1)?, &causal.forward(&first, &first, &first, None)?, 1e-5);
    assert!(attention.forward(&randn(&[3, 8]), &kv, &kv, None).is_err());
    assert!(attention.forward(&randn(&[2, 3, 7]), &kv, &kv, None).is_err());
    Ok(())
}

/// `[lengths, most]`, true for the first keys of each sequence.
fn first(lengths: &[usize], most: usize) -> Result<Tensor<Bool>> {
    Tensor::from_fn([lengths.len(), most], |i| i[1] < lengths[i[0]], &cpu())
}

#[test]
fn padding_changes_nothing() -> Result<()> {
    let (d, x, other) = (cpu(), randn(&[3, 5, 8]), randn(&[3, 5, 8]));
    let present = first(&[5, 3, 1], 5)?;
    let kept = present.unsqueeze(2)?.to::<F32>()?;
    let altered = ((&x * &kept)? + (&other * (1.0 - &kept)?)?)?;
    for attention in [MultiHeadAttention::new(8, 2, &d)?, MultiHeadAttention::new(8, 2, &d)?.causal(true)] {
        let y = attention.forward_padded(&x, &x, &x, &present, None)?;
        within(&y, &attention.forward_padded(&x, &altered, &altered, &present, None)?, 0.0);
        let short = x.narrow(0, 1, 1)?.narrow(1, 0, 3)?;
        within(&y.narrow(0, 1, 1)?.narrow(1, 0, 3)?, &attention.forward(&short, &short, &short, None)?, 1e-5);
        let all = Tensor::<Bool>::ones([1, 5], &d)?;
        within(&attention.forward_padded(&x, &x, &x, &all, None)?, &attention.forward(&x, &x, &x, None)?, 1e-6);
        // What the mask hides stays hidden: only the first key is left of both.
        let mask = Tensor::<Bool>::from_fn([5, 5], |i| i[1] == 0, &d)?;
        let one = x.narrow(1, 0, 1)?;
        let y = attention.forward_padded(&x, &x, &x, &present, Some(&mask))?;
        within(&y.narrow(1, 0, 1)?, &attention.forward(&one, &one, &one, None)?, 1e-5);
        let error = attention.forward_padded(&x, &x, &x, &first(&[5, 3], 5)?, None).unwrap_err().to_string();
        let reason = "`present` must have shape [3, 5], one value for each key, found [2, 5]";
        assert_eq!(error, format!("MultiHeadAttention: {reason}"));
    }
    Ok(())
}

fn attends_to_nothing<P: Float>() -> Result<()> {
    let attention = MultiHeadAttention::new(8, 2, &cpu())?;
    attention.parameters()[3].set(&randn(&[8]))?;
    let x = randn(&[2, 4, 8]).tracked();
    let h = x.to::<P>()?;
    let y = attention.forward_padded(&h, &h, &h, &first(&[4, 0], 4)?, None)?.to::<F32>()?;
    let bias = attention.parameters()[3].to::<P>()?.to::<F32>()?;
    within(&y.narrow(0, 1, 1)?, &bias.expand([1, 4, 8])?, 0.0);
    let mut scaler = GradScaler::builder().init_scale(1.0).build(x.device())?;
    let scaled = scaler.scale(&y.sqr()?.sum_all()?)?.backward()?;
    let grads = scaler.unscale(scaled)?;
    let slopes = grads.get(&x)?.expect("a gradient").to_vec()?;
    assert!(slopes[..32].iter().all(|v| v.is_finite() && *v != 0.0), "{slopes:?}");
    assert_eq!(slopes[32..], [0.0; 32]);
    for p in attention.parameters() {
        assert!(grads.get(&p)?.expect("a gradient").to_vec()?.iter().all(|v| v.is_finite()), "{p:?}");
    }
    Ok(())
}

#[test]
fn a_sequence_that_is_all_padding_gives_the_bias_and_no_gradient() -> Result<()> {
    manual_seed(15);
    attends_to_nothing::<F32>()?;
    attends_to_nothing::<F16>()?;
    attends_to_nothing::<BF16>()
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
fn the_padding_of_an_embedding_is_0_and_stays_as_it_is() -> Result<()> {
    let d = cpu();
    let indices = Tensor::<I64>::from_slice(&[3, 1, 3, 0, 1, 3], [2, 3], &d)?;
    for sparse in [false, true] {
        let plain = Embedding::new(4, 2, &d)?.sparse(sparse);
        let slopes = |layer: &Embedding| -> Result<Vec<f32>> {
            let y = layer.forward(&indices)?;
            let grads = (&y * randn(&[2, 3, 2]))?.sum_all()?.backward()?;
            grads.get(layer.weight())?.expect("a gradient").to_vec()
        };
        manual_seed(16);
        let mut expected = slopes(&plain)?;
        assert_ne!(expected[6..], [0.0; 2]);
        expected[6..].fill(0.0);
        let padded = Embedding::new(4, 2, &d)?.sparse(sparse).padding(-1)?;
        assert_eq!(padded.forward(&indices)?.select(0, 1)?.select(0, 2)?.to_vec()?, [0.0; 2]);
        assert_ne!(padded.weight().to_vec()?[..6], [0.0; 6]);
        // A row of another value is looked up as it is, and is not trained either.
        padded.weight().set(&plain.weight().tensor().detach())?;
        manual_seed(16);
        assert_eq!(slopes(&padded)?, expected);
        assert_eq!(padded.forward(&indices)?.to_vec()?, plain.forward(&indices)?.to_vec()?);
        let before = padded.weight().to_vec()?;
        let mut opt = Sgd::new(padded.parameters(), 0.1);
        opt.step(&padded.forward(&indices)?.sum_all()?.backward()?)?;
        assert_eq!(padded.weight().to_vec()?[6..], before[6..]);
        assert_ne!(padded.weight().to_vec()?[..2], before[..2]);
    }
    let error = Embedding::new(4, 2, &d)?.padding(4).unwrap_err().to_string();
    assert_eq!(error, "Embedding: index 4 is out of range for size 4");
    Ok(())
}

#[test]
fn recurrent_layers_go_on_from_a_state() -> Result<()> {
    manual_seed(13);
    let d = cpu();
    let x = randn(&[2, 6, 3]);
    let (head, tail) = (x.narrow(1, 0, 4)?, x.narrow(1, 4, 2)?);
    let lstm = Lstm::stacked(3, 5, 2, false, &d)?;
    let (whole, end) = lstm.forward(&x)?;
    let (_, middle) = lstm.forward(&head)?;
    let (rest, last) = lstm.forward_from(&tail, &middle)?;
    within(&rest, &whole.narrow(1, 4, 2)?, 1e-6);
    within(&last.c, &end.c, 1e-6);
    let gru = Gru::new(3, 5, &d)?;
    let (whole, _) = gru.forward(&x)?;
    let (_, middle) = gru.forward(&head)?;
    within(&gru.forward_from(&tail, &middle)?.0, &whole.narrow(1, 4, 2)?, 1e-6);
    let (half, _) = gru.forward(&x.to::<F16>()?)?;
    within(&half.to()?, &whole, 5e-3);
    let both = Lstm::stacked(3, 5, 1, true, &d)?;
    assert_eq!(both.forward(&x)?.0.dims(), [2, 6, 10]);
    assert!(gru.forward(&randn(&[2, 0, 3])).is_err());
    let cell = GruCell::new(3, 5, &d)?;
    let error = |y: Result<Tensor<F32>>| y.unwrap_err().to_string();
    assert_eq!(error(cell.forward(&x)), "GruCell: the input must have shape [N, 3], found [2, 6, 3]");
    let other = cell.forward_from(&randn(&[2, 3]), &randn(&[3, 5]));
    assert_eq!(error(other), "GruCell: the state must have shape [2, 5], found [3, 5]");
    Ok(())
}

#[test]
fn padded_sequences_are_as_they_are_alone() -> Result<()> {
    manual_seed(13);
    let (d, lengths) = (cpu(), [4, 1, 6]);
    let x = randn(&[3, 6, 3]);
    // What stands in the padding does not matter.
    let padded = first(&lengths, 6)?.unsqueeze(2)?.where_(&x, f64::NAN)?.tracked();
    let (lstm, gru, rnn) =
        (Lstm::stacked(3, 5, 2, true, &d)?, Gru::stacked(3, 5, 2, true, &d)?, Rnn::stacked(3, 5, 2, true, &d)?);
    let (y, end) = lstm.forward_padded(&padded, &lengths)?;
    let (gru_y, gru_end) = gru.forward_padded(&padded, &lengths)?;
    let (rnn_y, rnn_end) = rnn.forward_padded(&padded, &lengths)?;
    for (i, &length) in lengths.iter().enumerate() {
        let alone = x.narrow(0, i, 1)?.narrow(1, 0, length)?;
        let (expected, last) = lstm.forward(&alone)?;
        let (of_gru, of_rnn) = (gru.forward(&alone)?, rnn.forward(&alone)?);
        for (y, expected) in [(&y, &expected), (&gru_y, &of_gru.0), (&rnn_y, &of_rnn.0)] {
            let y = y.narrow(0, i, 1)?;
            within(&y.narrow(1, 0, length)?, expected, 1e-6);
            assert_eq!(y.narrow(1, length, 6 - length)?.count_nonzero([])?.item()?, 0);
        }
        let ends = [(&end.h, &last.h), (&end.c, &last.c), (&gru_end, &of_gru.1), (&rnn_end, &of_rnn.1)];
        for (end, expected) in ends {
            within(&end.narrow(1, i, 1)?, expected, 1e-6);
        }
    }
    let grads = ((y.sum_all()? + gru_y.sum_all()?)? + rnn_y.sum_all()?)?.backward()?;
    assert!(grads.get(&padded)?.expect("x takes part").to_vec()?.iter().all(|v| v.is_finite()));
    for parameter in lstm.parameters() {
        assert!(grads.get(&parameter)?.expect("every parameter takes part").to_vec()?.iter().all(|v| v.is_finite()));
    }
    let (_, middle) = gru.forward_padded(&x.narrow(1, 0, 2)?, &[2, 1, 2])?;
    assert_eq!(gru.forward_padded_from(&x.narrow(1, 2, 4)?, &[2, 1, 4], &middle)?.0.dims(), [3, 4, 10]);
    let error = lstm.forward_padded(&x, &[4, 0, 6]).unwrap_err().to_string();
    assert_eq!(error, "Lstm: lengths must be 3 numbers from 1 to 6, one for each sequence, found [4, 0, 6]");
    assert!(lstm.forward_padded(&x, &[4, 7, 6]).is_err() && gru.forward_padded(&x, &[4, 1]).is_err());
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

fn statistics(norm: &BatchNorm2d) -> Result<(Vec<f32>, Vec<f32>, Vec<f32>)> {
    let all = norm.named_statistics();
    Ok((norm.running_mean().tensor().to_vec()?, norm.running_var().tensor().to_vec()?, all[2].1.tensor().to_vec()?))
}

#[test]
fn running_statistics_move_when_the_step_is_taken() -> Result<()> {
    let d = cpu();
    let norm = BatchNorm2d::new(1, &d)?;
    let mut opt = Sgd::new(norm.parameters(), 0.0);
    let mut scaler = GradScaler::builder().init_scale(2.0).build(&d)?;
    let x = Tensor::<F32>::from_vec(vec![1.0, 3.0, 5.0, 7.0], [2, 1, 1, 2], &d)?;
    let start = (vec![0.0], vec![1.0], vec![0.0]);
    // Mean 4, variance 20 / 3, a tenth of each.
    let moved = (vec![0.4], vec![0.9 + 2.0 / 3.0], vec![1.0]);
    let loss = |factor: f32| (norm.forward(&x.to::<F16>()?)? * factor)?.sum_all();

    let grads = scaler.scale(&loss(f32::INFINITY)?)?.backward()?;
    assert!(!scaler.step(&mut opt, grads)?.was_taken()?);
    scaler.update()?;
    assert_eq!(statistics(&norm)?, start, "a skipped step leaves no trace");
    drop(loss(1.0)?);
    norm.commit()?;
    assert_eq!(statistics(&norm)?, start, "a graph that is gone takes its change along");

    let grads = scaler.scale(&loss(1.0)?)?.backward()?;
    assert_eq!(statistics(&norm)?, start, "nothing moves before the step");
    scaler.step(&mut opt, grads)?;
    let close = |found: (Vec<f32>, Vec<f32>, Vec<f32>), expected: &(Vec<f32>, Vec<f32>, Vec<f32>)| {
        assert!((found.0[0] - expected.0[0]).abs() <= 1e-6 && (found.1[0] - expected.1[0]).abs() <= 1e-6, "{found:?}");
        assert_eq!(found.2, expected.2);
    };
    close(statistics(&norm)?, &moved);
    norm.commit()?;
    close(statistics(&norm)?, &moved);

    let calibrated = BatchNorm2d::new(1, &d)?;
    no_grad(|| calibrated.forward(&x))?;
    assert_eq!(statistics(&calibrated)?, start);
    calibrated.commit()?;
    close(statistics(&calibrated)?, &moved);
    let kept = calibrated.forward(&x)?;
    calibrated.commit()?;
    assert_eq!(statistics(&calibrated)?.2, [2.0]);
    drop(kept);
    Ok(())
}

/// As in PyTorch, a frozen norm in training mode goes on counting; with nothing trained below it no step decides about that.
#[test]
fn statistics_without_a_graph_move_at_once() -> Result<()> {
    let d = cpu();
    let x = Tensor::<F32>::from_vec(vec![1.0, 3.0, 5.0, 7.0], [2, 1, 1, 2], &d)?;
    let frozen = BatchNorm2d::new(1, &d)?;
    frozen.set_trainable(false);
    for norm in [frozen, BatchNorm2d::new(1, &d)?.without_affine()] {
        let head = Linear::new(2, 1, &d)?;
        let mut opt = Sgd::new(head.parameters(), 0.1);
        for batches in 1..=2 {
            let h = norm.forward(&x)?.reshape([2, 2])?;
            assert_eq!(statistics(&norm)?.2, [batches as f32]);
            opt.step(&head.forward(&h)?.sqr()?.mean_all()?.backward()?)?;
            norm.commit()?;
            assert_eq!(statistics(&norm)?.2, [batches as f32], "once for each batch");
        }
        // Below it something is trained: the graph carries the change, a skipped step drops it.
        let mut scaler = GradScaler::builder().init_scale(2.0).build(&d)?;
        let below = x.tracked();
        let loss = (norm.forward(&(&below * 1.0)?)? * f32::INFINITY)?.sum_all()?;
        drop(scaler.unscale(scaler.scale(&loss)?.backward()?)?);
        drop(loss);
        norm.eval();
        norm.forward(&x)?;
        norm.train();
        no_grad(|| norm.forward(&x))?;
        assert_eq!(statistics(&norm)?.2, [2.0]);
        norm.commit()?;
        assert_eq!(statistics(&norm)?.2, [3.0]);
    }
    Ok(())
}

#[test]
fn evaluation_uses_running_statistics() -> Result<()> {
    let d = cpu();
    let norm = BatchNorm2d::new(2, &d)?;
    norm.running_mean().set(&Tensor::from_vec(vec![1.0, 2.0], [2], &d)?)?;
    norm.running_var().set(&Tensor::from_vec(vec![4.0, 9.0], [2], &d)?)?;
    norm.eval();
    let y = norm.forward(&Tensor::<F32>::full([1, 2, 1, 1], 5.0, &d)?)?;
    within(&y, &Tensor::from_vec(vec![2.0, 1.0], [1, 2, 1, 1], &d)?, 1e-5);
    assert!(norm.forward(&randn(&[1, 3, 2, 2])).is_err());
    assert!(norm.running_mean().set(&randn(&[3])).is_err());
    Ok(())
}

#[test]
fn a_checkpointed_norm_counts_its_batch_once() -> Result<()> {
    let d = cpu();
    let norm = std::sync::Arc::new(BatchNorm2d::new(1, &d)?);
    let mut opt = Sgd::new(norm.parameters(), 0.1);
    let x = randn(&[2, 1, 2, 2]).tracked();
    let inner = norm.clone();
    let y = checkpoint(move |x: &Tensor<F32>| inner.forward(x), &x)?;
    opt.step(&y.sum_all()?.backward()?)?;
    norm.commit()?;
    assert_eq!(statistics(&norm)?.2, [1.0]);
    Ok(())
}

#[test]
fn an_embeddings_gradient_sums_repeated_rows_in_f32() -> Result<()> {
    // The same values in F16 would overflow: 64000 + 64000. (Scenario 10 of the scaler, where PyTorch reports inf.)
    let d = cpu();
    let table = Embedding::new(3, 1, &d)?;
    let rows = Tensor::<I64>::from_vec(vec![0, 1, 0], [3], &d)?;
    let weights = Tensor::<F32>::from_vec(vec![64000.0, 32.0, 64000.0], [3, 1], &d)?;
    let grads = (table.forward(&rows)? * &weights)?.sum_all()?.backward()?;
    assert_eq!(grads.get(table.weight())?.unwrap().to_vec()?, [128_000.0, 32.0, 0.0]);
    assert!(table.forward(&Tensor::<I64>::from_vec(vec![3], [1], &d)?).is_err());
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

#[test]
fn a_table_may_be_given_and_shared() -> Result<()> {
    let out = Linear::new(3, 5, &cpu())?.without_bias();
    let table = Embedding::from_parameters(out.weight().clone())?;
    let x = table.forward(&Tensor::<I64>::arange(0, 5, &cpu())?)?;
    assert_eq!(x.to_vec()?, out.weight().to_vec()?);
    let tied = (table, out);
    assert_eq!(names(&tied), ["0.weight"]);
    let line = Parameter::new(&randn(&[4]))?;
    let error = Embedding::from_parameters(line).unwrap_err().to_string();
    assert_eq!(error, "Embedding: the table must have 2 dimensions, found shape [4]");
    Ok(())
}
