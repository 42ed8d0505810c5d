//! Taking, replacing and combining elements at indexed places.

use super::kernel::binary;
use super::operand::Operand;
use super::scatter::lined;
use crate::autograd::{Pass, record};
use crate::memory::on_host;
use crate::precision::{Element, Float, I64, Numeric, SamePrecision};
use crate::tensor::Tensor;
use crate::{Error, IntoShape, Result, shape};
use amp_cpu::{Binary, DType, Storage};

/// How [`Tensor::scatter_reduce`] combines several elements for one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScatterReduce {
    /// Sum.
    Sum,
    /// Sum divided by the count.
    Mean,
    /// Largest; NaN wins.
    Max,
    /// Least; NaN wins.
    Min,
}

/// The index `[K]` of slices along `axis`, for each of their elements.
#[track_caller]
fn spread(op: &'static str, index: &Tensor<I64>, axis: usize, sizes: &[usize]) -> Result<Tensor<I64>> {
    let &[count] = index.dims() else {
        let (what, expected, found) = ("the index", "1 dimension", index.raw.shape().into());
        return Err(Error::Rank { op, what, expected, found });
    };
    index.raw.backend().check_indices(op, index.raw.operand()?, sizes[axis], None)?;
    let line: Vec<usize> = (0..sizes.len()).map(|a| if a == axis { count } else { 1 }).collect();
    let mut all = sizes.to_vec();
    all[axis] = count;
    index.reshape(line)?.expand(all)
}

impl<P: Element> Tensor<P> {
    /// This tensor with the slices of `src` in the places of those at the positions `index` `[K]` of `axis`
    /// (`torch.index_copy`). Of several slices for one place, the last stays.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`] for an index outside the axis, [`Error::Shape`] unless `src` has this tensor's shape with
    /// K along `axis`.
    #[track_caller]
    pub fn index_copy<Q: Element>(&self, axis: isize, index: &Tensor<I64>, src: &Tensor<Q>) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        const OP: &str = "index_copy";
        let at = shape::axis(OP, axis, self.rank())?;
        let index = spread(OP, index, at, self.dims())?;
        shape::check_same(OP, "the source", index.dims(), src.dims())?;
        self.scatter(axis, &index, src)
    }

    /// [`gather`](Self::gather) along `axis`, of a tensor and an index whose other axes broadcast (`torch.take_along_dim`).
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`] for an index outside the axis, [`Error::Rank`] for different numbers of dimensions.
    #[track_caller]
    pub fn take_along_dim(&self, index: &Tensor<I64>, axis: isize) -> Result<Self> {
        const OP: &str = "take_along_dim";
        let at = shape::axis(OP, axis, self.rank())?;
        if index.rank() != self.rank() {
            let (expected, found) = ("as many dimensions as the tensor", index.raw.shape().into());
            return Err(Error::Rank { op: OP, what: "the index", expected, found });
        }
        let without = |x: &amp_cpu::Dims| {
            let mut x = *x;
            x[at] = 1;
            x
        };
        let mut common = shape::broadcast(OP, &without(self.raw.shape()), &without(index.raw.shape()))?;
        common[at] = index.dims()[at];
        let index = index.expand(common)?;
        common[at] = self.dims()[at];
        self.expand(common)?.gather(axis, &index).map_err(|error| error.within(OP, self.raw.shape()))
    }

    /// A quarter turn from axis `from` to axis `to`, `times` times (`torch.rot90`, where the axes are 0 and 1 by default).
    ///
    /// # Errors
    /// [`Error::Argument`] when both axes are one.
    #[track_caller]
    pub fn rot90(&self, times: i64, from: isize, to: isize) -> Result<Self> {
        const OP: &str = "rot90";
        let (first, second) = (shape::axis(OP, from, self.rank())?, shape::axis(OP, to, self.rank())?);
        if first == second {
            return Err(Error::argument(OP, "to", format!("another axis than {from}"), to));
        }
        match times.rem_euclid(4) {
            0 => Ok(self.unchanged()),
            1 => self.flip(to)?.transpose(from, to),
            2 => self.flip([from, to]),
            _ => self.flip(from)?.transpose(from, to),
        }
    }
}

impl<P: Float> Tensor<P> {
    /// This tensor with `src[i][j]` combined into `[i][index[i][j]]` for axis 1, and likewise for others
    /// (`torch.scatter_reduce`); unless `include_self`, elements that something is combined into do not count themselves.
    ///
    /// Computed in F32 (F64 for F64), rounded once. Equals share the gradient of an extreme; extremes are found by the host: a
    /// GPU is waited for.
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`] for an index outside the axis, [`Error::Shape`] unless source and index have one shape, which
    /// is no longer than this tensor's beside `axis`.
    #[track_caller]
    pub fn scatter_reduce<Q: Element>(
        &self,
        axis: isize,
        index: &Tensor<I64>,
        src: &Tensor<Q>,
        how: ScatterReduce,
        include_self: bool,
    ) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        if self.rank() == 0 || index.rank() == 0 {
            let (base, index, src) = (lined(self)?, lined(index)?, lined(src)?);
            return base.scatter_reduce(axis, &index, &src, how, include_self)?.reshape(self.dims());
        }
        let (base, src) = (self.to::<P::Wide>()?, src.to::<P::Wide>()?);
        let ones = src.detach().ones_like()?;
        // Of each place, how many elements are combined into it.
        let met = base.detach().zeros_like()?.scatter_add(axis, index, &ones);
        let met = met.map_err(|error| error.named("scatter_reduce"))?;
        let own = if include_self { base.clone() } else { met.gt(0.0)?.where_(&base.zeros_like()?, &base)? };
        match how {
            ScatterReduce::Sum => own.scatter_add(axis, index, &src)?.to(),
            ScatterReduce::Mean => {
                let count = if include_self { met.add(1.0)? } else { met.clamp_min(1.0)? };
                own.scatter_add(axis, index, &src)?.div(&count)?.to()
            }
            ScatterReduce::Max | ScatterReduce::Min => {
                let counts = if include_self { met.ones_like()? } else { met.eq(0.0)?.to()? };
                let y = extremes(&base.detach(), axis, index, &src.detach(), how, &counts)?;
                shared(&base, axis, index, &src, (&y, &counts))?.to()
            }
        }
    }
}

