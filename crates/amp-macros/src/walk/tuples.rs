//! Branches that end in tuples, or in options and results of tuples, which join element by element.

use super::control::{Arm, MOST, last, typed, variant};
use super::path::is_pointer;
use super::{Expect, Walker};
use crate::emit;
use crate::lattice::Prec;
use quote::{format_ident, quote};
use syn::{Expr, ExprCall, ExprTuple, GenericArgument, PathArguments, Type};

impl Walker<'_> {
    /// Makes element `i` of the tuples that branches end in agree at F32, where one of them is.
    pub(super) fn join_elements(&self, arms: &mut [Arm<'_>], i: usize) {
        let precs: Vec<Prec> = typed(arms).filter_map(|arm| Some(arm.value.parts.get(i)?.prec.clone())).collect();
        if !precs.contains(&Prec::F32) {
            return;
        }
        for arm in arms {
            let Some(part) = arm.value.parts.get(i) else { continue };
            let differs = part.prec.is_tensor() && !part.is_surely(&Prec::F32) && !part.inferred;
            if let (true, Some(tuple)) = (differs, last(&mut arm.end).and_then(tuple))
                && let Some(elem) = tuple.elems.get_mut(i)
            {
                self.rewrite(elem, |inner| self.widened(inner, part));
            }
        }
    }
}

/// The elements of tuples that are wrapped, and how deep in options and results the tuples are.
#[derive(Clone)]
pub(super) struct Wrapped {
    elements: Vec<bool>,
    depth: usize,
}

impl Wrapped {
    /// Makes a tuple with other elements in these places.
    fn rewrapped(&self, expr: &Expr, elem: impl Fn(&Expr) -> Expr) -> Expr {
        emit::mapped(expr, self.depth, |tuple| emit::rewrapped(tuple, &self.elements, &elem))
    }

    /// Whether the tuples are in options or results.
    pub(super) fn is_deep(&self) -> bool {
        self.depth > 0
    }

    /// Joins the elements of what the branches of an expression give.
    pub(super) fn joined(&self, expr: &Expr, join: impl Fn(Expr) -> Expr) -> Expr {
        self.rewrapped(expr, |elem| join(elem.clone()))
    }
}

/// Wraps those elements of the tuples that branches end in for the types to join them of which nothing else tells whether
/// they differ, if there are any.
pub(super) fn wrap_elements(arms: &mut [Arm<'_>], (expect, says_type): (&Expect, bool)) -> Option<Wrapped> {
    let count = typed(arms).count();
    // Beside a tuple that is written all the others are tuples too.
    let depth = arms.iter_mut().filter_map(|arm| last(&mut arm.end)).find_map(|expr| depth(expr))?;
    let written: Vec<bool> = arms
        .iter_mut()
        .filter_map(|arm| last(&mut arm.end).and_then(tuple))
        .map(|tuple| tuple.elems.iter().any(takes_its_type))
        .collect();
    let coerced = written.contains(&true) && !matches!(expect, Expect::Nothing) || expect.coerces();
    if !(2..=MOST).contains(&count) || coerced || depth > 0 && says_type {
        return None;
    }
    let width = typed(arms).map(|arm| arm.value.parts.len()).max()?;
    let elements: Vec<bool> = (0..width).map(|i| is_open(arms, i)).collect();
    if !elements.contains(&true) {
        return None;
    }
    let wrapped = Wrapped { elements, depth };
    let name = format_ident!("Join{}", count);
    for (number, arm) in arms.iter_mut().filter(|arm| arm.value.prec != Prec::Never).enumerate() {
        let Some(expr) = last(&mut arm.end) else { continue };
        let variant = variant(number);
        let wrap = |inner: &Expr| Expr::Verbatim(quote!(__amp::#name::#variant(#inner)));
        match tuple(expr) {
            Some(tuple) => {
                let places = tuple.elems.iter_mut().zip(&wrapped.elements);
                places.filter(|(_, wrapped)| **wrapped).for_each(|(elem, _)| *elem = wrap(elem));
            }
            None => *expr = wrapped.rewrapped(expr, wrap),
        }
    }
    Some(wrapped)
}

/// Whether element `i` is a tensor in one of the branches, and may be of another precision in the next.
fn is_open(arms: &[Arm<'_>], i: usize) -> bool {
    // Of a tuple that a call gives nothing is known of its elements.
    let parts: Option<Vec<_>> = typed(arms)
        .map(|arm| arm.value.parts.get(i).or(Some(&arm.value).filter(|value| value.parts.is_empty())))
        .collect();
    let Some(parts) = parts else { return false };
    let told = parts.iter().any(|part| {
        let told = matches!(part.prec, Prec::Never | Prec::F32 | Prec::Other);
        told || !part.prec.is_tensor() && part.is_unsettled()
    });
    let alike = parts[0].prec.is_known() && parts.iter().all(|part| part.prec == parts[0].prec);
    !told && !alike && parts.iter().any(|part| part.prec.is_tensor())
}

/// Whether an element takes its type from what the whole is given to, if that says one.
pub(super) fn takes_its_type(elem: &Expr) -> bool {
    match elem {
        Expr::Closure(_) | Expr::Reference(_) => true,
        // A function, which becomes a pointer.
        Expr::Path(path) => path.path.segments.len() > 1,
        Expr::Call(call) => matches!(&*call.func, Expr::Path(path) if is_pointer(&path.path)),
        _ => false,
    }
}

/// The tuple that is written, by itself or in `Some(..)` and `Ok(..)`.
fn tuple(expr: &mut Expr) -> Option<&mut ExprTuple> {
    match expr {
        Expr::Tuple(tuple) => Some(tuple),
        Expr::Call(call) if is_mapped(call) => tuple(&mut call.args[0]),
        _ => None,
    }
}

/// In how many options and results the tuple is, if one is written.
fn depth(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Tuple(_) => Some(0),
        Expr::Call(call) if is_mapped(call) => Some(depth(&call.args[0])? + 1),
        _ => None,
    }
}

/// Whether a call makes an option or a result, whose type says nothing of what is in it.
fn is_mapped(call: &ExprCall) -> bool {
    let Expr::Path(path) = &*call.func else { return false };
    let Some(last) = path.path.segments.last().filter(|_| call.args.len() == 1) else { return false };
    let open = match &last.arguments {
        PathArguments::AngleBracketed(list) => matches!(list.args.first(), Some(GenericArgument::Type(Type::Infer(_)))),
        _ => true,
    };
    open && (last.ident == "Some" || last.ident == "Ok")
}
