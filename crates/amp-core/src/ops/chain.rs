//! Products of several matrices.

use crate::precision::Float;
use crate::tensor::Tensor;
use crate::{Error, Result};

/// Where to split each run of matrices for the fewest multiplications: matrix `i` is `sizes[i]` by `sizes[i + 1]`.
fn splits(sizes: &[usize]) -> Vec<Vec<usize>> {
    let count = sizes.len() - 1;
    let mut cost = vec![vec![0.0_f64; count]; count];
    let mut split = vec![vec![0; count]; count];
    for (length, first) in (1..count).flat_map(|length| (0..count - length).map(move |first| (length, first))) {
        let last = first + length;
        cost[first][last] = f64::INFINITY;
        for at in first..last {
            let own = [first, at + 1, last + 1].iter().map(|&i| sizes[i] as f64).product::<f64>();
            let all = cost[first][at] + cost[at + 1][last] + own;
            if all < cost[first][last] {
                (cost[first][last], split[first][last]) = (all, at);
            }
        }
    }
    split
}

#[track_caller]
fn run<P: Float>(factors: &[&Tensor<P>], split: &[Vec<usize>], first: usize, last: usize) -> Result<Tensor<P>> {
    if first == last {
        return Ok(factors[first].clone());
    }
    let at = split[first][last];
    run(factors, split, first, at)?.matmul(&run(factors, split, at + 1, last)?)
}

impl<P: Float> Tensor<P> {
    /// The product of all matrices `[M, K]`, `[K, N]` .. in the order that takes the fewest multiplications
    /// (`torch.chain_matmul`, `torch.linalg.multi_dot`).
    ///
    /// Each product is rounded as [`matmul`](Self::matmul) rounds it.
    ///
    /// # Errors
    /// [`Error::Argument`] for no matrices, [`Error::InnerDimensions`] for those that do not fit.
    #[track_caller]
    pub fn chain_matmul(matrices: &[&Self]) -> Result<Self> {
        const OP: &str = "chain_matmul";
        let Some(first) = matrices.first() else {
            return Err(Error::argument(OP, "matrices", "at least 1", 0));
        };
        let mut sizes = Vec::with_capacity(matrices.len() + 1);
        sizes.extend(first.dims().first());
        for matrix in matrices {
            let &[rows, columns] = matrix.dims() else {
                let (expected, found) = ("2 dimensions", matrix.raw.shape().into());
                return Err(Error::Rank { op: OP, what: "each matrix", expected, found });
            };
            if sizes.last() != Some(&rows) {
                let before = matrices[sizes.len() - 2].raw.shape();
                return Err(Error::InnerDimensions { op: OP, left: before.into(), right: matrix.raw.shape().into() });
            }
            sizes.push(columns);
        }
        run(matrices, &splits(&sizes), 0, matrices.len() - 1)
    }

    /// Each of the square matrices in the last two dimensions times itself, `exponent` factors; 0 gives the identity
    /// (`torch.linalg.matrix_power`, without inverses).
    ///
    /// Each product is rounded as [`matmul`](Self::matmul) rounds it; there are about `2 log2(exponent)` of them.
    ///
    /// # Errors
    /// [`Error::Rank`] for less than 2 dimensions, [`Error::Shape`] for matrices that are not square.
    #[track_caller]
    pub fn matrix_power(&self, exponent: u32) -> Result<Self> {
        const OP: &str = "matrix_power";
        let found = *self.raw.shape();
        let [.., rows, columns] = *found else {
            let expected = "at least 2 dimensions";
            return Err(Error::Rank { op: OP, what: "the input", expected, found: found.into() });
        };
        if rows != columns {
            let (what, expected) = ("each matrix", format!("[{rows}, {rows}]"));
            return Err(Error::Shape { op: OP, what, expected, found: found.into() });
        }
        let Some(top) = exponent.checked_ilog2() else {
            return Tensor::<P>::ones([rows], self.device())?.diag_embed(0)?.expand(found)?.contiguous();
        };
        (0..top).rev().try_fold(self.clone(), |power, bit| {
            let square = power.matmul(&power)?;
            if exponent >> bit & 1 == 1 { square.matmul(self) } else { Ok(square) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::splits;
    use crate::{Device, F64, Result, Tensor, gradcheck};

    fn wave(shape: &[usize]) -> Tensor<F64> {
        let value = |i: &[usize]| (i.iter().fold(1, |all, i| all * 5 + i) as f64 * 0.37).sin();
        Tensor::from_fn(shape, value, &Device::cpu()).unwrap()
    }

    #[test]
    fn gradients_agree_with_differences() {
        let chain = [wave(&[2, 3]), wave(&[3, 1]), wave(&[1, 4]), wave(&[4, 2])];
        let square = [wave(&[2, 3, 3])];
        for (name, worst) in [
            ("chain", gradcheck(|x| Tensor::chain_matmul(&x.iter().collect::<Vec<_>>()), &chain)),
            ("power", gradcheck(|x| x[0].matrix_power(5), &square)),
        ] {
            let worst = worst.unwrap();
            assert!(worst.error <= 1e-6, "{name}: {worst:?}");
        }
    }

    #[test]
    fn the_cheapest_order_is_taken() -> Result<()> {
        // The example of the textbook: ((A (B C)) ((D E) F)).
        let split = splits(&[30, 35, 15, 5, 10, 20, 25]);
        assert_eq!((split[0][5], split[0][2], split[3][5]), (2, 0, 4));
        let x = wave(&[3, 3]);
        assert_eq!(x.matrix_power(3)?.to_vec()?, x.matmul(&x)?.matmul(&x)?.to_vec()?);
        assert_eq!(x.matrix_power(0)?.sum_all()?.item()?, 3.0);
        assert_eq!(Tensor::chain_matmul(&[&x])?.to_vec()?, x.to_vec()?);
        Ok(())
    }

    #[test]
    fn matrices_that_do_not_fit_are_errors() {
        let (a, b) = (wave(&[2, 3]), wave(&[2, 2]));
        let text = |result: Result<Tensor<F64>>| result.unwrap_err().to_string();
        assert_eq!(
            text(Tensor::chain_matmul(&[&b, &a, &b])),
            "chain_matmul: inner dimensions differ, left is [2, 3], right is [2, 2]"
        );
        assert!(text(Tensor::<F64>::chain_matmul(&[])).starts_with("chain_matmul: matrices must be at least 1"));
        assert!(text(Tensor::chain_matmul(&[&wave(&[3])])).contains("2 dimensions"));
        assert_eq!(text(a.matrix_power(2)), "matrix_power: each matrix must have shape [2, 2], found [2, 3]");
    }
}
