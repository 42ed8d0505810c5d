//! What trains does not belong in a region.

use super::Walker;
use super::methods::UNWRAPPING;
use super::names::{names_operation, on_tensor};
use crate::emit;
use crate::error::spanned;
use crate::literal::type_of;
use crate::rules::Rule;
use proc_macro2::Ident;
use quote::{ToTokens, quote};
use syn::{Expr, ExprMethodCall, ExprPath, Lit, Type, parse_quote};

/// Methods that optimizers, the scaler, parameters and their averages have.
const TRAINING: &[&str] =
    &["step", "set", "update", "update_to", "unscale", "apply", "schedule", "swap", "copy_to", "set_trainable"];
/// Methods that walk a graph back.
const BACKWARD: &[&str] = &["backward", "backward_for", "backward_for_retained", "backward_retained", "backward_with"];
/// Methods that load a model.
const LOADING: &[&str] = &["load", "load_matching", "load_state", "load_state_matching"];

/// What of the library has such methods, by name: a type that is asked about must not be generic.
const TRAINERS: &[&str] = &[
    "Parameter",
    "GradScaler",
    "Ema",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "SparseAdam",
    "Adamax",
    "Lbfgs",
    "Lion",
    "Muon",
    "NAdam",
    "RAdam",
    "RmsProp",
    "Sgd",
];

/// Whether a method has the name of one that trains.
pub(super) fn trains(name: &str) -> bool {
    TRAINING.contains(&name) || BACKWARD.contains(&name)
}

impl Walker<'_> {
    /// What the method of such a name loads, and from what, if that has a type which is known wherever it stands.
    pub(super) fn loaded(&self, call: &ExprMethodCall) -> Option<Expr> {
        let named = LOADING.iter().any(|name| call.method == name) && call.args.len() == 1;
        let (model, saved) = (&call.receiver, call.args.first().filter(|saved| named && self.has_type(saved))?);
        Some(Expr::Verbatim(quote!((&#model, &#saved))))
    }

    fn has_type(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Lit(literal) => matches!(literal.lit, Lit::Str(_)),
            Expr::Macro(inner) => inner.mac.path.is_ident("format"),
            Expr::Reference(inner) => self.has_type(&inner.expr),
            Expr::Field(field) => self.has_type(&field.base),
            place => self.variable(place).is_some_and(|var| self.scopes.vars[var].declared),
        }
    }

    /// Rejects a call that loads a model, by the types of what it loads and from what.
    pub(super) fn check_load(&self, expr: &mut Expr, loaded: &Expr, method: &Ident) {
        if !self.cx.host {
            self.rewrite(expr, |call| emit::guarded(loaded, method, "loads", call));
        }
    }

    /// What certainly is called on a tensor is an error of the macro's; of anything
    /// else the type decides.
    pub(super) fn check_protocol(&mut self, expr: &mut Expr, on: (&Expr, bool), method: &Ident) {
        let name = method.to_string();
        if BACKWARD.contains(&name.as_str()) && (on.1 || self.cx.host) {
            self.walks_back(method);
        } else if trains(&name) && self.is_first_on(on.0) {
            let question = if BACKWARD.contains(&name.as_str()) { "walks" } else { "outside" };
            self.rewrite(expr, |call| emit::guarded(on.0, method, question, call));
        }
    }

    /// Whether no training call was made on this place before: its type is judged once, which is one error for a whole step.
    fn is_first_on(&mut self, on: &Expr) -> bool {
        let Some(place) = self.trainer(on) else { return true };
        let first = !self.trainers.contains(&place);
        self.trainers.push(place);
        first
    }

    /// The variable and the place that a training call is made on: of `scaler.scale(&loss)?.backward()`, the scaler.
    fn trainer(&self, on: &Expr) -> Option<(usize, String)> {
        match on {
            Expr::Try(inner) => self.trainer(&inner.expr),
            Expr::MethodCall(call) if call.method == "scale" || UNWRAPPING.iter().any(|name| call.method == name) => {
                self.trainer(&call.receiver)
            }
            place => Some((self.root(place)?, place.to_token_stream().to_string())),
        }
    }

    /// Training steps that are called by a path: `Parameter::set(p, x)`, `Tensor::backward(&loss)`.
    pub(super) fn check_call_by_path(&mut self, expr: &mut Expr, path: &ExprPath, name: &str) {
        let Some(last) = path.path.segments.last() else { return };
        let Expr::Call(call) = &*expr else { return };
        if trains(name)
            && path.path.segments.len() > 1
            && let Some(on) = call.args.first().cloned()
        {
            self.check_protocol(expr, (&on, on_tensor(path)), &last.ident);
        }
    }

    /// What does not belong in a region and is named by a path, not called: `losses.iter().map(Tensor::backward)`.
    pub(super) fn check_named(&mut self, expr: &mut Expr) {
        let Expr::Path(path) = &*expr else { return };
        // A name alone may be a variable from outside of the region.
        let (Some(last), Some(on)) = (path.path.segments.last(), type_of(path).map(ToString::to_string)) else {
            return;
        };
        let (method, name) = (last.ident.clone(), last.ident.to_string());
        let banned = self.rule_of(&name).filter(|found| found.rule == Rule::Banned);
        match banned.filter(|found| found.listed || names_operation(self, path)) {
            Some(found) => self.banned(&method, &name, found, on_tensor(path)),
            None if on == "Tensor" && BACKWARD.contains(&name.as_str()) => self.walks_back(&method),
            None if trains(&name) && TRAINERS.contains(&on.as_str()) && !self.cx.host => {
                let ty = qualifier(path);
                self.rewrite(expr, |function| emit::guarded_function(&ty, &method, function));
            }
            None => {}
        }
    }

    fn walks_back(&mut self, method: &Ident) {
        self.errors.push(spanned(
            method,
            format!("`{method}` does not belong inside an autocast region"),
            "return the loss and call it outside: gradients have the precision of what they belong to",
        ));
    }
}

/// The type in `Type::function`, `<Type as Trait>::function`.
fn qualifier(path: &ExprPath) -> Type {
    let mut ty = path.path.clone();
    ty.segments.pop();
    ty.segments.pop_punct();
    path.qself.as_ref().map_or_else(|| parse_quote!(#ty), |named| (*named.ty).clone())
}
