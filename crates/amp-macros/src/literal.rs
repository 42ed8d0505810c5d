//! Constants that meet half-precision values.

use crate::error::spanned;
use crate::lattice::{Prec, Value};
use amp_policy::{Half, Verdict};
use proc_macro2::TokenStream;
use quote::quote;
use syn::{BinOp, Error, Expr, ExprBinary, ExprCall, ExprMethodCall, Lit, UnOp};

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
        Expr::Call(call) => constant(wrapped(call)?),
        Expr::Path(path) => limit(&path.path),
        Expr::Binary(binary) => folded(binary),
        Expr::MethodCall(call) => raised(call),
        _ => None,
    }
}

/// The value of `-1e5 * 10.0`, `f32::MIN / 2.0`.
fn folded(binary: &ExprBinary) -> Option<(String, f64)> {
    let ((left, a), (right, b)) = (constant(&binary.left)?, constant(&binary.right)?);
    let (op, value) = match binary.op {
        BinOp::Add(_) => ("+", a + b),
        BinOp::Sub(_) => ("-", a - b),
        BinOp::Mul(_) => ("*", a * b),
        BinOp::Div(_) if is_float(&left) || is_float(&right) => ("/", a / b),
        _ => return None,
    };
    Some((format!("{left} {op} {right}"), value))
}

/// Whether a constant as written is no integer.
pub(crate) fn is_float(text: &str) -> bool {
    text.contains(['.', 'e', 'E', 'f', ':']) && !text.starts_with("0x")
}

/// The value of `10f64.powi(-8)`, `2f32.powf(-30.0)`.
fn raised(call: &ExprMethodCall) -> Option<(String, f64)> {
    let ((base, a), (exponent, b)) = (constant(&call.receiver)?, constant(call.args.first()?)?);
    let raises = call.args.len() == 1 && (call.method == "powi" || call.method == "powf") && is_float(&base);
    raises.then(|| (format!("{base}.{}({exponent})", call.method), a.powf(b)))
}

/// The number in `Fill::Value(..)`, `Fill::from(..)`, `f64::from(..)`.
pub(crate) fn wrapped(call: &ExprCall) -> Option<&Expr> {
    let Expr::Path(path) = &*call.func else { return None };
    let mut segments = path.path.segments.iter().rev();
    let (last, qualifier) = (segments.next()?, segments.next()?);
    let number = qualifier.ident == "Fill" || qualifier.ident == "f32" || qualifier.ident == "f64";
    let wraps = number && (last.ident == "Value" || last.ident == "from");
    call.args.first().filter(|_| wraps && call.args.len() == 1)
}

/// The limits of the primitive types, as `f32::MIN`.
fn limit(path: &syn::Path) -> Option<(String, f64)> {
    let mut segments = path.segments.iter().rev();
    let (name, ty) = (segments.next()?.ident.to_string(), segments.next()?.ident.to_string());
    let value = match (ty.as_str(), name.as_str()) {
        ("f32", "MIN") => f64::from(f32::MIN),
        ("f32", "MAX") => f64::from(f32::MAX),
        ("f32", "EPSILON") => f64::from(f32::EPSILON),
        ("f32", "MIN_POSITIVE") => f64::from(f32::MIN_POSITIVE),
        ("f64", "MIN") => f64::MIN,
        ("f64", "MAX") => f64::MAX,
        ("f64", "EPSILON") => f64::EPSILON,
        ("f64", "MIN_POSITIVE") => f64::MIN_POSITIVE,
        _ => return None,
    };
    Some((format!("{ty}::{name}"), value))
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

/// The bits of a constant that not every half format holds, to be judged with the type of what it meets.
pub(crate) fn doubtful(operand: &Expr, value: &Value) -> Option<TokenStream> {
    if let Some((_, number)) = value.constant {
        let held = |half: Half| matches!(half.judge(number, false), Verdict::Fits | Verdict::BecomesOne);
        let bits = number.to_bits();
        return (!(held(Half::F16) && held(Half::BF16))).then(|| quote!(#bits));
    }
    let (path, generic) = named(operand)?;
    (!generic).then(|| quote!((#path as f64).to_bits()))
}

/// An item that makes the compiler judge a named constant (`f32::MIN`, `MASK`).
pub(crate) fn check_named(operand: &Expr, half: Half, scales: bool) -> Option<TokenStream> {
    let (path, generic) = named(operand)?;
    let half = quote::format_ident!("{}", half.marker());
    let last = path.segments.last()?;
    let span = proc_macro2::Span::mixed_site().located_at(last.ident.span());
    // The assertions stand here, not in a function, for the compiler to show no more than the constant.
    let checks = [
        ("overflows", format!("this constant does not fit in `{half}`: it would become infinite")),
        ("vanishes", format!("this constant becomes 0 in `{half}`")),
        ("becomes_one", format!("this constant becomes exactly 1 in `{half}`")),
    ]
    .map(|(fault, message)| {
        let fault = proc_macro2::Ident::new(fault, span);
        quote::quote_spanned!(span=>
            ::core::assert!(!__amp::#fault((#path) as f64, __amp::Half::#half, #scales), #message);)
    });
    Some(match generic {
        true => quote::quote_spanned!(span=> const { #(#checks)* };),
        false => quote::quote_spanned!(span=> const _: () = { #(#checks)* };),
    })
}

/// The path of a named constant, and whether it names parameters of what surrounds it.
fn named(operand: &Expr) -> Option<(&syn::Path, bool)> {
    let path = match operand {
        Expr::Path(path) if path.qself.is_none() => &path.path,
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => return named(&unary.expr),
        Expr::Call(call) => return named(wrapped(call)?),
        Expr::Cast(cast) => return named(&cast.expr),
        Expr::Paren(inner) => return named(&inner.expr),
        Expr::MethodCall(call) if call.method == "into" => return named(&call.receiver),
        _ => return None,
    };
    let name = path.segments.last()?.ident.to_string();
    let upper = name.len() > 1 && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
    if !upper || limit(path).is_some() {
        return None;
    }
    // An item cannot name the parameters of what surrounds it; a block can, but is judged only when code is generated.
    let parameter = |ident: &syn::Ident| ident == "Self" || ident.to_string().len() == 1;
    let generic = path.segments.iter().any(|segment| !segment.arguments.is_none())
        || path.segments.first().is_some_and(|first| parameter(&first.ident));
    Some((path, generic))
}

/// Whether the numeric operand of `op` is a factor.
pub(crate) fn scales(op: &str) -> bool {
    matches!(op, "mul" | "*" | "lerp")
}

/// Puts `items` in front of `expr`.
pub(crate) fn with_items(items: TokenStream, expr: Expr) -> Expr {
    Expr::Verbatim(quote!({ #items #expr }))
}
