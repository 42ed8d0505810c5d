//! Statements inside others: branches, loops, closures and blocks with bodies of their own.

use super::expr::{Expr, Prec, Random, Scope, Twin};
use super::stmt::{expr, statement};

/// Bodies inside bodies at most.
const DEEPEST: usize = 3;

/// A few statements and a value after them, in a scope of their own.
fn block(random: &mut Random, scope: &mut Scope, value: impl Fn(&mut Random, &Scope) -> Expr) -> Block {
    let outside = scope.vars.len();
    let mut body = Twin::default();
    scope.depth += 1;
    if scope.depth < DEEPEST {
        for _ in 0..random.below(3) {
            body.push(&statement(random, scope));
        }
    }
    scope.depth -= 1;
    let value = value(random, scope);
    let prec = scope.prec(&value);
    let inside = scope.vars.split_off(outside);
    Block { body, value, prec, inside }
}

/// What [`block`] wrote, before its value's place is known.
struct Block {
    body: Twin,
    value: Expr,
    prec: Prec,
    inside: Vec<super::expr::Var>,
}

impl Block {
    /// The statements, and the value as it stands where `to` is expected.
    fn render(self, scope: &mut Scope, to: Prec) -> (Twin, Twin) {
        let outside = scope.vars.len();
        scope.vars.extend(self.inside);
        let (value, _) = scope.render(&self.value, Some(to));
        scope.vars.truncate(outside);
        (self.body, value)
    }
}

/// Branches that end in values.
pub fn bodies(random: &mut Random, scope: &mut Scope) -> Twin {
    let (one, two) = (block(random, scope, expr), block(random, scope, expr));
    let meet = one.prec.join(two.prec);
    let ((one, a), (two, b)) = (one.render(scope, meet), two.render(scope, meet));
    let name = scope.fresh();
    scope.declare(&name, meet);
    let (start, middle, end) = random.pick(&[
        ("if k > 1 {", "} else {", "}"),
        ("match k { 0 | 2 => {", "} _ => {", "} }"),
        ("if let Some(1 | 3) = Some(k) && k < 9 {", "} else {", "}"),
        ("match (k > 1, k % 2) { (true, _) => {", "} (false, _) => {", "} }"),
    ]);
    Twin::of(|of| {
        let (one, a, two, b) = (of(&one), of(&a), of(&two), of(&b));
        format!("    let {name} = {start}\n{one}    {a} {middle}\n{two}    {b} {end};\n")
    })
}

/// A variable that a loop's body sets anew: half from beginning to end, or F32.
pub fn turns(random: &mut Random, scope: &mut Scope) -> Twin {
    let name = scope.fresh();
    let (lower, again) = (random.below(2) == 0 && !scope.full, random.below(2) == 0);
    let first = expr(random, scope);
    let first = if lower { Expr::Lower(false, Box::new(first), Box::new(Expr::Var(2))) } else { first };
    let prec = if lower { Prec::Half } else { Prec::F32 };
    let (first, _) = scope.render(&first, Some(prec));
    let var = scope.vars.len();
    scope.declare(&name, prec);
    let outer = std::mem::replace(&mut scope.in_loop, true);
    let body = block(random, scope, |random, scope| {
        let (old, new) = (Box::new(Expr::Var(var)), Box::new(expr(random, scope)));
        match lower {
            true => Expr::Lower(again, new, old),
            false => Expr::Widest("+", old, Box::new(Expr::Full("softmax(-1)", new))),
        }
    });
    let (body, value) = body.render(scope, prec);
    scope.in_loop = outer;
    let head = random.pick(&["for _ in 0..k", "for _ in (0..k).rev()", "for (_, _) in [0, 1].iter().enumerate()"]);
    Twin::of(|of| {
        format!(
            "    let mut {name} = {};\n    {head} {{\n{}    {name} = {};\n    }}\n",
            of(&first),
            of(&body),
            of(&value)
        )
    })
}

/// A value whose precision is known without its type: variables and lists have that of what they begin with where the
/// others' is not.
pub fn known(random: &mut Random, scope: &Scope) -> Expr {
    let value = Expr::Lower(false, Box::new(expr(random, scope)), Box::new(Expr::Var(1)));
    if random.below(2) == 0 { value } else { Expr::Full("log_softmax(-1)", Box::new(value)) }
}

