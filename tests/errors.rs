//! Bad input gives an error that names the operation and the values; nothing panics.

use std::panic::{AssertUnwindSafe, catch_unwind};

use amp::nn::{BatchNorm1d, Conv2d, GroupNorm, Lstm, MultiHeadAttention};
use amp::prelude::*;
use proptest::prelude::*;

/// Parts that the text of the error must contain, the first of them at its start; and the call.
type Bad = (&'static [&'static str], fn() -> Result<()>);

fn f32(shape: impl amp::IntoShape) -> Tensor<F32> {
    Tensor::ones(shape, &Device::cpu()).expect("a valid shape")
}

fn i64<const N: usize>(values: [i64; N]) -> Tensor<I64> {
    Tensor::from_vec(values.to_vec(), [N], &Device::cpu()).expect("one dimension")
}

const CREATION: &[Bad] = &[
    (&["from_vec: ", "[2, 3]", "6", "5"], || Tensor::<F32>::from_vec(vec![0.0; 5], [2, 3], &Device::cpu()).map(drop)),
    (&["zeros: ", "9 dimensions", "8"], || Tensor::<F32>::zeros([1; 9], &Device::cpu()).map(drop)),
    (&["zeros: ", "more elements"], || Tensor::<F32>::zeros([usize::MAX, 2], &Device::cpu()).map(drop)),
    (&["zeros: ", "more elements"], || Tensor::<F32>::zeros([1 << 32, 1 << 32], &Device::cpu()).map(drop)),
    (&["randn: ", "more elements"], || Tensor::<F32>::randn([usize::MAX / 4], &Device::cpu()).map(drop)),
    (&["zeros: ", "no memory", "140737488355328 bytes"], || Tensor::<F32>::zeros([1 << 45], &Device::cpu()).map(drop)),
    (&["randn: ", "no memory"], || Tensor::<F32>::randn([1 << 45], &Device::cpu()).map(drop)),
    (&["copy: ", "no memory"], || f32([1, 1]).expand([1 << 22, 1 << 23])?.contiguous().map(drop)),
    (&["matmul: ", "no memory"], || f32([1 << 22, 1]).matmul(&f32([1, 1 << 23])).map(drop)),
    (&["arange: ", "no memory"], || Tensor::<I64>::arange(0, 1_u64 << 45, &Device::cpu()).map(drop)),
    (&["linspace: ", "more elements"], || Tensor::linspace(0.0, 1.0, 1 << 61, &Device::cpu()).map(drop)),
    (&["linspace: ", "no memory"], || Tensor::linspace(0.0, 1.0, 1 << 45, &Device::cpu()).map(drop)),
    (&["from_fn: ", "no memory"], || Tensor::<F32>::from_fn([1 << 45], |_| 0.0, &Device::cpu()).map(drop)),
    (&["conv2d: ", "no memory"], || {
        let (options, w) =
            (amp::ConvOptions::default().padding(1 << 14), f32([1, 1, 1, 1]).expand([1 << 16, 1, 1, 1])?);
        f32([1, 1, 2, 2]).conv2d(&w, None, options).map(drop)
    }),
    (&["conv_transpose2d: ", "no memory"], || {
        let options = amp::ConvOptions::default().stride(1 << 22);
        f32([1, 1, 2, 2]).conv_transpose2d(&f32([1, 1, 1, 1]), None, options).map(drop)
    }),
    (&["upsample_nearest: ", "no memory"], || f32([1, 1, 2, 2]).upsample_nearest(1 << 23).map(drop)),
    (&["adaptive_avg_pool2d: ", "no memory"], || f32([1, 1, 2, 2]).adaptive_avg_pool2d(1 << 23).map(drop)),
    (&["index_select: ", "no memory"], || {
        f32([1, 1]).expand([1, 1 << 25])?.index_select(0, &i64([0]).expand([1 << 20])?).map(drop)
    }),
    (&["tril: ", "no memory"], || f32([1, 1]).expand([1 << 22, 1 << 23])?.tril(0).map(drop)),
    (&["flip: ", "no memory"], || f32([1]).expand([1 << 45])?.flip([0]).map(drop)),
    (&["one_hot: ", "more elements"], || i64([0, 0]).one_hot(usize::MAX).map(drop)),
    (&["arange: ", "no memory"], || i64([0]).one_hot(1 << 45).map(drop)),
    (&["item: ", "[2]"], || f32([2]).item().map(drop)),
    (&["randperm: ", "more elements"], || Tensor::randperm(usize::MAX, &Device::cpu()).map(drop)),
    (&["item: ", "[0]"], || f32([0]).item().map(drop)),
];

