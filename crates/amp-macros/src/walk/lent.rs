//! Variables that are lent exclusively to functions: what those put into them.

use super::Walker;
use crate::flow::Slot;
use crate::lattice::{Prec, Value};
use crate::scope::Var;
use syn::{Expr, ExprCall};

impl Walker<'_> {
    /// `mem::swap(&mut a, &mut b)` assigns each to the other.
    pub(super) fn swapped(&mut self, call: &ExprCall) {
        let variable = |arg: &Expr| match arg {
            Expr::Reference(place) if place.mutability.is_some() => self.variable(&place.expr),
            _ => None,
        };
        match *call.args.iter().map(variable).collect::<Vec<_>>() {
            [Some(one), Some(other)] => {
                self.flows.swap_pins(one, other);
                let (value, of_other) = (self.known(one), self.known(other));
                self.assign_var(one, &of_other);
                self.assign_var(other, &value);
            }
            [Some(var), None] | [None, Some(var)] => {
                let behind = |arg: &Expr| match arg {
                    Expr::Reference(place) => self.variable_behind(&place.expr),
                    place => self.variable_behind(place),
                };
                match call.args.iter().filter_map(behind).find(|other| *other != var) {
                    Some(other) => self.assign_var(var, &self.known(other)),
                    // What lies in a field of one's own goes into the variable.
                    None => self.given_by_others(var),
                }
            }
            _ => {}
        }
    }

    /// The variable that a place is, or refers to.
    fn variable_behind(&self, place: &Expr) -> Option<usize> {
        match place {
            Expr::Unary(reference) => self.variable(&reference.expr),
            place => self.variable(place),
        }
    }

    /// What a variable with a tensor is given only the compiler knows: the variable holds F32.
    pub(super) fn given_by_others(&mut self, var: usize) {
        // What was made empty takes its type from this, and an iterator only moves.
        let Var { declared, open, iterator, .. } = self.scopes.vars[var];
        if !(declared || open || iterator) && self.known(var).prec.is_tensor() {
            self.assign_var(var, &Value::new(Prec::Unknown));
        }
    }

    /// A variable that is lent exclusively to a function of one's own holds what that makes, as if it were assigned that.
    pub(super) fn lent_exclusively(&mut self, arg: &Expr) {
        if let Expr::Reference(lent) = arg
            && let Some(var) = self.variable(&lent.expr).filter(|_| lent.mutability.is_some())
        {
            self.given_by_others(var);
        }
    }

    /// `mem::replace(&mut a, b)` assigns.
    pub(super) fn replaced(&mut self, call: &ExprCall, given: &Value) {
        if let Some(Expr::Reference(place)) = call.args.first()
            && let Some(var) = self.variable(&place.expr).filter(|_| place.mutability.is_some())
        {
            self.reassigned(&Slot::of(var), given);
            self.assign_var(var, given);
        }
    }
}

/// Whether a path names a function of a module, a container or a trait of `std`: `mem::take`, `take`, `Iterator::next`.
pub(super) fn is_of_std(path: &syn::Path) -> bool {
    const NAMES: &[&str] =
        &["std", "core", "mem", "Iterator", "Option", "Vec", "VecDeque", "HashMap", "BTreeMap", "Arc", "Rc", "Box"];
    match path.get_ident() {
        Some(name) => name == "swap" || name == "take" || name == "replace",
        None => path.segments.iter().any(|segment| NAMES.iter().any(|name| segment.ident == name)),
    }
}
