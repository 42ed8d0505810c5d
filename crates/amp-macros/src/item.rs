//! What the attribute stands on.

use crate::args::Region;
use crate::error::spanned;
use crate::parens;
use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream, Parser};
use syn::spanned::Spanned;
use syn::token::Brace;
use syn::{
    AttrStyle, Attribute, Block, Error, Expr, Ident, LitStr, Path, Result, ReturnType, Signature, Stmt, Token, Type,
    TypeParamBound, Visibility, WherePredicate,
};

/// Where the attribute belongs.
pub(crate) const WHERE: &str = "put it on each function or method whose body should run in lower precision";
/// What stands for it inside a function.
const INSIDE: &str = "write `amp_region!(f16, ..)` for a part of a function";

/// A function, a method or a provided method of a trait; its body is not parsed yet.
#[derive(Clone)]
pub(crate) struct Function {
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) default: Option<Token![default]>,
    pub(crate) sig: Signature,
    pub(crate) body: Group,
}

impl Parse for Function {
    fn parse(input: ParseStream) -> Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis: Visibility = input.parse()?;
        let is_default = input.peek(Token![default]) && !input.peek2(Token![!]);
        let default = if is_default { Some(input.parse()?) } else { None };
        if let Some(kind) = macro_call(input).or_else(|| other_item(input)) {
            let found: TokenTree = input.parse()?;
            input.parse::<TokenStream>()?;
            let help = if kind == STATEMENT { INSIDE } else { WHERE };
            return Err(spanned(found, format!("`#[autocast]` goes on a function, not on {kind}"), help));
        }
        let mut sig: Signature = input.parse()?;
        parens::grouped_in(&mut sig);
        if input.peek(Token![;]) {
            input.parse::<Token![;]>()?;
            return Err(spanned(
                &sig.ident,
                "`#[autocast]` needs a body to rewrite",
                "put it on the implementations of this method",
            ));
        }
        let (inner, body) = without_attributes(body(input)?);
        Ok(Self { attrs: attrs.into_iter().chain(inner).collect(), vis, default, sig, body })
    }
}

/// The attributes that a body begins with, written as those of the function, which is what they are, and the rest of it.
fn without_attributes(body: Group) -> (Vec<Attribute>, Group) {
    let parse = |input: ParseStream| Ok((Attribute::parse_inner(input)?, input.parse::<TokenStream>()?));
    let Ok((attrs, rest)) = parse.parse2(body.stream()) else { return (Vec::new(), body) };
    let mut bare = Group::new(body.delimiter(), rest);
    bare.set_span(body.span());
    (attrs.into_iter().map(|attr| Attribute { style: AttrStyle::Outer, ..attr }).collect(), bare)
}

/// The body of a function; what `macro_rules` was given as a block stands in delimiters that nobody has written.
fn body(input: ParseStream) -> Result<Group> {
    if let Ok(TokenTree::Group(group)) = input.fork().parse()
        && group.delimiter() == Delimiter::None
    {
        input.parse::<TokenTree>()?;
        return syn::parse2(group.stream());
    }
    input.parse()
}

const STATEMENT: &str = "a statement";

/// The item at hand, when a macro makes it: `amp_policy! { .. }`, `std::thread_local! { .. }`.
fn macro_call(input: ParseStream) -> Option<&'static str> {
    let ahead = input.fork();
    let path = ahead.call(Path::parse_mod_style).ok()?;
    (ahead.peek(Token![!]) && !path.is_ident("macro_rules")).then_some("a macro call")
}

/// The item at hand, when it is no function.
fn other_item(input: ParseStream) -> Option<&'static str> {
    let ahead = input.fork();
    let word: Ident = ahead.call(syn::ext::IdentExt::parse_any).ok()?;
    let kind = match word.to_string().as_str() {
        "impl" => "an impl block",
        "struct" => "a struct",
        "enum" => "an enum",
        "union" => "a union",
        "trait" => "a trait",
        "mod" => "a module",
        "type" => "a type alias",
        "use" => "an import",
        "static" => "a static",
        "macro_rules" => "a macro",
        "let" => STATEMENT,
        "const"
            if !ahead.peek(Token![fn])
                && !ahead.peek(Token![unsafe])
                && !ahead.peek(Token![async])
                && !ahead.peek(Token![extern]) =>
        {
            "a constant"
        }
        "unsafe" if ahead.peek(Token![impl]) => "an impl block",
        "unsafe" if ahead.peek(Token![trait]) => "a trait",
        "extern" if ahead.peek(Token![crate]) => "an import",
        "extern" if opens_block(&ahead) => "an extern block",
        "unsafe" if ahead.parse::<Token![extern]>().is_ok() && opens_block(&ahead) => "an extern block",
        _ => return None,
    };
    Some(kind)
}

