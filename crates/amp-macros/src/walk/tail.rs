//! Values that leave a function: widened to the declared type, never narrowed.

use super::elements::joined;
use super::expect::{all_f32, holds_f32, names_element};
use super::methods::{collects, is_list};
use super::wrapper::{is_wrapper, wrapped, wraps};
use super::{Expect, Walker};
use crate::emit;
use crate::error::spanned;
use crate::lattice::{Prec, Value};
use crate::parens;
use crate::shape::Shape;
use proc_macro2::Ident;
use quote::quote;
use syn::{Expr, ExprReference};

impl Walker<'_> {
    /// Walks an expression whose value leaves for a place with a declared type.
    pub(super) fn tail(&mut self, expr: &mut Expr, expect: &Expect) -> Value {
        let value = self.begins(expr, expect);
        as_declared(value, expect)
    }

    /// As [`tail`](Self::tail), where the value goes no further: into a variable of this type, or to the end of a block.
    pub(super) fn begins(&mut self, expr: &mut Expr, expect: &Expect) -> Value {
        if matches!(expect, Expect::Nothing) { self.expr(expr) } else { self.leaving(expr, expect) }
    }

    fn leaving(&mut self, expr: &mut Expr, expect: &Expect) -> Value {
        match expr {
            Expr::Block(inner) if inner.label.is_none() => self.block(&mut inner.block, expect),
            Expr::Unsafe(inner) => self.block(&mut inner.block, expect),
            Expr::Paren(inner) => {
                let value = self.begins(&mut inner.expr, expect);
                parens::quiet_around(inner);
                value
            }
            Expr::Group(inner) => self.begins(&mut inner.expr, expect),
            Expr::If(_) => self.branches(expr, expect),
            Expr::Match(_) => self.arms(expr, expect),
            Expr::Tuple(tuple) => {
                let parts = match expect {
                    Expect::Tuple(parts) if parts.len() == tuple.elems.len() => parts.clone(),
                    // A key and its tensor on their way into a map.
                    Expect::Prec(_) => vec![expect.clone(); tuple.elems.len()],
                    // Of an alias of a tuple, or of what holds one, the compiler knows the elements.
                    Expect::Named(_) | Expect::Open => vec![Expect::Open; tuple.elems.len()],
                    _ => return self.expr(expr),
                };
                let values = tuple.elems.iter_mut().zip(&parts).map(|(elem, part)| self.begins(elem, part)).collect();
                Value::tuple(values)
            }
            Expr::Call(call) if is_wrapper(call) => self.begins(&mut call.args[0], expect).shaped(Shape::Unknown),
            Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) => self.expr(expr),
            Expr::Closure(closure) if let Expect::Function(result) = expect => {
                let Value { flow, .. } = self.closure_into(closure, (**result).clone());
                Value { flow, ..Value::other() }
            }
            Expr::Async(inner) if let Expect::Future(output) = expect => {
                let Value { flow, .. } = self.async_block(inner, output);
                Value { flow, ..Value::other() }
            }
            _ if let Expect::Items(item) = expect => {
                self.collected = Some((**item).clone());
                let mut value = self.expr(expr);
                self.widen_collected(expr, &mut value, Some(item));
                value
            }
            _ => {
                let original = expr.clone();
                self.collect_into(expr, expect);
                let value = self.expr(expr);
                self.leave(expr, &original, value, expect)
            }
        }
    }

    /// What an expression collects, if it does, goes to a place that declares this: its elements are widened one by one.
    pub(super) fn collect_into(&mut self, expr: &Expr, expect: &Expect) {
        let list = is_list(expr);
        let asked = expect.wants_f32() && (collects(expr) || list) || expect.coerces() && list;
        self.collected = asked.then(|| expect.clone());
    }

    /// Widens the elements of a tuple, as it is written, that go where F32 is expected.
    pub(super) fn widen_elements(&self, expr: &mut Expr, value: &mut Value, expect: &Expect) {
        match (expr, expect) {
            (Expr::Tuple(tuple), Expect::Tuple(expected)) if tuple.elems.len() == expected.len() => {
                for ((elem, part), expect) in tuple.elems.iter_mut().zip(&mut value.parts).zip(expected) {
                    self.widen_elements(elem, part, expect);
                }
            }
            (Expr::Call(call), Expect::Tuple(_)) if call.args.len() == 1 && wraps(&call.func) => {
                self.widen_elements(&mut call.args[0], value, expect);
            }
            (expr, Expect::Tuple(expected)) if self.lies_apart(expr, value) => self.widen_apart(expr, value, expected),
            (expr, Expect::Prec(Prec::F32)) if is_unsure(value) => {
                self.rewrite(expr, |inner| self.widened(inner, value));
                (value.prec, value.sure) = (Prec::F32, true);
            }
            (expr, Expect::Named(ty)) if may_differ(value) => {
                self.rewrite(expr, |inner| emit::declared(ty, inner));
                (value.prec, value.sure) = (Prec::Unknown, false);
            }
            _ => {}
        }
    }

    /// A value that goes where its type decides what is expected: a field, an argument of somebody's own function. What
    /// was a tensor of the region's precision may be one of F32 there.
    pub(super) fn expected(&self, expr: &mut Expr, value: &mut Value) {
        if let Expr::Tuple(tuple) = expr
            && tuple.elems.len() == value.parts.len()
        {
            tuple.elems.iter_mut().zip(&mut value.parts).for_each(|(elem, part)| self.expected(elem, part));
            *value = Value::tuple(std::mem::take(&mut value.parts));
            return;
        }
        if self.is_apart(expr, value) {
            return self.expected_apart(expr, value);
        }
        // What is expected of what wraps a value is expected of the value.
        if let Some(inner) = wrapped(expr) {
            return self.expected(inner, value);
        }
        if self.cx.host || self.gather(expr, value) {
            return;
        }
        if self.may_lie_in(expr, value) {
            return self.rewrite(expr, emit::expected_reference);
        }
        if !holds_narrow(value) {
            return;
        }
        match expr {
            Expr::Reference(inner) if inner.mutability.is_some() && emit::is_place(&inner.expr) => return,
            // What is borrowed here is nobody else's.
            Expr::Reference(inner) if is_fresh(inner, value) => self.rewrite(&mut inner.expr, emit::expected_borrowed),
            // A variable may hold a reference, and so may what a method of an option or a list gives.
            expr if !value.shape.gives() => self.rewrite(expr, emit::expected_reference),
            expr => self.expected_of(expr),
        }
        (value.prec, value.sure) = (Prec::Unknown, false);
    }

    /// Whether an expression is a variable with a tuple, of which some elements are tensors that may be narrow and others
    /// are none, or what only the compiler knows.
    fn is_apart(&self, expr: &Expr, value: &Value) -> bool {
        let may_be_none = |part: &Value| !matches!(part.prec, Prec::F32 | Prec::Half(_));
        self.lies_apart(expr, value) && holds_narrow(value) && value.parts.iter().any(may_be_none)
    }

    /// Whether an expression is a variable that began with a tuple that was written out.
    fn lies_apart(&self, expr: &Expr, value: &Value) -> bool {
        !self.cx.host && value.is_tuple() && self.variable(expr).is_some_and(|var| self.scopes.vars[var].apart)
    }

    /// Asks for the elements of such a tuple one by one: the type of a number is the one that is expected of it, which the
    /// compiler does not find behind a question.
    fn expected_apart(&self, expr: &mut Expr, value: &mut Value) {
        let at = emit::ends(expr).0;
        let names: Vec<Ident> = (0..value.parts.len()).map(|i| emit::local("p", i, at)).collect();
        let elems = names.iter().zip(&mut value.parts).map(|(name, part)| {
            let mut elem = Expr::Verbatim(quote!(#name));
            self.expected(&mut elem, part);
            elem
        });
        let elems: Vec<Expr> = elems.collect();
        self.rewrite(expr, |whole| emit::taken_apart(&whole, &quote!((#(#names,)*)), &elems));
        *value = Value::tuple(std::mem::take(&mut value.parts));
    }

    /// Whether an expression borrows what lies in a container that was made here, of what only the compiler knows.
    fn may_lie_in(&self, expr: &Expr, value: &Value) -> bool {
        let Expr::Reference(borrow) = expr else { return false };
        let Expr::Index(index) = &*borrow.expr else { return false };
        let made_here = self.variable(&index.expr).is_some_and(|var| !self.scopes.vars[var].declared);
        made_here && borrow.mutability.is_none() && value.prec == Prec::Opaque && !value.is_unsettled()
    }

    /// Walks a list that is borrowed where it is written, as an argument of somebody's own function: it may be one of
    /// tensors of F32, of which some are and others have to be widened.
    pub(super) fn listed(&mut self, arg: &mut Expr) -> Option<Value> {
        let Expr::Array(list) = list_of(arg).filter(|_| !self.cx.host)? else { return None };
        let mut elems: Vec<&mut Expr> = list.elems.iter_mut().collect();
        let mut values = self.agreeing(&mut elems);
        elems.into_iter().zip(&mut values).for_each(|(elem, value)| self.expected(elem, value));
        Some(joined(values))
    }

    /// As [`expected`](Self::expected), of an argument that may be what the call gives: of a reference to it, what is
    /// widened lives on.
    pub(super) fn given_back(&mut self, expr: &mut Expr, value: &mut Value) {
        let place = match &*expr {
            Expr::Reference(inner) => inner.mutability.is_none() && emit::is_place(&inner.expr),
            expr => matches!(expr, Expr::Path(_)) && !value.shape.gives(),
        };
        match place && may_differ(value) && !self.cx.host {
            true if let Some(slot) = self.slot() => self.rewrite(expr, |inner| emit::expected_behind(inner, &slot)),
            _ => return self.expected(expr, value),
        }
        (value.prec, value.sure) = (Prec::Unknown, false);
    }

    /// As [`expected`](Self::expected), of what a variable that is a reference, or a list of such, begins with: what is widened lives on.
    pub(super) fn lent(&mut self, expr: &mut Expr, value: &mut Value) {
        match expr {
            Expr::Reference(inner) if is_fresh(inner, value) => self.expected(expr, value),
            _ if !may_differ(value) || self.cx.host => {}
            expr => {
                if let Some(slot) = self.slot() {
                    self.rewrite(expr, |inner| emit::expected_behind(inner, &slot));
                }
            }
        }
    }

    /// As [`expected`](Self::expected), whatever the value is.
    pub(super) fn expected_of(&self, expr: &mut Expr) {
        // A host's tensors are cast where they are taken.
        if !self.cx.host {
            self.rewrite(expr, emit::expected);
        }
    }

    /// Whether a variable is a container that was made empty.
    pub(super) fn is_open(&self, place: &Expr) -> bool {
        self.variable(place).is_some_and(|var| self.scopes.vars[var].open)
    }

    /// What is put into a container is to be F32.
    pub(super) fn want(&mut self, place: &Expr) {
        if let Some(var) = self.variable(place) {
            self.scopes.vars[var].wanted = true;
        }
    }

    fn as_expected(&self, expr: &mut Expr, mut value: Value) -> Value {
        self.expected(expr, &mut value);
        value
    }

    /// A tuple that is not written out, of which some elements are to be F32: the compiler knows the others.
    fn leave_tuple(&self, expr: &mut Expr, mut value: Value, expected: &[Expect]) -> Value {
        let settled = self.cx.host || value.inferred || matches!(value.prec, Prec::Never | Prec::Other);
        let known = !value.parts.is_empty() && !value.parts.iter().any(may_be_narrow);
        if settled || known {
            return value;
        }
        match self.is_apart(expr, &value) {
            true => self.expected_apart(expr, &mut value),
            false => self.expected_of(expr),
        }
        Value::tuple(expected.iter().map(Expect::given).collect())
    }

    /// How to declare a variable that is F32 only because of what it is assigned.
    fn declared_as(&self, expr: &Expr, half: &str) -> Option<String> {
        let var = &self.scopes.vars[self.variable(expr)?];
        let name = var.name();
        var.widened.then(|| format!(", or `let mut {name}: Tensor<{half}> = ..` if all it is given is `{half}`"))
    }

    fn leave(&mut self, expr: &mut Expr, original: &Expr, value: Value, expect: &Expect) -> Value {
        let prec = match expect {
            Expect::Prec(prec) => prec,
            Expect::Open => return self.as_expected(expr, value),
            Expect::Tuple(parts) if names_element(parts) => return self.as_expected(expr, value),
            // The name of a tuple's type.
            Expect::Named(_) if value.is_tuple() => return self.as_expected(expr, value),
            Expect::Named(ty) if may_differ(&value) => {
                self.rewrite(expr, |inner| emit::declared(ty, inner));
                return value;
            }
            // A tuple that comes out of a call: its type says which elements have to be widened.
            Expect::Tuple(parts) if all_f32(parts) => &Prec::F32,
            Expect::Tuple(parts) if holds_f32(parts) && self.is_open(expr) => &Prec::F32,
            Expect::Tuple(parts) if expect.wants_f32() => return self.leave_tuple(expr, value, parts),
            _ => return value,
        };
        if *prec == Prec::F32 && self.is_open(expr) {
            self.want(expr);
            return value;
        }
        if value.inferred || matches!(value.prec, Prec::Never | Prec::Other) || value.is_surely(prec) {
            return value;
        }
        match (prec, &value.prec) {
            (Prec::F32, _) => {
                self.rewrite(expr, |inner| self.widened(inner, &value));
                Value { flow: value.flow, pinned: value.pinned, ..Value::sure(Prec::F32) }
            }
            (Prec::Half(name), Prec::F32) => {
                let declared = self.declared_as(original, name).unwrap_or_default();
                self.refuse_narrowing(original, name, ("on return", &declared));
                value
            }
            // What a module gives has a type by which it is rejected, if that is F32.
            (Prec::Half(_), Prec::Unknown) => self.as_expected(expr, value),
            _ => value,
        }
    }

    /// What is F32 goes into a variable that is declared to be narrower, by the name of the variable.
    pub(super) fn check_declared(&mut self, given: &Expr, value: &Value, declared: &Prec, name: &str) {
        if let (Prec::Half(half), Prec::F32) = (declared, &value.prec)
            && !value.inferred
            && !value.by_name
        {
            self.refuse_narrowing(given, half, (&format!("in `{name}`"), ""));
        }
    }

    fn refuse_narrowing(&mut self, given: &Expr, half: &str, (place, more): (&str, &str)) {
        self.errors.push(spanned(
            given,
            format!("this `F32` value would be narrowed to `{half}` {place}"),
            format!("declare `Tensor<F32>`, or write the cast: `.to::<{half}>()`{more}"),
        ));
    }
}

/// Whether a value that goes to a place of F32 may have to be widened.
pub(super) fn may_differ(value: &Value) -> bool {
    matches!(value.prec, Prec::Half(_) | Prec::Unknown) && !value.inferred
}

/// Whether it may be no tensor of F32; of what the macro does not know, its type says whether it is a tensor.
fn is_unsure(value: &Value) -> bool {
    may_differ(value) || value.is_open() || value.prec == Prec::F32 && !value.sure
}

/// Whether it is such a value, or holds one in a tuple.
pub(super) fn holds_narrow(value: &Value) -> bool {
    may_differ(value) || !value.inferred && value.is_tuple() && value.parts.iter().any(holds_narrow)
}

/// A value that left for such a place: outside, it is needed as its type declares it.
pub(super) fn as_declared(value: Value, expect: &Expect) -> Value {
    if matches!(expect, Expect::Nothing) { value } else { value.without_uses() }
}

/// Whether it, or something in it, is no tensor of F32 that the macro knows of.
fn may_be_narrow(value: &Value) -> bool {
    may_differ(value) || value.prec == Prec::Opaque
}

/// What an expression that is written as a shared reference refers to, and a list of references.
fn list_of(expr: &mut Expr) -> Option<&mut Expr> {
    match expr {
        Expr::Reference(inner) => Some(&mut *inner.expr).filter(|_| inner.mutability.is_none()),
        Expr::Array(list) => {
            let lends = list.elems.iter().any(|elem| matches!(elem, Expr::Reference(_)));
            lends.then_some(expr)
        }
        _ => None,
    }
}

/// Whether a reference is to a tensor, or exclusive to what it is, that nothing else holds.
fn is_fresh(reference: &ExprReference, value: &Value) -> bool {
    let known = value.shape == Shape::Pointer || reference.mutability.is_some();
    known && !emit::is_place(&reference.expr)
}
