//! `gpu/run.sh`, in a folder of programs that pretend: what fails or is missing is named, and costs nothing else.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

const PROGRAMS: [&str; 10] = [
    "throughput",
    "digits",
    "steps",
    "conformance",
    "zoo",
    "kernels",
    "products",
    "convolutions",
    "replay",
    "training",
];
const FIGURES: &str = "echo 'copy f32,1.0,4000'; echo 'add f32,2.0,4000'; echo 'matmul bf16,1.0,9'
echo 'unscale and check f32,1.0,3500'";
/// Until the driver's memory was looked at once.
const WAIT: &str = "while [ -e record/memory.tmp ] && [ ! -s record/memory.tmp ]; do sleep 0.01; done";
/// Tools that the script needs anywhere.
const TOOLS: [&str; 13] =
    ["sh", "env", "dirname", "mkdir", "date", "rm", "timeout", "tail", "sort", "tee", "sleep", "kill", "cat"];

/// A folder as `gpu/bundle.sh` makes it, whose programs succeed at once, and the tools of a machine beside it.
struct Bundle(PathBuf);

/// Folders of this machine's tools.
fn paths() -> Vec<PathBuf> {
    env::split_paths(&env::var_os("PATH").expect("a search path")).collect()
}

impl Bundle {
    fn new(name: &str) -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bundle").join(name);
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("bin")).expect("a folder");
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("gpu");
        for file in ["run.sh", "summary.py"] {
            fs::copy(scripts.join(file), root.join(file)).expect("a copy");
        }
        let bundle = Self(root);
        for name in PROGRAMS {
            bundle.program(name, "echo done");
        }
        bundle.program("throughput", FIGURES);
        bundle.program("steps", &format!(r#"{WAIT}; echo "$1 $2,10.0,100.0"; echo "$1 on cuda:0" >&2"#));
        let paths = paths();
        for tool in TOOLS {
            let file = paths.iter().map(|p| p.join(tool)).find(|f| f.exists()).expect("a usual tool");
            std::os::unix::fs::symlink(file, bundle.0.join("bin").join(tool)).expect("a link");
        }
        bundle
    }

    fn program(&self, name: &str, does: &str) {
        let file = self.0.join(name);
        fs::write(&file, format!("#!/bin/sh\n{does}\n")).expect("a file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("it may run");
    }

    /// A `python3` whose PyTorch pretends, or is missing, and which runs `summary.py` in truth.
    fn python(&self, torch: &str) {
        let found = paths().into_iter().map(|p| p.join("python3"));
        let real = found.into_iter().find(|f| f.exists()).expect("python3");
        let does = format!(
            r#"case "$1$2" in
-c*torch*) {torch} ;;
-c*) ;;
throughput.py*) {FIGURES} ;;
steps.py*) {WAIT}; echo "$2 $3,20.0,50.0" ;;
*) PATH='{}' exec {} "$@" ;;
esac"#,
            env::var("PATH").expect("a search path"),
            real.display()
        );
        self.program("bin/python3", &does);
    }

    fn run(&self) -> (i32, String) {
        let mut command = Command::new("sh");
        command.arg(self.0.join("run.sh")).env_clear().env("PATH", self.0.join("bin"));
        let Output { status, stdout, .. } = command.output().expect("a shell");
        (status.code().expect("an exit status"), String::from_utf8_lossy(&stdout).into_owned())
    }

    fn page(&self) -> String {
        let files = fs::read_dir(self.0.join("record")).expect("a folder").flatten().map(|e| e.path());
        let page = files.into_iter().find(|f| f.extension().is_some_and(|e| e == "md")).expect("a page");
        fs::read_to_string(page).expect("its text")
    }
}

#[test]
fn a_machine_with_everything_gets_a_page_of_targets() {
    let bundle = Bundle::new("everything");
    bundle.python("echo 2.11.0");
    bundle.program(
        "bin/nvidia-smi",
        r#"case "$*" in *used*) echo 500; exec sleep 10 ;; *) echo "A GPU, 580, 1 MiB" ;; esac"#,
    );
    bundle.program("bin/compute-sanitizer", "echo '========= ERROR SUMMARY: 0 errors'");
    let (status, text) = bundle.run();
    assert!(status == 0 && text.ends_with("failed: nothing; missing: nothing\n"), "{status} {text}");
    let page = bundle.page();
    for line in [
        "| unscale and check, of the bandwidth of a copy | 0.88× | 0.85× | met |",
        "| add f32, PyTorch's time over ours | 1.00× | 1.00× | met |",
        "| softmax f32, PyTorch's time over ours | missing | 1.00× | missing |",
        "| gpt step bf16, PyTorch's time over ours | 2.00× | 1.00× | met |",
        "| gpt step bf16, PyTorch's memory over ours | 1.00× | 1.00× | met |",
        "| gpt step bf16, our F32 time over it | 1.00× | 3.00× | NOT MET |",
        "| racecheck | 0 |",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
    assert!(page.starts_with("# GPU, 20") && page.lines().next().is_some_and(|l| l.contains("A GPU, 580")), "{page}");
}

#[test]
fn a_part_that_fails_leaves_the_others_alone() {
    let bundle = Bundle::new("failing");
    bundle.python("echo 2.11.0");
    bundle.program("products", "echo 'test result: FAILED'; exit 101");
    bundle.program("steps", r#"[ "$1" = gpt ] || exit 1; echo "$1 $2,10.0,100.0""#);
    bundle.program("bin/nvidia-smi", "echo 'No devices were found'; exit 6");
    let (status, text) = bundle.run();
    assert_eq!(status, 1, "{text}");
    let last = "failed: products resnet50-bf16-amp resnet50-f16-amp resnet50-bf16-graph resnet50-f32-amp; \
                missing: memcheck racecheck\n";
    assert!(text.ends_with(last) && text.contains("FAILED"), "{text}");
    let page = bundle.page();
    for line in [
        "| resnet50 step f16, PyTorch's time over ours | missing | 1.00× | missing |",
        "| gpt step f16, PyTorch's time over ours | 2.00× | 1.00× | met |",
        "| products | 101 |",
    ] {
        assert!(page.contains(line), "{line}\n{page}");
    }
}

#[test]
fn what_is_not_installed_is_named() {
    let bundle = Bundle::new("bare");
    let (status, text) = bundle.run();
    assert_eq!(status, 2, "{text}");
    assert!(text.ends_with("failed: nothing; missing: memory torch memcheck racecheck summary\n"), "{text}");
    bundle.python("echo 'No module named torch'; exit 1");
    let (status, text) = bundle.run();
    assert_eq!(status, 2, "{text}");
    assert!(text.contains("== torch: not run, No module named torch\n"), "{text}");
    assert!(text.ends_with("failed: nothing; missing: memory torch memcheck racecheck\n"), "{text}");
    assert!(bundle.page().contains("| add f32, PyTorch's time over ours | missing | 1.00× | missing |"));
}

#[test]
fn without_a_gpu_or_a_program_nothing_is_run() {
    let bundle = Bundle::new("no-gpu");
    bundle.program("throughput", "echo 'throughput: cuda:0 is not available: no driver'; exit 1");
    let (status, text) = bundle.run();
    assert_eq!(status, 1, "{text}");
    let end = "cuda:0 is not available: no driver\nnothing was run: no GPU can be used on this machine\n";
    assert!(text.ends_with(end), "{text}");
    fs::remove_file(bundle.0.join("replay")).expect("it is there");
    let (status, text) = bundle.run();
    assert_eq!((status, text.as_str()), (1, "replay is missing here: make this folder with gpu/bundle.sh\n"));
}
