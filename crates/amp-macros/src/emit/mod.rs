//! The tokens that stand for casts.
//!
//! A call `x.op(&y)` becomes
//!
//! ```text
//! __amp::Given(&x, T).lend().pass().op(__amp::Given(&y, T).hold().pass())
//! ```
//!
//! where the types of `x` and `y` are not known, and `__amp::cast(&x, T).op(&__amp::cast(&y, T))` where both certainly
//! are tensors. Bindings by `match` let temporaries live as long as they do in the call as written; `take` casts a tensor
//! and moves anything else; `pass` gives the argument. Every generated token lies at the user's token it stands for.

mod bound;
mod constant;
mod guard;
mod module;
mod operand;
mod receiver;
mod value;

use crate::args::Region;
pub(crate) use bound::{hoisted, is_later};
pub(crate) use constant::{beside, found, holding, in_format};
pub(crate) use guard::{guarded, guarded_function, unlisted};
pub(crate) use module::module_call;
pub(crate) use operand::{Hoisted, Joint, Operand, Role, Treatment, call};
use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
pub(crate) use receiver::{AsWritten, Asks};
use syn::{Expr, ExprReference, Path, UnOp};
pub(crate) use value::{
    Mark, applied, as_object, calling, cast, chained, declared, each, expected, expected_behind, expected_borrowed,
    expected_reference, gathered, grown, grown_by, joined, joined_behind, joined_elements_behind, kept, lent_cast,
    mapped, of_f32, recast, recast_tensor, rewrapped, rewrapped_each, slot, slot_each, summands, taken_apart, tensors,
    typed, unless_f32, variable_slot, vector,
};

/// What an expansion begins with: `__amp`, which everything in it is named by, and the traits behind the probes.
pub(crate) fn imports(private: &TokenStream) -> TokenStream {
    quote! {
        #[allow(unused_imports)]
        use #private::{self as __amp, kinds::*};
    }
}

