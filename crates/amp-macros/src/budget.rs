//! `max_casts = N`.

use crate::args::Args;
use crate::error::at;
use crate::plan::{self, Row};
use crate::walk::Walked;
use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};

/// A body that is held against its budget, and what has to be asked of the types of its modules.
pub(crate) fn kept(args: &Args, walk: impl Fn(bool) -> Walked) -> (Walked, Option<TokenStream>) {
    let mut walked = walk(false);
    let Some((limit, number)) = &args.max_casts else { return (walked, None) };
    let span = number.clone().into_iter().next().map_or(args.region_span, |token| token.span());
    let known = plan::certain(&walked.rows);
    if known > *limit {
        let casts = if known == 1 { "cast" } else { "casts" };
        let message = format!("{known} costed {casts}, but `max_casts = {limit}`");
        let calls = plan::explain(&walked.rows, |row| row.costed - row.doubtful);
        walked.errors.push(at(span, message, format!("narrowings are made here: {calls}")));
    }
    if known > *limit || plan::costed(&walked.rows) <= *limit {
        return (walked, None);
    }
    // Whether a module narrows, and what it gives, only its type says.
    let walked = walk(true);
    let asked = asked(&walked.rows, *limit, limit - known, span);
    (walked, Some(asked))
}

/// Counts the narrowings that types decide about, of which `left` are within the limit.
fn asked(rows: &[Row], limit: u32, left: u32, span: Span) -> TokenStream {
    let span = Span::mixed_site().located_at(span);
    let message = format!("more costed casts than `max_casts = {limit}`");
    let calls = plan::explain(rows, |row| row.costed);
    let note =
        format!("narrowings are made here, unless a module is not `lower` or a value is narrow already: {calls}");
    let within = (0..=left).map(|count| {
        let sum = (0..count).fold(quote!(__amp::Zero), |sum, _| quote!(__amp::More<#sum>));
        quote_spanned!(span=> #[diagnostic::do_not_recommend] impl __AmpWithin for #sum {})
    });
    let tallies: Vec<&Ident> = rows.iter().flat_map(|row| &row.tallies).collect();
    let sum = tallies.iter().fold(quote_spanned!(span=> ()), |sum, tally| quote_spanned!(span=> (#tally, #sum)));
    quote_spanned! {span=>
        #(let #tallies = __amp::tally();)*
        {
            #[diagnostic::on_unimplemented(message = #message, label = "as the types of the modules say", note = #note)]
            trait __AmpWithin {}
            #(#within)*
            // The compiler would take a type with the only implementation to be the one that is asked for.
            #[diagnostic::do_not_recommend]
            impl __AmpWithin for () {}
            fn __amp_within<S: __AmpWithin>(_sum: ::core::marker::PhantomData<S>) {}
            __amp_within(__amp::sum(#sum));
        }
    }
}
