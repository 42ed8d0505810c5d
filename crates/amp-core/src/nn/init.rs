//! Initial values of parameters.

use crate::param::Parameter;
use crate::precision::{F32, F64};
use crate::shape::IntoShape;
use crate::tensor::Tensor;
use crate::{Device, Error, Result, random};
use amp_cpu::Dims;
use std::f64::consts::SQRT_2;

/// Uniform values of `[-bound, bound)`.
#[doc(alias = "uniform_")]
pub fn uniform(shape: impl IntoShape, bound: f64, device: &Device) -> Result<Parameter> {
    Parameter::new(&Tensor::uniform(shape, -bound, bound, device)?)
}

/// Uniform values of `±1 / sqrt(fan_in)`, which is what PyTorch's Linear and convolutions start from
/// (`kaiming_uniform_` with `a = sqrt(5)`). All zeros for a `fan_in` of 0.
pub fn fan_in(shape: impl IntoShape, fan_in: usize, device: &Device) -> Result<Parameter> {
    let bound = if fan_in == 0 { 0.0 } else { 1.0 / (fan_in as f64).sqrt() };
    uniform(shape, bound, device)
}

/// Normal values.
#[doc(alias = "normal_")]
pub fn normal(shape: impl IntoShape, mean: f64, std: f64, device: &Device) -> Result<Parameter> {
    Parameter::new(&Tensor::normal(shape, mean, std, device)?)
}

/// Normal values without those outside of `[low, high]` (`trunc_normal_`, whose `a` and `b` are -2 and 2), which are values
/// themselves and no multiples of `std`. Drawn in F64.
///
/// # Errors
/// [`Error::Argument`] unless `std` is above 0 and `high` above `low`, and `mean` and `std` are finite.
#[doc(alias = "trunc_normal_")]
pub fn trunc_normal(
    shape: impl IntoShape,
    mean: f64,
    std: f64,
    (low, high): (f64, f64),
    device: &Device,
) -> Result<Parameter> {
    const OP: &str = "trunc_normal";
    let shape = shape.into_shape(OP)?;
    random::check_normal(OP, mean, std)?;
    if std == 0.0 {
        return Err(Error::argument(OP, "std", "above 0", std));
    }
    let ascending = low < high;
    if !ascending {
        return Err(Error::argument(OP, "high", format!("above low = {low}"), high));
    }
    let ends = Tensor::<F64>::from_slice(&[low, high], [2], device)?;
    let ends = ((ends - mean)? / (std * SQRT_2))?.erf()?.to_vec()?;
    let drawn = Tensor::<F64>::uniform(shape, ends[0], ends[1], device)?.erfinv()?;
    Parameter::new(&((drawn * (std * SQRT_2))? + mean)?.clamp(low, high)?.to::<F32>()?)
}

/// Uniform values of `±sqrt(6 / (fan_in + fan_out))` (`xavier_uniform_`).
#[doc(alias = "xavier_uniform_")]
pub fn xavier_uniform(shape: impl IntoShape, fan_in: usize, fan_out: usize, device: &Device) -> Result<Parameter> {
    let fans = fan_in.saturating_add(fan_out).max(1);
    uniform(shape, (6.0 / fans as f64).sqrt(), device)
}

/// Uniform values of `±sqrt(6 / fan)`, for weights that a relu follows (`kaiming_uniform_` with `a = 0`); `fan` is the number
/// of inputs, or of outputs with `mode="fan_out"`. With `a = sqrt(5)` it is [`fan_in`].
#[doc(alias = "kaiming_uniform_")]
pub fn kaiming_uniform(shape: impl IntoShape, fan: usize, device: &Device) -> Result<Parameter> {
    xavier_uniform(shape, fan, 0, device)
}

/// Normal values with deviation `sqrt(2 / fan)`, for weights that a relu follows (`kaiming_normal_`); `fan` is the number of
/// inputs, or of outputs with `mode="fan_out"`.
#[doc(alias = "kaiming_normal_")]
pub fn kaiming_normal(shape: impl IntoShape, fan: usize, device: &Device) -> Result<Parameter> {
    normal(shape, 0.0, (2.0 / fan.max(1) as f64).sqrt(), device)
}

/// Normal values with deviation `sqrt(2 / (fan_in + fan_out))` (`xavier_normal_`).
#[doc(alias = "xavier_normal_")]
pub fn xavier_normal(shape: impl IntoShape, fan_in: usize, fan_out: usize, device: &Device) -> Result<Parameter> {
    kaiming_normal(shape, fan_in.saturating_add(fan_out), device)
}

/// A random matrix `[rows, everything else]` times `gain`, whose rows are orthonormal, or its columns where there are more rows
/// (`orthogonal_`).
///
/// # Errors
/// [`Error::Rank`] for fewer than 2 dimensions.
#[doc(alias = "orthogonal_")]
pub fn orthogonal(shape: impl IntoShape, gain: f64, device: &Device) -> Result<Parameter> {
    let shape = shape.into_shape("orthogonal")?;
    let [rows, rest @ ..] = &*shape else { return Err(no_matrix(shape)) };
    let columns: usize = rest.iter().product();
    if rest.is_empty() {
        return Err(no_matrix(shape));
    }
    let (few, many) = (columns.min(*rows), columns.max(*rows));
    let mut lines = Tensor::<F64>::randn([few, many], device)?.to_vec()?;
    orthonormalise(&mut lines, many);
    let lines = (Tensor::<F64>::from_vec(lines, [few, many], device)? * gain)?;
    let matrix = if few == *rows { lines } else { lines.t()? };
    Parameter::new(&matrix.reshape(shape)?.to::<F32>()?.contiguous()?)
}

