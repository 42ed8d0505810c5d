//! From a kernel file to code: compiled for this GPU where a run-time compiler is found and kept on disk, else the PTX
//! that ships with the crate.

use crate::launch;
use crate::module::Family;
use cudarc::nvrtc::{CompileOptions, Ptx, compile_ptx_with_opts};
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;
use std::{env, fs};

/// Code of a family for a compute capability.
pub(crate) fn code(family: Family, capability: (i32, i32)) -> Result<Ptx, String> {
    let source = family.source();
    let kept = cache_file(family, &source, capability);
    if let Some(text) = kept.as_ref().and_then(|file| fs::read_to_string(file).ok()) {
        return Ok(Ptx::from_src(text));
    }
    if !launch::compiler_present() {
        return Err(format!("kernels of {}: no run-time compiler was found (libnvrtc)", family.name()));
    }
    let options = CompileOptions {
        options: vec![format!("--gpu-architecture=compute_{}{}", capability.0, capability.1), "--std=c++17".into()],
        name: Some(format!("{}.cu", family.name())),
        ..CompileOptions::default()
    };
    let code = compile_ptx_with_opts(&source, options).map_err(|e| format!("kernels of {}: {e:?}", family.name()))?;
    let text = code.to_src();
    if let Some(file) = kept {
        keep(&file, &text);
    }
    Ok(Ptx::from_src(text))
}

/// Writes a file that readers see whole or not at all; a cache that cannot be written costs time, nothing else.
fn keep(file: &PathBuf, text: &str) {
    let part = file.with_extension(std::process::id().to_string());
    let written = file.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&part, text));
    if let Err(error) = written.and_then(|()| fs::rename(&part, file)) {
        log::debug!("{}: {error}", file.display());
    }
}

/// Named by all that the code depends on.
fn cache_file(family: Family, source: &str, capability: (i32, i32)) -> Option<PathBuf> {
    let base = env::var_os("AMP_CUDA_CACHE_DIR").map(PathBuf::from).or_else(|| {
        let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        Some(cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))?.join("amp-cuda"))
    })?;
    let mut hasher = DefaultHasher::new();
    (env!("CARGO_PKG_VERSION"), source, capability).hash(&mut hasher);
    Some(base.join(format!("{}-sm{}{}-{:016x}.ptx", family.name(), capability.0, capability.1, hasher.finish())))
}
