//! One GPU used by several threads at once, and a stand-in built by several processes at once.

#[path = "standin/mod.rs"]
mod standin;

use amp_core::backend::{Backend, Conv2d, DType, Layout, Operand, ScaleRule, Scan, Storage};
use amp_core::cuda::{Graph, Input};
use amp_core::optim::{Optimizer, Sgd};
use amp_core::{Device, Dims, Error, F32, F64, I64, Parameter, Result, Tensor, manual_seed};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::{env, fs};

fn layout(shape: &[usize]) -> Layout {
    Layout::contiguous(Dims::new(shape).expect("a rank"))
}

/// Products and convolutions by the libraries, with memory that comes and goes, of more bytes than travel with a launch.
fn work(gpu: &dyn Backend) -> Result<()> {
    let (matrix, image) = (layout(&[12, 12]), layout(&[1, 1, 12, 12]));
    for turn in 0..3000 {
        let x = gpu.upload(Storage::F32((0..144).map(|i| ((i + turn) % 100) as f32).collect::<Vec<_>>().into()))?;
        let [x, as_image] = [&matrix, &image].map(|layout| Operand { buffer: &x, layout, logical: DType::F32 });
        let product = gpu.matmul(x, x, None, DType::F32)?;
        let convolved = gpu.conv2d(as_image, as_image, None, &Conv2d::default(), DType::F32)?;
        let sum: f32 = (0..144).map(|i| (((i + turn) % 100) as f32).powi(2)).sum();
        assert_eq!(gpu.download(&convolved)?, Storage::F32(vec![sum].into()));
        assert_eq!(gpu.download(&product)?.len(), 144);
    }
    Ok(())
}

#[test]
fn child() {
    if env::var_os("AMP_CHILD").is_none() {
        return;
    }
    let (standin, _alone) = standin::open_with_products();
    let gpu = standin::gpu();
    // The emulation changes stacks, which is more than ThreadSanitizer follows.
    standin.idle(true);
    // What all threads use comes to be before them: ThreadSanitizer does not see the library's own locks.
    work(&*gpu).expect("the GPU works");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| work(&*gpu).expect("the GPU works"));
        }
    });
    let products = standin.calls("cublasLtMatmul");
    assert_eq!((products, standin.calls("cudnnConvolution")), (15_000, 15_000));
}

/// Builds a stand-in that has a kernel of its own, opens it and uses it.
#[test]
fn builder() {
    let Ok(text) = env::var("AMP_UNIT") else { return };
    let folder = standin::build(&[(UNIT.into(), text)], &standin::headers(), &standin::kernels(), UNIT, &[]);
    let (_, _alone) = standin::open_in(&folder);
    let gpu = standin::gpu();
    let x = gpu.upload(Storage::F32(vec![1.0; 200].into())).expect("an upload");
    let x = Operand { buffer: &x, layout: &layout(&[200]), logical: DType::F32 };
    let sums = gpu.scan(Scan::Sum, x, 0, false, DType::F32).expect("sums");
    let counted = (1..=200).map(|i| i as f32).collect::<Vec<_>>();
    assert_eq!(gpu.download(&sums).expect("a download"), Storage::F32(counted.into()));
}

const UNIT: &str = "contended";

