//! What is given away where only a type says what is expected: fields, arguments, elements. It is widened there, which
//! is a view, and narrowing what comes out again is none either.

#![allow(clippy::large_enum_variant, clippy::vec_init_then_push, reason = "programs as people write them")]

use super::*;
use std::collections::{BTreeMap, HashMap, VecDeque};

type T = Tensor<F32>;

const SHAPES: &[&[usize]] = &[&[4, 8], &[8, 8]];

struct Out {
    logits: T,
    aux: Option<T>,
    all: Vec<T>,
    rows: usize,
}

struct Pair(T, Box<T>);

enum Either {
    One(T),
    Two { left: T, right: [T; 2] },
}

struct Open<H> {
    h: H,
}

struct Cache<P: AutocastPrecision> {
    k: Tensor<P>,
}

#[autocast(P)]
fn literal<P: AutocastPrecision>(x: &T, w: &T) -> Result<Out> {
    let logits = x.matmul(w)?;
    let h = logits.relu()?;
    Ok(Out { aux: Some(h.clone()), all: vec![h.clone(), logits.clone()], rows: h.dims()[0], logits })
}

#[autocast(P)]
fn tuple_struct<P: AutocastPrecision>(x: &T, w: &T) -> Result<Pair> {
    let h = x.matmul(w)?;
    let pair = Pair(h.relu()?, Box::new(h));
    Ok(pair)
}

#[autocast(P)]
fn variants<P: AutocastPrecision>(x: &T, w: &T) -> Result<Vec<Either>> {
    let h = x.matmul(w)?;
    let both = Either::Two { left: h.relu()?, right: [h.abs()?, h.clone()] };
    Ok(vec![Either::One(h), both])
}

/// The type of a field is that of its value where nothing says another.
#[autocast(P)]
fn open<P: AutocastPrecision>(x: &T, w: &T) -> Result<Open<T>> {
    let low = Open { h: x.matmul(w)? };
    Ok(Open { h: low.h.matmul(w)? })
}

#[autocast(P)]
fn cached<P: AutocastPrecision>(x: &T, w: &T) -> Result<(T, Cache<P>)> {
    let k = x.matmul(w)?;
    let cache = Cache { k: k.clone() };
    Ok((cache.k.matmul(w)?, Cache { k }))
}

fn owned(x: T) -> T {
    x
}

fn borrowed(x: &T) -> T {
    x.clone()
}

#[derive(Default)]
struct Log {
    seen: Vec<T>,
    named: BTreeMap<String, T>,
    last: Option<T>,
}

impl Log {
    fn note(&mut self, name: &str, x: T) {
        self.named.insert(name.to_owned(), x);
    }
}

#[autocast(P)]
fn arguments<P: AutocastPrecision>(x: &T, w: &T, log: &mut Log) -> Result<T> {
    let h = x.matmul(w)?;
    log.seen.push(h.clone());
    log.note("h", h.relu()?);
    log.last = Some(h.clone());
    let y = (owned(h) + borrowed(&x.matmul(w)?))?;
    y.matmul(w)
}

#[autocast(P)]
fn pushed<P: AutocastPrecision>(x: &T, w: &T) -> Result<Vec<T>> {
    let mut out = Vec::new();
    for i in 0..3 {
        out.push((x.matmul(w)? * f64::from(i))?);
    }
    Ok(out)
}

#[autocast(P)]
fn inserted<P: AutocastPrecision>(x: &T, w: &T) -> Result<HashMap<usize, Tensor<F32>>> {
    let mut out = HashMap::new();
    out.insert(0, x.matmul(w)?);
    out.insert(1, x.clone());
    out.insert(2, x.matmul(w)?.relu()?);
    if out.len() < 2 {
        return Ok(out);
    }
    Ok(out)
}

