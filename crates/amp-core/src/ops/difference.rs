//! Differences of neighbours, and integrals by the trapezoid rule.

use crate::precision::{Element, Float, Numeric, SamePrecision, full_range};
use crate::tensor::Tensor;
use crate::{Error, Result, shape};

full_range! {
    TrapezoidPrecision, "`trapezoid` must run in `F32`";
    TrapezoidOverPrecision: TrapezoidPrecision, "`trapezoid_over` must run in `F32`";
    CumulativeTrapezoidPrecision, "`cumulative_trapezoid` must run in `F32`";
    CumulativeTrapezoidOverPrecision, "`cumulative_trapezoid_over` must run in `F32`";
}

/// Each element but the last along axis `at`, and the one that follows it.
#[track_caller]
fn neighbours<P: Element>(x: &Tensor<P>, at: usize) -> Result<[Tensor<P>; 2]> {
    let (axis, size) = (at as isize, x.dims()[at]);
    let rest = size.saturating_sub(1);
    Ok([x.narrow(axis, 0, rest)?, x.narrow(axis, size - rest, rest)?])
}

impl<P: Numeric> Tensor<P> {
    /// The differences of neighbours along `axis`, of these their differences, and so on: `times` times (`torch.diff`). The axis
    /// is shorter by `times`, and empty where it had no more elements.
    #[track_caller]
    pub fn diff(&self, times: usize, axis: isize) -> Result<Self> {
        let at = shape::axis("diff", axis, self.rank())?;
        (0..times.min(self.dims()[at])).try_fold(self.unchanged(), |x, _| {
            let [left, right] = neighbours(&x, at)?;
            right.sub(&left)
        })
    }
}

/// Twice the areas between neighbours along axis `at`, of points that are 1 apart.
#[track_caller]
fn bands<P: Float>(x: &Tensor<P>, at: usize) -> Result<Tensor<P>> {
    let [left, right] = neighbours(x, at)?;
    &left + &right
}

/// Twice the areas between neighbours along axis `at` over their points, which are a line or broadcast with the values.
#[track_caller]
fn bands_over<P: Float + SamePrecision<Q>, Q: Element>(
    op: &'static str,
    x: &Tensor<P>,
    points: &Tensor<Q>,
    at: usize,
) -> Result<Tensor<P>> {
    let points = Tensor::<P>::from_raw(points.raw.clone());
    let behind = x.rank() - 1 - at;
    // A line runs along the axis.
    let points = match points.rank() {
        1 => points.reshape([&[points.count()], vec![1; behind].as_slice()].concat())?,
        _ => points,
    };
    let along = shape::axis(op, -1 - behind as isize, points.rank())?;
    let (values, found) = (x.dims()[at], points.dims()[along]);
    if found != values {
        return Err(Error::argument(op, "the points", format!("{values} along the axis, as the values"), found));
    }
    let [near, far] = neighbours(&points, along)?;
    ((&far - &near)? * bands(x, at)?).map_err(|error| error.named(op))
}

impl<P: Float> Tensor<P> {
    /// The integral along `axis` of a function known at points `spacing` apart, by the trapezoid rule (`torch.trapezoid`); 0
    /// where there are fewer than two. Needs full precision.
    #[doc(alias = "trapz")]
    #[track_caller]
    pub fn trapezoid(&self, spacing: f64, axis: isize) -> Result<Self>
    where
        P: TrapezoidPrecision,
    {
        let at = shape::axis("trapezoid", axis, self.rank())?;
        bands(self, at)?.sum(at as isize, false)? * (spacing / 2.0)
    }

    /// [`trapezoid`](Self::trapezoid) of a function known at `points`: a line as long as the axis, or points that broadcast with
    /// the values.
    ///
    /// # Errors
    /// [`Error::Argument`] when there are not as many points along the axis as values, [`Error::Broadcast`] when the other axes do
    /// not broadcast.
    #[track_caller]
    pub fn trapezoid_over<Q: Element>(&self, points: &Tensor<Q>, axis: isize) -> Result<Self>
    where
        P: TrapezoidOverPrecision + SamePrecision<Q>,
    {
        const OP: &str = "trapezoid_over";
        let at = shape::axis(OP, axis, self.rank())?;
        let bands = bands_over(OP, self, points, at)?;
        bands.sum(at as isize - self.rank() as isize, false)? * 0.5
    }

    /// The integrals along `axis` up to each point but the first, `spacing` apart, by the trapezoid rule
    /// (`torch.cumulative_trapezoid`). Needs full precision.
    #[track_caller]
    pub fn cumulative_trapezoid(&self, spacing: f64, axis: isize) -> Result<Self>
    where
        P: CumulativeTrapezoidPrecision,
    {
        let at = shape::axis("cumulative_trapezoid", axis, self.rank())?;
        bands(self, at)?.cumsum(at as isize)? * (spacing / 2.0)
    }

