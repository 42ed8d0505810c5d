//! Loading a model's state, all of it or nothing.

use super::module::{Item, walk};
use super::{Module, Statistics};
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
    let mut staged = Vec::new();
    let mut result = Ok(());
    walk(module, &mut |path, item| {
        if result.is_ok() && matches!(item, Item::Parameter(_) | Item::Statistics(_)) {
            let name = format!("{prefix}{path}");
            result = one(&name, item, file).map(|value| staged.extend(value));
            used.insert(name);
        }
    });
    result.map(|()| staged)
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
