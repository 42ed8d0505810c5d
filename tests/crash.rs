//! A process that is killed while it saves leaves the old file or the new one, never half of one.

use amp::nn::Linear;
use amp::optim::AdamW;
use amp::prelude::*;
use amp::train::TrainState;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const CHILD: &str = "AMP_CRASH_FOLDER";

struct Run {
    net: Linear,
    opt: AdamW,
    scaler: GradScaler,
    count: u64,
}

impl Run {
    fn new() -> Result<Self> {
        let device = Device::cpu();
        let net = Linear::new(512, 512, &device)?;
        let opt = AdamW::new(net.parameters(), 1e-3);
        Ok(Self { net, opt, scaler: GradScaler::new(&device)?, count: 0 })
    }

    fn state(&mut self) -> TrainState<'_> {
        TrainState::new(&self.net, &mut self.opt, &mut self.scaler).counter(&mut self.count)
    }
}

/// The child's work: saves until it is killed.
fn save_forever(path: &Path) -> Result<()> {
    let mut run = Run::new()?;
    loop {
        run.count += 1;
        run.state().save(path)?;
    }
}

#[test]
fn a_killed_save_leaves_a_whole_file() {
    if let Some(folder) = std::env::var_os(CHILD) {
        save_forever(&PathBuf::from(folder).join("state.safetensors")).unwrap();
    }
    let folder = std::env::temp_dir().join(format!("amp-crash-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("state.safetensors");
    let mut run = Run::new().unwrap();
    run.state().save(&path).unwrap();
    let saved = || std::fs::metadata(&path).unwrap().modified().unwrap();
    for round in 1..=6 {
        let (program, before, start) = (std::env::current_exe().unwrap(), saved(), Instant::now());
        let mut child = Command::new(program)
            .args(["--exact", "a_killed_save_leaves_a_whole_file", "--nocapture"])
            .env(CHILD, &folder)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        while saved() == before && start.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(17 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        run.count = 0;
        run.state().load(&path).unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert!(run.count > 0 && saved() != before, "round {round}: the child saved nothing");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_first_overflow_is_named_with_its_function_and_line() {
    let device = Device::cpu();
    let net = Linear::new(2, 2, &device).unwrap();
    // Positive outputs, so that the overflow reaches the gradients: e^inf, not e^-inf.
    net.weight().set(&Tensor::ones([2, 2], &device).unwrap()).unwrap();
    let names = net.parameters().len();
    assert_eq!(names, 2);
    let (result, culprit) = amp::diagnose(|| overflow(&net));
    result.unwrap();
    let culprit = culprit.expect("an overflow");
    assert_eq!((culprit.op, culprit.backward, culprit.bad), ("mul", false, 2));
    assert!(culprit.location.file().ends_with("crash.rs"), "{culprit}");
    assert!(culprit.function.as_deref().is_none_or(|f| f.contains("overflow")), "{culprit}");
    assert!(culprit.parameters.iter().any(|p| p == "`weight`"), "{culprit}");
    let (_, nothing) = amp::diagnose(|| net.forward(&Tensor::<F32>::ones([1, 2], &device)?));
    assert_eq!(nothing, None);
}

fn overflow(net: &Linear) -> Result<()> {
    let x = Tensor::<F32>::ones([1, 2], net.weight().device())?;
    let h = net.forward(&x.to::<F16>()?)?;
    let large = (h * 1e9)?;
    let loss = large.to::<F32>()?.exp()?.sum_all()?;
    let scaler = GradScaler::new(x.device())?;
    scaler.scale(&loss)?.backward().map(drop)
}
