//! What a machine without a usable GPU is told, each case in a process of its own.

#[path = "standin/mod.rs"]
mod standin;

use amp_core::{Device, Tensor};
use std::env;
use std::process::Command;

/// Opens the GPU and prints what comes of it.
#[test]
fn child() {
    if env::var_os("AMP_CHILD").is_none() {
        return;
    }
    match Device::cuda(0) {
        Ok(device) => {
            let x = Tensor::<amp_core::F32>::from_vec(vec![1.0, 2.0], [2], &device).expect("an upload");
            println!("outcome: {:?} on {}", (&x + &x).expect("a sum").to_vec().expect("a download"), Device::best());
        }
        Err(error) => println!("outcome: {error}; best is {}", Device::best()),
    }
}

fn outcome(variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(env::current_exe().expect("this test's file"));
    command.args(["child", "--exact", "--nocapture"]).env("AMP_CHILD", "1").envs(variables.iter().copied());
    let output = command.output().expect("the child runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let found = text.lines().find_map(|l| l.split_once("outcome: ").map(|(_, rest)| rest.to_owned()));
    found.unwrap_or_else(|| panic!("{text}\n{}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn every_reason_for_having_no_gpu_has_its_words() {
    let (_, _alone) = standin::open();
    let folder = env::var("AMP_CUDA_LIB_DIR").expect("set when the stand-in opened");
    let with = |name: &'static str, value: &'static str| outcome(&[("AMP_CUDA_LIB_DIR", &folder), (name, value)]);
    assert_eq!(with("STANDIN", "as it is"), "[2.0, 4.0] on cuda:0");
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
fn code_that_ships_serves_where_there_is_no_compiler() {
    let (_, _alone) = standin::open();
    let folder = env::var("AMP_CUDA_LIB_DIR").expect("set when the stand-in opened");
    let alone = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("driver-alone");
    std::fs::create_dir_all(&alone).expect("a folder");
    std::fs::copy(std::path::Path::new(&folder).join("libcuda.so"), alone.join("libcuda.so")).expect("a copy");
    let variables = [("AMP_CUDA_LIB_DIR", alone.to_str().expect("a text")), ("AMP_CUDA_CACHE_DIR", "/nonexistent")];
    assert_eq!(outcome(&variables), "[2.0, 4.0] on cuda:0");
}
