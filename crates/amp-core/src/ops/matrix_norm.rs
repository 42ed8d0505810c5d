//! Norms of matrices that need no singular values.

use super::vector_norm::NormPrecision;
use crate::precision::{Float, full_range};
use crate::tensor::Tensor;
use crate::{Result, shape};

full_range! {
    MatrixNormPrecision: NormPrecision, "`matrix_norm` must run in `F32`";
}

/// Which norm [`Tensor::matrix_norm`] takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MatrixNorm {
    /// The root of the sum of squares: PyTorch's `"fro"`.
    #[default]
    Frobenius,
    /// The largest sum of magnitudes of a column: PyTorch's `1`.
    LargestColumn,
    /// The least sum of magnitudes of a column: PyTorch's `-1`.
    LeastColumn,
    /// The largest sum of magnitudes of a row: PyTorch's `inf`.
    LargestRow,
    /// The least sum of magnitudes of a row: PyTorch's `-inf`.
    LeastRow,
}

impl<P: Float> Tensor<P> {
    /// The norm of the matrices whose rows and columns are counted by `axes`, `[-2, -1]` in PyTorch by default
    /// (`torch.linalg.matrix_norm`, of whose norms those that need singular values are missing).
    ///
    /// # Precision
    /// Squares and magnitudes are summed in F32 (F64 for F64).
    ///
    /// # Errors
    /// [`Error::RepeatedAxis`](crate::Error::RepeatedAxis) when both axes are one, [`Error::Empty`](crate::Error::Empty) for the
    /// largest or least of no rows or columns.
    #[track_caller]
    pub fn matrix_norm(&self, kind: MatrixNorm, axes: [isize; 2], keep: bool) -> Result<Self>
    where
        P: MatrixNormPrecision,
    {
        const OP: &str = "matrix_norm";
        let both = shape::axes(OP, &axes, self.rank())?;
        let [rows, columns] = axes;
        let (added, chosen, largest) = match kind {
            MatrixNorm::Frobenius => return self.norm(2.0, axes, keep),
            MatrixNorm::LargestColumn => (rows, columns, true),
            MatrixNorm::LeastColumn => (rows, columns, false),
            MatrixNorm::LargestRow => (columns, rows, true),
            MatrixNorm::LeastRow => (columns, rows, false),
        };
        let sums = self.norm(1.0, added, true)?;
        let found = if largest { sums.max(chosen, true) } else { sums.min(chosen, true) };
        found.map_err(|error| error.named(OP))?.drop_axes(&both, keep)
    }
}

#[cfg(test)]
mod tests {
    use super::MatrixNorm;
    use crate::testing::wave;
    use crate::{Device, F32, Tensor, gradcheck};

    const KINDS: [MatrixNorm; 5] = [
        MatrixNorm::Frobenius,
        MatrixNorm::LargestColumn,
        MatrixNorm::LeastColumn,
        MatrixNorm::LargestRow,
        MatrixNorm::LeastRow,
    ];

    #[test]
    fn gradients_agree_with_differences() {
        let x = [wave(&[2, 3, 4])];
        for kind in KINDS {
            let worst = gradcheck(|x| x[0].matrix_norm(kind, [-2, -1], false), &x).unwrap();
            assert!(worst.agrees(), "{kind:?}: {worst:?}");
        }
    }

    #[test]
    fn rows_and_columns_are_told_apart() {
        let x = Tensor::<F32>::from_vec(vec![3.0, 0.0, -4.0, 1.0, 0.0, 0.0], [2, 3], &Device::cpu()).unwrap();
        for (kind, norm) in KINDS.into_iter().zip([26_f32.sqrt(), 4.0, 0.0, 7.0, 1.0]) {
            assert_eq!(x.matrix_norm(kind, [0, 1], false).unwrap().item().unwrap(), norm, "{kind:?}");
            assert_eq!(x.t().unwrap().matrix_norm(kind, [-1, 0], true).unwrap().to_vec().unwrap(), [norm]);
        }
        let none = x.narrow(1, 0, 0).unwrap();
        assert_eq!(none.matrix_norm(MatrixNorm::LargestRow, [0, 1], false).unwrap().item().unwrap(), 0.0);
        assert!(none.matrix_norm(MatrixNorm::LargestColumn, [0, 1], false).is_err());
        assert!(x.matrix_norm(MatrixNorm::Frobenius, [1, -1], false).is_err());
        assert!(x.select(0, 0).unwrap().matrix_norm(MatrixNorm::Frobenius, [-2, -1], false).is_err());
    }
}
