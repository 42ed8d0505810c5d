use super::*;
use crate::io::TensorFile;
use crate::nn::{BatchNorm2d, Dropout, Linear};
use crate::optim::{AdamW, CosineLr, ReduceOnPlateau, RmsProp, Sgd};
use crate::precision::{F16, F32};
use crate::{Error, Tensor, manual_seed, random_state};
use std::path::PathBuf;

fn cpu() -> Device {
    Device::cpu()
}

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("amp-train-{}-{name}.safetensors", std::process::id()))
}

type Net = (Linear, BatchNorm2d, Dropout, Linear);

/// One of everything that training changes.
struct Run {
    net: Net,
    opt: AdamW,
    scaler: GradScaler,
    schedule: CosineLr,
    ema: Ema,
    steps: u64,
}

impl Run {
    fn new(seed: u64) -> Result<Self> {
        manual_seed(seed);
        let d = cpu();
        let net = (Linear::new(4, 6, &d)?, BatchNorm2d::new(3, &d)?, Dropout::new(0.3), Linear::new(6, 2, &d)?);
        let opt =
            AdamW::new(net.0.parameters(), 1e-2).group((&net.1, &net.3).parameters()).weight_decay(0.0).amsgrad(true);
        let scaler = GradScaler::builder().init_scale(1024.0).growth_interval(3).build(&d)?;
        let ema = Ema::new(net.parameters(), 0.9)?;
        Ok(Self { net, opt, scaler, schedule: CosineLr::new(20), ema, steps: 0 })
    }

    fn train(&mut self, steps: usize) -> Result<Vec<u32>> {
        (0..steps).map(|_| self.once()).collect()
    }

    fn once(&mut self) -> Result<u32> {
        let x = Tensor::<F32>::randn([8, 4], &cpu())?.to::<F16>()?;
        let h = self.net.0.forward(&x)?.reshape([8, 3, 1, 2])?;
        let h = self.net.2.forward(&self.net.1.forward(&h)?)?.reshape([8, 6])?.to::<F16>()?;
        let mut loss = self.net.3.forward(&h)?.to::<F32>()?.sqr()?.mean_all()?;
        if self.steps % 4 == 3 {
            loss = (loss * f32::INFINITY)?;
        }
        let grads = self.scaler.scale(&loss)?.backward()?;
        let step = self.scaler.step(&mut self.opt, grads)?;
        self.schedule.step(&mut self.opt, &step)?;
        self.ema.update(&step)?;
        self.scaler.update()?;
        self.steps += 1;
        Ok(loss.item()?.to_bits())
    }

    fn state(&mut self) -> TrainState<'_> {
        TrainState::new(&self.net, &mut self.opt, &mut self.scaler)
            .schedule(&mut self.schedule)
            .ema(&mut self.ema)
            .counter(&mut self.steps)
    }

    /// Everything, bit for bit.
    fn fingerprint(&mut self) -> Result<u64> {
        self.state().write()?.checksum("")
    }
}

#[test]
fn a_resumed_run_continues_bit_for_bit() -> Result<()> {
    let path = path("resume");
    let mut straight = Run::new(1)?;
    straight.train(6)?;
    straight.state().save(&path)?;
    let expected = straight.train(6)?;
    let mut resumed = Run::new(2)?;
    resumed.train(2)?;
    resumed.state().load(&path)?;
    assert_eq!(resumed.train(6)?, expected);
    assert_eq!(resumed.fingerprint()?, straight.fingerprint()?);
    std::fs::remove_file(path).ok();
    Ok(())
}

#[test]
fn a_model_and_its_average_are_parts_of_the_file() -> Result<()> {
    let mut run = Run::new(5)?;
    run.train(3)?;
    let place = path("parts");
    run.state().save(&place)?;
    let file = TensorFile::load(&place, &cpu())?;
    std::fs::remove_file(place).ok();
    let other = Run::new(6)?.net;
    other.load_state(&file.part("model.0"))?;
    assert_eq!(other.0.weight().to_vec()?, run.net.0.weight().to_vec()?);
    assert_eq!(other.1.running_mean().tensor().to_vec()?, run.net.1.running_mean().tensor().to_vec()?);
    assert_eq!(other.load_state_matching(&file.part("ema.0.0"))?.unexpected, [""; 0]);
    assert_eq!(other.3.weight().to_vec()?, run.ema.get(run.net.3.weight()).expect("an average").to_vec()?);
    assert!(file.part("model").part("0").names().eq(file.part("model.0").names()));
    assert_eq!(file.part("mode").names().count(), 0);
    Ok(())
}

