//! What the paths of calls name: operations, or something else.

use super::Walker;
use syn::{ExprPath, PathSegment};

/// `Tensor::op`, `Tensor::<P>::op` and `Add::add`: the first argument is the receiver.
pub(super) fn on_tensor(path: &ExprPath) -> bool {
    let qualifier = path.path.segments.iter().rev().nth(1);
    path.qself.is_some() || qualifier.is_some_and(|segment| segment.ident == "Tensor") || names_operator(path)
}

/// The trait of an operator and its method.
fn names_operator(path: &ExprPath) -> bool {
    let mut names = path.path.segments.iter().rev().map(|segment| segment.ident.to_string());
    let (method, qualifier) = (names.next().unwrap_or_default(), names.next().unwrap_or_default());
    matches!((&*qualifier, &*method), ("Add", "add") | ("Sub", "sub") | ("Mul", "mul") | ("Div", "div"))
}

/// What a path to something other than an operation of the library has in it.
const FOREIGN: &[&str] = &[
    "Self", "self", "super", "crate", "std", "core", "alloc", "cmp", "mem", "ptr", "iter", "str", "f32", "f64",
    "usize", "isize", "u8", "u16", "u32", "u64", "u128", "i8", "i16", "i32", "i64", "i128",
];

/// Whether a path may name an operation: not a local, not `Self::helper`, not `f32::exp` or something of `std`.
pub(super) fn names_operation(walker: &Walker<'_>, path: &ExprPath) -> bool {
    if path.qself.is_some() || names_operator(path) {
        return true;
    }
    if let Some(ident) = path.path.get_ident() {
        return walker.scopes.find(&ident.to_string()).is_none();
    }
    let foreign = |segment: &PathSegment| FOREIGN.iter().any(|name| segment.ident == name);
    let qualifier = path.path.segments.iter().rev().nth(1);
    let is_type = qualifier.is_some_and(|segment| segment.ident.to_string().starts_with(|c: char| c.is_uppercase()));
    // `use amp::functional as F`, as in PyTorch.
    let known = qualifier.is_some_and(|segment| segment.ident == "Tensor" || segment.ident == "F");
    !(path.path.segments.iter().any(foreign) || is_type && !known)
}
