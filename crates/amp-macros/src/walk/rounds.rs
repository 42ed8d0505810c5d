//! Rounds: a body is walked until nothing changes, and once more to write the casts.

use super::associated::AsMethods;
use super::grown::same_lists;
use super::{Context, Expect, Growth, Mention, Walker, configured};
use crate::args::Region;
use crate::changes::Changes;
use crate::error::Errors;
use crate::flow::{Carried, Direct, Flows};
use crate::hoist::Hoists;
use crate::lattice::{Prec, Value};
use crate::parens;
use crate::plan::Row;
use crate::rules::Rules;
use crate::scope::Scopes;
use std::rc::Rc;
use syn::visit_mut::VisitMut;
use syn::{Block, Expr, Stmt};

/// What one round tells the next.
#[derive(Clone, Default)]
pub(super) struct Settled {
    /// Nothing yet: what comes out of a variable that starts as `None` adds nothing to what is put into it.
    pub(super) first: bool,
    pub(super) vars: Vec<Option<Prec>>,
    /// Variables that hold tuples, and which of the elements are F32.
    pub(super) elements: Vec<(usize, Vec<bool>)>,
    /// The variables that carry a cast of the user's round a loop.
    pub(super) carried: Carried,
    /// The calls that write a narrow result.
    pub(super) direct: Direct,
    pub(super) mentions: Vec<Mention>,
    /// Lists that grow by what is made of them.
    pub(super) grown: Vec<Growth>,
}

impl Settled {
    /// Whether a round that started from this chose the same.
    fn is(&self, next: &Self) -> bool {
        let (known, new) = next.vars.split_at(self.vars.len().min(next.vars.len()));
        known == self.vars
            && new.iter().all(Option::is_none)
            && same_lists(&self.grown, &next.grown)
            && self.elements == next.elements
            && self.carried == next.carried
    }
}

/// A body with its casts, and what was found out about it.
pub(crate) struct Walked {
    pub(crate) body: Block,
    pub(crate) errors: Errors,
    pub(crate) rows: Vec<Row>,
}

/// What a round starts from.
pub(crate) struct Start<'a> {
    pub(crate) cx: &'a Context,
    pub(crate) region: &'a Region,
    pub(crate) rules: &'a Rules,
    pub(crate) returns: &'a Expect,
    /// What the place of the body's value declares.
    pub(crate) gives: &'a Expect,
    /// Declares parameters.
    pub(crate) declare: &'a dyn Fn(&mut Walker<'_>),
}

/// Rounds that a body is walked at most: F32 goes on by one variable in each, round a loop. One that has not settled by then is left
/// to the types.
const MAX_ROUNDS: usize = 24;

/// Walks a body until nothing changes.
pub(crate) fn walk(start: &Start<'_>, body: &Block) -> Walked {
    let (walker, body, _) = settle(start, body);
    walker.finish(body)
}

/// Walks a body in the region's precision and in F32, between which a condition decides at run time.
pub(crate) fn walk_both(start: &Start<'_>, body: &Block, enabled: &Expr) -> Walked {
    let (mut walker, lower, in_lower) = settle(start, body);
    // What a call costs is counted once.
    let cx = &Context { param: start.cx.param.clone(), tallies: false, ..*start.cx };
    let (_, full, in_full) = settle(&Start { cx, region: &Region::F32, ..*start }, body);
    let (_, body) = walker.switched(enabled, (lower, in_lower), (full, in_full));
    walker.finish(Block { brace_token: Default::default(), stmts: vec![Stmt::Expr(body, None)] })
}

/// The last round of a body, its casts written.
fn settle<'a>(start: &Start<'a>, body: &Block) -> (Walker<'a>, Block, Value) {
    let mut body = configured::enclose(&parens::quiet(body));
    AsMethods.visit_block_mut(&mut body);
    let body = &body;
    let changes = Rc::new(Changes::of(body, start.rules));
    let mut settled = Settled { first: true, ..Settled::default() };
    let mut walker = round(start, (body, &changes), settled.clone(), None).0;
    settled.first = walker.scopes.vars.iter().any(|var| var.empty);
    for _ in 0..MAX_ROUNDS {
        let (vars, carried) = (walker.scopes.choose(), walker.flows.carried().clone());
        let (grown, elements) = (walker.grown.clone(), walker.scopes.choose_elements());
        let next = Settled { vars, elements, carried, grown, ..Settled::default() };
        if settled.is(&next) && !settled.first {
            break;
        }
        settled = next;
        walker = round(start, (body, &changes), settled.clone(), None).0;
    }
    settled.direct = walker.flows.direct();
    settled.mentions = walker.mentions;
    let hoists = Hoists::plan(&walker.uses);
    round(start, (body, &changes), settled, Some(hoists))
}

/// Casts are written when it is known which of them are made ahead.
fn round<'a>(
    start: &Start<'a>,
    (body, changes): (&Block, &Rc<Changes>),
    settled: Settled,
    hoists: Option<Hoists>,
) -> (Walker<'a>, Block, Value) {
    let flows = Flows::knowing(settled.carried.clone());
    let mut walker = Walker {
        writes: hoists.is_some(),
        cx: start.cx,
        region: start.region.clone(),
        switched_off: None,
        rules: start.rules.clone(),
        changes: changes.clone(),
        scopes: Scopes::default(),
        settled,
        steps: Vec::new(),
        tails: Vec::new(),
        binding_scope: None,
        collected: None,
        consumed: false,
        next_id: 0,
        flows,
        next_site: 0,
        uses: Vec::new(),
        givers: Vec::new(),
        mentions: Vec::new(),
        grown: Vec::new(),
        hoists: hoists.unwrap_or_default(),
        counted: Vec::new(),
        says_type: false,
        tallies: start.cx.tallies,
        tallied: 0,
        marked: Vec::new(),
        cast: Vec::new(),
        given: Vec::new(),
        breaks: Vec::new(),
        slots: Vec::new(),
        returns: start.returns.clone(),
        errors: Errors::default(),
        rows: Vec::new(),
        trainers: Vec::new(),
        nested: None,
        imports: false,
    };
    let mut body = body.clone();
    (start.declare)(&mut walker);
    let value = walker.block(&mut body, start.gives);
    (walker, body, value)
}