/// A variable that one branch adds to.
pub fn perhaps(random: &mut Random, scope: &mut Scope) -> Twin {
    let (first, more) = (known(random, scope), known(random, scope));
    let prec = scope.prec(&first).join(scope.prec(&more));
    let (first, _) = scope.render(&first, Some(prec));
    let name = scope.fresh();
    let var = Box::new(Expr::Var(scope.vars.len()));
    scope.declare(&name, prec);
    let body = block(random, scope, |_, _| Expr::Widest("+", var.clone(), Box::new(more.clone())));
    let (body, value) = body.render(scope, prec);
    Twin::of(|of| {
        format!(
            "    let mut {name} = {};\n    if k % 3 == 1 {{\n{}    {name} = {};\n    }}\n",
            of(&first),
            of(&body),
            of(&value)
        )
    })
}

/// A closure with a body, called twice.
pub fn called(random: &mut Random, scope: &mut Scope) -> Twin {
    let name = scope.fresh();
    scope.declare("t", Prec::F32);
    let t = scope.vars.len() - 1;
    let outer = std::mem::replace(&mut scope.in_loop, true);
    let body = block(random, scope, |random, scope| {
        Expr::Widest("*", Box::new(Expr::Full("softmax(-1)", Box::new(Expr::Var(t)))), Box::new(expr(random, scope)))
    });
    let (body, value) = body.render(scope, Prec::F32);
    scope.in_loop = outer;
    scope.vars.pop();
    scope.declare(&name, Prec::F32);
    Twin::of(|of| {
        format!(
            "    let {name}_of = |t: &Tensor<F32>| -> Result<Tensor<F32>> {{\n{}    Ok({})\n    }};\n    let {name} = {name}_of(a)?.add(&{name}_of(c)?)?;\n",
            of(&body),
            of(&value)
        )
    })
}

/// A loop over tensors.
pub fn each(random: &mut Random, scope: &mut Scope) -> Twin {
    let name = scope.fresh();
    let (first, prec) = scope.render(&known(random, scope), None);
    let var = scope.vars.len();
    scope.declare(&name, prec);
    scope.declare("t", Prec::F32);
    let outer = std::mem::replace(&mut scope.in_loop, true);
    let body = block(random, scope, |random, scope| {
        let with = Expr::Lower(false, Box::new(expr(random, scope)), Box::new(Expr::Var(var + 1)));
        Expr::Widest("-", Box::new(Expr::Var(var)), Box::new(with))
    });
    let (body, value) = body.render(scope, prec);
    scope.in_loop = outer;
    scope.vars.pop();
    let all = random.pick(&["[a, b]", "vec![b, c, a]", "[c].into_iter().chain([a])"]);
    Twin::of(|of| {
        format!(
            "    let mut {name} = {};\n    for t in {all} {{\n{}    {name} = {};\n    }}\n",
            of(&first),
            of(&body),
            of(&value)
        )
    })
}

/// Pairs that branches end in, and arrays.
pub fn pairs(random: &mut Random, scope: &mut Scope) -> Twin {
    let all = [expr(random, scope), expr(random, scope), expr(random, scope), expr(random, scope)];
    let [p, q, r, s] = [0, 1, 2, 3].map(|i: usize| scope.prec(&all[i]));
    let array = random.below(2) == 0;
    let whole = p.join(q).join(r).join(s);
    let (left, right) = if array { (whole, whole) } else { (p.join(r), q.join(s)) };
    let mut places = [left, right, left, right].into_iter();
    let [a, b, c, d] = all.map(|e| scope.render(&e, places.next()).0);
    let (m, n) = (scope.fresh(), scope.fresh());
    scope.declare(&m, left);
    scope.declare(&n, right);
    let (open, close) = if array { ('[', ']') } else { ('(', ')') };
    Twin::of(|of| {
        let [a, b, c, d] = [of(&a), of(&b), of(&c), of(&d)];
        format!(
            "    let {open}{m}, {n}{close} = if k < 2 {{ {open}{a}, {b}{close} }} else {{ {open}{c}, {d}{close} }};\n"
        )
    })
}

/// A list that grows in a loop.
pub fn grown(random: &mut Random, scope: &mut Scope) -> Twin {
    let [first, next] = [0, 1].map(|_| known(random, scope));
    let prec = scope.prec(&first).join(scope.prec(&next));
    let (first, _) = scope.render(&first, Some(prec));
    let outer = std::mem::replace(&mut scope.in_loop, true);
    let (next, _) = scope.render(&next, Some(prec));
    scope.in_loop = outer;
    let name = scope.fresh();
    scope.declare(&name, prec);
    let took = random.pick(&[".pop().unwrap()", "[0].clone()", ".swap_remove(0)", ".iter().next().unwrap().clone()"]);
    Twin::of(|of| {
        format!(
            "    let mut {name}_all = vec![{}];\n    for _ in 0..k {{ {name}_all.push({}); }}\n    let {name} = {name}_all{took};\n",
            of(&first),
            of(&next)
        )
    })
}
