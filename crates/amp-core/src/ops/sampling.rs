//! Random sampling from distributions that a tensor describes.

use super::softmax::SoftmaxPrecision;
use crate::precision::{F64, Float, I64, full_range};
use crate::tensor::Tensor;
use crate::{Error, Result, random};
use amp_cpu::DType;

full_range! {
    MultinomialPrecision, "`multinomial` must run in `F32`";
    GumbelSoftmaxPrecision: SoftmaxPrecision, "`gumbel_softmax` must run in `F32`";
}

const OP: &str = "multinomial";

impl<P: Float> Tensor<P> {
    /// `count` positions drawn from each row `[C]` or `[N, C]` of weights, which need not sum to 1, with or without putting them
    /// back (`torch.multinomial`). Needs full precision: small weights and small draws vanish in F16. Waits for the device.
    ///
    /// # Errors
    /// [`Error::Argument`] when a weight is negative or not finite, or when a row has too few positive weights.
    pub fn multinomial(&self, count: usize, replacement: bool) -> Result<Tensor<I64>>
    where
        P: MultinomialPrecision,
    {
        if !(1..=2).contains(&self.rank()) {
            let found = *self.raw.shape();
            return Err(Error::Rank {
                op: OP,
                what: "the weights",
                expected: "1 or 2 dimensions",
                found: found.into(),
            });
        }
        let weights = self.detach().to::<F64>()?;
        check_weights(&weights, if replacement { count.min(1) } else { count })?;
        if count == 0 || weights.count() == 0 {
            let mut shape = self.dims().to_vec();
            *shape.last_mut().expect("1 or 2 dimensions") = count;
            return Tensor::zeros(shape, self.device());
        }
        if !replacement {
            // The least of exponential draws over their rates lies at each position with the probability of its weight.
            return Ok((&weights / &exponential(&weights)?)?.topk(count, -1, true)?.1);
        }
        // A share of the sum, which no draw reaches, lies in the part of some weight above 0.
        let sums = weights.cumsum(-1)?;
        let total = sums.narrow(-1, weights.dims()[weights.rank() - 1] - 1, 1)?;
        let mut shape = weights.dims().to_vec();
        *shape.last_mut().expect("1 or 2 dimensions") = count;
        let shares = Tensor::<F64>::rand(shape, self.device())?.mul(&total)?;
        sums.searchsorted(&shares, true)
    }

    /// 1 with the probability that each element states, else 0 (`torch.bernoulli`). Draws are made in F64.
    ///
    /// # Errors
    /// [`Error::Argument`] when an element is not a probability; waits for the device.
    pub fn bernoulli(&self) -> Result<Self> {
        let p = self.detach().to::<F64>()?;
        if !(p.ge(0.0)?.all([], false)?.item()? && p.le(1.0)?.all([], false)?.item()?) {
            return Err(Error::argument("bernoulli", "each element", "a probability between 0 and 1", "another value"));
        }
        p.rand_like()?.lt(&p)?.to::<P>()
    }
}

impl<P: Float> Tensor<P> {
    /// A sample of the classes along `axis` that has gradients: the softmax of logits and Gumbel noise at temperature `tau`
    /// (`F.gumbel_softmax`, where they are 1 and -1 by default); if `hard`, 1 at the greatest and 0 elsewhere, with the gradient
    /// of the softmax. Draws are made in F64.
    ///
    /// # Errors
    /// [`Error::Argument`] unless `tau` is finite and above 0.
    #[track_caller]
    pub fn gumbel_softmax(&self, tau: impl Into<f64>, hard: bool, axis: isize) -> Result<Self>
    where
        P: GumbelSoftmaxPrecision,
    {
        const OP: &str = "gumbel_softmax";
        let tau = tau.into();
        if !(tau.is_finite() && tau > 0.0) {
            return Err(Error::argument(OP, "tau", "finite and above 0", tau));
        }
        let noise = exponential(&self.detach().to::<F64>()?)?.log()?.neg()?;
        let soft = self.add(&noise.to::<P>()?)?.div(tau)?.softmax(axis).map_err(|error| error.named(OP))?;
        if !hard {
            return Ok(soft);
        }
        let most = soft.argmax(axis, true).map_err(|error| error.named(OP))?;
        let value = soft.detach();
        value.zeros_like()?.scatter(axis, &most, 1.0)?.sub(&value)?.add(&soft)
    }
}

/// Draws of an exponential distribution, all above 0.
fn exponential(like: &Tensor<F64>) -> Result<Tensor<F64>> {
    let uniform = random::uniform(*like.raw.shape(), 0.0, 1.0, DType::F64, like.device())?;
    Tensor::<F64>::from_raw(uniform).log()?.neg()
}

