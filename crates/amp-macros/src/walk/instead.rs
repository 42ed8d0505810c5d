//! What stands in for a value that is not there: `skip.unwrap_or(x)`, `or_else(|| self.start())`.

use super::Walker;
use super::methods::handing;
use super::tail::may_differ;
use crate::emit;
use crate::lattice::{Prec, Value};
use crate::shape::Shape;
use syn::Expr;

impl Walker<'_> {
    /// Walks an argument of a method of what holds this: beside F16 no BF16 stands in for it, nor the other way round.
    pub(super) fn given_to(&mut self, method: &str, arg: &mut Expr, held: &Value) -> Value {
        let given = self.expr(arg);
        if matches!(method, "unwrap_or" | "or" | "xor") {
            self.check_half(arg, &given, held);
        }
        given
    }

    /// Makes an option or a result that holds what is narrow agree with what stands in for it, which is F32 or may be; it is no
    /// reference if it is made here.
    pub(super) fn stands_in(&mut self, receiver: &mut Expr, held: &mut Value, instead: &Value, made: bool) {
        let may_be_f32 = instead.prec == Prec::F32 || instead.is_open();
        let agrees = !made && may_be_f32 && self.lent_out_of(receiver, instead);
        let owned = made && held.parts.is_empty() && (may_be_f32 || instead.may_differ_from(held));
        if !agrees && (owned || instead.is_surely(&Prec::F32)) {
            self.widen_held(receiver, held);
        }
    }

    /// `Ok`, named as the function that makes one of what two arguments make: it makes that of what there is. Tells whether it is.
    pub(super) fn chooses_by_name(&mut self, choice: Option<usize>, item: &Value, function: &mut Expr) -> bool {
        let wraps = matches!(&*function, Expr::Path(path) if path.path.is_ident("Ok") || path.path.is_ident("Some"));
        let Some(var) = choice.filter(|_| wraps) else { return false };
        self.assign_var(var, item);
        if self.chosen(var) == Some(Prec::F32) && may_differ(item) && !self.cx.host {
            self.rewrite(function, |wrap| emit::applied(&wrap, |value| self.widened(value, item)));
        }
        true
    }

    /// What stands in for a reference into what a variable holds (`skip.as_ref().unwrap_or(x)`) says what that holds: what is
    /// lent cannot be widened there. Tells whether there is such a variable.
    fn lent_out_of(&mut self, lent: &Expr, instead: &Value) -> bool {
        match lent {
            Expr::MethodCall(call) if handing(&call.method.to_string()).is_some() => {
                self.lent_out_of(&call.receiver, instead)
            }
            place => {
                let var = self.variable(place).filter(|&var| self.scopes.vars[var].value.prec.is_tensor());
                var.inspect(|&var| self.assign_var(var, instead)).is_some()
            }
        }
    }

    /// Widens what an option or a result holds, by its type.
    pub(super) fn widen_held(&self, expr: &mut Expr, value: &mut Value) {
        if may_differ(value) && !self.cx.host {
            let held = value.clone().shaped(Shape::Unknown);
            self.rewrite(expr, |inner| self.widened(inner, &held));
            (value.prec, value.sure) = (Prec::F32, true);
        }
    }
}
