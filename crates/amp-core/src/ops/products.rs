//! Matrix products of operands with one number of dimensions each, under PyTorch's names.

use super::arithmetic;
use super::matmul::{give_product, matmul, turned};
use crate::autograd::{Pass, Saved, record};
use crate::backend::Operand;
use crate::precision::{Element, Float, SamePrecision};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result};

/// An error unless the operands have these numbers of dimensions.
#[track_caller]
fn check_ranks(op: &'static str, a: &RawTensor, b: &RawTensor, ranks: [usize; 2]) -> Result<()> {
    for (x, (what, rank)) in [a, b].into_iter().zip(["the first operand", "the second operand"].into_iter().zip(ranks))
    {
        if x.shape().len() != rank {
            let expected = ["0 dimensions", "1 dimension", "2 dimensions", "3 dimensions"][rank];
            return Err(Error::Rank { op, what, expected, found: x.shape().into() });
        }
    }
    Ok(())
}

/// The product of tensors with these numbers of dimensions.
#[track_caller]
fn product(op: &'static str, a: &RawTensor, b: &RawTensor, ranks: [usize; 2]) -> Result<RawTensor> {
    check_ranks(op, a, b, ranks)?;
    check_batch(op, a, b, ranks)?;
    matmul(op, a, b)
}

/// An error unless both batches have the same size.
#[track_caller]
fn check_batch(op: &'static str, a: &RawTensor, b: &RawTensor, ranks: [usize; 2]) -> Result<()> {
    if ranks == [3, 3] && a.shape()[0] != b.shape()[0] {
        return Err(Error::Broadcast { op, left: a.shape().into(), right: b.shape().into() });
    }
    Ok(())
}

/// `input + a · b` for factors of `rank` dimensions, added before the product is rounded.
#[track_caller]
fn added(op: &'static str, input: &RawTensor, a: &RawTensor, b: &RawTensor, rank: usize) -> Result<RawTensor> {
    check_ranks(op, a, b, [rank; 2])?;
    check_batch(op, a, b, [rank; 2])?;
    let (left, right) = (*a.shape(), *b.shape());
    if left[rank - 1] != right[rank - 2] {
        return Err(Error::InnerDimensions { op, left: left.into(), right: right.into() });
    }
    for factor in [a, b] {
        input.device().check_same(factor.device(), op)?;
    }
    let mut shape = left;
    shape[rank - 1] = right[rank - 1];
    let shape = crate::IntoShape::into_shape(shape, op)?;
    let residual = input.broadcast_to(op, &shape)?;
    let buffer = input.backend().matmul_add(a.operand()?, b.operand()?, None, residual.operand()?, input.logical)?;
    record(op, &[input, a, b], RawTensor::new(input.device(), buffer, shape), |_| {
        let (a, b) = (Saved::new(a)?, Saved::new(b)?);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let grad = pass.grad().detached();
            pass.give(0, grad.clone())?;
            let [turned_a, turned_b] = [&a, &b].map(|x| turned(&x.layout));
            give_product(pass, 1, grad.operand()?, Operand { layout: &turned_b, ..b.operand()? })?;
            give_product(pass, 2, Operand { layout: &turned_a, ..a.operand()? }, grad.operand()?)
        }))
    })
}

/// The sizes of a tensor of three dimensions.
fn sizes<P: Element>(x: &Tensor<P>) -> [usize; 3] {
    [0, 1, 2].map(|axis| x.dims()[axis])
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
    vdot, [1, 1], "Scalar product of two vectors `[K]` of real numbers (`torch.vdot`).";
}

