//! Values given away: returned, assigned, joined.

use super::{called, enclosed, ends, local, only_asked, outlined, scrutinee};
use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote, quote_spanned};
use syn::{Expr, Lifetime, parse_quote};

/// A value given away, cast where it is a tensor or holds tensors.
pub(crate) fn recast(expr: Expr, target: &TokenStream) -> Expr {
    let whole = ends(&expr);
    let site = Span::mixed_site().located_at(whole.0);
    let value = local("v", 0, whole.0);
    let given = given(&value, target, whole);
    // What is called may not come back.
    let quiet =
        matches!(expr, Expr::Call(_) | Expr::Macro(_)).then(|| quote_spanned!(site=> #[allow(unreachable_code)]));
    let expr = scrutinee(&expr);
    enclosed(quote_spanned!(site=> match #expr { #quiet #value => #given }), whole)
}

/// As [`recast`], of what certainly is a tensor or the result of an operation.
pub(crate) fn recast_tensor(expr: Expr, target: &TokenStream) -> Expr {
    let whole = ends(&expr);
    enclosed(called(&quote_spanned!(whole.0=> __amp::recast), quote!(#expr, #target), whole.1), whole)
}

/// The tensor that a reference is to, cast.
pub(crate) fn cast(lent: &Expr, target: &TokenStream) -> Expr {
    let whole = ends(lent);
    Expr::Verbatim(called(&quote_spanned!(whole.0=> __amp::cast), quote!(#lent, #target), whole.1))
}

/// A reference to it.
pub(crate) fn lent_cast(lent: &Expr, target: &TokenStream) -> Expr {
    let cast = cast(lent, target);
    Expr::Verbatim(quote_spanned!(ends(lent).0=> &#cast))
}

/// A function, of another value made of the one it is given.
pub(crate) fn applied(function: &Expr, made: impl FnOnce(Expr) -> Expr) -> Expr {
    let value = local("a", 0, ends(function).0);
    let made = made(Expr::Verbatim(value.to_token_stream()));
    Expr::Verbatim(quote_spanned!(value.span()=> |#value| #function(#made)))
}

/// A closure that calls a function with what it is given.
pub(crate) fn calling(function: &Expr) -> Expr {
    let value = local("a", 0, ends(function).0);
    parse_quote!(|#value| #function(#value))
}

/// A tensor that was made without a type, in F32.
pub(crate) fn of_f32(expr: Expr) -> Expr {
    let whole = ends(&expr);
    enclosed(called(&quote_spanned!(whole.0=> __amp::of_f32), quote!(#expr), whole.1), whole)
}

/// An iterator over what is summed, in F32.
pub(crate) fn summands(elements: Expr) -> Expr {
    let whole = ends(&elements);
    enclosed(called(&quote_spanned!(whole.0=> __amp::summands), quote!(#elements), whole.1), whole)
}

/// An iterator over what is made of the elements of this one.
pub(crate) fn each(elements: Expr, made: impl FnOnce(Expr) -> Expr) -> Expr {
    let whole = ends(&elements);
    let value = local("a", 0, whole.0);
    let made = made(Expr::Verbatim(value.to_token_stream()));
    Expr::Verbatim(quote_spanned!(value.span()=> #elements.map(|#value| #made)))
}

/// A value for a place whose type decides whether it is widened; what was there may have moved into the value.
pub(crate) fn slot(place: &Expr, expr: Expr) -> Expr {
    let site = Span::mixed_site().located_at(ends(&expr).0);
    given_to(expr, &only_asked(&quote_spanned!(site=> __amp::slot(&#place, __amp::Keep))))
}

/// The tensors of a list that may be one of references.
pub(crate) fn tensors(list: Expr) -> Expr {
    let site = Span::mixed_site().located_at(ends(&list).0);
    Expr::Verbatim(quote_spanned!(site=> &__amp::tensors(#list)))
}

/// As [`slot`], of each element of an iterator.
pub(crate) fn slot_each(place: &Expr, elements: Expr) -> Expr {
    let whole = ends(&elements);
    let site = Span::mixed_site().located_at(whole.0);
    let (all, target) = (local("a", 0, whole.0), local("t", 0, whole.0));
    let question = only_asked(&quote_spanned!(site=> __amp::slot(&#place, __amp::Keep)));
    let value = local("v", 0, whole.0);
    let given = given(&value, &quote!(#target), whole);
    let tokens = quote_spanned!(site=>
        match (#elements, #question.slot()) { (#all, #target) => #all.map(move |#value| #given) }
    );
    enclosed(tokens, whole)
}

/// As [`slot`], for a variable, whose type is known before the value's.
pub(crate) fn variable_slot(variable: &Expr, expr: Expr) -> Expr {
    let site = Span::mixed_site().located_at(ends(&expr).0);
    asked_before(&only_asked(&quote_spanned!(site=> __amp::slot(&#variable, __amp::Keep))), expr)
}

/// A value for the place that a probe asks about, whose type does not depend on the value's.
fn asked_before(place: &TokenStream, expr: Expr) -> Expr {
    let whole = ends(&expr);
    let target = local("t", 0, whole.0);
    let given = recast(expr, &target.to_token_stream());
    enclosed(quote_spanned!(target.span()=> match #place.slot() { #target => #given }), whole)
}

/// A list that is given to a method, whose result is put into it: the type of that decides whether the list is widened.
pub(crate) fn grown(list: Expr, receiver: &Expr, method: &Ident) -> Expr {
    grown_of(list, |value| quote_spanned!(value.span()=> &#value), receiver, method)
}

/// As [`grown`], of what the list begins with.
pub(crate) fn grown_by(first: Expr, receiver: &Expr, method: &Ident) -> Expr {
    grown_of(first, |value| quote_spanned!(value.span()=> &::std::vec::Vec::from([#value])), receiver, method)
}

fn grown_of(expr: Expr, list: impl FnOnce(&Ident) -> TokenStream, receiver: &Expr, method: &Ident) -> Expr {
    let whole = ends(&expr);
    let site = Span::mixed_site().located_at(whole.0);
    let (value, target) = (local("v", 0, whole.0), local("t", 0, whole.0));
    let lent = expected_reference(Expr::Verbatim(list(&value)));
    let question = only_asked(&quote_spanned!(site=> __amp::slot(&(#receiver).#method(#lent), __amp::Keep)));
    let given = given(&value, &quote!(#target), whole);
    let expr = scrutinee(&expr);
    enclosed(quote_spanned!(site=> match #expr { #value => match #question.slot() { #target => #given } }), whole)
}

/// A value for a place of this type, which decides whether the value is widened.
pub(crate) fn declared(ty: &syn::Type, expr: Expr) -> Expr {
    let site = Span::mixed_site().located_at(ends(&expr).0);
    asked_before(&quote_spanned!(site=> __amp::declared::<#ty>()), expr)
}

/// A cast as a call that its operand is the argument of: the closure in it learns what its type says that it returns.
pub(crate) fn as_object(expr: Expr) -> Expr {
    let Expr::Cast(cast) = expr else { return expr };
    typed(&cast.ty, *cast.expr)
}

/// A value that is made what its type says: it does not go to the place that says so.
pub(crate) fn typed(ty: &syn::Type, expr: Expr) -> Expr {
    let site = Span::mixed_site().located_at(ends(&expr).0);
    Expr::Verbatim(quote_spanned!(site=> ::core::convert::identity::<#ty>(#expr)))
}

/// A value given away to where nothing but the compiler knows what is expected: as it is, or widened if that makes it
/// what is expected there. What leaves the block by `break` has the type that is.
pub(crate) fn expected(expr: Expr) -> Expr {
    let whole = ends(&expr);
    enclosed(leaving(&expr, whole), whole)
}

/// As [`expected`], behind an `&`: without parentheses, so that the compiler underlines both as one.
pub(crate) fn expected_borrowed(expr: Expr) -> Expr {
    let whole = ends(&expr);
    Expr::Verbatim(outlined(leaving(&expr, whole), whole))
}

fn leaving(expr: &Expr, whole: (Span, Span)) -> TokenStream {
    let value = local("v", 0, whole.0);
    let given = expected_by(&quote!(__amp::leaving), &value, whole, |asked| {
        called(&quote_spanned!(whole.0=> #asked.leave), instead_of(&value, whole), whole.1)
    });
    let expr = scrutinee(expr);
    quote_spanned!(value.span()=> match #expr { #value => #given })
}

/// A local where an error is to point at the user's expression that it holds.
fn instead_of(value: &Ident, whole: (Span, Span)) -> TokenStream {
    outlined(quote_spanned!(value.span()=> match () { () => #value }), whole)
}

/// As [`expected`], of a reference: what is widened lives as long as a temporary does.
pub(crate) fn expected_reference(expr: Expr) -> Expr {
    lent_out_of(expr, &quote!(__amp::Nothing))
}

/// As [`expected_reference`]; what is widened lives in the slot.
pub(crate) fn expected_behind(expr: Expr, slot: &Ident) -> Expr {
    lent_out_of(expr, &slot.to_token_stream())
}

fn lent_out_of(expr: Expr, kept: &TokenStream) -> Expr {
    let whole = ends(&expr);
    let (value, slot) = (local("v", 0, whole.0), local("s", 0, whole.0));
    let given = expected_by(&quote!(__amp::leaving), &value, whole, |asked| {
        let lent = instead_of(&value, whole);
        called(&quote_spanned!(whole.0=> #asked.hand), quote!(#lent, #slot), whole.1)
    });
    let tokens = quote_spanned!(value.span()=> match (#expr, &mut #kept) { (#value, #slot) => #given });
    enclosed(tokens, whole)
}

/// What is collected where nothing but the compiler knows into what: its elements are as they are, or widened if they fit
/// only then. Those that are results of this type are collected behind a `?`.
pub(crate) fn gathered(elements: &Expr, result: Option<&syn::Type>, collect: impl FnOnce(Expr) -> Expr) -> Expr {
    let whole = ends(elements);
    let value = local("v", 0, whole.0);
    let probe = match result {
        Some(result) => quote!(__amp::gathering::<#result, _, _>),
        None => quote!(__amp::leaving),
    };
    let given = expected_by(&probe, &value, whole, |asked| {
        // The compiler points at what is asked where the elements do not fit.
        let asked = outlined(asked.stream(), whole);
        let ready = called(&quote_spanned!(whole.0=> (#asked).ready), quote!(#value), whole.1);
        collect(Expr::Verbatim(ready)).into_token_stream()
    });
    let elements = scrutinee(elements);
    enclosed(quote_spanned!(value.span()=> match #elements { #value => #given }), whole)
}

/// What is made of a value by the answer to a probe that knows what is expected.
fn expected_by(
    probe: &TokenStream,
    value: &Ident,
    whole: (Span, Span),
    given: impl FnOnce(Group) -> TokenStream,
) -> TokenStream {
    let site = value.span();
    let (place, none) = (local("e", 0, whole.0), local("n", 0, whole.0));
    let label = Lifetime::new("'__amp_expected", site);
    let question = quote_spanned!(site=> match __amp::Nothing {
        __amp::Something(#place) => break #label #place,
        #none => #probe(&#value, &#none),
    });
    let mut asked = Group::new(Delimiter::Parenthesis, question);
    asked.set_span(whole.0);
    let given = given(asked);
    quote_spanned!(site=> #label: { #given })
}

/// A cast of the user's of which only types say whether it is one of floats to F32.
pub(crate) enum Mark {
    /// To the precision of this name.
    To(syn::Type),
    /// Of what lies at this place.
    Of(Expr),
    /// To F32, before it was given to these modules.
    By(Vec<Expr>),
}

/// A target, unless it would narrow what the user cast to F32.
pub(crate) fn unless_f32(mark: &Mark, target: &TokenStream, whole: (Span, Span)) -> TokenStream {
    let site = Span::mixed_site().located_at(whole.0);
    let (check, question) = match mark {
        Mark::To(ty) => (quote_spanned!(site=> __amp::Marked::<#ty>::keeps), quote!(__amp::marked())),
        Mark::Of(place) => return keeping(&quote_spanned!(site=> __amp::cast_of(&#place)), target, whole),
        Mark::By(modules) => {
            let all = modules.iter().fold(quote!(()), |all, module| quote_spanned!(site=> (&#module, #all)));
            return keeping(&quote_spanned!(site=> __amp::given_to(&#all)), target, whole);
        }
    };
    let [check, target] = [&check, target].map(|tokens| reaching(tokens, whole));
    quote_spanned!(site=> #check(#question, #target))
}

/// A target, unless what is asked answers that it would narrow what the user cast to F32.
fn keeping(question: &TokenStream, target: &TokenStream, whole: (Span, Span)) -> TokenStream {
    let site = Span::mixed_site().located_at(whole.0);
    let (question, target) = (only_asked(question), reaching(target, whole));
    quote_spanned!(site=> (#question).keeps(#target))
}

/// Tokens of an expression, for the compiler to show what stands between these when it shows the expression.
pub(super) fn reaching(tokens: &TokenStream, (first, last): (Span, Span)) -> TokenStream {
    let mut tokens: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let end = tokens.len().saturating_sub(1);
    for (i, token) in tokens.iter_mut().enumerate() {
        token.set_span(token.span().located_at(if i == end { last } else { first }));
    }
    tokens.into_iter().collect()
}

/// A value for the place that a probe asks about.
fn given_to(expr: Expr, place: &TokenStream) -> Expr {
    let whole = ends(&expr);
    let site = Span::mixed_site().located_at(whole.0);
    let (value, target) = (local("v", 0, whole.0), local("t", 0, whole.0));
    let given = given(&value, &quote!(#target), whole);
    enclosed(quote_spanned!(site=> match (#expr, #place.slot()) { (#value, #target) => #given }), whole)
}

/// The value as its type has it given away, in the place of the user's expression.
pub(super) fn given(value: &Ident, target: &TokenStream, (first, last): (Span, Span)) -> TokenStream {
    called(&quote_spanned!(first=> __amp::owned(&#value, #target).give), quote!(#value, #target), last)
}

/// A tuple of what is made of the locals that a pattern takes a value apart into.
pub(crate) fn taken_apart(value: &Expr, pattern: &TokenStream, elems: &[Expr]) -> Expr {
    let whole = ends(value);
    let site = Span::mixed_site().located_at(whole.0);
    let value = scrutinee(value);
    enclosed(quote_spanned!(site=> match #value { #pattern => (#(#elems,)*) }), whole)
}

/// A chain of two iterators, `one.chain(other)`; what is widened of references lives in the slot.
pub(crate) fn chained(call: Expr, slot: Option<&Ident>) -> Expr {
    let Expr::MethodCall(call) = call else { return call };
    let whole = ends(&Expr::MethodCall(call.clone()));
    let site = Span::mixed_site().located_at(whole.0);
    let [one, other, kept] = [1, 2, 3].map(|i| local("c", i, whole.0));
    let (receiver, arg) = (&call.receiver, &call.args[0]);
    let slot = slot.map_or_else(|| quote!(__amp::Nothing), ToTokens::to_token_stream);
    let method = quote_spanned!(call.method.span()=> chain);
    let at = call.paren_token.span.join();
    let args =
        called(&quote_spanned!(whole.0=> __amp::chaining(&#one, &#other).#method), quote!(#one, #other, #kept), at);
    enclosed(quote_spanned!(site=> match (#receiver, #arg, &mut #slot) { (#one, #other, #kept) => #args }), whole)
}

/// The branches of an expression are wrapped in `JoinN`; this joins them.
pub(crate) fn joined(expr: Expr) -> Expr {
    joined_by(expr, |value| quote_spanned!(value.span()=> join(#value)))
}

/// As [`joined`], of references: what is widened lives in the slot.
pub(crate) fn joined_behind(expr: Expr, slot: &Ident) -> Expr {
    joined_by(expr, |value| quote_spanned!(value.span()=> join_behind(#value, &mut #slot)))
}

/// As [`joined_behind`], of the elements of an array.
pub(crate) fn joined_elements_behind(array: &Expr, slots: &[Ident]) -> Expr {
    let whole = ends(array);
    let names: Vec<Ident> = (0..slots.len()).map(|i| local("v", i + 1, whole.0)).collect();
    let joined = names.iter().zip(slots).map(|(name, slot)| joined_behind(Expr::Verbatim(quote!(#name)), slot));
    enclosed(quote_spanned!(whole.0=> match #array { [#(#names),*] => [#(#joined),*] }), whole)
}

/// A vector of the elements of an array.
pub(crate) fn vector(array: Expr) -> Expr {
    let whole = ends(&array);
    let site = Span::mixed_site().located_at(whole.0);
    enclosed(quote_spanned!(site=> ::std::vec::Vec::from(#array)), whole)
}

/// What is so deep in options and results, made anew.
pub(crate) fn mapped(expr: &Expr, depth: usize, make: impl FnOnce(&Expr) -> Expr) -> Expr {
    if depth == 0 {
        return make(expr);
    }
    let whole = ends(expr);
    let value = local("m", depth, whole.0);
    let inner = mapped(&Expr::Verbatim(value.to_token_stream()), depth - 1, make);
    enclosed(quote_spanned!(value.span()=> (#expr).map(|#value| #inner)), whole)
}

/// A tuple with other elements in some places.
pub(crate) fn rewrapped(expr: &Expr, places: &[bool], elem: impl Fn(&Expr) -> Expr) -> Expr {
    let (first, _) = ends(expr);
    let names: Vec<Ident> = (0..places.len()).map(|i| local("v", i, first)).collect();
    let elems = names.iter().zip(places).map(|(name, here)| {
        let name = Expr::Verbatim(name.to_token_stream());
        if *here { elem(&name) } else { name }
    });
    taken_apart(expr, &quote!((#(#names,)*)), &elems.collect::<Vec<_>>())
}

/// A vector of such tuples, one by one.
pub(crate) fn rewrapped_each(list: &Expr, places: &[bool], elem: impl Fn(&Expr) -> Expr) -> Expr {
    let whole = ends(list);
    let site = Span::mixed_site().located_at(whole.0);
    let tuple = local("m", 0, whole.0);
    let made = rewrapped(&Expr::Verbatim(tuple.to_token_stream()), places, elem);
    let tuples = quote_spanned!(site=> ::core::iter::IntoIterator::into_iter(#list));
    let made = quote_spanned!(site=> ::core::iter::Iterator::map(#tuples, |#tuple| #made));
    enclosed(quote_spanned!(site=> ::core::iter::Iterator::collect::<::std::vec::Vec<_>>(#made)), whole)
}

fn joined_by(expr: Expr, joins: impl FnOnce(&Ident) -> TokenStream) -> Expr {
    let (first, _) = ends(&expr);
    let site = Span::mixed_site().located_at(first);
    let value = local("v", 0, first);
    let join = joins(&value);
    Expr::Verbatim(quote_spanned!(site=>
        (match #expr { #value => (&&&&__amp::probe(&#value, __amp::TO_F32)).joined().#join })
    ))
}

/// A reference to a value that lives in the slot.
pub(crate) fn kept(slot: &Ident, expr: &Expr) -> Expr {
    Expr::Verbatim(quote_spanned!(slot.span()=> &*#slot.insert(#expr)))
}
