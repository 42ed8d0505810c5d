//! Calls: methods, modules and functions, by the rule of their operation.

use super::Walker;
use super::expr::replace;
use crate::emit::{self, Operand, Treatment};
use crate::error::spanned;
use crate::hoist::Use;
use crate::lattice::{Prec, Value};
use crate::literal;
use crate::plan::Row;
use crate::rules::{Found, Rule};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use syn::spanned::Spanned;
use syn::{AngleBracketedGenericArguments, Expr, ExprCall, ExprMethodCall, PathArguments, Type};

/// Operations whose result is no tensor that autocast casts.
const NO_FLOAT: &[&str] = &[
    "argmax", "argmin", "argsort", "eq", "ne", "lt", "le", "gt", "ge", "equal", "isnan", "isinf", "isfinite",
    "isclose", "one_hot", "all", "any",
];
/// Operations that return a tensor and something besides.
const PAIRS: &[&str] = &[
    "sort",
    "topk",
    "batch_norm_train",
    "max_pool1d_with_indices",
    "max_pool2d_with_indices",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d_with_indices",
];
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
/// Methods that optimizers, the scaler and parameters have.
const TRAINING: &[&str] = &["step", "set", "update", "unscale", "apply", "schedule", "set_trainable"];
/// Methods whose result has the type that the context asks for.
const INFERRED: &[&str] =
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
    fn visit(&mut self, call: &mut ExprMethodCall) -> Value {
        let value = self.expr(&mut call.receiver);
        call.args.iter_mut().for_each(|arg| drop(self.expr(arg)));
        value
    }

    fn banned(&mut self, at: &Ident, name: &str, found: Found) {
        let help = match found.replacement {
            Some(safe) => format!(
                "use `{safe}`, which takes the values before the sigmoid; or run it in `amp_region!(f32, ..)` outside of the region"
            ),
            None => "run it outside of the region".to_owned(),
        };
        self.errors.push(spanned(at, format!("`{name}` is unsafe under autocast"), help));
    }

    /// Training steps do not belong in a region.
    fn check_protocol(&mut self, call: &ExprMethodCall, name: &str) {
        if matches!(name, "backward" | "backward_for" | "backward_retained") {
            self.errors.push(spanned(
                &call.method,
                format!("`{name}` does not belong inside an autocast region"),
                "return the loss and call it outside: gradients have the precision of what they belong to",
            ));
        }
    }

    fn explicit_cast(&mut self, call: &mut ExprMethodCall, source: &Expr) -> Value {
        let from = self.expr(&mut call.receiver);
        self.cast_to(&from, call.turbofish.as_ref(), source)
    }

    /// `Tensor::to::<F32>(&x)`.
    fn path_cast(&mut self, expr: &mut Expr, source: &Expr) -> Value {
        let Expr::Call(call) = expr else { return Value::opaque() };
        let from = self.expr(&mut call.args[0]);
        let Expr::Path(path) = &*call.func else { return Value::opaque() };
        let turbofish = path.path.segments.last().and_then(|last| match &last.arguments {
            PathArguments::AngleBracketed(list) => Some(list),
            _ => None,
        });
        self.cast_to(&from, turbofish, source)
    }

    fn cast_to(&mut self, from: &Value, list: Option<&AngleBracketedGenericArguments>, source: &Expr) -> Value {
        let target = list.and_then(|list| match list.args.first() {
            Some(syn::GenericArgument::Type(ty)) => Some(ty),
            _ => None,
        });
        let to = target.map_or_else(Value::opaque, |ty| self.marker(ty));
        let pinned = to.prec == Prec::F32 && (from.pinned || !from.is_surely(&Prec::F32));
        let mut row = Row::new("to", "cast", source, &[from], &to.prec);
        row.casts = u32::from(from.prec != to.prec);
        row.costed = u32::from(matches!(to.prec, Prec::Half(_)) && from.prec != to.prec);
        self.rows.push(row);
        Value { pinned, ..to }
    }

    fn marker(&self, ty: &Type) -> Value {
        let wrapped: Type = syn::parse_quote!(Tensor<#ty>);
        self.type_value(&wrapped)
    }

    /// A method that is no operation.
    fn unlisted(&mut self, expr: &mut Expr, name: &str) -> Value {
        let Expr::MethodCall(call) = expr else { return Value::opaque() };
        let (receiver, method) = ((*call.receiver).clone(), call.method.clone());
        let (value, from) = self.unknown(call, name);
        let is_self = matches!(&receiver, Expr::Path(path) if path.path.is_ident("self"));
        if is_self || !emit::is_pure_place(&receiver) || from.prec == Prec::Other {
            return value;
        }
        let private = self.private().clone();
        if TRAINING.contains(&name) {
            replace(expr, |call| emit::guarded(&private, &receiver, &method, call));
        } else if self.cx.host && !TRANSPARENT.contains(&name) && !INFERRED.contains(&name) {
            replace(expr, |call| emit::unlisted(&private, &receiver, &method, call));
        }
        value
    }

    /// Walks a method call that stays as it is; gives its value and that of the receiver.
    fn unknown(&mut self, call: &mut ExprMethodCall, name: &str) -> (Value, Value) {
        let value = self.expr(&mut call.receiver);
        let item = Value { constant: None, ..value.clone() };
        let mut closure = None;
        let mut args = Vec::new();
        for arg in &mut call.args {
            match arg {
                Expr::Closure(inner) => closure = Some(self.closure(inner, std::slice::from_ref(&item))),
                arg => args.push(self.expr(arg)),
            }
        }
        let from = value.clone();
        let value = match name {
            // `let y: Tensor<F32> = x.to()?;` is pinned by its annotation.
            "to" => Value { pinned: !value.is_surely(&Prec::F32), ..Value::inferred() },
            "fold" | "try_fold" if args.first().is_some_and(|init| init.prec.is_tensor()) => Value::new(Prec::Unknown),
            "into" if value.constant.is_some() => value,
            "map" | "and_then" | "flat_map" | "filter_map" | "then" | "map_while" => {
                closure.unwrap_or_else(Value::opaque)
            }
            "enumerate" => Value::tuple(vec![Value::other(), item]),
            "zip" => Value::tuple(vec![item, args.pop().unwrap_or_else(Value::opaque)]),
            "tensor" => Value::new(Prec::F32),
            _ if TRANSPARENT.contains(&name) => item,
            _ if INFERRED.contains(&name) && call.turbofish.is_none() => {
                Value { prec: if value.prec.is_tensor() { value.prec } else { Prec::Opaque }, ..Value::inferred() }
            }
            _ if INFERRED.contains(&name) => Value { inferred: false, ..item },
            _ => Value::opaque(),
        };
        (value, from)
    }

    /// A call whose operation has a rule.
    fn operation(&mut self, expr: &mut Expr, source: &Expr, name: &str, found: Found) -> Value {
        let Expr::MethodCall(call) = expr else { return Value::opaque() };
        let at = call.method.span();
        let mut values = vec![self.expr(&mut call.receiver)];
        let item = values[0].clone();
        for arg in &mut call.args {
            values.push(match arg {
                Expr::Closure(inner) => {
                    self.closure(inner, std::slice::from_ref(&item));
                    Value::other()
                }
                arg => self.expr(arg),
            });
        }
        let by_receiver = found.tensors.is_none_or(|positions| positions.contains(&0));
        if by_receiver && values[0].prec == Prec::Other {
            return Value::opaque();
        }
        let receiver_prec = self.runs_in(&found, &values[0]);
        for (arg, value) in call.args.iter_mut().zip(&values[1..]) {
            if judged(name, value) {
                self.check_constant(arg, value, &receiver_prec, name);
            }
        }
        let tensors = tensor_positions(&found, &values);
        let (result, target) = self.rule(&found, name, &values, &tensors);
        self.record(source, &call.method, name, &found, &values, &tensors, &result);
        if let Some(target) = target {
            let gate = !values[0].prec.is_tensor() || !values[0].sure;
            let operands = self.take_operands(call, &values, &tensors, &target, source);
            if let Some(operands) = operands {
                let whole = call.clone();
                let private = self.private().clone();
                let gate = gate && by_receiver && matches!(target, Goal::To(_));
                replace(expr, |_| emit::call(&private, at, operands, gate, |passed| rebuilt(whole, &tensors, passed)));
            }
        }
        if found.rule == Rule::ForceLower {
            let target = self.target(&self.lower());
            replace(expr, |inner| emit::recast(self.private(), inner, &target));
        }
        result
    }

    /// The precision an operation computes in, for judging constants.
    fn runs_in(&self, found: &Found, receiver: &Value) -> Prec {
        match found.rule {
            Rule::Lower => self.lower(),
            Rule::Full | Rule::ForceLower => Prec::F32,
            _ => receiver.prec.clone(),
        }
    }

    /// The value of an operation, and what its tensor arguments are cast to.
    fn rule(&self, found: &Found, name: &str, values: &[Value], tensors: &[usize]) -> (Value, Option<Goal>) {
        let first = &values[tensors.first().copied().unwrap_or(0)];
        let sure = first.sure && first.prec.is_tensor();
        let result = match found.rule {
            Rule::Lower => Value { sure, ..Value::new(self.lower()) },
            Rule::Full => Value { sure, ..Value::new(Prec::F32) },
            Rule::ForceLower => Value { sure, ..Value::new(self.lower()) },
            Rule::Widest => {
                let prec = tensors.iter().fold(Prec::Other, |all, &i| all.widest(&values[i].prec));
                let sure = tensors.iter().all(|&i| values[i].sure || values[i].prec == Prec::Other);
                let pinned = tensors.iter().filter(|&&i| values[i].prec != Prec::Other).count() == 1 && first.pinned;
                Value { sure: sure && prec.is_known(), pinned, ..Value::new(prec) }
            }
            Rule::Keep => Value { constant: None, parts: Vec::new(), ..first.clone() },
            Rule::Skip | Rule::Banned => Value::opaque(),
        };
        let result = match name {
            _ if NO_FLOAT.contains(&name) => Value::other(),
            _ if PAIRS.contains(&name) => Value::tuple(vec![result, Value::other()]),
            _ => result,
        };
        let result = if INFERRED.contains(&name) && first.prec == Prec::Opaque { Value::inferred() } else { result };
        let differs = |prec: &Prec| tensors.iter().any(|&i| !values[i].is_surely(prec));
        let goal = match found.rule {
            Rule::Lower => differs(&self.lower()).then(|| Goal::To(self.lower())),
            Rule::Full => differs(&Prec::F32).then_some(Goal::To(Prec::F32)),
            Rule::ForceLower => Some(Goal::Through(self.lower())),
            Rule::Widest => {
                let some: Vec<&Value> = tensors.iter().map(|&i| &values[i]).filter(|v| v.prec != Prec::Other).collect();
                let agree = some.iter().all(|value| value.sure && value.prec == some[0].prec);
                (some.len() > 1 && !agree).then_some(Goal::Meet)
            }
            _ => None,
        };
        (result, goal)
    }

    /// Takes the tensor arguments out of a call, each with its treatment.
    fn take_operands(
        &mut self,
        call: &mut ExprMethodCall,
        values: &[Value],
        tensors: &[usize],
        goal: &Goal,
        source: &Expr,
    ) -> Option<Vec<Operand>> {
        let name = call.method.clone();
        let gated = !(values[0].sure && values[0].prec.is_tensor());
        let mut operands = Vec::new();
        for &i in tensors {
            let slot = if i == 0 { &mut *call.receiver } else { call.args.get_mut(i - 1)? };
            if let Some(error) = self.undone(slot, &values[i], goal, &name, source) {
                self.errors.push(error);
            }
            let treatment = self.treatment(slot, &values[i], goal, i == 0, gated);
            let expr = std::mem::replace(slot, Expr::Verbatim(TokenStream::new()));
            operands.push(Operand { expr, receiver: i == 0, treatment });
        }
        Some(operands)
    }

    /// A cast the user wrote must not be undone.
    fn undone(&self, place: &Expr, value: &Value, goal: &Goal, name: &Ident, _source: &Expr) -> Option<syn::Error> {
        let Goal::To(Prec::Half(half)) = goal else { return None };
        if !value.pinned || value.prec != Prec::F32 {
            return None;
        }
        let error = spanned(
            place,
            format!("this cast to `F32` would be undone by `{name}`"),
            format!(
                "run it in full precision with `amp_region!(f32, ..)`, or write `.to::<{half}>()` where it may be rounded"
            ),
        );
        Some(error)
    }

    fn treatment(&mut self, expr: &Expr, value: &Value, goal: &Goal, receiver: bool, gated: bool) -> Treatment {
        match goal {
            Goal::Meet => Treatment::Meet,
            Goal::Through(prec) => {
                self.cost(value, prec);
                Treatment::To(self.through(prec))
            }
            Goal::To(prec) if value.is_surely(prec) => Treatment::Nothing,
            Goal::To(prec) => match self.hoist(expr, value, prec, receiver, gated) {
                Some((number, hoisted)) => {
                    if !self.counted.contains(&number) {
                        self.counted.push(number);
                        self.cost(value, prec);
                    }
                    Treatment::Hoisted(hoisted)
                }
                None => {
                    self.cost(value, prec);
                    Treatment::To(self.target(prec))
                }
            },
        }
    }

    /// Adds a narrowing to the plan of the call that is being walked.
    fn cost(&mut self, value: &Value, prec: &Prec) {
        if let (Prec::Half(_), Some(row)) = (prec, self.rows.last_mut()) {
            row.costed += u32::from(value.prec != *prec);
        }
    }

    /// `through::<P>()`: rounded to a precision, and widened again.
    fn through(&self, prec: &Prec) -> TokenStream {
        let (private, to) = (self.private(), self.target(prec));
        quote!(#private::through(#to))
    }

    /// The local that holds this narrowing, if it is made ahead, and its number.
    fn hoist(
        &mut self,
        expr: &Expr,
        value: &Value,
        prec: &Prec,
        receiver: bool,
        gated: bool,
    ) -> Option<(usize, Ident)> {
        let Prec::Half(half) = prec else { return None };
        let (place, referenced) = match expr {
            Expr::Reference(inner) if inner.mutability.is_none() => (&*inner.expr, true),
            other => (other, false),
        };
        let (var, fields) = self.fixed_place(place)?;
        // A value that may be no tensor is passed on as it was written, so it must be a reference already; and the
        // arguments of a call that may be no operation are not touched ahead of it.
        let known = value.prec.is_tensor();
        if !receiver && !known && !referenced || gated && !known {
            return None;
        }
        let number = self.uses.len();
        let scope = self.scopes.vars[var].scope;
        self.uses.push(Use {
            key: (var, fields, half.clone()),
            place: place.clone(),
            steps: self.steps.clone(),
            scope,
        });
        let hoist = self.hoists.of(number)?;
        Some((hoist, emit::local("h", hoist, emit::ends(place).0)))
    }

    /// The variable and the fields of a place that does not change.
    fn fixed_place(&self, place: &Expr) -> Option<(usize, String)> {
        match place {
            Expr::Path(_) => {
                let var = self.variable(place)?;
                self.scopes.vars[var].fixed.then(|| (var, String::new()))
            }
            Expr::Field(field) => {
                let (var, mut fields) = match &*field.base {
                    Expr::Path(_) => (self.variable(&field.base)?, String::new()),
                    base => self.fixed_place(base)?,
                };
                let member = field.member.to_token_stream();
                fields.push_str(&format!(".{member}"));
                self.scopes.vars[var].fixed_fields.then_some((var, fields))
            }
            Expr::Paren(inner) => self.fixed_place(&inner.expr),
            _ => None,
        }
    }

    /// A row of the plan.
    #[expect(clippy::too_many_arguments, reason = "a row joins what the call is with what is known about it")]
    fn record(
        &mut self,
        source: &Expr,
        at: &Ident,
        name: &str,
        found: &Found,
        values: &[Value],
        tensors: &[usize],
        result: &Value,
    ) {
        if found.rule == Rule::Skip {
            return;
        }
        let inputs: Vec<&Value> = tensors.iter().map(|&i| &values[i]).collect();
        let row = Row::new(name, found.rule.name(), source, &inputs, &result.prec).at(at.span());
        let row = match found.rule {
            Rule::Lower | Rule::ForceLower => row.with_target(&inputs, &self.lower()),
            Rule::Full => row.with_target(&inputs, &Prec::F32),
            Rule::Widest => row.with_meeting(&inputs),
            _ => row,
        };
        self.rows.push(row);
    }

    /// A module's forward pass: its type says what it takes.
    fn module(&mut self, expr: &mut Expr, source: &Expr, name: &str) -> Value {
        let Expr::MethodCall(call) = expr else { return Value::opaque() };
        let at = call.method.span();
        self.expr(&mut call.receiver);
        let values: Vec<Value> = call.args.iter_mut().map(|arg| self.expr(arg)).collect();
        let inputs: Vec<&Value> = values.iter().filter(|value| value.prec != Prec::Other).collect();
        let row = Row::new(name, "module", source, &inputs, &Prec::Unknown).at(at).with_target(&inputs, &self.lower());
        self.rows.push(row);
        let positions: Vec<usize> = (0..values.len()).filter(|&i| castable(&call.args[i], &values[i])).collect();
        let full = matches!(self.lower(), Prec::F32) && positions.iter().all(|&i| values[i].is_surely(&Prec::F32));
        if positions.is_empty() || full {
            return Value::new(Prec::Unknown);
        }
        let region = self.target(&self.lower());
        let spans: Vec<Span> = call.args.iter().map(|arg| emit::ends(arg).0).collect();
        let take = |expr: &mut Expr| std::mem::replace(expr, Expr::Verbatim(TokenStream::new()));
        let operands = positions
            .iter()
            .map(|&i| Operand {
                expr: take(&mut call.args[i]),
                receiver: false,
                treatment: Treatment::To(region.clone()),
            })
            .collect();
        let receiver = take(&mut call.receiver);
        let mut whole = call.clone();
        let private = self.private().clone();
        let half = matches!(self.lower(), Prec::Half(_));
        let pinned = positions.iter().filter(|&&i| half && values[i].pinned && values[i].prec == Prec::F32);
        let pinned: Vec<Span> = pinned.map(|&i| spans[i]).collect();
        replace(expr, |_| {
            emit::module_call(&private, at, receiver, &region, &pinned, operands, |callee, passed| {
                *whole.receiver = callee;
                for (&i, arg) in positions.iter().zip(passed) {
                    whole.args[i] = arg;
                }
                Expr::Verbatim(whole.into_token_stream())
            })
        });
        Value::new(Prec::Unknown)
    }

    /// A call of a path.
    pub(super) fn call(&mut self, expr: &mut Expr) -> Value {
        let source = expr.clone();
        let Expr::Call(call) = expr else { return Value::opaque() };
        let Expr::Path(path) = &*call.func else {
            self.expr(&mut call.func);
            call.args.iter_mut().for_each(|arg| drop(self.expr(arg)));
            return Value::opaque();
        };
        let path = path.clone();
        let Some(last) = path.path.segments.last() else { return Value::opaque() };
        let name = last.ident.to_string();
        match name.as_str() {
            "to" if call.args.len() == 1 && !last.arguments.is_none() => return self.path_cast(expr, &source),
            "Value" | "from" if literal::wrapped(call).is_some() => return self.expr(&mut call.args[0]),
            "Ok" | "Some" | "new" if call.args.len() == 1 && (name != "new" || is_pointer(&path.path)) => {
                return self.expr(&mut call.args[0]);
            }
            "Err" => {
                call.args.iter_mut().for_each(|arg| drop(self.expr(arg)));
                return Value::never();
            }
            _ => {}
        }
        let found = self.rules.find(&name).filter(|found| found.listed || names_operation(self, &path));
        let method_form = on_tensor(&path);
        match found {
            Some(found) if found.rule == Rule::Banned => {
                call.args.iter_mut().for_each(|arg| drop(self.expr(arg)));
                self.banned(&last.ident, &name, found);
                Value::opaque()
            }
            Some(found) if found.list && found.rule == Rule::Widest => self.list(expr, &source, &name),
            Some(found) if !matches!(found.rule, Rule::Skip) => {
                self.function(expr, &source, &last.ident, found, method_form)
            }
            _ => self.other_call(call, &path, &name),
        }
    }

    fn other_call(&mut self, call: &mut ExprCall, path: &syn::ExprPath, name: &str) -> Value {
        let values: Vec<Value> = call.args.iter_mut().map(|arg| self.expr(arg)).collect();
        if let Some(value) = constructed(self, path) {
            return value;
        }
        match name {
            "new" | "with_capacity" | "default" | "from" | "from_iter" => Value::inferred(),
            _ if values.iter().any(|value| value.prec.is_tensor()) => Value::new(Prec::Unknown),
            _ => Value::opaque(),
        }
    }

    /// A function or an associated function of a tensor.
    fn function(&mut self, expr: &mut Expr, source: &Expr, name: &Ident, found: Found, method_form: bool) -> Value {
        let Expr::Call(call) = expr else { return Value::opaque() };
        let values: Vec<Value> = call.args.iter_mut().map(|arg| self.expr(arg)).collect();
        let tensors: Vec<usize> = match found.tensors {
            Some(positions) => {
                let listed = positions.iter().map(|&i| usize::from(i)).filter(|&i| i < values.len());
                listed.filter(|&i| castable(&call.args[i], &values[i])).collect()
            }
            None => (0..values.len()).filter(|&i| castable(&call.args[i], &values[i])).collect(),
        };
        if tensors.is_empty() {
            return Value::opaque();
        }
        let text = name.to_string();
        let prec = self.runs_in(&found, &values[tensors[0]]);
        for (i, value) in values.iter().enumerate() {
            if judged(&text, value) {
                self.check_constant(&mut call.args[i], value, &prec, &text);
            }
        }
        let (result, goal) = self.rule(&found, &text, &values, &tensors);
        self.record(source, name, &text, &found, &values, &tensors, &result);
        // A function of this name may be the user's own: what it returns is its own business.
        let result = if method_form { result } else { Value { sure: false, ..result } };
        let Some(goal) = goal else { return result };
        let mut operands = Vec::new();
        for &i in &tensors {
            if let Some(error) = self.undone(&call.args[i], &values[i], &goal, name, source) {
                self.errors.push(error);
            }
            let treatment = self.treatment(&call.args[i], &values[i], &goal, false, false);
            let expr = std::mem::replace(&mut call.args[i], Expr::Verbatim(TokenStream::new()));
            operands.push(Operand { expr, receiver: false, treatment });
        }
        let mut whole = call.clone();
        let private = self.private().clone();
        replace(expr, |_| {
            emit::call(&private, name.span(), operands, method_form, |passed| {
                for (&i, arg) in tensors.iter().zip(passed) {
                    whole.args[i] = arg;
                }
                Expr::Verbatim(whole.into_token_stream())
            })
        });
        if found.rule == Rule::ForceLower {
            let target = self.target(&self.lower());
            replace(expr, |inner| emit::recast(self.private(), inner, &target));
        }
        result
    }

    /// `cat(&[&a, &b], axis)`: the elements of a literal list meet.
    fn list(&mut self, expr: &mut Expr, source: &Expr, name: &str) -> Value {
        let Expr::Call(call) = expr else { return Value::opaque() };
        let at = call.func.span();
        let mut values = Vec::new();
        let mut result = Value::opaque();
        for (i, arg) in call.args.iter_mut().enumerate() {
            match (i, literal_list(arg)) {
                (0, Some(elems)) => values = elems.into_iter().map(|elem| self.expr(elem)).collect(),
                (0, None) => result = self.expr(arg),
                _ => drop(self.expr(arg)),
            }
        }
        if values.is_empty() {
            return Value { inferred: false, constant: None, parts: Vec::new(), ..result };
        }
        let prec = values.iter().fold(Prec::Never, |all, value| all.join(&value.prec));
        let inputs: Vec<&Value> = values.iter().collect();
        self.rows.push(Row::new(name, "widest", source, &inputs, &prec).at(at).with_meeting(&inputs));
        let agree = values.iter().all(|value| value.sure && value.prec == values[0].prec);
        let sure = values.iter().all(|value| value.sure) && prec.is_known();
        if agree || values.len() < 2 {
            return Value { sure, ..Value::new(prec) };
        }
        let mut whole = call.clone();
        let elems = literal_list(&mut call.args[0]).expect("seen above");
        let operands = elems
            .into_iter()
            .map(|elem| Operand {
                expr: std::mem::replace(elem, Expr::Verbatim(TokenStream::new())),
                receiver: false,
                treatment: Treatment::Meet,
            })
            .collect();
        let private = self.private().clone();
        replace(expr, |_| {
            emit::call(&private, at, operands, false, |passed| {
                if let Some(elems) = literal_list(&mut whole.args[0]) {
                    elems.into_iter().zip(passed).for_each(|(elem, with)| *elem = with);
                }
                Expr::Verbatim(whole.into_token_stream())
            })
        });
        Value { sure, ..Value::new(prec) }
    }
}

/// What the tensor arguments of a call are cast to.
enum Goal {
    To(Prec),
    /// Rounded to this precision and widened again: a `full` operation that was forced.
    Through(Prec),
    Meet,
}

fn tensor_positions(found: &Found, values: &[Value]) -> Vec<usize> {
    let castable = |i: &usize| *i == 0 || !matches!(values[*i].prec, Prec::Other | Prec::Never);
    match found.tensors {
        Some(positions) => {
            positions.iter().map(|&i| usize::from(i)).filter(|&i| i < values.len()).filter(castable).collect()
        }
        None => (0..values.len()).filter(castable).collect(),
    }
}

/// Whether an argument may be a tensor by the way it is written.
fn castable(arg: &Expr, value: &Value) -> bool {
    !matches!(value.prec, Prec::Other | Prec::Never)
        && !matches!(arg, Expr::Closure(_) | Expr::Range(_) | Expr::Array(_))
}

/// Whether an argument is a number that meets the tensor's elements, not an axis or a size.
fn judged(op: &str, value: &Value) -> bool {
    let float = |text: &str| text.contains(['.', 'e', 'E', ':']) && !text.starts_with("0x");
    matches!(op, "masked_fill" | "clamp" | "add" | "sub" | "mul" | "div")
        || value.constant.as_ref().is_some_and(|(text, _)| float(text))
}

/// `iter.sum()`: a fold of an iterator has no arguments, a sum of a tensor has.
fn is_iterator_fold(call: &ExprMethodCall) -> bool {
    call.args.is_empty() && (call.method == "sum" || call.method == "product")
}

fn is_pointer(path: &syn::Path) -> bool {
    path.segments.iter().rev().nth(1).is_some_and(|s| s.ident == "Box" || s.ident == "Rc" || s.ident == "Arc")
}

/// `Tensor::op` and `Tensor::<P>::op`: the first argument is the receiver.
fn on_tensor(path: &syn::ExprPath) -> bool {
    path.qself.is_some() || path.path.segments.iter().rev().nth(1).is_some_and(|segment| segment.ident == "Tensor")
}

/// Whether a path may name an operation: not a local, not `Self::helper`, not `f32::exp` or something of `std`.
fn names_operation(walker: &Walker<'_>, path: &syn::ExprPath) -> bool {
    if path.qself.is_some() {
        return true;
    }
    if let Some(ident) = path.path.get_ident() {
        return walker.scopes.find(&ident.to_string()).is_none();
    }
    let foreign = |segment: &syn::PathSegment| {
        let name = segment.ident.to_string();
        matches!(
            name.as_str(),
            "Self"
                | "self"
                | "super"
                | "crate"
                | "std"
                | "core"
                | "alloc"
                | "f32"
                | "f64"
                | "usize"
                | "isize"
                | "u8"
                | "u16"
                | "u32"
                | "u64"
                | "u128"
                | "i8"
                | "i16"
                | "i32"
                | "i64"
                | "i128"
                | "str"
                | "cmp"
                | "mem"
                | "ptr"
                | "iter"
        )
    };
    let qualifier = path.path.segments.iter().rev().nth(1);
    let is_type = qualifier.is_some_and(|segment| segment.ident.to_string().starts_with(|c: char| c.is_uppercase()));
    let is_tensor = qualifier.is_some_and(|segment| segment.ident == "Tensor");
    !(path.path.segments.iter().any(foreign) || is_type && !is_tensor)
}

/// `Tensor::<F32>::zeros(..)` and the like say their precision.
fn constructed(walker: &Walker<'_>, path: &syn::ExprPath) -> Option<Value> {
    let qualifier = path.path.segments.iter().rev().nth(1)?;
    if qualifier.ident != "Tensor" {
        return None;
    }
    let syn::PathArguments::AngleBracketed(list) = &qualifier.arguments else { return Some(Value::new(Prec::Unknown)) };
    match list.args.first() {
        Some(syn::GenericArgument::Type(ty)) => Some(walker.marker(ty)),
        _ => Some(Value::new(Prec::Unknown)),
    }
}

/// The elements of `&[..]`, `[..]`.
fn literal_list(expr: &mut Expr) -> Option<Vec<&mut Expr>> {
    match expr {
        Expr::Array(array) => Some(array.elems.iter_mut().collect()),
        Expr::Reference(inner) => literal_list(&mut inner.expr),
        Expr::Paren(inner) => literal_list(&mut inner.expr),
        _ => None,
    }
}

fn rebuilt(mut call: ExprMethodCall, tensors: &[usize], passed: Vec<Expr>) -> Expr {
    for (&i, expr) in tensors.iter().zip(passed) {
        match i {
            0 => *call.receiver = expr,
            i => call.args[i - 1] = expr,
        }
    }
    Expr::Verbatim(call.into_token_stream())
}
