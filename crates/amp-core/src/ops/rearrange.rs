//! Rearranging elements: unbinding, rotating, repeating, moving channels to space.

use super::arrange::assembled;
use crate::autograd::{Pass, record};
use crate::memory::on_host;
use crate::precision::{Element, I64};
use crate::raw::RawTensor;
use crate::shape::Axes;
use crate::tensor::Tensor;
use crate::{Error, Result, shape};
use amp_cpu::{Dims, MAX_RANK, Stretch};

/// How often [`Tensor::repeat_interleave`] repeats elements: `3`, or `&counts`.
#[derive(Clone, Copy, Debug)]
pub enum Repeats<'a> {
    /// All as often.
    Alike(usize),
    /// Each as often as the number at its position says.
    Each(&'a Tensor<I64>),
}

impl From<usize> for Repeats<'_> {
    fn from(times: usize) -> Self {
        Self::Alike(times)
    }
}

impl<'a> From<&'a Tensor<I64>> for Repeats<'a> {
    fn from(counts: &'a Tensor<I64>) -> Self {
        Self::Each(counts)
    }
}

/// The positions of an axis of size `len`, each as often as it counts.
fn places(counts: &Tensor<I64>, len: usize) -> Result<Tensor<I64>> {
    const OP: &str = "repeat_interleave";
    shape::check_same(OP, "the counts", &[len], counts.dims())?;
    let times = counts.to_vec()?;
    if let Some(below) = times.iter().find(|times| **times < 0) {
        return Err(Error::argument(OP, "the counts", "0 or more", below));
    }
    let total = times.iter().try_fold(0_usize, |sum, &times| sum.checked_add(times as usize)).unwrap_or(usize::MAX);
    let all = times.iter().enumerate().flat_map(|(place, &times)| std::iter::repeat_n(place as i64, times as usize));
    Tensor::from_vec(on_host(OP, total, all)?, [total], counts.device())
}

impl<P: Element> Tensor<P> {
    /// The tensors along `axis`, without that axis (`torch.unbind`).
    #[track_caller]
    pub fn unbind(&self, axis: isize) -> Result<Vec<Self>> {
        let at = shape::axis("unbind", axis, self.rank())?;
        (0..self.dims()[at]).map(|i| self.select(axis, i)).collect()
    }

    /// The elements of each axis moved on by its shift, the last ones coming in at the front (`torch.roll`); negative shifts
    /// move them back.
    ///
    /// # Errors
    /// [`Error::Argument`] unless there is one shift for each axis.
    #[track_caller]
    pub fn roll(&self, shifts: impl Axes, axes: impl Axes) -> Result<Self> {
        let (shifts, axes) = (shifts.as_axes(), axes.as_axes());
        if shifts.len() != axes.len() {
            let expected = format!("one for each of the {} axes", axes.len());
            return Err(Error::argument("roll", "shifts", expected, format!("{shifts:?}")));
        }
        let mut fronts = Dims::new(&vec![0; self.rank()]).expect("as many as dimensions");
        for (&shift, &axis) in shifts.iter().zip(&*axes) {
            let axis = shape::axis("roll", axis, self.rank())?;
            let size = self.dims()[axis];
            if size > 0 {
                fronts[axis] = (fronts[axis] + shift.rem_euclid(size as isize) as usize) % size;
            }
        }
        if fronts.iter().all(|&front| front == 0) {
            return Ok(self.unchanged());
        }
        Ok(Self::from_raw(rolled(&self.raw, fronts)?))
    }

