//! Macros in a body: nested regions, and macros whose arguments are plain expressions.

use super::{Expect, Walker, configured};
use crate::args::{Args, Region};
use crate::emit;
use crate::error::at;
use crate::hoist::Step;
use crate::lattice::{Prec, Value};
use crate::pin::Pin;
use crate::shape::Shape;
use crate::{listed, parens, region};
use proc_macro2::Span;
use quote::{ToTokens, quote, quote_spanned};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::token::Bracket;
use syn::{Block, Expr, ExprArray, Macro, Stmt, Token};

/// Macros that do not come back.
const DIVERGING: &[&str] = &["panic", "unreachable", "todo", "unimplemented", "bail", "compile_error"];
/// Macros whose arguments are expressions separated by commas.
const TRANSPARENT: &[&str] = &[
    "vec",
    "println",
    "print",
    "eprintln",
    "eprint",
    "format",
    "write",
    "writeln",
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "dbg",
    "panic",
    "unreachable",
    "bail",
    "ensure",
];

/// Whether an expression is a call of a macro that does not come back.
pub(super) fn diverges(expr: &Expr) -> bool {
    let Expr::Macro(call) = expr else { return false };
    call.mac.path.segments.last().is_some_and(|last| DIVERGING.iter().any(|name| last.ident == name))
}

