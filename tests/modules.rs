//! Modules in regions: their class decides, not the name of the method.

use amp::nn::{
    BatchNorm1d, BatchNorm2d, BatchNorm3d, Conv2d, Dropout, Embedding, InstanceNorm, LayerNorm, Linear, Lstm,
    LstmState, MultiHeadAttention, PRelu, Relu, Sequential, TransformerDecoderLayer, TransformerEncoderLayer,
    WeightNorm,
};
use amp::prelude::*;
use std::sync::Arc;

struct Net {
    conv: Conv2d,
    norm: BatchNorm2d,
    chain: Sequential<(Linear, Relu, Linear)>,
    wide: LayerNorm,
    drop: Dropout,
}

/// What every call returned.
#[derive(Debug, PartialEq)]
struct Seen {
    conv: amp::DType,
    norm: amp::DType,
    chain: amp::DType,
    wide: amp::DType,
    drop: amp::DType,
}

impl Net {
    fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            conv: Conv2d::new(1, 2, 3, device)?.padding(1),
            norm: BatchNorm2d::new(2, device)?,
            chain: Sequential((Linear::new(32, 8, device)?, Relu, Linear::new(8, 4, device)?)),
            wide: LayerNorm::new([4], device)?,
            drop: Dropout::new(0.5),
        })
    }

    #[autocast(P)]
    fn forward<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<(Tensor<F32>, Seen)> {
        let conv: Tensor<P> = self.conv.forward(x)?;
        let norm: Tensor<F32> = self.norm.forward(&conv)?;
        let flat = norm.flatten(1, -1)?;
        let chain: Tensor<P> = self.chain.forward(&flat)?;
        let wide: Tensor<F32> = self.wide.forward(&chain)?;
        let drop: Tensor<P> = self.drop.forward(&chain)?;
        let [conv, norm, chain, drop] = [conv.dtype(), norm.dtype(), chain.dtype(), drop.dtype()];
        let seen = Seen { conv, norm, chain, wide: wide.dtype(), drop };
        Ok((wide, seen))
    }
}

#[test]
fn lower_modules_narrow_full_ones_widen_and_the_others_keep() -> Result<()> {
    let device = Device::best();
    let net = Net::new(&device)?;
    let x = Tensor::<F32>::randn([3, 1, 4, 4], &device)?;
    let expected =
        |lower| Seen { conv: lower, norm: amp::DType::F32, chain: lower, wide: amp::DType::F32, drop: lower };
    assert_eq!(net.forward::<F16>(&x)?.1, expected(amp::DType::F16));
    assert_eq!(net.forward::<BF16>(&x)?.1, expected(amp::DType::BF16));
    assert_eq!(net.forward::<F32>(&x)?.1, expected(amp::DType::F32));
    Ok(())
}

#[test]
fn a_region_equals_the_same_program_with_casts_by_hand() -> Result<()> {
    let device = Device::best();
    let net = Net::new(&device)?;
    let x = Tensor::<F32>::randn([3, 1, 4, 4], &device)?;
    let by_hand = {
        let conv = net.conv.forward(&x.to::<F16>()?)?;
        let flat = net.norm.forward(&conv.to::<F32>()?)?.flatten(1, -1)?;
        let chain = net.chain.forward(&flat.to::<F16>()?)?;
        net.wide.forward(&chain.to::<F32>()?)?
    };
    assert_eq!(net.forward::<F16>(&x)?.0.to_vec()?, by_hand.to_vec()?);
    Ok(())
}

/// A region takes the layer's input in its precision, and what the layer is added to as it is.
#[test]
fn what_a_layer_is_added_to_keeps_its_precision() -> Result<()> {
    #[autocast(P)]
    fn forward<P: AutocastPrecision>(layer: &Linear, x: &Tensor<F32>, residual: &Tensor<F32>) -> Result<Tensor<F32>> {
        layer.forward_add(x, residual)
    }
    let device = Device::best();
    let (layer, x) = (Linear::new(5, 4, &device)?, Tensor::<F32>::randn([3, 5], &device)?);
    // No 16-bit number is next to 1.
    let residual = Tensor::<F32>::full([3, 4], 1.0 + f32::EPSILON, &device)?;
    let narrow: Tensor<F32> = layer.forward_add(&x.to::<BF16>()?, &residual)?;
    assert_eq!(forward::<BF16>(&layer, &x, &residual)?.to_vec()?, narrow.to_vec()?);
    assert_ne!(forward::<F32>(&layer, &x, &residual)?.to_vec()?, narrow.to_vec()?);
    let nothing = Linear::from_parameters(Parameter::new(&Tensor::<F32>::zeros([4, 5], &device)?)?, None)?;
    assert_eq!(forward::<BF16>(&nothing, &x, &residual)?.to_vec()?, [1.0 + f32::EPSILON; 12]);
    Ok(())
}