#[test]
fn a_plateau_goes_on_where_it_stood() -> Result<()> {
    let path = path("plateau");
    let run = || -> Result<_> {
        let net = Linear::new(2, 1, &cpu())?;
        let opt = Sgd::new(net.parameters(), 1.0);
        Ok((net, opt, ReduceOnPlateau::new(0.5, 1).cooldown(1)))
    };
    let measures = [3.0, 2.0, 2.0, 2.0, 2.0, 2.0, 1.0, 1.5, 1.5, 1.5];
    for at in 0..measures.len() {
        let (net, mut opt, mut plateau) = run()?;
        for measure in &measures[..at] {
            plateau.step(&mut opt, *measure)?;
        }
        TrainState::of(&net).optimizer(&mut opt).plateau(&mut plateau).save(&path)?;
        let (net, mut other, mut resumed) = run()?;
        TrainState::of(&net).optimizer(&mut other).plateau(&mut resumed).load(&path)?;
        for measure in &measures[at..] {
            plateau.step(&mut opt, *measure)?;
            resumed.step(&mut other, *measure)?;
            assert_eq!(opt.learning_rate(), other.learning_rate(), "saved before measure {at}");
        }
        assert_eq!(opt.learning_rate(), 0.25);
        let error = TrainState::of(&net).optimizer(&mut other).load(&path).unwrap_err().to_string();
        assert!(error.contains("`plateau.0`"), "{error}");
    }
    std::fs::remove_file(path).ok();
    Ok(())
}

/// Loading `bytes` must fail with a message that holds `words`, and leave everything as it was.
fn refused(run: &mut Run, bytes: &[u8], words: &str) -> Result<()> {
    let path = path("refused");
    std::fs::write(&path, bytes).expect("a writable temporary directory");
    let before = (run.fingerprint()?, random_state());
    let error = run.state().load(&path).expect_err("a damaged file").to_string();
    assert!(error.contains(words), "`{error}` should say `{words}`");
    assert_eq!((run.fingerprint()?, random_state()), before);
    std::fs::remove_file(path).ok();
    Ok(())
}

#[test]
fn damaged_files_are_refused_and_change_nothing() -> Result<()> {
    let path = path("damaged");
    let mut run = Run::new(3)?;
    run.train(2)?;
    run.state().save(&path)?;
    let good = std::fs::read(&path).expect("the file just written");
    run.train(2)?;
    for length in [0, 7, 8, 100, good.len() / 2, good.len() - 1] {
        refused(&mut run, &good[..length], "not a complete safetensors file")?;
    }
    // One bit anywhere: in the header's length, its text and all through the data.
    for at in (0..good.len()).step_by(good.len() / 97) {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 8);
        refused(&mut run, &bytes, "")?;
    }
    let mut bytes = good.clone();
    *bytes.last_mut().expect("not empty") ^= 0x40;
    refused(&mut run, &bytes, "its checksum does not match")?;
    run.state().load(&path)?;
    std::fs::remove_file(path).ok();
    Ok(())
}

#[test]
fn files_of_something_else_are_refused() -> Result<()> {
    let path = path("other");
    let mut run = Run::new(4)?;
    run.net.save(&path)?;
    let error = run.state().load(&path).unwrap_err().to_string();
    assert!(error.contains("not a training state") && error.contains("amp-train"), "{error}");
    let mut file = run.state().write()?;
    file.set_metadata("amp.version", "2");
    file.save(&path)?;
    let error = run.state().load(&path).unwrap_err().to_string();
    assert!(error.contains("its version is 2, this library reads version 1"), "{error}");
    run.train(1)?;
    run.state().save(&path)?;

    let d = cpu();
    let wide = Linear::new(4, 7, &d)?;
    let error = TrainState::of(&wide).load(&path).unwrap_err().to_string();
    assert!(error.contains("`model.0.weight`"), "{error}");
    let mut sgd = Sgd::new(run.net.parameters(), 0.1);
    let error = TrainState::of(&run.net).optimizer(&mut sgd).load(&path).unwrap_err().to_string();
    assert!(error.contains("was saved by AdamW, not by Sgd"), "{error}");
    let error = TrainState::of(&run.net).load(&path).unwrap_err().to_string();
    assert!(error.contains("nothing here has such a tensor"), "{error}");
    let missing = TrainState::of(&run.net).load(path.with_file_name("amp-no-such-file")).unwrap_err();
    assert!(matches!(missing, Error::Io { .. }));
    std::fs::remove_file(path).ok();
    Ok(())
}

