//! Numbers in variables that change, and constants that are no numbers.

use super::*;
use std::num::Wrapping;
use std::time::{Duration, Instant};

const BUDGET: Duration = Duration::from_secs(3600);
const ONE: Wrapping<u64> = Wrapping(1);

#[autocast(f16)]
#[expect(unused_assignments)] // what is never read is the case
fn changing(x: &T, steps: usize, tiny: Option<f64>) -> Result<T> {
    let mut small = 1e-12;
    small = f64::max(small, 1e-2);
    let mut large = 1e9;
    large /= 1e9;
    let mut lent = 1e-12;
    let _ = std::mem::replace(&mut lent, 0.5);
    let mut captured = 1e9;
    let mut set = || captured = 2.0;
    set();
    let mut later = 1e-12;
    if steps > 1 {
        later = 0.25;
    } else {
        later = tiny.unwrap_or(1e-4);
    }
    let mut best = 1e9;
    for step in 0..steps {
        best = f64::min(best, step as f64);
    }
    (x.matmul(x)? * large)?.add(small)?.add(lent)?.mul(captured)?.add(later)?.add(best)
}

/// What a variable began with is not what it holds where it meets a tensor.
#[test]
fn numbers_that_change_are_not_judged_by_what_they_were() -> Result<()> {
    let x = random([4, 4])?;
    let half = x.to::<F16>()?;
    let by_hand = ((half.matmul(&half)?.add(0.01)?.add(0.5)? * 2.0)? + 0.25)?.to::<F32>()?;
    assert_eq!(changing(&x, 3, None)?.to_vec()?, by_hand.to_vec()?);
    Ok(())
}

#[autocast(f16)]
fn timed(x: &T, start: Instant, calls: Wrapping<u64>) -> Result<(T, Wrapping<u64>)> {
    let end = start + BUDGET;
    assert!(start.elapsed() + BUDGET >= BUDGET && Instant::now() + BUDGET > end);
    Ok((x.matmul(x)?.relu()?, Wrapping(1) + calls + ONE))
}

#[derive(Clone, Copy)]
struct Pad(usize);
const PAD: Pad = Pad(2);

struct Queue(usize);
impl Queue {
    fn add(&mut self, pad: Pad) {
        self.0 += pad.0;
    }
}

#[autocast(f16, skip(add))]
fn queued(x: &T, queue: &mut Queue) -> Result<T> {
    queue.add(PAD);
    x.matmul(x)
}

#[test]
fn constants_that_are_no_numbers_are_left_alone() -> Result<()> {
    let (y, calls) = timed(&random([4, 4])?, Instant::now(), Wrapping(u64::MAX))?;
    assert_eq!((y.dims(), calls), (&[4, 4][..], ONE));
    let mut queue = Queue(0);
    queued(&y, &mut queue)?;
    assert_eq!(queue.0, PAD.0);
    Ok(())
}

#[autocast(f16)]
fn in_lists(x: &T, mut given: Option<f64>) -> Result<T> {
    let [one, tiny] = [1.0, 1e-12];
    let pair = [0.5, 1e9];
    let mut set = [1e9, 0.5];
    set[0] = 1.0;
    let mut filled = [1e9; 2];
    filled.fill(0.25);
    let mut halved = [2e9, 1e9];
    for number in &mut halved {
        *number *= 1e-9;
    }
    let mut captured = [1e9];
    let mut reset = || captured[0] = 0.5;
    reset();
    let mut taken = Some(1e9);
    given = taken.take().and(given);
    let sum = [1e-12, 2.0].iter().sum::<f64>();
    let h = ((x.matmul(x)? * one)? + pair[0])? + (set[0] + tiny);
    let h = ((h? + filled[0])? + halved[1])? + captured[0];
    (h? + given.unwrap_or(0.5))? + sum
}

#[test]
fn numbers_in_lists_are_judged_one_by_one_and_not_by_what_they_were() -> Result<()> {
    let x = T::ones([2, 2], &Device::cpu())?;
    assert_eq!(in_lists(&x, None)?.to_vec()?, [7.75; 4]);
    Ok(())
}

#[autocast(f16)]
fn held_against(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h = x.matmul(x)?;
    h.threshold(1e-9, 0.0)?.hardshrink(1e-9)?.dropout(1e-12, false)
}

