//! Attention whose scores and weights are stored: biases are added to them, and some are dropped.

use super::attention::{AttentionOptions, OP};
use super::softmax::SoftmaxPrecision;
use crate::precision::{Bool, Float};
use crate::tensor::Tensor;
use crate::{Error, Result};

/// `dropout(softmax(scale · q · kᵀ + bias))` in precision `P`, computed in `W`; a query that may attend to no key has zeros.
/// Shapes were checked.
#[track_caller]
pub(super) fn weights<W: Float + SoftmaxPrecision, P: Float>(
    [query, key]: [&Tensor<P>; 2],
    bias: Option<&Tensor<W>>,
    mask: Option<&Tensor<Bool>>,
    scale: f64,
    options: AttentionOptions,
) -> Result<Tensor<P>> {
    if !(0.0..=1.0).contains(&options.dropout) {
        return Err(Error::argument(OP, "dropout", "a probability between 0 and 1", options.dropout));
    }
    let mut scores = query.to::<W>()?.matmul(&key.to::<W>()?.transpose(-2, -1)?)?.mul(scale)?;
    if let Some(bias) = bias {
        scores = scores.add(bias)?;
    }
    let mut refused = refused(&scores, mask, options.causal)?;
    if bias.is_some() {
        let endless = scores.detach().eq(f64::NEG_INFINITY)?;
        refused = Some(match refused {
            None => endless,
            Some(refused) => refused.logical_or(&endless)?,
        });
    }
    let weights = match refused {
        None => scores.softmax(-1)?,
        Some(refused) => hidden(&scores, &refused)?.softmax(-1)?.masked_fill(&refused, 0.0)?,
    };
    weights.dropout(options.dropout, true)?.to::<P>()
}

/// The scores with minus infinity where they are `refused`; with 0 in rows of nothing else, which would be NaN.
#[track_caller]
fn hidden<W: Float>(scores: &Tensor<W>, refused: &Tensor<Bool>) -> Result<Tensor<W>> {
    let none = refused.all(-1, true)?;
    let fill = none.where_(&Tensor::<W>::zeros((), scores.device())?, f64::NEG_INFINITY)?;
    refused.where_(&fill, scores)
}

/// Where a query may not attend to a key.
#[track_caller]
fn refused<W: Float>(scores: &Tensor<W>, mask: Option<&Tensor<Bool>>, causal: bool) -> Result<Option<Tensor<Bool>>> {
    let masked = mask.map(Tensor::logical_not).transpose()?;
    if !causal {
        return Ok(masked);
    }
    let later = Tensor::<Bool>::ones(&scores.dims()[scores.rank() - 2..], scores.device())?.triu(1)?;
    Ok(Some(match masked {
        None => later,
        Some(masked) => masked.logical_or(&later)?,
    }))
}

#[cfg(test)]
mod tests {
    use super::AttentionOptions;
    use crate::testing::numbers;
    use crate::{BF16, Device, F32, F64, Result, Tensor, gradcheck, manual_seed};

    /// As good as nothing is dropped.
    const HARDLY: f64 = 1e-18;

    fn inputs() -> [Tensor<F64>; 3] {
        [numbers(&[2, 3, 4, 6], 0.3), numbers(&[2, 1, 5, 6], 1.1), numbers(&[2, 1, 5, 7], 2.7)]
    }

    /// As PyTorch has it: nothing of a row that is hidden whole is NaN.
    #[test]
    fn a_bias_of_minus_infinity_refuses_as_a_mask_does() -> Result<()> {
        let qkv = inputs();
        let mask = numbers(&[4, 5], 0.9).gt(0.0)?;
        let mask = mask.logical_and(&numbers(&[4, 1], 2.0).gt(0.0)?)?;
        let bias = mask.where_(&Tensor::<F64>::zeros([4, 5], &Device::cpu())?, f64::NEG_INFINITY)?;
        let of = |hidden: bool| -> Result<Vec<Vec<f64>>> {
            let [q, k, v] = qkv.each_ref().map(|x| x.detach().tracked());
            let (zeros, options) = (bias.zeros_like()?, AttentionOptions::new());
            let (bias, mask) = if hidden { (bias.tracked(), None) } else { (zeros.tracked(), Some(&mask)) };
            let y = q.scaled_dot_product_attention_biased(&k, &v, &bias, mask, options)?;
            let grads = (&y * &numbers(y.dims(), 0.2))?.sum_all()?.backward()?;
            let grad = |x: &Tensor<F64>| grads.get(x)?.expect("it has one").to_vec();
            Ok(vec![y.to_vec()?, grad(&q)?, grad(&k)?, grad(&v)?, grad(&bias)?])
        };
        assert_eq!(of(true)?, of(false)?);
        Ok(())
    }

