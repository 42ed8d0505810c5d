//! What lies between a narrow result and who narrows it commutes with rounding for every value: NaN, both zeros, infinities,
//! and what rounds to them.

use super::*;
use amp::I64;

/// Their reciprocals are NaN, infinite, zeros of both signs, too large and too small for 16 bits, halfway between two
/// neighbours there, subnormal, and ordinary.
const VALUES: [f32; 24] = [
    f32::NAN,
    0.0,
    -0.0,
    f32::INFINITY,
    f32::NEG_INFINITY,
    1e-6,
    -1e-6,
    1e9,
    -1e9,
    1e38,
    -1e38,
    3e38,
    -3e38,
    1.5e-5,
    1.526e-5,
    -1.526e-5,
    0.3,
    -0.3,
    2.0e7,
    -2.0e7,
    4.0e4,
    -4.0e4,
    0.999_755_9,
    0.996_108_95,
];

fn canonical(x: &Tensor<F32>) -> Vec<u32> {
    x.to_vec().unwrap().into_iter().map(|v| if v.is_nan() { u32::MAX } else { v.to_bits() }).collect()
}

/// Bits of the result and of the gradient of the leaf, and the number of casts.
fn trace(f: impl Fn(&Tensor<F32>) -> Result<Tensor<F32>>) -> (Vec<u32>, Vec<u32>, usize) {
    let x = Tensor::from_vec(VALUES.to_vec(), [4, 6], &Device::cpu()).unwrap().tracked();
    let casts = cast_kernels();
    let y = f(&x).unwrap();
    let casts = cast_kernels() - casts;
    let grads = y.backward_with(&wave(y.dims(), 1.0)).unwrap();
    (canonical(&y), canonical(&grads.get(&x).unwrap().unwrap()), casts)
}

fn compare(
    what: &str,
    region: impl Fn(&Tensor<F32>) -> Result<Tensor<F32>>,
    by_hand: impl Fn(&Tensor<F32>) -> Result<Tensor<F32>>,
) {
    let (region, by_hand) = (trace(region), trace(by_hand));
    assert_eq!(region.0, by_hand.0, "{what}: values");
    assert_eq!(region.1, by_hand.1, "{what}: gradients");
    assert_eq!(region.2 + 1, by_hand.2, "{what}: casts");
}

/// One test for each operation between `recip`, which writes its result narrow, and the cast.
macro_rules! seen_through {
    ($($name:ident: |$n:ident| $through:expr;)*) => { $(
        mod $name {
            use super::*;

            #[autocast(f16)]
            fn in_f16(x: &Tensor<F32>) -> Result<Tensor<F32>> {
                let $n = x.recip()?;
                let y = $through;
                y.to::<F16>()
            }

            #[autocast(bf16)]
            fn in_bf16(x: &Tensor<F32>) -> Result<Tensor<F32>> {
                let $n = x.recip()?;
                let y = $through;
                y.to::<BF16>()
            }

            #[autocast(P)]
            fn generic<P: AutocastPrecision>(x: &Tensor<F32>) -> Result<Tensor<F32>> {
                let $n = x.recip()?;
                let y = $through;
                y.to::<P>()
            }

            fn by_hand<P: AutocastPrecision>(x: &Tensor<F32>) -> Result<Tensor<F32>> {
                let $n = x.recip()?;
                let y = $through;
                y.to::<P>()?.to()
            }

            #[test]
            fn commutes_with_rounding() {
                let _turn = alone();
                let name = stringify!($name);
                super::compare(&format!("{name} in F16"), in_f16, by_hand::<F16>);
                super::compare(&format!("{name} in BF16"), in_bf16, by_hand::<BF16>);
                super::compare(&format!("{name} in P = F16"), generic::<F16>, by_hand::<F16>);
                super::compare(&format!("{name} in P = BF16"), generic::<BF16>, by_hand::<BF16>);
            }
        }
    )* };
}

fn indices(list: &[i64]) -> Tensor<I64> {
    Tensor::from_vec(list.to_vec(), [list.len()], &Device::cpu()).unwrap()
}

seen_through! {
    nothing: |n| n.clone();
    relu: |n| n.relu()?;
    neg: |n| n.neg()?;
    abs: |n| n.abs()?;
    relu_of_neg: |n| n.neg()?.relu()?;
    abs_of_relu: |n| n.relu()?.abs()?;
    reshape: |n| n.reshape([3, 8])?;
    transpose: |n| n.transpose(0, 1)?;
    t: |n| n.t()?;
    permute: |n| n.permute([1, 0])?;
    squeeze: |n| n.unsqueeze(0)?.squeeze(0)?;
    expand: |n| n.unsqueeze(0)?.expand([2, 4, 6])?;
    flatten: |n| n.flatten(0, 1)?;
    slice: |n| n.slice(1, 1..5)?;
    select: |n| n.select(0, 0)?;
    narrow: |n| n.narrow(1, 0, 3)?;
    flip: |n| n.flip(1)?;
    repeat: |n| n.repeat([2, 1])?;
    tril: |n| n.tril(1)?;
    triu: |n| n.triu(0)?;
    contiguous: |n| n.t()?.contiguous()?;
    gather: |n| n.gather(1, &indices(&[5, 0, 0, 3]).reshape([4, 1])?)?;
    index_select: |n| n.index_select(0, &indices(&[1, 0, 1, 3]))?;
    cat: |n| Tensor::cat(&[&n, &n.neg()?], 0)?;
    stack: |n| Tensor::stack(&[&n.neg()?, &n], 1)?;
}
