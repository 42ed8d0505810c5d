//! Making tensors: from host data, constant, random.

use super::Tensor;
use crate::device::Device;
use crate::memory::on_host;
use crate::ops::Fill;
use crate::precision::{Element, F64, Float, I64};
use crate::random;
use crate::raw::RawTensor;
use crate::shape::IntoShape;
use crate::{Error, Result};
use amp_cpu::Dims;

impl<P: Element> Tensor<P> {
    /// Takes the elements in row-major order.
    ///
    /// # Errors
    /// [`Error::ElementCount`] when the shape has another number of elements.
    #[doc(alias("tensor", "from_numpy"))]
    pub fn from_vec(data: Vec<P::Host>, shape: impl IntoShape, device: &Device) -> Result<Self> {
        let shape = shape.into_shape("from_vec")?;
        if data.len() != shape.count() {
            return Err(Error::ElementCount {
                op: "from_vec",
                shape: shape.into(),
                expected: shape.count(),
                found: data.len(),
            });
        }
        Self::upload(data, shape, device)
    }

    /// Copies the elements in row-major order.
    #[doc(alias("tensor", "as_tensor"))]
    pub fn from_slice(data: &[P::Host], shape: impl IntoShape, device: &Device) -> Result<Self> {
        Self::from_vec(data.to_vec(), shape, device)
    }

    /// Computes each element from its index.
    pub fn from_fn(shape: impl IntoShape, f: impl FnMut(&[usize]) -> P::Host, device: &Device) -> Result<Self> {
        let shape = shape.into_shape("from_fn")?;
        let mut f = f;
        let mut index = Dims::new(&vec![0; shape.len()]).expect("same rank as a valid shape");
        let values = (0..shape.count()).map(|_| {
            let value = f(&index);
            advance(&mut index, &shape);
            value
        });
        Self::upload(on_host("from_fn", shape.count(), values)?, shape, device)
    }

    /// A tensor of one value and no dimensions.
    pub fn scalar(value: P::Host, device: &Device) -> Result<Self> {
        Self::from_vec(vec![value], (), device)
    }

    /// All zeros (`false` for Bool).
    #[doc(alias("empty", "new_zeros"))]
    pub fn zeros(shape: impl IntoShape, device: &Device) -> Result<Self> {
        Self::filled("zeros", shape, 0.0, device)
    }

    /// All ones (`true` for Bool).
    pub fn ones(shape: impl IntoShape, device: &Device) -> Result<Self> {
        Self::filled("ones", shape, 1.0, device)
    }

    /// All equal to `value`.
    #[track_caller]
    pub fn full(shape: impl IntoShape, value: P::Host, device: &Device) -> Result<Self> {
        let shape = shape.into_shape("full")?;
        Self::scalar(value, device)?.expand(shape)?.contiguous()
    }

    /// Zeros of the same shape, precision and device.
    pub fn zeros_like(&self) -> Result<Self> {
        Self::zeros(*self.raw.shape(), self.device())
    }

    /// Ones of the same shape, precision and device.
    pub fn ones_like(&self) -> Result<Self> {
        Self::ones(*self.raw.shape(), self.device())
    }

    /// `value` in every place of the same shape, precision and device (`torch.full_like`).
    ///
    /// # Errors
    /// [`Error::Argument`] for a finite number that is not finite in this precision, or no value of an integer tensor.
    #[doc(alias = "fill_")]
    pub fn full_like(&self, value: impl Into<Fill>) -> Result<Self> {
        const OP: &str = "full_like";
        Self::filled(OP, *self.raw.shape(), value.into().value(OP, P::DTYPE)?, self.device())
    }

    fn filled(op: &'static str, shape: impl IntoShape, value: f64, device: &Device) -> Result<Self> {
        let shape = shape.into_shape(op)?;
        let buffer = device.backend().fill(value, shape.count(), P::DTYPE).map_err(|e| e.named(op))?;
        Ok(Self::from_raw(RawTensor::new(device, buffer, shape)))
    }

