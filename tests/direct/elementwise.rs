//! Element-wise operations and sums that need full precision.

use super::*;

const SHAPES: &[&[usize]] = &[&[4, 8], &[8], &[8, 8]];

/// Tests of one operation: its name, and the region and the twin that apply it to a positive value.
macro_rules! operations {
    ($($name:ident: |$x:ident, $y:ident| $apply:expr;)*) => { $(
        mod $name {
            use super::*;

            #[autocast(P)]
            fn region<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
                let ($x, $y) = (&positive(&t[0])?, &positive(&t[1])?);
                let n = $apply;
                let m = n.matmul(&t[2])?;
                Ok(m)
            }

            fn by_hand<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
                let ($x, $y) = (&positive(&t[0])?, &positive(&t[1])?);
                let n = $apply;
                n.to::<P>()?.matmul(&t[2].to::<P>()?)?.to()
            }

            #[test]
            fn writes_what_a_cast_would() {
                let _turn = alone();
                compare(stringify!($name), SHAPES, 1, region::<F16>, by_hand::<F16>);
                compare(stringify!($name), SHAPES, 1, region::<BF16>, by_hand::<BF16>);
            }
        }
    )* };
}

/// The same for every region: `|x| + 0.1`, without a cast.
#[amp_op(keep)]
fn positive(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.abs()? + 0.1
}

operations! {
    exp: |x, _y| x.exp()?;
    expm1: |x, _y| x.expm1()?;
    log: |x, _y| x.log()?;
    log1p: |x, _y| x.log1p()?;
    log2: |x, _y| x.log2()?;
    recip: |x, _y| x.recip()?;
    rsqrt: |x, _y| x.rsqrt()?;
    sqr: |x, _y| x.sqr()?;
    power: |x, _y| x.pow(3.0)?;
    root: |x, _y| x.pow(-0.5)?;
    pow: |x, y| x.pow(y)?;
    softplus: |x, _y| x.softplus()?;
    softplus_with: |x, _y| x.softplus_with(2.0, 1.0)?;
    sum: |x, _y| x.sum(0, true)?;
    mean: |x, _y| x.reshape([2, 2, 8])?.mean(1, false)?;
}