/// Operations that are made of others name themselves.
const COMPOSED: &[Bad] = &[
    (&["mm: ", "[2, 3]", "inner dimensions"], || f32([2, 3]).mm(&f32([2, 3])).map(drop)),
    (&["bmm: ", "[1, 2, 3]", "inner dimensions"], || f32([1, 2, 3]).bmm(&f32([1, 2, 3])).map(drop)),
    (&["mv: ", "[2, 3]", "[2]"], || f32([2, 3]).mv(&f32([2])).map(drop)),
    (&["dot: ", "[3]", "[2]"], || f32([3]).dot(&f32([2])).map(drop)),
    (&["bilinear: ", "the bias", "[5]", "[1]"], || {
        f32([2, 3]).bilinear(&f32([2, 4]), &f32([5, 3, 4]), Some(&f32([1]))).map(drop)
    }),
    (&["cdist: ", "[2]", "[5]"], || f32([2, 3, 4]).cdist(&f32([5, 6, 4]), 2.0).map(drop)),
    (&["cdist: ", "9 dimensions"], || f32([1; 8]).cdist(&f32([1; 8]), 1.0).map(drop)),
    (&["dist: ", "[2]", "[3]"], || f32([2]).dist(&f32([3]), 2.0).map(drop)),
    (&["pairwise_distance: ", "[2]", "[3]"], || f32([2]).pairwise_distance(&f32([3]), 2.0, 1e-6, false).map(drop)),
    (&["pairwise_distance: ", "1 dimension"], || f32(()).pairwise_distance(&f32(()), 2.0, 1e-6, false).map(drop)),
    (&["norm: ", "[0, 3]"], || f32([0, 3]).norm(f64::INFINITY, 0, false).map(drop)),
    (&["remainder: ", "256"], || Tensor::<U8>::ones([1], &Device::cpu())?.remainder(256).map(drop)),
    (&["scatter: ", "300"], || Tensor::<U8>::ones([1], &Device::cpu())?.scatter(0, &i64([0]), 300).map(drop)),
];

const VIEWS: &[Bad] = &[
    (&["reshape: ", "[4]", "4", "6"], || f32([2, 3]).reshape([4]).map(drop)),
    (&["reshape: "], || f32([0]).reshape([usize::MAX, 0]).map(drop)),
    (&["permute: ", "[0, 0]"], || f32([2, 3]).permute([0, 0]).map(drop)),
    (&["permute: "], || f32([2, 3]).permute([0]).map(drop)),
    (&["transpose: ", "axis 2", "2 dimensions"], || f32([2, 3]).transpose(0, 2).map(drop)),
    (&["transpose: ", "-9223372036854775808"], || f32([2, 3]).transpose(0, isize::MIN).map(drop)),
    (&["t: ", "[3]"], || f32([3]).t().map(drop)),
    (&["unsqueeze: "], || f32([1; 8]).unsqueeze(0).map(drop)),
    (&["squeeze: ", "[2, 3]"], || f32([2, 3]).squeeze(0).map(drop)),
    (&["narrow: ", "2..5", "axis 1", "[2, 3]"], || f32([2, 3]).narrow(1, 2, 3).map(drop)),
    (&["narrow: ", "[2, 3]"], || f32([2, 3]).narrow(0, usize::MAX, usize::MAX).map(drop)),
    (&["slice: ", "2..9", "axis 1"], || f32([2, 3]).slice(1, 2..9).map(drop)),
    (&["select: ", "index 2", "size 2"], || f32([2, 3]).select(0, 2).map(drop)),
    (&["expand: ", "[2, 3]", "[4, 3]"], || f32([2, 3]).expand([4, 3]).map(drop)),
    (&["unbind: ", "axis 2"], || f32([2, 3]).unbind(2).map(drop)),
    (&["roll: ", "[1, 2]"], || f32([2, 3]).roll([1, 2], 0).map(drop)),
    (&["repeat_interleave: ", "more elements"], || f32([2, 3]).repeat_interleave(usize::MAX, 0).map(drop)),
    (&["repeat_interleave: ", "dimensions"], || f32([1; 8]).repeat_interleave(2, 0).map(drop)),
    (&["pixel_shuffle: ", "[1, 3, 2, 2]"], || f32([1, 3, 2, 2]).pixel_shuffle(2).map(drop)),
    (&["expand: ", "[2, 3]", "[3]"], || f32([2, 3]).expand([3]).map(drop)),
];

