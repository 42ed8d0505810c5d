//! `widest` operations on operands of two precisions: they meet at F32, whichever of them is narrow.

use crate::compare::{Case, device};
use amp::prelude::*;

/// `op -> result type, shape of a b c: expression;`.
macro_rules! mixed {
    ($($op:ident -> $out:ident, $shape:tt: |$x:ident, $y:ident, $z:ident| $body:expr;)*) => {
        /// Every case with a narrow first operand and with narrow others.
        pub fn all<P: AutocastPrecision>() -> Vec<Case> {
            vec![$(mixed!(@case $op $out P F32, $shape, $x $y $z, $body), mixed!(@case $op $out F32 P, $shape, $x $y $z, $body)),*]
        }
    };
    (@case $op:ident $out:ident $first:ident $rest:ident, $shape:tt, $x:ident $y:ident $z:ident, $body:expr) => {{
        #[allow(unused_variables)]
        #[autocast(P, crate = ::amp)]
        fn region<P: AutocastPrecision>(
            $x: &Tensor<$first>,
            $y: &Tensor<$rest>,
            $z: &Tensor<$rest>,
        ) -> Result<Tensor<$out>> {
            let out: Result<Tensor<$out>> = $body;
            out
        }
        #[allow(unused_variables)]
        fn by_hand($x: &Tensor<F32>, $y: &Tensor<F32>, $z: &Tensor<F32>) -> Result<Tensor<$out>> {
            $body
        }
        Case::new(
            stringify!($op),
            "widest",
            [&$shape; 3],
            |inputs| {
                let ([a, ..], [_, b, c]) = (inputs.cast::<$first>()?, inputs.cast::<$rest>()?);
                region::<P>(&a, &b, &c)
            },
            |inputs| {
                let ([a, ..], [_, b, c]) = (inputs.cast::<$first>()?, inputs.cast::<$rest>()?);
                by_hand(&a.to()?, &b.to()?, &c.to()?)
            },
        )
    }};
}

fn rows() -> Result<Tensor<I64>> {
    Tensor::from_vec(vec![2, 0, 2], [3], &device())
}

