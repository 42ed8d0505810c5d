//! The norm of gradients, and clipping.

use super::check::Checked;
use super::gradients::multiplied;
use super::{Gradients, IsUnscaled, ScaleState};
use crate::backend::Buffer;
use crate::order::elementwise;
use crate::param::Parameter;
use crate::precision::F32;
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Device, Error, Result};
use amp_cpu::{DType, Dims, Reduce, Unary};

/// Norms and clipping need gradients at their true size; the bound says so in the user's words.
///
/// They count the gradients of parameters and of tensors that are [`tracked`](Tensor::tracked), which somebody asked for as
/// one asks for a parameter's; PyTorch's functions count what they are given. Where an input is tracked next to a model,
/// [`clip_norm_of`](Gradients::clip_norm_of) leaves it out. What `retain_grad` shows is never counted.
impl<S: ScaleState> Gradients<S> {
    /// The L2 norm of all gradients together, accumulated in F64; not finite when a gradient is not.
    pub fn norm(&self) -> Result<Tensor<F32>>
    where
        S: IsUnscaled,
    {
        norm(self.sums_now()?)
    }

    /// Scales all gradients down so that their common L2 norm is at most `max`, and returns the norm before
    /// (`torch.nn.utils.clip_grad_norm_`).
    ///
    /// # Errors
    /// [`Error::Argument`] when `max` is negative or NaN.
    #[doc(alias = "clip_grad_norm_")]
    pub fn clip_norm(&mut self, max: f32) -> Result<Tensor<F32>>
    where
        S: IsUnscaled,
    {
        check_limit("clip_norm", max)?;
        self.check()?;
        let norm = self.norm()?;
        if !self.grads.is_empty() {
            self.factors.push(clip_factor(&norm.raw, f64::from(max))?);
            self.fresh = false;
        }
        Ok(norm)
    }

    /// Scales the gradients of some parameters down so that their common L2 norm is at most `max`, and returns the norm before:
    /// where one backward pass serves several models that are clipped apart, or an input is tracked too. Parameters without a
    /// gradient do not count.
    ///
    /// ```
    /// # use amp_core::{nn::{Linear, Module}, Device, F32, Tensor};
    /// # let device = Device::cpu();
    /// # let [encoder, decoder] = [Linear::new(2, 2, &device)?, Linear::new(2, 2, &device)?];
    /// # let x = Tensor::<F32>::ones([1, 2], &device)?;
    /// let loss = decoder.forward(&encoder.forward(&x)?)?.sqr()?.sum_all()?;
    /// let mut grads = loss.backward()?;
    /// grads.clip_norm_of(&encoder.parameters(), 0.5)?;
    /// grads.clip_norm_of(&decoder.parameters(), 1.0)?;
    /// # Ok::<_, amp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`] when `max` is negative or NaN.
    pub fn clip_norm_of(&mut self, parameters: &[Parameter], max: f32) -> Result<Tensor<F32>>
    where
        S: IsUnscaled,
    {
        check_limit("clip_norm_of", max)?;
        self.check()?;
        let mut ids: Vec<u64> = parameters.iter().map(Parameter::id).filter(|id| self.grads.contains_key(id)).collect();
        ids.sort_unstable();
        ids.dedup();
        let norm = norm(self.square_sums_of(ids.clone())?)?;
        if ids.is_empty() {
            return Ok(norm);
        }
        let factor = RawTensor::new(norm.device(), clip_factor(&norm.raw, f64::from(max))?, Dims::default());
        self.fresh = false;
        for id in ids {
            // Where the norm is not finite nothing is, whatever the backward pass has seen.
            self.peaks.0.remove(&id);
            if let Some(grad) = self.grads.get_mut(&id) {
                *grad = multiplied(grad, &factor)?;
            }
        }
        Ok(norm)
    }

    /// Limits every element to `-max..=max` (`torch.nn.utils.clip_grad_value_`). NaN stays NaN.
    ///
    /// # Errors
    /// [`Error::Argument`] when `max` is negative or NaN.
    #[doc(alias = "clip_grad_value_")]
    pub fn clip_value(&mut self, max: f32) -> Result<()>
    where
        S: IsUnscaled,
    {
        check_limit("clip_value", max)?;
        let max = f64::from(max);
        // The decision to step is taken on the values before clipping, where an infinity still shows.
        self.check()?;
        self.multiply_out()?;
        (self.fresh, self.changed) = (false, true);
        for grad in self.grads.values_mut() {
            let op = Unary::Clamp { min: -max, max };
            *grad = elementwise([grad], |backend, [x]| backend.unary(op, x, grad.logical))?;
        }
        Ok(())
    }
}

fn check_limit(op: &'static str, max: f32) -> Result<()> {
    if max >= 0.0 { Ok(()) } else { Err(Error::argument(op, "max", "at least 0", max)) }
}

