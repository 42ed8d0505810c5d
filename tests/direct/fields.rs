//! Results that a tuple or a struct holds on the way to who narrows them.

use super::*;

struct Pair<N> {
    n: N,
    other: Tensor<F32>,
}

/// Forms of `softmax` times a matrix, in which the product is what takes the shares out of a field.
macro_rules! forms {
    ($($name:ident: |$x:ident, $w:ident, $c:ident| $body:block)*) => { $(
        mod $name {
            use super::*;

            #[autocast(P)]
            fn region<P: AutocastPrecision>($x: &Tensor<F32>, $w: &Tensor<F32>, $c: bool) -> Result<Tensor<F32>> $body

            #[test]
            fn the_result_is_written_narrow() {
                let _turn = alone();
                compare(stringify!($name), SHAPES, 1, |t| region::<F16>(&t[0], &t[1], true), by_hand::<F16>);
                compare(stringify!($name), SHAPES, 1, |t| region::<BF16>(&t[0], &t[1], true), by_hand::<BF16>);
            }
        }
    )* };
}

const SHAPES: &[&[usize]] = &[&[4, 8], &[8, 8]];

fn by_hand<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
    t[0].softmax(-1)?.to::<P>()?.matmul(&t[1].to::<P>()?)?.to()
}

forms! {
    tuple: |x, w, _c| {
        let t = (x.softmax(-1)?, w);
        t.0.matmul(t.1)
    }
    nested: |x, w, _c| {
        let t = (1, (x.softmax(-1)?, w.clone()));
        let inner = t.1;
        inner.0.matmul(&inner.1)
    }
    assigned: |x, w, c| {
        let mut t = (x.clone(), 3);
        if c {
            t.0 = x.softmax(-1)?;
        }
        t.0.matmul(w)
    }
    branches: |x, w, c| {
        let t = if c { (x.softmax(-1)?, 1) } else { (x.clone(), 2) };
        t.0.matmul(w)
    }
    structure: |x, w, _c| {
        let s = Pair { n: x.softmax(-1)?, other: w.clone() };
        s.n.matmul(&s.other)
    }
    destructured: |x, w, _c| {
        let s = Pair { n: (x.softmax(-1)?, 2), other: w.clone() };
        let Pair { n: (n, _), other } = s;
        n.matmul(&other)
    }
    replaced: |x, w, _c| {
        let mut s = Pair { n: x.clone(), other: w.clone() };
        s.n = s.n.softmax(-1)?;
        s.n.matmul(&s.other)
    }
}

/// One reader of the field needs it as it is.
#[autocast(bf16)]
fn needed(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
    let s = Pair { n: t[0].softmax(-1)?, other: t[1].clone() };
    let y = s.n.matmul(&s.other)?;
    keep(&s)?.add(&y)
}

fn keep(s: &Pair<Tensor<F32>>) -> Result<Tensor<F32>> {
    s.n.mul(1.0)
}

fn needed_by_hand(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
    let n = t[0].softmax(-1)?;
    let y = n.to::<BF16>()?.matmul(&t[1].to::<BF16>()?)?;
    n.mul(1.0)?.add(&y.to::<F32>()?)
}

#[test]
fn what_reads_the_whole_needs_it_as_it_is() {
    let _turn = alone();
    compare("needed", SHAPES, 0, needed, needed_by_hand);
}
