//! Tables of vectors.

use super::{Module, Visitor, init};
use crate::param::Parameter;
use crate::precision::{F32, I64};
use crate::tensor::Tensor;
use crate::{Device, Result};

/// A vector for each index (`torch.nn.Embedding`).
///
/// Its gradient is F32: rows that were looked up several times are summed there and cannot overflow F16. With
/// [`sparse`](Self::sparse) it holds only the rows of the batch.
#[derive(Debug)]
pub struct Embedding {
    weight: Parameter,
    sparse: bool,
}

impl Embedding {
    /// `[count, width]` standard normal values.
    pub fn new(count: usize, width: usize, device: &Device) -> Result<Self> {
        Ok(Self { weight: init::normal([count, width], 0.0, 1.0, device)?, sparse: false })
    }

    /// Whether gradients hold only the rows that were looked up (not by default): for large tables, with
    /// [`SparseAdam`](crate::optim::SparseAdam) or [`Sgd`](crate::optim::Sgd).
    pub fn sparse(mut self, sparse: bool) -> Self {
        self.sparse = sparse;
        self
    }

    /// The table, `[count, width]`; an output layer may share it.
    pub fn weight(&self) -> &Parameter {
        &self.weight
    }

    /// Indices `[..]` to vectors `[.., width]`, in F32.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`](crate::Error::IndexOutOfRange) when an index has no row.
    #[track_caller]
    pub fn forward(&self, indices: &Tensor<I64>) -> Result<Tensor<F32>> {
        match self.sparse {
            true => self.weight.tensor().embedding_sparse(indices),
            false => self.weight.tensor().embedding(indices),
        }
    }
}

impl Module for Embedding {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.field("weight", &self.weight);
    }
}
