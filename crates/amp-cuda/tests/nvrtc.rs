//! Every kernel compiles for every supported architecture without spills and within a register budget.
//!
//! Needs NVRTC 12.9, the last that knows all of them: `tests/setup.sh` installs it, `AMP_NVRTC` names its file. Without it
//! the test says on stderr that nothing was checked, and passes, unless `AMP_REQUIRE_NVRTC` is set.

use libloading::Library;
use std::collections::hash_map::DefaultHasher;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs};

const ARCHITECTURES: [u32; 8] = [70, 75, 80, 86, 89, 90, 100, 120];

/// Registers of a thread such that two blocks of 256 threads fit on every multiprocessor, or of blocks of 128 threads three,
/// two where tensor cores have the work.
fn budget(kernel: &str) -> u32 {
    match kernel {
        _ if kernel.starts_with("flash_attention") => 255,
        _ if kernel.starts_with("attention_grad") => 168,
        _ => 128,
    }
}

struct Nvrtc(Library);

type Program = *mut c_void;

impl Nvrtc {
    fn open() -> Option<Self> {
        let named = env::var_os("AMP_NVRTC").map(PathBuf::from);
        let installed =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/nvrtc/nvidia/cuda_nvrtc/lib/libnvrtc.so.12");
        let file = named.unwrap_or(installed);
        // SAFETY: the library's initialisers have no preconditions.
        unsafe { Library::new(file) }.ok().map(Self)
    }

    /// The compiler's log for a program, or what is wrong with it.
    fn compile(&self, name: &str, source: &str, architecture: u32) -> Result<String, String> {
        let text = |s: &str| CString::new(s).expect("no zero byte");
        let (source, name) = (text(source), text(name));
        let options =
            [format!("--gpu-architecture=sm_{architecture}"), "--ptxas-options=-v".into(), "--std=c++17".into()];
        let options: Vec<CString> = options.iter().map(|o| text(o)).collect();
        let pointers: Vec<*const c_char> = options.iter().map(|o| o.as_ptr()).collect();
        let mut program: Program = std::ptr::null_mut();
        type Create = unsafe extern "C" fn(
            *mut Program,
            *const c_char,
            *const c_char,
            c_int,
            *const c_void,
            *const c_void,
        ) -> c_int;
        // SAFETY: NVRTC's documented signatures; every pointer is to a local that outlives the calls, the program is
        // destroyed once.
        unsafe {
            let create = self.0.get::<Create>(b"nvrtcCreateProgram\0").expect("a symbol of NVRTC");
            let compile = self
                .0
                .get::<unsafe extern "C" fn(Program, c_int, *const *const c_char) -> c_int>(b"nvrtcCompileProgram\0");
            let log_size =
                self.0.get::<unsafe extern "C" fn(Program, *mut usize) -> c_int>(b"nvrtcGetProgramLogSize\0");
            let log = self.0.get::<unsafe extern "C" fn(Program, *mut c_char) -> c_int>(b"nvrtcGetProgramLog\0");
            let destroy = self.0.get::<unsafe extern "C" fn(*mut Program) -> c_int>(b"nvrtcDestroyProgram\0");
            assert_eq!(create(&mut program, source.as_ptr(), name.as_ptr(), 0, std::ptr::null(), std::ptr::null()), 0);
            let status = compile.expect("a symbol of NVRTC")(program, pointers.len() as c_int, pointers.as_ptr());
            let mut size = 0;
            log_size.expect("a symbol of NVRTC")(program, &mut size);
            let mut buffer = vec![0u8; size + 1];
            log.expect("a symbol of NVRTC")(program, buffer.as_mut_ptr().cast());
            destroy.expect("a symbol of NVRTC")(&mut program);
            let log = CStr::from_bytes_until_nul(&buffer).expect("a text").to_string_lossy().into_owned();
            if status == 0 { Ok(log) } else { Err(log) }
        }
    }
}

/// The number before `unit` in a line of ptxas' report.
fn number(line: &str, unit: &str) -> Option<u32> {
    let before = &line[..line.find(unit)?];
    before.split_whitespace().next_back()?.parse().ok()
}

