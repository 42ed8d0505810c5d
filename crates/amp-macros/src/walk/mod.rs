//! The abstract interpreter that is also the rewriter.
//!
//! One walk follows a function's body in evaluation order, keeps what it knows about every value ([`Value`]), and puts
//! casts in as it goes. What a walk cannot know when it meets a declaration (what a loop assigns later, which uses of a
//! value share a narrowing) comes from the round before; rounds are repeated on fresh copies of the body until nothing
//! changes, and one more writes the casts. Single calls never depend on these facts: they are decided by type.

mod alike;
mod associated;
mod call;
mod called;
mod captured;
mod cast;
mod cell;
mod chained;
mod closure;
mod configured;
pub(crate) mod consumed;
mod contained;
mod control;
mod converted;
mod destructure;
mod direct;
mod elements;
mod expect;
mod explicit;
mod expr;
mod fixed;
mod function;
mod gathered;
mod grown;
mod held;
mod instead;
mod lent;
mod list;
mod loops;
mod macros;
mod made;
mod makers;
mod methods;
mod module;
mod names;
pub(crate) mod nested;
mod operation;
mod operator;
mod path;
mod pattern;
mod protocol;
mod receiver;
mod redeclared;
mod rounds;
mod shared;
mod statement;
mod sums;
mod tail;
mod tupled;
mod tuples;
mod unlisted;
mod wrapper;

use crate::args::{Region, param_name};
use crate::changes::Changes;
use crate::error::Errors;
use crate::flow::{Flows, Site};
use crate::hoist::{Hoists, Step, Use};
use crate::lattice::{Prec, Value};
use crate::place::Place;
use crate::plan::Row;
use crate::rules::Rules;
use crate::scope::Scopes;
use crate::{emit, hoist};
pub(crate) use expect::Expect;
pub(crate) use grown::Growth;
use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use rounds::Settled;
pub(crate) use rounds::{Start, Walked, walk, walk_both};
use std::rc::Rc;
use syn::{Block, Expr, ExprBlock, Stmt, Type, parse_quote};

/// What stays the same for a whole function.
pub(crate) struct Context {
    pub(crate) host: bool,
    /// The name of the type parameter the region runs in.
    pub(crate) param: Option<String>,
    /// What surrounds it may have parameters that are not seen here: a method's type, the function that a region stands in.
    pub(crate) within: bool,
    /// Modules say by their types what they cost.
    pub(crate) tallies: bool,
}

/// A variable that is named, and where.
type Mention = (usize, Vec<Step>);

/// One round.
pub(crate) struct Walker<'a> {
    /// Casts are written in this round.
    writes: bool,
    cx: &'a Context,
    region: Region,
    /// It runs in full precision within one that does not: how many variables there were before it.
    switched_off: Option<usize>,
    rules: Rules,
    changes: Rc<Changes>,
    scopes: Scopes,
    settled: Settled,
    steps: Vec<Step>,
    /// The blocks whose value is being walked.
    tails: Vec<u32>,
    /// Overrides the path length at which new variables are in scope.
    binding_scope: Option<usize>,
    /// What the elements are expected to be that the iterator which is walked next is collected into.
    collected: Option<Expect>,
    /// What is walked next, an iterator or an option, is used up where it stands.
    consumed: bool,
    next_id: u32,
    flows: Flows,
    next_site: Site,
    uses: Vec<Use>,
    /// Closures, and variables from outside that they give away.
    givers: Vec<(u32, usize)>,
    mentions: Vec<Mention>,
    grown: Vec<Growth>,
    hoists: Hoists,
    /// Hoists whose cost was counted already, and the tallies that their types are asked for.
    counted: Vec<(usize, Option<Ident>)>,
    /// What is walked is assigned to a variable that starts as `None`: it says the type of what comes out of that.
    says_type: bool,
    /// Modules are asked for what they cost: in one of two bodies, of which one runs, once.
    tallies: bool,
    /// How many tallies there are.
    tallied: usize,
    /// The precisions of casts that the user wrote of which only the types say what they are.
    marked: Vec<Type>,
    /// Places of which only their types say whether a cast of the user's was of floats, and the closures that these are named in.
    cast: Vec<(Rc<Place>, Vec<u32>)>,
    /// Modules that were given, one after the other, what the user cast, and the closures that these are named in.
    given: Vec<(Vec<Rc<Place>>, Vec<u32>)>,
    /// The enclosing loops and labelled blocks.
    breaks: Vec<loops::Frame>,
    /// What is kept until the end of a block: the block, the statement that needs it, its local.
    slots: Vec<(u32, usize, Ident)>,
    /// What the innermost function or closure declares to return.
    returns: Expect,
    errors: Errors,
    rows: Vec<Row>,
    /// Places that training calls are made on.
    trainers: Vec<(usize, String)>,
    /// What the macro of a region within this one is called here.
    nested: Option<Ident>,
    /// Whether blocks of the body have imports of their own.
    imports: bool,
}

