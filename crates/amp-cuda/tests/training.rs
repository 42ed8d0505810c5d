//! Training on the CUDA backend, on the driver whose device is emulated: it learns, skips what overflows, never waits for
//! the host, and returns all its memory.

#[path = "standin/mod.rs"]
mod standin;

use amp_core::nn::{BatchNorm2d, Embedding, Linear, Module};
use amp_core::optim::{AdamW, Ema, Optimizer, Schedule, Sgd, Step, StepLr};
use amp_core::{Device, F16, F32, GradScaler, I64, Parameter, Result, Tensor};

/// What would make the host wait, or bring anything to it.
const WAITING: [&str; 3] = ["cuStreamSynchronize", "cuCtxSynchronize", "cuMemcpyDtoHAsync_v2"];

struct Training {
    net: [Linear; 2],
    norm: BatchNorm2d,
    ema: Ema,
    x: Tensor<F32>,
    target: Tensor<F32>,
    optimizer: AdamW,
    scaler: GradScaler,
}

impl Training {
    fn new(device: &Device) -> Result<Self> {
        amp_core::manual_seed(7);
        let net = [Linear::new(8, 16, device)?, Linear::new(16, 1, device)?];
        let norm = BatchNorm2d::new(8, device)?;
        let parameters = || net.iter().flat_map(Module::parameters).chain(norm.parameters());
        let (optimizer, ema) = (AdamW::new(parameters(), 0.01), Ema::new(parameters(), 0.9)?);
        let scaler = GradScaler::builder().init_scale(1024.0).growth_interval(20).build(device)?;
        let x = Tensor::<F32>::randn([32, 8], device)?;
        let target = x.sum([1], true)?.tanh()?;
        Ok(Self { net, norm, ema, x, target, optimizer, scaler })
    }

    /// One step in F16; `factor` multiplies the loss.
    fn step(&mut self, factor: f32) -> Result<(Tensor<F32>, Step)> {
        let x = self.norm.forward(&self.x.reshape([32, 8, 1, 1])?.to::<F16>()?)?.reshape([32, 8])?;
        let h = self.net[0].forward(&x.to::<F16>()?)?.relu()?;
        let error = (&self.net[1].forward(&h)?.to::<F32>()? - &self.target)?;
        let loss = (&(&error * &error)?.mean_all()? * factor)?;
        let grads = self.scaler.scale(&loss)?.backward()?;
        let step = self.scaler.step(&mut self.optimizer, grads)?;
        self.scaler.update()?;
        self.ema.update(&step)?;
        Ok((loss, step))
    }

    /// What the net says, which changes with every weight.
    fn output(&self) -> Result<Vec<f32>> {
        self.net[1].forward(&self.net[0].forward(&self.x)?.relu()?)?.to_vec()
    }
}

#[test]
fn a_loop_learns_grows_and_skips_without_waiting_for_the_host() -> Result<()> {
    let (standin, _alone) = standin::open();
    let mut training = Training::new(&Device::cuda(0)?)?;
    let first = training.step(1.0)?.0.item()?;
    assert!(training.step(1.0)?.1.was_taken()?);
    let before = WAITING.map(|call| standin.calls(call));
    // More than a hundred rounds would pass between looks at the loss scale, if it were looked at now and then.
    let mut schedule = StepLr::new(100, 0.5);
    for _ in 0..138 {
        let (_, step) = training.step(1.0)?;
        schedule.step(&mut training.optimizer, &step)?;
    }
    assert_eq!(WAITING.map(|call| standin.calls(call)), before, "{WAITING:?}");
    assert_eq!((schedule.steps(), training.optimizer.learning_rate()), (138, 0.005));
    // 140 clean steps: the scale doubled every twenty of them.
    assert_eq!(training.scaler.scale_value()?, 1024.0 * 128.0);
    let tracked = training.norm.named_statistics()[2].1.tensor().to_vec()?;
    assert_eq!(tracked, [140.0]);
    let output = training.output()?;
    let (_, skipped) = training.step(f32::INFINITY)?;
    assert!(!skipped.was_taken()?);
    assert_eq!(training.output()?, output);
    assert_eq!(training.scaler.scale_value()?, 1024.0 * 64.0);
    assert_eq!(training.norm.named_statistics()[2].1.tensor().to_vec()?, [140.0]);
    let (last, taken) = training.step(1.0)?;
    assert!(taken.was_taken()?);
    assert!(last.item()? < 0.5 * first, "the loss fell from {first} to {} only", last.item()?);
    Ok(())
}

