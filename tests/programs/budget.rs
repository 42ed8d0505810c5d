//! Casts that cost something are counted by the types of the modules that might make them.

use super::{T, bits, random};
use amp::nn::*;
use amp::prelude::*;

struct Norms {
    layer: LayerNorm,
    batch: BatchNorm1d,
    act: Relu,
    drop: Dropout,
    list: Vec<LayerNorm>,
    maybe: Option<Box<RmsNorm>>,
    own: Own,
    head: Linear,
    square: Linear,
}

struct Own;

impl Own {
    fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        x.relu()
    }
}

#[autocast(f16, max_casts = 0)]
fn norm(n: &LayerNorm, x: &T) -> Result<T> {
    n.forward(x)
}

#[autocast(bf16, max_casts = 0)]
fn by_value(n: Relu, x: T) -> Result<T> {
    n.forward(&x)?.exp()
}

#[autocast(P, max_casts = 0)]
fn generic<P: AutocastPrecision>(n: &Norms, x: &Tensor<F32>) -> Result<T> {
    let h = n.layer.forward(x)?;
    let h = n.act.forward(&n.drop.forward(&h)?)?;
    let mut h = n.own.forward(&h)?;
    for layer in &n.list {
        h = layer.forward(&h)?;
    }
    if let Some(norm) = &n.maybe {
        h = norm.forward(&h)?;
    }
    Ok(h)
}

impl Norms {
    #[autocast(f16, max_casts = 1)]
    fn forward(&self, x: &Tensor<F32>) -> Result<T> {
        let all = self.list.iter().map(|n| n.forward(x)).collect::<Result<Vec<_>>>()?;
        let two = |h: &T| self.act.forward(h);
        let h = two(&all[0])?;
        let h = self.batch.forward(&h)?;
        self.head.forward(&h)
    }

    #[autocast(f16, enabled = on, max_casts = 1)]
    fn switched(&self, x: &Tensor<F32>, on: bool) -> Result<T> {
        self.head.forward(&self.own.forward(&self.layer.forward(x)?)?)
    }

    #[autocast(f16, max_casts = 3)]
    async fn later(&self, x: &Tensor<F32>, w: &Tensor<F32>) -> Result<T> {
        let h = async { self.layer.forward(x) }.await?;
        let h = async move { self.head.forward(&h) }.await?;
        h.exp()?.matmul(w)
    }
}

fn own(x: &Tensor<F16>) -> Result<Tensor<F16>> {
    x.relu()
}

/// Layers on what layers and functions gave, which is narrow already.
impl Norms {
    #[autocast(f16, max_casts = 1)]
    fn chained(&self, x: &Tensor<F32>) -> Result<T> {
        let h = self.head.forward(x)?;
        let (q, k) = (self.square.forward(&h)?, self.square.forward(&own(&h)?)?);
        q.matmul(&k.t()?)
    }

    #[autocast(P, max_casts = 1)]
    fn nested<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<T> {
        self.square.forward(&self.head.forward(x)?)
    }

    #[autocast(bf16, max_casts = 2)]
    fn looped(&self, x: &Tensor<F32>, w: &Tensor<F32>) -> Result<T> {
        let h = self.head.forward(x)?;
        let mut sum = h.matmul(w)?;
        for _ in 0..2 {
            sum = (sum + h.linear(w, None)?)?;
        }
        Ok(sum)
    }
}

/// A region in both bodies of one that a condition switches on is counted once.
#[autocast(f16, max_casts = 0)]
fn in_both_bodies(n: &LayerNorm, x: &T, on: bool) -> Result<T> {
    let y = amp_region!(f16, enabled = on, { amp_region!(bf16, n.forward(x)?) });
    Ok(y)
}

fn in_both_of_a_region(fc: &Linear, n: &LayerNorm, x: &T, on: bool) -> Result<T> {
    let y = amp_region!(f16, enabled = on, max_casts = 1, {
        assert_eq!(fc.forward(x)?.rank(), 2);
        amp_region!(bf16, n.forward(x)?)
    });
    Ok(y)
}

#[test]
fn budgets_count_modules_that_narrow() -> Result<()> {
    let cpu = Device::cpu();
    let (x, n) = (random([4, 4])?, LayerNorm::new(4, &cpu)?);
    assert_eq!(norm(&n, &x)?.to_vec()?, n.forward(&x)?.to_vec()?);
    assert_eq!(by_value(Relu, x.clone())?.to_vec()?, x.relu()?.exp()?.to_vec()?);
    let norms = Norms {
        layer: LayerNorm::new(4, &cpu)?,
        batch: BatchNorm1d::new(4, &cpu)?,
        act: Relu,
        drop: Dropout::new(0.0),
        list: vec![LayerNorm::new(4, &cpu)?],
        maybe: Some(Box::new(RmsNorm::new(4, &cpu)?)),
        own: Own,
        head: Linear::new(4, 2, &cpu)?,
        square: Linear::new(2, 2, &cpu)?,
    };
    assert_eq!(generic::<BF16>(&norms, &x)?.dims(), [4, 4]);
    assert_eq!(norms.forward(&x)?.dims(), [4, 2]);
    assert_eq!(norms.switched(&x, true)?.dims(), [4, 2]);
    assert_eq!(norms.chained(&x)?.dims(), [4, 4]);
    assert_eq!(norms.nested::<BF16>(&x)?.dims(), [4, 2]);
    assert_eq!(norms.looped(&x, &random([2, 2])?)?.dims(), [4, 2]);
    for on in [false, true] {
        assert_eq!(bits(&in_both_bodies(&n, &x, on)?), bits(&n.forward(&x)?));
        let fc = Linear::new(4, 4, &cpu)?;
        assert_eq!(bits(&in_both_of_a_region(&fc, &n, &x, on)?), bits(&n.forward(&x)?));
    }
    let region = amp_region!(f16, max_casts = 1, { norms.head.forward(&norms.act.forward(&x)?)? });
    assert_eq!(region.dims(), [4, 2]);
    Ok(())
}