#[test]
fn numbers_that_meet_no_element_may_be_smaller_than_any() -> Result<()> {
    let x = Tensor::from_slice(&[1.0, -2.0, 0.5, 0.0], [2, 2], &Device::cpu())?;
    assert_eq!(held_against(&x)?.to_vec()?, [0.0, 0.0, 0.5, 0.0]);
    Ok(())
}

/// Sizes beside a size that is a parameter of the type whose method this is.
struct Attention<const HEADS: usize> {
    wq: T,
    width: usize,
}

impl<const HEADS: usize> Attention<HEADS> {
    #[autocast(f16)]
    fn queries(&self, x: &T) -> Result<T> {
        let [b, n, c] = *x.dims() else { unreachable!("three dimensions") };
        let each = self.width / HEADS;
        x.matmul(&self.wq)?.reshape([b, n, HEADS, c / HEADS])?.narrow(-1, 0, each)
    }

    #[autocast(f16)]
    fn of_a_width(&self, x: &T) -> Result<T> {
        let width = self.width;
        let last = x.matmul(&self.wq)?.size(-1)?;
        x.matmul(&self.wq)?.reshape([1, 2, HEADS, width.max(last) / HEADS])
    }
}

#[test]
fn a_size_may_be_a_parameter_of_the_type() -> Result<()> {
    let attention = Attention::<2> { wq: random([6, 6])?, width: 6 };
    let x = random([1, 2, 6])?;
    assert_eq!(attention.queries(&x)?.dims(), [1, 2, 2, 3]);
    assert_eq!(bits(&attention.of_a_width(&x)?), bits(&attention.queries(&x)?));
    Ok(())
}

#[autocast(bf16)]
fn averaged(avg: &T, w: &Tensor<BF16>, half: &Tensor<BF16>) -> Result<[T; 4]> {
    let kept = [half.lerp(avg, 1e-4)?, avg.lerp(w, 1e-4)?];
    let [a, b] = kept;
    Ok([a, b, half.lerp(w, 0.0)?, half.lerp(w, 0.01)?])
}

#[test]
fn a_small_weight_moves_an_average_that_is_kept_in_f32() -> Result<()> {
    let one = T::ones([1], &Device::cpu())?;
    let w = (&one * 2.0)?.to::<BF16>()?;
    let [a, b, c, d] = averaged(&one, &w, &one.to::<BF16>()?)?;
    assert_eq!((a.item()?, b.item()?, c.item()?, d.item()?), (1.0, 1.0001, 1.0, 1.0078125));
    Ok(())
}

const EPS: Option<f64> = None;
const STEP: Option<f64> = Some(0.5);
const STEPS: Option<usize> = Some(1 << 20);
struct Scale(f64);

#[autocast(f16)]
fn from_options(x: &T, tiny: Option<f64>) -> Result<(T, usize)> {
    let mut h = x.matmul(x)?;
    let Some(steps) = STEPS else { return Ok((h, 0)) };
    if let Some(eps) = EPS {
        h = (h + eps)?;
    }
    h = match STEP {
        Some(step) => (h + step)?,
        None => h,
    };
    let mut scale = Scale(1e-9);
    scale.0 = 2.0;
    h = (h * scale.0)?;
    let step = tiny.map_or_else(|| 0.25, |tiny| tiny * 1e9);
    Ok((((h + step)? + (1 << 3) as f64)?, steps + 1))
}

#[test]
fn what_an_option_holds_is_judged_if_it_holds_something() -> Result<()> {
    let x = T::ones([1, 1], &Device::cpu())?;
    let (y, steps) = from_options(&x, None)?;
    assert_eq!((y.item()?, steps), (11.25, (1 << 20) + 1));
    Ok(())
}

#[autocast(f16)]
fn padded(x: &T) -> Result<T> {
    let h = x.matmul(x)?;
    Tensor::pad_sequence(&[&h, x], -1e9)
}

#[test]
fn what_is_padded_in_f32_holds_any_number() -> Result<()> {
    let x = T::ones([1, 1], &Device::cpu())?;
    assert_eq!(padded(&x)?.to_vec()?, [1.0, 1.0]);
    Ok(())
}
