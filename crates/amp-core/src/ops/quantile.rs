//! Medians and quantiles.

use super::extreme::among_equals;
use super::kernel::folded;
use crate::autograd::{Pass, Saved, record};
use crate::precision::{Float, I64, full_range};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result, shape};
use amp_cpu::DType;

full_range! {
    QuantilePrecision, "`quantile` must run in `F32`";
    NanquantilePrecision, "`nanquantile` must run in `F32`";
    QuantileAllPrecision, "`quantile_all` must run in `F32`";
    NanquantileAllPrecision, "`nanquantile_all` must run in `F32`";
}

/// How NaN among the elements is treated.
#[derive(Clone, Copy, PartialEq)]
enum Missing {
    /// The result is NaN.
    Wins,
    /// It is left out, unless there is nothing else.
    IsLeftOut,
}

/// A line of elements in order, NaN last.
struct Ordered<P: Float> {
    values: Tensor<P>,
    positions: Tensor<I64>,
    axis: isize,
    /// The last place that counts: that of the first NaN where NaN wins.
    last: Tensor<crate::F64>,
    /// Whether a NaN wins.
    lost: Tensor<crate::Bool>,
}

impl<P: Float> Ordered<P> {
    #[track_caller]
    fn new(op: &'static str, x: &Tensor<P>, axis: isize, missing: Missing) -> Result<Self> {
        let at = shape::axis(op, axis, x.rank())?;
        let size = x.dims()[at];
        if size == 0 && kept(x.dims(), at) > 0 {
            return Err(Error::Empty { op, shape: x.raw.shape().into() });
        }
        let axis = at as isize;
        let (values, positions) = x.sort(axis, false)?;
        let numbers = x.detach().isnan()?.logical_not()?.to::<crate::F64>()?.sum(axis, true)?;
        let lost = match missing {
            Missing::Wins => numbers.lt(size as f64)?,
            Missing::IsLeftOut => numbers.lt(0.0)?,
        };
        let last = lost.where_(&numbers, &(&numbers - 1.0)?.clamp_min(0.0)?)?;
        Ok(Self { values, positions, axis, last, lost })
    }

    /// The element at `places` `[.., 1, ..]`.
    #[track_caller]
    fn at(&self, places: &Tensor<crate::F64>) -> Result<Tensor<P>> {
        self.values.gather(self.axis, &places.to::<I64>()?)
    }

    /// The lower of the two in the middle, and its position.
    #[track_caller]
    fn middle(&self, keep: bool) -> Result<(Tensor<P>, Tensor<I64>)> {
        let places = self.lost.where_(&self.last, &(&self.last * 0.5)?.floor()?)?;
        let positions = self.positions.gather(self.axis, &places.to::<I64>()?)?;
        let values = self.at(&places)?;
        if keep { Ok((values, positions)) } else { Ok((values.squeeze(self.axis)?, positions.squeeze(self.axis)?)) }
    }

    /// Between the two elements next to the share `q` of the way through the line.
    #[track_caller]
    fn between(&self, q: f64, keep: bool) -> Result<Tensor<P>> {
        let place = self.lost.where_(&self.last, &(&self.last * q)?)?;
        let below = place.floor()?;
        let weight = (&place - &below)?.to::<P>()?;
        let y = self.at(&below)?.lerp(&self.at(&place.ceil()?)?, &weight)?;
        if keep { Ok(y) } else { y.squeeze(self.axis) }
    }
}

fn kept(sizes: &[usize], folded: usize) -> usize {
    sizes.iter().enumerate().filter(|(axis, _)| *axis != folded).map(|(_, &size)| size).product()
}

#[track_caller]
fn quantile<P: Float>(
    op: &'static str,
    x: &Tensor<P>,
    q: f64,
    (axis, keep): (isize, bool),
    missing: Missing,
) -> Result<Tensor<P>> {
    debug_assert!(matches!(x.raw.logical, DType::F32 | DType::F64), "full precision by signature");
    if !(0.0..=1.0).contains(&q) {
        return Err(Error::argument(op, "q", "in 0..=1", q));
    }
    if let Some(line) = x.line(axis)? {
        return quantile(op, &line, q, (0, false), missing);
    }
    Ordered::new(op, x, axis, missing)?.between(q, keep)
}

#[track_caller]
fn median<P: Float>(
    op: &'static str,
    x: &Tensor<P>,
    axis: isize,
    keep: bool,
    missing: Missing,
) -> Result<(Tensor<P>, Tensor<I64>)> {
    match x.line(axis)? {
        Some(line) => median(op, &line, 0, false, missing),
        None => match chosen(op, x, axis, missing)? {
            Some((values, positions)) if keep => Ok((values, positions)),
            Some((values, positions)) => Ok((values.squeeze(axis)?, positions.squeeze(axis)?)),
            None => Ordered::new(op, x, axis, missing)?.middle(keep),
        },
    }
}

