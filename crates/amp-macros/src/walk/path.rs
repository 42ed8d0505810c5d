//! Calls of paths: functions, associated functions of tensors, constructors.

use super::called::{Called, Form, castable, judged, judging, lends_elements};
use super::cast::{Goal, as_written};
use super::closure::Given;
use super::direct::Written;
use super::gathered::as_collected;
use super::held::fields_of;
use super::lent::is_of_std;
use super::list::is_given_list;
use super::made::{made, settled};
use super::methods::handing;
use super::names::{names_operation, on_tensor};
use super::wrapper::{held_type, names_variant};
use super::{Expect, Walker, shared};
use crate::emit::{self, Operand};
use crate::flow::Slot;
use crate::lattice::{Prec, Value, has_operators};
use crate::literal::{self, type_of};
use crate::rules::{Found, Rule};
use crate::shape::Shape;
use proc_macro2::Ident;
use quote::ToTokens;
use std::rc::Rc;
use syn::spanned::Spanned;
use syn::{Expr, ExprCall, ExprClosure, ExprPath, PathArguments, PathSegment, QSelf, Type, parse_quote};

impl Walker<'_> {
    /// A call of a path.
    pub(super) fn call(&mut self, expr: &mut Expr) -> Value {
        if let Some(collected) = as_collected(expr) {
            *expr = collected;
            return self.expr(expr);
        }
        let source = expr.clone();
        let Expr::Call(call) = expr else { return Value::opaque() };
        let Expr::Path(path) = &*call.func else { return self.called(call) };
        let path = path.clone();
        let Some(last) = path.path.segments.last() else { return Value::opaque() };
        let name = last.ident.to_string();
        if name == "swap" {
            self.swapped(call);
        }
        if name == "to" && call.args.len() == 1 && !last.arguments.is_none() && on_tensor(&path) {
            return self.path_cast(expr, &source);
        }
        if let Some(value) = self.wrapper(call, &path, &name) {
            return value;
        }
        let found = self.rule_of(&name).filter(|found| found.listed || names_operation(self, &path));
        let method_form = on_tensor(&path);
        match found {
            Some(found) if found.rule == Rule::Banned && (method_form || !self.takes_number(call)) => {
                call.args.iter_mut().for_each(|arg| drop(self.expr(arg)));
                self.banned(&last.ident, &name, found, method_form);
                Value::opaque()
            }
            Some(found) if found.list && (found.rule == Rule::Widest || found.rule.casts() && is_given_list(call)) => {
                self.list(expr, &source, &last.ident, found)
            }
            // Factories take no tensor.
            Some(found) if !matches!(found.rule, Rule::Skip | Rule::Banned) && found.tensors != Some(&[]) => {
                self.function(expr, &source, &last.ident, found, method_form)
            }
            _ => {
                let value = self.other_call(call, &path, &name);
                self.check_call_by_path(expr, &path, &name);
                value
            }
        }
    }

    /// Whether the first argument certainly is a number: what takes that is a function of somebody's own.
    fn takes_number(&self, call: &ExprCall) -> bool {
        let Some(first) = call.args.first() else { return false };
        let variable = self.variable(first).is_some_and(|var| self.known(var).prec == Prec::Other);
        !self.cx.host && (variable || literal::constant(first).is_some())
    }

    /// A call of what is no path; of a closure that is written there it is seen what it gives.
    fn called(&mut self, call: &mut ExprCall) -> Value {
        let given = match written_closure(&mut call.func) {
            Some(closure) => self.closure_over(closure, &[], Given { place: Expect::Open, ..Given::default() }),
            None => {
                self.expr(&mut call.func);
                Value::opaque()
            }
        };
        call.args.iter_mut().for_each(|arg| drop(self.argument(arg)));
        given.kept().unwrap_or_else(Value::opaque)
    }

    /// What the language and its library wrap or make values with, whose result is of what they are given.
    fn wrapper(&mut self, call: &mut ExprCall, path: &ExprPath, name: &str) -> Option<Value> {
        let one = call.args.len() == 1;
        match name {
            "Value" | "from" if literal::wrapped(call).is_some() => Some(self.expr(&mut call.args[0])),
            "Ok" | "Some" | "new" if one && wraps(&path.path, name) => {
                let expect = held_type(&path.path, self.cx.param.as_deref());
                let value = self.tail(&mut call.args[0], &expect);
                let shape = value.shape.wrapped();
                Some(value.shaped(shape))
            }
            "once" | "repeat" | "repeat_n" | "from_fn" | "repeat_with" | "successors" => self.iterator(call, name),
            "from" | "try_from" => self.conversion(call, path),
            "Err" if one && names_variant(&path.path) => {
                self.argument(&mut call.args[0]);
                Some(Value::never())
            }
            _ => None,
        }
    }

    pub(super) fn other_call(&mut self, call: &mut ExprCall, path: &syn::ExprPath, name: &str) -> Value {
        let closure = self.variable(&call.func);
        if closure.is_none() && !is_of_std(&path.path) {
            call.args.iter().for_each(|arg| self.lent_exclusively(arg));
        }
        let (values, given_back) = match closure.filter(|&var| !self.scopes.vars[var].declared) {
            Some(var) => (self.given_to_closure(var, call.args.iter_mut()), false),
            None => self.given_to_function(call.args.iter_mut()),
        };
        let gives = closure.map(|var| self.scopes.vars[var].gives.clone()).filter(Value::holds_tensors);
        let closure = closure.map(Slot::of);
        let flow = closure.as_ref().map(|closure| self.flows.read(closure)).unwrap_or_default();
        if name == "replace"
            && let [_, given] = values.as_slice()
        {
            self.replaced(call, given);
        }
        if let (true, Some(tensor)) = (moves_tensor(path, name), values.first()) {
            return tensor.clone().shaped(tensor.shape.of_method(name));
        }
        if let Some(value) = constructed(self, path) {
            return value.shaped(Shape::Unknown);
        }
        let kept = match &closure {
            Some(closure) => Value { pinned: self.flows.pin_of(closure), ..Value::new(Prec::F32) }.kept(),
            None => values.iter().find_map(Value::kept).filter(|_| keeps(path)),
        };
        if let Some(kept) = kept {
            return Value { flow, ..kept };
        }
        let constants = literal::maybe_wrapped(call).and(values.first()).map(|number| number.constants.clone());
        let constants = constants.unwrap_or_default();
        match name {
            "new" | "with_capacity" | "default" | "from" | "from_iter" => Value { constants, ..Value::inferred() },
            "into" if !constants.is_empty() => Value { constants, ..Value::inferred() },
            name if has_operators(name) => Value::other(),
            // What is expected of `Cow::Owned(..)` is expected of its argument.
            name if name.starts_with(char::is_uppercase) => Value { flow, constants, ..fields_of(&path.path, &values) },
            _ if let Some(gives) = gives => Value { flow, ..gives },
            _ if given_back || values.iter().any(|value| value.prec.is_tensor()) => {
                Value { flow, ..Value::new(Prec::Unknown) }
            }
            _ => Value { flow, ..Value::opaque() },
        }
    }

    /// An argument of somebody's own function.
    pub(super) fn argument(&mut self, arg: &mut Expr) -> Value {
        if let Expr::Closure(closure) = arg {
            // Who calls it says what it returns.
            drop(self.closure_into(closure, Expect::Open));
            return Value::other();
        }
        if let Some(list) = self.listed(arg) {
            return list;
        }
        let mut value = self.expr(arg);
        self.expected(arg, &mut value);
        value
    }

    /// A function or an associated function of a tensor.
    pub(super) fn function(
        &mut self,
        expr: &mut Expr,
        source: &Expr,
        name: &Ident,
        found: Found,
        method_form: bool,
    ) -> Value {
        let Expr::Call(call) = expr else { return Value::opaque() };
        let walked = call.args.iter_mut().map(|arg| match lends_elements(arg) && !method_form {
            true => self.argument(arg),
            false => self.expr(arg),
        });
        let mut values: Vec<Value> = walked.collect();
        let named = |i: &usize| found.tensors.is_none_or(|positions| positions.iter().any(|&at| usize::from(at) == *i));
        let tensors = (0..values.len()).filter(named).filter(|&i| castable(as_written(source, i), &values[i]));
        let tensors: Vec<usize> = tensors.collect();
        if tensors.is_empty() {
            return Value::opaque();
        }
        for &i in &settled(&found, &values, &tensors) {
            self.settle(&mut call.args[i], &mut values[i], false);
        }
        let text = name.to_string();
        let prec = judging(&text, &values, &tensors).map(|judge| self.runs_in(&found, &values[judge]));
        for (i, value) in values.iter().enumerate() {
            if let Some(prec) = &prec
                && judged(&text, i, value)
            {
                self.check_constant(&mut call.args[i], value, prec, &text);
            }
        }
        if let (true, Expr::Path(path)) = (method_form, &mut *call.func) {
            open_precision(path);
        }
        let form = form_of(call, method_form);
        let sure = method_form || found.rule == Rule::Lower;
        let called = Called { name: &text, found, values, tensors, site: self.site(), form, sure };
        let (result, goal) = self.carry_out(&called, source, name);
        match goal {
            Some(goal) => self.cast_arguments(expr, called, goal, source, name),
            // The user's own may take F32.
            None if !method_form => {
                let Called { mut values, tensors, .. } = called;
                tensors.into_iter().for_each(|i| self.expected(&mut call.args[i], &mut values[i]));
            }
            None => {}
        }
        // A function of this name may be the user's own: what it returns is its own business.
        if method_form { result } else { Value { sure: false, ..result } }
    }

    /// Casts the tensors that a call takes, and its result where the operation's rule says so.
    fn cast_arguments(&mut self, expr: &mut Expr, called: Called<'_>, mut goal: Goal, source: &Expr, name: &Ident) {
        let Expr::Call(call) = expr else { return };
        let Called { values, tensors, form, found, .. } = called;
        let function = match (&form, &mut goal) {
            (Form::Bare, Goal::Write(written, _)) => Some(self.ask_function(call, written)),
            _ => None,
        };
        let operands = self.take_arguments(call, (&values, &tensors, &found), &goal, source, name);
        let end = call.paren_token.span.join();
        let mut whole = call.clone();
        let joint = self.joint(goal, matches!(form, Form::Method));
        self.rewrite(expr, |_| {
            emit::call((emit::ends(source).0, name.span(), end), operands, joint, None, |passed| {
                for (&i, arg) in tensors.iter().zip(passed) {
                    whole.args[i] = arg;
                }
                Expr::Verbatim(whole.into_token_stream())
            })
        });
        if let Some((local, function)) = function {
            self.rewrite(expr, |call| emit::with_function(&local, &function, call));
        }
        if found.rule == Rule::ForceLower {
            let target = self.target(&self.lower());
            self.rewrite(expr, |inner| emit::recast(inner, &target));
        }
    }

    /// Makes the function that a call names a local and asks it whether it is the library's: only then the result is
    /// written narrow.
    fn ask_function(&self, call: &mut ExprCall, written: &mut Written) -> (Ident, Expr) {
        let local = emit::local("f", 0, call.func.span());
        let condition = std::mem::replace(written, Written::Always).condition(&self.target(&self.lower()));
        *written = Written::If(emit::if_own(&local, call.args.len(), &condition));
        let function = std::mem::replace(&mut *call.func, Expr::Verbatim(local.to_token_stream()));
        (local, function)
    }

    /// Takes the tensor arguments out of a call, each with its treatment.
    fn take_arguments(
        &mut self,
        call: &mut ExprCall,
        (values, tensors, found): (&[Value], &[usize], &Found),
        goal: &Goal,
        source: &Expr,
        name: &Ident,
    ) -> Vec<Operand> {
        let mut operands = Vec::new();
        for &i in tensors {
            operands.push(self.take(
                &mut call.args[i],
                (values, i),
                goal,
                (source, name),
                (shared::argument(source, i), false),
            ));
        }
        if let (true, Some(list)) = (found.list && found.listed && !self.cx.host, operands.first_mut()) {
            self.referred_elements(list);
        }
        operands
    }
}

