//! Loading a model's state, all of it or nothing.

use super::module::{Identity, Item, walk};
use super::{Module, Statistics};
use crate::io::TensorFile;
use crate::param::Parameter;
use crate::precision::{F32, F64};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result};
use amp_cpu::DType;
use std::collections::{HashMap, HashSet};
use std::path::Path;

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

/// What a file and a model do not share; see [`Module::load_state_matching`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "tensors that the file lacks keep the values they had"]
pub struct Unmatched {
    /// Tensors of the model that the file does not have; they are as they were.
    pub missing: Vec<String>,
    /// Tensors of the file that the model does not have.
    pub unexpected: Vec<String>,
    /// Tensors of both, of another shape or kind in the file or with a value beyond F32; the model's are as they were.
    pub mismatched: Vec<String>,
}

impl Unmatched {
    /// Whether model and file have the same tensors.
    pub fn is_empty(&self) -> bool {
        self.missing.is_empty() && self.unexpected.is_empty() && self.mismatched.is_empty()
    }
}

/// See [`Module::load_state_matching`].
pub(super) fn load_matching<M: Module + ?Sized>(module: &M, file: &TensorFile) -> Result<Unmatched> {
    check_paths("load", module)?;
    let shared = shared(module, file, "");
    let (mut staged, mut used, mut unmatched) = (Vec::new(), HashSet::new(), Unmatched::default());
    let mut result = Ok(());
    walk(module, &mut |path, item| {
        if result.is_err() || matches!(item, Item::Mode(_) | Item::Waiting(_)) {
            return;
        }
        used.insert(path.to_owned());
        match item.identity().and_then(|id| shared.get(&id)) {
            Some(first) if first != path => result = same(path, first, file),
            _ if file.raw(path).is_none() => unmatched.missing.push(path.into()),
            _ => match one(path, item, file) {
                Ok(value) => staged.extend(value),
                Err(Error::State { .. }) => unmatched.mismatched.push(path.into()),
                Err(other) => result = Err(other),
            },
        }
    });
    result?;
    unmatched.unexpected.extend(file.names().filter(|name| !used.contains(*name)).map(String::from));
    staged.into_iter().try_for_each(Staged::land)?;
    Ok(unmatched)
}

/// Everything that `module` takes from the tensors of `file` whose names begin with `prefix`; their names go to `used`.
pub(crate) fn stage<M: Module + ?Sized>(
    module: &M,
    file: &TensorFile,
    prefix: &str,
    used: &mut HashSet<String>,
) -> Result<Vec<Staged>> {
    check_paths("load", module)?;
    let shared = shared(module, file, prefix);
    let mut staged = Vec::new();
    let mut result = Ok(());
    walk(module, &mut |path, item| {
        if result.is_ok() && matches!(item, Item::Parameter(_) | Item::Statistics(_)) {
            let name = format!("{prefix}{path}");
            match item.identity().and_then(|id| shared.get(&id)) {
                Some(first) if *first != name => result = same(&name, first, file),
                _ => result = one(&name, item, file).map(|value| staged.extend(value)),
            }
            used.insert(name);
        }
    });
    result.map(|()| staged)
}

/// An error when two tensors of a model have the same path: a file can hold only one of them.
pub(crate) fn check_paths<M: Module + ?Sized>(op: &'static str, module: &M) -> Result<()> {
    let (mut found, mut twice) = (HashMap::new(), None);
    walk(module, &mut |path, item| {
        if let Some(id) = item.identity()
            && *found.entry(path.to_owned()).or_insert(id) != id
        {
            twice.get_or_insert_with(|| path.to_owned());
        }
    });
    let Some(path) = twice else { return Ok(()) };
    let reason = "two tensors of the model have this path, and a file could hold one of them; give a field another name by \
                  `#[module(name = \"..\")]`, or a map other keys";
    Err(Error::State { op, name: path.into(), reason: reason.into() })
}

/// The first name under which the file holds each tensor: one that is used in several places may be in the file only once.
fn shared<M: Module + ?Sized>(module: &M, file: &TensorFile, prefix: &str) -> HashMap<Identity, String> {
    let mut names = HashMap::new();
    walk(module, &mut |path, item| {
        let name = format!("{prefix}{path}");
        if let (Some(id), Some(_)) = (item.identity(), file.raw(&name)) {
            names.entry(id).or_insert(name);
        }
    });
    names
}

