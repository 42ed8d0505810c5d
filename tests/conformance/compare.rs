//! The comparison of one operation in some precision with the same operation in F64 on the same values.

use amp::DType;
use amp::prelude::*;

use crate::inputs::{MEMORIES, Memory, Rng, Stored, Values, storages, tensor};

/// How far a result may lie from the F64 one, before its own rounding to the output precision is added.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// Elements are moved, chosen or compared: nothing is rounded at all.
    Exact,
    /// So many units in the last place of the arithmetic (F32) of each result.
    Ulps(f64),
    /// So many units in the last place of the arithmetic, of the largest result.
    OfLargest(f64),
    /// An average of the last input by weights that add up to 1: as [`Bound::OfLargest`], and in BF16, and in F16 on GPUs, where the weights may
    /// be rounded before they are multiplied, that part of the largest value that one rounding is.
    Average(f64),
    /// As [`Bound::Average`], where the weights are rounded in F16 on every device.
    RoundedAverage(f64),
    /// A sum of so many terms: that many units in the last place of the sum of the terms' magnitudes, which the same
    /// operation on the inputs' magnitudes gives.
    Terms(usize),
}

/// What an operation is given.
#[derive(Clone, Debug)]
pub enum Arg {
    Float(Values, Vec<usize>),
    Mask(Vec<usize>),
    /// Indices below the given end.
    Index(usize, Vec<usize>),
}

/// The inputs of one call.
pub struct Args<P> {
    pub x: Vec<Tensor<P>>,
    pub mask: Vec<Tensor<Bool>>,
    pub index: Vec<Tensor<I64>>,
}

impl<P: Float> Args<P> {
    /// The same values in F64 on the CPU, so that no device is its own reference.
    fn wide(&self) -> Result<Args<F64>> {
        let cpu = &Device::cpu();
        Ok(Args {
            x: self.x.iter().map(|x| x.to::<F64>()?.contiguous()?.to_device(cpu)).collect::<Result<_>>()?,
            mask: self.mask.iter().map(|mask| mask.to_device(cpu)).collect::<Result<_>>()?,
            index: self.index.iter().map(|index| index.to_device(cpu)).collect::<Result<_>>()?,
        })
    }

    fn map<Q: Float>(&self, f: impl Fn(&Tensor<P>) -> Result<Tensor<Q>>) -> Result<Args<Q>> {
        let x = self.x.iter().map(f).collect::<Result<_>>()?;
        Ok(Args { x, mask: self.mask.clone(), index: self.index.clone() })
    }
}

/// One operation on one device: where it runs, its name, its inputs, how exact it is.
pub struct Conformance<'a> {
    pub device: &'a Device,
    pub op: &'a str,
    pub args: Vec<Arg>,
    pub bound: Bound,
    /// Whether each element of the result is a function of one of each input.
    pub pointwise: bool,
}

/// Operations without a gradient; all others must have one.
const CONSTANT: [&str; 11] =
    ["argmax", "argmin", "argsort", "eq", "floor_divide", "full_like", "ge", "heaviside", "lt", "ne", "nonzero"];

