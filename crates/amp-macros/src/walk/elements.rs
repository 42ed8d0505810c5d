//! Elements of lists, which have one type.

use super::control::{Arm, End, MOST, last, reference, typed, wrap_in_variants};
use super::tuples::{takes_its_type, wrap_elements};
use super::{Expect, Walker};
use crate::emit;
use crate::lattice::{Prec, Value};
use crate::scope::Hold;
use crate::shape::Shape;
use proc_macro2::Ident;
use syn::Expr;

impl Walker<'_> {
    /// Walks an array, as it is or in `vec![..]`, and makes its elements agree.
    pub(super) fn array(&mut self, expr: &mut Expr) -> Value {
        let Expr::Array(array) = expr else { return Value::opaque() };
        let mut elems: Vec<&mut Expr> = array.elems.iter_mut().collect();
        if let Some(expect) = self.collected.take() {
            return joined(elems.into_iter().map(|elem| self.tail(elem, &expect)).collect());
        }
        let values = self.agreeing(&mut elems);
        let value = joined(values.clone());
        let elems = elems.into_iter().zip(values).map(|(elem, value)| Arm { value, end: End::Expr(elem) });
        let mut elems: Vec<Arm<'_>> = elems.collect();
        self.check_branches(&mut elems);
        let lent = self.are_lent(&mut elems);
        if is_open(&mut elems, lent) {
            let sure = typed(&elems).any(|elem| elem.value.is_surely(&Prec::F32));
            let slots = if lent { self.slots_of(&mut elems) } else { Vec::new() };
            wrap_in_variants(elems);
            self.rewrite(expr, |array| match slots.is_empty() {
                true => emit::mapped(&array, 1, |elem| emit::joined(elem.clone())),
                false => emit::joined_elements_behind(&array, &slots),
            });
            return Value { prec: if sure { Prec::F32 } else { Prec::Unknown }, sure, ..value };
        }
        if let Some(wrapped) = wrap_elements(&mut elems, (&Expect::Nothing, false)) {
            self.rewrite(expr, |array| emit::mapped(&array, 1, |elem| wrapped.joined(elem, emit::joined)));
        }
        value
    }

    /// Where what elements that are references refer to lives when it is widened.
    fn slots_of(&mut self, elems: &mut [Arm<'_>]) -> Vec<Ident> {
        elems.iter_mut().filter_map(|elem| reference(&mut elem.end)).for_each(|elem| self.keep(elem));
        elems.iter().map_while(|_| self.slot()).collect()
    }

    /// Whether elements are references, one of which is written as such, to tensors, or to what only the compiler knows.
    fn are_lent(&self, elems: &mut [Arm<'_>]) -> bool {
        let mut any = false;
        let all = elems.iter_mut().all(|elem| {
            let written = reference(&mut elem.end).is_some();
            any |= written;
            let var = last(&mut elem.end).and_then(|expr| self.variable(expr));
            let shared = var.is_some_and(|var| self.scopes.vars[var].hold == Hold::Shared);
            let tensor = elem.value.prec.is_tensor() || elem.value.prec == Prec::Opaque;
            tensor && (written || shared || elem.value.shape == Shape::Pointer)
        });
        all && any
    }

    /// Walks like elements, and widens what stands beside F32.
    pub(super) fn agreeing(&mut self, elems: &mut [&mut Expr]) -> Vec<Value> {
        let mut values: Vec<Value> = elems.iter_mut().map(|elem| self.expr(elem)).collect();
        self.agree(&mut elems.iter_mut().map(|elem| &mut **elem).zip(&mut values).collect::<Vec<_>>());
        values
    }

    /// Widens what stands beside F32 in like elements, in pairs one by one.
    fn agree(&mut self, elems: &mut [(&mut Expr, &mut Value)]) {
        if elems.iter().any(|(_, value)| value.is_surely(&Prec::F32) && value.shape.gives()) {
            return elems.iter_mut().for_each(|(elem, value)| self.widen_owned(elem, value));
        }
        if elems.iter().any(|(_, value)| value.is_surely(&Prec::F32) && value.shape == Shape::Pointer) {
            return elems.iter_mut().for_each(|(elem, value)| self.widen_lent(elem, value));
        }
        let parts = elems.iter().map(|(_, value)| value.parts.len()).min().unwrap_or(0);
        for i in 0..parts {
            self.agree(&mut elems.iter_mut().filter_map(|elem| element(elem, i)).collect::<Vec<_>>());
        }
    }

    /// Widens a tensor that goes where F32 is expected, and says that it is F32.
    pub(super) fn widen_owned(&self, expr: &mut Expr, value: &mut Value) {
        if let Expr::Tuple(tuple) = expr {
            return tuple.elems.iter_mut().zip(&mut value.parts).for_each(|(elem, part)| self.widen_owned(elem, part));
        }
        // Of what a pattern bound, its type says whether it is a reference.
        let owned = !matches!(expr, Expr::Reference(_)) && !value.inferred;
        let owned = owned || value.shape.gives() || value.prec == Prec::Unknown;
        if value.prec.is_tensor() && owned && !value.is_surely(&Prec::F32) {
            self.rewrite(expr, |inner| self.widened(inner, value));
            (value.prec, value.sure) = (Prec::F32, true);
        }
    }

    /// Widens what a written reference among references to F32 refers to: it lives as long as they may.
    fn widen_lent(&mut self, expr: &mut Expr, value: &mut Value) {
        let written = matches!(expr, Expr::Reference(inner) if inner.mutability.is_none());
        let narrow = value.sure && matches!(value.prec, Prec::Half(_)) && value.shape == Shape::Pointer;
        if written
            && narrow
            && let Some(slot) = self.slot()
        {
            let target = self.target(&Prec::F32);
            self.rewrite(expr, |lent| emit::kept(&slot, &emit::cast(&lent, &target)));
            value.prec = Prec::F32;
        }
    }
}

/// Whether nothing but the types tells where elements, which may be references, meet.
fn is_open(elems: &mut [Arm<'_>], lent: bool) -> bool {
    let coerced = elems.iter_mut().any(|elem| last(&mut elem.end).is_some_and(|elem| takes_its_type(elem)));
    let values: Vec<&Value> = typed(elems).map(|elem| &elem.value).collect();
    let settled = values.iter().all(|value| !value.inferred && !value.is_unsettled() && value.parts.is_empty());
    let tensors = values.iter().any(|value| value.prec.is_tensor());
    let none = values.iter().any(|value| value.prec == Prec::Other);
    let alike = values.iter().all(|value| value.prec.is_known() && value.prec == values[0].prec);
    (2..=MOST).contains(&values.len()) && settled && tensors && !none && !alike && (!coerced || lent)
}

/// Element `i` of a tuple.
fn element<'e>((tuple, value): &'e mut (&mut Expr, &mut Value), i: usize) -> Option<(&'e mut Expr, &'e mut Value)> {
    match tuple {
        Expr::Tuple(tuple) => Some((tuple.elems.get_mut(i)?, value.parts.get_mut(i)?)),
        _ => None,
    }
}

/// The value of a container of these. Its numbers are known one by one, or not at all.
pub(super) fn joined(values: Vec<Value>) -> Value {
    let number = |value: &Value| value.constants.first().filter(|_| value.constants.len() == 1).cloned();
    let constants = values.iter().map(number).collect::<Option<Vec<_>>>().unwrap_or_default();
    let count = values.len();
    let mut values = values.into_iter();
    let value = values.next().map_or_else(Value::inferred, |value| values.fold(value, |all, value| all.join(&value)));
    Value { constants, count: Some(count), ..value }
}
