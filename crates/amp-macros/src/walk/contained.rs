//! What containers hold, by what is put into them.

use super::methods::{is_adapted, is_list};
use super::tail::may_differ;
use super::tupled::held_of;
use super::{Expect, Walker};
use crate::emit;
use crate::lattice::{Prec, Value};
use crate::place::Place;
use crate::scope::{Hold, Var};
use crate::shape::Shape;
use syn::{Expr, parse_quote};

impl Walker<'_> {
    /// Widens what a container is extended with: one that is known to hold F32, or whose type says so. Tells whether it did.
    pub(super) fn extend(&self, place: &Expr, holds: Option<&Expect>, list: &mut Expr, value: &mut Value) -> bool {
        let asks = holds.is_none() && emit::is_pure_place(place) && !self.is_open(place);
        match holds {
            _ if !may_differ(value) || self.cx.host => return false,
            Some(Expect::Prec(Prec::F32)) if is_adapted(list) => self.widen_each_part(list, value),
            Some(Expect::Prec(Prec::F32)) => self.widen_held(list, value),
            // The type of an array says nothing of that of a list.
            None if asks && is_list(list) => self.rewrite(list, |inner| emit::slot(place, emit::vector(inner))),
            None if asks && is_adapted(list) => self.rewrite(list, |inner| emit::slot_each(place, inner)),
            None if asks => self.rewrite(list, |inner| emit::slot(place, inner)),
            _ => return false,
        }
        true
    }

    /// As [`extend`](Self::extend), of what another container is emptied of.
    pub(super) fn append(&self, place: &Expr, holds: Option<&Expect>, list: &mut Expr, value: &mut Value) -> bool {
        let Expr::Reference(lent) = list else { return false };
        let mut taken = parse_quote!(::core::mem::take(#lent));
        let extends = self.extend(place, holds, &mut taken, value);
        if extends {
            *lent.expr = taken;
        }
        extends
    }

    /// Whether a variable is a container that was made empty and holds F32 where it leaves.
    pub(super) fn is_wanted(&self, var: usize) -> bool {
        self.scopes.vars[var].open && self.chosen(var) == Some(Prec::F32)
    }

    /// What is F32, or may be, and is put into a variable's container is assigned to it, as what it may have to be widened for.
    pub(super) fn mixed(&mut self, place: &Expr, container: &Value, given: &Value, of_function: bool) {
        let Some(var) = self.variable(place).filter(|_| mixes(container, given, of_function)) else { return };
        let origin = self.scopes.vars[var].origin.clone();
        if !origin.is_some_and(|origin| self.mixed_at(&origin, given)) {
            self.assign_var(var, given);
        }
    }

    /// As [`mixed`](Self::mixed), of what is assigned to what a reference refers to: it lies in the variables that change
    /// of those that the reference was made of.
    pub(super) fn mixed_behind(&mut self, place: &Expr, given: &Value) {
        let Expr::Unary(reference) = place else { return };
        let Some(var) = self.variable(&reference.expr) else { return };
        let held = self.known(var);
        match self.scopes.vars[var].origin.clone() {
            Some(origin) => drop(self.mixed_at(&origin, given)),
            // In a box.
            None if self.scopes.vars[var].hold == Hold::Owned && mixes(&held, given, true) => {
                self.assign_var(var, given)
            }
            None => {}
        }
    }

    /// Tells whether there are such variables.
    fn mixed_at(&mut self, origin: &Place, given: &Value) -> bool {
        let changes = |var: &usize| {
            let Var { fixed, value, .. } = &self.scopes.vars[*var];
            !fixed && mixes(value, given, true)
        };
        let changing: Vec<usize> = origin.variables().into_iter().filter(changes).collect();
        changing.iter().for_each(|&var| self.assign_var(var, given));
        !changing.is_empty()
    }

    /// What is put into a container that was made empty says what the container holds.
    pub(super) fn filled(&mut self, place: &Expr, container: &Value, given: &Value, args: usize) {
        let Some(var) = self.variable(place).filter(|_| container.inferred && container.prec == Prec::Opaque) else {
            return;
        };
        let held = match &given.prec {
            _ if given.is_tuple() => held_of(given),
            Prec::F32 if given.is_surely(&Prec::F32) && given.shape.gives() && args == 1 => Value::sure(Prec::F32),
            Prec::F32 if self.is_wanted(var) || given.is_pinned() => Value::new(Prec::F32),
            Prec::Half(_) | Prec::Unknown if given.parts.is_empty() && given.shape != Shape::Pointer => {
                Value::new(Prec::Unknown)
            }
            _ => return,
        };
        self.scopes.vars[var].value = held;
    }
}

/// Whether what is put into a container of tensors is F32, or may be.
fn mixes(container: &Value, given: &Value, of_function: bool) -> bool {
    let may_be_f32 = given.prec == Prec::F32 || given.is_open() || of_function && given.prec == Prec::Unknown;
    container.prec.is_tensor() && may_be_f32 && given.parts.is_empty()
}
