//! Methods of `std` that are called by a path: `Vec::push(&mut list, h)`.

use super::methods::{EXTENDING, FILLING, INFERRED, ITERATING, gives_what_is_asked, handing};
use syn::visit_mut::{self, VisitMut};
use syn::{Expr, ExprCall, ExprPath, Item, Path, parse_quote_spanned};

/// The types and the traits whose methods these are.
const OWNERS: &[&str] =
    &["Vec", "VecDeque", "LinkedList", "HashMap", "BTreeMap", "Option", "Result", "Iterator", "Extend"];

/// Writes them as methods, which a walk knows.
pub(super) struct AsMethods;

impl VisitMut for AsMethods {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        visit_mut::visit_expr_mut(self, expr);
        if let Some(method) = as_method(expr) {
            *expr = method;
        }
    }

    fn visit_item_mut(&mut self, _: &mut Item) {}
}

/// `Vec::push(&mut list, h)` as `list.push(h)`.
fn as_method(expr: &Expr) -> Option<Expr> {
    let Expr::Call(ExprCall { func, args, .. }) = expr else { return None };
    let Expr::Path(ExprPath { qself: None, path, .. }) = &**func else { return None };
    let owner = owner_of(path)?;
    let method = &path.segments.last()?.ident;
    if !is_walked(&method.to_string()) {
        return None;
    }
    let receiver = match args.first()? {
        // It would be moved by a method that takes an iterator itself.
        Expr::Reference(_) if owner == "Iterator" => return None,
        // The path says its type.
        receiver if gives_what_is_asked(receiver) => return None,
        Expr::Reference(lent) => &*lent.expr,
        receiver => receiver,
    };
    let others = args.iter().skip(1);
    let at = method.span();
    Some(match receiver {
        Expr::Path(_) | Expr::Field(_) | Expr::MethodCall(_) | Expr::Call(_) => {
            parse_quote_spanned!(at=> #receiver.#method(#(#others),*))
        }
        _ => parse_quote_spanned!(at=> (#receiver).#method(#(#others),*)),
    })
}

/// What a path names a method of, if it says nothing else: `Vec::push`, `std::vec::Vec::push`.
fn owner_of(path: &Path) -> Option<&'static str> {
    let plain = path.segments.iter().all(|segment| segment.arguments.is_none());
    let first = &path.segments.first()?.ident;
    let of_std = path.segments.len() == 2 || first == "std" || first == "alloc" || first == "core";
    let owner = path.segments.iter().rev().nth(1).filter(|_| plain && of_std)?;
    OWNERS.iter().copied().find(|name| owner.ident == name)
}

/// Whether it makes a difference how it is called: what goes in, or comes out, may be a tensor.
fn is_walked(method: &str) -> bool {
    let known = [FILLING, EXTENDING, ITERATING, INFERRED].iter().any(|methods| methods.contains(&method));
    known || handing(method).is_some()
}