/// The root of all these sums of squares together.
fn norm(sums: Option<Checked>) -> Result<Tensor<F32>> {
    let Some(Checked { sums, .. }) = sums else { return Tensor::zeros((), &Device::cpu()) };
    let device = sums.device();
    let total = device.backend().reduce(Reduce::Sum, sums.operand()?, &[0], DType::F64)?;
    let total = RawTensor::new(device, total, Dims::default());
    let norm = device.backend().unary(Unary::Sqrt, total.operand()?, DType::F32)?;
    Ok(Tensor::from_raw(RawTensor::new(device, norm, Dims::default())))
}

/// `min(1, max / (norm + 1e-6))`, computed on the device: the host does not wait.
fn clip_factor(norm: &RawTensor, max: f64) -> Result<Buffer> {
    let steps = [
        Unary::Affine { mul: 1.0, add: 1e-6 },
        Unary::Recip,
        Unary::Affine { mul: max, add: 0.0 },
        Unary::Clamp { min: 0.0, max: 1.0 },
    ];
    let factor = steps.into_iter().try_fold(norm.detached(), |x, step| {
        let buffer = x.backend().unary(step, x.operand()?, DType::F32)?;
        Ok::<_, Error>(RawTensor::new(x.device(), buffer, Dims::default()))
    })?;
    Ok(factor.value.buffer.clone())
}

#[cfg(test)]
mod tests {
    use crate::nn::Linear;
    use crate::optim::Sgd;
    use crate::{Device, F16, F32, GradScaler, Parameter, Result, Tensor};
    use std::slice;

    /// What looks at intermediate results must not change what is trained.
    #[test]
    fn gradients_that_are_only_shown_are_neither_counted_nor_clipped() -> Result<()> {
        let device = Device::cpu();
        let net = Linear::new(2, 2, &device)?;
        let x = Tensor::<F32>::from_vec(vec![3.0, -1.0, 0.5, 2.0], [2, 2], &device)?;
        for clip in [0, 1, 2] {
            let outcome = |shows: bool| -> Result<_> {
                let (h, mut scaler) =
                    (net.forward(&x.to::<F16>()?)?, GradScaler::builder().init_scale(256.0).build(&device)?);
                if shows {
                    h.retain_grad();
                }
                let loss = (h.to::<F32>()? * 50.0)?.sum_all()?;
                let scaled = scaler.scale(&loss)?.backward()?;
                let mut grads = scaler.unscale(scaled)?;
                let norm = match clip {
                    0 => grads.norm()?,
                    1 => grads.clip_norm(1.0)?,
                    _ => grads.clip_value(0.25).and_then(|()| grads.norm())?,
                };
                let shown = grads.get(&h)?.map(|grad| grad.to::<F32>()?.to_vec()).transpose()?;
                let of = |p| grads.get(p)?.expect("it took part").to_vec();
                Ok((norm.item()?, of(net.weight())?, of(net.bias().expect("it has one"))?, shown))
            };
            let (with, without) = (outcome(true)?, outcome(false)?);
            assert_eq!((with.0, with.1, with.2), (without.0, without.1, without.2), "{clip}");
            assert_eq!((with.3, without.3), (Some(vec![50.0; 4]), None), "at its true size, unclipped");
        }
        Ok(())
    }

    /// An infinity that reaches no parameter does not lower the scale: whoever steps by hand has nothing to skip.
    #[test]
    fn gradients_that_are_only_shown_are_not_checked() -> Result<()> {
        let device = Device::cpu();
        let w = Parameter::new(&Tensor::<F32>::full([1], -1.0, &device)?)?;
        let mut scaler = GradScaler::new(&device)?;
        let h = w.tensor().relu()?;
        h.retain_grad();
        let loss = ((&h * 1e38)?.sum_all()? + w.tensor().sum_all()?)?;
        let grads = scaler.scale(&loss)?.backward()?;
        let grads = scaler.unscale(grads)?;
        assert_eq!(grads.get(&h)?.expect("shown").to_vec()?, [f32::INFINITY]);
        assert_eq!(grads.get(&w)?.expect("it took part").to_vec()?, [1.0]);
        scaler.update()?;
        assert_eq!(scaler.scale_value()?, 65536.0);
        Ok(())
    }

