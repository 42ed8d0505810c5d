//! `full` operations that write a narrow result, because nobody needs it in F32.

use super::Walker;
use crate::emit;
use crate::flow::{Flow, Site, Slot, Taker, Writer};
use crate::hoist::Step;
use crate::lattice::{Prec, Value};
use crate::place::{Place, View};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use std::rc::Rc;
use syn::{Expr, Path};

/// How many modules in a row are asked by type whether they narrow what they are given.
const DEEPEST: u32 = 3;

/// Who has to narrow the result of a call for it to be written narrow.
pub(super) enum Written {
    /// Nobody else: it is.
    Always,
    /// The modules that these tokens ask.
    If(TokenStream),
}

impl Written {
    /// The tokens of the condition; `always` stands for "yes".
    pub(super) fn condition(self, always: &TokenStream) -> TokenStream {
        match self {
            Self::Always => always.clone(),
            Self::If(condition) => condition,
        }
    }
}

impl Walker<'_> {
    /// The number of the call that is walked now.
    pub(super) fn site(&mut self) -> Site {
        self.next_site += 1;
        self.next_site
    }

    /// The flow of a call's result that could be written narrow.
    pub(super) fn produce(&mut self, site: Site, writer: Writer) -> Flow {
        match self.lower() {
            // A host's tensors are cast where they are taken.
            Prec::Half(half) if !self.cx.host => self.flows.produce(site, &half, writer),
            _ => Flow::default(),
        }
    }

    /// A `lower` operation takes these values.
    pub(super) fn narrowed<'v>(&mut self, values: impl Iterator<Item = &'v Value>) {
        if let Prec::Half(half) = self.lower() {
            values.for_each(|value| self.flows.narrow(&value.flow, &half));
        }
    }

    /// A module takes these values; its type says whether it narrows them.
    pub(super) fn given<'v>(&mut self, module: &Expr, site: Site, values: impl Iterator<Item = &'v Value>) {
        let Prec::Half(half) = self.lower() else { return };
        let Some(place) = Place::of(module, &self.scopes, &self.rules) else { return };
        let fixed = self.fixed_place(module).is_some();
        let taker = Rc::new(Taker { place, fixed, closures: self.closures(), site });
        values.for_each(|value| self.flows.give(&value.flow, &half, &taker));
    }

    /// A slot holds another value from here on. Nobody knows when a closure assigns to what it captures: what it
    /// assigns is needed in F32.
    pub(super) fn reassigned(&mut self, slot: &Slot, value: &Value) {
        if self.is_captured(slot.var) {
            self.flows.disturb(slot);
            self.pin(slot, value);
        } else {
            self.hold(slot, value);
        }
    }

    /// Whether the result of a call is written narrow; the call may be one of a function of this Rust module.
    pub(super) fn written(&self, site: Site, functions: Option<&Rc<Path>>) -> Option<Written> {
        let decision = self.settled.direct.get(site)?;
        let functions: Vec<&Rc<Path>> = decision.functions.iter().chain(functions).collect();
        if decision.takers.is_empty() && functions.is_empty() {
            return Some(Written::Always);
        }
        let takers = self.condition(&decision.takers, DEEPEST)?;
        Some(Written::If(functions.into_iter().fold(takers, |others, path| emit::if_ours(path, &others))))
    }

    /// Asks all these modules; `None` if one of them cannot be named here.
    fn condition(&self, takers: &[Rc<Taker>], depth: u32) -> Option<TokenStream> {
        takers.iter().try_fold(self.target(&self.lower()), |others, taker| {
            let View { expr: place, whole, typed } = taker.place.seen_from(&self.scopes)?;
            let (plain, place) = (whole && taker.fixed, self.referred(place));
            // A closure captures what is named in it, even where that does not run.
            let askable = typed && taker.closures.starts_with(&self.closures());
            if !plain && !askable {
                return None;
            }
            let then = self.settled.direct.get(taker.site).filter(|_| depth > 1);
            let then = then.and_then(|decision| self.condition(&decision.takers, depth - 1));
            let asked = |then: &TokenStream| match plain {
                true => quote!(__amp::taker(&#place, #then)),
                false => emit::only_asked(&quote!(__amp::taker(&#place, #then))),
            };
            Some(match then {
                Some(then) => {
                    let local = emit::local("n", depth as usize, Span::call_site()).to_token_stream();
                    let taker = asked(&local);
                    quote!(match #then { #local => #taker.narrows(#local, #others) })
                }
                None => {
                    let taker = asked(&quote!(__amp::Keep));
                    quote!(#taker.narrows(__amp::Keep, #others))
                }
            })
        })
    }

    /// The closures and async blocks around what is walked now.
    pub(super) fn closures(&self) -> Vec<u32> {
        let closure = |step: &Step| match step {
            Step::Closure(number) | Step::Barrier(number) => Some(*number),
            Step::Block(..) | Step::Branch(..) | Step::Loop(_) => None,
        };
        self.steps.iter().filter_map(closure).collect()
    }

    /// Whether narrowing a value costs nothing: it was written narrow.
    pub(super) fn is_free(&self, value: &Value) -> bool {
        self.settled.direct.is_free(&value.flow)
    }

    /// A variable that a macro's tokens may name is needed as it is.
    pub(super) fn named_in(&mut self, tokens: &TokenStream) -> bool {
        let mut tensors = false;
        for name in emit::names(tokens) {
            if let Some(var) = self.scopes.find(&name) {
                self.needed(&Slot::of(var));
                tensors |= self.known(var).prec.is_tensor();
            }
        }
        tensors
    }
}
