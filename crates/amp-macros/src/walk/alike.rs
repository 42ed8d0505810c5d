//! Assignments that leave a variable of the type that it has.

use super::Walker;
use super::called::{gives_no_float, gives_pair};
use crate::lattice::Prec;
use crate::rules::Rule;
use syn::{Expr, UnOp};

impl Walker<'_> {
    /// The variable that a place is, if a module gave what it began with: nothing but its type says of which precision that is.
    pub(super) fn open_variable(&self, place: &Expr) -> Option<usize> {
        self.variable(place).filter(|&var| self.scopes.vars[var].value.prec == Prec::Unknown)
    }

    /// Whether an expression is made of a place by what keeps its type, whatever that is: `h = h.relu()?`.
    pub(super) fn is_made_of(&self, expr: &Expr, place: &Expr) -> bool {
        match expr {
            expr if expr == place => true,
            Expr::Try(inner) => self.is_made_of(&inner.expr, place),
            Expr::Paren(inner) => self.is_made_of(&inner.expr, place),
            Expr::Reference(inner) => self.is_made_of(&inner.expr, place),
            Expr::Unary(inner) if matches!(inner.op, UnOp::Neg(_)) => self.is_made_of(&inner.expr, place),
            Expr::Binary(binary) => match (&*binary.left, &*binary.right) {
                (tensor, Expr::Lit(_)) | (Expr::Lit(_), tensor) => self.is_made_of(tensor, place),
                _ => false,
            },
            Expr::MethodCall(call) => {
                let name = call.method.to_string();
                let keeps =
                    self.rule_of(&name).is_some_and(|found| found.rule == Rule::Keep && !found.listed && name != "to");
                keeps && !gives_no_float(&name) && !gives_pair(&name) && self.is_made_of(&call.receiver, place)
            }
            _ => false,
        }
    }
}
