//! Messages: one place for their form, one accumulator so that independent mistakes are reported together.

use proc_macro2::{Span, TokenStream};
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
    Error::new_spanned(tokens, format!("{}\nhelp: {}", message.as_ref(), help.as_ref()))
}

/// As [`spanned`], on one token's span.
pub(crate) fn at(span: Span, message: impl AsRef<str>, help: impl AsRef<str>) -> Error {
    Error::new(span, format!("{}\nhelp: {}", message.as_ref(), help.as_ref()))
}
