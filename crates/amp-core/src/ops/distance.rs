//! Distances between vectors: norms of differences.

use crate::autograd::{Pass, Saved, record};
use crate::memory::on_host;
use crate::precision::{Element, Float, I64, SamePrecision, full_range};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result, shape};
use amp_cpu::{Dims, MAX_RANK};

full_range! {
    DistPrecision, "`dist` must run in `F32`";
    CdistPrecision, "`cdist` must run in `F32`";
    PdistPrecision: CdistPrecision, "`pdist` must run in `F32`";
    PairwiseDistancePrecision, "`pairwise_distance` must run in `F32`";
}

impl<P: Float> Tensor<P> {
    /// The p-norm of `self - other` over all elements (`torch.dist`, where p is 2 by default); the shapes broadcast.
    #[track_caller]
    pub fn dist<Q: Element>(&self, other: &Tensor<Q>, p: f64) -> Result<Self>
    where
        P: DistPrecision + SamePrecision<Q>,
    {
        const OP: &str = "dist";
        shape::broadcast(OP, self.raw.shape(), other.raw.shape())?;
        self.sub(other)?.norm(p, [], false).map_err(|error| error.named(OP))
    }

    /// The p-norm of each row of `[.., P, M]` less each row of `[.., R, M]`, as `[.., P, R]` (`torch.cdist`, where p is 2 by
    /// default).
    ///
    /// Differences are computed element by element, so that rows close to each other lose no digits. They are held in memory
    /// unless p is 2, the dimensions before the rows are the same, and the device is a CPU. For infinite p, coordinates that are
    /// equally far apart share the gradient evenly; in PyTorch each has all of it.
    ///
    /// # Errors
    /// [`Error::Rank`] for less than 2 dimensions, [`Error::InnerDimensions`] for rows of different sizes, [`Error::Argument`] unless p
    /// is above 0.
    #[track_caller]
    pub fn cdist<Q: Element>(&self, other: &Tensor<Q>, p: f64) -> Result<Self>
    where
        P: CdistPrecision + SamePrecision<Q>,
    {
        const OP: &str = "cdist";
        check_distance(OP, p)?;
        for (what, shape) in [("the first operand", self.raw.shape()), ("the second operand", other.raw.shape())] {
            if shape.len() < 2 {
                return Err(Error::Rank { op: OP, what, expected: "at least 2 dimensions", found: shape.into() });
            }
        }
        if self.dims().last() != other.dims().last() {
            return Err(Error::InnerDimensions {
                op: OP,
                left: self.raw.shape().into(),
                right: other.raw.shape().into(),
            });
        }
        if let Some(y) = euclidean(self, other, p)? {
            return Ok(y);
        }
        let [left, right] =
            [self.dims(), other.dims()].map(|sizes| Dims::new(&sizes[..sizes.len() - 2]).expect("fewer"));
        if shape::broadcast(OP, &left, &right)?.len() + 3 > MAX_RANK {
            return Err(Error::TooManyDimensions { op: OP, rank: left.len().max(right.len()) + 3 });
        }
        self.unsqueeze(-2)?.sub(&other.unsqueeze(-3)?)?.norm(norm_of_rows(self, p), -1, false)
    }

