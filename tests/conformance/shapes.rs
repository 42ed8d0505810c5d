//! Operations that move elements and round nothing.

use crate::compare::Bound::{Exact, Terms};
use crate::compare::{Arg, conform};
use crate::devices;
use crate::inputs::Values;
use amp::prelude::*;

/// Inputs of these shapes with special values, and of the first with ordinary ones, whose gradients are compared.
fn moved<const N: usize, const R: usize>(shapes: [[usize; R]; N]) -> Vec<Vec<Arg>> {
    let ordinary = vec![Arg::Float(Values::Uniform(-2.0, 2.0), shapes[0].to_vec())];
    shapes.map(|s| vec![Arg::Float(Values::Special, s.to_vec())]).into_iter().chain([ordinary]).collect()
}

fn rank_3() -> Vec<Vec<Arg>> {
    moved([[2, 3, 5], [1, 1, 1], [0, 3, 2], [7, 4, 13]])
}

#[test]
fn views_and_copies() {
    for device in &devices() {
        conform!(device, "contiguous", all, rank_3(), Exact, |a| a.x[0].contiguous());
        conform!(device, "movedim", all, rank_3(), Exact, |a| a.x[0].movedim([0, 1], [2, 0]));
        conform!(device, "permute", all, rank_3(), Exact, |a| a.x[0].permute([2, 0, 1]));
        conform!(device, "flatten", all, rank_3(), Exact, |a| a.x[0].flatten(0, -1));
        conform!(device, "slice_step", all, rank_3(), Exact, |a| a.x[0].slice_step(2, 1.., 2)?.slice_step(0, .., 3));
        conform!(device, "unflatten", all, rank_3(), Exact, |a| a.x[0].unflatten(1, (1, ..)));
        conform!(device, "full_like", all, rank_3(), Exact, |a| a.x[0].full_like(0.25));
        conform!(device, "narrow", all, rank_3(), Exact, |a| a.x[0].narrow(1, 0, 1));
    }
}

fn images() -> Vec<Vec<Arg>> {
    moved([[2, 4, 3, 5], [1, 8, 1, 1], [0, 4, 2, 2]])
}

#[test]
fn rearranging() {
    for device in &devices() {
        conform!(device, "unbind", all, rank_3(), Exact, |a| Ok(a.x[0].unbind(1)?.remove(0)));
        conform!(device, "roll", all, rank_3(), Exact, |a| a.x[0].roll([2, -1], [0, 2]));
        conform!(device, "repeat_interleave", all, rank_3(), Exact, |a| a.x[0].repeat_interleave(3, 1));
        conform!(device, "split", all, rank_3(), Exact, |a| Ok(a.x[0].split(2, -1)?.remove(0)));
        conform!(device, "reshape", all, rank_3(), Exact, |a| {
            a.x[0].transpose(0, 2)?.reshape([a.x[0].dims()[1], a.x[0].dims()[0] * a.x[0].dims()[2]])
        });
        conform!(device, "channel_shuffle", all, images(), Exact, |a| a.x[0].channel_shuffle(2));
        conform!(device, "rot90", all, rank_3(), Exact, |a| a.x[0].rot90(1, 0, 2));
        conform!(device, "pixel_shuffle", all, images(), Exact, |a| a.x[0].pixel_shuffle(2));
        conform!(device, "pixel_unshuffle", all, images(), Exact, |a| {
            a.x[0].pixel_shuffle(2)?.pixel_unshuffle(2)?.repeat([1, 1, 2, 2])?.pixel_unshuffle(2)
        });
    }
}

#[test]
fn diagonals() {
    for device in &devices() {
        conform!(device, "diagonal", all, padded(), Exact, |a| a.x[0].diagonal(-1, 1, 3));
        conform!(device, "diag", all, indexed(&[1], 0), Exact, |a| a.x[0].diag(0));
        conform!(device, "diag_embed", all, columns(), Exact, |a| a.x[0].diag_embed(1));
    }
}

/// Images that are padded, or cut into patches.
fn padded() -> Vec<Vec<Arg>> {
    moved([[2, 3, 3, 4], [1, 1, 5, 3], [0, 2, 3, 3]])
}

/// What is padded along one axis, or along all three.
fn lines() -> Vec<Vec<Arg>> {
    moved([[2, 3, 4], [3, 5, 7]])
}

