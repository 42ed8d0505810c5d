//! Bad input gives an error that names the operation and the values; nothing panics.

use std::panic::{AssertUnwindSafe, catch_unwind};

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
    (&["item: ", "[2]"], || f32([2]).item().map(drop)),
    (&["item: ", "[0]"], || f32([0]).item().map(drop)),
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
    (&["select: ", "index 2", "size 2"], || f32([2, 3]).select(0, 2).map(drop)),
    (&["expand: ", "[2, 3]", "[4, 3]"], || f32([2, 3]).expand([4, 3]).map(drop)),
    (&["expand: ", "[2, 3]", "[3]"], || f32([2, 3]).expand([3]).map(drop)),
];

const ARITHMETIC: &[Bad] = &[
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
    (&["one_hot: ", "5"], || i64([0, 5]).one_hot(5).map(drop)),
    (&["topk: ", "4"], || f32([3]).topk(4, 0, true).map(drop)),
    (&["cat: ", "[2]", "[1, 2]"], || Tensor::cat(&[&f32([2]), &f32([1, 2])], 0).map(drop)),
    (&["cat: "], || Tensor::<F32>::cat(&[], 0).map(drop)),
    (&["stack: ", "[2]", "[3]"], || Tensor::stack(&[&f32([2]), &f32([3])], 0).map(drop)),
    (&["max: ", "[0, 2]"], || f32([0, 2]).max([0], false).map(drop)),
    (&["argmax: ", "[2, 0]"], || f32([2, 0]).argmax(1, false).map(drop)),
];

const LAYERS: &[Bad] = &[
    (&["softmax: ", "axis 2"], || f32([2, 3]).softmax(2).map(drop)),
    (&["layer_norm: ", "[4]"], || f32([2, 3]).layer_norm([4], None, None, 1e-5).map(drop)),
    (&["group_norm: ", "2"], || f32([1, 3, 2]).group_norm(2, None, None, 1e-5).map(drop)),
    (&["linear: ", "[2, 3]", "[5, 4]"], || f32([2, 3]).linear(&f32([5, 4]), None).map(drop)),
    (&["max_pool2d: "], || f32([1, 1, 2, 2]).max_pool2d(3).map(drop)),
    (&["repeat: ", "more elements"], || f32([2]).repeat([usize::MAX, 2]).map(drop)),
    (&["conv2d: ", "padding", "2^31"], || {
        let options = amp::ConvOptions::default().padding(1 << 40);
        f32([1, 1, 2, 2]).conv2d(&f32([1, 1, 1, 1]), None, options).map(drop)
    }),
    (&["max_pool2d: "], || f32([1, 1, 2, 2]).max_pool2d(0).map(drop)),
    (&["dropout: ", "1.5"], || f32([2]).dropout(1.5, true).map(drop)),
    (&["cross_entropy: ", "3"], || f32([2, 3]).cross_entropy(&i64([0, 3])).map(drop)),
    (&["cross_entropy: ", "[2, 3]", "[3]"], || f32([2, 3]).cross_entropy(&i64([0, 1, 2])).map(drop)),
    (&["nll_loss: ", "-1"], || f32([2, 3]).nll_loss(&i64([0, -1])).map(drop)),
    (&["mse_loss: "], || f32([2, 3]).mse_loss(&f32([4])).map(drop)),
];

const AUTOGRAD: &[Bad] = &[
    (&["backward: ", "[2]"], || f32([2]).tracked().backward().map(drop)),
    (&["backward: ", "requires a gradient"], || f32([1]).backward().map(drop)),
    (&["backward: ", "freed"], || {
        let loss = f32([2]).tracked().tanh()?.sum_all()?;
        loss.backward()?;
        loss.backward().map(drop)
    }),
];

