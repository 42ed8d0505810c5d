//! Files that were cut, flipped, forged or written for something else.

use super::*;
use crate::nn::{BatchNorm2d, Linear};
use crate::optim::{AdamW, StepLr};
use crate::precision::{BF16, F16, F32, Float};
use crate::{Error, Tensor};
use std::path::PathBuf;

type Net = (Linear, BatchNorm2d);

struct Run {
    net: Net,
    opt: AdamW,
    scaler: GradScaler,
    schedule: StepLr,
}

impl Run {
    fn new(scaled: bool) -> Result<Self> {
        let d = Device::cpu();
        let net = (Linear::new(2, 1, &d)?, BatchNorm2d::new(1, &d)?);
        let opt = AdamW::new(net.parameters(), 1e-2);
        let scaler = GradScaler::builder().enabled(scaled).init_scale(256.0).build(&d)?;
        Ok(Self { net, opt, scaler, schedule: StepLr::new(3, 0.5) })
    }

    fn once<P: Float>(&mut self) -> Result<()> {
        let x = Tensor::<F32>::from_vec(vec![1.0, 2.0, -1.0, 0.5], [2, 2], &Device::cpu())?.to::<P>()?;
        let y = self.net.0.forward(&x)?.to::<F32>()?.reshape([2, 1, 1, 1])?;
        let loss = self.net.1.forward(&y)?.sqr()?.mean_all()?;
        let grads = self.scaler.scale(&loss)?.backward()?;
        let step = self.scaler.step(&mut self.opt, grads)?;
        self.schedule.step(&mut self.opt, &step)?;
        self.scaler.update()
    }

    fn state(&mut self) -> TrainState<'_> {
        TrainState::new(&self.net, &mut self.opt, &mut self.scaler).schedule(&mut self.schedule)
    }
}

/// A file of its own, gone with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("amp-hostile-{}-{name}", std::process::id())))
    }

    fn write(&self, bytes: &[u8]) -> &std::path::Path {
        std::fs::write(&self.0, bytes).expect("a writable temporary directory");
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok();
    }
}

fn saved(run: &mut Run, scratch: &Scratch) -> Vec<u8> {
    run.state().save(&scratch.0).unwrap();
    std::fs::read(&scratch.0).expect("the file just written")
}

fn header_end(bytes: &[u8]) -> usize {
    8 + u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes")) as usize
}

#[test]
fn a_file_cut_anywhere_in_its_header_is_refused() -> Result<()> {
    let (scratch, mut run) = (Scratch::new("cut"), Run::new(true)?);
    run.once::<F16>()?;
    let good = saved(&mut run, &scratch);
    for length in (0..header_end(&good) + 9).chain([good.len() - 1]) {
        let result = run.state().load(scratch.write(&good[..length]));
        assert!(matches!(result, Err(Error::Format { .. })), "cut to {length} bytes: {result:?}");
    }
    run.state().load(scratch.write(&good))
}

#[test]
fn a_header_with_any_bit_flipped_is_refused() -> Result<()> {
    let (scratch, mut run) = (Scratch::new("flip"), Run::new(true)?);
    run.once::<F16>()?;
    let good = saved(&mut run, &scratch);
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 8);
        assert!(run.state().load(scratch.write(&bytes)).is_err(), "bit {} of byte {at}", at % 8);
    }
    for length in [0, 1, 7, good.len() as u64, 100_000_001, 1 << 40, u64::MAX - 7, u64::MAX] {
        let mut bytes = good.clone();
        bytes[..8].copy_from_slice(&length.to_le_bytes());
        assert!(run.state().load(scratch.write(&bytes)).is_err(), "header of {length} bytes");
    }
    Ok(())
}

/// A file with a valid checksum, changed by somebody who can compute one.
fn forged(run: &mut Run, change: impl FnOnce(&mut TensorFile)) -> TensorFile {
    let mut file = run.state().write().unwrap();
    change(&mut file);
    let checksum = file.checksum("amp.checksum").unwrap();
    file.set_metadata("amp.checksum", format!("{checksum:016x}"));
    file
}

