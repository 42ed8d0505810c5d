//! What a machine without a usable GPU is told, each case in a process of its own.

#[path = "standin/mod.rs"]
mod standin;

use amp_core::{BF16, ConvOptions, Device, F32, Tensor};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Prints warnings for the parent to read.
struct Warnings;

impl log::Log for Warnings {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::Level::Warn
    }

    fn log(&self, record: &log::Record<'_>) {
        println!("warning: {}", record.args());
    }

    fn flush(&self) {}
}

/// Opens the GPU and prints what comes of it.
#[test]
fn child() {
    if env::var_os("AMP_CHILD").is_none() {
        return;
    }
    log::set_logger(&Warnings).expect("the only logger");
    log::set_max_level(log::LevelFilter::Warn);
    match Device::cuda(0) {
        Ok(device) => {
            let x = Tensor::<F32>::from_vec(vec![1.0, 2.0], [2], &device).expect("an upload");
            let sum = (&x + &x).expect("a sum").to_vec().expect("a download");
            let matrix = x.reshape([2, 1]).expect("a column").to::<BF16>().expect("a cast");
            let products = matrix.matmul(&matrix.transpose(0, 1).expect("a row")).expect("products");
            let products = products.to::<F32>().expect("a cast").to_vec().expect("a download");
            let folders = env::var_os("AMP_CUDA_LIB_DIR").expect("the driver's folder");
            let driver = env::split_paths(&folders).next().expect("one folder");
            let way = match standin::Standin::opened(&driver).calls("cublasLtMatmul") {
                0 => "own kernels",
                _ => "cuBLASLt",
            };
            let (image, kernel) =
                (x.reshape([1, 1, 1, 2]).expect("an image"), Tensor::<F32>::ones([1, 1, 1, 1], &device));
            let kernel = kernel.expect("a kernel");
            let convolved = image.conv2d(&kernel, None, ConvOptions::default()).expect("a convolution");
            assert_eq!(convolved.to_vec().expect("a download"), [1.0, 2.0]);
            let convolutions = match standin::Standin::opened(&driver).calls("cudnnConvolution") {
                0 => "",
                _ => ", convolutions by cuDNN",
            };
            println!("outcome: {sum:?} on {}, {products:?} by {way}{convolutions}", Device::best());
        }
        Err(error) => println!("outcome: {error}; best is {}", Device::best()),
    }
}

fn outcome(variables: &[(&str, &str)]) -> String {
    let text = printed(variables);
    let found = text.lines().find_map(|l| l.split_once("outcome: ").map(|(_, rest)| rest.to_owned()));
    found.unwrap_or_else(|| panic!("{text}"))
}

