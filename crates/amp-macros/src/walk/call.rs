//! Calls of methods.

use super::Walker;
use super::consumed::consumed_by;
use super::methods::is_iterator_fold;
use crate::emit;
use crate::error::spanned;
use crate::lattice::{Prec, Value};
use crate::rules::{Found, Rule};
use proc_macro2::Ident;
use syn::Expr;

impl Walker<'_> {
    pub(super) fn method(&mut self, expr: &mut Expr) -> Value {
        let source = expr.clone();
        let Expr::MethodCall(call) = expr else { return Value::opaque() };
        let name = call.method.to_string();
        self.consumed = consumed_by(&name, self.consumed);
        if name == "to" && self.rules.find("to").is_none_or(|found| !found.listed) {
            return match call.turbofish {
                // A cast takes nothing: with arguments it is a method of one's own.
                _ if !call.args.is_empty() => self.unlisted(expr, &name),
                Some(_) => self.explicit_cast(call, &source),
                None if !self.cx.host => self.open_cast(call),
                None => self.unlisted(expr, &name),
            };
        }
        let found = self.rule_of(&name).filter(|found| found.listed || !is_iterator_fold(call));
        match found {
            Some(found) if found.rule == Rule::Banned => self.banned_method(expr, &name, found),
            Some(found) => self.operation(expr, &source, &name, found),
            None if name.starts_with("forward") => self.module(expr, &source, &name),
            None => self.unlisted(expr, &name),
        }
    }

    /// The rule of an operation; one that is banned in half precision is one of full precision where that is the region's.
    pub(super) fn rule_of(&self, name: &str) -> Option<Found> {
        let found = self.rules.find(name)?;
        let rule = if found.rule == Rule::Banned && self.lower() == Prec::F32 { Rule::Full } else { found.rule };
        Some(Found { rule, ..found })
    }

    /// A method with the name of an operation that is unsafe in half precision: on what may be of a type of somebody's own, that
    /// decides.
    fn banned_method(&mut self, expr: &mut Expr, name: &str, found: Found) -> Value {
        let Expr::MethodCall(call) = expr else { return Value::opaque() };
        let method = call.method.clone();
        let (value, from) = self.unknown(call, name);
        if from.prec == Prec::Other && !self.cx.host {
            return value;
        }
        let receiver = (*call.receiver).clone();
        let tensor = self.cx.host || from.prec.is_tensor();
        match tensor || from.is_unsettled() {
            true => self.banned(&method, name, found, tensor),
            false => self.rewrite(expr, |call| emit::guarded(&receiver, &method, "probabilities", call)),
        }
        value
    }

    /// Rejects an operation that is unsafe in half precision, which may be a function of somebody's own if it is not `sure`.
    pub(super) fn banned(&mut self, at: &Ident, name: &str, found: Found, sure: bool) {
        let help = match found.replacement {
            Some(safe) => {
                format!("use `{safe}`, which takes the values before the sigmoid; or run it in `amp_region!(f32, ..)`")
            }
            None => "run it outside of the region".to_owned(),
        };
        let own = if sure { String::new() } else { format!("; or leave your own as it is by `skip({name})`") };
        let help = help + &own;
        self.errors.push(spanned(at, format!("`{name}` is unsafe under autocast"), help));
    }
}
