//! Assignments that leave a variable of the type that it has.

use super::Walker;
use super::called::{gives_no_float, gives_pair};
use crate::lattice::Prec;
use crate::rules::Rule;
use syn::{Expr, UnOp};

impl Walker<'_> {
    /// Whether an expression is made of a variable that a module gave, by what keeps its type whatever that is:
    /// `h = h.relu()?`.
    pub(super) fn is_of_type(&self, expr: &Expr, var: usize) -> bool {
        match expr {
            Expr::Try(inner) => self.is_of_type(&inner.expr, var),
            Expr::Paren(inner) => self.is_of_type(&inner.expr, var),
            Expr::Reference(inner) => self.is_of_type(&inner.expr, var),
            Expr::Unary(inner) if matches!(inner.op, UnOp::Neg(_)) => self.is_of_type(&inner.expr, var),
            Expr::Binary(binary) => match (&*binary.left, &*binary.right) {
                (tensor, Expr::Lit(_)) | (Expr::Lit(_), tensor) => self.is_of_type(tensor, var),
                _ => false,
            },
            Expr::MethodCall(call) => {
                let name = call.method.to_string();
                let keeps =
                    self.rule_of(&name).is_some_and(|found| found.rule == Rule::Keep && !found.listed && name != "to");
                keeps && !gives_no_float(&name) && !gives_pair(&name) && self.is_of_type(&call.receiver, var)
            }
            // What is declared or known otherwise has no open type.
            expr => self.variable(expr) == Some(var) && self.scopes.vars[var].value.prec == Prec::Unknown,
        }
    }
}