    #[test]
    fn sets_with_shown_gradients_add_up() -> Result<()> {
        let device = Device::cpu();
        let w = Parameter::new(&Tensor::<F32>::full([2], 2.0, &device)?)?;
        let h = (w.tensor() * 3.0)?;
        h.retain_grad();
        let mut grads = crate::Gradients::accumulator();
        for factor in [1.0, 4.0] {
            let mut set = (&h * factor)?.sum_all()?.backward_retained()?;
            set.clip_norm(1.0)?;
            grads.add(set)?;
        }
        assert_eq!(grads.get(&h)?.expect("shown").to_vec()?, [5.0; 2]);
        let clipped = 2.0 / 2.0f32.sqrt();
        let sum = grads.get(&w)?.expect("it took part").to_vec()?;
        assert!(sum.iter().all(|v| (v - clipped).abs() <= 1e-5), "{sum:?}");
        grads.set(&h, &Tensor::full([2], 7.0, &device)?)?;
        assert_eq!(grads.get(&h)?.expect("shown").to_vec()?, [7.0; 2]);
        assert_eq!(grads.len(), 2);
        Ok(())
    }

    const FIRST: f32 = 110.229164;
    const SECOND: f32 = 31.721443;
    const OF_A: [f32; 2] = [0.2738613, -0.5477226];
    const OF_B: [f32; 1] = [1.3693064];
    const OF_C: [f32; 3] = [9.457325, 0.7881104, -3.152442];
    const OF_X: [f32; 1] = [25.15625];

    /// Numbers of `torch.nn.utils.clip_grad_norm_(net.parameters(), max)` of each of two nets, after one backward pass.
    #[test]
    fn two_nets_of_one_loss_are_clipped_apart() -> Result<()> {
        let device = Device::cpu();
        let parameter =
            |values: &[f32]| Parameter::new(&Tensor::<F32>::from_vec(values.to_vec(), [values.len()], &device)?);
        let (a, b, c) = (parameter(&[1.0, -2.0])?, parameter(&[0.5])?, parameter(&[3.0, 0.25, -1.0])?);
        let x = Tensor::<F32>::from_vec(vec![2.0], [1], &device)?.tracked();
        let h = (&(a.tensor().sqr()?.sum_all()? * &x)? * &b.tensor())?;
        let mut grads = (&h * &c.tensor().sqr()?)?.sum_all()?.backward()?;
        let first = grads.clip_norm_of(&[a.clone(), b.clone(), a.clone()], 1.5)?.item()?;
        let second = grads.clip_norm_of(slice::from_ref(&c), 10.0)?.item()?;
        assert!(close(&[first, second], &[FIRST, SECOND]), "{first} {second}");
        let of = |p: &Parameter| grads.get(p)?.expect("it took part").to_vec();
        assert!(close(&of(&a)?, &OF_A), "{:?}", of(&a)?);
        assert!(close(&of(&b)?, &OF_B), "{:?}", of(&b)?);
        assert!(close(&of(&c)?, &OF_C), "{:?}", of(&c)?);
        assert!(close(&grads.get(&x)?.expect("it took part").to_vec()?, &OF_X), "what is not named stays");
        // The norm of all follows from these.
        let rest = [of(&a)?, of(&b)?, of(&c)?, OF_X.to_vec()].concat();
        let all = rest.iter().map(|v| v * v).sum::<f32>().sqrt();
        assert!(close(&[grads.norm()?.item()?], &[all]));
        let none = grads.clip_norm_of(&[parameter(&[1.0])?], 0.0)?;
        assert_eq!(none.item()?, 0.0, "it has no gradient");
        assert!(grads.clip_norm_of(&[a], -1.0).is_err() && grads.clip_norm_of(&[b], f32::NAN).is_err());
        Ok(())
    }

    fn close(found: &[f32], expected: &[f32]) -> bool {
        let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-6 * b.abs().max(1.0);
        found.len() == expected.len() && found.iter().zip(expected).all(near)
    }

    /// An infinity in one net spoils what is clipped with it, which the scaler has seen, and nothing else.
    #[test]
    fn an_infinity_spoils_the_parameters_that_are_clipped_with_it() -> Result<()> {
        let device = Device::cpu();
        let [a, b, c] = [1.0, 2.0, f32::INFINITY].map(|v| Parameter::new(&Tensor::<F32>::full([2], v, &device)?));
        let (a, b, c) = (a?, b?, c?);
        let mut scaler = GradScaler::new(&device)?;
        let loss = (a.tensor().sqr()?.sum_all()? + b.tensor().sqr()?.sum_all()?)?;
        let grads = scaler.scale(&(loss + c.tensor().sqr()?.sum_all()?)?)?.backward()?;
        let mut grads = scaler.unscale(grads)?;
        grads.clip_norm_of(slice::from_ref(&a), 1.0)?;
        grads.clip_norm_of(&[b.clone(), c.clone()], 1.0)?;
        assert!(scaler.step(&mut Sgd::new([a.clone()], 1.0), &grads)?.was_taken()?);
        assert!(!scaler.step(&mut Sgd::new([b.clone(), c], 1.0), &grads)?.was_taken()?);
        assert!(a.to_vec()?[0] < 1.0 && b.to_vec()? == [2.0; 2]);
        Ok(())
    }
}
