//! Muon: momentum whose updates are made orthogonal.

use super::declare::optimizer;
use super::groups::{ParameterGroups, describe};
use super::rule::Setting;
use super::update::Used;
use crate::autograd::flat;
use crate::backend::Buffer;
use crate::precision::{BF16, F32};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result};
use amp_cpu::Dims;
use amp_cpu::optim::UpdateRule;
use std::borrow::Cow;

optimizer! {
    /// Momentum whose update is made orthogonal, for the matrices of hidden layers (`torch.optim.Muon`; Jordan and others, "Muon:
    /// An optimizer for hidden layers in neural networks", 2024).
    ///
    /// A step is `w -= lr (adjustment · orthogonal(momentum) + weight_decay · w)`: all singular values of the update are about 1.
    /// Biases, norms, embeddings and the last layer are for another optimizer, such as [`AdamW`](super::AdamW).
    ///
    /// # Precision
    /// Momentum and weights are F32. The update is made orthogonal by products in BF16, which accumulate in F32, whatever the
    /// model's precision; its size does not matter to them, so no loss scale is needed there.
    ///
    /// # Errors
    /// A step is an [`Error::Argument`] for a parameter that is no matrix, and nothing changes.
    ///
    /// ```
    /// # use amp_core::{nn::Linear, nn::Module, optim::{AdamW, Muon}, Device};
    /// # let net = Linear::new(4, 2, &Device::cpu())?;
    /// let (matrices, others) = net.parameters().into_iter().partition::<Vec<_>, _>(|p| p.rank() == 2);
    /// let mut hidden = Muon::new(matrices, 0.02).match_adamw();
    /// let mut rest = AdamW::new(others, 3e-4);
    /// # Ok::<_, amp_core::Error>(())
    /// ```
    Muon, "Muon",
    UpdateRule::Sgd { lr: 0.0, momentum: 0.95, dampening: 0.0, nesterov: true, weight_decay: 0.1 },
    orthogonal,
    {
        /// Share of the momentum that a step keeps (0.95 by default); above 0 and below 1.
        momentum: f64 => |rule, value| if let UpdateRule::Sgd { momentum, .. } = rule { *momentum = value };
        /// Looks one step ahead along the momentum (on by default).
        nesterov: bool => |rule, value| if let UpdateRule::Sgd { nesterov, .. } = rule { *nesterov = value };
        /// Decay of the weights per step, times the learning rate (0.1 by default).
        weight_decay: f64 => |rule, value| if let UpdateRule::Sgd { weight_decay, .. } = rule { *weight_decay = value };
    }
}

impl Muon {
    /// Newton-Schulz iterations that a step takes (5 by default).
    pub fn ns_steps(self, iterations: usize) -> Self {
        self.set(|newton_schulz| newton_schulz.steps = iterations)
    }

    /// Coefficients of an iteration's polynomial `a x + b x³ + c x⁵` (3.4445, -4.775 and 2.0315 by default).
    pub fn ns_coefficients(self, a: f64, b: f64, c: f64) -> Self {
        self.set(|newton_schulz| newton_schulz.coefficients = [a, b, c])
    }

    /// Least norm that a momentum is divided by (1e-7 by default).
    pub fn eps(self, eps: f64) -> Self {
        self.set(|newton_schulz| newton_schulz.eps = eps)
    }

    /// Makes updates `[M, N]` as large as AdamW's, whose learning rates and decays fit then: they are multiplied by
    /// `0.2 sqrt(max(M, N))` in place of `sqrt(max(1, M / N))` (PyTorch's `adjust_lr_fn="match_rms_adamw"`).
    pub fn match_adamw(self) -> Self {
        self.set(|newton_schulz| newton_schulz.as_adamw = true)
    }

    fn set(mut self, change: impl FnOnce(&mut NewtonSchulz)) -> Self {
        self.0.change(|group| change(group.newton_schulz.get_or_insert_default()));
        self
    }
}

/// How updates are made orthogonal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewtonSchulz {
    steps: usize,
    coefficients: [f64; 3],
    eps: f64,
    as_adamw: bool,
}

