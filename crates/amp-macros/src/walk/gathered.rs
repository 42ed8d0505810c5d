//! `collect()` where nothing but the compiler knows into what: a field, an argument of somebody's own function.

use super::Walker;
use crate::emit;
use crate::lattice::{Prec, Value};
use syn::{AngleBracketedGenericArguments, Expr, ExprMethodCall, GenericArgument, PathArguments, Type, parse_quote};

impl Walker<'_> {
    /// Widens what is collected here if it fits what is expected only then; tells whether something is collected.
    pub(super) fn gather(&self, expr: &mut Expr, value: &Value) -> bool {
        if !gathers(expr, value) {
            return false;
        }
        let whole = emit::ends(expr);
        self.rewrite(expr, |inner| match collected(&inner) {
            Some((call, result)) => emit::gathered(&call.receiver, result.as_ref(), whole),
            None => inner,
        });
        true
    }
}

/// Whether an expression collects what may be tensors into what its place says.
pub(super) fn gathers(expr: &Expr, value: &Value) -> bool {
    !matches!(value.prec, Prec::Other | Prec::Never | Prec::F32) && collected(expr).is_some()
}

/// `elements.collect()`, and `elements.collect::<Result<_>>()?` with the type of the result.
fn collected(expr: &Expr) -> Option<(&ExprMethodCall, Option<Type>)> {
    match expr {
        Expr::MethodCall(call) if call.method == "collect" && call.turbofish.is_none() => Some((call, None)),
        Expr::Try(inner) => match &*inner.expr {
            Expr::MethodCall(call) if call.method == "collect" => {
                Some((call, Some(result_of_nothing(call.turbofish.as_ref()?)?)))
            }
            _ => None,
        },
        _ => None,
    }
}

/// `Result<()>` for `Result<_>`, which says what the error is.
fn result_of_nothing(turbofish: &AngleBracketedGenericArguments) -> Option<Type> {
    let Some(GenericArgument::Type(Type::Path(path))) = turbofish.args.first() else { return None };
    let mut path = path.clone();
    let PathArguments::AngleBracketed(args) = &mut path.path.segments.last_mut()?.arguments else { return None };
    match args.args.first_mut()? {
        GenericArgument::Type(held @ Type::Infer(_)) => *held = parse_quote!(()),
        _ => return None,
    }
    let named = path.path.segments.last()?.ident.to_string();
    named.starts_with("Res").then_some(Type::Path(path))
}
