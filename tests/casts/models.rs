//! Forward functions of common models.

use super::*;

#[derive(Module)]
struct Net {
    n1: LayerNorm,
    n2: LayerNorm,
    q: Linear,
    k: Linear,
    v: Linear,
    o: Linear,
    up: Linear,
    down: Linear,
    drop: Dropout,
    conv1: Conv2d,
    conv2: Conv2d,
    bn1: BatchNorm2d,
    bn2: BatchNorm2d,
    gn: GroupNorm,
    pool: MaxPool2d,
    table: Embedding,
    post: Option<LayerNorm>,
    layers: Vec<(LayerNorm, Linear)>,
}

fn net() -> Net {
    amp::manual_seed(11);
    let d = &Device::cpu();
    let lin = |i, o| Linear::new(i, o, d).unwrap();
    let norm = || LayerNorm::new([8], d).unwrap();
    Net {
        n1: norm(),
        n2: norm(),
        q: lin(8, 8),
        k: lin(8, 8),
        v: lin(8, 8),
        o: lin(8, 8),
        up: lin(8, 16),
        down: lin(16, 8),
        drop: Dropout::new(0.0),
        conv1: Conv2d::new(2, 4, 3, d).unwrap().padding(1),
        conv2: Conv2d::new(4, 2, 3, d).unwrap().padding(1),
        bn1: BatchNorm2d::new(4, d).unwrap(),
        bn2: BatchNorm2d::new(2, d).unwrap(),
        gn: GroupNorm::new(2, 4, d).unwrap(),
        pool: MaxPool2d::new(2),
        table: Embedding::new(10, 8, d).unwrap(),
        post: Some(norm()),
        layers: vec![(norm(), lin(8, 8)), (norm(), lin(8, 8))],
    }
}

/// One test a program: how many casts the region saves against the twin beneath it, in which `H` is the precision.
macro_rules! programs {
    ($($name:ident, $shape:expr, $fewer:expr, |$m:ident, $x:ident| { $($region:tt)* } by_hand { $($hand:tt)* })*) => { $(
        mod $name {
            use super::*;

            #[autocast(H)]
            fn region<H: AutocastPrecision>($m: &Net, $x: &T) -> Result<T> { $($region)* }

            fn by_hand<H: AutocastPrecision>($m: &Net, $x: &T) -> Result<T> { $($hand)* }

            #[test]
            fn is_cast_as_by_hand() {
                let _turn = alone();
                let nets = [net(), net(), net(), net()];
                compare(stringify!($name), &$shape, $fewer, |x| region::<BF16>(&nets[0], x), |x| by_hand::<BF16>(&nets[1], x));
                compare(stringify!($name), &$shape, $fewer, |x| region::<F16>(&nets[2], x), |x| by_hand::<F16>(&nets[3], x));
            }
        }
    )* };
}

