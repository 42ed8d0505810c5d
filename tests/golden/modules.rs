//! Recurrent layers and attention with PyTorch's weights, running statistics, default initialisations.

use amp::nn;
use amp::prelude::*;

use crate::case::Tolerance::Accumulated;
use crate::case::{Case, Outs, Tolerance};
use crate::device;

/// Runs operation `op` on the inputs of `c`; `None` when this table has no such operation.
pub fn apply(op: &str, c: &Case) -> Result<Option<(Tolerance, Outs)>> {
    let device = device();
    Ok(Some(match op {
        "lstm" => {
            let (inputs, hidden, layers) = (c.size("input"), c.size("hidden"), c.size("layers"));
            let module = nn::Lstm::stacked(inputs, hidden, layers, c.flag("bidirectional"), &device)?;
            let module = if without_bias(c) { module.without_bias() } else { module };
            load(c, &module)?;
            let (y, state) = match lengths(c) {
                Some(lengths) => module.forward_padded(&c.x(0), &lengths)?,
                None => module.forward(&c.x(0))?,
            };
            (Accumulated, vec![y, state.h, state.c].into())
        }
        "gru" => {
            let (inputs, hidden, layers) = (c.size("input"), c.size("hidden"), c.size("layers"));
            let module = nn::Gru::stacked(inputs, hidden, layers, c.flag("bidirectional"), &device)?;
            let module = if without_bias(c) { module.without_bias() } else { module };
            load(c, &module)?;
            let (y, h) = match lengths(c) {
                Some(lengths) => module.forward_padded(&c.x(0), &lengths)?,
                None => module.forward(&c.x(0))?,
            };
            (Accumulated, vec![y, h].into())
        }
        "rnn" => {
            let (inputs, hidden, layers) = (c.size("input"), c.size("hidden"), c.size("layers"));
            let module = nn::Rnn::stacked(inputs, hidden, layers, c.flag("bidirectional"), &device)?;
            let module = if without_bias(c) { module.without_bias() } else { module };
            let module = if c.flag("relu") { module.relu() } else { module };
            load(c, &module)?;
            let (y, h) = match lengths(c) {
                Some(lengths) => module.forward_padded(&c.x(0), &lengths)?,
                None => module.forward(&c.x(0))?,
            };
            (Accumulated, vec![y, h].into())
        }
        "lstm_cell_twice" => {
            let module = nn::LstmCell::new(c.size("input"), c.size("hidden"), &device)?;
            let module = if without_bias(c) { module.without_bias() } else { module };
            load(c, &module)?;
            let x = c.x(0);
            let state = module.forward_from(&x, &module.forward(&x)?)?;
            (Accumulated, vec![state.h, state.c].into())
        }
        "gru_cell_twice" => {
            let module = nn::GruCell::new(c.size("input"), c.size("hidden"), &device)?;
            load(c, &module)?;
            let x = c.x(0);
            (Accumulated, module.forward_from(&x, &module.forward(&x)?)?.into())
        }
        "rnn_cell_twice" => {
            let module = nn::RnnCell::new(c.size("input"), c.size("hidden"), &device)?;
            let module = if c.flag("relu") { module.relu() } else { module };
            load(c, &module)?;
            let x = c.x(0);
            (Accumulated, module.forward_from(&x, &module.forward(&x)?)?.into())
        }
        "multi_head_attention" => {
            let module = nn::MultiHeadAttention::new(6, c.size("heads"), &device)?.causal(c.flag("causal"));
            let module = if without_bias(c) { module.without_bias() } else { module };
            load(c, &module)?;
            let x = c.x(0);
            let y = if c.given("lengths") {
                let lengths = c.sizes("lengths");
                let present = Tensor::<Bool>::from_fn(&x.dims()[..2], |i| i[1] < lengths[i[0]], &device)?;
                module.forward_padded(&x, &x, &x, &present, None)?
            } else {
                module.forward(&x, &x, &x, None)?
            };
            (Accumulated, y.into())
        }
        "attention_weights" => {
            let module = nn::MultiHeadAttention::across(6, c.size("heads"), 4, 3, &device)?;
            load(c, &module)?;
            let x = c.x(0);
            let part = x.narrow(1, 0, 4)?;
            let (key, value) = (part.narrow(2, 0, 4)?, part.narrow(2, 3, 3)?);
            let (y, weights) = module.forward_with_weights(&x, &key, &value, None, c.flag("averaged"))?;
            (Accumulated, vec![y, weights].into())
        }
        "transformer_encoder_layer" => {
            let module = nn::TransformerEncoderLayer::new(6, 2, 10, &device)?.dropout(0.0);
            let module = module.activation(activation(c)).norm_first(c.flag("norm_first"));
            load(c, &module)?;
            (Accumulated, module.forward(&c.x(0), None)?.into())
        }
        "transformer_decoder_layer" => {
            let module = nn::TransformerDecoderLayer::new(6, 2, 10, &device)?.dropout(0.0).causal(true);
            let module = module.activation(activation(c)).norm_first(c.flag("norm_first"));
            load(c, &module)?;
            let (x, present) = (c.x(0), [true, true, false, true, false, true]);
            let present = Tensor::<Bool>::from_slice(&present, [2, 1, 1, 3], &device)?;
            (Accumulated, module.forward(&x, &x.narrow(1, 0, 3)?, None, Some(&present))?.into())
        }
        "weight_norm_layer" => {
            let module = nn::WeightNorm::new(&Parameter::new(&c.x(0))?)?;
            c.set(0, module.direction())?;
            c.set(1, module.magnitude())?;
            (Accumulated, module.weight()?.into())
        }
        "spectral_norm_layer" => {
            let module = nn::SpectralNorm::new(&Parameter::new(&c.x(0))?)?;
            c.set(0, module.original())?;
            module.named_statistics()[1].1.set(&c.x(1))?;
            (Accumulated, module.weight()?.into())
        }
        "prelu_layer" => {
            let module = nn::PRelu::new(c.size("count"), &device)?;
            load(c, &module)?;
            (Accumulated, module.forward(&c.x(0))?.into())
        }
        "instance_norm_layer" => {
            let module = nn::InstanceNorm::new(c.size("channels")).eps(c.float("eps")).affine(&device)?;
            load(c, &module)?;
            (Accumulated, module.forward(&c.x(0))?.into())
        }
        "embedding_padding" => {
            let rows = c.floats("in1").expect("a table").0[0];
            let module = nn::Embedding::new(rows, 3, &device)?.padding(c.int("padding"))?;
            c.set(1, module.weight())?;
            (Accumulated, module.forward(&c.index(0))?.into())
        }
        "batch_norm_running" => (Accumulated, running_statistics(c)?),
        "init" => {
            compare_initialisation(c, &*build(c, &device)?)?;
            (Accumulated, Outs(Vec::new()))
        }
        _ => return Ok(None),
    }))
}