#[test]
fn processes_build_and_use_one_standin_at_once() {
    // What no earlier run has compiled.
    let (_, mut text) = standin::sources().into_iter().find(|(name, _)| name == "scan").expect("scan.cu");
    text += &format!("// {}\n", std::process::id());
    let child = || {
        let mut command = Command::new(env::current_exe().expect("this test's file"));
        command.args(["builder", "--exact", "--nocapture"]).env("AMP_UNIT", &text).stderr(Stdio::piped());
        command.spawn().expect("a child starts")
    };
    let children: Vec<_> = (0..3).map(|_| child()).collect();
    for child in children {
        let output = child.wait_with_output().expect("a child ends");
        assert!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    let objects = Path::new(env!("CARGO_TARGET_TMPDIR")).join("objects");
    for file in fs::read_dir(objects).expect("a folder").flatten() {
        if file.file_name().to_string_lossy().starts_with(UNIT) {
            fs::remove_file(file.path()).expect("a file that no process uses");
        }
    }
}

fn run_child(folder: &Path, variables: &[(&str, String)]) -> Output {
    let mut command = Command::new(env::current_exe().expect("this test's file"));
    command.args(["child", "--exact", "--nocapture"]).env("AMP_CHILD", "1").env("AMP_STANDIN", folder);
    command.env_remove("AMP_CUDA_LIB_DIR").envs(variables.iter().cloned()).output().expect("the child runs")
}

#[test]
fn threads_share_a_gpu_without_races() {
    let Some((folder, variables)) = standin::watched() else {
        let _ = writeln!(std::io::stderr(), "NOT RUN: the compiler has no ThreadSanitizer");
        return;
    };
    let output = run_child(&folder, &variables);
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("unexpected memory mapping") {
        let _ = writeln!(std::io::stderr(), "NOT RUN: ThreadSanitizer does not know how this system lays memory out");
        return;
    }
    assert!(output.status.success(), "{}\n{errors}", String::from_utf8_lossy(&output.stdout));
}

/// Uploads, launches and downloads; the outcome, or that the device was not free.
fn doubled(device: &Device, x: f32) -> Result<()> {
    let x = Tensor::<F32>::full([3], x, device)?;
    let y = Tensor::<F32>::from_vec(vec![1.0; 3], [3], device)?;
    assert_eq!((&x.matmul(&y)? + &x)?.to_vec()?, [x.to_vec()?[0] * 4.0; 3]);
    Ok(())
}

#[test]
fn work_that_another_thread_is_about_to_launch_stays_out_of_a_graph() -> Result<()> {
    const CAPTURES: usize = 200;
    let (standin, _alone) = standin::open();
    let device = Device::cuda(0)?;
    standin.delay(20);
    let over = AtomicBool::new(false);
    let work = || {
        for i in 0.. {
            let refusal = doubled(&device, i as f32 % 100.0 + 1.0).err().map(|e| e.to_string());
            if let Some(refusal) = refusal {
                assert!(refusal.ends_with("another thread is capturing a graph"), "{refusal}");
            }
            if over.load(Relaxed) {
                return;
            }
        }
    };
    let graphs: Result<Vec<_>> = std::thread::scope(|scope| {
        let worker = scope.spawn(work);
        let graphs = (0..CAPTURES).map(|_| Graph::capture(&device, || Ok(()))).collect();
        over.store(true, Relaxed);
        worker.join().expect("what is launched is done");
        graphs
    });
    standin.delay(0);
    let launches = || ["fill", "matmul_f32", "arithmetic_f32"].map(|kernel| standin.calls(kernel));
    let before = launches();
    graphs?.iter().try_for_each(Graph::replay)?;
    assert_eq!(launches(), before, "the graphs hold nothing");
    Ok(())
}

#[test]
fn threads_that_capture_in_turn_keep_what_they_drop_out_of_each_others_graphs() -> Result<()> {
    let (standin, _alone) = standin::open();
    let device = Device::cuda(0)?;
    let made = Barrier::new(2);
    let captures = || {
        let mut tensors: Vec<_> = (0..300).map(|_| Tensor::<F32>::ones([3], &device).expect("memory")).collect();
        made.wait();
        while !tensors.is_empty() {
            let captured = Graph::capture(&device, || {
                tensors.pop();
                Ok(())
            });
            if let Err(refusal) = captured.map_err(|e| e.to_string()) {
                assert!(refusal.ends_with("another thread is capturing a graph"), "{refusal}");
            }
        }
    };
    standin.delay(20);
    let sound = std::thread::scope(|scope| [(); 2].map(|()| scope.spawn(captures)).map(|thread| thread.join().is_ok()));
    standin.delay(0);
    assert_eq!(sound, [true; 2]);
    Ok(())
}

/// Does again and again what finds a bad index, while another thread downloads too: how often, and how many of both threads'
/// downloads told of it.
fn told(device: &Device, bad: impl Fn() -> Result<()>) -> Result<(usize, usize)> {
    const ROUNDS: usize = 300;
    let x = Tensor::<F32>::ones([3], device)?;
    let tells = || usize::from(matches!(x.to_vec(), Err(Error::IndexOutOfRange { index: 4, size: 4, .. })));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut found = 0;
            while !over.load(Relaxed) {
                found += tells();
            }
            found
        });
        let found = (0..ROUNDS).map(|_| bad().map(|()| tells())).sum::<Result<usize>>();
        over.store(true, Relaxed);
        let others = other.join().expect("no panic");
        Ok((ROUNDS, found? + others))
    })
}

#[test]
fn bad_indices_are_told_whoever_downloads_meanwhile() -> Result<()> {
    let (standin, _alone) = standin::open();
    let device = Device::cuda(0)?;
    let (table, words) = (Tensor::<F32>::ones([4, 2], &device)?, Tensor::<I64>::from_vec(vec![0, 4], [2], &device)?);
    // Dropout has a replay tell the device where its random numbers begin: a call before the launch.
    let step = || table.index_select(0, &words)?.dropout(0.5, true).map(|_| ());
    step()?;
    assert!(table.to_vec().is_err(), "there are four rows");
    let graph = Graph::capture(&device, step)?;
    standin.delay(20);
    let found = [told(&device, step), told(&device, || graph.replay())].into_iter().collect::<Result<Vec<_>>>();
    standin.delay(0);
    let found = found?;
    assert!(found.iter().all(|(made, told)| made == told), "{found:?}");
    Ok(())
}

