//! Bags of rows of a table, each reduced to one row.

use super::places::ScatterReduce;
use crate::memory::on_host;
use crate::precision::{F64, Float, I64};
use crate::tensor::Tensor;
use crate::{Error, Result};

/// How [`Tensor::embedding_bag`] reduces the rows of a bag; an empty bag gives zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BagMode {
    /// Their sum.
    Sum,
    /// Their mean.
    Mean,
    /// The greatest element of each column.
    Max,
}

/// Where bags begin in a row of `length` indices.
#[track_caller]
fn beginnings(indices: &Tensor<I64>, offsets: Option<&Tensor<I64>>) -> Result<Vec<usize>> {
    const OP: &str = "embedding_bag";
    let length = indices.count();
    let offsets = match (indices.dims(), offsets) {
        (&[bags, each], None) => return on_host(OP, bags, (0..bags).map(|bag| bag * each)),
        (&[_], Some(offsets)) if offsets.rank() == 1 => offsets.to_vec()?,
        _ => {
            let expected = "[N, L], or [T] with offsets [N]".to_string();
            return Err(Error::Shape { op: OP, what: "the indices", expected, found: indices.raw.shape().into() });
        }
    };
    let ascend = offsets.windows(2).all(|pair| pair[0] <= pair[1]);
    let end = offsets.last().copied().unwrap_or(0);
    if offsets.first().is_some_and(|first| *first != 0) || !ascend || end > length as i64 {
        let expected = format!("to ascend from 0 to at most {length}");
        return Err(Error::argument(OP, "offsets", expected, format!("{offsets:?}")));
    }
    Ok(offsets.into_iter().map(|offset| offset as usize).collect())
}

/// The rows `[T, width]` of all indices, reduced by bags that begin at `begin`.
#[track_caller]
fn reduced<W: Float>(rows: &Tensor<W>, begin: &[usize], mode: BagMode) -> Result<Tensor<W>> {
    const OP: &str = "embedding_bag";
    let &[length, width] = rows.dims() else { unreachable!("rows of a table") };
    let none = Tensor::<W>::zeros([begin.len(), width], rows.device())?;
    if begin.is_empty() {
        return Ok(none);
    }
    let ends = || begin.iter().skip(1).copied().chain([length]);
    let counts = || begin.iter().zip(ends()).map(|(begin, end)| end - begin);
    let bags = (0_i64..).zip(counts()).flat_map(|(bag, count)| std::iter::repeat_n(bag, count));
    let bags = Tensor::<I64>::from_vec(on_host(OP, length, bags)?, [length], rows.device())?;
    match mode {
        BagMode::Max => {
            none.scatter_reduce(0, &bags.unsqueeze(1)?.expand([length, width])?, rows, ScatterReduce::Max, false)
        }
        BagMode::Sum => none.index_add(0, &bags, rows),
        BagMode::Mean => {
            let counts = on_host(OP, begin.len(), counts().map(|count| count.max(1) as f64))?;
            let counts = Tensor::<F64>::from_vec(counts, [begin.len(), 1], rows.device())?;
            none.index_add(0, &bags, rows)?.div(&counts.to::<W>()?)
        }
    }
}

impl<P: Float> Tensor<P> {
    /// Rows of this table `[count, width]` by bags of indices: the rows of `[N, L]`, or of `[T]` where each of the `offsets`
    /// `[N]` begins a bag; as `[N, width]` (`F.embedding_bag`, where the mode is `Mean` by default).
    ///
    /// The gradient of a maximum is shared evenly among equal rows; PyTorch gives it to the first of them.
    ///
    /// # Precision
    /// Reduced in F32 (F64 for F64), rounded once.
    ///
    /// # Errors
    /// [`Error::Shape`] for indices of other shapes, [`Error::Argument`] unless offsets ascend from 0,
    /// [`Error::IndexOutOfRange`] when an index has no row. Waits for the device, if there are offsets.
    #[track_caller]
    pub fn embedding_bag(&self, indices: &Tensor<I64>, offsets: Option<&Tensor<I64>>, mode: BagMode) -> Result<Self> {
        let bags = Bags::new(indices, offsets)?;
        let rows = self.embedding(&bags.indices).map_err(|error| error.named("embedding_bag"))?;
        bags.reduce(&rows, mode)
    }
}