/// The extremes themselves, without a gradient; elements of `base` count where `counts` is 1.
fn extremes<W: Float>(
    base: &Tensor<W>,
    axis: isize,
    index: &Tensor<I64>,
    src: &Tensor<W>,
    how: ScatterReduce,
    counts: &Tensor<W>,
) -> Result<Tensor<W>> {
    const OP: &str = "scatter_reduce";
    let start = if how == ScatterReduce::Max { f64::NEG_INFINITY } else { f64::INFINITY };
    let first = counts.gt(0.0)?.where_(base, start)?;
    let at = shape::axis(OP, axis, base.rank())?;
    let doubles = |x: &Tensor<W>| match x.raw.cast_view(DType::F64)?.contiguous()?.to_storage()? {
        Storage::F64(data) => Ok::<_, Error>(data.into_vec()),
        _ => unreachable!("cast to F64"),
    };
    let (mut y, given, places) = (doubles(&first)?, doubles(src)?, index.to_vec()?);
    let (sizes, shape) = (base.dims(), index.dims());
    for (i, (&value, &place)) in given.iter().zip(&places).enumerate() {
        let (mut rest, mut target, mut stride) = (i, 0, 1);
        for a in (0..sizes.len()).rev() {
            let here = if a == at { place as usize } else { rest % shape[a] };
            target += here * stride;
            (rest, stride) = (rest / shape[a], stride * sizes[a]);
        }
        let better = if how == ScatterReduce::Max { value > y[target] } else { value < y[target] };
        if better || value.is_nan() {
            y[target] = value;
        }
    }
    let y = on_host(OP, y.len(), y.into_iter())?;
    Tensor::<crate::F64>::from_vec(y, base.dims().into_shape(OP)?, base.device())?.to()
}

