//! The methods of `std` that a walk knows: what goes through them, and what they give.

use super::Expect;
use super::macros::names_vec;
use super::wrapper::is_wrapper;
use crate::lattice::{Prec, Value};
use syn::{Expr, ExprMethodCall};

/// A method of containers, iterators, options, results or references that gives what they hold.
pub(super) struct Handing {
    name: &'static str,
    /// What comes out is the value itself, not something that it holds.
    pub(super) itself: bool,
    /// An iterator, or an option, of what a place holds comes out.
    pub(super) begins: bool,
    /// An iterator goes in, and one of such elements comes out.
    pub(super) adapts: bool,
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
    passes("or"),
    passes("xor"),
    passes("or_else"),
    passes("context"),
    passes("with_context"),
    passes("to_owned"),
    passes("into_boxed_slice"),
    passes("split_off"),
    begins("iter"),
    begins("iter_mut"),
    begins("into_iter"),
    begins("drain"),
    begins("as_mut"),
    begins("first"),
    begins("last"),
    begins("get"),
    begins("first_mut"),
    begins("last_mut"),
    begins("get_mut"),
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
    adapts("inspect"),
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
    hands("reduce"),
    hands("max_by"),
    hands("min_by"),
    hands("max_by_key"),
    hands("min_by_key"),
    hands("chunks"),
    hands("chunks_exact"),
    hands("chunks_mut"),
    hands("rchunks"),
    hands("windows"),
    hands("transpose"),
    hands("unwrap_or"),
    hands("unwrap_or_else"),
    hands("flatten"),
    hands("detach"),
    hands("tracked"),
    hands("to_device"),
];

pub(super) fn handing(name: &str) -> Option<&'static Handing> {
    HANDING.iter().find(|method| name == method.name)
}

/// Whether an expression names a function that hands on what it is given: `Result::ok`, `Option::Some`, `Arc::clone`.
pub(super) fn names_handing(expr: &Expr) -> bool {
    let Expr::Path(path) = expr else { return false };
    let Some(last) = path.path.segments.last() else { return false };
    let wraps = last.ident == "Ok" || last.ident == "Some";
    wraps || path.path.segments.len() > 1 && handing(&last.ident.to_string()).is_some()
}

/// Methods through which what is in a container may become something else.
pub(super) fn changes(name: &str) -> bool {
    matches!(name, "iter_mut" | "as_mut" | "first_mut" | "last_mut" | "get_mut" | "chunks_mut" | "split_at_mut")
}

/// What a method is called on, or the map whose entry this is: `map.entry(key).or_insert(value)` puts the value into the map.
pub(super) fn container(receiver: &Expr) -> &Expr {
    match receiver {
        Expr::MethodCall(call) if call.method == "entry" || call.method == "and_modify" => container(&call.receiver),
        receiver => receiver,
    }
}

/// Whether a method of a container leaves it as it is.
pub(super) fn reads(name: &str) -> bool {
    let takes = matches!(name, "pop" | "pop_front" | "pop_back" | "remove" | "swap_remove" | "drain") || changes(name);
    let asks = matches!(name, "len" | "is_empty" | "is_some" | "is_none" | "contains");
    asks || ITERATING.contains(&name) || handing(name).is_some() && !takes
}

/// Methods of iterators, options and results that give their elements, as they are, to the closure's last parameter.
pub(super) const ITERATING: &[&str] =
    &["map", "for_each", "flat_map", "filter_map", "and_then", "map_while", "scan", "fold", "try_fold", "try_for_each"];
/// Those whose closure is given an element alone.
pub(super) const ONE_BY_ONE: &[&str] =
    &["map", "for_each", "flat_map", "filter_map", "and_then", "map_while", "try_for_each"];
/// Those whose closure gives the elements that come out.
pub(super) const MAPPING: &[&str] = &["map", "and_then", "flat_map", "filter_map", "then", "map_while", "scan"];
/// Methods whose closure is given two elements.
const COMPARING: &[&str] = &["sort_by", "sort_unstable_by", "min_by", "max_by", "dedup_by", "is_sorted_by", "chunk_by"];
/// Methods whose closure makes what it is called with next.
pub(super) const FOLDING: &[&str] = &["fold", "try_fold", "rfold", "try_rfold"];
/// Methods of options and results that give one of what two arguments make.
pub(super) const CHOOSING: &[&str] = &["map_or", "map_or_else"];
/// Methods that put an element into a container.
pub(super) const FILLING: &[&str] = &[
    "push",
    "push_back",
    "push_front",
    "insert",
    "replace",
    "get_or_insert",
    "or_insert",
    "resize",
    "resize_with",
    "fill",
];
/// Methods that put a value into an option.
pub(super) const PUTTING: &[&str] = &["replace", "insert", "get_or_insert", "get_or_insert_with"];
/// Methods that put the elements of another container into one.
pub(super) const EXTENDING: &[&str] = &["extend", "append", "extend_from_slice"];
/// Methods of tensors that say the same in every precision.
pub(super) const ASKING: &[&str] = &["dims", "size", "rank", "count", "device", "requires_grad"];
/// Methods that hand on what a `Result` or an `Option` holds.
pub(super) const UNWRAPPING: &[&str] =
    &["unwrap", "expect", "unwrap_or", "unwrap_or_else", "unwrap_or_default", "map_err", "ok"];