/// The middle elements along `axis`, which stays with size 1, where the device finds them without sorting.
#[track_caller]
fn chosen<P: Float>(
    op: &'static str,
    x: &Tensor<P>,
    axis: isize,
    missing: Missing,
) -> Result<Option<(Tensor<P>, Tensor<I64>)>> {
    let at = shape::axis(op, axis, x.rank())?;
    if x.dims()[at] == 0 {
        return Ok(None);
    }
    let Some(buffer) = x.raw.backend().median(x.raw.operand()?, at, missing == Missing::IsLeftOut)? else {
        return Ok(None);
    };
    let positions = Tensor::<I64>::from_raw(RawTensor::new(x.device(), buffer, folded(x.raw.shape(), &[at])));
    Ok(Some((x.gather(at as isize, &positions)?, positions)))
}

impl<P: Float> Tensor<P> {
    /// The middle element along `axis`, the lower of two, and its position (`torch.median`); NaN wins.
    ///
    /// The gradient goes to the element that was chosen.
    ///
    /// # Errors
    /// [`Error::Empty`] when there is nothing to choose from.
    #[track_caller]
    pub fn median(&self, axis: isize, keep: bool) -> Result<(Self, Tensor<I64>)> {
        median("median", self, axis, keep, Missing::Wins)
    }