impl Conformance<'_> {
    /// Runs `f` in precision `P` on every layout and storage, and `reference` in F64 on the same values.
    pub fn check<P: Float, O: Float>(
        &self,
        f: impl Fn(&Args<P>) -> Result<Tensor<O>>,
        reference: impl Fn(&Args<F64>) -> Result<Tensor<F64>>,
    ) {
        for memory in MEMORIES {
            for &stored in storages::<P>() {
                let place = format!("{} in {} (stored {stored:?}, {memory:?}) on {:?}", self.op, P::DTYPE, self.args);
                let verdict = self.compare(memory, stored, &f, &reference);
                if let Err(text) = verdict.unwrap_or_else(|error| Err(error.to_string())) {
                    panic!("{place}: {text}");
                }
            }
        }
    }

    fn compare<P: Float, O: Float>(
        &self,
        memory: Memory,
        stored: Stored,
        f: &impl Fn(&Args<P>) -> Result<Tensor<O>>,
        reference: &impl Fn(&Args<F64>) -> Result<Tensor<F64>>,
    ) -> Result<Result<(), String>> {
        let args = self.inputs::<P>(memory, stored)?;
        let wide = args.wide()?;
        let (found, expected) = (f(&args)?, reference(&wide)?);
        if found.dims() != expected.dims() {
            return Ok(Err(format!("shape {:?}, in F64 {:?}", found.dims(), expected.dims())));
        }
        let allowed = self.allowed(&wide, &expected, reference, P::DTYPE)?;
        let found = found.to::<F64>()?.to_vec()?;
        let expected = expected.to_vec()?;
        if let Some(i) = (0..found.len()).find(|&i| !near(found[i], expected[i], allowed[i], O::DTYPE)) {
            let (found, expected, allowed) = (found[i], expected[i], allowed[i]);
            return Ok(Err(format!("element {i} is {found:e}, in F64 {expected:e}, allowed is {allowed:e}")));
        }
        self.compare_gradients(&args, &wide, f, reference)
    }

    /// Gradients of a fixed linear function of the output. Each may be off by a few roundings in its own precision and by
    /// a sum over all outputs in the arithmetic's, in proportion to the largest gradient of that input.
    fn compare_gradients<P: Float, O: Float>(
        &self,
        args: &Args<P>,
        wide: &Args<F64>,
        f: &impl Fn(&Args<P>) -> Result<Tensor<O>>,
        reference: &impl Fn(&Args<F64>) -> Result<Tensor<F64>>,
    ) -> Result<Result<(), String>> {
        let special = self.args.iter().any(|a| matches!(a, Arg::Float(Values::Special, _)));
        let (args, wide) = (args.map(|x| Ok(x.tracked()))?, wide.map(|x| Ok(x.tracked()))?);
        let (found, expected) = (f(&args)?, reference(&wide)?);
        let recorded = [found.requires_grad(), expected.requires_grad()];
        if recorded != [!CONSTANT.contains(&self.op); 2] {
            return Ok(Err(format!("whether it has a gradient, and in F64: {recorded:?}")));
        }
        if special || !recorded[0] {
            return Ok(Ok(()));
        }
        let outputs = expected.count();
        let (found, expected) = (gradients(&found, &args.x)?, gradients(&expected, &wide.x)?);
        let arithmetic = if P::DTYPE == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let least = self.least_gradient(P::DTYPE, outputs);
            let largest = expected.iter().map(|v| v.abs()).fold(least, f64::max);
            let allowed = largest * (8.0 * roundoff(P::DTYPE) + (32 + outputs) as f64 * arithmetic);
            if let Some(j) = (0..expected.len()).find(|&j| !near(found[j], expected[j], allowed, P::DTYPE)) {
                let (found, expected) = (found[j], expected[j]);
                let place = format!("gradient {j} of input {i}");
                return Ok(Err(format!("{place} is {found:e}, in F64 {expected:e}, allowed is {allowed:e}")));
            }
        }
        Ok(Ok(()))
    }

    /// What roundings are in proportion to where gradients nearly vanish.
    fn least_gradient(&self, precision: DType, outputs: usize) -> f64 {
        match self.bound {
            // Derivatives are differences of numbers near 1 (`1 - y * y`, of a y that 16 bits saved rounded).
            _ if self.pointwise && precision.is_half() => 1.0,
            // A row's mean gradient is one of rounded results, products of a few numbers that are a quarter on average.
            Bound::Average(_) | Bound::RoundedAverage(_) if precision.is_half() => 0.25,
            _ => 1.0 / outputs.max(1) as f64,
        }
    }

    fn inputs<P: Float>(&self, memory: Memory, stored: Stored) -> Result<Args<P>> {
        let mut rng = Rng::of(&format!("{} {memory:?} {:?}", self.op, self.args));
        let mut args = Args { x: vec![], mask: vec![], index: vec![] };
        for arg in &self.args {
            match arg {
                Arg::Float(values, shape) => {
                    args.x.push(tensor(&mut rng, *values, shape, memory, stored, self.device)?);
                }
                Arg::Mask(shape) => {
                    args.mask.push(Tensor::from_fn(&**shape, |_| rng.below(3) == 0, self.device)?);
                }
                Arg::Index(end, shape) => {
                    args.index.push(Tensor::from_fn(&**shape, |_| rng.below(*end) as i64, self.device)?);
                }
            }
        }
        Ok(args)
    }

    /// The error allowed at each element, rounding of the output not counted.
    fn allowed(
        &self,
        wide: &Args<F64>,
        expected: &Tensor<F64>,
        reference: &impl Fn(&Args<F64>) -> Result<Tensor<F64>>,
        precision: DType,
    ) -> Result<Vec<f64>> {
        let epsilon = if precision == DType::F64 { f64::EPSILON } else { f64::from(f32::EPSILON) };
        let expected = expected.to_vec()?;
        Ok(match self.bound {
            Bound::Exact => vec![0.0; expected.len()],
            Bound::Ulps(ulps) => expected.iter().map(|v| ulps * epsilon * v.abs()).collect(),
            Bound::OfLargest(ulps) => {
                let largest = expected.iter().map(|v| v.abs()).filter(|v| v.is_finite()).fold(0.0, f64::max);
                vec![ulps * epsilon * largest; expected.len()]
            }
            Bound::Average(ulps) | Bound::RoundedAverage(ulps) => {
                let largest = |values: &[f64]| values.iter().fold(0.0_f64, |largest, v| largest.max(v.abs()));
                let everywhere = matches!(self.bound, Bound::RoundedAverage(_)) || *self.device != Device::cpu();
                let narrow = precision == DType::BF16 || (precision == DType::F16 && everywhere);
                let weights = if narrow { roundoff(precision) } else { 0.0 };
                let averaged = wide.x.last().map_or(Ok(vec![]), Tensor::to_vec)?;
                vec![ulps * epsilon * largest(&expected) + weights * largest(&averaged); expected.len()]
            }
            Bound::Terms(terms) => {
                let magnitudes = reference(&wide.map(magnitude)?)?.to_vec()?;
                magnitudes.into_iter().map(|m| (terms + 2) as f64 * epsilon * m.abs()).collect()
            }
        })
    }
}