fn columns() -> Vec<Vec<Arg>> {
    let shapes = [[2, 6, 12], [1, 2, 12]];
    shapes.map(|s| vec![Arg::Float(Values::Uniform(-2.0, 2.0), s.to_vec())]).to_vec()
}

#[test]
fn borders_and_patches() {
    let patches = || amp::ConvOptions::default().padding([1, 0]);
    for device in &devices() {
        conform!(device, "reflection_pad1d", all, lines(), Exact, |a| a.x[0].reflection_pad1d([1, 2]));
        conform!(device, "reflection_pad3d", all, lines(), Exact, |a| a.x[0].reflection_pad3d(1));
        conform!(device, "replication_pad1d", all, lines(), Exact, |a| a.x[0].replication_pad1d([1, 2]));
        conform!(device, "replication_pad3d", all, lines(), Exact, |a| a.x[0].replication_pad3d(1));
        conform!(device, "circular_pad1d", all, lines(), Exact, |a| a.x[0].circular_pad1d([1, 2]));
        conform!(device, "circular_pad3d", all, lines(), Exact, |a| a.x[0].circular_pad3d(1));
        conform!(device, "reflection_pad2d", all, padded(), Exact, |a| a.x[0].reflection_pad2d([1, 2, 0, 1]));
        conform!(device, "replication_pad2d", all, padded(), Exact, |a| a.x[0].replication_pad2d([3, 0, 1, 5]));
        conform!(device, "circular_pad2d", all, padded(), Exact, |a| a.x[0].circular_pad2d([2, 0, 1, 3]));
        conform!(device, "unfold", all, padded(), Exact, |a| a.x[0].unfold([2, 1], patches().stride([2, 1])));
        conform!(device, "fold", all, columns(), Terms(2), |a| a.x[0].fold([2, 4], [2, 1], patches()));
    }
}

fn indexed(index: &[usize], axis: usize) -> Vec<Vec<Arg>> {
    let shapes = [[2, 3], [5, 1], [7, 13]];
    let args =
        |s: [usize; 2]| vec![Arg::Float(Values::Uniform(-2.0, 2.0), s.to_vec()), Arg::Index(s[axis], index.to_vec())];
    shapes.map(args).to_vec()
}

#[test]
fn joining_and_arranging() {
    for device in &devices() {
        conform!(device, "tensor_split", all, rank_3(), Exact, |a| Ok(a.x[0].tensor_split(2, -1)?.remove(0)));
        conform!(device, "split by sizes", all, rank_3(), Exact, |a| {
            let width = a.x[0].dims()[2];
            Ok(a.x[0].split([width - 1, 1], -1)?.remove(0))
        });
        conform!(device, "cat", all, rank_3(), Exact, |a| Tensor::cat(&[&a.x[0], &a.x[0].neg()?, &a.x[0]], 1));
        conform!(device, "hstack", all, rank_3(), Exact, |a| Tensor::hstack(&[&a.x[0], &a.x[0].neg()?]));
        conform!(device, "vstack", all, rank_3(), Exact, |a| Tensor::vstack(&[&a.x[0], &a.x[0].neg()?]));
        conform!(device, "dstack", all, rank_3(), Exact, |a| Tensor::dstack(&[&a.x[0], &a.x[0].neg()?]));
        conform!(device, "column_stack", all, rank_3(), Exact, |a| Tensor::column_stack(&[&a.x[0], &a.x[0].neg()?]));
        conform!(device, "pad_sequence", all, rank_3(), Exact, |a| {
            Tensor::pad_sequence(&[&a.x[0], &a.x[0].narrow(0, 0, 0)?], 0.5)
        });
        conform!(device, "stack", all, rank_3(), Exact, |a| Tensor::stack(&[&a.x[0], &a.x[0].neg()?], -1));
        conform!(device, "repeat", all, rank_3(), Exact, |a| a.x[0].repeat([2, 1, 3]));
        conform!(device, "pad", all, rank_3(), Exact, |a| a.x[0].pad([1, 2, 0, 1], 0.5));
        conform!(device, "flip", all, rank_3(), Exact, |a| a.x[0].flip([0, -1]));
        conform!(device, "tril", all, rank_3(), Exact, |a| a.x[0].tril(1));
        conform!(device, "triu", all, rank_3(), Exact, |a| a.x[0].triu(-1));
        conform!(device, "chunk", all, rank_3(), Exact, |a| Ok(a.x[0].chunk(2, 1)?.remove(0)));
        conform!(device, "expand", all, rank_3(), Exact, |a| a.x[0]
            .unsqueeze(0)?
            .expand([&[3], a.x[0].dims()].concat()));
    }
}

