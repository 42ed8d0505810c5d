//! Builds the stand-in driver from the kernels' sources and opens it as if it were CUDA.
#![allow(dead_code, reason = "every test file uses a part")]

use amp_core::backend::Backend;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::{env, fs};

/// The driver's own controls, which CUDA's lack.
///
/// With `AMP_REAL_DEVICE` set, tests run on a real one, which has no controls: orders of threads are its own, and nothing is
/// counted.
pub struct Standin {
    library: Option<libloading::Library>,
}

/// Schedules of a block's threads, with seeds for the random ones.
pub const SCHEDULES: [(i32, u64); 5] = [(0, 1), (1, 1), (2, 1), (2, 77), (3, 1)];

/// The schedules that tests run under: all, or as many of them as `AMP_SCHEDULES` says.
pub fn schedules() -> &'static [(i32, u64)] {
    let most = env::var("AMP_SCHEDULES").ok().and_then(|n| n.parse().ok()).unwrap_or(SCHEDULES.len());
    &SCHEDULES[..most.clamp(1, SCHEDULES.len())]
}

impl Standin {
    /// Whether anything is counted: not on a real device.
    pub fn counts(&self) -> bool {
        self.library.is_some()
    }

    /// Order in which the threads of a block take turns from now on.
    pub fn schedule(&self, (kind, seed): (i32, u64)) {
        let Some(library) = &self.library else { return };
        // SAFETY: the symbol has this type in emulation.cpp.
        let set = unsafe { library.get::<unsafe extern "C" fn(i32, u64)>(b"standin_schedule\0") };
        // SAFETY: it takes any numbers.
        unsafe { set.expect("a symbol of the stand-in")(kind, seed) }
    }

    /// How often a driver function was called, or a kernel launched.
    pub fn calls(&self, name: &str) -> u64 {
        let Some(library) = &self.library else { return 0 };
        let name = std::ffi::CString::new(name).expect("no zero byte");
        // SAFETY: the symbol has this type in driver.cpp.
        let calls = unsafe { library.get::<unsafe extern "C" fn(*const i8) -> u64>(b"standin_calls\0") };
        // SAFETY: the text ends with a zero byte and outlives the call.
        unsafe { calls.expect("a symbol of the stand-in")(name.as_ptr().cast()) }
    }

    /// How often everything was called or launched.
    pub fn all_calls(&self) -> BTreeMap<String, u64> {
        let Some(library) = &self.library else { return BTreeMap::new() };
        // SAFETY: the symbol has this type in driver.cpp.
        let calls = unsafe { library.get::<unsafe extern "C" fn() -> *const i8>(b"standin_all_calls\0") };
        // SAFETY: it takes nothing.
        let text = unsafe { calls.expect("a symbol of the stand-in")() };
        // SAFETY: it returns a text that ends with a zero byte and stays until the next call, which the guard forbids.
        let text = unsafe { std::ffi::CStr::from_ptr(text.cast()) }.to_str().expect("plain letters");
        let pair = |line: &str| line.split_once(' ').map(|(name, count)| (name.to_owned(), count.parse().unwrap_or(0)));
        text.lines().filter_map(pair).collect()
    }

    /// Bytes of device memory in use.
    pub fn bytes(&self) -> u64 {
        self.number(b"standin_bytes\0")
    }

    /// Pieces of device memory in use.
    pub fn blocks(&self) -> u64 {
        self.number(b"standin_blocks\0")
    }

    fn number(&self, of: &[u8]) -> u64 {
        let Some(library) = &self.library else { return 0 };
        // SAFETY: these symbols have this type in driver.cpp.
        let number = unsafe { library.get::<unsafe extern "C" fn() -> u64>(of) };
        // SAFETY: they take nothing.
        unsafe { number.expect("a symbol of the stand-in")() }
    }

    /// From now on kernels do nothing: for tests of what is asked of the driver, thousands of times.
    pub fn idle(&self, on: bool) {
        let Some(library) = &self.library else { return };
        // SAFETY: the symbol has this type in driver.cpp.
        let idle = unsafe { library.get::<unsafe extern "C" fn(i32)>(b"standin_idle\0") };
        // SAFETY: it takes any number.
        unsafe { idle.expect("a symbol of the stand-in")(i32::from(on)) }
    }

    /// How ReLU of the algorithms that cuBLASLt proposes from now on treats NaN: keeps it (0), hides it (1), or keeps it but lets
    /// no gradient pass (2).
    pub fn relu(&self, mode: i32) {
        let Some(library) = &self.library else { return };
        // SAFETY: the symbol has this type in driver.cpp.
        let relu = unsafe { library.get::<unsafe extern "C" fn(i32)>(b"standin_relu\0") };
        // SAFETY: it takes any number.
        unsafe { relu.expect("a symbol of the stand-in")(mode) }
    }

