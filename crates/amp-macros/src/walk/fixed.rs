//! Places that do not change, of which casts can be made ahead and once.

use super::Walker;
use super::methods::handing;
use crate::hoist::Step;
use crate::scope::Hold;
use quote::ToTokens;
use syn::Expr;

impl Walker<'_> {
    /// Whether a variable declared without a value got it in a statement before this one.
    fn has_its_value(&self, var: usize) -> bool {
        let var = &self.scopes.vars[var];
        let here = match self.steps.get(var.scope) {
            Some(Step::Block(_, statement)) => Some(*statement),
            _ => None,
        };
        var.once && var.given.is_some() && here > var.given
    }

    /// The variable and the fields of a place that does not change.
    pub(super) fn fixed_place(&self, place: &Expr) -> Option<(usize, String)> {
        self.bound_place(place).filter(|(var, fields)| {
            let var = &self.scopes.vars[*var];
            var.is_shared() || !self.changes.reach(&format!("{}{fields}", var.name()))
        })
    }

    /// As [`fixed_place`](Self::fixed_place), if it does not change through an exclusive reference either.
    fn bound_place(&self, place: &Expr) -> Option<(usize, String)> {
        match place {
            Expr::Path(_) => {
                let var = self.variable(place)?;
                (self.scopes.vars[var].fixed || self.has_its_value(var)).then(|| (var, String::new()))
            }
            Expr::Field(field) => {
                let (var, mut fields) = match &*field.base {
                    Expr::Path(_) => (self.variable(&field.base)?, String::new()),
                    base => self.bound_place(base)?,
                };
                let member = field.member.to_token_stream();
                fields.push_str(&format!(".{member}"));
                self.scopes.vars[var].fixed_fields.then_some((var, fields))
            }
            Expr::Paren(inner) => self.bound_place(&inner.expr),
            _ => None,
        }
    }

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
