//! Expressions that compute nothing with tensors themselves.

use super::configured::begins_with_attribute;
use super::consumed::passes_on;
use super::destructure::{is_pattern, is_taken_apart, pair_up};
use super::gathered::gathers;
use super::tail::{as_declared, may_differ};
use super::wrapper::is_wrapper;
use super::{Expect, Walker};
use crate::emit;
use crate::flow::Slot;
use crate::hoist::Step;
use crate::lattice::{Prec, Value};
use crate::literal::constant;
use crate::named::is_constant;
use crate::parens;
use crate::pin::Pin;
use crate::scope::Var;
use crate::shape::Shape;
use proc_macro2::{Span, TokenStream};
use syn::{Expr, ExprAssign, ExprField, ExprLit, ExprPath, Lit, Member, Pat, UnOp};

impl Walker<'_> {
    /// Walks an expression and puts its casts in.
    pub(super) fn expr(&mut self, expr: &mut Expr) -> Value {
        self.consumed &= passes_on(expr);
        let shape = Shape::of_expr(expr);
        let value = self.walk_expr(expr);
        let shape = shape(value.shape);
        value.shaped(shape)
    }

    fn walk_expr(&mut self, expr: &mut Expr) -> Value {
        if let Some(constant) = constant(expr) {
            return Value { constants: vec![constant], ..Value::other() };
        }
        match expr {
            Expr::Range(range) => {
                range.start.iter_mut().chain(&mut range.end).for_each(|end| drop(self.expr(end)));
                Value::other()
            }
            Expr::Lit(_) | Expr::Infer(_) => Value::other(),
            Expr::Path(path) => {
                let value = self.path(path);
                self.check_named(expr);
                value
            }
            Expr::Reference(inner) => {
                if let Some(var) = self.empty_variable(&inner.expr).filter(|_| inner.mutability.is_some()) {
                    self.scopes.vars[var].lent = true;
                }
                if inner.mutability.is_some() {
                    self.changed(&inner.expr);
                }
                let value = self.global(&mut inner.expr);
                let constants = if inner.mutability.is_some() { Vec::new() } else { value.constants };
                Value { constants, ..value }
            }
            Expr::Paren(inner) => {
                let value = self.expr(&mut inner.expr);
                parens::quiet_around(inner);
                value
            }
            Expr::Group(inner) => self.expr(&mut inner.expr),
            Expr::Try(inner) => {
                self.consumed = true;
                self.beginning(&mut inner.expr, inner.question_token.span)
            }
            Expr::Await(inner) => self.beginning(&mut inner.base, inner.dot_token.span),
            Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => self.negated(expr),
            Expr::Unary(unary) => {
                let deref = matches!(unary.op, UnOp::Deref(_));
                let value = if deref { self.global(&mut unary.expr) } else { self.expr(&mut unary.expr) };
                if matches!(unary.op, UnOp::Not(_)) && !value.prec.is_tensor() { Value::other() } else { value }
            }
            Expr::Cast(cast) => {
                let value = self.expr(&mut cast.expr);
                if makes_object_of_closure(&cast.expr) {
                    self.rewrite(expr, emit::as_object);
                }
                Value { constants: value.constants, ..Value::other() }
            }
            Expr::Field(field) => self.field(field),
            Expr::Index(index) => {
                let list = self.expr(&mut index.expr);
                self.expr(&mut index.index);
                let value = position(&index.index).map_or_else(|| list.clone(), |i| list.element(i));
                let tuple = value.names.is_empty();
                Value { parts: if tuple { value.parts } else { Vec::new() }, ..value }.without_uses()
            }
            Expr::Tuple(tuple) if tuple.elems.iter().any(begins_with_attribute) => {
                tuple.elems.iter_mut().for_each(|elem| drop(self.expr(elem)));
                Value::opaque()
            }
            Expr::Tuple(tuple) => {
                let parts = tuple.elems.iter_mut().map(|elem| self.expr(elem)).collect();
                Value::tuple(parts).shaped(Shape::Wrapped)
            }
            Expr::Array(_) => self.array(expr),
            Expr::Repeat(repeat) => self.expr(&mut repeat.expr),
            Expr::MethodCall(_) => self.method(expr),
            Expr::Call(_) => self.call(expr),
            Expr::Binary(_) => self.binary(expr),
            Expr::Assign(_) => self.assign(expr),
            Expr::Let(condition) => {
                let (place, shared) = (self.place(&condition.expr), self.is_shared(&condition.expr));
                let constants = self.constants_of(&condition.pat, &condition.expr, false);
                let value = self.expr(&mut condition.expr);
                let first = self.scopes.vars.len();
                self.bind_condition(&condition.pat, &value, place.as_ref());
                self.taken_out_of(shared, first);
                self.stands_for(constants);
                Value::other()
            }
            Expr::Macro(inner) => {
                let (value, replaced) = self.macro_call(&inner.mac);
                if let Some(replaced) = replaced {
                    *expr = replaced;
                }
                value
            }
            Expr::Struct(literal) => self.structure(literal),
            _ => self.control(expr),
        }
    }

    /// Walks an expression that decides what runs next.
    fn control(&mut self, expr: &mut Expr) -> Value {
        match expr {
            Expr::If(_) => self.branches(expr, &Expect::Nothing),
            Expr::Match(_) => self.arms(expr, &Expect::Nothing),
            Expr::While(inner) => self.while_loop(inner),
            Expr::ForLoop(inner) => self.for_loop(inner),
            Expr::Loop(inner) => self.endless_loop(inner),
            Expr::Block(inner) if inner.label.is_some() => self.labelled_block(inner),
            Expr::Block(inner) => self.block(&mut inner.block, &Expect::Nothing),
            Expr::Unsafe(inner) => self.block(&mut inner.block, &Expect::Nothing),
            Expr::Async(inner) => self.async_block(inner, &Expect::Nothing),
            Expr::Closure(inner) => {
                // Who calls it says what it returns.
                let Value { flow, .. } = self.closure_into(inner, Expect::Open);
                Value { flow, ..Value::other() }
            }
            Expr::Return(inner) => {
                let expect = self.returns.clone();
                let given = inner.expr.as_mut().map(|value| self.tail(value, &expect));
                match given {
                    // `return Err(..)`
                    Some(Value { prec: Prec::Never, .. }) => drop(self.flows.leave()),
                    _ => self.flows.finish(),
                }
                Value::never()
            }
            Expr::Break(inner) => {
                self.leave_by_break(inner);
                Value::never()
            }
            Expr::Continue(inner) => {
                self.repeat(inner.label.as_ref());
                Value::never()
            }
            _ => Value::opaque(),
        }
    }

    /// Walks an expression that another of the user's begins with.
    pub(super) fn beginning(&mut self, expr: &mut Expr, around: Span) -> Value {
        let value = match expr {
            // Needed for what follows them, they stay the user's.
            Expr::Paren(inner) => self.expr(&mut inner.expr),
            _ => self.expr(expr),
        };
        emit::adopt(expr, around);
        value
    }

    fn path(&mut self, path: &ExprPath) -> Value {
        if let Some(ident) = path.path.get_ident() {
            let name = ident.to_string();
            if let Some(var) = self.scopes.find(&name) {
                self.mentions.push((var, self.steps.clone()));
                self.scopes.vars[var].early |= self.scopes.vars[var].assigned.is_none();
                let known = self.known(var);
                let told = self.scopes.vars[var].assigned.as_ref().is_some_and(|assigned| !assigned.is_unsettled());
                let late = known.late && !told;
                return self.held(&Slot::of(var), Value { late, ..known });
            }
            if name == "None" {
                return Value::never();
            }
        }
        let constant = path.path.segments.last().is_some_and(|segment| is_constant(&segment.ident));
        if constant { Value::other() } else { Value::opaque() }
    }

    /// What is borrowed, or calls an operation: what is named like a constant may be a tensor that is a `static`.
    pub(super) fn global(&mut self, expr: &mut Expr) -> Value {
        let outside = matches!(expr, Expr::Path(_)) && self.variable(expr).is_none();
        let value = self.expr(expr);
        if outside && value.prec == Prec::Other { Value::opaque() } else { value }
    }

    /// The variable an expression names.
    pub(super) fn variable(&self, expr: &Expr) -> Option<usize> {
        match expr {
            Expr::Path(path) => self.scopes.find(&path.path.get_ident()?.to_string()),
            Expr::Paren(inner) => self.variable(&inner.expr),
            Expr::Group(inner) => self.variable(&inner.expr),
            _ => None,
        }
    }

    fn assign(&mut self, expr: &mut Expr) -> Value {
        let Expr::Assign(ExprAssign { left, right, .. }) = expr else { return Value::opaque() };
        let mut pairs = Vec::new();
        pair_up(left, right, &mut pairs);
        // Of `(a, b) = (b, a)` all values are read before the first place is written.
        let mut values = Vec::new();
        for (place, expr) in &mut pairs {
            let alike = self.open_variable(place).filter(|_| self.is_made_of(expr, place));
            values.push((self.assigned(place, expr), alike));
        }
        for ((place, expr), (value, alike)) in pairs.into_iter().zip(values) {
            if is_taken_apart(place) {
                self.assign_elements(place, expr, &value);
            } else if let Some(var) = alike {
                self.reassigned(&Slot::of(var), &value);
            } else {
                self.assign_value(place, expr, value);
            }
        }
        Value::other()
    }

    /// What is assigned to a place.
    fn assigned(&mut self, place: &Expr, expr: &mut Expr) -> Value {
        let expect = self.variable(place).map(|var| self.expected_of_variable(var));
        let says_type = self.variable(place).is_some_and(|var| self.scopes.vars[var].empty);
        let says_type = std::mem::replace(&mut self.says_type, says_type);
        let declared = self.variable(place).map(|var| &self.scopes.vars[var]).filter(|var| var.declared);
        let narrow = declared.filter(|var| matches!(var.value.prec, Prec::Half(_)));
        let narrow = narrow.map(|var| (var.value.prec.clone(), var.name().to_owned(), expr.clone()));
        let branches = matches!(expr, Expr::If(_) | Expr::Match(_));
        let mut value = match &expect {
            Some(expect) if branches && expect.wants_f32() => self.begins(expr, expect),
            _ => self.expr(expr),
        };
        self.says_type = says_type;
        if let Some((declared, name, given)) = narrow {
            self.check_declared(&given, &value, &declared, &name);
        }
        self.widen_elements(expr, &mut value, &expect.unwrap_or(Expect::Nothing));
        value
    }

    /// Assigns the value that an expression has.
    pub(super) fn assign_value(&mut self, place: &mut Expr, expr: &mut Expr, mut value: Value) {
        if let Some(var) = self.variable(place) {
            // A cast whose target the variable says is none to F32 where that is narrow.
            let narrow = matches!(self.scopes.vars[var].value.prec, Prec::Half(_));
            if value.inferred && narrow && self.chosen(var) != Some(Prec::F32) {
                value.pinned = Pin::No;
            }
            self.reassigned(&Slot::of(var), &value);
            self.assign_var(var, &value);
            let widened = self.chosen(var) == Some(Prec::F32)
                || (self.scopes.vars[var].declared && self.scopes.vars[var].value.is_surely(&Prec::F32));
            if widened && !value.is_surely(&Prec::F32) && !value.inferred && value.prec != Prec::Other {
                self.rewrite(expr, |inner| self.widened(inner, &value));
            } else if value.is_tuple() && self.scopes.vars[var].holds_tuples() {
                self.expected(expr, &mut value);
            } else if self.is_unnamed(var) && may_differ(&value) && !self.cx.host {
                self.rewrite(expr, |inner| emit::variable_slot(place, inner));
            }
            return;
        }
        let filled = self.empty_variable(place);
        let slot = match place {
            Expr::Field(field) => self.field_of_variable(field),
            _ => None,
        };
        match slot {
            Some((slot, _)) => {
                self.reassigned(&slot, &value);
                self.assign_element(place, &value);
            }
            None if is_pattern(place) => self.assign_unseen(place),
            None => {
                let held = self.filling(filled, |walker| walker.expr(place));
                if let Expr::Field(field) = place {
                    self.clear(field);
                }
                self.put(place, &value);
                match &*place {
                    Expr::Index(index) => {
                        self.changed(&index.expr);
                        self.mixed(&index.expr, &held, &value, true);
                    }
                    _ => self.mixed_behind(place, &value),
                }
            }
        }
        if filled.is_some_and(|var| self.fill(var, expr, &value)) {
            return;
        }
        match emit::is_pure_place(place) {
            // Of what holds tuples, and of what is collected, the compiler knows the elements.
            _ if value.is_tuple() || gathers(expr, &value) => self.expected(expr, &mut value),
            true if may_differ(&value) && !lends(expr) => self.rewrite(expr, |inner| emit::slot(place, inner)),
            true => {}
            false if matches!(place, Expr::Infer(_)) => {}
            // The place is not written twice.
            false => self.expected(expr, &mut value),
        }
    }

    /// An element of a tuple that a variable holds is assigned to.
    fn assign_element(&mut self, place: &Expr, value: &Value) {
        let Expr::Field(ExprField { base, member: Member::Unnamed(index), .. }) = place else { return };
        let Some(var) = self.variable(base) else { return };
        let mut whole = self.scopes.vars[var].value.clone();
        if let Some(part) = whole.parts.get_mut(index.index as usize).filter(|_| self.scopes.vars[var].apart) {
            *part = value.clone();
            self.assign_var(var, &whole);
        }
    }

    /// What a variable that holds a tuple expects of what is assigned to it.
    fn expected_of_variable(&self, var: usize) -> Expect {
        let Var { tuple, value, .. } = &self.scopes.vars[var];
        tuple.clone().unwrap_or_else(|| Expect::of_value(value).of_tuple())
    }

    /// Whether a variable has a type by its declaration that the macro does not see: that of a name or of a call.
    fn is_unnamed(&self, var: usize) -> bool {
        let Var { value, .. } = &self.scopes.vars[var];
        self.chosen(var).is_none() && value.prec == Prec::Opaque && !value.inferred && !value.late
    }

    /// Replaces an expression by one made of it; a round that is only there to find out leaves nothing in its place.
    pub(super) fn rewrite(&self, expr: &mut Expr, wrap: impl FnOnce(Expr) -> Expr) {
        let inner = std::mem::replace(expr, Expr::Verbatim(TokenStream::new()));
        if self.writes {
            *expr = wrap(inner);
        }
    }

    pub(super) fn closure_body(&mut self, body: &mut Expr, expect: &Expect) -> Value {
        let returns = std::mem::replace(&mut self.returns, expect.clone());
        let breaks = std::mem::take(&mut self.breaks);
        let before = self.flows.enter_body();
        let value = self.body(body, expect);
        self.flows.merge(vec![before]);
        self.breaks = breaks;
        self.returns = returns;
        as_declared(value, expect)
    }

    pub(super) fn async_block(&mut self, block: &mut syn::ExprAsync, expect: &Expect) -> Value {
        let node = self.fresh_id();
        self.steps.push(Step::Barrier(node));
        let returns = std::mem::replace(&mut self.returns, expect.clone());
        let before = self.flows.enter_body();
        let value = self.block(&mut block.block, expect);
        self.flows.merge(vec![before]);
        self.returns = returns;
        self.steps.pop();
        as_declared(value, expect)
    }

    /// Binds a closure's parameter.
    pub(super) fn bind_parameter(&mut self, pat: &Pat, given: Option<&Value>) {
        self.bind(pat, given.unwrap_or(&Value::opaque()), false);
    }
}

/// The number that an index is written as.
fn position(index: &Expr) -> Option<usize> {
    match index {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => number.base10_parse().ok(),
        _ => None,
    }
}

/// `Box::new(|x| ..)`: what the cast of it says is not asked by the closure.
fn makes_object_of_closure(expr: &Expr) -> bool {
    matches!(expr, Expr::Call(call) if is_wrapper(call) && matches!(call.args[0], Expr::Closure(_)))
}

/// Whether an expression is a reference, or what was made of one: `Some(&x)`.
fn lends(expr: &Expr) -> bool {
    match expr {
        Expr::Reference(_) => true,
        Expr::Call(call) => is_wrapper(call) && lends(&call.args[0]),
        _ => false,
    }
}