programs! {
    transformer_block, [4, 8], 3, |m, x| {
        let n = m.n1.forward(x)?;
        let (q, k, v) = (m.q.forward(&n)?, m.k.forward(&n)?, m.v.forward(&n)?);
        let s = (q.matmul(&k.t()?)? * 0.35)?;
        let a = s.softmax(-1)?.matmul(&v)?;
        let x = (x + m.drop.forward(&m.o.forward(&a)?)?)?;
        let h = m.up.forward(&m.n2.forward(&x)?)?.gelu()?;
        &x + m.down.forward(&h)?
    } by_hand {
        let n = m.n1.forward(x)?.to::<H>()?;
        let (q, k, v) = (m.q.forward(&n)?, m.k.forward(&n)?, m.v.forward(&n)?);
        let s = (q.matmul(&k.t()?)? * 0.35)?;
        let a = s.to::<F32>()?.softmax(-1)?.to::<H>()?.matmul(&v)?;
        let x = (x + m.drop.forward(&m.o.forward(&a)?)?.to::<F32>()?)?;
        let h = m.up.forward(&m.n2.forward(&x)?.to::<H>()?)?.gelu()?;
        &x + m.down.forward(&h)?.to::<F32>()?
    }
    post_norm, [4, 8], 1, |m, x| {
        let h = m.o.forward(x)?;
        let y = m.n1.forward(&(x + &h)?)?;
        let z = m.down.forward(&m.up.forward(&y)?.relu()?)?;
        m.q.forward(&m.n2.forward(&(&y + &z)?)?)
    } by_hand {
        let h = m.o.forward(&x.to::<H>()?)?;
        let y = m.n1.forward(&(x + &h.to::<F32>()?)?)?;
        let z = m.down.forward(&m.up.forward(&y.to::<H>()?)?.relu()?)?;
        m.q.forward(&m.n2.forward(&(&y + &z.to::<F32>()?)?)?.to::<H>()?)?.to()
    }
    residual_stream, [4, 8], 2, |m, x| {
        let mut h = x.clone();
        for (norm, fc) in &m.layers {
            h = (&h + fc.forward(&norm.forward(&h)?)?)?;
        }
        Ok(h)
    } by_hand {
        let mut h = x.clone();
        for (norm, fc) in &m.layers {
            h = (&h + fc.forward(&norm.forward(&h)?.to::<H>()?)?.to::<F32>()?)?;
        }
        Ok(h)
    }
    residual_by_assignment, [4, 8], 2, |m, x| {
        let mut h = x.clone();
        for layer in m.layers.iter() {
            let residual = h.clone();
            h = layer.0.forward(&h)?;
            h = layer.1.forward(&h)?;
            h = (h + residual)?;
        }
        Ok(h)
    } by_hand {
        let mut h = x.clone();
        for layer in m.layers.iter() {
            let n = layer.0.forward(&h)?.to::<H>()?;
            h = (layer.1.forward(&n)?.to::<F32>()? + h)?;
        }
        Ok(h)
    }
    folded, [4, 8], 2, |m, x| {
        m.layers.iter().try_fold(x.clone(), |h, (norm, fc)| &h + fc.forward(&norm.forward(&h)?)?)
    } by_hand {
        m.layers.iter().try_fold(x.clone(), |h, (norm, fc)| {
            &h + fc.forward(&norm.forward(&h)?.to::<H>()?)?.to::<F32>()?
        })
    }
    conv_bn_relu, [2, 2, 4, 4], 1, |m, x| {
        let h = m.bn1.forward(&m.conv1.forward(x)?)?.relu()?;
        let h = m.bn2.forward(&m.conv2.forward(&h)?)?;
        (h + x)?.relu()
    } by_hand {
        let h = m.bn1.forward(&m.conv1.forward(&x.to::<H>()?)?)?.relu()?;
        let h = m.bn2.forward(&m.conv2.forward(&h.to::<H>()?)?)?;
        (h + x)?.relu()
    }
    helper_closure, [2, 2, 4, 4], 0, |m, x| {
        let block = |conv: &Conv2d, bn: &BatchNorm2d, x: &T| -> Result<T> { bn.forward(&conv.forward(x)?)?.relu() };
        let h = block(&m.conv1, &m.bn1, x)?;
        block(&m.conv2, &m.bn2, &h)
    } by_hand {
        let block = |conv: &Conv2d, bn: &BatchNorm2d, x: &T| bn.forward(&conv.forward(&x.to::<H>()?)?)?.relu();
        let h = block(&m.conv1, &m.bn1, x)?;
        block(&m.conv2, &m.bn2, &h)
    }
    group_norm_silu, [2, 2, 4, 4], 0, |m, x| {
        let h = m.conv1.forward(x)?;
        m.conv2.forward(&m.gn.forward(&h)?.silu()?)
    } by_hand {
        let h = m.conv1.forward(&x.to::<H>()?)?;
        m.conv2.forward(&m.gn.forward(&h)?.silu()?.to::<H>()?)?.to()
    }
    recurrent, [3, 8], 0, |m, x| {
        let mut h: Option<T> = None;
        for t in 0..3 {
            let step = x.narrow(0, t, 1)?;
            let z = m.q.forward(&step)?;
            let z = match &h {
                Some(h) => (z + m.k.forward(h)?)?,
                None => z,
            };
            h = Some(z.tanh()?.to::<F32>()?);
        }
        h.unwrap().reshape([8])
    } by_hand {
        let mut h: Option<T> = None;
        for t in 0..3 {
            let step = x.narrow(0, t, 1)?;
            let z = m.q.forward(&step.to::<H>()?)?;
            let z = match &h {
                Some(h) => (z + m.k.forward(&h.to::<H>()?)?)?,
                None => z,
            };
            h = Some(z.tanh()?.to::<F32>()?);
        }
        h.unwrap().reshape([8])
    }
    gated, [4, 8], 1, |m, x| {
        let n = m.n1.forward(x)?;
        let gate = m.q.forward(&n)?.sigmoid()?;
        m.o.forward(&(gate * m.v.forward(&n)?)?)
    } by_hand {
        let n = m.n1.forward(x)?.to::<H>()?;
        let gate = m.q.forward(&n)?.sigmoid()?;
        m.o.forward(&(gate * m.v.forward(&n)?)?)?.to()
    }
    weighted_pool, [4, 8], 1, |m, x| {
        let weights = m.q.forward(x)?.softmax(0)?;
        let pooled = weights.t()?.matmul(x)?;
        m.o.forward(&pooled)
    } by_hand {
        let x = x.to::<H>()?;
        let weights = m.q.forward(&x)?.to::<F32>()?.softmax(0)?.t()?.to::<H>()?;
        let pooled = weights.matmul(&x)?;
        m.o.forward(&pooled)?.to()
    }
    loss, [4, 8], 1, |m, x| {
        let logits = m.q.forward(&m.n1.forward(x)?)?;
        let labels = Tensor::<amp::I64>::from_vec(vec![1_i64, 0, 7, 3], [4], &Device::cpu())?;
        let loss = logits.cross_entropy(&labels)?;
        loss + (logits.sqr()?.mean_all()? * 0.1)?
    } by_hand {
        let logits = m.q.forward(&m.n1.forward(x)?.to::<H>()?)?.to::<F32>()?;
        let labels = Tensor::<amp::I64>::from_vec(vec![1_i64, 0, 7, 3], [4], &Device::cpu())?;
        logits.cross_entropy(&labels)? + (logits.sqr()?.mean_all()? * 0.1)?
    }
    optional_norm, [4, 8], 2, |m, x| {
        let mut h = m.n1.forward(x)?;
        h = m.q.forward(&h)?;
        if let Some(norm) = m.post.as_ref() {
            h = norm.forward(&h)?;
        }
        m.o.forward(&h)
    } by_hand {
        let h = m.q.forward(&m.n1.forward(x)?.to::<H>()?)?;
        m.o.forward(&m.post.as_ref().unwrap().forward(&h)?.to::<H>()?)?.to()
    }
    logits_scaled_by_norms, [4, 8], 1, |m, x| {
        let x = x.normalize(2.0, 1, 1e-12)?;
        let similar = x.matmul(&x.t()?)?;
        similar.matmul(&m.q.forward(&x)?)
    } by_hand {
        let unit = x.normalize(2.0, 1, 1e-12)?;
        let x = unit.to::<H>()?;
        let similar = x.matmul(&unit.t()?.to::<H>()?)?;
        similar.matmul(&m.q.forward(&x)?)?.to()
    }
    heads, [4, 8], 2, |m, x| {
        let n = m.n1.forward(x)?;
        let split = |h: Tensor<H>| h.reshape([4, 2, 4])?.transpose(0, 1);
        let (q, k, v) = (split(m.q.forward(&n)?)?, split(m.k.forward(&n)?)?, split(m.v.forward(&n)?)?);
        let p = q.matmul(&k.transpose(1, 2)?)?.softmax(-1)?;
        m.o.forward(&p.matmul(&v)?.transpose(0, 1)?.reshape([4, 8])?)
    } by_hand {
        let n = m.n1.forward(x)?.to::<H>()?;
        let split = |h: Tensor<H>| h.reshape([4, 2, 4])?.transpose(0, 1);
        let (q, k, v) = (split(m.q.forward(&n)?)?, split(m.k.forward(&n)?)?, split(m.v.forward(&n)?)?);
        let p = q.matmul(&k.transpose(1, 2)?)?.to::<F32>()?.softmax(-1)?.to::<H>()?;
        m.o.forward(&p.matmul(&v)?.transpose(0, 1)?.reshape([4, 8])?)?.to()
    }
    mixture, [4, 8], 2, |m, x| {
        let n = m.n1.forward(x)?;
        let gates = m.q.forward(&n)?.softmax(-1)?;
        let experts: Vec<_> = [&m.k, &m.v].into_iter().map(|fc| fc.forward(&n)).collect::<Result<_>>()?;
        let all = (&experts[0] + &experts[1])?;
        gates.matmul(&all.t()?)
    } by_hand {
        let n = m.n1.forward(x)?.to::<H>()?;
        let gates = m.q.forward(&n)?.to::<F32>()?.softmax(-1)?.to::<H>()?;
        let experts: Vec<_> = [&m.k, &m.v].into_iter().map(|fc| fc.forward(&n)).collect::<Result<_>>()?;
        let all = (&experts[0] + &experts[1])?;
        gates.matmul(&all.t()?)?.to()
    }
    clamped, [4, 8], 1, |m, x| {
        let n = m.n1.forward(x)?;
        let n = if n.rank() > 1 { n.reshape([2, 2, 8])?.flatten(0, 1)? } else { n };
        let y = m.q.forward(&n)?;
        y.clamp(-1.0, 1.0)
    } by_hand {
        let n = m.n1.forward(x)?.reshape([2, 2, 8])?.flatten(0, 1)?.to::<H>()?;
        m.q.forward(&n)?.clamp(-1.0, 1.0)?.to()
    }
    shared_input, [4, 8], 0, |m, x| {
        let a = m.q.forward(x)?;
        let b = m.k.forward(x)?;
        let c = x.matmul(&b.t()?)?;
        c.matmul(&a)
    } by_hand {
        let x = x.to::<H>()?;
        let (a, b) = (m.q.forward(&x)?, m.k.forward(&x)?);
        x.matmul(&b.t()?)?.matmul(&a)?.to()
    }
}
