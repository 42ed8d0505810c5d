//! Statements: binding forms and control flow.

use super::expr::{Expr, Prec, Random, Scope, Twin};
use super::given::{argument, bare, entry, field, passed_on, variant};
use super::hold::{exchanged, neighbours, refilled, sliced, stored};
use super::iterate::{drained, folded, layered, zipped};
use super::module::{module, through};
use super::nest::{bodies, called, each, grown, pairs, perhaps, turns};
use super::place::{asynchronous, map, moving, pointer, without_question_mark};

/// A statement that declares one variable or more.
pub fn statement(random: &mut Random, scope: &mut Scope) -> Twin {
    let forms: [fn(&mut Random, &mut Scope) -> Twin; 44] = [
        plain,
        typed,
        branch,
        arms,
        for_loop,
        while_loop,
        early_return,
        closure,
        tuple,
        option,
        collected,
        shadowed,
        labelled,
        switched_off,
        deferred,
        pointer,
        map,
        without_question_mark,
        moving,
        asynchronous,
        field,
        variant,
        entry,
        argument,
        passed_on,
        bare,
        bodies,
        turns,
        perhaps,
        called,
        each,
        pairs,
        grown,
        module,
        through,
        folded,
        layered,
        drained,
        zipped,
        refilled,
        exchanged,
        sliced,
        neighbours,
        stored,
    ];
    let form = random.pick(&forms);
    scope.open.set(false);
    form(random, scope)
}

pub fn expr(random: &mut Random, scope: &Scope) -> Expr {
    let depth = 1 + random.below(2);
    random.expr(scope, depth)
}

/// An expression for a variable that is assigned to.
pub fn settled(random: &mut Random, scope: &Scope) -> Expr {
    let value = expr(random, scope);
    if scope.is_open(&value) { Expr::Full("softmax(-1)", Box::new(value)) } else { value }
}

/// Two expressions whose values meet in one place.
fn two(random: &mut Random, scope: &Scope) -> (Twin, Twin, Prec) {
    let (a, b) = (expr(random, scope), expr(random, scope));
    let meet = scope.prec(&a).join(scope.prec(&b));
    (scope.render(&a, Some(meet)).0, scope.render(&b, Some(meet)).0, meet)
}

fn plain(random: &mut Random, scope: &mut Scope) -> Twin {
    let (value, prec) = scope.render(&expr(random, scope), None);
    let name = scope.fresh();
    scope.declare(&name, prec);
    Twin::of(|of| format!("    let {name} = {};\n", of(&value)))
}

fn typed(random: &mut Random, scope: &mut Scope) -> Twin {
    let (value, prec) = scope.render(&expr(random, scope), None);
    let (name, ty) = (scope.fresh(), scope.ty(prec));
    scope.declare(&name, prec);
    Twin::of(|of| format!("    let {name}: Tensor<{ty}> = {};\n", of(&value)))
}

fn branch(random: &mut Random, scope: &mut Scope) -> Twin {
    let (a, b, prec) = two(random, scope);
    let name = scope.fresh();
    scope.declare(&name, prec);
    Twin::of(|of| format!("    let {name} = if k > 1 {{ {} }} else {{ {} }};\n", of(&a), of(&b)))
}

fn arms(random: &mut Random, scope: &mut Scope) -> Twin {
    let all = [expr(random, scope), expr(random, scope), expr(random, scope)];
    let prec = all.iter().map(|arm| scope.prec(arm)).reduce(Prec::join).expect("three arms");
    let [a, b, c] = all.map(|arm| scope.render(&arm, Some(prec)).0);
    let name = scope.fresh();
    scope.declare(&name, prec);
    Twin::of(|of| {
        format!("    let {name} = match k {{ 0 => {}, n if n > 2 => {}, _ => {} }};\n", of(&a), of(&b), of(&c))
    })
}

/// A variable that the body of a loop changes: it has the precision that all its values fit in.
fn carried(random: &mut Random, scope: &mut Scope) -> (String, Twin, Twin) {
    let first = settled(random, scope);
    let name = scope.fresh();
    scope.declare(&name, scope.prec(&first));
    let body = Expr::Widest("+", Box::new(Expr::Var(scope.vars.len() - 1)), Box::new(settled(random, scope)));
    let body = if random.below(2) == 0 { body } else { Expr::Lower(false, Box::new(body), Box::new(Expr::Var(1))) };
    let prec = scope.prec(&first).join(scope.prec(&body));
    let mut var = scope.vars.pop().expect("declared above");
    let (first, _) = scope.render(&first, Some(prec));
    var.prec = prec;
    scope.vars.push(var);
    scope.in_loop = true;
    let (body, _) = scope.render(&body, Some(prec));
    scope.in_loop = false;
    (name, first, body)
}

fn for_loop(random: &mut Random, scope: &mut Scope) -> Twin {
    let (name, first, body) = carried(random, scope);
    Twin::of(|of| format!("    let mut {name} = {};\n    for _ in 0..k {{ {name} = {}; }}\n", of(&first), of(&body)))
}

fn while_loop(random: &mut Random, scope: &mut Scope) -> Twin {
    let (name, first, body) = carried(random, scope);
    let turn = format!("{name}_turn");
    Twin::of(|of| {
        format!(
            "    let mut {name} = {};\n    let mut {turn} = 0;\n    while {turn} < k {{\n        {turn} += 1;\n        if {turn} == 3 {{ continue; }}\n        {name} = {};\n    }}\n",
            of(&first),
            of(&body)
        )
    })
}