    /// The middle of all elements, the lower of two, as a tensor of no dimensions (`torch.median` without an axis); NaN wins.
    ///
    /// The gradient is shared evenly among equal elements.
    ///
    /// # Errors
    /// [`Error::Empty`] when there is nothing to choose from.
    #[track_caller]
    pub fn median_all(&self) -> Result<Self> {
        const OP: &str = "median_all";
        let (y, _) = median(OP, &self.detach().reshape([self.count()])?, 0, false, Missing::Wins)?;
        Ok(Self::from_raw(record(OP, &[&self.raw], y.raw, |y| {
            let (x, y, axes) = (Saved::new(&self.raw)?, Saved::new(y)?, Vec::from_iter(0..self.rank()));
            Ok(Box::new(move |pass: &mut Pass<'_>| pass.give(0, among_equals(OP, pass, &x, &y, &axes)?)))
        })?))
    }

    /// [`median`](Self::median) of the elements that are not NaN (`torch.nanmedian`).
    ///
    /// # Errors
    /// [`Error::Empty`] when there is nothing to choose from.
    #[track_caller]
    pub fn nanmedian(&self, axis: isize, keep: bool) -> Result<(Self, Tensor<I64>)> {
        median("nanmedian", self, axis, keep, Missing::IsLeftOut)
    }

    /// The `q`-quantile along `axis`, interpolated linearly between two elements (`torch.quantile`); NaN wins. Needs full
    /// precision.
    ///
    /// # Errors
    /// [`Error::Argument`] for `q` outside of `0..=1`, [`Error::Empty`] when there is nothing to choose from.
    #[track_caller]
    pub fn quantile(&self, q: impl Into<f64>, axis: isize, keep: bool) -> Result<Self>
    where
        P: QuantilePrecision,
    {
        quantile("quantile", self, q.into(), (axis, keep), Missing::Wins)
    }

    /// [`quantile`](Self::quantile) of the elements that are not NaN (`torch.nanquantile`).
    ///
    /// # Errors
    /// [`Error::Argument`] for `q` outside of `0..=1`, [`Error::Empty`] when there is nothing to choose from.
    #[track_caller]
    pub fn nanquantile(&self, q: impl Into<f64>, axis: isize, keep: bool) -> Result<Self>
    where
        P: NanquantilePrecision,
    {
        quantile("nanquantile", self, q.into(), (axis, keep), Missing::IsLeftOut)
    }

    /// The `q`-quantile of all elements, as a tensor of no dimensions (`torch.quantile` without an axis); NaN wins. Needs full
    /// precision.
    ///
    /// # Errors
    /// [`Error::Argument`] for `q` outside of `0..=1`, [`Error::Empty`] when there is nothing to choose from.
    #[track_caller]
    pub fn quantile_all(&self, q: impl Into<f64>) -> Result<Self>
    where
        P: QuantileAllPrecision,
    {
        quantile("quantile_all", &self.reshape([self.count()])?, q.into(), (0, false), Missing::Wins)
    }

    /// [`quantile_all`](Self::quantile_all) of the elements that are not NaN (`torch.nanquantile` without an axis).
    ///
    /// # Errors
    /// [`Error::Argument`] for `q` outside of `0..=1`, [`Error::Empty`] when there is nothing to choose from.
    #[track_caller]
    pub fn nanquantile_all(&self, q: impl Into<f64>) -> Result<Self>
    where
        P: NanquantileAllPrecision,
    {
        quantile("nanquantile_all", &self.reshape([self.count()])?, q.into(), (0, false), Missing::IsLeftOut)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, F16, F32, F64, Result, Tensor, gradcheck};

    #[test]
    fn gradients_agree_with_differences() {
        let x = Tensor::<F64>::from_vec(vec![0.3, -0.7, 1.9, 0.01, -2.2, 0.8], [2, 3], &Device::cpu()).unwrap();
        let x = std::slice::from_ref(&x);
        for (name, worst) in [
            ("median", gradcheck(|x| Ok(x[0].median(1, true)?.0), x)),
            ("median_all", gradcheck(|x| x[0].median_all(), x)),
            ("quantile", gradcheck(|x| x[0].quantile(0.3, -1, false), x)),
            ("nanquantile", gradcheck(|x| x[0].nanquantile(0.8, 0, true), x)),
            ("quantile_all", gradcheck(|x| x[0].quantile_all(0.3), x)),
            ("nanquantile_all", gradcheck(|x| x[0].nanquantile_all(0.7), x)),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn equal_elements_share_the_gradient_of_the_middle_of_all() -> Result<()> {
        let x = Tensor::<F32>::from_vec(vec![2.0, 1.0, 2.0, 3.0, 2.0, 0.0], [2, 3], &Device::cpu())?.tracked();
        let grads = (x.median_all()? * 6.0)?.backward()?;
        assert_eq!(grads.get(&x)?.expect("a gradient").to_vec()?, [2.0, 0.0, 2.0, 0.0, 2.0, 0.0]);
        Ok(())
    }

    #[test]
    fn nan_wins_or_is_left_out() -> Result<()> {
        let nan = f32::NAN;
        let x = Tensor::<F32>::from_vec(vec![3.0, nan, 1.0, 2.0, 5.0, 4.0, 2.0, 1.0], [2, 4], &Device::cpu())?;
        let (values, positions) = x.median(1, false)?;
        assert!(values.to_vec()?[0].is_nan() && values.to_vec()?[1] == 2.0);
        assert_eq!(positions.to_vec()?, [1, 2]);
        assert_eq!(x.nanmedian(1, false)?.0.to_vec()?, [2.0, 2.0]);
        let half = x.quantile(0.5, 1, false)?.to_vec()?;
        assert!(half[0].is_nan() && half[1] == 3.0);
        assert_eq!(x.nanquantile(0.25, 1, true)?.to_vec()?, [1.5, 1.75]);
        assert_eq!(x.select(0, 1)?.to::<F16>()?.median_all()?.item()?.to_f32(), 2.0);
        assert_eq!(x.select(0, 1)?.select(0, 2)?.median(0, true)?.0.item()?, 2.0);
        let none = Tensor::<F32>::full([2], nan, &Device::cpu())?;
        assert!(none.nanmedian(0, false)?.0.item()?.is_nan() && none.nanquantile(0.5, 0, false)?.item()?.is_nan());
        Ok(())
    }

    #[test]
    fn nothing_has_no_middle() -> Result<()> {
        let x = Tensor::<F32>::zeros([2, 0], &Device::cpu())?;
        assert!(x.median(1, false).is_err() && x.quantile(0.5, 1, false).is_err() && x.median_all().is_err());
        assert_eq!(x.median(0, false)?.0.dims(), [0]);
        let error = x.quantile(1.5, 0, false).unwrap_err().to_string();
        assert_eq!(error, "quantile: q must be in 0..=1, found 1.5");
        assert!(x.quantile_all(0.5).unwrap_err().to_string().starts_with("quantile_all: "));
        Ok(())
    }

    #[test]
    fn the_first_nan_is_the_middle() -> Result<()> {
        let nan = f32::NAN;
        let x = Tensor::<F32>::from_vec(vec![1.0, nan, 2.0, nan], [4], &Device::cpu())?;
        assert_eq!(x.median(0, false)?.1.item()?, 1);
        let (value, place) = super::Ordered::new("median", &x, 0, super::Missing::Wins)?.middle(false)?;
        assert!(value.item()?.is_nan());
        assert_eq!(place.item()?, 1);
        assert!(x.quantile(0.0, 0, false)?.item()?.is_nan());
        let none = x.narrow(0, 1, 1)?.repeat([3])?;
        assert_eq!((none.median(0, false)?.1.item()?, none.nanmedian(0, false)?.1.item()?), (0, 0));
        Ok(())
    }
}
