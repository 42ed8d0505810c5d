//! Tensors in files: the safetensors format, readable and writable by Python's `safetensors` as well.

use crate::precision::Element;
use crate::raw::RawTensor;
use crate::shape::IntoShape;
use crate::tensor::Tensor;
use crate::{Device, Error, Result};
use amp_cpu::{DType, Storage};
use half::{bf16, f16};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// One tensor of a file: element type, shape, bytes.
type Entry = (Dtype, Vec<usize>, Vec<u8>);

/// Named tensors and a few lines of text about them; reads and writes `.safetensors` files.
///
/// ```
/// # use amp_core::{io::TensorFile, Device, F16, F32, Tensor};
/// # let device = Device::cpu();
/// # let path = std::env::temp_dir().join(format!("amp-io-{}.safetensors", std::process::id()));
/// let mut file = TensorFile::new();
/// file.insert("head.weight", &Tensor::<F32>::ones([2, 3], &device)?);
/// file.set_metadata("epoch", "12");
/// file.save(&path)?;
///
/// let file = TensorFile::load(&path, &device)?;
/// let weight = file.get::<F16>("head.weight")?.expect("saved above");
/// assert_eq!((weight.dims(), file.metadata("epoch")), ([2, 3].as_slice(), Some("12")));
/// # std::fs::remove_file(path).ok();
/// # Ok::<_, amp_core::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct TensorFile {
    tensors: BTreeMap<String, RawTensor>,
    pub(crate) metadata: BTreeMap<String, String>,
}

impl TensorFile {
    /// No tensors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tensor, or replaces the one of that name.
    pub fn insert<P: Element>(&mut self, name: impl Into<String>, tensor: &Tensor<P>) {
        self.tensors.insert(name.into(), tensor.raw.detached());
    }

    /// The tensor of that name, in precision `P`, if there is one.
    ///
    /// # Errors
    /// [`Error::State`] when it holds a finite value that `P` cannot.
    pub fn get<P: Element>(&self, name: &str) -> Result<Option<Tensor<P>>> {
        self.check_range(name, P::DTYPE)?;
        self.tensors.get(name).map(|raw| Ok(Tensor::from_raw(raw.cast_view(P::DTYPE)?))).transpose()
    }

    /// An error when the tensor of that name holds a finite value that would become an infinity in precision `to`.
    pub(crate) fn check_range(&self, name: &str, to: DType) -> Result<()> {
        let Some(raw) = self.tensors.get(name).filter(|raw| narrows(raw.logical, to)) else { return Ok(()) };
        let (from, there) = (raw.cast_view(DType::F64)?, raw.cast_view(to)?.cast_view(DType::F64)?);
        let (Storage::F64(from), Storage::F64(there)) = (from.to_storage()?, there.to_storage()?) else {
            return Ok(());
        };
        match from.iter().zip(there.iter()).find(|(from, there)| from.is_finite() && there.is_infinite()) {
            Some((value, _)) => {
                let reason = format!("the file holds {value:e}, which is more than {} can hold", to.name());
                Err(Error::State { op: "load", name: name.into(), reason })
            }
            None => Ok(()),
        }
    }

    /// Takes a tensor out: for tests of files that lack it.
    #[cfg(test)]
    pub(crate) fn remove(&mut self, name: &str) {
        assert!(self.tensors.remove(name).is_some(), "there is no `{name}`");
    }

    /// The names in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The tensors whose names begin with `name` and a dot, under the rest of their names: the backbone of a whole model's
    /// file, or one model of a [`TrainState`](crate::train::TrainState).
    pub fn part(&self, name: &str) -> Self {
        let of_part = |(path, raw): (&String, &RawTensor)| {
            let rest = path.strip_prefix(name)?.strip_prefix('.')?;
            Some((rest.to_owned(), raw.clone()))
        };
        Self { tensors: self.tensors.iter().filter_map(of_part).collect(), metadata: BTreeMap::new() }
    }

