//! Diagonals of matrices, as views, and matrices of diagonals.

use crate::precision::{Element, Float, full_range};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, IntoShape, Result, shape};
use amp_cpu::{Dims, Layout};

full_range! {
    TracePrecision, "`trace` must run in `F32`";
}

/// The diagonal that lies `above` the main one (below, if negative) of the matrices that axes `rows` and `columns` make, as
/// the last axis of a view.
fn line(layout: &Layout, [rows, columns]: [usize; 2], above: i64) -> Layout {
    let (height, width) = (layout.shape[rows], layout.shape[columns]);
    // A diagonal further out has no elements either, and an offset that need not be addressable.
    let away = |by: u64, size: usize| usize::try_from(by).map_or(size, |by| by.min(size));
    let (down, right) = (away(above.min(0).unsigned_abs(), height), away(above.max(0).unsigned_abs(), width));
    let length = (height - down).min(width - right);
    let others = || (0..layout.shape.len()).filter(|&axis| axis != rows && axis != columns);
    let shape: Vec<usize> = others().map(|axis| layout.shape[axis]).chain([length]).collect();
    let strides: Vec<usize> =
        others().map(|axis| layout.strides[axis]).chain([layout.strides[rows] + layout.strides[columns]]).collect();
    let skipped = down * layout.strides[rows] + right * layout.strides[columns];
    let offset = if shape.contains(&0) { 0 } else { layout.offset + skipped };
    let dims = |sizes: &[usize]| Dims::new(sizes).expect("fewer dimensions than before");
    Layout { shape: dims(&shape), strides: dims(&strides), offset }
}

/// Zeros of a shape but for one diagonal of the matrices in it, which is `x`.
fn embedded(x: &RawTensor, shape: Dims, axes: [usize; 2], above: i64) -> Result<RawTensor> {
    let place = line(&Layout::contiguous(shape), axes, above);
    let mut buffer = x.backend().fill(0.0, shape.count(), x.logical)?;
    if x.layout.count() > 0 {
        x.backend().copy_into(x.operand()?, &mut buffer, &place)?;
    }
    Ok(RawTensor::new(x.device(), buffer, shape))
}

impl<P: Element> Tensor<P> {
    /// The diagonal of the matrices that two axes make, as the last axis; `above` counts upwards from the main one
    /// (`torch.diagonal`). A view.
    ///
    /// # Errors
    /// [`Error::Argument`] when both axes are one.
    #[track_caller]
    pub fn diagonal(&self, above: i64, rows: isize, columns: isize) -> Result<Self> {
        const OP: &str = "diagonal";
        let axes = [shape::axis(OP, rows, self.rank())?, shape::axis(OP, columns, self.rank())?];
        if axes[0] == axes[1] {
            return Err(Error::argument(OP, "columns", format!("another axis than {rows}"), columns));
        }
        let from = *self.raw.shape();
        let view = self.raw.with_layout(line(&self.raw.layout, axes, above));
        self.viewed(OP, view, move |grad| embedded(grad, from, axes, above))
    }

    /// Matrices with the elements of the last axis on one diagonal and zeros elsewhere; `above` counts upwards from the main
    /// one (`torch.diag_embed`).
    #[track_caller]
    pub fn diag_embed(&self, above: i64) -> Result<Self> {
        const OP: &str = "diag_embed";
        let Some((&length, others)) = self.dims().split_last() else {
            let (expected, found) = ("at least 1 dimension", self.raw.shape().into());
            return Err(Error::Rank { op: OP, what: "the input", expected, found });
        };
        let size = length.saturating_add(usize::try_from(above.unsigned_abs()).unwrap_or(usize::MAX));
        let shape = [others, &[size, size]].concat().into_shape(OP)?;
        let axes = [others.len(), others.len() + 1];
        self.viewed(OP, embedded(&self.raw, shape, axes, above)?, move |grad| {
            Ok(grad.with_layout(line(&grad.layout, axes, above)))
        })
    }

