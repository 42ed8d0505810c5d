//! One case for every implemented row. The same tokens run in a region and by hand.

use crate::compare::{Case, device};
use amp::prelude::*;
use amp::{AttentionOptions, ConvOptions, CrossEntropy, LossReduction};

/// `op class -> result type, shapes of a b c: expression;`, for a region of `P` with inputs of `Q`.
///
/// By hand, the inputs of a `lower` operation are narrowed to `P`, those of a `full` one widened to F32; the others stay.
macro_rules! cases {
    ($($op:ident $class:ident -> $out:ident, $a:tt $b:tt $c:tt: |$x:ident, $y:ident, $z:ident| $body:expr;)*) => {
        pub fn all<P: AutocastPrecision, Q: AutocastPrecision>() -> Vec<Case> {
            vec![$(cases!(@case $op $class $out, $a $b $c, $x $y $z, $body)),*]
        }
    };
    (@case $op:ident $class:ident $out:ident, $a:tt $b:tt $c:tt, $x:ident $y:ident $z:ident, $body:expr) => {{
        #[allow(unused_variables)]
        #[autocast(P, crate = ::amp)]
        fn region<P: AutocastPrecision, Q: AutocastPrecision>(
            $x: &Tensor<Q>,
            $y: &Tensor<Q>,
            $z: &Tensor<Q>,
        ) -> Result<Tensor<$out>> {
            let out: Result<Tensor<$out>> = $body;
            out
        }
        #[allow(unused_variables)]
        fn by_hand<P: AutocastPrecision, Q: AutocastPrecision>(
            $x: &Tensor<cases!(@cast $class)>,
            $y: &Tensor<cases!(@cast $class)>,
            $z: &Tensor<cases!(@cast $class)>,
        ) -> Result<Tensor<$out>> {
            $body
        }
        Case::new(
            stringify!($op),
            stringify!($class),
            [&$a, &$b, &$c],
            |inputs| {
                let [a, b, c] = inputs.cast::<Q>()?;
                region::<P, Q>(&a, &b, &c)
            },
            |inputs| {
                let [a, b, c] = inputs.cast::<Q>()?;
                by_hand::<P, Q>(&a.to()?, &b.to()?, &c.to()?)
            },
        )
    }};
    (@cast lower) => { P };
    (@cast full) => { F32 };
    (@cast widest) => { Q };
    (@cast keep) => { Q };
}

fn labels<P: Element>(x: &Tensor<P>, of: impl Fn(usize) -> i64) -> Result<Tensor<I64>> {
    let n = x.dims()[0];
    Tensor::from_vec((0..n).map(of).collect(), [n], &device())
}

fn indices<P: Element>(x: &Tensor<P>) -> Result<Tensor<I64>> {
    Tensor::from_fn(x.dims(), |i| (i[0] % 2) as i64, &device())
}

/// What is added to scores, [4, 4].
fn distances() -> Result<Tensor<F32>> {
    Tensor::from_fn([4, 4], |i| (i[0] as f32 - i[1] as f32) / 4.0, &device())
}

fn targets() -> Result<Tensor<I64>> {
    Tensor::from_vec(vec![1, 2, 2, 0], [2, 2], &device())
}

fn mask<P: Element>(x: &Tensor<P>) -> Result<Tensor<Bool>> {
    Tensor::from_fn(x.dims(), |i| i.iter().sum::<usize>() % 2 == 0, &device())
}

/// The matrices, in F32, with a diagonal so large that, with elements below 1 beside it, they are positive definite.
fn definite<P: Float>(x: &Tensor<P>) -> Result<Tensor<F32>> {
    let n = x.dims()[x.rank() - 1];
    x.to::<F32>()? + (Tensor::<F32>::eye(n, n, x.device())? * n as f64)?
}

const SUM: LossReduction = LossReduction::Sum;