macro_rules! added_products {
    ($($name:ident, $rank:expr, $doc:literal;)*) => {
        impl<P: Float> Tensor<P> { $(
            #[doc = $doc]
            ///
            /// # Precision
            /// The sum is part of the product: in F32 (F64 for F64), rounded once. Gradients are those of
            /// [`matmul`](Self::matmul) and [`add`](Self::add).
            #[track_caller]
            pub fn $name<A: Element, B: Element>(&self, a: &Tensor<A>, b: &Tensor<B>) -> Result<Self>
            where
                P: SamePrecision<A> + SamePrecision<B>,
            {
                Ok(Self::from_raw(added(stringify!($name), &self.raw, &a.raw, &b.raw, $rank)?))
            }
        )* }
    };
}
added_products! {
    addmm, 2, "`self + a · b` for `[M, K]` and `[K, N]`, to whose product `self` broadcasts (`torch.addmm`).";
    baddbmm, 3, "`self + a · b` for `[B, M, K]` and `[B, K, N]`, to whose products `self` broadcasts (`torch.baddbmm`).";
}

impl<P: Float> Tensor<P> {
    /// `self + a · b` for `[M, K]` and a vector `[K]`, to whose product `self` broadcasts (`torch.addmv`).
    ///
    /// Precision and gradients are those of [`addmm`](Self::addmm).
    #[track_caller]
    pub fn addmv<A: Element, B: Element>(&self, a: &Tensor<A>, b: &Tensor<B>) -> Result<Self>
    where
        P: SamePrecision<A> + SamePrecision<B>,
    {
        check_ranks("addmv", &a.raw, &b.raw, [2, 1])?;
        let input = if self.rank() == 0 { self.clone() } else { self.unsqueeze(-1)? };
        let column = added("addmv", &input.raw, &a.raw, &b.unsqueeze(1)?.raw, 2)?;
        Self::from_raw(column).squeeze(1)
    }

    /// `self` and the products of every element of `a` `[M]` with every one of `b` `[N]`, to which `self` broadcasts
    /// (`torch.addr`).
    ///
    /// Precision and gradients are those of [`addmm`](Self::addmm).
    #[track_caller]
    pub fn addr<A: Element, B: Element>(&self, a: &Tensor<A>, b: &Tensor<B>) -> Result<Self>
    where
        P: SamePrecision<A> + SamePrecision<B>,
    {
        check_ranks("addr", &a.raw, &b.raw, [1, 1])?;
        Ok(Self::from_raw(added("addr", &self.raw, &a.unsqueeze(1)?.raw, &b.unsqueeze(0)?.raw, 2)?))
    }

    /// `self` and the sum of all products of `[B, M, K]` and `[B, K, N]`, to which `self` broadcasts (`torch.addbmm`).
    ///
    /// Precision and gradients are those of [`addmm`](Self::addmm): it is one product of `[M, B K]` and `[B K, N]`.
    #[track_caller]
    pub fn addbmm<A: Element, B: Element>(&self, a: &Tensor<A>, b: &Tensor<B>) -> Result<Self>
    where
        P: SamePrecision<A> + SamePrecision<B>,
    {
        const OP: &str = "addbmm";
        check_ranks(OP, &a.raw, &b.raw, [3, 3])?;
        check_batch(OP, &a.raw, &b.raw, [3, 3])?;
        let ([batch, rows, inner], [_, other, columns]) = (sizes(a), sizes(b));
        if inner != other {
            return Err(Error::InnerDimensions { op: OP, left: a.raw.shape().into(), right: b.raw.shape().into() });
        }
        let wide = a.transpose(0, 1)?.reshape([rows, batch * inner])?;
        Ok(Self::from_raw(added(OP, &self.raw, &wide.raw, &b.reshape([batch * inner, columns])?.raw, 2)?))
    }

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
    use crate::{BF16, Device, F32, F64, Result, Tensor, gradcheck};
    use half::bf16;

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
    fn sums_with_products_have_gradients() -> Result<()> {
        let wide = |shape: &[usize]| -> Result<Tensor<F64>> { (&counted(shape)?.to::<F64>()? * 0.037)?.sin() };
        for (input, a, b) in [(&[2, 4][..], [2, 3], [3, 4]), (&[4], [2, 3], [3, 4]), (&[], [1, 3], [3, 1])] {
            let inputs = [wide(input)?, wide(&a)?, wide(&b)?];
            let worst = gradcheck(|x| x[0].addmm(&x[1], &x[2]), &inputs)?;
            assert!(worst.agrees(), "{input:?}: {worst:?}");
            let batched = |i: usize| inputs[i].unsqueeze(0)?.repeat([2, 1, 1]);
            let worst = gradcheck(|x| x[0].baddbmm(&x[1], &x[2]), &[inputs[0].clone(), batched(1)?, batched(2)?])?;
            assert!(worst.agrees(), "{input:?}, in a batch: {worst:?}");
        }
        Ok(())
    }