    pub(super) fn upload(data: Vec<P::Host>, shape: Dims, device: &Device) -> Result<Self> {
        let buffer = device.backend().upload(P::wrap(data))?;
        Ok(Self::from_raw(RawTensor::new(device, buffer, shape)))
    }
}

impl<P: Float> Tensor<P> {
    /// Standard normal values from the global generator (see [`crate::manual_seed`]), the same for any thread count.
    pub fn randn(shape: impl IntoShape, device: &Device) -> Result<Self> {
        let shape = shape.into_shape("randn")?;
        Ok(Self::from_raw(random::normal(shape, 0.0, 1.0, P::DTYPE, device)?))
    }

    /// Normal values of the given mean and standard deviation.
    ///
    /// # Errors
    /// [`Error::Argument`] unless both are finite and `std` is at least 0.
    pub fn normal(shape: impl IntoShape, mean: f64, std: f64, device: &Device) -> Result<Self> {
        let shape = shape.into_shape("normal")?;
        random::check_normal("normal", mean, std)?;
        Ok(Self::from_raw(random::normal(shape, mean, std, P::DTYPE, device)?))
    }

    /// Uniform values of `[0, 1)`.
    pub fn rand(shape: impl IntoShape, device: &Device) -> Result<Self> {
        let shape = shape.into_shape("rand")?;
        Ok(Self::from_raw(random::uniform(shape, 0.0, 1.0, P::DTYPE, device)?))
    }

    /// Standard normal values of the same shape, precision and device (`torch.randn_like`).
    pub fn randn_like(&self) -> Result<Self> {
        Ok(Self::from_raw(random::normal(*self.raw.shape(), 0.0, 1.0, P::DTYPE, self.device())?))
    }

    /// Uniform values of `[0, 1)` of the same shape, precision and device (`torch.rand_like`).
    pub fn rand_like(&self) -> Result<Self> {
        Ok(Self::from_raw(random::uniform(*self.raw.shape(), 0.0, 1.0, P::DTYPE, self.device())?))
    }

    /// Uniform values of `[low, high)`; all are `low` where `high` is the same.
    ///
    /// # Errors
    /// [`Error::Argument`] where `high` is below `low`, or the ends or the width of the range are more than `P` can hold.
    pub fn uniform(shape: impl IntoShape, low: f64, high: f64, device: &Device) -> Result<Self> {
        let shape = shape.into_shape("uniform")?;
        random::check_uniform("uniform", low, high, P::DTYPE)?;
        Ok(Self::from_raw(random::uniform(shape, low, high, P::DTYPE, device)?))
    }
}

impl Tensor<I64> {
    /// Uniform integers of `low..high` from the global generator (`torch.randint`).
    ///
    /// # Errors
    /// [`Error::Argument`] unless `low < high` and they lie at most 2^53 apart.
    pub fn randint(low: i64, high: i64, shape: impl IntoShape, device: &Device) -> Result<Self> {
        let shape = shape.into_shape("randint")?;
        let choices = i128::from(high) - i128::from(low);
        if !(1..=1 << 53).contains(&choices) {
            let expected = format!("above low = {low} by at most 2^53");
            return Err(Error::argument("randint", "high", expected, high));
        }
        let drawn = Tensor::<F64>::uniform(shape, 0.0, choices as f64, device)?.to::<I64>()?;
        &drawn + &Self::scalar(low, device)?
    }

    /// `0, 1, .., count - 1` in random order (`torch.randperm`).
    pub fn randperm(count: usize, device: &Device) -> Result<Self> {
        let shape = [count].into_shape("randperm")?;
        Tensor::<F64>::rand(shape, device)?.argsort(0, false)
    }
}

fn advance(index: &mut Dims, shape: &Dims) {
    for (i, &size) in index.iter_mut().zip(shape.iter()).rev() {
        *i += 1;
        if *i < size {
            return;
        }
        *i = 0;
    }
}

