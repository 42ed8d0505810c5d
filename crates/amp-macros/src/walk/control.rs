//! Branches: where values of different precision join.

use super::pattern::has_struct;
use super::{Expect, Walker};
use crate::emit;
use crate::hoist::Step;
use crate::lattice::{Prec, Value};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Block, Expr, ExprTuple, Stmt};

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

/// One branch: its value and where it ends.
struct Arm<'e> {
    value: Value,
    end: End<'e>,
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
        self.expr(&mut branch.cond);
        let node = self.fresh_id();
        let before = self.flows.state();
        self.steps.push(Step::Branch(node, 0));
        let then = self.block(&mut branch.then_branch, expect);
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
        let (value, by_type) = self.join(arms);
        self.finish_join(expr, by_type);
        value
    }

    /// Walks a `match`.
    pub(super) fn arms(&mut self, expr: &mut Expr, expect: &Expect) -> Value {
        let Expr::Match(matching) = expr else { return self.expr(expr) };
        let place = self.place(&matching.expr);
        let scrutinee = self.expr(&mut matching.expr);
        let node = self.fresh_id();
        let mut arms = Vec::new();
        let mut before = self.flows.state();
        let mut ends = Vec::new();
        for (i, arm) in matching.arms.iter_mut().enumerate() {
            let mark = self.scopes.enter();
            self.steps.push(Step::Branch(node, i as u32));
            self.flows.resume(before.clone());
            self.bind(&arm.pat, &scrutinee, false);
            self.made_of(&arm.pat, place.as_ref().filter(|_| !has_struct(&arm.pat)));
            if let Some((_, guard)) = &mut arm.guard {
                self.expr(guard);
                self.flows.merge(vec![before]);
                before = self.flows.state();
            }
            let value = self.body(&mut arm.body, expect);
            ends.push(self.flows.leave());
            self.steps.pop();
            self.scopes.leave(mark);
            arms.push(Arm { value, end: End::Expr(&mut arm.body) });
        }
        self.flows.merge(ends);
        let (value, by_type) = self.join(arms);
        self.finish_join(expr, by_type);
        value
    }

    /// One of two bodies, by a condition.
    pub(super) fn switched(&self, enabled: &Expr, lower: (Block, Value), full: (Block, Value)) -> Expr {
        let ((mut lower, in_lower), (mut full, in_full)) = (lower, full);
        let arms = vec![
            Arm { value: in_lower, end: End::Block(&mut lower) },
            Arm { value: in_full, end: End::Block(&mut full) },
        ];
        let (_, by_type) = self.join(arms);
        let enabled = emit::scrutinee(enabled);
        let mut expr = Expr::Verbatim(quote!(if #enabled #lower else #full));
        self.finish_join(&mut expr, by_type);
        expr
    }

    /// Makes the branches agree; whether their types decide how.
    fn join(&self, mut arms: Vec<Arm<'_>>) -> (Value, bool) {
        let mut value = arms.iter().fold(Value::never(), |all, arm| all.join(&arm.value));
        let values = arms.iter_mut().filter(|arm| arm.value.prec != Prec::Never);
        value.take_flows(values.map(|arm| &mut arm.value).collect());
        value.constants = constants(&arms);
        (0..value.parts.len()).for_each(|i| self.join_elements(&mut arms, i));
        match agreement(&arms) {
            Agreement::None => (value, false),
            Agreement::F32 => {
                for arm in arms {
                    if !arm.value.is_surely(&Prec::F32) && !arm.value.inferred {
                        end(arm.end, |expr| self.widened(expr, &arm.value));
                    }
                }
                (Value { prec: Prec::F32, ..value }, false)
            }
            Agreement::ByType => {
                let name = format_ident!("Join{}", typed(&arms).count());
                let mut number = 0;
                for arm in arms {
                    let neutral = arm.value.prec == Prec::Never;
                    let variant = format_ident!("{}", ["A", "B", "C", "D"][if neutral { 0 } else { number }]);
                    number += usize::from(!neutral);
                    end(arm.end, |expr| Expr::Verbatim(quote!(__amp::#name::#variant(#expr))));
                }
                (Value { prec: Prec::Unknown, sure: false, ..value }, true)
            }
        }
    }

    /// Makes element `i` of the tuples that branches end in agree at F32, where one of them is.
    fn join_elements(&self, arms: &mut [Arm<'_>], i: usize) {
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

    fn finish_join(&self, expr: &mut Expr, by_type: bool) {
        if by_type {
            self.rewrite(expr, emit::joined);
        }
    }

    /// Notes that a value is assigned to a variable.
    pub(super) fn assign_var(&mut self, var: usize, value: &Value) {
        let var = &mut self.scopes.vars[var];
        if let Some(Step::Block(_, statement)) = self.steps.get(var.scope) {
            var.given = var.given.max(Some(*statement));
        }
        var.assigned = Some(match var.assigned.take() {
            Some(before) => {
                var.mixed |= before.prec.is_known() != value.prec.is_known() && value.prec != Prec::Never;
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

/// The branches that end in a value with a type of its own.
fn typed<'a>(arms: &'a [Arm<'_>]) -> impl Iterator<Item = &'a Arm<'a>> {
    arms.iter().filter(|arm| arm.value.prec != Prec::Never)
}

fn agreement(arms: &[Arm<'_>]) -> Agreement {
    let precs: Vec<&Prec> = typed(arms).map(|arm| &arm.value.prec).collect();
    let Some(first) = precs.first() else { return Agreement::None };
    let decided =
        precs.contains(&&Prec::Other) || typed(arms).any(|arm| arm.value.inferred || !arm.value.parts.is_empty());
    if decided || precs.len() < 2 || !precs.iter().any(|prec| prec.is_tensor()) {
        return Agreement::None;
    }
    if precs.iter().all(|prec| prec == first) && first.is_known() {
        return Agreement::None;
    }
    if precs.contains(&&Prec::F32) || precs.len() > 4 {
        return Agreement::F32;
    }
    Agreement::ByType
}

/// The tuple a branch ends in.
fn tuple<'b>(end: &'b mut End<'_>) -> Option<&'b mut ExprTuple> {
    let block = match end {
        End::Block(block) => block,
        End::Expr(Expr::Block(inner)) => &mut inner.block,
        End::Expr(Expr::Tuple(tuple)) => return Some(tuple),
        End::Expr(_) => return None,
    };
    match block.stmts.last_mut() {
        Some(Stmt::Expr(Expr::Tuple(tuple), None)) => Some(tuple),
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

/// The constants that branches end in, if all do.
fn constants(arms: &[Arm<'_>]) -> Vec<(String, f64)> {
    let mut ends = arms.iter().filter(|arm| arm.value.prec != Prec::Never).map(|arm| &arm.value.constants);
    match ends.clone().any(Vec::is_empty) {
        true => Vec::new(),
        false => ends.by_ref().flatten().cloned().collect(),
    }
}
