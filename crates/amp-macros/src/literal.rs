//! Constants that meet half-precision values.

use crate::error::spanned;
use crate::lattice::{Prec, Value};
use amp_policy::{Half, Verdict};
use proc_macro2::TokenStream;
use quote::quote;
use syn::{Error, Expr, Lit, UnOp};

/// A numeric literal, with its sign, as written and as a value.
pub(crate) fn constant(expr: &Expr) -> Option<(String, f64)> {
    match expr {
        Expr::Lit(lit) => match &lit.lit {
            Lit::Float(float) => Some((float.to_string(), float.base10_parse().ok()?)),
            Lit::Int(int) => Some((int.to_string(), int.base10_parse::<i128>().ok()? as f64)),
            _ => None,
        },
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => {
            let (text, value) = constant(&unary.expr)?;
            Some((format!("-{text}"), -value))
        }
        Expr::Paren(inner) => constant(&inner.expr),
        Expr::Group(inner) => constant(&inner.expr),
        Expr::Cast(cast) => constant(&cast.expr),
        _ => None,
    }
}

/// The half format of a value, where it is known.
pub(crate) fn half(prec: &Prec) -> Option<Half> {
    [Half::F16, Half::BF16].into_iter().find(|half| *prec == Prec::Half(half.marker().into()))
}

/// Judges a constant operand of an operation that runs in `half`; `scales` says that it is a factor.
pub(crate) fn judge(operand: &Expr, value: &Value, half: Half, scales: bool, op: &str) -> Result<(), Error> {
    let Some((text, number)) = &value.constant else { return Ok(()) };
    let name = half.name();
    let (message, help) = match half.judge(*number, scales) {
        Verdict::Fits => return Ok(()),
        Verdict::Overflows => (
            format!("`{text}` does not fit in `{name}`"),
            match op {
                "masked_fill" => "use `Fill::NegInf` or `Fill::Lowest`, which every precision has".to_owned(),
                _ => format!(
                    "its largest finite value is {}; use a smaller constant, or run `{op}` in `amp_region!(f32, ..)`",
                    half.largest()
                ),
            },
        ),
        Verdict::Vanishes => (
            format!("`{text}` becomes 0 in `{name}`"),
            format!("run this expression in `amp_region!(f32, ..)`, or use a constant above {:.1e}", half.vanish()),
        ),
        Verdict::BecomesOne => (
            format!("`{text}` becomes exactly 1 in `{name}`"),
            "keep this state in `F32`: run the expression in `amp_region!(f32, ..)`".to_owned(),
        ),
    };
    Err(spanned(operand, message, help))
}

/// An item that makes the compiler judge a named constant (`f32::MIN`, `MASK`).
pub(crate) fn check_named(operand: &Expr, private: &TokenStream, half: Half, scales: bool) -> Option<TokenStream> {
    let path = match operand {
        Expr::Path(path) if path.qself.is_none() => &path.path,
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => {
            return check_named(&unary.expr, private, half, scales);
        }
        _ => return None,
    };
    let last = path.segments.last()?;
    let name = last.ident.to_string();
    let upper = name.len() > 1 && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    let generic = path.segments.first().is_some_and(|first| first.ident == "Self") || !last.arguments.is_none();
    if !upper || generic {
        return None;
    }
    let half = quote::format_ident!("{}", half.marker());
    let span = last.ident.span();
    let private = crate::emit::located(private, span);
    Some(
        quote::quote_spanned!(span=> const _: () = #private::check_literal((#path) as f64, #private::Half::#half, #scales);),
    )
}

/// Whether the numeric operand of `op` is a factor.
pub(crate) fn scales(op: &str) -> bool {
    matches!(op, "mul" | "*" | "lerp")
}

/// Puts `items` in front of `expr`.
pub(crate) fn with_items(items: TokenStream, expr: Expr) -> Expr {
    Expr::Verbatim(quote!({ #items #expr }))
}