#[cfg(test)]
mod tests {
    use crate::nn::init;
    use crate::{BF16, Bool, Device, F16, F32, F64, Fill, I64, Tensor};

    #[test]
    fn a_value_is_written_everywhere_if_the_precision_has_it() {
        let x = Tensor::<F16>::zeros([2, 1], &Device::cpu()).unwrap();
        let half = x.full_like(0.5).unwrap();
        assert_eq!((half.dims(), half.to::<F32>().unwrap().to_vec().unwrap()), ([2, 1].as_slice(), vec![0.5; 2]));
        let large = x.to::<BF16>().unwrap().full_like(2f64.powi(100)).unwrap();
        assert_eq!(large.to::<F64>().unwrap().to_vec().unwrap(), [2f64.powi(100); 2]);
        let error = x.full_like(1e6).unwrap_err().to_string();
        assert_eq!(
            error,
            "full_like: the value must be at most 6.5504e4 in F16, or `Fill::NegInf` or `Fill::Lowest`, found 1e6"
        );
        assert_eq!(x.full_like(Fill::NegInf).unwrap().to::<F32>().unwrap().to_vec().unwrap(), [f32::NEG_INFINITY; 2]);
        let whole = Tensor::<I64>::arange(0, 3, &Device::cpu()).unwrap();
        assert_eq!(whole.full_like(-7).unwrap().to_vec().unwrap(), [-7; 3]);
        assert!(whole.full_like(0.5).is_err());
        let truth: Tensor<Bool> = whole.gt(5).unwrap().full_like(1).unwrap();
        assert_eq!(truth.to_vec().unwrap(), [true; 3]);
    }

    #[test]
    fn distributions_that_do_not_exist_are_errors() {
        let (d, inf) = (Device::cpu(), f64::INFINITY);
        for (mean, std) in [(0.0, -1.0), (0.0, f64::NAN), (0.0, inf), (f64::NAN, 1.0)] {
            assert!(Tensor::<F32>::normal([2], mean, std, &d).is_err(), "{mean} {std}");
            assert!(init::normal([2], mean, std, &d).is_err(), "{mean} {std}");
        }
        for (low, high) in [(2.0, 1.0), (0.0, inf), (f64::NAN, 1.0), (-3e38, 3e38), (1e300, 1e300)] {
            assert!(Tensor::<F32>::uniform([2], low, high, &d).is_err(), "{low}..{high}");
        }
        assert!(init::uniform([2], f64::NAN, &d).is_err());
        assert!(Tensor::<F16>::uniform([2], 0.0, 1e6, &d).is_err());
        assert!(Tensor::<F64>::uniform([2], -3e38, 3e38, &d).is_ok());
        assert_eq!(Tensor::<F32>::uniform([2], 1.0, 1.0, &d).unwrap().to_vec().unwrap(), [1.0, 1.0]);
        assert_eq!(Tensor::<F32>::normal([2], 1.0, 0.0, &d).unwrap().to_vec().unwrap(), [1.0, 1.0]);
        let error = Tensor::<F32>::uniform([2], 2.0, 1.0, &d).unwrap_err().to_string();
        assert_eq!(
            error,
            "uniform: low..high must be a range from less to more, no wider than F32 reaches, found 2..1"
        );
    }

    #[test]
    fn random_integers_cover_their_range_and_nothing_else() {
        let draw = |low, high| Tensor::<I64>::randint(low, high, [4096], &Device::cpu());
        let mut drawn = draw(-3, 4).unwrap().to_vec().unwrap();
        drawn.sort_unstable();
        drawn.dedup();
        assert_eq!(drawn, [-3, -2, -1, 0, 1, 2, 3]);
        assert_eq!(draw(4, 4).unwrap_err().to_string(), "randint: high must be above low = 4 by at most 2^53, found 4");
        assert!(draw(i64::MIN, i64::MAX).is_err());
    }
}
