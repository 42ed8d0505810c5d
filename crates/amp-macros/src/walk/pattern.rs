//! Patterns, which declare variables.

use super::Walker;
use super::held::{field_name, of_unseen};
use crate::flow::Slot;
use crate::lattice::{Prec, Value};
use crate::named::is_constant;
use crate::place::Place;
use crate::scope::Hold;
use crate::shape::Shape;
use proc_macro2::Ident;
use quote::ToTokens;
use std::cmp::Ordering;
use std::rc::Rc;
use syn::{Expr, Member, Pat, PatIdent, PatSlice, PatTuple, PatTupleStruct, Type};

impl Walker<'_> {
    /// Declares the variables of a pattern that may not match, or holds what it matches: the value is needed as it is.
    pub(super) fn bind(&mut self, pat: &Pat, value: &Value, declared: bool) {
        let first = self.scopes.vars.len();
        self.declare(pat, &value.clone(), declared);
        self.scopes.vars[first..].iter_mut().for_each(|var| var.empty = false);
    }

    /// Declares the variables of a pattern, which take the value's uses over.
    pub(super) fn declare(&mut self, pat: &Pat, value: &Value, declared: bool) {
        match pat {
            // Other constants and variants are told from variables by their types, as those are.
            Pat::Ident(ident) if ident.ident == "None" || self.is_item(&ident.ident) => {}
            Pat::Ident(ident) => self.declare_name(ident, value, declared),
            Pat::Type(typed) => {
                let declared = self.type_value(&typed.ty);
                let known = declared.prec != Prec::Opaque;
                let first = self.scopes.vars.len();
                self.declare(&typed.pat, if known { &declared } else { value }, known);
                self.hold_as(&typed.pat, first, &typed.ty);
            }
            Pat::Reference(inner) => self.declare(&inner.pat, &value.clone().shaped(value.shape.behind()), declared),
            Pat::Paren(inner) => self.declare(&inner.pat, value, declared),
            Pat::Tuple(tuple) => self.declare_tuple(tuple, value, declared),
            Pat::TupleStruct(tuple) => self.declare_variant(tuple, value),
            Pat::Struct(fields) => {
                for field in &fields.fields {
                    let name = field.member.to_token_stream().to_string();
                    let known = (0..value.parts.len()).find(|&i| value.part_name(i) == name);
                    let part = known.map_or_else(|| of_unseen(value), |i| value.same_part(i));
                    self.declare(&field.pat, &part, false);
                }
            }
            Pat::Slice(slice) => self.declare_slice(slice, value, declared),
            // Every alternative declares the same names.
            Pat::Or(or) => {
                if let Some(first) = or.cases.first() {
                    self.declare(first, value, declared);
                }
            }
            _ => {}
        }
    }

    /// Whether a name is that of a constant of the function's own, which a pattern compares with.
    fn is_item(&self, name: &Ident) -> bool {
        self.scopes.find(&name.to_string()).is_some_and(|var| self.scopes.vars[var].item)
    }

    /// Notes how a variable of a declared type, which is declared, has what it stands for.
    pub(super) fn hold_as(&mut self, pat: &Pat, var: usize, ty: &Type) {
        if let (Pat::Ident(PatIdent { by_ref: None, .. }), Type::Reference(_)) = (pat, ty) {
            self.scopes.vars[var].hold = Hold::of_type(ty);
        }
    }

    fn declare_name(&mut self, ident: &PatIdent, value: &Value, declared: bool) {
        let fixed = ident.mutability.is_none() && value.prec != Prec::Never;
        let held = value;
        let mut value = value.clone();
        if ident.by_ref.is_some() {
            value.shape = value.shape.behind();
        }
        let var = self.scopes.vars.len();
        let empty = value.prec == Prec::Never;
        // A variable that is declared before it has a value gets what the round before chose.
        if empty && let Some(prec) = self.chosen(var).filter(|prec| *prec != Prec::Unknown) {
            value = Value { late: value.late, ..Value::sure(prec) };
        }
        let scope = self.binding_scope.unwrap_or(self.steps.len().saturating_sub(usize::from(self.in_block())));
        self.scopes.declare(&ident.ident.to_string(), value.clone(), scope, fixed, declared);
        self.scopes.vars[var].empty = empty;
        self.scopes.vars[var].once = empty && ident.mutability.is_none();
        match &ident.subpat {
            None => self.hold(&Slot::of(var), held),
            Some((_, inner)) => {
                self.pin(&Slot::of(var), held);
                self.declare(inner, &value, declared);
            }
        }
    }

    fn declare_tuple(&mut self, tuple: &PatTuple, value: &Value, declared: bool) {
        let rest = tuple.elems.iter().position(|pat| matches!(pat, Pat::Rest(_)));
        for (i, pat) in tuple.elems.iter().enumerate() {
            // What stands behind `..` is counted from the end.
            let index = match rest.is_some_and(|rest| i > rest) {
                true => (value.parts.len() + i).saturating_sub(tuple.elems.len()),
                false => i,
            };
            self.declare(pat, &value.same_part(index), declared);
        }
    }

    fn declare_slice(&mut self, slice: &PatSlice, value: &Value, declared: bool) {
        let value = value.clone().shaped(Shape::Unknown);
        let rest = slice.elems.iter().position(is_rest).unwrap_or(slice.elems.len());
        for (i, pat) in slice.elems.iter().enumerate() {
            let behind = slice.elems.len() - i;
            let element = match i.cmp(&rest) {
                Ordering::Less => value.element(i),
                Ordering::Equal => value.elements(rest, behind - 1),
                Ordering::Greater => value.element_before_end(behind),
            };
            self.declare(pat, &element, declared);
        }
    }

    /// `Some(x)` and the like.
    fn declare_variant(&mut self, tuple: &PatTupleStruct, value: &Value) {
        let wraps = tuple.path.segments.last().is_some_and(|s| s.ident == "Some" || s.ident == "Ok");
        if !wraps && !value.names.is_empty() {
            return tuple.elems.iter().enumerate().for_each(|(i, pat)| {
                let name = field_name(&tuple.path, i);
                let known = (0..value.parts.len()).find(|&part| value.part_name(part) == name);
                self.declare(pat, &known.map_or_else(Value::opaque, |part| value.same_part(part)), false);
            });
        }
        let inner = match value.prec {
            // What came into an `Option` that was declared empty is not known here, but it has a type by now.
            Prec::Never if self.settled.first => Value::never(),
            Prec::Never => Value::late(),
            _ if wraps => Value { inferred: false, shape: Shape::Unknown, ..value.clone() },
            _ => Value::opaque(),
        };
        tuple.elems.iter().for_each(|pat| self.declare(pat, &inner, false));
    }

    /// Declares the variables of a `let` condition: they are in scope behind the branch that the condition opens.
    pub(super) fn bind_condition(&mut self, pat: &Pat, value: &Value, place: Option<&Rc<Place>>) {
        self.binding_scope = Some(self.steps.len() + 1);
        self.bind(pat, value, false);
        self.binding_scope = None;
        self.made_of(pat, place.filter(|_| !has_struct(pat)));
    }

    /// The place that an expression is, for who asks for its type elsewhere.
    pub(super) fn place(&self, expr: &Expr) -> Option<Rc<Place>> {
        Place::of(expr, &self.scopes, &self.rules)
    }

    /// Notes what the variables of a pattern, which are declared, were taken out of.
    pub(super) fn made_of(&mut self, pat: &Pat, place: Option<&Rc<Place>>) {
        let Some(place) = place else { return };
        match pat {
            Pat::Ident(ident) => {
                if let Some(var) = self.scopes.find(&ident.ident.to_string()) {
                    self.scopes.vars[var].origin = Some(place.clone());
                }
            }
            Pat::Paren(inner) => self.made_of(&inner.pat, Some(place)),
            Pat::Tuple(tuple) if !tuple.elems.iter().any(|pat| matches!(pat, Pat::Rest(_))) => {
                for (i, pat) in tuple.elems.iter().enumerate() {
                    self.made_of(pat, Some(&place.field(Member::from(i))));
                }
            }
            Pat::TupleStruct(one)
                if one.elems.len() == 1 && one.path.get_ident().is_some_and(|s| s == "Some" || s == "Ok") =>
            {
                self.made_of(&one.elems[0], Some(&place.item()));
            }
            Pat::Struct(fields) if !is_variant(&fields.path) => {
                for field in &fields.fields {
                    self.made_of(&field.pat, Some(&place.field(field.member.clone())));
                }
            }
            _ => {}
        }
    }

    fn in_block(&self) -> bool {
        matches!(self.steps.last(), Some(crate::hoist::Step::Block(..)))
    }

    /// What a declared type says in this function.
    pub(super) fn type_value(&self, ty: &syn::Type) -> Value {
        Value::of_type(ty, self.cx.param.as_deref())
    }
}

