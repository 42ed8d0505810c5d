//! Tensors that are made without a type (`Tensor::zeros(..)?`): where others meet them they are F32, as PyTorch's are.

use super::Walker;
use crate::emit;
use crate::lattice::{Prec, Value};
use crate::rules::{Found, Rule};
use syn::{Expr, ExprPath};

/// Functions of `Tensor` that make integers.
const INTEGERS: &[&str] = &["arange", "randint", "randperm", "tril_indices", "triu_indices"];

impl Walker<'_> {
    /// Says that what was made without a type is F32.
    pub(super) fn settle(&self, expr: &mut Expr, value: &mut Value, receiver: bool) {
        if !value.made || self.cx.host {
            return;
        }
        self.rewrite(expr, |inner| match receiver && emit::is_place(&inner) {
            true => emit::of_f32(syn::parse_quote!(&#inner)),
            false => emit::of_f32(inner),
        });
        (value.prec, value.sure, value.made) = (Prec::F32, true, false);
    }
}

/// What a function of `Tensor` gives that was named without a type.
pub(super) fn made(path: &ExprPath) -> Value {
    let integers = path.path.segments.last().is_some_and(|last| INTEGERS.iter().any(|name| last.ident == name));
    Value { made: !integers, ..Value::new(Prec::Unknown) }
}

/// Whether a tensor of floats is known to be one by more than what it meets.
pub(super) fn meets(value: &Value) -> bool {
    value.prec.is_tensor() && !value.made
}

/// Which of its tensors, made without a type, an operation takes as F32.
pub(super) fn settled(found: &Found, values: &[Value], tensors: &[usize]) -> Vec<usize> {
    let takes_floats = match found.rule {
        Rule::Lower | Rule::Full | Rule::ForceLower => true,
        Rule::Widest => tensors.iter().any(|&i| meets(&values[i])),
        Rule::Keep | Rule::Skip | Rule::Banned => false,
    };
    tensors.iter().copied().filter(|&i| takes_floats && values[i].made).collect()
}
