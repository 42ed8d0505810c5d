//! `amp_policy!`: a named set of rules, as a macro that hands functions and regions on together with the rules.

use crate::error::at;
use crate::rules::{Rule, Rules};
use proc_macro2::{Group, TokenStream};
use quote::{ToTokens, format_ident, quote};
use std::hash::{Hash, Hasher};
use syn::parse::{ParseBuffer, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::token::Brace;
use syn::{Attribute, Ident, Result, Token, Visibility, braced, bracketed};

/// What a policy looks like.
const EXAMPLE: &str = "write `amp_policy! { pub name { full: [op] } }`";

/// Expands the macro.
pub(crate) fn amp_policy(input: TokenStream) -> TokenStream {
    parse.parse2(input).unwrap_or_else(|error| error.to_compile_error())
}

fn parse(input: ParseStream) -> Result<TokenStream> {
    let attrs = input.call(Attribute::parse_outer)?;
    let vis: Visibility = input.parse()?;
    let name: Ident = input.parse().map_err(|error| at(error.span(), "a policy needs a name", EXAMPLE))?;
    if !input.peek(Brace) {
        return Err(at(input.span(), "the rules of a policy stand in braces behind its name", EXAMPLE));
    }
    // Rules that are wrong are handed on as well: who uses the policy then says nothing more, not that there is none.
    let body: Group = input.parse()?;
    let wrong = rules(&body).err().map(|error| error.to_compile_error());
    if !input.is_empty() {
        return Err(at(input.span(), "unexpected token after the policy", "an `amp_policy!` defines one policy"));
    }
    let hidden = hidden(&name);
    // Only a policy that other crates may use needs to be exported.
    let (export, visibility) = match &vis {
        Visibility::Public(_) => (quote!(#[macro_export]), quote!(#vis)),
        Visibility::Inherited => (TokenStream::new(), TokenStream::new()),
        _ => (TokenStream::new(), quote!(#vis)),
    };
    Ok(quote! {
        #wrong
        #[doc(hidden)]
        #export
        macro_rules! #hidden {
            ([$($path:tt)*] $($rest:tt)*) => { $($path)*! { #body $($rest)* } };
        }
        #(#attrs)*
        #[allow(unused_imports)]
        #visibility use #hidden as #name;
    })
}

/// The name of the macro: those that are exported share one scope, so it says which of several modules' policies this is.
fn hidden(name: &Ident) -> Ident {
    let (file, start) = (name.span().file(), name.span().start());
    let mut place = std::hash::DefaultHasher::new();
    (file, start.line, start.column).hash(&mut place);
    format_ident!("__amp_policy_{name}_{:x}", place.finish())
}

/// What a policy hands on, `{ rules } { arguments } rest`. Rules that are wrong were reported where they are written.
pub(crate) fn applied(input: ParseStream) -> Result<(Result<Rules>, TokenStream, TokenStream)> {
    let args;
    let body: Group = input.parse()?;
    braced!(args in input);
    Ok((rules(&body), args.parse()?, input.parse()?))
}

/// `{ class: [op, op], .. }`, by itself: the rest goes on when it is wrong.
fn rules(body: &Group) -> Result<Rules> {
    let parser = |input: ParseStream| {
        let content;
        braced!(content in input);
        classes(&content)
    };
    parser.parse2(body.to_token_stream())
}

fn classes(content: &ParseBuffer<'_>) -> Result<Rules> {
    let mut rules = Rules::default();
    while !content.is_empty() {
        let class: Ident = content.parse()?;
        let word = class.to_string();
        let Some(rule) = Rule::from_word(&word) else {
            let help = "expected one of `full`, `lower`, `widest`, `keep`, `skip`, `force_lower`";
            return Err(at(class.span(), format!("`{word}` is not a class of operations"), help));
        };
        let form = || format!("write `{word}: [op, other_op]`");
        content.parse::<Token![:]>().map_err(|error| at(error.span(), "expected `:` after the class", form()))?;
        if !content.peek(syn::token::Bracket) {
            return Err(at(content.span(), format!("`{word}` takes a list of operations in brackets"), form()));
        }
        let list;
        bracketed!(list in content);
        let names = Punctuated::<Ident, Token![,]>::parse_terminated(&list)
            .map_err(|error| at(error.span(), format!("`{word}` takes names of operations"), form()))?;
        for op in names {
            rules.insert(&op, rule)?;
        }
        if !content.is_empty() {
            content
                .parse::<Token![,]>()
                .map_err(|error| at(error.span(), "expected `,` between the classes", form()))?;
        }
    }
    Ok(rules)
}
