//! Builds the stand-in driver from the kernels' sources and opens it as if it were CUDA.
#![allow(dead_code, reason = "every test file uses a part")]

use amp_core::backend::Backend;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
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

    /// From now on every call of the driver takes so many microseconds to get to the device: other threads may overtake it.
    pub fn delay(&self, microseconds: u32) {
        let Some(library) = &self.library else { return };
        // SAFETY: the symbol has this type in driver.cpp.
        let delay = unsafe { library.get::<unsafe extern "C" fn(u32)>(b"standin_delay\0") };
        // SAFETY: it takes any number.
        unsafe { delay.expect("a symbol of the stand-in")(microseconds) }
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

    /// From now on cuBLASLt and cuDNN refuse to do what they planned, though planning goes on as ever.
    pub fn refuse(&self, on: bool) {
        let Some(library) = &self.library else { return };
        // SAFETY: the symbol has this type in driver.cpp.
        let late = unsafe { library.get::<unsafe extern "C" fn(i32)>(b"standin_late\0") };
        // SAFETY: it takes any number.
        unsafe { late.expect("a symbol of the stand-in")(i32::from(on)) }
    }

    /// Of what there is no memory from now on: of large pieces (1), of what libraries need for themselves (2), of nothing (0).
    pub fn want(&self, of: i32) {
        let Some(library) = &self.library else { return };
        // SAFETY: the symbol has this type in driver.cpp.
        let want = unsafe { library.get::<unsafe extern "C" fn(i32)>(b"standin_want\0") };
        // SAFETY: it takes any number.
        unsafe { want.expect("a symbol of the stand-in")(of) }
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
    [
        "common.cuh",
        "elements.cuh",
        "conv.cuh",
        "gemm.cuh",
        "mma.cuh",
        "attention.cuh",
        "flash.cuh",
        "quads.cuh",
        "lines.cuh",
    ]
    .map(text)
    .into()
}

/// Builds the given kernels with the emulation and returns the folder. Any number of processes may build and use it at once.
pub fn build(
    sources: &[(String, String)],
    headers: &[(String, String)],
    include: &Path,
    name: &str,
    flags: &[&str],
) -> PathBuf {
    let folder = target().join(name);
    let read = |f: &str| fs::read_to_string(tests().join(f)).expect("a file of the stand-in");
    let own = |f: &str| (f.to_owned(), read(&format!("{f}.cpp")));
    let kernels = sources.iter().map(|(name, text)| (name.clone(), wrapped(name, text)));
    let units: Vec<(String, String)> =
        ["nvrtc", "cublaslt", "cudnn", "emulation", "driver"].map(own).into_iter().chain(kernels).collect();
    let depends = format!("{headers:?} {} {} {flags:?} {:?}", read("emulation.h"), read("driver.h"), compiler());
    let queue = Mutex::new(units.iter().map(|unit| (unit, object(unit, &depends))));
    let next = || queue.lock().expect("no compiler failed").next();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(((_, text), object)) = next() {
                    compile(text, &object, include, flags);
                }
            });
        }
    });
    let objects: Vec<PathBuf> = units.iter().map(|unit| object(unit, &depends)).collect();
    let [nvrtc, cublaslt, cudnn, driver @ ..] = &objects[..] else { unreachable!("five and the kernels") };
    link(&folder.join("libcuda.so"), driver, flags);
    link(&folder.join("libnvrtc.so"), std::slice::from_ref(nvrtc), flags);
    link_beside(&with_products(&folder).join("libcublasLt.so"), cublaslt, flags);
    link_beside(&with_convolutions(&folder).join("libcudnn.so.9"), cudnn, flags);
    folder
}

fn target() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

/// Each file in its own namespace: two files may use one name for different things.
fn wrapped(name: &str, text: &str) -> String {
    format!(
        "#define UNIT {name}\n#include \"emulation.h\"\nnamespace of_{name} {{\n#line 1 \"{name}.cu\"\n{text}\n}}\n"
    )
}

/// Where the object of a unit is: one that comes from the same text and what it depends on serves every stand-in.
fn object((unit, text): &(String, String), depends: &str) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    (text, depends).hash(&mut hasher);
    target().join("objects").join(format!("{unit}-{:016x}.o", hasher.finish()))
}

fn compiler() -> Command {
    Command::new(env::var_os("CXX").unwrap_or_else(|| "g++".into()))
}

