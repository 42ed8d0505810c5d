//! Loading a model's state, all of it or nothing.

use super::module::{Item, walk};
use super::{Module, Statistics};
use crate::autograd::IdMap;
use crate::io::TensorFile;
use crate::param::Parameter;
use crate::precision::F32;
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result};
use std::collections::HashSet;

/// A value on its way to its place.
pub(crate) enum Staged {
    Parameter(Parameter, Tensor<F32>),
    Statistics(Statistics, RawTensor),
}

impl Staged {
    /// Puts the value in its place; its shape was checked.
    pub(crate) fn land(self) -> Result<()> {
        match self {
            Self::Parameter(p, value) => p.set(&value),
            Self::Statistics(s, value) => s.set_raw(value),
        }
    }
}

/// See [`Module::load_state`].
pub(super) fn load<M: Module + ?Sized>(module: &M, file: &TensorFile) -> Result<()> {
    let mut used = HashSet::new();
    let staged = stage(module, file, "", &mut used)?;
    if let Some(name) = file.names().find(|name| !used.contains(*name)) {
        return Err(Error::State { op: "load", name: name.into(), reason: "the model has no such tensor".into() });
    }
    staged.into_iter().try_for_each(Staged::land)
}

/// Everything that `module` takes from the tensors of `file` whose names begin with `prefix`; their names go to `used`.
pub(crate) fn stage<M: Module + ?Sized>(
    module: &M,
    file: &TensorFile,
    prefix: &str,
    used: &mut HashSet<String>,
) -> Result<Vec<Staged>> {
    let shared = shared(module, file, prefix);
    let mut staged = Vec::new();
    let mut result = Ok(());
    walk(module, &mut |path, item| {
        if result.is_ok() && matches!(item, Item::Parameter(_) | Item::Statistics(_)) {
            let name = format!("{prefix}{path}");
            let first = if let Item::Parameter(p) = item { shared.get(&p.id()) } else { None };
            match first {
                Some(first) if *first != name => result = same(&name, first, file),
                _ => result = one(&name, item, file).map(|value| staged.extend(value)),
            }
            used.insert(name);
        }
    });
    result.map(|()| staged)
}

/// The first name under which the file holds each parameter: one that is used in several places may stand there once.
fn shared<M: Module + ?Sized>(module: &M, file: &TensorFile, prefix: &str) -> IdMap<String> {
    let mut names = IdMap::default();
    walk(module, &mut |path, item| {
        if let Item::Parameter(p) = item {
            let name = format!("{prefix}{path}");
            if file.raw(&name).is_some() {
                names.entry(p.id()).or_insert(name);
            }
        }
    });
    names
}

/// An error when the file holds another value for `name` than for `first`, which is the same parameter here.
fn same(name: &str, first: &str, file: &TensorFile) -> Result<()> {
    let (Some(a), Some(b)) = (file.get::<F32>(first)?, file.get::<F32>(name)?) else { return Ok(()) };
    let bits = |x: Tensor<F32>| Ok::<_, Error>(x.to_vec()?.into_iter().map(f32::to_bits).collect::<Vec<_>>());
    if a.dims() == b.dims() && bits(a)? == bits(b)? {
        return Ok(());
    }
    let reason = format!("the model shares it with `{first}`, the file has another value for it");
    Err(Error::State { op: "load", name: name.into(), reason })
}

fn one(name: &str, item: Item<'_>, file: &TensorFile) -> Result<Option<Staged>> {
    let bad = |reason: String| Error::State { op: "load", name: name.into(), reason };
    let raw = file.raw(name).ok_or_else(|| bad("the file has no such tensor".into()))?;
    let shape = match item {
        Item::Parameter(p) => *p.tensor().raw.shape(),
        Item::Statistics(s) => *s.raw().shape(),
        Item::Mode(_) | Item::Waiting(_) => return Ok(None),
    };
    if raw.shape() != &shape {
        return Err(bad(format!("the model's shape is {shape:?}, the file's is {:?}", raw.shape())));
    }
    let expects_float = match item {
        Item::Statistics(s) => s.raw().logical.is_float(),
        _ => true,
    };
    if raw.logical.is_float() != expects_float {
        return Err(bad(format!("the file holds {} values", raw.logical.name())));
    }
    Ok(Some(match item {
        Item::Parameter(p) => Staged::Parameter(p.clone(), file.get(name)?.expect("found above")),
        Item::Statistics(s) => {
            let value = raw.cast_view(s.raw().logical)?.contiguous()?;
            Staged::Statistics(s.clone(), value.to_device(s.raw().device())?)
        }
        Item::Mode(_) | Item::Waiting(_) => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use crate::io::TensorFile;
    use crate::nn::{Embedding, Linear};
    use crate::{Device, F32, Module, Tensor};

    fn tied(device: &Device) -> (Embedding, Linear) {
        let table = Embedding::new(5, 3, device).unwrap();
        let out = Linear::from_parameters(table.weight().clone(), None).unwrap();
        (table, out)
    }

    #[test]
    fn a_shared_parameter_may_stand_in_the_file_once() {
        let device = Device::cpu();
        let (from, to) = (tied(&device), tied(&device));
        let value = from.0.weight().to_vec().unwrap();
        to.load_state(&from.state()).unwrap();
        assert_eq!(to.0.weight().to_vec().unwrap(), value);
        for name in ["0.weight", "1.weight"] {
            let (to, mut file) = (tied(&device), TensorFile::new());
            file.insert(name, &from.0.weight().tensor());
            to.load_state(&file).unwrap();
            assert_eq!(to.1.weight().to_vec().unwrap(), value);
        }
        let error = to.load_state(&TensorFile::new()).unwrap_err().to_string();
        assert_eq!(error, "load: tensor `0.weight`: the file has no such tensor");
    }

    #[test]
    fn two_values_for_one_parameter_are_an_error() {
        let device = Device::cpu();
        let to = tied(&device);
        let before = to.0.weight().to_vec().unwrap();
        let mut file = to.state();
        file.insert("1.weight", &Tensor::<F32>::ones([5, 3], &device).unwrap());
        let error = to.load_state(&file).unwrap_err().to_string();
        let reason = "the model shares it with `0.weight`, the file has another value for it";
        assert_eq!(error, format!("load: tensor `1.weight`: {reason}"));
        assert_eq!(to.0.weight().to_vec().unwrap(), before);
    }
}
