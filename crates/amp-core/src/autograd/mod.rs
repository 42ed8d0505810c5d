//! Reverse-mode differentiation over erased tensors.
//!
//! Every differentiable operation records one `Node`: its inputs' edges and a closure over what it saved. `backward`
//! walks the nodes from the newest to the oldest (creation order is a topological order), so depth costs no stack.
//!
//! Casts record nothing: the result of a cast shares its source's edge, and a gradient arrives in the precision of that
//! source. So a weight narrowed to 16 bits receives its gradient in F32 straight from the accumulators.

mod check;
mod checkpoint;
mod clip;
mod deferred;
mod engine;
mod grad_mode;
mod gradcheck;
mod gradients;
mod graph;
mod ids;
mod parts;
mod pass;
mod peaks;
mod rows;
mod saved;
mod scale_state;
mod shown;
mod watch;

pub(crate) use check::{Checked, flat};
pub use checkpoint::checkpoint;
pub(crate) use engine::{Collected, Walk, first_f16, run, take_pending};
pub(crate) use grad_mode::{GradMode, grad_mode};
pub use grad_mode::{grad_enabled, no_grad};
pub use gradcheck::{GradCheck, gradcheck};
pub use gradients::{Gradients, Typed};
pub use graph::Differentiable;
pub(crate) use graph::{Backward, Edge, Leaf, Turn, grad_ids, leaf, next_id, record, record_turn};
pub(crate) use ids::{IdMap, IdSet};
pub(crate) use parts::{part_of, spread};
pub(crate) use pass::Pass;
pub(crate) use peaks::Spread;
pub(crate) use rows::{Rows, Which};
pub(crate) use saved::{Applied, Origin, Saved, SavedInput, SavedSigns, note_origin};
pub use saved::{SavedBytes, saved_bytes};
pub(crate) use scale_state::ScaleTag;
pub use scale_state::{IsScaled, IsUnscaled, ScaleState, Scaled, Unscaled};
pub use watch::{Culprit, diagnose};
pub(crate) use watch::{Watch, on as watching};