/// An error when the file holds another value for `name` than for `first`, which is the same parameter here.
fn same(name: &str, first: &str, file: &TensorFile) -> Result<()> {
    let (Some(a), Some(b)) = (file.get::<F64>(first)?, file.get::<F64>(name)?) else { return Ok(()) };
    let bits = |x: Tensor<F64>| Ok::<_, Error>(x.to_vec()?.into_iter().map(f64::to_bits).collect::<Vec<_>>());
    if a.dims() == b.dims() && bits(a)? == bits(b)? {
        return Ok(());
    }
    let reason = format!("the model shares it with `{first}`, the file has another value for it");
    Err(Error::State { op: "load", name: name.into(), reason })
}

/// An error about a file's tensors, with the file's name in it.
pub(super) fn in_file(error: Error, path: &Path) -> Error {
    match error {
        Error::State { op, name, reason } => {
            Error::State { op, name, reason: format!("{reason} (in {})", path.display()) }
        }
        other => other,
    }
}

/// Why there is no tensor of that name.
fn absent(name: &str, file: &TensorFile) -> String {
    let none = "the file has no such tensor";
    match file.raw(&format!("model.0.{name}")) {
        Some(_) => {
            format!("{none}, but one for `model.0`: it is a training state, whose `part(\"model.0\")` is the model's")
        }
        None => none.into(),
    }
}

