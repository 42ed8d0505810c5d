//! Calls of methods.

use super::methods::{
    ASKING, CHOOSING, CONVERTING, EXTENDING, FILLING, FOLDING, INFERRED, ITERATING, MAPPING, PUTTING, before,
    folds_f32, handing, hands_elements, is_iterator_fold, is_list, is_once, iterates, parameters,
};
use super::operation::is_tensor;
use super::path::made_without_type;
use super::protocol::trains;
use super::tail::may_differ;
use super::{Expect, Walker};
use crate::emit;
use crate::error::spanned;
use crate::flow::Slot;
use crate::lattice::{Prec, Value};
use crate::pin::Pin;
use crate::rules::{Found, Rule};
use crate::shape::Shape;
use proc_macro2::Ident;
use syn::{Expr, ExprMethodCall};

impl Walker<'_> {
    pub(super) fn method(&mut self, expr: &mut Expr) -> Value {
        let source = expr.clone();
        let Expr::MethodCall(call) = expr else { return Value::opaque() };
        let name = call.method.to_string();
        if name == "to" && self.rules.find("to").is_none_or(|found| !found.listed) {
            return match call.turbofish {
                Some(_) => self.explicit_cast(call, &source),
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

    /// A method that is no operation.
    pub(super) fn unlisted(&mut self, expr: &mut Expr, name: &str) -> Value {
        let Expr::MethodCall(call) = expr else { return Value::opaque() };
        let method = call.method.clone();
        let (value, from) = self.unknown(call, name);
        let receiver = (*call.receiver).clone();
        let is_self = matches!(&receiver, Expr::Path(path) if path.path.is_ident("self"));
        if is_self || from.prec == Prec::Other {
            return value;
        }
        if trains(name) {
            self.check_protocol(expr, (&receiver, is_tensor(&from)), &method);
        } else if emit::is_pure_place(&receiver) && self.cx.host && handing(name).is_none() && !INFERRED.contains(&name)
        {
            self.rewrite(expr, |call| emit::unlisted(&receiver, &method, call));
        }
        value
    }

    /// Walks a method call that stays as it is; gives its value and that of the receiver.
    pub(super) fn unknown(&mut self, call: &mut ExprMethodCall, name: &str) -> (Value, Value) {
        let collected = self.collected.take();
        self.collected = match &*call.receiver {
            Expr::MethodCall(_) => collected.clone().and_then(|expect| before(name, expect)),
            receiver => collected.clone().filter(|_| hands_elements(name, receiver)),
        };
        let puts = PUTTING.contains(&name) && call.args.len() == 1;
        let empty = self.empty_variable(&call.receiver).filter(|_| puts);
        let iterated = ITERATING.contains(&name) && iterates(&call.receiver);
        let items = if iterated { self.place(&call.receiver) } else { None };
        let mut value = self.filling(empty, |walker| walker.beginning(&mut call.receiver, call.dot_token.span));
        if matches!(collected, Some(Expect::Prec(Prec::F32))) && (CONVERTING.contains(&name) || name == "into_iter") {
            self.widen_held(&mut call.receiver, &mut value);
        }
        let item = Value { constants: Vec::new(), shape: Shape::Unknown, ..value.clone() };
        let mut closure = None;
        let mut args = Vec::new();
        let fills = FILLING.contains(&name);
        let growth = call.args.last().filter(|_| fills).and_then(|given| self.growth(given));
        let wanted = self.variable(&call.receiver).is_some_and(|var| self.is_wanted(var));
        let takes = fills && (wanted || value.is_surely(&Prec::F32));
        let extended = Some(Expect::of_value(&value)).filter(|expect| EXTENDING.contains(&name) && expect.wants_f32());
        let folded = FOLDING.contains(&name).then(|| self.unnamed());
        let choice = CHOOSING.contains(&name).then(|| self.unnamed());
        for arg in &mut call.args {
            match arg {
                Expr::Closure(inner) => {
                    let place = match &collected {
                        Some(expect) if MAPPING.contains(&name) => expect.clone(),
                        _ if folds_f32(name, &args) => Expect::Prec(Prec::F32),
                        _ if empty.or(choice).is_some_and(|var| self.chosen(var) == Some(Prec::F32)) => {
                            Expect::Prec(Prec::F32)
                        }
                        _ if MAPPING.contains(&name) || ITERATING.contains(&name) => Expect::Nothing,
                        // Who calls it says what it returns.
                        _ => Expect::Open,
                    };
                    let params = parameters(name, &args, &item);
                    closure = Some(match folded {
                        Some(var) => self.folding(var, inner, params, (place, items.as_ref())),
                        None if iterated => {
                            self.repeated(|walker| walker.closure_over(inner, &params, place, items.as_ref()))
                        }
                        None => self.closure_over(inner, &params, place, items.as_ref()),
                    });
                    if let (Some(var), Some(value)) = (choice, &closure) {
                        self.assign_var(var, value);
                    }
                }
                arg => {
                    let collects =
                        extended.is_some() && (is_list(arg) || is_once(arg) || matches!(arg, Expr::MethodCall(_)));
                    self.collected = extended.clone().filter(|_| collects);
                    let list = self.listed(arg);
                    let listed = list.is_some();
                    let mut given = list.unwrap_or_else(|| self.expr(arg));
                    match takes {
                        _ if listed => {}
                        _ if empty.or(choice).is_some_and(|var| self.fill(var, arg, &given)) => {}
                        false
                            if name == "push"
                                && growth.is_none()
                                && self.fill_grown(&call.receiver, arg, &mut given) => {}
                        true => self.widen_owned(arg, &mut given),
                        _ if name == "extend"
                            && !collects
                            && self.extend(&call.receiver, extended.as_ref(), arg, &mut given) => {}
                        false if name == "unwrap_or" => self.given_back(arg, &mut given),
                        false if let Some(var) = folded => self.begin_fold(var, arg, &mut given),
                        false => self.expected(arg, &mut given),
                    }
                    args.push(given);
                }
            }
        }
        if let (Some(var), Some(given)) = (empty, &closure) {
            self.put_into(var, given);
        }
        // What a method puts somewhere never had another type than it has.
        if let Some(var) = empty {
            self.scopes.vars[var].early = false;
        }
        if EXTENDING.contains(&name)
            && args.iter().all(|given| given.is_surely(&Prec::F32))
            && self.is_open(&call.receiver)
        {
            self.want(&call.receiver);
        }
        if (fills || EXTENDING.contains(&name))
            && let Some(given) = args.last()
        {
            self.mixed(&call.receiver, &value, given);
            self.put(&call.receiver, given);
        }
        if fills && let Some(given) = args.last() {
            self.filled(&call.receiver, &value, given, args.len());
            self.grows(&call.receiver, growth);
        }
        let instead = match name {
            "unwrap_or" => args.first(),
            "unwrap_or_else" => closure.as_ref().filter(|given| given.shape.gives()),
            _ => None,
        };
        if instead.is_some_and(|given| given.is_surely(&Prec::F32)) {
            self.widen_held(&mut call.receiver, &mut value);
        }
        let from = value.clone();
        if ASKING.contains(&name) {
            self.flows.ask(&value.flow);
        }
        let value = match name {
            // `let y: Tensor<F32> = x.to()?;` is pinned by its annotation.
            "to" if value.prec == Prec::F32 => Value { pinned: Pin::Kept, ..Value::inferred() },
            "to" => Value { pinned: Pin::Widened, ..Value::inferred() },
            _ if let Some(var) = folded.filter(|_| args.first().is_some_and(|init| init.prec.is_tensor())) => {
                let folded = if folds_f32(name, &args) { Value::sure(Prec::F32) } else { Value::new(Prec::Unknown) };
                Value { pinned: self.flows.pin_of(&Slot::of(var)), ..folded }
            }
            _ if let Some(var) = choice => match closure {
                Some(_) if self.chosen(var) == Some(Prec::F32) => Value::sure(Prec::F32),
                Some(given) if given.prec.is_tensor() => Value::new(Prec::Unknown),
                _ => Value::opaque(),
            },
            "into" if !value.constants.is_empty() => value,
            _ if MAPPING.contains(&name) => closure.unwrap_or_else(Value::opaque),
            "enumerate" => Value::tuple(vec![Value::other(), item]),
            "split_first" | "split_last" | "split_at" => Value::tuple(vec![item.clone(), item]),
            "zip" => Value::tuple(vec![item, args.pop().unwrap_or_else(Value::opaque)]),
            "tensor" => Value::new(Prec::F32),
            "unwrap_or" | "unwrap_or_else" => Value { constants: Vec::new(), shape: Shape::Unknown, ..value },
            _ if let Some(method) = handing(name) => match method.itself {
                true => Value { constants: Vec::new(), ..value },
                false => item,
            },
            _ if INFERRED.contains(&name) && call.turbofish.is_none() => {
                let prec = if value.prec.is_tensor() { value.prec } else { Prec::Opaque };
                Value { prec, pinned: value.pinned, ..Value::inferred() }
            }
            _ if INFERRED.contains(&name) => Value { inferred: false, ..item },
            _ => Value::opaque(),
        };
        let shape = from.shape.of_method(name);
        (value.shaped(shape), from)
    }

    /// Widens what a container is extended with: one that is known to hold F32, or whose type says so. Tells whether it did.
    fn extend(&self, place: &Expr, holds: Option<&Expect>, list: &mut Expr, value: &mut Value) -> bool {
        let asks = holds.is_none() && emit::is_pure_place(place) && !self.is_open(place);
        match holds {
            _ if !may_differ(value) || self.cx.host => return false,
            Some(Expect::Prec(Prec::F32)) => self.widen_held(list, value),
            None if asks => self.rewrite(list, |inner| emit::slot(place, inner)),
            _ => return false,
        }
        true
    }

    /// What a fold begins with is what a variable that its closure assigns to does.
    fn begin_fold(&mut self, var: usize, init: &mut Expr, value: &mut Value) {
        let open = value.prec == Prec::Opaque && !value.is_unsettled();
        let begins = Value { prec: if open { Prec::Unknown } else { value.prec.clone() }, ..value.clone() };
        self.scopes.vars[var].value = begins.clone();
        self.pin(&Slot::of(var), value);
        if self.chosen(var) == Some(Prec::F32) && value.parts.is_empty() {
            *value = begins;
            match made_without_type(init) && !self.cx.host {
                true => {
                    self.rewrite(init, emit::of_f32);
                    value.prec = Prec::F32;
                }
                false => self.widen_held(init, value),
            }
            // What branches joined at F32 is F32.
            value.sure |= value.prec == Prec::F32 && !self.cx.host;
            return;
        }
        if !value.sure {
            self.expected(init, value);
        }
    }

    /// Widens what an option or a result holds, by its type.
    fn widen_held(&self, expr: &mut Expr, value: &mut Value) {
        if may_differ(value) && !self.cx.host {
            let held = value.clone().shaped(Shape::Unknown);
            self.rewrite(expr, |inner| self.widened(inner, &held));
            (value.prec, value.sure) = (Prec::F32, true);
        }
    }

    /// Whether a variable is a container that was made empty and holds F32 where it leaves.
    fn is_wanted(&self, var: usize) -> bool {
        self.scopes.vars[var].open && self.chosen(var) == Some(Prec::F32)
    }

    /// What is F32 and put into a variable's container is assigned to it, as what it may have to be widened for.
    pub(super) fn mixed(&mut self, place: &Expr, container: &Value, given: &Value) {
        let joins = container.prec.is_tensor() && given.prec == Prec::F32 && given.parts.is_empty();
        if let Some(var) = self.variable(place).filter(|_| joins) {
            self.assign_var(var, given);
        }
    }

    /// What is put into a container that was made empty says what the container holds.
    fn filled(&mut self, place: &Expr, container: &Value, given: &Value, args: usize) {
        let Some(var) = self.variable(place).filter(|_| container.inferred && container.prec == Prec::Opaque) else {
            return;
        };
        let held = match &given.prec {
            Prec::F32 if given.is_surely(&Prec::F32) && given.shape.gives() && args == 1 => Value::sure(Prec::F32),
            Prec::F32 if self.is_wanted(var) || given.is_pinned() => Value::new(Prec::F32),
            Prec::Half(_) | Prec::Unknown if given.parts.is_empty() && given.shape != Shape::Pointer => {
                Value::new(Prec::Unknown)
            }
            _ => return,
        };
        self.scopes.vars[var].value = held;
    }
}