fn activation(c: &Case) -> nn::Activation {
    if c.text("activation") == "gelu" { nn::Activation::Gelu } else { nn::Activation::Relu }
}

fn without_bias(c: &Case) -> bool {
    c.given("bias") && !c.flag("bias")
}

/// After how many steps each sequence ends.
fn lengths(c: &Case) -> Option<Vec<usize>> {
    c.given("lengths").then(|| c.sizes("lengths"))
}

/// Sets the module's parameters to inputs 1, 2, .. in the order of PyTorch's names.
fn load(c: &Case, module: &dyn Module) -> Result<()> {
    let own = module.named_parameters();
    let names = c.texts("weights");
    assert_eq!(own.len(), names.len(), "{}: number of parameters", c.name);
    for (i, name) in names.iter().enumerate() {
        let name = name.trim_start_matches("mha.").trim_start_matches("layer.");
        let (_, parameter) = own.iter().find(|(n, _)| n == name).unwrap_or_else(|| panic!("{}: no {name}", c.name));
        c.set(i + 1, parameter)?;
    }
    Ok(())
}

/// Running mean and variance after three training batches, and an evaluation with them.
fn running_statistics(c: &Case) -> Result<Outs> {
    let (batches, probe) = (c.x(0), c.x(1));
    let module = nn::BatchNorm2d::new(batches.dims()[2], batches.device())?.momentum(c.float("momentum"));
    for i in 0..batches.dims()[0] {
        no_grad(|| module.forward(&batches.select(0, i)?))?;
        module.commit()?;
    }
    module.eval();
    Ok(vec![module.running_mean().tensor(), module.running_var().tensor(), module.forward(&probe)?].into())
}