impl Default for NewtonSchulz {
    fn default() -> Self {
        Self { steps: 5, coefficients: [3.4445, -4.775, 2.0315], eps: 1e-7, as_adamw: false }
    }
}

impl NewtonSchulz {
    /// A matrix with the singular vectors of `x` whose singular values are about 1, times what the learning rate is adjusted by.
    fn of(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let [rows, columns] = [x.dims()[0], x.dims()[1]];
        let unit = (x / x.norm_all()?.clamp_min(self.eps)?)?.to::<BF16>()?;
        // The products of rows with each other are fewer for the shorter side.
        let mut y = if rows > columns { unit.t()? } else { unit };
        let [a, b, c] = self.coefficients;
        for _ in 0..self.steps {
            let gram = y.matmul(&y.t()?)?;
            let polynomial = (&gram * b)?.addmm(&(&gram * c)?, &gram)?;
            y = (&y * a)?.addmm(&polynomial, &y)?;
        }
        let y = if rows > columns { y.t()? } else { y };
        y.to::<F32>()? * self.adjustment(rows as f64, columns as f64)
    }

    fn adjustment(&self, rows: f64, columns: f64) -> f64 {
        match self.as_adamw {
            true => 0.2 * rows.max(columns).sqrt(),
            false => (rows / columns).max(1.0).sqrt(),
        }
    }

    /// Calls `visit` with every setting, by the name that files have for it.
    pub(super) fn visit(&mut self, visit: &mut dyn FnMut(&'static str, Setting<'_>)) {
        let Self { steps, coefficients: [a, b, c], eps, as_adamw } = self;
        visit("ns_steps", Setting::Count(steps));
        for (name, value) in [("ns_a", a), ("ns_b", b), ("ns_c", c), ("eps", eps)] {
            visit(name, Setting::Number(value));
        }
        visit("match_adamw", Setting::Switch(as_adamw));
    }

    /// An error for settings that a Muon cannot have.
    pub(super) fn validate(&self, op: &'static str, rule: &UpdateRule) -> Result<()> {
        if !(0.0..f64::INFINITY).contains(&self.eps) {
            return Err(Error::argument(op, "eps", "finite and at least 0", self.eps));
        }
        match *rule {
            UpdateRule::Sgd { momentum, .. } if !(momentum > 0.0 && momentum < 1.0) => {
                Err(Error::argument(op, "momentum", "above 0 and below 1", momentum))
            }
            _ => Ok(()),
        }
    }
}

impl ParameterGroups {
    /// An error for parameters that a Muon cannot have.
    pub(super) fn check_matrices(&self, op: &'static str) -> Result<()> {
        match self.all.iter().find(|p| self.is_muon() && p.rank() != 2) {
            Some(p) => Err(Error::argument(op, "each parameter", "a matrix", describe(p))),
            None => Ok(()),
        }
    }

