//! `collect()` where nothing but the compiler knows into what: a field, an argument of somebody's own function.

use super::Walker;
use super::methods::{handing, is_made_here, iterates};
use crate::emit;
use crate::lattice::{Prec, Value};
use quote::quote_spanned;
use syn::{Expr, ExprMethodCall, ExprPath, GenericArgument, PathArguments, Type, parse_quote, parse_quote_spanned};

impl Walker<'_> {
    /// Widens what is collected here if it fits what is expected only then; tells whether something is collected.
    pub(super) fn gather(&self, expr: &mut Expr, value: &Value) -> bool {
        if !gathers(expr, value) {
            return false;
        }
        self.rewrite(expr, |mut inner| {
            let result = collected(&inner).flatten();
            let elements = std::mem::replace(elements_of(&mut inner), Expr::PLACEHOLDER);
            emit::gathered(&elements, result.as_ref(), |ready| {
                *elements_of(&mut inner) = ready;
                inner
            })
        });
        true
    }
}

/// Whether an expression collects what may be tensors into what its place says.
pub(super) fn gathers(expr: &Expr, value: &Value) -> bool {
    !matches!(value.prec, Prec::Other | Prec::Never | Prec::F32) && collected(expr).is_some()
}

/// Whether this is `elements.collect()`, or `elements.collect::<Result<_>>()?`, and of that the type of the result.
fn collected(expr: &Expr) -> Option<Option<Type>> {
    match expr {
        Expr::MethodCall(call) if call.method == "collect" && call.turbofish.is_none() => Some(None),
        Expr::Try(inner) => match &*inner.expr {
            Expr::MethodCall(call) if call.method == "collect" => Some(Some(result_of_nothing(call)?)),
            _ => None,
        },
        _ => None,
    }
}

/// `Vec::from_iter(elements)` as `elements.into_iter().collect::<Vec<_>>()`.
pub(super) fn as_collected(expr: &Expr) -> Option<Expr> {
    const CONTAINERS: [(&str, usize); 5] =
        [("Vec", 1), ("VecDeque", 1), ("LinkedList", 1), ("HashMap", 3), ("BTreeMap", 2)];
    let Expr::Call(call) = expr else { return None };
    let (Expr::Path(ExprPath { qself: None, path, .. }), [elements]) =
        (&*call.func, &*call.args.iter().collect::<Vec<_>>())
    else {
        return None;
    };
    let (name, kind) = (path.segments.last()?, path.segments.iter().rev().nth(1)?);
    let (_, parameters) = CONTAINERS.into_iter().find(|(name, _)| kind.ident == name)?;
    let first = &path.segments[0].ident;
    let of_std = path.segments.len() == 2 || first == "std" || first == "alloc";
    if name.ident != "from_iter" || !of_std {
        return None;
    }
    let mut container = path.clone();
    container.segments.pop();
    container.segments.pop_punct();
    let kind = container.segments.last_mut()?;
    if kind.arguments.is_none() {
        let open = std::iter::repeat_n(quote_spanned!(kind.ident.span()=> _), parameters);
        kind.arguments = PathArguments::AngleBracketed(parse_quote!(<#(#open),*>));
    }
    let at = name.ident.span();
    Some(match elements {
        // Of an iterator it would be a conversion for nothing.
        elements if is_iterator(elements) => parse_quote_spanned!(at=> #elements.collect::<#container>()),
        _ => parse_quote_spanned!(at=> (#elements).into_iter().collect::<#container>()),
    })
}

/// Whether an expression is an iterator by the methods that made it, and no option of which the same could be asked.
fn is_iterator(expr: &Expr) -> bool {
    const ADAPTERS: &[&str] =
        &["map", "filter", "filter_map", "flat_map", "enumerate", "zip", "scan", "map_while", "flatten"];
    let Expr::MethodCall(call) = expr else { return false };
    let name = call.method.to_string();
    let adapts = ADAPTERS.contains(&&*name) || handing(&name).is_some_and(|method| method.adapts);
    matches!(&*name, "iter" | "into_iter" | "iter_mut" | "drain") || adapts && is_iterator(&call.receiver)
}

/// Whether an expression is an iterator, or an option, that whoever it is lent to may move on.
pub(super) fn moves_on(expr: &Expr) -> bool {
    let in_pieces = |call: &ExprMethodCall| {
        let name = call.method.to_string();
        name.ends_with("values_mut") || ["chunks", "windows"].iter().any(|pieces| name.contains(pieces))
    };
    iterates(expr)
        || is_iterator(expr)
        || is_made_here(expr)
        || matches!(expr, Expr::MethodCall(call) if in_pieces(call))
}

/// What is collected.
fn elements_of(expr: &mut Expr) -> &mut Expr {
    match expr {
        Expr::Try(inner) => elements_of(&mut inner.expr),
        Expr::MethodCall(call) => &mut call.receiver,
        expr => expr,
    }
}

/// `Result<()>` for `Result<_>`, which says what the error is.
fn result_of_nothing(call: &ExprMethodCall) -> Option<Type> {
    let Some(GenericArgument::Type(Type::Path(path))) = call.turbofish.as_ref()?.args.first() else { return None };
    let mut path = path.clone();
    let PathArguments::AngleBracketed(args) = &mut path.path.segments.last_mut()?.arguments else { return None };
    match args.args.first_mut()? {
        GenericArgument::Type(held @ Type::Infer(_)) => *held = parse_quote!(()),
        _ => return None,
    }
    let named = path.path.segments.last()?.ident.to_string();
    named.starts_with("Res").then_some(Type::Path(path))
}
