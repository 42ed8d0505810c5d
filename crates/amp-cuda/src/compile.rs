//! From a kernel file to code: compiled for this GPU where a run-time compiler is found and kept on disk, else the PTX
//! that ships with the crate.

use crate::launch;
use crate::module::Family;
use cudarc::nvrtc::Ptx;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Code of a family for just this compute capability, or `None` where the shipped code has to do: without a run-time
/// compiler, or with one that does not know the GPU.
pub(crate) fn code(family: Family, capability: (i32, i32)) -> Option<Ptx> {
    let Some(compiler) = launch::compiler() else {
        log::debug!("kernels of {}: no run-time compiler (libnvrtc), the driver compiles what ships", family.name());
        return None;
    };
    let source = family.source();
    let kept = cache_file(family, &source, capability, compiler);
    if let Some(code) = kept.as_deref().and_then(kept_code) {
        return Some(Ptx::from_binary(code));
    }
    // Not PTX: of that a driver reads what compilers write that are no newer, of machine code what all of its major version do.
    let architecture = format!("--gpu-architecture=sm_{}{}", capability.0, capability.1);
    let code =
        match launch::machine_code(&source, &format!("{}.cu", family.name()), &[architecture, "--std=c++17".into()]) {
            Ok(code) => code,
            Err(error) => {
                log::warn!("kernels of {}: {error}; the driver compiles what ships", family.name());
                return None;
            }
        };
    if let Some(file) = kept {
        keep(&file, &code);
    }
    Some(Ptx::from_binary(code))
}

/// What every kept file ends with.
const END: &[u8] = b"\n// whole\n";

/// Writes a file that readers see whole or not at all; a cache that cannot be written costs time, nothing else.
///
/// Whoever else writes it, a thread or a process here or on another machine, does so under another name.
fn keep(file: &Path, code: &[u8]) {
    let part = file.with_extension(format!("{:016x}.part", RandomState::new().build_hasher().finish()));
    let written =
        file.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&part, [code, END].concat()));
    if let Err(error) = written.and_then(|()| fs::rename(&part, file)) {
        log::debug!("{}: {error}", file.display());
        // What a full disk has taken of it is of no use.
        let _ = fs::remove_file(part);
    }
}

/// What was kept; `None` for a file that lost its end, as one of a system that stopped may have.
fn kept_code(file: &Path) -> Option<Vec<u8>> {
    let mut code = fs::read(file).ok()?;
    let whole = code.strip_suffix(END)?.len();
    code.truncate(whole);
    Some(code)
}

/// Named by all that the code depends on: what one compiler has left, a driver that reads another's may not read.
fn cache_file(family: Family, source: &str, capability: (i32, i32), compiler: (i32, i32)) -> Option<PathBuf> {
    let base = env::var_os("AMP_CUDA_CACHE_DIR").map(PathBuf::from).or_else(|| {
        let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        Some(cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))?.join("amp-cuda"))
    })?;
    let key = format!("{} {capability:?} {compiler:?} {source}", env!("CARGO_PKG_VERSION"));
    Some(base.join(format!("{}-sm{}{}-{:016x}.cubin", family.name(), capability.0, capability.1, fnv(key.bytes()))))
}

/// FNV-1a of 64 bits: the same number wherever and whenever it is computed.
pub(crate) fn fnv(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_code_comes_from_these_sources() {
        for &family in Family::ALL {
            let name = family.name();
            assert!(
                family.shipped().starts_with(&family.stamp()),
                "{name}.ptx is older than {name}.cu; run tests/ptx.py"
            );
            let (major, minor) = family.least();
            let target = format!(".target sm_{major}{minor}");
            assert!(family.shipped().contains(&target), "{name}.ptx is not for compute capability {major}.{minor}");
        }
    }

    #[test]
    fn kept_code_is_whole_whoever_else_writes_it() {
        let folder = env::temp_dir().join(format!("amp-cuda-kept-{}", std::process::id()));
        let file = folder.join("family.ptx");
        let code = "// a line of code\n".repeat(10_000).into_bytes();
        assert_eq!(kept_code(&file), None);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..30 {
                        keep(&file, &code);
                        assert_eq!(kept_code(&file).as_ref(), Some(&code));
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(&folder).expect("the folder").count(), 1, "parts are left");
        let all = fs::read(&file).expect("the file");
        for end in [0, 1, all.len() / 2, all.len() - 1] {
            fs::write(&file, &all[..end]).expect("a cut file");
            assert_eq!(kept_code(&file), None, "{end} of {} bytes", all.len());
        }
        fs::remove_dir_all(folder).expect("the folder");
    }
}