#[test]
fn forged_contents_are_refused_or_harmless() -> Result<()> {
    let (d, mut run) = (Device::cpu(), Run::new(true)?);
    run.once::<F16>()?;
    let scaler = |text: &str| {
        let text = text.to_owned();
        move |file: &mut TensorFile| file.set_metadata("scaler.0", text)
    };
    let state = |scale: &str, growth: &str, tracker: &str| {
        format!(
            r#"{{"scale": {scale}, "growth_factor": {growth}, "backoff_factor": 0.5, "growth_interval": 2000, "_growth_tracker": {tracker}}}"#
        )
    };
    for text in [
        "",
        "null",
        "[1]",
        "{\"scale\": 1}",
        &state("0", "2", "0"),
        &state("-4", "2", "0"),
        &state("1e999", "2", "0"),
        &state("4", "3", "0"),
        &state("4", "0", "0"),
        &state("4", "2", "-1"),
        &state("4", "2", "1.5"),
    ] {
        let file = forged(&mut run, scaler(text));
        assert!(run.state().read(&file).is_err(), "scaler {text}");
    }
    let steps = |n: i64| Tensor::<crate::I64>::from_vec(vec![n], [1], &d);
    let (negative, two) = (steps(-1)?, Tensor::<crate::I64>::from_vec(vec![1, 2], [2], &d)?);
    for bad in [&negative, &two] {
        let file = forged(&mut run, |file| file.insert("optimizer.0.0.0.weight.steps", bad));
        assert!(run.state().read(&file).is_err());
    }
    let wide = Tensor::<F32>::zeros([1, 3], &d)?;
    for name in ["model.0.0.weight", "optimizer.0.0.0.weight.moment.first", "model.0.1.running_mean", "stranger"] {
        let file = forged(&mut run, |file| file.insert(name, &wide));
        assert!(run.state().read(&file).is_err(), "{name}");
    }
    for (key, text) in [("random", "1"), ("random", "x y"), ("schedule.0", "-1"), ("optimizer.0", "Sgd")] {
        let file = forged(&mut run, |file| file.set_metadata(key, text));
        assert!(run.state().read(&file).is_err(), "{key} = {text}");
    }
    // The largest counters there are: training goes on.
    let file = forged(&mut run, |file| {
        scaler(&state("4", "2", "18446744073709551615"))(file);
        file.set_metadata("schedule.0", u64::MAX.to_string());
        file.insert("optimizer.0.0.0.weight.steps", &steps(i64::MAX).expect("one number"));
    });
    run.state().read(&file)?;
    run.once::<F16>()
}

#[test]
fn a_file_of_one_precision_goes_on_in_another() -> Result<()> {
    let scratch = Scratch::new("precision");
    let trained = |run: &Run| run.net.parameters().iter().map(|p| p.to_vec()).collect::<Result<Vec<_>>>();
    for scaled in [true, false] {
        let mut run = Run::new(scaled)?;
        if scaled {
            run.once::<F16>()?
        } else {
            run.once::<BF16>()?
        }
        saved(&mut run, &scratch);
        let mut half = Run::new(true)?;
        half.state().load(&scratch.0)?;
        assert_eq!(trained(&half)?, trained(&run)?);
        assert_eq!(half.scaler.scale_value()?, 256.0);
        half.once::<F16>()?;
        let mut brain = Run::new(false)?;
        brain.state().load(&scratch.0)?;
        assert_eq!(trained(&brain)?, trained(&run)?);
        brain.once::<BF16>()?;
    }
    Ok(())
}

#[test]
fn weights_and_statistics_of_any_float_type_are_read() -> Result<()> {
    let mut run = Run::new(true)?;
    run.once::<F16>()?;
    let state = run.net.state();
    let mut file = TensorFile::new();
    for name in state.names() {
        match state.get::<F32>(name) {
            Ok(Some(tensor)) if !name.ends_with("tracked") => file.insert(name, &tensor.to::<F16>()?),
            _ => file.insert(name, &state.get::<crate::I64>(name)?.expect("named")),
        }
    }
    run.net.load_state(&file)?;
    assert_eq!(run.net.0.weight().tensor().stored_dtype(), amp_cpu::DType::F32);
    run.once::<F16>()
}
