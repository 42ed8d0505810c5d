//! Joining lists of tensors along the axis that a name says.

use super::join::{Part, cat};
use crate::precision::Element;
use crate::tensor::Tensor;
use crate::{Error, Result};

#[track_caller]
fn joined<P: Element>(op: &'static str, tensors: &[Tensor<P>], axis: usize) -> Result<Tensor<P>> {
    if tensors.is_empty() {
        return Err(Error::argument(op, "tensors", "one or more", "none"));
    }
    Ok(Tensor::from_raw(cat(op, &tensors.iter().map(|t| &t.raw).collect::<Vec<_>>(), axis)?))
}

impl<P: Element> Tensor<P> {
    /// The tensors side by side, along axis 1; lines and single values one after the other (`torch.hstack`).
    ///
    /// # Errors
    /// [`Error::Shape`] when another dimension differs, [`Error::Argument`] when there are no tensors.
    #[track_caller]
    pub fn hstack(tensors: &[impl Part<P>]) -> Result<Self> {
        let parts = tensors.iter().map(|t| t.tensor().at_least(1)).collect::<Result<Vec<_>>>()?;
        let axis = parts.first().map_or(0, |first| first.rank().min(2) - 1);
        joined("hstack", &parts, axis)
    }

    /// The tensors one above the other, along axis 0; a line is a row (`torch.vstack`).
    ///
    /// # Errors
    /// [`Error::Shape`] when another dimension differs, [`Error::Argument`] when there are no tensors.
    #[doc(alias = "row_stack")]
    #[track_caller]
    pub fn vstack(tensors: &[impl Part<P>]) -> Result<Self> {
        let parts = tensors.iter().map(|t| t.tensor().at_least(2)).collect::<Result<Vec<_>>>()?;
        joined("vstack", &parts, 0)
    }

    /// The tensors one behind the other, along axis 2, as `[M, N, 1]`, or `[1, N, 1]` of a line, where they have fewer
    /// dimensions (`torch.dstack`).
    ///
    /// # Errors
    /// [`Error::Shape`] when another dimension differs, [`Error::Argument`] when there are no tensors.
    #[track_caller]
    pub fn dstack(tensors: &[impl Part<P>]) -> Result<Self> {
        let parts = tensors.iter().map(|t| t.tensor().at_least(3)).collect::<Result<Vec<_>>>()?;
        joined("dstack", &parts, 2)
    }

    /// The tensors side by side, along axis 1; lines and single values are columns (`torch.column_stack`).
    ///
    /// # Errors
    /// [`Error::Shape`] when another dimension differs, [`Error::Argument`] when there are no tensors.
    #[track_caller]
    pub fn column_stack(tensors: &[impl Part<P>]) -> Result<Self> {
        let column = |x: &Self| if x.rank() > 1 { Ok(x.clone()) } else { x.at_least(1)?.unsqueeze(1) };
        let parts = tensors.iter().map(|t| column(t.tensor())).collect::<Result<Vec<_>>>()?;
        joined("column_stack", &parts, 1)
    }

    /// Sequences `[T, ..]` of different lengths as one tensor `[N, longest T, ..]`, with `value` behind those that are shorter
    /// (`torch.nn.utils.rnn.pad_sequence`, batch first).
    ///
    /// # Errors
    /// [`Error::Rank`] for a tensor without dimensions, [`Error::Shape`] when another dimension differs, [`Error::Argument`] when
    /// there are no tensors or a finite value is not finite in this precision.
    #[track_caller]
    pub fn pad_sequence(tensors: &[impl Part<P>], value: f64) -> Result<Self> {
        const OP: &str = "pad_sequence";
        let tensors: Vec<&Self> = tensors.iter().map(Part::tensor).collect();
        if let Some(single) = tensors.iter().find(|t| t.rank() == 0) {
            let (expected, found) = ("at least 1 dimension", single.raw.shape().into());
            return Err(Error::Rank { op: OP, what: "each tensor", expected, found });
        }
        let longest = tensors.iter().map(|t| t.dims()[0]).max().unwrap_or(0);
        let padded = |t: &&Self| {
            let mut around = vec![0; 2 * t.rank()];
            around[2 * t.rank() - 1] = longest - t.dims()[0];
            t.pad(around, value)?.unsqueeze(0)
        };
        let rows = tensors.iter().map(padded).collect::<Result<Vec<_>>>();
        joined(OP, &rows.map_err(|error| error.named(OP))?, 0)
    }