#[autocast(P)]
fn pairs<P: AutocastPrecision>(x: &T, w: &T) -> Result<Vec<(usize, Tensor<F32>)>> {
    let mut out = Vec::new();
    out.push((1, x.matmul(w)?));
    out.push((2, x.clone()));
    Ok(out)
}

#[autocast(P)]
fn queued<P: AutocastPrecision>(x: &T, w: &T) -> Result<Log> {
    let mut seen = VecDeque::new();
    seen.push_front(x.matmul(w)?);
    let mut kept = Vec::new();
    kept.push(x.matmul(w)?);
    Ok(Log { last: seen.pop_back(), seen: kept, ..Log::default() })
}

#[autocast(P)]
fn collected<P: AutocastPrecision>(x: &T, w: &T) -> Result<HashMap<usize, Tensor<F32>>> {
    (0..2).map(|i| Ok((i, (x.matmul(w)? * (i as f64))?))).collect()
}

#[autocast(P)]
fn collected_of_a_list<P: AutocastPrecision>(x: &T, w: &T) -> Result<HashMap<usize, Tensor<F32>>> {
    let all: HashMap<usize, Tensor<F32>> = [(0, x.matmul(w)?), (1, x.matmul(w)?)].into_iter().collect();
    Ok(all)
}

#[autocast(P)]
fn made_of_a_list<P: AutocastPrecision>(x: &T, w: &T) -> Result<HashMap<usize, Tensor<F32>>> {
    Ok(HashMap::from([(0, x.matmul(w)?), (1, x.clone())]))
}

/// Modules and helpers of the user's, who say by their signatures what they take.
trait Layer {
    fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>>;
}

struct Doubling;

impl Layer for Doubling {
    fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        x * 2.0
    }
}

struct Open16;

impl Open16 {
    fn forward<P: Element>(&self, x: &Tensor<P>) -> Tensor<P> {
        x.clone()
    }

    fn larger<'x>(&self, x: &'x T, limit: f32) -> Result<Option<&'x T>> {
        Ok((x.abs()?.sum_all()?.item()? > limit).then_some(x))
    }

    fn same<'x, P: Element>(&self, x: &'x Tensor<P>) -> &'x Tensor<P> {
        x
    }
}

fn both(x: &T, y: &T) -> Result<T> {
    x + y
}

#[autocast(P)]
fn borrowed_arguments<P: AutocastPrecision>(x: &T, w: &T, layers: &[Box<dyn Layer>]) -> Result<T> {
    let open = Open16;
    let h = x.matmul(w)?;
    let kept = open.same(&h);
    let g = both(&h, &kept.matmul(w)?)?;
    let p = open.forward(&h);
    let y = layers[0].forward(&p)?;
    let r = &p;
    let mut n = 0;
    while open.larger(&h, 10.0 * n as f32)?.is_some() && n < 3 {
        n += 1;
    }
    let z = if let Some(large) = open.larger(r, 0.0)? { both(large, &p)? } else { borrowed(r) };
    let all = [&g, &y].map(|x| both(x, &h));
    let mut out = (z.matmul(w)? * f64::from(n))?;
    for one in all {
        out = both(&out, &one?.matmul(w)?)?;
    }
    Ok(out)
}

#[autocast(P)]
fn carried<P: AutocastPrecision>(x: &T, w: &T, layers: &[Box<dyn Layer>]) -> Result<T> {
    let mut h = x.matmul(w)?;
    for layer in layers {
        h = layer.forward(&h)?;
        h = borrowed(&h);
    }
    h.matmul(w)
}

/// What gives back what it was given keeps a variable in the region's precision that is declared so.
#[autocast(P)]
fn carried_narrow<P: AutocastPrecision>(x: &T, w: &T) -> Result<T> {
    let mut h: Tensor<P> = x.matmul(w)?;
    for _ in 0..3 {
        h = Open16.forward(&h);
        h = Open16.same(&h).clone();
    }
    h.matmul(w)
}

