//! Values that leave a function: widened to the declared type, never narrowed.

use super::Walker;
use crate::emit;
use crate::error::spanned;
use crate::lattice::{Prec, Value};
use proc_macro2::TokenStream;
use syn::{Expr, ReturnType, Type};

/// What the place that a value goes to declares.
#[derive(Clone, Debug)]
pub(crate) enum Expect {
    Nothing,
    /// A tensor (or a container of tensors) of this precision.
    Prec(Prec),
    Tuple(Vec<Expect>),
}

impl Expect {
    /// What a declared return type expects.
    pub(crate) fn of_return(output: &ReturnType, param: Option<&str>) -> Self {
        match output {
            ReturnType::Default => Self::Nothing,
            ReturnType::Type(_, ty) => Self::of_type(ty, param),
        }
    }

    fn of_type(ty: &Type, param: Option<&str>) -> Self {
        // A reference is handed on; there is no owned value to widen.
        if matches!(ty, Type::Reference(_)) {
            return Self::Nothing;
        }
        Self::of_value(&Value::of_type(ty, param))
    }

    fn of_value(value: &Value) -> Self {
        if !value.parts.is_empty() {
            return Self::Tuple(value.parts.iter().map(Self::of_value).collect());
        }
        match &value.prec {
            prec @ (Prec::F32 | Prec::Half(_)) if value.sure => Self::Prec(prec.clone()),
            _ => Self::Nothing,
        }
    }
}

impl Walker<'_> {
    /// Walks an expression whose value leaves for a place with a declared type.
    pub(super) fn tail(&mut self, expr: &mut Expr, expect: &Expect) -> Value {
        if matches!(expect, Expect::Nothing) {
            return self.expr(expr);
        }
        match expr {
            Expr::Block(inner) if inner.label.is_none() => self.block(&mut inner.block, expect),
            Expr::Unsafe(inner) => self.block(&mut inner.block, expect),
            Expr::Paren(inner) => self.tail(&mut inner.expr, expect),
            Expr::Group(inner) => self.tail(&mut inner.expr, expect),
            Expr::If(_) => self.branches(expr, expect),
            Expr::Match(_) => self.arms(expr, expect),
            Expr::Tuple(tuple) => {
                let Expect::Tuple(parts) = expect else { return self.expr(expr) };
                if parts.len() != tuple.elems.len() {
                    return self.expr(expr);
                }
                let values = tuple.elems.iter_mut().zip(parts).map(|(elem, part)| self.tail(elem, part)).collect();
                Value::tuple(values)
            }
            Expr::Call(call) if call.args.len() == 1 && wraps(&call.func) => self.tail(&mut call.args[0], expect),
            Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) => self.expr(expr),
            _ => {
                let original = expr.clone();
                let value = self.expr(expr);
                self.leave(expr, &original, value, expect)
            }
        }
    }

    fn leave(&mut self, expr: &mut Expr, original: &Expr, value: Value, expect: &Expect) -> Value {
        let prec = match expect {
            Expect::Prec(prec) => prec,
            // A tuple that comes out of a call: its type says which elements have to be widened.
            Expect::Tuple(parts) if all_f32(parts) => &Prec::F32,
            _ => return value,
        };
        if value.inferred || matches!(value.prec, Prec::Never | Prec::Other) || value.is_surely(prec) {
            return value;
        }
        match (prec, &value.prec) {
            (Prec::F32, _) => {
                let inner = std::mem::replace(expr, Expr::Verbatim(TokenStream::new()));
                *expr = emit::recast(self.private(), inner, &self.target(&Prec::F32));
                Value::sure(Prec::F32)
            }
            (Prec::Half(name), Prec::F32) => {
                self.errors.push(spanned(
                    original,
                    format!("this `F32` value would be narrowed to `{name}` on return"),
                    format!("declare `Tensor<F32>`, or write the cast: `.to::<{name}>()`"),
                ));
                value
            }
            _ => value,
        }
    }
}

fn all_f32(parts: &[Expect]) -> bool {
    parts.iter().all(|part| matches!(part, Expect::Prec(Prec::F32)))
}

/// `Ok(..)` and `Some(..)`: what is inside leaves too.
fn wraps(func: &Expr) -> bool {
    matches!(func, Expr::Path(path) if path.path.segments.last().is_some_and(|s| s.ident == "Ok" || s.ident == "Some"))
}