fn run(mut command: Command) {
    let output = command.output().expect("a C++ compiler (g++, or what CXX names) runs");
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
}

fn compile(text: &str, object: &Path, include: &Path, flags: &[&str]) {
    if object.exists() {
        return;
    }
    made(object, |part| {
        let unit = part.with_extension("cpp");
        fs::write(&unit, text).expect("a unit is written");
        let mut command = compiler();
        command.args(["-std=c++17", "-O1", "-fPIC", "-w", "-ffp-contract=off"]).args(ALIGNED).args(flags);
        command.arg("-I").arg(tests()).arg("-I").arg(include).arg("-c").arg(&unit).arg("-o").arg(part);
        run(command);
        fs::remove_file(unit).expect("the unit is there");
    });
}

fn link(library: &Path, objects: &[PathBuf], flags: &[&str]) {
    let name = library.file_name().expect("a name").to_string_lossy();
    made(library, |part| {
        let mut command = compiler();
        command.arg("-shared").arg(format!("-Wl,-soname,{name}")).arg("-o").arg(part).args(flags).args(objects);
        run(command);
    });
}

/// A library that works on the stand-in driver's memory, in a folder of its own beside it.
fn link_beside(library: &Path, object: &Path, flags: &[&str]) {
    let driver = library.with_file_name("../libcuda.so");
    link(library, &[object.to_owned(), driver], &[flags, &["-Wl,-rpath,$ORIGIN/.."]].concat());
}

/// Makes a file that every process sees whole or not at all, and that stays as it is where it would not change: other
/// processes may be running it.
fn made(file: &Path, make: impl FnOnce(&Path)) {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    fs::create_dir_all(file.parent().expect("a folder")).expect("a folder for the stand-in");
    let part = file.with_extension(format!("{}-{}.part", std::process::id(), NEXT.fetch_add(1, Relaxed)));
    make(&part);
    if fs::read(file).is_ok_and(|old| fs::read(&part).is_ok_and(|new| old == new)) {
        fs::remove_file(part).expect("it was made just now");
    } else {
        fs::rename(part, file).expect("it was made just now");
    }
}

/// Elements and packs that begin where a GPU does not read them end the process, without a runtime of the compiler's.
const ALIGNED: [&str; 2] = ["-fsanitize=alignment", "-fsanitize-undefined-trap-on-error"];

/// How the stand-in is compiled for AddressSanitizer.
pub const SANITIZED: [&str; 2] = ["-fsanitize=address", "-g1"];

/// The stand-in under AddressSanitizer, and the environment of a process that runs on it; `None` where the compiler has none.
///
/// One order of threads: which addresses are touched does not depend on it.
pub fn sanitized() -> Option<(PathBuf, [(&'static str, String); 3])> {
    let runtime = runtime("libasan.so")?;
    let options = "detect_leaks=0:detect_stack_use_after_return=0:handle_segv=0".to_owned();
    let folder = build(&sources(), &headers(), &kernels(), "sanitized", &SANITIZED);
    Some((folder, [("LD_PRELOAD", runtime), ("ASAN_OPTIONS", options), ("AMP_SCHEDULES", "1".into())]))
}

/// The libraries' side of the stand-in under ThreadSanitizer, with few kernels, likewise. What is not C++ is not watched.
pub fn watched() -> Option<(PathBuf, [(&'static str, String); 2])> {
    let runtime = runtime("libtsan.so")?;
    let mut sources = sources();
    sources.retain(|(name, _)| ["unary", "binary", "matmul"].contains(&name.as_str()));
    let folder = build(&sources, &headers(), &kernels(), "watched", &["-fsanitize=thread", "-g1"]);
    Some((folder, [("LD_PRELOAD", runtime), ("TSAN_OPTIONS", "ignore_noninstrumented_modules=1".into())]))
}

/// The compiler's own library of this name.
fn runtime(library: &str) -> Option<String> {
    let output = compiler().arg(format!("-print-file-name={library}")).output().ok()?;
    let runtime = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Path::new(&runtime).is_absolute().then_some(runtime)
}

/// cuBLASLt's stand-in, in a folder of its own: without it the library's own kernels multiply.
pub fn with_products(folder: &Path) -> PathBuf {
    folder.join("products")
}

/// cuDNN's stand-in, in a folder of its own: without it the library's own kernels convolve.
pub fn with_convolutions(folder: &Path) -> PathBuf {
    folder.join("convolutions")
}
