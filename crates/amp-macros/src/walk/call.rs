//! Calls of methods.

use super::{Expect, Walker};
use crate::emit;
use crate::error::spanned;
use crate::lattice::{Prec, Value};
use crate::rules::{Found, Rule};
use crate::shape::Shape;
use proc_macro2::Ident;
use syn::{Expr, ExprMethodCall};

/// Methods of containers and references that give what they hold.
const TRANSPARENT: &[&str] = &[
    "clone",
    "unwrap",
    "expect",
    "as_ref",
    "as_mut",
    "as_deref",
    "iter",
    "into_iter",
    "iter_mut",
    "ok_or",
    "ok_or_else",
    "map_err",
    "ok",
    "context",
    "with_context",
    "borrow",
    "to_owned",
    "by_ref",
    "rev",
    "skip",
    "take",
    "step_by",
    "cloned",
    "copied",
    "as_slice",
    "last",
    "first",
    "get",
    "pop",
    "next",
    "chain",
    "peekable",
    "filter",
    "transpose",
    "unwrap_or",
    "unwrap_or_else",
    "flatten",
    "detach",
];
/// Those of them that hand on the value itself.
const PASSING: &[&str] =
    &["unwrap", "expect", "as_ref", "map_err", "ok", "ok_or", "ok_or_else", "context", "with_context", "to_owned"];
/// Methods of iterators, options and results that give their elements, as they are, to the closure's last parameter.
const ITERATING: &[&str] =
    &["map", "for_each", "flat_map", "filter_map", "and_then", "map_while", "fold", "try_fold", "try_for_each"];
/// Those whose closure gives the elements that come out.
const MAPPING: &[&str] = &["map", "and_then", "flat_map", "filter_map", "then", "map_while"];
/// Methods of iterators whose elements are those that went in, and what ends them.
const HANDING_ON: &[&str] =
    &["rev", "skip", "take", "step_by", "filter", "peekable", "collect", "try_collect", "unwrap", "expect"];
/// Methods that put an element into a container.
const FILLING: &[&str] = &["push", "push_back", "push_front", "insert"];
/// Methods of tensors that say the same in every precision.
const ASKING: &[&str] = &["dims", "size", "rank", "count", "device", "requires_grad"];
/// Methods that optimizers, the scaler and parameters have.
const TRAINING: &[&str] = &["step", "set", "update", "unscale", "apply", "schedule", "set_trainable"];
/// Methods whose result has the type that the context asks for.
pub(super) const INFERRED: &[&str] =
    &["collect", "into", "try_into", "parse", "sum", "product", "unwrap_or_default", "try_collect"];

impl Walker<'_> {
    pub(super) fn method(&mut self, expr: &mut Expr) -> Value {
        let source = expr.clone();
        let Expr::MethodCall(call) = expr else { return Value::opaque() };
        let name = call.method.to_string();
        self.check_protocol(call, &name);
        if name == "to" && self.rules.find("to").is_none_or(|found| !found.listed) {
            return match call.turbofish {
                Some(_) => self.explicit_cast(call, &source),
                None => self.unlisted(expr, &name),
            };
        }
        let found = self.rules.find(&name).filter(|found| found.listed || !is_iterator_fold(call));
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

    pub(super) fn banned(&mut self, at: &Ident, name: &str, found: Found) {
        let help = match found.replacement {
            Some(safe) => format!(
                "use `{safe}`, which takes the values before the sigmoid; or run it in `amp_region!(f32, ..)` outside of the region"
            ),
            None => "run it outside of the region".to_owned(),
        };
        self.errors.push(spanned(at, format!("`{name}` is unsafe under autocast"), help));
    }

    /// Training steps do not belong in a region.
    pub(super) fn check_protocol(&mut self, call: &ExprMethodCall, name: &str) {
        if matches!(name, "backward" | "backward_for" | "backward_retained") {
            self.errors.push(spanned(
                &call.method,
                format!("`{name}` does not belong inside an autocast region"),
                "return the loss and call it outside: gradients have the precision of what they belong to",
            ));
        }
    }

    /// A method that is no operation.
    pub(super) fn unlisted(&mut self, expr: &mut Expr, name: &str) -> Value {
        let Expr::MethodCall(call) = expr else { return Value::opaque() };
        let (receiver, method) = ((*call.receiver).clone(), call.method.clone());
        let (value, from) = self.unknown(call, name);
        let is_self = matches!(&receiver, Expr::Path(path) if path.path.is_ident("self"));
        if is_self || !emit::is_pure_place(&receiver) || from.prec == Prec::Other {
            return value;
        }
        if TRAINING.contains(&name) {
            self.rewrite(expr, |call| emit::guarded(&receiver, &method, call));
        } else if self.cx.host && !TRANSPARENT.contains(&name) && !INFERRED.contains(&name) {
            self.rewrite(expr, |call| emit::unlisted(&receiver, &method, call));
        }
        value
    }

    /// Walks a method call that stays as it is; gives its value and that of the receiver.
    pub(super) fn unknown(&mut self, call: &mut ExprMethodCall, name: &str) -> (Value, Value) {
        let collected = std::mem::take(&mut self.collected);
        self.collected = collected && HANDING_ON.contains(&name) && matches!(*call.receiver, Expr::MethodCall(_));
        let items = ITERATING.contains(&name) && iterates(&call.receiver);
        let items = if items { self.place(&call.receiver) } else { None };
        let value = self.beginning(&mut call.receiver, call.dot_token.span);
        let item = Value { constant: None, shape: Shape::Unknown, ..value.clone() };
        let mut closure = None;
        let mut args = Vec::new();
        let fills = FILLING.contains(&name);
        let takes = fills && value.is_surely(&Prec::F32);
        for arg in &mut call.args {
            match arg {
                Expr::Closure(inner) => {
                    let in_f32 = collected && MAPPING.contains(&name) || folds_f32(name, &args);
                    let place = if in_f32 { Expect::Prec(Prec::F32) } else { Expect::Nothing };
                    let params = parameters(name, &args, &item);
                    closure = Some(self.closure_over(inner, &params, place, items.as_ref()));
                }
                arg => {
                    let mut given = self.expr(arg);
                    if takes {
                        self.widen_owned(arg, &mut given);
                    }
                    args.push(given);
                }
            }
        }
        if fills && let [given] = args.as_slice() {
            self.filled(&call.receiver, &value, given);
        }
        let from = value.clone();
        if ASKING.contains(&name) {
            self.flows.ask(&value.flow);
        }
        let value = match name {
            // `let y: Tensor<F32> = x.to()?;` is pinned by its annotation.
            "to" => Value { pinned: !value.is_surely(&Prec::F32), ..Value::inferred() },
            "fold" | "try_fold" if folds_f32(name, &args) => Value::sure(Prec::F32),
            "fold" | "try_fold" if args.first().is_some_and(|init| init.prec.is_tensor()) => Value::new(Prec::Unknown),
            "into" if value.constant.is_some() => value,
            _ if MAPPING.contains(&name) => closure.unwrap_or_else(Value::opaque),
            "enumerate" => Value::tuple(vec![Value::other(), item]),
            "zip" => Value::tuple(vec![item, args.pop().unwrap_or_else(Value::opaque)]),
            "tensor" => Value::new(Prec::F32),
            _ if PASSING.contains(&name) => Value { constant: None, ..value },
            _ if TRANSPARENT.contains(&name) => item,
            _ if INFERRED.contains(&name) && call.turbofish.is_none() => {
                Value { prec: if value.prec.is_tensor() { value.prec } else { Prec::Opaque }, ..Value::inferred() }
            }
            _ if INFERRED.contains(&name) => Value { inferred: false, ..item },
            _ => Value::opaque(),
        };
        let shape = from.shape.of_method(name);
        (value.shaped(shape), from)
    }

    /// A tensor of F32 in a container that was made empty: the container is one of them.
    fn filled(&mut self, place: &Expr, container: &Value, given: &Value) {
        let empty = container.inferred && container.prec == Prec::Opaque;
        if empty
            && given.is_surely(&Prec::F32)
            && given.shape.gives()
            && let Some(var) = self.variable(place)
        {
            self.scopes.vars[var].value = Value::sure(Prec::F32);
        }
    }
}

