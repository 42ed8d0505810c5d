//! The tokens that stand for casts.
//!
//! A call `x.op(&y)` becomes
//!
//! ```text
//! match (&x, &y) { (r, a) => match (kind_of(r).take(r), kind_of(a).take(a)) { (r, a) => r.pass().op(a.pass()) } }
//! ```
//!
//! Bindings by `match` let temporaries live as long as they do in the call as written; `take` casts a tensor and moves
//! anything else; `pass` gives the argument. Every generated token lies at the user's token it stands for.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::Expr;

/// One tensor argument of a call.
pub(crate) struct Operand {
    pub(crate) expr: Expr,
    /// The receiver of a method: a place is borrowed, not moved.
    pub(crate) receiver: bool,
    pub(crate) treatment: Treatment,
}

/// What is done with it.
pub(crate) enum Treatment {
    /// Cast to the target that these tokens name.
    To(TokenStream),
    /// Cast with the others to where all meet.
    Meet,
    /// A local that already holds the cast.
    Hoisted(Ident),
    /// Passed on.
    Nothing,
}

/// A local of the expansion.
pub(crate) fn local(name: &str, index: usize, at: Span) -> Ident {
    format_ident!("__amp_{name}{index}", span = Span::mixed_site().located_at(at))
}

/// Spans of the first and the last token.
pub(crate) fn ends(tokens: &impl ToTokens) -> (Span, Span) {
    let mut all = tokens.to_token_stream().into_iter();
    let Some(first) = all.next() else { return (Span::call_site(), Span::call_site()) };
    let last = all.last().unwrap_or_else(|| first.clone());
    let open = match &first {
        TokenTree::Group(group) => group.span_open(),
        other => other.span(),
    };
    let close = match &last {
        TokenTree::Group(group) => group.span_close(),
        other => other.span(),
    };
    (open, close)
}

