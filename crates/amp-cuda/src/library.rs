//! Finding the vendor's libraries: where the system has them, where `AMP_CUDA_LIB_DIR` says, or inside Python packages.
//!
//! Libraries found outside the loader's own search path are opened by their full path first; the loader then finds them
//! under their short name. So no `LD_LIBRARY_PATH` is needed.

use crate::launch;
use std::env;
use std::path::{Path, PathBuf};
use std::sync::Once;

/// The oldest driver whose binding is complete: CUDA 12.0.
const OLDEST_DRIVER: i32 = 12000;

/// Libraries in the order in which they need one another.
const STEMS: [&str; 6] =
    ["libcuda.so", "libnvrtc-builtins.so", "libnvrtc.so", "libcublasLt.so", "libcublas.so", "libcudnn.so"];

/// The driver's version, or why there is none that can be used.
pub(crate) fn driver() -> Result<i32, String> {
    preload();
    if !launch::driver_present() {
        return Err("no CUDA driver was found (libcuda); `AMP_CUDA_LIB_DIR` can name its folder".into());
    }
    let version = launch::driver_version().map_err(|e| crate::error::text(&e))?;
    if version < OLDEST_DRIVER {
        let text = |v: i32| format!("{}.{}", v / 1000, v % 1000 / 10);
        return Err(format!("the driver supports CUDA {}, at least {} is needed", text(version), text(OLDEST_DRIVER)));
    }
    Ok(version)
}

/// Opens what `AMP_CUDA_LIB_DIR` and Python's packages hold, once per process.
pub(crate) fn preload() {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        for folder in named_folders().chain(python_folders()) {
            preload_folder(&folder);
        }
    });
}

fn preload_folder(folder: &Path) {
    let Ok(entries) = folder.read_dir() else { return };
    let mut files: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    files.sort();
    for stem in STEMS {
        let matches = |file: &&PathBuf| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(stem));
        if let Some(file) = files.iter().find(matches) {
            launch::preload(file);
        }
    }
}

fn named_folders() -> impl Iterator<Item = PathBuf> {
    env::var_os("AMP_CUDA_LIB_DIR").into_iter().flat_map(|dirs| env::split_paths(&dirs).collect::<Vec<_>>())
}

/// `lib` folders of the `nvidia-*` packages of the active Python environment.
fn python_folders() -> impl Iterator<Item = PathBuf> {
    ["VIRTUAL_ENV", "CONDA_PREFIX"]
        .into_iter()
        .filter_map(env::var_os)
        .flat_map(|root| folders(&Path::new(&root).join("lib")))
        .filter(|python| python.file_name().is_some_and(|n| n.to_string_lossy().starts_with("python")))
        .flat_map(|python| folders(&python.join("site-packages/nvidia")))
        .map(|package| package.join("lib"))
}

fn folders(of: &Path) -> Vec<PathBuf> {
    let entries = of.read_dir().into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|e| e.path()).filter(|p| p.is_dir()).collect();
    folders.sort();
    folders
}
