//! One row of the table.

use std::fmt;

/// In which precision an operation runs inside an autocast region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Tensor arguments are narrowed to the region's precision; so is the result.
    Lower,
    /// Tensor arguments are widened to F32; so is the result.
    Full,
    /// Tensor arguments meet at the widest of them.
    Widest,
    /// Runs in the precision it is given.
    Keep,
    /// Does not compile in a region.
    Banned,
}

impl Class {
    /// The word that attributes, plans and documentation use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lower => "lower",
            Self::Full => "full",
            Self::Widest => "widest",
            Self::Keep => "keep",
            Self::Banned => "banned",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What kind of operation a row describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Matrix products
    Gemm,
    /// Convolutions
    Conv,
    /// Recurrent cells
    Rnn,
    /// Attention
    Attention,
    /// Factorisations and solvers
    Linalg,
    /// Reductions, cumulative operations, softmax
    Reduction,
    /// Activations
    Activation,
    /// Element-wise arithmetic and functions
    Pointwise,
    /// Normalisation layers
    NormLayer,
    /// Losses
    Loss,
    /// Upsampling and grid sampling
    Resample,
    /// Gather, scatter, masks
    Index,
    /// Views and rearrangement
    Shape,
    /// Pooling
    Pool,
    /// Padding
    Pad,
    /// Fourier transforms
    Fft,
    /// Complex numbers
    Complex,
    /// Simulated quantisation
    Quant,
    /// Comparisons
    Compare,
    /// Random masks
    Random,
    /// Casts and moves between devices
    Cast,
    /// Constructors
    Factory,
    /// PyTorch's in-place and `out=` forms
    Inplace,
}

/// One operation and its policy.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// What the method is called here.
    pub name: &'static str,
    /// What PyTorch's dispatcher calls it.
    pub torch: &'static str,
    /// What kind of operation it is.
    pub family: Family,
    /// Its rule in a region.
    pub class: Class,
    /// Positions of the tensor arguments; 0 is the receiver of the method form.
    pub tensors: &'static [u8],
    /// Whether the first argument is a list of tensors.
    pub list: bool,
    /// Why the rule is what it is.
    pub reason: &'static str,
    /// Why the class differs from PyTorch's CUDA list, where it does.
    pub departure: Option<&'static str>,
    /// The safe operation to use instead of a banned one.
    pub replacement: Option<&'static str>,
    /// Whether this library has the operation.
    pub implemented: bool,
    /// What this library has in place of an operation of this name.
    pub instead: Option<&'static str>,
    /// A `full` or `keep` operation that can round its result to the region's precision as it writes it.
    pub direct: bool,
    /// A `keep` operation that gives the same, and the same gradients, whether its input is rounded or its result: it
    /// moves, drops or negates elements. If it is `direct` too, its gradient depends on signs, so that this holds only
    /// where rounding makes no zeros: in BF16, which has the range of F32 (but for subnormal numbers).
    pub commutes: bool,
}

impl Op {
    pub(crate) const fn new(name: &'static str, family: Family, class: Class, reason: &'static str) -> Self {
        Self {
            name,
            torch: name,
            family,
            class,
            tensors: &[0],
            list: false,
            reason,
            departure: None,
            replacement: None,
            implemented: false,
            instead: None,
            direct: false,
            commutes: false,
        }
    }

    pub(crate) const fn torch(mut self, name: &'static str) -> Self {
        self.torch = name;
        self
    }

    pub(crate) const fn tensors(mut self, positions: &'static [u8]) -> Self {
        self.tensors = positions;
        self
    }

    pub(crate) const fn list(mut self) -> Self {
        self.list = true;
        self
    }

    pub(crate) const fn departs(mut self, why: &'static str) -> Self {
        self.departure = Some(why);
        self
    }

    pub(crate) const fn replaced_by(mut self, name: &'static str) -> Self {
        self.replacement = Some(name);
        self
    }

    pub(crate) const fn implemented(mut self) -> Self {
        self.implemented = true;
        self
    }

    pub(crate) const fn instead(mut self, what: &'static str) -> Self {
        self.instead = Some(what);
        self
    }

    pub(crate) const fn direct(mut self) -> Self {
        self.direct = true;
        self
    }

    pub(crate) const fn commutes(mut self) -> Self {
        self.commutes = true;
        self
    }
}
