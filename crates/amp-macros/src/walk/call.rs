//! Calls of methods.

use super::operation::is_tensor;
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

/// A method of containers, iterators, options, results or references that gives what they hold.
struct Handing {
    name: &'static str,
    /// What comes out is the value itself, not something that it holds.
    itself: bool,
    /// An iterator, or an option, of what a place holds comes out.
    begins: bool,
    /// An iterator goes in, and one of such elements comes out.
    adapts: bool,
}

const fn hands(name: &'static str) -> Handing {
    Handing { name, itself: false, begins: false, adapts: false }
}

const fn passes(name: &'static str) -> Handing {
    Handing { itself: true, ..hands(name) }
}

const fn begins(name: &'static str) -> Handing {
    Handing { begins: true, ..hands(name) }
}

const fn adapts(name: &'static str) -> Handing {
    Handing { adapts: true, ..hands(name) }
}

const HANDING: &[Handing] = &[
    passes("unwrap"),
    passes("expect"),
    Handing { begins: true, ..passes("as_ref") },
    passes("map_err"),
    passes("ok"),
    passes("ok_or"),
    passes("ok_or_else"),
    passes("context"),
    passes("with_context"),
    passes("to_owned"),
    begins("iter"),
    begins("iter_mut"),
    begins("into_iter"),
    begins("as_mut"),
    begins("first"),
    begins("last"),
    begins("get"),
    begins("values"),
    begins("into_values"),
    adapts("rev"),
    adapts("skip"),
    adapts("take"),
    adapts("step_by"),
    adapts("chain"),
    adapts("cloned"),
    adapts("copied"),
    adapts("filter"),
    adapts("peekable"),
    adapts("skip_while"),
    adapts("take_while"),
    adapts("fuse"),
    adapts("cycle"),
    hands("clone"),
    hands("as_deref"),
    hands("borrow"),
    hands("by_ref"),
    hands("as_slice"),
    hands("front"),
    hands("back"),
    hands("pop"),
    hands("pop_front"),
    hands("pop_back"),
    hands("remove"),
    hands("swap_remove"),
    hands("next"),
    hands("nth"),
    hands("find"),
    hands("max_by"),
    hands("min_by"),
    hands("max_by_key"),
    hands("min_by_key"),
    hands("chunks"),
    hands("chunks_exact"),
    hands("windows"),
    hands("transpose"),
    hands("unwrap_or"),
    hands("unwrap_or_else"),
    hands("flatten"),
    hands("detach"),
];

fn handing(name: &str) -> Option<&'static Handing> {
    HANDING.iter().find(|method| name == method.name)
}

/// Methods of iterators, options and results that give their elements, as they are, to the closure's last parameter.
const ITERATING: &[&str] =
    &["map", "for_each", "flat_map", "filter_map", "and_then", "map_while", "fold", "try_fold", "try_for_each"];