    /// Keys of all metadata.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.metadata.keys().map(String::as_str)
    }

    /// A line of text.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).map(String::as_str)
    }

    /// Adds a line of text.
    pub fn set_metadata(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.metadata.insert(key.into(), value.into());
    }

    pub(crate) fn insert_raw(&mut self, name: impl Into<String>, raw: RawTensor) {
        self.tensors.insert(name.into(), raw);
    }

    pub(crate) fn raw(&self, name: &str) -> Option<&RawTensor> {
        self.tensors.get(name)
    }

    /// Reads a file; everything is checked before anything is returned. U8 stays; other integers become I64,
    /// but U64, which may not fit, is an error.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be read, [`Error::Format`] when it is truncated or malformed or holds elements
    /// that have no precision here.
    pub fn load(path: impl AsRef<Path>, device: &Device) -> Result<Self> {
        let path = path.as_ref();
        let bytes = fs::read(path).map_err(|source| Error::Io { op: "load", path: path.into(), source })?;
        let bad = |reason: String| Error::Format { op: "load", path: path.into(), reason };
        let malformed = |e: safetensors::SafeTensorError| bad(format!("not a complete safetensors file: {e}"));
        let (_, header) = SafeTensors::read_metadata(&bytes).map_err(malformed)?;
        let file = SafeTensors::deserialize(&bytes).map_err(malformed)?;
        let mut found = Self::new();
        found.metadata.extend(header.metadata().iter().flatten().map(|(k, v)| (k.clone(), v.clone())));
        for (name, view) in file.iter() {
            let storage = read(&view).map_err(|reason| bad(format!("tensor `{name}`: {reason}")))?;
            let shape = view.shape().into_shape("load").map_err(|e| bad(format!("tensor `{name}`: {e}")))?;
            let buffer = device.backend().upload(storage)?;
            found.tensors.insert(name.to_owned(), RawTensor::new(device, buffer, shape));
        }
        Ok(found)
    }

    /// Writes a file under a temporary name beside it and renames it: whatever happens meanwhile, `path` is either the
    /// old file or the complete new one. Of a symbolic link, the file that it names is replaced.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let tensors = self.host()?;
        let views = tensors.iter().map(|(name, (dtype, shape, bytes))| {
            let view = TensorView::new(*dtype, shape.clone(), bytes).expect("the bytes of a tensor of that shape");
            (*name, view)
        });
        let metadata: Option<HashMap<String, String>> =
            (!self.metadata.is_empty()).then(|| self.metadata.clone().into_iter().collect());
        let bytes = safetensors::serialize(views, metadata).map_err(|e| Error::Format {
            op: "save",
            path: path.into(),
            reason: e.to_string(),
        })?;
        replace(path, &bytes).map_err(|source| Error::Io { op: "save", path: path.into(), source })
    }

    /// A number that changes with every name, shape, element and line of text, apart from the line `except`.
    pub(crate) fn checksum(&self, except: &str) -> Result<u64> {
        let mut sum = Checksum::new();
        for (key, value) in self.metadata.iter().filter(|(key, _)| *key != except) {
            sum.text(key);
            sum.text(value);
        }
        for (name, (dtype, shape, bytes)) in self.host()? {
            sum.text(name);
            sum.text(&format!("{dtype:?}{shape:?}"));
            sum.bytes(&bytes);
        }
        Ok(sum.0)
    }

    /// Element type, shape and bytes of every tensor.
    fn host(&self) -> Result<BTreeMap<&str, Entry>> {
        let mut entries = BTreeMap::new();
        for (name, raw) in &self.tensors {
            let (dtype, bytes) = bytes(raw.to_storage()?);
            entries.insert(name.as_str(), (dtype, raw.shape().to_vec(), bytes));
        }
        Ok(entries)
    }
}

/// Whether `to` has less range than `from`.
fn narrows(from: DType, to: DType) -> bool {
    let range = |dtype| match dtype {
        DType::F16 => 1,
        DType::BF16 => 2,
        DType::F32 => 3,
        DType::F64 => 4,
        _ => 0,
    };
    range(to) > 0 && range(from) > range(to)
}

/// FNV-1a over 64-bit words: every step is a bijection, so no change of a single word goes unnoticed.
struct Checksum(u64);

impl Checksum {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn word(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let words = bytes.chunks_exact(8);
        let mut tail = [0; 8];
        tail[..words.remainder().len()].copy_from_slice(words.remainder());
        for word in words {
            self.word(u64::from_le_bytes(word.try_into().expect("eight bytes")));
        }
        self.word(u64::from_le_bytes(tail));
        self.word(bytes.len() as u64);
    }

    fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }
}

/// The file that `path` names, past symbolic links, whether it is there or not.
fn followed(path: &Path) -> std::io::Result<PathBuf> {
    // As many links as Linux follows.
    const MOST: usize = 40;
    let mut file = path.to_owned();
    for _ in 0..MOST {
        let Ok(target) = fs::read_link(&file) else { return Ok(file) };
        file = file.parent().map_or_else(PathBuf::new, Path::to_owned).join(target);
    }
    Err(std::io::Error::other("too many symbolic links"))
}

/// Puts `bytes` in the place of the file that `path` names in one step.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let path = followed(path)?;
    static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let name = path.file_name().ok_or_else(|| std::io::Error::other("this path names no file"))?;
    let mut temporary = name.to_owned();
    temporary.push(format!(".{}-{count}.tmp", std::process::id()));
    let temporary = path.with_file_name(temporary);
    let written = File::create(&temporary)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&temporary, &path));
    if written.is_err() {
        fs::remove_file(&temporary).ok();
    }
    written
}

macro_rules! bytes_of {
    ($values:expr) => {
        $values.iter().flat_map(|v| v.to_le_bytes()).collect()
    };
}

fn bytes(storage: Storage) -> (Dtype, Vec<u8>) {
    match &storage {
        Storage::F16(v) => (Dtype::F16, bytes_of!(v)),
        Storage::BF16(v) => (Dtype::BF16, bytes_of!(v)),
        Storage::F32(v) => (Dtype::F32, bytes_of!(v)),
        Storage::F64(v) => (Dtype::F64, bytes_of!(v)),
        Storage::I64(v) => (Dtype::I64, bytes_of!(v)),
        Storage::U8(v) => (Dtype::U8, v.to_vec()),
        Storage::Bool(v) => (Dtype::BOOL, v.iter().map(|&b| u8::from(b)).collect()),
    }
}

fn read(view: &TensorView<'_>) -> std::result::Result<Storage, String> {
    macro_rules! from_le {
        ($type:ty, $convert:expr) => {{
            let (words, _) = view.data().as_chunks::<{ size_of::<$type>() }>();
            Storage::from(words.iter().map(|&w| $convert(<$type>::from_le_bytes(w))).collect::<Vec<_>>())
        }};
    }
    use std::convert::identity;
    Ok(match view.dtype() {
        Dtype::F16 => from_le!(f16, identity),
        Dtype::BF16 => from_le!(bf16, identity),
        Dtype::F32 => from_le!(f32, identity),
        Dtype::F64 => from_le!(f64, identity),
        Dtype::I64 => from_le!(i64, identity),
        Dtype::I32 => from_le!(i32, i64::from),
        Dtype::I16 => from_le!(i16, i64::from),
        Dtype::I8 => from_le!(i8, i64::from),
        Dtype::U16 => from_le!(u16, i64::from),
        Dtype::U32 => from_le!(u32, i64::from),
        Dtype::U8 => Storage::from(view.data().to_vec()),
        Dtype::BOOL => match view.data().iter().find(|&&b| b > 1) {
            Some(byte) => return Err(format!("a truth value is stored as {byte}")),
            None => Storage::from(view.data().iter().map(|&b| b == 1).collect::<Vec<_>>()),
        },
        other => return Err(format!("elements of type {other:?} have no precision here")),
    })
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_stays_and_its_file_is_replaced() -> std::io::Result<()> {
        let folder = std::env::temp_dir().join(format!("amp-link-{}", std::process::id()));
        fs::create_dir_all(folder.join("runs"))?;
        let (link, again, file) = (folder.join("latest"), folder.join("again"), folder.join("runs/1"));
        symlink("runs/1", &link)?;
        symlink("latest", &again)?;
        for (path, bytes) in [(&link, b"made"), (&again, b"next")] {
            replace(path, bytes)?;
            assert_eq!(fs::read(&file)?, bytes);
            assert!(link.is_symlink() && again.is_symlink() && !file.is_symlink());
        }
        assert_eq!(fs::read_dir(folder.join("runs"))?.count(), 1);
        symlink("circle", folder.join("circle"))?;
        assert!(replace(&folder.join("circle"), b"lost").is_err());
        fs::remove_dir_all(folder)
    }
}
