//! Shapes, views and indexing.

use crate::{Class, Family, Op};

pub(crate) const OPS: &[Op] = &[
    Op::new("index_put", Family::Index, Class::Widest, "values and destination must share a dtype")
        .tensors(&[0, 2])
        .implemented(),
    Op::new("index_put_add", Family::Index, Class::Widest, "values and destination must share a dtype")
        .torch("index_put")
        .tensors(&[0, 2])
        .implemented(),
    Op::new("index", Family::Index, Class::Keep, "data movement").torch("index_select").implemented(),
    Op::new("scatter_add", Family::Index, Class::Widest, "source and destination must share a dtype")
        .tensors(&[0, 3])
        .implemented(),
    Op::new("cat", Family::Shape, Class::Widest, "widest input wins (CUDA relies on cat's own promotion)")
        .list()
        .implemented(),
    Op::new("stack", Family::Shape, Class::Widest, "widest input wins").list().implemented(),
    Op::new("hstack", Family::Shape, Class::Widest, "widest input wins").torch("cat").list().implemented(),
    Op::new("vstack", Family::Shape, Class::Widest, "widest input wins").torch("cat").list().implemented(),
    Op::new("dstack", Family::Shape, Class::Widest, "widest input wins").torch("cat").list().implemented(),
    Op::new("column_stack", Family::Shape, Class::Widest, "widest input wins").torch("cat").list().implemented(),
    Op::new("pad_sequence", Family::Shape, Class::Widest, "widest input wins").torch("cat").list().implemented(),
    Op::new("index_copy", Family::Index, Class::Widest, "CPU only: source and destination must match")
        .tensors(&[0, 3])
        .implemented(),
    Op::new(
        "topk",
        Family::Index,
        Class::Keep,
        "exact selection (MXNet forces fp32; presumably since indices are returned as floats)",
    )
    .implemented(),
    Op::new("sort", Family::Index, Class::Keep, "exact selection").implemented(),
    Op::new("kthvalue", Family::Index, Class::Keep, "exact selection").torch("sort").implemented(),
    Op::new("argsort", Family::Index, Class::Keep, "integer output").implemented(),
    Op::new("reshape", Family::Shape, Class::Keep, "data movement").implemented().commutes(),
    Op::new("view", Family::Shape, Class::Keep, "metadata only").instead("`reshape`"),
    Op::new("transpose", Family::Shape, Class::Keep, "metadata only").implemented().commutes(),
    Op::new("t", Family::Shape, Class::Keep, "metadata only").torch("transpose").implemented().commutes(),
    Op::new("permute", Family::Shape, Class::Keep, "metadata only").implemented().commutes(),
    Op::new("movedim", Family::Shape, Class::Keep, "metadata only").torch("permute").implemented().commutes(),
    Op::new("squeeze", Family::Shape, Class::Keep, "metadata only").implemented().commutes(),
    Op::new("unsqueeze", Family::Shape, Class::Keep, "metadata only").implemented().commutes(),
    Op::new("expand", Family::Shape, Class::Keep, "metadata only").implemented().commutes(),
    Op::new("expand_as", Family::Shape, Class::Keep, "metadata only").torch("expand").implemented().commutes(),
    Op::new("flatten", Family::Shape, Class::Keep, "metadata only").implemented().commutes(),
    Op::new("unflatten", Family::Shape, Class::Keep, "metadata only").torch("reshape").implemented().commutes(),
    Op::new("slice", Family::Shape, Class::Keep, "metadata only").implemented().commutes(),
    Op::new("slice_step", Family::Shape, Class::Keep, "metadata only").torch("slice").implemented().commutes(),
    Op::new("select", Family::Shape, Class::Keep, "metadata only").torch("slice").implemented().commutes(),
    Op::new("narrow", Family::Shape, Class::Keep, "metadata only").implemented().commutes(),
    Op::new("split", Family::Shape, Class::Keep, "metadata only").implemented(),
    Op::new("tensor_split", Family::Shape, Class::Keep, "metadata only").torch("split").implemented(),
    Op::new("chunk", Family::Shape, Class::Keep, "metadata only").implemented(),
    Op::new("unbind", Family::Shape, Class::Keep, "metadata only").implemented(),
    Op::new("meshgrid", Family::Shape, Class::Widest, "requires equal dtypes").torch("expand").list().implemented(),
    Op::new("flip", Family::Shape, Class::Keep, "data movement").implemented().commutes(),
    Op::new("roll", Family::Shape, Class::Keep, "data movement").implemented(),
    Op::new("repeat", Family::Shape, Class::Keep, "data movement").implemented().commutes(),
    Op::new("repeat_interleave", Family::Shape, Class::Keep, "data movement").torch("repeat").implemented(),
    Op::new("tril", Family::Shape, Class::Keep, "mask").implemented().commutes(),
    Op::new("triu", Family::Shape, Class::Keep, "mask").implemented().commutes(),
    Op::new("diag", Family::Shape, Class::Keep, "data movement").implemented(),
    Op::new("diagonal", Family::Shape, Class::Keep, "metadata only").torch("diag").implemented(),
    Op::new("diag_embed", Family::Shape, Class::Keep, "data movement").torch("diag").implemented(),
    Op::new("clone", Family::Shape, Class::Keep, "copy").implemented().commutes(),
    Op::new("contiguous", Family::Shape, Class::Keep, "copy").implemented().commutes(),
    Op::new("detach", Family::Shape, Class::Keep, "metadata only").implemented(),
    Op::new("masked_fill", Family::Index, Class::Keep, "beware fill values beyond 65504 in fp16").implemented(),
    Op::new("masked_scatter", Family::Index, Class::Widest, "requires equal dtypes").tensors(&[0, 2]).implemented(),
    Op::new("gather", Family::Index, Class::Keep, "data movement").implemented().commutes(),
    Op::new("index_select", Family::Index, Class::Keep, "data movement").implemented().commutes(),
    Op::new("index_add", Family::Index, Class::Widest, "requires equal dtypes; mixed raises (gap next to scatter_add)")
        .tensors(&[0, 3])
        .implemented(),
    Op::new("scatter", Family::Index, Class::Widest, "requires equal dtypes; mixed raises")
        .tensors(&[0, 3])
        .implemented(),
    Op::new(
        "scatter_reduce",
        Family::Index,
        Class::Widest,
        "requires equal dtypes; mixed raises (gap next to scatter_add)",
    )
    .tensors(&[0, 3])
    .implemented(),
    Op::new("searchsorted", Family::Index, Class::Widest, "integer output")
        .torch("argsort")
        .tensors(&[0, 1])
        .implemented(),
    Op::new("bucketize", Family::Index, Class::Widest, "integer output")
        .torch("argsort")
        .tensors(&[0, 1])
        .implemented(),
    Op::new("index_fill", Family::Index, Class::Keep, "data movement").torch("masked_fill").implemented(),
    Op::new("take_along_dim", Family::Index, Class::Keep, "data movement").torch("gather").implemented(),
    Op::new("rot90", Family::Shape, Class::Keep, "data movement").torch("flip").implemented(),
    Op::new(
        "embedding",
        Family::Index,
        Class::Keep,
        "table lookup keeps the fp32 table dtype so activations enter the net in fp32",
    )
    .implemented(),
    Op::new("embedding_bag", Family::Index, Class::Keep, "lookup plus reduction in table dtype").implemented(),
    Op::new("nonzero", Family::Index, Class::Keep, "integer output").torch("one_hot").implemented(),
    Op::new("unique", Family::Index, Class::Keep, "exact selection").torch("sort").implemented(),
    Op::new("unique_with_counts", Family::Index, Class::Keep, "exact selection").torch("sort").implemented(),
    Op::new("masked_select", Family::Index, Class::Keep, "data movement").torch("index_select").implemented(),
    Op::new("one_hot", Family::Index, Class::Keep, "integer output").implemented(),
    Op::new("channel_shuffle", Family::Shape, Class::Keep, "data movement").implemented(),
];
