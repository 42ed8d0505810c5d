//! Products of tensors of any number of dimensions, under PyTorch's names.

use super::broadcast_pair;
use super::triangular::square;
use crate::precision::{Bool, Element, Float, SamePrecision};
use crate::shape::Axes;
use crate::tensor::Tensor;
use crate::{Error, IntoShape, Result, shape};

/// `x` with the axes that stay before (or behind) those that are summed over.
#[track_caller]
fn matrix<P: Element>(op: &'static str, x: &Tensor<P>, summed: &[usize], behind: bool) -> Result<Tensor<P>> {
    let kept = (0..x.rank()).filter(|axis| !summed.contains(axis));
    let order: Vec<isize> = match behind {
        true => kept.chain(summed.iter().copied()).map(|axis| axis as isize).collect(),
        false => summed.iter().copied().chain(kept).map(|axis| axis as isize).collect(),
    };
    let inner: usize = summed.iter().map(|&axis| x.dims()[axis]).product();
    let others: Vec<usize> = kept_sizes(x.dims(), summed);
    let outer = shape::product(op, &others)?;
    x.permute(&order)?.reshape(if behind { [outer, inner] } else { [inner, outer] })
}

fn kept_sizes(sizes: &[usize], summed: &[usize]) -> Vec<usize> {
    sizes.iter().enumerate().filter(|(axis, _)| !summed.contains(axis)).map(|(_, &size)| size).collect()
}

/// The product of two tensors, summed over pairs of axes: one matrix product.
#[track_caller]
fn contracted<P: Float>(
    op: &'static str,
    a: &Tensor<P>,
    b: &Tensor<P>,
    [left, right]: [&[usize]; 2],
) -> Result<Tensor<P>> {
    let sizes = |x: &Tensor<P>, axes: &[usize]| axes.iter().map(|&axis| x.dims()[axis]).collect::<Vec<_>>();
    if sizes(a, left) != sizes(b, right) {
        return Err(Error::InnerDimensions { op, left: a.raw.shape().into(), right: b.raw.shape().into() });
    }
    let shape = [kept_sizes(a.dims(), left), kept_sizes(b.dims(), right)].concat().into_shape(op)?;
    matrix(op, a, left, true)?.matmul(&matrix(op, b, right, false)?)?.reshape(shape)
}

/// The axes as they were given, once each.
fn listed(op: &'static str, given: impl Axes, rank: usize) -> Result<Vec<usize>> {
    let given = given.as_axes();
    let axes: Vec<usize> = given.iter().map(|&axis| shape::axis(op, axis, rank)).collect::<Result<_>>()?;
    match (1..axes.len()).find(|&i| axes[..i].contains(&axes[i])) {
        Some(i) => Err(Error::RepeatedAxis { op, axis: given[i], axes: given.to_vec() }),
        None => Ok(axes),
    }
}

