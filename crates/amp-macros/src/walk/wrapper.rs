//! Calls that wrap what they are given: `Ok(..)`, `Box::new(..)`.

use super::path::is_pointer;
use syn::{Expr, ExprCall};

/// What is in a wrapper, or behind a reference to one.
pub(super) fn wrapped(expr: &mut Expr) -> Option<&mut Expr> {
    match expr {
        Expr::Call(call) if is_wrapper(call) => Some(&mut call.args[0]),
        Expr::Reference(inner) if is_wrapped(&inner.expr) => wrapped(&mut inner.expr),
        _ => None,
    }
}

fn is_wrapped(expr: &Expr) -> bool {
    matches!(expr, Expr::Call(call) if is_wrapper(call))
}

pub(super) fn is_wrapper(call: &ExprCall) -> bool {
    call.args.len() == 1 && (wraps(&call.func) || is_new_box(&call.func))
}

/// Whether an expression makes something of tensors that is none itself; a module of the library's takes an option.
pub(super) fn is_built(expr: &Expr) -> bool {
    match expr {
        Expr::Tuple(_) | Expr::Array(_) => true,
        Expr::Call(call) => match &*call.func {
            Expr::Path(path) if path.path.is_ident("Some") => call.args.iter().all(is_built),
            Expr::Path(path) => is_new_box(&call.func) || path.path.segments.last().is_some_and(names_variant),
            _ => false,
        },
        _ => false,
    }
}

fn names_variant(segment: &syn::PathSegment) -> bool {
    segment.ident.to_string().starts_with(char::is_uppercase)
}

fn is_new_box(func: &Expr) -> bool {
    matches!(func, Expr::Path(path) if is_pointer(&path.path) && path.path.segments.last().is_some_and(|s| s.ident == "new" || s.ident == "pin" || s.ident == "from"))
}

/// `Ok(..)`, `Some(..)`, `Cow::Owned(..)`: what is inside leaves too.
pub(super) fn wraps(func: &Expr) -> bool {
    let Expr::Path(path) = func else { return false };
    path.path.segments.last().is_some_and(|last| ["Ok", "Some", "Owned"].iter().any(|name| last.ident == name))
}
