//! Modules: the layers that models are made of, with PyTorch's default initialisations.
//!
//! `forward` takes a tensor of any precision `P` and follows the module's class: Linear, convolutions, attention and
//! recurrent cells work in `P` (their F32 weights are narrowed once per optimizer step and shared); normalisations
//! return F32; activations, pooling and dropout keep `P`.

#[doc(hidden)]
pub mod derive;
pub mod init;
mod linear;
mod load;
mod module;
mod state;

pub use linear::Linear;
use load::load;
pub(crate) use load::{Staged, stage};
pub use module::{Module, Visitor};
pub use state::{Mode, Statistics, Waiting};
