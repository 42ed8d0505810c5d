//! Calls of methods that are no operations: what goes into them, what they keep, and what those of `std` give.

use super::called::is_tensor;
use super::closure::Given;
use super::methods::{
    ASKING, CHOOSING, CONVERTING, EXTENDING, FILLING, FOLDING, INFERRED, ITERATING, MAPPING, PUTTING, before,
    calls_function, changes, collects, container, folds_f32, handing, hands_elements, is_list, is_made_here, iterates,
    makes_value, names_handing, parameters, reads,
};
use super::protocol::trains;
use super::tail::holds_narrow;
use super::tupled::call_functions;
use super::{Expect, Growth, Walker};
use crate::emit;
use crate::flow::Slot;
use crate::lattice::{Prec, Value};
use crate::place::Place;
use crate::shape::Shape;
use std::rc::Rc;
use syn::{Expr, ExprClosure, ExprMethodCall, GenericArgument, Pat, Type};

/// A call as far as it is walked.
struct Unlisted<'m> {
    name: &'m str,
    /// What is known about the receiver, and about what it holds.
    value: Value,
    item: Value,
    /// What is declared of the place that it collects into.
    collected: Option<Expect>,
    /// The variable that starts as `None`, or as a list of it, and that something is put into.
    empty: Option<usize>,
    /// Whether closures are called with what the receiver's iterator gives, and of which place that is.
    iterated: bool,
    items: Option<Rc<Place>>,
    /// What it gives its closures is shared.
    shared: bool,
    /// The closures may be kept by what the method gives.
    kept: bool,
    /// The method that makes what a list grows by.
    growth: Option<Growth>,
    /// Whether what goes into the receiver goes to F32.
    takes: bool,
    /// Whether the last argument makes a value, which is no reference then.
    makes: bool,
    /// The last argument is what a function gives.
    asks: bool,
    /// The last argument is the name of a function that hands on what it is given: `Result::ok`.
    hands: bool,
    /// Which elements of the last argument, a tuple, are.
    asked: Vec<bool>,
    /// Whether the elements of another container go into the receiver.
    extends: bool,
    /// What a container that is extended is known to hold.
    extended: Option<Expect>,
    /// The variable that stands for what has been folded so far, or for the state of a scan.
    folded: Option<usize>,
    /// The variable that stands for one of what two arguments make.
    choice: Option<usize>,
    /// What the last closure gives.
    closure: Option<Value>,
    /// What the other arguments are.
    args: Vec<Value>,
}

impl Unlisted<'_> {
    fn fills(&self) -> bool {
        FILLING.contains(&self.name)
    }

    fn maps(&self) -> bool {
        MAPPING.contains(&self.name)
    }
}

