//! Rows of a table by index.

use super::index::{index_select, without};
use crate::autograd::{Pass, Rows, Which, record};
use crate::precision::{Element, I64};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, IntoShape, Result};

/// Rows `index` `[K]` of a table; the gradient of an F32 leaf holds those rows only.
#[track_caller]
fn sparse_rows(table: &RawTensor, index: &RawTensor, frozen: Option<usize>) -> Result<RawTensor> {
    const OP: &str = "embedding";
    table.device().check_same(index.device(), OP)?;
    table.backend().check_indices(OP, index.operand()?, table.shape()[0], None)?;
    let buffer = table.backend().index_select(table.operand()?, 0, index.operand()?)?;
    let mut shape = *table.shape();
    shape[0] = index.layout.count();
    let which = Which { index: index.detached(), table: *table.shape() };
    record(OP, &[table], RawTensor::new(table.device(), buffer, shape), |_| {
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let values = without(frozen, &which.index, pass.grad())?;
            pass.give_rows(0, Rows { which: which.clone(), values })
        }))
    })
}

impl<P: Element> Tensor<P> {
    /// Rows of this table `[V, D]` at `indices` of any shape, which the result has before D
    /// (`torch.nn.functional.embedding`).
    ///
    /// The gradient of a row is added up in F32, in the order of the indices.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`] for an index outside `0..V`.
    #[track_caller]
    pub fn embedding(&self, indices: &Tensor<I64>) -> Result<Self> {
        self.looked_up(indices, false, None)
    }

    /// As [`embedding`](Self::embedding), with a sparse gradient: where the table is a parameter that is used in no other
    /// way, only the rows that were looked up are stored (`sparse=True`).
    ///
    /// The gradient of a row is added up in F32; the backward pass waits for the device.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`] for an index outside `0..V`.
    #[track_caller]
    pub fn embedding_sparse(&self, indices: &Tensor<I64>) -> Result<Self> {
        self.looked_up(indices, true, None)
    }

    /// [`embedding`](Self::embedding) or [`embedding_sparse`](Self::embedding_sparse); row `frozen` gets no gradient.
    #[track_caller]
    pub(crate) fn looked_up(&self, indices: &Tensor<I64>, sparse: bool, frozen: Option<usize>) -> Result<Self> {
        if self.rank() != 2 {
            let found = *self.raw.shape();
            return Err(Error::Rank {
                op: "embedding",
                what: "the table",
                expected: "2 dimensions",
                found: found.into(),
            });
        }
        let mut shape = indices.dims().to_vec();
        shape.push(self.dims()[1]);
        let shape = shape.into_shape("embedding")?;
        let flat = indices.reshape([indices.count()])?;
        let rows = match sparse {
            true => sparse_rows(&self.raw, &flat.raw, frozen)?,
            false => index_select("embedding", &self.raw, 0, &flat.raw, frozen)?,
        };
        Self::from_raw(rows).reshape(shape)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::indices as index;
    use crate::{BF16, Device, F32, F64, Parameter, Tensor, gradcheck};

    #[test]
    fn gradients_agree_with_differences() {
        let x = Tensor::<F64>::from_vec(vec![0.3, -0.7, 1.9, 0.01, -2.2, 0.8], [2, 3], &Device::cpu()).unwrap();
        let worst = gradcheck(|t| t[0].embedding(&index(&[1, 1, 0, 1], &[2, 2])), &[x]).unwrap();
        assert!(worst.agrees(), "{worst:?}");
    }

    #[test]
    fn indices_outside_are_errors() {
        let x = Tensor::<F32>::zeros([2, 3], &Device::cpu()).unwrap();
        assert!(x.embedding(&index(&[2], &[1])).is_err());
    }

    #[test]
    fn embedding_gradients_accumulate_in_f32() {
        let table = Parameter::new(&Tensor::<F32>::zeros([3, 1], &Device::cpu()).unwrap()).unwrap();
        let rows = table.to::<BF16>().unwrap().embedding(&index(&[1; 3000], &[3000])).unwrap();
        let loss = rows.to::<F32>().unwrap().sum_all().unwrap();
        let grads = loss.backward().unwrap();
        assert_eq!(grads.get(&table).unwrap().unwrap().to_vec().unwrap(), [0.0, 3000.0, 0.0]);
    }
}
