//! Iterators over modules and lists, and what folds gather.

use super::expr::{Prec, Random, Scope, Twin};
use super::stmt::settled;

/// A fold over layers: what it gathers in is F32.
pub fn folded(random: &mut Random, scope: &mut Scope) -> Twin {
    let (first, _) = scope.render(&settled(random, scope), Some(Prec::F32));
    let name = scope.fresh();
    scope.declare(&name, Prec::F32);
    let lower = scope.ty(if scope.full { Prec::F32 } else { Prec::Half });
    let fold =
        |first: &str, call: &str| format!("    let {name} = NET.layers.iter().try_fold({first}, |h, l| {call})?;\n");
    let by_hand = fold(&first.by_hand, &format!("l.forward(&h.to::<{lower}>()?)?.to::<F32>()"));
    Twin { region: fold(&first.region, "l.forward(&h)"), by_hand }
}

/// A loop over layers: the variable holds F32.
pub fn layered(random: &mut Random, scope: &mut Scope) -> Twin {
    let (first, _) = scope.render(&settled(random, scope), Some(Prec::F32));
    let name = scope.fresh();
    scope.declare(&name, Prec::F32);
    let lower = scope.ty(if scope.full { Prec::F32 } else { Prec::Half });
    let after = random.pick(&["", ".relu()?", ".tanh()?"]);
    let make = |first: &str, to: &str, back: &str| {
        format!(
            "    let mut {name} = {first};\n    for l in &NET.layers {{ {name} = l.forward(&{name}{to})?{after}{back}; }}\n"
        )
    };
    Twin {
        region: make(&first.region, "", ""),
        by_hand: make(&first.by_hand, &format!(".to::<{lower}>()?"), ".to::<F32>()?"),
    }
}

/// A list that is emptied into a sum.
pub fn drained(random: &mut Random, scope: &mut Scope) -> Twin {
    let all = [settled(random, scope), settled(random, scope), settled(random, scope)];
    let [one, two, first] = [0, 1, 2].map(|i: usize| scope.prec(&all[i]));
    let (elem, sum) = (one.join(two), one.join(two).join(first));
    let mut places = [elem, elem, sum].into_iter();
    let [one, two, first] = all.map(|e| scope.render(&e, places.next()).0);
    let name = scope.fresh();
    scope.declare(&name, sum);
    let item = if elem == sum { "item".into() } else { format!("item.to::<{}>()?", scope.ty(sum)) };
    let make = |one: &str, two: &str, first: &str, item: &str| {
        format!(
            "    let mut {name}_all = vec![{one}, {two}];\n    let mut {name} = {first};\n    while let Some(item) = {name}_all.pop() {{ {name} = (&{name} + &{item})?; }}\n"
        )
    };
    Twin {
        region: make(&one.region, &two.region, &first.region, "item"),
        by_hand: make(&one.by_hand, &two.by_hand, &first.by_hand, &item),
    }
}

/// Two lists side by side.
pub fn zipped(random: &mut Random, scope: &mut Scope) -> Twin {
    let all = [settled(random, scope), settled(random, scope)];
    let precs = [0, 1].map(|i: usize| scope.prec(&all[i]));
    let elem = precs[0].join(precs[1]);
    let [one, two] = all.map(|e| scope.render(&e, Some(elem)).0);
    let name = scope.fresh();
    scope.declare(&name, Prec::Half);
    let other = random.pick(&["b", "c"]);
    let half = format!(".to::<{}>()?", scope.half);
    let to = if elem == Prec::Half { "" } else { half.as_str() };
    let make = |one: &str, two: &str, to: &str, half: &str| {
        format!(
            "    let {name}_all = [{one}, {two}].iter().zip([a, {other}]).map(|(l, r)| l{to}.matmul({}r{half})).collect::<Result<Vec<_>>>()?;\n    let {name} = {name}_all.into_iter().nth(k % 2).unwrap();\n",
            if half.is_empty() { "" } else { "&" }
        )
    };
    Twin { region: make(&one.region, &two.region, "", ""), by_hand: make(&one.by_hand, &two.by_hand, to, &half) }
}