/// The residual block's norms as one call each: the class of the plain forward, and the bits of the operations by themselves.
#[test]
fn norms_with_relu_and_residual_are_those_operations_in_a_region() -> Result<()> {
    #[autocast(P)]
    fn fused<P: AutocastPrecision>(
        net: &(Conv2d, BatchNorm2d),
        x: &Tensor<F32>,
        residual: &Tensor<F32>,
    ) -> Result<Tensor<F32>> {
        let h = net.1.forward_relu(&net.0.forward(x)?)?;
        net.1.forward_add_relu(&net.0.forward(&h)?, residual)
    }
    #[autocast(P)]
    fn parts<P: AutocastPrecision>(
        net: &(Conv2d, BatchNorm2d),
        x: &Tensor<F32>,
        residual: &Tensor<F32>,
    ) -> Result<Tensor<F32>> {
        let h = net.1.forward(&net.0.forward(x)?)?.relu()?;
        (net.1.forward(&net.0.forward(&h)?)? + residual)?.relu()
    }
    fn gradients(y: &Tensor<F32>, x: &Tensor<F32>) -> Result<Vec<f32>> {
        let loss = (y * x.detach())?.sum_all()?;
        let mut scaler = GradScaler::builder().init_scale(1.0).build(y.device())?;
        let scaled = scaler.scale(&loss)?.backward()?;
        let grads = scaler.unscale(scaled)?;
        grads.get(x)?.expect("x takes part").to_vec()
    }
    let device = Device::best();
    let net = (Conv2d::new(3, 3, 3, &device)?.padding(1), BatchNorm2d::new(3, &device)?);
    let x = Tensor::<F32>::randn([2, 3, 7, 5], &device)?.tracked();
    // No 16-bit number is next to 1.
    let residual = Tensor::<F32>::full([2, 3, 7, 5], 1.0 + f32::EPSILON, &device)?;
    for training in [true, false] {
        if !training {
            net.1.eval();
        }
        macro_rules! same {
            ($P:ty) => {{
                let (one, other) = (fused::<$P>(&net, &x, &residual)?, parts::<$P>(&net, &x, &residual)?);
                assert_eq!(one.to_vec()?, other.to_vec()?);
                assert_eq!(gradients(&one, &x)?, gradients(&other, &x)?);
            }};
        }
        same!(F32);
        same!(BF16);
        same!(F16);
    }
    Ok(())
}

#[test]
fn norms_of_lines_and_volumes_have_relu_and_residual_in_a_region() -> Result<()> {
    #[autocast(bf16)]
    fn fused(net: &(BatchNorm3d, BatchNorm1d), x: &Tensor<F32>, residual: &Tensor<F32>) -> Result<Tensor<F32>> {
        let lines = net.0.forward_relu(x)?.flatten(2, -1)?;
        net.1.forward_add_relu(&lines, residual)
    }
    #[autocast(bf16)]
    fn parts(net: &(BatchNorm3d, BatchNorm1d), x: &Tensor<F32>, residual: &Tensor<F32>) -> Result<Tensor<F32>> {
        let lines = net.0.forward(x)?.relu()?.flatten(2, -1)?;
        (net.1.forward(&lines)? + residual)?.relu()
    }
    let device = Device::best();
    let net = (BatchNorm3d::new(3, &device)?, BatchNorm1d::new(3, &device)?);
    let x = Tensor::<F32>::randn([2, 3, 2, 3, 5], &device)?;
    // No 16-bit number is next to 1.
    let residual = Tensor::<F32>::full([2, 3, 30], 1.0 + f32::EPSILON, &device)?;
    assert_eq!(fused(&net, &x, &residual)?.to_vec()?, parts(&net, &x, &residual)?.to_vec()?);
    Ok(())
}

