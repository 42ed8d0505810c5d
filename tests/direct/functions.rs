//! Calls of free functions: the library's write narrow results, somebody's own of the same name are left alone.

use super::*;
use amp::functional;
use amp::functional as F;

const SHAPES: &[&[usize]] = &[&[4, 8], &[8], &[8, 8]];

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

fn all<P: AutocastPrecision>() {
    let _turn = alone();
    compare("functions", SHAPES, 3, ours::<P>, ours_by_hand::<P>);
    compare("functions of the user's", &[&[4, 8], &[1], &[8, 8]], 0, theirs::region::<P>, theirs::by_hand::<P>);
}

#[test]
fn in_f16() {
    all::<F16>();
}

#[test]
fn in_bf16() {
    all::<BF16>();
}