fn early_return(random: &mut Random, scope: &mut Scope) -> Twin {
    let (value, _) = scope.render(&expr(random, scope), Some(Prec::F32));
    let at = random.below(4);
    Twin::of(|of| format!("    if k == {at} {{ return Ok({}); }}\n", of(&value)))
}

fn closure(random: &mut Random, scope: &mut Scope) -> Twin {
    let name = scope.fresh();
    let declared = random.below(2) == 0;
    scope.declare("t", Prec::F32);
    let t = Expr::Var(scope.vars.len() - 1);
    let value = Expr::Widest("*", Box::new(t), Box::new(random.expr(scope, 1)));
    let (value, prec) = scope.render(&value, declared.then_some(Prec::F32));
    scope.vars.pop();
    scope.declare(&name, prec);
    let returns = if declared { "-> Result<Tensor<F32>> " } else { "" };
    let ok = if declared { "Ok" } else { "Ok::<_, amp::Error>" };
    Twin::of(|of| {
        format!(
            "    let {name}_of = |t: &Tensor<F32>| {returns}{{ {ok}({}) }};\n    let {name} = {name}_of(a)?;\n",
            of(&value)
        )
    })
}

fn tuple(random: &mut Random, scope: &mut Scope) -> Twin {
    let (one, p) = scope.render(&expr(random, scope), None);
    let (two, q) = scope.render(&expr(random, scope), None);
    let (m, n) = (scope.fresh(), scope.fresh());
    scope.declare(&m, p);
    scope.declare(&n, q);
    Twin::of(|of| format!("    let ({m}, {n}) = ({}, {});\n", of(&one), of(&two)))
}

fn option(random: &mut Random, scope: &mut Scope) -> Twin {
    let (value, prec) = scope.render(&expr(random, scope), None);
    let name = scope.fresh();
    let form = random.below(2);
    scope.declare(&name, prec);
    Twin::of(|of| {
        let made = format!("    let {name}_maybe = if k < 9 {{ Some({}) }} else {{ None }};\n", of(&value));
        match form {
            0 => format!("{made}    let Some({name}) = {name}_maybe else {{ return Ok(a.clone()) }};\n"),
            _ => format!(
                "{made}    let {name} = match &{name}_maybe {{ Some(it) => it.relu()?, None => return b.relu() }};\n"
            ),
        }
    })
}

fn collected(random: &mut Random, scope: &mut Scope) -> Twin {
    let left = Expr::Keep("relu()", Box::new(expr(random, scope)));
    let (left, prec) = scope.render(&left, None);
    let name = scope.fresh();
    scope.declare(&name, Prec::Half);
    let narrow = if prec == Prec::F32 { format!(".to::<{}>()?", scope.half) } else { String::new() };
    let map = |left: &str, narrow: &str, each: &str| {
        format!(
            "    let {name}_left = {left};\n    let {name}_all = [b, c].iter().map(|w| {name}_left{narrow}.matmul({each})).collect::<Result<Vec<_>>>()?;\n    let {name} = {name}_all[k % 2].clone();\n"
        )
    };
    Twin {
        region: map(&left.region, "", "w"),
        by_hand: map(&left.by_hand, &narrow, &format!("&w.to::<{}>()?", scope.half)),
    }
}

fn shadowed(random: &mut Random, scope: &mut Scope) -> Twin {
    let (value, prec) = scope.render(&expr(random, scope), None);
    let name = scope.fresh();
    scope.declare(&name, prec);
    let again = Expr::Full("softmax(-1)", Box::new(Expr::Var(scope.vars.len() - 1)));
    let (again, after) = scope.render(&again, None);
    scope.vars.pop();
    scope.declare(&name, after);
    Twin::of(|of| {
        format!(
            "    let {name} = {{ let {name} = {};\n        let {name} = &{name};\n        {} }};\n",
            of(&value),
            of(&again)
        )
    })
}

fn labelled(random: &mut Random, scope: &mut Scope) -> Twin {
    let (a, b, prec) = two(random, scope);
    let name = scope.fresh();
    scope.declare(&name, prec);
    let looped = random.below(2) == 0;
    Twin::of(|of| match looped {
        true => format!("    let {name} = loop {{ if k > 2 {{ break {}; }} break {}; }};\n", of(&a), of(&b)),
        false => format!("    let {name} = 'out: {{ if k > 2 {{ break 'out {}; }} {} }};\n", of(&a), of(&b)),
    })
}

/// What comes out of a region that is switched off may not be narrowed: it goes through a `full` operation.
fn switched_off(random: &mut Random, scope: &mut Scope) -> Twin {
    let value = expr(random, scope);
    let value = Expr::Full("softmax(-1)", Box::new(value));
    scope.full = true;
    let (value, _) = scope.render(&value, None);
    scope.full = false;
    let name = scope.fresh();
    scope.declare(&name, Prec::F32);
    Twin {
        region: format!("    let {name} = amp_region!(f32, {}).softmax(-1)?;\n", value.region),
        by_hand: format!("    let {name} = {}.softmax(-1)?;\n", value.by_hand),
    }
}

fn deferred(random: &mut Random, scope: &mut Scope) -> Twin {
    let (a, b) = (settled(random, scope), settled(random, scope));
    let prec = scope.prec(&a).join(scope.prec(&b));
    let [a, b] = [a, b].map(|value| scope.render(&value, Some(prec)).0);
    let name = scope.fresh();
    scope.declare(&name, prec);
    Twin::of(|of| {
        format!("    let {name};\n    if k % 2 == 0 {{ {name} = {}; }} else {{ {name} = {}; }}\n", of(&a), of(&b))
    })
}
