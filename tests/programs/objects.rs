//! Trait objects: values of several types are coerced to what is declared.

use amp::prelude::*;
use std::rc::Rc;

type T = Tensor<F32>;

trait Stage {
    fn run(&self, x: &T) -> Result<T>;
}

struct Scaled(T);

struct Shifted(T);

impl Stage for Scaled {
    fn run(&self, x: &T) -> Result<T> {
        x * &self.0
    }
}

impl Stage for Shifted {
    fn run(&self, x: &T) -> Result<T> {
        x + &self.0
    }
}

fn scaled(by: &T) -> Result<Box<Scaled>> {
    Ok(Box::new(Scaled(by.clone())))
}

fn shifted(by: &T) -> Result<Box<Shifted>> {
    Ok(Box::new(Shifted(by.clone())))
}

#[autocast(f16)]
fn listed(x: &T) -> Result<T> {
    let weights = x.matmul(x)?.softmax(-1)?;
    let stages: Vec<Box<dyn Stage>> = vec![scaled(&weights)?, shifted(x)?];
    stages.iter().try_fold(x.clone(), |h, stage| stage.run(&h))
}

#[autocast(f16)]
fn chosen(x: &T, scales: bool) -> Result<T> {
    let stage: Box<dyn Stage> = if scales { scaled(x)? } else { shifted(x)? };
    stage.run(x)
}

#[autocast(f16)]
fn borrowed(x: &T) -> Result<T> {
    let (first, second) = (scaled(x)?, shifted(x)?);
    let stages: [&dyn Stage; 2] = [&*first, &*second];
    stages[1].run(&stages[0].run(x)?)
}

#[autocast(f16)]
fn beside(x: &T, scales: bool) -> Result<T> {
    let (stage, h): (Box<dyn Stage>, T) = if scales { (scaled(x)?, x.matmul(x)?) } else { (shifted(x)?, x.clone()) };
    stage.run(&h)
}

#[autocast(f16)]
fn named(x: &T) -> Result<Vec<(&'static str, Box<dyn Stage>)>> {
    Ok(vec![("scaled", scaled(x)?), ("shifted", shifted(x)?)])
}

#[autocast(f16)]
fn returned(x: &T, kind: usize) -> Result<Rc<dyn Stage>> {
    let h = x.matmul(x)?.exp()?;
    Ok(match kind {
        0 => Rc::new(Scaled(h)),
        _ => Rc::new(Shifted(h)),
    })
}

#[test]
fn objects_of_several_types_stand_in_one_list() -> Result<()> {
    let x = Tensor::from_vec(vec![1.0, 2.0, 2.0, 1.0], [2, 2], &Device::cpu())?;
    let plain = |scales| -> Result<Vec<f32>> { if scales { (&x * &x)?.to_vec() } else { (&x + &x)?.to_vec() } };
    for scales in [true, false] {
        assert_eq!(chosen(&x, scales)?.to_vec()?, plain(scales)?);
    }
    assert_eq!(borrowed(&x)?.to_vec()?, [2.0, 6.0, 6.0, 2.0]);
    assert_eq!(beside(&x, true)?.to_vec()?, [5.0, 8.0, 8.0, 5.0]);
    assert_eq!(beside(&x, false)?.to_vec()?, plain(false)?);
    let named = named(&x)?;
    assert_eq!(named.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["scaled", "shifted"]);
    assert_eq!(named[0].1.run(&x)?.to_vec()?, plain(true)?);
    assert_eq!(listed(&x)?.dims(), [2, 2]);
    assert_eq!(returned(&x, 0)?.run(&x)?.dims(), returned(&x, 1)?.run(&x)?.dims());
    Ok(())
}