const ARITHMETIC: &[Bad] = &[
    (&["corrcoef: ", "[2, 3, 4]"], || f32([2, 3, 4]).corrcoef().map(drop)),
    (&["lp_pool2d: ", "[3, 4, 4]"], || f32([3, 4, 4]).lp_pool2d(2.0, 2).map(drop)),
    (&["add: ", "[2, 3]", "[4]"], || (f32([2, 3]) + f32([4])).map(drop)),
    (&["mul: ", "[2]", "[0]"], || (f32([2]) * f32([0])).map(drop)),
    (&["matmul: ", "[2, 3]", "[4, 5]"], || f32([2, 3]).matmul(&f32([4, 5])).map(drop)),
    (&["sum: ", "axis 2", "2 dimensions"], || f32([2, 3]).sum([2], false).map(drop)),
    (&["sum: ", "axis -3", "2 dimensions"], || f32([2, 3]).sum([-3], false).map(drop)),
    (&["sum: ", "given twice", "[0, -2]"], || f32([2, 3]).sum([0, -2], false).map(drop)),
];

const INDEXING: &[Bad] = &[
    (&["index_select: ", "3", "size 2"], || f32([2, 3]).index_select(0, &i64([0, 3])).map(drop)),
    (&["index_select: ", "-1", "size 2"], || f32([2, 3]).index_select(0, &i64([-1])).map(drop)),
    (&["embedding: ", "7", "size 4"], || f32([4, 2]).embedding(&i64([0, 7])).map(drop)),
    (&["embedding: ", "2 dimensions", "[4]"], || f32([4]).embedding(&i64([0])).map(drop)),
    (&["gather: ", "9"], || f32([2, 3]).gather(1, &i64([9, 0]).reshape([2, 1])?).map(drop)),
    (&["index_add: ", "3", "size 2"], || f32([2, 3]).index_add(0, &i64([3]), &f32([1, 3])).map(drop)),
    (&["index_add: ", "[1, 3]", "[3]"], || f32([2, 3]).index_add(0, &i64([0]), &f32(3)).map(drop)),
    (&["take_along_dim: ", "5", "size 3"], || f32([2, 3]).take_along_dim(&i64([5]).reshape([1, 1])?, 1).map(drop)),
    (&["index_put: ", "2", "size 2"], || f32([2, 3]).index_put(&[i64([2])], &f32([3])).map(drop)),
    (&["kthvalue: ", "4", "1 to 3"], || f32([2, 3]).kthvalue(4, 1, false).map(drop)),
    (&["multinomial: ", "[1, 1, 1]"], || f32([1, 1, 1]).multinomial(1, true).map(drop)),
    (&["multinomial: ", "3", "4"], || f32(3).multinomial(4, false).map(drop)),
    (&["one_hot: ", "5"], || i64([0, 5]).one_hot(5).map(drop)),
    (&["topk: ", "4"], || f32([3]).topk(4, 0, true).map(drop)),
    (&["cat: ", "[2]", "[1, 2]"], || Tensor::cat(&[&f32([2]), &f32([1, 2])], 0).map(drop)),
    (&["cat: "], || Tensor::cat(&Vec::<Tensor<F32>>::new(), 0).map(drop)),
    (&["stack: ", "[2]", "[3]"], || Tensor::stack(&[&f32([2]), &f32([3])], 0).map(drop)),
    (&["amax: ", "[0, 2]"], || f32([0, 2]).amax([0], false).map(drop)),
    (&["min_all: ", "[0, 2]"], || f32([0, 2]).min_all().map(drop)),
    (&["max: ", "[0, 2]"], || f32([0, 2]).max([0], false).map(drop)),
    (&["argmax: ", "[2, 0]"], || f32([2, 0]).argmax(1, false).map(drop)),
];