/// The same without a declaration: widened and narrowed again, which are views both.
#[autocast(P)]
fn carried_wide<P: AutocastPrecision>(x: &T, w: &T) -> Result<T> {
    let mut h = x.matmul(w)?;
    for _ in 0..3 {
        h = Open16.forward(&h);
        h = Open16.same(&h).clone();
    }
    h.matmul(w)
}

fn sum(all: &[&T]) -> Result<T> {
    let mut y = all[0].clone();
    for (i, x) in all[1..].iter().enumerate() {
        y = (y + (*x * (i as f64 + 2.0))?)?;
    }
    Ok(y)
}

/// What a program by hand starts from: the narrow operands, narrowed once.
struct Hand<P: AutocastPrecision> {
    x: Tensor<P>,
    w: Tensor<P>,
}

impl<P: AutocastPrecision> Hand<P> {
    fn h(&self) -> Result<Tensor<P>> {
        self.x.matmul(&self.w)
    }
}

/// The sum of what the region gives away is, bit for bit, that of the program by hand, with as many casts.
fn check<P: AutocastPrecision>(
    what: &str,
    region: impl Fn(&T, &T) -> Result<T>,
    by_hand: impl Fn(&T, &Hand<P>) -> Result<T>,
) {
    let by_hand = |t: &[T]| by_hand(&t[0], &Hand { x: t[0].to()?, w: t[1].to()? });
    compare(what, SHAPES, 0, |t| region(&t[0], &t[1]), by_hand);
}

fn fields<P: AutocastPrecision>() {
    let region = |x: &T, w: &T| {
        let out = literal::<P>(x, w)?;
        assert_eq!(out.rows, 4);
        sum(&[&out.logits, out.aux.as_ref().unwrap(), &out.all[0], &out.all[1]])
    };
    check::<P>("fields", region, |_, hand| {
        let h = hand.h()?;
        let relu = h.relu()?;
        sum(&[&h.to()?, &relu.to()?, &relu.to()?, &h.to()?])
    });
    let region = |x: &T, w: &T| tuple_struct::<P>(x, w).and_then(|Pair(a, b)| sum(&[&a, &b]));
    check::<P>("fields of a tuple struct", region, |_, hand| {
        let h = hand.h()?;
        sum(&[&h.relu()?.to()?, &h.to()?])
    });
    let region = |x: &T, w: &T| match variants::<P>(x, w)?.as_slice() {
        [Either::One(h), Either::Two { left, right: [a, b] }] => sum(&[h, left, a, b]),
        _ => unreachable!("as it was made"),
    };
    check::<P>("fields of variants", region, |_, hand| {
        let h = hand.h()?;
        sum(&[&h.to()?, &h.relu()?.to()?, &h.abs()?.to()?, &h.to()?])
    });
    let region = |x: &T, w: &T| open::<P>(x, w).map(|open| open.h);
    check::<P>("a field of an open type", region, |_, hand| hand.h()?.matmul(&hand.w)?.to());
    let region = |x: &T, w: &T| cached::<P>(x, w).and_then(|(y, cache)| y + cache.k.to::<F32>()?);
    check::<P>("a field of the region's precision", region, |_, hand| {
        let k = hand.h()?;
        k.matmul(&hand.w)?.to::<F32>()? + k.to::<F32>()?
    });
}

fn calls<P: AutocastPrecision>() {
    let region = |x: &T, w: &T| {
        let mut log = Log::default();
        let y = arguments::<P>(x, w, &mut log)?;
        sum(&[&y, &log.seen[0], &log.named["h"], log.last.as_ref().unwrap()])
    };
    check::<P>("arguments", region, |_, hand| {
        let h = hand.h()?;
        let (seen, named, last, g) = (h.to()?, h.relu()?.to()?, h.to()?, hand.h()?);
        let y = (h.to::<F32>()? + g.to::<F32>()?)?.to::<P>()?.matmul(&hand.w)?;
        sum(&[&y.to()?, &seen, &named, &last])
    });
}

