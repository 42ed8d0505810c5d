//! Constants that meet a tensor of a precision which only its type tells: judged as types are checked, or when code is
//! generated, if the type is a parameter.

use super::{ends, local, scrutinee};
use crate::literal::{Doubt, Fault};
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
    let judged = faults.iter().filter(|fault| fault.condition.is_none() || Some(fault.half) == *early);
    let judged = judged.map(|fault| judged_early(&precision, fault));
    quote_spanned!(site=> {
        #[allow(non_camel_case_types, dead_code)]
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
fn asserted(Fault { half, message, condition }: &Fault, at: Span) -> TokenStream {
    let (marker, message) = (format_ident!("{}", half.marker()), in_format(message));
    let condition = condition.iter();
    quote_spanned!(at=> ::core::assert!(!(__amp::is_half::<P>(__amp::Half::#marker) #(&& #condition)*), #message);)
}

/// Does not compile if a precision is this one.
fn judged_early(precision: &Ident, Fault { half, message, condition }: &Fault) -> TokenStream {
    let (site, marker, message) = (precision.span(), format_ident!("{}", half.marker()), in_format(message));
    let condition = condition.clone().unwrap_or_else(|| quote_spanned!(site=> true));
    quote_spanned!(site=> {
        #[diagnostic::on_unimplemented(message = #message, label = "this constant")]
        #[allow(non_camel_case_types, dead_code)]
        trait __amp_held {}
        #[diagnostic::do_not_recommend]
        impl __amp_held for __amp::Faulty<false> {}
        #[allow(non_camel_case_types, dead_code)]
        trait __amp_judged: Sized {
            fn judged<C: __amp_held>(self) {}
        }
        impl __amp_judged for __amp::To<__amp::#marker> {}
        #precision.judged::<__amp::Faulty<{ #condition }>>();
    })
}

/// A message as a format string that gives it.
pub(crate) fn in_format(message: &str) -> String {
    message.replace('{', "{{").replace('}', "}}")
}
