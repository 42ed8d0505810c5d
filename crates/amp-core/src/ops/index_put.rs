//! Taking and replacing what lies at coordinates given for several axes at once.

use super::join::Part;
use crate::precision::{Element, I64, SamePrecision};
use crate::tensor::Tensor;
use crate::{Error, IntoShape, Result, shape};

/// What the coordinates of the first axes of a tensor lead to.
struct Places {
    /// Where each place lies among all that the first axes have, as a line.
    flat: Tensor<I64>,
    /// The shape that the coordinates broadcast to, with that of what lies at each place behind it.
    shape: Vec<usize>,
    /// How many dimensions of `shape` the coordinates have.
    rank: usize,
}

impl Places {
    #[track_caller]
    fn new(op: &'static str, sizes: &[usize], coordinates: &[impl Part<I64>]) -> Result<Self> {
        let count = coordinates.len();
        if !(1..=sizes.len()).contains(&count) {
            let expected = format!("1 for each of the first axes of {}, at most", sizes.len());
            return Err(Error::argument(op, "the number of indices", expected, count));
        }
        let mut flat: Option<Tensor<I64>> = None;
        for (coordinate, &size) in coordinates.iter().map(Part::tensor).zip(sizes) {
            coordinate.raw.backend().check_indices(op, coordinate.raw.operand()?, size, None)?;
            flat = Some(match flat {
                None => coordinate.clone(),
                Some(flat) => {
                    shape::broadcast(op, flat.raw.shape(), coordinate.raw.shape())?;
                    (flat * size as i64)?.add(coordinate)?
                }
            });
        }
        let flat = flat.expect("there are coordinates");
        let (rank, shape) = (flat.rank(), [flat.dims(), &sizes[count..]].concat());
        shape.as_slice().into_shape(op)?;
        Ok(Self { flat: flat.reshape([flat.count()])?, shape, rank })
    }

    /// The tensor with one axis in place of those that have coordinates.
    fn lines<P: Element>(&self, x: &Tensor<P>) -> Result<Tensor<P>> {
        let rest = &self.shape[self.rank..];
        let places = x.dims()[..x.rank() - rest.len()].iter().product();
        x.reshape([&[places], rest].concat())
    }

    /// The values, repeated to one for each place, along one axis.
    #[track_caller]
    fn values<P: Element>(&self, op: &'static str, values: &Tensor<P>) -> Result<Tensor<P>> {
        let shape = self.shape.as_slice().into_shape(op)?;
        values.raw.broadcast_to(op, &shape)?;
        let rest = &self.shape[self.rank..];
        values.expand(shape)?.reshape([&[self.flat.count()], rest].concat())
    }
}

impl<P: Element> Tensor<P> {
    /// What lies at the coordinates `indices`, one tensor for each of the first axes; they broadcast (`x[i, j]` of PyTorch's
    /// advanced indexing). The result has their shape, with the axes behind those that have coordinates after it.
    ///
    /// ```
    /// # use amp_core::{Device, F32, I64, Tensor};
    /// # let device = Device::cpu();
    /// let x = Tensor::<F32>::from_slice(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3], &device)?;
    /// let (row, column) = (Tensor::<I64>::arange(0, 2, &device)?, Tensor::<I64>::from_slice(&[2, 0], [2], &device)?);
    /// assert_eq!(x.index(&[&row, &column])?.to_vec()?, [3.0, 4.0]);
    /// # Ok::<_, amp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`] for a coordinate outside its axis, also one below 0; [`Error::Broadcast`] when they do not
    /// broadcast; [`Error::Argument`] when there are none, or more than axes.
    #[track_caller]
    pub fn index(&self, indices: &[impl Part<I64>]) -> Result<Self> {
        let places = Places::new("index", self.dims(), indices)?;
        places.lines(self)?.index_select(0, &places.flat)?.reshape(places.shape.as_slice())
    }

