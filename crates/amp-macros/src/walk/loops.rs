//! Loops and labelled blocks: values that come out of them, and what control carries round.

use super::control::{End, end};
use super::redeclared::patterns_of;
use super::{Expect, Walker};
use crate::flow::{Flow, Head, State};
use crate::hoist::Step;
use crate::lattice::{Prec, Value};
use crate::shape::Shape;
use syn::{Block, ExprBlock, ExprBreak, ExprForLoop, ExprLoop, ExprWhile};

/// An enclosing loop or labelled block.
pub(super) struct Frame {
    label: Option<String>,
    /// Number of the variable that stands for its value.
    var: usize,
    /// The states at its `break`s.
    exits: Vec<State>,
    /// The states at its `continue`s.
    repeats: Vec<State>,
    /// The uses that its value is.
    values: Vec<Flow>,
}

impl Walker<'_> {
    pub(super) fn while_loop(&mut self, expr: &mut ExprWhile) -> Value {
        let mark = self.scopes.enter();
        let node = self.fresh_id();
        self.steps.push(Step::Loop(node));
        let head = self.loop_head();
        let first = self.scopes.vars.len();
        self.expr(&mut expr.cond);
        let again = self.redeclared(first, &mut patterns_of(&mut expr.cond));
        let done = self.flows.state();
        self.loop_body(expr.label.as_ref(), &mut expr.body, &head, Some(done));
        expr.body.stmts.splice(0..0, again);
        self.scopes.leave(mark);
        Value::other()
    }

    pub(super) fn for_loop(&mut self, expr: &mut ExprForLoop) -> Value {
        let (place, shared) = (self.place(&expr.expr), self.is_shared(&expr.expr));
        self.consumed = true;
        let items = self.expr(&mut expr.expr);
        let mark = self.scopes.enter();
        let node = self.fresh_id();
        self.steps.push(Step::Loop(node));
        let head = self.loop_head();
        let done = self.flows.state();
        let first = self.scopes.vars.len();
        self.bind(&expr.pat, &items.shaped(Shape::Unknown), false);
        self.taken_out_of(shared, first);
        self.made_of(&expr.pat, place.map(|place| place.item()).as_ref());
        let again = self.redeclared(first, &mut [&mut expr.pat]);
        self.loop_body(expr.label.as_ref(), &mut expr.body, &head, Some(done));
        expr.body.stmts.splice(0..0, again);
        self.scopes.leave(mark);
        Value::other()
    }

    pub(super) fn endless_loop(&mut self, expr: &mut ExprLoop) -> Value {
        let node = self.fresh_id();
        self.steps.push(Step::Loop(node));
        let head = self.loop_head();
        let frame = self.loop_body(expr.label.as_ref(), &mut expr.body, &head, None);
        self.loop_value(frame)
    }

    pub(super) fn labelled_block(&mut self, expr: &mut ExprBlock) -> Value {
        let var = self.enter_loop(expr.label.as_ref());
        let mut value = self.block(&mut expr.block, &Expect::Nothing);
        let mut frame = self.breaks.pop().expect("pushed above");
        self.flows.merge(std::mem::take(&mut frame.exits));
        if !matches!(value.prec, Prec::Never | Prec::Other) {
            self.assign_var(var, &value);
            if self.chosen(var) == Some(Prec::F32) && !value.is_surely(&Prec::F32) {
                end(End::Block(&mut expr.block), |expr| self.widened(expr, &value));
            }
            frame.values.push(std::mem::take(&mut value.flow));
        }
        self.loop_value(frame)
    }

    /// Declares the variable that stands for what `break` gives.
    fn enter_loop(&mut self, label: Option<&syn::Label>) -> usize {
        let var = self.unnamed();
        let label = label.map(|label| label.name.ident.to_string());
        self.breaks.push(Frame { label, var, exits: Vec::new(), repeats: Vec::new(), values: Vec::new() });
        var
    }

    /// A variable without a name, for what is carried round or out of a loop or a closure.
    pub(super) fn unnamed(&mut self) -> usize {
        self.scopes.declare("", Value::never(), self.steps.len(), false, false)
    }

    /// The state at the head of a loop that is about to be walked.
    fn loop_head(&mut self) -> Head {
        self.flows.enter_loop(self.scopes.assignable(), self.scopes.vars.len())
    }

    /// Walks what runs again and again, in variables that no loop assigns to: a closure that iterates.
    pub(super) fn repeated<T>(&mut self, walk: impl FnOnce(&mut Self) -> T) -> T {
        let head = self.flows.enter_loop(std::iter::empty(), self.scopes.vars.len());
        let value = walk(self);
        let end = self.flows.state();
        self.flows.back_to(&head, &end);
        value
    }

    /// Walks the body of a loop, whose step is the last one, and goes on behind it.
    fn loop_body(&mut self, label: Option<&syn::Label>, body: &mut Block, head: &Head, done: Option<State>) -> Frame {
        self.enter_loop(label);
        self.block(body, &Expect::Nothing);
        let frame = self.leave_loop(head, done);
        self.steps.pop();
        frame
    }

    /// Goes on behind a loop, which ends with `done` besides its `break`s.
    fn leave_loop(&mut self, head: &Head, done: Option<State>) -> Frame {
        let mut frame = self.breaks.pop().expect("every loop has pushed its own");
        let end = self.flows.leave();
        frame.repeats.push(end);
        frame.repeats.iter().for_each(|from| self.flows.back_to(head, from));
        let done = done.map(|done| done.after(&frame.repeats));
        self.flows.merge(std::mem::take(&mut frame.exits).into_iter().chain(done).collect());
        frame
    }

    fn loop_value(&self, frame: Frame) -> Value {
        let value = match (self.chosen(frame.var), &self.scopes.vars[frame.var].assigned) {
            (Some(prec), assigned) => {
                let pinned = assigned.as_ref().map(|value| value.pinned).unwrap_or_default();
                Value { pinned, ..Value::sure(prec) }
            }
            (None, Some(value)) => value.clone(),
            (None, None) => Value::other(),
        };
        Value { flow: Flow::either(frame.values), ..value }
    }

    /// Walks a `break`, with its value.
    pub(super) fn leave_by_break(&mut self, expr: &mut ExprBreak) {
        let frame = self.frame(expr.label.as_ref());
        if let Some(expr) = &mut expr.expr {
            let mut value = self.expr(expr);
            if let Some(at) = frame {
                let var = self.breaks[at].var;
                self.assign_var(var, &value);
                if self.chosen(var) == Some(Prec::F32) && !value.is_surely(&Prec::F32) && !value.inferred {
                    self.rewrite(expr, |inner| self.widened(inner, &value));
                }
                self.breaks[at].values.push(std::mem::take(&mut value.flow));
            }
        }
        let state = self.flows.leave();
        if let Some(at) = frame {
            self.breaks[at].exits.push(state);
        }
    }

    /// Walks a `continue`.
    pub(super) fn repeat(&mut self, label: Option<&syn::Lifetime>) {
        let state = self.flows.leave();
        if let Some(at) = self.frame(label) {
            self.breaks[at].repeats.push(state);
        }
    }

    /// The loop or labelled block that a `break` or `continue` means.
    fn frame(&self, label: Option<&syn::Lifetime>) -> Option<usize> {
        let name = label.map(|label| label.ident.to_string());
        self.breaks.iter().rposition(|frame| name.is_none() || frame.label == name)
    }
}