    /// The p-norm of each row of `[N, M]` less each row behind it, `[N (N - 1) / 2]` (`F.pdist`, where p is 2 by default).
    /// For infinite p the gradient is shared as that of [`cdist`](Self::cdist).
    ///
    /// # Errors
    /// [`Error::Rank`] unless there are 2 dimensions.
    #[track_caller]
    pub fn pdist(&self, p: f64) -> Result<Self>
    where
        P: PdistPrecision,
    {
        const OP: &str = "pdist";
        check_distance(OP, p)?;
        let &[n, _] = self.dims() else {
            let found = self.raw.shape().into();
            return Err(Error::Rank { op: OP, what: "the input", expected: "2 dimensions", found });
        };
        let count = shape::product(OP, &[n, n.saturating_sub(1)])? / 2;
        let pairs = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i as i64, j as i64)));
        let rows = |end: fn((i64, i64)) -> i64| {
            Tensor::<I64>::from_vec(on_host(OP, count, pairs.clone().map(end))?, [count], self.device())
        };
        let (first, second) = (rows(|(i, _)| i)?, rows(|(_, j)| j)?);
        let apart = self.index_select(0, &first)?.sub(&self.index_select(0, &second)?)?;
        apart.norm(norm_of_rows(self, p), -1, false)
    }

    /// The p-norm of `self - other + eps` along the last axis, which stays with size 1 if `keep`
    /// (`F.pairwise_distance`, where p is 2 and eps 1e-6 by default); the shapes broadcast.
    #[track_caller]
    pub fn pairwise_distance<Q: Element>(&self, other: &Tensor<Q>, p: f64, eps: f64, keep: bool) -> Result<Self>
    where
        P: PairwiseDistancePrecision + SamePrecision<Q>,
    {
        const OP: &str = "pairwise_distance";
        if shape::broadcast(OP, self.raw.shape(), other.raw.shape())?.is_empty() {
            let found = self.raw.shape().into();
            return Err(Error::Rank { op: OP, what: "the input", expected: "at least 1 dimension", found });
        }
        self.sub(other)?.add(eps)?.norm(p, -1, keep).map_err(|error| error.named(OP))
    }
}

/// `p`, or 1 for rows without elements: they are 0 apart by any norm, but have no largest element.
fn norm_of_rows<P: Float>(rows: &Tensor<P>, p: f64) -> f64 {
    if rows.dims().last() == Some(&0) { 1.0 } else { p }
}

/// [`cdist`](Tensor::cdist) where the device finds it without the differences in memory.
#[track_caller]
fn euclidean<P: Float, Q: Element>(a: &Tensor<P>, b: &Tensor<Q>, p: f64) -> Result<Option<Tensor<P>>> {
    a.device().check_same(b.device(), "cdist")?;
    let (&[ref batch @ .., rows, size], &[ref other @ .., others, _]) = (a.dims(), b.dims()) else { return Ok(None) };
    if p != 2.0 || batch != other || a.count() == 0 || b.count() == 0 {
        return Ok(None);
    }
    let shape = [batch, &[rows, others]].concat();
    let count = batch.iter().product();
    let (a, b) = (a.reshape([count, rows, size])?.raw, b.reshape([count, others, size])?.raw);
    let shape_of_all = Dims::new(&[count, rows, others]).expect("three dimensions");
    let forward = move |a: &RawTensor, b: &RawTensor, out| -> Result<Option<RawTensor>> {
        let buffer = a.backend().distances(a.operand()?, b.operand()?, out)?;
        Ok(buffer.map(|buffer| RawTensor::written(a.device(), buffer, shape_of_all, a.logical)))
    };
    let Some(y) = forward(&a, &b, P::WRITES.unwrap_or(a.logical))? else { return Ok(None) };
    let y = record("cdist", &[&a, &b], y, |y| {
        // The gradient needs the distances before they were rounded.
        let kept = if P::WRITES.is_some() { None } else { Some(Saved::new(y)?) };
        let (a, b) = (Saved::new(&a)?, Saved::new(&b)?);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let again = if kept.is_none() { forward(&a, &b, a.logical)? } else { None };
            let y = kept.as_deref().or(again.as_ref()).expect("saved or computed again").clone();
            give_slopes(pass, 0, [&a, &b], [&y, &pass.grad().clone()])?;
            give_slopes(pass, 1, [&b, &a], [&turned(&y), &turned(pass.grad())])
        }))
    })?;
    Tensor::from_raw(y).reshape(shape).map(Some)
}

