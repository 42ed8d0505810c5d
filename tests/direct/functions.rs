//! Calls of free functions: the library's write narrow results, somebody's own of the same name are left alone.

use super::*;
use amp::functional;
use amp::functional as F;

const SHAPES: &[&[usize]] = &[&[4, 8], &[8], &[8, 8]];
/// The second leaf is not used.
const SHAPES_OF_TWO: &[&[usize]] = &[&[4, 8], &[1], &[8, 8]];

#[autocast(P)]
fn ours<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
    let a = functional::softmax(&t[0], -1)?;
    let b = amp::functional::layer_norm(&t[0], [8], Some(&t[1]), None, EPS)?;
    use amp::functional as f;
    let c = f::relu(&F::rms_norm(&t[0], [8], Some(&t[1]), EPS)?)?;
    let w = &t[2];
    (functional::matmul(&a, w)? + functional::matmul(&b, w)?)? + c.matmul(w)?
}

fn ours_by_hand<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
    let a = t[0].softmax(-1)?;
    let b = t[0].layer_norm([8], Some(&t[1]), None, EPS)?;
    let c = t[0].rms_norm([8], Some(&t[1]), EPS)?.relu()?;
    let w = &t[2].to::<P>()?;
    let y = ((a.to::<P>()?.matmul(w)? + b.to::<P>()?.matmul(w)?)? + c.to::<P>()?.matmul(w)?)?;
    y.to()
}

/// Functions of the user's that are called like operations.
mod own {
    pub mod functional {
        use amp::prelude::*;

        pub fn softmax(x: &Tensor<F32>, axis: isize) -> Result<Tensor<F32>> {
            x.softmax(axis)? * 3.0
        }

        /// Its result is not what it would be had its input been rounded.
        pub fn relu(x: &Tensor<F32>) -> Result<Tensor<F32>> {
            (x * 1000.0)?.exp()
        }
    }
}

mod theirs {
    use super::own::functional;
    use super::*;

    #[autocast(P)]
    pub fn region<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
        let a = functional::softmax(&t[0], -1)?;
        let b = functional::relu(&t[0].softmax(-1)?)?;
        let y = a.matmul(&t[2])?;
        y + b.matmul(&t[2])?
    }

    pub fn by_hand<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
        let a = functional::softmax(&t[0], -1)?;
        let b = functional::relu(&t[0].softmax(-1)?)?;
        let w = t[2].to::<P>()?;
        let y = (a.to::<P>()?.matmul(&w)? + b.to::<P>()?.matmul(&w)?)?;
        y.to()
    }
}

/// Functions called by their bare names.
mod bare {
    use super::*;
    use amp::functional::{layer_norm, log_softmax as soft, matmul, rms_norm, softmax};

    #[autocast(P)]
    pub fn region<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
        use amp::functional::logsumexp;
        let (x, w) = (&t[0], &t[2]);
        let a = softmax(x, -1)?;
        let b = layer_norm(x, [8], Some(&t[1]), None, EPS)?;
        let mut y = (matmul(&a, w)? + matmul(&b, w)?)?;
        for step in [rms_norm(x, [8], None, EPS)?, rms_norm(x, [8], Some(&t[1]), 1.0)?] {
            y = (y + step)?;
        }
        // Its result is needed in F32 too.
        let both = softmax(&y, -1)?;
        y = (matmul(&both, w)? + &both)?;
        // Under another name it is a function like any other.
        let y = (y + soft(x, -1)?.matmul(w)?)?;
        y + logsumexp(x, -1, true)?.matmul(&t[1].unsqueeze(0)?)?
    }

    pub fn by_hand<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
        let (x, w) = (&t[0], &t[2].to::<P>()?);
        let a = x.softmax(-1)?.to::<P>()?;
        let b = x.layer_norm([8], Some(&t[1]), None, EPS)?.to::<P>()?;
        let mut y = (a.matmul(w)? + b.matmul(w)?)?.to::<F32>()?;
        for step in [x.rms_norm([8], None, EPS)?, x.rms_norm([8], Some(&t[1]), 1.0)?] {
            y = (y + step)?;
        }
        let both = y.softmax(-1)?;
        y = (both.to::<P>()?.matmul(w)?.to::<F32>()? + &both)?;
        let y = (y + x.log_softmax(-1)?.to::<P>()?.matmul(w)?.to::<F32>()?)?;
        y + x.logsumexp(-1, true)?.to::<P>()?.matmul(&t[1].unsqueeze(0)?.to::<P>()?)?.to::<F32>()?
    }
}

