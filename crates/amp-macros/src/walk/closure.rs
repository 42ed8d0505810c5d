//! Closures.

use super::methods::{CHOOSING, ONE_BY_ONE, names_handing};
use super::redeclared::begin_with;
use super::tail::{holds_narrow, may_differ};
use super::tupled::held_of;
use super::{Expect, Walker};
use crate::emit;
use crate::flow::Slot;
use crate::given::given;
use crate::hoist::Step;
use crate::lattice::{Prec, Value};
use crate::place::Place;
use crate::scope::Hold;
use crate::shape::Shape;
use std::rc::Rc;
use syn::{Expr, ExprClosure, ReturnType};

/// What is known about who a closure is given to.
#[derive(Clone, Default)]
pub(super) struct Given<'p> {
    /// Where its result goes.
    pub(super) place: Expect,
    /// The place that its last parameter is an item of.
    pub(super) items: Option<&'p Rc<Place>>,
    /// What its first parameter refers to, and changes from call to call.
    pub(super) state: Option<Rc<Place>>,
    /// Its last parameter is an item of what is shared.
    pub(super) shared: bool,
    /// They may keep it for longer than what is made in the block around it lives.
    pub(super) kept: bool,
}

impl Walker<'_> {
    /// Walks the closure that a variable holds: who calls it comes later, and with it the types of its parameters. It
    /// may be given to somebody who keeps it.
    ///
    /// The variable stands for what calls of the closure give; the second value is what is known of that.
    pub(super) fn closure_variable(&mut self, closure: &mut ExprClosure, given: bool) -> (Value, Value) {
        let params = vec![Value::late(); closure.inputs.len()];
        let gives = self.closure_over(closure, &params, Given { kept: given, ..Given::default() });
        let known = if gives.by_name { Value::opaque() } else { held_of(&gives) };
        (Value { flow: gives.flow, pinned: gives.pinned, ..Value::other() }, known)
    }

    /// Walks what a closure that a variable holds is called with: each of its parameters has one type in all of its calls.
    pub(super) fn given_to_closure<'e>(&mut self, var: usize, args: impl Iterator<Item = &'e mut Expr>) -> Vec<Value> {
        let chosen = match self.chosen_elements(var) {
            Some(Expect::Tuple(parameters)) => parameters,
            _ => Vec::new(),
        };
        let walked = args.enumerate().map(|(i, arg)| match chosen.get(i) {
            Some(Expect::Prec(_)) => self.widened_argument(arg),
            _ => self.argument(arg),
        });
        let values: Vec<Value> = walked.collect();
        self.scopes.vars[var].called_with(&values);
        values
    }

    /// Walks what somebody's own function is called with; tells whether it may give back what closures among that give.
    pub(super) fn given_to_function<'e>(&mut self, args: impl Iterator<Item = &'e mut Expr>) -> (Vec<Value>, bool) {
        let mut given_back = false;
        let walked = args.map(|arg| match arg {
            Expr::Closure(closure) => {
                given_back |= holds_narrow(&self.closure_into(closure, Expect::Open));
                Value::other()
            }
            arg => self.argument(arg),
        });
        (walked.collect(), given_back)
    }

    /// Walks an argument and widens it; its value is what it was.
    fn widened_argument(&mut self, arg: &mut Expr) -> Value {
        let value = self.expr(arg);
        let target = self.target(&Prec::F32);
        match value.shape {
            _ if !may_differ(&value) || self.cx.host => {}
            Shape::Pointer => self.rewrite(arg, |lent| emit::lent_cast(&lent, &target)),
            Shape::Unknown => self.expected(arg, &mut value.clone()),
            _ => self.rewrite(arg, |arg| self.widened(arg, &value)),
        }
        value
    }

    /// A function of one's own that is named where a closure could stand is called as by a closure, `|x| wide(x)`: what it is
    /// given may have to be cast.
    pub(super) fn write_out(&self, method: &str, item: &Value, function: &mut Expr) {
        let named = matches!(function, Expr::Path(_)) && !names_handing(function) && self.variable(function).is_none();
        if named && (ONE_BY_ONE.contains(&method) || CHOOSING.contains(&method)) && holds_narrow(item) {
            *function = emit::calling(function);
        }
    }

    /// Walks a closure that is given to somebody who may keep it, and whose result goes to a place of this kind, if it
    /// declares none itself; gives the value of its body, which whoever calls it uses.
    pub(super) fn closure_into(&mut self, closure: &mut ExprClosure, place: Expect) -> Value {
        self.closure_over(closure, &[], Given { place, kept: true, ..Given::default() })
    }

    /// Walks the closure of a fold, where this variable stands for what has been folded so far.
    pub(super) fn folding(
        &mut self,
        var: usize,
        closure: &mut ExprClosure,
        mut params: Vec<Value>,
        given: Given<'_>,
    ) -> Value {
        self.repeated(|walker| {
            params.iter_mut().take(1).for_each(|so_far| so_far.pinned = walker.flows.pin_of(&Slot::of(var)));
            let result = walker.closure_over(closure, &params, given.clone());
            walker.assign_var(var, &result);
            walker.pin(&Slot::of(var), &result);
            result
        })
    }

    /// What a fold begins with is what a variable that its closure assigns to does.
    pub(super) fn begin_fold(&mut self, var: usize, init: &mut Expr, value: &mut Value) {
        let open = value.prec == Prec::Opaque && !value.is_unsettled();
        let begins = Value { prec: if open { Prec::Unknown } else { value.prec.clone() }, ..value.clone() };
        self.scopes.vars[var].value = begins.clone();
        self.pin(&Slot::of(var), value);
        if self.chosen(var) == Some(Prec::F32) && value.parts.is_empty() {
            *value = begins;
            match value.made && !self.cx.host {
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
        if let Some(elements) = self.chosen_elements(var) {
            self.widen_elements(init, value, &elements);
        }
        if !value.sure {
            self.expected(init, value);
        }
    }

    /// Walks a closure that is called with these values.
    pub(super) fn closure_over(&mut self, closure: &mut ExprClosure, params: &[Value], given_to: Given<'_>) -> Value {
        let Given { place, items, state, shared, kept } = given_to;
        let node = self.fresh_id();
        let owns = kept || closure.capture.is_some() || closure.asyncness.is_some();
        self.steps.push(if owns { Step::Barrier(node) } else { Step::Closure(node) });
        let given = given(&closure.body);
        let given = given.iter().filter_map(|name| self.scopes.find(name));
        let given = given.filter(|&var| self.scopes.vars[var].hold != Hold::Shared);
        self.givers.extend(given.map(|var| (node, var)));
        let mark = self.scopes.enter();
        let (count, mut again) = (closure.inputs.len(), Vec::new());
        for (i, pat) in closure.inputs.iter_mut().enumerate() {
            let first = self.scopes.vars.len();
            self.bind_parameter(pat, params.get(i));
            let last = i + 1 == count;
            self.taken_out_of(last && shared, first);
            self.made_of(pat, items.filter(|_| last).map(|items| items.item()).as_ref());
            self.made_of(pat, state.as_ref().filter(|_| i == 0));
            // What the body makes of it may be all that says its type.
            if params.get(i).is_none_or(|given| !given.late) {
                again.extend(self.redeclared(first, &mut [pat]));
            }
        }
        let expect = match &closure.output {
            ReturnType::Default => place,
            output => match Expect::of_return(output, self.cx.param.as_deref()) {
                // `-> Result<_>` leaves it to the place.
                Expect::Nothing => place,
                declared => declared,
            },
        };
        let value = self.closure_body(&mut closure.body, &expect);
        begin_with(again, &mut closure.body);
        self.scopes.leave(mark);
        self.steps.pop();
        // Whoever calls the closure gets the value.
        value
    }
}
