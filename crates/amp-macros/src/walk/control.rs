//! Branches: where values of different precision join.

use super::configured::is_conditional;
use super::macros::{diverges, is_foreign};
use super::nested::shared_items;
use super::pattern::{has_struct, names_constants};
use super::redeclared::{begin_with, patterns_of};
use super::tuples::{Wrapped, wrap_elements};
use super::{Expect, Walker};
use crate::emit;
use crate::hoist::Step;
use crate::lattice::{Prec, Value};
use crate::literal::with_items;
use crate::shape::Shape;
use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, format_ident, quote};
use syn::{Block, Expr, Pat, Stmt};

/// How the branches of one expression are made to agree.
#[derive(Clone, Copy, PartialEq)]
enum Agreement {
    /// They do already, or are no tensors.
    None,
    /// Those that are not F32 are widened.
    F32,
    /// The types decide.
    ByType,
}

/// What is left to do where branches join.
enum Joined {
    Already,
    /// They are wrapped: the types decide.
    ByType,
    /// The same of references; what is widened lives in this local.
    Behind(Ident),
    /// The same of elements of tuples.
    Elements(Wrapped),
}

/// One branch: its value and where it ends.
pub(super) struct Arm<'e> {
    pub(super) value: Value,
    pub(super) end: End<'e>,
}