/// Own functions beside the library's of the same name: what is called is theirs, as it is written.
mod shadowing {
    use super::*;
    #[allow(unused_imports)] // hidden by those below
    use amp::functional::*;

    fn softmax(x: &Tensor<F32>, axis: isize) -> Result<Tensor<F32>> {
        x.softmax(axis)? * 3.0
    }

    fn log_softmax<P: AutocastPrecision>(x: &Tensor<P>, axis: isize) -> Result<Tensor<F32>> {
        x.to::<F32>()?.log_softmax(axis)? * 2.0
    }

    fn logsumexp<P: Float>(x: &Tensor<P>, steps: usize) -> Result<Tensor<P>> {
        let mut y = x.clone();
        for _ in 0..steps {
            y = (y.tanh()? * 1.7)?;
        }
        Ok(y)
    }

    fn layer_norm(x: &Tensor<F32>, _: &str) -> (Tensor<F32>, usize) {
        (x.clone(), 1)
    }

    #[autocast(P)]
    pub fn region<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
        let (x, w) = (&t[0], &t[2]);
        let y = (softmax(x, -1)?.matmul(w)? + log_softmax(x, -1)?.matmul(w)?)?;
        let z = (logsumexp(x, 3)?.matmul(w)? + layer_norm(x, "x").0.matmul(w)?)?;
        y + z
    }

    pub fn by_hand<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
        let (x, w) = (&t[0], &t[2].to::<P>()?);
        let y = (softmax(x, -1)?.to::<P>()?.matmul(w)? + log_softmax(x, -1)?.to::<P>()?.matmul(w)?)?;
        let z = (logsumexp(x, 3)?.to::<P>()?.matmul(w)? + layer_norm(x, "x").0.to::<P>()?.matmul(w)?)?;
        (y + z)?.to()
    }
}

/// All of the library's functions at once.
mod glob {
    use super::*;
    use amp::functional::*;

    #[autocast(P)]
    pub fn region<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
        let project = |x: &Tensor<F32>| linear(&group_norm(x, 2, Some(&t[1]), None, EPS)?, &t[2], None);
        match t[0].rank() {
            2 => matmul(&log_softmax(&project(&t[0])?, -1)?, &t[2]),
            _ => project(&t[0]),
        }
    }

    pub fn by_hand<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
        let w = t[2].to::<P>()?;
        let n = t[0].group_norm(2, Some(&t[1]), None, EPS)?.to::<P>()?;
        let y = n.linear(&w, None)?.to::<F32>()?.log_softmax(-1)?;
        y.to::<P>()?.matmul(&w)?.to()
    }
}

/// What a closure that is called here takes with it and gives.
#[autocast(P)]
fn moved<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
    let a = t[0].softmax(-1)?;
    let give = move || a;
    give().matmul(&t[2])
}

fn moved_by_hand<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
    let a = t[0].softmax(-1)?;
    a.to::<P>()?.matmul(&t[2].to::<P>()?)?.to()
}

fn all<P: AutocastPrecision>() {
    let _turn = alone();
    compare("a closure", SHAPES_OF_TWO, 0, moved::<P>, moved_by_hand::<P>);
    compare("bare names", SHAPES, 3, bare::region::<P>, bare::by_hand::<P>);
    compare("own bare names", SHAPES_OF_TWO, 0, shadowing::region::<P>, shadowing::by_hand::<P>);
    compare("all names", SHAPES, 2, glob::region::<P>, glob::by_hand::<P>);
    compare("functions", SHAPES, 3, ours::<P>, ours_by_hand::<P>);
    compare("functions of the user's", SHAPES_OF_TWO, 0, theirs::region::<P>, theirs::by_hand::<P>);
}

#[test]
fn in_f16() {
    all::<F16>();
}

#[test]
fn in_bf16() {
    all::<BF16>();
}
