//! What an optimizer's part of a file brings back.

use super::TrainState;
use crate::io::TensorFile;
use crate::nn::{Linear, Module};
use crate::optim::{Adam, AdamW, Muon, NAdam, Optimizer, RmsProp, Sgd};
use crate::{Device, F32, Parameter, Result, Tensor};
use std::path::PathBuf;

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("amp-resumed-{}-{name}.safetensors", std::process::id()))
}

/// A model, and a parameter that is in the optimizer alone.
struct Run {
    net: Linear,
    temperature: Parameter,
    opt: AdamW,
}

impl Run {
    fn new(start: f32) -> Result<Self> {
        let d = Device::cpu();
        let net = Linear::new(2, 1, &d)?;
        let temperature = Parameter::new(&Tensor::full([1], start, &d)?)?;
        let opt = AdamW::new(net.parameters(), 0.1).group([temperature.clone()]).lr(0.5);
        Ok(Self { net, temperature, opt })
    }

    fn train(&mut self, steps: usize) -> Result<Vec<u32>> {
        let x = Tensor::<F32>::from_vec(vec![0.5, -1.5], [1, 2], &Device::cpu())?;
        for _ in 0..steps {
            let y = (self.net.forward(&x)? * &self.temperature.tensor())?;
            self.opt.step(&y.sqr()?.sum_all()?.backward()?)?;
        }
        let all = self.net.parameters().into_iter().chain([self.temperature.clone()]);
        Ok(all.map(|p| p.to_vec()).collect::<Result<Vec<_>>>()?.concat().into_iter().map(f32::to_bits).collect())
    }

    fn state(&mut self) -> TrainState<'_> {
        TrainState::of(&self.net).optimizer(&mut self.opt)
    }
}

#[test]
fn a_parameter_of_the_optimizer_alone_resumes_bit_for_bit() -> Result<()> {
    let path = path("alone");
    let mut straight = Run::new(2.0)?;
    straight.train(3)?;
    straight.state().save(&path)?;
    let mut resumed = Run::new(1.0)?;
    resumed.state().load(&path)?;
    assert_eq!(resumed.temperature.to_vec()?, straight.temperature.to_vec()?);
    assert_eq!(resumed.train(3)?, straight.train(3)?);
    // Without it the file is refused, and nothing has changed.
    let mut file = straight.state().write()?;
    let name = "optimizer.0.parameter.2.value";
    file.remove(name);
    let before = resumed.train(0)?;
    let error = reloaded(&mut resumed, &mut file).expect_err("a value is missing").to_string();
    assert!(error.contains(name), "{error}");
    assert_eq!(resumed.train(0)?, before);
    std::fs::remove_file(path).ok();
    Ok(())
}

/// Reads `file` with a checksum that fits.
fn reloaded(run: &mut Run, file: &mut TensorFile) -> Result<()> {
    let checksum = file.checksum("amp.checksum")?;
    file.set_metadata("amp.checksum", format!("{checksum:016x}"));
    run.state().read(file)
}

/// Files that were written before settings and such values were saved.
#[test]
fn files_without_settings_are_read_as_they_were() -> Result<()> {
    let mut run = Run::new(2.0)?;
    run.train(2)?;
    let mut file = run.state().write()?;
    file.remove("optimizer.0.parameter.2.value");
    file.metadata.retain(|key, _| !key.starts_with("optimizer.0.group."));
    let mut other = Run::new(1.0)?;
    other.opt = other.opt.weight_decay(0.75);
    reloaded(&mut other, &mut file)?;
    assert_eq!(other.net.weight().to_vec()?, run.net.weight().to_vec()?);
    assert_eq!(other.temperature.to_vec()?, [1.0]);
    Ok(())
}

/// Steps of two optimizers on copies of one model: the second is made with other settings and loads the first's.
fn continues_alike<O: Optimizer>(name: &str, made: impl Fn(Linear) -> O, other: impl Fn(Linear) -> O) -> Result<()> {
    let (d, path) = (Device::cpu(), path(name));
    let x = Tensor::<F32>::from_vec(vec![0.5, -1.5], [1, 2], &d)?;
    let step = |net: &Linear, opt: &mut O| opt.step(&net.forward(&x)?.sqr()?.sum_all()?.backward()?);
    let share = |net: &Linear| Linear::from_parameters(net.weight().clone(), net.bias().cloned());
    let net = Linear::new(2, 1, &d)?;
    let mut opt = made(share(&net)?);
    (0..3).try_for_each(|_| step(&net, &mut opt))?;
    TrainState::of(&net).optimizer(&mut opt).save(&path)?;
    let resumed = Linear::new(2, 1, &d)?;
    let mut loaded = other(share(&resumed)?);
    TrainState::of(&resumed).optimizer(&mut loaded).load(&path)?;
    std::fs::remove_file(path).ok();
    for _ in 0..3 {
        step(&net, &mut opt)?;
        step(&resumed, &mut loaded)?;
    }
    assert_eq!(resumed.weight().to_vec()?, net.weight().to_vec()?, "{name}");
    Ok(())
}

/// As `Optimizer.load_state_dict` of PyTorch, which restores all of its `param_groups`.
#[test]
fn settings_come_back_with_the_optimizer() -> Result<()> {
    let p = |net: Linear| net.parameters();
    continues_alike(
        "adam",
        |net| Adam::new(p(net), 0.1).betas((0.5, 0.75)).eps(1e-3).weight_decay(0.25).amsgrad(true),
        |net| Adam::new(p(net), 0.1),
    )?;
    continues_alike(
        "sgd",
        |net| Sgd::new(p(net), 0.1).momentum(0.9).nesterov(true).weight_decay(0.1),
        |net| Sgd::new(p(net), 0.1),
    )?;
    continues_alike(
        "rmsprop",
        |net| RmsProp::new(p(net), 0.01).momentum(0.5),
        |net| RmsProp::new(p(net), 0.01).centered(true),
    )?;
    continues_alike(
        "nadam",
        |net| NAdam::new(p(net), 0.01).momentum_decay(0.3).weight_decay(0.2),
        |net| NAdam::new(p(net), 0.01).weight_decay(0.1),
    )?;
    let p = |net: Linear| [net.weight().clone()];
    continues_alike(
        "muon",
        |net| Muon::new(p(net), 0.1).nesterov(false).ns_steps(3).ns_coefficients(2.0, -1.5, 0.5).match_adamw(),
        |net| Muon::new(p(net), 0.1).eps(0.5),
    )
}

#[test]
fn settings_that_nobody_knows_are_refused() -> Result<()> {
    let mut run = Run::new(2.0)?;
    run.train(1)?;
    let key = "optimizer.0.group.1";
    for (text, words) in [
        ("beta1=0.9 sharpness=0.5", "`sharpness`"),
        ("beta1=nothing", "`beta1`"),
        ("amsgrad=2", "`amsgrad`"),
        ("beta1", "`beta1`"),
        ("beta1=1.5", "beta1"),
    ] {
        let mut file = run.state().write()?;
        file.set_metadata(key, text);
        let error = reloaded(&mut run, &mut file).expect_err(text).to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
    // One that an older library did not have stays as it is here.
    let mut file = run.state().write()?;
    file.set_metadata(key, "beta1=0.5");
    reloaded(&mut run, &mut file)
}