#[test]
fn rows_that_a_table_has_not_are_refused_whoever_had_the_report() -> Result<()> {
    let (_, _alone) = standin::open();
    let device = Device::cuda(0)?;
    let table = Embedding::new(4, 2, &device)?.sparse(true);
    for bad in [9, -1] {
        let words = Tensor::<I64>::from_vec(vec![1, bad], [2], &device)?;
        let looked_up = table.forward(&words)?;
        assert!(words.to_vec().is_err(), "the first download has the report");
        let error = looked_up.sum_all()?.backward().expect_err("the table has four rows");
        assert_eq!(error.to_string(), format!("embedding: index {bad} is out of range for size 4"));
    }
    Ok(())
}

/// What is allocated, whatever it is for.
fn memory(standin: &standin::Standin) -> (u64, u64) {
    (standin.bytes(), standin.blocks())
}

#[test]
fn steps_give_back_their_memory_on_whatever_thread() -> Result<()> {
    let (standin, _alone) = standin::open();
    let mut training = Training::new(&Device::cuda(0)?)?;
    training.step(1.0)?;
    training.step(1.0)?;
    let before = memory(standin);
    for i in 0..20 {
        let (loss, step) = training.step(1.0)?;
        if i % 5 == 0 {
            std::thread::spawn(move || drop((loss, step))).join().expect("a tensor drops on any thread");
        }
    }
    assert_eq!(memory(standin), before);
    drop(training);
    assert!(standin.bytes() < before.0 || !standin.counts());
    Ok(())
}

#[test]
fn ten_thousand_steps_leak_nothing() -> Result<()> {
    let (standin, _alone) = standin::open();
    let device = Device::cuda(0)?;
    let mut training = Training::new(&device)?;
    training.step(1.0)?;
    training.step(1.0)?;
    // What the driver is asked for does not depend on what kernels compute.
    standin.idle(true);
    let (results, dropper) = std::sync::mpsc::channel();
    let other = std::thread::spawn(move || dropper.iter().for_each(drop::<(Tensor<F32>, Step)>));
    let (before, pinned) = (memory(standin), standin.calls("cuMemHostAlloc"));
    for _ in 0..10_000 {
        results.send(training.step(1.0)?).expect("the other thread receives");
    }
    drop(results);
    other.join().expect("tensors drop on any thread");
    assert_eq!(memory(standin), before);
    for _ in 0..100 {
        let graph = amp_core::cuda::Graph::capture(&device, || training.step(1.0))?;
        drop((graph.replay()?, graph));
    }
    standin.idle(false);
    assert_eq!(memory(standin), before);
    let graphs = ["cuGraphDestroy", "cuGraphExecDestroy"].map(|call| standin.calls(call));
    let ended = if standin.counts() { 100 } else { 0 };
    assert_eq!((graphs, standin.calls("cuMemHostAlloc")), ([ended; 2], pinned));
    Ok(())
}

/// Rates that a schedule has moved on the device are those that a group which is added finds, as on the host.
#[test]
fn a_group_that_comes_late_leaves_moved_rates_as_they_are() -> Result<()> {
    let outcome = |device: &Device| -> Result<_> {
        let new = || Parameter::new(&Tensor::<F32>::full([2], 8.0, device)?);
        let (p, q) = (new()?, new()?);
        let (mut scaler, mut schedule) = (GradScaler::new(device)?, StepLr::new(1, 0.5));
        let mut step = |optimizer: &mut Sgd| -> Result<()> {
            let loss = (p.tensor().sum_all()? + q.tensor().sum_all()?)?;
            let grads = scaler.scale(&loss)?.backward()?;
            let step = scaler.step(optimizer, grads)?;
            scaler.update()?;
            schedule.step(optimizer, &step)
        };
        let mut optimizer = Sgd::new([p.clone()], 1.0);
        step(&mut optimizer)?;
        let mut optimizer = optimizer.group([q.clone()]);
        let rate = optimizer.learning_rate();
        step(&mut optimizer)?;
        Ok((rate, p.to_vec()?, q.to_vec()?))
    };
    let (_, _alone) = standin::open();
    let on_gpu = outcome(&Device::cuda(0)?)?;
    assert_eq!(on_gpu, outcome(&Device::cpu())?);
    assert_eq!((on_gpu.0, on_gpu.1), (0.5, vec![6.5; 2]));
    Ok(())
}
