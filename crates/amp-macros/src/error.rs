//! Messages: one place for their form, one accumulator so that independent mistakes are reported together.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};
use quote::ToTokens;
use syn::Error;

/// Independent mistakes of one invocation.
#[derive(Default)]
pub(crate) struct Errors(Vec<Error>);

impl Errors {
    pub(crate) fn push(&mut self, error: Error) {
        self.0.push(error);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `compile_error!` items, one a mistake.
    pub(crate) fn into_tokens(self) -> TokenStream {
        self.0.iter().map(Error::to_compile_error).collect()
    }
}

/// A message on `tokens` with the way out on a line of its own.
pub(crate) fn spanned(tokens: impl ToTokens, message: impl AsRef<str>, help: impl AsRef<str>) -> Error {
    let tokens: TokenStream = tokens.into_token_stream().into_iter().map(as_written).collect();
    Error::new_spanned(tokens, format!("{}\nhelp: {}", message.as_ref(), help.as_ref()))
}

/// Parentheses that the expansion has made its own (see `parens`) as the user's: the compiler says of all else that it
/// stands in an expansion.
fn as_written(token: TokenTree) -> TokenTree {
    match token {
        TokenTree::Group(mut group) if group.delimiter() == Delimiter::Parenthesis => {
            if let Some(within) = first(group.stream()) {
                group.set_span(group.span().resolved_at(within));
            }
            group.into()
        }
        token => token,
    }
}

fn first(tokens: TokenStream) -> Option<Span> {
    match tokens.into_iter().next()? {
        TokenTree::Group(group) => first(group.stream()),
        token => Some(token.span()),
    }
}

/// As [`spanned`], on one token's span.
pub(crate) fn at(span: Span, message: impl AsRef<str>, help: impl AsRef<str>) -> Error {
    Error::new(span, format!("{}\nhelp: {}", message.as_ref(), help.as_ref()))
}
