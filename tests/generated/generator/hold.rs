//! What options, lists and slices hold, and what is taken out of them.

use super::expr::{Expr, Prec, Random, Scope, Twin};
use super::nest::known;
use super::stmt::settled;

/// An option that is filled again, and emptied.
pub fn refilled(random: &mut Random, scope: &mut Scope) -> Twin {
    let (first, again) = (known(random, scope), known(random, scope));
    let prec = scope.prec(&first).join(scope.prec(&again));
    let [first, again] = [first, again].map(|value| scope.render(&value, Some(prec)).0);
    let name = scope.fresh();
    scope.declare(&name, prec);
    let fill = random.pick(&[("", " = Some(", ")"), ("let _ = ", ".insert(", ")"), ("let _ = ", ".replace(", ")")]);
    let taken = random.pick(&[".take().unwrap()", ".unwrap()", ".clone().unwrap()", ".as_ref().unwrap().clone()"]);
    Twin::of(|of| {
        format!(
            "    let mut {name}_maybe = Some({});\n    if k > 1 {{ {}{name}_maybe{}{}{}; }}\n    let {name} = {name}_maybe{taken};\n",
            of(&first),
            fill.0,
            fill.1,
            of(&again),
            fill.2
        )
    })
}

/// Two variables that change places.
pub fn exchanged(random: &mut Random, scope: &mut Scope) -> Twin {
    let (one, two) = (known(random, scope), known(random, scope));
    let prec = scope.prec(&one).join(scope.prec(&two));
    let [one, two] = [one, two].map(|value| scope.render(&value, Some(prec)).0);
    let (m, n) = (scope.fresh(), scope.fresh());
    scope.declare(&m, prec);
    scope.declare(&n, prec);
    let exchange = match random.below(2) {
        0 => format!("std::mem::swap(&mut {m}, &mut {n})"),
        _ => format!("({m}, {n}) = ({n}, {m})"),
    };
    Twin::of(|of| {
        format!(
            "    let mut {m} = {};\n    let mut {n} = {};\n    if k % 2 == 1 {{ {exchange}; }}\n",
            of(&one),
            of(&two)
        )
    })
}

/// A slice that is matched.
pub fn sliced(random: &mut Random, scope: &mut Scope) -> Twin {
    let all = [settled(random, scope), settled(random, scope), settled(random, scope)];
    let prec = all.iter().map(|value| scope.prec(value)).reduce(Prec::join).expect("three of them");
    let all = all.map(|value| scope.render(&value, Some(prec)).0);
    let name = scope.fresh();
    scope.declare(&name, prec);
    let matched = random.pick(&[
        "[first, rest @ ..] if rest.len() == k => first.clone(), [.., last] => last.clone(), [] => return a.relu()",
        "[_, middle, _] => middle.clone(), _ => return a.relu()",
        "[] => return b.tanh(), [one] => one.clone(), [one, ..] => one.relu()?",
    ]);
    Twin::of(|of| {
        let [one, two, three] = all.each_ref().map(of);
        format!(
            "    let {name}_all = [{one}, {two}, {three}];\n    let {name} = match {name}_all.as_slice() {{ {matched} }};\n"
        )
    })
}

/// Neighbours in a list.
pub fn neighbours(random: &mut Random, scope: &mut Scope) -> Twin {
    let all = [settled(random, scope), settled(random, scope), settled(random, scope)];
    let prec = all.iter().map(|value| scope.prec(value)).reduce(Prec::join).expect("three of them");
    let all = all.map(|value| scope.render(&value, Some(prec)).0);
    let first = known(random, scope);
    let sum = scope.prec(&first).join(prec);
    let (first, _) = scope.render(&first, Some(sum));
    let name = scope.fresh();
    scope.declare(&name, sum);
    let to = |from: Prec| if from == sum { String::new() } else { format!(".to::<{}>()?", scope.ty(sum)) };
    let walk = random.pick(&[
        ("for pair in {}_all.windows(2)", "pair[0]", "&pair[1]"),
        ("for (x, y) in {}_all.iter().zip(&{}_all[1..])", "x", "y"),
        ("for (x, y) in {}_all.iter().rev().zip({}_all.iter().skip(1))", "x", "y"),
    ]);
    let head = walk.0.replace("{}", &name);
    let make = |all: [&String; 3], first: String, to: String| {
        let [one, two, three] = all;
        let product = format!("{}.mul({})?", walk.1, walk.2);
        format!(
            "    let {name}_all = vec![{one}, {two}, {three}];\n    let mut {name} = {first};\n    {head} {{ {name} = {name}.add(&{product}{to})?; }}\n"
        )
    };
    Twin {
        region: make(all.each_ref().map(|t| &t.region), first.region, String::new()),
        by_hand: make(all.each_ref().map(|t| &t.by_hand), first.by_hand, to(prec)),
    }
}

/// Closures in a list.
pub fn stored(random: &mut Random, scope: &mut Scope) -> Twin {
    scope.declare("t", Prec::F32);
    let t = || Box::new(Expr::Var(scope.vars.len() - 1));
    let lower = Expr::Lower(false, t(), Box::new(Expr::Var(1)));
    let keep = Expr::Keep("tanh()", t());
    let [lower, keep] = [lower, keep].map(|value| scope.render(&value, Some(Prec::F32)).0);
    scope.vars.pop();
    let x = scope.operand(&settled(random, scope), Prec::F32);
    let name = scope.fresh();
    scope.declare(&name, Prec::F32);
    Twin::of(|of| {
        format!(
            "    let {name}_all: Vec<Box<dyn Fn(&Tensor<F32>) -> Result<Tensor<F32>> + '_>> = vec![Box::new(|t: &Tensor<F32>| -> Result<Tensor<F32>> {{ Ok({}) }}), Box::new(|t: &Tensor<F32>| -> Result<Tensor<F32>> {{ Ok({}) }})];\n    let {name} = {name}_all[k % 2]({})?;\n",
            of(&lower),
            of(&keep),
            super::expr::borrowed(&of(&x))
        )
    })
}