fn no_matrix(found: Dims) -> Error {
    Error::Rank { op: "orthogonal", what: "the parameter", expected: "at least 2 dimensions", found: found.into() }
}

/// Gram-Schmidt on lines of `length`; projections are subtracted twice, which removes them to the last digits.
fn orthonormalise(lines: &mut [f64], length: usize) {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    for i in 0..lines.len().checked_div(length).unwrap_or(0) {
        let (before, line) = lines.split_at_mut(i * length);
        let line = &mut line[..length];
        for earlier in before.chunks(length).chain(before.chunks(length)) {
            let share = dot(earlier, line);
            line.iter_mut().zip(earlier).for_each(|(x, e)| *x -= share * e);
        }
        let norm = dot(line, line).sqrt();
        line.iter_mut().for_each(|x| *x /= norm);
    }
}

/// Equal values.
#[doc(alias = "constant_")]
pub fn constant(shape: impl IntoShape, value: f64, device: &Device) -> Result<Parameter> {
    Parameter::new(&Tensor::full(shape, value as f32, device)?)
}

/// All zeros.
#[doc(alias = "zeros_")]
pub fn zeros(shape: impl IntoShape, device: &Device) -> Result<Parameter> {
    Parameter::new(&Tensor::zeros(shape, device)?)
}

/// All ones.
#[doc(alias = "ones_")]
pub fn ones(shape: impl IntoShape, device: &Device) -> Result<Parameter> {
    Parameter::new(&Tensor::ones(shape, device)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_weights_have_the_deviation_of_their_fans() {
        let d = Device::cpu();
        let deviation = |p: Parameter| f64::from(p.tensor().std([0, 1], false).unwrap().item().unwrap());
        for (found, expected) in [
            (deviation(kaiming_normal([300, 200], 50, &d).unwrap()), 0.2),
            (deviation(xavier_normal([300, 200], 200, 300, &d).unwrap()), (2.0f64 / 500.0).sqrt()),
        ] {
            // Six times what 60000 draws leave uncertain.
            assert!((found / expected - 1.0).abs() < 6.0 / (2.0 * 60000f64).sqrt(), "{found} is not {expected}");
        }
    }

    #[test]
    fn uniform_weights_have_the_bound_of_their_fan() {
        let values = kaiming_uniform([200, 100], 24, &Device::cpu()).unwrap().to_vec().unwrap();
        let largest = values.iter().fold(0.0f32, |all, v| all.max(v.abs()));
        // The largest of 20000 draws is further below the bound once in 10^8 times.
        assert!(largest <= 0.5 && largest > 0.4995, "{largest}");
    }

    #[test]
    fn truncated_weights_lie_within_their_range_as_normal_ones_do() {
        let d = Device::cpu();
        let w = trunc_normal([300, 200], 1.0, 2.0, (-1.0, 3.0), &d).unwrap().tensor();
        assert!(w.ge(-1.0).unwrap().all([], false).unwrap().item().unwrap());
        assert!(w.le(3.0).unwrap().all([], false).unwrap().item().unwrap());
        // Cut one deviation from the mean, a variance of 1 becomes 1 - 2 phi(1) / (Phi(1) - Phi(-1)).
        let std = 2.0 * (1.0f64 - 2.0 * 0.241_970_724_5 / 0.682_689_492_1).sqrt();
        let found = (w.mean_all().unwrap().item().unwrap(), w.std([0, 1], false).unwrap().item().unwrap());
        // Six times what 60000 draws leave uncertain.
        assert!((f64::from(found.0) - 1.0).abs() < 6.0 * std / 60000f64.sqrt(), "{found:?}");
        assert!((f64::from(found.1) / std - 1.0).abs() < 6.0 / (2.0 * 60000f64).sqrt(), "{found:?}");

        let all = trunc_normal([50], 0.0, 1.0, (f64::NEG_INFINITY, f64::INFINITY), &d).unwrap().tensor();
        assert!(all.isfinite().unwrap().all([], false).unwrap().item().unwrap());
        for (std, range) in [(0.0, (-2.0, 2.0)), (-1.0, (-2.0, 2.0)), (1.0, (2.0, 2.0)), (1.0, (f64::NAN, 2.0))] {
            assert!(trunc_normal([2], 0.0, std, range, &d).is_err(), "{std}, {range:?}");
        }
    }

    #[test]
    fn orthogonal_weights_keep_lengths_along_their_shorter_side() {
        let d = Device::cpu();
        for (rows, rest) in [(5, vec![3, 4]), (12, vec![5]), (1, vec![7]), (6, vec![6])] {
            let shape = [&[rows], rest.as_slice()].concat();
            let columns = rest.iter().product();
            let w = orthogonal(shape, 2.0, &d).unwrap().tensor().reshape([rows, columns]).unwrap().to::<F64>().unwrap();
            let short = if rows <= columns { w.clone() } else { w.t().unwrap() };
            let gram = short.matmul(&short.t().unwrap()).unwrap();
            for (i, found) in gram.to_vec().unwrap().into_iter().enumerate() {
                let expected = if i % (rows.min(columns) + 1) == 0 { 4.0 } else { 0.0 };
                // Elements of at most 2 are rounded to F32, and as many products as the longer side has are added.
                let bound = 8.0 * f64::from(f32::EPSILON) * rows.max(columns) as f64;
                assert!((found - expected).abs() <= bound, "[{rows}, {columns}]: {found} is not {expected}");
            }
        }
        assert!(orthogonal([3], 1.0, &d).is_err() && orthogonal((), 1.0, &d).is_err());
        assert_eq!(orthogonal([0, 3], 1.0, &d).unwrap().dims(), [0, 3]);
        let filters = orthogonal([2, 3, 1, 2], 1.0, &d).unwrap();
        assert_eq!(filters.dims(), [2, 3, 1, 2]);
    }
}