#[test]
fn bad_input_is_named_in_an_error() {
    let mut wrong = Vec::new();
    for table in [CREATION, VIEWS, ARITHMETIC, INDEXING, LAYERS, AUTOGRAD] {
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

const RANDOM: &[Random] = &[
    ("add", |c| (f32(&c.left) + f32(&c.right)).map(drop)),
    ("matmul", |c| f32(&c.left).matmul(&f32(&c.right)).map(drop)),
    ("sum", |c| f32(&c.left).sum([c.axis, c.other], true).map(drop)),
    ("mean", |c| f32(&c.left).mean([c.axis], false).map(drop)),
    ("reshape", |c| f32(&c.left).reshape(&c.sizes).map(drop)),
    ("expand", |c| f32(&c.left).expand(&c.right).map(drop)),
    ("permute", |c| f32(&c.left).permute([c.axis, c.other]).map(drop)),
    ("transpose", |c| f32(&c.left).transpose(c.axis, c.other).map(drop)),
    ("flatten", |c| f32(&c.left).flatten(c.axis, c.other).map(drop)),
    ("unsqueeze", |c| f32(&c.left).unsqueeze(c.axis).map(drop)),
    ("squeeze", |c| f32(&c.left).squeeze(c.axis).map(drop)),
    ("narrow", |c| f32(&c.left).narrow(c.axis, c.size(0), c.size(1)).map(drop)),
    ("select", |c| f32(&c.left).select(c.axis, c.size(0)).map(drop)),
    ("index_select", |c| f32(&c.left).index_select(c.axis, &c.index()).map(drop)),
    ("gather", |c| f32(&c.left).gather(c.axis, &c.index()).map(drop)),
    ("scatter_add", |c| f32(&c.left).scatter_add(c.axis, &c.index(), &f32(&c.right)).map(drop)),
    ("embedding", |c| f32(&c.left).embedding(&c.index()).map(drop)),
    ("one_hot", |c| c.index().one_hot(c.size(0).min(1 << 20)).map(drop)),
    ("cross_entropy", |c| f32(&c.left).cross_entropy(&c.index()).map(drop)),
    ("nll_loss", |c| f32(&c.left).nll_loss(&c.index()).map(drop)),
    ("mse_loss", |c| f32(&c.left).mse_loss(&f32(&c.right)).map(drop)),
    ("softmax", |c| f32(&c.left).softmax(c.axis).map(drop)),
    ("logsumexp", |c| f32(&c.left).logsumexp(c.axis, false).map(drop)),
    ("cumsum", |c| f32(&c.left).cumsum(c.axis).map(drop)),
    ("sort", |c| f32(&c.left).sort(c.axis, true).map(drop)),
    ("topk", |c| f32(&c.left).topk(c.size(0), c.axis, true).map(drop)),
    ("max", |c| f32(&c.left).max([c.axis], false).map(drop)),
    ("argmin", |c| f32(&c.left).argmin(c.axis, true).map(drop)),
    ("var", |c| f32(&c.left).var([c.axis, c.other], true).map(drop)),
    ("norm", |c| f32(&c.left).norm(2.0, [c.axis], true).map(drop)),
    ("layer_norm", |c| f32(&c.left).layer_norm(&c.right, None, None, 1e-5).map(drop)),
    ("group_norm", |c| f32(&c.left).group_norm(c.size(0), None, None, 1e-5).map(drop)),
    ("linear", |c| f32(&c.left).linear(&f32(&c.right), None).map(drop)),
    ("conv2d", |c| f32(&c.left).conv2d(&f32(&c.right), None, c.convolution()).map(drop)),
    ("conv_transpose2d", |c| f32(&c.left).conv_transpose2d(&f32(&c.right), None, c.convolution()).map(drop)),
    ("max_pool2d", |c| f32(&c.left).max_pool2d(c.size(0)).map(drop)),
    ("avg_pool2d", |c| f32(&c.left).avg_pool2d(c.size(0)).map(drop)),
    ("upsample_nearest", |c| f32(&c.left).upsample_nearest(c.size(0).min(64)).map(drop)),
    ("cat", |c| Tensor::cat(&[&f32(&c.left), &f32(&c.right)], c.axis).map(drop)),
    ("stack", |c| Tensor::stack(&[&f32(&c.left), &f32(&c.right)], c.axis).map(drop)),
    ("split", |c| f32(&c.left).split(c.size(0), c.axis).map(drop)),
    ("chunk", |c| f32(&c.left).chunk(c.size(0).min(1 << 20), c.axis).map(drop)),
    ("flip", |c| f32(&c.left).flip([c.axis, c.other]).map(drop)),
    ("tril", |c| f32(&c.left).tril(c.axis as i64).map(drop)),
    ("backward", |c| f32(&c.left).tracked().tanh()?.sum([c.axis], false)?.backward().map(drop)),
];

impl Call {
    /// Random indices.
    fn index(&self) -> Tensor<I64> {
        Tensor::from_slice(&self.index, [self.index.len()], &Device::cpu()).expect("one dimension")
    }

    /// Random options of a convolution.
    fn convolution(&self) -> amp::ConvOptions<2> {
        let small = |i| self.size(i).min(1 << 41);
        amp::ConvOptions::default().stride(small(0)).padding(small(1)).dilation(small(2)).groups(small(3))
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
