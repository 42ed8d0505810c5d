//! What a model is: a tree of parameters, persistent state and training modes.

use super::{Mode, Statistics, Unmatched, Waiting};
use crate::io::TensorFile;
use crate::param::Parameter;
use crate::{Device, Result};
use std::collections::HashSet;
use std::path::Path;

/// A part of a model. Implemented with `#[derive(Module)]`; everything else follows from [`visit`](Self::visit).
///
/// Methods take `&self`: parameters, statistics and the train/eval mode are shared handles.
///
/// ```
/// # use amp_core::{nn::{Dropout, Linear, Module, Visitor}, Device, F32, Result, Tensor};
/// struct Net { fc: Linear, dropout: Dropout }
///
/// impl Net {
///     fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
///         self.fc.forward(&self.dropout.forward(x)?)
///     }
/// }
///
/// // What `#[derive(Module)]` writes.
/// impl Module for Net {
///     fn visit(&self, visitor: &mut Visitor<'_>) {
///         visitor.field("fc", &self.fc);
///         visitor.field("dropout", &self.dropout);
///     }
/// }
///
/// # let device = Device::cpu();
/// # let path = std::env::temp_dir().join(format!("amp-module-{}.safetensors", std::process::id()));
/// let net = Net { fc: Linear::new(4, 2, &device)?, dropout: Dropout::new(0.5) };
/// let names: Vec<String> = net.named_parameters().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["fc.weight", "fc.bias"]);
///
/// net.save(&path)?;
/// let copy = Net { fc: Linear::new(4, 2, &device)?, dropout: Dropout::new(0.5) };
/// copy.load(&path)?;
/// copy.eval(); // no dropout from here on
/// # let x = Tensor::ones([1, 4], &device)?;
/// # assert_eq!(copy.forward(&x)?.to_vec()?, net.fc.forward(&x)?.to_vec()?);
/// # std::fs::remove_file(path).ok();
/// # Ok::<_, amp_core::Error>(())
/// ```
pub trait Module {
    /// Shows the visitor every field that belongs to the model, under its name.
    fn visit(&self, visitor: &mut Visitor<'_>);

    /// Every parameter with its path (`fc1.weight`), in the order of declaration; a shared one appears once, under its
    /// first path.
    fn named_parameters(&self) -> Vec<(String, Parameter)> {
        let (mut found, mut seen) = (Vec::new(), HashSet::new());
        walk(self, &mut |path, item| {
            if let Item::Parameter(p) = item
                && seen.insert(p.id())
            {
                p.name_as(path);
                found.push((path.to_owned(), p.clone()));
            }
        });
        found
    }

    /// Every parameter, in the order of declaration; a shared one appears once.
    fn parameters(&self) -> Vec<Parameter> {
        self.named_parameters().into_iter().map(|(_, p)| p).collect()
    }

    /// Every piece of persistent state that is not trained (running statistics), with its path.
    fn named_statistics(&self) -> Vec<(String, Statistics)> {
        let mut found = Vec::new();
        walk(self, &mut |path, item| {
            if let Item::Statistics(s) = item {
                found.push((path.to_owned(), s.clone()));
            }
        });
        found
    }

    /// Number of elements of all parameters, frozen ones included.
    fn parameter_count(&self) -> usize {
        self.parameters().iter().map(Parameter::count).sum()
    }

    /// Switches dropout on and lets normalisations use batch statistics (the initial mode).
    fn train(&self) {
        set_mode(self, true);
    }

    /// Switches dropout off and lets normalisations use running statistics.
    fn eval(&self) {
        set_mode(self, false);
    }

    /// Freezes every parameter, or lets all train again (`requires_grad_`).
    #[doc(alias("requires_grad_", "freeze"))]
    fn set_trainable(&self, trainable: bool) {
        self.parameters().iter().for_each(|p| p.set_trainable(trainable));
    }

    /// Every parameter and every running statistic by its path: the file that [`save`](Self::save) writes. If several tensors
    /// have the same path, which `save` and [`load_state`](Self::load_state) refuse, it holds the last of them.
    #[doc(alias = "state_dict")]
    fn state(&self) -> TensorFile {
        let mut file = TensorFile::new();
        walk(self, &mut |path, item| match item {
            Item::Parameter(p) => file.insert(path, &p.tensor()),
            Item::Statistics(s) => file.insert_raw(path, s.raw()),
            Item::Mode(_) | Item::Waiting(_) => {}
        });
        file
    }

    /// Takes parameters and running statistics from a file; values of another floating-point precision are converted
    /// to F32.
    ///
    /// # Errors
    /// [`Error::State`](crate::Error::State) when a tensor is missing, has another shape or a finite value beyond F32, or
    /// belongs to nothing here; a parameter that is used in several places may stand in the file once, but not with two
    /// values. Nothing has changed then.
    #[doc(alias = "load_state_dict")]
    fn load_state(&self, file: &TensorFile) -> Result<()> {
        super::load(self, file)
    }

    /// Takes from a file what fits by name, shape and kind, and says what did not (`load_state_dict(strict=False)`, which makes
    /// an error of other shapes): for a backbone under a new head.
    ///
    /// # Errors
    /// [`Error::State`](crate::Error::State) when the file has two values for a parameter that is used in several places.
    /// Nothing has changed then.
    fn load_state_matching(&self, file: &TensorFile) -> Result<Unmatched> {
        super::load_matching(self, file)
    }

    /// Writes parameters and running statistics to a safetensors file, which Python's `safetensors` reads too.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) when the file cannot be written, [`Error::State`](crate::Error::State) when two tensors of
    /// the model have one path.
    fn save(&self, path: impl AsRef<Path>) -> Result<()>
    where
        Self: Sized,
    {
        super::check_paths("save", self)?;
        self.state().save(path)
    }

    /// Reads parameters and running statistics from a safetensors file, also one written by Python.
    ///
    /// # Errors
    /// Those of [`TensorFile::load`] and of [`load_state`](Self::load_state); nothing has changed then.
    fn load(&self, path: impl AsRef<Path>) -> Result<()>
    where
        Self: Sized,
    {
        let path = path.as_ref();
        self.load_state(&TensorFile::load(path, &Device::cpu())?).map_err(|error| super::in_file(error, path))
    }

    /// Reads what fits from a safetensors file, as [`load_state_matching`](Self::load_state_matching) does.
    ///
    /// # Errors
    /// Those of [`TensorFile::load`] and of [`load_state_matching`](Self::load_state_matching); nothing has changed then.
    fn load_matching(&self, path: impl AsRef<Path>) -> Result<Unmatched>
    where
        Self: Sized,
    {
        let path = path.as_ref();
        self.load_state_matching(&TensorFile::load(path, &Device::cpu())?).map_err(|error| super::in_file(error, path))
    }

    /// Makes the pending changes of state (running statistics) of forward passes that no step follows, as in calibration
    /// without training.
    ///
    /// A training step makes them itself for every layer that its gradients went through; those of a norm whose output is only
    /// used behind `detach` wait for this call. Call it after each pass: of passes under `no_grad` only the latest change is
    /// kept, and that of a recorded pass is dropped with its output.
    fn commit(&self) -> Result<()> {
        let mut result = Ok(());
        walk(self, &mut |_, item| {
            if let (Item::Waiting(w), true) = (item, result.is_ok()) {
                result = w.commit();
            }
        });
        result
    }
}

pub(super) fn walk<M: Module + ?Sized>(module: &M, each: &mut dyn FnMut(&str, Item<'_>)) {
    module.visit(&mut Visitor { path: String::new(), each });
}

fn set_mode<M: Module + ?Sized>(module: &M, training: bool) {
    walk(module, &mut |_, item| {
        if let Item::Mode(mode) = item {
            mode.set(training);
        }
    });
}

/// What a visitor is shown.
pub(super) enum Item<'a> {
    Parameter(&'a Parameter),
    Statistics(&'a Statistics),
    Mode(&'a Mode),
    Waiting(&'a Waiting),
}

/// Which tensor of a model something is: a shared one is one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Identity {
    Parameter(u64),
    Statistics(usize),
}

impl Item<'_> {
    /// The identity of what a file of the model's state holds.
    pub(super) fn identity(&self) -> Option<Identity> {
        match self {
            Self::Parameter(p) => Some(Identity::Parameter(p.id())),
            Self::Statistics(s) => Some(Identity::Statistics(s.address())),
            Self::Mode(_) | Self::Waiting(_) => None,
        }
    }
}

/// Walks a model; [`Module::visit`] calls it for every field.
pub struct Visitor<'a> {
    path: String,
    each: &'a mut dyn FnMut(&str, Item<'_>),
}

impl Visitor<'_> {
    /// Visits the field `name` of a module.
    pub fn field<M: Module + ?Sized>(&mut self, name: &str, module: &M) {
        let outer = self.path.len();
        if outer > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        module.visit(self);
        self.path.truncate(outer);
    }

