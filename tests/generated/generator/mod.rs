//! Random functions over 4x4 tensors, with what the rules of autocast say about every value.

mod expr;
mod given;
mod hold;
mod iterate;
mod module;
mod nest;
mod place;
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
    let attribute = format!("#[autocast({})]", half.to_lowercase());
    let (region, by_hand) =
        (format!("{}    Ok({})", body.region, tail.region), format!("{}    Ok({})", body.by_hand, tail.by_hand));
    let source = format!("{}fn hand{number}{SIGNATURE} {{\n{by_hand}\n}}\n", item(random, number, &attribute, &region));
    Made { source, gradients: scope.narrowed_at_most_once() }
}

const SIGNATURE: &str = "(a: &Tensor<F32>, b: &Tensor<F32>, c: &Tensor<F32>, k: usize) -> Result<Tensor<F32>>";

/// The annotated function: mostly a plain one, else a method or an async function behind one.
fn item(random: &mut Random, number: usize, attribute: &str, body: &str) -> String {
    let method = SIGNATURE.replacen('(', "(&self, ", 1);
    let calls = format!("fn f{number}{SIGNATURE} {{ struct S; ");
    match random.below(8) {
        0 => format!(
            "{attribute}\nasync fn later{number}{SIGNATURE} {{\n{body}\n}}\nfn f{number}{SIGNATURE} {{ now(later{number}(a, b, c, k)) }}\n"
        ),
        1 => format!(
            "trait T{number} {{ fn go{method}; }}\n{calls}impl T{number} for S {{\n{attribute}\nfn go{method} {{\n{body}\n}} }}\nS.go(a, b, c, k) }}\n"
        ),
        2 => format!(
            "trait T{number} {{\n{attribute}\nfn go{method} {{\n{body}\n}} }}\n{calls}impl T{number} for S {{}}\nlet one: &dyn T{number} = &S; one.go(a, b, c, k) }}\n"
        ),
        _ => format!("{attribute}\nfn f{number}{SIGNATURE} {{\n{body}\n}}\n"),
    }
}