/// `local.pass()`, underlined like the argument it stands for.
fn pass(local: &Ident, first: Span, last: Span) -> Expr {
    let (first, last) = (Span::mixed_site().located_at(first), Span::mixed_site().located_at(last));
    let local = Ident::new(&local.to_string(), first);
    let call = quote_spanned!(last=> .pass());
    Expr::Verbatim(quote!(#local #call))
}

/// Whether an expression denotes a place.
pub(crate) fn is_place(expr: &Expr) -> bool {
    match expr {
        Expr::Path(_) | Expr::Field(_) | Expr::Index(_) => true,
        Expr::Unary(unary) => matches!(unary.op, syn::UnOp::Deref(_)),
        Expr::Paren(inner) => is_place(&inner.expr),
        Expr::Group(inner) => is_place(&inner.expr),
        _ => false,
    }
}

/// Whether evaluating a place twice does nothing twice.
pub(crate) fn is_pure_place(expr: &Expr) -> bool {
    match expr {
        Expr::Path(_) | Expr::Lit(_) => true,
        Expr::Field(field) => is_pure_place(&field.base),
        Expr::Index(index) => is_pure_place(&index.expr) && is_pure_place(&index.index),
        Expr::Unary(unary) => is_pure_place(&unary.expr),
        Expr::Paren(inner) => is_pure_place(&inner.expr),
        _ => false,
    }
}

/// The treatment that method resolution finds for a binding.
fn kind(private: &TokenStream, binding: &Ident, target: &TokenStream, at: Span) -> TokenStream {
    quote_spanned!(at=> (&&&&&&#private::probe(&#binding, #target)).kind())
}

/// A call whose operands are cast.
///
/// `gate` says that the first operand may turn out not to be a tensor; the others then stay as they are.
pub(crate) fn call(
    private: &TokenStream,
    at: Span,
    operands: Vec<Operand>,
    gate: bool,
    build: impl FnOnce(Vec<Expr>) -> Expr,
) -> Expr {
    let site = Span::mixed_site().located_at(at);
    let mut bound = Vec::new();
    let mut values = Vec::new();
    let mut passed = Vec::new();
    let gate = gate && operands.first().is_some_and(|first| matches!(first.treatment, Treatment::To(_)));
    for (i, Operand { expr, receiver, treatment }) in operands.into_iter().enumerate() {
        let (first, last) = ends(&expr);
        let name = local("", i, at);
        let borrowed = receiver && is_place(&expr);
        match treatment {
            Treatment::Hoisted(hoisted) => {
                passed.push(pass(&hoisted, first, last));
                continue;
            }
            Treatment::Nothing if borrowed => {
                passed.push(expr);
                continue;
            }
            Treatment::Nothing => passed.push(Expr::Verbatim(name.to_token_stream())),
            _ => passed.push(pass(&name, first, last)),
        }
        let first = Span::mixed_site().located_at(first);
        values.push(if borrowed { quote_spanned!(first=> #private::Place(&#expr)) } else { expr.into_token_stream() });
        bound.push((name, treatment));
    }
    let names: Vec<&Ident> = bound.iter().map(|(name, _)| name).collect();
    let meet = local("t", 0, at);
    let gated = gate && bound.len() > 1;
    let mut takes = Vec::new();
    for (i, (name, treatment)) in bound.iter().enumerate() {
        takes.push(match treatment {
            Treatment::To(target) => {
                let target = if gated && i > 0 { meet.to_token_stream() } else { target.clone() };
                let kind = kind(private, name, &target, site);
                quote_spanned!(site=> #kind.take(#name, #target))
            }
            Treatment::Meet => {
                let kind = kind(private, name, &meet.to_token_stream(), site);
                quote_spanned!(site=> #kind.take(#name, #meet))
            }
            Treatment::Nothing | Treatment::Hoisted(_) => name.to_token_stream(),
        });
    }
    let call = build(passed);
    let mut body = quote_spanned!(site=> match (#(#takes,)*) { (#(#names,)*) => #call });
    let meets: Vec<&Ident> = bound.iter().filter(|(_, t)| matches!(t, Treatment::Meet)).map(|(name, _)| name).collect();
    if !meets.is_empty() {
        let target = meeting_point(private, &meets, site);
        body = quote_spanned!(site=> match #target { #meet => #body });
    } else if gated && let Some((name, Treatment::To(target))) = bound.first() {
        let kind = kind(private, name, target, site);
        body = quote_spanned!(site=> match #kind.gate(#target) { #meet => #body });
    }
    Expr::Verbatim(quote_spanned!(site=> (match (#(#values,)*) { (#(#names,)*) => #body })))
}

/// The target at which the bindings meet.
fn meeting_point(private: &TokenStream, names: &[&Ident], site: Span) -> TokenStream {
    let token = |name: &Ident| quote_spanned!(site=> (&&&#private::probe(&#name, #private::Keep)).token(&#name));
    let mut target = token(names[0]);
    for name in &names[1..] {
        let next = token(name);
        target = quote_spanned!(site=> (&&&&&&&#private::pair(#target, #next)).meet());
    }
    target
}

/// A value given away, cast where it is a tensor or holds tensors.
pub(crate) fn recast(private: &TokenStream, expr: Expr, target: &TokenStream) -> Expr {
    let (first, _) = ends(&expr);
    let site = Span::mixed_site().located_at(first);
    let value = local("v", 0, first);
    Expr::Verbatim(quote_spanned!(site=>
        (match #expr { #value => (&&&#private::probe(&#value, #target)).owned().recast(#value, #target) })
    ))
}

/// A value for a place whose type decides whether it is widened.
pub(crate) fn slot(private: &TokenStream, place: &Expr, expr: Expr) -> Expr {
    let (first, _) = ends(&expr);
    let site = Span::mixed_site().located_at(first);
    let (value, target) = (local("v", 0, first), local("t", 0, first));
    Expr::Verbatim(quote_spanned!(site=>
        (match (#expr, (&&#private::probe(&#place, #private::Keep)).slot()) {
            (#value, #target) => (&&&#private::probe(&#value, #target)).owned().recast(#value, #target)
        })
    ))
}

/// A value for a place of this type, which decides whether the value is widened.
pub(crate) fn declared(private: &TokenStream, ty: &syn::Type, expr: Expr) -> Expr {
    let (first, _) = ends(&expr);
    let site = Span::mixed_site().located_at(first);
    let (value, target) = (local("v", 0, first), local("t", 0, first));
    Expr::Verbatim(quote_spanned!(site=>
        (match (#expr, (&&#private::declared::<#ty>()).slot()) {
            (#value, #target) => (&&&#private::probe(&#value, #target)).owned().recast(#value, #target)
        })
    ))
}

/// `let hoisted = ..;` for a narrowing made ahead.
pub(crate) fn hoisted(private: &TokenStream, name: &Ident, place: &Expr, target: &TokenStream) -> TokenStream {
    let (first, _) = ends(place);
    let site = Span::mixed_site().located_at(first);
    let value = local("v", 0, first);
    let kind = kind(private, &value, target, site);
    quote_spanned!(site=> let #name = match &#place { #value => #kind.take(#value, #target) };)
}

/// A call of something that may belong outside of regions: its receiver's type decides.
pub(crate) fn guarded(private: &TokenStream, receiver: &Expr, method: &Ident, call: Expr) -> Expr {
    let site = Span::mixed_site().located_at(method.span());
    let mut op = method.clone();
    op.set_span(site);
    let private = located(private, method.span());
    Expr::Verbatim(quote_spanned!(site=> ({
        #[allow(non_camel_case_types, dead_code)]
        struct #op;
        (&&&&#private::probe(&#receiver, #private::Keep)).outside::<#op>();
        #call
    })))
}

/// A call without a policy on what may be a run-time-typed tensor: the types of receiver and result decide.
pub(crate) fn unlisted(private: &TokenStream, receiver: &Expr, method: &Ident, call: Expr) -> Expr {
    let site = Span::mixed_site().located_at(method.span());
    let mut op = method.clone();
    op.set_span(site);
    let private = located(private, method.span());
    let (value, on) = (local("v", 0, method.span()), local("o", 0, method.span()));
    Expr::Verbatim(quote_spanned!(site=> (match (&&#private::probe(&#receiver, #private::Keep)).receiver() {
        #on => match #call {
            #value => {
                #[allow(non_camel_case_types, dead_code)]
                struct #op;
                (&&#private::probe(&#value, #on)).policy::<#op>();
                #value
            }
        }
    })))
}

/// Tokens of a path, at the place in the source that an error about them should point at.
pub(crate) fn located(tokens: &TokenStream, at: Span) -> TokenStream {
    let relocate = |mut token: TokenTree| {
        token.set_span(token.span().located_at(at));
        token
    };
    tokens.clone().into_iter().map(relocate).collect()
}

/// The branches of an expression are wrapped in `JoinN`; this joins them.
pub(crate) fn joined(private: &TokenStream, expr: Expr) -> Expr {
    let (first, _) = ends(&expr);
    let site = Span::mixed_site().located_at(first);
    let value = local("v", 0, first);
    Expr::Verbatim(quote_spanned!(site=>
        (match #expr { #value => (&&&#private::probe(&#value, #private::to::<#private::F32>())).joined().join(#value) })
    ))
}

/// A call of a module, whose type says what its inputs are cast to.
pub(crate) fn module_call(
    private: &TokenStream,
    at: Span,
    receiver: Expr,
    region: &TokenStream,
    pinned: &[Span],
    operands: Vec<Operand>,
    build: impl FnOnce(Expr, Vec<Expr>) -> Expr,
) -> Expr {
    let site = Span::mixed_site().located_at(at);
    let target = local("t", 1, at);
    let module = local("m", 0, at);
    let pure = is_pure_place(&receiver);
    let callee = if pure { receiver.clone() } else { Expr::Verbatim(module.to_token_stream()) };
    let probed = if pure { quote_spanned!(site=> &#receiver) } else { quote_spanned!(site=> &#module) };
    let operands = operands
        .into_iter()
        .map(|operand| match operand.treatment {
            Treatment::To(_) => Operand { treatment: Treatment::To(target.to_token_stream()), ..operand },
            _ => operand,
        })
        .collect();
    let inner = call(private, at, operands, false, |args| build(callee, args));
    let checks = pinned.iter().map(|&at| {
        let at = Span::mixed_site().located_at(at);
        let (private, target) = (located(private, at), Ident::new(&target.to_string(), at));
        quote_spanned!(at=> #private::pinned(#target);)
    });
    let body = quote_spanned!(site=>
        match (&&#private::probe(#probed, #region)).module() { #target => { #(#checks)* #inner } });
    if pure {
        return Expr::Verbatim(quote_spanned!(site=> (#body)));
    }
    let borrow = if is_place(&receiver) { quote_spanned!(site=> &) } else { TokenStream::new() };
    Expr::Verbatim(quote_spanned!(site=> (match #borrow #receiver { #module => #body })))
}
