//! Regions within a region.

use super::associated::AsMethods;
use super::{Expect, Walker, configured};
use crate::args::{Args, Region};
use crate::error::at;
use crate::hoist::Step;
use crate::lattice::{Prec, Value};
use crate::pin::Pin;
use crate::{listed, region};
use proc_macro2::Span;
use quote::{ToTokens, quote_spanned};
use syn::parse::Parser;
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{Block, Expr, Item, Macro, Stmt};

impl Walker<'_> {
    pub(super) fn nested_region(&mut self, mac: &Macro) -> (Value, Option<Expr>) {
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
        AsMethods.visit_expr_mut(&mut body);
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
        let tallies = std::mem::replace(&mut self.tallies, false);
        let full = self.walked_in(args, Region::F32, Step::Branch(node, 1), body.clone());
        self.tallies = tallies;
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

/// Takes the items out of two bodies of which one runs: a `static` of both is one. A macro may name variables, and items
/// may be made by it: with one they stay where they are.
pub(crate) fn shared_items(lower: &mut Block, full: &mut Block) -> Vec<Stmt> {
    let is_macro = |stmt: &Stmt| matches!(stmt, Stmt::Item(Item::Macro(_)));
    if lower.stmts.iter().any(is_macro) {
        return Vec::new();
    }
    full.stmts.retain(|stmt| !is_item(stmt));
    lower.stmts.extract_if(.., |stmt| is_item(stmt)).collect()
}

fn is_item(stmt: &Stmt) -> bool {
    let of_threads = |mac: &syn::Macro| mac.path.segments.last().is_some_and(|last| last.ident == "thread_local");
    match stmt {
        Stmt::Item(_) => true,
        Stmt::Macro(stmt) => of_threads(&stmt.mac),
        _ => false,
    }
}
