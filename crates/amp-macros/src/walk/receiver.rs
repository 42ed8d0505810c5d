//! Receivers that may be no tensors: what a method can do with them.

use super::Walker;
use super::called::is_tensor;
use crate::emit::{self, Asks, Operand, Treatment};
use crate::hoist::Step;
use crate::lattice::Value;
use crate::scope::Hold;
use syn::Expr;

impl Walker<'_> {
    /// What has to be asked of a method about its receiver, if that is a place that may hold no tensor and if the
    /// method can do more with it than borrow it.
    pub(super) fn asks_of(&self, receiver: &Operand, value: &Value) -> Option<Asks> {
        let cast = !matches!(receiver.treatment, Treatment::Nothing | Treatment::Direct(_));
        if !self.writes || is_tensor(value) || !cast || !emit::is_pure_place(&receiver.expr) {
            return None;
        }
        let root = self.root(&receiver.expr)?;
        let var = &self.scopes.vars[root];
        // A closure takes what its body would move, even where that does not run.
        if self.steps.iter().skip(var.scope).any(|step| matches!(step, Step::Closure(_) | Step::Barrier(_))) {
            return None;
        }
        let itself = self.variable(&receiver.expr).is_some();
        let owned = matches!(var.hold, Hold::Owned | Hold::Unknown);
        let asks = Asks {
            // What is named again was not moved.
            moves: owned && !(var.hold == Hold::Unknown && var.fixed && itself && self.is_named_later(root))
                || itself && var.hold == Hold::Exclusive,
            reborrows: !itself || matches!(var.hold, Hold::Exclusive | Hold::Unknown),
            mutates: match var.hold {
                Hold::Shared => false,
                Hold::Exclusive => !itself,
                Hold::Owned => !var.fixed,
                Hold::Unknown => !(var.fixed && itself),
            },
        };
        (asks.moves || asks.mutates).then_some(asks)
    }

    /// The variable that a place begins with.
    pub(super) fn root(&self, place: &Expr) -> Option<usize> {
        match place {
            Expr::Field(field) => self.root(&field.base),
            Expr::Index(index) => self.root(&index.expr),
            Expr::Unary(unary) => self.root(&unary.expr),
            Expr::Paren(inner) => self.root(&inner.expr),
            place => self.variable(place),
        }
    }

    /// Whether a variable is named further on, where control that comes by here can get.
    fn is_named_later(&self, var: usize) -> bool {
        let branch = |step: &&Step| matches!(step, Step::Branch(..));
        let here: Vec<&Step> = self.steps.iter().filter(branch).collect();
        self.settled.mentions.iter().skip(self.mentions.len()).any(|(named, steps)| {
            let there: Vec<&Step> = steps.iter().filter(branch).collect();
            *named == var && there.starts_with(&here)
        })
    }
}
