//! The grammar of `#[autocast(..)]` and of what precedes the body in `amp_region!(..)`.

use crate::error::{at, spanned};
use crate::lattice::Prec;
use crate::parens;
use crate::rules::{Rule, Rules, is_slip};
use amp_policy::Half;
use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::parse::ParseStream;
use syn::punctuated::Punctuated;
use syn::{Error, Expr, Ident, LitInt, Path, Result, Token, parenthesized};

/// The precision a region runs in.
#[derive(Clone)]
pub(crate) enum Region {
    F16,
    BF16,
    F32,
    /// A type parameter of the function, or an associated type: `Self::P`.
    Param(Path),
}

/// How a type parameter or an associated type is told from others.
pub(crate) fn param_name(path: &Path) -> String {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect::<Vec<_>>().join("::")
}

impl Region {
    /// What the lattice calls a value of this precision.
    pub(crate) fn prec(&self) -> Prec {
        match self {
            Self::F16 => Prec::Half(Half::F16.marker().into()),
            Self::BF16 => Prec::Half(Half::BF16.marker().into()),
            Self::F32 => Prec::F32,
            Self::Param(path) => Prec::Half(param_name(path)),
        }
    }

    pub(crate) fn name(&self) -> String {
        match self {
            Self::F16 => "f16".into(),
            Self::BF16 => "bf16".into(),
            Self::F32 => "f32".into(),
            Self::Param(path) => param_name(path),
        }
    }

    fn from_path(path: Path) -> Result<Self> {
        let Some(ident) = path.get_ident() else {
            let last = path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
            return match meant(&last) {
                Some(name) => Err(spanned(&path, "a precision is one word here", format!("write `{name}`"))),
                None => Ok(Self::Param(path)),
            };
        };
        let name = ident.to_string();
        match name.as_str() {
            "f16" => Ok(Self::F16),
            "bf16" => Ok(Self::BF16),
            "f32" => Ok(Self::F32),
            "F16" | "BF16" | "F32" => {
                let lower = name.to_lowercase();
                Err(at(
                    ident.span(),
                    format!("a precision is written in lower case here: `{lower}`"),
                    "a capital letter stands for a type parameter of the function",
                ))
            }
            "F64" | "f64" => Err(at(
                ident.span(),
                format!("`{name}` is not a precision that autocast can use"),
                "expected `f16`, `bf16` or `f32`; F64 tensors are never cast",
            )),
            _ if name.starts_with(|c: char| c.is_ascii_uppercase()) => Ok(Self::Param(path)),
            _ => Err(at(
                ident.span(),
                format!("`{name}` is not a precision"),
                match name.as_str() {
                    "bfloat16" | "bfloat" | "brain" => "for bfloat16 write `bf16`",
                    "float32" | "float" | "fp32" | "single" => "for single precision write `f32`",
                    "cuda" | "cpu" | "device" => "write `f16`, `bf16` or `f32` alone: a tensor knows its device",
                    _ => "expected `f16`, `bf16`, `f32` or a type parameter; for IEEE half precision write `f16`",
                },
            )),
        }
    }
}

/// Everything between the parentheses of the attribute.
#[derive(Clone)]
pub(crate) struct Args {
    pub(crate) region: Region,
    pub(crate) region_span: Span,
    pub(crate) enabled: Option<Expr>,
    pub(crate) policy: Option<Path>,
    pub(crate) max_casts: Option<(u32, TokenStream)>,
    pub(crate) krate: Option<Path>,
    /// A crate whose tensors carry their precision at run time: there a call without a policy is an error.
    pub(crate) host: bool,
    pub(crate) rules: Rules,
    /// The operations that were given a class here.
    pub(crate) listed: Vec<(Ident, Rule)>,
    /// The arguments without `policy`, to be handed to a policy macro.
    pub(crate) forwarded: TokenStream,
}

/// What we call the precision that has this name here or elsewhere.
fn meant(word: &str) -> Option<&'static str> {
    match word {
        "bf16" | "bfloat16" | "BF16" => Some("bf16"),
        "f32" | "float32" | "F32" => Some("f32"),
        "f16" | "float16" | "half" | "F16" => Some("f16"),
        _ => None,
    }
}

