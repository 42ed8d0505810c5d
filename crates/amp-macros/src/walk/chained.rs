//! `one.chain(other)`: the elements of both meet as those of a list do.

use super::Walker;
use super::methods::{MAPPING, is_made_here, iterates};
use super::tail::may_differ;
use crate::emit;
use crate::lattice::{Prec, Value};
use crate::shape::Shape;
use syn::{Expr, ExprMethodCall};

impl Walker<'_> {
    /// Walks a chain of iterators that nothing tells what they are collected into.
    pub(super) fn chain(&mut self, expr: &mut Expr) -> Option<Value> {
        let Expr::MethodCall(call) = expr else { return None };
        let chains = call.method == "chain" && call.args.len() == 1 && is_iterator(&call.receiver);
        if !chains || self.cx.host || self.collected.is_some() {
            return None;
        }
        let mut one = self.beginning(&mut call.receiver, call.dot_token.span);
        let mut other = self.expr(&mut call.args[0]);
        self.check_half(&call.args[0], &other, &one);
        let mut both = one.join(&other).shaped(Shape::Unknown);
        both.take_flows(vec![&mut one, &mut other]);
        let alike = one.sure && other.sure && one.prec == other.prec;
        let none = |value: &Value| value.is_tuple() || matches!(value.prec, Prec::Other | Prec::Never);
        if alike || none(&one) || none(&other) || !may_differ(&one) && !may_differ(&other) {
            return Some(both);
        }
        let slot = self.slot();
        self.rewrite(expr, |call| emit::chained(call, slot.as_ref()));
        Some(both)
    }
}

/// Whether an expression is an iterator by the functions or the methods that made it.
fn is_iterator(expr: &Expr) -> bool {
    let maps = |call: &ExprMethodCall| MAPPING.iter().any(|name| call.method == name) && is_iterator(&call.receiver);
    iterates(expr)
        || is_made_here(expr)
        || matches!(expr, Expr::MethodCall(call) if maps(call) || call.method == "chain")
}
