//! Results that reach who narrows them through branches, loops, blocks and tuples.

use super::*;
use amp::nn::{LayerNorm, Linear, RmsNorm};

const SHAPES: &[&[usize]] = &[&[4, 8], &[8], &[8, 8]];

#[autocast(P)]
fn deferred<P: AutocastPrecision>(t: &[Tensor<F32>], branch: usize) -> Result<Tensor<F32>> {
    let n;
    if branch == 0 {
        n = t[0].layer_norm([8], Some(&t[1]), None, EPS)?;
    } else if branch == 1 {
        n = t[0].rms_norm([8], Some(&t[1]), EPS)?.relu()?;
    } else {
        n = (&t[0] * &t[1])?;
    }
    n.matmul(&t[2])
}

fn deferred_by_hand<P: AutocastPrecision>(t: &[Tensor<F32>], branch: usize) -> Result<Tensor<F32>> {
    let n = match branch {
        0 => t[0].layer_norm([8], Some(&t[1]), None, EPS)?,
        1 => t[0].rms_norm([8], Some(&t[1]), EPS)?.relu()?,
        _ => (&t[0] * &t[1])?,
    };
    n.to::<P>()?.matmul(&t[2].to::<P>()?)?.to()
}

#[autocast(P)]
fn chosen<P: AutocastPrecision>(t: &[Tensor<F32>], branch: usize) -> Result<Tensor<F32>> {
    let n = match branch {
        0 => {
            let n = t[0].layer_norm([8], Some(&t[1]), None, EPS)?;
            n.neg()?
        }
        1 => t[0].softmax(-1)?,
        // A branch of another precision joins at F32.
        _ => t[0].matmul(&t[2])?,
    };
    n.matmul(&t[2])
}

fn chosen_by_hand<P: AutocastPrecision>(t: &[Tensor<F32>], branch: usize) -> Result<Tensor<F32>> {
    let w = t[2].to::<P>()?;
    let n = match branch {
        0 => t[0].layer_norm([8], Some(&t[1]), None, EPS)?.neg()?,
        1 => t[0].softmax(-1)?,
        _ => t[0].to::<P>()?.matmul(&w)?.to()?,
    };
    n.to::<P>()?.matmul(&w)?.to()
}

/// What the loop hands on is narrowed by all of its readers, before and behind the loop.
#[autocast(P)]
fn carried<P: AutocastPrecision>(t: &[Tensor<F32>], count: usize) -> Result<Tensor<F32>> {
    let mut h = t[0].clone();
    let mut i = 0;
    while i < count {
        i += 1;
        let y = h.matmul(&t[2])?;
        if i == 2 {
            continue;
        }
        h = y.layer_norm([8], Some(&t[1]), None, EPS)?;
    }
    h.matmul(&t[2])
}

fn carried_by_hand<P: AutocastPrecision>(t: &[Tensor<F32>], count: usize) -> Result<Tensor<F32>> {
    let w = t[2].to::<P>()?;
    let mut h = t[0].clone();
    for i in 1..=count {
        let y = h.to::<P>()?.matmul(&w)?;
        if i != 2 {
            h = y.to::<F32>()?.layer_norm([8], Some(&t[1]), None, EPS)?;
        }
    }
    h.to::<P>()?.matmul(&w)?.to()
}

/// The sum behind the loop needs the result in F32, so the loop must not round it.
#[autocast(P)]
fn needed<P: AutocastPrecision>(t: &[Tensor<F32>], count: usize) -> Result<Tensor<F32>> {
    let mut h = t[0].clone();
    for _ in 0..count {
        h = h.matmul(&t[2])?.layer_norm([8], Some(&t[1]), None, EPS)?;
    }
    h.matmul(&t[2])? + h
}

fn needed_by_hand<P: AutocastPrecision>(t: &[Tensor<F32>], count: usize) -> Result<Tensor<F32>> {
    let w = t[2].to::<P>()?;
    let mut h = t[0].clone();
    for _ in 0..count {
        h = h.to::<P>()?.matmul(&w)?.to::<F32>()?.layer_norm([8], Some(&t[1]), None, EPS)?;
    }
    h.to::<P>()?.matmul(&w)?.to::<F32>()? + h
}

/// The value of a loop, of a labelled block and of a tuple.
#[autocast(P)]
fn values<P: AutocastPrecision>(t: &[Tensor<F32>], count: usize) -> Result<Tensor<F32>> {
    let mut i = 0;
    let n = loop {
        if i == count {
            break t[0].softmax(-1)?;
        }
        i += 1;
    };
    let m = 'found: {
        if count == 0 {
            break 'found t[0].softmax(0)?;
        }
        t[0].log_softmax(-1)?
    };
    let (a, b) = {
        let l = t[0].layer_norm([8], None, None, EPS)?;
        (n, l)
    };
    let y = (a.matmul(&t[2])? + m.matmul(&t[2])?)?;
    (y + b.matmul(&t[2])?)? * &t[1]
}