impl Walker<'_> {
    /// Walks a macro call; the second part replaces it.
    pub(super) fn macro_call(&mut self, mac: &Macro) -> (Value, Option<Expr>) {
        let Some(name) = mac.path.segments.last().map(|segment| segment.ident.to_string()) else {
            return (Value::inferred(), None);
        };
        if name == "amp_region" {
            return self.nested_region(mac);
        }
        self.named_in(&mac.tokens);
        let replaced = TRANSPARENT.contains(&name.as_str()).then(|| self.arguments(mac)).flatten();
        let (value, expr) = match replaced {
            Some((value, expr)) => (value, Some(expr)),
            None => (Value::inferred(), None),
        };
        match name.as_str() {
            "vec" | "dbg" => (Value { shape: Shape::Unknown, ..value }, expr),
            name if DIVERGING.contains(&name) => (Value::never(), expr),
            "format" | "assert" | "assert_eq" | "assert_ne" | "debug_assert" | "println" | "print" | "eprintln"
            | "eprint" | "write" | "writeln" => (Value::other(), expr),
            _ => (Value::inferred(), expr),
        }
    }

    fn arguments(&mut self, mac: &Macro) -> Option<(Value, Expr)> {
        let parser = Punctuated::<Expr, Token![,]>::parse_terminated;
        let with = |tokens| {
            let mac = Macro { tokens, ..mac.clone() };
            Expr::Macro(syn::ExprMacro { attrs: Vec::new(), mac })
        };
        if let Ok(mut list) = parser.parse2(mac.tokens.clone()) {
            list.iter_mut().for_each(parens::grouped);
            if mac.path.is_ident("vec") {
                let bracket_token = Bracket { span: *mac.delimiter.span() };
                let mut array = Expr::Array(ExprArray { attrs: Vec::new(), bracket_token, elems: list });
                let value = self.array(&mut array);
                let list = match array {
                    Expr::Array(ExprArray { elems, .. }) => with(quote!(#elems)),
                    joined => emit::vector(joined),
                };
                return Some((value, list));
            }
            let value = self.elements(list.iter_mut());
            return Some((value, with(quote!(#list))));
        }
        // `vec![value; count]`
        let repeat = |input: syn::parse::ParseStream| {
            let value: Expr = input.parse()?;
            input.parse::<Token![;]>()?;
            Ok((value, input.parse::<Expr>()?))
        };
        let (mut value, mut count) = repeat.parse2(mac.tokens.clone()).ok()?;
        [&mut value, &mut count].into_iter().for_each(parens::grouped);
        let known = self.expr(&mut value);
        self.expr(&mut count);
        Some((known, with(quote!(#value; #count))))
    }

    fn nested_region(&mut self, mac: &Macro) -> (Value, Option<Expr>) {
        let (args, mut body) = match region::parse.parse2(mac.tokens.clone()) {
            Ok(parsed) => parsed,
            Err(error) => {
                self.errors.push(error);
                return (Value::never(), None);
            }
        };
        // Only the macro that the policy is knows its rules: what the region assigns to variables from outside is not seen.
        if args.policy.is_some() {
            self.named_in(&mac.tokens);
            let pinned = Pin::of_region(self.switches_off(&args.region));
            return (Value { pinned, ..Value::new(Prec::Unknown) }, None);
        }
        if let Some((_, tokens)) = &args.max_casts {
            let span = tokens.clone().into_iter().next().map_or(args.region_span, |token| token.span());
            self.errors.push(at(
                span,
                "`max_casts` belongs to the outermost region",
                "write it on the function's `#[autocast(..)]`",
            ));
        }
        listed::check(&args, &body.to_token_stream(), &mut self.errors);
        configured::enclose_in(&mut body);
        let inner = match &args.enabled {
            Some(enabled) => self.switched_region(&args, enabled.clone(), &mut body),
            None => self.inside(&args, args.region.clone(), |walker| walker.expr(&mut body)),
        };
        let value = if self.switches_off(&args.region) { inner.pinned() } else { inner };
        self.nested = mac.path.get_ident().cloned();
        // What the compiler has to say of it begins where the user's macro does.
        let at = Span::mixed_site().located_at(mac.path.span());
        (value, Some(Expr::Verbatim(quote_spanned!(at=> (#body)))))
    }

    /// Whether a region within this one runs in full precision, and this one does not.
    fn switches_off(&self, inner: &Region) -> bool {
        matches!(inner, Region::F32) && !matches!(self.region, Region::F32)
    }

    /// Walks the body of a region that a condition switches on: once in its precision, and once in F32.
    fn switched_region(&mut self, args: &Args, mut enabled: Expr, body: &mut Expr) -> Value {
        self.expr(&mut enabled);
        let (node, before) = (self.fresh_id(), self.flows.state());
        let lower = self.walked_in(args, args.region.clone(), Step::Branch(node, 0), body.clone());
        let (rows, errors) = (self.rows.len(), std::mem::take(&mut self.errors));
        let lower_end = self.flows.state();
        self.flows.resume(before);
        let full = self.walked_in(args, Region::F32, Step::Branch(node, 1), body.clone());
        self.flows.merge(vec![lower_end]);
        // It is one region, and one plan.
        self.rows.truncate(rows);
        if !errors.is_empty() {
            self.errors = errors;
        }
        let (value, switched) = self.switched(&enabled, lower, full);
        *body = switched;
        value
    }

    fn walked_in(&mut self, args: &Args, region: Region, step: Step, body: Expr) -> (Block, Value) {
        let mut block = as_block(body);
        self.steps.push(step);
        let value = self.inside(args, region, |walker| walker.block(&mut block, &Expect::Nothing));
        self.steps.pop();
        (block, value)
    }

    /// Walks what stands in a nested region; what it is walked in may be F32 because the region is not enabled.
    fn inside<T>(&mut self, args: &Args, region: Region, walk: impl FnOnce(&mut Self) -> T) -> T {
        let mut rules = args.rules.clone();
        rules.add_policy(self.rules.clone());
        let switched_off = match args.region {
            Region::F32 if self.switches_off(&args.region) => Some(self.scopes.vars.len()),
            Region::F32 => self.switched_off,
            _ => None,
        };
        let switched_off = std::mem::replace(&mut self.switched_off, switched_off);
        let region = std::mem::replace(&mut self.region, region);
        let rules = std::mem::replace(&mut self.rules, rules);
        let out = walk(self);
        self.region = region;
        self.rules = rules;
        self.switched_off = switched_off;
        out
    }
}

/// The body of a region as a block.
pub(crate) fn as_block(body: Expr) -> Block {
    match body {
        Expr::Block(block) if block.label.is_none() && block.attrs.is_empty() => block.block,
        expr => Block { brace_token: Default::default(), stmts: vec![Stmt::Expr(expr, None)] },
    }
}