    #[test]
    fn sums_with_vectors_and_batches() -> Result<()> {
        let wide = |shape: &[usize]| -> Result<Tensor<F64>> { (&counted(shape)?.to::<F64>()? * 0.037)?.sin() };
        let (m, v, u) = (wide(&[2, 3])?, wide(&[3])?, wide(&[2])?);
        let (a, b) = (wide(&[2, 2, 3])?, wide(&[2, 3, 4])?);
        for (name, worst) in [
            ("addmv", gradcheck(|x| x[0].addmv(&x[1], &x[2]), &[u.clone(), m.clone(), v.clone()])),
            ("addr", gradcheck(|x| x[0].addr(&x[1], &x[2]), &[m, u, v])),
            ("addbmm", gradcheck(|x| x[0].addbmm(&x[1], &x[2]), &[wide(&[4])?, a.clone(), b.clone()])),
        ] {
            let worst = worst?;
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
        let (sum, one) = (a.matmul(&b)?.sum(0, false)?, Tensor::<F64>::ones((), &Device::cpu())?);
        assert!(one.addbmm(&a, &b)?.allclose(&(sum + 1.0)?, 1e-12, 0.0)?);
        let text = one.addbmm(&b, &a).unwrap_err().to_string();
        assert_eq!(text, "addbmm: inner dimensions differ, left is [2, 3, 4], right is [2, 2, 3]");
        Ok(())
    }

    #[test]
    fn what_is_added_is_rounded_with_the_sum() -> Result<()> {
        // 257 is no BF16 number, 258 is.
        let ones = |shape: [usize; 2]| Tensor::<BF16>::full(shape, bf16::ONE, &Device::cpu());
        let (one, a, b) = (ones([1, 1])?, ones([1, 257])?, ones([257, 1])?);
        assert_eq!(one.addmm(&a, &b)?.to_vec()?, [bf16::from_f32(258.0)]);
        assert_eq!(a.matmul(&b)?.add(&one)?.to_vec()?, [bf16::from_f32(256.0)]);
        Ok(())
    }

    #[test]
    fn other_ranks_and_sizes_are_errors() -> Result<()> {
        let (m, n, v, a) = (counted(&[2, 3])?, counted(&[3, 4])?, counted(&[3])?, counted(&[2, 3, 3])?);
        let text = |result: Result<Tensor<F32>>| result.unwrap_err().to_string();
        assert!(text(m.mm(&v)).starts_with("mm: the second operand"), "{}", text(m.mm(&v)));
        assert!(text(v.dot(&m)).starts_with("dot: the second operand"));
        assert!(text(m.mv(&m)).starts_with("mv: the second operand"));
        assert!(text(m.bmm(&a)).starts_with("bmm: the first operand"));
        assert!(text(v.addmm(&m, &v)).starts_with("addmm: the second operand"));
        assert!(text(v.addmm(&m, &m)).starts_with("addmm: inner dimensions differ"));
        assert!(text(counted(&[3, 1])?.addmm(&m, &n)).starts_with("addmm: shapes [3, 1] and [2, 4]"));
        assert!(text(m.outer(&v)).starts_with("outer: the first operand"));
        assert!(text(a.bmm(&counted(&[1, 3, 3])?)).starts_with("bmm: "));
        Ok(())
    }
}