#[test]
fn whatever_was_saved_must_be_named_and_of_its_kind() -> Result<()> {
    let path = path("unnamed");
    let mut run = Run::new(6)?;
    run.train(1)?;
    run.state().save(&path)?;
    let before = run.fingerprint()?;
    let Run { net, opt, scaler, schedule, ema, steps } = &mut run;
    let mut other = CosineLr::new(20).then(10, crate::optim::StepLr::new(2, 0.5), &mut crate::optim::Sgd::new([], 1.0));
    let refused = |words: &str, state: TrainState<'_>| {
        let error = state.load(&path).expect_err(words).to_string();
        assert!(error.contains(words) && error.contains("amp-train"), "`{error}` should say `{words}`");
    };
    let base = TrainState::of(net).optimizer(opt).ema(ema);
    refused("`scaler.0`", base.schedule(schedule).counter(steps));
    let base = TrainState::of(net).optimizer(opt).ema(ema);
    refused("`schedule.0`", base.scaler(scaler).counter(steps));
    let base = TrainState::of(net).optimizer(opt).ema(ema);
    refused("`counter.0`", base.scaler(scaler).schedule(schedule));
    let base = TrainState::of(net).optimizer(opt).ema(ema).scaler(scaler).counter(steps);
    refused("saved by CosineLr, not by CosineLr, then StepLr", base.schedule(&mut other));
    assert_eq!(Schedule::steps(&other), 0);
    assert_eq!(run.fingerprint()?, before);
    run.state().load(&path)?;
    // A file that does not tell kinds yet.
    let mut file = run.state().write()?;
    file.metadata.remove("schedule.0.kind");
    let checksum = file.checksum("amp.checksum")?;
    file.set_metadata("amp.checksum", format!("{checksum:016x}"));
    file.save(&path)?;
    run.state().load(&path)?;
    std::fs::remove_file(path).ok();
    Ok(())
}

#[test]
fn a_file_that_cannot_be_written_leaves_the_old_one() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("amp-train-folder-{}", std::process::id()));
    let mut run = Run::new(5)?;
    assert!(matches!(run.state().save(folder.join("state")), Err(Error::Io { .. })));
    std::fs::create_dir_all(folder.join("state")).expect("a writable temporary directory");
    // A directory cannot be replaced by a file, and the temporary file must not stay behind.
    assert!(run.state().save(folder.join("state")).is_err());
    assert_eq!(std::fs::read_dir(&folder).expect("the folder").count(), 1);
    std::fs::remove_dir_all(folder).ok();
    Ok(())
}

#[test]
fn tensors_of_every_type_survive_a_file() -> Result<()> {
    use crate::{BF16, Bool, F64, I64, U8};
    let path = path("types");
    let d = cpu();
    let wide = Tensor::<F32>::from_vec(vec![1.5, f32::NAN, f32::INFINITY, -0.0, 1e-40, 3e38], [2, 3], &d)?;
    let mut file = TensorFile::new();
    file.insert("f32", &wide);
    file.insert("f64", &wide.to::<F64>()?);
    file.insert("f16", &wide.to::<F16>()?);
    file.insert("bf16", &wide.to::<BF16>()?);
    file.insert("transposed", &wide.t()?);
    file.insert("i64", &Tensor::<I64>::from_vec(vec![i64::MIN, i64::MAX], [2], &d)?);
    file.insert("u8", &Tensor::<U8>::from_vec(vec![0, 255], [2, 1], &d)?);
    file.insert("bool", &Tensor::<Bool>::from_vec(vec![true, false], [2], &d)?);
    file.insert("empty", &Tensor::<F32>::zeros([0, 4], &d)?);
    file.insert("scalar", &Tensor::<F32>::scalar(7.0, &d)?);
    file.set_metadata("note", "a \"quoted\" line");
    file.save(&path)?;
    let read = TensorFile::load(&path, &d)?;
    assert_eq!(read.checksum("")?, file.checksum("")?);
    assert_eq!(read.metadata("note"), Some("a \"quoted\" line"));
    assert_eq!(read.get::<F32>("transposed")?.expect("written").dims(), [3, 2]);
    assert_eq!(read.get::<F32>("scalar")?.expect("written").item()?, 7.0);
    assert!(read.get::<F32>("other")?.is_none());
    let mut file = TensorFile::new();
    file.insert("far", &Tensor::<F64>::from_vec(vec![f64::INFINITY, -1e300], [2], &d)?);
    file.insert("half", &Tensor::<F32>::from_vec(vec![f32::NAN, 65519.0], [2], &d)?);
    file.insert("more", &Tensor::<F32>::from_vec(vec![65520.0], [1], &d)?);
    assert_eq!(file.get::<F64>("far")?.expect("inserted").to_vec()?, [f64::INFINITY, -1e300]);
    let error = file.get::<F32>("far").unwrap_err().to_string();
    assert_eq!(error, "load: tensor `far`: the file holds -1e300, which is more than F32 can hold");
    assert_eq!(file.get::<F16>("half")?.expect("inserted").to_vec()?[1].to_f32(), 65504.0);
    assert!(file.get::<F16>("more").is_err() && file.get::<BF16>("more").is_ok());
    // The largest BF16, what rounds to it, and the first that does not.
    file.insert("edge", &Tensor::<F32>::from_vec(vec![3.389_531_4e38, 3.395e38], [2], &d)?);
    file.insert("beyond", &Tensor::<F32>::from_vec(vec![f32::INFINITY, -f32::MAX], [2], &d)?);
    assert!(file.get::<BF16>("edge")?.expect("inserted").to_vec()?.iter().all(|v| v.is_finite()));
    let error = file.get::<BF16>("beyond").unwrap_err().to_string();
    assert_eq!(error, "load: tensor `beyond`: the file holds -3.4028234663852886e38, which is more than BF16 can hold");
    assert!(file.get::<F32>("beyond").is_ok());
    std::fs::remove_file(path).ok();
    Ok(())
}