/// All that a child prints.
fn printed(variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(env::current_exe().expect("this test's file"));
    command.args(["child", "--exact", "--nocapture"]).env("AMP_CHILD", "1");
    // Nothing of the machine's own Python.
    for name in ["AMP_CUDA_LIB_DIR", "VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH", "HOME", "PATH"] {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied());
    let output = command.output().expect("the child runs");
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn every_reason_for_having_no_gpu_has_its_words() {
    let (_, _alone) = standin::open();
    let folder = env::var("AMP_CUDA_LIB_DIR").expect("set when the stand-in opened");
    let with = |name: &'static str, value: &'static str| outcome(&[("AMP_CUDA_LIB_DIR", &folder), (name, value)]);
    assert_eq!(with("STANDIN", "as it is"), WORKS);
    let cases = [
        (with("STANDIN_NO_DEVICE", "1"), "no CUDA-capable device is detected (CUDA_ERROR_NO_DEVICE)"),
        (with("STANDIN_VERSION", "11080"), "the driver supports CUDA 11.8, at least 12.0 is needed"),
        (with("STANDIN_CAPABILITY", "61"), "its compute capability is 6.1, at least 7.0 is needed"),
    ];
    for (found, reason) in cases {
        assert_eq!(found, format!("cuda:0 is not available: {reason}; best is cpu"));
    }
}

#[test]
fn what_a_device_reads_late_is_waited_for() {
    let (_, _alone) = standin::open();
    let folder = env::var("AMP_CUDA_LIB_DIR").expect("set when the stand-in opened");
    assert_eq!(outcome(&[("AMP_CUDA_LIB_DIR", &folder), ("STANDIN_COHERENT", "1")]), WORKS);
}

/// Sums, and products by the library's own kernels.
const WORKS: &str = "[2.0, 4.0] on cuda:0, [1.0, 2.0, 2.0, 4.0] by own kernels";
const WORKS_WITH_CUBLASLT: &str = "[2.0, 4.0] on cuda:0, [1.0, 2.0, 2.0, 4.0] by cuBLASLt";

#[test]
fn no_driver_is_no_device() {
    // SAFETY: initialisers of a driver have no preconditions.
    let driver = unsafe { libloading::Library::new("libcuda.so.1") };
    if driver.is_err() {
        let reason = "no CUDA driver was found (libcuda); `AMP_CUDA_LIB_DIR` can name its folder";
        let expected = format!("cuda:0 is not available: {reason}; best is cpu");
        assert_eq!(outcome(&[]), expected);
        assert_eq!(outcome(&[("AMP_CUDA_LIB_DIR", "/nonexistent")]), expected);
    }
}

/// A folder below the target folder with a copy of these files, and nothing else.
fn folder_of(name: &str, files: &[PathBuf]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("loading").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    for file in files {
        fs::copy(file, folder.join(file.file_name().expect("a name"))).expect("a copy");
    }
    folder
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a text")
}

#[test]
fn code_that_ships_serves_where_there_is_no_compiler() {
    let (_, _alone) = standin::open();
    let driver = PathBuf::from(env::var("AMP_CUDA_LIB_DIR").expect("set when the stand-in opened")).join("libcuda.so");
    let alone = folder_of("driver-alone", &[driver]);
    let variables = [("AMP_CUDA_LIB_DIR", text(&alone)), ("AMP_CUDA_CACHE_DIR", "/nonexistent")];
    assert_eq!(outcome(&variables), WORKS);
}

#[test]
fn a_compiler_newer_than_the_driver_serves() {
    let (_, _alone) = standin::open();
    let folder = env::var("AMP_CUDA_LIB_DIR").expect("set when the stand-in opened");
    let cache = folder_of("cache", &[]);
    let variables =
        [("AMP_CUDA_LIB_DIR", &*folder), ("AMP_CUDA_CACHE_DIR", text(&cache)), ("STANDIN_VERSION", "12000")];
    for time in ["compiled", "kept"] {
        let text = printed(&variables);
        assert!(text.contains(&format!("outcome: {WORKS}\n")) && !text.contains("what ships"), "{time}: {text}");
    }
    let kept = fs::read_dir(cache).expect("the cache").flatten().map(|e| e.path());
    assert!(kept.filter(|file| file.extension().is_some_and(|e| e == "cubin")).count() > 0, "nothing is kept");
}

#[test]
fn what_another_compiler_has_left_is_not_loaded() {
    let (_, _alone) = standin::open();
    let folder = env::var("AMP_CUDA_LIB_DIR").expect("set when the stand-in opened");
    let cache = folder_of("cache-of-others", &[]);
    let with = |compiler: &str| {
        let variables =
            [("AMP_CUDA_LIB_DIR", &*folder), ("AMP_CUDA_CACHE_DIR", text(&cache)), ("STANDIN_VERSION", "12000")];
        let text = printed(&[&variables[..], &[("STANDIN_NVRTC", compiler)]].concat());
        assert!(text.contains(&format!("outcome: {WORKS}\n")), "{text}");
        text.contains("the driver compiles what ships")
    };
    assert_eq!(["13", "12", "12", "13"].map(with), [true, false, false, true], "the driver reads code of CUDA 12");
}

#[test]
fn libraries_of_python_packages_are_found_without_a_search_path() {
    let (_, _alone) = standin::open();
    let standin = PathBuf::from(env::var("AMP_CUDA_LIB_DIR").expect("set when the stand-in opened"));
    let driver = folder_of("driver", &[standin.join("libcuda.so")]);
    let products = standin::with_products(&standin).join("libcublasLt.so");
    for (name, packages, variable, value) in [
        ("venv", "lib/python3.11/site-packages/nvidia/cu13/lib", "VIRTUAL_ENV", ""),
        ("conda", "lib/python3.12/site-packages/nvidia/cublas/lib", "CONDA_PREFIX", ""),
        ("python", "lib/python3.13/site-packages/nvidia/cublas/lib", "PATH", "bin"),
        ("system", "local/lib/python3.11/dist-packages/nvidia/cublas/lib", "PATH", "bin"),
        ("home", ".local/lib/python3.9/site-packages/nvidia/cublas/lib", "HOME", ""),
    ] {
        let root = folder_of(name, &[]);
        fs::create_dir_all(root.join("bin")).expect("a folder");
        fs::write(root.join("bin/python3"), "").expect("a file");
        let lib = root.join(packages);
        fs::create_dir_all(&lib).expect("a folder");
        fs::copy(&products, lib.join("libcublasLt.so.13")).expect("a copy");
        let value = root.join(value);
        let variables = [("AMP_CUDA_LIB_DIR", text(&driver)), (variable, text(&value))];
        assert_eq!(outcome(&variables), WORKS_WITH_CUBLASLT, "{name}");
    }
    let text = printed(&[("AMP_CUDA_LIB_DIR", text(&driver))]);
    let warning =
        "warning: cuda:0: cuBLASLt was not found (libcublasLt); matrix products run on the library's own kernels";
    assert!(text.contains(warning) && text.contains(&format!("outcome: {WORKS}\n")), "{text}");
}

#[test]
fn cudnn_is_used_where_it_is_found_and_new_enough() {
    let (_, _alone) = standin::open();
    let standin = PathBuf::from(env::var("AMP_CUDA_LIB_DIR").expect("set when the stand-in opened"));
    let driver = folder_of("driver-for-cudnn", &[standin.join("libcuda.so")]);
    let package = folder_of("cudnn", &[]).join("lib/python3.12/site-packages/nvidia/cudnn/lib");
    fs::create_dir_all(&package).expect("a folder");
    let library = standin::with_convolutions(&standin).join("libcudnn.so.9");
    fs::copy(library, package.join("libcudnn.so.9")).expect("a copy");
    let root = package.ancestors().nth(6).expect("the environment's folder");
    let variables = [("AMP_CUDA_LIB_DIR", text(&driver)), ("VIRTUAL_ENV", text(root))];
    assert_eq!(outcome(&variables), format!("{WORKS}, convolutions by cuDNN"));
    for (reason, more) in [
        ("cuDNN 8.9 is too old, at least 9.0 is needed", [variables[0], variables[1], ("STANDIN_CUDNN", "8907")]),
        ("cuDNN was not found (libcudnn)", [variables[0], ("VIRTUAL_ENV", "/nonexistent"), ("STANDIN_CUDNN", "")]),
    ] {
        let text = printed(&more);
        let warning = format!("warning: cuda:0: {reason}; convolutions run on the library's own kernels");
        assert!(text.contains(&warning) && text.contains(&format!("outcome: {WORKS}\n")), "{text}");
    }
}

#[test]
fn what_only_has_a_librarys_name_is_no_library() {
    let (_, _alone) = standin::open();
    let standin = PathBuf::from(env::var("AMP_CUDA_LIB_DIR").expect("set when the stand-in opened"));
    let names = ["libcuda.so", "libnvrtc.so", "libcublasLt.so", "libcudnn.so.9"];
    let [texts, folders, empty] = ["texts", "folders", "empty"].map(|name| folder_of(name, &[]));
    for name in names {
        fs::write(texts.join(name), "no library").expect("a file");
        fs::create_dir(folders.join(name)).expect("a folder");
        // A library, but an empty one.
        let mut command = Command::new(env::var_os("CXX").unwrap_or_else(|| "g++".into()));
        command.args(["-shared", "-x", "c++", "/dev/null", "-o"]).arg(empty.join(name));
        assert!(command.status().expect("a C++ compiler").success());
    }
    let driver = folder_of("driver-first", &[standin.join("libcuda.so")]);
    for wrong in [&texts, &folders, &empty] {
        let alone = outcome(&[("AMP_CUDA_LIB_DIR", text(wrong))]);
        assert!(alone.starts_with("cuda:0 is not available: ") && alone.ends_with("best is cpu"), "{wrong:?}: {alone}");
        let both = env::join_paths([&driver, wrong]).expect("no colon");
        let variables = [("AMP_CUDA_LIB_DIR", both.to_str().expect("a text")), ("AMP_CUDA_CACHE_DIR", "/nonexistent")];
        assert_eq!(outcome(&variables), WORKS, "{wrong:?}");
    }
}

#[test]
fn a_gpu_without_bf16_arithmetic_computes_it_all_the_same() {
    let (_, _alone) = standin::open();
    let standin = PathBuf::from(env::var("AMP_CUDA_LIB_DIR").expect("set when the stand-in opened"));
    let folders = env::join_paths([standin.clone(), standin::with_products(&standin)]).expect("no colon");
    let folders = folders.to_str().expect("a text");
    assert_eq!(outcome(&[("AMP_CUDA_LIB_DIR", folders)]), WORKS_WITH_CUBLASLT);
    let text = printed(&[("AMP_CUDA_LIB_DIR", folders), ("STANDIN_CAPABILITY", "75")]);
    assert!(text.contains(&format!("outcome: {WORKS}\n")), "{text}");
    let warnings = [
        "cuda:0 has no BF16 arithmetic (compute capability 8.0): products of BF16 are slow, use F16",
        "cuda:0: attention runs on kernels that do not use tensor cores (compute capability 8.0)",
    ];
    assert!(warnings.iter().all(|warning| text.contains(warning)), "{text}");
}
