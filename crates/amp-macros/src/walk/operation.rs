//! Calls that have a rule: what their operands are cast to, what they give, and their row of the plan.

use super::Walker;
use super::cast::{Goal, as_written};
use super::closure::Given;
use super::made::settled;
use super::methods::{INFERRED, gives_what_is_asked};
use super::tail::may_differ;
use crate::emit::{self, AsWritten, Joint};
use crate::flow::{Flow, Site, Writer};
use crate::lattice::{Prec, Value};
use crate::literal;
use crate::pin::Pin;
use crate::plan::Row;
use crate::rules::{Found, Rule};
use crate::shape::Shape;
use proc_macro2::Ident;
use quote::ToTokens;
use std::rc::Rc;
use syn::{Expr, ExprMethodCall, Path};

/// Operations whose result is no tensor that autocast casts.
const NO_FLOAT: &[&str] = &[
    "argmax", "argmin", "argsort", "eq", "ne", "lt", "le", "gt", "ge", "equal", "isnan", "isinf", "isfinite",
    "isclose", "allclose", "one_hot", "nonzero", "all", "any", "item", "to_vec",
];
/// Operations whose first number is a chance, or what elements are only held against.
const MEETS_NO_ELEMENT: &[&str] = &["dropout", "alpha_dropout", "threshold", "hardshrink"];
/// Operations that return a tensor and something besides.
const PAIRS: &[&str] = &[
    "sort",
    "topk",
    "kthvalue",
    "slogdet",
    "unique_with_counts",
    "batch_norm_train",
    "max_pool1d_with_indices",
    "max_pool2d_with_indices",
    "max_pool3d_with_indices",
    "fractional_max_pool2d_with",
    "fractional_max_pool3d_with",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d_with_indices",
];
/// A call whose operation has a rule, its operands walked.
pub(super) struct Called<'a> {
    pub(super) name: &'a str,
    pub(super) found: Found,
    /// The receiver, if it is a method's, and the arguments.
    pub(super) values: Vec<Value>,
    /// Which of them are its tensors.
    pub(super) tensors: Vec<usize>,
    pub(super) site: Site,
    pub(super) form: Form,
    /// It certainly narrows its tensors, if that is its rule.
    pub(super) sure: bool,
}

/// How an operation is called.
pub(super) enum Form {
    /// As a method or an associated function of a tensor.
    Method,
    /// As a function of the Rust module that its path names; it may be somebody's own.
    Function(Rc<Path>),
    /// By the bare name of a function, which is asked whether it is somebody's own.
    Bare,
    /// By another path.
    Path,
}

impl Form {
    fn module(&self) -> Option<&Rc<Path>> {
        match self {
            Self::Function(module) => Some(module),
            Self::Method | Self::Bare | Self::Path => None,
        }
    }
}

impl Called<'_> {
    /// The tensor that the operation is named after.
    fn first(&self) -> &Value {
        &self.values[self.tensors.first().copied().unwrap_or(0)]
    }

    fn inputs(&self) -> Vec<&Value> {
        self.tensors.iter().map(|&i| &self.values[i]).collect()
    }

    /// What it gives.
    fn result(&self, lower: &Prec) -> Value {
        let first = self.first();
        let sure = first.sure && first.prec.is_tensor();
        let result = match self.found.rule {
            Rule::Lower | Rule::ForceLower => Value { sure, ..Value::new(lower.clone()) },
            Rule::Full => Value { sure, ..Value::new(Prec::F32) },
            Rule::Widest => self.met(),
            // A method was found on it, so its type is known by now.
            Rule::Keep => {
                // A tuple has no other of these methods, and of a number they give another.
                let (parts, constants) = match self.name {
                    "clone" => (first.parts.clone(), first.constants.clone()),
                    _ => Default::default(),
                };
                Value { constants, inferred: false, parts, ..first.clone() }
            }
            Rule::Skip | Rule::Banned => Value::opaque(),
        };
        let shape = if self.found.listed { Shape::Unknown } else { Shape::of_operation(self.name) };
        let by_name = matches!(self.form, Form::Method) && !is_tensor(first);
        let result = Value { by_name, ..result.shaped(shape) };
        match self.name {
            name if INFERRED.contains(&name) && first.prec == Prec::Opaque => Value::inferred(),
            // Of a list it makes another list.
            "to_vec" if !is_tensor(first) => Value::opaque(),
            name if NO_FLOAT.contains(&name) => Value::other(),
            name if PAIRS.contains(&name) => Value::tuple(vec![result, Value::other()]),
            _ => result,
        }
    }

    /// What tensors give that meet at the widest of them.
    fn met(&self) -> Value {
        let inputs = self.inputs();
        let prec = inputs.iter().fold(Prec::Other, |all, value| all.widest(&value.prec));
        let sure = inputs.iter().all(|value| value.sure || value.prec == Prec::Other);
        let alone = inputs.iter().filter(|value| value.prec != Prec::Other).count() == 1;
        Value {
            sure: sure && prec.is_known(),
            pinned: if alone { self.first().pinned } else { Pin::No },
            made: alone && self.first().made,
            ..Value::new(prec)
        }
    }

    /// What its tensors are cast to.
    fn goal(&self, lower: Prec) -> Option<Goal> {
        let inputs = self.inputs();
        let differs = |prec: &Prec| inputs.iter().any(|value| !value.is_surely(prec));
        match self.found.rule {
            Rule::Lower => differs(&lower).then_some(Goal::To(lower)),
            Rule::Full => differs(&Prec::F32).then_some(Goal::To(Prec::F32)),
            Rule::ForceLower => Some(Goal::Through(lower)),
            Rule::Widest => {
                let some: Vec<&Value> = inputs.into_iter().filter(|value| value.prec != Prec::Other).collect();
                let agree = some.iter().all(|value| value.sure && value.prec == some[0].prec);
                // F32 is where everything meets it; of what is known late, the others are not told by its type.
                let late = some.iter().any(|value| value.is_late_f32());
                let goal = if late { Goal::To(Prec::F32) } else { Goal::Meet };
                (some.len() > 1 && !agree).then_some(goal)
            }
            _ => None,
        }
    }
}

