//! Sparse gradients: those of tables of which only some rows were used.

use crate::raw::RawTensor;
use crate::{Error, Result};
use amp_cpu::{DType, Dims, Storage};

/// Which rows of a table a gradient `[K, ..]` holds.
#[derive(Clone, Debug)]
pub(crate) struct Which {
    /// Numbers of the rows, `[K]`.
    pub(crate) index: RawTensor,
    /// Shape of the table, `[V, ..]`.
    pub(crate) table: Dims,
}

/// A part of the gradient of a table: values `[K, ..]` to be added at some rows.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    pub(crate) which: Which,
    pub(crate) values: RawTensor,
}

impl Rows {
    /// The parts, at least one, as one with every row once and in ascending order, summed in F32. Synchronises with the device.
    ///
    /// Rows that were used several times may overflow only in their sum, so gradients are always checked in this form.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`] for a row that the table does not have. It is checked here again, because a device reports a
    /// bad index with the next download, which may have been that of something else.
    pub(crate) fn coalesced(parts: &[Self]) -> Result<Self> {
        let first = &parts[0];
        let indices = parts.iter().map(|part| numbers(&part.which.index)).collect::<Result<Vec<_>>>()?;
        let mut unique = indices.concat();
        unique.sort_unstable();
        unique.dedup();
        within(&unique, first.which.table[0])?;
        let count = unique.len();
        let place = |row: &i64| unique.binary_search(row).expect("every row is among the unique ones") as i64;
        let mut shape = *first.values.shape();
        shape[0] = count;
        let mut shares = parts
            .iter()
            .zip(&indices)
            .map(|(part, index)| part.added_to(&vector(&part.values, index.iter().map(place).collect())?, shape));
        let values = shares.next().expect("a share of the first part")?;
        let values = shares.try_fold(values, |sum, share| super::pass::add(&sum, &share?, DType::F32))?;
        let which = Which { index: vector(&values, unique)?, table: first.which.table };
        Ok(Self { which, values })
    }

    /// The whole gradient, zero in all other rows.
    pub(crate) fn dense(&self) -> Result<RawTensor> {
        self.added_to(&self.which.index, self.which.table)
    }

    fn added_to(&self, index: &RawTensor, shape: Dims) -> Result<RawTensor> {
        let values = &self.values;
        let buffer = values.backend().index_add(None, shape[0], 0, index.operand()?, values.operand()?, DType::F32)?;
        Ok(RawTensor::new(values.device(), buffer, shape))
    }
}

/// Whether all of the ascending `rows` are among `size`.
fn within(rows: &[i64], size: usize) -> Result<()> {
    let outside = |row: &&i64| usize::try_from(**row).map_or(true, |row| row >= size);
    match rows.first().filter(outside).or(rows.last().filter(outside)) {
        Some(&index) => Err(Error::IndexOutOfRange { op: "embedding", index, size }),
        None => Ok(()),
    }
}

fn numbers(index: &RawTensor) -> Result<Vec<i64>> {
    match index.to_storage()? {
        Storage::I64(rows) => Ok(rows.into_vec()),
        other => {
            Err(Error::Unsupported { op: "embedding", device: index.device().name().into(), dtype: other.dtype() })
        }
    }
}

/// Row numbers, on the device of `like`.
fn vector(like: &RawTensor, rows: Vec<i64>) -> Result<RawTensor> {
    let shape = Dims::new(&[rows.len()]).expect("one dimension");
    Ok(RawTensor::new(like.device(), like.backend().upload(Storage::from(rows))?, shape))
}
