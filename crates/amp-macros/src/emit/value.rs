//! Values given away: returned, assigned, joined.

use super::{ends, local, only_asked};
use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::Expr;

/// A value given away, cast where it is a tensor or holds tensors.
pub(crate) fn recast(expr: Expr, target: &TokenStream) -> Expr {
    let (first, _) = ends(&expr);
    let site = Span::mixed_site().located_at(first);
    let value = local("v", 0, first);
    Expr::Verbatim(quote_spanned!(site=>
        (match #expr { #value => __amp::owned(&#value, #target).give(#value, #target) })
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
        (match (#expr, __amp::slot(&#place, __amp::Keep).slot()) {
            (#value, #target) => __amp::owned(&#value, #target).give(#value, #target)
        })
    ))
}

/// As [`slot`], for a variable, which the value may be made of.
pub(crate) fn variable_slot(variable: &Expr, expr: Expr) -> Expr {
    let (first, _) = ends(&expr);
    let site = Span::mixed_site().located_at(first);
    let (value, target) = (local("v", 0, first), local("t", 0, first));
    let question = only_asked(&quote_spanned!(site=> __amp::slot(&#variable, __amp::Keep)));
    Expr::Verbatim(quote_spanned!(site=>
        (match #question.slot() {
            #target => match #expr { #value => __amp::owned(&#value, #target).give(#value, #target) }
        })
    ))
}

/// A value for a place of this type, which decides whether the value is widened.
pub(crate) fn declared(ty: &syn::Type, expr: Expr) -> Expr {
    let (first, _) = ends(&expr);
    let site = Span::mixed_site().located_at(first);
    let (value, target) = (local("v", 0, first), local("t", 0, first));
    Expr::Verbatim(quote_spanned!(site=>
        (match (#expr, __amp::declared::<#ty>().slot()) {
            (#value, #target) => __amp::owned(&#value, #target).give(#value, #target)
        })
    ))
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
