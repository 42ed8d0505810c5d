//! Branches and loops: where values of different precision join.

use super::{Expect, Walker};
use crate::emit;
use crate::flow::Flow;
use crate::hoist::Step;
use crate::lattice::{Prec, Value};
use crate::shape::Shape;
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Block, Expr, ExprBlock, ExprForLoop, ExprLoop, ExprWhile, Stmt};

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

enum End<'e> {
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
        self.steps.push(Step::Branch(node, 0));
        let then = self.block(&mut branch.then_branch, expect);
        self.scopes.leave(mark);
        self.steps.pop();
        let Some((_, other)) = &mut branch.else_branch else { return Value::other() };
        self.steps.push(Step::Branch(node, 1));
        let otherwise = self.body(other, expect);
        self.steps.pop();
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
        let scrutinee = self.expr(&mut matching.expr);
        let node = self.fresh_id();
        let mut arms = Vec::new();
        for (i, arm) in matching.arms.iter_mut().enumerate() {
            let mark = self.scopes.enter();
            self.steps.push(Step::Branch(node, i as u32));
            self.bind(&arm.pat, &scrutinee, false);
            if let Some((_, guard)) = &mut arm.guard {
                self.expr(guard);
            }
            let value = self.body(&mut arm.body, expect);
            self.steps.pop();
            self.scopes.leave(mark);
            arms.push(Arm { value, end: End::Expr(&mut arm.body) });
        }
        let (value, by_type) = self.join(arms);
        self.finish_join(expr, by_type);
        value
    }

    /// Makes the branches agree; whether their types decide how.
    fn join(&self, mut arms: Vec<Arm<'_>>) -> (Value, bool) {
        let values = arms.iter_mut().filter(|arm| arm.value.prec != Prec::Never);
        let flow = Flow::either(values.map(|arm| std::mem::take(&mut arm.value.flow)).collect());
        let value = arms.iter().fold(Value::never(), |all, arm| all.join(&arm.value));
        let value = Value { flow, ..value };
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

    fn finish_join(&self, expr: &mut Expr, by_type: bool) {
        if by_type {
            self.rewrite(expr, emit::joined);
        }
    }

    pub(super) fn while_loop(&mut self, expr: &mut ExprWhile) -> Value {
        let mark = self.scopes.enter();
        let node = self.fresh_id();
        self.steps.push(Step::Loop(node));
        self.expr(&mut expr.cond);
        self.enter_loop(expr.label.as_ref());
        self.block(&mut expr.body, &Expect::Nothing);
        self.breaks.pop();
        self.steps.pop();
        self.scopes.leave(mark);
        Value::other()
    }

    pub(super) fn for_loop(&mut self, expr: &mut ExprForLoop) -> Value {
        let items = self.expr(&mut expr.expr);
        let mark = self.scopes.enter();
        let node = self.fresh_id();
        self.steps.push(Step::Loop(node));
        self.bind(&expr.pat, &items.shaped(Shape::Unknown), false);
        self.enter_loop(expr.label.as_ref());
        self.block(&mut expr.body, &Expect::Nothing);
        self.breaks.pop();
        self.steps.pop();
        self.scopes.leave(mark);
        Value::other()
    }

    pub(super) fn endless_loop(&mut self, expr: &mut ExprLoop) -> Value {
        let node = self.fresh_id();
        self.steps.push(Step::Loop(node));
        let var = self.enter_loop(expr.label.as_ref());
        self.block(&mut expr.body, &Expect::Nothing);
        self.breaks.pop();
        self.steps.pop();
        self.loop_value(var)
    }

    pub(super) fn labelled_block(&mut self, expr: &mut ExprBlock) -> Value {
        let var = self.enter_loop(expr.label.as_ref());
        self.skippable += 1;
        let value = self.block(&mut expr.block, &Expect::Nothing);
        self.skippable -= 1;
        self.breaks.pop();
        if !matches!(value.prec, Prec::Never | Prec::Other) {
            self.assign_var(var, &value);
            if self.chosen(var) == Some(Prec::F32) && !value.is_surely(&Prec::F32) {
                end(End::Block(&mut expr.block), |expr| self.widened(expr, &value));
            }
        }
        self.loop_value(var)
    }

    /// Declares the variable that stands for what `break` gives.
    fn enter_loop(&mut self, label: Option<&syn::Label>) -> usize {
        let var = self.scopes.vars.len();
        self.scopes.declare("", Value::never(), self.steps.len(), false, false);
        self.breaks.push((label.map(|label| label.name.ident.to_string()), var));
        var
    }

    fn loop_value(&self, var: usize) -> Value {
        match (self.chosen(var), &self.scopes.vars[var].assigned) {
            (Some(prec), _) => Value::sure(prec),
            (None, Some(value)) => value.clone(),
            (None, None) => Value::other(),
        }
    }

    /// Walks `break value`.
    pub(super) fn break_value(&mut self, label: Option<&syn::Lifetime>, expr: &mut Expr) {
        let name = label.map(|label| label.ident.to_string());
        let frame = self.breaks.iter().rev().find(|(known, _)| name.is_none() || *known == name).map(|(_, var)| *var);
        let value = self.expr(expr);
        let Some(var) = frame else { return };
        self.assign_var(var, &value);
        if self.chosen(var) == Some(Prec::F32) && !value.is_surely(&Prec::F32) && !value.inferred {
            self.rewrite(expr, |inner| self.widened(inner, &value));
        }
    }

    /// Notes that a value is assigned to a variable.
    pub(super) fn assign_var(&mut self, var: usize, value: &Value) {
        let var = &mut self.scopes.vars[var];
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

/// Wraps the expression a branch ends in.
fn end(end: End<'_>, wrap: impl FnOnce(Expr) -> Expr) {
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