mixed! {
    add -> F32, [3, 4]: |a, b, c| a.add(b);
    sub -> F32, [3, 4]: |a, b, c| a.sub(b);
    mul -> F32, [3, 4]: |a, b, c| a.mul(b);
    div -> F32, [3, 4]: |a, b, c| a.div(b);
    dot -> F32, [4]: |a, b, c| a.dot(b);
    outer -> F32, [4]: |a, b, c| a.outer(b);
    minimum -> F32, [3, 4]: |a, b, c| a.minimum(b);
    maximum -> F32, [3, 4]: |a, b, c| a.maximum(b);
    atan2 -> F32, [3, 4]: |a, b, c| a.atan2(b);
    remainder -> F32, [3, 4]: |a, b, c| a.remainder(b);
    fmod -> F32, [3, 4]: |a, b, c| a.fmod(b);
    floor_divide -> F32, [3, 4]: |a, b, c| a.floor_divide(b);
    fmax -> F32, [3, 4]: |a, b, c| a.fmax(b);
    fmin -> F32, [3, 4]: |a, b, c| a.fmin(b);
    copysign -> F32, [3, 4]: |a, b, c| a.copysign(b);
    vdot -> F32, [4]: |a, b, c| a.vdot(b);
    inner -> F32, [3, 4]: |a, b, c| a.inner(b);
    kron -> F32, [3, 4]: |a, b, c| a.kron(b);
    tensordot -> F32, [3, 4]: |a, b, c| a.tensordot(b, 2);
    tensordot_over -> F32, [3, 4]: |a, b, c| a.tensordot_over(b, [0], [0]);
    cross -> F32, [3, 4]: |a, b, c| a.cross(b, 0);
    bilinear -> F32, [3, 3, 3]: |a, b, c| a.bilinear(b, c, None);
    grid_sample -> F32, [2, 3, 4, 2]: |a, b, c| a.grid_sample(b, amp::GridOptions::default());
    hypot -> F32, [3, 4]: |a, b, c| a.hypot(b);
    xlogy -> F32, [3, 4]: |a, b, c| a.xlogy(b);
    heaviside -> F32, [3, 4]: |a, b, c| a.heaviside(b);
    lerp -> F32, [3, 4]: |a, b, c| a.lerp(b, c);
    addcmul -> F32, [3, 4]: |a, b, c| a.addcmul(b, c, 0.5);
    addcdiv -> F32, [3, 4]: |a, b, c| a.addcdiv(b, c, 0.5);
    where_ -> F32, [3, 4]: |a, b, c| rows()?.unsqueeze(1)?.gt(1)?.where_(a, b);
    eq -> Bool, [3, 4]: |a, b, c| a.eq(b);
    ne -> Bool, [3, 4]: |a, b, c| a.ne(b);
    lt -> Bool, [3, 4]: |a, b, c| a.lt(b);
    le -> Bool, [3, 4]: |a, b, c| a.le(b);
    gt -> Bool, [3, 4]: |a, b, c| a.gt(b);
    ge -> Bool, [3, 4]: |a, b, c| a.ge(b);
    clamp_between -> F32, [3, 4]: |a, b, c| a.clamp_between(b, c);
    isin -> Bool, [3, 4]: |a, b, c| a.isin(b);
    isclose -> Bool, [3, 4]: |a, b, c| a.isclose(b, 0.1, 0.1);
    allclose -> Bool, [3, 4]: |a, b, c| Tensor::from_vec(vec![a.allclose(b, 0.1, 0.1)?], [1], &device());
    equal -> Bool, [3, 4]: |a, b, c| Tensor::from_vec(vec![a.equal(b)?], [1], &device());
    index_add -> F32, [3, 4]: |a, b, c| a.index_add(0, &rows()?, b);
    scatter_add -> F32, [3, 4]: |a, b, c| a.scatter_add(0, &rows()?.unsqueeze(1)?.expand([3, 4])?, b);
    index_copy -> F32, [3, 4]: |a, b, c| a.index_copy(0, &rows()?, b);
    index_put -> F32, [3, 4]: |a, b, c| a.index_put(&[rows()?], b);
    index_put_add -> F32, [3, 4]: |a, b, c| a.index_put_add(&[rows()?], b);
    scatter_reduce -> F32, [3, 4]:
        |a, b, c| a.scatter_reduce(0, &rows()?.unsqueeze(1)?.expand([3, 4])?, b, amp::ScatterReduce::Mean, true);
    searchsorted -> I64, [4]: |a, b, c| a.sort(0, false)?.0.searchsorted(b, false);
    bucketize -> I64, [4]: |a, b, c| a.bucketize(&b.sort(0, false)?.0, true);
    masked_scatter -> F32, [3, 4]: |a, b, c| a.masked_scatter(&rows()?.unsqueeze(1)?.gt(1)?, b);
    scatter -> F32, [3, 4]: |a, b, c| a.scatter(0, &rows()?.unsqueeze(1)?.expand([3, 4])?, b);
    cat -> F32, [3, 4]: |a, b, c| Tensor::cat(&[a, b], 0);
    meshgrid -> F32, [4]: |a, b, c| { let grids = Tensor::meshgrid(&[a, b], amp::Indexing::Ij)?; grids[0].mul(&grids[1]) };
    hstack -> F32, [3, 4]: |a, b, c| Tensor::hstack(&[a, b]);
    vstack -> F32, [3, 4]: |a, b, c| Tensor::vstack(&[a, b]);
    dstack -> F32, [3, 4]: |a, b, c| Tensor::dstack(&[a, b]);
    column_stack -> F32, [3, 4]: |a, b, c| Tensor::column_stack(&[a, b]);
    pad_sequence -> F32, [3, 4]: |a, b, c| Tensor::pad_sequence(&[a, b], 0.5);
    stack -> F32, [3, 4]: |a, b, c| Tensor::stack(&[a, b], 1);
}
