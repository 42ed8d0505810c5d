//! Methods and functions of one's own with names of operations, called with numbers that 16 bits do not hold.

use super::*;

struct Ramp {
    steps: f64,
}

impl Ramp {
    fn linear(&self, from: f64, to: f64) -> f64 {
        from + (to - from) / self.steps
    }

    fn conv2d(self, rate: f64) -> f64 {
        rate * self.steps
    }

    fn matmul(&mut self, rate: f64) -> f64 {
        self.steps += 1.0;
        rate * self.steps
    }

    #[autocast(f16)]
    fn warmed(&self, x: &T) -> Result<T> {
        x.matmul(x)? * self.linear(1e-8, 1.0)
    }
}

struct Plan {
    ramp: Ramp,
}

#[autocast(f16)]
fn ramped(x: &T, ramp: &Ramp, mut own: Ramp, plan: &Plan) -> Result<T> {
    let rate = ramp.linear(1e-8, 1e9) + plan.ramp.linear(1e-9, 1e9);
    let rate = rate * (own.matmul(1e-12) + own.conv2d(1e-12));
    x.matmul(x)? * rate
}

#[autocast(P)]
fn of_any<P: AutocastPrecision>(x: &T, ramp: &Ramp) -> Result<T> {
    x.matmul(x)? * ramp.linear(1e-8, 1.0)
}

#[test]
fn numbers_for_methods_of_ones_own_are_not_judged() -> Result<()> {
    let x = T::ones([1, 1], &Device::cpu())?;
    let ramp = |steps| Ramp { steps };
    assert_eq!(ramp(2.0).warmed(&x)?.item()?, 0.5);
    assert_eq!(of_any::<F16>(&x, &ramp(2.0))?.item()?, 0.5);
    assert!(ramped(&x, &ramp(1e9), ramp(1.0), &Plan { ramp: ramp(1e9) })?.item()? < 1.0);
    Ok(())
}

struct Objective {
    positive: f64,
}

impl Objective {
    fn binary_cross_entropy(&self, logits: &T, y: &T) -> Result<T> {
        logits.bce_with_logits(y)? * self.positive
    }

    #[autocast(f16)]
    fn loss(&self, x: &T, y: &T) -> Result<T> {
        self.binary_cross_entropy(&x.matmul(x)?, y)
    }
}

struct Trainer {
    objective: Objective,
}

#[autocast(f16)]
fn losses(trainer: &Trainer, objective: &Objective, x: &T, y: &T) -> Result<T> {
    let h = x.matmul(x)?;
    trainer.objective.binary_cross_entropy(&h, y)? + objective.binary_cross_entropy(&h, y)?
}

mod stats {
    pub fn binary_cross_entropy(p: f64, q: f64) -> f64 {
        p * q
    }
}

#[autocast(f16)]
fn scaled(x: &T, p: f64) -> Result<T> {
    let rate = stats::binary_cross_entropy(0.5, 2.0) + stats::binary_cross_entropy(p, 2.0);
    x.matmul(x)? * rate
}

#[test]
fn an_unsafe_operation_is_one_of_tensors() -> Result<()> {
    let x = T::ones([1, 1], &Device::cpu())?;
    let objective = Objective { positive: 2.0 };
    let by_hand = (x.bce_with_logits(&x)? * 2.0)?.item()?;
    assert_eq!(objective.loss(&x, &x)?.item()?, by_hand);
    let trainer = Trainer { objective: Objective { positive: 2.0 } };
    assert_eq!(losses(&trainer, &objective, &x, &x)?.item()?, 2.0 * by_hand);
    assert_eq!(scaled(&x, 0.5)?.item()?, 2.0);
    Ok(())
}
