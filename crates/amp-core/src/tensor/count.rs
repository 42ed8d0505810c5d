//! Tensors that count: whole numbers, even steps, and grids of coordinates.

use super::Tensor;
use super::number::{Number, float, whole};
use crate::device::Device;
use crate::memory::on_host;
use crate::ops::Part;
use crate::precision::{Element, F32, F64, FullRange, I64};
use crate::shape::IntoShape;
use crate::{Error, Result};

/// Which way the first two coordinates of [`Tensor::meshgrid`] run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Indexing {
    /// As the indices of a matrix: the first coordinate runs along axis 0 (PyTorch's `"ij"`).
    #[default]
    Ij,
    /// As `x` and `y` of an image: the first coordinate runs along axis 1, the second along axis 0 (PyTorch's `"xy"`).
    Xy,
}

impl Tensor<I64> {
    /// `start, start + 1, .., end - 1`; empty where `end` is not above `start` (`torch.arange`).
    ///
    /// Of floats it is [`FloatRange::arange`], by other steps [`arange_step`](Tensor::arange_step).
    ///
    /// ```
    /// # use amp_core::{Device, F32, I64, Tensor};
    /// let x = Tensor::<F32>::zeros([4, 3], &Device::cpu())?;
    /// assert_eq!(Tensor::<I64>::arange(0, x.dims()[1], &Device::cpu())?.to_vec()?, [0, 1, 2]);
    /// # Ok::<_, amp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`] for a number beyond 64 bits.
    pub fn arange(start: impl Number<i64>, end: impl Number<i64>, device: &Device) -> Result<Self> {
        let (start, end) = (whole("arange", start)?, whole("arange", end)?);
        let count = usize::try_from(i128::from(end) - i128::from(start)).unwrap_or(0);
        let shape = [count].into_shape("arange")?;
        Self::upload(on_host("arange", count, start..end)?, shape, device)
    }
}

impl Tensor<F32> {
    /// `steps` values from `start` to `end`, both included (`torch.linspace`).
    ///
    /// Positions and tables are F32 by signature: integers are exact only up to 256 in BF16 and 2048 in F16.
    pub fn linspace(start: f32, end: f32, steps: usize, device: &Device) -> Result<Self> {
        let step = if steps > 1 { (f64::from(end) - f64::from(start)) / (steps - 1) as f64 } else { 0.0 };
        let shape = [steps].into_shape("linspace")?;
        let values = (0..steps).map(|i| (f64::from(start) + step * i as f64) as f32);
        Self::upload(on_host("linspace", steps, values)?, shape, device)
    }
}

impl<P: FullRange> Tensor<P> {
    /// `start, start + step, ..` up to before `end`; empty where `end` does not lie ahead (`torch.arange` of floats).
    ///
    /// Positions and tables are F32 or F64 by signature: integers are exact only up to 256 in BF16 and 2048 in F16. Values and
    /// their number are computed in F64 and rounded once.
    ///
    /// ```
    /// # use amp_core::{Device, F32, Tensor};
    /// let x = Tensor::<F32>::arange_step(1.0, 0.0, -0.25, &Device::cpu())?;
    /// assert_eq!(x.to_vec()?, [1.0, 0.75, 0.5, 0.25]);
    /// # Ok::<_, amp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`] unless all three are finite, F64 holds them exactly, and `step` is not 0.
    pub fn arange_step(
        start: impl Number<f64>,
        end: impl Number<f64>,
        step: impl Number<f64>,
        device: &Device,
    ) -> Result<Self> {
        const OP: &str = "arange_step";
        let [start, end, step] = [float(OP, start)?, float(OP, end)?, float(OP, step)?];
        if step == 0.0 || ![start, end, step].iter().all(|x| x.is_finite()) {
            let found = format!("{start}, {end} and {step}");
            return Err(Error::argument(OP, "start, end and step", "finite, and step not 0", found));
        }
        // Negative numbers are 0 as `usize`, larger ones than there are its largest.
        let count = ((end - start) / step).ceil() as usize;
        [count].into_shape(OP)?;
        let values = on_host(OP, count, (0..count).map(|i| start + step * i as f64))?;
        Tensor::<F64>::from_vec(values, [count], device)?.to()?.contiguous()
    }
}

