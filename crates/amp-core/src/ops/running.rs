//! Running extremes and running sums of exponentials: in one pass where the device has a kernel, otherwise in `log2(size)`
//! steps.

use super::sort::taken;
use crate::memory::on_host;
use crate::precision::{Float, I64, full_range};
use crate::tensor::Tensor;
use crate::{Bool, Result, shape};

full_range! {
    LogcumsumexpPrecision, "`logcumsumexp` must run in `F32`";
}

/// Distances of 1, 2, 4 .. below `size`.
fn distances(size: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(1_usize), |step| step.checked_mul(2)).take_while(move |&step| step < size)
}

/// The running extreme along `axis` and where it was; of equals the later one, NaN once it has come.
#[track_caller]
fn extremes<P: Float>(
    op: &'static str,
    x: &Tensor<P>,
    (max, axis): (bool, isize),
    wins: impl Fn(&Tensor<P>, &Tensor<P>) -> Result<Tensor<Bool>>,
) -> Result<(Tensor<P>, Tensor<I64>)> {
    let at = shape::axis(op, axis, x.rank())?;
    let (axis, size) = (at as isize, x.dims()[at]);
    if let Some(found) = x.raw.backend().running_extreme(max, x.raw.stored().operand()?, at)? {
        return taken(op, x, at, size, found);
    }
    let places = Tensor::<I64>::from_vec(on_host(op, size, 0..size as i64)?, [size], x.device())?;
    let line: Vec<usize> = (0..x.rank()).map(|a| if a == at { size } else { 1 }).collect();
    let (mut values, mut places) = (x.detach(), places.reshape(line)?.expand(x.dims())?);
    for step in distances(size) {
        let rest = size - step;
        let (before, after) = (values.narrow(axis, 0, rest)?, values.narrow(axis, step, rest)?);
        let chosen = (wins(&after, &before)? | after.isnan()?)?;
        let (old, new) = (places.narrow(axis, 0, rest)?, places.narrow(axis, step, rest)?);
        places = Tensor::cat(&[&places.narrow(axis, 0, step)?, &chosen.where_(&new, &old)?], axis)?;
        values = Tensor::cat(&[&values.narrow(axis, 0, step)?, &chosen.where_(&after, &before)?], axis)?;
    }
    Ok((x.gather(axis, &places)?, places))
}

impl<P: Float> Tensor<P> {
    /// The largest element so far along `axis` and its position, the later of equals; NaN wins (`torch.cummax`).
    #[track_caller]
    pub fn cummax(&self, axis: isize) -> Result<(Self, Tensor<I64>)> {
        match self.line(axis)? {
            Some(line) => scalars(line.cummax(0)?),
            None => extremes("cummax", self, (true, axis), |new, old| new.ge(old)),
        }
    }

    /// The least element so far along `axis` and its position, the later of equals; NaN wins (`torch.cummin`).
    #[track_caller]
    pub fn cummin(&self, axis: isize) -> Result<(Self, Tensor<I64>)> {
        match self.line(axis)? {
            Some(line) => scalars(line.cummin(0)?),
            None => extremes("cummin", self, (false, axis), |new, old| new.le(old)),
        }
    }

    /// `ln` of the running sum of `e^x` along `axis`, without overflow (`torch.logcumsumexp`). Needs full precision.
    #[track_caller]
    pub fn logcumsumexp(&self, axis: isize) -> Result<Self>
    where
        P: LogcumsumexpPrecision,
    {
        if let Some(line) = self.line(axis)? {
            return line.logcumsumexp(0)?.reshape(());
        }
        let at = shape::axis("logcumsumexp", axis, self.rank())?;
        let (axis, size) = (at as isize, self.dims()[at]);
        distances(size).try_fold(self.unchanged(), |sums, step| {
            let (before, after) = (sums.narrow(axis, 0, size - step)?, sums.narrow(axis, step, size - step)?);
            Self::cat(&[&sums.narrow(axis, 0, step)?, &after.logaddexp(&before)?], axis)
        })
    }
}

fn scalars<P: Float>((values, places): (Tensor<P>, Tensor<I64>)) -> Result<(Tensor<P>, Tensor<I64>)> {
    Ok((values.reshape(())?, places.reshape(())?))
}

#[cfg(test)]
mod tests {
    use crate::{Device, F32, F64, Result, Tensor, gradcheck};

    #[test]
    fn gradients_agree_with_differences() {
        let x =
            Tensor::<F64>::from_fn([2, 7], |i| (i[0] as f64 * 5.3 + i[1] as f64 * 1.7).sin(), &Device::cpu()).unwrap();
        let x = std::slice::from_ref(&x);
        for (name, worst) in [
            ("cummax", gradcheck(|x| Ok(x[0].cummax(1)?.0), x)),
            ("cummin", gradcheck(|x| Ok(x[0].cummin(0)?.0), x)),
            ("logcumsumexp", gradcheck(|x| x[0].logcumsumexp(-1), x)),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn the_later_of_equals_and_nan() -> Result<()> {
        let line = |values: &[f32]| Tensor::<F32>::from_slice(values, [values.len()], &Device::cpu());
        let (values, places) = line(&[1.0, 3.0, 2.0, 3.0, 0.0])?.cummax(0)?;
        assert_eq!((values.to_vec()?, places.to_vec()?), (vec![1.0, 3.0, 3.0, 3.0, 3.0], vec![0, 1, 1, 3, 3]));
        let (values, places) = line(&[1.0, f32::NAN, -2.0, f32::NAN, 5.0])?.cummin(0)?;
        assert!(values.to_vec()?[1..].iter().all(|y| y.is_nan()));
        assert_eq!(places.to_vec()?, [0, 1, 1, 3, 3]);
        let far = line(&[-f32::INFINITY, 1000.0, 1000.0, -1000.0])?.logcumsumexp(0)?.to_vec()?;
        assert_eq!(far[..2], [-f32::INFINITY, 1000.0]);
        assert!((far[3] - 1000.693).abs() < 1e-3);
        assert_eq!(line(&[])?.logcumsumexp(0)?.dims(), [0]);
        assert_eq!(line(&[2.0])?.reshape(())?.cummax(-1)?.0.item()?, 2.0);
        Ok(())
    }
}
