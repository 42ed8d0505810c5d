//! The optimizers' arithmetic on one chunk, with what is the same for all elements computed in F64 beforehand.
//!
//! `p` is the master, `g` the gradient times `factor`.

mod adadelta;
mod adam;
mod adamax;
mod lion;
mod rms_prop;
mod sgd;

pub(super) use adadelta::Adadelta;
pub(super) use adam::Adam;
pub(super) use adamax::Adamax;
pub(super) use lion::Lion;
pub(super) use rms_prop::RmsProp;
pub(super) use sgd::Sgd;