/// Counting in F32 and F64 (`torch.arange` of floats).
///
/// ```
/// use amp_core::{Device, F32, FloatRange, Tensor};
///
/// let x = Tensor::<F32>::arange(0, 3, &Device::cpu())?;
/// assert_eq!(x.to_vec()?, [0.0, 1.0, 2.0]);
/// # Ok::<_, amp_core::Error>(())
/// ```
///
/// A trait, so that `Tensor::arange(..)` without a type counts in I64, as PyTorch does.
pub trait FloatRange: Sized {
    /// `start, start + 1, ..` up to before `end`; empty where `end` is not above `start`. By other steps it is
    /// [`arange_step`](Tensor::arange_step).
    ///
    /// # Errors
    /// [`Error::Argument`] unless both are finite and F64 holds them exactly.
    fn arange(start: impl Number<f64>, end: impl Number<f64>, device: &Device) -> Result<Self>;
}

impl<P: FullRange> FloatRange for Tensor<P> {
    fn arange(start: impl Number<f64>, end: impl Number<f64>, device: &Device) -> Result<Self> {
        Self::arange_step(start, end, 1, device)
    }
}

impl<P: Element> Tensor<P> {
    /// Every combination of the coordinates on some axes: for each line of them a grid with a dimension for every line
    /// (`torch.meshgrid`). The grids are views.
    ///
    /// ```
    /// # use amp_core::{Device, Indexing, I64, Tensor};
    /// let line = |n| Tensor::<I64>::arange(0, n, &Device::cpu());
    /// let grids = Tensor::meshgrid(&[line(3)?, line(2)?], Indexing::Xy)?;
    /// assert_eq!((grids[0].dims(), grids[0].to_vec()?), ([2, 3].as_slice(), vec![0, 1, 2, 0, 1, 2]));
    /// assert_eq!(grids[1].to_vec()?, [0, 0, 0, 1, 1, 1]);
    /// # Ok::<_, amp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`] when there are no lines, [`Error::Rank`] for a tensor of more than one dimension.
    #[track_caller]
    pub fn meshgrid(lines: &[impl Part<P>], indexing: Indexing) -> Result<Vec<Self>> {
        const OP: &str = "meshgrid";
        let lines: Vec<&Self> = lines.iter().map(Part::tensor).collect();
        if lines.is_empty() {
            return Err(Error::argument(OP, "tensors", "one or more", "none"));
        }
        if let Some(line) = lines.iter().find(|line| line.rank() > 1) {
            let (expected, found) = ("at most 1 dimension", line.raw.shape().into());
            return Err(Error::Rank { op: OP, what: "each tensor", expected, found });
        }
        let mut axes: Vec<usize> = (0..lines.len()).collect();
        if indexing == Indexing::Xy && lines.len() > 1 {
            axes.swap(0, 1);
        }
        let shape: Vec<usize> = axes.iter().map(|&axis| lines[axis].count()).collect();
        shape.as_slice().into_shape(OP)?;
        lines.iter().zip(axes).map(|(line, axis)| line.across(axis, &shape)).collect()
    }

    /// A line along `axis` of a grid of `shape`.
    #[track_caller]
    fn across(&self, axis: usize, shape: &[usize]) -> Result<Self> {
        let mut along = vec![1; shape.len()];
        along[axis] = self.count();
        self.reshape(along)?.expand(shape)
    }
}

#[cfg(test)]
mod tests {
    use super::FloatRange;
    use super::Indexing::{Ij, Xy};
    use crate::{Device, F32, F64, I64, Tensor, gradcheck};

    #[test]
    fn counting_ends_before_the_end() {
        let count = |start, end| Tensor::<I64>::arange(start, end, &Device::cpu());
        assert_eq!(count(-2, 2).unwrap().to_vec().unwrap(), [-2, -1, 0, 1]);
        assert_eq!(count(3, 1).unwrap().dims(), [0]);
        assert!(count(i64::MIN, i64::MAX).is_err());
    }

    #[test]
    fn floats_are_counted_by_one() {
        let d = &Device::cpu();
        assert_eq!(Tensor::<F32>::arange(0.5, 3, d).unwrap().to_vec().unwrap(), [0.5, 1.5, 2.5]);
        assert_eq!(Tensor::<F64>::arange(2, -1, d).unwrap().dims(), [0]);
        assert!(Tensor::<F32>::arange(0, f32::NAN, d).is_err());
        // Without a type it counts in integers.
        let found: Vec<i64> = Tensor::arange(0, 2, d).unwrap().to_vec().unwrap();
        assert_eq!(found, [0, 1]);
    }