fn build(c: &Case, device: &Device) -> Result<Box<dyn Module>> {
    amp::manual_seed(3);
    let size = |key| c.size(key);
    Ok(match c.name {
        "init/linear" => Box::new(nn::Linear::new(size("input"), size("output"), device)?),
        "init/conv1d" => Box::new(nn::Conv1d::new(size("input"), size("output"), size("kernel"), device)?),
        "init/conv2d" => Box::new(nn::Conv2d::new(size("input"), size("output"), size("kernel"), device)?),
        "init/conv_transpose2d" => {
            Box::new(nn::ConvTranspose2d::new(size("input"), size("output"), size("kernel"), device)?)
        }
        "init/embedding" => Box::new(nn::Embedding::new(size("count"), size("width"), device)?),
        "init/lstm" => Box::new(nn::Lstm::new(size("input"), size("hidden"), device)?),
        "init/gru" => Box::new(nn::Gru::new(size("input"), size("hidden"), device)?),
        "init/multi_head_attention" => Box::new(nn::MultiHeadAttention::new(size("width"), size("heads"), device)?),
        "init/layer_norm" => Box::new(nn::LayerNorm::new([size("width")], device)?),
        "init/batch_norm2d" => Box::new(nn::BatchNorm2d::new(size("channels"), device)?),
        other => panic!("{other}: no such module in this table"),
    })
}

/// Mean, spread and, of bounded distributions, the bounds, within what samples of this size scatter by.
fn compare_initialisation(c: &Case, module: &dyn Module) -> Result<()> {
    let own = module.named_parameters();
    let names = c.texts("parameters");
    assert_eq!(own.len(), names.len(), "{}: number of parameters", c.name);
    for name in names {
        let (_, parameter) = own.iter().find(|(n, _)| n == name).unwrap_or_else(|| panic!("{}: no {name}", c.name));
        let values: Vec<f64> = parameter.to_vec()?.into_iter().map(f64::from).collect();
        let (_, expected) = c.floats(name).expect("statistics of each parameter are stored");
        let [low, high, mean, std] = expected.try_into().map(|v: [f32; 4]| v.map(f64::from)).expect("four statistics");
        let n = values.len() as f64;
        let own_mean = values.iter().sum::<f64>() / n;
        let own_std = (values.iter().map(|v| (v - own_mean).powi(2)).sum::<f64>() / n).sqrt();
        let near = |found: f64, expected: f64, allowed: f64| (found - expected).abs() <= allowed;
        let place = format!("{}/{name}", c.name);
        assert!(near(own_mean, mean, 8.0 * std / n.sqrt()), "{place}: mean {own_mean}, PyTorch {mean}");
        assert!(near(own_std, std, 4.0 * std / n.sqrt()), "{place}: standard deviation {own_std}, PyTorch {std}");
        if high <= 2.0 * std || high == low {
            let (own_low, own_high) = values.iter().fold((f64::MAX, f64::MIN), |(a, b), &v| (a.min(v), b.max(v)));
            let gap = 16.0 * (high - low) / n;
            assert!(near(own_low, low, gap) && near(own_high, high, gap), "{place}: {own_low}..{own_high}");
        }
    }
    Ok(())
}
