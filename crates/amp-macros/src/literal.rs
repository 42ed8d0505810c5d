//! Constants that meet half-precision values.

use crate::error::spanned;
use crate::lattice::{Prec, Value};
use amp_policy::{Half, Part, Verdict};
use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::{BinOp, Error, Expr, ExprBinary, ExprCall, ExprMethodCall, ExprPath, Lit, QSelf, Type, UnOp};

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
        Expr::Cast(cast) => Some(converted(constant(&cast.expr)?, &cast.ty)),
        Expr::Call(call) => constant(wrapped(call)?),
        Expr::Path(path) => limit(&path.path),
        Expr::Binary(binary) => folded(binary),
        Expr::MethodCall(call) => raised(call),
        _ => None,
    }
}

/// The value of `7e4 as usize`, which is no float any more.
fn converted((text, value): (String, f64), to: &Type) -> (String, f64) {
    let is_number = |name: &str| name.starts_with(['u', 'i']) && name.len() <= "usize".len();
    match to {
        Type::Path(path) if path.path.get_ident().is_some_and(|ident| is_number(&ident.to_string())) => {
            (value.trunc().to_string(), value.trunc())
        }
        _ => (text, value),
    }
}

/// The value of `-1e5 * 10.0`, `f32::MIN / 2.0`, `1 << 20`.
fn folded(binary: &ExprBinary) -> Option<(String, f64)> {
    let ((left, a), (right, b)) = (constant(&binary.left)?, constant(&binary.right)?);
    let (op, value) = match binary.op {
        BinOp::Add(_) => ("+", a + b),
        BinOp::Sub(_) => ("-", a - b),
        BinOp::Mul(_) => ("*", a * b),
        BinOp::Div(_) if is_float(&left) || is_float(&right) => ("/", a / b),
        BinOp::Shl(_) if !is_float(&left) && (0.0..64.0).contains(&b) => ("<<", a * b.exp2()),
        _ => return None,
    };
    Some((format!("{left} {op} {right}"), value))
}

/// Whether a constant as written is no integer.
pub(crate) fn is_float(text: &str) -> bool {
    // The `e` of a suffix is no exponent.
    let text = text.replace("usize", "").replace("isize", "");
    text.contains(['.', 'e', 'E', 'f', ':']) && !text.starts_with("0x")
}

/// The value of `10f64.powi(-8)`, `2f32.powf(-30.0)`.
fn raised(call: &ExprMethodCall) -> Option<(String, f64)> {
    let ((base, a), (exponent, b)) = (constant(&call.receiver)?, constant(call.args.first()?)?);
    let raises = call.args.len() == 1 && (call.method == "powi" || call.method == "powf") && is_float(&base);
    raises.then(|| (format!("{base}.{}({exponent})", call.method), a.powf(b)))
}

/// The number in `Fill::Value(..)`, `<Fill as From<f64>>::from(..)`, `f64::from(..)`.
pub(crate) fn wrapped(call: &ExprCall) -> Option<&Expr> {
    let Expr::Path(path) = &*call.func else { return None };
    let (last, made) = (path.path.segments.last()?, type_of(path)?);
    let number = made == "Fill" || made == "f32" || made == "f64";
    let wraps = number && (last.ident == "Value" || last.ident == "from");
    call.args.first().filter(|_| wraps && call.args.len() == 1)
}

/// The same, if it is a number, in `Value(..)`, `From::from(..)`, `Into::<Fill>::into(..)`, whose paths do not say of what they are.
pub(crate) fn maybe_wrapped(call: &ExprCall) -> Option<&Expr> {
    let Expr::Path(path) = &*call.func else { return None };
    let mut names = path.path.segments.iter().rev().map(|segment| segment.ident.to_string());
    let (last, qualifier) = (names.next()?, names.next().unwrap_or_default());
    let wraps = matches!((&*qualifier, &*last), ("", "Value") | ("From", "from") | ("Into" | "f32" | "f64", "into"));
    call.args.first().filter(|_| wraps && call.args.len() == 1)
}

/// The type whose function a path names.
pub(crate) fn type_of(path: &ExprPath) -> Option<&Ident> {
    let segment = match &path.qself {
        Some(QSelf { ty, .. }) => match &**ty {
            Type::Path(ty) => ty.path.segments.last(),
            _ => None,
        },
        None => path.path.segments.iter().rev().nth(1),
    };
    segment.map(|segment| &segment.ident)
}

