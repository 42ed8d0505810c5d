//! Macros in a body: those of `std`, whose arguments are walked, and others, of which nothing is seen but what they give.

use super::Walker;
use crate::emit;
use crate::flow::Slot;
use crate::hoist::Step;
use crate::lattice::{Prec, Value};
use crate::parens;
use crate::plan::as_written;
use crate::shape::Shape;
use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::token::Bracket;
use syn::{Expr, ExprArray, ExprMacro, Macro, Pat, Path, Token, parse_quote};

/// Macros that do not come back.
const DIVERGING: &[&str] = &["panic", "unreachable", "todo", "unimplemented", "bail", "compile_error"];
/// Macros whose arguments are expressions separated by commas, which may have names, and that give no tensor.
const FORMATTING: &[&str] = &[
    "println",
    "print",
    "eprintln",
    "eprint",
    "format",
    "format_args",
    "write",
    "writeln",
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "panic",
    "unreachable",
    "todo",
    "unimplemented",
    "bail",
    "ensure",
];
/// Macros that give what is known when the program is compiled.
const CONSTANT: &[&str] = &[
    "cfg",
    "column",
    "concat",
    "env",
    "file",
    "include_bytes",
    "include_str",
    "line",
    "module_path",
    "option_env",
    "stringify",
];
/// Other macros that are walked.
const WALKED: &[&str] = &["vec", "dbg", "pin", "matches", "amp_region"];

/// Whether an expression is a call of a macro that does not come back.
pub(super) fn diverges(expr: &Expr) -> bool {
    let Expr::Macro(call) = expr else { return false };
    DIVERGING.contains(&name_of(&call.mac).as_str())
}

/// Whether an expression is a call of a macro of which nothing is known: it may give anything, or not come back.
pub(super) fn is_foreign(expr: &Expr) -> bool {
    let Expr::Macro(call) = expr else { return false };
    is_unknown(&name_of(&call.mac))
}

fn is_unknown(name: &str) -> bool {
    ![DIVERGING, FORMATTING, CONSTANT, WALKED].iter().any(|known| known.contains(&name))
}

/// `vec`, `std::vec`
pub(super) fn names_vec(path: &Path) -> bool {
    let of_std = |first: &syn::PathSegment| first.ident == "std" || first.ident == "alloc";
    path.is_ident("vec") || path.segments.len() == 2 && path.segments[1].ident == "vec" && of_std(&path.segments[0])
}

fn name_of(mac: &Macro) -> String {
    mac.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default()
}