    /// Takes the gradients times `factors` into the momenta, unless the flag `skip` is set, and puts the updates in their place.
    pub(super) fn orthogonalise(
        &mut self,
        used: &mut [Used<'_>],
        factors: &[&Buffer],
        skip: Option<&Buffer>,
    ) -> Result<()> {
        for Used { id, group, index, grad } in used {
            let group = &self.groups[*group];
            let (p, Some(state)) = (&group.parameters[*index], self.state.get_mut(id)) else { continue };
            let (UpdateRule::Sgd { momentum, nesterov, .. }, Some(newton_schulz)) = (group.rule, group.newton_schulz)
            else {
                continue;
            };
            let mut taken = Tensor::<F32>::from_raw(grad.as_ref().clone());
            for factor in factors {
                taken =
                    (taken * Tensor::<F32>::from_raw(RawTensor::new(p.device(), (*factor).clone(), Dims::default())))?;
            }
            let backend = p.device().backend();
            backend.average(&mut state.moments[0], taken.raw.operand()?, 1.0 - momentum, skip)?;
            let mean = RawTensor::new(p.device(), state.moments[0].clone(), *grad.shape());
            let mean = Tensor::<F32>::from_raw(mean);
            let ahead = if nesterov { taken.lerp(&mean, momentum)? } else { mean };
            *grad = Cow::Owned(flat(&newton_schulz.of(&ahead)?.raw)?.into_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optim::Optimizer;
    use crate::precision::{F16, F64};
    use crate::{Device, GradScaler, Parameter, manual_seed};

    /// The polynomial takes singular values to between 0.68 and 1.13: their squares are 0.54 from 1 at most, and products in BF16
    /// leave less than a tenth of that.
    #[test]
    fn updates_have_singular_values_near_1() -> Result<()> {
        manual_seed(91);
        for shape in [[24, 8], [8, 24], [1, 5]] {
            let x = Tensor::<F32>::randn(shape, &Device::cpu())?;
            let u = NewtonSchulz::default().of(&(&x * 1e-3)?)?.to::<F64>()?;
            let scale = NewtonSchulz::default().adjustment(shape[0] as f64, shape[1] as f64);
            let u = (u / scale)?;
            let gram = if shape[0] > shape[1] { u.t()?.matmul(&u)? } else { u.matmul(&u.t()?)? };
            let n = gram.dims()[0];
            for (i, value) in gram.to_vec()?.into_iter().enumerate() {
                let expected = if i % (n + 1) == 0 { 1.0 } else { 0.0 };
                let diff = (value - expected).abs();
                assert!(diff <= 0.6, "{shape:?} at {i}: {value} is not {expected}");
            }
        }
        Ok(())
    }

    /// The scale is taken out before the momentum, and a step that is skipped changes neither momentum nor weights.
    #[test]
    fn a_scaler_changes_no_step_and_a_skipped_one_leaves_everything() -> Result<()> {
        let device = Device::cpu();
        let run = |scale: Option<f32>| -> Result<Vec<f32>> {
            manual_seed(92);
            let w = Parameter::new(&Tensor::randn([4, 3], &device)?)?;
            let mut optimizer = Muon::new([w.clone()], 0.5);
            let mut scaler = GradScaler::builder().init_scale(scale.unwrap_or(1.0)).build(&device)?;
            for i in 0..4 {
                let slopes = Tensor::<F32>::randn([4, 3], &device)?;
                let loss = (w.tensor() * slopes)?.sum_all()?;
                match scale {
                    None => optimizer.step(&loss.backward()?)?,
                    Some(_) => {
                        if i == 2 {
                            let broken = (w.tensor() * f64::INFINITY)?.sum_all()?;
                            let (before, grads) = (w.to_vec()?, scaler.scale(&broken)?.backward()?);
                            scaler.step(&mut optimizer, grads)?;
                            scaler.update()?;
                            assert_eq!(w.to_vec()?, before);
                        }
                        let grads = scaler.scale(&loss)?.backward()?;
                        scaler.step(&mut optimizer, grads)?;
                        scaler.update()?;
                    }
                }
            }
            assert!(w.to::<F16>()?.to::<F32>()?.to_vec()?.iter().zip(w.to_vec()?).all(|(h, w)| (h - w).abs() < 1e-2));
            w.to_vec()
        };
        assert_eq!(run(Some(1024.0))?, run(None)?);
        Ok(())
    }

    #[test]
    fn what_is_no_matrix_is_refused() -> Result<()> {
        let device = Device::cpu();
        let (w, b) = (Parameter::new(&Tensor::ones([2, 2], &device)?)?, Parameter::new(&Tensor::ones([2], &device)?)?);
        let grads = (w.tensor() * b.tensor())?.sum_all()?.backward()?;
        let text = |mut o: Muon| o.step(&grads).unwrap_err().to_string();
        let both = Muon::new([w.clone(), b.clone()], 0.1);
        assert_eq!(text(both), "Muon: each parameter must be a matrix, found a parameter of shape [2]");
        let still = Muon::new([w.clone()], 0.1).nesterov(false).momentum(0.0);
        assert_eq!(text(still), "Muon: momentum must be above 0 and below 1, found 0");
        assert_eq!(w.to_vec()?, [1.0; 4]);
        Ok(())
    }
}