/// What a method gives its closure: what has been folded so far comes before the item.
fn parameters(method: &str, given: &[Value], item: &Value) -> Vec<Value> {
    let folded = match given.first().map(|init| &init.prec) {
        Some(Prec::Never) => Value::never(),
        Some(_) if given[0].inferred => Value::late(),
        Some(Prec::F32) if folds_f32(method, given) => Value::sure(Prec::F32),
        Some(prec) if prec.is_tensor() => Value::new(Prec::Unknown),
        _ => Value::opaque(),
    };
    match method {
        "fold" | "try_fold" | "rfold" | "try_rfold" => vec![folded, item.clone()],
        "scan" => vec![Value::opaque(), item.clone()],
        "reduce" => vec![item.clone(), item.clone()],
        _ => vec![item.clone()],
    }
}

/// Whether an expression is an iterator, or an option, by the methods that made it.
fn iterates(expr: &Expr) -> bool {
    match expr {
        Expr::MethodCall(call) => {
            let starts = ["iter", "iter_mut", "into_iter", "as_ref", "as_mut", "first", "last", "get"];
            let goes_on = ["enumerate", "zip", "rev", "skip", "take", "chain", "step_by", "cloned", "copied"];
            let is = |names: &[&str]| names.iter().any(|name| call.method == name);
            is(&starts) || is(&goes_on) && iterates(&call.receiver)
        }
        Expr::Paren(inner) => iterates(&inner.expr),
        Expr::Range(_) => true,
        _ => false,
    }
}

/// Whether an iterator is collected, by the last of its methods.
pub(super) fn collects(expr: &Expr) -> bool {
    match expr {
        Expr::MethodCall(call) if ["unwrap", "expect"].iter().any(|name| call.method == name) => {
            collects(&call.receiver)
        }
        Expr::MethodCall(call) => call.method == "collect" || call.method == "try_collect",
        Expr::Try(inner) => collects(&inner.expr),
        Expr::Paren(inner) => collects(&inner.expr),
        _ => false,
    }
}

/// Whether an iterator is folded into a tensor that starts, and so stays, in F32.
fn folds_f32(method: &str, given: &[Value]) -> bool {
    matches!(method, "fold" | "try_fold" | "rfold" | "try_rfold")
        && given.first().is_some_and(|init| init.is_surely(&Prec::F32) && init.parts.is_empty())
}

/// `iter.sum()`, `iter.fold(..)`: a sum of an iterator has no arguments, a sum of a tensor has; a fold of one has a closure.
fn is_iterator_fold(call: &ExprMethodCall) -> bool {
    call.args.is_empty() && ["sum", "product", "max", "min", "flatten"].iter().any(|name| call.method == name)
        || call.method == "fold" && matches!(call.args.last(), Some(Expr::Closure(_)))
}
