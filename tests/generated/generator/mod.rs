//! Random functions over 4x4 tensors, with what the rules of autocast say about every value.

mod expr;
mod stmt;

pub use expr::Random;
use expr::{Prec, Scope, Twin};

/// A function and its twin.
pub struct Made {
    pub source: String,
    /// Whether gradients agree too: where one value is narrowed several times, how often its gradient is rounded
    /// depends on how many casts the twin makes of it.
    pub gradients: bool,
}

/// Writes function number `number`.
pub fn function(random: &mut Random, number: usize) -> Made {
    let half = if random.below(2) == 0 { "F16" } else { "BF16" };
    let mut scope = Scope::new(half);
    let mut body = Twin::default();
    for _ in 0..2 + random.below(4) {
        body.push(&stmt::statement(random, &mut scope));
    }
    let tail = random.expr(&scope, 2);
    let (tail, _) = scope.render(&tail, Some(Prec::F32));
    let attribute = half.to_lowercase();
    let signature = "(a: &Tensor<F32>, b: &Tensor<F32>, c: &Tensor<F32>, k: usize) -> Result<Tensor<F32>>";
    let source = format!(
        "#[autocast({attribute})]\nfn f{number}{signature} {{\n{}    Ok({})\n}}\nfn hand{number}{signature} {{\n{}    Ok({})\n}}\n",
        body.region, tail.region, body.by_hand, tail.by_hand
    );
    Made { source, gradients: scope.narrowed_at_most_once() }
}