/// Whether a path names a variant of `std`, or makes a pointer.
fn wraps(path: &syn::Path, name: &str) -> bool {
    if name == "new" { is_pointer(path) } else { names_variant(path) }
}

/// Whether a path names something of `Box`, `Rc` or `Arc`.
pub(super) fn is_pointer(path: &syn::Path) -> bool {
    path.segments.iter().rev().nth(1).is_some_and(|s| s.ident == "Box" || s.ident == "Rc" || s.ident == "Arc")
}

/// Whether what is called holds what it is given, or gives that back.
fn keeps(path: &ExprPath) -> bool {
    const HOLDERS: &[&str] = &[
        "Vec",
        "VecDeque",
        "LinkedList",
        "HashMap",
        "BTreeMap",
        "Box",
        "Rc",
        "Arc",
        "Cow",
        "Cell",
        "RefCell",
        "OnceCell",
        "Mutex",
        "RwLock",
        "OnceLock",
    ];
    // Their methods by a path; one's own type may have others of these names.
    const HANDING: &[&str] =
        &["Option", "Result", "Clone", "ToOwned", "Borrow", "AsRef", "IntoIterator", "Iterator", "DoubleEndedIterator"];
    let names = path.path.segments.iter().rev().map(|segment| segment.ident.to_string());
    let mut names = names.chain(type_of(path).map(ToString::to_string));
    let (name, qualifier) = (names.next().unwrap_or_default(), names.next().unwrap_or_default());
    HOLDERS.contains(&qualifier.as_str())
        || HANDING.contains(&qualifier.as_str()) && handing(&name).is_some()
        || matches!((&*qualifier, &*name), ("iter" | "", "once" | "repeat") | ("mem", "take" | "replace"))
        || matches!((&*qualifier, &*name), ("convert", "identity") | ("hint", "black_box"))
}

