//! Modules of the library's: what they give is known by its type alone.

use super::expr::{Prec, Random, Scope, Twin, borrowed};
use super::stmt::expr;

/// What a module of this name needs and gives.
fn layer(random: &mut Random, scope: &Scope) -> (&'static str, Prec) {
    let lower = if scope.full { Prec::F32 } else { Prec::Half };
    random.pick(&[("NET.fc", lower), ("NET.norm", Prec::F32), ("NET.layers[k % 2]", lower)])
}

/// A module's call.
pub fn module(random: &mut Random, scope: &mut Scope) -> Twin {
    let (layer, prec) = layer(random, scope);
    let x = scope.operand(&expr(random, scope), prec);
    let name = scope.fresh();
    scope.declare_open(&name, prec);
    Twin::of(|of| format!("    let {name} = {layer}.forward({})?;\n", borrowed(&of(&x))))
}

/// Two of them, one behind the other, with an operation between them that keeps the precision.
pub fn through(random: &mut Random, scope: &mut Scope) -> Twin {
    let ((one, p), (two, q)) = (layer(random, scope), layer(random, scope));
    let x = scope.operand(&expr(random, scope), p);
    let name = scope.fresh();
    let inner = Twin::of(|of| format!("{one}.forward({})?.relu()?", borrowed(&of(&x))));
    let inner = if p == q { inner } else { scope.cast(inner, q) };
    scope.declare_open(&name, q);
    Twin::of(|of| format!("    let {name} = {two}.forward(&{})?;\n", of(&inner)))
}
