//! Calls and their operands: cast, or passed on as they are.

use super::bound::{Bound, relocated, variable};
use super::{AsWritten, called, enclosed, ends, local, scrutinee};
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
    pub(super) fn is_unsettled(&self) -> bool {
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
    /// The local makes the cast where it is first used.
    pub(crate) later: bool,
    /// The local is the tensor itself.
    pub(crate) direct: bool,
    /// The place that was cast may be moved from before its uses end.
    pub(crate) moves: bool,
    pub(crate) target: TokenStream,
}

impl Hoisted {
    /// The cast.
    pub(super) fn value(&self, at: Span) -> TokenStream {
        let local = relocated(&self.local, at);
        if self.later { quote_spanned!(local.span()=> (*#local)) } else { local.into_token_stream() }
    }
}

/// What the operands of a call have to do with each other.
pub(crate) enum Joint {
    None,
    /// The first may turn out not to be a tensor; the others then stay as they are.
    Gate,
    /// The first may turn out to be a number: what it is divided by is widened.
    Quotient,
    /// They are widened for an operation that writes its result in `lower` under a condition.
    Write {
        lower: TokenStream,
        condition: TokenStream,
        /// The operation is one of `keep`: what is narrow already stays as it is.
        keeps: bool,
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
pub(super) fn settled(unsettled: &[Ident], body: TokenStream, end: Span, site: Span) -> TokenStream {
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
    if let (Joint::Write { lower, condition, keeps }, Some(first)) = (joint, operands.first()) {
        if matches!(first.operand.treatment, Treatment::MeetDirect) {
            return Some(quote_spanned!(site=> __amp::written(#lower, #condition)));
        }
        let asked = first.asked(site);
        let question = if *keeps { quote!(keeping) } else { quote!(direct) };
        return Some(quote_spanned!(site=> __amp::writer(#asked, #lower).#question(#condition)));
    }
    if let (true, Some(first)) = (gated, operands.first())
        && let Some(target) = first.target()
    {
        let asked = first.asked(site);
        return Some(quote_spanned!(site=> __amp::gate(#asked, #target).gate(#target)));
    }
    let meets = operands.iter().filter(|one| matches!(one.operand.treatment, Treatment::Meet));
    let met =
        meets.map(|one| one.token(site)).reduce(|a, b| quote_spanned!(site=> (&&&&&&&__amp::pair(#a, #b)).meet()))?;
    Some(match (joint, operands.first()) {
        (Joint::Quotient, Some(first)) => {
            let asked = first.asked(site);
            quote_spanned!(site=> __amp::quotient(#asked, #met).token())
        }
        _ => met,
    })
}
