//! Parameters.

use super::Walker;
use crate::lattice::Value;
use crate::scope::Hold;
use syn::{FnArg, Pat, Signature};

impl Walker<'_> {
    /// Declares the parameters of a function.
    pub(crate) fn parameters(&mut self, sig: &Signature) {
        for input in &sig.inputs {
            match input {
                FnArg::Receiver(receiver) => {
                    let var = self.scopes.declare("self", Value::opaque(), 0, receiver.mutability.is_none(), true);
                    let shared = receiver.reference.is_some() && receiver.mutability.is_none();
                    self.scopes.vars[var].fixed_fields = shared;
                    self.scopes.vars[var].hold = match &receiver.reference {
                        Some(_) if shared => Hold::Shared,
                        Some(_) => Hold::Exclusive,
                        None => Hold::Owned,
                    };
                }
                FnArg::Typed(typed) => {
                    let first = self.scopes.vars.len();
                    let value = self.type_value(&typed.ty);
                    self.bind(&typed.pat, &value, true);
                    let hold = Hold::of_type(&typed.ty);
                    if let (Pat::Ident(_), Some(var)) = (&*typed.pat, self.scopes.vars.get_mut(first)) {
                        var.hold = hold;
                    }
                    if hold == Hold::Exclusive || !matches!(&*typed.pat, Pat::Ident(_)) {
                        self.scopes.vars[first..]
                            .iter_mut()
                            .for_each(|var| (var.fixed, var.fixed_fields) = (false, false));
                    }
                }
            }
        }
    }
}
