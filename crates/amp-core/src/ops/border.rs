//! Padding with what lies near the border.

use super::arrange::assembled;
use super::window::IntoExtent;
use crate::autograd::{Pass, record};
use crate::memory::on_host;
use crate::precision::{Element, I64};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, IntoShape, Result};
use amp_cpu::Stretch;
use std::iter::repeat_n;

/// Where elements beyond the border come from.
#[derive(Clone, Copy)]
enum Border {
    /// From as far inside; the last element is not repeated.
    Reflection,
    /// From the last element.
    Replication,
    /// From the other end, as if the axis began anew.
    Circular,
}

impl Border {
    /// What an axis of `size` elements is filled from.
    fn stretches(self, op: &'static str, size: usize, [before, after]: [usize; 2]) -> Result<Vec<Stretch>> {
        let mirrored = |start, len| Stretch { start, len, reversed: true };
        let last = size.saturating_sub(1);
        match self {
            Self::Reflection => {
                Ok(vec![mirrored(before, before), Stretch::new(0, size), mirrored(last.saturating_sub(1), after)])
            }
            Self::Replication => {
                let repeated = |place, times| repeat_n(Stretch::new(place, 1), times);
                let all = repeated(0, before).chain([Stretch::new(0, size)]).chain(repeated(last, after));
                on_host(op, before.saturating_add(after).saturating_add(1), all)
            }
            Self::Circular => {
                Ok(vec![Stretch::new(size - before, before), Stretch::new(0, size), Stretch::new(0, after)])
            }
        }
    }

    /// Whether an axis of `size` elements can be padded so.
    fn fits(self, size: usize, [before, after]: [usize; 2]) -> bool {
        match self {
            Self::Reflection => before.max(after) < size,
            Self::Replication => size > 0 || before.max(after) == 0,
            Self::Circular => before.max(after) <= size,
        }
    }

    fn rule(self, axis: usize, size: usize) -> String {
        match self {
            Self::Reflection => format!("less than the {size} elements of axis {axis}"),
            Self::Replication => format!("0 for axis {axis}, which has no element to be repeated"),
            Self::Circular => format!("at most the {size} elements of axis {axis}"),
        }
    }
}

macro_rules! padded {
    ($($(#[$doc:meta])* $name:ident, $dims:literal, $border:ident;)*) => {
        impl<P: Element> Tensor<P> { $(
            $(#[$doc])*
            ///
            /// `padding` is one count for all sides, or a count before and one after for each dimension, the last dimension
            /// first. The gradient is summed in F32 and rounded once for each dimension.
            ///
            /// # Errors
            /// [`Error::Rank`] for too few dimensions, [`Error::Argument`] where there is too little to pad with.
            #[track_caller]
            pub fn $name(&self, padding: impl IntoExtent<{ 2 * $dims }>) -> Result<Self> {
                beyond(stringify!($name), self, &padding.into_extent(), Border::$border)
            }
        )* }
    };
}
padded! {
    /// Mirrors the last dimension about its first and last element (`F.pad(mode="reflect")`, `nn.ReflectionPad1d`).
    reflection_pad1d, 1, Reflection;
    /// Mirrors the last two dimensions about their first and last elements (`nn.ReflectionPad2d`).
    reflection_pad2d, 2, Reflection;
    /// Mirrors the last three dimensions about their first and last elements (`nn.ReflectionPad3d`).
    reflection_pad3d, 3, Reflection;
    /// Repeats the first and last element of the last dimension (`F.pad(mode="replicate")`, `nn.ReplicationPad1d`).
    replication_pad1d, 1, Replication;
    /// Repeats the first and last elements of the last two dimensions (`nn.ReplicationPad2d`).
    replication_pad2d, 2, Replication;
    /// Repeats the first and last elements of the last three dimensions (`nn.ReplicationPad3d`).
    replication_pad3d, 3, Replication;
    /// Continues the last dimension with its other end (`F.pad(mode="circular")`, `nn.CircularPad1d`).
    circular_pad1d, 1, Circular;
    /// Continues the last two dimensions with their other ends (`nn.CircularPad2d`).
    circular_pad2d, 2, Circular;
    /// Continues the last three dimensions with their other ends (`nn.CircularPad3d`).
    circular_pad3d, 3, Circular;
}

#[track_caller]
fn beyond<P: Element>(op: &'static str, x: &Tensor<P>, padding: &[usize], border: Border) -> Result<Tensor<P>> {
    let Some(first) = x.rank().checked_sub(padding.len() / 2) else {
        let expected = "a dimension for each that is padded";
        return Err(Error::Rank { op, what: "the input", expected, found: x.raw.shape().into() });
    };
    let pairs = padding.as_chunks::<2>().0;
    let mut shape = *x.raw.shape();
    for (axis, pair) in (first..x.rank()).rev().zip(pairs) {
        if !border.fits(shape[axis], *pair) {
            return Err(Error::argument(op, "padding", border.rule(axis, shape[axis]), format!("{pair:?}")));
        }
        shape[axis] = shape[axis].saturating_add(pair[0]).saturating_add(pair[1]);
    }
    shape.into_shape(op)?;
    let mut around = vec![[0; 2]; x.rank()];
    around[first..].iter_mut().rev().zip(pairs).for_each(|(around, pair)| *around = *pair);
    Ok(Tensor::from_raw(framed(op, &x.raw, &around, border)?))
}

/// Padded by `around` along each axis.
#[track_caller]
fn framed(op: &'static str, x: &RawTensor, around: &[[usize; 2]], border: Border) -> Result<RawTensor> {
    let axes = x.shape().iter().zip(around).map(|(&size, &around)| border.stretches(op, size, around));
    let axes = axes.collect::<Result<Vec<_>>>()?;
    let y = assembled(op, &x.stored(), &axes)?.counted(x.logical);
    let from = *x.shape();
    record(op, &[x], y, |y| {
        let changed = axes.iter().enumerate().filter(|(axis, _)| around[*axis] != [0; 2]);
        let places = |(axis, stretches): (usize, &Vec<Stretch>)| {
            let places = stretches.iter().flat_map(|s| s.positions()).map(|at| at as i64);
            let size = y.shape()[axis];
            Ok((axis, Tensor::<I64>::from_vec(on_host(op, size, places)?, [size], y.device())?.raw))
        };
        let changed = changed.map(places).collect::<Result<Vec<(usize, RawTensor)>>>()?;
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let folded = changed.iter().try_fold(pass.grad().clone(), |grad, (axis, places)| {
                let (mut shape, out) = (*grad.shape(), pass.dtype(0));
                shape[*axis] = from[*axis];
                let (backend, places) = (grad.backend(), places.operand()?);
                let sums = backend.index_add(None, from[*axis], *axis, places, grad.operand()?, out)?;
                Result::Ok(RawTensor::new(grad.device(), sums, shape))
            })?;
            pass.give(0, folded)
        }))
    })
}

