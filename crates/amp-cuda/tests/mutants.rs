//! Barriers in the headers that kernels share are needed, every one: without it, results depend on the order of threads.
//!
//! Each check runs in a process of its own, because a mistake may end it.

#[path = "standin/mod.rs"]
mod standin;

use amp_core::Dims;
use amp_core::backend::{Backend, Buffer, DType, Layout, NormKind, Operand, Reduce, Scan, Storage};
use std::path::Path;
use std::process::{Command, Output};
use std::{env, fs};

/// A line of a kernel file and what a mistake makes of it.
struct Mutant {
    file: &'static str,
    line: &'static str,
    mistake: &'static str,
}

const MUTANTS: [Mutant; 2] = [
    Mutant { file: "common.cuh", line: "    __syncthreads();\n    v = shared[0];", mistake: "    v = shared[0];" },
    Mutant {
        file: "common.cuh",
        line: "    __syncthreads();  // an earlier call's readers are done with `shared`\n",
        mistake: "",
    },
];

/// Calls whose results depend on every barrier of the mutated kernels, as F64.
fn results(gpu: &dyn Backend) -> Vec<Storage> {
    // Long enough for blocks of several warps.
    let values: Vec<f32> = (0..4000).map(|i| (i * 37 % 101) as f32 / 16.0 - 3.0).collect();
    let buffer = gpu.upload(Storage::from(values)).expect("an upload");
    let layout = Layout::contiguous(Dims::new(&[2, 2000]).expect("rank 2"));
    let x = Operand { buffer: &buffer, layout: &layout, logical: DType::F32 };
    let out = DType::F32;
    let normalized = gpu.normalize(x, NormKind::Layer { inner: 2000 }, None, None, 1e-5, out).expect("a norm");
    let sums = gpu.reduce(Reduce::Sum, x, &[1], out).expect("sums");
    let softmax = gpu.softmax(x, 1, false, out).expect("a softmax");
    let scan = gpu.scan(Scan::Sum, x, 1, false, out).expect("a scan");
    let all: [Buffer; 6] = [normalized.y, normalized.mean, normalized.var, sums, softmax, scan];
    all.iter().map(|b| gpu.download(b).expect("a download")).collect()
}

/// Runs the calls under every schedule and prints a digest of the bits; differing bits are reported as such.
#[test]
fn child() {
    let Some(folder) = env::var_os("AMP_MUTANT") else { return };
    let (standin, _alone) = standin::open_in(Path::new(&folder));
    let gpu = standin::gpu();
    let mut digests = Vec::new();
    for schedule in standin::SCHEDULES {
        standin.schedule(schedule);
        digests.push(format!("{:?}", results(&*gpu)));
    }
    let same = digests.iter().all(|d| *d == digests[0]);
    println!("digest: {}", if same { &digests[0] } else { "differs with the schedule" });
}

fn run_child(folder: &Path, variables: &[(&str, String)]) -> Output {
    let mut command = Command::new(env::current_exe().expect("this test's file"));
    command.args(["child", "--exact", "--nocapture"]).env("AMP_MUTANT", folder).envs(variables.iter().cloned());
    command.output().expect("the child runs")
}

fn digest(output: &Output) -> Option<String> {
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().find_map(|l| l.split_once("digest: ").map(|(_, d)| d.to_owned()))
}

/// A folder with the kernels' headers and the files that the calls need, one of them changed.
fn mutated(mutant: Option<&Mutant>, name: &str, flags: &[&str]) -> std::path::PathBuf {
    let kernels = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name).join("kernels");
    fs::create_dir_all(&kernels).expect("a folder");
    let mut texts = standin::sources();
    texts.retain(|(name, _)| ["copy", "unary", "binary", "reduce", "norm", "softmax", "scan"].contains(&name.as_str()));
    let mut headers = standin::headers();
    if let Some(Mutant { file, line, mistake }) = mutant {
        let all = texts
            .iter_mut()
            .map(|(n, t)| (format!("{n}.cu"), t))
            .chain(headers.iter_mut().map(|(n, t)| (n.clone(), t)));
        let (_, text) = { all }.find(|(n, _)| n == file).expect("the file is there");
        assert_eq!(text.matches(line).count(), 1, "{file}: {line}");
        *text = text.replace(line, mistake);
    }
    for (name, text) in &headers {
        fs::write(kernels.join(name), text).expect("a header");
    }
    standin::build(&texts, &headers, &kernels, name, flags)
}

#[test]
fn seeded_mistakes_are_caught() {
    let sound = digest(&run_child(&mutated(None, "mutant-none", &[]), &[])).expect("the kernels as they are run");
    assert_ne!(sound, "differs with the schedule");
    for (i, mutant) in MUTANTS.iter().enumerate() {
        let output = run_child(&mutated(Some(mutant), &format!("mutant-{i}"), &[]), &[]);
        let found = digest(&output);
        assert_ne!(found.as_ref(), Some(&sound), "{}: nobody notices {:?}", mutant.file, mutant.mistake);
    }
}