    /// [`cumulative_trapezoid`](Self::cumulative_trapezoid) of a function known at `points`, as
    /// [`trapezoid_over`](Self::trapezoid_over) takes them.
    ///
    /// # Errors
    /// Those of [`trapezoid_over`](Self::trapezoid_over).
    #[track_caller]
    pub fn cumulative_trapezoid_over<Q: Element>(&self, points: &Tensor<Q>, axis: isize) -> Result<Self>
    where
        P: CumulativeTrapezoidOverPrecision + SamePrecision<Q>,
    {
        const OP: &str = "cumulative_trapezoid_over";
        let at = shape::axis(OP, axis, self.rank())?;
        let bands = bands_over(OP, self, points, at)?;
        bands.cumsum(at as isize - self.rank() as isize)? * 0.5
    }
}

#[cfg(test)]
mod tests {
    use crate::{BF16, Device, F16, F64, I64, Result, Tensor, gradcheck};

    fn x() -> Tensor<F64> {
        Tensor::from_vec(vec![0.3, -0.7, 1.9, 0.01, -2.2, 0.8], [2, 3], &Device::cpu()).unwrap()
    }

    #[test]
    fn gradients_agree_with_differences() {
        let points = Tensor::from_vec(vec![0.1, 0.5, 2.0], [3], &Device::cpu()).unwrap();
        let each = Tensor::from_vec(vec![0.1, -0.5, 2.0, 3.0, 0.2, 0.7], [2, 3], &Device::cpu()).unwrap();
        for (name, worst) in [
            ("diff", gradcheck(|x| x[0].diff(1, 0), &[x()])),
            ("diff twice", gradcheck(|x| x[0].diff(2, -1)?.sqr(), &[x()])),
            ("trapezoid", gradcheck(|x| x[0].sqr()?.trapezoid(0.3, 1), &[x()])),
            ("trapezoid over a line", gradcheck(|x| x[0].trapezoid_over(&x[1], 1), &[x(), points])),
            ("cumulative", gradcheck(|x| x[0].sqr()?.cumulative_trapezoid(0.3, 1), &[x()])),
            ("cumulative over points", gradcheck(|x| x[0].cumulative_trapezoid_over(&x[1], 1), &[x(), each.clone()])),
            ("trapezoid over points", gradcheck(|x| x[0].trapezoid_over(&x[1], 0), &[x(), each])),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn differences_run_out() -> Result<()> {
        let squares = Tensor::<I64>::from_vec(vec![0, 1, 4, 9], [4], &Device::cpu())?;
        assert_eq!(squares.diff(0, 0)?.to_vec()?, [0, 1, 4, 9]);
        assert_eq!(squares.diff(1, 0)?.to_vec()?, [1, 3, 5]);
        assert_eq!(squares.diff(2, -1)?.to_vec()?, [2, 2]);
        assert_eq!(squares.diff(usize::MAX, 0)?.dims(), [0]);
        assert_eq!(x().diff(2, 0)?.dims(), [0, 3]);
        assert_eq!(x().to::<F16>()?.diff(1, 0)?.dims(), [1, 3]);
        assert_eq!(x().to::<BF16>()?.diff(1, 1)?.dims(), [2, 2]);
        assert!(squares.diff(1, 1).is_err() && x().sum_all()?.diff(1, 0).is_err());
        Ok(())
    }

    #[test]
    fn few_points_enclose_nothing() -> Result<()> {
        let points = Tensor::<F64>::from_vec(vec![0.0, 1.0, 3.0], [3], &Device::cpu())?;
        assert_eq!(points.trapezoid_over(&points, 0)?.item()?, 4.5);
        assert_eq!(points.trapezoid(2.0, 0)?.item()?, 5.0);
        assert_eq!(x().narrow(1, 0, 1)?.trapezoid(1.0, 1)?.to_vec()?, [0.0, 0.0]);
        assert_eq!(x().narrow(1, 0, 0)?.trapezoid(1.0, 1)?.to_vec()?, [0.0, 0.0]);
        assert_eq!(points.cumulative_trapezoid_over(&points, 0)?.to_vec()?, [0.5, 4.5]);
        assert_eq!(points.cumulative_trapezoid(2.0, 0)?.to_vec()?, [1.0, 5.0]);
        assert_eq!(x().narrow(1, 0, 0)?.cumulative_trapezoid(1.0, 1)?.dims(), [2, 0]);
        assert!(x().cumulative_trapezoid_over(&points, 0).is_err() && x().cumulative_trapezoid(1.0, 2).is_err());
        assert!(x().trapezoid_over(&points, 0).is_err() && points.sum_all()?.trapezoid(1.0, 0).is_err());
        Ok(())
    }
}
