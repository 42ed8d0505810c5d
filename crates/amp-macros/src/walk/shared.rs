//! Arguments that a call names more than once.

use super::cast::as_written;
use crate::emit::Role;
use syn::visit::{self, Visit};
use syn::{Expr, UnOp};

/// How operand `i` of a call that takes it between its parentheses stands there: what is borrowed before it or named after
/// it is not moved, and of an exclusive reference a second one would be made.
pub(super) fn argument(source: &Expr, i: usize) -> Role {
    let place = as_written(source, i);
    if !matches!(place, Expr::Path(_) | Expr::Field(_)) {
        return Role::Argument;
    }
    let operands = operands(source);
    let borrowed = operands.iter().take(i).any(|before| referent(before) == place);
    let named = operands.iter().skip(i + 1).any(|after| names(after, place));
    if borrowed || named { Role::Shared } else { Role::Argument }
}

/// The operands of a call, its receiver first.
fn operands(source: &Expr) -> Vec<&Expr> {
    match source {
        Expr::MethodCall(call) => [&*call.receiver].into_iter().chain(&call.args).collect(),
        Expr::Call(call) => call.args.iter().collect(),
        _ => Vec::new(),
    }
}

/// What an expression is a reference to, or the expression.
fn referent(expr: &Expr) -> &Expr {
    match expr {
        Expr::Reference(inner) => referent(&inner.expr),
        Expr::Paren(inner) => referent(&inner.expr),
        Expr::Unary(inner) if matches!(inner.op, UnOp::Deref(_)) => referent(&inner.expr),
        expr => expr,
    }
}

fn names(expr: &Expr, place: &Expr) -> bool {
    let mut search = Search { place, found: false };
    search.visit_expr(expr);
    search.found
}

struct Search<'a> {
    place: &'a Expr,
    found: bool,
}

impl Visit<'_> for Search<'_> {
    fn visit_expr(&mut self, expr: &Expr) {
        self.found |= expr == self.place;
        visit::visit_expr(self, expr);
    }
}
