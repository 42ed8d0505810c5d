//! [`grid_sample`](crate::Tensor::grid_sample) of element-wise operations, for devices without a kernel of its own.

use super::{GridMode, GridPadding, Sampling};
use crate::Result;
use crate::precision::{Bool, Element, Float, I64};
use crate::tensor::Tensor;

/// Pixels of a line that take part in each place: their numbers, whole, and their shares.
type Taps<W> = Vec<(Tensor<W>, Tensor<W>)>;

/// One of the two directions of an image of `size` pixels.
#[derive(Clone, Copy)]
struct Line {
    size: usize,
    how: Sampling,
}

impl Line {
    /// -1 to 1 as numbers of pixels.
    #[track_caller]
    fn pixels<W: Float>(self, place: &Tensor<W>) -> Result<Tensor<W>> {
        let size = self.size as f64;
        match self.how.align_corners {
            true => place.add(1.0)?.mul((size - 1.0) / 2.0),
            false => place.add(1.0)?.mul(size)?.sub(1.0)?.div(2.0),
        }
    }

    /// Numbers of pixels brought into the image, unless zeros lie outside. What is brought to a border has no slope.
    #[track_caller]
    fn inside<W: Float>(self, pixel: Tensor<W>) -> Result<Tensor<W>> {
        let pixel = match self.how.padding {
            GridPadding::Zeros => return Ok(pixel),
            GridPadding::Border => pixel,
            GridPadding::Reflection => self.reflected(&pixel)?,
        };
        let last = (self.size - 1) as f64;
        let least = pixel.detach().gt(0.0)?.where_(&pixel, 0.0)?;
        pixel.detach().lt(last)?.where_(&least, last)
    }

    /// Reflected at the ends: the centres of the first and the last pixel, or their outer edges.
    #[track_caller]
    fn reflected<W: Float>(self, pixel: &Tensor<W>) -> Result<Tensor<W>> {
        let (low, span) = if self.how.align_corners { (0.0, self.size as f64 - 1.0) } else { (-0.5, self.size as f64) };
        if span == 0.0 {
            return pixel.zeros_like();
        }
        let from = pixel.sub(low)?;
        let from = from.detach().lt(0.0)?.where_(&from.neg()?, &from)?;
        let times = from.detach().div(span)?.floor()?;
        let rest = from.sub(&times.mul(span)?)?;
        let odd = times.remainder(2.0)?.eq(1.0)?;
        odd.where_(&rest.neg()?.add(span)?, &rest)?.add(low)
    }

    #[track_caller]
    fn taps<W: Float>(self, place: &Tensor<W>) -> Result<Taps<W>> {
        let pixel = self.pixels(place)?;
        match self.how.mode {
            GridMode::Nearest => {
                let pixel = self.inside(pixel)?.detach().round()?;
                Ok(vec![(pixel.clone(), pixel.ones_like()?)])
            }
            GridMode::Bilinear => {
                let pixel = self.inside(pixel)?;
                let first = pixel.detach().floor()?;
                let share = pixel.sub(&first)?;
                Ok(vec![(first.clone(), share.neg()?.add(1.0)?), (first.add(1.0)?, share)])
            }
            GridMode::Bicubic => {
                let first = pixel.detach().floor()?;
                let shares = cubic(&pixel.sub(&first)?)?;
                let mut taps = Taps::new();
                for (step, share) in (-1..3).zip(shares) {
                    taps.push((self.inside(first.add(f64::from(step))?)?, share));
                }
                Ok(taps)
            }
        }
    }
}

/// Shares of the four pixels around a place at a distance of `t` behind the second (Keys, 1981, with `a = -0.75`).
#[track_caller]
pub(in crate::ops) fn cubic<W: Float>(t: &Tensor<W>) -> Result<[Tensor<W>; 4]> {
    let rest = t.neg()?.add(1.0)?;
    Ok([far(&t.add(1.0)?)?, near(t)?, near(&rest)?, far(&rest.add(1.0)?)?])
}

const A: f64 = -0.75;

#[track_caller]
fn near<W: Float>(x: &Tensor<W>) -> Result<Tensor<W>> {
    x.mul(A + 2.0)?.sub(A + 3.0)?.mul(x)?.mul(x)?.add(1.0)
}

#[track_caller]
fn far<W: Float>(x: &Tensor<W>) -> Result<Tensor<W>> {
    x.mul(A)?.sub(5.0 * A)?.mul(x)?.add(8.0 * A)?.mul(x)?.sub(4.0 * A)
}

/// One term more of a sum.
#[track_caller]
pub(in crate::ops) fn plus<W: Float>(sum: Option<Tensor<W>>, term: Tensor<W>) -> Result<Tensor<W>> {
    match sum {
        None => Ok(term),
        Some(sum) => sum.add(&term),
    }
}

/// `[N, C, H, W]`, not without pixels, at the places of a grid `[N, h, w, 2]`.
#[track_caller]
pub(super) fn grid_sample<P: Float, Q: Element>(x: &Tensor<P>, grid: &Tensor<Q>, how: Sampling) -> Result<Tensor<P>> {
    let (&[n, channels, height, width], &[_, h, w, _]) = (x.dims(), grid.dims()) else {
        unreachable!("images and a grid have four dimensions")
    };
    let places = grid.to::<P::Wide>()?.reshape([n, h * w, 2])?;
    let places = places.eq(&places)?.where_(&places, -1.0)?;
    let columns = Line { size: width, how }.taps(&places.select(2, 0)?)?;
    let rows = Line { size: height, how }.taps(&places.select(2, 1)?)?;
    let pixels = x.to::<P::Wide>()?.reshape([n, channels, height * width])?;
    let mut sum: Option<Tensor<P::Wide>> = None;
    for (row, down) in &rows {
        for (column, across) in &columns {
            let term = taken(&pixels, [(row, down, height), (column, across, width)])?;
            sum = Some(plus(sum, term)?);
        }
    }
    sum.expect("at least one tap").reshape([n, channels, h, w])?.to()
}

/// Pixels `[N, C, H W]` in rows and columns `[N, places]` times both shares; 0 outside of the image.
#[track_caller]
fn taken<W: Float>(pixels: &Tensor<W>, [row, column]: [(&Tensor<W>, &Tensor<W>, usize); 2]) -> Result<Tensor<W>> {
    let ((y, in_rows), (x, in_columns)) = (number(row.0, row.2)?, number(column.0, column.2)?);
    let within = (in_rows & in_columns)?;
    let share = row.1.mul(column.1)?;
    let share = within.where_(&share, 0.0)?;
    let place = y.mul(column.2 as i64)?.add(&x)?.unsqueeze(1)?;
    let &[n, _, places] = place.dims() else { unreachable!("three dimensions") };
    let each = pixels.gather(2, &place.expand([n, pixels.dims()[1], places])?)?;
    // What stands in for a pixel outside may be anything, also what times 0 is NaN.
    let each = within.unsqueeze(1)?.where_(&each, 0.0)?;
    each.mul(&share.unsqueeze(1)?)
}

/// The number of a pixel, 0 where that is outside of a line of `size`, and whether it is within.
#[track_caller]
fn number<W: Float>(pixel: &Tensor<W>, size: usize) -> Result<(Tensor<I64>, Tensor<Bool>)> {
    let within = (pixel.ge(0.0)? & pixel.le((size - 1) as f64)?)?;
    Ok((within.where_(pixel, 0.0)?.to::<I64>()?, within))
}