    /// With dimensions of size 1, if it has fewer than `rank`: before a line, behind a matrix.
    #[track_caller]
    fn at_least(&self, rank: usize) -> Result<Self> {
        let mut x = self.clone();
        while x.rank() < rank {
            x = x.unsqueeze(if x.rank() == 2 { 2 } else { 0 })?;
        }
        Ok(x)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::numbers;
    use crate::{Device, F64, I64, IntegerSums, Result, Tensor, gradcheck};

    fn counted(shape: &[usize], from: i64) -> Result<Tensor<I64>> {
        let count: usize = shape.iter().product();
        Tensor::<I64>::arange(from, from + count as i64, &Device::cpu())?.reshape(shape)
    }

    #[test]
    fn gradients_agree_with_differences() {
        let pair = [numbers(&[2, 3], 0.3), numbers(&[2, 3], 0.7)];
        type Function = fn(&[Tensor<F64>]) -> Result<Tensor<F64>>;
        let functions: [Function; 4] = [Tensor::hstack, Tensor::vstack, Tensor::dstack, Tensor::column_stack];
        for f in functions {
            let worst = gradcheck(|x| f(&[x[0].clone(), x[1].sqr()?]), &pair).unwrap();
            assert!(worst.agrees(), "{worst:?}");
        }
    }

    #[test]
    fn parts_lie_where_they_should() -> Result<()> {
        let (line, other) = (counted(&[2], 0)?, counted(&[2], 5)?);
        assert_eq!(Tensor::hstack(&[&line, &other])?.to_vec()?, [0, 1, 5, 6]);
        assert_eq!(Tensor::vstack(&[&line, &other])?.to_vec()?, [0, 1, 5, 6]);
        assert_eq!(Tensor::column_stack(&[&line, &other])?.to_vec()?, [0, 5, 1, 6]);
        assert_eq!(Tensor::dstack(&[&line, &other])?.to_vec()?, [0, 5, 1, 6]);
        let (matrix, row) = (counted(&[2, 2], 0)?, counted(&[1, 2], 7)?);
        assert_eq!(Tensor::vstack(&[&matrix, &line, &row])?.dims(), [4, 2]);
        assert_eq!(Tensor::column_stack(&[&line, &matrix])?.to_vec()?, [0, 0, 1, 1, 2, 3]);
        assert_eq!(Tensor::hstack(&[&matrix, &matrix.t()?])?.to_vec()?, [0, 1, 0, 2, 2, 3, 1, 3]);
        let value = Tensor::<I64>::scalar(4, &Device::cpu())?;
        let shapes = [Tensor::hstack(&[&value, &line])?.rank(), Tensor::dstack(&[&value, &value])?.rank()];
        assert_eq!((shapes, Tensor::vstack(&[&value, &value])?.dims()), ([1, 3], [2, 1].as_slice()));
        assert_eq!(Tensor::column_stack(&[value])?.dims(), [1, 1]);
        Ok(())
    }

    #[test]
    fn sequences_are_filled_up() -> Result<()> {
        let (long, short, none) = (counted(&[3, 2], 0)?, counted(&[1, 2], 7)?, counted(&[0, 2], 0)?);
        let both = Tensor::pad_sequence(&[&long, &short, &none], -1.0)?;
        assert_eq!(both.dims(), [3, 3, 2]);
        assert_eq!(both.select(0, 1)?.to_vec()?, [7, 8, -1, -1, -1, -1]);
        let pair = [numbers(&[2, 3], 0.3), numbers(&[4, 3], 0.7)];
        let worst = gradcheck(|x| Tensor::pad_sequence(x, 0.5)?.sqr(), &pair)?;
        assert!(worst.agrees(), "{worst:?}");
        let error = Tensor::pad_sequence(&[&long, &counted(&[2, 3], 0)?], 0.0).unwrap_err().to_string();
        assert!(error.starts_with("pad_sequence: each tensor must have shape"), "{error}");
        assert!(Tensor::pad_sequence(&[long.sum([], false)?], 0.0).is_err());
        Ok(())
    }

    #[test]
    fn errors_name_the_operation() -> Result<()> {
        let (matrix, line) = (counted(&[2, 2], 0)?, counted(&[3], 0)?);
        let error = Tensor::vstack(&[&matrix, &line]).unwrap_err().to_string();
        assert_eq!(error, "vstack: each tensor must have shape [2, 2] in every dimension but axis 0, found [1, 3]");
        assert!(Tensor::hstack(&[&matrix, &line]).unwrap_err().to_string().starts_with("hstack: "));
        let error = Tensor::dstack(&Vec::<Tensor<I64>>::new()).unwrap_err().to_string();
        assert_eq!(error, "dstack: tensors must be one or more, found none");
        assert!(Tensor::hstack(&Vec::<Tensor<I64>>::new()).is_err());
        Ok(())
    }
}