impl Walker<'_> {
    /// A call whose operation has a rule.
    pub(super) fn operation(&mut self, expr: &mut Expr, source: &Expr, name: &str, found: Found) -> Value {
        let Expr::MethodCall(call) = expr else { return Value::opaque() };
        let site = self.site();
        let kept = !self.consumed;
        let mut values = vec![self.global(&mut call.receiver)];
        let item = values[0].clone().shaped(Shape::Unknown);
        let own = self.may_be_own(&values[0]);
        for arg in &mut call.args {
            values.push(match arg {
                Expr::Closure(inner) => {
                    drop(self.closure_over(inner, std::slice::from_ref(&item), Given { kept, ..Given::default() }));
                    Value::other()
                }
                arg => match own.then(|| self.listed(arg)).flatten() {
                    Some(list) => list,
                    None => self.expr(arg),
                },
            });
        }
        let by_receiver = found.tensors.is_none_or(|positions| positions.contains(&0));
        if by_receiver && values[0].prec == Prec::Other {
            let others: Vec<&Value> =
                tensor_positions(&found, &values, source).iter().skip(1).map(|&i| &values[i]).collect();
            if amp_policy::find(name).is_some_and(|op| op.implemented) && !found.listed {
                self.check_apart(&values[0], &others, as_written(source, 0), name);
            }
            let keeps = found.rule == Rule::Keep && !found.listed;
            return if keeps || NO_FLOAT.contains(&name) { Value::other() } else { Value::opaque() };
        }
        let tensors = tensor_positions(&found, &values, source);
        for &i in &settled(&found, &values, &tensors) {
            let operand = if i == 0 { &mut *call.receiver } else { &mut call.args[i - 1] };
            self.settle(operand, &mut values[i], i == 0);
        }
        let judge = if by_receiver { 0 } else { tensors.first().copied().unwrap_or(0) };
        let receiver_prec = self.runs_in(&found, &values[judge]);
        for (i, (arg, value)) in call.args.iter_mut().zip(&values[1..]).enumerate() {
            if judged(name, i + 1, value) {
                self.check_constant(arg, value, &receiver_prec, name);
            }
        }
        // What is skipped may be a method of something else, which takes no number.
        if !matches!(found.rule, Rule::Full | Rule::Skip) {
            self.ask_tensor(call, judge, &values, name);
        }
        let tensor = values[0].prec.is_tensor();
        let called = Called { name, found, values, tensors, site, form: Form::Method, sure: !by_receiver || tensor };
        let (result, goal) = self.carry_out(&called, source, &call.method);
        self.cast_operands_of(expr, &called, goal, source);
        if found.rule == Rule::ForceLower {
            let target = self.target(&self.lower());
            self.rewrite(expr, |inner| emit::recast(inner, &target));
        }
        result
    }

    /// Casts the operands of a method; a method of the user's own takes in F32 what it declares so.
    fn cast_operands_of(&mut self, expr: &mut Expr, called: &Called<'_>, goal: Option<Goal>, source: &Expr) {
        let Expr::MethodCall(call) = expr else { return };
        let (values, tensors) = (&called.values, &called.tensors);
        let by_receiver = called.found.tensors.is_none_or(|positions| positions.contains(&0));
        let own = self.may_be_own(&values[0]);
        let lend = |walker: &Self, i: usize, mut arg: Expr| {
            if own {
                walker.expected(&mut arg, &mut values[i].clone());
            }
            arg
        };
        let others = (1..values.len()).filter(|i| !tensors.contains(i));
        let taken = goal.and_then(|goal| Some((self.take_operands(call, values, tensors, &goal, source)?, goal)));
        let Some((mut operands, goal)) = taken else {
            return others.for_each(|i| call.args[i - 1] = lend(self, i, call.args[i - 1].clone()));
        };
        let end = call.paren_token.span.join();
        let asks = if by_receiver { self.asks_of(&operands[0], &values[0]) } else { None };
        let open =
            asks.and_then(|asks| AsWritten::of(asks, call, &mut operands, tensors, &|i, arg| lend(self, i, arg)));
        if open.is_some()
            && let (Some(tally), Some(row)) = (operands[0].tally.take(), self.rows.last_mut())
        {
            row.make_certain(&tally);
        }
        others.for_each(|i| call.args[i - 1] = lend(self, i, call.args[i - 1].clone()));
        let (at, whole) = (call.method.span(), call.clone());
        // An operation of the user's may be a method of what is no tensor.
        let known = values[0].sure && values[0].prec.is_tensor();
        let joint = self.joint(goal, by_receiver && called.found.tensors.is_some() && !known);
        let lent: Vec<usize> = tensors.iter().copied().filter(|&i| own && i > 0 && may_differ(&values[i])).collect();
        self.rewrite(expr, |_| {
            emit::call((emit::ends(source).0, at, end), operands, joint, open, |passed| {
                rebuilt(whole, (tensors, &lent), passed)
            })
        });
    }

    /// Whether a method of this receiver may be one of the user's own that is called as an operation is.
    fn may_be_own(&self, receiver: &Value) -> bool {
        receiver.prec == Prec::Opaque && !self.cx.host
    }

    /// Judges the constants among the arguments by the type of operand `judge`, where that alone tells its precision.
    fn ask_tensor(&self, call: &mut ExprMethodCall, judge: usize, values: &[Value], name: &str) {
        if !values[judge].precision_is_open() {
            return;
        }
        for (i, value) in values.iter().enumerate().skip(1).filter(|(i, _)| *i != judge) {
            let arg = &call.args[i - 1];
            let doubt = self.doubtful(&values[judge], (arg, value), name);
            let Some(doubt) = doubt.filter(|_| judged(name, i, value)) else { continue };
            let tensor = if judge == 0 { &mut *call.receiver } else { &mut call.args[judge - 1] };
            match emit::is_pure_place(emit::unreferenced(tensor)) {
                true => {
                    let place = emit::unreferenced(tensor).clone();
                    self.rewrite(&mut call.args[i - 1], |constant| emit::beside(&place, &doubt, &constant));
                }
                false => self.rewrite(tensor, |inner| emit::holding(inner, &doubt)),
            }
        }
    }

    /// What a call gives and what its tensors are cast to; its row of the plan is written and its uses are settled.
    pub(super) fn carry_out(&mut self, called: &Called<'_>, source: &Expr, at: &Ident) -> (Value, Option<Goal>) {
        let lower = self.lower();
        let result = called.result(&lower);
        let written = self.written(called.site, called.form.module());
        let tensor = result.parts.first().unwrap_or(&result);
        self.record(called, source, at, &tensor.prec, written.is_some());
        let goal = match written {
            Some(written) => Some(Goal::Write(written)),
            None => called.goal(lower),
        };
        let flow = self.flow(called);
        (result.made_by(flow), goal)
    }

    /// The precision an operation computes in, for judging constants.
    pub(super) fn runs_in(&self, found: &Found, receiver: &Value) -> Prec {
        match found.rule {
            Rule::Lower => self.lower(),
            Rule::Full | Rule::ForceLower => Prec::F32,
            _ => receiver.prec.clone(),
        }
    }

    /// What becomes of the uses that went into an operation; gives the use that its result is.
    fn flow(&mut self, called: &Called<'_>) -> Flow {
        let Called { found, values, tensors, form, .. } = called;
        // A function is asked whose it is, where its module can be named.
        let known = matches!(form, Form::Method | Form::Function(_));
        match found.rule {
            Rule::Lower if called.sure => self.narrowed(tensors.iter().map(|&i| &values[i])),
            Rule::Keep if known && found.commutes && tensors == &[0] => {
                let (half, first) = (self.lower(), &values[0]);
                let exact = !found.direct || half == Prec::Half("BF16".into());
                if exact && !(found.direct && first.flow.is_empty()) {
                    return self.flows.pass(&first.flow, form.module());
                }
                // What is narrow already is given as it is.
                let wide = !matches!(first.prec, Prec::Half(_));
                if first.prec == Prec::F32 || wide && !first.flow.is_empty() {
                    let keeps = called.name == "relu";
                    return self.produce(called.site, if keeps { Writer::Keeping } else { Writer::Operation });
                }
            }
            Rule::Full if (known || matches!(form, Form::Bare)) && found.direct && tensors.first() == Some(&0) => {
                return self.produce(called.site, Writer::Operation);
            }
            _ => {}
        }
        Flow::default()
    }

    /// How the operands of a call are cast together; they may stay as they are if the call is `gate`d.
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
    fn record(&mut self, called: &Called<'_>, source: &Expr, at: &Ident, output: &Prec, narrow: bool) {
        let rule = called.found.rule;
        if rule == Rule::Skip {
            return;
        }
        let inputs = called.inputs();
        let row = Row::new(called.name, rule.name(), source, &inputs, output).at(at.span());
        let row = match rule {
            Rule::Lower | Rule::ForceLower => row.with_target(&inputs, &self.lower()),
            Rule::Full if narrow => row.with_target(&inputs, &Prec::F32).writing(&self.lower()),
            Rule::Full => row.with_target(&inputs, &Prec::F32),
            Rule::Widest => row.with_meeting(&inputs),
            Rule::Keep if narrow => row.writing(&self.lower()),
            _ => row,
        };
        self.rows.push(row);
    }
}