pub(super) enum End<'e> {
    Block(&'e mut Block),
    Expr(&'e mut Expr),
}

impl Walker<'_> {
    /// Walks an `if`.
    pub(super) fn branches(&mut self, expr: &mut Expr, expect: &Expect) -> Value {
        let Expr::If(branch) = expr else { return self.expr(expr) };
        let mark = self.scopes.enter();
        let first = self.scopes.vars.len();
        self.expr(&mut branch.cond);
        let again = self.redeclared(first, &mut patterns_of(&mut branch.cond));
        let node = self.fresh_id();
        let before = self.flows.state();
        self.steps.push(Step::Branch(node, 0));
        let then = self.block(&mut branch.then_branch, expect);
        branch.then_branch.stmts.splice(0..0, again);
        self.scopes.leave(mark);
        self.steps.pop();
        let then_end = self.flows.state();
        self.flows.resume(before);
        let Some((_, other)) = &mut branch.else_branch else {
            self.flows.merge(vec![then_end]);
            return Value::other();
        };
        self.steps.push(Step::Branch(node, 1));
        let otherwise = self.body(other, expect);
        self.steps.pop();
        self.flows.merge(vec![then_end]);
        let arms = vec![
            Arm { value: then, end: End::Block(&mut branch.then_branch) },
            Arm { value: otherwise, end: End::Expr(other) },
        ];
        let (value, joined) = self.join(arms, expect);
        self.finish_join(expr, joined, expect);
        value
    }

    /// Walks a `match`.
    pub(super) fn arms(&mut self, expr: &mut Expr, expect: &Expect) -> Value {
        let Expr::Match(matching) = expr else { return self.expr(expr) };
        let (place, shared) = (self.place(&matching.expr), self.is_shared(&matching.expr));
        let matched = (*matching.expr).clone();
        let scrutinee = self.expr(&mut matching.expr);
        let node = self.fresh_id();
        let mut arms = Vec::new();
        let mut before = self.flows.state();
        let mut ends = Vec::new();
        let last = matching.arms.len().saturating_sub(1);
        for (i, arm) in matching.arms.iter_mut().enumerate() {
            let mark = self.scopes.enter();
            self.steps.push(Step::Branch(node, i as u32));
            self.flows.resume(before.clone());
            let first = self.scopes.vars.len();
            // A name alone may be that of another constant.
            let apart = !matches!(arm.pat, Pat::Ident(_));
            let constants = if apart { self.constants_of(&arm.pat, &matched, false) } else { Vec::new() };
            if i == last || arm.guard.is_some() || !names_constants(&arm.pat) {
                self.bind(&arm.pat, &scrutinee, false);
            }
            self.stands_for(constants);
            self.taken_out_of(shared, first);
            self.made_of(&arm.pat, place.as_ref().filter(|_| !has_struct(&arm.pat)));
            if let Some((_, guard)) = &mut arm.guard {
                self.expr(guard);
                self.flows.merge(vec![before]);
                before = self.flows.state();
            }
            let again = self.redeclared(first, &mut [&mut arm.pat]);
            let value = match is_conditional(&arm.attrs) {
                true => {
                    let (value, found) = self.conditionally(|walker| walker.body(&mut arm.body, expect));
                    if let Some(found) = found {
                        self.rewrite(&mut arm.body, |body| with_items(found.to_token_stream(), body));
                    }
                    value
                }
                false => self.body(&mut arm.body, expect),
            };
            begin_with(again, &mut arm.body);
            ends.push(self.flows.leave());
            self.steps.pop();
            self.scopes.leave(mark);
            arms.push(Arm { value, end: End::Expr(&mut arm.body) });
        }
        self.flows.merge(ends);
        let (value, joined) = self.join(arms, expect);
        self.finish_join(expr, joined, expect);
        value
    }

    /// One of two bodies, by a condition.
    pub(super) fn switched(&mut self, enabled: &Expr, lower: (Block, Value), full: (Block, Value)) -> (Value, Expr) {
        let ((mut lower, in_lower), (mut full, in_full)) = (lower, full);
        let arms = vec![
            Arm { value: in_lower, end: End::Block(&mut lower) },
            Arm { value: in_full, end: End::Block(&mut full) },
        ];
        let (value, joined) = self.join(arms, &Expect::Open);
        let enabled = emit::scrutinee(enabled);
        let items = shared_items(&mut lower, &mut full);
        let mut expr = Expr::Verbatim(quote!(if #enabled #lower else #full));
        self.finish_join(&mut expr, joined, &Expect::Nothing);
        match items.is_empty() {
            true => (value, expr),
            false => (value, Expr::Verbatim(quote!({ #(#items)* #expr }))),
        }
    }

    /// Makes the branches agree; tells what is left to do with all of them.
    fn join(&mut self, mut arms: Vec<Arm<'_>>, expect: &Expect) -> (Value, Joined) {
        self.check_branches(&mut arms);
        let foreign: Vec<bool> =
            arms.iter_mut().map(|arm| last(&mut arm.end).is_some_and(|expr| is_foreign(expr))).collect();
        // It may not come back, and then has no type.
        let macros = arms.iter_mut().zip(&foreign).filter(|(_, foreign)| **foreign);
        macros.for_each(|(arm, _)| arm.value = Value::inferred());
        let mut value = arms.iter().fold(Value::never(), |all, arm| all.join(&arm.value));
        let values = arms.iter_mut().filter(|arm| arm.value.prec != Prec::Never);
        value.take_flows(values.map(|arm| &mut arm.value).collect());
        (0..value.parts.len()).for_each(|i| self.join_elements(&mut arms, i));
        let lent = arms.iter_mut().any(is_reference);
        let wide = !lent && foreign.contains(&true) && arms.iter().any(|arm| arm.value.prec == Prec::F32);
        let agreement = match agreement(&arms) {
            Agreement::F32 if lent && typed(&arms).any(|arm| arm.value.inferred) => Agreement::None,
            _ if matches!(expect, Expect::Object | Expect::Items(_)) => Agreement::None,
            Agreement::None if wide && value.parts.is_empty() => Agreement::F32,
            agreement => agreement,
        };
        match agreement {
            Agreement::None => match wrap_elements(&mut arms, (expect, self.says_type)) {
                Some(wrapped) => (value, Joined::Elements(wrapped)),
                None => (value, Joined::Already),
            },
            agreement if typed(&arms).count() <= MOST && lent => {
                let prec = if agreement == Agreement::F32 { Prec::F32 } else { Prec::Unknown };
                let sure = value.sure && prec == Prec::F32;
                (Value { prec, sure, shape: Shape::Pointer, ..value }, self.join_behind(arms))
            }
            Agreement::F32 => {
                for (arm, foreign) in arms.into_iter().zip(foreign) {
                    if !arm.value.is_surely(&Prec::F32) && (foreign || !arm.value.inferred) {
                        end(arm.end, |expr| self.widened(expr, &arm.value));
                    }
                }
                (Value { prec: Prec::F32, ..value }, Joined::Already)
            }
            Agreement::ByType => {
                wrap_in_variants(arms);
                (Value { prec: Prec::Unknown, sure: false, ..value }, Joined::ByType)
            }
        }
    }

    /// What is F16 in one branch, or element, is not BF16 in another.
    pub(super) fn check_branches(&mut self, arms: &mut [Arm<'_>]) {
        let first = arms.iter().map(|arm| &arm.value).find(|value| value.fixed_half().is_some());
        let Some(first) = first.map(Value::without_uses) else { return };
        for arm in arms {
            if let Some(expr) = last(&mut arm.end) {
                self.check_half(expr, &arm.value, &first);
            }
        }
    }

    /// Joins references by their types: what they refer to lives in locals.
    fn join_behind(&mut self, mut arms: Vec<Arm<'_>>) -> Joined {
        for arm in &mut arms {
            if let Some(expr) = last(&mut arm.end) {
                self.keep(expr);
            }
        }
        wrap_in_variants(arms);
        self.slot().map_or(Joined::ByType, Joined::Behind)
    }

    /// Keeps what a branch borrows, in branches of its own too, as long as the value of all of them.
    pub(super) fn keep(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Reference(inner) if inner.mutability.is_none() && !emit::is_place(&inner.expr) => {
                if let Some(slot) = self.slot() {
                    *expr = emit::kept(&slot, &inner.expr);
                }
            }
            Expr::If(branch) => {
                self.keep_last(&mut branch.then_branch);
                branch.else_branch.iter_mut().for_each(|(_, other)| self.keep(other));
            }
            Expr::Match(matching) => matching.arms.iter_mut().for_each(|arm| self.keep(&mut arm.body)),
            Expr::Block(inner) if inner.label.is_none() => self.keep_last(&mut inner.block),
            Expr::Paren(inner) => self.keep(&mut inner.expr),
            _ => {}
        }
    }

    fn keep_last(&mut self, block: &mut Block) {
        if let Some(expr) = last(&mut End::Block(block)) {
            self.keep(expr);
        }
    }

    fn finish_join(&self, expr: &mut Expr, joined: Joined, expect: &Expect) {
        // What is expected of the whole the compiler does not find in the branches, behind the question how they join.
        let asked = matches!(expect, Expect::Open) && !self.cx.host;
        let join = |inner| if asked { emit::expected(emit::joined(inner)) } else { emit::joined(inner) };
        match joined {
            Joined::Already => {}
            Joined::ByType => self.rewrite(expr, join),
            Joined::Behind(slot) => self.rewrite(expr, |inner| emit::joined_behind(inner, &slot)),
            Joined::Elements(wrapped) => self.rewrite(expr, |inner| match asked && wrapped.is_deep() {
                true => emit::expected(wrapped.joined(&inner, emit::joined)),
                false => wrapped.joined(&inner, join),
            }),
        }
    }

    /// Notes that a value is assigned to a variable.
    pub(super) fn assign_var(&mut self, var: usize, value: &Value) {
        if let Some(other) = self.scopes.vars[var].otherwise {
            self.assign_var(other, value);
        }
        let var = &mut self.scopes.vars[var];
        if let Some(Step::Block(_, statement)) = self.steps.get(var.scope) {
            var.given = var.given.max(Some(*statement));
        }
        var.given_in += 1;
        // What has the type that is asked for has the variable's.
        if value.inferred && value.prec == Prec::Opaque && var.value.prec.is_known() {
            return;
        }
        var.assigned = Some(match var.assigned.take() {
            Some(before) => {
                let modules = before.prec == Prec::Unknown && value.prec == Prec::Unknown;
                var.mixed |= before.may_differ_from(value) || modules && var.value.prec == Prec::Never;
                before.join(value)
            }
            None => value.clone(),
        });
    }

    /// The precision the round before chose for a variable.
    pub(super) fn chosen(&self, var: usize) -> Option<Prec> {
        self.settled.vars.get(var).cloned().flatten()
    }
}

/// As many branches join by their types.
pub(super) const MOST: usize = 12;

/// The branches that end in a value with a type of its own.
pub(super) fn typed<'a>(arms: &'a [Arm<'_>]) -> impl Iterator<Item = &'a Arm<'a>> {
    arms.iter().filter(|arm| arm.value.prec != Prec::Never)
}

fn agreement(arms: &[Arm<'_>]) -> Agreement {
    // What takes its type from the others does not decide.
    let precs: Vec<&Prec> = typed(arms).filter(|arm| !arm.value.inferred).map(|arm| &arm.value.prec).collect();
    let inferred = typed(arms).count() > precs.len();
    let Some(first) = precs.first() else { return Agreement::None };
    // A tensor beside what is none is the user's mistake; one beside another that it joins with is not.
    let joins = precs.contains(&&Prec::F32) && precs.iter().any(|prec| matches!(prec, Prec::Half(_)));
    let decided = precs.contains(&&Prec::Other) && !joins || typed(arms).any(|arm| !arm.value.parts.is_empty());
    if decided || precs.len() < 2 || !precs.iter().any(|prec| prec.is_tensor()) {
        return Agreement::None;
    }
    if precs.iter().all(|prec| prec == first) && first.is_known() {
        return Agreement::None;
    }
    match precs.contains(&&Prec::F32) || precs.len() > MOST {
        true => Agreement::F32,
        false if inferred => Agreement::None,
        false => Agreement::ByType,
    }
}

/// Wraps branches for the types to join them.
pub(super) fn wrap_in_variants(arms: Vec<Arm<'_>>) {
    let name = format_ident!("Join{}", typed(&arms).count());
    let mut number = 0;
    for arm in arms {
        let neutral = arm.value.prec == Prec::Never;
        let variant = variant(if neutral { 0 } else { number });
        number += usize::from(!neutral);
        end(arm.end, |expr| match expr {
            jump @ (Expr::Return(_) | Expr::Break(_) | Expr::Continue(_)) => jump,
            // A wrapper of what does not come back would be code that is not reached.
            panic if diverges(&panic) => panic,
            expr => Expr::Verbatim(quote!(__amp::#name::#variant(#expr))),
        });
    }
}

/// The name of a wrapped branch.
pub(super) fn variant(number: usize) -> Ident {
    format_ident!("{}", ["A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "L", "M"][number])
}

/// Whether a branch ends in a reference.
fn is_reference(arm: &mut Arm<'_>) -> bool {
    arm.value.shape == Shape::Pointer || reference(&mut arm.end).is_some()
}

/// The shared reference that a branch ends in as it is written.
pub(super) fn reference<'b>(end: &'b mut End<'_>) -> Option<&'b mut Expr> {
    last(end).filter(|expr| matches!(expr, Expr::Reference(inner) if inner.mutability.is_none()))
}

/// The expression that a branch ends in.
pub(super) fn last<'b>(end: &'b mut End<'_>) -> Option<&'b mut Expr> {
    let block = match end {
        End::Block(block) => block,
        End::Expr(Expr::Block(inner)) => &mut inner.block,
        End::Expr(expr) => return Some(expr),
    };
    match block.stmts.last_mut() {
        Some(Stmt::Expr(expr, None)) => Some(expr),
        _ => None,
    }
}

/// Wraps the expression a branch ends in.
pub(super) fn end(end: End<'_>, wrap: impl FnOnce(Expr) -> Expr) {
    match end {
        End::Block(block) => {
            if let Some(Stmt::Expr(expr, None)) = block.stmts.last_mut() {
                let inner = std::mem::replace(expr, Expr::Verbatim(TokenStream::new()));
                *expr = wrap(inner);
            }
        }
        End::Expr(expr) => {
            if let Expr::Block(inner) = expr
                && inner.label.is_none()
                && inner.attrs.is_empty()
            {
                return self::end(End::Block(&mut inner.block), wrap);
            }
            let inner = std::mem::replace(expr, Expr::Verbatim(TokenStream::new()));
            let wrapped = wrap(inner);
            *expr = Expr::Verbatim(quote!({ #wrapped }));
        }
    }
}