fn values_by_hand<P: AutocastPrecision>(t: &[Tensor<F32>], count: usize) -> Result<Tensor<F32>> {
    let w = t[2].to::<P>()?;
    let n = t[0].softmax(-1)?;
    let m = if count == 0 { t[0].softmax(0)? } else { t[0].log_softmax(-1)? };
    let l = t[0].layer_norm([8], None, None, EPS)?;
    let y = (n.to::<P>()?.matmul(&w)? + m.to::<P>()?.matmul(&w)?)?;
    let y = (y + l.to::<P>()?.matmul(&w)?)?;
    y.to::<F32>()? * &t[1]
}

/// Elements of tuples join at F32 one by one; what stands behind `..` is the last element.
#[autocast(P)]
fn tuples<P: AutocastPrecision>(t: &[Tensor<F32>], branch: usize) -> Result<Tensor<F32>> {
    let (x, .., w) = (&t[0], branch, &t[2]);
    let (a, b) = if branch == 0 { (x.matmul(w)?, x.softmax(-1)?) } else { (x.log_softmax(-1)?, x.matmul(w)?) };
    let (a, b): (Tensor<F32>, Tensor<F32>) = (a, b);
    (a + b)? * &t[1]
}

fn tuples_by_hand<P: AutocastPrecision>(t: &[Tensor<F32>], branch: usize) -> Result<Tensor<F32>> {
    let product = t[0].to::<P>()?.matmul(&t[2].to::<P>()?)?.to::<F32>()?;
    let other = if branch == 0 { t[0].softmax(-1)? } else { t[0].log_softmax(-1)? };
    (product + other)? * &t[1]
}

fn all<P: AutocastPrecision>() {
    let _turn = alone();
    for branch in [0, 1] {
        compare("tuples", SHAPES, 0, |t| tuples::<P>(t, branch), |t| tuples_by_hand::<P>(t, branch));
    }
    for (branch, fewer) in [(0, 1), (1, 1), (2, 0)] {
        compare("deferred", SHAPES, fewer, |t| deferred::<P>(t, branch), |t| deferred_by_hand::<P>(t, branch));
        compare("chosen", SHAPES, fewer, |t| chosen::<P>(t, branch), |t| chosen_by_hand::<P>(t, branch));
    }
    for (count, fewer) in [(0, 0), (1, 1), (3, 2)] {
        compare("carried", SHAPES, fewer, |t| carried::<P>(t, count), |t| carried_by_hand::<P>(t, count));
        compare("needed", SHAPES, 0, |t| needed::<P>(t, count), |t| needed_by_hand::<P>(t, count));
        compare("values", SHAPES, 3, |t| values::<P>(t, count), |t| values_by_hand::<P>(t, count));
    }
}

#[test]
fn in_f16() {
    all::<F16>();
}

#[test]
fn in_bf16() {
    all::<BF16>();
}

mod modules {
    use super::*;

    #[derive(Module)]
    struct Layer {
        fc: Linear,
        norm: LayerNorm,
    }

    #[derive(Module)]
    struct Net {
        layers: Vec<Layer>,
        squares: RmsNorm,
        head: Linear,
    }

    impl Net {
        fn new() -> Result<Self> {
            amp::manual_seed(5);
            let device = &Device::cpu();
            let layer = || Ok(Layer { fc: Linear::new(8, 8, device)?, norm: LayerNorm::new([8], device)? });
            Ok(Self {
                layers: (0..3).map(|_| layer()).collect::<Result<_>>()?,
                squares: RmsNorm::new([8], device)?,
                head: Linear::new(8, 8, device)?,
            })
        }

        #[autocast(P)]
        fn forward<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
            let mut h = x.clone();
            for layer in &self.layers {
                let y = layer.fc.forward(&h)?;
                h = layer.norm.forward(&y)?;
            }
            self.head.forward(&h)
        }

        fn forward_by_hand<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
            let mut h = x.clone();
            for layer in &self.layers {
                h = layer.norm.forward(&layer.fc.forward(&h.to::<P>()?)?)?;
            }
            self.head.forward(&h.to::<P>()?)?.to()
        }

        #[autocast(P)]
        fn chosen<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
            let h = if x.rank() == 2 { self.squares.forward(x)? } else { self.layers[0].norm.forward(x)? };
            self.head.forward(&h)
        }

        fn chosen_by_hand<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
            self.head.forward(&self.squares.forward(x)?.to::<P>()?)?.to()
        }
    }

    fn all<P: AutocastPrecision>() {
        let _turn = alone();
        let (a, b) = (Net::new().unwrap(), Net::new().unwrap());
        compare("layers", &[&[4, 8]], 3, |t| a.forward::<P>(&t[0]), |t| b.forward_by_hand::<P>(&t[0]));
        compare("chosen", &[&[4, 8]], 1, |t| a.chosen::<P>(&t[0]), |t| b.chosen_by_hand::<P>(&t[0]));
    }

    #[test]
    fn in_f16() {
        all::<F16>();
    }

    #[test]
    fn in_bf16() {
        all::<BF16>();
    }
}
