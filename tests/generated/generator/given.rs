//! What is given away where only a type says what is expected, and functions called by their bare names.

use super::expr::{Prec, Random, Scope, Twin, borrowed};
use super::stmt::expr;

/// Fields of a struct, one of them boxed, one a list that was made empty.
pub fn field(random: &mut Random, scope: &mut Scope) -> Twin {
    let (one, _) = scope.render(&expr(random, scope), Some(Prec::F32));
    let (boxed, _) = scope.render(&expr(random, scope), Some(Prec::F32));
    let (all, _) = scope.render(&expr(random, scope), Some(Prec::F32));
    let (l, m, n) = (scope.fresh(), scope.fresh(), scope.fresh());
    scope.declare(&l, Prec::F32);
    scope.declare(&m, Prec::F32);
    scope.declare(&n, Prec::F32);
    Twin::of(|of| {
        format!(
            "    let mut {m}_all = Vec::new();\n    {m}_all.push({});\n    let {m}_held = Held {{ one: {}, boxed: Box::new({}), maybe: None, all: {m}_all }};\n    let {m} = {m}_held.one;\n    let {l} = *{m}_held.boxed;\n    let {n} = {m}_held.all[0].clone();\n",
            of(&all),
            of(&one),
            of(&boxed)
        )
    })
}

/// Fields of the variants of an enum.
pub fn variant(random: &mut Random, scope: &mut Scope) -> Twin {
    let (one, _) = scope.render(&expr(random, scope), Some(Prec::F32));
    let (two, _) = scope.render(&expr(random, scope), Some(Prec::F32));
    let name = scope.fresh();
    scope.declare(&name, Prec::F32);
    Twin::of(|of| {
        format!(
            "    let {name}_pick = if k > 1 {{ Pick::One({}) }} else {{ Pick::Other {{ it: {} }} }};\n    let {name} = match {name}_pick {{ Pick::One(it) => it, Pick::Other {{ it }} => it }};\n",
            of(&one),
            of(&two)
        )
    })
}

/// A map of pairs.
pub fn entry(random: &mut Random, scope: &mut Scope) -> Twin {
    let (one, _) = scope.render(&expr(random, scope), Some(Prec::F32));
    let (two, _) = scope.render(&expr(random, scope), Some(Prec::F32));
    let name = scope.fresh();
    scope.declare(&name, Prec::F32);
    let form = random.below(2);
    Twin::of(|of| {
        let list = format!("[(0, {}), (1, {})]", of(&one), of(&two));
        let made = if form == 0 { format!("{list}.into_iter().collect()") } else { format!("HashMap::from({list})") };
        format!(
            "    let {name}_map: HashMap<usize, Tensor<F32>> = {made};\n    let {name} = {name}_map[&(k % 2)].clone();\n"
        )
    })
}

/// An argument of a function, a method or a module of the user's.
pub fn argument(random: &mut Random, scope: &mut Scope) -> Twin {
    let x = scope.operand(&expr(random, scope), Prec::F32);
    let name = scope.fresh();
    scope.declare(&name, Prec::F32);
    let callee = random.pick(&["helper", "Own.forward", "Own.apply"]);
    Twin::of(|of| format!("    let {name} = {callee}({})?;\n", borrowed(&of(&x))))
}

/// A variable that is assigned what such a function gives.
pub fn passed_on(random: &mut Random, scope: &mut Scope) -> Twin {
    let (first, _) = scope.render(&expr(random, scope), Some(Prec::F32));
    let name = scope.fresh();
    scope.declare(&name, Prec::F32);
    let callee = random.pick(&["helper", "Own.forward", "Own.apply"]);
    Twin::of(|of| {
        format!("    let mut {name} = {};\n    for _ in 0..k {{ {name} = {callee}(&{name})?; }}\n", of(&first))
    })
}

/// A function of the library's, or one of the user's, by its bare name.
pub fn bare(random: &mut Random, scope: &mut Scope) -> Twin {
    let x = scope.operand(&expr(random, scope), Prec::F32);
    let name = scope.fresh();
    scope.declare(&name, Prec::F32);
    let call = random.pick(&[("softmax", "-1"), ("log_softmax", "-1"), ("rms_norm", "[4], None, 1e-5")]);
    Twin::of(|of| format!("    let {name} = {}({}, {})?;\n", call.0, borrowed(&of(&x)), call.1))
}