/// Gradients of each of `inputs` for weights of the output that every precision holds exactly, zeros where none arrive.
fn gradients<P: Float, O: Float>(out: &Tensor<O>, inputs: &[Tensor<P>]) -> Result<Vec<Vec<f64>>> {
    let mut rng = Rng::of("gradients");
    let device = out.device();
    let weights = Tensor::<F64>::from_fn(out.dims(), |_| rng.below(17) as f64 / 8.0 - 1.0, device)?;
    let grads = if O::DTYPE == DType::F64 {
        (out.to::<F64>()? * weights)?.sum_all()?.backward()?
    } else {
        let loss = (out.to::<F32>()? * weights.to::<F32>()?)?.sum_all()?;
        let mut scaler = GradScaler::builder().init_scale(1.0).build(device)?;
        let scaled = scaler.scale(&loss)?.backward()?;
        scaler.unscale(scaled)?
    };
    let zeros = |x: &Tensor<P>| Ok(vec![0.0; x.count()]);
    inputs.iter().map(|x| grads.get(x)?.map_or_else(|| zeros(x), |g| g.to::<F64>()?.to_vec())).collect()
}

/// Half a unit in the last place of 1.
fn roundoff(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2f64.powi(-11),
        DType::BF16 => 2f64.powi(-8),
        DType::F32 => 2f64.powi(-24),
        _ => 2f64.powi(-53),
    }
}

fn magnitude(x: &Tensor<F64>) -> Result<Tensor<F64>> {
    let values = x.to_vec()?.into_iter().map(f64::abs).collect();
    Tensor::from_vec(values, x.dims(), x.device())
}

/// Whether `found` is `expected` rounded to precision `out` after an error of at most `allowed`; NaN equals NaN only.
pub fn near(found: f64, expected: f64, allowed: f64, out: DType) -> bool {
    let epsilon = if out == DType::F64 { 0.0 } else { roundoff(out) };
    let (least, largest) = match out {
        DType::F16 => (2f64.powi(-24), 65504.0),
        DType::BF16 => (2f64.powi(-133), 2f64.powi(127) * (2.0 - 2f64.powi(-7))),
        DType::F32 => (2f64.powi(-149), f64::from(f32::MAX)),
        _ => (f64::from_bits(1), f64::MAX),
    };
    if found.is_nan() || expected.is_nan() || found == expected {
        return found.is_nan() && expected.is_nan() || found == expected;
    }
    if found.is_infinite() {
        // Everything from the middle between the largest number and the next power of two rounds to infinity.
        return found.signum() == expected.signum() && expected.abs() + allowed >= largest * (1.0 + epsilon / 2.0);
    }
    let rounding = epsilon * (expected.abs() + allowed) + least / 2.0;
    (found - expected).abs() <= allowed + rounding
}

/// Checks one operation in each of the precisions that its class allows; the body is written once.
macro_rules! conform {
    ($device:expr, $op:literal, all, $args:expr, $bound:expr, |$a:ident| $body:expr) => {
        conform!(@each $device, $op, [F16, BF16, F32, F64], $args, $bound, |$a| $body)
    };
    ($device:expr, $op:literal, full, $args:expr, $bound:expr, |$a:ident| $body:expr) => {
        conform!(@each $device, $op, [F32, F64], $args, $bound, |$a| $body)
    };
    ($device:expr, $op:literal, f32, $args:expr, $bound:expr, |$a:ident| $body:expr) => {
        conform!(@each $device, $op, [F32], $args, $bound, |$a| $body)
    };
    ($device:expr, $op:literal, [$p:ident], $args:expr, $bound:expr, |$a:ident| $body:expr, in_f64 $reference:expr) => {
        for args in $args {
            let pointwise = module_path!().ends_with("::pointwise");
            let case = $crate::compare::Conformance { device: $device, op: $op, args, bound: $bound, pointwise };
            case.check(|$a: &$crate::compare::Args<$p>| $body, |$a: &$crate::compare::Args<F64>| $reference);
        }
    };
    (@each $device:expr, $op:literal, [$($p:ident),*], $args:expr, $bound:expr, |$a:ident| $body:expr) => {
        for args in $args {
            let (bound, pointwise) = ($bound, module_path!().ends_with("::pointwise"));
            let case = $crate::compare::Conformance { device: $device, op: $op, args, bound, pointwise };
            $( case.check(|$a: &$crate::compare::Args<$p>| $body, |$a: &$crate::compare::Args<F64>| $body); )*
        }
    };
}
pub(crate) use conform;
