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

/// What an expansion begins with: `__amp`, which everything in it is named by, and the traits behind the probes.
pub(crate) fn imports(private: &TokenStream) -> TokenStream {
    quote! {
        #[allow(unused_imports)]
        use #private::{self as __amp, kinds::*};
    }
}

/// One tensor argument of a call.
pub(crate) struct Operand {
    pub(crate) expr: Expr,
    pub(crate) role: Role,
    pub(crate) treatment: Treatment,
}

/// Where it stands.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Role {
    /// Before the dot of a method: a place is borrowed, not moved.
    Receiver,
    /// Beside an operator, which borrows too.
    Operator,
    /// Between the parentheses.
    Argument,
}

/// What is done with it.
pub(crate) enum Treatment {
    /// Cast to the target that these tokens name, if it is a tensor.
    To(TokenStream),
    /// Cast to this target: it certainly is a tensor.
    Direct(TokenStream),
    /// Cast with the others to where all meet.
    Meet,
    /// A local that already holds the cast; whether it is the tensor itself.
    Hoisted(Ident, bool),
    /// Passed on.
    Nothing,
}

impl Operand {
    fn is_borrowed(&self) -> bool {
        self.role != Role::Argument && is_place(&self.expr)
    }

    /// The operand as it stands in the call, when no type has to be asked.
    fn inline(self) -> Expr {
        let (first, last) = ends(&self.expr);
        match self.treatment {
            Treatment::Direct(target) => lent(cast(&self.expr, &target), self.role, first),
            Treatment::Hoisted(hoisted, true) => lent(relocated(&hoisted, first).into_token_stream(), self.role, first),
            Treatment::Hoisted(hoisted, false) => pass(&hoisted, first, last),
            _ => self.expr,
        }
    }
}