/// Whether what follows `extern`, but for the name of an ABI, is a block of declarations.
fn opens_block(behind: ParseStream) -> bool {
    let ahead = behind.fork();
    ahead.parse::<Option<LitStr>>().is_ok() && ahead.peek(Brace)
}

impl Function {
    /// What the attribute cannot rewrite.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(token) = &self.sig.constness {
            return Err(spanned(
                token,
                "`#[autocast]` cannot go on a `const fn`",
                "casts run when the program runs: drop `const`",
            ));
        }
        if let Some(abi) = &self.sig.abi {
            return Err(spanned(
                abi,
                "`#[autocast]` cannot go on an `extern` function",
                "put it on a Rust function that this one calls",
            ));
        }
        if let Some(repeated) =
            self.attrs.iter().find(|attr| attr.path().segments.last().is_some_and(|s| s.ident == "autocast"))
        {
            return Err(spanned(
                repeated,
                "this function has two `#[autocast]` attributes",
                "keep one: a function runs in one precision",
            ));
        }
        Ok(())
    }

    /// A type parameter that is to be the region's precision needs its bound; one that has other bounds may inherit it.
    pub(crate) fn check_parameter(&self, region: &Region) -> Result<()> {
        let Region::Param(path) = region else { return Ok(()) };
        let Some(name) = path.get_ident() else { return Ok(()) };
        let Some(param) = self.sig.generics.type_params().find(|param| param.ident == *name) else { return Ok(()) };
        let clauses = self.sig.generics.where_clause.iter().flat_map(|clause| &clause.predicates);
        let elsewhere = clauses.filter_map(|predicate| match predicate {
            WherePredicate::Type(bound) => match &bound.bounded_ty {
                Type::Path(path) if path.path.is_ident(name) => Some(&bound.bounds),
                _ => None,
            },
            _ => None,
        });
        if elsewhere.chain([&param.bounds]).flatten().any(may_imply) {
            return Ok(());
        }
        let help = format!("write `{name}: AutocastPrecision`");
        Err(spanned(param, format!("`{name}` is not known to be a precision that autocast can use"), help))
    }

    /// The futures of two bodies have two types. (Closures may have one: that of a function, if they capture nothing.)
    pub(crate) fn check_future(&self, block: &Block) -> Result<()> {
        match (&self.sig.output, block.stmts.last()) {
            (ReturnType::Type(_, ty), Some(Stmt::Expr(Expr::Async(_), None))) if matches!(**ty, Type::ImplTrait(_)) => {
                Err(spanned(
                    ty,
                    "the two bodies of a function with `enabled` cannot give one `impl Future`",
                    "write an `async fn`, or return a `Pin<Box<dyn Future<Output = ..>>>`: `Box::pin(async move { .. })`",
                ))
            }
            _ => Ok(()),
        }
    }

    /// The function with another body.
    pub(crate) fn with_body(&self, doc: Option<String>, body: TokenStream) -> TokenStream {
        let Self { attrs, vis, default, sig, .. } = self;
        let doc = doc.filter(|text| !text.is_empty()).map(|text| quote!(#[doc = #text]));
        // In the user's braces: the compiler shows them where it speaks of the function.
        let mut block = Group::new(Delimiter::Brace, body);
        block.set_span(self.body.span());
        quote!(#(#attrs)* #doc #vis #default #sig #block)
    }

    /// A block that gives what the function does: where it gives nothing, the compiler shows what is to be returned.
    pub(crate) fn returning(&self, stmts: TokenStream) -> Group {
        let mut block = Group::new(Delimiter::Brace, stmts);
        if let ReturnType::Type(_, ty) = &self.sig.output {
            block.set_span(ty.span());
        }
        block
    }

    /// The signature with a body that has any type, so that one mistake is one error.
    pub(crate) fn stub(&self) -> TokenStream {
        let Self { attrs, vis, default, sig, body } = self;
        let body = if returns_impl(&sig.output) { body.to_token_stream() } else { quote!({ loop {} }) };
        quote!(#(#attrs)* #[allow(unused, clippy::all, clippy::pedantic)] #vis #default #sig #body)
    }

    pub(crate) fn original(&self) -> TokenStream {
        let Self { attrs, vis, default, sig, body } = self;
        quote!(#(#attrs)* #vis #default #sig #body)
    }
}

/// Whether a bound may say that a parameter is a precision of autocast's: it is none that is known to say less.
fn may_imply(bound: &TypeParamBound) -> bool {
    const LESS: &[&str] = &[
        "Float",
        "Numeric",
        "Element",
        "FullRange",
        "HalfPrecision",
        "Send",
        "Sync",
        "Sized",
        "Copy",
        "Clone",
        "Debug",
        "Default",
        "Unpin",
    ];
    match bound {
        TypeParamBound::Trait(bound) => {
            bound.path.segments.last().is_none_or(|last| !LESS.contains(&last.ident.to_string().as_str()))
        }
        _ => false,
    }
}

fn returns_impl(output: &ReturnType) -> bool {
    match output {
        ReturnType::Default => false,
        ReturnType::Type(_, ty) => contains_impl(ty.to_token_stream()) || matches!(**ty, Type::ImplTrait(_)),
    }
}

fn contains_impl(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == "impl",
        TokenTree::Group(group) => contains_impl(group.stream()),
        _ => false,
    })
}

/// The error for an expression that bears the attribute, if it is one, in its place.
pub(crate) fn rejected_expression(item: &TokenStream) -> Option<TokenStream> {
    let kind = match syn::parse2(item.clone()).ok()? {
        // It stands where an item does, and a block is none.
        Expr::Macro(_) => return None,
        Expr::Closure(_) => "a closure",
        Expr::Block(_) | Expr::Unsafe(_) | Expr::Async(_) => "a block",
        _ => "an expression",
    };
    let error = spanned(item, format!("`#[autocast]` goes on a function, not on {kind}"), INSIDE).to_compile_error();
    Some(quote!({ #error #item }))
}

/// Error and item together.
pub(crate) fn rejected(error: &Error, item: TokenStream) -> TokenStream {
    let error = error.to_compile_error();
    quote!(#error #item)
}

#[cfg(test)]
mod tests {
    use super::{Function, rejected_expression};
    use quote::quote;

    #[test]
    fn attributes_in_a_body_are_those_of_the_function() {
        let function: Function = syn::parse_quote!(
            #[inline]
            fn f() {
                #![allow(dead_code)]
                //! Text.
                #[allow(unused)]
                let x = 3;
            }
        );
        let outside = quote!(
            #[inline]
            #[allow(dead_code)]
            #[doc = r" Text."]
            fn f() {
                #[allow(unused)]
                let x = 3;
            }
        );
        assert_eq!(function.original().to_string(), outside.to_string());
    }

    #[test]
    fn expressions_are_told_from_items() {
        let message = |item| rejected_expression(&item).map(|error| error.to_string());
        for (item, kind) in [
            (quote!(|x: &Tensor<F32>| x.relu()), "not on a closure"),
            (quote!(move || async { 3 }), "not on a closure"),
            (quote!({ x.matmul(w) }), "not on a block"),
            (quote!(if a { b } else { c }), "not on an expression"),
        ] {
            let message = message(item).expect("an expression");
            assert!(message.contains(kind), "{message}");
        }
        for item in [
            quote!(
                struct M;
            ),
            quote!(let y = 3;),
            quote!(
                fn f();
            ),
            quote!(amp_policy! { careful { full: [gelu] } }),
            quote!(let),
            quote!(),
        ] {
            assert_eq!(message(item), None);
        }
    }
}
