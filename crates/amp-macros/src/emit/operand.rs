//! Calls and their operands: cast, or passed on as they are.

use super::{AsWritten, called, enclosed, ends, is_place, local, outlined, scrutinee, unreferenced};
use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Expr, ExprPath};

/// One tensor argument of a call.
pub(crate) struct Operand {
    pub(crate) expr: Expr,
    pub(crate) role: Role,
    pub(crate) treatment: Treatment,
    /// It may be a variable whose type has to be found out before it is asked for it.
    pub(crate) late: bool,
    /// The local that its type is written to, as one that is narrowed or not.
    pub(crate) tally: Option<Ident>,
}

impl Operand {
    /// Whether its type is asked for and may not be known by then.
    fn is_unsettled(&self) -> bool {
        let asked = !matches!(self.treatment, Treatment::Nothing | Treatment::Direct(_) | Treatment::Late(_));
        self.late && asked
    }
}

/// Where it stands.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Role {
    /// Before the dot of a method: a place is borrowed, not moved.
    Receiver,
    /// Beside an operator: a place is moved.
    Operator,
    /// Between the parentheses.
    Argument,
    /// There too, in a call that names the place elsewhere as well: it is borrowed.
    Shared,
    /// The first argument of a module, or one of the other 16-bit precision.
    Input,
}

/// What is done with it.
pub(crate) enum Treatment {
    /// Cast to the target that these tokens name, if it is a tensor.
    To(TokenStream),
    /// Cast to this target: it certainly is a tensor.
    Direct(TokenStream),
    /// Cast to this target: whatever type it turns out to have is one that can be.
    Late(TokenStream),
    /// Cast with the others to where all meet.
    Meet,
    /// As `Meet`: it certainly is a tensor.
    MeetDirect,
    /// A local that already holds the cast to this target.
    Hoisted(Hoisted),
    /// Passed on.
    Nothing,
}

/// A cast made ahead.
pub(crate) struct Hoisted {
    pub(crate) local: Ident,
    /// The local is the tensor itself.
    pub(crate) direct: bool,
    /// The place that was cast may be moved from before its uses end.
    pub(crate) moves: bool,
    pub(crate) target: TokenStream,
}

/// What the operands of a call have to do with each other.
pub(crate) enum Joint {
    None,
    /// The first may turn out not to be a tensor; the others then stay as they are.
    Gate,
    /// They are widened for an operation that writes its result in `lower` under a condition.
    Write {
        lower: TokenStream,
        condition: TokenStream,
    },
}

