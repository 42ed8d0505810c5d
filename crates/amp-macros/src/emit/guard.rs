//! Calls that the types may reject.

use super::{is_pure_place, local, only_asked, scrutinee};
use proc_macro2::{Ident, Span};
use quote::quote_spanned;
use syn::{Expr, Type};

/// A call of something that may belong outside of regions: its receiver's type decides, which `question` is asked about.
pub(crate) fn guarded(receiver: &Expr, method: &Ident, question: &str, call: Expr) -> Expr {
    let site = Span::mixed_site().located_at(method.span());
    let (method, question) = (Ident::new(&method.to_string(), site), Ident::new(question, site));
    // What is no place is not run twice.
    let probe = match is_pure_place(receiver) {
        true => quote_spanned!(site=> __amp::probe(&#receiver, __amp::Keep)),
        false => only_asked(&quote_spanned!(site=> __amp::probe(&(#receiver), __amp::Keep))),
    };
    Expr::Verbatim(quote_spanned!(site=> ({
        __amp::training::#method((&&&&&#probe).#question());
        #call
    })))
}

/// A function of a type that is named, and that may belong outside of regions.
pub(crate) fn guarded_function(ty: &Type, method: &Ident, function: Expr) -> Expr {
    let site = Span::mixed_site().located_at(method.span());
    let on = Expr::Verbatim(quote_spanned!(site=> *::core::option::Option::<&#ty>::None.unwrap()));
    guarded(&on, method, "outside", function)
}

/// A call without a policy on what may be a run-time-typed tensor: the types of receiver and result decide.
pub(crate) fn unlisted(receiver: &Expr, method: &Ident, call: Expr) -> Expr {
    let site = Span::mixed_site().located_at(method.span());
    let mut op = method.clone();
    op.set_span(site);
    let (value, on) = (local("v", 0, method.span()), local("o", 0, method.span()));
    let call = scrutinee(&call);
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