/// Whether a path names a method that puts a tensor elsewhere as it is: `Tensor::tracked`.
fn moves_tensor(path: &ExprPath, name: &str) -> bool {
    matches!(name, "tracked" | "to_device") && on_tensor(path)
}

/// The closure that is called where it is written.
fn written_closure(func: &mut Expr) -> Option<&mut ExprClosure> {
    match func {
        Expr::Closure(closure) => Some(closure),
        Expr::Paren(inner) => written_closure(&mut inner.expr),
        _ => None,
    }
}

/// How a call of an operation is written.
fn form_of(call: &ExprCall, method_form: bool) -> Form {
    match module_of(&call.func) {
        _ if method_form => Form::Method,
        Some(module) => Form::Function(module),
        None if is_bare(&call.func) && (2..=5).contains(&call.args.len()) => Form::Bare,
        None => Form::Path,
    }
}

/// The Rust module that a function is called by, if its path names one.
fn module_of(func: &Expr) -> Option<Rc<syn::Path>> {
    let Expr::Path(ExprPath { qself: None, path, .. }) = func else { return None };
    let mut module = path.clone();
    module.segments.pop();
    module.segments.pop_punct();
    (!module.segments.is_empty()).then(|| Rc::new(module))
}

/// Whether a function is called by its name alone.
fn is_bare(func: &Expr) -> bool {
    matches!(func, Expr::Path(ExprPath { qself: None, path, .. }) if path.get_ident().is_some())
}