#[derive(Module)]
struct Reader {
    table: Embedding,
    attention: MultiHeadAttention,
    curve: PRelu,
    norm: InstanceNorm,
    memory: Lstm,
}

impl Reader {
    fn new(device: &Device) -> Result<Self> {
        Ok(Self {
            table: Embedding::new(7, 4, device)?.padding(0)?,
            attention: MultiHeadAttention::new(4, 2, device)?.causal(true),
            curve: PRelu::new(3, device)?,
            norm: InstanceNorm::new(3).affine(device)?,
            memory: Lstm::new(4, 2, device)?,
        })
    }

    #[autocast(P)]
    fn forward<P: AutocastPrecision>(&self, words: &Tensor<I64>) -> Result<Tensor<F32>> {
        let (present, h) = (words.ne(0)?, self.table.forward(words)?);
        let h = self.attention.forward_padded(&h, &h, &h, &present, None)?;
        let h = self.norm.forward(&self.curve.forward(&h)?)?;
        let (_, state) = self.memory.forward(&h)?;
        let state: LstmState<P> = state.detach();
        let (y, _) = self.memory.forward_from(&h, &state)?;
        y.reshape((y.dims()[0], ..))
    }

    fn by_hand<P: AutocastPrecision>(&self, words: &Tensor<I64>) -> Result<Tensor<F32>> {
        let (present, h) = (words.ne(0)?, self.table.forward(words)?.to::<P>()?);
        let h = self.attention.forward_padded(&h, &h, &h, &present, None)?;
        let h = self.norm.forward(&self.curve.forward(&h)?.to::<F32>()?)?.to::<P>()?;
        let state = self.memory.forward(&h)?.1.detach();
        let y = self.memory.forward_from(&h, &state)?.0;
        y.reshape([3, y.dims()[1..].iter().product()])?.to()
    }

    /// Result and all gradients.
    fn learned(&self, y: &Tensor<F32>) -> Result<Vec<Vec<f32>>> {
        let mut scaler = GradScaler::builder().init_scale(1.0).build(y.device())?;
        let scaled = scaler.scale(&y.sqr()?.sum_all()?)?.backward()?;
        let grads = scaler.unscale(scaled)?;
        let mut found = vec![y.to_vec()?];
        for p in self.parameters() {
            found.push(grads.get(&p)?.map_or(Ok(vec![]), |grad| grad.to_vec())?);
        }
        Ok(found)
    }
}

/// Padded attention, embeddings with padding, learned slopes, instance norms and states out of the graph: a region does what
/// casts by hand do, with the same gradients; so does a checkpointed segment.
#[test]
fn layers_over_padded_sequences_are_those_with_casts_by_hand() -> Result<()> {
    let device = Device::best();
    let reader = Arc::new(Reader::new(&device)?);
    let words = Tensor::<I64>::from_slice(&[3, 1, 6, 2, 5, 0, 4, 0, 0], [3, 3], &device)?;
    macro_rules! same {
        ($P:ty) => {{
            let found = reader.learned(&reader.forward::<$P>(&words)?)?;
            assert_eq!(found, reader.learned(&reader.by_hand::<$P>(&words)?)?);
            assert!(found.iter().flatten().all(|v| v.is_finite()));
            assert_eq!(found[1][..4], [0.0; 4], "the padding's row is not trained");
            let (net, present) = (reader.clone(), words.ne(0)?);
            let segment = move |h: &Tensor<$P>| {
                let h = net.attention.forward_padded(h, h, h, &present, None)?;
                net.norm.forward(&net.curve.forward(&h)?)
            };
            let h = reader.table.forward(&words)?.to::<$P>()?.detach();
            let plain = reader.learned(&segment(&h)?)?;
            assert_eq!(reader.learned(&amp::checkpoint(segment, &h)?)?, plain);
        }};
    }
    same!(F32);
    same!(BF16);
    same!(F16);
    Ok(())
}

#[derive(Module)]
struct Translator {
    encoder: TransformerEncoderLayer,
    decoder: TransformerDecoderLayer,
    head: WeightNorm,
}

