//! Whole steps as CUDA graphs, on the driver whose device is emulated: replays do what the step's code does, bit for bit.

#[path = "standin/mod.rs"]
mod standin;

use amp_core::cuda::{Graph, Input};
use amp_core::nn::{BatchNorm2d, Embedding, Linear, Module};
use amp_core::optim::{AdamW, Chain, CosineLr, Ema, LinearWarmup, Optimizer, Schedule, Sgd, Step, StepLr};
use amp_core::{Device, F16, F32, GradScaler, I64, Result, Tensor, manual_seed, random_state};

/// Everything that a step may change, and what it reads.
struct Training {
    net: [Linear; 2],
    norm: BatchNorm2d,
    ema: Ema,
    optimizer: AdamW,
    scaler: GradScaler,
    x: Input<F32>,
    target: Input<F32>,
}

impl Training {
    fn new(device: &Device) -> Result<Self> {
        manual_seed(7);
        let net = [Linear::new(8, 16, device)?, Linear::new(16, 1, device)?];
        let norm = BatchNorm2d::new(16, device)?;
        let parameters = || net.iter().flat_map(Module::parameters).chain(norm.parameters());
        let (optimizer, ema) = (AdamW::new(parameters(), 0.01), Ema::new(parameters(), 0.9)?);
        let scaler = GradScaler::builder().init_scale(1024.0).growth_interval(3).build(device)?;
        let x = Input::new(&Tensor::<F32>::zeros([12, 8], device)?)?;
        let target = Input::new(&Tensor::<F32>::zeros([12, 1], device)?)?;
        Ok(Self { net, norm, ema, optimizer, scaler, x, target })
    }

    /// Inputs of step `i`; those of the fifth overflow.
    fn feed(&self, i: usize, device: &Device) -> Result<()> {
        let x: Vec<f32> = (0..96).map(|k| ((k * 37 + i * 11) % 23) as f32 / 8.0 - 1.4).collect();
        let factor = if i == 5 { 3e38 } else { 1.0 };
        let target: Vec<f32> = x.chunks(8).map(|row| factor * row.iter().sum::<f32>().sin()).collect();
        self.x.set(&Tensor::from_vec(x, [12, 8], device)?)?;
        self.target.set(&Tensor::from_vec(target, [12, 1], device)?)
    }

    fn step(&mut self) -> Result<(Tensor<F32>, Step)> {
        let h = self.net[0].forward(&self.x.tensor().to::<F16>()?)?.dropout(0.25, true)?;
        let h = self.norm.forward(&h.reshape([12, 16, 1, 1])?)?.reshape([12, 16])?.relu()?;
        let error = (&self.net[1].forward(&h.to::<F16>()?)?.to::<F32>()? - &self.target.tensor())?;
        let loss = (&error * &error)?.mean_all()?;
        let grads = self.scaler.scale(&loss)?.backward()?;
        let step = self.scaler.step(&mut self.optimizer, grads)?;
        self.scaler.update()?;
        self.ema.update(&step)?;
        Ok((loss, step))
    }

    /// All that outlives a step, and the random stream's position.
    fn state(&self) -> Result<Vec<Vec<u32>>> {
        let parameters = self.net.iter().flat_map(Module::parameters).chain(self.norm.parameters());
        let mut tensors = Vec::new();
        for p in parameters {
            tensors.extend([p.to_vec()?, self.ema.get(&p).expect("a tracked parameter").to_vec()?]);
        }
        for (_, statistics) in self.norm.named_statistics() {
            tensors.push(statistics.tensor().to_vec()?);
        }
        let state = self.scaler.state()?.expect("an enabled scaler");
        tensors.push(vec![state.scale, state.growth_tracker as f32, random_state().offset as f32]);
        Ok(tensors.iter().map(|t| t.iter().map(|v| v.to_bits()).collect()).collect())
    }
}

const STEPS: usize = 14;

/// State and loss after a step, and whether it was taken.
type Outcome = (Vec<Vec<u32>>, u32, bool);

/// What comes of every step, by running the code.
fn eager(device: &Device) -> Result<Vec<Outcome>> {
    let mut training = Training::new(device)?;
    (0..STEPS)
        .map(|i| {
            training.feed(i, device)?;
            let (loss, step) = training.step()?;
            Ok((training.state()?, loss.item()?.to_bits(), step.was_taken()?))
        })
        .collect()
}

