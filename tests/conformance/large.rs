//! Long sums: accumulators must not be 16 bits wide, and F32 ones must not be one long chain.

use amp::prelude::*;

use crate::devices;

const LONG: usize = 1 << 20;

#[test]
fn a_million_equal_terms_keep_five_digits() {
    for device in &devices() {
        let tenth = Tensor::<F32>::full([LONG], 0.1, device).and_then(|x| x.contiguous()).expect("fits in memory");
        let half = tenth.to::<F16>().and_then(|x| x.to::<F32>()).expect("a cast");
        for (name, x, each) in [("F32", &tenth, f64::from(0.1f32)), ("stored in F16", &half, 0.099_975_585_937_5)] {
            let expected = each * LONG as f64;
            let sums = [("sum", x.sum_all()), ("mean", x.mean_all().and_then(|m| m * LONG as f32))];
            for (op, sum) in sums.into_iter().chain([("cumsum", x.cumsum(0).and_then(|s| s.narrow(0, LONG - 1, 1)))]) {
                let found = f64::from(sum.and_then(|s| s.item()).expect(op));
                assert!((found - expected).abs() <= 1e-5 * expected, "{op} of {name}: {found}, expected {expected}");
            }
        }
    }
}

#[test]
fn variance_far_from_zero_keeps_its_digits() {
    for device in &devices() {
        let x = Tensor::<F32>::from_fn([LONG], |i| 1000.0 + (i[0] % 4) as f32, device).expect("fits in memory");
        let found = x.var([0], false).and_then(|v| v.item()).expect("var");
        assert!((found - 1.25).abs() <= 1e-4, "{found}");
    }
}

/// `[1, K] · [K, 1]` whose left factors are `left(k)` and whose right factors are all `right`.
macro_rules! dot {
    ($p:ident, $device:expr, $k:expr, $left:expr, $right:expr) => {{
        let left = Tensor::<F32>::from_fn([1, $k], $left, $device).and_then(|x| x.to::<$p>());
        let right = Tensor::<F32>::full([$k, 1], $right, $device).and_then(|x| x.to::<$p>());
        let product = left.and_then(|l| l.matmul(&right?)).and_then(|y| y.to::<F32>()).and_then(|y| y.item());
        product.expect("a matrix product")
    }};
}

#[test]
fn long_products_accumulate_in_f32() {
    const K: usize = 40_000;
    for device in &devices() {
        // A 16-bit accumulator stops growing at 2048 (F16) or 256 (BF16).
        assert_eq!(dot!(F16, device, K, |_| 1.0, 1.0), 40_000.0);
        assert_eq!(dot!(BF16, device, K, |_| 1.0, 1.0), 39_936.0); // 40,000 rounded to 8 significant bits
        assert_eq!(dot!(F32, device, K, |_| 1.0, 1.0), 40_000.0);
        // Partial sums beyond 65504 whose total is small are no overflow.
        assert_eq!(dot!(F16, device, K, |i| if i[1] % 2 == 0 { 256.0 } else { -256.0 }, 256.0), 0.0);
        assert_eq!(dot!(F16, device, K, |i| if i[1] < K / 2 { 256.0 } else { -256.0 }, 256.0), 0.0);
        // A total beyond 65504 is infinite in F16 and finite in BF16.
        assert_eq!(dot!(F16, device, K, |_| 4.0, 4.0), f32::INFINITY);
        assert!(dot!(BF16, device, K, |_| 4.0, 4.0).is_finite());
    }
}

#[test]
fn weight_gradients_are_summed_in_f32() {
    const N: usize = 40_000;
    for device in &devices() {
        let x = Tensor::<F32>::ones([N, 1], device).and_then(|x| x.to::<BF16>()).expect("ones");
        let w = Tensor::<F32>::ones([1, 1], device).expect("ones").tracked();
        let y = w.to::<BF16>().and_then(|w| x.matmul(&w)).and_then(|y| y.to::<F32>()).expect("a matrix product");
        let grads = y.sum_all().and_then(|loss| loss.backward()).expect("a backward pass");
        let found = grads.get(&w).expect("a gradient").expect("w takes part").item().expect("one value");
        assert_eq!(found, N as f32, "a weight gradient that passed through BF16 would be 39936");
    }
}
