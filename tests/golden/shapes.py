"""Shape operations and indexing."""

import torch
import torch.nn.functional as F

from record import case, ints, vec


def shapes():
    case("reshape/merge", lambda x, shape: x.reshape(shape), (2, 3, 4), shape=[6, 4])
    case("reshape/of_transposed", lambda x, shape: x.t().reshape(shape), (3, 4), shape=[2, 6])
    case("permute/rank_4", lambda x, axes: x.permute(axes), (2, 3, 4, 5), axes=[3, 0, 2, 1])
    case("transpose/negative", lambda x, a, b: x.transpose(a, b), (2, 3, 4), a=-1, b=0)
    case("narrow/middle", lambda x, axis, start, length: x.narrow(axis, start, length), (3, 7), axis=1, start=2, length=3)
    case("narrow/nothing", lambda x, axis, start, length: x.narrow(axis, start, length), (3, 7), axis=0, start=3, length=0)
    select = lambda x, i, axis: x.index_select(axis, i)
    case("index_select/rows", select, (5, 3), ints([4, 0, 0, 2]), axis=0)
    case("index_select/columns", select, (2, 5, 3), ints([1, 1, 4]), axis=1)
    case("index_select/none", select, (5, 3), ints([]), axis=0)
    gather = lambda x, i, axis: x.gather(axis, i)
    case("gather/rows", gather, (4, 3), ints([[0, 3, 1], [2, 2, 0]]), axis=0)
    case("gather/repeated", gather, (2, 5), ints([[0, 0, 4], [1, 3, 3]]), axis=-1)
    scatter = lambda x, i, src, axis: x.scatter_add(axis, i, src)
    case("scatter_add/rows", scatter, (4, 3), ints([[0, 3, 1], [2, 3, 0]]), (2, 3), axis=0)
    case("scatter_add/repeated", scatter, (2, 5), ints([[0, 0, 0, 4], [1, 3, 3, 1]]), (2, 4), axis=1)
    cat = lambda *xs, axis: torch.cat(xs, axis)
    case("cat/rows", cat, (2, 3), (1, 3), (4, 3), axis=0)
    case("cat/last", cat, (2, 3), (2, 2), axis=-1)
    case("cat/with_empty", cat, (2, 3), (0, 3), axis=0)
    case("stack/front", lambda *xs, axis: torch.stack(xs, axis), (2, 3), (2, 3), axis=0)
    case("stack/last", lambda *xs, axis: torch.stack(xs, axis), (2, 3), (2, 3), (2, 3), axis=-1)
    case("split/uneven", lambda x, size, axis: x.split(size, axis), (7, 2), size=3, axis=0)
    case("chunk/uneven", lambda x, chunks, axis: x.chunk(chunks, axis), (2, 7), chunks=3, axis=1)
    case("chunk/fewer", lambda x, chunks, axis: x.chunk(chunks, axis), (2, 5), chunks=4, axis=1)
    case("expand/front", lambda x, shape: x.expand(shape), (3, 1), shape=[2, 3, 4])
    case("expand/scalar", lambda x, shape: x.expand(shape), vec(1.5).reshape(()), shape=[2, 2])
    case("repeat/tiles", lambda x, repeats: x.repeat(repeats), (2, 3), repeats=[2, 1, 3])
    case("repeat/none", lambda x, repeats: x.repeat(repeats), (2, 3), repeats=[0, 1])
    pad = lambda x, pads, value: F.pad(x, pads, value=value)
    case("pad/last", pad, (2, 3), pads=[1, 2], value=0.5)
    case("pad/two_axes", pad, (2, 3, 4), pads=[1, 0, 2, 1], value=0.0)
    case("flip/one", lambda x, axes: x.flip(axes), (3, 4), axes=[0])
    case("flip/two", lambda x, axes: x.flip(axes), (2, 3, 4), axes=[0, -1])
    for op in ("tril", "triu"):
        f = lambda x, diagonal, op=op: getattr(torch, op)(x, diagonal)
        case(f"{op}/main", f, (4, 4), diagonal=0)
        case(f"{op}/above", f, (2, 3, 5), diagonal=1)
        case(f"{op}/below", f, (5, 3), diagonal=-2)
    case("one_hot/plain", lambda i, classes: F.one_hot(i, classes), ints([[0, 2], [3, 3]]), classes=4)
