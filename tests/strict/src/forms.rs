//! Forms in which values are cast: containers, closures, futures, patterns, operators, modules.

use ::mixed::nn::{LayerNorm, Linear};
use ::mixed::{AutocastPrecision, BF16, Error, F16, F32, Result, Tensor, amp_region, autocast};
use ::std::boxed::Box;
use ::std::clone::Clone;
use ::std::collections::HashMap;
use ::std::convert::Into;
use ::std::default::Default;
use ::std::future::Future;
use ::std::iter::{Extend, IntoIterator, Iterator};
use ::std::ops::Fn;
use ::std::option::Option::{self, None, Some};
use ::std::rc::Rc;
use ::std::result::Result::{Err, Ok};
use ::std::string::String;
use ::std::vec::Vec;

/// Layers in places of several kinds.
#[derive(Debug)]
pub struct Block {
    norm: Option<LayerNorm>,
    layers: Vec<Linear>,
    gate: Rc<Linear>,
    scale: Tensor<F32>,
}

/// What is kept between two steps.
#[derive(Debug, Default)]
pub struct State {
    seen: Vec<Tensor<F32>>,
    last: Option<Tensor<F32>>,
    named: HashMap<String, Tensor<F32>>,
}

/// What a step gives.
#[derive(Debug)]
pub enum Step {
    /// One value, boxed.
    One(Box<Tensor<F32>>),
    /// Two of them.
    Two {
        /// The first.
        left: Box<Tensor<F32>>,
        /// The second.
        right: Box<Tensor<F32>>,
    },
}

impl Block {
    /// A block of these layers.
    #[must_use]
    pub const fn new(norm: Option<LayerNorm>, layers: Vec<Linear>, gate: Rc<Linear>, scale: Tensor<F32>) -> Self {
        Self { norm, layers, gate, scale }
    }

    /// Modules in options, lists and pointers.
    ///
    /// # Errors
    /// As the operations in it.
    #[autocast(f16, crate = ::mixed)]
    pub fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let mut h = match &self.norm {
            Some(norm) => norm.forward(x)?,
            None => x.relu()?,
        };
        for layer in &self.layers {
            h = layer.forward(&h)?.gelu()?;
        }
        let Some(last) = self.layers.last() else {
            return self.gate.forward(&h);
        };
        let gate = self.gate.forward(x)?.sigmoid()?;
        let y = last.forward(&h)?;
        (y * gate)? * &self.scale
    }

    /// A step that changes its state.
    ///
    /// # Errors
    /// As the operations in it.
    #[autocast(bf16, crate = ::mixed)]
    pub fn step(&self, x: &Tensor<F32>, state: &mut State, name: &str) -> Result<Step> {
        let y = self.gate.forward(x)?;
        let h = match state.last.take() {
            Some(last) => (last + &y)?,
            None => x.matmul(&self.scale)?,
        };
        state.seen.push(h.matmul(&self.scale)?);
        state.last = Some(h.matmul(x)?);
        drop(state.named.insert(name.into(), h.softmax(-1)?));
        if state.seen.len() > 2 {
            return Ok(Step::Two { left: Box::new(y), right: Box::new(h.matmul(&self.scale)?) });
        }
        Ok(Step::One(Box::new(h.matmul(x)?)))
    }
}

fn drop<T>(_value: T) {}

/// Closures that borrow, own and give away, called and passed on.
///
/// # Errors
/// As the operations in it.
#[autocast(f16, crate = ::mixed)]
pub fn closures(x: &Tensor<F32>, ws: &[Tensor<F32>], given: Tensor<F32>) -> Result<Tensor<F32>> {
    let apply = |t: &Tensor<F32>, i: usize| t.matmul(&ws[i])?.tanh();
    let owns = move |t: &Tensor<F32>| given.matmul(t)?.softmax(-1);
    let twice = each(ws, |w| x.matmul(w)?.matmul(w))?;
    let sum = twice.iter().skip(1).try_fold(x.clone(), |sum, t| sum + t)?;
    let pairs = ws.windows(2).map(|pair| pair[0].matmul(&pair[1])).collect::<Result<Vec<_>>>()?;
    let best = pairs.into_iter().zip(ws).map(|(pair, w)| pair.matmul(w)).next();
    let best = match best {
        Some(best) => best?,
        None => sum.matmul(x)?,
    };
    let y = apply(&owns(&sum)?, 0)?;
    y + best
}