/// What a report says against the rules, kernel by kernel, and how many kernels it speaks of.
fn complaints(log: &str) -> (Vec<String>, usize) {
    let (mut kernel, mut complaints, mut kernels) = (String::new(), Vec::new(), 0);
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            kernel = rest.split('\'').next().unwrap_or_default().into();
        }
        let spilled =
            number(line, " bytes spill stores").unwrap_or(0) + number(line, " bytes spill loads").unwrap_or(0);
        if spilled > 0 {
            complaints.push(format!("{kernel} spills {spilled} bytes"));
        }
        if let Some(registers) = number(line, " registers") {
            kernels += 1;
            if registers > budget(&kernel) {
                complaints
                    .push(format!("{kernel} uses {registers} registers, at most {} are allowed", budget(&kernel)));
            }
        }
    }
    (complaints, kernels)
}

#[test]
fn every_kernel_compiles_for_every_architecture_without_spills() {
    let Some(nvrtc) = Nvrtc::open() else {
        assert!(env::var_os("AMP_REQUIRE_NVRTC").is_none(), "NVRTC was not found; run tests/setup.sh or set AMP_NVRTC");
        // Not by `println!`, which nobody sees when a test passes.
        let _ =
            writeln!(std::io::stderr(), "NOT RUN: no kernel was compiled for a GPU, NVRTC is missing (tests/setup.sh)");
        return;
    };
    let sources = amp_cuda::sources();
    let jobs: Vec<_> =
        ARCHITECTURES.iter().flat_map(|&a| sources.iter().map(move |(name, text)| (a, name, text))).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let taken = std::iter::from_fn(|| jobs.get(next.fetch_add(1, Ordering::Relaxed)));
        taken.flat_map(|job| check(&nvrtc, job)).collect::<Vec<_>>()
    };
    let found = std::thread::scope(|scope| {
        let other = scope.spawn(work);
        [work(), other.join().expect("a worker finishes")].concat()
    });
    assert!(found.is_empty(), "{}", found.join("\n"));
}

fn check(nvrtc: &Nvrtc, &(architecture, name, text): &(u32, &&'static str, &String)) -> Vec<String> {
    let log = match report(nvrtc, name, text, architecture) {
        Ok(log) => log,
        Err(log) => return vec![format!("{name} for sm_{architecture}: {log}")],
    };
    let (complaints, kernels) = complaints(&log);
    let declared = text.matches("KERNEL(").count();
    assert!(kernels > 0 && declared > 0, "{name} for sm_{architecture}: no kernel in the report\n{log}");
    complaints.into_iter().map(|c| format!("{name} for sm_{architecture}: {c}")).collect()
}

/// The log of a compilation; one of the same text for the same architecture is not repeated.
fn report(nvrtc: &Nvrtc, name: &str, text: &str, architecture: u32) -> Result<String, String> {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let kept = format!("nvrtc/{name}-sm{architecture}-{:016x}.log", hasher.finish());
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(kept);
    if let Ok(log) = fs::read_to_string(&kept) {
        return Ok(log);
    }
    let log = nvrtc.compile(&format!("{name}.cu"), text, architecture)?;
    fs::create_dir_all(kept.parent().expect("a folder")).and_then(|()| fs::write(&kept, &log)).expect("a log is kept");
    Ok(log)
}

#[test]
fn reports_are_read_as_ptxas_writes_them() {
    let log = "ptxas info    : Compiling entry function 'good' for 'sm_80'\n\
               \x20   0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
               ptxas info    : Used 32 registers, used 0 barriers, 400 bytes cmem[0]\n\
               ptxas info    : Compiling entry function 'bad' for 'sm_80'\n\
               \x20   8 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n\
               ptxas info    : Used 200 registers, used 1 barriers\n";
    let (complaints, kernels) = complaints(log);
    assert_eq!(kernels, 2);
    assert_eq!(complaints, ["bad spills 20 bytes", "bad uses 200 registers, at most 128 are allowed"]);
}
