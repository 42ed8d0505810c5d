//! `#[autocast(..)]`.

use crate::args::{Args, Region, param_name};
use crate::budget;
use crate::emit;
use crate::item::{Function, rejected, rejected_expression};
use crate::listed;
use crate::plan;
use crate::region::has_unparsed;
use crate::rules::Rules;
use crate::walk::nested::shared_items;
use crate::walk::{Context, Expect, Start, Walked, walk};
use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::Block;
use syn::parse::{ParseStream, Parser};

/// Expands the attribute.
pub(crate) fn autocast(args: TokenStream, item: TokenStream) -> TokenStream {
    expand(args, item, Rules::default())
}

/// Expands the attribute behind a policy: `{ rules } { arguments } item`.
pub(crate) fn autocast_with(input: TokenStream) -> TokenStream {
    match crate::policy::applied.parse2(input) {
        Ok((Ok(rules), args, item)) => expand(args, item, rules),
        Ok((Err(_), args, item)) => match syn::parse2::<Function>(item.clone()) {
            Ok(function) => function.stub(),
            Err(_) => expand(args, item, Rules::default()),
        },
        Err(error) => error.to_compile_error(),
    }
}

fn expand(args: TokenStream, item: TokenStream, policy: Rules) -> TokenStream {
    let function: Function = match syn::parse2(item.clone()) {
        Ok(function) => function,
        Err(error) => return rejected_expression(&item).unwrap_or_else(|| rejected(&error, item)),
    };
    if is_value() {
        return function.stub();
    }
    let checked = |input: ParseStream| Args::parse(input, false);
    let mut args = match function.check().and_then(|()| checked.parse2(args)) {
        Ok(args) => args,
        Err(error) => return rejected(&error, function.stub()),
    };
    if let Err(error) = function.check_parameter(&args.region) {
        return rejected(&error, function.stub());
    }
    if let Some(path) = &args.policy {
        let (private, forwarded) = (args.private(), &args.forwarded);
        return quote!(#path! { [#private::autocast_with] { #forwarded } #item });
    }
    args.rules.add_policy(policy);
    let body = function.body.clone();
    // The parser's own message, and an editor's completion, need the body as it stands.
    let Ok(block) = syn::parse2::<Block>(quote!(#body)) else { return function.original() };
    if let (Some(_), Err(error)) = (&args.enabled, function.check_future(&block)) {
        return rejected(&error, function.stub());
    }
    rewrite(&args, &function, &block)
}

/// Whether the attribute is written `#[autocast = ..]`, which the compiler itself rejects.
fn is_value() -> bool {
    let text = Span::call_site().source_text().unwrap_or_default();
    let attribute = text.strip_prefix("#[").and_then(|rest| rest.split(['(', '[', '{']).next());
    attribute.is_some_and(|name| name.contains('='))
}

fn rewrite(args: &Args, function: &Function, block: &Block) -> TokenStream {
    let (walked, budget) = budget::kept(args, |tallies| walk_function(args, &args.region, function, block, tallies));
    let mut errors = walked.errors;
    listed::check(args, &block.to_token_stream(), &mut errors);
    let private = args.private();
    let doc = plan::document(&walked.rows, &args.region);
    let imports = emit::imports(&private);
    let register = plan::register(&walked.rows, &args.region, &private, Some(&function.sig.ident));
    let mut lower = walked.body;
    let body = match &args.enabled {
        None => {
            let stmts = lower.stmts;
            quote!(#(#stmts)*)
        }
        Some(enabled) => {
            let mut full = walk_function(args, &Region::F32, function, block, false);
            if errors.is_empty() {
                errors = full.errors;
            }
            let items = shared_items(&mut lower, &mut full.body);
            let enabled = emit::scrutinee(enabled);
            let [lower, full] = [lower.stmts, full.body.stmts].map(|stmts| function.returning(quote!(#(#stmts)*)));
            quote!(#(#items)* if #enabled #lower else #full)
        }
    };
    if !errors.is_empty() && has_unparsed(function.body.to_token_stream()) {
        return function.original();
    }
    if !errors.is_empty() {
        let (errors, stub) = (errors.into_tokens(), function.stub());
        return quote!(#errors #stub);
    }
    let named = emit::named(&args.region);
    let body = quote! {
        #register
        #imports
        #named
        #budget
        #body
    };
    function.with_body(Some(doc), body)
}

fn walk_function(args: &Args, region: &Region, function: &Function, block: &Block, tallies: bool) -> Walked {
    let param = match &args.region {
        Region::Param(path) => Some(param_name(path)),
        _ => None,
    };
    let returns = Expect::of_return(&function.sig.output, param.as_deref());
    let within = function.sig.receiver().is_some();
    let cx = Context { host: args.host, param, within, tallies };
    walk(
        &Start {
            cx: &cx,
            region,
            rules: &args.rules,
            returns: &returns,
            gives: &returns,
            declare: &|walker| walker.parameters(&function.sig),
        },
        block,
    )
}
