//! A call that has a rule, its operands walked: which of them are tensors, what they are cast to, what it gives.

use super::cast::{Goal, as_written};
use super::methods::{INFERRED, gives_what_is_asked};
use crate::flow::Site;
use crate::lattice::{Prec, Value};
use crate::literal;
use crate::pin::Pin;
use crate::rules::{Found, Rule};
use crate::shape::Shape;
use std::rc::Rc;
use syn::{Expr, Path};

/// Operations whose result is no tensor that autocast casts.
const NO_FLOAT: &[&str] = &[
    "argmax", "argmin", "argsort", "eq", "ne", "lt", "le", "gt", "ge", "equal", "isnan", "isinf", "isfinite",
    "isclose", "isin", "allclose", "one_hot", "nonzero", "all", "any", "item", "to_vec",
];
/// Operations whose first number is a chance, or what elements are only held against.
const MEETS_NO_ELEMENT: &[&str] = &["dropout", "alpha_dropout", "threshold", "hardshrink"];
/// Operations that return a tensor and something besides.
const PAIRS: &[&str] = &[
    "sort",
    "topk",
    "kthvalue",
    "slogdet",
    "unique_with_counts",
    "batch_norm_train",
    "max_pool1d_with_indices",
    "max_pool2d_with_indices",
    "max_pool3d_with_indices",
    "fractional_max_pool2d_with",
    "fractional_max_pool3d_with",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d_with_indices",
];

/// A call whose operation has a rule, its operands walked.
pub(super) struct Called<'a> {
    pub(super) name: &'a str,
    pub(super) found: Found,
    /// The receiver, if it is a method's, and the arguments.
    pub(super) values: Vec<Value>,
    /// Which of them are its tensors.
    pub(super) tensors: Vec<usize>,
    pub(super) site: Site,
    pub(super) form: Form,
    /// It certainly narrows its tensors, if that is its rule.
    pub(super) sure: bool,
}

/// How an operation is called.
pub(super) enum Form {
    /// As a method or an associated function of a tensor.
    Method,
    /// As a function of the Rust module that its path names; it may be somebody's own.
    Function(Rc<Path>),
    /// By the bare name of a function, which is asked whether it is somebody's own.
    Bare,
    /// By another path.
    Path,
}

impl Form {
    pub(super) fn module(&self) -> Option<&Rc<Path>> {
        match self {
            Self::Function(module) => Some(module),
            Self::Method | Self::Bare | Self::Path => None,
        }
    }
}

impl Called<'_> {
    /// The tensor that the operation is named after.
    fn first(&self) -> &Value {
        &self.values[self.tensors.first().copied().unwrap_or(0)]
    }

    pub(super) fn inputs(&self) -> Vec<&Value> {
        self.tensors.iter().map(|&i| &self.values[i]).collect()
    }

    /// What it gives.
    pub(super) fn result(&self, lower: &Prec) -> Value {
        let first = self.first();
        let sure = first.sure && first.prec.is_tensor();
        let result = match self.found.rule {
            Rule::Lower | Rule::ForceLower => Value { sure, ..Value::new(lower.clone()) },
            Rule::Full => Value { sure, ..Value::new(Prec::F32) },
            Rule::Widest => self.met(),
            // A method was found on it, so its type is known by now.
            Rule::Keep => {
                // A tuple has no other of these methods, and of a number they give another.
                let (parts, constants) = match self.name {
                    "clone" => (first.parts.clone(), first.constants.clone()),
                    _ => Default::default(),
                };
                Value { constants, inferred: false, parts, ..first.clone() }
            }
            Rule::Skip | Rule::Banned => Value::opaque(),
        };
        let shape = if self.found.listed { Shape::Unknown } else { Shape::of_operation(self.name) };
        let by_name = matches!(self.form, Form::Method) && !is_tensor(first);
        let result = Value { by_name, ..result.shaped(shape) };
        match self.name {
            name if INFERRED.contains(&name) && first.prec == Prec::Opaque => Value::inferred(),
            // Of a list it makes another list.
            "to_vec" if !is_tensor(first) => Value::opaque(),
            name if NO_FLOAT.contains(&name) => Value::other(),
            name if PAIRS.contains(&name) => Value::tuple(vec![result, Value::other()]),
            _ => result,
        }
    }

    /// What tensors give that meet at the widest of them.
    fn met(&self) -> Value {
        let inputs = self.inputs();
        let prec = inputs.iter().fold(Prec::Other, |all, value| all.widest(&value.prec));
        let sure = inputs.iter().all(|value| value.sure || value.prec == Prec::Other);
        let alone = inputs.iter().filter(|value| value.prec != Prec::Other).count() == 1;
        Value {
            sure: sure && prec.is_known(),
            pinned: if alone { self.first().pinned } else { Pin::No },
            made: alone && self.first().made,
            ..Value::new(prec)
        }
    }

    /// What its tensors are cast to.
    pub(super) fn goal(&self, lower: Prec) -> Option<Goal> {
        let inputs = self.inputs();
        let differs = |prec: &Prec| inputs.iter().any(|value| !value.is_surely(prec));
        match self.found.rule {
            Rule::Lower => differs(&lower).then_some(Goal::To(lower)),
            Rule::Full => differs(&Prec::F32).then_some(Goal::To(Prec::F32)),
            Rule::ForceLower => Some(Goal::Through(lower)),
            Rule::Widest => {
                let some: Vec<&Value> = inputs.into_iter().filter(|value| value.prec != Prec::Other).collect();
                let agree = some.iter().all(|value| value.sure && value.prec == some[0].prec);
                // F32 is where everything meets it; of what is known late, the others are not told by its type.
                let late = some.iter().any(|value| value.is_late_f32());
                let goal = if late { Goal::To(Prec::F32) } else { Goal::Meet };
                (some.len() > 1 && !agree).then_some(goal)
            }
            _ => None,
        }
    }
}

