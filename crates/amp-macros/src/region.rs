//! `amp_region!(..)`.

use crate::args::Args;
use crate::budget;
use crate::emit;
use crate::error::at;
use crate::listed;
use crate::parens;
use crate::plan;
use crate::rules::Rules;
use crate::walk::nested::as_block;
use crate::walk::{Context, Expect, Start, Walked, walk, walk_both};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::parse::{ParseStream, Parser};
use syn::{Block, Expr, Result};

/// Parses what stands between the parentheses: options, then a block or an expression.
pub(crate) fn parse(input: ParseStream) -> Result<(Args, Expr)> {
    let args = Args::parse(input, true)?;
    if input.is_empty() {
        return Err(at(
            args.region_span,
            "a region needs a body",
            "write `amp_region!(f16, { .. })` or `amp_region!(f16, expression)`",
        ));
    }
    let mut body = input.parse::<Expr>()?;
    parens::grouped(&mut body);
    if !input.is_empty() {
        let rest: TokenStream = input.parse()?;
        let first: TokenStream = rest.into_iter().take(1).collect();
        return Err(crate::error::spanned(
            first,
            "unexpected token after the region's body",
            "a region has one block or one expression, which comes last",
        ));
    }
    Ok((args, body))
}

/// The body as it stands, if it is a block that does not parse: of that the compiler's parser says what is wrong.
fn unparsed(input: TokenStream) -> Option<TokenStream> {
    let last = input.into_iter().last()?;
    let is_block = matches!(&last, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
    let body = TokenStream::from(last);
    (is_block && syn::parse2::<Block>(body.clone()).is_err()).then_some(body)
}

/// Whether there is a region with such a body among these tokens.
pub(crate) fn has_unparsed(tokens: TokenStream) -> bool {
    let mut named = false;
    tokens.into_iter().any(|token| match token {
        TokenTree::Group(group) if named => unparsed(group.stream()).is_some(),
        TokenTree::Group(group) => has_unparsed(group.stream()),
        TokenTree::Punct(punct) if punct.as_char() == '!' => false,
        token => {
            named = matches!(token, TokenTree::Ident(name) if name == "amp_region");
            false
        }
    })
}

/// Expands the macro.
pub(crate) fn amp_region(input: TokenStream) -> TokenStream {
    expand(input, Rules::default())
}

/// Expands the macro behind a policy: `{ rules } { arguments } body`.
pub(crate) fn region_with(input: TokenStream) -> TokenStream {
    match crate::policy::applied.parse2(input) {
        Ok((Ok(rules), args, body)) => expand(quote!(#args, #body), rules),
        // Of any type, so that one mistake is one error.
        Ok((Err(_), ..)) => quote!({ loop {} }),
        Err(error) => error.to_compile_error(),
    }
}

fn expand(input: TokenStream, policy: Rules) -> TokenStream {
    let (mut args, body) = match parse.parse2(input.clone()) {
        Ok(parsed) => parsed,
        Err(error) => return unparsed(input).unwrap_or_else(|| error.to_compile_error()),
    };
    if let Some(path) = &args.policy {
        let (private, forwarded) = (args.private(), &args.forwarded);
        return quote!(#path! { [#private::region_with] { #forwarded } #body });
    }
    args.rules.add_policy(policy);
    rewrite(&args, &as_block(body))
}

fn rewrite(args: &Args, block: &Block) -> TokenStream {
    let (walked, budget) = budget::kept(args, |tallies| walk_region(args, block, tallies));
    let mut errors = walked.errors;
    listed::check(args, &block.to_token_stream(), &mut errors);
    if !errors.is_empty() {
        let errors = errors.into_tokens();
        return quote!({ #errors });
    }
    let private = args.private();
    let imports = emit::imports(&private);
    let register = plan::register(&walked.rows, &args.region, &private, None);
    let body = walked.body.stmts;
    let named = emit::named(&args.region);
    quote! {{
        #register
        #imports
        #named
        #budget
        #(#body)*
    }}
}

fn walk_region(args: &Args, block: &Block, tallies: bool) -> Walked {
    let cx = Context { host: args.host, param: None, within: true, tallies };
    let (region, rules) = (&args.region, &args.rules);
    // What is returned leaves for a type that only the compiler knows.
    let (returns, gives) = (&Expect::Open, &Expect::Nothing);
    let start = Start { cx: &cx, region, rules, returns, gives, declare: &|_| () };
    match &args.enabled {
        None => walk(&start, block),
        Some(enabled) => walk_both(&start, block, enabled),
    }
}
