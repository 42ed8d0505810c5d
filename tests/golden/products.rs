//! Matrix products, convolutions, attention.

use amp::prelude::*;
use amp::{AttentionOptions, ConvOptions};

use crate::case::Tolerance::Accumulated;
use crate::case::{Case, Outs, Tolerance};

/// Runs operation `op` on the inputs of `c`; `None` when this table has no such operation.
pub fn apply(op: &str, c: &Case) -> Result<Option<(Tolerance, Outs)>> {
    Ok(Some(match op {
        "matmul" => (Accumulated, c.x(0).matmul(&c.x(1))?.into()),
        "vdot" => (Accumulated, c.x(0).vdot(&c.x(1))?.into()),
        "inner" => (Accumulated, c.x(0).inner(&c.x(1))?.into()),
        "vecdot" => (Accumulated, c.x(0).vecdot(&c.x(1), c.axis())?.into()),
        "cholesky" => (Accumulated, c.x(0).cholesky()?.into()),
        "cholesky_solve" => (Accumulated, c.x(0).cholesky_solve(&c.x(1), c.flag("upper"))?.into()),
        "solve_triangular" => (Accumulated, c.x(0).solve_triangular(&c.x(1), c.flag("upper"), c.flag("unit"))?.into()),
        "solve" => (Accumulated, c.x(0).solve(&c.x(1))?.into()),
        "inverse" => (Accumulated, c.x(0).inverse()?.into()),
        "det" => (Accumulated, c.x(0).det()?.into()),
        "logdet" => (Accumulated, c.x(0).logdet()?.into()),
        "slogdet" => {
            let (sign, log) = c.x(0).slogdet()?;
            (Accumulated, vec![sign, log].into())
        }
        "tensordot" => (Accumulated, c.x(0).tensordot(&c.x(1), c.size("axes"))?.into()),
        "tensordot_over" => (Accumulated, c.x(0).tensordot_over(&c.x(1), c.axes("left"), c.axes("right"))?.into()),
        "einsum_of" => (
            Accumulated,
            Tensor::einsum_of(&(0..c.count()).map(|i| c.x(i)).collect::<Vec<_>>(), c.text("equation"))?.into(),
        ),
        "kron" => (Accumulated, c.x(0).kron(&c.x(1))?.into()),
        "cross" => (Accumulated, c.x(0).cross(&c.x(1), c.axis())?.into()),
        "addmm" => (Accumulated, c.x(0).addmm(&c.x(1), &c.x(2))?.into()),
        "addmv" => (Accumulated, c.x(0).addmv(&c.x(1), &c.x(2))?.into()),
        "addr" => (Accumulated, c.x(0).addr(&c.x(1), &c.x(2))?.into()),
        "addbmm" => (Accumulated, c.x(0).addbmm(&c.x(1), &c.x(2))?.into()),
        "matrix_power" => (Accumulated, c.x(0).matrix_power(c.size("n") as u32)?.into()),
        "dist" => (Accumulated, c.x(0).dist(&c.x(1), c.float("p"))?.into()),
        "cdist" => (Accumulated, c.x(0).cdist(&c.x(1), c.float("p"))?.into()),
        "pairwise_distance" => (Accumulated, c.x(0).pairwise_distance(&c.x(1), 2.0, 1e-6, false)?.into()),
        "trace" => (Accumulated, c.x(0).trace()?.into()),
        "linear" => (Accumulated, c.x(0).linear(&c.x(1), c.maybe(2).as_ref())?.into()),
        "conv1d" => (Accumulated, c.x(0).conv1d(&c.x(1), c.maybe(2).as_ref(), conv1d(c))?.into()),
        "conv3d" => {
            let options = ConvOptions::default().stride(c.extent::<3>("stride")).padding(c.extent::<3>("padding"));
            let options = options.dilation(c.extent::<3>("dilation")).groups(c.size("groups"));
            (Accumulated, c.x(0).conv3d(&c.x(1), c.maybe(2).as_ref(), options)?.into())
        }
        "conv_transpose3d" => {
            let options = ConvOptions::default().stride(c.extent::<3>("stride")).padding(c.extent::<3>("padding"));
            let options = options.dilation(c.extent::<3>("dilation")).groups(c.size("groups"));
            let options = options.output_padding(c.extent::<3>("output_padding"));
            (Accumulated, c.x(0).conv_transpose3d(&c.x(1), c.maybe(2).as_ref(), options)?.into())
        }
        "adaptive_max_pool3d" => (Accumulated, c.x(0).adaptive_max_pool3d(c.extent::<3>("size"))?.into()),
        "adaptive_avg_pool3d" => (Accumulated, c.x(0).adaptive_avg_pool3d(c.extent::<3>("size"))?.into()),
        "bilinear" => (Accumulated, c.x(0).bilinear(&c.x(1), &c.x(2), c.maybe(3).as_ref())?.into()),
        "embedding_bag" => {
            let offsets: Vec<i64> = c.sizes("offsets").into_iter().map(|offset| offset as i64).collect();
            let offsets = Tensor::<I64>::from_slice(&offsets, [offsets.len()], &crate::device())?;
            let mode = match c.text("mode") {
                "sum" => amp::BagMode::Sum,
                "mean" => amp::BagMode::Mean,
                _ => amp::BagMode::Max,
            };
            (Accumulated, c.x(1).embedding_bag(&c.index(0), Some(&offsets), mode)?.into())
        }
        "max_pool3d" => (Accumulated, c.x(0).max_pool3d(volumes(c))?.into()),
        "max_pool3d_with_indices" => (Accumulated, c.x(0).max_pool3d_with_indices(volumes(c))?.into()),
        "avg_pool3d" => (Accumulated, c.x(0).avg_pool3d(volumes(c))?.into()),
        "lp_pool2d" => (Accumulated, c.x(0).lp_pool2d(c.float("p"), c.size("kernel"))?.into()),
        "conv2d" => (Accumulated, c.x(0).conv2d(&c.x(1), c.maybe(2).as_ref(), conv2d(c))?.into()),
        "conv_transpose2d" => {
            let options = conv2d(c).output_padding(c.pair("output_padding"));
            (Accumulated, c.x(0).conv_transpose2d(&c.x(1), c.maybe(2).as_ref(), options)?.into())
        }
        "scaled_dot_product_attention" => {
            let mask = c.has(3).then(|| c.mask(3));
            let plain = AttentionOptions::default().causal(c.flag("is_causal"));
            let options = if c.given("scale") { plain.scale(c.float("scale")) } else { plain };
            let y = c.x(0).scaled_dot_product_attention(&c.x(1), &c.x(2), mask.as_ref(), options)?;
            (Accumulated, y.into())
        }
        "scaled_dot_product_attention_biased" => {
            let options = AttentionOptions::default().causal(c.flag("is_causal"));
            let y = c.x(0).scaled_dot_product_attention_biased(&c.x(1), &c.x(2), &c.x(3), None, options)?;
            (Accumulated, y.into())
        }
        _ => return Ok(None),
    }))
}

fn volumes(c: &Case) -> amp::PoolOptions<3> {
    let windows = amp::PoolOptions::new(c.extent::<3>("kernel")).stride(c.extent::<3>("stride"));
    windows.padding(c.extent::<3>("padding"))
}

fn conv1d(c: &Case) -> ConvOptions<1> {
    let size = |key| c.size(key);
    ConvOptions::default()
        .stride(size("stride"))
        .padding(size("padding"))
        .dilation(size("dilation"))
        .groups(size("groups"))
}

fn conv2d(c: &Case) -> ConvOptions<2> {
    let pair = |key| c.pair(key);
    let options = ConvOptions::default().stride(pair("stride")).padding(pair("padding"));
    options.dilation(pair("dilation")).groups(c.size("groups"))
}
