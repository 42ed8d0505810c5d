//! Every `full` operation of the policy table.

use super::*;
use amp_policy::Class;
use std::collections::BTreeSet;

const SHAPES: &[&[usize]] = &[&[4, 8], &[8], &[8, 8]];

/// Tests of one operation each: its name, and the region and the twin that apply it to positive values. What follows the
/// operation in the expression moves elements, or repeats them, so that they can be multiplied by a matrix of 8 rows.
macro_rules! operations {
    ($($name:ident: $op:ident, |$x:ident, $y:ident| $apply:expr;)*) => {
        const TESTED: &[&str] = &[$(stringify!($op)),*];

        $(
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
        )*
    };
}

/// The same for every region: `|x| + 0.1`, without a cast.
#[amp_op(keep)]
fn positive(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.abs()? + 0.1
}

operations! {
    exp: exp, |x, _y| x.exp()?;
    expm1: expm1, |x, _y| x.expm1()?;
    log: log, |x, _y| x.log()?;
    log1p: log1p, |x, _y| x.log1p()?;
    log2: log2, |x, _y| x.log2()?;
    recip: recip, |x, _y| x.recip()?;
    rsqrt: rsqrt, |x, _y| x.rsqrt()?;
    sqr: sqr, |x, _y| x.sqr()?;
    square: square, |x, _y| x.square()?;
    reciprocal: reciprocal, |x, _y| x.reciprocal()?;
    log10: log10, |x, _y| x.log10()?;
    lgamma: lgamma, |x, _y| x.lgamma()?;
    digamma: digamma, |x, _y| x.digamma()?;
    erfinv: erfinv, |x, _y| (x * 0.05)?.erfinv()?;
    exp2: exp2, |x, _y| x.exp2()?;
    tan: tan, |x, _y| x.tan()?;
    sinh: sinh, |x, _y| x.sinh()?;
    cosh: cosh, |x, _y| x.cosh()?;
    asin: asin, |x, _y| (x * 0.05)?.asin()?;
    acos: acos, |x, _y| (x * 0.05)?.acos()?;
    power: pow, |x, _y| x.pow(3.0)?;
    root: pow, |x, _y| x.pow(-0.5)?;
    pow: pow, |x, y| x.pow(y)?;
    logaddexp: logaddexp, |x, y| x.logaddexp(y)?;
    logaddexp2: logaddexp2, |x, y| x.logaddexp2(y)?;
    softplus: softplus, |x, _y| x.softplus()?;
    softplus_with: softplus_with, |x, _y| x.softplus_with(2.0, 1.0)?;
    sum: sum, |x, _y| x.sum(0, true)?;
    sum_all: sum_all, |x, _y| x.sum_all()?.reshape([1, 1])?.expand([3, 8])?;
    mean: mean, |x, _y| x.reshape([2, 2, 8])?.mean(1, false)?;
    mean_all: mean_all, |x, _y| x.mean_all()?.reshape([1, 1])?.expand([3, 8])?;
    prod: prod, |x, _y| x.prod(0, true)?;
    prod_of_planes: prod, |x, _y| x.reshape([2, 2, 8])?.prod([0, 1], false)?.unsqueeze(0)?;
    prod_all: prod_all, |x, _y| x.prod_all()?.reshape([1, 1])?.expand([3, 8])?;
    cumsum: cumsum, |x, _y| x.cumsum(1)?;
    cumprod: cumprod, |x, _y| x.cumprod(0)?;
    softmax: softmax, |x, _y| x.softmax(-1)?;
    softmin: softmin, |x, _y| x.softmin(-1)?;
    log_softmax: log_softmax, |x, _y| x.log_softmax(0)?;
    logsumexp: logsumexp, |x, _y| x.logsumexp(0, true)?;
    logsumexp_of_rows: logsumexp, |x, _y| x.logsumexp(-1, true)?.expand([4, 8])?;
    norm: norm, |x, _y| x.norm(2.0, [0], true)?;
    norm_of_magnitudes: norm, |x, _y| x.neg()?.norm(1.0, [0], true)?;
    norm_of_cubes: norm, |x, _y| x.norm(3.0, [0], true)?;
    norm_of_roots: norm, |x, _y| x.norm(0.5, [0], true)?;
    largest: norm, |x, _y| x.norm(f64::INFINITY, [0], true)?;
    least: norm, |x, _y| x.norm(f64::NEG_INFINITY, [1], true)?.expand([4, 8])?;
    vector_norm: vector_norm, |x, _y| x.vector_norm(2.0, [0], true)?;
    number: norm, |x, _y| x.norm(0.0, [0], true)?;
    norm_all: norm_all, |x, _y| x.norm_all()?.reshape([1, 1])?.expand([3, 8])?;
    normalize: normalize, |x, _y| x.normalize(2.0, 1, 1e-12)?;
    normalize_by_sums: normalize, |x, _y| x.normalize(1.0, 0, 1e-12)?;
    cosine_similarity: cosine_similarity, |x, y| x.cosine_similarity(y, 1, 1e-8)?.unsqueeze(1)?.expand([4, 8])?;
    var: var, |x, _y| x.var([0], true)?;
    var_with: var_with, |x, _y| x.var_with([0], 0.0, true)?;
    deviation: std, |x, _y| x.std([0], true)?;
    std_with: std_with, |x, _y| x.std_with([1], 0.0, true)?.expand([4, 8])?;
    dist: dist, |x, y| x.dist(y, 2.0)?.expand([4, 8])?;
    cdist: cdist, |x, y| x.cdist(&y.unsqueeze(0)?, 2.0)?.expand([4, 8])?;
    pairwise_distance: pairwise_distance, |x, y| x.pairwise_distance(y, 2.0, EPS, true)?.expand([4, 8])?;
    trace: trace, |x, _y| x.trace()?.expand([4, 8])?;
    nansum: nansum, |x, _y| x.nansum(0, true)?;
    layer_norm: layer_norm, |x, y| x.layer_norm([8], Some(y), None, EPS)?;
    rms_norm: rms_norm, |x, y| x.rms_norm([8], Some(y), EPS)?;
    group_norm: group_norm, |x, y| x.group_norm(2, Some(y), None, EPS)?;
    instance_norm: instance_norm, |x, _y| x.reshape([2, 2, 8])?.instance_norm(None, None, EPS)?;
    batch_norm_train: batch_norm_train, |x, y| {
        let (n, _statistics) = x.batch_norm_train(Some(y), None, EPS)?;
        n
    };
    batch_norm_eval: batch_norm_eval, |x, y| x.batch_norm_eval(y, y, Some(y), None, EPS)?;
    upsample_nearest: upsample_nearest, |x, _y| x.reshape([1, 2, 4, 4])?.upsample_nearest([3, 8])?;
    upsample_bilinear: upsample_bilinear, |x, _y| x.reshape([1, 2, 4, 4])?.upsample_bilinear([5, 8], false)?;
}

