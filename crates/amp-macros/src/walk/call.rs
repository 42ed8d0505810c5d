//! Calls of methods and modules, by the rule of their operation.

use super::Walker;
use super::cast::Goal;
use crate::emit::{self, Joint, Operand, Role, Treatment};
use crate::error::spanned;
use crate::flow::{Flow, Site};
use crate::lattice::{Prec, Value};
use crate::plan::Row;
use crate::rules::{Found, Rule};
use crate::shape::Shape;
use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;
use syn::{Expr, ExprMethodCall};

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
/// Those of them that hand on the value itself.
const PASSING: &[&str] =
    &["unwrap", "expect", "as_ref", "map_err", "ok", "ok_or", "ok_or_else", "context", "with_context", "to_owned"];
/// Methods of tensors that say the same in every precision.
const ASKING: &[&str] = &["dims", "size", "rank", "count", "device", "requires_grad"];
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
    pub(super) fn visit(&mut self, call: &mut ExprMethodCall) -> Value {
        let value = self.expr(&mut call.receiver);
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
        let value = self.expr(&mut call.receiver);
        let item = Value { constant: None, shape: Shape::Unknown, ..value.clone() };
        let mut closure = None;
        let mut args = Vec::new();
        for arg in &mut call.args {
            match arg {
                Expr::Closure(inner) => closure = Some(self.closure(inner, std::slice::from_ref(&item))),
                arg => args.push(self.expr(arg)),
            }
        }
        let from = value.clone();
        if ASKING.contains(&name) {
            self.flows.ask(&value.flow);
        }
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

    /// A call whose operation has a rule.
    pub(super) fn operation(&mut self, expr: &mut Expr, source: &Expr, name: &str, found: Found) -> Value {
        let Expr::MethodCall(call) = expr else { return Value::opaque() };
        let at = call.method.span();
        let site = self.site();
        let mut values = vec![self.expr(&mut call.receiver)];
        let item = values[0].clone().shaped(Shape::Unknown);
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
        let (result, target) = self.rule(&found, name, &values, &tensors, site);
        self.record(source, &call.method, name, &found, &values, &tensors, &result, site);
        let sure = values[0].prec.is_tensor();
        let flow = self.flow(&found, &values, &tensors, site, !by_receiver || sure);
        let result = Value { flow, ..result };
        if let Some(target) = target {
            let gate = !sure || !values[0].sure;
            let operands = self.take_operands(call, &values, &tensors, &target, source);
            if let Some(operands) = operands {
                let whole = call.clone();
                let joint = self.joint(target, gate && by_receiver);
                self.rewrite(expr, |_| emit::call(at, operands, joint, |passed| rebuilt(whole, &tensors, passed)));
            }
        }
        if found.rule == Rule::ForceLower {
            let target = self.target(&self.lower());
            self.rewrite(expr, |inner| emit::recast(inner, &target));
        }
        result
    }

    /// The precision an operation computes in, for judging constants.
    pub(super) fn runs_in(&self, found: &Found, receiver: &Value) -> Prec {
        match found.rule {
            Rule::Lower => self.lower(),
            Rule::Full | Rule::ForceLower => Prec::F32,
            _ => receiver.prec.clone(),
        }
    }

    /// The value of an operation, and what its tensor arguments are cast to.
    pub(super) fn rule(
        &self,
        found: &Found,
        name: &str,
        values: &[Value],
        tensors: &[usize],
        site: Site,
    ) -> (Value, Option<Goal>) {
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
            // A method was found on it, so its type is known by now.
            Rule::Keep => Value { constant: None, inferred: false, parts: Vec::new(), ..first.clone() },
            Rule::Skip | Rule::Banned => Value::opaque(),
        };
        let shape = if found.listed { Shape::Unknown } else { Shape::of_operation(name) };
        let result = result.shaped(shape);
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
        match self.written(site) {
            Some(written) => (result, Some(Goal::Write(written))),
            None => (result, goal),
        }
    }

    /// What becomes of the uses that went into an operation; gives the use that its result is.
    pub(super) fn flow(&mut self, found: &Found, values: &[Value], tensors: &[usize], site: Site, sure: bool) -> Flow {
        match found.rule {
            Rule::Lower if sure => self.narrowed(tensors.iter().map(|&i| &values[i])),
            Rule::Keep if found.commutes && tensors == [0] => return self.flows.pass(&values[0].flow),
            Rule::Full if found.direct && tensors.first() == Some(&0) => return self.produce(site, true),
            _ => {}
        }
        Flow::default()
    }

    /// How the operands of a call are cast together.
    pub(super) fn joint(&self, goal: Goal, gate: bool) -> Joint {
        match goal {
            Goal::Write(written) => {
                let lower = self.target(&self.lower());
                Joint::Write { condition: written.condition(&lower), lower }
            }
            Goal::To(_) if gate => Joint::Gate,
            _ => Joint::None,
        }
    }

    /// A row of the plan.
    #[expect(clippy::too_many_arguments, reason = "a row joins what the call is with what is known about it")]
    pub(super) fn record(
        &mut self,
        source: &Expr,
        at: &Ident,
        name: &str,
        found: &Found,
        values: &[Value],
        tensors: &[usize],
        result: &Value,
        site: Site,
    ) {
        if found.rule == Rule::Skip {
            return;
        }
        let inputs: Vec<&Value> = tensors.iter().map(|&i| &values[i]).collect();
        let row = Row::new(name, found.rule.name(), source, &inputs, &result.prec).at(at.span());
        let row = match found.rule {
            Rule::Lower | Rule::ForceLower => row.with_target(&inputs, &self.lower()),
            Rule::Full if self.written(site).is_some() => row.with_target(&inputs, &Prec::F32).writing(&self.lower()),
            Rule::Full => row.with_target(&inputs, &Prec::F32),
            Rule::Widest => row.with_meeting(&inputs),
            _ => row,
        };
        self.rows.push(row);
    }

    /// A module's forward pass: its type says what it takes.
    pub(super) fn module(&mut self, expr: &mut Expr, source: &Expr, name: &str) -> Value {
        let Expr::MethodCall(call) = expr else { return Value::opaque() };
        let at = call.method.span();
        let site = self.site();
        self.expr(&mut call.receiver);
        let values: Vec<Value> = call.args.iter_mut().map(|arg| self.expr(arg)).collect();
        let inputs: Vec<&Value> = values.iter().filter(|value| value.prec != Prec::Other).collect();
        let mut row =
            Row::new(name, "module", source, &inputs, &Prec::Unknown).at(at).with_target(&inputs, &self.lower());
        row.costed -= inputs.iter().filter(|value| row.costed > 0 && self.is_free(value)).count() as u32;
        self.rows.push(row);
        let positions: Vec<usize> = (0..values.len()).filter(|&i| castable(&call.args[i], &values[i])).collect();
        self.given(&call.receiver, site, positions.iter().map(|&i| &values[i]));
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
                role: Role::Argument,
                treatment: Treatment::To(region.clone()),
            })
            .collect();
        let receiver = take(&mut call.receiver);
        let mut whole = call.clone();
        let half = matches!(self.lower(), Prec::Half(_));
        let written = self.written(site);
        let written = written.map(|written| written.condition(&region));
        let pinned = positions.iter().filter(|&&i| half && values[i].pinned && values[i].prec == Prec::F32);
        let pinned: Vec<Span> = pinned.map(|&i| spans[i]).collect();
        self.rewrite(expr, |_| {
            emit::module_call(at, receiver, (&region, written), &pinned, operands, |callee, passed| {
                *whole.receiver = callee;
                for (&i, arg) in positions.iter().zip(passed) {
                    whole.args[i] = arg;
                }
                Expr::Verbatim(whole.into_token_stream())
            })
        });
        Value { flow: self.produce(site, false), ..Value::new(Prec::Unknown) }
    }
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
pub(super) fn castable(arg: &Expr, value: &Value) -> bool {
    !matches!(value.prec, Prec::Other | Prec::Never)
        && !matches!(arg, Expr::Closure(_) | Expr::Range(_) | Expr::Array(_))
}

/// Whether an argument is a number that meets the tensor's elements, not an axis or a size.
pub(super) fn judged(op: &str, value: &Value) -> bool {
    let float = |text: &str| text.contains(['.', 'e', 'E', ':']) && !text.starts_with("0x");
    matches!(op, "masked_fill" | "clamp" | "add" | "sub" | "mul" | "div")
        || value.constant.as_ref().is_some_and(|(text, _)| float(text))
}

/// `iter.sum()`: a fold of an iterator has no arguments, a sum of a tensor has.
fn is_iterator_fold(call: &ExprMethodCall) -> bool {
    call.args.is_empty() && (call.method == "sum" || call.method == "product")
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