/// A tensor that the expansion owns, as an operand: methods borrow it by themselves.
fn lent(owned: TokenStream, role: Role, at: Span) -> Expr {
    let at = Span::mixed_site().located_at(at);
    Expr::Verbatim(if role == Role::Receiver { quote_spanned!(at=> (#owned)) } else { quote_spanned!(at=> &#owned) })
}

/// The cast of something that certainly is a tensor.
fn cast(expr: &Expr, target: &TokenStream) -> TokenStream {
    let first = ends(expr).0;
    let at = Span::mixed_site().located_at(first);
    match expr {
        Expr::Reference(reference) if reference.mutability.is_none() => {
            quote_spanned!(at=> __amp::cast(#expr, #target))
        }
        _ => quote_spanned!(at=> __amp::cast(&#expr, #target)),
    }
}

fn relocated(local: &Ident, at: Span) -> Ident {
    Ident::new(&local.to_string(), Span::mixed_site().located_at(at))
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
fn kind(binding: &Ident, target: &TokenStream, at: Span) -> TokenStream {
    quote_spanned!(at=> (&&&&&&__amp::probe(&#binding, #target)).kind())
}

/// A call whose operands are cast.
///
/// `gate` says that the first operand may turn out not to be a tensor; the others then stay as they are.
pub(crate) fn call(at: Span, operands: Vec<Operand>, gate: bool, build: impl FnOnce(Vec<Expr>) -> Expr) -> Expr {
    let asks = |operand: &Operand| matches!(operand.treatment, Treatment::To(_) | Treatment::Meet);
    let site = Span::mixed_site().located_at(at);
    if !operands.iter().any(asks) {
        let call = build(operands.into_iter().map(|operand| operand.inline()).collect());
        // Parentheses say where in the source something is: here the call, below its receiver.
        return Expr::Verbatim(quote_spanned!(site=> (#call)));
    }
    let mut bound = Vec::new();
    let mut values = Vec::new();
    let mut passed = Vec::new();
    let gate = gate && operands.first().is_some_and(|first| matches!(first.treatment, Treatment::To(_)));
    for (i, operand) in operands.into_iter().enumerate() {
        let borrowed = operand.is_borrowed();
        if matches!(operand.treatment, Treatment::Hoisted(..))
            || borrowed && matches!(operand.treatment, Treatment::Nothing)
        {
            passed.push(operand.inline());
            continue;
        }
        let Operand { expr, role, treatment } = operand;
        let (first, last) = ends(&expr);
        let name = local("", i, at);
        let (value, treatment) = match treatment {
            // What goes with a receiver that may be no tensor has to be asked too.
            Treatment::Direct(target) if !gate => (cast(&expr, &target), Treatment::Direct(target)),
            Treatment::Direct(target) | Treatment::To(target) => (bind(expr, borrowed), Treatment::To(target)),
            other => (bind(expr, borrowed), other),
        };
        passed.push(match treatment {
            Treatment::Nothing => Expr::Verbatim(name.to_token_stream()),
            Treatment::Direct(_) => lent(relocated(&name, first).into_token_stream(), role, first),
            _ => pass(&name, first, last),
        });
        values.push(value);
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
                let kind = kind(name, &target, site);
                quote_spanned!(site=> #kind.take(#name, #target))
            }
            Treatment::Meet => {
                let kind = kind(name, &meet.to_token_stream(), site);
                quote_spanned!(site=> #kind.take(#name, #meet))
            }
            Treatment::Nothing | Treatment::Direct(_) | Treatment::Hoisted(..) => name.to_token_stream(),
        });
    }
    let call = build(passed);
    let mut body = quote_spanned!(site=> match (#(#takes,)*) { (#(#names,)*) => #call });
    let meets: Vec<&Ident> = bound.iter().filter(|(_, t)| matches!(t, Treatment::Meet)).map(|(name, _)| name).collect();
    if !meets.is_empty() {
        let target = meeting_point(&meets, site);
        body = quote_spanned!(site=> match #target { #meet => #body });
    } else if gated && let Some((name, Treatment::To(target))) = bound.first() {
        let kind = kind(name, target, site);
        body = quote_spanned!(site=> match #kind.gate(#target) { #meet => #body });
    }
    Expr::Verbatim(quote_spanned!(site=> (match (#(#values,)*) { (#(#names,)*) => #body })))
}

/// An operand as it is bound for the time of the call.
fn bind(expr: Expr, borrowed: bool) -> TokenStream {
    let first = Span::mixed_site().located_at(ends(&expr).0);
    if borrowed { quote_spanned!(first=> __amp::Place(&#expr)) } else { expr.into_token_stream() }
}

/// The target at which the bindings meet.
fn meeting_point(names: &[&Ident], site: Span) -> TokenStream {
    let token = |name: &Ident| quote_spanned!(site=> (&&&__amp::probe(&#name, __amp::Keep)).token(&#name));
    let mut target = token(names[0]);
    for name in &names[1..] {
        let next = token(name);
        target = quote_spanned!(site=> (&&&&&&&__amp::pair(#target, #next)).meet());
    }
    target
}

/// A value given away, cast where it is a tensor or holds tensors.
pub(crate) fn recast(expr: Expr, target: &TokenStream) -> Expr {
    let (first, _) = ends(&expr);
    let site = Span::mixed_site().located_at(first);
    let value = local("v", 0, first);
    Expr::Verbatim(quote_spanned!(site=>
        (match #expr { #value => (&&&__amp::probe(&#value, #target)).owned().recast(#value, #target) })
    ))
}

/// As [`recast`], of what certainly is a tensor or the result of an operation.
pub(crate) fn recast_tensor(expr: Expr, target: &TokenStream) -> Expr {
    let site = Span::mixed_site().located_at(ends(&expr).0);
    Expr::Verbatim(quote_spanned!(site=> (__amp::recast(#expr, #target))))
}

/// A value for a place whose type decides whether it is widened.
pub(crate) fn slot(place: &Expr, expr: Expr) -> Expr {
    let (first, _) = ends(&expr);
    let site = Span::mixed_site().located_at(first);
    let (value, target) = (local("v", 0, first), local("t", 0, first));
    Expr::Verbatim(quote_spanned!(site=>
        (match (#expr, (&&__amp::probe(&#place, __amp::Keep)).slot()) {
            (#value, #target) => (&&&__amp::probe(&#value, #target)).owned().recast(#value, #target)
        })
    ))
}

/// A value for a place of this type, which decides whether the value is widened.
pub(crate) fn declared(ty: &syn::Type, expr: Expr) -> Expr {
    let (first, _) = ends(&expr);
    let site = Span::mixed_site().located_at(first);
    let (value, target) = (local("v", 0, first), local("t", 0, first));
    Expr::Verbatim(quote_spanned!(site=>
        (match (#expr, (&&__amp::declared::<#ty>()).slot()) {
            (#value, #target) => (&&&__amp::probe(&#value, #target)).owned().recast(#value, #target)
        })
    ))
}

/// `let hoisted = ..;` for a narrowing made ahead.
pub(crate) fn hoisted(name: &Ident, place: &Expr, target: &TokenStream) -> TokenStream {
    let (first, _) = ends(place);
    let site = Span::mixed_site().located_at(first);
    let value = local("v", 0, first);
    let kind = kind(&value, target, site);
    quote_spanned!(site=> let #name = match &#place { #value => #kind.take(#value, #target) };)
}

/// As [`hoisted`], of what certainly is a tensor.
pub(crate) fn hoisted_tensor(name: &Ident, place: &Expr, target: &TokenStream) -> TokenStream {
    let site = Span::mixed_site().located_at(ends(place).0);
    let cast = cast(place, target);
    quote_spanned!(site=> let #name = #cast;)
}

/// A call of something that may belong outside of regions: its receiver's type decides.
pub(crate) fn guarded(receiver: &Expr, method: &Ident, call: Expr) -> Expr {
    let site = Span::mixed_site().located_at(method.span());
    let mut op = method.clone();
    op.set_span(site);
    Expr::Verbatim(quote_spanned!(site=> ({
        #[allow(non_camel_case_types, dead_code)]
        struct #op;
        (&&&&__amp::probe(&#receiver, __amp::Keep)).outside::<#op>();
        #call
    })))
}

/// A call without a policy on what may be a run-time-typed tensor: the types of receiver and result decide.
pub(crate) fn unlisted(receiver: &Expr, method: &Ident, call: Expr) -> Expr {
    let site = Span::mixed_site().located_at(method.span());
    let mut op = method.clone();
    op.set_span(site);
    let (value, on) = (local("v", 0, method.span()), local("o", 0, method.span()));
    Expr::Verbatim(quote_spanned!(site=> (match (&&__amp::probe(&#receiver, __amp::Keep)).receiver() {
        #on => match #call {
            #value => {
                #[allow(non_camel_case_types, dead_code)]
                struct #op;
                (&&__amp::probe(&#value, #on)).policy::<#op>();
                #value
            }
        }
    })))
}

/// The branches of an expression are wrapped in `JoinN`; this joins them.
pub(crate) fn joined(expr: Expr) -> Expr {
    let (first, _) = ends(&expr);
    let site = Span::mixed_site().located_at(first);
    let value = local("v", 0, first);
    Expr::Verbatim(quote_spanned!(site=>
        (match #expr { #value => (&&&__amp::probe(&#value, __amp::TO_F32)).joined().join(#value) })
    ))
}

/// A call of a module, whose type says what its inputs are cast to.
pub(crate) fn module_call(
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
    let inner = call(at, operands, false, |args| build(callee, args));
    let checks = pinned.iter().map(|&at| {
        let at = Span::mixed_site().located_at(at);
        let target = Ident::new(&target.to_string(), at);
        quote_spanned!(at=> __amp::pinned(#target);)
    });
    let body = quote_spanned!(site=>
        match (&&__amp::probe(#probed, #region)).module() { #target => { #(#checks)* #inner } });
    if pure {
        return Expr::Verbatim(quote_spanned!(site=> (#body)));
    }
    let borrow = if is_place(&receiver) { quote_spanned!(site=> &) } else { TokenStream::new() };
    Expr::Verbatim(quote_spanned!(site=> (match #borrow #receiver { #module => #body })))
}