/// The gradient of the rows of `x`, which is operand `number`, from `distances` `[B, rows of x, rows of other]` and theirs.
fn give_slopes(pass: &mut Pass<'_>, number: usize, x: [&RawTensor; 2], distances: [&RawTensor; 2]) -> Result<()> {
    if !pass.wants(number) {
        return Ok(());
    }
    let ([x, other], [y, grad]) = (x, distances);
    let backend = x.backend();
    let buffer =
        backend.distances_grad(x.operand()?, other.operand()?, y.operand()?, grad.operand()?, pass.dtype(number))?;
    pass.give(number, RawTensor::new(x.device(), buffer, *x.shape()))
}

/// `[B, P, R]` as `[B, R, P]`.
fn turned(x: &RawTensor) -> RawTensor {
    let mut layout = x.layout;
    layout.shape.swap(1, 2);
    layout.strides.swap(1, 2);
    x.with_layout(layout)
}

/// An error unless the p-norm is a distance.
#[track_caller]
fn check_distance(op: &'static str, p: f64) -> Result<()> {
    if p > 0.0 { Ok(()) } else { Err(Error::argument(op, "p", "a number above 0", p)) }
}

#[cfg(test)]
mod tests {
    use crate::{Device, F64, Tensor, gradcheck};

    #[test]
    fn gradients_agree_with_differences() {
        let device = Device::cpu();
        let a = Tensor::<F64>::from_vec(vec![0.31, -0.07, 3.93, -1.55, 2.71, 0.12], [2, 3], &device).unwrap();
        let b = Tensor::<F64>::from_vec(vec![1.3, 0.6, 0.9, -0.2, 0.4, 2.2, 0.1, 3.3, -1.0], [3, 3], &device).unwrap();
        let both = [a, b];
        for (name, worst) in [
            ("cdist", gradcheck(|x| x[0].cdist(&x[1], 2.0), &both)),
            (
                "cdist of batches",
                gradcheck(|x| x[0].reshape([1, 2, 3])?.cdist(&x[1].t()?.reshape([1, 3, 3])?, 2.0), &both),
            ),
            ("cdist of p = 1", gradcheck(|x| x[0].unsqueeze(0)?.cdist(&x[1], 1.0), &both)),
            ("pdist", gradcheck(|x| x[0].pdist(3.0), &both[1..])),
            ("dist", gradcheck(|x| x[0].dist(&x[1].narrow(0, 0, 2)?, 3.0), &both)),
            ("pairwise", gradcheck(|x| x[0].pairwise_distance(&x[1].select(0, 1)?, 2.0, 1e-6, true), &both)),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
        let error = both[0].cdist(&both[1].narrow(1, 0, 2).unwrap(), 2.0).unwrap_err().to_string();
        assert_eq!(error, "cdist: inner dimensions differ, left is [2, 3], right is [3, 2]");
        assert!(both[0].cdist(&both[1].select(0, 0).unwrap(), 2.0).is_err());
        let error = both[0].cdist(&both[0], -1.0).unwrap_err().to_string();
        assert_eq!(error, "cdist: p must be a number above 0, found -1");
        assert!(both[0].pdist(f64::NAN).unwrap_err().to_string().starts_with("pdist: p must be"));
        assert!(both[0].select(0, 0).unwrap().pdist(2.0).is_err());
        assert_eq!(both[0].narrow(0, 0, 1).unwrap().pdist(2.0).unwrap().dims(), [0]);
    }

    #[test]
    fn rows_without_elements_are_nowhere_apart() {
        let x = Tensor::<F64>::zeros([3, 0], &Device::cpu()).unwrap();
        for p in [1.0, 2.0, f64::INFINITY] {
            assert_eq!(x.cdist(&x.narrow(0, 0, 2).unwrap(), p).unwrap().to_vec().unwrap(), [0.0; 6]);
            assert_eq!(x.pdist(p).unwrap().to_vec().unwrap(), [0.0; 3]);
        }
    }
}