    fn show(&mut self, item: Item<'_>) {
        (self.each)(&self.path, item);
    }
}

impl std::fmt::Debug for Visitor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Visitor({})", self.path)
    }
}

macro_rules! leaves {
    ($($type:ident),*) => { $(
        impl Module for $type {
            fn visit(&self, visitor: &mut Visitor<'_>) {
                visitor.show(Item::$type(self));
            }
        }
    )* };
}
leaves!(Parameter, Statistics, Mode, Waiting);

macro_rules! pointers {
    ($($type:ty),*) => { $(
        impl<M: Module + ?Sized> Module for $type {
            fn visit(&self, visitor: &mut Visitor<'_>) {
                (**self).visit(visitor);
            }
        }
    )* };
}
pointers!(&M, Box<M>, std::rc::Rc<M>, std::sync::Arc<M>);

impl<M: Module> Module for Option<M> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        if let Some(module) = self {
            module.visit(visitor);
        }
    }
}

impl<M: Module> Module for [M] {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        for (i, module) in self.iter().enumerate() {
            visitor.field(&i.to_string(), module);
        }
    }
}

impl<M: Module, const N: usize> Module for [M; N] {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.as_slice().visit(visitor);
    }
}

impl<M: Module> Module for Vec<M> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.as_slice().visit(visitor);
    }
}

impl<K: std::fmt::Display, M: Module> Module for std::collections::BTreeMap<K, M> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        for (key, module) in self {
            visitor.field(&key.to_string(), module);
        }
    }
}

macro_rules! tuples {
    ($($($m:ident $i:tt),+;)*) => { $(
        impl<$($m: Module),+> Module for ($($m,)+) {
            fn visit(&self, visitor: &mut Visitor<'_>) {
                $(visitor.field(stringify!($i), &self.$i);)+
            }
        }
    )* };
}
tuples! { A 0; }
of_tuples!(tuples);
