//! Calls that wrap what they are given: `Ok(..)`, `Box::new(..)`.

use super::Expect;
use super::path::is_pointer;
use syn::{Expr, ExprCall, GenericArgument, Path, PathArguments, Type};

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
            Expr::Path(path) => is_new_box(&call.func) || path.path.segments.last().is_some_and(is_upper),
            _ => false,
        },
        _ => false,
    }
}

fn is_upper(segment: &syn::PathSegment) -> bool {
    segment.ident.to_string().starts_with(char::is_uppercase)
}

fn is_new_box(func: &Expr) -> bool {
    matches!(func, Expr::Path(path) if is_pointer(&path.path) && path.path.segments.last().is_some_and(|s| s.ident == "new" || s.ident == "pin" || s.ident == "from"))
}

/// `Ok(..)`, `Some(..)`, `Cow::Owned(..)`: what is inside leaves too.
pub(super) fn wraps(func: &Expr) -> bool {
    let Expr::Path(path) = func else { return false };
    let last = path.path.segments.last().filter(|_| names_variant(&path.path));
    last.is_some_and(|last| ["Ok", "Some", "Owned"].iter().any(|name| last.ident == name))
}

/// Whether a path with the name of a variant of `std` names that: `Ok`, `Result::Ok`, not `Outcome::Ok`.
pub(super) fn names_variant(path: &Path) -> bool {
    path.segments.iter().rev().nth(1).is_none_or(|owner| {
        let owner = owner.ident.to_string();
        owner.ends_with("Result") || owner == "Option" || owner == "Cow"
    })
}

/// What the path of a wrapper says of what goes in: `Ok::<Tensor<F32>, Error>`, `Box::<Tensor<F32>>::new`.
pub(super) fn held_type(path: &Path, param: Option<&str>) -> Expect {
    let held = path.segments.iter().rev().take(2).find_map(|segment| match &segment.arguments {
        PathArguments::AngleBracketed(list) => list.args.first(),
        _ => None,
    });
    match held {
        Some(GenericArgument::Type(ty)) if !matches!(ty, Type::Infer(_)) => Expect::of_type(ty, param).of_variable(),
        _ => Expect::Nothing,
    }
}
