//! Results do not depend on the number of threads, to the last bit.

use amp::prelude::*;

/// Bits of the results of `f` with one, two and three threads, which must be the same.
fn same(name: &str, f: impl Fn() -> Result<Vec<f32>> + Sync) {
    let bits = |threads| -> Vec<u32> {
        let values = amp::with_num_threads(threads, &f).unwrap_or_else(|e| panic!("{name}: {e}"));
        values.into_iter().map(f32::to_bits).collect()
    };
    let one = bits(1);
    for threads in [2, 3] {
        let other = bits(threads);
        let differ = (0..one.len()).find(|&i| one[i] != other[i]);
        assert!(
            differ.is_none() && one.len() == other.len(),
            "{name}: element {differ:?} differs with {threads} threads"
        );
    }
}

fn random(shape: impl amp::IntoShape) -> Result<Tensor<F32>> {
    amp::manual_seed(11);
    Tensor::randn(shape, &Device::cpu())
}

#[test]
fn results_are_the_same_for_any_number_of_threads() {
    let _alone = crate::seeding();
    same("randn", || random([300_007])?.to_vec());
    same("tanh", || random([300_007])?.tanh()?.to_vec());
    same("sum_all", || random([300_007])?.sum_all()?.to_vec());
    same("sum of columns", || random([1031, 307])?.sum([0], false)?.to_vec());
    same("matmul", || {
        let x = random([257, 311])?;
        x.matmul(&x.t()?)?.to_vec()
    });
    same("bf16 matmul", || {
        let x = random([257, 311])?.to::<BF16>()?;
        x.matmul(&x.t()?)?.to::<F32>()?.to_vec()
    });
    same("gradient of a matrix product", || {
        let x = random([257, 311])?.tracked();
        let grads = x.matmul(&x.t()?)?.tanh()?.sum_all()?.backward()?;
        grads.get(&x)?.expect("x takes part").to_vec()
    });
    same("gradients of a gated recurrent unit", || {
        let x = random([9, 4, 40])?.tracked();
        let y = amp::nn::Gru::new(40, 300, &Device::cpu())?.forward(&x)?.0;
        let grads = y.sqr()?.sum_all()?.backward()?;
        Ok([y.to_vec()?, grads.get(&x)?.expect("x takes part").to_vec()?].concat())
    });
}
