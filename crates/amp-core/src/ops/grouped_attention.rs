//! Attention in which several heads of queries share keys and values.

use super::attention::OP;
use crate::precision::Element;
use crate::tensor::Tensor;
use crate::{AttentionOptions, Error, Result, shape};
use amp_cpu::Dims;

/// Heads of queries in groups, each of which has the keys and the values of one head.
///
/// The groups are put beside the batch, where keys and values broadcast: they are never repeated in memory.
pub(super) struct Groups {
    /// Dimensions before the heads, which broadcast.
    batch: Vec<usize>,
    /// Heads of keys and values.
    heads: usize,
    /// Heads of queries for each of them.
    times: usize,
}

impl Groups {
    /// For a query, keys and values of these sizes; none where each head has keys and values of its own.
    ///
    /// # Errors
    /// [`Error::Argument`] unless keys and values have as many heads, a divisor of those of the query.
    pub fn new([q, k, v]: [&[usize]; 3], options: AttentionOptions) -> Result<Option<Self>> {
        let (&[.., queries, _, _], &[.., keys, _, _], &[.., values, _, _]) = (q, k, v) else {
            return Ok(None);
        };
        if !options.grouped || queries == keys {
            return Ok(None);
        }
        if keys == 0 || !queries.is_multiple_of(keys) {
            let expected = format!("a divisor of {queries}, the query's");
            return Err(Error::argument(OP, "the number of heads of the keys", expected, keys));
        }
        if values != keys {
            let expected = format!("{keys}, that of the keys");
            return Err(Error::argument(OP, "the number of heads of the values", expected, values));
        }
        Ok(Some(Self { batch: Self::batch([q, k, v])?, heads: keys, times: queries / keys }))
    }

    /// What the dimensions before the heads broadcast to; where they do not, whole shapes stand in the error.
    fn batch(qkv: [&[usize]; 3]) -> Result<Vec<usize>> {
        let whole = |sizes: &[usize]| Box::new(Dims::new(sizes).expect("the shape of a tensor"));
        let outer = |sizes: &[usize]| Dims::new(&sizes[..sizes.len() - 3]).expect("fewer than there were");
        let [q, k, v] = qkv;
        let refused =
            |left: &[usize], right: &[usize]| Error::Broadcast { op: OP, left: whole(left), right: whole(right) };
        let joined = shape::broadcast(OP, &outer(q), &outer(k)).map_err(|_| refused(q, k))?;
        let all = shape::broadcast(OP, &joined, &outer(v)).map_err(|_| {
            // Values that the query takes do not fit the keys.
            let beside_query = shape::broadcast(OP, &outer(q), &outer(v)).is_ok();
            refused(if beside_query { k } else { q }, v)
        })?;
        Ok(all.to_vec())
    }

    /// `[.., heads or heads * times, rows, columns]` as `[batch * heads, 1 or times, rows, columns]`.
    fn split<P: Element>(&self, x: &Tensor<P>) -> Result<Tensor<P>> {
        let &[.., heads, rows, columns] = x.dims() else { return Ok(x.clone()) };
        let count = self.batch.iter().product::<usize>() * self.heads;
        x.expand(self.beside([heads, rows, columns]))?.reshape([count, heads / self.heads, rows, columns])
    }

    /// The dimensions of the batch, and others behind them.
    fn beside(&self, sizes: [usize; 3]) -> Vec<usize> {
        [&self.batch[..], &sizes].concat()
    }

    pub fn split_all<P: Element>(&self, qkv: [&Tensor<P>; 3]) -> Result<[Tensor<P>; 3]> {
        let [q, k, v] = qkv.map(|x| self.split(x));
        Ok([q?, k?, v?])
    }

    /// What is `[.., T, S]` or broadcasts to that; as it is, if it is the same for all heads of the batch.
    pub fn split_scores<P: Element>(&self, x: &Tensor<P>) -> Result<Tensor<P>> {
        let outer = x.rank().saturating_sub(2);
        if x.dims()[..outer].iter().all(|&size| size == 1) {
            return x.reshape(x.dims()[outer..].to_vec());
        }
        let [rows, columns] = [x.dims()[outer], x.dims()[outer + 1]];
        self.split(&x.expand(self.beside([self.heads * self.times, rows, columns]))?)
    }