    #[test]
    fn without_anything_dropped_it_is_attention() -> Result<()> {
        let [q, k, v] = inputs();
        let mask = numbers(&[4, 5], 0.9).gt(0.0)?;
        let none = mask.logical_and(&Tensor::zeros([4, 1], &Device::cpu())?)?;
        for mask in [None, Some(&mask), Some(&none)] {
            for causal in [false, true] {
                let options = AttentionOptions::new().causal(causal).scale(0.7);
                let whole = q.scaled_dot_product_attention(&k, &v, mask, options)?;
                let dropped = q.scaled_dot_product_attention(&k, &v, mask, options.dropout(HARDLY))?;
                let apart = (whole - dropped)?.abs()?.max_all()?.item()?;
                // A product of 6 terms, a softmax of 5 and a product of 5, of numbers up to 1.
                assert!(apart <= 64.0 * f64::EPSILON, "{apart}");
            }
        }
        Ok(())
    }

    #[test]
    fn gradients_agree_with_differences() -> Result<()> {
        let mask = numbers(&[4, 5], 0.9).gt(0.0)?;
        let options = AttentionOptions::new().dropout(0.4);
        let attend = |x: &[Tensor<F64>]| {
            manual_seed(5);
            x[0].scaled_dot_product_attention_biased(&x[1], &x[2], &x[3], Some(&mask), options)
        };
        let [q, k, v] = inputs();
        let worst = gradcheck(attend, &[q, k, v, numbers(&[3, 1, 5], 1.7)])?;
        assert!(worst.agrees(), "{worst:?}");
        Ok(())
    }

    #[test]
    fn biases_stay_wide_and_fit_the_scores() -> Result<()> {
        let device = Device::cpu();
        let zeros = Tensor::<BF16>::zeros([1, 2, 4], &device)?;
        let value = Tensor::<F32>::eye(2, 2, &device)?.unsqueeze(0)?.to::<BF16>()?;
        let bias = Tensor::<F32>::from_slice(&[8.0, 8.0 + 1.0 / 128.0], [2], &device)?;
        let y = zeros.scaled_dot_product_attention_biased(&zeros, &value, &bias, None, AttentionOptions::new())?;
        let [first, second] = [y.to::<F32>()?.to_vec()?[0], y.to::<F32>()?.to_vec()?[1]];
        // Rounded to BF16 both would be 8.
        assert!(first < second, "{first} {second}");
        let wide = Tensor::<F32>::zeros([3, 2, 2], &device)?;
        let error = zeros.scaled_dot_product_attention_biased(&zeros, &value, &wide, None, AttentionOptions::new());
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("scaled_dot_product_attention: ") && error.contains("[3, 2, 2]"), "{error}");
        Ok(())
    }

    #[test]
    fn so_many_weights_are_dropped_and_the_others_grow() -> Result<()> {
        let device = Device::cpu();
        let (zeros, ones) = (Tensor::<F32>::zeros([1, 64, 8], &device)?, Tensor::<F32>::ones([1, 64, 1], &device)?);
        let options = AttentionOptions::new().dropout(0.25);
        let [zeros, ones] = [zeros.to::<BF16>()?, ones.to::<BF16>()?];
        let sums = zeros.scaled_dot_product_attention(&zeros, &ones, None, options)?.to::<F32>()?;
        // 4096 weights of 1 / 64, each kept with a probability of 3 in 4: within 5 standard deviations, whatever the seed.
        let mean = f64::from(sums.mean_all()?.item()?);
        assert!((mean - 1.0).abs() <= 5.0 * (0.25_f64 / 0.75 / 4096.0).sqrt() + 1.0 / 256.0, "{mean}");
        assert!(sums.amax([], false)?.item()? > sums.amin([], false)?.item()?);
        let all = zeros.scaled_dot_product_attention(&zeros, &ones, None, options.dropout(1.0))?;
        assert_eq!(all.to::<F32>()?.max_all()?.item()?, 0.0);
        let error = zeros.scaled_dot_product_attention(&zeros, &ones, None, options.dropout(1.5)).unwrap_err();
        let expected = "scaled_dot_product_attention: dropout must be a probability between 0 and 1, found 1.5";
        assert_eq!(error.to_string(), expected);
        Ok(())
    }

    /// A key that may be attended to has all the weight, however low its bias is.
    #[test]
    fn refused_keys_do_not_share_with_the_lowest_bias() -> Result<()> {
        let device = Device::cpu();
        let [q, k] = [Tensor::<F32>::zeros([1, 2], &device)?, Tensor::<F32>::zeros([2, 2], &device)?];
        let v = Tensor::<F32>::from_vec(vec![4.0, 8.0], [2, 1], &device)?;
        let mask = Tensor::<crate::Bool>::from_vec(vec![true, false], [1, 2], &device)?;
        let lowest = Tensor::<F32>::full([1, 2], f32::MIN, &device)?.tracked();
        let options = AttentionOptions::new();
        let y = q.scaled_dot_product_attention_biased(&k, &v, &lowest, Some(&mask), options)?;
        assert_eq!(y.item()?, 4.0);
        let grads = y.sum_all()?.backward()?;
        assert_eq!(grads.get(&lowest)?.expect("a gradient").to_vec()?, [0.0, 0.0]);
        let none = mask.logical_and(&mask.logical_not()?)?;
        assert_eq!(q.scaled_dot_product_attention_biased(&k, &v, &lowest, Some(&none), options)?.item()?, 0.0);
        Ok(())
    }
}