impl Walker<'_> {
    /// A method that is no operation.
    pub(super) fn unlisted(&mut self, expr: &mut Expr, name: &str) -> Value {
        if let Some(chained) = self.chain(expr) {
            return chained;
        }
        let Expr::MethodCall(call) = expr else { return Value::opaque() };
        let method = call.method.clone();
        let loaded = self.loaded(call);
        let (value, from) = self.unknown(call, name);
        if let Some(loaded) = loaded {
            self.check_load(expr, &loaded, &method);
            return value;
        }
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
        let mut walked = self.called_on(call, name);
        let last = call.args.len().saturating_sub(1);
        for (i, arg) in call.args.iter_mut().enumerate() {
            // What `map_or` gives instead is called with nothing.
            if i == last || !CHOOSING.contains(&name) {
                self.write_out(name, &walked.item, arg);
            }
            match arg {
                Expr::Closure(closure) => self.calls(&mut walked, closure),
                arg => self.takes(&mut walked, container(&call.receiver), arg),
            }
        }
        self.keeps(&mut walked, &mut call.receiver);
        let from = walked.value.clone();
        if ASKING.contains(&name) {
            self.flows.ask(&walked.value.flow);
        }
        let shape = from.shape.of_method(name);
        (self.given_by(walked, call.turbofish.is_some()).shaped(shape), from)
    }

    /// Walks the receiver.
    fn called_on<'m>(&mut self, call: &mut ExprMethodCall, name: &'m str) -> Unlisted<'m> {
        let (asked, kept) = (self.collected.take(), !self.consumed);
        let collected = self.named_container(call, name).or(asked);
        self.collected = match &*call.receiver {
            Expr::MethodCall(_) => collected.clone().and_then(|expect| before(name, expect)),
            receiver if name == "into_iter" && collects(receiver) => collected.clone(),
            receiver => collected.clone().filter(|_| hands_elements(name, receiver)),
        };
        let puts = PUTTING.contains(&name) && call.args.len() == 1;
        let empty = self.empty_variable(&call.receiver).filter(|_| puts);
        let iterated = ITERATING.contains(&name) && iterates(&call.receiver);
        let items = if iterated { self.place(&call.receiver) } else { None };
        let shared = iterated && self.is_shared(&call.receiver);
        let mut value = self.filling(empty, |walker| walker.beginning(&mut call.receiver, call.dot_token.span));
        if CONVERTING.contains(&name) || name == "into_iter" {
            self.widen_converted(&mut call.receiver, &mut value, collected.as_ref());
        }
        if name == "sum" {
            self.widen_summands(&mut call.receiver, &mut value, collected.as_ref());
        }
        if matches!(name, "collect" | "try_collect" | "partition") {
            let elements = collected.clone().and_then(|expect| before(name, expect));
            self.widen_collected(&mut call.receiver, &mut value, elements.as_ref());
        }
        let fills = FILLING.contains(&name);
        let into = self.variable(container(&call.receiver));
        if let (Some(var), Expr::MethodCall(_), true) = (into, &*call.receiver, fills) {
            value = self.known(var);
        }
        // One's own may take several.
        let extends = EXTENDING.contains(&name) && call.args.len() == 1;
        let wanted = into.is_some_and(|var| self.is_wanted(var));
        let holds = Some(Expect::of_value(&value)).filter(Expect::wants_f32);
        let holds = holds.or_else(|| wanted.then_some(Expect::Prec(Prec::F32)));
        Unlisted {
            name,
            item: item_of(&value, name),
            collected: collected.clone(),
            empty,
            iterated,
            items,
            shared,
            kept,
            growth: call.args.last().filter(|_| fills).and_then(|given| self.growth(given)),
            makes: call.args.last().is_some_and(makes_value),
            asks: call.args.last().is_some_and(calls_function),
            hands: call.args.last().is_some_and(names_handing),
            asked: call.args.last().map(call_functions).unwrap_or_default(),
            takes: fills && (wanted || value.is_surely(&Prec::F32)),
            extends,
            extended: match name {
                // What stands behind an iterator goes where that is collected.
                "chain" => collected.clone(),
                _ => holds.filter(|_| extends),
            },
            folded: (FOLDING.contains(&name) || name == "scan").then(|| self.unnamed()),
            choice: CHOOSING.contains(&name).then(|| self.unnamed()),
            closure: None,
            args: Vec::new(),
            value,
        }
    }

    /// What the type that a collection or a sum is written with, `collect::<Vec<Tensor<F32>>>()`, expects of its elements.
    fn named_container(&self, call: &ExprMethodCall, name: &str) -> Option<Expect> {
        let written = call.turbofish.as_ref().filter(|_| matches!(name, "collect" | "try_collect" | "sum"))?;
        let GenericArgument::Type(ty) = written.args.first()? else { return None };
        Some(Expect::of_type(ty, self.cx.param.as_deref())).filter(Expect::wants_f32)
    }

    /// Walks a closure that the method calls.
    fn calls(&mut self, call: &mut Unlisted, closure: &mut ExprClosure) {
        let joins = |walker: &Self, var| walker.chosen(var) == Some(Prec::F32);
        let place = match &call.collected {
            Some(expect) if call.maps() => expect.clone(),
            _ if folds_f32(call.name, &call.args) => Expect::Prec(Prec::F32),
            _ if call.folded.is_some()
                && let Some(ty) = declared_state(call.name, closure) =>
            {
                Expect::of_type(ty, self.cx.param.as_deref())
            }
            _ if let Some(elements) = call.folded.and_then(|var| self.chosen_elements(var)) => elements,
            _ if call.empty.or(call.choice).is_some_and(|var| joins(self, var)) => Expect::Prec(Prec::F32),
            _ if call.maps() || ITERATING.contains(&call.name) => Expect::Nothing,
            // Who calls it says what it returns.
            _ => Expect::Open,
        };
        let params = parameters(call.name, &call.args, &call.item);
        let to = Given { place, items: call.items.as_ref(), state: None, shared: call.shared, kept: call.kept };
        let given = match call.folded {
            Some(var) if call.name == "scan" => self.repeated(|walker| {
                walker.closure_over(closure, &params, Given { state: Some(Place::unnamed(var)), ..to.clone() })
            }),
            Some(var) => self.folding(var, closure, params, to),
            None if call.iterated => self.repeated(|walker| walker.closure_over(closure, &params, to.clone())),
            None => self.closure_over(closure, &params, to),
        };
        if let Some(var) = call.choice {
            self.assign_var(var, &given);
        }
        // What `map_or_else` gives instead is made by the first of two.
        call.args.extend(call.closure.replace(given));
    }

    /// Walks an argument that is no closure.
    fn takes(&mut self, call: &mut Unlisted, receiver: &Expr, arg: &mut Expr) {
        let collects =
            call.extended.is_some() && (is_list(arg) || is_made_here(arg) || matches!(arg, Expr::MethodCall(_)));
        self.collected = call.extended.clone().filter(|_| collects);
        if let Some(list) = self.listed(arg) {
            return call.args.push(list);
        }
        if self.chooses_by_name(call.choice, &call.item, arg) {
            return call.args.push(call.item.clone());
        }
        self.consumed = call.extends;
        if !call.extends && !matches!(call.name, "zip" | "chain") {
            self.lent_exclusively(arg);
        }
        let mut given = self.given_to(call.name, arg, &call.value);
        match call.takes {
            _ if call.empty.or(call.choice).is_some_and(|var| self.fill(var, arg, &given)) => {}
            false if call.name == "push" && call.growth.is_none() && self.fill_grown(receiver, arg, &mut given) => {}
            true if given.is_open() => self.expected(arg, &mut given),
            false if call.fills() && given.is_tuple() => {
                self.widen_tuple_for(receiver, arg, &mut given);
                self.expected(arg, &mut given);
            }
            true => self.widen_owned(arg, &mut given),
            _ if call.extends
                && call.name == "extend"
                && !(collects && (is_list(arg) || is_made_here(arg)))
                && self.extend(receiver, call.extended.as_ref(), arg, &mut given) => {}
            _ if call.extends
                && call.name == "append"
                && self.append(receiver, call.extended.as_ref(), arg, &mut given) => {}
            // Of one 16-bit precision, what stands in for a value agrees with it.
            false
                if matches!(call.name, "unwrap_or" | "or" | "xor")
                    && call.item.fixed_half().is_some()
                    && given.is_surely(&call.item.prec) => {}
            false if call.name == "unwrap_or" => self.given_back(arg, &mut given),
            false if let Some(var) = call.folded => self.begin_fold(var, arg, &mut given),
            // What is beside it expects nothing of it.
            false if call.name == "zip" => {}
            false if call.name == "chain" && call.extended.is_some() && !collects => self.widen_held(arg, &mut given),
            false => self.expected(arg, &mut given),
        }
        call.args.push(given);
    }

    /// Notes what the receiver holds from here on.
    fn keeps(&mut self, call: &mut Unlisted, receiver: &mut Expr) {
        let place = container(receiver);
        if !reads(call.name) && self.variable(place).is_none_or(|var| !self.scopes.vars[var].fixed) {
            self.changed(place);
        }
        if let Some(var) = call.empty {
            if let Some(given) = &call.closure {
                self.put_into(var, given);
            }
            // What a method puts somewhere never had another type than it has.
            self.scopes.vars[var].early = false;
        }
        if call.extends && call.args.iter().all(|given| given.is_surely(&Prec::F32)) && self.is_open(place) {
            self.want(place);
        }
        if (call.fills() || call.extends)
            && let Some(given) = call.args.last()
        {
            if given.is_tuple() {
                self.mixed_tuple(place, (&call.value, given), &call.asked);
            }
            // A list of references is none of tensors that could be widened; one that grows by what is made of it is asked.
            if call.makes && call.growth.is_none() || given.prec == Prec::F32 {
                self.mixed(place, &call.value, given, call.asks);
            }
            self.put(place, given);
        }
        if call.fills()
            && let Some(given) = call.args.last()
        {
            self.filled(place, &call.value, given, call.args.len());
            self.grows(place, call.growth.take());
        }
        if let ("resize_with", Some(given)) = (call.name, &call.closure) {
            self.mixed(place, &call.value, given, true);
        }
        if let ("clone_from", [given]) = (call.name, call.args.as_slice()) {
            self.put(place, given);
            self.mixed(place, &call.value, given, true);
        }
        let instead = match call.name {
            "unwrap_or" | "or" | "xor" => call.args.first(),
            "or_else" => call.closure.as_ref(),
            "unwrap_or_else" => call.closure.as_ref().filter(|given| given.shape.gives() || call.makes),
            _ => None,
        };
        if let Some(instead) = instead.cloned() {
            self.stands_in(receiver, &mut call.value, &instead, call.makes);
        }
    }

    /// What the call gives.
    fn given_by(&mut self, call: Unlisted, typed: bool) -> Value {
        let Unlisted { name, value, item, closure, mut args, folded, choice, hands, .. } = call;
        match name {
            "scan" => closure.unwrap_or_else(Value::opaque),
            _ if let Some(var) = folded.filter(|_| args.first().is_some_and(|init| init.prec.is_tensor())) => {
                let folded = if folds_f32(name, &args) { Value::sure(Prec::F32) } else { Value::new(Prec::Unknown) };
                Value { pinned: self.flows.pin_of(&Slot::of(var)), ..folded }
            }
            _ if let Some(var) = choice => match closure {
                Some(_) if self.chosen(var) == Some(Prec::F32) => Value::sure(Prec::F32),
                Some(given) if given.prec.is_tensor() => Value::new(Prec::Unknown),
                given => {
                    let given = given.unwrap_or_else(Value::other);
                    let constants =
                        args.pop().map_or_else(|| given.constants.clone(), |other| other.constants_with(&given));
                    Value { constants, ..Value::opaque() }
                }
            },
            "into" if !value.constants.is_empty() => value,
            _ if MAPPING.contains(&name) => closure.unwrap_or_else(|| if hands { item } else { Value::opaque() }),
            "enumerate" => Value::tuple(vec![Value::other(), item]),
            "split_first" | "split_last" | "split_at" | "split_at_mut" | "partition" => {
                Value::tuple(vec![item.clone(), item])
            }
            "unzip" if item.is_tuple() => item,
            "zip" => Value::tuple(vec![item, args.pop().unwrap_or_else(Value::opaque)]),
            "tensor" => Value::new(Prec::F32),
            "elapsed" | "duration_since" => Value::other(),
            "or" | "or_else" | "xor" => {
                let instead = args.pop().or(closure).unwrap_or_else(Value::other);
                Value { constants: value.constants_with(&instead), ..value }
            }
            "unwrap_or" | "unwrap_or_else" => {
                let instead = args.pop().or(closure).unwrap_or_else(Value::other);
                Value { constants: value.constants_with(&instead), shape: Shape::Unknown, ..value }
            }
            _ if let Some(method) = handing(name) => match method.itself {
                true => value,
                false => item,
            },
            "lock" | "read" | "write" | "borrow_mut" | "get_mut" | "into_inner" if item.is_pinned() => item,
            _ if INFERRED.contains(&name) && !typed => {
                let prec = if value.prec.is_tensor() { value.prec } else { Prec::Opaque };
                let parts = if name == "collect" { value.parts } else { Vec::new() };
                Value { prec, pinned: value.pinned, parts, ..Value::inferred() }
            }
            _ if INFERRED.contains(&name) => Value { inferred: false, constants: Vec::new(), ..item },
            // Whoever calls a closure may give back what that gives.
            _ if closure.as_ref().is_some_and(holds_narrow) => Value::new(Prec::Unknown),
            _ => Value::opaque(),
        }
    }
}

/// The type that the closure of a fold declares what has been folded so far to be.
fn declared_state<'c>(name: &str, closure: &'c ExprClosure) -> Option<&'c Type> {
    match closure.inputs.first() {
        Some(Pat::Type(typed)) if name != "scan" && !matches!(*typed.ty, Type::Infer(_)) => Some(&typed.ty),
        _ => None,
    }
}

/// What a container holds, as a method of it gives it: of pieces of it, the numbers stand in other places.
fn item_of(container: &Value, method: &str) -> Value {
    let in_pieces = method.starts_with("split")
        || matches!(method, "chunks" | "chunks_exact" | "chunks_mut" | "rchunks" | "windows");
    let constants = if in_pieces || changes(method) { Vec::new() } else { container.constants.clone() };
    Value { constants, shape: Shape::Unknown, ..container.clone() }
}
