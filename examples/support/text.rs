//! Text as tokens of one byte.

use super::Failure;
use amp::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};

/// Number of different tokens.
pub const VOCABULARY: usize = 256;

/// Bytes to train on and to test with.
#[derive(Debug)]
pub struct Text {
    /// Nine tenths, from the start.
    pub train: Vec<u8>,
    /// The rest.
    pub test: Vec<u8>,
}

impl Text {
    /// A text file, or without one the sources of the library; refused when it is shorter than `least` bytes.
    pub fn load(file: Option<&Path>, least: usize) -> Result<Self, Failure> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
        let path = file.unwrap_or(&root);
        let bytes = match file {
            Some(file) => fs::read(file).map_err(|e| cannot_read(file, &e))?,
            None => sources(path)?,
        };
        if bytes.len() / 10 < least {
            let problem = format!("has {} bytes, at least {} are needed", bytes.len(), 10 * least);
            return Err(Failure::file(path, problem));
        }
        let (train, test) = bytes.split_at(bytes.len() / 10 * 9);
        Ok(Self { train: train.to_vec(), test: test.to_vec() })
    }

    /// Tokens `[N, length]` and the tokens that follow each of them `[N * length]`, from the given offsets of `text`.
    pub fn windows(
        text: &[u8],
        offsets: &[usize],
        length: usize,
        device: &Device,
    ) -> Result<(Tensor<I64>, Tensor<I64>)> {
        let tokens = |shift: usize| {
            let windows = offsets.iter().flat_map(|&at| &text[at + shift..at + shift + length]);
            windows.map(|&byte| i64::from(byte)).collect()
        };
        let inputs = Tensor::from_vec(tokens(0), [offsets.len(), length], device)?;
        Ok((inputs, Tensor::from_vec(tokens(1), [offsets.len() * length], device)?))
    }
}

/// All Rust files below a directory, in the order of their paths.
fn sources(directory: &Path) -> Result<Vec<u8>, Failure> {
    let entries = fs::read_dir(directory).map_err(|e| cannot_read(directory, &e))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let mut bytes = Vec::new();
    for path in paths {
        if path.is_dir() {
            bytes.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            bytes.extend(fs::read(&path).map_err(|e| cannot_read(&path, &e))?);
        }
    }
    Ok(bytes)
}

fn cannot_read(path: &Path, error: &std::io::Error) -> Failure {
    Failure::file(path, format_args!("cannot be read: {error}"))
}
