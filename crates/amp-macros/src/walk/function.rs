//! Parameters.

use super::Walker;
use crate::lattice::Value;
use syn::{FnArg, Pat, Signature, Type};

impl Walker<'_> {
    /// Declares the parameters of a function.
    pub(crate) fn parameters(&mut self, sig: &Signature) {
        for input in &sig.inputs {
            match input {
                FnArg::Receiver(receiver) => {
                    let var = self.scopes.declare("self", Value::opaque(), 0, receiver.mutability.is_none(), true);
                    let shared = receiver.reference.is_some() && receiver.mutability.is_none();
                    self.scopes.vars[var].fixed_fields = shared;
                }
                FnArg::Typed(typed) => {
                    let first = self.scopes.vars.len();
                    let value = self.type_value(&typed.ty);
                    self.bind(&typed.pat, &value, true);
                    let exclusive = matches!(&*typed.ty, Type::Reference(reference) if reference.mutability.is_some());
                    if exclusive || !matches!(&*typed.pat, Pat::Ident(_)) {
                        self.scopes.vars[first..]
                            .iter_mut()
                            .for_each(|var| (var.fixed, var.fixed_fields) = (false, false));
                    }
                }
            }
        }
    }
}