    /// The stand-in that the process opened already.
    pub fn opened(folder: &Path) -> Self {
        // SAFETY: the library is open, so that its initialisers do not run again.
        let library = unsafe { libloading::Library::new(folder.join("libcuda.so")) };
        Self { library: Some(library.expect("the stand-in opens")) }
    }
}

/// The stand-in, opened for this process; the guard keeps schedules and counts to one test at a time.
pub fn open() -> (&'static Standin, MutexGuard<'static, ()>) {
    open_with(|| match env::var_os("AMP_STANDIN") {
        Some(folder) => folder.into(),
        None => build(&sources(), &headers(), &kernels(), "standin", &[]),
    })
}

/// The stand-in that was built in `folder`.
pub fn open_in(folder: &Path) -> (&'static Standin, MutexGuard<'static, ()>) {
    open_with(|| folder.to_owned())
}

/// The stand-in with cuBLASLt's and cuDNN's; must come before any other opening of the process.
pub fn open_with_products() -> (&'static Standin, MutexGuard<'static, ()>) {
    let (standin, guard) = open();
    if !standin.counts() {
        return (standin, guard);
    }
    let folder = PathBuf::from(env::var_os("AMP_CUDA_LIB_DIR").expect("set when the stand-in opened"));
    if !folder.to_string_lossy().contains(':') {
        let all = [&folder, &with_products(&folder), &with_convolutions(&folder)];
        let all = env::join_paths(all).expect("no colon in the target folder");
        // SAFETY: the guard is held, and every test takes it before it does anything that reads the environment.
        unsafe { env::set_var("AMP_CUDA_LIB_DIR", all) };
    }
    (standin, guard)
}

fn open_with(folder: impl FnOnce() -> PathBuf) -> (&'static Standin, MutexGuard<'static, ()>) {
    static ALONE: Mutex<()> = Mutex::new(());
    static OPEN: OnceLock<Standin> = OnceLock::new();
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let standin = OPEN.get_or_init(|| {
        if env::var_os("AMP_REAL_DEVICE").is_some() {
            return Standin { library: None };
        }
        let folder = folder();
        // SAFETY: every test takes the guard before it does anything that reads the environment.
        unsafe { env::set_var("AMP_CUDA_LIB_DIR", &folder) };
        // SAFETY: as above.
        unsafe { env::set_var("AMP_CUDA_CACHE_DIR", folder.join("cache")) };
        // SAFETY: the library was built just now and has no initialisers but registrations.
        let library = unsafe { libloading::Library::new(folder.join("libcuda.so")) };
        Standin { library: Some(library.expect("the stand-in opens")) }
    });
    (standin, guard)
}

/// The CUDA backend on the stand-in.
pub fn gpu() -> Arc<dyn Backend> {
    amp_cuda::backend(0).expect("the stand-in is a GPU")
}

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/standin")
}

pub fn kernels() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels")
}

/// Name and text of every kernel file.
pub fn sources() -> Vec<(String, String)> {
    let mut files: Vec<PathBuf> = fs::read_dir(kernels()).expect("kernels").flatten().map(|e| e.path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "cu"));
    files.sort();
    let text = |f: &PathBuf| fs::read_to_string(f).expect("a kernel file");
    files.iter().map(|f| (f.file_stem().expect("a name").to_string_lossy().into(), text(f))).collect()
}

/// Name and text of the headers that kernel files share.
pub fn headers() -> Vec<(String, String)> {
    let text = |name: &str| (name.to_owned(), fs::read_to_string(kernels().join(name)).expect("a header"));
    ["common.cuh", "gemm.cuh", "mma.cuh", "attention.cuh"].map(text).into()
}

/// Compiles the given kernels with the emulation, unless the same was compiled before, and returns the folder.
pub fn build(
    sources: &[(String, String)],
    headers: &[(String, String)],
    include: &Path,
    name: &str,
    flags: &[&str],
) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a folder for the stand-in");
    let read = |f: &str| fs::read_to_string(tests().join(f)).expect("a file of the stand-in");
    let runtime = ["emulation.cpp", "driver.cpp"].map(|f| (f.to_owned(), read(f)));
    let kernels = sources.iter().map(|(name, text)| (format!("{name}.cpp"), wrapped(name, text)));
    let units: Vec<(String, String)> = kernels.chain(runtime).collect();
    let depends = format!("{headers:?} {} {} {flags:?}", read("emulation.h"), read("driver.h"));
    let stale: Vec<String> = units.iter().filter_map(|unit| stale(&folder, unit, &depends)).collect();
    std::thread::scope(|scope| {
        for part in stale.chunks(stale.len().div_ceil(2).max(1)) {
            let folder = &folder;
            scope.spawn(move || part.iter().for_each(|unit| compile(folder, include, unit, flags)));
        }
    });
    link(&folder, &units, flags);
    folder
}

