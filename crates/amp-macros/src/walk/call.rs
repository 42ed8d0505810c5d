//! Calls of methods.

use super::Walker;
use super::consumed::consumed_by;
use super::methods::is_iterator_fold;
use crate::error::spanned;
use crate::lattice::{Prec, Value};
use crate::rules::{Found, Rule};
use proc_macro2::Ident;
use syn::{Expr, ExprMethodCall};

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
            Some(found) if found.rule == Rule::Banned => {
                self.visit(call);
                self.banned(&call.method, &name, found);
                Value::opaque()
            }
            Some(found) => self.operation(expr, &source, &name, found),
            None if name.starts_with("forward") => self.module(expr, &source, &name),
            None => self.unlisted(expr, &name),
        }
    }

    /// Walks receiver and arguments of a call that stays as it is.
    pub(super) fn visit(&mut self, call: &mut ExprMethodCall) -> Value {
        let value = self.beginning(&mut call.receiver, call.dot_token.span);
        call.args.iter_mut().for_each(|arg| drop(self.expr(arg)));
        value
    }

    /// The rule of an operation; one that is banned in half precision is one of full precision where that is the region's.
    pub(super) fn rule_of(&self, name: &str) -> Option<Found> {
        let found = self.rules.find(name)?;
        let rule = if found.rule == Rule::Banned && self.lower() == Prec::F32 { Rule::Full } else { found.rule };
        Some(Found { rule, ..found })
    }

    pub(super) fn banned(&mut self, at: &Ident, name: &str, found: Found) {
        let help = match found.replacement {
            Some(safe) => {
                format!("use `{safe}`, which takes the values before the sigmoid; or run it in `amp_region!(f32, ..)`")
            }
            None => "run it outside of the region".to_owned(),
        };
        self.errors.push(spanned(at, format!("`{name}` is unsafe under autocast"), help));
    }
}