/// Makes the compiler look at a precision that the attribute names, whether or not anything is cast to it.
pub(crate) fn named(region: &Region) -> Option<TokenStream> {
    match region {
        Region::Param(path) => Some(quote!(__amp::region::<#path>();)),
        _ => None,
    }
}

/// `condition`, if the functions of this Rust module are the library's: such a module says so by a constant, and in any
/// other the name means what [`imports`] brings.
pub(crate) fn if_ours(functions: &Path, condition: &TokenStream) -> TokenStream {
    quote! {
        __amp::Condition::pick({ #[allow(unused_imports)] use #functions::*; __AMP_FUNCTIONS }, #condition, __amp::Keep)
    }
}

/// `condition`, if the function in this local, which takes so many arguments, is one of the library's.
pub(crate) fn if_own(function: &Ident, args: usize, condition: &TokenStream) -> TokenStream {
    let site = function.span();
    let asked = format_ident!("ours{args}", span = site);
    quote_spanned!(site=> __amp::function(&#function, #condition).#asked())
}

/// A call of the function in a local.
pub(crate) fn with_function(local: &Ident, function: &Expr, call: Expr) -> Expr {
    let whole = ends(&call);
    let site = local.span();
    let arm = operand::braced(quote_spanned!(site=> #local => #call), whole.1);
    let scrutinee = scrutinee(function);
    enclosed(quote_spanned!(site=> match #scrutinee #arm), (ends(function).0, whole.1))
}

/// The value of a question that is there for its type and does not run.
pub(crate) fn only_asked(question: &TokenStream) -> TokenStream {
    let local = local("q", 0, Span::call_site());
    quote!({
        #[allow(unreachable_code)]
        let #local = if __amp::ASKING {
            __amp::never();
            #question
        } else {
            __amp::answered()
        };
        #local
    })
}

/// A local of the expansion.
pub(crate) fn local(name: &str, index: usize, at: Span) -> Ident {
    format_ident!("__amp_{name}{index}", span = Span::mixed_site().located_at(at))
}

/// Gives the first and the last token of an expression these spans: with those of the user's own tokens, the compiler
/// takes the expression for the user's.
fn outlined(tokens: TokenStream, (first, last): (Span, Span)) -> TokenStream {
    let mut tokens: Vec<TokenTree> = tokens.into_iter().collect();
    // What a local of the expansion means depends on its span.
    let named = |token: &TokenTree| matches!(token, TokenTree::Ident(name) if name != "match" && name != "__amp");
    if let Some(token) = tokens.last_mut().filter(|token| !named(token)) {
        token.set_span(last);
    }
    if let Some(token) = tokens.first_mut().filter(|token| !named(token)) {
        token.set_span(first);
    }
    tokens.into_iter().collect()
}

/// An expression that stands for the user's between these tokens, in parentheses for what follows it; lints leave those
/// alone.
fn enclosed(tokens: TokenStream, whole: (Span, Span)) -> Expr {
    let at = Span::mixed_site().located_at(whole.0);
    let tokens = outlined(tokens, whole);
    Expr::Verbatim(quote_spanned!(at=> (#tokens)))
}

/// What expressions with a block of their own begin with.
const BLOCKS: &[&str] = &["if", "match", "loop", "while", "for", "unsafe", "async", "const", "move"];

/// What a `match` or an `if` looks at: the braces of a struct that is written out would be taken for its own, and clippy takes a
/// block there for one that the user should move.
pub(crate) fn scrutinee(expr: &impl ToTokens) -> TokenStream {
    let tokens = disown(expr.to_token_stream());
    if is_block(&tokens) {
        return quote_spanned!(Span::mixed_site()=> match () { () => #tokens });
    }
    let mut trees = tokens.clone().into_iter();
    let mut before = trees.next();
    let begins_block = matches!(&before, Some(TokenTree::Ident(first)) if BLOCKS.iter().any(|word| first == word));
    let is_struct = !begins_block
        && trees.any(|tree| {
            let braces = matches!(&tree, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
            let named = matches!(before.replace(tree), Some(TokenTree::Ident(_) | TokenTree::Punct(_)));
            braces && named
        });
    if is_struct { quote_spanned!(Span::mixed_site()=> (#tokens)) } else { tokens }
}

/// Whether this is braces and what stands between them, in delimiters or not.
fn is_block(tokens: &TokenStream) -> bool {
    let mut trees = tokens.clone().into_iter();
    let (Some(TokenTree::Group(group)), None) = (trees.next(), trees.next()) else { return false };
    group.delimiter() == Delimiter::Brace || is_block(&group.stream())
}

/// Parentheses of the user's around the whole would be said to be of no use there: they count as the expansion's.
fn disown(tokens: TokenStream) -> TokenStream {
    let mut trees = tokens.clone().into_iter();
    match (trees.next(), trees.next()) {
        (Some(TokenTree::Group(mut group)), None) if group.delimiter() == Delimiter::Parenthesis => {
            group.set_span(Span::mixed_site().located_at(group.span()));
            TokenTree::Group(group).into()
        }
        _ => tokens,
    }
}

/// A call that ends where this token does.
fn called(function: &TokenStream, args: TokenStream, end: Span) -> TokenStream {
    let mut args = Group::new(Delimiter::Parenthesis, args);
    args.set_span(end);
    quote!(#function #args)
}

/// Makes what an expansion put into parentheses part of the user's expression around it.
pub(crate) fn adopt(expr: &mut Expr, around: Span) {
    let Expr::Verbatim(tokens) = expr else { return };
    let mut tokens = std::mem::take(tokens).into_iter();
    let mut first = tokens.next();
    if let Some(TokenTree::Group(group)) = &mut first
        && group.delimiter() == Delimiter::Parenthesis
    {
        group.set_span(group.span().resolved_at(around));
    }
    *expr = Expr::Verbatim(first.into_iter().chain(tokens).collect());
}

/// Spans of the first and the last token.
pub(crate) fn ends(expr: &Expr) -> (Span, Span) {
    (first(expr).unwrap_or_else(|| ends_of_tokens(expr).0), last(expr).unwrap_or_else(|| ends_of_tokens(expr).1))
}

/// The span of the first token of an expression of a common form.
fn first(expr: &Expr) -> Option<Span> {
    match expr {
        Expr::Path(path) => path.path.get_ident().map(Ident::span),
        Expr::Reference(reference) => Some(reborrowed(reference).unwrap_or(reference.and_token.span)),
        Expr::Field(field) => first(&field.base),
        Expr::MethodCall(call) => first(&call.receiver),
        Expr::Try(inner) => first(&inner.expr),
        Expr::Call(call) => first(&call.func),
        Expr::Paren(paren) => Some(paren.paren_token.span.open()),
        _ => None,
    }
}

/// Where the variable stands in `&*variable`: for one that a closure captures, all else in it is the expansion's.
fn reborrowed(reference: &ExprReference) -> Option<Span> {
    match &*reference.expr {
        Expr::Unary(inner) if matches!(inner.op, UnOp::Deref(_)) => first(&inner.expr),
        _ => None,
    }
}

/// The span of the last.
fn last(expr: &Expr) -> Option<Span> {
    match expr {
        Expr::Path(path) => path.path.get_ident().map(Ident::span),
        Expr::Reference(reference) => last(&reference.expr),
        Expr::Field(field) => match &field.member {
            syn::Member::Named(ident) => Some(ident.span()),
            syn::Member::Unnamed(index) => Some(index.span),
        },
        Expr::MethodCall(call) => Some(call.paren_token.span.close()),
        Expr::Try(inner) => Some(inner.question_token.span),
        Expr::Call(call) => Some(call.paren_token.span.close()),
        Expr::Paren(paren) => Some(paren.paren_token.span.close()),
        _ => None,
    }
}

fn ends_of_tokens(expr: &Expr) -> (Span, Span) {
    ends_of(expr.to_token_stream())
}

/// Parentheses of an expansion say where they begin only.
fn ends_of(tokens: TokenStream) -> (Span, Span) {
    let mut all = tokens.into_iter();
    let Some(first) = all.next() else { return (Span::call_site(), Span::call_site()) };
    let last = match (all.last(), &first) {
        (None, TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis => {
            return ends_of(group.stream());
        }
        (last, first) => last.unwrap_or_else(|| first.clone()),
    };
    let open = match &first {
        TokenTree::Group(group) => group.span_open(),
        other => other.span(),
    };
    let close = match &last {
        TokenTree::Group(group) => group.span_close(),
        other => other.span(),
    };
    (open, close)
}

/// The names in a macro's tokens, those in format strings too.
pub(crate) fn names(tokens: &TokenStream) -> Vec<String> {
    let other = |c: char| !(c.is_alphanumeric() || c == '_');
    tokens.clone().into_iter().fold(Vec::new(), |mut all, token| {
        match token {
            TokenTree::Ident(ident) => all.push(ident.to_string()),
            TokenTree::Group(group) => all.extend(names(&group.stream())),
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                all.extend(text.split(other).filter(|_| text.contains('{')).map(str::to_owned));
            }
            TokenTree::Punct(_) => {}
        }
        all
    })
}

/// Whether an expression denotes a place.
pub(crate) fn is_place(expr: &Expr) -> bool {
    match expr {
        Expr::Path(_) | Expr::Field(_) | Expr::Index(_) => true,
        Expr::Unary(unary) => matches!(unary.op, UnOp::Deref(_)),
        Expr::Paren(inner) => is_place(&inner.expr),
        Expr::Group(inner) => is_place(&inner.expr),
        _ => false,
    }
}

/// What `&place` borrows.
pub(crate) fn unreferenced(expr: &Expr) -> &Expr {
    match expr {
        Expr::Reference(reference) => &reference.expr,
        expr => expr,
    }
}

/// As [`is_pure_place`], of an index, which may be computed.
fn is_pure_index(expr: &Expr) -> bool {
    match expr {
        Expr::Binary(both) => is_pure_index(&both.left) && is_pure_index(&both.right),
        Expr::Paren(inner) => is_pure_index(&inner.expr),
        expr => is_pure_place(expr),
    }
}

/// Whether evaluating an expression twice does nothing twice.
pub(crate) fn is_pure_place(expr: &Expr) -> bool {
    match expr {
        Expr::Path(_) | Expr::Lit(_) => true,
        Expr::Field(field) => is_pure_place(&field.base),
        Expr::Index(index) => is_pure_place(&index.expr) && is_pure_index(&index.index),
        Expr::Unary(unary) => is_pure_place(&unary.expr),
        Expr::Paren(inner) => is_pure_place(&inner.expr),
        _ => false,
    }
}