/// Methods that make a container of another, of the same elements.
pub(super) const CONVERTING: &[&str] = &["into", "try_into"];
/// Methods that put the elements of an iterator into containers.
const COLLECTING: &[&str] = &["collect", "try_collect", "unzip", "partition"];
/// Methods whose result has the type that the context asks for.
pub(super) const INFERRED: &[&str] =
    &["collect", "into", "try_into", "parse", "sum", "product", "unwrap_or_default", "try_collect"];

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
pub(super) fn parameters(method: &str, given: &[Value], item: &Value) -> Vec<Value> {
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
        name if name == "reduce" || COMPARING.contains(&name) => vec![item.clone(), item.clone()],
        _ => vec![item.clone()],
    }
}

/// Whether an expression is an iterator, or an option, by the methods that made it.
pub(super) fn iterates(expr: &Expr) -> bool {
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

/// Whether the last of its methods makes an expression an iterator, or an option, of elements that are not borrowed.
pub(super) fn is_adapted(expr: &Expr) -> bool {
    let Expr::MethodCall(call) = expr else { return false };
    let name = call.method.to_string();
    matches!(name.as_str(), "into_iter" | "drain" | "into_values")
        || MAPPING.contains(&name.as_str())
        || handing(&name).is_some_and(|method| method.adapts)
}

/// What is expected of the elements that a method gets, if this is of those it gives.
pub(super) fn before(name: &str, expect: Expect) -> Option<Expect> {
    let handed = COLLECTING.contains(&name) || UNWRAPPING.contains(&name);
    match (name, expect) {
        ("enumerate", Expect::Tuple(mut pair)) => pair.pop(),
        ("zip" | "partition", Expect::Tuple(pair)) => pair.into_iter().next(),
        (_, expect) => (handed || handing(name).is_some_and(|method| method.adapts)).then_some(expect),
    }
}

/// Whether an iterator is collected, or summed, by the last of its methods.
pub(super) fn collects(expr: &Expr) -> bool {
    match expr {
        Expr::MethodCall(call) if UNWRAPPING.iter().any(|name| call.method == name) => collects(&call.receiver),
        Expr::MethodCall(call) => {
            let sums = call.method == "sum" && call.args.is_empty();
            sums || COLLECTING.iter().chain(CONVERTING).any(|name| call.method == name)
        }
        Expr::Call(call) => call.args.len() == 1 && is_list(&call.args[0]) && makes_of_list(&call.func),
        Expr::Try(inner) => collects(&inner.expr),
        Expr::Paren(inner) => collects(&inner.expr),
        _ => false,
    }
}

/// Whether a method makes of what is written before it something that holds the same elements.
pub(super) fn hands_elements(name: &str, receiver: &Expr) -> bool {
    let adapts = name == "collect" || handing(name).is_some_and(|method| method.adapts);
    is_list(receiver) && (name == "into_iter" || CONVERTING.contains(&name)) || is_made_here(receiver) && adapts
}

/// An iterator of what is made where it is written: `iter::once(..)`, `iter::from_fn(|| ..)`.
pub(super) fn is_made_here(expr: &Expr) -> bool {
    let Expr::Call(call) = expr else { return false };
    let Expr::Path(path) = &*call.func else { return false };
    let makers: &[&str] = match call.args.len() {
        1 => &["once", "repeat", "from_fn", "repeat_with"],
        2 => &["successors", "repeat_n"],
        _ => &[],
    };
    path.path.segments.last().is_some_and(|last| makers.iter().any(|name| last.ident == name))
}

/// `[..]` and `vec![..]`.
pub(super) fn is_list(expr: &Expr) -> bool {
    match expr {
        Expr::Array(_) => true,
        Expr::Macro(inner) => names_vec(&inner.mac.path),
        _ => false,
    }
}

/// `HashMap::from` and the like.
fn makes_of_list(func: &Expr) -> bool {
    matches!(func, Expr::Path(path) if path.path.segments.last().is_some_and(|s| s.ident == "from" || s.ident == "from_iter"))
}

/// Whether an iterator is folded into a tensor that starts, and so stays, in F32.
pub(super) fn folds_f32(method: &str, given: &[Value]) -> bool {
    FOLDING.contains(&method) && given.first().is_some_and(|init| init.is_surely(&Prec::F32) && init.parts.is_empty())
}

/// `iter.sum()`, `iter.fold(..)`: a sum of an iterator has no arguments, a sum of a tensor has; a fold of one has a closure.
pub(super) fn is_iterator_fold(call: &ExprMethodCall) -> bool {
    call.args.is_empty() && ["sum", "product", "max", "min", "flatten"].iter().any(|name| call.method == name)
        || call.method == "fold" && matches!(call.args.last(), Some(Expr::Closure(_)))
}

/// Whether an expression, or the body of a closure, makes a value: `x.clone()`, `layer.forward(x)?`, `Some(self.start())`.
pub(super) fn makes_value(expr: &Expr) -> bool {
    match expr {
        Expr::Closure(closure) => makes_value(&closure.body),
        Expr::Try(inner) => makes_value(&inner.expr),
        Expr::Call(call) => !is_wrapper(call) || makes_value(&call.args[0]),
        Expr::Array(list) => list.elems.iter().all(makes_value),
        Expr::MethodCall(call) => !call.method.to_string().starts_with("as_") && call.method != "unwrap",
        _ => false,
    }
}

/// Whether an expression calls a function, or is a list of such: what one of one's own gives may be F32.
pub(super) fn calls_function(expr: &Expr) -> bool {
    match expr {
        Expr::Try(inner) => calls_function(&inner.expr),
        Expr::Call(call) => !is_wrapper(call) || calls_function(&call.args[0]),
        Expr::Array(list) => list.elems.iter().any(calls_function),
        _ => false,
    }
}
