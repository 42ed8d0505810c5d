//! Iterators one after the other, and those that functions return: what they give is widened where the other, or the
//! declared type, is F32.

use super::{T, bits, random};
use amp::functional;
use amp::nn::{LayerNorm, Linear};
use amp::prelude::*;
use std::iter::once;
use std::rc::Rc;

struct Stages {
    first: Linear,
    norm: LayerNorm,
}

impl Stages {
    fn new() -> Result<Self> {
        let d = Device::cpu();
        Ok(Self { first: Linear::new(4, 4, &d)?, norm: LayerNorm::new(4, &d)? })
    }

    fn by_hand<P: AutocastPrecision>(&self, x: &T) -> Result<(Tensor<P>, T)> {
        let h = self.first.forward(&x.to::<P>()?)?;
        let g = self.norm.forward(&h.to::<F32>()?)?;
        Ok((h, g))
    }

    #[autocast(P)]
    fn lent<P: AutocastPrecision>(&self, x: &T) -> Result<Vec<T>> {
        let h = self.first.forward(x)?;
        let g = self.norm.forward(&h)?;
        let kept = [x.clone(), g.clone()];
        let all: Vec<&T> = once(&h).chain(once(&g)).collect();
        let joined = Tensor::cat(&all, 0)?;
        let mut sum = once(&h).chain(&kept).try_fold(T::zeros([2, 4], x.device())?, |sum, y| sum + y)?;
        for y in [&h, &h].into_iter().chain(kept.iter().rev()) {
            sum = (sum + y.exp()?)?;
        }
        Ok(vec![joined, sum])
    }

    #[autocast(P)]
    fn owned<P: AutocastPrecision>(&self, x: &T) -> Result<Vec<T>> {
        let h = self.first.forward(x)?;
        let g = self.norm.forward(&h)?;
        let both = once(h.clone()).chain(Some(g)).collect::<Vec<_>>();
        let alike = [&h].into_iter().chain([&h]).count();
        Ok(vec![Tensor::cat(&both, 0)?, (h * alike as f64)?])
    }
}

/// Iterators that have no end are chained as they are asked for their elements.
#[autocast(f16)]
fn endless(stages: &Stages, x: &T, count: usize) -> Result<T> {
    let h = stages.first.forward(x)?;
    let all: Vec<&T> = once(&h).chain(std::iter::repeat(x)).take(count).collect();
    Tensor::cat(&all, 0)
}

#[test]
fn elements_of_chained_iterators_meet() -> Result<()> {
    let (stages, x) = (Stages::new()?, random([2, 4])?);
    let (h, g) = stages.by_hand::<F16>(&x)?;
    let wide = h.to::<F32>()?;
    let sum = ((((T::zeros([2, 4], x.device())? + &wide)? + &x)? + &g)? + wide.exp()?)?;
    let sum = (((sum + wide.exp()?)? + g.exp()?)? + x.exp()?)?;
    let lent = stages.lent::<F16>(&x)?;
    assert_eq!(bits(&lent[0]), bits(&Tensor::cat(&[&wide, &g], 0)?));
    assert_eq!(bits(&lent[1]), bits(&sum));
    let owned = stages.owned::<F16>(&x)?;
    assert_eq!(bits(&owned[0]), bits(&Tensor::cat(&[&wide, &g], 0)?));
    assert_eq!(bits(&owned[1]), bits(&(h * 2.0)?.to()?));
    assert_eq!(bits(&endless(&stages, &x, 3)?), bits(&Tensor::cat(&[&wide, &x, &x], 0)?));
    Ok(())
}

impl Stages {
    #[autocast(P)]
    fn passes<'a, P: AutocastPrecision>(&'a self, x: &'a T) -> impl Iterator<Item = Result<Tensor<F32>>> + 'a {
        (0..2).map(move |i| if i == 0 { self.norm.forward(x) } else { self.first.forward(x) }).skip(1)
    }

