//! Calls of modules.

use super::operand::braced;
use super::value::reaching;
use super::{Joint, Mark, Operand, Treatment, call, enclosed, is_place, is_pure_place, local, scrutinee, unless_f32};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::Expr;

/// A call of a module, whose type says what its inputs are cast to; under the condition `written` it writes its result in
/// the region's precision, if it can.
pub(crate) fn module_call(
    (first, at, end): (Span, Span, Span),
    receiver: Expr,
    (region, written): (&TokenStream, Option<TokenStream>),
    pinned: &[((Span, Span), Option<Mark>)],
    operands: Vec<Operand>,
    build: impl FnOnce(Expr, Vec<Expr>) -> Expr,
) -> Expr {
    let site = Span::mixed_site().located_at(at);
    let target = local("t", 1, at);
    let module = local("m", 0, at);
    let pure = is_pure_place(&receiver);
    let callee = if pure { receiver.clone() } else { Expr::Verbatim(quote_spanned!(site=> (#module))) };
    let probed = if pure { quote_spanned!(site=> &#receiver) } else { quote_spanned!(site=> &#module) };
    let operands = operands
        .into_iter()
        .map(|operand| match operand.treatment {
            Treatment::To(_) => Operand { treatment: Treatment::To(target.to_token_stream()), ..operand },
            Treatment::Late(_) => Operand { treatment: Treatment::Late(target.to_token_stream()), ..operand },
            _ => operand,
        })
        .collect();
    let inner = call((first, at, end), operands, Joint::None, None, |args| build(callee, args));
    let checks = pinned.iter().map(|(whole, named)| {
        let at = Span::mixed_site().located_at(whole.0);
        let target = Ident::new(&target.to_string(), at);
        // Two tokens at least, for the first and the last of what the compiler shows.
        let target = quote_spanned!(at=> *&#target);
        match named {
            Some(mark) => unless_f32(mark, &target, *whole),
            None => {
                let [check, target] =
                    [&quote_spanned!(at=> __amp::pinned), &target].map(|tokens| reaching(tokens, *whole));
                quote_spanned!(at=> #check(#target))
            }
        }
    });
    let asks = match written {
        None => quote_spanned!(site=> module()),
        Some(condition) => quote_spanned!(site=> module_for(#condition)),
    };
    let inner = match pinned {
        [] => inner.into_token_stream(),
        _ => quote_spanned!(site=> { #(#checks;)* #inner }),
    };
    let arm = braced(quote_spanned!(site=> #target => #inner), end);
    let chosen = quote_spanned!(site=> __amp::module(#probed, #region).#asks);
    let body = quote_spanned!(site=> match #chosen #arm);
    if pure {
        return enclosed(body, (first, end));
    }
    let scrutinee = scrutinee(&receiver);
    let borrow = if is_place(&receiver) { quote_spanned!(site=> &) } else { TokenStream::new() };
    let arm = braced(quote_spanned!(site=> #module => #body), end);
    enclosed(quote_spanned!(site=> match #borrow #scrutinee #arm), (first, end))
}