/// Whether more than the name of a method says that a value is a tensor.
pub(super) fn is_tensor(value: &Value) -> bool {
    value.prec.is_tensor() && value.shape.lends() && (value.sure || !value.by_name)
}

fn tensor_positions(found: &Found, values: &[Value], source: &Expr) -> Vec<usize> {
    let castable = |i: &usize| {
        *i == 0
            || !matches!(values[*i].prec, Prec::Other | Prec::Never) && !is_asked(as_written(source, *i), &values[*i])
    };
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
        && !lends_elements(arg)
        && !is_asked(arg, value)
}

/// Whether an argument is a list of references as it is written: what is widened for one lives as long as the list.
pub(super) fn lends_elements(arg: &Expr) -> bool {
    let Expr::Reference(list) = arg else { return false };
    matches!(&*list.expr, Expr::Array(list) if list.elems.iter().any(|elem| matches!(elem, Expr::Reference(_))))
}

/// Whether an expression, as it is written, has whatever type is asked of it: `name.into()`, `Default::default()`.
pub(super) fn is_asked(expr: &Expr, value: &Value) -> bool {
    value.inferred && value.prec == Prec::Opaque && gives_what_is_asked(expr)
}

/// Whether an argument is a number that meets the tensor's elements, not an axis or a size.
pub(super) fn judged(op: &str, i: usize, value: &Value) -> bool {
    // What a comparison holds a tensor against is not rounded.
    let meets_elements = !NO_FLOAT.contains(&op) && (i != 1 || !MEETS_NO_ELEMENT.contains(&op));
    meets_elements
        && (matches!(op, "masked_fill" | "where_" | "add" | "sub" | "mul" | "div" | "maximum" | "minimum")
            || op.starts_with("clamp")
            || op == "pad" && i == 2
            || value.constants.iter().any(|(text, _)| literal::is_float(text)))
}

/// The call with its operands in it; what a method of the user's own may take in F32 is `lent`.
fn rebuilt(mut call: ExprMethodCall, (tensors, lent): (&[usize], &[usize]), passed: Vec<Expr>) -> Expr {
    for (&i, expr) in tensors.iter().zip(passed) {
        match i {
            0 => *call.receiver = expr,
            i if lent.contains(&i) => call.args[i - 1] = emit::expected_reference(expr),
            i => call.args[i - 1] = expr,
        }
    }
    Expr::Verbatim(call.into_token_stream())
}
