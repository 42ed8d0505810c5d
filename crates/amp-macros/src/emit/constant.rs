//! Constants that meet a tensor of a precision which only its type tells: judged as types are checked, or when code is
//! generated, if the type is a parameter.

use super::{ends, local, scrutinee};
use crate::literal::{Doubt, Fault};
use amp_policy::Verdict;
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
fn question(value: &impl quote::ToTokens, Doubt { faults, early, target, at }: &Doubt, site: Span) -> TokenStream {
    let precision = local("p", 0, *at);
    let (generic, known): (Vec<&Fault>, Vec<&Fault>) = faults.iter().partition(|fault| fault.generic);
    let of_known = |half: &Ident| quote_spanned!(*at=> __amp::is_half::<P>(__amp::Half::#half));
    let assertions = known.iter().map(|fault| asserted(fault, of_known, *at));
    let judged = known.iter().filter(|fault| fault.number.is_none() || Some(fault.half) == *early);
    let judged = judged.map(|fault| judged_early(&precision, fault));
    let cast = target.as_ref().map(|target| quote_spanned!(site=> .cast_to(#target)));
    let of_generic = generic.iter().map(|fault| judged_in_place(&precision, fault, *at));
    quote_spanned!(site=> #[allow(non_camel_case_types, dead_code)] {
        struct __amp_constant;
        impl<P: __amp::Element> __amp::HeldIn<P> for __amp_constant {
            const HELD: () = { #(#assertions)* };
        }
        let #precision = __amp::token(&#value, __amp::Keep).token(&#value) #cast;
        #precision.holds::<__amp_constant>();
        #(#judged)*
        #(#of_generic)*
    })
}

/// Fails when code is generated for a constant that names parameters, which no item can: the block's type is that of the
/// precision's own parameter.
fn judged_in_place(precision: &Ident, fault: &Fault, at: Span) -> TokenStream {
    let asked = local("q", 0, at);
    let assertions = asserted(fault, |half| quote_spanned!(at=> #asked.is(__amp::Half::#half)), at);
    quote_spanned!(at=> #precision.holds_here(const {
        let #asked = __amp::Asked::new();
        #assertions
        #asked
    });)
}

/// Fails when code is generated for a precision that is this one.
fn asserted(fault: &Fault, is_half: impl Fn(&Ident) -> TokenStream, at: Span) -> TokenStream {
    let is_half = is_half(&format_ident!("{}", fault.half.marker()));
    let wrong = fault.messages.iter().map(|(verdict, _)| found(*verdict, fault, at));
    let messages = fault.messages.iter().map(|(_, message)| in_format(message));
    quote_spanned!(at=> #(
        ::core::assert!(!(#is_half && #wrong), #messages);
    )*)
}

/// Whether this is found of a number.
pub(crate) fn found(verdict: Verdict, fault: &Fault, at: Span) -> TokenStream {
    if fault.number.is_none() {
        return quote_spanned!(at=> true);
    }
    let (code, judged) = (verdict as u8, judged(fault, at));
    quote_spanned!(at=> (#judged == #code))
}

/// What the compiler finds of a number.
fn judged(fault: &Fault, at: Span) -> TokenStream {
    let [marker, part] = [fault.half.marker(), fault.part_name()].map(|name| format_ident!("{name}"));
    let number = &fault.number;
    quote_spanned!(at=> __amp::verdict(#number, __amp::Half::#marker, __amp::Part::#part))
}

/// Does not compile if a precision is this one and the compiler finds a fault in the constant: it computes that once.
fn judged_early(precision: &Ident, fault: &Fault) -> TokenStream {
    let (site, marker, messages) = (precision.span(), format_ident!("{}", fault.half.marker()), &fault.messages);
    let codes: Vec<u8> = messages.iter().map(|(verdict, _)| *verdict as u8).collect();
    let verdict = match fault.number {
        Some(_) => judged(fault, site),
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
            fn __amp_judged<C: #(#names)+*>(self, _: C) {}
        }
        impl __amp_judged for __amp::To<__amp::#marker> {}
        #precision.__amp_judged(__amp::Found::<{ #verdict }>);
    })
}

/// A message as a format string that gives it.
pub(crate) fn in_format(message: &str) -> String {
    message.replace('{', "{{").replace('}', "}}")
}