impl Walker<'_> {
    /// Walks a macro call; the second part replaces it.
    pub(super) fn macro_call(&mut self, mac: &Macro) -> (Value, Option<Expr>) {
        let name = name_of(mac);
        if name == "amp_region" {
            return self.nested_region(mac);
        }
        let names_tensor = self.named_in(&mac.tokens);
        if is_unknown(&name) {
            self.may_change(&mac.tokens);
        }
        let walked = match name.as_str() {
            "vec" if !names_vec(&mac.path) => None,
            "vec" => self.vector(mac),
            "matches" => self.matched(mac),
            "dbg" | "pin" => self.arguments(mac, false),
            name if FORMATTING.contains(&name) => self.arguments(mac, true),
            _ => None,
        };
        let (value, replaced) = walked.map_or((None, None), |(value, tokens)| (Some(value), Some(tokens)));
        let value = match name.as_str() {
            name if DIVERGING.contains(&name) => Value::never(),
            name if FORMATTING.contains(&name) || CONSTANT.contains(&name) || name == "matches" => Value::other(),
            "pin" => Value::opaque(),
            _ if let Some(value) = value => value.shaped(Shape::Unknown),
            // A container that is made empty, as `vec![]` is.
            _ if mac.tokens.is_empty() => Value::inferred(),
            // As of a function of one's own.
            _ if names_tensor => Value::new(Prec::Unknown),
            _ => Value::opaque(),
        };
        (value, replaced)
    }

    /// The numbers in variables that such a macro names may be others behind it.
    fn may_change(&mut self, tokens: &TokenStream) {
        let named: Vec<usize> = emit::names(tokens).iter().filter_map(|name| self.scopes.find(name)).collect();
        for var in named.into_iter().filter(|&var| !self.scopes.vars[var].fixed) {
            self.flows.forget_constants(&Slot::of(var));
        }
    }

    /// Walks arguments, which may be `named`: `println!("{hidden:?}", hidden = x.relu()?)` assigns nothing.
    fn arguments(&mut self, mac: &Macro, named: bool) -> Option<(Value, Expr)> {
        let mut list = expressions(&mac.tokens)?;
        let alone = matches!(name_of(mac).as_str(), "assert" | "debug_assert") && list.len() == 1;
        let message = list.first().filter(|_| alone).map(failed);
        let values = list.iter_mut().map(|arg| match arg {
            Expr::Assign(argument) if named => self.expr(&mut argument.right),
            arg => self.expr(arg),
        });
        let mut values: Vec<Value> = values.collect();
        list.extend(message.into_iter().flatten());
        let value = match values.len() {
            1 => values.remove(0),
            _ => Value::tuple(values),
        };
        // It is shown as it is.
        Some((value.without_uses(), with(mac, quote!(#list))))
    }

    /// Walks `vec![a, b]` or `vec![value; count]`.
    fn vector(&mut self, mac: &Macro) -> Option<(Value, Expr)> {
        if let Some(elems) = expressions(&mac.tokens) {
            let bracket_token = Bracket { span: *mac.delimiter.span() };
            let mut array = Expr::Array(ExprArray { attrs: Vec::new(), bracket_token, elems });
            let value = self.array(&mut array);
            let list = match array {
                Expr::Array(ExprArray { elems, .. }) => with(mac, quote!(#elems)),
                joined => emit::vector(joined),
            };
            return Some((value, list));
        }
        let repeat = |input: ParseStream<'_>| {
            let value: Expr = input.parse()?;
            input.parse::<Token![;]>()?;
            Ok((value, input.parse::<Expr>()?))
        };
        let (mut value, mut count) = repeat.parse2(mac.tokens.clone()).ok()?;
        [&mut value, &mut count].into_iter().for_each(parens::grouped);
        let known = self.expr(&mut value);
        self.expr(&mut count);
        Some((known, with(mac, quote!(#value; #count))))
    }

    /// Walks `matches!(value, pattern if guard)`.
    fn matched(&mut self, mac: &Macro) -> Option<(Value, Expr)> {
        let parse = |input: ParseStream<'_>| {
            let value: Expr = input.parse()?;
            input.parse::<Token![,]>()?;
            let pat = Pat::parse_multi_with_leading_vert(input)?;
            let guard = input.parse::<Option<Token![if]>>()?.map(|_| input.parse::<Expr>()).transpose()?;
            input.parse::<Option<Token![,]>>()?;
            Ok((value, pat, guard))
        };
        let (mut value, pat, mut guard) = parse.parse2(mac.tokens.clone()).ok()?;
        [&mut value].into_iter().chain(&mut guard).for_each(parens::grouped);
        let matched = self.expr(&mut value);
        let (mark, before, node) = (self.scopes.enter(), self.flows.state(), self.fresh_id());
        self.steps.push(Step::Branch(node, 0));
        self.bind(&pat, &matched, false);
        let guard = guard.map(|mut guard| {
            self.expr(&mut guard);
            quote!(if #guard)
        });
        self.steps.pop();
        self.flows.merge(vec![before]);
        self.scopes.leave(mark);
        Some((Value::other(), with(mac, quote!(#value, #pat #guard))))
    }
}

/// What `assert!` says of a condition that does not hold: the condition as it was written, not with its casts.
fn failed(condition: &Expr) -> [Expr; 2] {
    let text = format!("assertion failed: {}", as_written(condition));
    [parse_quote!("{}"), parse_quote!(#text)]
}

/// The expressions that a macro is given, if that is all it is.
fn expressions(tokens: &TokenStream) -> Option<Punctuated<Expr, Token![,]>> {
    let mut list = Punctuated::<Expr, Token![,]>::parse_terminated.parse2(tokens.clone()).ok()?;
    list.iter_mut().for_each(parens::grouped);
    Some(list)
}

/// The same call with other tokens.
fn with(mac: &Macro, tokens: TokenStream) -> Expr {
    Expr::Macro(ExprMacro { attrs: Vec::new(), mac: Macro { tokens, ..mac.clone() } })
}
