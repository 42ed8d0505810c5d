//! Lists and maps that hold tuples, and folds of tuples: their elements agree one by one.

use super::methods::{calls_function, is_list};
use super::{Expect, Walker};
use crate::emit;
use crate::lattice::{Prec, Value};
use syn::Expr;

impl Walker<'_> {
    /// What the round before chose for the elements of the tuples that a variable holds: F32, for some of them.
    pub(super) fn chosen_elements(&self, var: usize) -> Option<Expect> {
        let (_, elements) = self.settled.elements.iter().find(|(number, _)| *number == var)?;
        let expect = |wide: &bool| if *wide { Expect::Prec(Prec::F32) } else { Expect::Nothing };
        Some(Expect::Tuple(elements.iter().map(expect).collect()))
    }

    /// Widens those elements of a tuple that goes into a variable's container that have to be F32 there.
    pub(super) fn widen_tuple_for(&self, container: &Expr, tuple: &mut Expr, value: &mut Value) {
        let var = self.variable(container).filter(|&var| self.scopes.vars[var].holds_tuples());
        if let Some(expect) = var.and_then(|var| self.chosen_elements(var)) {
            self.widen_elements(tuple, value, &expect);
        }
    }

    /// As [`widen_elements`](Self::widen_elements), of the tuples in a vector.
    pub(super) fn widen_listed(&self, list: &mut Expr, value: &mut Value, expect: &Expect) {
        let Expect::Tuple(expected) = expect else { return };
        if let Some(places) = self.widened_places(value, expected) {
            self.rewrite(list, |list| emit::rewrapped_each(&list, &places, |elem| self.widened_element(elem)));
        }
    }

    /// As [`widen_elements`](Self::widen_elements), of a tuple that a variable holds.
    pub(super) fn widen_apart(&self, tuple: &mut Expr, value: &mut Value, expected: &[Expect]) {
        if let Some(places) = self.widened_places(value, expected) {
            self.rewrite(tuple, |tuple| emit::rewrapped(&tuple, &places, |elem| self.widened_element(elem)));
        }
    }

    fn widened_element(&self, elem: &Expr) -> Expr {
        self.widened(elem.clone(), &Value::opaque())
    }

    /// Which elements have to be widened, if some have; of these it is known to be done.
    fn widened_places(&self, value: &mut Value, expected: &[Expect]) -> Option<Vec<bool>> {
        let wide = expected.iter().map(|elem| matches!(elem, Expect::Prec(Prec::F32)));
        let places: Vec<bool> =
            wide.zip(&value.parts).map(|(wide, part)| wide && !part.is_surely(&Prec::F32)).collect();
        if !places.contains(&true) || self.cx.host {
            return None;
        }
        let widened = value.parts.iter_mut().zip(&places).filter(|(_, wide)| **wide);
        widened.for_each(|(part, _)| (part.prec, part.sure) = (Prec::F32, true));
        Some(places)
    }

    /// A tuple that is put into a variable's container, where others lie: those of its elements that may be F32 are assigned to it.
    pub(super) fn mixed_tuple(&mut self, container: &Expr, (held, given): (&Value, &Value), of_functions: &[bool]) {
        let alike = held.is_tuple() && held.parts.len() == given.parts.len();
        let Some(var) = self.variable(container).filter(|_| alike) else { return };
        let assigned = |(i, part): (usize, &Value)| {
            let of_function = part.prec == Prec::Unknown && of_functions.get(i) == Some(&true);
            if part.prec == Prec::F32 || part.is_open() || of_function { part.clone() } else { Value::never() }
        };
        self.assign_var(var, &Value::tuple(given.parts.iter().enumerate().map(assigned).collect()));
    }
}

/// What is known of a value, or of the elements of a tuple, behind what others may be put into.
pub(super) fn held_of(given: &Value) -> Value {
    if given.is_tuple() {
        return Value::tuple(given.parts.iter().map(held_of).collect());
    }
    match given.prec {
        Prec::F32 if given.is_surely(&Prec::F32) => Value::sure(Prec::F32),
        Prec::F32 | Prec::Half(_) | Prec::Unknown => Value::new(Prec::Unknown),
        Prec::Other => Value::other(),
        _ => Value::opaque(),
    }
}

/// Which elements of a tuple are what functions give, which may be F32.
pub(super) fn call_functions(tuple: &Expr) -> Vec<bool> {
    match tuple {
        Expr::Tuple(tuple) => tuple.elems.iter().map(calls_function).collect(),
        _ => Vec::new(),
    }
}

/// Whether an expression is `vec![..]`.
pub(super) fn is_vector(expr: &Expr) -> bool {
    matches!(expr, Expr::Macro(_)) && is_list(expr)
}