#[test]
fn replays_are_the_steps_bit_for_bit() -> Result<()> {
    let (standin, _alone) = standin::open();
    let device = Device::cuda(0)?;
    let expected = eager(&device)?;
    let skipped: Vec<usize> = (0..STEPS).filter(|&i| !expected[i].2).collect();
    assert_eq!(skipped, [5], "the fifth step overflows");
    let scales: Vec<f32> = expected.iter().map(|e| f32::from_bits(e.0.last().expect("the scale")[0])).collect();
    assert!(scales[4] == 2048.0 && scales[5] == 1024.0 && scales[8] == 2048.0, "{scales:?}");

    let mut training = Training::new(&device)?;
    for i in 0..2 {
        training.feed(i, &device)?;
        training.step()?;
    }
    let before = training.state()?;
    let graph = Graph::capture(&device, || training.step())?;
    assert_eq!(training.state()?, before, "capturing does nothing yet");
    for (i, (state, loss, taken)) in expected.iter().enumerate().skip(2) {
        training.feed(i, &device)?;
        // No copy from the host either: where the device reads the host's memory itself, that would be waited for.
        let calls = [
            "cuStreamSynchronize",
            "cuMemcpyDtoHAsync_v2",
            "cuMemcpyHtoDAsync_v2",
            "cuMemAllocAsync",
            "cuLaunchKernel",
        ];
        let mut made = calls.map(|call| standin.calls(call));
        let (replayed, step) = graph.replay()?;
        // The kernel is `put`, which tells where the random numbers begin.
        made[4] += u64::from(standin.counts());
        assert_eq!(calls.map(|call| standin.calls(call)), made, "a replay is two launches");
        assert_eq!(&training.state()?, state, "state after step {i}");
        assert_eq!((replayed.item()?.to_bits(), step.was_taken()?), (*loss, *taken), "step {i}");
    }
    Ok(())
}

/// Warm-up, then a cosine: every factor differs from the one before.
fn schedule(optimizer: &mut AdamW) -> Chain<LinearWarmup, CosineLr> {
    LinearWarmup::new(optimizer, 4).then(4, CosineLr::new(20).least(0.1), optimizer)
}

#[test]
fn schedules_move_replays_without_waiting() -> Result<()> {
    let (standin, _alone) = standin::open();
    let device = Device::cuda(0)?;
    // On the host's side: `was_taken` waits, and the factor is set by hand.
    let (mut expected, mut rates) = (Vec::new(), Vec::new());
    let mut training = Training::new(&device)?;
    let mut by_hand = schedule(&mut training.optimizer);
    for i in 0..STEPS {
        training.feed(i, &device)?;
        let (_, step) = training.step()?;
        if step.was_taken()? {
            by_hand.set_steps(by_hand.steps() + 1);
            training.optimizer.schedule(by_hand.factor(by_hand.steps()));
        }
        expected.push(training.state()?);
        rates.push(training.optimizer.learning_rate().to_bits());
    }
    assert!(rates[3] != rates[4] && rates[4] == rates[5], "the fifth step is skipped");

    let mut training = Training::new(&device)?;
    let mut schedule = schedule(&mut training.optimizer);
    for i in 0..2 {
        training.feed(i, &device)?;
        let (_, step) = training.step()?;
        schedule.step(&mut training.optimizer, &step)?;
    }
    let graph = Graph::capture(&device, || training.step())?;
    for i in 2..STEPS {
        training.feed(i, &device)?;
        let calls = ["cuStreamSynchronize", "cuCtxSynchronize", "cuMemcpyDtoHAsync_v2"];
        let made = calls.map(|call| standin.calls(call));
        let (_, step) = graph.replay()?;
        schedule.step(&mut training.optimizer, &step)?;
        assert_eq!(calls.map(|call| standin.calls(call)), made, "nothing waits");
        assert_eq!(training.state()?, expected[i], "state after step {i}");
        assert_eq!(training.optimizer.learning_rate().to_bits(), rates[i], "learning rate after step {i}");
    }
    assert_eq!(schedule.steps(), STEPS as u64 - 1);
    Ok(())
}

#[test]
fn settings_by_hand_reach_replays_and_schedules_stay_out_of_captures() -> Result<()> {
    let (_, _alone) = standin::open();
    let device = Device::cuda(0)?;
    let p = amp_core::Parameter::new(&Tensor::<F32>::full([3], 8.0, &device)?)?;
    let q = amp_core::Parameter::new(&Tensor::<F32>::full([2], 4.0, &device)?)?;
    let mut optimizer = Sgd::new([q.clone()], 0.25).group([p.clone()]).lr(0.5);
    let step = |optimizer: &mut Sgd| {
        let grads = ((&p.tensor() * 2.0)?.sum_all()? + q.tensor().sum_all()?)?.backward()?;
        optimizer.step(&grads)
    };
    step(&mut optimizer)?;
    assert_eq!(p.to_vec()?, [7.0; 3]);
    let graph = Graph::capture(&device, || step(&mut optimizer))?;
    optimizer.schedule(0.25);
    graph.replay()?;
    assert_eq!(p.to_vec()?, [6.75; 3]);
    let mut optimizer = optimizer.lr(1.0).weight_decay(0.5);
    graph.replay()?;
    assert_eq!(p.to_vec()?, [6.75 - 2.0 - 6.75 / 2.0; 3]);
    assert_eq!(q.to_vec()?, [4.0 - 0.25 - 0.0625 - 0.0625; 2], "the settings of the other group are its own");
    let mut schedule = StepLr::new(1, 0.5);
    let error = Graph::capture(&device, || {
        step(&mut optimizer)?;
        schedule.step(&mut optimizer, &Step::taken())
    });
    let error = error.expect_err("the replays would all do the same").to_string();
    assert!(error.contains("a schedule moves after each replay"), "{error}");
    Ok(())
}

