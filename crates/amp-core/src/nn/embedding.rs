//! Tables of vectors.

use super::{Module, Visitor, init};
use crate::ops::{BagMode, Bags};
use crate::param::Parameter;
use crate::precision::{F32, I64};
use crate::shape::IntoShape;
use crate::tensor::Tensor;
use crate::{Device, Error, Position, Result, shape};

/// A vector for each index (`torch.nn.Embedding`).
///
/// Its gradient is F32: rows that were looked up several times are summed there and cannot overflow F16. With
/// [`sparse`](Self::sparse) it holds only the rows of the batch.
#[derive(Debug)]
pub struct Embedding {
    weight: Parameter,
    sparse: bool,
    padding: Option<usize>,
}

impl Embedding {
    /// `[count, width]` standard normal values.
    pub fn new(count: usize, width: usize, device: &Device) -> Result<Self> {
        let shape = [count, width].into_shape("Embedding")?;
        let weight = init::normal(shape, 0.0, 1.0, device).map_err(|e| e.named("Embedding"))?;
        Ok(Self { weight, sparse: false, padding: None })
    }

    /// From an existing table `[count, width]` (`Embedding.from_pretrained(freeze=False)`). It may be shared with another module.
    ///
    /// # Errors
    /// [`Error::Rank`] unless it has 2 dimensions.
    #[doc(alias = "from_pretrained")]
    pub fn from_parameters(weight: Parameter) -> Result<Self> {
        match weight.dims().len() {
            2 => Ok(Self { weight, sparse: false, padding: None }),
            _ => {
                let (what, found) = ("the table", *weight.tensor().raw.shape());
                Err(Error::Rank { op: "Embedding", what, expected: "2 dimensions", found: found.into() })
            }
        }
    }

    /// Whether gradients hold only the rows that were looked up (not by default): for large tables, with
    /// [`SparseAdam`](crate::optim::SparseAdam), or [`Adagrad`](crate::optim::Adagrad) or [`Sgd`](crate::optim::Sgd) without
    /// weight decay.
    pub fn sparse(mut self, sparse: bool) -> Self {
        self.sparse = sparse;
        self
    }

    /// Sets row `index` (negative from the end) to 0, for positions that only fill up a sequence: it gets no gradient
    /// (`padding_idx`).
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`] when there is no such row.
    pub fn padding(mut self, index: impl Position) -> Result<Self> {
        let table = self.weight.tensor().detach();
        let row = shape::position("Embedding", index, table.dims()[0])?;
        let numbers = Tensor::<I64>::arange(0, table.dims()[0], table.device())?.unsqueeze(1)?;
        self.weight.set(&table.masked_fill(&numbers.eq(row as i64)?, 0.0)?)?;
        self.padding = Some(row);
        Ok(self)
    }

    /// The table, `[count, width]`; an output layer may share it.
    pub fn weight(&self) -> &Parameter {
        &self.weight
    }

    /// Indices `[..]` to vectors `[.., width]`, in F32.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`] when an index has no row.
    #[track_caller]
    pub fn forward(&self, indices: &Tensor<I64>) -> Result<Tensor<F32>> {
        self.weight.tensor().looked_up(indices, self.sparse, self.padding)
    }
}

impl Module for Embedding {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.field("weight", &self.weight);
    }
}

/// A vector for each bag of indices (`torch.nn.EmbeddingBag`): the mean of their rows, or [what is asked for](BagMode).
///
/// Its gradient is F32, as that of an [`Embedding`].
#[derive(Debug)]
pub struct EmbeddingBag {
    table: Embedding,
    mode: BagMode,
}

impl EmbeddingBag {
    /// `[count, width]` standard normal values.
    pub fn new(count: usize, width: usize, device: &Device) -> Result<Self> {
        Ok(Self { table: Embedding::new(count, width, device)?, mode: BagMode::Mean })
    }

    /// What is made of the rows of a bag (their mean by default).
    pub fn mode(mut self, mode: BagMode) -> Self {
        self.mode = mode;
        self
    }

    /// Whether gradients hold only the rows that were looked up (not by default), as those of an [`Embedding`].
    pub fn sparse(mut self, sparse: bool) -> Self {
        self.table = self.table.sparse(sparse);
        self
    }

    /// The table, `[count, width]`.
    pub fn weight(&self) -> &Parameter {
        self.table.weight()
    }

    /// Bags `[N, L]`, or `[T]` where each of the `offsets` `[N]` begins one, to `[N, width]`, in F32.
    ///
    /// # Errors
    /// Those of [`Tensor::embedding_bag`].
    #[track_caller]
    pub fn forward(&self, indices: &Tensor<I64>, offsets: Option<&Tensor<I64>>) -> Result<Tensor<F32>> {
        let bags = Bags::new(indices, offsets)?;
        let rows = self.table.forward(&bags.indices).map_err(|e| e.named("embedding_bag"))?;
        bags.reduce(&rows, self.mode)
    }
}

impl Module for EmbeddingBag {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.table.visit(visitor);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_cannot_be_is_an_error_of_the_layer() {
        let error = Embedding::new(usize::MAX, 2, &Device::cpu()).unwrap_err().to_string();
        assert!(error.starts_with("Embedding: a tensor of shape"), "{error}");
    }

    #[test]
    fn an_index_without_a_row_is_an_error_of_the_bag() {
        let bags = EmbeddingBag::new(3, 2, &Device::cpu()).unwrap();
        let index = Tensor::<I64>::from_slice(&[3], [1, 1], &Device::cpu()).unwrap();
        let error = bags.forward(&index, None).unwrap_err().to_string();
        assert_eq!(error, "embedding_bag: index 3 is out of range for size 3");
    }
}
