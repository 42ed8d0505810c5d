//! One operand of a call: the local that holds it, what its type is asked, and how it stands in the call.

use super::operand::{Hoisted, Operand, Role, Treatment, settled};
use super::{AsWritten, ends, is_place, is_pure_place, local, outlined, scrutinee, unreferenced};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::Expr;

/// An operand and, where its type is asked ahead of the call, the local that holds its value.
pub(super) struct Bound {
    pub(super) operand: Operand,
    pub(super) name: Option<Ident>,
    /// For a receiver that may be no tensor: what it is as the call is written, ahead of its cast.
    pub(super) open: Option<TokenStream>,
}

impl Bound {
    pub(super) fn new(operand: Operand, index: usize, gated: bool, open: Option<&AsWritten>, at: Span) -> Self {
        let ahead = match &operand.treatment {
            Treatment::Hoisted(hoisted) => Some(hoisted.value(at)),
            _ => None,
        };
        let open =
            open.filter(|_| index == 0).map(|open| open.taken(&local("k", 0, at), &local("t", 0, at), ahead.as_ref()));
        let ahead = matches!(operand.treatment, Treatment::Meet) || gated && index == 0;
        let name = (ahead && open.is_none() && !is_pure(&operand.expr)).then(|| local("", index, at));
        Self { operand, name, open }
    }

    /// What it is cast to, if that is known ahead of the call.
    pub(super) fn target(&self) -> Option<TokenStream> {
        match &self.operand.treatment {
            Treatment::To(target) | Treatment::Hoisted(Hoisted { target, .. }) => Some(target.clone()),
            _ => None,
        }
    }

    pub(super) fn is_borrowed(&self) -> bool {
        matches!(self.operand.role, Role::Receiver | Role::Shared) && is_place(&self.operand.expr)
    }