const LAYERS: &[Bad] = &[
    (&["softmax: ", "axis 2"], || f32([2, 3]).softmax(2).map(drop)),
    (&["layer_norm: ", "[.., 4]"], || f32([2, 3]).layer_norm([4], None, None, 1e-5).map(drop)),
    (&["group_norm: ", "2"], || f32([1, 3, 2]).group_norm(2, None, None, 1e-5).map(drop)),
    (&["addmm: ", "[2, 3]", "[5, 4]"], || f32([2, 4]).addmm(&f32([2, 3]), &f32([5, 4])).map(drop)),
    (&["baddbmm: ", "[2, 2, 3]", "[3, 3, 4]"], || f32([4]).baddbmm(&f32([2, 2, 3]), &f32([3, 3, 4])).map(drop)),
    (&["linear: ", "[2, 3]", "[5, 4]"], || f32([2, 3]).linear(&f32([5, 4]), None).map(drop)),
    (&["max_pool2d: "], || f32([1, 1, 2, 2]).max_pool2d(3).map(drop)),
    (&["repeat: ", "more elements"], || f32([2]).repeat([usize::MAX, 2]).map(drop)),
    (&["conv2d: ", "padding", "2^31"], || {
        let options = amp::ConvOptions::default().padding(1 << 40);
        f32([1, 1, 2, 2]).conv2d(&f32([1, 1, 1, 1]), None, options).map(drop)
    }),
    (&["max_pool2d: "], || f32([1, 1, 2, 2]).max_pool2d(0).map(drop)),
    (&["glu: ", "3"], || f32([2, 3]).glu(-1).map(drop)),
    (&["normalize: ", "axis 2"], || f32([2, 3]).normalize(2.0, 2, 1e-12).map(drop)),
    (&["cosine_similarity: ", "[2, 3]", "[4]"], || f32([2, 3]).cosine_similarity(&f32(4), 1, 1e-8).map(drop)),
    (&["triplet_margin_loss: ", "[2, 3]", "[3]"], || {
        f32([2, 3]).triplet_margin_loss(&f32([2, 3]), &f32(3), 1.0).map(drop)
    }),
    (&["dropout: ", "1.5"], || f32([2]).dropout(1.5, true).map(drop)),
    (&["cross_entropy: ", "3"], || f32([2, 3]).cross_entropy(&i64([0, 3])).map(drop)),
    (&["cross_entropy: ", "[2, 3]", "[3]"], || f32([2, 3]).cross_entropy(&i64([0, 1, 2])).map(drop)),
    (&["nll_loss: ", "-1"], || f32([2, 3]).nll_loss(&i64([0, -1])).map(drop)),
    (&["BatchNorm1d: ", "found [1, 3]"], || BatchNorm1d::new(3, &Device::cpu())?.forward(&f32([1, 3])).map(drop)),
    (&["GroupNorm: ", "[N, 4, ..]", "[2, 6]"], || {
        GroupNorm::new(2, 4, &Device::cpu())?.forward(&f32([2, 6])).map(drop)
    }),
    (&["uniform: ", "more elements"], || Conv2d::new(2, 2, usize::MAX, &Device::cpu()).map(drop)),
    (&["uniform: ", "more elements"], || Lstm::new(0, 1 << 62, &Device::cpu()).map(drop)),
    (&["uniform: ", "more elements"], || MultiHeadAttention::new(1 << 63, 2, &Device::cpu()).map(drop)),
    (&["MultiHeadAttention: ", "the value", "[1, 5, 4]", "[1, 6, 4]"], || attention([1, 3, 4], [1, 5, 4], [1, 6, 4])),
    (&["MultiHeadAttention: ", "the key", "[1, 5, 4]", "[2, 5, 4]"], || attention([1, 3, 4], [2, 5, 4], [2, 5, 4])),
    (&["mse_loss: "], || f32([2, 3]).mse_loss(&f32([4])).map(drop)),
];

