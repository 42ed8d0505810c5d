//! Constants that meet a tensor of a precision which only its type tells: judged as types are checked, or when code is
//! generated, if the type is a parameter.

use super::{ends, local, scrutinee};
use crate::literal::{Doubt, Fault};
use amp_policy::{Half, Verdict};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote_spanned};
use syn::Expr;

/// `tensor`, once its precision has been asked whether it holds the constant that these assertions judge.
pub(crate) fn holding(tensor: Expr, doubt: &Doubt) -> Expr {
    let at = ends(&tensor).0;
    let (site, value) = (Span::mixed_site().located_at(at), local("v", 0, at));
    let question = question(&value, doubt, site);
    let tensor = scrutinee(&tensor);
    Expr::Verbatim(quote_spanned!(site=> (match #tensor { #value => { #question #value } })))
}

/// `constant`, once the precision of `place` has been asked whether it holds it.
pub(crate) fn beside(place: &Expr, doubt: &Doubt, constant: &Expr) -> Expr {
    let site = Span::mixed_site().located_at(ends(constant).0);
    let question = question(place, doubt, site);
    Expr::Verbatim(quote_spanned!(site=> { #question #constant }))
}

/// The assertions stand at the constant: the compiler shows where what fails stands.
fn question(value: &impl quote::ToTokens, Doubt { faults, early, at }: &Doubt, site: Span) -> TokenStream {
    let precision = local("p", 0, *at);
    let assertions = faults.iter().map(|fault| asserted(fault, *at));
    let judged = faults.iter().filter(|fault| fault.number.is_none() || Some(fault.half) == *early);
    let judged = judged.map(|fault| judged_early(&precision, fault));
    quote_spanned!(site=> #[allow(non_camel_case_types, dead_code)] {
        struct __amp_constant;
        impl<P: __amp::Element> __amp::HeldIn<P> for __amp_constant {
            const HELD: () = { #(#assertions)* };
        }
        let #precision = __amp::token(&#value, __amp::Keep).token(&#value);
        #precision.holds::<__amp_constant>();
        #(#judged)*
    })
}

/// Fails when code is generated for a precision `P` that is this one.
fn asserted(Fault { half, number, messages }: &Fault, at: Span) -> TokenStream {
    let marker = format_ident!("{}", half.marker());
    let wrong = messages.iter().map(|(verdict, _)| found(*verdict, number, *half, false, at));
    let messages = messages.iter().map(|(_, message)| in_format(message));
    quote_spanned!(at=> #(
        ::core::assert!(!(__amp::is_half::<P>(__amp::Half::#marker) && #wrong), #messages);
    )*)
}

/// Whether this is found of a number.
pub(crate) fn found(verdict: Verdict, number: &Option<TokenStream>, half: Half, scales: bool, at: Span) -> TokenStream {
    let Some(number) = number else { return quote_spanned!(at=> true) };
    let (code, marker) = (verdict as u8, format_ident!("{}", half.marker()));
    quote_spanned!(at=> (__amp::verdict(#number, __amp::Half::#marker, #scales) == #code))
}

/// Does not compile if a precision is this one and the compiler finds a fault in the constant: it computes that once.
fn judged_early(precision: &Ident, Fault { half, number, messages }: &Fault) -> TokenStream {
    let (site, marker) = (precision.span(), format_ident!("{}", half.marker()));
    let codes: Vec<u8> = messages.iter().map(|(verdict, _)| *verdict as u8).collect();
    let verdict = match number {
        Some(number) => quote_spanned!(site=> __amp::verdict(#number, __amp::Half::#marker, false)),
        None => quote_spanned!(site=> #(#codes)*),
    };
    let names: Vec<Ident> = codes.iter().map(|code| format_ident!("__amp_held{code}", span = site)).collect();
    let traits = messages.iter().zip(&names).zip(&codes).map(|(((_, message), name), code)| {
        let message = in_format(message);
        let others = codes.iter().filter(|other| *other != code);
        quote_spanned!(site=>
            #[diagnostic::on_unimplemented(message = #message, label = "this constant")]
            trait #name {}
            #[diagnostic::do_not_recommend]
            impl #name for __amp::Found<0> {}
            #(#[diagnostic::do_not_recommend] impl #name for __amp::Found<#others> {})*
        )
    });
    quote_spanned!(site=> {
        #(#traits)*
        trait __amp_judged: Sized {
            fn judged<C: #(#names)+*>(self, _: C) {}
        }
        impl __amp_judged for __amp::To<__amp::#marker> {}
        #precision.judged(__amp::Found::<{ #verdict }>);
    })
}

/// A message as a format string that gives it.
pub(crate) fn in_format(message: &str) -> String {
    message.replace('{', "{{").replace('}', "}}")
}