/// The precision that `= torch.float16, ..` means.
fn precision_in(tokens: TokenStream) -> &'static str {
    let word = |token: TokenTree| meant(token.to_string().trim_matches('"'));
    tokens.into_iter().find_map(word).unwrap_or("f16")
}

const OPTIONS: &str = "`enabled`, `policy`, `max_casts`, `crate`, `host`, `full(..)`, `lower(..)`, `widest(..)`, `keep(..)`, `skip(..)`, `force_lower(..)`";

impl Args {
    /// Parses a precision and options; stops before `{` or an expression if `body_follows`.
    pub(crate) fn parse(input: ParseStream, body_follows: bool) -> Result<Self> {
        if input.is_empty() {
            return Err(at(
                Span::call_site(),
                "autocast needs a precision",
                "write `#[autocast(f16)]`, `#[autocast(bf16)]` or `#[autocast(P)]`",
            ));
        }
        let Ok(path) = input.call(Path::parse_mod_style) else {
            let found: TokenStream = input.parse()?;
            return Err(spanned(
                first(found),
                "expected a precision first",
                "write `f16`, `bf16`, `f32` or a type parameter",
            ));
        };
        let name = param_name(&path);
        let last = path.segments.last().map_or_else(Span::call_site, |last| last.ident.span());
        if !input.is_empty() && !input.peek(Token![,]) && OPTIONS.contains(&format!("`{name}")) {
            input.parse::<TokenStream>()?;
            let help = format!("write `f16`, `bf16` or `f32` before `{name}`");
            return Err(at(last, "expected a precision first", help));
        }
        if input.peek(Token![=]) {
            let word = precision_in(input.parse()?);
            let whole = if body_follows { format!("amp_region!({word}, ..)") } else { format!("#[autocast({word})]") };
            return Err(at(last, "a precision stands alone here", format!("write `{whole}`")));
        }
        let forwarded = path.to_token_stream();
        let mut args = Self {
            region: Region::from_path(path)?,
            region_span: last,
            enabled: None,
            policy: None,
            max_casts: None,
            krate: None,
            host: false,
            rules: Rules::default(),
            listed: Vec::new(),
            forwarded,
        };
        let mut seen: Vec<String> = Vec::new();
        while !input.is_empty() {
            if body_follows && input.peek(syn::token::Brace) {
                let help = format!("write `amp_region!({name}, {{ .. }})`");
                let found: TokenStream = input.parse()?;
                return Err(spanned(first(found), "expected `,` between the precision and the body", help));
            }
            expect_comma(input)?;
            if input.is_empty() || (body_follows && !starts_option(input)) {
                break;
            }
            args.option(input, &mut seen)?;
        }
        Ok(args)
    }

