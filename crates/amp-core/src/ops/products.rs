//! Matrix products of operands with one number of dimensions each, under PyTorch's names.

use super::{arithmetic, matmul::matmul};
use crate::precision::{Element, Float, SamePrecision};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result};

/// Operands of so many dimensions.
#[track_caller]
fn check_ranks(op: &'static str, a: &RawTensor, b: &RawTensor, ranks: [usize; 2]) -> Result<()> {
    for (x, (what, rank)) in [a, b].into_iter().zip(["the first operand", "the second operand"].into_iter().zip(ranks))
    {
        if x.shape().len() != rank {
            let expected = ["0 dimensions", "1 dimension", "2 dimensions", "3 dimensions"][rank];
            return Err(Error::Rank { op, what, expected, found: *x.shape() });
        }
    }
    Ok(())
}

/// The product of tensors of so many dimensions.
#[track_caller]
fn product(op: &'static str, a: &RawTensor, b: &RawTensor, ranks: [usize; 2]) -> Result<RawTensor> {
    check_ranks(op, a, b, ranks)?;
    if ranks == [3, 3] && a.shape()[0] != b.shape()[0] {
        return Err(Error::Broadcast { op, left: *a.shape(), right: *b.shape() });
    }
    matmul(a, b)
}

macro_rules! products {
    ($($name:ident, $ranks:expr, $doc:literal;)*) => {
        impl<P: Float> Tensor<P> { $(
            #[doc = $doc]
            ///
            /// Precision and gradients are those of [`matmul`](Self::matmul), but nothing broadcasts.
            #[track_caller]
            pub fn $name<Q: Element>(&self, other: &Tensor<Q>) -> Result<Self>
            where
                P: SamePrecision<Q>,
            {
                Ok(Self::from_raw(product(stringify!($name), &self.raw, &other.raw, $ranks)?))
            }
        )* }
    };
}
products! {
    mm, [2, 2], "Matrix product of `[M, K]` and `[K, N]` (`torch.mm`).";
    bmm, [3, 3], "Matrix products of `[B, M, K]` and `[B, K, N]`, pair by pair (`torch.bmm`).";
    mv, [2, 1], "Product of a matrix `[M, K]` and a vector `[K]` (`torch.mv`).";
    dot, [1, 1], "Scalar product of two vectors `[K]` (`torch.dot`).";
}

impl<P: Float> Tensor<P> {
    /// Products of every element of `[M]` with every one of `[N]`, as `[M, N]` (`torch.outer`).
    #[track_caller]
    pub fn outer<Q: Element>(&self, other: &Tensor<Q>) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        check_ranks("outer", &self.raw, &other.raw, [1, 1])?;
        Ok(Self::from_raw(arithmetic::mul(&self.unsqueeze(1)?.raw, &other.raw)?))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, F32, Result, Tensor};

    fn counted(shape: &[usize]) -> Result<Tensor<F32>> {
        Tensor::from_fn(shape, |i| i.iter().fold(1, |all, i| all * 3 + i) as f32, &Device::cpu())
    }

    #[test]
    fn they_are_matmul_on_what_they_take() -> Result<()> {
        let (m, n, v) = (counted(&[2, 3])?, counted(&[3, 4])?, counted(&[3])?);
        let (a, b) = (counted(&[2, 2, 3])?, counted(&[2, 3, 4])?);
        for (found, expected) in [
            (m.mm(&n)?, m.matmul(&n)?),
            (a.bmm(&b)?, a.matmul(&b)?),
            (m.mv(&v)?, m.matmul(&v)?),
            (v.dot(&v)?, v.matmul(&v)?),
            (v.outer(&v)?, v.unsqueeze(1)?.matmul(&v.unsqueeze(0)?)?),
        ] {
            assert_eq!((found.dims(), found.to_vec()?), (expected.dims(), expected.to_vec()?));
        }
        Ok(())
    }

    #[test]
    fn other_ranks_and_sizes_are_errors() -> Result<()> {
        let (m, v, a) = (counted(&[2, 3])?, counted(&[3])?, counted(&[2, 3, 3])?);
        let text = |result: Result<Tensor<F32>>| result.unwrap_err().to_string();
        assert!(text(m.mm(&v)).starts_with("mm: the second operand"), "{}", text(m.mm(&v)));
        assert!(text(v.dot(&m)).starts_with("dot: the second operand"));
        assert!(text(m.mv(&m)).starts_with("mv: the second operand"));
        assert!(text(m.bmm(&a)).starts_with("bmm: the first operand"));
        assert!(text(m.outer(&v)).starts_with("outer: the first operand"));
        assert!(text(a.bmm(&counted(&[1, 3, 3])?)).starts_with("bmm: "));
        Ok(())
    }
}
