//! Bilinear forms of two tensors.

use crate::precision::{Element, Float, SamePrecision};
use crate::shape::check_same;
use crate::tensor::Tensor;
use crate::{Error, Result};

impl<P: Float> Tensor<P> {
    /// `a · W · b + bias` of rows a of this tensor `[.., I]` and b of `other` `[.., J]` for each of the matrices of `weight`
    /// `[O, I, J]`, as `[.., O]`, with a bias `[O]` (`F.bilinear`).
    ///
    /// # Precision
    /// The products with this tensor's rows are summed in F32 and rounded, those with the rows of `other` summed in F32 (F64 for
    /// F64) and rounded with the bias.
    ///
    /// # Errors
    /// [`Error::Shape`] unless both have the same rows and the sizes that the weight takes.
    #[track_caller]
    pub fn bilinear<A: Element, B: Element>(
        &self,
        other: &Tensor<A>,
        weight: &Tensor<B>,
        bias: Option<&Self>,
    ) -> Result<Self>
    where
        P: SamePrecision<A> + SamePrecision<B>,
    {
        const OP: &str = "bilinear";
        let &[outputs, first, second] = weight.dims() else {
            let found = weight.raw.shape().into();
            return Err(Error::Rank { op: OP, what: "the weight", expected: "3 dimensions", found });
        };
        let (&[ref rows @ .., i], &[ref others @ .., j]) = (self.dims(), other.dims()) else {
            let (what, found) = match self.rank() {
                0 => ("the first input", self.raw.shape()),
                _ => ("the second input", other.raw.shape()),
            };
            return Err(Error::Rank { op: OP, what, expected: "at least 1 dimension", found: found.into() });
        };
        if i != first {
            let (expected, found) = (format!("[.., {first}] to fit the weight"), self.raw.shape().into());
            return Err(Error::Shape { op: OP, what: "the first input", expected, found });
        }
        if j != second || rows != others {
            let (expected, found) = (format!("{:?}", [rows, &[second]].concat()), other.raw.shape().into());
            return Err(Error::Shape { op: OP, what: "the second input", expected, found });
        }
        if let Some(bias) = bias {
            check_same(OP, "the bias", &[outputs], bias.raw.shape())?;
        }
        let count = rows.iter().product();
        let wide = weight.to::<P>()?.permute([1, 0, 2])?.reshape([first, outputs * second])?;
        let halfway = self.reshape([count, first])?.matmul(&wide)?.reshape([count, outputs, second])?;
        let column = other.to::<P>()?.reshape([count, second, 1])?;
        let y = match bias {
            Some(bias) => bias.reshape([1, bias.count(), 1])?.baddbmm(&halfway, &column)?,
            None => halfway.bmm(&column)?,
        };
        y.reshape([rows, &[outputs]].concat())
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::wave;
    use crate::{F64, Result, Tensor, gradcheck};

    #[test]
    fn gradients_agree_with_differences() {
        let all = [wave(&[2, 3, 4]), wave(&[2, 3, 2]), wave(&[5, 4, 2]), wave(&[5])];
        let worst = gradcheck(|x| x[0].bilinear(&x[1], &x[2], Some(&x[3])), &all).unwrap();
        assert!(worst.agrees(), "{worst:?}");
        let worst = gradcheck(|x| x[0].bilinear(&x[1], &x[2], None), &all[..3]).unwrap();
        assert!(worst.agrees(), "{worst:?}");
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let (x, y, w) = (wave(&[3, 4]), wave(&[3, 2]), wave(&[5, 4, 2]));
        let text = |result: Result<Tensor<F64>>| result.unwrap_err().to_string();
        assert_eq!(
            text(y.bilinear(&y, &w, None)),
            "bilinear: the first input must have shape [.., 4] to fit the weight, found [3, 2]"
        );
        assert_eq!(text(x.bilinear(&x, &w, None)), "bilinear: the second input must have shape [3, 2], found [3, 4]");
        assert!(x.bilinear(&y, &x, None).is_err() && x.bilinear(&y, &w, Some(&wave(&[4]))).is_err());
        assert_eq!(wave(&[4]).bilinear(&wave(&[2]), &w, None).unwrap().dims(), [5]);
    }
}