#[test]
fn a_skipped_step_changes_nothing_whatever_the_pattern() -> Result<()> {
    for seed in [1, 77, 4242] {
        let mut run = Run::new(seed)?;
        let mut pattern = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for i in 0..12 {
            // The third of four steps overflows inside the loop itself; the pattern adds others.
            let poison = pattern & 3 == 0;
            pattern = pattern.rotate_right(2);
            run.steps = if poison { 3 } else { 0 };
            let trained = |run: &mut Run| {
                let state = TrainState::of(&run.net).optimizer(&mut run.opt);
                let mut file = state.schedule(&mut run.schedule).ema(&mut run.ema).write()?;
                file.set_metadata("random", "apart");
                file.checksum("amp.checksum")
            };
            let before = trained(&mut run)?;
            run.once()?;
            assert_eq!(trained(&mut run)? == before, poison, "seed {seed}, step {i}");
        }
    }
    Ok(())
}

#[test]
fn moments_are_of_a_kind() -> Result<()> {
    let d = cpu();
    let net = Linear::new(1, 1, &d)?.without_bias();
    let x = Tensor::<F32>::ones([1, 1], &d)?;
    let step = |opt: &mut RmsProp| opt.step(&net.forward(&x)?.sum_all()?.backward()?);
    let mut opt = RmsProp::new(net.parameters(), 0.01).momentum(0.9);
    (0..5).try_for_each(|_| step(&mut opt))?;
    let mut centered = RmsProp::new(net.parameters(), 0.01).centered(true);
    // A file of an older version, which does not say that it was saved by another kind.
    let mut file = TrainState::of(&net).optimizer(&mut opt).write()?;
    file.metadata.remove("optimizer.0.group.0");
    let checksum = file.checksum("amp.checksum")?;
    file.set_metadata("amp.checksum", format!("{checksum:016x}"));
    let error = TrainState::of(&net).optimizer(&mut centered).read(&file).unwrap_err().to_string();
    // It holds the moments.
    drop(file);
    assert!(error.contains("moment.mean"), "{error}");
    // In mid-training what is of another kind starts anew: the mean of equal gradients is a part of them, and a step is small.
    let (before, mut opt) = (net.weight().to_vec()?[0], opt.momentum(0.0).centered(true));
    step(&mut opt)?;
    let moved = (net.weight().to_vec()?[0] - before).abs();
    assert!(moved > 0.0 && moved < 0.2, "{moved}");
    Ok(())
}

#[test]
fn there_may_be_several_counters() -> Result<()> {
    let (net, path) = (Linear::new(1, 1, &cpu())?, path("counters"));
    let (mut step, mut epoch) = (17, 3);
    TrainState::of(&net).counter(&mut step).counter(&mut epoch).save(&path)?;
    (step, epoch) = (0, 0);
    TrainState::of(&net).counter(&mut step).counter(&mut epoch).load(&path)?;
    std::fs::remove_file(&path).ok();
    assert_eq!((step, epoch), (17, 3));
    Ok(())
}

#[test]
fn an_optimizer_behind_a_reference_steps() -> Result<()> {
    let (d, norm) = (cpu(), BatchNorm2d::new(1, &cpu())?);
    let mut opt = Sgd::new(norm.parameters(), 0.1);
    let mut opt: &mut dyn Optimizer = &mut opt;
    let x = Tensor::<F32>::from_vec(vec![1.0, 3.0], [2, 1, 1, 1], &d)?;
    let grads = norm.forward(&x)?.sqr()?.sum_all()?.backward()?;
    (&mut opt).step(&grads)?;
    assert!((norm.running_mean().tensor().to_vec()?[0] - 0.2).abs() < 1e-6);
    let mut scaler = GradScaler::new(&d)?;
    let grads = scaler.scale(&norm.forward(&x)?.sqr()?.sum_all()?)?.backward()?;
    let grads = scaler.unscale(grads)?;
    assert!(matches!((&mut opt).step(&grads), Err(Error::PastScaler)));
    Ok(())
}
