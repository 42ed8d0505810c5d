//! Code that stands under `#[cfg(..)]`: it may not be there, and only the compiler knows.

use super::{Expect, Walker};
use crate::error::Errors;
use crate::flow::Slot;
use crate::hoist::Step;
use crate::lattice::{Prec, Value};
use quote::{ToTokens, quote};
use syn::parse::{ParseStream, Parser};
use syn::visit_mut::{self, VisitMut};
use syn::{Attribute, Block, Expr, ExprBlock, Stmt};

/// Puts every statement under `#[cfg(..)]` that declares nothing into a block of its own, which then stands under it.
pub(super) fn enclose(block: &Block) -> Block {
    let mut block = block.clone();
    Enclosing.visit_block_mut(&mut block);
    block
}

struct Enclosing;

impl VisitMut for Enclosing {
    fn visit_stmt_mut(&mut self, stmt: &mut Stmt) {
        if let Stmt::Expr(_, semi) | Stmt::Macro(syn::StmtMacro { semi_token: semi, .. }) = stmt
            && let (semi, Some((attrs, stmts))) = (*semi, taken_apart(stmt))
        {
            let block = Block { brace_token: Default::default(), stmts };
            *stmt = Stmt::Expr(Expr::Block(ExprBlock { attrs, label: None, block }), semi);
        }
        visit_mut::visit_stmt_mut(self, stmt);
    }
}

/// The attributes of a statement, and what stands under them, if it is there under a condition.
fn taken_apart(stmt: &Stmt) -> Option<(Vec<Attribute>, Vec<Stmt>)> {
    if !begins_with_attribute(stmt) {
        return None;
    }
    let parse = |input: ParseStream<'_>| Ok((Attribute::parse_outer(input)?, Block::parse_within(input)?));
    let (attrs, stmts) = parse.parse2(stmt.to_token_stream()).ok()?;
    is_conditional(&attrs).then_some((attrs, stmts))
}

fn begins_with_attribute(tokens: &impl ToTokens) -> bool {
    tokens.to_token_stream().into_iter().next().is_some_and(|first| first.to_string() == "#")
}

/// Whether what has these attributes may not be there.
pub(super) fn is_conditional(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attr| attr.path().is_ident("cfg") || attr.path().is_ident("cfg_attr"))
}

/// Whether an element of a tuple or of a list may not be there.
pub(super) fn may_be_absent(elem: &Expr) -> bool {
    begins_with_attribute(elem)
}

/// The block that a statement is, if it may not be there.
pub(super) fn conditional(stmt: &Stmt) -> bool {
    matches!(stmt, Stmt::Expr(Expr::Block(block), _) if is_conditional(&block.attrs))
}

/// The first of the statements that a block may end with: one of several, of which the compiler leaves one.
pub(super) fn first_tail(stmts: &[Stmt]) -> usize {
    let ends = |stmt: &Stmt| conditional(stmt) && matches!(stmt, Stmt::Expr(_, None));
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
        let (before, errors) = (self.flows.state(), std::mem::take(&mut self.errors));
        let node = self.fresh_id();
        self.steps.push(Step::Branch(node, 0));
        let value = self.block(block, expect);
        self.steps.pop();
        self.flows.merge(vec![before]);
        let found = std::mem::replace(&mut self.errors, errors);
        block.stmts.splice(0..0, reported(found));
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
            let (known, before) = (self.known(var), self.known(other));
            let mut value = known.join(&before);
            value.constants =
                known.constants_with(&Value { constants: self.flows.constants_of(&Slot::of(other)), ..Value::other() });
            if known.prec != before.prec {
                value.prec = if value.prec.is_tensor() { Prec::Unknown } else { Prec::Opaque };
            }
            value.sure &= value.prec.is_known();
            self.flows.read_fields(&Slot::of(var));
            drop((self.flows.read(&Slot::of(var)), self.flows.read(&Slot::of(other))));
            self.hold(&Slot::of(var), &value);
            self.scopes.vars[var].value = value;
        }
    }
}

/// Statements that say what is wrong.
fn reported(errors: Errors) -> Option<Stmt> {
    (!errors.is_empty()).then(|| Stmt::Expr(Expr::Verbatim(errors.into_tokens()), None))
}

/// `stmt`, if the compiler leaves what has these attributes.
pub(super) fn under(attrs: &[Attribute], stmt: &Stmt) -> Stmt {
    let attrs = attrs.iter().filter(|attr| is_conditional(std::slice::from_ref(attr)));
    Stmt::Expr(Expr::Verbatim(quote!(#(#attrs)* { #stmt })), None)
}