cases! {
    matmul lower -> P, [3, 4] [4, 5] [1]: |a, b, c| a.matmul(b);
    mm lower -> P, [3, 4] [4, 5] [1]: |a, b, c| a.mm(b);
    bmm lower -> P, [2, 3, 4] [2, 4, 5] [1]: |a, b, c| a.bmm(b);
    addmm lower -> P, [3, 5] [3, 4] [4, 5]: |a, b, c| a.addmm(b, c);
    baddbmm lower -> P, [5] [2, 3, 4] [2, 4, 5]: |a, b, c| a.baddbmm(b, c);
    addmv lower -> P, [3] [3, 4] [4]: |a, b, c| a.addmv(b, c);
    addr lower -> P, [3, 4] [3] [4]: |a, b, c| a.addr(b, c);
    addbmm lower -> P, [5] [2, 3, 4] [2, 4, 5]: |a, b, c| a.addbmm(b, c);
    matrix_power lower -> P, [3, 3] [1] [1]: |a, b, c| a.matrix_power(3);
    vecdot lower -> P, [2, 3, 4] [3, 4] [1]: |a, b, c| a.vecdot(b, -1);
    mv lower -> P, [3, 4] [4] [1]: |a, b, c| a.mv(b);
    einsum lower -> P, [2, 3, 4] [2, 5, 4] [1]: |a, b, c| a.einsum("bik,bjk->jbi", b);
    einsum_of lower -> P, [2, 3] [3, 4] [2, 4]: |a, b, c| Tensor::einsum_of(&[a, b, c], "bi,ij,bj->b");
    linear lower -> P, [3, 4] [5, 4] [5]: |a, b, c| a.linear(b, Some(c));
    conv1d lower -> P, [2, 3, 8] [4, 3, 3] [4]: |a, b, c| a.conv1d(b, Some(c), ConvOptions::default());
    conv2d lower -> P, [2, 3, 5, 5] [4, 3, 3, 3] [4]: |a, b, c| a.conv2d(b, Some(c), ConvOptions::default());
    conv3d lower -> P, [1, 2, 3, 4, 4] [3, 2, 2, 2, 2] [3]: |a, b, c| a.conv3d(b, Some(c), ConvOptions::default());
    conv_transpose1d lower -> P, [2, 3, 5] [3, 4, 3] [4]: |a, b, c| a.conv_transpose1d(b, Some(c), ConvOptions::default());
    conv_transpose2d lower -> P, [2, 3, 4, 4] [3, 4, 3, 3] [4]: |a, b, c| a.conv_transpose2d(b, Some(c), ConvOptions::default());
    conv_transpose3d lower -> P, [1, 2, 2, 3, 3] [2, 3, 2, 2, 2] [3]: |a, b, c| a.conv_transpose3d(b, Some(c), ConvOptions::default());
    scaled_dot_product_attention lower -> P, [1, 2, 4, 8] [1, 2, 4, 8] [1, 2, 4, 8]:
        |a, b, c| a.scaled_dot_product_attention(b, c, None, AttentionOptions::default());
    scaled_dot_product_attention_biased lower -> P, [1, 2, 4, 8] [1, 2, 4, 8] [1, 2, 4, 8]:
        |a, b, c| a.scaled_dot_product_attention_biased(b, c, &distances()?, None, AttentionOptions::default());
    prelu lower -> P, [3, 4] [4] [1]: |a, b, c| a.prelu(b);

    exp full -> F32, [3, 4] [1] [1]: |a, b, c| a.exp();
    expm1 full -> F32, [3, 4] [1] [1]: |a, b, c| a.expm1();
    log full -> F32, [3, 4] [1] [1]: |a, b, c| a.log();
    log1p full -> F32, [3, 4] [1] [1]: |a, b, c| a.log1p();
    log2 full -> F32, [3, 4] [1] [1]: |a, b, c| a.log2();
    sqr full -> F32, [3, 4] [1] [1]: |a, b, c| a.sqr();
    rsqrt full -> F32, [3, 4] [1] [1]: |a, b, c| a.rsqrt();
    recip full -> F32, [3, 4] [1] [1]: |a, b, c| a.recip();
    square full -> F32, [3, 4] [1] [1]: |a, b, c| a.square();
    reciprocal full -> F32, [3, 4] [1] [1]: |a, b, c| a.reciprocal();
    log10 full -> F32, [3, 4] [1] [1]: |a, b, c| a.log10();
    lgamma full -> F32, [3, 4] [1] [1]: |a, b, c| a.lgamma();
    digamma full -> F32, [3, 4] [1] [1]: |a, b, c| a.digamma();
    erfinv full -> F32, [3, 4] [1] [1]: |a, b, c| a.erfinv();
    exp2 full -> F32, [3, 4] [1] [1]: |a, b, c| a.exp2();
    tan full -> F32, [3, 4] [1] [1]: |a, b, c| a.tan();
    asin full -> F32, [3, 4] [1] [1]: |a, b, c| a.asin();
    acos full -> F32, [3, 4] [1] [1]: |a, b, c| a.acos();
    sinh full -> F32, [3, 4] [1] [1]: |a, b, c| a.sinh();
    cosh full -> F32, [3, 4] [1] [1]: |a, b, c| a.cosh();
    pow full -> F32, [3, 4] [3, 4] [1]: |a, b, c| a.pow(b);
    logaddexp full -> F32, [3, 4] [4] [1]: |a, b, c| a.logaddexp(b);
    logaddexp2 full -> F32, [3, 4] [4] [1]: |a, b, c| a.logaddexp2(b);
    softplus full -> F32, [3, 4] [1] [1]: |a, b, c| a.softplus();
    softplus_with full -> F32, [3, 4] [1] [1]: |a, b, c| a.softplus_with(2.0, 20.0);
    sum full -> F32, [3, 4] [1] [1]: |a, b, c| a.sum([0], false);
    sum_all full -> F32, [3, 4] [1] [1]: |a, b, c| a.sum_all();
    mean full -> F32, [3, 4] [1] [1]: |a, b, c| a.mean([1], true);
    mean_all full -> F32, [3, 4] [1] [1]: |a, b, c| a.mean_all();
    prod full -> F32, [3, 4] [1] [1]: |a, b, c| a.prod([0], false);
    prod_all full -> F32, [3, 4] [1] [1]: |a, b, c| a.prod_all();
    var full -> F32, [3, 4] [1] [1]: |a, b, c| a.var([0], false);
    var_with full -> F32, [3, 4] [1] [1]: |a, b, c| a.var_with([0], 0.0, false);
    std full -> F32, [3, 4] [1] [1]: |a, b, c| a.std([0], false);
    std_with full -> F32, [3, 4] [1] [1]: |a, b, c| a.std_with([0], 0.0, false);
    norm full -> F32, [3, 4] [1] [1]: |a, b, c| a.norm(2.0, [1], false);
    norm_all full -> F32, [3, 4] [1] [1]: |a, b, c| a.norm_all();
    logsumexp full -> F32, [3, 4] [1] [1]: |a, b, c| a.logsumexp(-1, false);
    trace full -> F32, [3, 4] [1] [1]: |a, b, c| a.trace();
    dist full -> F32, [3, 4] [4] [1]: |a, b, c| a.dist(b, 2.0);
    cdist full -> F32, [3, 4] [5, 4] [1]: |a, b, c| a.cdist(b, 2.0);
    pairwise_distance full -> F32, [3, 4] [4] [1]: |a, b, c| a.pairwise_distance(b, 2.0, 1e-6, false);
    quantile full -> F32, [3, 4] [1] [1]: |a, b, c| a.quantile(0.3, 1, false);
    quantile_all full -> F32, [3, 4] [1] [1]: |a, b, c| a.quantile_all(0.3);
    nanquantile_all full -> F32, [3, 4] [1] [1]: |a, b, c| a.nanquantile_all(0.3);
    nanquantile full -> F32, [3, 4] [1] [1]: |a, b, c| a.nanquantile(0.3, 0, true);
    nansum full -> F32, [3, 4] [1] [1]: |a, b, c| a.nansum(0, false);
    nanmean full -> F32, [3, 4] [1] [1]: |a, b, c| a.nanmean([], false);
    var_mean full -> F32, [3, 4] [1] [1]: |a, b, c| { let (y, z) = a.var_mean(0, false)?; y.mul(&z) };
    std_mean full -> F32, [3, 4] [1] [1]: |a, b, c| { let (y, z) = a.std_mean(0, false)?; y.mul(&z) };
    trapezoid full -> F32, [3, 4] [1] [1]: |a, b, c| a.trapezoid(0.5, 1);
    cholesky full -> F32, [2, 3, 3] [1] [1]: |a, b, c| definite(a)?.cholesky();
    cholesky_solve full -> F32, [3, 2] [3, 3] [1]: |a, b, c| a.cholesky_solve(b, false);
    solve_triangular full -> F32, [2, 3, 3] [3, 2] [1]: |a, b, c| a.solve_triangular(b, true, false);
    solve full -> F32, [2, 3, 3] [3, 2] [1]: |a, b, c| a.solve(b);
    inverse full -> F32, [2, 3, 3] [1] [1]: |a, b, c| a.inverse();
    det full -> F32, [2, 3, 3] [1] [1]: |a, b, c| a.det();
    logdet full -> F32, [2, 3] [1] [1]: |a, b, c| a.exp()?.diag_embed(0)?.logdet();
    slogdet full -> F32, [2, 3, 3] [1] [1]: |a, b, c| { let (sign, log) = a.slogdet()?; sign.mul(&log) };
    vector_norm full -> F32, [3, 4] [1] [1]: |a, b, c| a.vector_norm(3.0, [1], false);
    matrix_norm full -> F32, [2, 3, 4] [1] [1]: |a, b, c| a.matrix_norm(amp::MatrixNorm::LargestRow, [-2, -1], false);
    cumulative_trapezoid full -> F32, [3, 4] [1] [1]: |a, b, c| a.cumulative_trapezoid(0.5, 1);
    cumulative_trapezoid_over full -> F32, [3, 4] [4] [1]: |a, b, c| a.cumulative_trapezoid_over(b, 1);
    trapezoid_over full -> F32, [3, 4] [4] [1]: |a, b, c| a.trapezoid_over(b, 1);
    logcumsumexp full -> F32, [3, 4] [1] [1]: |a, b, c| a.logcumsumexp(1);
    local_response_norm full -> F32, [2, 3, 4] [1] [1]: |a, b, c| a.local_response_norm(2, 0.1, 0.75, 1.0);
    cov full -> F32, [3, 4] [1] [1]: |a, b, c| a.cov(1.0);
    corrcoef full -> F32, [3, 4] [1] [1]: |a, b, c| a.corrcoef();
    pdist full -> F32, [3, 4] [1] [1]: |a, b, c| a.pdist(2.0);
    renorm full -> F32, [3, 4] [1] [1]: |a, b, c| a.renorm(2.0, 0, 0.5);
    gumbel_softmax full -> F32, [3, 4] [1] [1]: |a, b, c| { amp::manual_seed(7); a.gumbel_softmax(1.0, false, -1) };
    upsample_nearest1d full -> F32, [1, 2, 4] [1] [1]: |a, b, c| a.upsample_nearest1d(7);
    upsample_nearest3d full -> F32, [1, 2, 2, 3, 2] [1] [1]: |a, b, c| a.upsample_nearest3d([3, 3, 4]);
    upsample_linear1d full -> F32, [1, 2, 4] [1] [1]: |a, b, c| a.upsample_linear1d(7, true);
    upsample_trilinear3d full -> F32, [1, 2, 2, 3, 2] [1] [1]: |a, b, c| a.upsample_trilinear3d(4, false);
    upsample_bicubic2d full -> F32, [1, 2, 3, 4] [1] [1]: |a, b, c| a.upsample_bicubic2d([5, 6], false);
    lp_pool2d full -> F32, [1, 2, 4, 4] [1] [1]: |a, b, c| a.lp_pool2d(2.0, 2);
    cumsum full -> F32, [3, 4] [1] [1]: |a, b, c| a.cumsum(0);
    cumprod full -> F32, [3, 4] [1] [1]: |a, b, c| a.cumprod(0);
    softmax full -> F32, [3, 4] [1] [1]: |a, b, c| a.softmax(-1);
    softmin full -> F32, [3, 4] [1] [1]: |a, b, c| a.softmin(-1);
    log_softmax full -> F32, [3, 4] [1] [1]: |a, b, c| a.log_softmax(-1);
    layer_norm full -> F32, [3, 4] [4] [4]: |a, b, c| a.layer_norm([4], Some(b), Some(c), 1e-5);
    rms_norm full -> F32, [3, 4] [4] [1]: |a, b, c| a.rms_norm([4], Some(b), 1e-5);
    group_norm full -> F32, [2, 4, 3] [4] [4]: |a, b, c| a.group_norm(2, Some(b), Some(c), 1e-5);
    instance_norm full -> F32, [2, 4, 3] [4] [4]: |a, b, c| a.instance_norm(Some(b), Some(c), 1e-5);
    batch_norm_train full -> F32, [3, 4] [4] [4]: |a, b, c| a.batch_norm_train(Some(b), Some(c), 1e-5).map(|(y, _)| y);
    batch_norm_eval full -> F32, [3, 4] [4] [4]: |a, b, c| a.batch_norm_eval(b, c, None, None, 1e-5);
    gaussian_nll_loss full -> F32, [3, 4] [3, 4] [3, 1]: |a, b, c| a.gaussian_nll_loss(b, c);
    gaussian_nll_loss_with full -> F32, [3, 4] [3, 4] [3, 4]: |a, b, c| a.gaussian_nll_loss_with(b, c, true, 1e-8, SUM);
    poisson_nll_loss full -> F32, [3, 4] [3, 4] [1]: |a, b, c| a.poisson_nll_loss(b);
    poisson_nll_loss_with full -> F32, [3, 4] [3, 4] [1]: |a, b, c| a.poisson_nll_loss_with(b, false, true, SUM);
    hinge_embedding_loss full -> F32, [3, 4] [3, 4] [1]: |a, b, c| a.hinge_embedding_loss(b, 1.0);
    hinge_embedding_loss_with full -> F32, [3, 4] [3, 4] [1]: |a, b, c| a.hinge_embedding_loss_with(b, 1.0, SUM);
    soft_margin_loss full -> F32, [3, 4] [3, 4] [1]: |a, b, c| a.soft_margin_loss(b);
    soft_margin_loss_with full -> F32, [3, 4] [3, 4] [1]: |a, b, c| a.soft_margin_loss_with(b, SUM);
    multi_margin_loss full -> F32, [3, 4] [1] [1]: |a, b, c| a.multi_margin_loss(&labels(a, |i| i as i64)?, 1.0, 1.0);
    multi_margin_loss_with full -> F32, [3, 4] [1] [1]:
        |a, b, c| a.multi_margin_loss_with(&labels(a, |i| i as i64)?, 2.0, 0.5, SUM);
    multilabel_margin_loss full -> F32, [3, 4] [1] [1]: |a, b, c| a.multilabel_margin_loss(&indices(a)?);
    multilabel_margin_loss_with full -> F32, [3, 4] [1] [1]: |a, b, c| a.multilabel_margin_loss_with(&indices(a)?, SUM);
    multilabel_soft_margin_loss full -> F32, [3, 4] [3, 4] [1]: |a, b, c| a.multilabel_soft_margin_loss(b);
    multilabel_soft_margin_loss_with full -> F32, [3, 4] [3, 4] [1]: |a, b, c| a.multilabel_soft_margin_loss_with(b, SUM);
    ctc_loss full -> F32, [4, 2, 3] [1] [1]: |a, b, c| a.ctc_loss(&targets()?, [4, 3], [2, 1], 0);
    ctc_loss_with full -> F32, [4, 2, 3] [1] [1]: |a, b, c| a.ctc_loss_with(&targets()?, [4, 3], [2, 1], 0, true, SUM);
    mse_loss full -> F32, [3, 4] [3, 4] [1]: |a, b, c| a.mse_loss(b);
    mse_loss_with full -> F32, [3, 4] [3, 4] [1]: |a, b, c| a.mse_loss_with(b, SUM);
    l1_loss full -> F32, [3, 4] [3, 4] [1]: |a, b, c| a.l1_loss(b);
    l1_loss_with full -> F32, [3, 4] [3, 4] [1]: |a, b, c| a.l1_loss_with(b, SUM);
    smooth_l1_loss full -> F32, [3, 4] [3, 4] [1]: |a, b, c| a.smooth_l1_loss(b, 1.0);
    smooth_l1_loss_with full -> F32, [3, 4] [3, 4] [1]: |a, b, c| a.smooth_l1_loss_with(b, 1.0, SUM);
    huber_loss full -> F32, [3, 4] [3, 4] [1]: |a, b, c| a.huber_loss(b, 1.0);
    huber_loss_with full -> F32, [3, 4] [3, 4] [1]: |a, b, c| a.huber_loss_with(b, 1.0, SUM);
    kl_div full -> F32, [3, 4] [3, 4] [1]: |a, b, c| a.kl_div(b);
    kl_div_with full -> F32, [3, 4] [3, 4] [1]: |a, b, c| a.kl_div_with(b, false, SUM);
    bce_with_logits full -> F32, [3, 4] [3, 4] [1]: |a, b, c| a.bce_with_logits(b);
    bce_with_logits_with full -> F32, [3, 4] [3, 4] [4]: |a, b, c| a.bce_with_logits_with(b, Some(c), Some(c), SUM);
    cross_entropy full -> F32, [3, 4] [1] [1]: |a, b, c| a.cross_entropy(&labels(a, |i| i as i64)?);
    cross_entropy_with full -> F32, [3, 4] [1] [1]:
        |a, b, c| a.cross_entropy_with(&labels(a, |i| i as i64)?, &CrossEntropy::<F32>::new().label_smoothing(0.1));
    soft_cross_entropy full -> F32, [3, 4] [3, 4] [1]: |a, b, c| a.soft_cross_entropy(b);
    soft_cross_entropy_with full -> F32, [3, 4] [3, 4] [1]:
        |a, b, c| a.soft_cross_entropy_with(b, &CrossEntropy::<F32>::new().label_smoothing(0.1));
    nll_loss full -> F32, [3, 4] [1] [1]: |a, b, c| a.nll_loss(&labels(a, |i| i as i64)?);
    nll_loss_with full -> F32, [3, 4] [1] [1]:
        |a, b, c| a.nll_loss_with(&labels(a, |i| i as i64)?, &CrossEntropy::<F32>::new());
    cosine_embedding_loss full -> F32, [3, 4] [3, 4] [1]:
        |a, b, c| a.cosine_embedding_loss(b, &labels(a, |i| 1 - 2 * (i as i64 % 2))?, 0.1);
    normalize full -> F32, [3, 4] [1] [1]: |a, b, c| a.normalize(2.0, -1, 1e-12);
    cosine_similarity full -> F32, [3, 4] [4] [1]: |a, b, c| a.cosine_similarity(b, -1, 1e-8);
    triplet_margin_loss full -> F32, [3, 4] [3, 4] [3, 4]: |a, b, c| a.triplet_margin_loss(b, c, 1.0);
    margin_ranking_loss full -> F32, [3, 4] [3, 4] [3, 4]: |a, b, c| a.margin_ranking_loss(b, c, 0.5);
    multinomial full -> I64, [3, 4] [1] [1]: |a, b, c| a.sqr()?.multinomial(2, true);
    item full -> F32, [1] [1] [1]: |a, b, c| Tensor::from_vec(vec![a.item()?], [1], &device());
    to_vec full -> F32, [3] [1] [1]: |a, b, c| Tensor::from_vec(a.to_vec()?, [3], &device());
    upsample_nearest full -> F32, [1, 2, 3, 3] [1] [1]: |a, b, c| a.upsample_nearest([6, 6]);
    upsample_bilinear full -> F32, [1, 2, 3, 3] [1] [1]: |a, b, c| a.upsample_bilinear([5, 5], false);

    add widest -> Q, [3, 4] [4] [1]: |a, b, c| a.add(b);
    sub widest -> Q, [3, 4] [4] [1]: |a, b, c| a.sub(b);
    mul widest -> Q, [3, 4] [4] [1]: |a, b, c| a.mul(b);
    div widest -> Q, [3, 4] [4] [1]: |a, b, c| a.div(b);
    dot widest -> Q, [4] [4] [1]: |a, b, c| a.dot(b);
    outer widest -> Q, [3] [4] [1]: |a, b, c| a.outer(b);
    minimum widest -> Q, [3, 4] [3, 4] [1]: |a, b, c| a.minimum(b);
    maximum widest -> Q, [3, 4] [3, 4] [1]: |a, b, c| a.maximum(b);
    atan2 widest -> Q, [3, 4] [3, 4] [1]: |a, b, c| a.atan2(b);
    remainder widest -> Q, [3, 4] [3, 4] [1]: |a, b, c| a.remainder(b);
    fmod widest -> Q, [3, 4] [3, 4] [1]: |a, b, c| a.fmod(b);
    floor_divide widest -> Q, [3, 4] [3, 4] [1]: |a, b, c| a.floor_divide(b);
    fmax widest -> Q, [3, 4] [3, 4] [1]: |a, b, c| a.fmax(b);
    fmin widest -> Q, [3, 4] [3, 4] [1]: |a, b, c| a.fmin(b);
    copysign widest -> Q, [3, 4] [3, 4] [1]: |a, b, c| a.copysign(b);
    vdot widest -> Q, [4] [4] [1]: |a, b, c| a.vdot(b);
    inner widest -> Q, [3, 4] [2, 4] [1]: |a, b, c| a.inner(b);
    kron widest -> Q, [3, 4] [2, 1] [1]: |a, b, c| a.kron(b);
    tensordot widest -> Q, [3, 4] [4, 2] [1]: |a, b, c| a.tensordot(b, 1);
    tensordot_over widest -> Q, [3, 4] [2, 3] [1]: |a, b, c| a.tensordot_over(b, [0], [1]);
    cross widest -> Q, [3, 4] [3, 1] [1]: |a, b, c| a.cross(b, 0);
    hypot widest -> Q, [3, 4] [3, 4] [1]: |a, b, c| a.hypot(b);
    xlogy widest -> Q, [3, 4] [3, 4] [1]: |a, b, c| a.xlogy(b);
    heaviside widest -> Q, [3, 4] [3, 4] [1]: |a, b, c| (a - 0.5)?.heaviside(b);
    lerp widest -> Q, [3, 4] [3, 4] [3, 4]: |a, b, c| a.lerp(b, c);
    addcmul widest -> Q, [3, 4] [3, 4] [3, 4]: |a, b, c| a.addcmul(b, c, 0.5);
    addcdiv widest -> Q, [3, 4] [3, 4] [3, 4]: |a, b, c| a.addcdiv(b, c, 0.5);
    where_ widest -> Q, [3, 4] [3, 4] [1]: |a, b, c| mask(a)?.where_(a, b);
    eq widest -> Bool, [3, 4] [3, 4] [1]: |a, b, c| a.eq(b);
    ne widest -> Bool, [3, 4] [3, 4] [1]: |a, b, c| a.ne(b);
    lt widest -> Bool, [3, 4] [3, 4] [1]: |a, b, c| a.lt(b);
    le widest -> Bool, [3, 4] [3, 4] [1]: |a, b, c| a.le(b);
    gt widest -> Bool, [3, 4] [3, 4] [1]: |a, b, c| a.gt(b);
    ge widest -> Bool, [3, 4] [3, 4] [1]: |a, b, c| a.ge(b);
    clamp_between widest -> Q, [3, 4] [4] [3, 1]: |a, b, c| a.clamp_between(b, c);
    isin widest -> Bool, [3, 4] [3, 4] [1]: |a, b, c| a.isin(b);
    isclose widest -> Bool, [3, 4] [3, 4] [1]: |a, b, c| a.isclose(b, 0.1, 0.1);
    allclose widest -> Bool, [3, 4] [3, 4] [1]: |a, b, c| Tensor::from_vec(vec![a.allclose(b, 0.1, 0.1)?], [1], &device());
    equal widest -> Bool, [3, 4] [3, 4] [1]: |a, b, c| Tensor::from_vec(vec![a.equal(b)?], [1], &device());
    bilinear widest -> Q, [3, 4] [3, 2] [5, 4, 2]: |a, b, c| a.bilinear(b, c, None);
    grid_sample widest -> Q, [1, 2, 4, 4] [1, 3, 3, 2] [1]: |a, b, c| a.grid_sample(b, amp::GridOptions::default());
    index_add widest -> Q, [3, 4] [3, 4] [1]: |a, b, c| a.index_add(0, &labels(a, |i| (2 - i) as i64)?, b);
    scatter_add widest -> Q, [3, 4] [3, 4] [1]: |a, b, c| a.scatter_add(0, &indices(b)?, b);
    index_copy widest -> Q, [3, 4] [3, 4] [1]: |a, b, c| a.index_copy(0, &labels(a, |i| (2 - i) as i64)?, b);
    index_put widest -> Q, [3, 4] [3, 4] [1]: |a, b, c| a.index_put(&[labels(a, |i| (2 - i) as i64)?], b);
    index_put_add widest -> Q, [3, 4] [3, 4] [1]: |a, b, c| a.index_put_add(&[labels(a, |i| (2 - i) as i64)?], b);
    scatter_reduce widest -> Q, [3, 4] [3, 4] [1]: |a, b, c| a.scatter_reduce(0, &indices(b)?, b, amp::ScatterReduce::Max, true);
    searchsorted widest -> I64, [4] [3, 4] [1]: |a, b, c| a.sort(0, false)?.0.searchsorted(b, false);
    bucketize widest -> I64, [3, 4] [4] [1]: |a, b, c| a.bucketize(&b.sort(0, false)?.0, true);
    masked_scatter widest -> Q, [3, 4] [3, 4] [1]: |a, b, c| a.masked_scatter(&mask(a)?, b);
    scatter widest -> Q, [3, 4] [3, 4] [1]: |a, b, c| a.scatter(0, &indices(b)?, b);
    cat widest -> Q, [3, 4] [2, 4] [1]: |a, b, c| Tensor::cat(&[a, b], 0);
    meshgrid widest -> Q, [3] [4] [1]: |a, b, c| { let lines = Tensor::meshgrid(&[a, b], amp::Indexing::Xy)?; lines[0].mul(&lines[1]) };
    hstack widest -> Q, [3, 4] [3, 2] [1]: |a, b, c| Tensor::hstack(&[a, b]);
    vstack widest -> Q, [3, 4] [4] [1]: |a, b, c| Tensor::vstack(&[a, b]);
    dstack widest -> Q, [3, 4] [3, 4] [1]: |a, b, c| Tensor::dstack(&[a, b]);
    column_stack widest -> Q, [3] [3, 4] [1]: |a, b, c| Tensor::column_stack(&[a, b]);
    pad_sequence widest -> Q, [3, 4] [2, 4] [1]: |a, b, c| Tensor::pad_sequence(&[a, b], 0.5);
    stack widest -> Q, [3, 4] [3, 4] [1]: |a, b, c| Tensor::stack(&[a, b], 1);

    abs keep -> Q, [3, 4] [1] [1]: |a, b, c| a.abs();
    neg keep -> Q, [3, 4] [1] [1]: |a, b, c| a.neg();
    sign keep -> Q, [3, 4] [1] [1]: |a, b, c| a.sign();
    floor keep -> Q, [3, 4] [1] [1]: |a, b, c| a.floor();
    ceil keep -> Q, [3, 4] [1] [1]: |a, b, c| a.ceil();
    round keep -> Q, [3, 4] [1] [1]: |a, b, c| a.round();
    sqrt keep -> Q, [3, 4] [1] [1]: |a, b, c| a.sqrt();
    sin keep -> Q, [3, 4] [1] [1]: |a, b, c| a.sin();
    cos keep -> Q, [3, 4] [1] [1]: |a, b, c| a.cos();
    tanh keep -> Q, [3, 4] [1] [1]: |a, b, c| a.tanh();
    erf keep -> Q, [3, 4] [1] [1]: |a, b, c| a.erf();
    sigmoid keep -> Q, [3, 4] [1] [1]: |a, b, c| a.sigmoid();
    log_sigmoid keep -> Q, [3, 4] [1] [1]: |a, b, c| a.log_sigmoid();
    relu keep -> Q, [3, 4] [1] [1]: |a, b, c| a.relu();
    leaky_relu keep -> Q, [3, 4] [1] [1]: |a, b, c| a.leaky_relu(0.1);
    elu keep -> Q, [3, 4] [1] [1]: |a, b, c| a.elu(1.0);
    gelu keep -> Q, [3, 4] [1] [1]: |a, b, c| a.gelu();
    gelu_tanh keep -> Q, [3, 4] [1] [1]: |a, b, c| a.gelu_tanh();
    silu keep -> Q, [3, 4] [1] [1]: |a, b, c| a.silu();
    hardswish keep -> Q, [3, 4] [1] [1]: |a, b, c| a.hardswish();
    relu6 keep -> Q, [3, 4] [1] [1]: |a, b, c| a.relu6();
    hardtanh keep -> Q, [3, 4] [1] [1]: |a, b, c| a.hardtanh(0.2, 0.7);
    hardsigmoid keep -> Q, [3, 4] [1] [1]: |a, b, c| a.hardsigmoid();
    selu keep -> Q, [3, 4] [1] [1]: |a, b, c| a.selu();
    celu keep -> Q, [3, 4] [1] [1]: |a, b, c| a.celu(1.5);
    mish keep -> Q, [3, 4] [1] [1]: |a, b, c| a.mish();
    softsign keep -> Q, [3, 4] [1] [1]: |a, b, c| a.softsign();
    logsigmoid keep -> Q, [3, 4] [1] [1]: |a, b, c| a.logsigmoid();
    trunc keep -> Q, [3, 4] [1] [1]: |a, b, c| a.trunc();
    frac keep -> Q, [3, 4] [1] [1]: |a, b, c| a.frac();
    atan keep -> Q, [3, 4] [1] [1]: |a, b, c| a.atan();
    asinh keep -> Q, [3, 4] [1] [1]: |a, b, c| a.asinh();
    acosh keep -> Q, [3, 4] [1] [1]: |a, b, c| (a + 1.0)?.acosh();
    atanh keep -> Q, [3, 4] [1] [1]: |a, b, c| (a * 0.5)?.atanh();
    erfc keep -> Q, [3, 4] [1] [1]: |a, b, c| a.erfc();
    sinc keep -> Q, [3, 4] [1] [1]: |a, b, c| a.sinc();
    sgn keep -> Q, [3, 4] [1] [1]: |a, b, c| a.sgn();
    deg2rad keep -> Q, [3, 4] [1] [1]: |a, b, c| a.deg2rad();
    rad2deg keep -> Q, [3, 4] [1] [1]: |a, b, c| a.rad2deg();
    logit keep -> Q, [3, 4] [1] [1]: |a, b, c| a.logit();
    logit_with keep -> Q, [3, 4] [1] [1]: |a, b, c| a.logit_with(0.25);
    tanhshrink keep -> Q, [3, 4] [1] [1]: |a, b, c| a.tanhshrink();
    hardshrink keep -> Q, [3, 4] [1] [1]: |a, b, c| a.hardshrink(0.3);
    softshrink keep -> Q, [3, 4] [1] [1]: |a, b, c| a.softshrink(0.3);
    threshold keep -> Q, [3, 4] [1] [1]: |a, b, c| a.threshold(0.3, 0.1);
    nan_to_num keep -> Q, [3, 4] [1] [1]: |a, b, c| a.nan_to_num();
    nan_to_num_with keep -> Q, [3, 4] [1] [1]: |a, b, c| a.nan_to_num_with(0.0, 1.0, -1.0);
    glu keep -> Q, [3, 4] [1] [1]: |a, b, c| a.glu(-1);
    diff keep -> Q, [3, 4] [1] [1]: |a, b, c| a.diff(2, 1);
    unbind keep -> Q, [4, 3] [1] [1]: |a, b, c| Ok(a.unbind(0)?.remove(2));
    roll keep -> Q, [3, 4] [1] [1]: |a, b, c| a.roll([1, -1], [0, 1]);
    repeat_interleave keep -> Q, [3, 4] [1] [1]: |a, b, c| a.repeat_interleave(2, 1);
    pixel_shuffle keep -> Q, [1, 4, 2, 3] [1] [1]: |a, b, c| a.pixel_shuffle(2);
    pixel_unshuffle keep -> Q, [1, 1, 4, 6] [1] [1]: |a, b, c| a.pixel_unshuffle(2);
    bernoulli keep -> Q, [3, 4] [1] [1]: |a, b, c| a.ge(0.5)?.to::<Q>()?.bernoulli();
    rand_like keep -> Q, [3, 4] [1] [1]: |a, b, c| a.rand_like();
    randn_like keep -> Q, [3, 4] [1] [1]: |a, b, c| a.randn_like();
    clamp keep -> Q, [3, 4] [1] [1]: |a, b, c| a.clamp(0.2, 0.7);
    clamp_min keep -> Q, [3, 4] [1] [1]: |a, b, c| a.clamp_min(0.3);
    clamp_max keep -> Q, [3, 4] [1] [1]: |a, b, c| a.clamp_max(0.6);
    max keep -> Q, [3, 4] [1] [1]: |a, b, c| a.max([0], false);
    min keep -> Q, [3, 4] [1] [1]: |a, b, c| a.min([0], false);
    amax keep -> Q, [3, 4] [1] [1]: |a, b, c| a.amax([0], false);
    amin keep -> Q, [3, 4] [1] [1]: |a, b, c| a.amin([0], false);
    max_all keep -> Q, [3, 4] [1] [1]: |a, b, c| a.max_all();
    min_all keep -> Q, [3, 4] [1] [1]: |a, b, c| a.min_all();
    aminmax keep -> Q, [3, 4] [1] [1]: |a, b, c| { let (y, z) = a.aminmax(0, false)?; y.mul(&z) };
    median keep -> Q, [3, 4] [1] [1]: |a, b, c| a.median(0, true).map(|(y, _)| y);
    median_all keep -> Q, [3, 4] [1] [1]: |a, b, c| a.median_all();
    nanmedian keep -> Q, [3, 4] [1] [1]: |a, b, c| a.nanmedian(0, true).map(|(y, _)| y);
    cummax keep -> Q, [3, 4] [1] [1]: |a, b, c| a.cummax(0).map(|(y, _)| y);
    cummin keep -> Q, [3, 4] [1] [1]: |a, b, c| a.cummin(0).map(|(y, _)| y);
    count_nonzero keep -> I64, [3, 4] [1] [1]: |a, b, c| a.count_nonzero(0);
    argmax keep -> I64, [3, 4] [1] [1]: |a, b, c| a.argmax(0, false);
    argmin keep -> I64, [3, 4] [1] [1]: |a, b, c| a.argmin(0, false);
    argsort keep -> I64, [3, 4] [1] [1]: |a, b, c| a.argsort(0, false);
    sort keep -> Q, [3, 4] [1] [1]: |a, b, c| a.sort(0, true).map(|(y, _)| y);
    topk keep -> Q, [3, 4] [1] [1]: |a, b, c| a.topk(2, 0, true).map(|(y, _)| y);
    kthvalue keep -> Q, [3, 4] [1] [1]: |a, b, c| a.kthvalue(2, 0, true).map(|(y, _)| y);
    max_pool1d keep -> Q, [2, 3, 8] [1] [1]: |a, b, c| a.max_pool1d(2);
    max_pool1d_with_indices keep -> Q, [2, 3, 8] [1] [1]: |a, b, c| a.max_pool1d_with_indices(2).map(|(y, _)| y);
    fractional_max_pool2d keep -> Q, [1, 2, 5, 5] [1] [1]: |a, b, c| { amp::manual_seed(7); a.fractional_max_pool2d(2, 3) };
    fractional_max_pool2d_with keep -> Q, [1, 2, 5, 5] [1] [1]: |a, b, c| {
        let samples = Tensor::<F32>::full([1, 2, 2], 0.4, &device())?;
        a.fractional_max_pool2d_with(2, 3, &samples).map(|(y, _)| y)
    };
    fractional_max_pool3d keep -> Q, [1, 2, 3, 5, 4] [1] [1]: |a, b, c| { amp::manual_seed(7); a.fractional_max_pool3d(2, 2) };
    fractional_max_pool3d_with keep -> Q, [1, 2, 3, 5, 4] [1] [1]: |a, b, c| {
        let samples = Tensor::<F32>::full([1, 2, 3], 0.4, &device())?;
        a.fractional_max_pool3d_with(2, 2, &samples).map(|(y, _)| y)
    };
    max_pool3d_with_indices keep -> Q, [1, 2, 4, 4, 4] [1] [1]: |a, b, c| a.max_pool3d_with_indices(2).map(|(y, _)| y);
    max_unpool3d keep -> Q, [1, 2, 1, 2, 2] [1] [1]: |a, b, c| {
        let places = Tensor::from_fn(a.dims(), |i| (i[3] * 8 + i[4] * 2) as i64, &device())?;
        a.max_unpool3d(&places, [2, 4, 4])
    };
    rrelu keep -> Q, [3, 4] [1] [1]: |a, b, c| { amp::manual_seed(7); a.neg()?.rrelu(0.1, 0.4, true) };
    max_pool2d keep -> Q, [2, 3, 4, 4] [1] [1]: |a, b, c| a.max_pool2d(2);
    max_pool2d_with_indices keep -> Q, [2, 3, 4, 4] [1] [1]: |a, b, c| a.max_pool2d_with_indices(2).map(|(y, _)| y);
    adaptive_max_pool1d keep -> Q, [2, 3, 8] [1] [1]: |a, b, c| a.adaptive_max_pool1d(3);
    adaptive_max_pool1d_with_indices keep -> Q, [2, 3, 8] [1] [1]:
        |a, b, c| a.adaptive_max_pool1d_with_indices(3).map(|(y, _)| y);
    adaptive_max_pool2d keep -> Q, [2, 3, 4, 4] [1] [1]: |a, b, c| a.adaptive_max_pool2d(3);
    adaptive_max_pool2d_with_indices keep -> Q, [2, 3, 4, 4] [1] [1]:
        |a, b, c| a.adaptive_max_pool2d_with_indices(3).map(|(y, _)| y);
    avg_pool1d keep -> Q, [2, 3, 8] [1] [1]: |a, b, c| a.avg_pool1d(2);
    avg_pool2d keep -> Q, [2, 3, 4, 4] [1] [1]: |a, b, c| a.avg_pool2d(2);
    adaptive_avg_pool1d keep -> Q, [2, 3, 8] [1] [1]: |a, b, c| a.adaptive_avg_pool1d(3);
    adaptive_avg_pool2d keep -> Q, [2, 3, 4, 4] [1] [1]: |a, b, c| a.adaptive_avg_pool2d(3);
    reshape keep -> Q, [3, 4] [1] [1]: |a, b, c| a.reshape([2, 6]);
    flatten keep -> Q, [3, 4] [1] [1]: |a, b, c| a.flatten(0, -1);
    unflatten keep -> Q, [3, 4] [1] [1]: |a, b, c| a.unflatten(1, (2, ..));
    movedim keep -> Q, [3, 4, 2] [1] [1]: |a, b, c| a.movedim([0, 1], [2, 0]);
    permute keep -> Q, [3, 4] [1] [1]: |a, b, c| a.permute([1, 0]);
    transpose keep -> Q, [3, 4] [1] [1]: |a, b, c| a.transpose(0, 1);
    t keep -> Q, [3, 4] [1] [1]: |a, b, c| a.t();
    squeeze keep -> Q, [3, 1] [1] [1]: |a, b, c| a.squeeze(1);
    unsqueeze keep -> Q, [3, 4] [1] [1]: |a, b, c| a.unsqueeze(0);
    slice keep -> Q, [3, 4] [1] [1]: |a, b, c| a.slice(0, 1..3);
    slice_step keep -> Q, [3, 4] [1] [1]: |a, b, c| a.slice_step(1, 1.., 2);
    narrow keep -> Q, [3, 4] [1] [1]: |a, b, c| a.narrow(1, 1, 2);
    select keep -> Q, [3, 4] [1] [1]: |a, b, c| a.select(0, 1);
    index_select keep -> Q, [3, 4] [1] [1]: |a, b, c| a.index_select(0, &labels(a, |i| (2 - i) as i64)?);
    index keep -> Q, [3, 4] [1] [1]: |a, b, c| a.index(&[labels(a, |i| (2 - i) as i64)?]);
    index_fill keep -> Q, [3, 4] [1] [1]: |a, b, c| a.index_fill(0, &labels(a, |i| i as i64 % 2)?, 0.3);
    take_along_dim keep -> Q, [3, 4] [1] [1]: |a, b, c| a.take_along_dim(&indices(a)?, 0);
    channel_shuffle keep -> Q, [3, 4] [1] [1]: |a, b, c| a.channel_shuffle(2);
    alpha_dropout keep -> Q, [3, 4] [1] [1]: |a, b, c| { amp::manual_seed(7); a.alpha_dropout(0.5, true) };
    affine_grid keep -> Q, [1, 2, 3] [1] [1]: |a, b, c| a.affine_grid([3, 4], false);
    embedding_bag keep -> Q, [3, 4] [1] [1]: |a, b, c| a.embedding_bag(&indices(b)?.reshape([1, 1])?, None, amp::BagMode::Mean);
    max_unpool2d keep -> Q, [1, 2, 2, 2] [1] [1]: |a, b, c| {
        let places = Tensor::from_fn(a.dims(), |i| (i[2] * 8 + i[3] * 2) as i64, &device())?;
        a.max_unpool2d(&places, 4)
    };
    adaptive_avg_pool3d keep -> Q, [1, 2, 4, 4, 4] [1] [1]: |a, b, c| a.adaptive_avg_pool3d(3);
    adaptive_max_pool3d keep -> Q, [1, 2, 4, 4, 4] [1] [1]: |a, b, c| a.adaptive_max_pool3d(3);
    rot90 keep -> Q, [3, 4] [1] [1]: |a, b, c| a.rot90(1, 0, 1);
    max_pool3d keep -> Q, [1, 2, 4, 4, 4] [1] [1]: |a, b, c| a.max_pool3d(2);
    avg_pool3d keep -> Q, [1, 2, 4, 4, 4] [1] [1]: |a, b, c| a.avg_pool3d(2);
    gather keep -> Q, [3, 4] [1] [1]: |a, b, c| a.gather(0, &indices(a)?);
    embedding keep -> Q, [3, 4] [1] [1]: |a, b, c| a.embedding(&labels(a, |i| i as i64 % 2)?);
    masked_fill keep -> Q, [3, 4] [1] [1]: |a, b, c| a.masked_fill(&mask(a)?, 0.5);
    masked_select keep -> Q, [3, 4] [1] [1]: |a, b, c| a.masked_select(&mask(a)?);
    unique keep -> Q, [3, 4] [1] [1]: |a, b, c| a.unique();
    unique_with_counts keep -> Q, [3, 4] [1] [1]: |a, b, c| { let (values, _, _) = a.unique_with_counts()?; Ok(values) };
    nonzero keep -> I64, [3, 4] [1] [1]: |a, b, c| a.nonzero();
    split keep -> Q, [4, 3] [1] [1]: |a, b, c| Ok(a.split(2, 0)?.remove(1));
    chunk keep -> Q, [4, 3] [1] [1]: |a, b, c| Ok(a.chunk(2, 0)?.remove(0));
    tensor_split keep -> Q, [4, 3] [1] [1]: |a, b, c| Ok(a.tensor_split([1, 3], 0)?.remove(1));
    expand_as keep -> Q, [1, 4] [3, 4] [1]: |a, b, c| a.expand_as(b);
    expand keep -> Q, [1, 4] [1] [1]: |a, b, c| a.expand([3, 4]);
    repeat keep -> Q, [3, 4] [1] [1]: |a, b, c| a.repeat([2, 1]);
    pad keep -> Q, [3, 4] [1] [1]: |a, b, c| a.pad([1, 0, 0, 2], 0.5);
    reflection_pad1d keep -> Q, [3, 4] [1] [1]: |a, b, c| a.reflection_pad1d([1, 2]);
    reflection_pad2d keep -> Q, [3, 4] [1] [1]: |a, b, c| a.reflection_pad2d(1);
    reflection_pad3d keep -> Q, [2, 3, 4] [1] [1]: |a, b, c| a.reflection_pad3d(1);
    replication_pad1d keep -> Q, [3, 4] [1] [1]: |a, b, c| a.replication_pad1d([1, 2]);
    replication_pad2d keep -> Q, [3, 4] [1] [1]: |a, b, c| a.replication_pad2d(1);
    replication_pad3d keep -> Q, [2, 3, 4] [1] [1]: |a, b, c| a.replication_pad3d(1);
    circular_pad1d keep -> Q, [3, 4] [1] [1]: |a, b, c| a.circular_pad1d([1, 2]);
    circular_pad2d keep -> Q, [3, 4] [1] [1]: |a, b, c| a.circular_pad2d(1);
    circular_pad3d keep -> Q, [2, 3, 4] [1] [1]: |a, b, c| a.circular_pad3d(1);
    unfold keep -> Q, [1, 2, 3, 4] [1] [1]: |a, b, c| a.unfold(2, amp::ConvOptions::default());
    fold keep -> Q, [1, 8, 6] [1] [1]: |a, b, c| a.fold([3, 4], 2, amp::ConvOptions::default());
    flip keep -> Q, [3, 4] [1] [1]: |a, b, c| a.flip([0]);
    diag keep -> Q, [3, 4] [1] [1]: |a, b, c| a.diag(1);
    diagonal keep -> Q, [2, 3, 4] [1] [1]: |a, b, c| a.diagonal(0, 1, 2);
    diag_embed keep -> Q, [3, 4] [1] [1]: |a, b, c| a.diag_embed(-1);
    tril keep -> Q, [3, 4] [1] [1]: |a, b, c| a.tril(0);
    triu keep -> Q, [3, 4] [1] [1]: |a, b, c| a.triu(0);
    clone keep -> Q, [3, 4] [1] [1]: |a, b, c| Ok(a.clone());
    contiguous keep -> Q, [3, 4] [1] [1]: |a, b, c| a.t()?.contiguous();
    detach keep -> Q, [3, 4] [1] [1]: |a, b, c| Ok(a.detach());
    zeros_like keep -> Q, [3, 4] [1] [1]: |a, b, c| a.zeros_like();
    full_like keep -> Q, [3, 4] [1] [1]: |a, b, c| a.full_like(0.25);
    ones_like keep -> Q, [3, 4] [1] [1]: |a, b, c| a.ones_like();
    dropout keep -> Q, [3, 4] [1] [1]: |a, b, c| a.dropout(0.5, true);
    isnan keep -> Bool, [3, 4] [1] [1]: |a, b, c| a.isnan();
    isinf keep -> Bool, [3, 4] [1] [1]: |a, b, c| a.isinf();
    isfinite keep -> Bool, [3, 4] [1] [1]: |a, b, c| a.isfinite();
    all keep -> Bool, [3, 4] [1] [1]: |a, b, c| a.all([0], false);
    any keep -> Bool, [3, 4] [1] [1]: |a, b, c| a.any([0], false);
}