#[test]
fn schedules_that_run_far_ahead_wait_at_last_and_count_on() -> Result<()> {
    let (standin, _alone) = standin::open();
    let device = Device::cuda(0)?;
    let mut training = Training::new(&device)?;
    let mut schedule = StepLr::new(7, 0.5);
    training.feed(0, &device)?;
    let (_, step) = training.step()?;
    schedule.step(&mut training.optimizer, &step)?;
    // The device does nothing for a while, so that the host learns nothing of it.
    standin.idle(true);
    for _ in 0..62 {
        schedule.step(&mut training.optimizer, &step)?;
    }
    standin.idle(false);
    let copy = schedule.clone();
    assert_eq!((copy.steps(), schedule.steps()), (1, 1), "the device did none of them");
    schedule.set_steps(6);
    schedule.step(&mut training.optimizer, &step)?;
    assert_eq!((schedule.steps(), training.optimizer.learning_rate()), (7, 0.005));
    Ok(())
}

#[test]
fn code_and_replays_take_turns() -> Result<()> {
    let (_, _alone) = standin::open();
    let device = Device::cuda(0)?;
    let expected = eager(&device)?;
    let mut training = Training::new(&device)?;
    for i in 0..2 {
        training.feed(i, &device)?;
        training.step()?;
    }
    let graph = Graph::capture(&device, || training.step())?;
    for (i, (state, ..)) in expected.iter().enumerate().skip(2) {
        training.feed(i, &device)?;
        if i % 3 == 0 {
            training.step()?;
        } else {
            graph.replay()?;
        }
        assert_eq!(&training.state()?, state, "state after step {i}");
    }
    Ok(())
}

#[test]
fn memory_stays_with_the_graph_and_goes_with_it() -> Result<()> {
    let (standin, _alone) = standin::open();
    let device = Device::cuda(0)?;
    let weight = Tensor::<F32>::full([40, 50], 2.0, &device)?;
    // What a device keeps for all graphs comes with the first.
    Graph::capture(&device, || Ok(()))?;
    let before = standin.bytes();
    let x = Input::new(&Tensor::<F32>::ones([30, 40], &device)?)?;
    let own = Tensor::<F32>::full([50], 1.0, &device)?;
    let kept = own.clone();
    let graph = Graph::capture(&device, || (&x.tensor().matmul(&weight)? + &own)?.relu())?;
    // The graph reads memory whose last tensor is gone, and whatever is made next lies elsewhere.
    drop((own, kept));
    let others: Vec<_> = (0..20).map(|_| Tensor::<F32>::full([50], f32::NAN, &device)).collect::<Result<_>>()?;
    let first = graph.replay()?;
    assert!(first.to_vec()?.iter().all(|v| *v == 81.0));
    x.set(&Tensor::<F32>::full([30, 40], -1.0, &device)?)?;
    graph.replay()?;
    assert!(first.to_vec()?.iter().all(|v| *v == 0.0), "results lie where the last replay left them");
    drop((others, graph));
    assert!(first.to_vec()?.iter().all(|v| *v == 0.0), "results outlive their graph");
    drop((first, x));
    assert_eq!(standin.bytes(), before);
    Ok(())
}