    /// What the local is bound to: of a place the reference.
    pub(super) fn initial(&self, at: Span) -> TokenStream {
        let expr = &self.operand.expr;
        let first = Span::mixed_site().located_at(ends(expr).0);
        if self.is_borrowed() { quote_spanned!(first=> &#expr) } else { quote_spanned!(at=> #expr) }
    }

    pub(super) fn value(&self, at: Span) -> TokenStream {
        match &self.name {
            Some(name) => relocated(name, ends(&self.operand.expr).0).into_token_stream(),
            None => self.initial(at),
        }
    }

    /// A reference to what is asked for its type.
    pub(super) fn asked(&self, at: Span) -> TokenStream {
        let value = self.value(at);
        let at = if is_place(&self.operand.expr) { ends(&self.operand.expr).0 } else { at };
        if self.is_borrowed() { value } else { quote_spanned!(at=> &#value) }
    }

    /// Its precision as a target.
    pub(super) fn token(&self, at: Span) -> TokenStream {
        let asked = self.asked(at);
        quote_spanned!(at=> __amp::token(#asked, __amp::Keep).token(#asked))
    }

    /// The operand as it stands in the call.
    pub(super) fn passed(self, follows: bool, common: &Ident, at: Span) -> Expr {
        let (first, last) = ends(&self.operand.expr);
        let passed = match &self.operand.treatment {
            Treatment::Nothing => return self.operand.expr,
            _ if self.open.is_some() => pass(self.open.unwrap_or_default(), last),
            Treatment::Hoisted(hoisted @ Hoisted { direct, moves, .. }) => {
                let name = hoisted.value(first);
                let hoisted = match direct {
                    true if follows || *moves => lent(name, Role::Argument, first),
                    true => lent(name, self.operand.role, first),
                    false => pass(quote_spanned!(at=> (#name)), last),
                };
                match follows {
                    true => picked(common, &hoisted, &self.operand.expr, first),
                    false if *moves => named(&self.operand.expr, &hoisted, first),
                    false => hoisted,
                }
            }
            Treatment::Direct(target) if !follows => lent(cast(&self.operand.expr, target), self.operand.role, first),
            Treatment::MeetDirect => {
                lent(cast(&self.operand.expr, &common.to_token_stream()), self.operand.role, first)
            }
            Treatment::Late(target) => late(&self.operand, target),
            Treatment::To(target) if !follows => pass(self.taken(target, at), last),
            _ => pass(self.taken(&common.to_token_stream(), at), last),
        };
        Expr::Verbatim(outlined(passed.into_token_stream(), (first, last)))
    }

    /// Whether its cast may be one to 16 bits.
    pub(super) fn narrows(&self) -> bool {
        let widest = |target: &TokenStream| target.to_string().ends_with("TO_F32");
        matches!(&self.operand.treatment, Treatment::To(target) if !widest(target))
    }

    /// The operand after its cast.
    pub(super) fn taken(&self, target: &TokenStream, at: Span) -> TokenStream {
        let (expr, first) = (&self.operand.expr, ends(&self.operand.expr).0);
        let site = Span::mixed_site().located_at(first);
        let (input, unsettled) = (self.operand.role == Role::Input, self.operand.is_unsettled());
        let (narrows, borrowed, tally) = (self.narrows(), self.is_borrowed(), &self.operand.tally);
        let held = |asked: TokenStream, value: TokenStream| {
            let apart = apart(expr, &asked, target, tally.as_ref());
            let given = match narrows {
                true => quote_spanned!(at=> #apart.given(#value, #target)),
                false => quote_spanned!(at=> __amp::Given(#value, #target)),
            };
            match input {
                true => quote_spanned!(site=> #apart.enter(#value, #target)),
                false if borrowed => quote_spanned!(at=> #given.lend()),
                false if is_place(expr) && narrows => quote_spanned!(at=> #apart.hold(#value, #target)),
                false if is_place(expr) => quote_spanned!(at=> __amp::place(#asked, #target).hold(#value, #target)),
                false => quote_spanned!(at=> #given.hold()),
            }
        };
        let repeats = input || unsettled || narrows || is_place(expr);
        if self.name.is_some() || is_pure(expr) || is_place(expr) && is_pure_place(expr) || !repeats {
            let held = held(self.asked(at), self.value(at));
            return quote_spanned!(site=> (#held));
        }
        let value = local("v", 0, first);
        let (expr, borrow) = (scrutinee(expr), if borrowed { quote_spanned!(first=> &) } else { TokenStream::new() });
        let asked = if borrowed { value.to_token_stream() } else { quote_spanned!(site=> &#value) };
        let held = held(asked, value.to_token_stream());
        let held = if unsettled { settled(std::slice::from_ref(&value), held, first, site) } else { held };
        quote_spanned!(site=> (match #borrow #expr { #value => #held }))
    }
}

/// A tensor that the expansion owns, as an operand: methods borrow it by themselves.
fn lent(owned: TokenStream, role: Role, at: Span) -> Expr {
    let at = Span::mixed_site().located_at(at);
    Expr::Verbatim(match role {
        Role::Receiver => quote_spanned!(at=> (#owned)),
        Role::Operator => quote_spanned!(at=> &(#owned)),
        _ => quote_spanned!(at=> &#owned),
    })
}

/// The cast of a value whose type is found out later.
fn late(operand: &Operand, target: &TokenStream) -> Expr {
    let (expr, at) = (&operand.expr, Span::mixed_site().located_at(ends(&operand.expr).0));
    if operand.role == Role::Input {
        let entered = quote_spanned!(at=> #target.enter_late(#expr));
        // What a block ends with would not live as long as the call.
        let entered = match &operand.tally {
            Some(tally) => quote_spanned!(at=> ((&&&__amp::probe(&(), #target)).counted(#tally), #entered).1),
            None => quote_spanned!(at=> (#entered)),
        };
        return pass(entered, ends(expr).1);
    }
    let reference = matches!(operand.role, Role::Argument | Role::Shared).then(|| quote_spanned!(at=> &));
    Expr::Verbatim(quote_spanned!(at=> #reference __amp::late(#expr, #target)))
}

/// The cast made ahead if the receiver is a tensor, or else what was cast.
fn picked(common: &Ident, hoisted: &Expr, place: &Expr, at: Span) -> Expr {
    let at = Span::mixed_site().located_at(at);
    Expr::Verbatim(quote_spanned!(at=> __amp::Condition::pick(#common, #hoisted, #place)))
}

/// The cast made ahead, where the place is borrowed as it is in the call as written: it may have been moved since.
fn named(place: &Expr, hoisted: &Expr, at: Span) -> Expr {
    let borrow = if is_place(place) { Some(quote_spanned!(at=> &)) } else { None };
    let at = Span::mixed_site().located_at(at);
    Expr::Verbatim(quote_spanned!(at=> (match #borrow #place { _ => #hoisted })))
}

/// `taken.pass()`, underlined like the argument it stands for.
fn pass(taken: TokenStream, last: Span) -> Expr {
    let last = Span::mixed_site().located_at(last);
    let call = quote_spanned!(last=> .pass());
    Expr::Verbatim(quote!(#taken #call))
}

/// The probe of an expression that is `asked` for its type, once it has said that the cast is not one between the 16-bit
/// precisions, and to the tally whether it narrows.
fn apart(expr: &Expr, asked: &TokenStream, target: &TokenStream, tally: Option<&Ident>) -> TokenStream {
    let blamed = Span::mixed_site().located_at(ends(unreferenced(expr)).0);
    let probe = quote_spanned!(blamed=> (&&__amp::input(#asked, #target)).apart());
    match tally {
        Some(tally) => quote_spanned!(tally.span()=> (&&&#probe).counted(#tally)),
        None => probe,
    }
}

/// The cast of something that certainly is a tensor.
fn cast(expr: &Expr, target: &TokenStream) -> TokenStream {
    let at = ends(expr).0;
    match expr {
        Expr::Reference(reference) if reference.mutability.is_none() => {
            quote_spanned!(at=> __amp::cast(#expr, #target))
        }
        _ => quote_spanned!(at=> __amp::cast(&#expr, #target)),
    }
}

/// `let hoisted = ..;` for a narrowing made ahead of a place, or a reference to one; `direct` says that the place certainly
/// is a tensor.
pub(crate) fn hoisted(
    name: &Ident,
    place: &Expr,
    target: &TokenStream,
    direct: bool,
    tally: Option<&Ident>,
) -> TokenStream {
    let site = Span::mixed_site().located_at(ends(place).0);
    let borrow = if is_place(place) { Some(quote_spanned!(site=> &)) } else { None };
    let value = match direct {
        true => cast(place, target),
        false => {
            let apart = apart(place, &quote_spanned!(site=> &#place), target, tally);
            quote_spanned!(site=> #apart.given(#borrow #place, #target).hold())
        }
    };
    match is_later(place) {
        true => quote_spanned!(site=> let #name = __amp::later(|| #value);),
        false => quote_spanned!(site=> let #name = #value;),
    }
}

/// Whether a cast that is made ahead is made where it is first used: on the way to a field a type of the user's may be
/// dereferenced, which runs code.
pub(crate) fn is_later(place: &Expr) -> bool {
    matches!(unreferenced(place), Expr::Field(_))
}

pub(super) fn relocated(local: &Ident, at: Span) -> Ident {
    Ident::new(&local.to_string(), Span::mixed_site().located_at(at))
}

/// The variable that an expression names or borrows.
pub(super) fn variable(expr: &Expr) -> Option<Ident> {
    match expr {
        Expr::Path(path) => path.path.get_ident().cloned(),
        Expr::Reference(reference) => variable(&reference.expr),
        Expr::Paren(inner) => variable(&inner.expr),
        _ => None,
    }
}

/// Whether an expression can be asked for its type and be evaluated after that.
fn is_pure(expr: &Expr) -> bool {
    match expr {
        Expr::Path(_) => true,
        Expr::Field(field) => is_pure(&field.base),
        Expr::Reference(reference) => reference.mutability.is_none() && is_pure(&reference.expr),
        Expr::Unary(unary) => matches!(unary.op, syn::UnOp::Deref(_)) && is_pure(&unary.expr),
        Expr::Paren(inner) => is_pure(&inner.expr),
        _ => false,
    }
}
