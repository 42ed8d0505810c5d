//! What is taken out of something that is shared: nothing changes behind it.

use super::Walker;
use super::methods::handing;
use crate::scope::Hold;
use syn::Expr;

impl Walker<'_> {
    /// Whether what a pattern or an iterator takes out of a value is shared, or a copy.
    pub(super) fn is_shared(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Reference(inner) => inner.mutability.is_none(),
            Expr::Paren(inner) => self.is_shared(&inner.expr),
            Expr::MethodCall(call) => {
                let name = call.method.to_string();
                name == "iter" || is_of_one(&name) && self.is_shared(&call.receiver)
            }
            place => self.root(place).is_some_and(|var| {
                let var = &self.scopes.vars[var];
                var.hold == Hold::Shared || var.shared
            }),
        }
    }

    /// Notes that the variables from `first` on were taken out of what is shared, if it is.
    pub(super) fn taken_out_of(&mut self, shared: bool, first: usize) {
        self.scopes.vars[first..].iter_mut().for_each(|var| var.shared |= shared);
    }
}

/// Whether an iterator of this method gives items of the one that it is called on, or numbers beside them.
fn is_of_one(name: &str) -> bool {
    name == "enumerate" || name != "chain" && handing(name).is_some_and(|method| method.adapts)
}