fn each(ws: &[Tensor<F32>], f: impl Fn(&Tensor<F32>) -> Result<Tensor<F32>>) -> Result<Vec<Tensor<F32>>> {
    ws.iter().map(f).collect()
}

/// What waits for others.
///
/// # Errors
/// As the operations in it.
#[autocast(f16, crate = ::mixed)]
pub async fn later<S>(x: &Tensor<F32>, source: S) -> Result<Tensor<F32>>
where
    S: Future<Output = Result<Tensor<F32>>>,
{
    let y = x.matmul(x)?;
    let more = async { y.matmul(x) };
    let z = source.await?;
    let more = more.await?;
    more.matmul(&z)
}

/// What containers held.
#[derive(Debug)]
pub struct Kept {
    /// A list.
    pub all: Vec<Tensor<F32>>,
    /// An option.
    pub maybe: Option<Tensor<F32>>,
}

/// Containers of every kind.
///
/// # Errors
/// As the operations in it.
#[autocast(P, crate = ::mixed)]
pub fn containers<P: AutocastPrecision>(x: &Tensor<F32>, n: usize) -> Result<Kept> {
    let pair = (x.matmul(x)?, x.exp()?);
    let list = [x.relu()?, pair.0.matmul(x)?];
    let shared = Rc::new(pair.0.matmul(&list[1])?);
    let boxed = Box::new(x.matmul(&pair.1)?);
    let mut all = Vec::with_capacity(n);
    all.push(shared.matmul(&boxed)?);
    all.extend(list);
    let maybe = if n > 2 { Some(boxed.matmul(x)?) } else { None };
    Ok(Kept { all, maybe })
}

/// Patterns, labels and operators.
///
/// # Errors
/// If `xs` is empty, and as the operations in it.
#[autocast(bf16, crate = ::mixed)]
pub fn patterns(xs: &[Tensor<F32>], n: usize) -> Result<Tensor<F32>> {
    let [first, rest @ ..] = xs else {
        return Err(Error::argument("patterns", "xs", "one tensor at least", "none"));
    };
    let mut h = first.matmul(first)?;
    'outer: for (i, x) in rest.iter().enumerate() {
        h = match i {
            0 => (&h + x)?,
            i if i > n => break 'outer,
            1 | 2 => h.matmul(x)?,
            _ => continue,
        };
        h = (h + x)?;
    }
    let mut turns = 0;
    let k = loop {
        turns += 1;
        if turns > n {
            break h.matmul(first)?;
        }
        if let Some(x) = rest.get(turns) {
            break x.softmax(-1)?;
        }
    };
    let deferred;
    match n {
        0 | 1 => deferred = k.exp()?,
        _ => deferred = k.matmul(&h)?,
    }
    let y = (deferred - &h)?;
    y / 2.0
}

