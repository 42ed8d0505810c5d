//! Taking tensors apart at given places.

use crate::memory::on_host;
use crate::precision::Element;
use crate::tensor::Tensor;
use crate::{Error, Result, shape};

const OP: &str = "tensor_split";

/// Where [`Tensor::tensor_split`] cuts an axis: into so many parts, `3`, or before each of some indices, `[2, 5]`, `vec![..]`.
pub trait Cuts {
    /// Where each part of an axis of `len` elements ends.
    ///
    /// # Errors
    /// [`Error::Argument`] when there are no parts, [`Error::OutOfMemory`] when there are too many.
    fn ends(&self, len: usize) -> Result<Vec<usize>>;
}

impl Cuts for usize {
    fn ends(&self, len: usize) -> Result<Vec<usize>> {
        match *self {
            0 => Err(Error::argument(OP, "cuts", "at least 1 part", self)),
            // The first `len % parts` of them are longer by one element.
            parts => on_host(OP, parts, (1..=parts).map(|i| i * (len / parts) + i.min(len % parts))),
        }
    }
}

impl Cuts for [usize] {
    fn ends(&self, len: usize) -> Result<Vec<usize>> {
        Ok(self.iter().map(|&cut| cut.min(len)).chain([len]).collect())
    }
}

impl<const N: usize> Cuts for [usize; N] {
    fn ends(&self, len: usize) -> Result<Vec<usize>> {
        self[..].ends(len)
    }
}

impl Cuts for Vec<usize> {
    fn ends(&self, len: usize) -> Result<Vec<usize>> {
        self[..].ends(len)
    }
}

impl<T: Cuts + ?Sized> Cuts for &T {
    fn ends(&self, len: usize) -> Result<Vec<usize>> {
        (**self).ends(len)
    }
}

impl<P: Element> Tensor<P> {
    /// Views of the elements of `axis`: so many parts that differ by at most one element, the longer ones first, or cut before
    /// each of these indices (`torch.tensor_split`; `hsplit` is along axis 1, `vsplit` along 0, `dsplit` along 2).
    ///
    /// Indices beyond the axis leave empty parts, as does one that is not above the index before it.
    ///
    /// # Errors
    /// [`Error::Argument`] for 0 parts, [`Error::OutOfMemory`] for more than there is memory for.
    #[doc(alias("hsplit", "vsplit", "dsplit"))]
    #[track_caller]
    pub fn tensor_split(&self, cuts: impl Cuts, axis: isize) -> Result<Vec<Self>> {
        let ends = cuts.ends(self.dims()[shape::axis(OP, axis, self.rank())?])?;
        let starts = std::iter::once(0).chain(ends.iter().copied());
        starts.zip(&ends).map(|(start, &end)| self.narrow(axis, start, end.saturating_sub(start))).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, F64, I64, Tensor, gradcheck};

    fn parts(len: i64, cuts: impl super::Cuts) -> Vec<Vec<i64>> {
        let x = Tensor::<I64>::arange(0, len, &Device::cpu()).unwrap();
        x.tensor_split(cuts, 0).unwrap().iter().map(|part| part.to_vec().unwrap()).collect()
    }

    #[test]
    fn parts_are_as_long_as_pytorchs() {
        assert_eq!(parts(7, 3), [vec![0, 1, 2], vec![3, 4], vec![5, 6]]);
        assert_eq!(parts(2, 3), [vec![0], vec![1], vec![]]);
        assert_eq!(parts(0, 2), [vec![], Vec::<i64>::new()]);
        assert_eq!(parts(6, [1, 4]), [vec![0], vec![1, 2, 3], vec![4, 5]]);
        assert_eq!(parts(4, vec![3, 2, 9]), [vec![0, 1, 2], vec![], vec![2, 3], vec![]]);
        let none: [usize; 0] = [];
        assert_eq!(parts(2, none), [vec![0, 1]]);
        let x = Tensor::<I64>::arange(0, 4, &Device::cpu()).unwrap();
        let error = x.tensor_split(0, 0).unwrap_err().to_string();
        assert_eq!(error, "tensor_split: cuts must be at least 1 part, found 0");
        assert!(x.tensor_split(2, 1).is_err() && x.tensor_split(usize::MAX, 0).is_err());
    }

    #[test]
    fn gradients_agree_with_differences() {
        let x = Tensor::<F64>::from_fn([2, 5], |i| (i[0] * 5 + i[1]) as f64 * 0.3 - 1.0, &Device::cpu()).unwrap();
        let f = |x: &[Tensor<F64>]| {
            let parts = x[0].tensor_split([3], 1)?;
            parts[0].narrow(1, 1, 2)? * &parts[1]
        };
        let worst = gradcheck(f, std::slice::from_ref(&x)).unwrap();
        assert!(worst.agrees(), "{worst:?}");
    }
}
