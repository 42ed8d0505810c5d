//! Constants of the program's own that meet half-precision values: the compiler knows what they are.

use crate::emit::{found, in_format};
use crate::lattice::Value;
use crate::literal::{Doubt, Fault, constant, faults, limit, maybe_wrapped, part_of, wrapped};
use crate::parts;
use crate::plan::as_written;
use crate::scope::{Meaning, Scopes};
use amp_policy::{Half, Part, Verdict};
use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{BinOp, Block, Expr, ExprCall, Path, Stmt, UnOp};

/// What the compiler can compute of an operand.
struct Named {
    /// An `f64` that the compiler computes; its sign may be left out.
    expr: TokenStream,
    /// As messages show it.
    text: String,
    span: Span,
    /// Of its last token.
    end: Span,
    /// It names parameters of what surrounds it.
    generic: bool,
    /// It names something by one word that is declared outside the function: a parameter, if it is no float.
    bare: bool,
    /// It is a part of what is named, which may be no number.
    part: bool,
}

impl Named {
    fn of_path(path: &Path, expr: TokenStream, generic: bool, bare: bool) -> Option<Self> {
        let last = path.segments.last()?;
        // What a literal says, too, is judged as one.
        let span = Span::mixed_site().located_at(last.ident.span());
        (is_constant(&last.ident) && limit(path).is_none()).then(|| Self {
            // What is no number is shown where it stands.
            expr: quote_spanned!(span=> __amp::Judged(#expr).number()),
            text: crate::args::param_name(path),
            span,
            end: span,
            generic,
            bare,
            part: false,
        })
    }

    /// A part of a constant.
    fn of_part(part: &Expr, of: Self) -> Self {
        let option = parts::held(part);
        let number = |part: &Expr| match option {
            // Nothing is a number that every precision holds.
            Some(_) => quote_spanned!(of.span=> match #part {
                ::core::option::Option::Some(number) => __amp::Judged(number).number(),
                ::core::option::Option::None => 2.0,
            }),
            None => quote_spanned!(of.span=> __amp::Judged(#part).number()),
        };
        let part = option.unwrap_or(part);
        let expr = match parts::of_type(part) {
            // What else is in it is not dropped, which the compiler cannot do ahead.
            Some((constant, local, part)) => {
                let number = number(&part);
                quote_spanned!(of.span=> {
                    let #local = #constant;
                    let number = #number;
                    ::core::mem::forget(#local);
                    number
                })
            }
            None => number(part),
        };
        Self { expr, text: as_written(part), part: true, ..of }
    }

    /// `2.0 * EPS`, `const { .. }`
    fn of_expr(expr: &Expr, generic: bool, bare: bool) -> Self {
        let (first, last) = crate::emit::ends(expr);
        let [span, end] = [first, last].map(|at| Span::mixed_site().located_at(at));
        Self { expr: quote!((#expr) as f64), text: as_written(expr), span, end, generic, bare, part: false }
    }

    /// Made a number of another type, or beside one that is no float: so is a parameter `const DIM: usize`, and no number that is
    /// a parameter is a float.
    fn converted(self) -> Self {
        Self { generic: self.generic || self.bare, ..self }
    }

    /// What may be wrong with it in `half`.
    fn fault(&self, half: Half, op: &str) -> Fault {
        let part = part_of(op);
        let verdicts: &[Verdict] = match part {
            Part::Term => &[Verdict::Overflows, Verdict::Vanishes],
            Part::Factor => &[Verdict::Overflows, Verdict::Vanishes, Verdict::BecomesOne],
            Part::Weight => &[Verdict::Overflows, Verdict::Vanishes, Verdict::BecomesOne, Verdict::MovesNothing],
        };
        let messages = verdicts.iter().filter_map(|verdict| Fault::message(*verdict, &self.text, half, op)).collect();
        Fault { half, number: Some(self.expr.clone()), part, generic: self.generic, messages }
    }

    /// Assertions that fail if `half` does not hold it.
    fn assertions(&self, half: Half, op: &str) -> Vec<TokenStream> {
        let (span, fault) = (self.span, self.fault(half, op));
        let assertion = |(verdict, message): &(Verdict, String)| {
            let (wrong, message) = (found(*verdict, &fault, span), in_format(message));
            let mut judged = Group::new(Delimiter::Parenthesis, quote_spanned!(span=> !#wrong, #message));
            // The compiler shows all from the first token of the assertion to its last.
            judged.set_span(self.end);
            quote_spanned!(span=> ::core::assert! #judged;)
        };
        fault.messages.iter().map(assertion).collect()
    }
}

/// What judges a constant, which not every half format holds, with the precision of what it meets; beside what may be one of
/// the `sizes`, a name may be that of a parameter of what surrounds the function.
pub(crate) fn doubtful(
    operand: &Expr,
    (value, tensor): (&Value, bool),
    (op, region): (&str, Option<Half>),
    sizes: bool,
    scopes: &Scopes,
) -> Option<Doubt> {
    let number = match operand {
        Expr::Unary(unary) => &unary.expr,
        operand => operand,
    };
    let at = Span::mixed_site().located_at(crate::emit::ends(number).0);
    let seen = |named: Named| if sizes { named.converted() } else { named };
    // Of a part nothing says that it is a number, but what it surely meets.
    let named = all(operand, scopes).into_iter().filter(|named| tensor || !named.part);
    let named: Vec<Named> = named.map(seen).collect();
    let of_half = |half| {
        let named = named.iter().map(move |named| named.fault(half, op));
        faults(&value.constants, half, op).into_iter().chain(named)
    };
    let faults: Vec<Fault> = [Half::F16, Half::BF16].into_iter().flat_map(of_half).collect();
    (!faults.is_empty()).then_some(Doubt { faults, early: region, target: None, at })
}

/// Items that make the compiler judge the constants of the program's own that an operand may be (`f32::MIN`, `MASK`).
pub(crate) fn check(operand: &Expr, half: Half, op: &str, scopes: &Scopes) -> Option<TokenStream> {
    let items: Vec<TokenStream> = all(operand, scopes)
        .iter()
        .map(|named| {
            let checks = named.assertions(half, op);
            match named.generic {
                // An item cannot name the parameters of what surrounds it; a block can, but is judged only when code is generated.
                true => quote_spanned!(named.span=> const { #(#checks)* };),
                false => quote_spanned!(named.span=> const _: () = { #(#checks)* };),
            }
        })
        .collect();
    (!items.is_empty()).then(|| quote!(#(#items)*))
}

/// Whether an expression is a constant of the program's own, or may be one.
pub(crate) fn is_named(expr: &Expr, scopes: &Scopes) -> bool {
    !all(expr, scopes).is_empty()
}

/// The constants of the program's own that an expression may be: that of each branch.
fn all(expr: &Expr, scopes: &Scopes) -> Vec<Named> {
    let of_block = |block: &Block| match &block.stmts[..] {
        [Stmt::Expr(tail, None)] => all(tail, scopes),
        _ => Vec::new(),
    };
    match expr {
        Expr::If(branch) => {
            let mut named = of_block(&branch.then_branch);
            named.extend(branch.else_branch.iter().flat_map(|(_, other)| all(other, scopes)));
            named
        }
        Expr::Match(branches) => branches.arms.iter().flat_map(|arm| all(&arm.body, scopes)).collect(),
        Expr::Block(inner) if inner.label.is_none() => of_block(&inner.block),
        Expr::Paren(inner) => all(&inner.expr, scopes),
        Expr::Group(inner) => all(&inner.expr, scopes),
        Expr::Cast(cast) => all(&cast.expr, scopes).into_iter().map(Named::converted).collect(),
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => all(&unary.expr, scopes),
        Expr::Path(path) => match path.path.get_ident().map(|ident| scopes.meaning(&ident.to_string())) {
            Some(Meaning::Constant(constant)) if !parts::is_part(constant) => all(constant, scopes),
            _ => named(expr, scopes).into_iter().collect(),
        },
        _ => named(expr, scopes).into_iter().collect(),
    }
}

/// The constant of the program's own that an expression is.
fn named(operand: &Expr, scopes: &Scopes) -> Option<Named> {
    match operand {
        Expr::Path(path) => match (path.path.get_ident(), &path.qself) {
            (Some(ident), None) => match scopes.meaning(&ident.to_string()) {
                Meaning::Item => {
                    let bare = scopes.find(&ident.to_string()).is_none();
                    Named::of_path(&path.path, quote!(#path), bare && is_parameter(ident), bare)
                }
                Meaning::Constant(constant) if parts::is_part(constant) => {
                    named(parts::root(constant)?, scopes).map(|of| Named::of_part(constant, of))
                }
                Meaning::Constant(constant) => named(constant, scopes),
                Meaning::Variable => None,
            },
            (_, qself) => Named::of_path(&path.path, quote!(#path), qself.is_some() || is_generic(&path.path), false),
        },
        Expr::Unary(unary) if matches!(unary.op, UnOp::Neg(_)) => named(&unary.expr, scopes),
        Expr::Call(call) => {
            let named = named(wrapped(call).or_else(|| maybe_wrapped(call))?, scopes);
            if converts(call) { named.map(Named::converted) } else { named }
        }
        Expr::Cast(cast) => named(&cast.expr, scopes).map(Named::converted),
        Expr::Paren(inner) => named(&inner.expr, scopes),
        Expr::Group(inner) => named(&inner.expr, scopes),
        Expr::MethodCall(call) if call.method == "into" => named(&call.receiver, scopes).map(Named::converted),
        Expr::Const(_) => Some(Named::of_expr(operand, true, false)),
        Expr::Binary(binary) if matches!(binary.op, BinOp::Add(_) | BinOp::Sub(_) | BinOp::Mul(_) | BinOp::Div(_)) => {
            let sides = [&binary.left, &binary.right].map(|side| (constant(side).is_some(), named(side, scopes)));
            let any = |is: fn(&Named) -> bool| sides.iter().any(|(_, named)| named.as_ref().is_some_and(is));
            let (generic, bare) = (any(|named| named.generic), any(|named| named.bare));
            let known = sides.iter().all(|(literal, named)| *literal || named.is_some());
            (known && written(operand, scopes)).then(|| Named::of_expr(operand, generic, bare))
        }
        _ => None,
    }
}

/// `f64::from(..)`, `Into::into(..)`
fn converts(call: &ExprCall) -> bool {
    let Expr::Path(path) = &*call.func else { return false };
    path.path.segments.last().is_some_and(|last| last.ident == "from" || last.ident == "into")
}

/// Whether an expression names no variable: it means the same where the compiler computes it.
fn written(expr: &Expr, scopes: &Scopes) -> bool {
    match expr {
        Expr::Path(path) => {
            path.path.get_ident().is_none_or(|ident| matches!(scopes.meaning(&ident.to_string()), Meaning::Item))
        }
        Expr::Binary(binary) => written(&binary.left, scopes) && written(&binary.right, scopes),
        Expr::Unary(unary) => written(&unary.expr, scopes),
        Expr::Paren(inner) => written(&inner.expr, scopes),
        Expr::Cast(cast) => written(&cast.expr, scopes),
        Expr::Lit(_) => true,
        _ => false,
    }
}

/// Whether a name is one that constants have, those that are parameters among them.
pub(crate) fn is_constant(name: &Ident) -> bool {
    let name = name.to_string();
    name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// Whether a path may name parameters of what surrounds it.
fn is_generic(path: &Path) -> bool {
    let is_type = |ident: &Ident| ident.to_string().starts_with(|c: char| c.is_ascii_uppercase());
    path.segments.iter().any(|segment| !segment.arguments.is_none())
        || path.segments.first().is_some_and(|first| is_type(&first.ident))
}

fn is_parameter(ident: &Ident) -> bool {
    ident == "Self" || matches!(ident.to_string().as_bytes(), [b'A'..=b'Z'])
}
