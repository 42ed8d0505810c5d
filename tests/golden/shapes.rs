//! Shape operations and indexing.

use amp::prelude::*;

use crate::case::Tolerance::{Accumulated, Chosen, Exact};
use crate::case::{Case, Outs, Tolerance};
use crate::device;

/// Runs operation `op` on the inputs of `c`; `None` when this table has no such operation.
pub fn apply(op: &str, c: &Case) -> Result<Option<(Tolerance, Outs)>> {
    Ok(Some(match op {
        "permute" => (Exact, c.x(0).permute(c.axes("axes"))?.into()),
        "movedim" => (Exact, c.x(0).movedim(c.axes("source"), c.axes("to"))?.into()),
        "expand_as" => (Chosen, c.x(0).expand_as(&c.x(1))?.into()),
        "unique" => (Exact, c.x(0).unique()?.into()),
        "unique_with_counts" => {
            let (_, inverse, counts) = c.x(0).unique_with_counts()?;
            (Exact, Outs::from(Tensor::cat(&[inverse.flatten(0, -1)?, counts], 0)?))
        }
        "bincount" => (Exact, c.index(0).bincount(c.size("least"))?.into()),
        "transpose" => (Exact, c.x(0).transpose(c.int("a") as isize, c.int("b") as isize)?.into()),
        "narrow" => (Exact, c.x(0).narrow(c.axis(), c.size("start"), c.size("length"))?.into()),
        "slice_step" => (Exact, c.x(0).slice_step(1, c.size("start")..c.size("end"), c.size("step"))?.into()),
        "unflatten" => (Exact, c.x(0).unflatten(c.axis(), c.sizes("sizes"))?.into()),
        "meshgrid" => {
            let indexing = if c.text("indexing") == "xy" { amp::Indexing::Xy } else { amp::Indexing::Ij };
            (Chosen, Tensor::meshgrid(&all(c), indexing)?.into())
        }
        "arange_step" => {
            let [start, end, step] = ["start", "end", "step"].map(|key| c.float(key));
            (Exact, Tensor::<F32>::arange_step(start, end, step, &device())?.into())
        }
        "tensor_split" if c.given("cuts") => (Exact, c.x(0).tensor_split(c.sizes("cuts"), c.axis())?.into()),
        "tensor_split" => (Exact, c.x(0).tensor_split(c.size("parts"), c.axis())?.into()),
        "masked_scatter" => (Chosen, c.x(0).masked_scatter(&c.mask(1), &c.x(2))?.into()),
        "diff" => (Accumulated, c.x(0).diff(c.size("times"), c.axis())?.into()),
        "expand" => (Chosen, c.x(0).expand(c.sizes("shape"))?.into()),
        "reshape" if c.name.ends_with("of_transposed") => (Exact, c.x(0).t()?.reshape(c.sizes("shape"))?.into()),
        "reshape" => (Exact, c.x(0).reshape(c.sizes("shape"))?.into()),
        "index_select" => (Chosen, c.x(0).index_select(c.axis(), &c.index(1))?.into()),
        "gather" => (Chosen, c.x(0).gather(c.axis(), &c.index(1))?.into()),
        "scatter_add" => (Accumulated, c.x(0).scatter_add(c.axis(), &c.index(1), &c.x(2))?.into()),
        "scatter" => (Chosen, c.x(0).scatter(c.axis(), &c.index(1), c.x(2))?.into()),
        "scatter_number" => (Chosen, c.x(0).scatter(c.axis(), &c.index(1), c.float("value"))?.into()),
        "index_copy" => (Chosen, c.x(0).index_copy(c.axis(), &c.index(1), &c.x(2))?.into()),
        "index_fill" => (Chosen, c.x(0).index_fill(c.axis(), &c.index(1), c.float("value"))?.into()),
        "take_along_dim" => (Chosen, c.x(0).take_along_dim(&c.index(1), c.axis())?.into()),
        "rot90" => {
            let axes = c.axes("axes");
            (Exact, c.x(0).rot90(c.int("times"), axes[0], axes[1])?.into())
        }
        "scatter_reduce" => {
            let how = match c.text("how") {
                "sum" => amp::ScatterReduce::Sum,
                "mean" => amp::ScatterReduce::Mean,
                "amax" => amp::ScatterReduce::Max,
                _ => amp::ScatterReduce::Min,
            };
            let y = c.x(0).scatter_reduce(c.axis(), &c.index(1), &c.x(2), how, c.flag("own"))?;
            (Accumulated, y.into())
        }
        "searchsorted" => (Exact, c.x(0).searchsorted(&c.x(1), c.flag("right"))?.into()),
        "bucketize" => (Exact, c.x(0).bucketize(&c.x(1), c.flag("right"))?.into()),
        "index" if c.has(2) => (Chosen, c.x(0).index(&[c.index(1), c.index(2)])?.into()),
        "index" => (Chosen, c.x(0).index(&[c.index(1)])?.into()),
        "index_put" => (Chosen, c.x(0).index_put(&[c.index(2), c.index(3)], &c.x(1))?.into()),
        "index_put_add" => (Accumulated, c.x(0).index_put_add(&[c.index(2), c.index(3)], &c.x(1))?.into()),
        "index_add" => (Accumulated, c.x(0).index_add(c.axis(), &c.index(1), &c.x(2))?.into()),
        "unbind" => (Exact, c.x(0).unbind(c.axis())?.into()),
        "roll" => (Exact, c.x(0).roll(c.axes("shifts"), c.axes("axes"))?.into()),
        "repeat_interleave_counts" => (Chosen, c.x(0).repeat_interleave(&c.index(1), 1)?.into()),
        "repeat_interleave" => (Chosen, c.x(0).repeat_interleave(c.size("times"), c.axis())?.into()),
        "channel_shuffle" => (Exact, c.x(0).channel_shuffle(c.size("groups"))?.into()),
        "max_unpool3d" => (Chosen, c.x(0).max_unpool3d(&c.index(1), c.extent::<3>("size"))?.into()),
        "max_unpool2d" => (Chosen, c.x(0).max_unpool2d(&c.index(1), c.pair("size"))?.into()),
        "pixel_shuffle" => (Exact, c.x(0).pixel_shuffle(c.size("factor"))?.into()),
        "pixel_unshuffle" => (Exact, c.x(0).pixel_unshuffle(c.size("factor"))?.into()),
        "embedding" => (Chosen, c.x(1).embedding(&c.index(0))?.into()),
        "cat" => (Exact, Tensor::cat(&refs(&all(c)), c.axis())?.into()),
        "hstack" => (Exact, Tensor::hstack(&all(c))?.into()),
        "vstack" => (Exact, Tensor::vstack(&all(c))?.into()),
        "dstack" => (Exact, Tensor::dstack(&all(c))?.into()),
        "column_stack" => (Exact, Tensor::column_stack(&all(c))?.into()),
        "pad_sequence" => (Exact, Tensor::pad_sequence(&all(c), c.float("value"))?.into()),
        "stack" => (Exact, Tensor::stack(&refs(&all(c)), c.axis())?.into()),
        "split" if c.given("sizes") => (Exact, c.x(0).split(c.sizes("sizes"), c.axis())?.into()),
        "split" => (Exact, c.x(0).split(c.size("size"), c.axis())?.into()),
        "chunk" => (Exact, c.x(0).chunk(c.size("chunks"), c.axis())?.into()),
        "repeat" => (Chosen, c.x(0).repeat(c.sizes("repeats"))?.into()),
        "pad" => (Exact, c.x(0).pad(c.sizes("pads"), c.float("value"))?.into()),
        "reflection_pad1d" => (Chosen, c.x(0).reflection_pad1d(c.extent::<2>("pads"))?.into()),
        "reflection_pad2d" => (Chosen, c.x(0).reflection_pad2d(c.extent::<4>("pads"))?.into()),
        "reflection_pad3d" => (Chosen, c.x(0).reflection_pad3d(c.extent::<6>("pads"))?.into()),
        "replication_pad1d" => (Chosen, c.x(0).replication_pad1d(c.extent::<2>("pads"))?.into()),
        "replication_pad2d" => (Chosen, c.x(0).replication_pad2d(c.extent::<4>("pads"))?.into()),
        "replication_pad3d" => (Chosen, c.x(0).replication_pad3d(c.extent::<6>("pads"))?.into()),
        "circular_pad1d" => (Chosen, c.x(0).circular_pad1d(c.extent::<2>("pads"))?.into()),
        "circular_pad2d" => (Chosen, c.x(0).circular_pad2d(c.extent::<4>("pads"))?.into()),
        "circular_pad3d" => (Chosen, c.x(0).circular_pad3d(c.extent::<6>("pads"))?.into()),
        "unfold" => (Chosen, c.x(0).unfold(c.pair("kernel"), patches(c))?.into()),
        "fold" => (Accumulated, c.x(0).fold(c.pair("size"), c.pair("kernel"), patches(c))?.into()),
        "flip" => (Exact, c.x(0).flip(c.axes("axes"))?.into()),
        "tril" => (Exact, c.x(0).tril(c.int("diagonal"))?.into()),
        "triu" => (Exact, c.x(0).triu(c.int("diagonal"))?.into()),
        "diag" => (Exact, c.x(0).diag(c.int("diagonal"))?.into()),
        "diagonal" => {
            (Exact, c.x(0).diagonal(c.int("diagonal"), c.int("rows") as isize, c.int("columns") as isize)?.into())
        }
        "diag_embed" => (Exact, c.x(0).diag_embed(c.int("diagonal"))?.into()),
        "tril_indices" => {
            (Exact, Tensor::tril_indices(c.size("rows"), c.size("columns"), c.int("diagonal"), &device())?.into())
        }
        "triu_indices" => {
            (Exact, Tensor::triu_indices(c.size("rows"), c.size("columns"), c.int("diagonal"), &device())?.into())
        }
        "one_hot" => (Exact, c.index(0).one_hot(c.size("classes"))?.into()),
        _ => return Ok(None),
    }))
}

fn patches(c: &Case) -> amp::ConvOptions<2> {
    let options = amp::ConvOptions::default().stride(c.pair("stride")).padding(c.pair("padding"));
    options.dilation(c.pair("dilation"))
}

fn all(c: &Case) -> Vec<Tensor<F32>> {
    (0..c.count()).map(|i| c.x(i)).collect()
}

fn refs(tensors: &[Tensor<F32>]) -> Vec<&Tensor<F32>> {
    tensors.iter().collect()
}