    /// Each element `times` times in a row along `axis` (`torch.repeat_interleave`), as when groups of queries share a key.
    /// `times` is a number, or a number for each position of the axis, `&counts` `[len]`, for which the device is waited for.
    ///
    /// # Errors
    /// [`Error::TooManyDimensions`] for a tensor of as many dimensions as there may be, [`Error::Shape`] unless there is one
    /// count for each position, [`Error::Argument`] for one below 0.
    #[track_caller]
    pub fn repeat_interleave<'a>(&self, times: impl Into<Repeats<'a>>, axis: isize) -> Result<Self> {
        let at = shape::axis("repeat_interleave", axis, self.rank())?;
        match times.into() {
            Repeats::Alike(times) => self.repeated_alike(times, at),
            Repeats::Each(counts) => self.index_select(at as isize, &places(counts, self.dims()[at])?),
        }
    }

    #[track_caller]
    fn repeated_alike(&self, times: usize, at: usize) -> Result<Self> {
        let mut shape = self.dims().to_vec();
        shape[at] = shape::product("repeat_interleave", &[shape[at], times])?;
        if self.rank() == MAX_RANK {
            return Err(Error::TooManyDimensions { op: "repeat_interleave", rank: MAX_RANK + 1 });
        }
        let wide = self.unsqueeze(at as isize + 1)?;
        let mut spread = wide.dims().to_vec();
        spread[at + 1] = times;
        wide.expand(spread)?.reshape(shape)
    }

    /// Channels to space: `[.., C r², H, W]` to `[.., C, H r, W r]` (`F.pixel_shuffle`).
    ///
    /// # Errors
    /// [`Error::Shape`] unless the channels are a multiple of `factor²`.
    #[track_caller]
    pub fn pixel_shuffle(&self, factor: usize) -> Result<Self> {
        const OP: &str = "pixel_shuffle";
        let ([c, h, w], rest) = image(OP, self, factor)?;
        let parts = shape::product(OP, &[factor, factor])?;
        if c % parts != 0 {
            let expected = format!("[.., C, H, W] with C a multiple of {parts}");
            return Err(Error::Shape { op: OP, what: "the input", expected, found: self.raw.shape().into() });
        }
        let (n, r, c) = (rest.iter().product(), factor, c / parts);
        let x = self.reshape([n, c, r, r, h, w])?.permute([0, 1, 4, 2, 5, 3])?;
        x.reshape([rest.as_slice(), &[c, h * r, w * r]].concat())
    }

    /// Space to channels: `[.., C, H r, W r]` to `[.., C r², H, W]` (`F.pixel_unshuffle`).
    ///
    /// # Errors
    /// [`Error::Shape`] unless height and width are multiples of `factor`.
    #[track_caller]
    pub fn pixel_unshuffle(&self, factor: usize) -> Result<Self> {
        const OP: &str = "pixel_unshuffle";
        let ([c, h, w], rest) = image(OP, self, factor)?;
        if h % factor != 0 || w % factor != 0 {
            let expected = format!("[.., C, H, W] with H and W multiples of {factor}");
            return Err(Error::Shape { op: OP, what: "the input", expected, found: self.raw.shape().into() });
        }
        let (n, r, h, w) = (rest.iter().product(), factor, h / factor, w / factor);
        let channels = shape::product(OP, &[c, r, r])?;
        let x = self.reshape([n, c, h, r, w, r])?.permute([0, 1, 3, 5, 2, 4])?;
        x.reshape([rest.as_slice(), &[channels, h, w]].concat())
    }

    /// `[N, C, ..]` in which the channels of `groups` come in turns: the first of each, then the second of each
    /// (`F.channel_shuffle`).
    ///
    /// # Errors
    /// [`Error::Argument`] unless `groups` divides the channels, [`Error::Rank`] for less than 2 dimensions.
    #[track_caller]
    pub fn channel_shuffle(&self, groups: usize) -> Result<Self> {
        const OP: &str = "channel_shuffle";
        let &[n, channels, ref rest @ ..] = self.dims() else {
            let found = self.raw.shape().into();
            return Err(Error::Rank { op: OP, what: "the input", expected: "at least 2 dimensions", found });
        };
        if groups == 0 || !channels.is_multiple_of(groups) {
            return Err(Error::argument(OP, "groups", format!("a divisor of {channels} channels"), groups));
        }
        let pixels = rest.iter().product();
        let parts = self.reshape([n, groups, channels / groups, pixels])?;
        parts.transpose(1, 2)?.reshape(self.dims())
    }
}

/// The last `fronts[axis]` positions of each axis first.
fn turned(x: &RawTensor, fronts: &[usize]) -> Result<RawTensor> {
    let along = |(&size, &front): (&usize, &usize)| match front {
        0 => vec![Stretch::new(0, size)],
        _ => vec![Stretch::new(size - front, front), Stretch::new(0, size - front)],
    };
    assembled("roll", x, &x.shape().iter().zip(fronts).map(along).collect::<Vec<_>>())
}

