//! Binary search in sorted lines.

use crate::memory::on_host;
use crate::precision::{Element, F64, Float, I64, SamePrecision};
use crate::tensor::Tensor;
use crate::{Error, Result};
use std::cmp::Ordering;

/// The first place in `line` whose element is not before `value`; with `right`, that is after it.
fn place(line: &[f64], value: f64, right: bool) -> i64 {
    // NaN is after all numbers.
    let before = |element: f64| match element.partial_cmp(&value) {
        Some(Ordering::Greater) => false,
        Some(Ordering::Equal) => right,
        _ => true,
    };
    line.partition_point(|&element| before(element)) as i64
}

impl<P: Float> Tensor<P> {
    /// Where each of `values` `[.., M]` is to be put into sorted lines `[.., N]`, or one line `[N]` for all, for them to stay
    /// sorted: before equals, or behind them if `right` (`torch.searchsorted`). Found by the host: a GPU is waited for.
    ///
    /// # Errors
    /// [`Error::Shape`] unless the values have the shape of the lines beside the last axis.
    pub fn searchsorted<Q: Element>(&self, values: &Tensor<Q>, right: bool) -> Result<Tensor<I64>>
    where
        P: SamePrecision<Q>,
    {
        const OP: &str = "searchsorted";
        self.device().check_same(values.device(), OP)?;
        let Some((&length, lines)) = self.dims().split_last() else {
            let (expected, found) = ("at least 1 dimension", self.raw.shape().into());
            return Err(Error::Rank { op: OP, what: "the sorted tensor", expected, found });
        };
        let per_line = match values.dims().split_last() {
            _ if lines.is_empty() => values.count(),
            Some((&each, others)) if others == lines => each,
            _ => {
                let (expected, found) = (format!("{lines:?} and one more dimension"), values.raw.shape().into());
                return Err(Error::Shape { op: OP, what: "the values", expected, found });
            }
        };
        let (sorted, wanted) = (self.to::<F64>()?.to_vec()?, values.to::<F64>()?.to_vec()?);
        let places = wanted.iter().enumerate().map(|(i, &value)| {
            let start = i / per_line.max(1) * length;
            place(&sorted[start..start + length], value, right)
        });
        Tensor::from_vec(on_host(OP, wanted.len(), places)?, *values.raw.shape(), self.device())
    }

    /// The number of the bucket of each element among `boundaries` `[N]`, which are sorted: a boundary ends the bucket before
    /// it, or begins the one behind it if `right` (`torch.bucketize`). Found by the host: a GPU is waited for.
    ///
    /// # Errors
    /// [`Error::Rank`] unless the boundaries have 1 dimension.
    pub fn bucketize<Q: Element>(&self, boundaries: &Tensor<Q>, right: bool) -> Result<Tensor<I64>>
    where
        P: SamePrecision<Q>,
    {
        if boundaries.rank() != 1 {
            let (expected, found) = ("1 dimension", boundaries.raw.shape().into());
            return Err(Error::Rank { op: "bucketize", what: "the boundaries", expected, found });
        }
        Self::from_raw(boundaries.raw.clone()).searchsorted(self, right)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, F32, Result, Tensor};

    #[test]
    fn before_or_behind_equals() -> Result<()> {
        let line = |data: &[f32], shape: &[usize]| Tensor::<F32>::from_slice(data, shape, &Device::cpu());
        let sorted = line(&[1.0, 3.0, 3.0, 5.0], &[4])?;
        let values = line(&[3.0, 0.0, 9.0, f32::NAN], &[2, 2])?;
        assert_eq!(sorted.searchsorted(&values, false)?.to_vec()?, [1, 0, 4, 4]);
        assert_eq!(sorted.searchsorted(&values, true)?.to_vec()?, [3, 0, 4, 4]);
        assert_eq!(values.bucketize(&sorted, true)?.dims(), [2, 2]);
        let lines = line(&[1.0, 2.0, 3.0, 4.0], &[2, 2])?;
        assert_eq!(lines.searchsorted(&values, false)?.to_vec()?, [2, 0, 2, 2]);
        assert!(lines.searchsorted(&sorted, false).is_err() && values.bucketize(&lines, false).is_err());
        let none = sorted.narrow(0, 0, 0)?;
        assert_eq!(none.searchsorted(&values, false)?.to_vec()?, [0; 4]);
        Ok(())
    }
}