fn references<P: AutocastPrecision>() {
    let layers: Vec<Box<dyn Layer>> = vec![Box::new(Doubling), Box::new(Doubling)];
    check::<P>(
        "borrowed arguments",
        |x, w| borrowed_arguments::<P>(x, w, &layers),
        |_, hand| {
            let low = hand.h()?;
            let h = low.to::<F32>()?;
            let g = (&h + low.matmul(&hand.w)?.to::<F32>()?)?;
            let y = (&h * 2.0)?;
            let z = (&h + &h)?;
            let all = [(&g + &h)?, (&y + &h)?];
            let mut out = (z.to::<P>()?.matmul(&hand.w)? * 3.0)?.to::<F32>()?;
            for one in all {
                out = (out + one.to::<P>()?.matmul(&hand.w)?.to::<F32>()?)?;
            }
            Ok(out)
        },
    );
    check::<P>(
        "results of modules of the user's, in a loop",
        |x, w| carried::<P>(x, w, &layers),
        |_, hand| {
            let h = ((hand.h()?.to::<F32>()? * 2.0)? * 2.0)?;
            h.to::<P>()?.matmul(&hand.w)?.to()
        },
    );
    for region in [carried_narrow::<P>, carried_wide::<P>] {
        check::<P>("results of open functions, in a loop", region, |_, hand| hand.h()?.matmul(&hand.w)?.to());
    }
}

fn containers<P: AutocastPrecision>() {
    let region = |x: &T, w: &T| pushed::<P>(x, w).and_then(|all| sum(&all.iter().collect::<Vec<_>>()));
    check::<P>("what is pushed", region, |_, hand| {
        let all = (0..3).map(|i| (hand.h()? * f64::from(i))?.to()).collect::<Result<Vec<T>>>()?;
        sum(&all.iter().collect::<Vec<_>>())
    });
    let region = |x: &T, w: &T| inserted::<P>(x, w).and_then(|all| sum(&[&all[&0], &all[&1], &all[&2]]));
    check::<P>("what is inserted", region, |x, hand| sum(&[&hand.h()?.to()?, x, &hand.h()?.relu()?.to()?]));
    let region = |x: &T, w: &T| pairs::<P>(x, w).and_then(|all| sum(&[&all[0].1, &all[1].1]));
    check::<P>("pairs", region, |x, hand| sum(&[&hand.h()?.to()?, x]));
    let region = |x: &T, w: &T| queued::<P>(x, w).and_then(|log| sum(&[log.last.as_ref().unwrap(), &log.seen[0]]));
    check::<P>("queues in fields", region, |_, hand| sum(&[&hand.h()?.to()?, &hand.h()?.to()?]));
    let region = |x: &T, w: &T| collected::<P>(x, w).and_then(|all| sum(&[&all[&0], &all[&1]]));
    check::<P>("a map of pairs", region, |_, hand| sum(&[&(hand.h()? * 0.0)?.to()?, &(hand.h()? * 1.0)?.to()?]));
    let region = |x: &T, w: &T| collected_of_a_list::<P>(x, w).and_then(|all| sum(&[&all[&0], &all[&1]]));
    check::<P>("a map of a list", region, |_, hand| sum(&[&hand.h()?.to()?, &hand.h()?.to()?]));
    let region = |x: &T, w: &T| made_of_a_list::<P>(x, w).and_then(|all| sum(&[&all[&0], &all[&1]]));
    check::<P>("a map made of a list", region, |x, hand| sum(&[&hand.h()?.to()?, x]));
}

fn all<P: AutocastPrecision>() {
    let _turn = alone();
    fields::<P>();
    calls::<P>();
    references::<P>();
    containers::<P>();
}

#[test]
fn in_f16() {
    all::<F16>();
}

#[test]
fn in_bf16() {
    all::<BF16>();
}

#[test]
fn in_f32() {
    all::<F32>();
}