/// The indices of all bags, one bag after the other.
pub(crate) struct Bags {
    /// `[T]`.
    pub(crate) indices: Tensor<I64>,
    begin: Vec<usize>,
}

impl Bags {
    #[track_caller]
    pub(crate) fn new(indices: &Tensor<I64>, offsets: Option<&Tensor<I64>>) -> Result<Self> {
        let begin = beginnings(indices, offsets)?;
        Ok(Self { indices: indices.reshape([indices.count()])?, begin })
    }

    /// The rows `[T, width]` of all indices to one of each bag.
    #[track_caller]
    pub(crate) fn reduce<P: Float>(&self, rows: &Tensor<P>, mode: BagMode) -> Result<Tensor<P>> {
        reduced(&rows.to::<P::Wide>()?, &self.begin, mode)?.to()
    }
}

#[cfg(test)]
mod tests {
    use super::BagMode;
    use crate::{Device, F16, F64, I64, Result, Tensor, gradcheck};

    const MODES: [BagMode; 3] = [BagMode::Sum, BagMode::Mean, BagMode::Max];

    fn numbers(values: &[i64], shape: &[usize]) -> Tensor<I64> {
        Tensor::from_slice(values, shape, &Device::cpu()).unwrap()
    }

    fn table() -> Tensor<F64> {
        Tensor::from_fn([4, 3], |i| ((i[0] * 3 + i[1]) as f64 * 1.7).sin(), &Device::cpu()).unwrap()
    }

    #[test]
    fn gradients_agree_with_differences() {
        let (rows, offsets) = (numbers(&[1, 3, 3, 0, 2], &[5]), numbers(&[0, 2, 2], &[3]));
        for mode in MODES {
            let worst = gradcheck(|x| x[0].embedding_bag(&rows, Some(&offsets), mode), &[table()]).unwrap();
            assert!(worst.agrees(), "{mode:?}: {worst:?}");
        }
    }

    #[test]
    fn both_ways_to_write_bags_agree_and_empty_ones_give_zeros() -> Result<()> {
        let flat = [1, 3, 3, 0, 2, 1];
        let (pairs, line) = (numbers(&flat, &[3, 2]), numbers(&flat, &[6]));
        for mode in MODES {
            let both = table().embedding_bag(&pairs, None, mode)?;
            assert!(both.equal(&table().embedding_bag(&line, Some(&numbers(&[0, 2, 4], &[3])), mode)?)?);
            let empty = table().embedding_bag(&numbers(&[], &[2, 0]), None, mode)?;
            assert_eq!(empty.to_vec()?, [0.0; 6]);
        }
        // 2048 and ones: each sum of two in F16 would be 2048 again.
        let ones = Tensor::<F16>::ones([1, 1], &Device::cpu())?;
        let many = ones.embedding_bag(&numbers(&[0; 4096], &[1, 4096]), None, BagMode::Sum)?;
        assert_eq!(many.to_vec()?, [half::f16::from_f32(4096.0)]);
        Ok(())
    }

    #[test]
    fn bags_that_cannot_be_are_errors() {
        let line = numbers(&[1, 3, 3], &[3]);
        let text = |offsets: Option<&[i64]>| {
            let offsets = offsets.map(|values| numbers(values, &[values.len()]));
            table().embedding_bag(&line, offsets.as_ref(), BagMode::Sum).unwrap_err().to_string()
        };
        assert_eq!(
            text(Some(&[0, 2, 1])),
            "embedding_bag: offsets must be to ascend from 0 to at most 3, found [0, 2, 1]"
        );
        assert!(text(Some(&[1])).contains("ascend from 0") && text(Some(&[0, 4])).contains("at most 3"));
        assert_eq!(text(None), "embedding_bag: the indices must have shape [N, L], or [T] with offsets [N], found [3]");
        let outside = table().embedding_bag(&numbers(&[4], &[1, 1]), None, BagMode::Sum).unwrap_err().to_string();
        assert_eq!(outside, "embedding_bag: index 4 is out of range for size 4");
    }
}