/// Takes the precision out of `Tensor::<F32>::op` and `<Tensor<F32>>::op`: the tensor that it is given says its own.
fn open_precision(path: &mut ExprPath) {
    let ty = match &mut path.qself {
        Some(QSelf { ty, position: 0, .. }) => match &mut **ty {
            Type::Path(ty) => ty.path.segments.last_mut(),
            _ => None,
        },
        Some(_) => None,
        None => path.path.segments.iter_mut().rev().nth(1),
    };
    if let Some(PathSegment { ident, arguments: PathArguments::AngleBracketed(list) }) = ty
        && ident == "Tensor"
    {
        list.args = parse_quote!(_);
    }
}

/// `Tensor::<F32>::zeros(..)` and the like say their precision.
fn constructed(walker: &Walker<'_>, path: &syn::ExprPath) -> Option<Value> {
    let qualifier = path.path.segments.iter().rev().nth(1)?;
    if qualifier.ident != "Tensor" {
        return has_operators(&qualifier.ident.to_string()).then(Value::other);
    }
    let PathArguments::AngleBracketed(list) = &qualifier.arguments else { return Some(made(path)) };
    match list.args.first() {
        Some(syn::GenericArgument::Type(ty)) => Some(walker.marker(ty)),
        _ => Some(Value::new(Prec::Unknown)),
    }
}
