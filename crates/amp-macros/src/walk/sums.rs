//! Sums of iterators over tensors: `losses.iter().sum::<Result<Tensor<F32>>>()`.

use super::tail::may_differ;
use super::{Expect, Walker};
use crate::emit;
use crate::lattice::{Prec, Value};
use syn::Expr;

impl Walker<'_> {
    /// Widens what the iterator `elements` gives, which may be narrow, where the sum is declared to be F32.
    pub(super) fn widen_summands(&self, elements: &mut Expr, value: &mut Value, sum: Option<&Expect>) {
        let iterates = matches!(elements, Expr::MethodCall(_));
        if iterates && matches!(sum, Some(Expect::Prec(Prec::F32))) && may_differ(value) && !self.cx.host {
            self.rewrite(elements, emit::summands);
            (value.prec, value.sure) = (Prec::F32, true);
        }
    }
}
