//! Constants that meet a tensor of a precision which only its type tells: judged when code for that type is generated.

use super::{ends, local, scrutinee};
use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::Expr;

/// `tensor`, once its precision has been asked whether it holds the constant that these assertions judge.
pub(crate) fn holding(tensor: Expr, checks: &TokenStream) -> Expr {
    let at = ends(&tensor).0;
    let (site, value) = (Span::mixed_site().located_at(at), local("v", 0, at));
    let question = question(&value, checks, site);
    let tensor = scrutinee(&tensor);
    Expr::Verbatim(quote_spanned!(site=> (match #tensor { #value => { #question #value } })))
}

/// `constant`, once the precision of `place` has been asked whether it holds it.
pub(crate) fn beside(place: &Expr, checks: &TokenStream, constant: &Expr) -> Expr {
    let site = Span::mixed_site().located_at(ends(constant).0);
    let question = question(place, checks, site);
    Expr::Verbatim(quote_spanned!(site=> { #question #constant }))
}

/// The assertions stand at the constant: the compiler shows where what fails stands.
fn question(value: &impl quote::ToTokens, checks: &TokenStream, site: Span) -> TokenStream {
    quote_spanned!(site=> {
        #[allow(non_camel_case_types, dead_code)]
        struct __amp_constant;
        impl<P: __amp::Element> __amp::HeldIn<P> for __amp_constant {
            const HELD: () = { #checks };
        }
        __amp::token(&#value, __amp::Keep).token(&#value).holds::<__amp_constant>();
    })
}