#[cfg(test)]
mod tests {
    use crate::{Device, F64, I64, Tensor, gradcheck};

    #[test]
    fn gradients_agree_with_differences() {
        let x = Tensor::<F64>::from_fn([2, 3, 4], |i| (i[0] * 12 + i[1] * 4 + i[2]) as f64, &Device::cpu()).unwrap();
        let x = std::slice::from_ref(&x);
        for (name, worst) in [
            ("reflection_pad1d", gradcheck(|x| x[0].reflection_pad1d([3, 1])?.sqr(), x)),
            ("reflection_pad2d", gradcheck(|x| x[0].reflection_pad2d([1, 0, 2, 2])?.sqr(), x)),
            ("reflection_pad3d", gradcheck(|x| x[0].reflection_pad3d(1)?.sqr(), x)),
            ("replication_pad1d", gradcheck(|x| x[0].replication_pad1d([5, 1])?.sqr(), x)),
            ("replication_pad2d", gradcheck(|x| x[0].replication_pad2d([1, 0, 2, 4])?.sqr(), x)),
            ("replication_pad3d", gradcheck(|x| x[0].replication_pad3d(2)?.sqr(), x)),
            ("circular_pad1d", gradcheck(|x| x[0].circular_pad1d([4, 1])?.sqr(), x)),
            ("circular_pad2d", gradcheck(|x| x[0].circular_pad2d([1, 0, 2, 3])?.sqr(), x)),
            ("circular_pad3d", gradcheck(|x| x[0].circular_pad3d(1)?.sqr(), x)),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn lines_are_mirrored_repeated_and_continued() {
        let x = Tensor::<I64>::arange(0, 4, &Device::cpu()).unwrap();
        assert_eq!(x.reflection_pad1d([3, 2]).unwrap().to_vec().unwrap(), [3, 2, 1, 0, 1, 2, 3, 2, 1]);
        assert_eq!(x.replication_pad1d([2, 3]).unwrap().to_vec().unwrap(), [0, 0, 0, 1, 2, 3, 3, 3, 3]);
        assert_eq!(x.circular_pad1d([1, 4]).unwrap().to_vec().unwrap(), [3, 0, 1, 2, 3, 0, 1, 2, 3]);
        assert_eq!(x.reflection_pad1d(0).unwrap().to_vec().unwrap(), [0, 1, 2, 3]);
        let one = x.narrow(0, 2, 1).unwrap();
        assert_eq!(one.replication_pad1d(2).unwrap().to_vec().unwrap(), [2; 5]);
    }

    #[test]
    fn what_cannot_be_padded_is_an_error() {
        let x = Tensor::<I64>::zeros([1, 2, 4], &Device::cpu()).unwrap();
        let text = |result: crate::Result<Tensor<I64>>| result.unwrap_err().to_string();
        assert_eq!(
            text(x.reflection_pad2d([0, 0, 2, 1])),
            "reflection_pad2d: padding must be less than the 2 elements of axis 1, found [2, 1]"
        );
        assert_eq!(
            text(x.narrow(2, 0, 0).unwrap().replication_pad1d(1)),
            "replication_pad1d: padding must be 0 for axis 2, which has no element to be repeated, found [1, 1]"
        );
        assert_eq!(
            text(x.circular_pad1d([1, 5])),
            "circular_pad1d: padding must be at most the 4 elements of axis 2, found [1, 5]"
        );
        let line = x.flatten(0, -1).unwrap();
        assert_eq!(
            text(line.replication_pad2d(1)),
            "replication_pad2d: the input must have a dimension for each that is padded, found shape [8]"
        );
        assert!(text(line.replication_pad1d([usize::MAX, usize::MAX])).contains("more elements"));
        assert!(text(line.replication_pad1d([1 << 45, 0])).contains("no memory"));
        let none = line.narrow(0, 0, 0).unwrap();
        assert!(text(none.replication_pad1d([usize::MAX, 1])).contains("padding must be 0 for axis 0"));
    }
}
