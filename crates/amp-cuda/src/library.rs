//! Finding the vendor's libraries: where the system has them, where `AMP_CUDA_LIB_DIR` says, or inside Python packages.
//!
//! Libraries found outside the loader's own search path are opened by their full path first; the loader then finds them
//! under their short name. So no `LD_LIBRARY_PATH` is needed.

use crate::launch;
use amp_core::Result;
use std::env;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, OnceLock, PoisonError};

/// The oldest driver whose binding is complete: CUDA 12.0.
const OLDEST_DRIVER: i32 = 12000;

/// Libraries in the order in which they need one another.
const STEMS: [&str; 5] = ["libcuda.so", "libnvrtc-builtins.so", "libnvrtc.so", "libcublasLt.so", "libcudnn.so"];

/// Why a library is not opened.
#[derive(Debug)]
pub(crate) enum Unopened {
    /// It is not there, too old, or refuses the device: that stays so.
    Unusable(String),
    /// There is no memory for it: that passes.
    Wanting(String),
}

/// A library that is opened when it is first asked for, `None` if it cannot be used.
#[derive(Debug)]
pub(crate) struct Library<T> {
    kept: OnceLock<Option<T>>,
    /// Held by whoever opens it.
    opening: Mutex<()>,
}

impl<T> Default for Library<T> {
    fn default() -> Self {
        Self { kept: OnceLock::new(), opening: Mutex::default() }
    }
}

impl<T> Library<T> {
    /// What `open` made of it; after an error, for want of memory, it is opened anew.
    pub fn get(&self, open: impl FnOnce() -> Result<Option<T>>) -> Result<Option<&T>> {
        if let Some(kept) = self.kept.get() {
            return Ok(kept.as_ref());
        }
        let _alone = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = self.kept.get() {
            return Ok(kept.as_ref());
        }
        let opened = open()?;
        Ok(self.kept.get_or_init(|| opened).as_ref())
    }
}

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

/// Opens what `AMP_CUDA_LIB_DIR` and Python's packages hold, once per process; of each library the first one found.
pub(crate) fn preload() {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        let mut missing = STEMS.to_vec();
        for folder in named_folders().chain(python_folders()) {
            missing = preload_folder(&folder, &missing);
        }
    });
}

/// Opens those of the libraries that the folder has, and returns the others.
fn preload_folder<'a>(folder: &Path, stems: &[&'a str]) -> Vec<&'a str> {
    let Ok(entries) = folder.read_dir() else { return stems.to_vec() };
    let mut files: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    files.sort();
    let opened = |stem: &str| {
        let matches = |file: &&PathBuf| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(stem));
        files.iter().find(matches).is_some_and(|file| launch::preload(file))
    };
    stems.iter().copied().filter(|stem| !opened(stem)).collect()
}

fn named_folders() -> impl Iterator<Item = PathBuf> {
    env::var_os("AMP_CUDA_LIB_DIR").into_iter().flat_map(|dirs| env::split_paths(&dirs).collect::<Vec<_>>())
}

/// `lib` folders of the `nvidia-*` packages of Python: of the active environment, else of the `python3` that a shell finds,
/// else of the user.
fn python_folders() -> impl Iterator<Item = PathBuf> {
    let active = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    let user = env::var_os("HOME").map(|home| Path::new(&home).join(".local"));
    active
        .chain(python_roots())
        .chain(user)
        .flat_map(|root| folders(&root.join("lib")))
        .filter(|python| python.file_name().is_some_and(|n| n.to_string_lossy().starts_with("python")))
        .flat_map(|python| ["site-packages", "dist-packages"].map(|packages| python.join(packages).join("nvidia")))
        .flat_map(|packages| folders(&packages))
        .map(|package| package.join("lib"))
}

/// Where the first `python3` of `PATH` is installed, and where its package manager puts packages beside it.
fn python_roots() -> Vec<PathBuf> {
    let paths = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&paths).find(|bin| bin.join("python3").is_file());
    let root = found.as_deref().and_then(Path::parent).map(Path::to_path_buf);
    root.into_iter().flat_map(|root| [root.join("local"), root]).collect()
}

fn folders(of: &Path) -> Vec<PathBuf> {
    let entries = of.read_dir().into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|e| e.path()).filter(|p| p.is_dir()).collect();
    folders.sort();
    folders
}