/// `y` in the graph: its gradient goes evenly to the elements that are equal to it; where it is NaN, all of them have NaN.
#[track_caller]
fn shared<W: Float>(
    base: &Tensor<W>,
    axis: isize,
    index: &Tensor<I64>,
    src: &Tensor<W>,
    (y, counts): (&Tensor<W>, &Tensor<W>),
) -> Result<Tensor<W>> {
    const OP: &str = "scatter_reduce";
    let index = index.clone();
    let raw = record(OP, &[&base.raw, &src.raw], y.raw.clone(), |_| {
        let equal = |a: &Tensor<W>, b: &Tensor<W>| a.detach().eq(b)?.to::<W>();
        let (own, other) = (equal(base, y)?.mul(counts)?, equal(src, &y.gather(axis, &index)?)?);
        let number = own.scatter_add(axis, &index, &other)?;
        let number = y.eq(y)?.where_(&number.clamp_min(1.0)?, f64::NAN)?;
        let other = other.div(&number.gather(axis, &index)?)?;
        let own = counts.gt(0.0)?.where_(&own.div(&number)?, 0.0)?;
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            if pass.wants(0) {
                pass.give(0, binary(OP, Binary::Mul, pass.grad(), &own.raw, pass.dtype(0))?)?;
            }
            if pass.wants(1) {
                let each = Tensor::<W>::from_raw(pass.grad().detached()).gather(axis, &index)?;
                pass.give(1, binary(OP, Binary::Mul, &each.raw, &other.raw, pass.dtype(1))?)?;
            }
            Ok(())
        }))
    })?;
    Ok(Tensor::from_raw(raw))
}

impl<P: Numeric> Tensor<P> {
    /// This tensor with a number in all places of the slices at the positions `index` `[K]` of `axis` (`torch.index_fill`).
    ///
    /// # Errors
    /// [`Error::IndexOutOfRange`] for an index outside the axis, [`Error::Argument`] for a finite number that is not finite in this
    /// precision.
    #[track_caller]
    pub fn index_fill<R: Operand<P>>(&self, axis: isize, index: &Tensor<I64>, value: R) -> Result<Self> {
        const OP: &str = "index_fill";
        let at = shape::axis(OP, axis, self.rank())?;
        let index = spread(OP, index, at, self.dims())?;
        let value = Self::from_raw(value.term().written(OP, P::DTYPE)?.beside(&self.raw)?.cast_view(P::DTYPE)?);
        if value.rank() > 0 {
            let (expected, found) = ("no dimensions", value.raw.shape().into());
            return Err(Error::Rank { op: OP, what: "the value", expected, found });
        }
        self.scatter(axis, &index, value.expand(index.dims())?)
    }

