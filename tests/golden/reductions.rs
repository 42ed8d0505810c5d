//! Reductions, scans, sorting, softmax.

use amp::MatrixNorm;
use amp::prelude::*;

use crate::case::Tolerance::{Accumulated, Chosen, Exact};
use crate::case::{Case, Outs, Tolerance};

/// Runs operation `op` on the inputs of `c`; `None` when this table has no such operation.
pub fn apply(op: &str, c: &Case) -> Result<Option<(Tolerance, Outs)>> {
    Ok(Some(match op {
        "sum" if c.name.ends_with("integers") => (Exact, c.index(0).sum(axes(c), c.flag("keepdim"))?.into()),
        "sum" if c.name.ends_with("truths") => (Exact, c.mask(0).sum(axes(c), false)?.into()),
        "sum" => (Accumulated, c.x(0).sum(axes(c), c.flag("keepdim"))?.into()),
        "mean" => (Accumulated, c.x(0).mean(axes(c), c.flag("keepdim"))?.into()),
        "max" => (Chosen, c.x(0).max(axes(c), c.flag("keepdim"))?.into()),
        "min" => (Chosen, c.x(0).min(axes(c), c.flag("keepdim"))?.into()),
        "var" => (Accumulated, c.x(0).var_with(axes(c), c.float_or("correction", 1.0), c.flag("keepdim"))?.into()),
        "std" => (Accumulated, c.x(0).std_with(axes(c), c.float_or("correction", 1.0), c.flag("keepdim"))?.into()),
        "norm" => (Accumulated, c.x(0).norm(c.float_or("p", 2.0), axes(c), c.flag("keepdim"))?.into()),
        "normalize" => (Accumulated, c.x(0).normalize(c.float("p"), c.axis(), 1e-12)?.into()),
        "renorm" => (Accumulated, c.x(0).renorm(c.float("p"), c.axis(), c.float("most"))?.into()),
        "cov" => (Accumulated, c.x(0).cov(c.float("correction"))?.into()),
        "corrcoef" => (Accumulated, c.x(0).corrcoef()?.into()),
        "pdist" => (Accumulated, c.x(0).pdist(c.float("p"))?.into()),
        "cosine_similarity" => (Accumulated, c.x(0).cosine_similarity(&c.x(1), c.axis(), 1e-8)?.into()),
        "prod" if c.given("axis") => (Accumulated, c.x(0).prod([c.axis()], c.flag("keepdim"))?.into()),
        "prod" => (Accumulated, c.x(0).prod_all()?.into()),
        "argmax" if c.given("axis") => (Exact, c.x(0).argmax(c.axis(), c.flag("keepdim"))?.into()),
        "argmax" => (Exact, c.x(0).flatten(0, -1)?.argmax(0, false)?.into()),
        "argmin" if c.given("axis") => (Exact, c.x(0).argmin(c.axis(), c.flag("keepdim"))?.into()),
        "argmin" => (Exact, c.x(0).flatten(0, -1)?.argmin(0, false)?.into()),
        "median" if c.name.ends_with("nan") => (Exact, c.x(0).median(c.axis(), false)?.0.into()),
        "nanmedian" if c.name.ends_with("nan") => (Exact, c.x(0).nanmedian(c.axis(), false)?.0.into()),
        "median" => (Exact, c.x(0).median(c.axis(), c.flag("keepdim"))?.into()),
        "nanmedian" => (Exact, c.x(0).nanmedian(c.axis(), c.flag("keepdim"))?.into()),
        "kthvalue" => (Exact, c.x(0).kthvalue(c.size("k"), c.axis(), c.flag("keepdim"))?.into()),
        "median_all" => (Exact, c.x(0).median_all()?.into()),
        "quantile_all" => (Accumulated, c.x(0).quantile_all(c.float("q"))?.into()),
        "nanquantile_all" => (Accumulated, c.x(0).nanquantile_all(c.float("q"))?.into()),
        "quantile" => (Accumulated, c.x(0).quantile(c.float("q"), c.axis(), c.flag("keepdim"))?.into()),
        "nanquantile" => (Accumulated, c.x(0).nanquantile(c.float("q"), c.axis(), c.flag("keepdim"))?.into()),
        "nansum" => (Accumulated, c.x(0).nansum(axes(c), c.flag("keepdim"))?.into()),
        "nanmean" => (Accumulated, c.x(0).nanmean(axes(c), c.flag("keepdim"))?.into()),
        "count_nonzero" => (Exact, c.x(0).count_nonzero(axes(c))?.into()),
        "aminmax" => (Exact, both(c.x(0).aminmax(c.axis(), false)?)),
        "var_mean" => (Accumulated, both(c.x(0).var_mean(axes(c), c.flag("keepdim"))?)),
        "std_mean" => (Accumulated, both(c.x(0).std_mean(axes(c), c.flag("keepdim"))?)),
        "cummax" => (Chosen, c.x(0).cummax(c.axis())?.into()),
        "cummin" => (Chosen, c.x(0).cummin(c.axis())?.into()),
        "trapezoid" => (Accumulated, c.x(0).trapezoid(c.float("spacing"), c.axis())?.into()),
        "vector_norm" => (Accumulated, c.x(0).vector_norm(c.float("p"), axes(c), c.flag("keepdim"))?.into()),
        "matrix_norm" => {
            let &[rows, columns] = axes(c).as_slice() else { panic!("{}: two axes", c.name) };
            (Accumulated, c.x(0).matrix_norm(matrix_norm(c), [rows, columns], c.flag("keepdim"))?.into())
        }
        "cumulative_trapezoid" => (Accumulated, c.x(0).cumulative_trapezoid(c.float("spacing"), c.axis())?.into()),
        "cumulative_trapezoid_over" => (Accumulated, c.x(0).cumulative_trapezoid_over(&c.x(1), c.axis())?.into()),
        "trapezoid_over" => (Accumulated, c.x(0).trapezoid_over(&c.x(1), c.axis())?.into()),
        "logcumsumexp" => (Accumulated, c.x(0).logcumsumexp(c.int("dim") as isize)?.into()),
        "logsumexp" => (Accumulated, logsumexp(c)?.into()),
        "cumsum" if c.name.ends_with("integers") => (Exact, c.index(0).cumsum(c.axis())?.into()),
        "cumsum" if c.name.ends_with("truths") => (Exact, c.mask(0).cumsum(c.axis())?.into()),
        "cumsum" => (Accumulated, c.x(0).cumsum(c.axis())?.into()),
        "cumprod" => (Accumulated, c.x(0).cumprod(c.axis())?.into()),
        "softmax" => (Accumulated, c.x(0).softmax(c.axis())?.into()),
        "log_softmax" => (Accumulated, c.x(0).log_softmax(c.axis())?.into()),
        "sort" => (Exact, c.x(0).sort(c.axis(), c.flag("descending"))?.into()),
        "topk" => (Exact, c.x(0).topk(c.size("k"), c.axis(), c.flag("largest"))?.into()),
        _ => return Ok(None),
    }))
}

fn both((a, b): (Tensor<F32>, Tensor<F32>)) -> Outs {
    vec![a, b].into()
}

/// The axes of a reduction; none given means all.
fn axes(c: &Case) -> Vec<isize> {
    if c.given("axes") { c.axes("axes") } else { Vec::new() }
}

fn matrix_norm(c: &Case) -> MatrixNorm {
    match c.options["kind"].to_string().trim_matches('"') {
        "fro" => MatrixNorm::Frobenius,
        "1" => MatrixNorm::LargestColumn,
        "-1" => MatrixNorm::LeastColumn,
        "inf" => MatrixNorm::LargestRow,
        "-inf" => MatrixNorm::LeastRow,
        other => panic!("{}: no norm {other}", c.name),
    }
}

/// One axis after the other: the sum of exponentials over several axes is that of the sums over one.
fn logsumexp(c: &Case) -> Result<Tensor<F32>> {
    let x = c.x(0);
    let mut axes = if c.given("axes") { c.axes("axes") } else { (0..x.rank() as isize).collect() };
    axes.sort_unstable_by(|a, b| b.cmp(a));
    axes.into_iter().try_fold(x, |x, axis| x.logsumexp(axis, c.flag("keepdim")))
}