impl<P: Float> Tensor<P> {
    /// Products of `[.., K]` and `[.., K]`, summed over the last axes (`torch.inner`); a tensor without dimensions is a factor.
    ///
    /// Precision and gradients are those of [`matmul`](Self::matmul).
    ///
    /// # Errors
    /// [`Error::InnerDimensions`] when the last axes differ in size.
    #[track_caller]
    pub fn inner<Q: Element>(&self, other: &Tensor<Q>) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        let other = Self::from_raw(other.raw.clone());
        if self.rank() == 0 || other.rank() == 0 {
            return self.mul(&other);
        }
        contracted("inner", self, &other, [&[self.rank() - 1], &[other.rank() - 1]])
    }

    /// Scalar products of the vectors along `axis`, -1 in PyTorch by default (`torch.linalg.vecdot`); the tensors broadcast.
    ///
    /// Precision and gradients are those of [`matmul`](Self::matmul).
    ///
    /// # Errors
    /// [`Error::Broadcast`] when the shapes do not broadcast, [`Error::Axis`] for tensors without dimensions.
    #[track_caller]
    pub fn vecdot<Q: Element>(&self, other: &Tensor<Q>, axis: isize) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        const OP: &str = "vecdot";
        let shape = *broadcast_pair(OP, &self.raw, &other.raw)?.0.shape();
        let at = shape::axis(OP, axis, shape.len())?;
        let last: Vec<isize> = (0..shape.len()).filter(|a| *a != at).chain([at]).map(|a| a as isize).collect();
        let (row, column) = (self.expand(shape)?.permute(&last)?, other.expand(shape)?.permute(&last)?);
        row.unsqueeze(-2)?.matmul(&column.unsqueeze(-1)?)?.reshape(shape.removed(at))
    }

    /// Products, summed over the last `axes` axes of this tensor and the first of the other (`torch.tensordot`, where there
    /// are 2 by default).
    ///
    /// Precision and gradients are those of [`matmul`](Self::matmul).
    ///
    /// # Errors
    /// [`Error::Argument`] for too many axes, [`Error::InnerDimensions`] when they have different sizes.
    #[track_caller]
    pub fn tensordot<Q: Element>(&self, other: &Tensor<Q>, axes: usize) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        let most = self.rank().min(other.rank());
        if axes > most {
            return Err(Error::argument("tensordot", "axes", format!("at most {most}, which both tensors have"), axes));
        }
        let (left, right): (Vec<_>, Vec<_>) = ((self.rank() - axes..self.rank()).collect(), (0..axes).collect());
        contracted("tensordot", self, &Self::from_raw(other.raw.clone()), [&left, &right])
    }

    /// Products, summed over pairs of axes: each of `left` of this tensor with the one of `right` of the other
    /// (`torch.tensordot(dims=(left, right))`).
    ///
    /// Precision and gradients are those of [`matmul`](Self::matmul).
    ///
    /// # Errors
    /// [`Error::Argument`] unless there are as many axes on both sides, [`Error::InnerDimensions`] when the sizes of a pair
    /// differ.
    #[track_caller]
    pub fn tensordot_over<Q: Element>(&self, other: &Tensor<Q>, left: impl Axes, right: impl Axes) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        const OP: &str = "tensordot_over";
        let (left, right) = (listed(OP, left, self.rank())?, listed(OP, right, other.rank())?);
        if left.len() != right.len() {
            return Err(Error::argument(OP, "right", format!("{} axes, as many as left", left.len()), right.len()));
        }
        contracted(OP, self, &Self::from_raw(other.raw.clone()), [&left, &right])
    }

    /// Every element times the whole other tensor, laid out in blocks (`torch.kron`).
    ///
    /// # Errors
    /// [`Error::TooManyDimensions`] for tensors of many dimensions: the blocks are made with twice as many.
    #[track_caller]
    pub fn kron<Q: Element>(&self, other: &Tensor<Q>) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        let rank = self.rank().max(other.rank());
        let sizes = |dims: &[usize]| [vec![1; rank - dims.len()], dims.to_vec()].concat();
        let (left, right) = (sizes(self.dims()), sizes(other.dims()));
        let spread = |sizes: &[usize], first: bool| -> Vec<usize> {
            sizes.iter().flat_map(|&size| if first { [size, 1] } else { [1, size] }).collect()
        };
        let other = Self::from_raw(other.raw.clone());
        let blocks = || {
            let blocks = self.reshape(spread(&left, true))?.mul(&other.reshape(spread(&right, false))?)?;
            blocks.reshape(left.iter().zip(&right).map(|(a, b)| a * b).collect::<Vec<_>>())
        };
        blocks().map_err(|error: Error| error.named("kron"))
    }

    /// Vector products of the three elements along `axis` (`torch.cross`, `torch.linalg.cross`); the shapes broadcast.
    /// Computed in F32, rounded once.
    ///
    /// # Errors
    /// [`Error::Argument`] unless the axis has 3 elements.
    #[track_caller]
    pub fn cross<Q: Element>(&self, other: &Tensor<Q>, axis: isize) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        let common = *broadcast_pair("cross", &self.raw, &other.raw)?.0.shape();
        let at = shape::axis("cross", axis, common.len())?;
        if common[at] != 3 {
            return Err(Error::argument("cross", "the size of the axis", "3", common[at]));
        }
        let (a, b) = (self.to::<P::Wide>()?.expand(common)?, other.to::<P::Wide>()?.expand(common)?);
        let (axis, [next, last]) = (at as isize, [-1, -2]);
        let ahead = a.roll(next, axis)?.mul(&b.roll(last, axis)?)?;
        ahead.sub(&a.roll(last, axis)?.mul(&b.roll(next, axis)?)?)?.to()
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
        let rows = square(OP, &self.raw)?;
        let Some(top) = exponent.checked_ilog2() else {
            let identity = Tensor::<P>::ones([rows], self.device())?.diag_embed(0)?;
            // The identity, in a graph that gives every element a gradient of 0.
            return Tensor::<Bool>::zeros((), self.device())?.where_(self, &identity);
        };
        (0..top).rev().try_fold(self.unchanged(), |power, bit| {
            let square = power.matmul(&power)?;
            if exponent >> bit & 1 == 1 { square.matmul(self) } else { Ok(square) }
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::wave;
    use crate::{F64, Result, Tensor, gradcheck};

    #[test]
    fn gradients_agree_with_differences() {
        let (a, b) = (wave(&[2, 3]), wave(&[4, 3]));
        let (c, d) = (wave(&[2, 3, 4]), wave(&[3, 4, 2]));
        for (name, worst) in [
            ("inner", gradcheck(|x| x[0].inner(&x[1]), &[a.clone(), b.clone()])),
            ("tensordot", gradcheck(|x| x[0].tensordot(&x[1], 2), &[c.clone(), d.clone()])),
            ("tensordot_over", gradcheck(|x| x[0].tensordot_over(&x[1], [-1, 0], [1, 2]), &[c, d])),
            ("kron", gradcheck(|x| x[0].kron(&x[1]), &[a.clone(), b.clone()])),
            ("matrix_power", gradcheck(|x| x[0].matrix_power(5), &[wave(&[2, 3, 3])])),
            ("vecdot", gradcheck(|x| x[0].vecdot(&x[1].narrow(0, 0, 2)?, 0), &[a.clone(), b.clone()])),
            ("vecdot of a line", gradcheck(|x| x[0].vecdot(&x[1], -1), &[b.clone(), wave(&[3])])),
            ("cross", gradcheck(|x| x[0].unsqueeze(1)?.cross(&x[1], -1), &[a, b])),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn they_are_sums_of_products() -> Result<()> {
        let (a, b) = (wave(&[2, 3, 4]), wave(&[3, 4, 2]));
        assert_eq!(a.tensordot(&b, 2)?.to_vec()?, a.einsum("ijk,jkl->il", &b)?.to_vec()?);
        assert_eq!(a.tensordot(&b, 0)?.dims(), [2, 3, 4, 3, 4, 2]);
        assert_eq!(a.vecdot(&a, 1)?.to_vec()?, a.einsum("ijk,ijk->ik", &a)?.to_vec()?);
        assert!(a.vecdot(&b, 0).is_err() && a.sum_all()?.vecdot(&a.sum_all()?, 0).is_err());
        let x = wave(&[3, 3]);
        assert_eq!(x.matrix_power(3)?.to_vec()?, x.matmul(&x)?.matmul(&x)?.to_vec()?);
        let x = x.tracked();
        let identity = x.matrix_power(0)?.sum_all()?;
        assert_eq!((identity.item()?, identity.backward()?.get(&x)?.unwrap().to_vec()?), (3.0, vec![0.0; 9]));
        assert_eq!(wave(&[3]).inner(&wave(&[2, 3]))?.dims(), [2]);
        assert_eq!(wave(&[3]).kron(&wave(&[2, 2]))?.dims(), [2, 6]);
        Ok(())
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let (a, b) = (wave(&[2, 3]), wave(&[2, 4]));
        let text = |result: Result<Tensor<F64>>| result.unwrap_err().to_string();
        assert_eq!(text(a.inner(&b)), "inner: inner dimensions differ, left is [2, 3], right is [2, 4]");
        assert_eq!(text(a.tensordot(&b, 3)), "tensordot: axes must be at most 2, which both tensors have, found 3");
        assert_eq!(
            text(a.tensordot_over(&b, [0, 1], [0])),
            "tensordot_over: right must be 2 axes, as many as left, found 1"
        );
        assert!(text(a.tensordot_over(&b, [0, 0], [0, 0])).contains("tensordot_over"));
        assert_eq!(text(a.matrix_power(2)), "matrix_power: each matrix must have shape [2, 2], found [2, 3]");
        assert_eq!(text(a.cross(&a, 0)), "cross: the size of the axis must be 3, found 2");
        let deep = wave(&[1, 1, 1, 1, 2]);
        assert_eq!(text(deep.kron(&a)), "kron: 10 dimensions, but a tensor has at most 8");
    }
}