impl Translator {
    #[autocast(P)]
    fn forward<P: AutocastPrecision>(&self, x: &Tensor<F32>, seen: &Tensor<Bool>) -> Result<Tensor<F32>> {
        let memory = self.encoder.forward(x, Some(seen))?;
        let y = self.decoder.forward(x, &memory, None, Some(seen))?;
        y.linear(&self.head.weight()?, None)
    }

    fn by_hand<P: AutocastPrecision>(&self, x: &Tensor<F32>, seen: &Tensor<Bool>) -> Result<Tensor<F32>> {
        let x = x.to::<P>()?;
        let memory = self.encoder.forward(&x, Some(seen))?.to::<P>()?;
        let y = self.decoder.forward(&x, &memory, None, Some(seen))?.to::<P>()?;
        y.linear(&self.head.weight()?.to::<P>()?, None)?.to()
    }
}

/// Transformers' layers are given the region's precision, masks as they are, and return F32.
#[test]
fn layers_of_transformers_are_those_with_casts_by_hand() -> Result<()> {
    let device = Device::best();
    let net = Translator {
        encoder: TransformerEncoderLayer::new(4, 2, 8, &device)?.dropout(0.0),
        decoder: TransformerDecoderLayer::new(4, 2, 8, &device)?.dropout(0.0).norm_first(true).causal(true),
        head: WeightNorm::new(Linear::new(4, 3, &device)?.weight())?,
    };
    let x = Tensor::<F32>::randn([2, 3, 4], &device)?;
    let seen = Tensor::<Bool>::from_slice(&[true, true, false, true, true, true], [2, 1, 1, 3], &device)?;
    macro_rules! same {
        ($($P:ty),*) => { $(
            let (found, by_hand) = (net.forward::<$P>(&x, &seen)?, net.by_hand::<$P>(&x, &seen)?);
            assert_eq!(found.to_vec()?, by_hand.to_vec()?);
            assert!(found.to_vec()?.iter().all(|v| v.is_finite()));
        )* };
    }
    same!(F32, BF16, F16);
    Ok(())
}

/// Containers of plain data are passed over, those of modules are looked into.
#[test]
fn what_is_no_module_is_passed_over_and_what_holds_modules_is_looked_into() -> Result<()> {
    #[derive(Module)]
    struct Mixed<P> {
        steps: std::cell::Cell<usize>,
        words: std::collections::HashMap<String, usize>,
        sizes: Vec<(String, usize)>,
        seen: std::sync::Mutex<Option<Vec<f32>>>,
        mean: Tensor<F32>,
        act: Box<dyn Fn(f32) -> f32>,
        cache: Option<Tensor<P>>,
        trained_by: (amp::optim::Sgd, GradScaler),
        pairs: Vec<(Linear, Option<Linear>)>,
        scale: Option<Parameter>,
    }
    let device = Device::best();
    let linear = || Linear::new(2, 3, &device);
    let mixed = Mixed::<F16> {
        steps: 0.into(),
        words: [("one".to_owned(), 1)].into(),
        sizes: vec![("two".to_owned(), 2)],
        seen: None.into(),
        mean: Tensor::zeros([3], &device)?,
        act: Box::new(|x| x),
        cache: None,
        trained_by: (amp::optim::Sgd::new(linear()?.parameters(), 0.1), GradScaler::new(&device)?),
        pairs: vec![(linear()?, None), (linear()?, Some(linear()?))],
        scale: Some(Parameter::new(&Tensor::ones([3], &device)?)?),
    };
    let plain = (mixed.steps.get(), mixed.words.len(), mixed.sizes.len(), mixed.seen.lock().unwrap().is_none());
    assert_eq!((plain, mixed.mean.rank(), (mixed.act)(1.0)), ((0, 1, 1, true), 1, 1.0));
    let names: Vec<String> = mixed.named_parameters().into_iter().map(|(name, _)| name).collect();
    let held =
        ["pairs.0.0", "pairs.1.0", "pairs.1.1"].map(|path| ["weight", "bias"].map(|name| format!("{path}.{name}")));
    let expected: Vec<String> = held.into_iter().flatten().chain(["scale".to_owned()]).collect();
    assert_eq!(names, expected);
    assert!(mixed.pairs[0].1.is_none() && mixed.scale.is_some() && mixed.cache.is_none());
    assert!(mixed.trained_by.0.learning_rate() > 0.0 && mixed.trained_by.1.is_enabled());
    Ok(())
}

