//! Two ways to the same result, compared bit for bit.

use amp::prelude::*;
use std::sync::{Mutex, PoisonError};

/// The first GPU where there is one (`AMP_REQUIRE_CUDA` makes its absence a failure), else the CPU: every row of the table
/// has a case, so that the whole table runs there.
pub fn device() -> Device {
    Device::cuda(0).unwrap_or_else(|reason| {
        assert!(std::env::var_os("AMP_REQUIRE_CUDA").is_none(), "{reason}");
        Device::cpu()
    })
}

/// The random state is the program's: one case at a time.
static RANDOM: Mutex<()> = Mutex::new(());

/// Both results of one operation.
pub struct Case {
    pub op: &'static str,
    pub class: &'static str,
    run: Box<dyn Fn() -> Result<(Trace, Trace)>>,
}

/// What one way gave, as text: its precision, shape, elements, and the gradients of all inputs.
#[derive(PartialEq, Debug)]
pub struct Trace {
    value: String,
    gradients: Vec<Option<Vec<u32>>>,
}

/// Three F32 inputs that record gradients.
pub struct Inputs {
    leaves: [Tensor<F32>; 3],
}

impl Inputs {
    /// Positive values, so that logarithms and roots are finite; the same at every call.
    pub fn new(shapes: [&[usize]; 3]) -> Result<Self> {
        amp::manual_seed(17);
        let leaf = |shape: &[usize]| Ok(Tensor::<F32>::uniform(shape, 0.1, 0.9, &device())?.tracked());
        Ok(Self { leaves: [leaf(shapes[0])?, leaf(shapes[1])?, leaf(shapes[2])?] })
    }

    /// The inputs in precision `Q`.
    pub fn cast<Q: Element>(&self) -> Result<[Tensor<Q>; 3]> {
        let [a, b, c] = &self.leaves;
        Ok([a.to()?, b.to()?, c.to()?])
    }

    fn trace<T: Element>(&self, y: &Tensor<T>) -> Result<Trace> {
        let value = format!("{:?} {:?} {:?}", T::DTYPE, y.dims(), y.to_vec()?);
        if !y.requires_grad() {
            return Ok(Trace { value, gradients: Vec::new() });
        }
        let weights = Tensor::<F32>::uniform(y.dims(), 0.5, 1.5, &device())?;
        let loss = (y.to::<F32>()? * &weights)?.sum_all()?;
        let mut scaler = GradScaler::builder().init_scale(8.0).build(&device())?;
        let scaled = scaler.scale(&loss)?.backward()?;
        let grads = scaler.unscale(scaled)?;
        let bits = |leaf: &Tensor<F32>| -> Result<Option<Vec<u32>>> {
            let Some(grad) = grads.get(leaf)? else { return Ok(None) };
            Ok(Some(grad.to_vec()?.into_iter().map(f32::to_bits).collect()))
        };
        let gradients = self.leaves.iter().map(bits).collect::<Result<_>>()?;
        Ok(Trace { value, gradients })
    }
}

impl Case {
    pub fn new<T: Element>(
        op: &'static str,
        class: &'static str,
        shapes: [&'static [usize]; 3],
        region: impl Fn(&Inputs) -> Result<Tensor<T>> + 'static,
        by_hand: impl Fn(&Inputs) -> Result<Tensor<T>> + 'static,
    ) -> Self {
        let run = move || {
            let (one, two) = (Inputs::new(shapes)?, Inputs::new(shapes)?);
            amp::manual_seed(18);
            let a = region(&one)?;
            amp::manual_seed(18);
            let b = by_hand(&two)?;
            amp::manual_seed(18);
            let a = one.trace(&a)?;
            amp::manual_seed(18);
            Ok((a, two.trace(&b)?))
        };
        Self { op, class, run: Box::new(run) }
    }

    /// Runs both ways.
    pub fn check(&self) -> std::result::Result<(), String> {
        let _alone = RANDOM.lock().unwrap_or_else(PoisonError::into_inner);
        let (region, by_hand) = (self.run)().map_err(|error| format!("{}: {error}", self.op))?;
        if region == by_hand {
            return Ok(());
        }
        Err(format!("{}: the region gives {region:?}, by hand it is {by_hand:?}", self.op))
    }
}