#[track_caller]
fn rolled(x: &RawTensor, fronts: Dims) -> Result<RawTensor> {
    let y = turned(&x.stored(), &fronts)?.counted(x.logical);
    record("roll", &[x], y, |y| {
        let mut back = fronts;
        back.iter_mut()
            .zip(y.shape().iter())
            .filter(|(front, _)| **front > 0)
            .for_each(|(front, size)| *front = size - *front);
        Ok(Box::new(move |pass: &mut Pass<'_>| pass.give(0, turned(pass.grad(), &back)?)))
    })
}

/// Channels, height and width of `[.., C, H, W]`, and what stands before them.
fn image<P: Element>(op: &'static str, x: &Tensor<P>, factor: usize) -> Result<([usize; 3], Vec<usize>)> {
    if factor == 0 {
        return Err(Error::argument(op, "factor", "at least 1", factor));
    }
    match x.dims() {
        [rest @ .., c, h, w] => Ok(([*c, *h, *w], rest.to_vec())),
        _ => Err(Error::Rank { op, what: "the input", expected: "at least 3 dimensions", found: x.raw.shape().into() }),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, F64, I64, Tensor, gradcheck};

    fn counts(len: usize) -> Tensor<I64> {
        Tensor::from_fn([len], |i| [2, 0, 3, 1][i[0] % 4], &Device::cpu()).unwrap()
    }

    #[test]
    fn elements_are_repeated_as_often_as_each_counts() {
        let x = Tensor::<I64>::from_fn([2, 4], |i| (i[0] * 4 + i[1]) as i64, &Device::cpu()).unwrap();
        let y = x.repeat_interleave(&counts(4), -1).unwrap();
        assert_eq!(y.dims(), [2, 6]);
        assert_eq!(y.to_vec().unwrap(), [0, 0, 2, 2, 2, 3, 4, 4, 6, 6, 6, 7]);
        assert_eq!(x.repeat_interleave(&Tensor::<I64>::zeros([2], &Device::cpu()).unwrap(), 0).unwrap().dims(), [0, 4]);
        let error = x.repeat_interleave(&counts(3), 1).unwrap_err().to_string();
        assert_eq!(error, "repeat_interleave: the counts must have shape [4], found [3]");
        let error = x.repeat_interleave(&counts(2).neg().unwrap(), 0).unwrap_err().to_string();
        assert_eq!(error, "repeat_interleave: the counts must be 0 or more, found -2");
    }

    #[test]
    fn gradients_agree_with_differences() {
        let x = Tensor::<F64>::from_fn([1, 4, 2, 3], |i| (i[1] * 6 + i[2] * 3 + i[3]) as f64, &Device::cpu()).unwrap();
        let x = std::slice::from_ref(&x);
        for (name, worst) in [
            ("unbind", gradcheck(|x| x[0].unbind(1)?.remove(2).sqr(), x)),
            ("roll", gradcheck(|x| x[0].roll([1, -2], [2, -1])?.sqr(), x)),
            ("repeat_interleave", gradcheck(|x| x[0].repeat_interleave(3, 1), x)),
            ("repeat_interleave by counts", gradcheck(|x| x[0].repeat_interleave(&counts(x[0].dims()[1]), 1), x)),
            ("pixel_shuffle", gradcheck(|x| x[0].pixel_shuffle(2)?.sqr(), x)),
            ("channel_shuffle", gradcheck(|x| x[0].channel_shuffle(2)?.sqr(), x)),
            ("pixel_unshuffle", gradcheck(|x| x[0].permute([0, 3, 1, 2])?.pixel_unshuffle(2)?.sqr(), x)),
        ] {
            let worst = worst.unwrap();
            assert!(worst.agrees(), "{name}: {worst:?}");
        }
    }

    #[test]
    fn shuffles_are_inverse_to_each_other() {
        let x = Tensor::<I64>::arange(0, 72, &Device::cpu()).unwrap().reshape([2, 1, 6, 6]).unwrap();
        for factor in [1, 2, 3, 6] {
            let there = x.pixel_unshuffle(factor).unwrap();
            assert_eq!(there.dims(), [2, factor * factor, 6 / factor, 6 / factor]);
            assert_eq!(there.pixel_shuffle(factor).unwrap().to_vec().unwrap(), x.to_vec().unwrap());
        }
    }

    #[test]
    fn sizes_of_nothing_and_shifts_of_any_size() {
        let x = Tensor::<I64>::arange(0, 3, &Device::cpu()).unwrap();
        assert_eq!(x.roll(isize::MIN, 0).unwrap().to_vec().unwrap(), [2, 0, 1]);
        assert_eq!(x.roll(isize::MAX, -1).unwrap().to_vec().unwrap(), [2, 0, 1]);
        assert_eq!(x.repeat_interleave(0, 0).unwrap().dims(), [0]);
        assert_eq!(x.narrow(0, 0, 0).unwrap().roll(5, 0).unwrap().dims(), [0]);
        assert!(x.narrow(0, 0, 0).unwrap().unbind(0).unwrap().is_empty());
        assert_eq!(
            Tensor::<I64>::zeros([0, 4, 2, 2], &Device::cpu()).unwrap().pixel_shuffle(2).unwrap().dims(),
            [0, 1, 4, 4]
        );
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let x = Tensor::<F64>::zeros([2, 3, 5], &Device::cpu()).unwrap();
        let text = |result: crate::Result<Tensor<F64>>| result.unwrap_err().to_string();
        let rule = "the input must have shape [.., C, H, W] with C a multiple of 4";
        assert_eq!(text(x.pixel_shuffle(2)), format!("pixel_shuffle: {rule}, found [2, 3, 5]"));
        assert_eq!(text(x.pixel_shuffle(0)), "pixel_shuffle: factor must be at least 1, found 0");
        assert!(x.pixel_shuffle(usize::MAX).is_err() && x.pixel_unshuffle(usize::MAX).is_err());
        assert!(x.pixel_unshuffle(2).is_err() && x.select(0, 0).unwrap().pixel_shuffle(1).is_err());
        assert!(x.repeat_interleave(usize::MAX, 1).is_err());
        assert_eq!(text(x.roll([1, 2], 0)), "roll: shifts must be one for each of the 1 axes, found [1, 2]");
        assert_eq!(text(x.channel_shuffle(2)), "channel_shuffle: groups must be a divisor of 3 channels, found 2");
        assert!(
            x.channel_shuffle(0).is_err() && x.select(0, 0).unwrap().select(0, 0).unwrap().channel_shuffle(1).is_err()
        );
        assert!(x.roll(1, 3).is_err() && x.unbind(-4).is_err());
    }
}