#[test]
fn indexing() {
    for device in &devices() {
        conform!(device, "index_select", all, indexed(&[4], 0), Exact, |a| a.x[0].index_select(0, &a.index[0]));
        conform!(device, "masked_scatter", all, indexed(&[1], 0), Exact, |a| {
            let first = Tensor::<I64>::arange(0, a.x[0].dims()[0], a.x[0].device())?.eq(0)?.unsqueeze(1)?;
            a.x[0].masked_scatter(&first, &a.x[0].neg()?)
        });
        conform!(device, "embedding", all, indexed(&[2, 5], 0), Exact, |a| a.x[0].embedding(&a.index[0]));
        conform!(device, "gather", all, indexed(&[2, 1], 1), Exact, |a| a.x[0].gather(1, &a.index[0]));
        conform!(device, "index_add", all, indexed(&[2], 0), Terms(2), |a| {
            a.x[0].index_add(0, &a.index[0], &Tensor::cat(&[&a.x[0], &a.x[0]], 0)?.narrow(0, 0, 2)?)
        });
        conform!(device, "index", all, indexed(&[2], 0), Exact, |a| a.x[0].index(&[&a.index[0]]));
        conform!(device, "index_put", all, indexed(&[1], 0), Exact, |a| {
            a.x[0].index_put(&[&a.index[0]], &a.x[0].neg()?.narrow(0, 0, 1)?)
        });
        conform!(device, "index_put_add", all, indexed(&[2], 0), Terms(2), |a| {
            a.x[0].index_put_add(&[&a.index[0]], &a.x[0].narrow(0, 0, 1)?)
        });
        conform!(device, "scatter_add", all, indexed(&[2, 1], 1), Terms(2), |a| {
            a.x[0].scatter_add(1, &a.index[0], &a.x[0].narrow(0, 0, 2)?.narrow(1, 0, 1)?)
        });
        conform!(device, "scatter_reduce", all, indexed(&[2, 1], 1), Exact, |a| {
            let src = a.x[0].narrow(0, 0, 2)?.narrow(1, 0, 1)?;
            a.x[0].scatter_reduce(1, &a.index[0], &src, amp::ScatterReduce::Max, true)
        });
        conform!(device, "take_along_dim", all, indexed(&[2, 1], 1), Exact, |a| {
            a.x[0].narrow(0, 0, 2)?.take_along_dim(&a.index[0], 1)
        });
        conform!(device, "index_fill", all, indexed(&[1], 0), Exact, |a| a.x[0].index_fill(0, &a.index[0], 0.25));
        conform!(device, "index_copy", all, indexed(&[1], 0), Exact, |a| {
            a.x[0].index_copy(0, &a.index[0], &a.x[0].neg()?.narrow(0, 0, 1)?)
        });
        conform!(device, "scatter", all, indexed(&[2, 1], 1), Exact, |a| {
            a.x[0].scatter(1, &a.index[0], &a.x[0].narrow(0, 0, 2)?.narrow(1, 0, 1)?)
        });
    }
}

#[test]
fn casts_are_views_that_round_once() {
    for device in &devices() {
        conform!(device, "to_f16", [F32], rank_3(), Exact, |a| a.x[0].to::<F16>(), in_f64 a.x[0].contiguous());
        conform!(device, "to_bf16", [F32], rank_3(), Exact, |a| a.x[0].to::<BF16>(), in_f64 a.x[0].contiguous());
        conform!(device, "to_f32", [F16], rank_3(), Exact, |a| a.x[0].to::<F32>(), in_f64 a.x[0].contiguous());
        conform!(device, "f64_to_f16", [F64], rank_3(), Exact, |a| a.x[0].to::<F16>(), in_f64 a.x[0].contiguous());
        conform!(device, "f64_to_bf16", [F64], rank_3(), Exact, |a| a.x[0].to::<BF16>(), in_f64 a.x[0].contiguous());
        conform!(device, "f64_to_f32", [F64], rank_3(), Exact, |a| a.x[0].to::<F32>(), in_f64 a.x[0].contiguous());
    }
}