    #[autocast(P)]
    fn listed<P: AutocastPrecision>(&self, x: &T) -> Result<impl DoubleEndedIterator<Item = T> + use<P>> {
        let h = self.first.forward(x)?;
        Ok(vec![h.relu()?, h].into_iter().rev())
    }

    #[autocast(P)]
    fn numbered<'a, P: AutocastPrecision>(&'a self, x: &'a T) -> Box<dyn Iterator<Item = (usize, T)> + 'a> {
        if x.rank() > 2 {
            return Box::new(std::iter::empty());
        }
        Box::new([x].into_iter().filter_map(move |x| self.first.forward(x).ok()).enumerate())
    }

    #[autocast(P)]
    fn function<P: AutocastPrecision>(&self) -> impl Fn(&T) -> Result<T> + use<'_, P> {
        move |x: &T| self.first.forward(x)
    }
}

#[test]
fn iterators_and_closures_that_are_returned_give_f32() -> Result<()> {
    let (stages, x) = (Stages::new()?, random([2, 4])?);
    let (h, _) = stages.by_hand::<BF16>(&x)?;
    let wide = bits(&h.to()?);
    let passes: Vec<T> = stages.passes::<BF16>(&x).collect::<Result<_>>()?;
    assert_eq!(passes.iter().map(bits).collect::<Vec<_>>(), vec![wide.clone()]);
    assert_eq!(stages.listed::<BF16>(&x)?.map(|y| bits(&y)).next(), Some(wide.clone()));
    assert_eq!(stages.numbered::<BF16>(&x).map(|(i, y)| (i, bits(&y))).collect::<Vec<_>>(), [(0, wide.clone())]);
    assert_eq!(bits(&stages.function::<BF16>()(&x)?), wide);
    Ok(())
}

fn wide(x: &T) -> Result<T> {
    x.exp()
}

struct Kept(T);

/// Functions that are named are called as closures call them.
#[autocast(f16)]
fn by_names(stages: &Stages, x: &T) -> Result<Vec<T>> {
    let halves = stages.first.forward(x)?.chunk(2, 0)?;
    let mut all = halves.iter().map(wide).collect::<Result<Vec<_>>>()?;
    all.extend(halves.iter().map(Tensor::exp).collect::<Result<Vec<_>>>()?);
    let negative = halves.iter().map(Tensor::neg).collect::<Result<Vec<_>>>()?;
    all.extend(negative.iter().map(functional::relu).collect::<Result<Vec<_>>>()?);
    let kept: Vec<Kept> = halves.iter().cloned().map(Kept).collect();
    let shared: Vec<Rc<T>> = kept.iter().map(|kept| kept.0.clone()).map(Rc::new).collect();
    let sizes: Vec<usize> = halves.iter().map(Tensor::count).collect();
    all.push((&*shared[0] * sizes[0] as f64)?);
    all.push(stages.first.forward(x).and_then(Tensor::into_square)?);
    Ok(all)
}

trait Square: Sized {
    fn into_square(self) -> Result<Self>;
}

impl Square for T {
    fn into_square(self) -> Result<T> {
        &self * &self
    }
}

#[test]
fn functions_by_their_names_take_f32() -> Result<()> {
    let (stages, x) = (Stages::new()?, random([2, 4])?);
    let (h, _) = stages.by_hand::<F16>(&x)?;
    let halves: Vec<T> = h.to::<F32>()?.chunk(2, 0)?;
    let all = by_names(&stages, &x)?;
    for (i, half) in all[..4].iter().enumerate() {
        assert_eq!(bits(half), bits(&halves[i % 2].exp()?));
    }
    assert_eq!(bits(&all[4]), bits(&halves[0].neg()?.relu()?));
    assert_eq!(bits(&all[6]), bits(&(&halves[0] * 4.0)?));
    assert_eq!(bits(&all[7]), bits(&h.to::<F32>()?.into_square()?));
    Ok(())
}
