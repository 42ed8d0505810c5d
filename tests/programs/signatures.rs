//! What modules and functions of one's own take by their signatures: tensors by value, in tuples, lists, options and boxes.

use super::random;
use amp::nn::*;
use amp::prelude::*;
use std::sync::Arc;

type T = Tensor<F32>;

/// Adds up what it is given, times powers of two, in F32.
struct Sum;

fn sum(terms: &[&T]) -> Result<T> {
    terms.iter().try_fold((terms[0] * 0.0)?, |all, term| (all * 2.0)? + *term)
}

impl Sum {
    fn forward(&self, x: T) -> Result<T> {
        sum(&[&x])
    }

    fn forward_pair(&self, (x, t): (&T, T)) -> Result<T> {
        sum(&[x, &t])
    }

    fn forward_nested(&self, ((x, y), n): ((&T, &T), usize)) -> Result<T> {
        sum(&vec![x; n])? + &sum(&vec![y; n])?
    }

    fn forward_list(&self, xs: &[&T]) -> Result<T> {
        sum(xs)
    }

    fn forward_array(&self, [x, y]: [T; 2]) -> Result<T> {
        sum(&[&x, &y])
    }

    fn forward_option(&self, x: &T, y: Option<T>) -> Result<T> {
        y.map_or_else(|| sum(&[x]), |y| sum(&[x, &y]))
    }

    fn forward_pairs(&self, pair: Option<(&T, T)>) -> Result<T> {
        pair.map_or_else(|| Err(Error::other("no pair")), |(x, y)| sum(&[x, &y]))
    }

    fn forward_held(&self, x: Box<T>, y: Arc<T>, z: Vec<T>) -> Result<T> {
        sum(&[&x, &y, &z[0]])
    }

    fn forward_both(&self, x: T, y: Tensor<F16>) -> Result<T> {
        sum(&[&x, &y.to()?])
    }

    fn forward_as_it_is<P: AutocastPrecision>(&self, x: Tensor<P>) -> Result<Tensor<P>> {
        x.relu()
    }
}

struct Model {
    fc: Linear,
    sum: Sum,
    blocks: Vec<Sum>,
    function: fn(T, &T) -> Result<T>,
}

impl Model {
    #[autocast(f16)]
    fn every_form(&self, x: &T) -> Result<Vec<T>> {
        let h = self.fc.forward(x)?;
        let mut all: Vec<T> = vec![
            self.sum.forward(h.clone())?,
            self.sum.forward(self.fc.forward(x)?)?,
            self.sum.forward_pair((&h, h.clone()))?,
            self.sum.forward_pair((x, h.clone()))?,
            self.sum.forward_nested(((x, &h), 3))?,
            self.sum.forward_list(&[&h, x, &h])?,
            self.sum.forward_array([h.clone(), self.fc.forward(x)?])?,
            self.sum.forward_option(&h, Some(h.clone()))?,
            self.sum.forward_option(&h, None)?,
            self.sum.forward_pairs(Some((&h, x.clone())))?,
            self.sum.forward_held(Box::new(h.clone()), Arc::new(h.clone()), vec![h.clone()])?,
            self.sum.forward_both(h.clone(), h.clone())?,
            (self.function)(h.clone(), &h)?,
        ];
        let same = self.sum.forward_as_it_is(h.clone())?;
        let _: &Tensor<F16> = &same;
        all.push(same.to()?);
        let mut y = h;
        for block in &self.blocks {
            y = block.forward(y)?;
        }
        all.push(y);
        Ok(all)
    }

    fn every_form_by_hand(&self, x: &T) -> Result<Vec<T>> {
        let h: &T = &self.fc.forward(&x.to::<F16>()?)?.to()?;
        let mut all: Vec<T> = [
            &[h] as &[&T],
            &[h],
            &[h, h],
            &[x, h],
            &[],
            &[h, x, h],
            &[h, h],
            &[h, h],
            &[h],
            &[h, x],
            &[h, h, h],
            &[h, h],
            &[h, h],
        ]
        .into_iter()
        .map(|terms| if terms.is_empty() { sum(&[x; 3])? + &sum(&[h; 3])? } else { sum(terms) })
        .collect::<Result<_>>()?;
        all.push(h.relu()?);
        all.push(self.blocks.iter().try_fold(h.clone(), |y, block| block.forward(y))?);
        Ok(all)
    }
}

#[test]
fn what_a_signature_declares_in_f32_is_widened_in_every_form() -> Result<()> {
    let x = random([4, 4])?;
    let model = Model {
        fc: Linear::new(4, 4, &Device::cpu())?,
        sum: Sum,
        blocks: vec![Sum, Sum],
        function: |x, y| sum(&[&x, y]),
    };
    let (cast, by_hand) = (model.every_form(&x)?, model.every_form_by_hand(&x)?);
    assert_eq!(cast.len(), by_hand.len());
    for (i, (cast, by_hand)) in cast.iter().zip(&by_hand).enumerate() {
        assert_eq!(cast.to_vec()?, by_hand.to_vec()?, "{i}");
    }
    Ok(())
}

trait Layer {
    fn forward(&self, x: T) -> Result<T>;
}

impl Layer for Sum {
    fn forward(&self, x: T) -> Result<T> {
        sum(&[&x, &x])
    }
}

#[autocast(P)]
fn generic<P: AutocastPrecision, L: Layer>(fc: &Linear, layer: &L, boxed: &[Box<dyn Layer>], x: &T) -> Result<T> {
    let h = layer.forward(fc.forward(x)?)?;
    boxed.iter().try_fold(h, |h, layer| layer.forward(fc.forward(&h)?.relu()?))
}

#[test]
fn layers_behind_a_trait_take_tensors_by_value() -> Result<()> {
    let (x, fc) = (random([4, 4])?, Linear::new(4, 4, &Device::cpu())?);
    let h = sum(&[&fc.forward(&x.to::<BF16>()?)?.to()?; 2])?;
    let y = sum(&[&fc.forward(&h.to::<BF16>()?)?.relu()?.to()?; 2])?;
    assert_eq!(generic::<BF16, _>(&fc, &Sum, &[Box::new(Sum)], &x)?.to_vec()?, y.to_vec()?);
    Ok(())
}