/// The limits of the primitive types, as `f32::MIN`.
pub(crate) fn limit(path: &syn::Path) -> Option<(String, f64)> {
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

/// Judges a constant operand of an operation that runs in `half`.
pub(crate) fn judge(operand: &Expr, value: &Value, half: Half, op: &str) -> Result<(), Error> {
    for (text, number) in &value.constants {
        if let Some((message, help)) = blame(half.judge(*number, part_of(op)), text, half, op) {
            return Err(spanned(operand, message, help));
        }
    }
    Ok(())
}

/// What is wrong with a constant, and the way out.
pub(crate) fn blame(verdict: Verdict, text: &str, half: Half, op: &str) -> Option<(String, String)> {
    let (name, wide) = (half.name(), way_out(op));
    Some(match verdict {
        Verdict::Fits => return None,
        Verdict::Overflows => (
            format!("`{text}` does not fit in `{name}`"),
            match op {
                "masked_fill" => "use `Fill::NegInf` or `Fill::Lowest`, which every precision has".to_owned(),
                _ => format!("its largest finite value is {}; use a smaller constant, or {wide}", largest(half)),
            },
        ),
        Verdict::Vanishes => (
            format!("`{text}` becomes 0 in `{name}`"),
            format!("{wide}, or use a constant above {:.1e}", half.vanish()),
        ),
        Verdict::BecomesOne => (
            format!("`{text}` becomes exactly {} in `{name}`", if text.starts_with('-') { -1 } else { 1 }),
            match scales(op) {
                true => format!("keep this state in `F32`: {wide}"),
                false => wide,
            },
        ),
        Verdict::MovesNothing => {
            (format!("a weight of `{text}` changes nothing in `{name}`"), format!("keep this state in `F32`: {wide}"))
        }
    })
}

/// The largest finite value, as it is read best.
fn largest(half: Half) -> String {
    match half {
        Half::F16 => half.largest().to_string(),
        Half::BF16 => format!("{:.2e}", half.largest()),
    }
}

/// How the tensor that a constant meets in `op` comes to have the range of F32.
fn way_out(op: &str) -> String {
    match amp_policy::find(op).map(|op| op.class) {
        Some(amp_policy::Class::Lower) => format!("run `{op}` in `amp_region!(f32, ..)`"),
        // A region in F32 does not widen what an operation of another class is given.
        _ => "widen the tensor first with `.to::<F32>()?`".to_owned(),
    }
}

/// What makes the compiler judge constants by the type of what they meet.
pub(crate) struct Doubt {
    pub(crate) faults: Vec<Fault>,
    /// The format for which what the compiler computes is judged as types are checked.
    pub(crate) early: Option<Half>,
    /// What the tensor, if it is one, is cast to before it meets the constant.
    pub(crate) target: Option<TokenStream>,
    /// Where the constant stands.
    pub(crate) at: Span,
}

/// What is, or may be, wrong with a constant in a half format.
pub(crate) struct Fault {
    pub(crate) half: Half,
    /// An `f64` that the compiler computes; what is wrong with a literal is known.
    pub(crate) number: Option<TokenStream>,
    pub(crate) part: Part,
    /// The number may name parameters of what surrounds it.
    pub(crate) generic: bool,
    pub(crate) messages: Vec<(Verdict, String)>,
}

impl Fault {
    /// What is said of a constant of which this is found.
    pub(crate) fn message(verdict: Verdict, text: &str, half: Half, op: &str) -> Option<(Verdict, String)> {
        let (message, help) = blame(verdict, text, half, op)?;
        Some((verdict, format!("{message}\nhelp: {help}")))
    }

    /// What the number is to what it meets, by its name.
    pub(crate) fn part_name(&self) -> &'static str {
        match self.part {
            Part::Term => "Term",
            Part::Factor => "Factor",
            Part::Weight => "Weight",
        }
    }
}

/// What is wrong with literals in `half`, as far as that does not depend on what it meets.
pub(crate) fn faults(constants: &[(String, f64)], half: Half, op: &str) -> Vec<Fault> {
    let found = |(text, number): &(String, f64)| Fault::message(half.judge(*number, part_of(op)), text, half, op);
    let found = constants.iter().filter_map(found);
    found
        .map(|message| Fault { half, number: None, part: part_of(op), generic: false, messages: vec![message] })
        .collect()
}

/// What the numeric operand of `op` is to the elements of its tensor.
pub(crate) fn part_of(op: &str) -> Part {
    match op {
        "lerp" => Part::Weight,
        _ if scales(op) || matches!(op, "clamp" | "clamp_min" | "clamp_max" | "hardtanh") => Part::Factor,
        _ => Part::Term,
    }
}

/// Whether the numeric operand of `op` is a factor.
fn scales(op: &str) -> bool {
    matches!(op, "mul" | "*" | "div" | "/" | "lerp")
}

/// Puts `items` in front of `expr`.
pub(crate) fn with_items(items: TokenStream, expr: Expr) -> Expr {
    Expr::Verbatim(quote!({ #items #expr }))
}
