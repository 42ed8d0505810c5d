//! What closures capture.

use super::Walker;
use crate::emit::{self, Treatment};
use crate::hoist::Step;
use crate::scope::Hold;
use proc_macro2::{Span, TokenStream};
use syn::{Expr, parse_quote_spanned};

impl Walker<'_> {
    /// Whether a variable is one of the function that what is being walked is a closure in.
    pub(super) fn is_captured(&self, var: usize) -> bool {
        let captures = |step: &Step| matches!(step, Step::Closure(_) | Step::Barrier(_));
        self.steps.iter().skip(self.scopes.vars[var].scope).any(captures)
    }

    /// Takes an operand out of its call.
    pub(super) fn taken(&self, slot: &mut Expr, treatment: &Treatment) -> Expr {
        let expr = std::mem::replace(slot, Expr::Verbatim(TokenStream::new()));
        match self.captured_reference(&expr).filter(|_| !matches!(treatment, Treatment::Nothing)) {
            Some(at) => parse_quote_spanned!(at=> &*#expr),
            None => expr,
        }
    }

    /// The place of a module, to be borrowed.
    pub(super) fn referred(&self, place: Expr) -> Expr {
        match self.captured_reference(&place) {
            Some(at) => parse_quote_spanned!(at=> (*#place)),
            None => place,
        }
    }

    /// Where an expression stands that is a variable, a shared reference, of what is around a closure: the closure captures
    /// what it refers to, as in the call as written, and may outlive the variable.
    fn captured_reference(&self, expr: &Expr) -> Option<Span> {
        let var = self.variable(expr)?;
        let captured = self.scopes.vars[var].hold == Hold::Shared && self.is_captured(var);
        captured.then(|| Span::mixed_site().located_at(emit::ends(expr).0))
    }
}