/// A call whose operands are cast; it begins at `first`, is reported at its name and ends at `end`.
pub(crate) fn call(
    (first, at, end): (Span, Span, Span),
    operands: Vec<Operand>,
    joint: Joint,
    open: Option<AsWritten>,
    build: impl FnOnce(Vec<Expr>) -> Expr,
) -> Expr {
    let site = Span::mixed_site().located_at(at);
    let common = local("t", 0, at);
    let gated = open.is_some() || matches!(joint, Joint::Gate) && is_gated(&operands);
    let operands: Vec<Bound> =
        operands.into_iter().enumerate().map(|(i, one)| Bound::new(one, i, gated, open.as_ref(), at)).collect();
    let unsettled = |local: fn(&Bound) -> Option<Ident>| -> Vec<Ident> {
        operands.iter().filter(|one| one.operand.is_unsettled()).filter_map(local).collect()
    };
    let variables = unsettled(|one| variable(&one.operand.expr));
    let locals = unsettled(|one| Some(relocated(one.name.as_ref()?, ends(&one.operand.expr).0)));
    let question = question(&operands, gated && open.is_none(), &joint, site);
    let (names, values): (Vec<_>, Vec<_>) =
        operands.iter().filter_map(|one| Some((one.name.clone()?, one.initial(site)))).unzip();
    let target = operands.first().and_then(Bound::target);
    let mut passed: Vec<Expr> =
        operands.into_iter().enumerate().map(|(i, one)| one.passed(gated && i > 0, &common, site)).collect();
    let fixed = open.as_ref().and_then(AsWritten::fixed).zip(passed.first_mut());
    let fixed = fixed.map(|(name, receiver)| {
        let local = Expr::Verbatim(quote_spanned!(first=> (#name)));
        (std::mem::replace(receiver, local), name)
    });
    let mut body = build(passed).into_token_stream();
    if let Some((receiver, name)) = fixed {
        let arm = braced(quote_spanned!(site=> #name => #body), end);
        let receiver = scrutinee(&receiver);
        body = quote_spanned!(site=> match #receiver #arm);
    }
    if let Joint::Write { .. } = joint {
        body = called(&quote_spanned!(first=> __amp::finished), quote!(#body, #common), end);
    }
    if let Some(open) = &open {
        body = open.asked(&local("k", 0, at), &common, end, body);
    }
    if let Some(question) = question.or(open.as_ref().and(target)) {
        let arm = braced(quote_spanned!(site=> #common => #body), end);
        body = quote_spanned!(site=> match #question #arm);
    }
    body = settled(&locals, body, end, site);
    if !names.is_empty() {
        let arm = braced(quote_spanned!(site=> (#(#names,)*) => #body), end);
        body = quote_spanned!(site=> match (#(#values,)*) #arm);
    }
    body = settled(&variables, body, end, site);
    if let Some(open) = open {
        body = open.bind(body, at, end);
    }
    enclosed(body, (first, end))
}

/// The call, once the compiler has been asked whether it knows the types of these.
fn settled(unsettled: &[Ident], body: TokenStream, end: Span, site: Span) -> TokenStream {
    if unsettled.is_empty() {
        return body;
    }
    let arm = braced(quote_spanned!(site=> _ => #body), end);
    quote_spanned!(site=> match (#(#unsettled.__amp_known(),)*) #arm)
}

/// The arms of a `match` that ends where the call it stands for does: there the compiler says to put a `?`.
pub(super) fn braced(arms: TokenStream, end: Span) -> Group {
    let mut group = Group::new(Delimiter::Brace, arms);
    group.set_span(Span::mixed_site().located_at(end));
    group
}

/// A variable as an expression.
pub(super) fn ident(name: Ident) -> Expr {
    Expr::Path(ExprPath { attrs: Vec::new(), qself: None, path: name.into() })
}

/// Whether what becomes of the other operands depends on the first.
fn is_gated(operands: &[Operand]) -> bool {
    let casts = |one: &Operand| !matches!(one.treatment, Treatment::Nothing);
    let open = |first: &Operand| match &first.treatment {
        Treatment::To(_) => true,
        Treatment::Hoisted(hoisted) => !hoisted.direct,
        _ => false,
    };
    operands.split_first().is_some_and(|(first, others)| open(first) && others.iter().any(casts))
}

/// What has to be known ahead of the casts: where the operands meet, or what the first of them says of the others.
fn question(operands: &[Bound], gated: bool, joint: &Joint, site: Span) -> Option<TokenStream> {
    if let (Joint::Write { lower, condition, .. }, Some(first)) = (joint, operands.first()) {
        if matches!(first.operand.treatment, Treatment::MeetDirect) {
            return Some(quote_spanned!(site=> __amp::written(#lower, #condition)));
        }
        let asked = first.asked(site);
        return Some(quote_spanned!(site=> __amp::writer(#asked, #lower).direct(#condition)));
    }
    if let (true, Some(first)) = (gated, operands.first())
        && let Some(target) = first.target()
    {
        let asked = first.asked(site);
        return Some(quote_spanned!(site=> __amp::gate(#asked, #target).gate(#target)));
    }
    let meets = operands.iter().filter(|one| matches!(one.operand.treatment, Treatment::Meet));
    meets.map(|one| one.token(site)).reduce(|a, b| quote_spanned!(site=> (&&&&&&&__amp::pair(#a, #b)).meet()))
}

/// An operand and, where its type is asked ahead of the call, the local that holds its value.
struct Bound {
    operand: Operand,
    name: Option<Ident>,
    /// For a receiver that may be no tensor: what it is as the call is written, ahead of its cast.
    open: Option<TokenStream>,
}

impl Bound {
    fn new(operand: Operand, index: usize, gated: bool, open: Option<&AsWritten>, at: Span) -> Self {
        let ahead = match &operand.treatment {
            Treatment::Hoisted(hoisted) => Some(&hoisted.local),
            _ => None,
        };
        let open = open.filter(|_| index == 0).map(|open| open.taken(&local("k", 0, at), &local("t", 0, at), ahead));
        let ahead = matches!(operand.treatment, Treatment::Meet) || gated && index == 0;
        let name = (ahead && open.is_none() && !is_pure(&operand.expr)).then(|| local("", index, at));
        Self { operand, name, open }
    }

    /// What it is cast to, if that is known ahead of the call.
    fn target(&self) -> Option<TokenStream> {
        match &self.operand.treatment {
            Treatment::To(target) | Treatment::Hoisted(Hoisted { target, .. }) => Some(target.clone()),
            _ => None,
        }
    }

    fn is_borrowed(&self) -> bool {
        matches!(self.operand.role, Role::Receiver | Role::Shared) && is_place(&self.operand.expr)
    }

    /// What the local is bound to: of a place the reference.
    fn initial(&self, at: Span) -> TokenStream {
        let expr = &self.operand.expr;
        let first = Span::mixed_site().located_at(ends(expr).0);
        if self.is_borrowed() { quote_spanned!(first=> &#expr) } else { quote_spanned!(at=> #expr) }
    }

    fn value(&self, at: Span) -> TokenStream {
        match &self.name {
            Some(name) => relocated(name, ends(&self.operand.expr).0).into_token_stream(),
            None => self.initial(at),
        }
    }

    /// A reference to what is asked for its type.
    fn asked(&self, at: Span) -> TokenStream {
        let value = self.value(at);
        let at = if is_place(&self.operand.expr) { ends(&self.operand.expr).0 } else { at };
        if self.is_borrowed() { value } else { quote_spanned!(at=> &#value) }
    }

    /// Its precision as a target.
    fn token(&self, at: Span) -> TokenStream {
        let asked = self.asked(at);
        quote_spanned!(at=> __amp::token(#asked, __amp::Keep).token(#asked))
    }

    /// The operand as it stands in the call.
    fn passed(self, follows: bool, common: &Ident, at: Span) -> Expr {
        let (first, last) = ends(&self.operand.expr);
        let passed = match &self.operand.treatment {
            Treatment::Nothing => return self.operand.expr,
            _ if self.open.is_some() => pass(self.open.unwrap_or_default(), last),
            Treatment::Hoisted(Hoisted { local, direct, moves, .. }) => {
                let name = relocated(local, first).into_token_stream();
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
    fn narrows(&self) -> bool {
        let widest = |target: &TokenStream| target.to_string().ends_with("TO_F32");
        matches!(&self.operand.treatment, Treatment::To(target) if !widest(target))
    }

    /// The operand after its cast.
    fn taken(&self, target: &TokenStream, at: Span) -> TokenStream {
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
        if self.name.is_some() || self.is_borrowed() || is_pure(expr) || !(input || unsettled || narrows) {
            let held = held(self.asked(at), self.value(at));
            return quote_spanned!(site=> (#held));
        }
        let value = local("v", 0, first);
        let expr = scrutinee(expr);
        let held = held(quote_spanned!(site=> &#value), value.to_token_stream());
        let held = if unsettled { settled(std::slice::from_ref(&value), held, first, site) } else { held };
        quote_spanned!(site=> (match #expr { #value => #held }))
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
        let counted = operand
            .tally
            .iter()
            .map(|tally| quote_spanned!(at=> let _ = (&&&__amp::probe(&(), #target)).counted(#tally);));
        return pass(quote_spanned!(at=> ({ #(#counted)* #entered })), ends(expr).1);
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
    let probe = quote_spanned!(blamed=> (&__amp::input(#asked, #target)).apart());
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
    quote_spanned!(site=> let #name = #value;)
}

fn relocated(local: &Ident, at: Span) -> Ident {
    Ident::new(&local.to_string(), Span::mixed_site().located_at(at))
}

/// The variable that an expression names or borrows.
fn variable(expr: &Expr) -> Option<Ident> {
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
