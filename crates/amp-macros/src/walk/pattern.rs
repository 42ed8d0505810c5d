//! Statements and the patterns that declare variables.

use super::tail::is_name;
use super::{Expect, Walker};
use crate::emit;
use crate::flow::Slot;
use crate::lattice::{Prec, Value};
use crate::place::Place;
use crate::scope::Hold;
use crate::shape::Shape;
use quote::{ToTokens, quote};
use std::rc::Rc;
use syn::{Expr, Item, ItemConst, ItemStatic, Local, Member, Pat, Stmt, Type};

impl Walker<'_> {
    /// Walks a statement; gives its value, if it is the block's last, and statements to add after it.
    pub(super) fn statement(&mut self, stmt: &mut Stmt, last: bool, expect: &Expect) -> (Value, Vec<Stmt>) {
        match stmt {
            Stmt::Local(local) => (Value::other(), self.local(local)),
            Stmt::Expr(expr, None) if last => (self.tail(expr, expect), Vec::new()),
            Stmt::Expr(expr, semi) => {
                let value = self.expr(expr);
                // A statement that never ends makes the block's value neutral.
                let ends = last && semi.is_some() && value.prec == Prec::Never && diverges(expr);
                (if ends { Value::never() } else { Value::other() }, Vec::new())
            }
            Stmt::Macro(stmt_macro) => {
                let semi = stmt_macro.semi_token;
                let (value, replaced) = self.macro_call(&stmt_macro.mac);
                let value = match (semi, &value.prec) {
                    (None, _) if last => value,
                    (_, Prec::Never) if last => value,
                    _ => Value::other(),
                };
                if let Some(replaced) = replaced {
                    *stmt = Stmt::Expr(replaced, semi);
                }
                (value, Vec::new())
            }
            Stmt::Item(item) => {
                if let Item::Const(ItemConst { ident, .. }) | Item::Static(ItemStatic { ident, .. }) = item {
                    self.scopes.declare(&ident.to_string(), Value::other(), self.steps.len(), true, true);
                }
                (Value::other(), Vec::new())
            }
        }
    }

    fn local(&mut self, local: &mut Local) -> Vec<Stmt> {
        let (pat, declared) = match &local.pat {
            Pat::Type(typed) => (&*typed.pat, Some(self.type_value(&typed.ty))),
            pat => (pat, None),
        };
        let named = match &local.pat {
            Pat::Type(typed) => Some((*typed.ty).clone()),
            _ => None,
        };
        let named = named.as_ref();
        let pat = pat.clone();
        let Some(init) = &mut local.init else {
            let first = self.scopes.vars.len();
            self.bind(&pat, &declared.clone().unwrap_or_else(Value::never), declared.is_some());
            (first..self.scopes.vars.len()).for_each(|var| self.flows.unset(var));
            return Vec::new();
        };
        let place = if named.is_none() { self.place(&init.expr) } else { None };
        let mut value = match &mut *init.expr {
            Expr::Closure(closure) => self.closure_variable(closure),
            init => self.expr(init),
        };
        if let Some((_, diverge)) = &mut init.diverge {
            let matched = self.flows.state();
            self.expr(diverge);
            self.flows.resume(matched);
        }
        // The name of a type may be another of a tensor's.
        if let (Some(Type::Path(path)), Prec::Half(_) | Prec::Unknown, false) = (named, &value.prec, value.inferred)
            && is_name(path, self.cx.param.as_deref())
        {
            self.rewrite(&mut init.expr, |inner| emit::declared(&Type::Path(path.clone()), inner));
        }
        let is_declared = declared.as_ref().is_some_and(|declared| declared.prec != Prec::Opaque);
        if let Some(declared) = declared {
            // An annotation is an assertion: it says more than the interpreter knows, and rustc checks it.
            if is_declared {
                let pinned = value.pinned && declared.prec == Prec::F32;
                let constant = value.constant.take();
                value = Value { pinned, constant, ..declared.asserted_of(value) };
            }
        }
        let first = self.scopes.vars.len();
        match local.init.as_ref().is_some_and(|init| init.diverge.is_some()) {
            true => self.bind(&pat, &value, is_declared),
            false => self.declare(&pat, &value, is_declared),
        }
        let place =
            place.filter(|_| local.init.as_ref().is_some_and(|init| init.diverge.is_none() || !has_struct(&pat)));
        self.made_of(&pat, place.as_ref());
        if let (Pat::Ident(_), Some(Expr::Reference(init))) = (&pat, local.init.as_ref().map(|init| &*init.expr)) {
            self.scopes.vars[first].hold = if init.mutability.is_some() { Hold::Exclusive } else { Hold::Shared };
        }
        if let (Pat::Ident(_), Some(true)) = (&pat, local.init.as_ref().map(|init| is_construction(&init.expr))) {
            self.scopes.vars[first].hold = Hold::Owned;
        }
        let widened: Vec<usize> = (first..self.scopes.vars.len()).filter(|&var| self.widens(var)).collect();
        for &var in &widened {
            self.scopes.vars[var].value = Value::sure(Prec::F32);
        }
        if widened.is_empty() {
            return Vec::new();
        }
        if let Pat::Ident(_) = pat {
            let init = local.init.as_mut().expect("matched above");
            self.rewrite(&mut init.expr, |inner| self.widened(inner, &value));
            return Vec::new();
        }
        widened.iter().map(|&var| self.redeclare(&pat, var)).collect()
    }

    /// Whether a variable has to become F32 where it is declared.
    fn widens(&self, var: usize) -> bool {
        let chosen = self.settled.vars.get(var).cloned().flatten();
        let value = &self.scopes.vars[var].value;
        chosen == Some(Prec::F32) && value.prec != Prec::Never && !value.is_surely(&Prec::F32)
    }

    /// `let mut h = widened(h);` after a destructuring declaration.
    fn redeclare(&self, pat: &Pat, var: usize) -> Stmt {
        let name = self.scopes.vars[var].name();
        let ident = find_ident(pat, name).expect("a variable has an identifier in its pattern");
        let value = self.widened(Expr::Verbatim(quote!(#ident)), &Value::opaque());
        Stmt::Expr(Expr::Verbatim(quote!(let mut #ident = #value;)), None)
    }

    /// Declares the variables of a pattern that may not match, or holds what it matches: the value is needed as it is.
    pub(super) fn bind(&mut self, pat: &Pat, value: &Value, declared: bool) {
        let first = self.scopes.vars.len();
        self.declare(pat, &value.clone(), declared);
        self.scopes.vars[first..].iter_mut().for_each(|var| var.empty = false);
    }

    /// Declares the variables of a pattern, which take the value's uses over.
    fn declare(&mut self, pat: &Pat, value: &Value, declared: bool) {
        match pat {
            Pat::Ident(ident) => {
                let fixed = ident.mutability.is_none() && value.prec != Prec::Never;
                let held = value;
                let mut value = value.clone();
                if ident.by_ref.is_some() {
                    value.shape = value.shape.behind();
                }
                if ident.mutability.is_some() {
                    value.constant = None;
                }
                let var = self.scopes.vars.len();
                let empty = value.prec == Prec::Never;
                // A variable that is declared before it has a value gets what the round before chose.
                if empty && let Some(Some(prec)) = self.settled.vars.get(var) {
                    value = Value { late: value.late, ..Value::sure(prec.clone()) };
                }
                let scope = self.binding_scope.unwrap_or(self.steps.len().saturating_sub(usize::from(self.in_block())));
                self.scopes.declare(&ident.ident.to_string(), value.clone(), scope, fixed, declared);
                self.scopes.vars[var].empty = empty;
                self.scopes.vars[var].once = empty && ident.mutability.is_none();
                if ident.subpat.is_none() {
                    self.hold(&Slot::of(var), held);
                }
                if let Some((_, inner)) = &ident.subpat {
                    self.declare(inner, &value, declared);
                }
            }
            Pat::Type(typed) => {
                let declared = self.type_value(&typed.ty);
                let known = declared.prec != Prec::Opaque;
                self.declare(&typed.pat, if known { &declared } else { value }, known);
            }
            Pat::Reference(inner) => self.declare(&inner.pat, &value.clone().shaped(value.shape.behind()), declared),
            Pat::Paren(inner) => self.declare(&inner.pat, value, declared),
            Pat::Tuple(tuple) => {
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
            Pat::TupleStruct(tuple) => {
                let wraps = tuple.path.segments.last().is_some_and(|s| s.ident == "Some" || s.ident == "Ok");
                let inner = match value.prec {
                    // What came into an `Option` that was declared empty is not known here, but it has a type by now.
                    Prec::Never if self.settled.first => Value::never(),
                    Prec::Never => Value::late(),
                    _ if wraps => Value { inferred: false, shape: Shape::Unknown, ..value.clone() },
                    _ => Value::opaque(),
                };
                tuple.elems.iter().for_each(|pat| self.declare(pat, &inner, false));
            }
            Pat::Struct(fields) => {
                for field in &fields.fields {
                    let name = field.member.to_token_stream().to_string();
                    let known = (0..value.parts.len()).find(|&i| value.part_name(i) == name);
                    let part = known.map_or_else(Value::opaque, |i| value.same_part(i));
                    self.declare(&field.pat, &part, false);
                }
            }
            Pat::Slice(slice) => {
                let value = value.clone().shaped(Shape::Unknown);
                slice.elems.iter().for_each(|pat| self.declare(pat, &value, declared));
            }
            // Every alternative declares the same names.
            Pat::Or(or) => {
                if let Some(first) = or.cases.first() {
                    self.declare(first, value, declared);
                }
            }
            _ => {}
        }
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

/// Whether an expression makes a value of a type that it names and that is no tensor's: `Timer { .. }`, `Timer::new(..)`.
fn is_construction(expr: &Expr) -> bool {
    match expr {
        Expr::Struct(_) => true,
        Expr::Call(call) => match &*call.func {
            Expr::Path(path) => path.path.segments.iter().rev().take(2).any(|segment| {
                let name = segment.ident.to_string();
                name.starts_with(char::is_uppercase) && !matches!(name.as_str(), "Tensor" | "Some" | "Ok")
            }),
            _ => false,
        },
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

/// Whether control never passes an expression because of what it is written as.
fn diverges(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) | Expr::Macro(_) | Expr::Loop(_) | Expr::Verbatim(_)
    )
}

fn find_ident<'p>(pat: &'p Pat, name: &str) -> Option<&'p syn::Ident> {
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