/// The statistics that come with a narrow result are in F32.
#[autocast(bf16)]
fn with_statistics(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
    let (n, statistics) = t[0].batch_norm_train(None, None, EPS)?;
    let mean: Tensor<F32> = statistics.mean;
    n.matmul(&t[2])?.to::<F32>()? + (mean + statistics.var)?
}

fn with_statistics_by_hand(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
    let (n, statistics) = t[0].batch_norm_train(None, None, EPS)?;
    n.to::<BF16>()?.matmul(&t[2].to::<BF16>()?)?.to::<F32>()? + (statistics.mean + statistics.var)?
}

#[test]
fn statistics_are_not_rounded() {
    let _turn = alone();
    compare("batch_norm_train", SHAPES, 1, with_statistics, with_statistics_by_hand);
}

/// Full operations whose last step is none: what they give is narrowed afterwards.
const NARROWED: [&str; 33] = [
    "cholesky",
    "cholesky_solve",
    "corrcoef",
    "cov",
    "cumulative_trapezoid",
    "cumulative_trapezoid_over",
    "det",
    "gumbel_softmax",
    "inverse",
    "local_response_norm",
    "logcumsumexp",
    "logdet",
    "lp_pool2d",
    "matrix_norm",
    "nanmean",
    "nanquantile",
    "nanquantile_all",
    "pdist",
    "quantile",
    "quantile_all",
    "renorm",
    "slogdet",
    "solve",
    "solve_triangular",
    "std_mean",
    "trapezoid",
    "trapezoid_over",
    "upsample_bicubic2d",
    "upsample_linear1d",
    "upsample_nearest1d",
    "upsample_nearest3d",
    "upsample_trilinear3d",
    "var_mean",
];

/// Losses give the number that is scaled and differentiated; `multinomial` gives positions, `item` a number of the host.
fn gives_nothing_to_multiply(op: &amp_policy::Op) -> bool {
    op.family == amp_policy::Family::Loss || matches!(op.name, "multinomial" | "item" | "to_vec")
}

#[test]
fn every_full_operation_is_tested() {
    let full = amp_policy::all().filter(|op| op.implemented && op.class == Class::Full);
    let full: BTreeSet<_> = full.filter(|op| !gives_nothing_to_multiply(op)).map(|op| op.name).collect();
    assert!(NARROWED.iter().all(|name| full.contains(name) && amp_policy::find(name).is_some_and(|op| !op.direct)));
    let full: BTreeSet<_> = full.into_iter().filter(|name| !NARROWED.contains(name)).collect();
    assert_eq!(full, TESTED.iter().copied().collect());
}
