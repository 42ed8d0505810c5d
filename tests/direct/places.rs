//! Modules that are reached by an index, an iterator, a pattern or a local reference.

use super::*;
use amp::nn::{LayerNorm, Linear};

#[derive(Module)]
struct Block {
    norm: LayerNorm,
    fc: Linear,
}

#[derive(Module)]
struct Net {
    norms: Vec<LayerNorm>,
    lins: Vec<Linear>,
    blocks: Vec<Block>,
    norm: Option<LayerNorm>,
    boxed: Box<LayerNorm>,
    fc: Box<Linear>,
    array: [LayerNorm; 2],
}

impl Net {
    fn new() -> Result<Self> {
        let device = &Device::cpu();
        let norm = || LayerNorm::new([8], device);
        let fc = || {
            amp::manual_seed(4);
            Linear::new(8, 8, device)
        };
        let block = || Ok(Block { norm: norm()?, fc: fc()? });
        Ok(Self {
            norms: vec![norm()?, norm()?],
            lins: vec![fc()?, fc()?],
            blocks: vec![block()?, block()?],
            norm: Some(norm()?),
            boxed: Box::new(norm()?),
            fc: Box::new(fc()?),
            array: [norm()?, norm()?],
        })
    }
}

/// Forward functions of two layers, each a norm and a product that narrows its result.
macro_rules! forms {
    ($($name:ident: |$net:ident, $x:ident, $i:ident| { $($body:tt)* })*) => { $(
        mod $name {
            use super::*;

            #[autocast(P)]
            fn region<P: AutocastPrecision>($net: &Net, $x: &Tensor<F32>, $i: usize) -> Result<Tensor<F32>> { $($body)* }

            #[test]
            fn norms_write_narrow_results() {
                let _turn = alone();
                let (a, b) = (Net::new().unwrap(), Net::new().unwrap());
                compare(stringify!($name), &[&[4, 8]], 2, |t| region::<F16>(&a, &t[0], 0), |t| by_hand::<F16>(&b, &t[0]));
                compare(stringify!($name), &[&[4, 8]], 2, |t| region::<BF16>(&a, &t[0], 0), |t| by_hand::<BF16>(&b, &t[0]));
            }
        }
    )* };
}

/// The twin of all of them, up to which layers are taken: all are alike.
fn by_hand<P: AutocastPrecision>(net: &Net, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h = net.lins[0].forward(&net.norms[0].forward(x)?.to::<P>()?)?.to::<F32>()?;
    net.lins[1].forward(&net.norms[1].forward(&h)?.to::<P>()?)?.to()
}

forms! {
    index: |net, x, _i| {
        let h = net.lins[0].forward(&net.norms[0].forward(x)?)?;
        net.lins[1].forward(&net.norms[1].forward(&h)?)
    }
    index_of_a_variable: |net, x, i| {
        let h = net.norms[i].forward(x)?;
        let h = net.lins[i].forward(&h)?;
        let h = net.norms[i + 1].forward(&h)?;
        net.lins[i + 1].forward(&h)
    }
    range: |net, x, _i| {
        let mut h = x.clone();
        for i in 0..2 {
            let n = net.norms[i].forward(&h)?;
            h = net.lins[i].forward(&n)?;
        }
        Ok(h)
    }
    local: |net, x, i| {
        let norm = &net.norms[i];
        let h = norm.forward(x)?;
        let fc = &net.lins[i];
        let h = fc.forward(&h)?;
        let norm = &net.norms[1];
        let n = norm.forward(&h)?;
        let fc = &net.lins[1];
        fc.forward(&n)
    }
    zip: |net, x, _i| {
        let mut h = x.clone();
        for (norm, lin) in net.norms.iter().zip(&net.lins) {
            let n = norm.forward(&h)?;
            h = lin.forward(&n)?;
        }
        Ok(h)
    }
    enumerate: |net, x, _i| {
        let mut h = x.clone();
        for (i, norm) in net.norms.iter().enumerate() {
            let n = norm.forward(&h)?;
            h = net.lins[i].forward(&n)?;
        }
        Ok(h)
    }
    blocks: |net, x, _i| {
        let mut h = x.clone();
        for block in &net.blocks {
            h = block.fc.forward(&block.norm.forward(&h)?)?;
        }
        Ok(h)
    }
    destructured: |net, x, _i| {
        let mut h = x.clone();
        for Block { norm, fc } in &net.blocks {
            h = fc.forward(&norm.forward(&h)?)?;
        }
        Ok(h)
    }
    first: |net, x, _i| {
        let mut h = x.clone();
        if let Some(block) = net.blocks.first() {
            h = block.fc.forward(&block.norm.forward(&h)?)?;
        }
        let last = net.blocks.last().unwrap();
        let n = last.norm.forward(&h)?;
        last.fc.forward(&n)
    }
    methods: |net, x, _i| {
        let h = net.blocks[0].norm.forward(x)?;
        let h = net.blocks.first().unwrap().fc.forward(&h)?;
        let n = net.norms.get(1).unwrap().forward(&h)?;
        net.lins.last().unwrap().forward(&n)
    }
    option: |net, x, _i| {
        let mut h = x.clone();
        for fc in &net.lins {
            if let Some(norm) = &net.norm {
                h = norm.forward(&h)?;
            }
            h = fc.forward(&h)?;
        }
        Ok(h)
    }
    option_by_match: |net, x, _i| {
        let mut h = x.clone();
        for fc in &net.lins {
            let n = match &net.norm {
                Some(norm) => norm.forward(&h)?,
                None => h.clone(),
            };
            h = fc.forward(&n)?;
        }
        Ok(h)
    }
    pointers: |net, x, _i| {
        let n = net.boxed.forward(x)?;
        let h = net.fc.forward(&n)?;
        let n = net.boxed.as_ref().forward(&h)?;
        net.lins.as_slice()[1].forward(&n)
    }
    later: |net, x, _i| {
        let mut n = net.norms[0].forward(x)?;
        for i in 0..2 {
            let h = net.lins[i].forward(&n)?;
            if i == 1 {
                return Ok(h);
            }
            n = net.norms[1].forward(&h)?;
        }
        unreachable!()
    }
    carried: |net, x, _i| {
        let mut n = net.norms[0].forward(x)?;
        for (i, fc) in net.lins.iter().enumerate() {
            let h = fc.forward(&n)?;
            if i == 1 {
                return Ok(h);
            }
            n = net.array[1].forward(&h)?;
        }
        unreachable!()
    }
    helper: |net, x, _i| {
        let layer = |h: &Tensor<F32>, i: usize| -> Result<Tensor<F32>> {
            let n = net.norms[i].forward(h)?;
            net.lins[i].forward(&n)
        };
        let h = layer(x, 0)?;
        layer(&h, 1)
    }
    iterators: |net, x, _i| {
        net.norms.iter().zip(&net.lins).try_fold(x.clone(), |h, (norm, fc)| fc.forward(&norm.forward(&h)?))
    }
    one_norm_for_all: |net, x, _i| {
        let norm = net.norm.as_ref().unwrap();
        let h = net.lins[0].forward(&norm.forward(x)?)?;
        let Some(norm) = &net.norm else { return Ok(h) };
        net.lins[1].forward(&norm.forward(&h)?)
    }
}