    fn option(&mut self, input: ParseStream, seen: &mut Vec<String>) -> Result<()> {
        let key = key(input)?;
        let name = key.to_string();
        if seen.contains(&name) {
            return Err(at(key.span(), format!("`{name}` is given twice"), "keep one of them"));
        }
        let before = input.fork();
        match name.as_str() {
            "enabled" => {
                let mut enabled = value(input, &key, "a `bool` expression")?;
                parens::grouped(&mut enabled);
                self.enabled = Some(enabled);
            }
            "policy" => self.policy = Some(value(input, &key, "the path of an `amp_policy!`")?),
            "crate" => self.krate = Some(value(input, &key, "the path of the crate")?),
            "host" => {
                self.krate = Some(value(input, &key, "the path of the crate with the tensors")?);
                self.host = true;
            }
            "max_casts" => {
                let number: LitInt = value(input, &key, "a number")?;
                let count = number.base10_parse().map_err(|_| {
                    spanned(&number, "`max_casts` takes a number", "write `max_casts = 4`; it counts narrowings")
                })?;
                self.max_casts = Some((count, number.to_token_stream()));
            }
            "full" | "lower" | "widest" | "keep" | "skip" | "force_lower" => {
                let rule = Rule::from_word(&name).expect("the words above");
                for op in names(input, &key)? {
                    self.rules.insert(&op, rule)?;
                    self.listed.push((op, rule));
                }
            }
            _ => {
                return Err(at(key.span(), format!("`{name}` is not an option of autocast"), instead_of(&name)));
            }
        }
        if name != "policy" {
            let tokens = consumed(&before, input)?;
            self.forwarded.extend(quote!(, #key #tokens));
        }
        seen.push(name);
        Ok(())
    }

    /// The hidden module that expansions name.
    pub(crate) fn private(&self) -> TokenStream {
        match &self.krate {
            Some(path) => quote!(#path::__private),
            None => quote!(::amp::__private),
        }
    }
}

fn expect_comma(input: ParseStream) -> Result<()> {
    if input.peek(Token![,]) {
        return input.parse::<Token![,]>().map(drop);
    }
    let found: TokenStream = input.fork().parse()?;
    input.parse::<TokenStream>()?;
    Err(spanned(first(found), "expected `,`", format!("options are separated by commas: {OPTIONS}")))
}

/// An option's name; `crate` is a keyword.
fn key(input: ParseStream) -> Result<Ident> {
    if input.peek(Token![crate]) {
        let token: Token![crate] = input.parse()?;
        return Ok(Ident::new("crate", token.span));
    }
    input.parse::<Ident>().map_err(|error| at(error.span(), "expected an option", format!("one of {OPTIONS}")))
}

/// What to write instead of a word that is no option: the one that it begins, or is a slip of, if there is one.
fn instead_of(word: &str) -> String {
    let meant = |form: &&str| word.len() > 2 && form.starts_with(word) || is_slip(word, form.trim_end_matches("(..)"));
    match OPTIONS.split(['`', ',', ' ']).find(meant) {
        Some(form) => format!("write `{form}`"),
        None => format!("expected one of {OPTIONS}"),
    }
}

/// Whether an option stands before the body, or what is meant as one: nothing stands behind the body.
fn starts_option(input: ParseStream) -> bool {
    let ahead = input.fork();
    let Ok(key) = key(&ahead) else { return false };
    let behind = ahead.fork();
    let given = match behind.peek(Token![=]) && !behind.peek(Token![==]) {
        true => behind.parse::<Token![=]>().is_ok() && behind.parse::<Expr>().is_ok(),
        false => behind.parse::<Group>().is_ok_and(|group| group.delimiter() != Delimiter::Brace),
    };
    if given && behind.parse::<Token![,]>().is_ok() && !behind.is_empty() {
        return true;
    }
    let listed = OPTIONS.contains(&format!("`{key}`")) || OPTIONS.contains(&format!("`{key}("));
    listed && ahead.peek(Token![=]) && !ahead.peek(Token![==])
}

fn value<T: syn::parse::Parse>(input: ParseStream, key: &Ident, what: &str) -> Result<T> {
    let form = || format!("write `{key} = ..` with {what}");
    if !input.peek(Token![=]) {
        return Err(at(key.span(), format!("`{key}` needs a value"), form()));
    }
    input.parse::<Token![=]>()?;
    if input.is_empty() || input.peek(Token![,]) {
        return Err(at(key.span(), format!("`{key}` needs a value"), form()));
    }
    input.parse().map_err(|error: Error| at(error.span(), format!("`{key}` takes {what}"), form()))
}

fn names(input: ParseStream, key: &Ident) -> Result<Vec<Ident>> {
    let form = || format!("write `{key}(op, other_op)`");
    if !input.peek(syn::token::Paren) {
        return Err(at(key.span(), format!("`{key}` takes a list of operations"), form()));
    }
    let content;
    parenthesized!(content in input);
    let list = Punctuated::<Ident, Token![,]>::parse_terminated(&content)
        .map_err(|error| at(error.span(), format!("`{key}` takes names of operations"), form()))?;
    if list.is_empty() {
        return Err(at(key.span(), format!("`{key}` lists no operation"), form()));
    }
    Ok(list.into_iter().collect())
}

fn consumed(before: ParseStream, after: ParseStream) -> Result<TokenStream> {
    let (all, rest): (TokenStream, TokenStream) = (before.parse()?, after.fork().parse()?);
    let count = all.clone().into_iter().count() - rest.into_iter().count();
    Ok(all.into_iter().take(count).collect())
}

fn first(tokens: TokenStream) -> TokenStream {
    tokens.into_iter().take(1).collect()
}
