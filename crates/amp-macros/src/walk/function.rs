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
                    let hold = Hold::of_type(&receiver.ty);
                    let fixed = receiver.mutability.is_none() && hold != Hold::Exclusive;
                    let var = self.scopes.declare("self", Value::opaque(), 0, fixed, true);
                    self.scopes.vars[var].fixed_fields = hold == Hold::Shared;
                    self.scopes.vars[var].hold = hold;
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