/// A parameter of a type is a module where what holds it is one if it is.
#[test]
fn parameters_of_types_are_looked_into_where_containers_hold_them() -> Result<()> {
    #[derive(Module)]
    struct Held<'a, A, B, C, D, E> {
        both: (A, [B; 1]),
        named: std::collections::BTreeMap<String, C>,
        layers: Box<[D]>,
        inner: &'a E,
        chain: Sequential<(A, B)>,
    }
    let device = Device::best();
    let linear = || Linear::new(2, 3, &device);
    let inner = linear()?;
    let held = Held {
        both: (linear()?, [linear()?]),
        named: [("one".to_owned(), linear()?)].into(),
        layers: vec![linear()?].into(),
        inner: &inner,
        chain: Sequential((linear()?, linear()?)),
    };
    assert_eq!((held.both.1.len(), held.named.len(), held.layers.len()), (1, 1, 1));
    let names: Vec<String> = held.named_parameters().into_iter().map(|(name, _)| name).collect();
    let paths = ["both.0", "both.1.0", "named.one", "layers.0", "inner", "chain.0", "chain.1"];
    let expected: Vec<String> =
        paths.iter().flat_map(|path| ["weight", "bias"].map(|name| format!("{path}.{name}"))).collect();
    assert_eq!(names, expected);
    Ok(())
}

amp_policy! { halved { lower: [run] } }

/// A layer with an operation of its own, as a method.
struct Own {
    weight: Parameter,
}

impl Own {
    #[amp_op(lower)]
    fn run<P: AutocastPrecision>(&self, x: &Tensor<P>) -> Result<Tensor<P>> {
        x.matmul(&self.weight.to::<P>()?)
    }
}

#[test]
fn a_method_of_a_policy_is_an_operation_on_whatever_it_is_called() -> Result<()> {
    #[autocast(f16, policy = halved)]
    fn of_a_parameter(own: &Own, x: &Tensor<F32>) -> Result<amp::DType> {
        Ok(own.run(x)?.dtype())
    }
    #[autocast(bf16, lower(run))]
    fn of_an_element(all: &[Own], x: &Tensor<F32>) -> Result<amp::DType> {
        let wide = x.exp()?;
        Ok(all[0].run(&wide)?.dtype())
    }
    let device = Device::best();
    let (x, own) = (Tensor::ones([2, 2], &device)?, Own { weight: Parameter::new(&Tensor::ones([2, 2], &device)?)? });
    assert_eq!(of_a_parameter(&own, &x)?, amp::DType::F16);
    assert_eq!(of_an_element(&[own], &x)?, amp::DType::BF16);
    Ok(())
}

/// A module that is no `lower` one takes the other 16-bit precision: nothing is narrowed there.
#[autocast(f16)]
fn of_the_other_half(norm: &LayerNorm, act: &Relu, fc: &Linear, x: &Tensor<BF16>) -> Result<[Tensor<F32>; 3]> {
    let normed = norm.forward(x)?;
    let active = act.forward(x)?.to::<F32>()?;
    Ok([normed, active, fc.forward(&x.to::<F16>()?)?])
}

#[test]
fn halves_meet_where_nothing_is_narrowed() -> Result<()> {
    let device = Device::cpu();
    let (norm, fc) = (LayerNorm::new(4, &device)?, Linear::new(4, 4, &device)?);
    let x = Tensor::<F32>::from_slice(&[0.5, -1.0, 2.0, 3.0, -4.0, 5.5, 6.0, 7.0], [2, 4], &device)?.to::<BF16>()?;
    let [normed, active, projected] = of_the_other_half(&norm, &Relu, &fc, &x)?;
    assert_eq!(normed.to_vec()?, norm.forward(&x.to::<F32>()?)?.to_vec()?);
    assert_eq!(active.to_vec()?, x.to::<F32>()?.relu()?.to_vec()?);
    assert_eq!(projected.to_vec()?, fc.forward(&x.to::<F16>()?)?.to::<F32>()?.to_vec()?);
    Ok(())
}