impl Walker<'_> {
    fn finish(self, mut body: Block) -> Walked {
        // The compiler would find an import of the macro, whose calls are gone, unused.
        if let Some(name) = self.nested.filter(|_| !self.imports) {
            body.stmts.insert(0, parse_quote!(#[allow(unused_imports)] use #name as _;));
        }
        Walked { body, errors: self.errors, rows: self.rows }
    }

    fn fresh_id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }

    /// The target that stands for a precision.
    fn target(&self, prec: &Prec) -> TokenStream {
        match prec {
            Prec::Half(name) => match &self.region {
                Region::Param(param) if param_name(param) == *name => quote!(__amp::to::<#param>()),
                _ if name == "F16" => quote!(__amp::TO_F16),
                _ if name == "BF16" => quote!(__amp::TO_BF16),
                _ => {
                    // It is one of a region around this, or of one in it that a cast is made ahead of.
                    let param: Option<syn::Path> = syn::parse_str(name).ok();
                    quote!(__amp::to::<#param>())
                }
            },
            _ => quote!(__amp::TO_F32),
        }
    }

    fn lower(&self) -> Prec {
        self.region.prec()
    }

    /// Walks a block; its tail is coerced to what is expected of it.
    pub(crate) fn block(&mut self, block: &mut Block, expect: &Expect) -> Value {
        let id = self.fresh_id();
        let mark = self.scopes.enter();
        self.steps.push(Step::Block(id, 0));
        let at = self.steps.len() - 1;
        let mut value = Value::other();
        self.functions(block);
        let first_tail = configured::first_tail(&block.stmts);
        let mut after: Vec<(usize, Vec<Stmt>)> = Vec::new();
        for (i, stmt) in block.stmts.iter_mut().enumerate() {
            self.steps[at] = Step::Block(id, i);
            let last = i >= first_tail;
            if i == first_tail && matches!(stmt, Stmt::Expr(_, None)) {
                self.tails.push(id);
            }
            let (v, more) = self.statement(stmt, last, expect);
            value = if i > first_tail { value.join(&v) } else { v };
            if !more.is_empty() {
                after.push((i + 1, more));
            }
        }
        self.steps.truncate(at);
        self.tails.pop_if(|tail| *tail == id);
        self.scopes.leave(mark);
        self.insert(block, id, after);
        value
    }

    /// Puts hoists and re-declarations into a block.
    fn insert(&self, block: &mut Block, id: u32, mut after: Vec<(usize, Vec<Stmt>)>) {
        for (statement, number, hoist) in self.hoists.of_block(id).into_iter().rev() {
            let tokens = self.hoist_statement(number, hoist);
            after.push((statement, vec![Stmt::Expr(Expr::Verbatim(tokens), None)]));
        }
        for (_, statement, slot) in self.slots.iter().filter(|(block, ..)| *block == id) {
            after.push((*statement, vec![Stmt::Expr(Expr::Verbatim(quote!(let mut #slot = __amp::Nothing;)), None)]));
        }
        after.sort_by_key(|(at, _)| *at);
        for (at, stmts) in after.into_iter().rev() {
            block.stmts.splice(at..at, stmts);
        }
    }

    fn hoist_statement(&self, number: usize, hoist: &hoist::Hoist) -> TokenStream {
        let (first, _) = emit::ends(&hoist.place);
        let name = emit::local("h", number, first);
        let target = self.target(&Prec::Half(hoist.target.clone()));
        let tally = self.counted.iter().find(|(counted, _)| *counted == number).and_then(|(_, tally)| tally.as_ref());
        emit::hoisted(&name, &hoist.place, &target, hoist.direct, tally)
    }

    /// A local that lives as long as the block of the statement that is being walked, and as what that is the value of.
    fn slot(&mut self) -> Option<Ident> {
        let (block, statement) = (0..self.steps.len()).rev().find_map(|at| match self.steps[at] {
            Step::Block(block, statement) if !self.hands_out(at, block) => Some((block, statement)),
            _ => None,
        })?;
        let slot = emit::local("w", self.slots.len(), Span::call_site());
        self.slots.push((block, statement, slot.clone()));
        Some(slot)
    }

    /// Whether the value that is being walked is that of the block at this step, which is the value of what is around it.
    fn hands_out(&self, at: usize, block: u32) -> bool {
        let around = at.checked_sub(1).and_then(|around| self.steps.get(around));
        matches!(around, Some(Step::Block(..) | Step::Branch(..))) && self.tails.contains(&block)
    }

    /// Walks an expression that stands where a block could, so that hoists have a place.
    fn body(&mut self, expr: &mut Expr, expect: &Expect) -> Value {
        if let Expr::Block(inner) = expr
            && inner.label.is_none()
            && inner.attrs.is_empty()
        {
            return self.block(&mut inner.block, expect);
        }
        let id = self.fresh_id();
        self.steps.push(Step::Block(id, 0));
        let at = self.steps.len() - 1;
        self.tails.push(id);
        let value = self.begins(expr, expect);
        self.tails.pop();
        self.steps.truncate(at);
        let hoists = self.hoists.of_block(id).into_iter().map(|(_, number, hoist)| self.hoist_statement(number, hoist));
        let slots = self.slots.iter().filter(|(block, ..)| *block == id);
        let slots = slots.map(|(.., slot)| quote!(let mut #slot = __amp::Nothing;));
        let lets: Vec<TokenStream> = hoists.chain(slots).collect();
        if !lets.is_empty() {
            let inner = std::mem::replace(expr, Expr::Verbatim(TokenStream::new()));
            let lets = Stmt::Expr(Expr::Verbatim(quote!(#(#lets)*)), None);
            let block = Block { brace_token: Default::default(), stmts: vec![lets, Stmt::Expr(inner, None)] };
            *expr = Expr::Block(ExprBlock { attrs: Vec::new(), label: None, block });
        }
        value
    }
}