/// Finite, not negative, and `least` or more of each row above 0.
fn check_weights(weights: &Tensor<F64>, least: usize) -> Result<()> {
    let fits = weights.ge(0.0)?.to::<F64>()?.minimum(&weights.isfinite()?.to::<F64>()?)?;
    if weights.count() > 0 && fits.min_all()?.item()? == 0.0 {
        return Err(Error::argument(OP, "each weight", "finite and not negative", "another value"));
    }
    let rows = weights.dims()[..weights.rank() - 1].iter().product::<usize>();
    if rows == 0 {
        return Ok(());
    }
    let positive = weights.gt(0.0)?.to::<F64>()?.sum(-1, false)?.min_all()?.item()?;
    if positive < least as f64 {
        let expected = format!("at most the number of positive weights of each row, {positive}");
        return Err(Error::argument(OP, "count", expected, least));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::{BF16, Device, F32, F64, Tensor, manual_seed};

    #[test]
    fn positions_come_up_as_often_as_their_weights_say() {
        manual_seed(1);
        let weights = Tensor::<F32>::from_vec(vec![1.0, 0.0, 3.0, 0.0, 5.0, 5.0], [2, 3], &Device::cpu()).unwrap();
        let drawn = weights.multinomial(4000, true).unwrap();
        assert_eq!(drawn.dims(), [2, 4000]);
        let drawn = drawn.to_vec().unwrap();
        let share = |row: usize, value: i64| {
            drawn[row * 4000..][..4000].iter().filter(|&&v| v == value).count() as f64 / 4000.0
        };
        assert_eq!((share(0, 1), share(1, 0)), (0.0, 0.0));
        // Five standard deviations of a share of 4000 draws are 0.04 at most.
        assert!((share(0, 0) - 0.25).abs() < 0.04, "seed 1: {}", share(0, 0));
        assert!((share(1, 2) - 0.5).abs() < 0.04, "seed 1: {}", share(1, 2));
    }

    /// The noise is unknown, but a softmax's gradient is a function of what it gave.
    #[test]
    fn gradients_of_gumbel_softmax_are_those_of_a_softmax_at_its_temperature() {
        let x = Tensor::<F64>::from_fn([2, 3], |i| (i[0] * 3 + i[1]) as f64 * 0.3, &Device::cpu()).unwrap().tracked();
        let weights = [0.5, -1.0, 2.0];
        let given = Tensor::<F64>::from_fn([2, 3], |i| weights[i[1]], &Device::cpu()).unwrap();
        for hard in [false, true] {
            let y = x.gumbel_softmax(0.5, hard, -1).unwrap();
            let grad = y.backward_with(&given).unwrap().get(&x).unwrap().unwrap().to_vec().unwrap();
            assert!(grad.iter().any(|g| *g != 0.0), "hard {hard}: {grad:?}");
            for (y, grad) in y.to_vec().unwrap().chunks(3).zip(grad.chunks(3)) {
                assert!(grad.iter().sum::<f64>().abs() <= 1e-12, "a softmax's gradients add up to 0: {grad:?}");
                let mean: f64 = y.iter().zip(weights).map(|(y, w)| y * w).sum();
                for i in (0..3).filter(|_| !hard) {
                    let expected = y[i] * (weights[i] - mean) / 0.5;
                    assert!((grad[i] - expected).abs() <= 1e-12, "{} instead of {expected}", grad[i]);
                }
            }
        }
    }

    #[test]
    fn many_draws_of_many_positions_take_no_more_than_both() {
        manual_seed(4);
        let weights = Tensor::<F32>::ones([50_000], &Device::cpu()).unwrap();
        let drawn = weights.multinomial(100_000, true).unwrap().to_vec().unwrap();
        assert!(drawn.iter().all(|at| (0..50_000).contains(at)));
        // Five standard deviations of the share of the first half are 0.008.
        let first = drawn.iter().filter(|&&at| at < 25_000).count() as f64 / 1e5;
        assert!((first - 0.5).abs() < 0.008, "seed 4: {first}");
    }

    #[test]
    fn without_replacement_no_position_comes_twice() {
        manual_seed(2);
        let weights = Tensor::<F32>::from_vec(vec![1e-30, 5.0, 0.0, 2.0], [4], &Device::cpu()).unwrap();
        for _ in 0..50 {
            let mut drawn = weights.multinomial(3, false).unwrap().to_vec().unwrap();
            drawn.sort_unstable();
            assert_eq!(drawn, [0, 1, 3]);
        }
    }

    #[test]
    fn permutations_hold_every_number_once() {
        manual_seed(3);
        for count in [0, 1, 2, 257] {
            let mut order = Tensor::randperm(count, &Device::cpu()).unwrap().to_vec().unwrap();
            order.sort_unstable();
            assert_eq!(order, (0..count as i64).collect::<Vec<_>>());
        }
    }

    #[test]
    fn probabilities_decide_on_ones() {
        manual_seed(4);
        let p =
            Tensor::<BF16>::from_fn([3, 1000], |i| half::bf16::from_f32(i[0] as f32 / 2.0), &Device::cpu()).unwrap();
        let drawn = p.bernoulli().unwrap().to::<F32>().unwrap().mean(1, false).unwrap().to_vec().unwrap();
        assert_eq!((drawn[0], drawn[2]), (0.0, 1.0));
        assert!((drawn[1] - 0.5).abs() < 0.08, "seed 4: {drawn:?}"); // five standard deviations
        assert!(p.to::<F32>().unwrap().add(0.1).unwrap().bernoulli().is_err());
    }

    #[test]
    fn weights_that_make_no_sense_are_errors() {
        let text = |data: &[f32], count, replacement| {
            let weights = Tensor::<F32>::from_slice(data, [data.len()], &Device::cpu()).unwrap();
            weights.multinomial(count, replacement).unwrap_err().to_string()
        };
        let rule = "multinomial: each weight must be finite and not negative, found another value";
        assert_eq!(text(&[1.0, -0.5], 1, true), rule);
        assert_eq!(text(&[1.0, f32::NAN], 1, true), rule);
        assert_eq!(text(&[1.0, f32::INFINITY], 1, true), rule);
        let few = "multinomial: count must be at most the number of positive weights of each row";
        assert_eq!(text(&[1.0, 0.0], 2, false), format!("{few}, 1, found 2"));
        assert_eq!(text(&[0.0, 0.0], 7, true), format!("{few}, 0, found 1"));
        assert_eq!(text(&[], 1, true), format!("{few}, 0, found 1"));
        assert!(Tensor::<F32>::ones([1, 1, 2], &Device::cpu()).unwrap().multinomial(1, true).is_err());
        let none = Tensor::<F32>::ones([0, 3], &Device::cpu()).unwrap();
        assert_eq!(none.multinomial(2, true).unwrap().dims(), [0, 2]);
    }

    #[test]
    fn gumbel_samples_come_up_as_often_as_the_softmax_says() {
        manual_seed(5);
        let logits = Tensor::<F32>::from_vec(vec![0.0, 2.0, 1.0], [1, 3], &Device::cpu()).unwrap();
        let many = logits.expand([4000, 3]).unwrap().contiguous().unwrap().tracked();
        let drawn = many.gumbel_softmax(0.5, true, -1).unwrap();
        let share: Vec<f32> = drawn.mean(0, false).unwrap().to_vec().unwrap();
        let expected = logits.softmax(-1).unwrap().to_vec().unwrap();
        // Five standard deviations of a share of 4000 draws are 0.04 at most.
        assert!(share.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 0.04), "seed 5: {share:?} {expected:?}");
        let weights = Tensor::<F32>::from_vec(vec![1.0, -2.0, 3.0], [3], &Device::cpu()).unwrap();
        let grads = drawn.mul(&weights).unwrap().sum_all().unwrap().backward().unwrap();
        let slope = grads.get(&many).unwrap().unwrap();
        // What a softmax gives back sums to 0 in each row, and is not 0 itself.
        assert!(slope.sum(-1, false).unwrap().abs().unwrap().max_all().unwrap().item().unwrap() < 1e-5);
        assert!(slope.abs().unwrap().max_all().unwrap().item().unwrap() > 0.1);
        let soft = many.gumbel_softmax(1, false, -1).unwrap().sum(-1, false).unwrap();
        assert!(soft.allclose(&soft.ones_like().unwrap(), 0.0, 1e-6).unwrap());
        let error = logits.gumbel_softmax(0.0, true, -1).unwrap_err().to_string();
        assert_eq!(error, "gumbel_softmax: tau must be finite and above 0, found 0");
        let none = Tensor::<F32>::zeros([2, 0], &Device::cpu()).unwrap();
        let error = none.gumbel_softmax(1.0, true, -1).unwrap_err().to_string();
        assert_eq!(error, "gumbel_softmax: a tensor of shape [2, 0] has no elements to choose from");
    }
}
