//! Parts of constants, as patterns name them.
//!
//! One that is written as `TABLE[0]` or `CONFIG.eps` may lie behind an `Index` or a `Deref` that only a running program can
//! call (`static CONFIG: LazyLock<Config>`); what a pattern takes apart does not.

use crate::emit::{ends, local};
use crate::named::is_named;
use crate::scope::Scopes;
use proc_macro2::{Ident, Span};
use quote::ToTokens;
use syn::{Expr, ExprPath, Index, LitInt, Member, Pat, parse_quote_spanned};

/// What each pattern within this one stands for, if that is a part of a constant.
pub(crate) fn taken_apart<'p>(pat: &'p Pat, of: &Expr, scopes: &Scopes) -> Vec<(&'p Pat, Expr)> {
    let Some(constant) = root(of).filter(|root| is_named(root, scopes) && held(of).is_none()) else {
        return Vec::new();
    };
    let at = ends(of).1;
    match pat {
        Pat::Tuple(tuple) => {
            let member = |index| Member::Unnamed(Index { index, span: at });
            let elements = (0..).zip(tuple.elems.iter().take_while(|pat| !is_rest(pat)));
            elements.map(|(i, pat)| (pat, field(of, member(i), at))).collect()
        }
        Pat::Slice(slice) => {
            let elements = slice.elems.iter().take_while(|pat| !is_rest(pat)).enumerate();
            elements.map(|(i, pat)| (pat, element(of, &LitInt::new(&i.to_string(), at), at))).collect()
        }
        // What may have to be dropped is read by moving it, which a static cannot be.
        Pat::Struct(fields) if is_of_type(constant) => {
            fields.fields.iter().map(|part| (&*part.pat, field(of, part.member.clone(), at))).collect()
        }
        Pat::TupleStruct(some) if some.elems.len() == 1 && some.path.is_ident("Some") => {
            vec![(&some.elems[0], parse_quote_spanned!(at=> match #of {}))]
        }
        _ => Vec::new(),
    }
}

/// Whether an expression is what [`taken_apart`] gives.
pub(crate) fn is_part(expr: &Expr) -> bool {
    matches!(expr, Expr::Field(_) | Expr::Index(_)) || held(expr).is_some()
}

/// The option of which this is what it holds, if it holds something: `match OPTION {}` stands for that.
pub(crate) fn held(part: &Expr) -> Option<&Expr> {
    match part {
        Expr::Match(part) if part.arms.is_empty() => Some(&part.expr),
        _ => None,
    }
}

/// The path of the constant that a part is of.
pub(crate) fn root(part: &Expr) -> Option<&Expr> {
    match part {
        Expr::Path(_) => Some(part),
        Expr::Field(field) => root(&field.base),
        Expr::Index(index) => root(&index.expr),
        part => root(held(part)?),
    }
}

/// The constant of a type that a part is of, a local, and the same part of that.
pub(crate) fn of_type(part: &Expr) -> Option<(&Expr, Ident, Expr)> {
    let constant = root(part).filter(|constant| is_of_type(constant))?;
    let local = local("c", 0, ends(part).0);
    let of_local = with_root(part, &local);
    Some((constant, local, of_local))
}

/// Whether a path names a constant of a type, and no static.
fn is_of_type(path: &Expr) -> bool {
    let Expr::Path(ExprPath { qself, path, .. }) = path else { return false };
    let qualifier = path.segments.iter().rev().nth(1);
    qself.is_some() || qualifier.is_some_and(|name| name.ident.to_string().starts_with(char::is_uppercase))
}

fn with_root(part: &Expr, local: &Ident) -> Expr {
    let at = local.span();
    match part {
        Expr::Field(part) => field(&with_root(&part.base, local), part.member.clone(), at),
        Expr::Index(part) => element(&with_root(&part.expr, local), &*part.index, at),
        _ => parse_quote_spanned!(at=> #local),
    }
}

fn field(of: &Expr, member: Member, at: Span) -> Expr {
    parse_quote_spanned!(at=> #of.#member)
}

fn element(of: &Expr, index: &impl ToTokens, at: Span) -> Expr {
    parse_quote_spanned!(at=> #of[#index])
}

/// `..`, `rest @ ..`
fn is_rest(pat: &Pat) -> bool {
    match pat {
        Pat::Ident(ident) => ident.subpat.as_ref().is_some_and(|(_, inner)| is_rest(inner)),
        pat => matches!(pat, Pat::Rest(_)),
    }
}