/// Regions of their own.
///
/// # Errors
/// As the operations in it.
pub fn regions(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<(Tensor<F16>, Tensor<BF16>)> {
    let y = amp_region!(f16, crate = ::mixed, { x.matmul(w)?.tanh()? });
    let z = amp_region!(bf16, crate = ::mixed, {
        let h = x.matmul(w)?;
        let full = amp_region!(f32, crate = ::mixed, h.matmul(w)?);
        (full + w)?.tanh()?.to::<BF16>()?
    });
    Ok((y, z))
}

/// Regions within a region, at the end and on the way.
///
/// # Errors
/// As the operations in it.
#[autocast(f16, crate = ::mixed)]
pub fn nested(x: &Tensor<F32>, w: &Tensor<F32>, on: bool) -> Result<Tensor<F32>> {
    let y = amp_region!(f16, crate = ::mixed, { x.matmul(w) })?;
    let y = amp_region!(f16, enabled = on, crate = ::mixed, { y.abs() })?;
    #[allow(clippy::needless_return)]
    if on {
        return y.exp();
    }
    amp_region!(f16, crate = ::mixed, {
        let z = y.relu()?;
        z.abs()
    })
}

/// Variables that are bound elsewhere than by `let` and change their precision.
///
/// # Errors
/// As the operations in it.
#[autocast(f16, crate = ::mixed)]
pub fn bound(x: &Tensor<F32>, w: &Tensor<F32>, sharp: bool) -> Result<Tensor<F32>> {
    let halves = ::std::vec![x.matmul(w)?, x.matmul(w)?];
    let mut sum = x.matmul(w)?;
    for mut h in halves {
        if sharp {
            h = h.softmax(-1)?;
        }
        sum = sum.maximum(&h)?;
    }
    let found = sharp.then(|| x.matmul(w)).transpose()?;
    if let Some(mut h) = found {
        h = h.softmax(-1)?;
        ::std::debug_assert!(h.rank() == 2, "{rank} dimensions", rank = h.rank());
        return Ok(h);
    }
    let sharpened = |mut h: Tensor<F32>| -> Result<Tensor<F32>> {
        if sharp {
            h = h.softmax(-1)?;
        }
        Ok(h)
    };
    match sharpened(sum)? {
        mut h if sharp => {
            h = h.matmul(w)?;
            Ok(h)
        }
        h => Ok(h),
    }
}

#[cfg(test)]
mod tests {
    use super::{Block, State, Step, bound, closures, containers, later, nested, patterns, regions};
    use ::mixed::nn::{LayerNorm, Linear};
    use ::mixed::{BF16, Device, F32, Result, Tensor};
    use ::std::clone::Clone;
    use ::std::default::Default;
    use ::std::future::{Future, ready};
    use ::std::iter::Iterator;
    use ::std::option::Option::{None, Some};
    use ::std::pin::pin;
    use ::std::rc::Rc;
    use ::std::result::Result::Ok;
    use ::std::task::{Context, Poll, Waker};
    use ::std::{assert, assert_eq, assert_ne, matches, vec};

    #[test]
    fn every_form_runs() -> Result<()> {
        let device = Device::cpu();
        let sample = || Tensor::<F32>::randn([4, 4], &device);
        let linear = || Linear::new(4, 4, &device);
        let (x, w) = (sample()?, sample()?);
        for on in [false, true] {
            assert_eq!(nested(&x, &w, on)?.dims(), [4, 4]);
            assert_eq!(bound(&x, &w, on)?.dims(), [4, 4]);
        }
        for norm in [None, Some(LayerNorm::new([4], &device)?)] {
            let block = Block::new(norm, vec![linear()?], Rc::new(linear()?), sample()?);
            assert_eq!(block.forward(&x)?.dims(), [4, 4]);
            let mut state = State::default();
            let steps = (0..3).map(|_| block.step(&x, &mut state, "one")).collect::<Result<vec::Vec<_>>>()?;
            assert!(matches!(steps[0], Step::One(_)) && matches!(steps[2], Step::Two { .. }));
        }
        let ws = [sample()?, sample()?, sample()?];
        assert_eq!(closures(&x, &ws, w.clone())?.dims(), [4, 4]);
        assert_eq!(patterns(&ws, 1)?.dims(), [4, 4]);
        let kept = containers::<BF16>(&x, 3)?;
        assert_eq!((kept.all.len(), kept.maybe.is_some()), (3, true));
        let (half, brain) = regions(&x, &w)?;
        assert_ne!(half.to::<F32>()?.to_vec()?, brain.to::<F32>()?.to_vec()?);
        let Poll::Ready(y) = pin!(later(&x, ready(Ok(w)))).poll(&mut Context::from_waker(Waker::noop())) else {
            ::std::unreachable!("nothing to wait for")
        };
        assert_eq!(y?.dims(), [4, 4]);
        Ok(())
    }
}