    /// This tensor with `values` at the coordinates `indices`, which are those of [`index`](Self::index); the values broadcast
    /// to what that gives (`torch.index_put`, `x[i, j] = values`). Of several values for one place
    /// the last stays; as in PyTorch, the gradient of that place goes to each of them.
    ///
    /// # Errors
    /// Those of [`index`](Self::index), and [`Error::Broadcast`] when the values do not fit.
    #[track_caller]
    pub fn index_put<Q: Element>(&self, indices: &[impl Part<I64>], values: &Tensor<Q>) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        self.with_places("index_put", indices, values, |lines, at, values| lines.index_copy(0, at, values))
    }

    /// What `write` makes of the tensor with one axis in place of those that have coordinates, of the places along it and of the
    /// values for each.
    #[track_caller]
    fn with_places<Q: Element>(
        &self,
        op: &'static str,
        indices: &[impl Part<I64>],
        values: &Tensor<Q>,
        write: impl FnOnce(&Self, &Tensor<I64>, &Tensor<Q>) -> Result<Self>,
    ) -> Result<Self> {
        let places = Places::new(op, self.dims(), indices)?;
        write(&places.lines(self)?, &places.flat, &places.values(op, values)?)?.reshape(self.dims())
    }

    /// This tensor with `values` added at the coordinates `indices`, as [`index_put`](Self::index_put) puts them there
    /// (`torch.index_put(accumulate=True)`).
    ///
    /// # Precision
    /// Sums run in F32 (F64 for F64), in the order of the coordinates, and are rounded once; those of integers are exact.
    ///
    /// # Errors
    /// Those of [`index_put`](Self::index_put).
    #[doc(alias = "accumulate")]
    #[track_caller]
    pub fn index_put_add<Q: Element>(&self, indices: &[impl Part<I64>], values: &Tensor<Q>) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        self.with_places("index_put_add", indices, values, |lines, at, values| lines.index_add(0, at, values))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Bool, Device, F32, F64, I64, Result, Tensor, gradcheck};

    fn at(values: &[i64], shape: &[usize]) -> Tensor<I64> {
        Tensor::from_slice(values, shape, &Device::cpu()).unwrap()
    }

    fn numbers(shape: &[usize]) -> Tensor<F64> {
        let count = shape.iter().product::<usize>();
        Tensor::from_vec((0..count).map(|i| i as f64 - 4.5).collect(), shape, &Device::cpu()).unwrap()
    }

    #[test]
    fn coordinates_broadcast() -> Result<()> {
        let x = Tensor::<I64>::arange(0, 12, &Device::cpu())?.reshape([3, 4])?;
        assert_eq!(x.index(&[at(&[2, 0], &[2])])?.to_vec()?, [8, 9, 10, 11, 0, 1, 2, 3]);
        let grid = x.index(&[at(&[0, 2], &[2, 1]), at(&[3, 1, 1], &[3])])?;
        assert_eq!((grid.dims(), grid.to_vec()?), ([2, 3].as_slice(), vec![3, 1, 1, 11, 9, 9]));
        assert_eq!(x.t()?.index(&[at(&[1], &[]), at(&[2], &[])])?.item()?, 9);
        assert_eq!(x.index(&[at(&[], &[0])])?.dims(), [0, 4]);
        Ok(())
    }

    #[test]
    fn values_are_put_and_added() -> Result<()> {
        let none = Tensor::<F32>::zeros([2, 3], &Device::cpu())?;
        let (rows, columns) = (at(&[0, 1, 0], &[3]), at(&[2, 0, 2], &[3]));
        let values = Tensor::<F32>::from_slice(&[1.0, 2.0, 4.0], [3], &Device::cpu())?;
        assert_eq!(none.index_put(&[&rows, &columns], &values)?.to_vec()?, [0.0, 0.0, 4.0, 2.0, 0.0, 0.0]);
        assert_eq!(none.index_put_add(&[&rows, &columns], &values)?.to_vec()?, [0.0, 0.0, 5.0, 2.0, 0.0, 0.0]);
        let line = values.narrow(0, 2, 1)?;
        assert_eq!(none.index_put(&[at(&[1], &[1])], &line)?.to_vec()?, [0.0, 0.0, 0.0, 4.0, 4.0, 4.0]);
        let mask = Tensor::<Bool>::zeros([2, 3], &Device::cpu())?;
        let seen = mask.index_put(&[&rows, &columns], &Tensor::<Bool>::ones([], &Device::cpu())?)?;
        assert_eq!(seen.to_vec()?, [false, false, true, true, false, false]);
        Ok(())
    }

    #[test]
    fn gradients_agree_with_differences() -> Result<()> {
        let indices = [at(&[0, 2], &[2, 1]), at(&[3, 1, 1], &[3])];
        let distinct = [at(&[0, 2], &[2, 1]), at(&[3, 1, 0], &[3])];
        let (x, values) = (numbers(&[3, 4, 2]), numbers(&[3, 2]));
        for (name, worst) in [
            ("index", gradcheck(|x| x[0].index(&indices)?.sqr(), std::slice::from_ref(&x))),
            ("index_put_add", gradcheck(|x| x[0].index_put_add(&indices, &x[1])?.sqr(), &[x.clone(), values.clone()])),
            ("index_put", gradcheck(|x| x[0].index_put(&distinct, &x[1])?.sqr(), &[x.clone(), values])),
        ] {
            let worst = worst?;
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
        Ok(())
    }

    #[test]
    fn what_leads_nowhere_is_an_error() {
        let x = numbers(&[3, 4]);
        let text = |result: Result<Tensor<F64>>| result.unwrap_err().to_string();
        let (one, three) = (at(&[1], &[1]), at(&[0, 1, 2], &[3]));
        assert!(text(x.index(&[&one, &at(&[4], &[1])])).starts_with("index: "));
        assert!(text(x.index(&[&at(&[-1], &[1])])).starts_with("index: "));
        assert!(text(x.index(&[&three, &at(&[0, 1], &[2])])).starts_with("index: "));
        assert!(text(x.index(&[&one, &one, &one])).contains("at most, found 3"));
        assert!(text(x.index(&[] as &[Tensor<I64>; 0])).contains("found 0"));
        assert!(text(x.index_put(&[&three], &numbers(&[3]))).starts_with("index_put: "));
    }
}