    /// 1 on the diagonal of `[rows, columns]`, 0 elsewhere (`torch.eye`).
    pub fn eye(rows: usize, columns: usize, device: &crate::Device) -> Result<Self> {
        let line = Self::ones([rows.min(columns)], device)?.diag_embed(0)?;
        let size = line.dims()[0];
        if rows == columns {
            return Ok(line);
        }
        line.pad([0, columns - size, 0, rows - size], 0.0)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::indices as index;
    use crate::testing::wave;
    use crate::{Device, F16, F32, I64, Result, ScatterReduce, Tensor, gradcheck};

    #[test]
    fn gradients_agree_with_differences() {
        let both = [wave(&[3, 4]), (wave(&[2, 4]) * 1.3).unwrap()];
        let at = index(&[2, 0, 1, 1, 2, 2, 1, 0], &[2, 4]);
        for how in [ScatterReduce::Sum, ScatterReduce::Mean, ScatterReduce::Max, ScatterReduce::Min] {
            for own in [true, false] {
                let worst = gradcheck(|x| x[0].scatter_reduce(0, &at, &x[1], how, own), &both).unwrap();
                assert!(worst.agrees(), "{how:?}, {own}: {worst:?}");
            }
        }
        let line = index(&[2, 0], &[2]);
        for (name, worst) in [
            ("index_copy", gradcheck(|x| x[0].index_copy(0, &line, &x[1])?.sqr(), &both)),
            ("index_fill", gradcheck(|x| x[0].index_fill(1, &line, 0.5)?.sqr(), &both[..1])),
            ("take_along_dim", gradcheck(|x| x[0].take_along_dim(&index(&[1, 0], &[2, 1]), 0), &both[..1])),
            ("rot90", gradcheck(|x| x[0].rot90(-1, 0, 1)?.mul(wave(&[4, 3])), &both[..1])),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    /// As PyTorch has both.
    #[test]
    fn an_extreme_that_is_nan_has_gradients_of_nan_and_scalars_count_as_lines() -> Result<()> {
        let of = |values: &[f32]| Tensor::<F32>::from_slice(values, [values.len()], &Device::cpu());
        for (own, base) in [(true, [f32::NAN, 0.0]), (false, [0.0, 0.0])] {
            let (x, src) = (of(&[1.0, 2.0])?.tracked(), of(&[f32::NAN, 5.0])?.tracked());
            let y = x.scatter_reduce(0, &index(&[0, 1], &[2]), &src, ScatterReduce::Max, own)?;
            let grads = y.sum_all()?.backward()?;
            let bits = |x: &Tensor<F32>| -> Result<Vec<u32>> {
                Ok(grads.get(x)?.unwrap().to_vec()?.iter().map(|v| if v.is_nan() { 7 } else { v.to_bits() }).collect())
            };
            assert_eq!(bits(&x)?, base.map(|v| if v.is_nan() { 7 } else { v.to_bits() }));
            assert_eq!(bits(&src)?, [7, 1.0_f32.to_bits()]);
        }
        let (one, five) = (index(&[1], &[1]).reshape(())?, of(&[5.0])?.reshape(())?);
        let y = of(&[0.0; 3])?.scatter_reduce(0, &one, &five, ScatterReduce::Max, true)?;
        assert_eq!(y.to_vec()?, [0.0, 5.0, 0.0]);
        let two = of(&[4.0, 3.0])?;
        let y = five.scatter_reduce(0, &index(&[0, 0], &[2]), &two, ScatterReduce::Min, true)?;
        assert_eq!((y.rank(), y.item()?), (0, 3.0));
        Ok(())
    }

    #[test]
    fn elements_lie_where_they_should() -> Result<()> {
        let x = Tensor::<I64>::arange(0, 6, &Device::cpu())?.reshape([2, 3])?;
        assert_eq!(x.rot90(1, 0, 1)?.to_vec()?, [2, 5, 1, 4, 0, 3]);
        assert_eq!(x.rot90(3, 0, 1)?.to_vec()?, [3, 0, 4, 1, 5, 2]);
        assert_eq!(x.rot90(2, 0, 1)?.to_vec()?, [5, 4, 3, 2, 1, 0]);
        assert_eq!(x.index_fill(1, &index(&[2], &[1]), 9)?.to_vec()?, [0, 1, 9, 3, 4, 9]);
        assert_eq!(x.index_copy(0, &index(&[1], &[1]), &x.narrow(0, 0, 1)?)?.to_vec()?, [0, 1, 2, 0, 1, 2]);
        assert_eq!(Tensor::<I64>::eye(2, 3, &Device::cpu())?.to_vec()?, [1, 0, 0, 0, 1, 0]);
        assert_eq!(Tensor::<F16>::eye(3, 1, &Device::cpu())?.to::<F32>()?.to_vec()?, [1.0, 0.0, 0.0]);
        Ok(())
    }

    #[test]
    fn equals_share_and_nan_wins() -> Result<()> {
        let line = |data: &[f32]| Tensor::<F32>::from_slice(data, [data.len()], &Device::cpu());
        let (x, src) = (line(&[1.0, 2.0, 0.0])?.tracked(), line(&[2.0, 2.0, f32::NAN])?.tracked());
        let y = x.scatter_reduce(0, &index(&[1, 1, 0], &[3]), &src, ScatterReduce::Max, true)?;
        assert!(y.to_vec()?[0].is_nan() && y.to_vec()?[1..] == [2.0, 0.0]);
        let grads = y.narrow(0, 1, 1)?.sum_all()?.backward()?;
        assert!((grads.get(&x)?.unwrap().to_vec()?[1] - 1.0 / 3.0).abs() < 1e-7);
        let error = x.index_fill(0, &index(&[3], &[1]), 0.0).unwrap_err().to_string();
        assert_eq!(error, "index_fill: index 3 is out of range for size 3");
        assert!(x.index_copy(0, &index(&[0, 1], &[2]), &src).is_err());
        assert!(x.rot90(1, 0, 0).is_err() && x.take_along_dim(&index(&[0], &[1, 1]), 0).is_err());
        Ok(())
    }
}
