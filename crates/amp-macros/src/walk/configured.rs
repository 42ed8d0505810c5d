//! Code that stands under attributes: under `#[cfg(..)]` it may not be there, and only the compiler knows.

use super::{Expect, Walker};
use crate::error::Errors;
use crate::flow::Slot;
use crate::hoist::Step;
use crate::lattice::{Prec, Value};
use quote::{ToTokens, quote};
use syn::parse::{ParseStream, Parser};
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, Block, Expr, ExprBlock, Stmt, StmtMacro};

/// Puts every statement with attributes that declares nothing into a block of its own, which then has them: an expression that
/// is written anew cannot.
pub(super) fn enclose(block: &Block) -> Block {
    let mut block = block.clone();
    Enclosing.visit_block_mut(&mut block);
    block
}

/// The same of what stands in a nested region.
pub(super) fn enclose_in(body: &mut Expr) {
    Enclosing.visit_expr_mut(body);
}

struct Enclosing;

impl VisitMut for Enclosing {
    fn visit_block_mut(&mut self, block: &mut Block) {
        // A macro in braces that a block ends with is its value.
        if let Some(last @ Stmt::Macro(StmtMacro { semi_token: None, .. })) = block.stmts.last_mut()
            && let Ok(tail) = syn::parse2::<Expr>(last.to_token_stream())
        {
            *last = Stmt::Expr(tail, None);
        }
        visit_mut::visit_block_mut(self, block);
    }

    fn visit_stmt_mut(&mut self, stmt: &mut Stmt) {
        if let Stmt::Expr(_, semi) | Stmt::Macro(StmtMacro { semi_token: semi, .. }) = stmt
            && let (semi, Some((attrs, stmts))) = (*semi, taken_apart(stmt))
        {
            // What does not come back ends a block with its `;`.
            let semi = semi.filter(|_| is_conditional(&attrs));
            let block = Block { brace_token: Default::default(), stmts };
            *stmt = Stmt::Expr(Expr::Block(ExprBlock { attrs, label: None, block }), semi);
        }
        visit_mut::visit_stmt_mut(self, stmt);
    }
}

/// The attributes of a statement, and what stands under them. To a macro, which may declare something, only conditions mean anything.
fn taken_apart(stmt: &Stmt) -> Option<(Vec<Attribute>, Vec<Stmt>)> {
    if !begins_with_attribute(stmt) {
        return None;
    }
    let parse = |input: ParseStream<'_>| Ok((Attribute::parse_outer(input)?, Block::parse_within(input)?));
    let (attrs, stmts) = parse.parse2(stmt.to_token_stream()).ok()?;
    (is_conditional(&attrs) || matches!(stmt, Stmt::Expr(..))).then_some((attrs, stmts))
}

/// Whether something may not be there: only what has an attribute may not.
pub(super) fn begins_with_attribute(tokens: &impl ToTokens) -> bool {
    tokens.to_token_stream().into_iter().next().is_some_and(|first| first.to_string() == "#")
}

/// Whether what has these attributes may not be there.
pub(super) fn is_conditional(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attr| attr.path().is_ident("cfg") || attr.path().is_ident("cfg_attr"))
}

/// The first of the statements that a block may end with: one of several, of which the compiler leaves one.
pub(super) fn first_tail(stmts: &[Stmt]) -> usize {
    let ends = |stmt: &Stmt| matches!(stmt, Stmt::Expr(Expr::Block(block), None) if is_conditional(&block.attrs));
    let before = stmts.len().saturating_sub(1);
    match stmts.last() {
        Some(last @ Stmt::Expr(_, None)) if ends(last) => {
            before - stmts[..before].iter().rev().take_while(|stmt| ends(stmt)).count()
        }
        _ => before,
    }
}

impl Walker<'_> {
    /// Walks a block that may not be there.
    pub(super) fn conditional_block(&mut self, block: &mut Block, expect: &Expect) -> Value {
        let (before, node) = (self.flows.state(), self.fresh_id());
        self.steps.push(Step::Branch(node, 0));
        let (value, found) = self.conditionally(|walker| walker.block(block, expect));
        self.steps.pop();
        self.flows.merge(vec![before]);
        block.stmts.splice(0..0, found);
        value
    }

    /// Walks what may not be there; what is wrong with it is said by statements that stand beside it.
    pub(super) fn conditionally<T>(&mut self, walk: impl FnOnce(&mut Self) -> T) -> (T, Option<Stmt>) {
        let errors = std::mem::take(&mut self.errors);
        let walked = walk(self);
        let found = std::mem::replace(&mut self.errors, errors);
        (walked, reported(found))
    }

    /// Of variables from `first` on, which may not be there, those of the same names may be meant.
    pub(super) fn may_be_others(&mut self, first: usize) {
        for var in first..self.scopes.vars.len() {
            let Some(other) = self.scopes.before(var) else { continue };
            let [own, before] = [var, other].map(|var| self.held(&Slot::of(var), self.known(var)));
            let mut value = own.join(&before);
            if own.prec != before.prec {
                value.prec = if value.prec.is_tensor() { Prec::Unknown } else { Prec::Opaque };
            }
            value.sure &= value.prec.is_known();
            self.hold(&Slot::of(var), &value);
            self.scopes.vars[var].value = value;
            // Only what changes is assigned to.
            self.scopes.vars[var].otherwise = Some(other).filter(|&other| !self.scopes.vars[other].fixed);
        }
    }
}

/// A statement that says what is wrong.
fn reported(errors: Errors) -> Option<Stmt> {
    (!errors.is_empty()).then(|| {
        let errors = errors.into_tokens();
        Stmt::Expr(Expr::Verbatim(quote!({ #errors })), None)
    })
}

/// `stmt`, if the compiler leaves what has these attributes.
pub(super) fn under(attrs: &[Attribute], stmt: &Stmt) -> Stmt {
    let attrs = attrs.iter().filter(|attr| is_conditional(std::slice::from_ref(attr)));
    Stmt::Expr(Expr::Verbatim(quote!(#(#attrs)* #stmt)), None)
}