    #[test]
    fn bounds_are_numbers_of_any_type() {
        let d = &Device::cpu();
        let sizes: &[usize] = &[2, 4];
        assert_eq!(Tensor::<I64>::arange(sizes[0], sizes[1], d).unwrap().to_vec().unwrap(), [2, 3]);
        assert_eq!(Tensor::<I64>::arange(-1i32, 1u8, d).unwrap().to_vec().unwrap(), [-1, 0]);
        assert_eq!(Tensor::<F32>::arange(0, sizes[0] as i64, d).unwrap().to_vec().unwrap(), [0.0, 1.0]);
        assert_eq!(Tensor::<F64>::arange(sizes[0], 3.5f32, d).unwrap().to_vec().unwrap(), [2.0, 3.0]);
        assert_eq!(Tensor::<F32>::arange_step(0, sizes[1], 2, d).unwrap().to_vec().unwrap(), [0.0, 2.0]);
        let error = Tensor::<I64>::arange(u64::MAX, 0, d).unwrap_err().to_string();
        assert_eq!(error, "arange: start and end must be integers of 64 bits, found 18446744073709551615");
        let rounded = (1i64 << 53) + 1;
        let error = Tensor::<F64>::arange(rounded, rounded, d).unwrap_err().to_string();
        assert_eq!(error, "arange_step: start, end and step must be numbers that F64 holds, found 9007199254740993");
        assert_eq!(Tensor::<F64>::arange(rounded - 1, rounded - 1, d).unwrap().dims(), [0]);
    }

    #[test]
    fn steps_end_before_the_end() {
        let count = |start, end, step| Tensor::<F32>::arange_step(start, end, step, &Device::cpu());
        assert_eq!(count(0.0, 1.0, 0.25).unwrap().to_vec().unwrap(), [0.0, 0.25, 0.5, 0.75]);
        assert_eq!(count(0.0, 0.3, 0.1).unwrap().to_vec().unwrap(), [0.0, 0.1, 0.2]);
        assert_eq!(count(2.0, -1.5, -1.0).unwrap().to_vec().unwrap(), [2.0, 1.0, 0.0, -1.0]);
        assert_eq!(count(1.0, 0.0, 0.5).unwrap().dims(), [0]);
        let exact = Tensor::<F64>::arange_step(0.0, 0.3, 0.1, &Device::cpu()).unwrap();
        assert_eq!(exact.to_vec().unwrap(), [0.0, 0.1, 0.2]);
        let error = count(0.0, 1.0, 0.0).unwrap_err().to_string();
        assert_eq!(error, "arange_step: start, end and step must be finite, and step not 0, found 0, 1 and 0");
        assert!(count(0.0, f64::INFINITY, 1.0).is_err() && count(f64::NAN, 1.0, 1.0).is_err());
        assert!(count(0.0, 1e300, 1e-300).is_err());
    }

    #[test]
    fn grids_are_views_of_their_lines() {
        let line = |n| Tensor::<F32>::arange_step(0.0, n, 1.0, &Device::cpu()).unwrap();
        let lines = [line(2.0), line(3.0), line(4.0)];
        for (indexing, dims) in [(Ij, [2, 3, 4]), (Xy, [3, 2, 4])] {
            let grids = Tensor::meshgrid(&lines, indexing).unwrap();
            assert!(grids.iter().all(|grid| grid.dims() == dims && !grid.is_contiguous()));
            let first = grids[0].select(2, 0).unwrap().to_vec().unwrap();
            let along = if indexing == Ij { [0.0, 0.0, 0.0, 1.0, 1.0, 1.0] } else { [0.0, 1.0, 0.0, 1.0, 0.0, 1.0] };
            assert_eq!(first, along);
        }
        let point = Tensor::<F32>::scalar(5.0, &Device::cpu()).unwrap();
        let grids = Tensor::meshgrid(&[&point, &line(2.0)], Ij).unwrap();
        assert_eq!((grids[0].dims(), grids[0].to_vec().unwrap()), ([1, 2].as_slice(), vec![5.0, 5.0]));
        assert_eq!(Tensor::meshgrid(&[line(2.0)], Xy).unwrap()[0].dims(), [2]);
        assert!(Tensor::meshgrid(&Vec::<Tensor<F32>>::new(), Ij).is_err());
        let error = Tensor::meshgrid(&[&grids[0]], Ij).unwrap_err().to_string();
        assert_eq!(error, "meshgrid: each tensor must have at most 1 dimension, found shape [1, 2]");
        assert!(Tensor::meshgrid(&vec![line(1.0); 9], Ij).is_err());
    }

    #[test]
    fn gradients_of_grids_agree_with_differences() {
        let line = |n| Tensor::<F64>::arange_step(0.3, n, 0.7, &Device::cpu()).unwrap();
        let f = |x: &[Tensor<F64>]| {
            let grids = Tensor::meshgrid(x, Xy)?;
            &grids[0] * grids[1].sqr()?
        };
        let worst = gradcheck(f, &[line(2.0), line(3.0)]).unwrap();
        assert!(worst.agrees(), "{worst:?}");
    }
}