    /// The result for `[batch * heads, times, T, E]`, with all heads of queries beside one another.
    pub fn joined<P: Element>(&self, y: &Tensor<P>) -> Result<Tensor<P>> {
        let &[.., rows, width] = y.dims() else { unreachable!("what was split") };
        y.reshape(self.beside([self.heads * self.times, rows, width]))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{numbers, wave};
    use crate::{AttentionOptions, Bool, Device, F32, Result, Tensor, gradcheck};

    fn grouped() -> AttentionOptions {
        AttentionOptions::new().causal(true).grouped(true)
    }

    #[test]
    fn gradients_agree_with_differences() {
        let inputs = [wave(&[2, 4, 3, 5]), numbers(&[2, 2, 3, 5], 0.3), numbers(&[2, 2, 3, 2], 0.4)];
        let f = |x: &[Tensor<_>]| x[0].scaled_dot_product_attention(&x[1], &x[2], None, grouped());
        let worst = gradcheck(f, &inputs).unwrap();
        assert!(worst.agrees(), "{worst:?}");
    }

    /// With masks and biases of every shape, dropped weights aside, as with keys and values that were repeated.
    #[test]
    fn equals_repeated_keys_and_values() -> Result<()> {
        let device = Device::cpu();
        let of = |shape: &[usize], start| numbers(shape, start).to::<F32>();
        for (q, k) in [
            (&[2, 6, 4, 8][..], &[2, 2, 4, 8][..]),
            (&[6, 4, 8], &[3, 4, 8]),
            (&[2, 6, 4, 8], &[1, 1, 4, 8]),
            (&[1, 6, 4, 8], &[2, 2, 4, 8]),
        ] {
            let (q, k, v) = (of(q, 0.1)?, of(k, 0.2)?, of(k, 0.3)?);
            let times: usize = q.dims()[q.rank() - 3] / k.dims()[k.rank() - 3];
            let [wide_k, wide_v] = [k.repeat_interleave(times, -3)?, v.repeat_interleave(times, -3)?];
            let whole = [&q.dims()[..q.rank() - 1], &[4]].concat();
            for scores in [&[4, 4][..], &[1, 1, 4], &[6, 4, 4], &whole] {
                let mask = Tensor::<Bool>::from_fn(scores, |i| i.iter().sum::<usize>() % 3 != 1, &device)?;
                let bias = of(scores, 0.4)?;
                let plain = AttentionOptions::new();
                let pairs = [
                    (
                        q.scaled_dot_product_attention(&k, &v, Some(&mask), grouped().causal(false))?,
                        q.scaled_dot_product_attention(&wide_k, &wide_v, Some(&mask), plain)?,
                    ),
                    (
                        q.scaled_dot_product_attention_biased(&k, &v, &bias, None, grouped())?,
                        q.scaled_dot_product_attention_biased(&wide_k, &wide_v, &bias, None, plain.causal(true))?,
                    ),
                ];
                for (found, expected) in pairs {
                    assert_eq!(found.dims(), expected.dims());
                    assert!(found.allclose(&expected, 1e-5, 1e-6)?, "{:?} {scores:?}", k.dims());
                }
            }
        }
        Ok(())
    }

    #[test]
    fn heads_that_do_not_divide_are_errors() {
        let (q, k) = (wave(&[1, 4, 3, 2]), wave(&[1, 3, 3, 2]));
        let text = |k: &Tensor<_>, v: &Tensor<_>, options| {
            q.scaled_dot_product_attention(k, v, None, options).err().unwrap().to_string()
        };
        let expected = "the number of heads of the keys must be a divisor of 4, the query's, found 3";
        assert_eq!(text(&k, &k, grouped()), format!("scaled_dot_product_attention: {expected}"));
        let few = wave(&[1, 2, 3, 2]);
        let expected = "the number of heads of the values must be 2, that of the keys, found 3";
        assert_eq!(text(&few, &k, grouped()), format!("scaled_dot_product_attention: {expected}"));
        assert!(text(&few, &few, AttentionOptions::new()).contains("do not broadcast"));
    }
}
