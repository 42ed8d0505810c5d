//! `#[amp_op(class)]`: an operation of the user's, whose signature is held against the class it claims.

use crate::error::{Errors, at, spanned};
use crate::item::{Function, rejected};
use crate::lattice::{Prec, Value};
use crate::rules::Rule;
use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::parse::{ParseStream, Parser};
use syn::{FnArg, Ident, Result, ReturnType};

const CLASSES: &str = "expected `lower`, `full`, `widest` or `keep`";

/// Expands the attribute.
pub(crate) fn amp_op(args: TokenStream, item: TokenStream) -> TokenStream {
    let function: Function = match syn::parse2(item.clone()) {
        Ok(function) => function,
        Err(error) => return rejected(&renamed(&error), item),
    };
    let class = match class.parse2(args) {
        Ok(class) => class,
        Err(error) => return rejected(&error, item),
    };
    let errors = check(&function, class);
    if !errors.is_empty() {
        let (errors, stub) = (errors.into_tokens(), function.stub());
        return quote!(#errors #stub);
    }
    let doc = format!("\n\nClass `{}` in an autocast region whose policy lists it.", class.name());
    let body = function.body.stream();
    function.with_body(Some(doc), body)
}

fn renamed(error: &syn::Error) -> syn::Error {
    syn::Error::new(
        error.span(),
        error
            .to_string()
            .replace("#[autocast]", "#[amp_op]")
            .replace(crate::item::WHERE, "put it on the function that is the operation"),
    )
}

fn class(input: ParseStream) -> Result<Rule> {
    if input.is_empty() {
        return Err(at(Span::call_site(), "`#[amp_op]` needs a class", CLASSES));
    }
    let word: Ident =
        input.parse().map_err(|error| at(error.span(), "`#[amp_op]` takes the name of a class", CLASSES))?;
    let rule = Rule::from_word(&word.to_string()).filter(|rule| !matches!(rule, Rule::Skip | Rule::ForceLower));
    let rule = rule.ok_or_else(|| at(word.span(), format!("`{word}` is not a class of operations"), CLASSES))?;
    match input.is_empty() {
        true => Ok(rule),
        false => Err(at(input.span(), "unexpected token after the class", "an operation has one class")),
    }
}

fn check(function: &Function, class: Rule) -> Errors {
    let mut errors = Errors::default();
    let types = function.sig.inputs.iter().filter_map(|input| match input {
        FnArg::Typed(typed) => Some(&*typed.ty),
        FnArg::Receiver(_) => None,
    });
    for ty in types {
        match (class, Value::of_type(ty, None).prec) {
            (Rule::Full, Prec::Half(name)) => errors.push(spanned(
                ty,
                format!("a `full` operation takes `F32` tensors, this one is `{name}`"),
                "take `&Tensor<F32>`: callers in a region are widened for it",
            )),
            (Rule::Lower, Prec::F32) => errors.push(spanned(
                ty,
                "a `lower` operation takes tensors of the region's precision, this one is `F32`",
                "make it generic: `fn op<P: AutocastPrecision>(x: &Tensor<P>)`",
            )),
            _ => {}
        }
    }
    if let (Rule::Full, ReturnType::Type(_, ty)) = (class, &function.sig.output)
        && let Prec::Half(name) = Value::of_type(ty, None).prec
    {
        errors.push(spanned(
            ty,
            format!("a `full` operation returns `F32` tensors, this one is `{name}`"),
            "return `Tensor<F32>`",
        ));
    }
    errors
}