fn one(name: &str, item: Item<'_>, file: &TensorFile) -> Result<Option<Staged>> {
    let bad = |reason: String| Error::State { op: "load", name: name.into(), reason };
    let raw = file.raw(name).ok_or_else(|| bad(absent(name, file)))?;
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
    file.check_range(name, DType::F32)?;
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
    use crate::nn::{BatchNorm1d, Embedding, Linear};
    use crate::train::TrainState;
    use crate::{Device, F32, F64, I64, Module, Tensor};
    use std::collections::BTreeMap;
    use std::sync::Arc;

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
    fn what_fits_is_taken_and_the_rest_is_said() {
        let device = Device::cpu();
        let layer = |i, o| Linear::new(i, o, &device).unwrap();
        let [from, to] = [5, 2].map(|classes| (layer(3, 4), BatchNorm1d::new(4, &device).unwrap(), layer(4, classes)));
        let (state, mut file, head) = (from.state(), TensorFile::new(), to.2.weight().to_vec().unwrap());
        for name in state.names().filter(|name| *name != "0.bias") {
            file.insert_raw(name, state.raw(name).unwrap().clone());
        }
        file.insert("extra", &Tensor::<F32>::ones([1], &device).unwrap());
        file.insert("1.running_mean", &Tensor::<I64>::ones([4], &device).unwrap());
        file.insert("1.running_var", &Tensor::<F32>::full([4], 3.0, &device).unwrap());
        let bias = to.0.bias().unwrap().to_vec().unwrap();
        let found = to.load_state_matching(&file).unwrap();
        assert_eq!(found.missing, ["0.bias"]);
        assert_eq!(found.unexpected, ["extra"]);
        assert_eq!(found.mismatched, ["1.running_mean", "2.weight", "2.bias"]);
        assert_eq!(to.0.weight().to_vec().unwrap(), from.0.weight().to_vec().unwrap());
        assert_eq!(to.0.bias().unwrap().to_vec().unwrap(), bias);
        assert_eq!(to.1.running_var().tensor().to_vec().unwrap(), [3.0; 4]);
        assert_eq!(to.1.running_mean().tensor().to_vec().unwrap(), [0.0; 4]);
        assert_eq!(to.2.weight().to_vec().unwrap(), head);
        assert!(to.load_state_matching(&to.state()).unwrap().is_empty());
    }

    #[test]
    fn a_shared_parameter_is_missing_only_where_the_file_has_it_nowhere() {
        let device = Device::cpu();
        let (from, to) = (tied(&device), tied(&device));
        let mut file = TensorFile::new();
        assert_eq!(to.load_state_matching(&file).unwrap().missing, ["0.weight", "1.weight"]);
        file.insert("1.weight", &from.0.weight().tensor());
        assert!(to.load_state_matching(&file).unwrap().is_empty());
        assert_eq!(to.0.weight().to_vec().unwrap(), from.0.weight().to_vec().unwrap());
        file.insert("0.weight", &Tensor::<F32>::ones([5, 3], &device).unwrap());
        assert!(to.load_state_matching(&file).is_err());
        assert_eq!(to.0.weight().to_vec().unwrap(), from.0.weight().to_vec().unwrap());
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

    #[test]
    fn shared_statistics_may_stand_in_the_file_once() {
        let device = Device::cpu();
        let norm = Arc::new(BatchNorm1d::new(2, &device).unwrap());
        let (net, mut file) = ((norm.clone(), norm.clone()), TensorFile::new());
        let state = net.state();
        for name in state.names().filter(|name| name.starts_with("1.")) {
            file.insert_raw(name, state.raw(name).unwrap().clone());
        }
        file.insert("1.running_mean", &Tensor::<F32>::full([2], 3.0, &device).unwrap());
        net.load_state(&file).unwrap();
        assert_eq!(norm.running_mean().tensor().to_vec().unwrap(), [3.0; 2]);
        file.insert("0.running_mean", &Tensor::<F32>::ones([2], &device).unwrap());
        let error = net.load_state(&file).unwrap_err().to_string();
        let reason = "the model shares it with `0.running_mean`, the file has another value for it";
        assert_eq!(error, format!("load: tensor `1.running_mean`: {reason}"));
    }

    #[test]
    fn two_tensors_of_one_path_are_an_error() {
        let device = Device::cpu();
        let layer = || Linear::new(1, 1, &device).unwrap().without_bias();
        let net = BTreeMap::from([
            ("a".to_owned(), BTreeMap::from([("b.c".to_owned(), layer())])),
            ("a.b".to_owned(), BTreeMap::from([("c".to_owned(), layer())])),
        ]);
        let path = std::env::temp_dir().join(format!("amp-paths-{}.safetensors", std::process::id()));
        for (op, error) in [
            ("save", net.save(&path).unwrap_err()),
            ("load", net.load_state(&net.state()).unwrap_err()),
            ("load", net.load_state_matching(&net.state()).unwrap_err()),
            ("save", TrainState::of(&net).save(&path).unwrap_err()),
        ] {
            let text = error.to_string();
            assert!(text.starts_with(&format!("{op}: tensor `a.b.c.weight`: two tensors")), "{text}");
        }
        assert!(!path.exists());
    }

    #[test]
    fn what_a_file_lacks_is_said_with_its_name() {
        let device = Device::cpu();
        let net = Linear::new(1, 1, &device).unwrap();
        let path = std::env::temp_dir().join(format!("amp-lacks-{}.safetensors", std::process::id()));
        TrainState::of(&net).save(&path).unwrap();
        let error = net.load(&path).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        let hint = "it is a training state, whose `part(\"model.0\")` is the model's";
        assert!(error.contains(hint) && error.contains("amp-lacks"), "{error}");
    }

    #[test]
    fn values_that_f32_cannot_hold_are_errors() {
        let device = Device::cpu();
        let net = Linear::new(2, 1, &device).unwrap();
        let file = |bias| {
            let mut file = TensorFile::new();
            file.insert("weight", &Tensor::<F64>::from_vec(vec![0.5, f64::INFINITY], [1, 2], &device).unwrap());
            file.insert("bias", &Tensor::<F64>::from_vec(vec![bias], [1], &device).unwrap());
            file
        };
        let before = net.weight().to_vec().unwrap();
        let error = net.load_state(&file(1e300)).unwrap_err().to_string();
        assert_eq!(error, "load: tensor `bias`: the file holds 1e300, which is more than F32 can hold");
        assert_eq!(net.weight().to_vec().unwrap(), before);
        net.load_state(&file(-3.4e38)).unwrap();
        assert_eq!(net.weight().to_vec().unwrap(), [0.5, f32::INFINITY]);
    }
}