#[test]
fn what_waits_is_refused_and_the_step_is_done_as_far_as_it_came() -> Result<()> {
    let (standin, _alone) = standin::open();
    let device = Device::cuda(0)?;
    let x = Input::new(&Tensor::<F32>::ones([3], &device)?)?;
    let failed = Graph::capture(&device, || {
        {
            x.set(&(&x.tensor() + &x.tensor())?)?;
            x.tensor().to_vec()
        }
        .map(|_| ())
    });
    let message = failed.expect_err("a download waits").to_string();
    assert!(message.contains("the host would wait for the device"), "{message}");
    assert_eq!(x.tensor().to_vec()?, [2.0; 3]);

    let mut made = Vec::new();
    let message = Graph::capture(&device, || {
        made.push((&x.tensor() + &x.tensor())?);
        Ok(())
    });
    let message = message.expect_err("a tensor outlives the step").to_string();
    assert!(message.contains("1 tensors made by the step outlive it"), "{message}");
    assert_eq!(made[0].to_vec()?, [4.0; 3], "the tensor is as good as any");

    let nested = Graph::capture(&device, || Graph::capture(&device, || Ok(())).map(|_| ()));
    assert!(nested.expect_err("one at a time").to_string().contains("captured already"));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        Graph::capture(&device, || -> Result<()> {
            x.set(&(&x.tensor() + &x.tensor())?)?;
            panic!("a step of one's own")
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(x.tensor().to_vec()?, [4.0; 3]);
    assert_eq!(standin.calls("cuStreamBeginCapture_v2"), standin.calls("cuStreamEndCapture"));
    assert!(Graph::capture(&Device::cpu(), || Ok(())).is_err(), "the CPU has no graphs");
    Ok(())
}

#[test]
fn other_threads_may_drop_but_not_launch_meanwhile() -> Result<()> {
    let (_, _alone) = standin::open();
    let device = Device::cuda(0)?;
    let x = Input::new(&Tensor::<F32>::ones([3], &device)?)?;
    let dropped = Tensor::<F32>::ones([1000], &device)?;
    let graph = Graph::capture(&device, || {
        let other = std::thread::spawn({
            let device = device.clone();
            move || {
                drop(dropped);
                Tensor::<F32>::ones([3], &device).map(|_| ())
            }
        });
        let error = other.join().expect("no panic").expect_err("the thread's work would go into the graph");
        assert!(error.to_string().ends_with("another thread is capturing a graph"), "{error}");
        x.set(&(&x.tensor() + &x.tensor())?)
    })?;
    graph.replay()?;
    graph.replay()?;
    assert_eq!(x.tensor().to_vec()?, [4.0; 3]);
    Ok(())
}

#[test]
fn graphs_may_go_while_another_is_captured() -> Result<()> {
    let (standin, _alone) = standin::open();
    let device = Device::cuda(0)?;
    let x = Input::new(&Tensor::<F32>::ones([3], &device)?)?;
    // What a device keeps for all graphs comes with the first.
    Graph::capture(&device, || Ok(()))?;
    let before = standin.bytes();
    let double = || &x.tensor() + &x.tensor();
    let mut old = Some((Graph::capture(&device, double)?, Graph::capture(&device, double)?.replay()?));
    let graph = Graph::capture(&device, || {
        old = None;
        double()
    })?;
    assert_eq!(graph.replay()?.to_vec()?, [2.0; 3]);
    drop(graph);
    assert_eq!(standin.bytes(), before, "all memory is given back");
    Ok(())
}

#[test]
fn data_of_the_host_and_bad_indices_are_seen_by_every_replay() -> Result<()> {
    let (_, _alone) = standin::open();
    let device = Device::cuda(0)?;
    let table = Embedding::new(4, 2, &device)?;
    let words = Input::new(&Tensor::<I64>::from_vec(vec![0, 3], [2], &device)?)?;
    let step = || {
        let offset = Tensor::<F32>::from_vec(vec![10.0, 20.0], [2], &device)?;
        &table.forward(&words.tensor())? + &offset
    };
    let expected = step()?.to_vec()?;
    let graph = Graph::capture(&device, step)?;
    assert_eq!(graph.replay()?.to_vec()?, expected);
    assert_eq!(graph.replay()?.to_vec()?, expected);
    words.set(&Tensor::from_vec(vec![1, 4], [2], &device)?)?;
    let error = graph.replay()?.to_vec().expect_err("the table has four rows");
    assert!(error.to_string().contains("index 4 is out of range for size 4"), "{error}");
    words.set(&Tensor::from_vec(vec![0, 3], [2], &device)?)?;
    assert_eq!(graph.replay()?.to_vec()?, expected);
    Ok(())
}

#[test]
fn a_place_takes_its_own_elements_in_another_order() -> Result<()> {
    let (_, _alone) = standin::open();
    let device = Device::cuda(0)?;
    let x = Input::new(&Tensor::<F32>::from_vec((0..1200).map(|i| i as f32).collect(), [20, 60], &device)?)?;
    let own = |x: &Input<F32>| x.tensor().reshape([60, 20])?.t();
    let (wide, narrow) = (own(&x)?.to_vec()?, (own(&x)?.to::<F16>()? * 1.0)?.to_vec()?);
    x.set(&own(&x)?)?;
    assert_eq!(x.tensor().to_vec()?, wide);
    assert_eq!((x.tensor().to::<F16>()? * 1.0)?.to_vec()?, narrow, "of the copy in 16 bits, too");
    Ok(())
}