fn attention(query: [usize; 3], key: [usize; 3], value: [usize; 3]) -> Result<()> {
    let layer = MultiHeadAttention::new(4, 2, &Device::cpu())?;
    layer.forward(&f32(query), &f32(key), &f32(value), None).map(drop)
}

/// A second pass through a graph that the first has freed.
fn twice(loss: Tensor<F32>) -> Result<()> {
    drop(loss.backward()?);
    loss.backward().map(drop)
}

const AUTOGRAD: &[Bad] = &[
    (&["backward: ", "[2]"], || f32([2]).tracked().backward().map(drop)),
    (&["backward: ", "requires a gradient"], || f32([1]).backward().map(drop)),
    (&["backward: ", "freed"], || {
        let loss = f32([2]).tracked().tanh()?.sum_all()?;
        drop(loss.backward()?);
        loss.backward().map(drop)
    }),
    (&["backward: ", "`tanh`"], || twice(f32([2]).tracked().tanh()?.sum_all()?)),
    (&["backward: ", "`sqr`"], || twice(f32([1, 2]).tracked().sqr()?.select(1, 1)?)),
    (&["backward: ", "`sqr`"], || twice(f32([1, 1]).tracked().sqr()?.transpose(0, 1)?)),
];

#[test]
fn bad_input_is_named_in_an_error() {
    let mut wrong = Vec::new();
    for table in [CREATION, COMPOSED, VIEWS, ARITHMETIC, INDEXING, LAYERS, AUTOGRAD] {
        for (i, (parts, call)) in table.iter().enumerate() {
            match catch_unwind(call) {
                Err(_) => wrong.push(format!("{parts:?}: panicked")),
                Ok(Ok(())) => wrong.push(format!("number {i}, {parts:?}: no error")),
                Ok(Err(error)) => {
                    let text = error.to_string();
                    let named = text.starts_with(parts[0]) && parts.iter().all(|p| text.contains(p));
                    let style = !text.ends_with('.') && !text.contains('\n');
                    if !named || !style {
                        wrong.push(format!("{parts:?}: the text is \"{text}\""));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Arguments of a random call.
#[derive(Clone, Debug)]
struct Call {
    left: Vec<usize>,
    right: Vec<usize>,
    axis: isize,
    other: isize,
    sizes: Vec<usize>,
    index: Vec<i64>,
}

fn shape() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(0usize..5, 0..5)
}

fn call() -> impl Strategy<Value = Call> {
    let sizes = prop::collection::vec(prop_oneof![8 => 0usize..6, 1 => Just(usize::MAX), 1 => Just(1 << 40)], 0..10);
    let index = prop::collection::vec(prop_oneof![8 => -2i64..6, 1 => Just(i64::MIN), 1 => Just(i64::MAX)], 0..6);
    (shape(), shape(), -6isize..6, -6isize..6, sizes, index).prop_map(|(left, right, axis, other, sizes, index)| Call {
        left,
        right,
        axis,
        other,
        sizes,
        index,
    })
}

/// One operation with random arguments; whether they make sense does not matter here.
type Random = (&'static str, fn(&Call) -> Result<()>);

/// A tensor that gradients are taken for.
fn leaf(shape: impl amp::IntoShape) -> Tensor<F32> {
    f32(shape).tracked()
}

/// Takes gradients back through a result.
fn gradient(y: Result<Tensor<F32>>) -> Result<()> {
    y?.sum_all()?.backward().map(drop)
}

const RANDOM: &[Random] = &[
    ("add", |c| gradient(leaf(&c.left) + leaf(&c.right))),
    ("matmul", |c| gradient(leaf(&c.left).matmul(&leaf(&c.right)))),
    ("sum", |c| gradient(leaf(&c.left).sum([c.axis, c.other], true))),
    ("mean", |c| gradient(leaf(&c.left).mean([c.axis], false))),
    ("reshape", |c| gradient(leaf(&c.left).reshape(&c.sizes))),
    ("expand", |c| gradient(leaf(&c.left).expand(&c.right))),
    ("permute", |c| gradient(leaf(&c.left).permute([c.axis, c.other]))),
    ("transpose", |c| gradient(leaf(&c.left).transpose(c.axis, c.other))),
    ("flatten", |c| gradient(leaf(&c.left).flatten(c.axis, c.other))),
    ("unsqueeze", |c| gradient(leaf(&c.left).unsqueeze(c.axis))),
    ("squeeze", |c| gradient(leaf(&c.left).squeeze(c.axis))),
    ("narrow", |c| gradient(leaf(&c.left).narrow(c.axis, c.size(0), c.size(1)))),
    ("select", |c| gradient(leaf(&c.left).select(c.axis, c.size(0)))),
    ("index_select", |c| gradient(leaf(&c.left).index_select(c.axis, &c.index()))),
    ("gather", |c| gradient(leaf(&c.left).gather(c.axis, &c.index()))),
    ("scatter_add", |c| gradient(leaf(&c.left).scatter_add(c.axis, &c.index(), &leaf(&c.right)))),
    ("scatter", |c| gradient(leaf(&c.left).scatter(c.axis, &c.index(), leaf(&c.right)))),
    ("masked_select", |c| gradient(leaf(&c.left).masked_select(&f32(&c.right).gt(0.0)?))),
    ("nonzero", |c| f32(&c.left).nonzero().map(drop)),
    ("index_add", |c| gradient(leaf(&c.left).index_add(c.axis, &c.index(), &leaf(&c.right)))),
    ("multinomial", |c| f32(&c.left).multinomial(c.size(0), c.axis < 0).map(drop)),
    ("unbind", |c| f32(&c.left).unbind(c.axis).map(drop)),
    ("roll", |c| gradient(leaf(&c.left).roll([c.other, isize::MIN], [c.axis, c.axis]))),
    ("repeat_interleave", |c| gradient(leaf(&c.left).repeat_interleave(c.size(0), c.axis))),
    ("pixel_shuffle", |c| gradient(leaf(&c.left).pixel_shuffle(c.size(0)))),
    ("pixel_unshuffle", |c| gradient(leaf(&c.left).pixel_unshuffle(c.size(0)))),
    ("glu", |c| gradient(leaf(&c.left).glu(c.axis))),
    ("normalize", |c| gradient(leaf(&c.left).normalize(c.other as f64, c.axis, 1e-12))),
    ("cosine_similarity", |c| gradient(leaf(&c.left).cosine_similarity(&leaf(&c.right), c.axis, 1e-8))),
    ("triplet_margin_loss", |c| gradient(leaf(&c.left).triplet_margin_loss(&leaf(&c.left), &leaf(&c.right), 1.0))),
    ("BatchNorm2d::forward_add_relu", |c| {
        let norm = amp::nn::BatchNorm2d::new(c.size(0).min(9), &Device::cpu())?;
        gradient(norm.forward_add_relu(&leaf(&c.left), &leaf(&c.right)))
    }),
    ("BatchNorm3d::forward_add_relu", |c| {
        let norm = amp::nn::BatchNorm3d::new(c.size(0).min(9), &Device::cpu())?;
        gradient(norm.forward_add_relu(&leaf(&c.left), &leaf(&c.right)))
    }),
    ("BatchNorm1d", |c| gradient(amp::nn::BatchNorm1d::new(c.size(0).min(9), &Device::cpu())?.forward(&leaf(&c.left)))),
    ("embedding", |c| gradient(leaf(&c.left).embedding(&c.index()))),
    ("one_hot", |c| c.index().one_hot(c.size(0)).map(drop)),
    ("cross_entropy", |c| gradient(leaf(&c.left).cross_entropy(&c.index()))),
    ("nll_loss", |c| gradient(leaf(&c.left).nll_loss(&c.index()))),
    ("mse_loss", |c| gradient(leaf(&c.left).mse_loss(&leaf(&c.right)))),
    ("softmax", |c| gradient(leaf(&c.left).softmax(c.axis))),
    ("logsumexp", |c| gradient(leaf(&c.left).logsumexp(c.axis, false))),
    ("cumsum", |c| gradient(leaf(&c.left).cumsum(c.axis))),
    ("sort", |c| f32(&c.left).sort(c.axis, true).map(drop)),
    ("topk", |c| f32(&c.left).topk(c.size(0), c.axis, true).map(drop)),
    ("max", |c| gradient(leaf(&c.left).max([c.axis], false))),
    ("argmin", |c| f32(&c.left).argmin(c.axis, true).map(drop)),
    ("var", |c| gradient(leaf(&c.left).var([c.axis, c.other], true))),
    ("norm", |c| gradient(leaf(&c.left).norm(2.0, [c.axis], true))),
    ("layer_norm", |c| gradient(leaf(&c.left).layer_norm(&c.right, None, None, 1e-5))),
    ("group_norm", |c| gradient(leaf(&c.left).group_norm(c.size(0), None, None, 1e-5))),
    ("addmm", |c| gradient(leaf(&c.left).addmm(&leaf(&c.left), &leaf(&c.right)))),
    ("baddbmm", |c| gradient(leaf(&c.right).baddbmm(&leaf(&c.left), &leaf(&c.right)))),
    ("linear", |c| gradient(leaf(&c.left).linear(&leaf(&c.right), None))),
    ("conv2d", |c| gradient(leaf(&c.left).conv2d(&leaf(&c.right), None, c.convolution()))),
    ("conv_transpose2d", |c| gradient(leaf(&c.left).conv_transpose2d(&leaf(&c.right), None, c.convolution()))),
    ("max_pool2d", |c| gradient(leaf(&c.left).max_pool2d(c.size(0)))),
    ("avg_pool2d", |c| gradient(leaf(&c.left).avg_pool2d(c.size(0)))),
    ("upsample_nearest", |c| gradient(leaf(&c.left).upsample_nearest(c.size(0).min(64)))),
    ("cat", |c| gradient(Tensor::cat(&[&leaf(&c.left), &leaf(&c.right)], c.axis))),
    ("stack", |c| gradient(Tensor::stack(&[&leaf(&c.left), &leaf(&c.right)], c.axis))),
    ("split", |c| f32(&c.left).split(c.size(0), c.axis).map(drop)),
    ("chunk", |c| f32(&c.left).chunk(c.size(0), c.axis).map(drop)),
    ("flip", |c| gradient(leaf(&c.left).flip([c.axis, c.other]))),
    ("tril", |c| gradient(leaf(&c.left).tril(c.axis as i64))),
    ("backward", |c| leaf(&c.left).tanh()?.sum([c.axis], false)?.backward().map(drop)),
];

impl Call {
    /// Random indices.
    fn index(&self) -> Tensor<I64> {
        Tensor::from_slice(&self.index, [self.index.len()], &Device::cpu()).expect("one dimension")
    }

    /// Random options of a convolution.
    fn convolution(&self) -> amp::ConvOptions<2> {
        let small = |i| self.size(i).min(1 << 41);
        // A transposed convolution gives as much as its stride says: all the memory there is, which takes its time.
        amp::ConvOptions::default().stride(small(0).min(16)).padding(small(1)).dilation(small(2)).groups(small(3))
    }

    /// A random number, 0 when there are too few.
    fn size(&self, i: usize) -> usize {
        self.sizes.get(i).copied().unwrap_or(0)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_arguments_never_panic(call in call()) {
        for (name, f) in RANDOM {
            let outcome = catch_unwind(AssertUnwindSafe(|| f(&call)));
            prop_assert!(outcome.is_ok(), "{name} panicked");
            if let Ok(Err(error)) = outcome {
                let text = error.to_string();
                prop_assert!(text.contains(": "), "{name}: the text \"{text}\" names no operation");
            }
        }
    }
}
