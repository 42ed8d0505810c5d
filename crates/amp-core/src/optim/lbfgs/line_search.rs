//! Steps that meet the strong Wolfe conditions: a bracket around one, then cubic interpolation (Nocedal and Wright, 2006,
//! algorithms 3.5 and 3.6), in PyTorch's arithmetic.

use super::course::Point;
use crate::Result;

/// The loss falls by this share at least of what the slope at the start promises.
const DECREASE: f64 = 1e-4;
/// What is left at most of the slope at the start.
const FLATNESS: f64 = 0.9;
/// The narrowest bracket, as a change of the parameter that changes most; PyTorch's, whatever ends a step.
pub(super) const NARROWEST: f64 = 1e-9;

/// What was found `t` times the direction from the start.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    pub(super) t: f64,
    /// The loss's derivative along the direction.
    pub(super) slope: f64,
    pub(super) point: Point,
}

impl Probe {
    fn falls_short(&self, start: &Self) -> bool {
        self.point.loss > start.point.loss + DECREASE * self.t * start.slope
    }

    fn is_flat(&self, start: &Self) -> bool {
        self.slope.abs() <= -FLATNESS * start.slope
    }
}

/// When the search ends without success.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    pub(super) evaluations: usize,
    /// Of the bracket.
    pub(super) width: f64,
}

/// The best step along a direction, tried at first at `t`.
pub(super) fn strong_wolfe(
    start: &Probe,
    t: f64,
    limits: Limits,
    mut at: impl FnMut(f64) -> Result<Probe>,
) -> Result<Probe> {
    let (mut old, mut new) = (start.clone(), at(t)?);
    for i in 0..limits.evaluations {
        if new.falls_short(start) || i > 1 && new.point.loss >= old.point.loss {
            return zoom(start, [old, new], Limits { evaluations: limits.evaluations - i, ..limits }, at);
        }
        if new.is_flat(start) {
            return Ok(new);
        }
        if new.slope >= 0.0 {
            return zoom(start, [old, new], Limits { evaluations: limits.evaluations - i, ..limits }, at);
        }
        let t = cubic(&old, &new, [new.t + 0.01 * (new.t - old.t), new.t * 10.0]);
        old = std::mem::replace(&mut new, at(t)?);
    }
    Ok(if start.point.loss <= new.point.loss { start.clone() } else { new })
}

/// Narrows a bracket around a step that meets the conditions.
fn zoom(start: &Probe, bracket: [Probe; 2], limits: Limits, mut at: impl FnMut(f64) -> Result<Probe>) -> Result<Probe> {
    let ([mut low, mut high], mut stuck) = (by_loss(bracket), false);
    for _ in 0..limits.evaluations {
        let ends = [low.t.min(high.t), low.t.max(high.t)];
        if ends[1] - ends[0] < limits.width {
            break;
        }
        let new = at(inside(cubic(&low, &high, ends), ends, &mut stuck))?;
        if new.falls_short(start) || new.point.loss >= low.point.loss {
            [low, high] = by_loss([low, new]);
        } else if new.is_flat(start) {
            return Ok(new);
        } else {
            let turned = new.slope * (high.t - low.t) >= 0.0;
            let before = std::mem::replace(&mut low, new);
            high = if turned { before } else { high };
        }
    }
    Ok(low)
}

/// The lower one first.
fn by_loss([a, b]: [Probe; 2]) -> [Probe; 2] {
    if a.point.loss <= b.point.loss { [a, b] } else { [b, a] }
}

/// `t`, or a point a tenth of the bracket away from its end, where `t` lies at the end or comes near it twice running.
fn inside(t: f64, [min, max]: [f64; 2], stuck: &mut bool) -> f64 {
    let margin = 0.1 * (max - min);
    let near = (max - t).min(t - min) < margin;
    let leaves = near && (*stuck || t >= max || t <= min);
    *stuck = near && !leaves;
    match leaves {
        true if (t - max).abs() < (t - min).abs() => max - margin,
        true => min + margin,
        false => t,
    }
}

/// Where the cubic through both points has its minimum, within some bounds.
fn cubic(a: &Probe, b: &Probe, [min, max]: [f64; 2]) -> f64 {
    let [near, far] = if a.t <= b.t { [a, b] } else { [b, a] };
    let mean = near.slope + far.slope - 3.0 * (near.point.loss - far.point.loss) / (near.t - far.t);
    let square = mean * mean - near.slope * far.slope;
    if square < 0.0 || square.is_nan() {
        return f64::midpoint(min, max);
    }
    let root = square.sqrt();
    let t = far.t - (far.t - near.t) * (far.slope + root - mean) / (far.slope - near.slope + 2.0 * root);
    t.max(min).min(max)
}
