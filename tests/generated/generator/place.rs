//! Statements over places whose type the macro does not follow, and values that come without `?`.

use super::expr::{Expr, Prec, Random, Scope, Twin};

fn some(random: &mut Random, scope: &Scope) -> (Twin, Prec) {
    let depth = 1 + random.below(2);
    scope.render(&random.expr(scope, depth), None)
}

/// An operation on a place that is in scope for this operation only.
fn used(random: &mut Random, scope: &mut Scope, place: &str, prec: Prec) -> (Twin, Prec) {
    scope.declare(place, prec);
    let var = || Box::new(Expr::Var(scope.vars.len() - 1));
    let expr = match random.below(3) {
        0 => Expr::Lower(false, var(), Box::new(Expr::Var(1))),
        1 => Expr::Full("softmax(-1)", var()),
        _ => Expr::Keep("relu()", var()),
    };
    let (twin, prec) = scope.render(&expr, None);
    scope.vars.pop();
    (twin, prec)
}

/// `Box`, `Rc` and `Arc`.
pub fn pointer(random: &mut Random, scope: &mut Scope) -> Twin {
    let pointer = random.pick(&["Box", "std::rc::Rc", "std::sync::Arc"]);
    let (value, prec) = some(random, scope);
    let name = scope.fresh();
    let (used, after) = used(random, scope, &format!("{name}_held"), prec);
    scope.declare_open(&name, after);
    Twin::of(|of| format!("    let {name}_held = {pointer}::new({});\n    let {name} = {};\n", of(&value), of(&used)))
}

/// An entry of a map.
pub fn map(random: &mut Random, scope: &mut Scope) -> Twin {
    let (value, prec) = some(random, scope);
    let name = scope.fresh();
    let (used, after) = used(random, scope, &format!("{name}_map[&(k % 2)]"), prec);
    scope.declare_open(&name, after);
    Twin::of(|of| {
        format!(
            "    let mut {name}_map = std::collections::HashMap::new();\n    {name}_map.insert(k % 2, {});\n    let {name} = {};\n",
            of(&value),
            of(&used)
        )
    })
}

/// A result that is matched, chained or unwrapped.
pub fn without_question_mark(random: &mut Random, scope: &mut Scope) -> Twin {
    let var = Expr::Var(random.below(scope.vars.len()));
    let expr = match random.below(2) {
        0 => Expr::Lower(false, Box::new(var), Box::new(Expr::Var(1))),
        _ => Expr::Full("softmax(-1)", Box::new(var)),
    };
    let (value, prec) = scope.render(&expr, None);
    let name = scope.fresh();
    scope.declare(&name, prec);
    let form = random.below(3);
    Twin::of(|of| {
        let value = of(&value);
        let result = value.strip_suffix('?').expect("an operation may fail");
        match form {
            0 => format!("    let {name} = match {result} {{ Ok(it) => it, Err(error) => return Err(error) }};\n"),
            1 => format!("    let {name} = {result}.and_then(|it| it.tanh())?;\n"),
            _ => format!("    let {name} = {result}.map_err(|error| error).unwrap();\n"),
        }
    })
}

/// A closure that owns what it uses.
pub fn moving(random: &mut Random, scope: &mut Scope) -> Twin {
    let (value, prec) = some(random, scope);
    let name = scope.fresh();
    scope.declare("t", Prec::F32);
    scope.declare(&format!("{name}_own"), prec);
    let (t, own) = (Expr::Var(scope.vars.len() - 2), Expr::Var(scope.vars.len() - 1));
    let product = Expr::Widest("*", Box::new(t), Box::new(own));
    let (product, _) = scope.render(&product, Some(Prec::F32));
    scope.vars.truncate(scope.vars.len() - 2);
    scope.declare(&name, Prec::F32);
    Twin::of(|of| {
        format!(
            "    let {name}_own = {};\n    let {name}_of = move |t: &Tensor<F32>| -> Result<Tensor<F32>> {{ Ok({}) }};\n    let {name} = {name}_of(c)?;\n",
            of(&value),
            of(&product)
        )
    })
}

/// An async block that is run to its end.
pub fn asynchronous(random: &mut Random, scope: &mut Scope) -> Twin {
    let (value, prec) = some(random, scope);
    let name = scope.fresh();
    scope.declare_open(&name, prec);
    Twin::of(|of| format!("    let {name} = now(async {{ Ok::<_, amp::Error>({}) }})?;\n", of(&value)))
}