/// Each file in its own namespace: two files may use one name for different things.
fn wrapped(name: &str, text: &str) -> String {
    format!("#include \"emulation.h\"\nnamespace of_{name} {{\n#line 1 \"{name}.cu\"\n{text}\n}}\n")
}

/// The unit's name, if its object does not come from this text and what it depends on.
fn stale(folder: &Path, (unit, text): &(String, String), depends: &str) -> Option<String> {
    let whole = format!(
        "{text}
// {depends:?}
"
    );
    let file = folder.join(unit);
    let object = file.with_extension("o");
    if object.exists() && fs::read_to_string(&file).is_ok_and(|old| old == whole) {
        return None;
    }
    let _ = fs::remove_file(object);
    fs::write(file, whole).expect("a unit is written");
    Some(unit.clone())
}

fn compiler() -> Command {
    Command::new(env::var_os("CXX").unwrap_or_else(|| "g++".into()))
}

fn run(mut command: Command) {
    let output = command.output().expect("a C++ compiler (g++, or what CXX names) runs");
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
}

fn compile(folder: &Path, include: &Path, unit: &str, flags: &[&str]) {
    let mut command = compiler();
    command.current_dir(folder).args(["-std=c++17", "-O1", "-fPIC", "-w", "-ffp-contract=off"]).args(flags);
    command.arg("-I").arg(tests()).arg("-I").arg(include).args(["-c", unit, "-o"]).arg(unit.replace(".cpp", ".part"));
    run(command);
    fs::rename(folder.join(unit.replace(".cpp", ".part")), folder.join(unit.replace(".cpp", ".o"))).expect("renamed");
}

fn link(folder: &Path, units: &[(String, String)], flags: &[&str]) {
    let objects = units.iter().map(|(unit, _)| unit.replace(".cpp", ".o"));
    let mut command = compiler();
    command
        .current_dir(folder)
        .args(["-shared", "-Wl,-soname,libcuda.so", "-o", "libcuda.so"])
        .args(flags)
        .args(objects);
    run(command);
    let mut command = compiler();
    command.current_dir(folder).args(["-shared", "-fPIC", "-Wl,-soname,libnvrtc.so", "-o", "libnvrtc.so"]);
    command.arg(tests().join("nvrtc.cpp"));
    run(command);
    std::thread::scope(|scope| {
        scope.spawn(|| link_beside(&with_products(folder), "cublaslt.cpp", "libcublasLt.so"));
        link_beside(&with_convolutions(folder), "cudnn.cpp", "libcudnn.so.9");
    });
}

/// How the stand-in is compiled for AddressSanitizer.
pub const SANITIZED: [&str; 2] = ["-fsanitize=address", "-g1"];

/// The stand-in under AddressSanitizer, and the environment of a process that runs on it; `None` where the compiler has none.
///
/// One order of threads: which addresses are touched does not depend on it.
pub fn sanitized() -> Option<(PathBuf, [(&'static str, String); 3])> {
    let output = compiler().arg("-print-file-name=libasan.so").output().ok()?;
    let runtime = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !Path::new(&runtime).is_absolute() {
        return None;
    }
    let options = "detect_leaks=0:detect_stack_use_after_return=0:handle_segv=0".to_owned();
    let folder = build(&sources(), &headers(), &kernels(), "sanitized", &SANITIZED);
    Some((folder, [("LD_PRELOAD", runtime), ("ASAN_OPTIONS", options), ("AMP_SCHEDULES", "1".into())]))
}

/// cuBLASLt's stand-in, in a folder of its own: without it the library's own kernels multiply.
pub fn with_products(folder: &Path) -> PathBuf {
    folder.join("products")
}

/// cuDNN's stand-in, in a folder of its own: without it the library's own kernels convolve.
pub fn with_convolutions(folder: &Path) -> PathBuf {
    folder.join("convolutions")
}

/// A library that works on the stand-in driver's memory.
fn link_beside(own: &Path, source: &str, library: &str) {
    fs::create_dir_all(own).expect("a folder for a library's stand-in");
    let mut command = compiler();
    command.current_dir(own).args(["-std=c++17", "-O1", "-shared", "-fPIC", "-w", "-ffp-contract=off"]);
    command.arg("-I").arg(tests()).arg("-I").arg(kernels()).arg(tests().join(source));
    command.arg(format!("-Wl,-soname,{library}")).args([
        "-Wl,-rpath,$ORIGIN/..",
        "-L..",
        "-l:libcuda.so",
        "-o",
        library,
    ]);
    run(command);
}