/// Whether an operation's result is no tensor that autocast casts.
pub(super) fn gives_no_float(name: &str) -> bool {
    NO_FLOAT.contains(&name)
}

/// Whether an operation returns a tensor and something besides.
pub(super) fn gives_pair(name: &str) -> bool {
    PAIRS.contains(&name)
}

/// Whether more than the name of a method says that a value is a tensor.
pub(super) fn is_tensor(value: &Value) -> bool {
    value.prec.is_tensor() && value.shape.lends() && (value.sure || !value.by_name)
}

/// Which of a call's operands are its tensors.
pub(super) fn tensor_positions(found: &Found, values: &[Value], source: &Expr) -> Vec<usize> {
    let castable = |i: &usize| {
        *i == 0
            || !matches!(values[*i].prec, Prec::Other | Prec::Never) && !is_asked(as_written(source, *i), &values[*i])
    };
    match found.tensors {
        Some(positions) => {
            positions.iter().map(|&i| usize::from(i)).filter(|&i| i < values.len()).filter(castable).collect()
        }
        None => (0..values.len()).filter(castable).collect(),
    }
}

/// Whether an argument may be a tensor by the way it is written.
pub(super) fn castable(arg: &Expr, value: &Value) -> bool {
    !matches!(value.prec, Prec::Other | Prec::Never)
        && !matches!(arg, Expr::Closure(_) | Expr::Range(_) | Expr::Array(_))
        && !lends_elements(arg)
        && !is_asked(arg, value)
}

/// Whether an argument is a list of references as it is written: what is widened for one lives as long as the list.
pub(super) fn lends_elements(arg: &Expr) -> bool {
    let Expr::Reference(list) = arg else { return false };
    matches!(&*list.expr, Expr::Array(list) if list.elems.iter().any(|elem| matches!(elem, Expr::Reference(_))))
}

/// Whether an expression, as it is written, has whatever type is asked of it: `name.into()`, `Default::default()`.
pub(super) fn is_asked(expr: &Expr, value: &Value) -> bool {
    value.inferred && value.prec == Prec::Opaque && gives_what_is_asked(expr)
}

/// The operand by whose precision the numbers of an operation are judged, if one tells where its tensors meet: what is averaged
/// with F32 moves by any weight.
pub(super) fn judging(op: &str, values: &[Value], tensors: &[usize]) -> Option<usize> {
    let first = tensors.first().copied().unwrap_or(0);
    if op != "lerp" {
        return Some(first);
    }
    let open: Vec<usize> = tensors.iter().copied().filter(|&i| values[i].precision_is_open()).collect();
    match open[..] {
        _ if tensors.iter().any(|&i| values[i].prec == Prec::F32) => None,
        [] => Some(first),
        [one] => Some(one),
        _ => None,
    }
}

/// Whether an argument is a number that meets the tensor's elements, not an axis or a size.
pub(super) fn judged(op: &str, i: usize, value: &Value) -> bool {
    // What a comparison holds a tensor against is not rounded.
    let meets_elements = !NO_FLOAT.contains(&op) && (i != 1 || !MEETS_NO_ELEMENT.contains(&op));
    meets_elements
        && (matches!(op, "masked_fill" | "where_" | "add" | "sub" | "mul" | "div" | "maximum" | "minimum")
            || op.starts_with("clamp")
            || matches!((op, i), ("pad" | "lerp", 2) | ("pad_sequence", 1))
            || value.constants.iter().any(|(text, _)| literal::is_float(text)))
}