#[test]
fn a_step_of_many_parameters_is_taken_as_a_whole_or_not_at_all() -> Result<()> {
    const STEPS: usize = 300;
    let (standin, _alone) = standin::open();
    let device = Device::cuda(0)?;
    // More than one launch updates, and more than one counts.
    let parameters = (0..500).map(|_| Parameter::new(&Tensor::<F32>::ones([1], &device)?));
    let parameters = parameters.collect::<Result<Vec<_>>>()?;
    let grads = || parameters.iter().map(Parameter::tensor).reduce(|a, b| (&a + &b).expect("a sum"));
    let grads = grads().expect("parameters").sum_all()?.backward()?;
    let mut optimizer = Sgd::new(parameters.clone(), 1.0);
    optimizer.step(&grads)?;
    standin.delay(20);
    let over = AtomicBool::new(false);
    let mut taken = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Relaxed) {
                let _ = Graph::capture(&device, || Ok(()));
            }
        });
        taken.extend((0..STEPS).map(|_| optimizer.step(&grads).is_ok()));
        over.store(true, Relaxed);
    });
    standin.delay(0);
    let taken = taken.into_iter().filter(|&taken| taken).count();
    let values: Vec<f32> = parameters.iter().map(|p| Ok(p.to_vec()?[0])).collect::<Result<_>>()?;
    assert!(values.iter().all(|v| *v == -(taken as f32)), "{taken} of {STEPS} steps were taken: {values:?}");
    Ok(())
}

#[test]
fn replays_of_one_graph_on_two_threads_draw_numbers_of_their_own() -> Result<()> {
    const EACH: usize = 150;
    let (standin, _alone) = standin::open();
    let device = Device::cuda(0)?;
    // Sums of F32 between 0 and 1 in F64 are exact, in whatever order.
    let sums = Input::new(&Tensor::<F64>::zeros([8], &device)?)?;
    let step = || sums.set(&(&sums.tensor() + &Tensor::<F32>::rand([8], &device)?.to::<F64>()?)?);
    step()?;
    let begin = || sums.set(&Tensor::<F64>::zeros([8], &device)?).map(|()| manual_seed(3));
    begin()?;
    (0..2 * EACH).try_for_each(|_| step())?;
    let expected = sums.tensor().to_vec()?;
    let graph = Graph::capture(&device, step)?;
    begin()?;
    standin.delay(20);
    let replayed = std::thread::scope(|scope| {
        let replays = || (0..EACH).try_for_each(|_| graph.replay());
        [(); 2].map(|()| scope.spawn(replays)).map(|thread| thread.join().expect("no panic"))
    });
    standin.delay(0);
    replayed.into_iter().collect::<Result<()>>()?;
    assert_eq!(sums.tensor().to_vec()?, expected);
    Ok(())
}

#[test]
fn what_other_threads_draw_during_a_capture_is_not_drawn_again() -> Result<()> {
    let (_, _alone) = standin::open();
    let (device, cpu) = (Device::cuda(0)?, Device::cpu());
    let draw = |device: &Device| Tensor::<F32>::rand([8], device);
    manual_seed(5);
    let mut drawn = Vec::new();
    let graph = Graph::capture(&device, || {
        let first = draw(&device)?;
        drawn.push(std::thread::scope(|scope| scope.spawn(|| draw(&cpu)?.to_vec()).join().expect("no panic"))?);
        Ok((first, draw(&device)?))
    })?;
    for _ in 0..2 {
        drawn.extend((0..4).map(|_| draw(&cpu)?.to_vec()).collect::<Result<Vec<_>>>()?);
        let (first, second) = graph.replay()?;
        drawn.extend([first.to_vec()?, second.to_vec()?]);
    }
    let twice = |i: usize| drawn[..i].contains(&drawn[i]);
    assert!(!(0..drawn.len()).any(twice), "{drawn:?}");
    Ok(())
}

/// A thread that has done nothing yet launches a kernel that nobody has asked for.
#[test]
fn a_new_threads_first_call_may_look_up_a_kernel() -> Result<()> {
    let (_, _alone) = standin::open();
    let gpu = standin::gpu();
    let rule = ScaleRule { growth: 1, backoff: -1, interval: 1, floor: 0, ceiling: 20, hysteresis: 1 };
    let mut state = gpu.scale_state([3, 0, 0, 0])?;
    // Loads the file of kernels, on this thread.
    gpu.scale_of(&state)?;
    let next = |state: &mut _| gpu.next_scale(&rule, &[], state);
    std::thread::scope(|scope| scope.spawn(|| next(&mut state)).join().expect("no panic"))?;
    assert_eq!(gpu.download(&state)?, Storage::I64(vec![4, 0, 0, 0].into()));
    Ok(())
}