    /// The diagonal of a matrix, or the matrix with a vector on its diagonal (`torch.diag`); `above` counts upwards from the
    /// main one.
    ///
    /// # Errors
    /// [`Error::Rank`] unless there are 1 or 2 dimensions.
    #[track_caller]
    pub fn diag(&self, above: i64) -> Result<Self> {
        match self.rank() {
            1 => self.diag_embed(above),
            2 => self.diagonal(above, 0, 1),
            _ => {
                let (expected, found) = ("1 or 2 dimensions", self.raw.shape().into());
                Err(Error::Rank { op: "diag", what: "the input", expected, found })
            }
        }
    }
}

impl<P: Float> Tensor<P> {
    /// Sum of the diagonal of a matrix (`torch.trace`). Needs full precision, as [`sum`](Self::sum) does.
    ///
    /// # Errors
    /// [`Error::Rank`] unless there are 2 dimensions.
    #[track_caller]
    pub fn trace(&self) -> Result<Self>
    where
        P: TracePrecision,
    {
        if self.rank() != 2 {
            let (expected, found) = ("2 dimensions", self.raw.shape().into());
            return Err(Error::Rank { op: "trace", what: "the input", expected, found });
        }
        self.diagonal(0, 0, 1)?.sum_all()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, F64, I64, Result, Tensor, gradcheck};

    fn counted() -> Tensor<I64> {
        Tensor::arange(0, 12, &Device::cpu()).unwrap().reshape([3, 4]).unwrap()
    }

    #[test]
    fn gradients_agree_with_differences() {
        let x = [counted().to::<F64>().unwrap()];
        let cube = [x[0].reshape([2, 3, 2]).unwrap()];
        for (name, worst) in [
            ("diag", gradcheck(|x| x[0].diag(1)?.sqr(), &x)),
            ("diagonal", gradcheck(|x| x[0].diagonal(-1, 1, 2)?.sqr(), &cube)),
            ("diag_embed", gradcheck(|x| x[0].diag_embed(-1)?.sqr(), &x)),
            ("trace", gradcheck(|x| x[0].trace()?.sqr(), &x)),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn elements_lie_where_they_should() -> Result<()> {
        let x = counted();
        assert_eq!(x.diag(0)?.to_vec()?, [0, 5, 10]);
        assert_eq!(x.t()?.diag(1)?.to_vec()?, [4, 9]);
        assert_eq!(x.diag(-2)?.to_vec()?, [8]);
        assert_eq!(x.diag(7)?.dims(), [0]);
        for far in [i64::MIN, i64::MAX] {
            assert_eq!(x.diag(far)?.dims(), [0]);
            assert_eq!(x.diagonal(far, 1, 0)?.dims(), [0]);
        }
        assert_eq!(x.select(0, 1)?.narrow(0, 0, 2)?.diag(1)?.to_vec()?, [0, 4, 0, 0, 0, 5, 0, 0, 0]);
        assert_eq!(x.reshape([3, 2, 2])?.diagonal(0, 0, 2)?.to_vec()?, [0, 5, 2, 7]);
        Ok(())
    }

    #[test]
    fn what_has_no_diagonal_is_an_error() {
        let x = counted();
        let text = |result: Result<Tensor<I64>>| result.unwrap_err().to_string();
        assert_eq!(text(x.diagonal(0, 1, -1)), "diagonal: columns must be another axis than 1, found -1");
        assert_eq!(
            text(x.unsqueeze(0).and_then(|x| x.diag(0))),
            "diag: the input must have 1 or 2 dimensions, found shape [1, 3, 4]"
        );
        assert!(text(x.diag_embed(i64::MIN)).contains("more elements"));
        assert!(text(x.select(0, 0).and_then(|x| x.diag(1 << 24))).contains("no memory"));
        assert!(x.to::<F64>().unwrap().select(0, 0).unwrap().trace().is_err());
    }
}
