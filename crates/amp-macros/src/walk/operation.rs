//! Walks calls that have a rule: casts their operands, judges their constants and writes their row of the plan.

use super::Walker;
use super::called::{Called, Form, gives_no_float, judged, judging, tensor_positions};
use super::cast::{Goal, as_written};
use super::closure::Given;
use super::made::settled;
use super::tail::may_differ;
use crate::emit::{self, AsWritten, Joint};
use crate::flow::{Flow, Writer};
use crate::lattice::{Prec, Value};
use crate::literal::Doubt;
use crate::plan::Row;
use crate::rules::{Found, Rule};
use crate::shape::Shape;
use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::{Expr, ExprMethodCall};

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
            return if keeps || gives_no_float(name) { Value::other() } else { Value::opaque() };
        }
        let tensors = tensor_positions(&found, &values, source);
        for &i in &settled(&found, &values, &tensors) {
            let operand = if i == 0 { &mut *call.receiver } else { &mut call.args[i - 1] };
            self.settle(operand, &mut values[i], i == 0);
        }
        self.judge_arguments(call, &found, (&values, &tensors), name);
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

    /// Judges the constants among the arguments.
    fn judge_arguments(
        &mut self,
        call: &mut ExprMethodCall,
        found: &Found,
        (values, tensors): (&[Value], &[usize]),
        name: &str,
    ) {
        let Some(judge) = judging(name, values, tensors) else { return };
        let lowers = found.rule == Rule::Lower && !self.cx.host;
        // Where the operation is a method of somebody's own, the type of the receiver tells.
        let prec = match lowers && values[judge].prec == Prec::Opaque && values[judge].precision_is_open() {
            true => Prec::Opaque,
            false => self.runs_in(found, &values[judge]),
        };
        for (i, (arg, value)) in call.args.iter_mut().zip(&values[1..]).enumerate() {
            if judged(name, i + 1, value) {
                self.check_constant(arg, value, &prec, name);
            }
        }
        // What is skipped may be a method of something else, which takes no number.
        if !matches!(found.rule, Rule::Full | Rule::Skip) {
            let target = lowers.then(|| self.target(&self.lower()));
            self.ask_tensor(call, (judge, target), values, name);
        }
    }

    /// Judges the constants among the arguments by the type of operand `judge`, where that alone tells its precision, or by the
    /// `target` that it is cast to if it is a tensor.
    fn ask_tensor(
        &self,
        call: &mut ExprMethodCall,
        (judge, target): (usize, Option<TokenStream>),
        values: &[Value],
        name: &str,
    ) {
        if !values[judge].precision_is_open() {
            return;
        }
        for (i, value) in values.iter().enumerate().skip(1).filter(|(i, _)| *i != judge) {
            let arg = &call.args[i - 1];
            let doubt = self.doubtful(&values[judge], (arg, value), name);
            let Some(doubt) = doubt.filter(|_| judged(name, i, value)) else { continue };
            let doubt = Doubt { target: target.clone(), ..doubt };
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
            Some(written) => Some(Goal::Write(written, called.found.rule == Rule::Keep)),
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
            Goal::Write(written, keeps) => {
                let lower = self.target(&self.lower());
                Joint::Write { condition: written.condition(&lower), lower, keeps }
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