/// `..` and `rest @ ..`
fn is_rest(pat: &Pat) -> bool {
    match pat {
        Pat::Rest(_) => true,
        Pat::Ident(PatIdent { subpat: Some((_, inner)), .. }) => is_rest(inner),
        _ => false,
    }
}

/// Whether a path ends in a type and one of its variants, by the way they are written.
fn is_variant(path: &syn::Path) -> bool {
    let qualifier = path.segments.iter().rev().nth(1);
    qualifier.is_some_and(|segment| segment.ident.to_string().starts_with(char::is_uppercase))
}

/// Whether a pattern that may not match names fields, which may be those of one variant.
pub(super) fn has_struct(pat: &Pat) -> bool {
    match pat {
        Pat::Struct(_) => true,
        Pat::Paren(inner) => has_struct(&inner.pat),
        Pat::Tuple(tuple) => tuple.elems.iter().any(has_struct),
        Pat::TupleStruct(tuple) => tuple.elems.iter().any(has_struct),
        _ => false,
    }
}

/// Whether the pattern of an arm that others follow compares with constants: a variable would leave nothing to those.
pub(super) fn names_constants(pat: &Pat) -> bool {
    match pat {
        Pat::Ident(PatIdent { by_ref: None, mutability: None, subpat: None, ident, .. }) => is_constant(ident),
        Pat::Paren(inner) => names_constants(&inner.pat),
        Pat::Or(or) => or.cases.iter().all(names_constants),
        _ => false,
    }
}

pub(super) fn find_ident<'p>(pat: &'p Pat, name: &str) -> Option<&'p Ident> {
    match pat {
        Pat::Ident(ident) if ident.ident == name => Some(&ident.ident),
        Pat::Ident(ident) => ident.subpat.as_ref().and_then(|(_, inner)| find_ident(inner, name)),
        Pat::Type(typed) => find_ident(&typed.pat, name),
        Pat::Reference(inner) => find_ident(&inner.pat, name),
        Pat::Paren(inner) => find_ident(&inner.pat, name),
        Pat::Tuple(tuple) => tuple.elems.iter().find_map(|pat| find_ident(pat, name)),
        Pat::TupleStruct(tuple) => tuple.elems.iter().find_map(|pat| find_ident(pat, name)),
        Pat::Slice(slice) => slice.elems.iter().find_map(|pat| find_ident(pat, name)),
        Pat::Struct(fields) => fields.fields.iter().find_map(|field| find_ident(&field.pat, name)),
        Pat::Or(or) => or.cases.iter().find_map(|pat| find_ident(pat, name)),
        _ => None,
    }
}
