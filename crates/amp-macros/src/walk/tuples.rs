//! Branches that end in tuples, which join element by element.

use super::control::{Arm, End, MOST, last, typed, variant};
use super::path::is_pointer;
use super::{Expect, Walker};
use crate::emit;
use crate::lattice::Prec;
use quote::{format_ident, quote};
use syn::{Expr, ExprTuple};

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
            if let (true, Some(tuple)) = (differs, tuple(&mut arm.end))
                && let Some(elem) = tuple.elems.get_mut(i)
            {
                self.rewrite(elem, |inner| self.widened(inner, part));
            }
        }
    }
}

/// Wraps those elements of the tuples that branches end in for the types to join them of which nothing else tells whether
/// they differ, if there are any.
pub(super) fn wrap_elements(arms: &mut [Arm<'_>], width: usize, expect: &Expect) -> Option<Vec<bool>> {
    let count = typed(arms).count();
    // Beside a tuple that is written all the others are tuples too.
    let written: Vec<bool> = arms.iter_mut().filter_map(|arm| tuple(&mut arm.end)).map(takes_its_type).collect();
    let coerced = written.contains(&true) && !matches!(expect, Expect::Nothing);
    if !(2..=MOST).contains(&count) || written.is_empty() || coerced {
        return None;
    }
    let wrapped: Vec<bool> = (0..width).map(|i| is_open(arms, i)).collect();
    if !wrapped.contains(&true) {
        return None;
    }
    let name = format_ident!("Join{}", count);
    for (number, arm) in arms.iter_mut().filter(|arm| arm.value.prec != Prec::Never).enumerate() {
        let Some(expr) = last(&mut arm.end) else { continue };
        let variant = variant(number);
        let wrap = |inner: &Expr| Expr::Verbatim(quote!(__amp::#name::#variant(#inner)));
        match expr {
            Expr::Tuple(tuple) => {
                tuple.elems.iter_mut().zip(&wrapped).filter(|(_, wrapped)| **wrapped).for_each(|(e, _)| *e = wrap(e))
            }
            expr => *expr = emit::rewrapped(expr, &wrapped, wrap),
        }
    }
    Some(wrapped)
}

/// Whether element `i` is a tensor in one of the branches, and may be of another precision in the next.
fn is_open(arms: &[Arm<'_>], i: usize) -> bool {
    let parts: Option<Vec<_>> = typed(arms).map(|arm| arm.value.parts.get(i)).collect();
    let Some(parts) = parts else { return false };
    let told = parts.iter().any(|part| {
        let told = matches!(part.prec, Prec::Never | Prec::F32 | Prec::Other);
        told || !part.prec.is_tensor() && part.is_unsettled()
    });
    let alike = parts[0].prec.is_known() && parts.iter().all(|part| part.prec == parts[0].prec);
    !told && !alike && parts.iter().any(|part| part.prec.is_tensor())
}

/// Whether an element takes its type from what the whole is given to, if that says one.
fn takes_its_type(tuple: &mut ExprTuple) -> bool {
    tuple.elems.iter().any(|elem| match elem {
        Expr::Closure(_) | Expr::Reference(_) => true,
        Expr::Call(call) => matches!(&*call.func, Expr::Path(path) if is_pointer(&path.path)),
        _ => false,
    })
}

/// The tuple a branch ends in.
fn tuple<'b>(end: &'b mut End<'_>) -> Option<&'b mut ExprTuple> {
    match last(end)? {
        Expr::Tuple(tuple) => Some(tuple),
        _ => None,
    }
}