/// Those whose closure gives the elements that come out.
const MAPPING: &[&str] = &["map", "and_then", "flat_map", "filter_map", "then", "map_while"];
/// Methods whose closure makes what it is called with next.
const FOLDING: &[&str] = &["fold", "try_fold", "rfold", "try_rfold"];
/// Methods that put an element into a container.
const FILLING: &[&str] = &["push", "push_back", "push_front", "insert"];
/// Methods that put a value into an option.
const PUTTING: &[&str] = &["replace", "insert", "get_or_insert", "get_or_insert_with"];
/// Methods that put the elements of another container into one.
const EXTENDING: &[&str] = &["extend", "append", "extend_from_slice"];
/// Methods of tensors that say the same in every precision.
const ASKING: &[&str] = &["dims", "size", "rank", "count", "device", "requires_grad"];
/// Methods that hand on what a `Result` or an `Option` holds.
const UNWRAPPING: &[&str] = &["unwrap", "expect", "unwrap_or", "unwrap_or_else", "unwrap_or_default", "map_err", "ok"];
/// Methods that make a container of another, of the same elements.
const CONVERTING: &[&str] = &["into", "try_into"];
/// Methods whose result has the type that the context asks for.
pub(super) const INFERRED: &[&str] =
    &["collect", "into", "try_into", "parse", "sum", "product", "unwrap_or_default", "try_collect"];

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
        for arg in &mut call.args {
            match arg {
                Expr::Closure(inner) => {
                    let place = match &collected {
                        Some(expect) if MAPPING.contains(&name) => expect.clone(),
                        _ if folds_f32(name, &args) => Expect::Prec(Prec::F32),
                        _ if empty.is_some_and(|var| self.chosen(var) == Some(Prec::F32)) => Expect::Prec(Prec::F32),
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
                        _ if empty.is_some_and(|var| self.fill(var, arg, &given)) => {}
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
            self.widen_held(init, value);
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

/// Whether the type of an expression is the one that is asked for where it stands.
pub(super) fn gives_what_is_asked(expr: &Expr) -> bool {
    match expr {
        Expr::Reference(inner) => gives_what_is_asked(&inner.expr),
        Expr::Paren(inner) => gives_what_is_asked(&inner.expr),
        Expr::Try(inner) => gives_what_is_asked(&inner.expr),
        Expr::MethodCall(call) => {
            let name = call.method.to_string();
            INFERRED.contains(&name.as_str()) && call.turbofish.is_none()
                || handing(&name).is_some_and(|method| method.itself) && gives_what_is_asked(&call.receiver)
        }
        Expr::Call(call) => matches!(&*call.func, Expr::Path(path) if path.qself.is_none() && is_default(&path.path)),
        _ => false,
    }
}

/// `Default::default`
fn is_default(path: &syn::Path) -> bool {
    path.segments.iter().rev().take(2).map(|segment| &segment.ident).eq(["default", "Default"])
}

/// What a method gives its closure: what has been folded so far comes before the item.
fn parameters(method: &str, given: &[Value], item: &Value) -> Vec<Value> {
    let folded = match given.first().map(|init| &init.prec) {
        Some(Prec::Never) => Value::never(),
        Some(_) if given[0].inferred => Value::late(),
        Some(Prec::F32) if folds_f32(method, given) => Value::sure(Prec::F32),
        // Or it would have been made F32.
        Some(prec @ Prec::Half(_)) if given[0].is_surely(prec) && given[0].parts.is_empty() => {
            Value::sure(prec.clone())
        }
        Some(prec) if prec.is_tensor() => Value::new(Prec::Unknown),
        _ => Value::opaque(),
    };
    match method {
        name if FOLDING.contains(&name) => vec![folded, item.clone()],
        "scan" => vec![Value::opaque(), item.clone()],
        "reduce" => vec![item.clone(), item.clone()],
        _ => vec![item.clone()],
    }
}

/// Whether an expression is an iterator, or an option, by the methods that made it.
fn iterates(expr: &Expr) -> bool {
    match expr {
        Expr::MethodCall(call) => {
            let method = call.method.to_string();
            let counts = matches!(method.as_str(), "enumerate" | "zip");
            let adapts = counts || handing(&method).is_some_and(|method| method.adapts);
            handing(&method).is_some_and(|method| method.begins) || adapts && iterates(&call.receiver)
        }
        Expr::Paren(inner) => iterates(&inner.expr),
        Expr::Range(_) => true,
        _ => false,
    }
}

/// What is expected of the elements that a method gets, if this is of those it gives.
fn before(name: &str, expect: Expect) -> Option<Expect> {
    let handed = matches!(name, "collect" | "try_collect" | "unwrap" | "expect");
    match (name, expect) {
        ("enumerate", Expect::Tuple(mut pair)) => pair.pop(),
        ("zip", Expect::Tuple(pair)) => pair.into_iter().next(),
        (_, expect) => (handed || handing(name).is_some_and(|method| method.adapts)).then_some(expect),
    }
}

/// Whether an iterator is collected, by the last of its methods.
pub(super) fn collects(expr: &Expr) -> bool {
    match expr {
        Expr::MethodCall(call) if UNWRAPPING.iter().any(|name| call.method == name) => collects(&call.receiver),
        Expr::MethodCall(call) => ["collect", "try_collect"].iter().chain(CONVERTING).any(|name| call.method == name),
        Expr::Call(call) => call.args.len() == 1 && is_list(&call.args[0]) && makes_of_list(&call.func),
        Expr::Try(inner) => collects(&inner.expr),
        Expr::Paren(inner) => collects(&inner.expr),
        _ => false,
    }
}

/// Whether a method makes of what is written before it something that holds the same elements.
fn hands_elements(name: &str, receiver: &Expr) -> bool {
    is_list(receiver) && (name == "into_iter" || CONVERTING.contains(&name)) || is_once(receiver) && name == "collect"
}

/// `iter::once(..)`
fn is_once(expr: &Expr) -> bool {
    matches!(expr, Expr::Call(call) if call.args.len() == 1 && names_once(&call.func))
}

fn names_once(func: &Expr) -> bool {
    matches!(func, Expr::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == "once"))
}

/// `[..]` and `vec![..]`.
pub(super) fn is_list(expr: &Expr) -> bool {
    match expr {
        Expr::Array(_) => true,
        Expr::Macro(inner) => inner.mac.path.is_ident("vec"),
        _ => false,
    }
}

/// `HashMap::from` and the like.
fn makes_of_list(func: &Expr) -> bool {
    matches!(func, Expr::Path(path) if path.path.segments.last().is_some_and(|s| s.ident == "from" || s.ident == "from_iter"))
}

/// Whether an iterator is folded into a tensor that starts, and so stays, in F32.
fn folds_f32(method: &str, given: &[Value]) -> bool {
    FOLDING.contains(&method) && given.first().is_some_and(|init| init.is_surely(&Prec::F32) && init.parts.is_empty())
}

/// `iter.sum()`, `iter.fold(..)`: a sum of an iterator has no arguments, a sum of a tensor has; a fold of one has a closure.
fn is_iterator_fold(call: &ExprMethodCall) -> bool {
    call.args.is_empty() && ["sum", "product", "max", "min", "flatten"].iter().any(|name| call.method == name)
        || call.method == "fold" && matches!(call.args.last(), Some(Expr::Closure(_)))
}
