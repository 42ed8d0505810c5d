//! Exponential moving average of weights.

use super::Step;
use crate::backend::Buffer;
use crate::param::Parameter;
use crate::raw::RawTensor;
use crate::shape::check_same;
use crate::tensor::Tensor;
use crate::{Error, Result};
use amp_cpu::DType;

/// A moving average of parameters, in F32: `average = decay * average + (1 - decay) * value` after every step that was
/// taken (`torch.optim.swa_utils.AveragedModel` with `get_ema_multi_avg_fn`, whose first update copies the values instead).
///
/// 16 bits would not do: 1 - 0.9999 is below their resolution, and the average would stand still.
///
/// ```
/// # use amp_core::{optim::{Ema, Optimizer, Sgd, Step}, Device, Parameter, Tensor};
/// let w = Parameter::new(&Tensor::zeros([1], &Device::cpu())?)?;
/// let mut optimizer = Sgd::new([w.clone()], 1.0);
/// let mut average = Ema::new([w.clone()], 0.75)?;
///
/// optimizer.step(&w.tensor().sum_all()?.backward()?)?;
/// average.update(&Step::taken())?; // with a scaler: the `Step` that `scaler.step` returned
///
/// average.swap()?; // evaluate with the averages
/// assert_eq!(w.to_vec()?, [-0.25]);
/// average.swap()?; // and train on
/// assert_eq!(w.to_vec()?, [-1.0]);
/// # Ok::<_, amp_core::Error>(())
/// ```
#[doc(alias = "AveragedModel")]
#[derive(Debug)]
pub struct Ema {
    parameters: Vec<Parameter>,
    averages: Vec<RawTensor>,
    decay: f64,
    swapped: bool,
}

// A module may hold an average: its parameters are handles of ones that some model visits (see `nn::derive`).
impl Unpin for Ema {}

impl Ema {
    /// Starts at the present values.
    ///
    /// # Errors
    /// [`Error::Argument`] unless `decay` lies between 0 and 1.
    pub fn new(parameters: impl IntoIterator<Item = Parameter>, decay: f64) -> Result<Self> {
        if !(0.0..=1.0).contains(&decay) {
            return Err(Error::argument("Ema", "decay", "between 0 and 1", decay));
        }
        let mut seen = std::collections::HashSet::new();
        let parameters: Vec<_> = parameters.into_iter().filter(|p| seen.insert(p.id())).collect();
        let averages = parameters.iter().map(copied).collect::<Result<_>>()?;
        Ok(Self { parameters, averages, decay, swapped: false })
    }

    /// Takes the present values in, if the step was taken.
    ///
    /// # Errors
    /// [`Error::Argument`] while parameters and averages are exchanged. Nothing has changed then.
    pub fn update(&mut self, step: &Step) -> Result<()> {
        self.check_in_training("update")?;
        for (average, p) in self.averages.iter_mut().zip(&self.parameters) {
            let flag = step.flag().map(|skip| skip.on(p.device())).transpose()?;
            let value = p.tensor().raw.detached();
            let backend = p.device().backend();
            backend.average(average.own()?, value.operand()?, 1.0 - self.decay, flag.as_ref())?;
        }
        Ok(())
    }

    /// The average of one parameter.
    pub fn get(&self, parameter: &Parameter) -> Option<Tensor<crate::F32>> {
        let at = self.parameters.iter().position(|p| p.id() == parameter.id())?;
        Some(Tensor::from_raw(self.averages[at].detached()))
    }

    /// Writes the averages to `parameters`, those of another model of the same kind in the same order: for a target network that
    /// is used beside the trained one.
    ///
    /// # Errors
    /// [`Error::Argument`] for another number of parameters, or while parameters and averages are exchanged;
    /// [`Error::Shape`] where a shape differs. Nothing has changed then.
    pub fn copy_to(&self, parameters: impl IntoIterator<Item = Parameter>) -> Result<()> {
        self.check_in_training("Ema::copy_to")?;
        let to: Vec<Parameter> = parameters.into_iter().collect();
        if to.len() != self.parameters.len() {
            let expected = format!("{}, as many as are averaged", self.parameters.len());
            return Err(Error::argument("Ema::copy_to", "the number of parameters", expected, to.len()));
        }
        for (p, average) in to.iter().zip(&self.averages) {
            check_same("Ema::copy_to", "a parameter", average.shape(), p.dims())?;
        }
        to.iter().zip(&self.averages).try_for_each(|(p, average)| p.set(&Tensor::from_raw(average.detached())))
    }

    /// Exchanges parameters and averages: once for evaluation with the averages, once more to go on training.
    pub fn swap(&mut self) -> Result<()> {
        self.swapped = !self.swapped;
        for (average, p) in self.averages.iter_mut().zip(&self.parameters) {
            let value = copied(p)?;
            p.set(&Tensor::from_raw(average.detached()))?;
            *average = value;
        }
        Ok(())
    }

    /// An error while the parameters hold the averages: training and saving would take the averages for the weights.
    pub(crate) fn check_in_training(&self, op: &'static str) -> Result<()> {
        let expected = "what is trained; call `swap` on their average once more first";
        if self.swapped { Err(Error::argument(op, "the parameters", expected, "their averages")) } else { Ok(()) }
    }

    pub(crate) fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    pub(crate) fn averages(&mut self) -> &mut [RawTensor] {
        &mut self.averages
    }
}

fn copied(p: &Parameter) -> Result<RawTensor> {
    let value = p.tensor().raw.detached();
    let buffer: Buffer = p.device().backend().copy(value.operand()?, DType::F32)?;
    Ok(RawTensor::new(p.device(), buffer, *value.shape()))
}

#[cfg(test)]
mod tests {
    use super::Ema;
    use crate::optim::Step;
    use crate::{Device, F32, Parameter, Tensor};

    #[test]
    fn exchanged_averages_are_left_alone() {
        let device = Device::cpu();
        let value = |v: f32| Tensor::<F32>::full(1, v, &device).unwrap();
        let p = Parameter::new(&value(1.0)).unwrap();
        let mut ema = Ema::new([p.clone()], 0.5).unwrap();
        p.set(&value(3.0)).unwrap();
        ema.swap().unwrap();
        let error = ema.update(&Step::taken()).unwrap_err().to_string();
        let rule = "what is trained; call `swap` on their average once more first";
        assert_eq!(error, format!("update: the parameters must be {rule}, found their averages"));
        assert_eq!(p.to_vec().unwrap(), [1.0]);
        ema.swap().unwrap();
        ema.update(&Step::taken()).unwrap();
        assert_eq!((p.to_vec().unwrap()[0], ema.get(&p).unwrap().item().unwrap()), (3.0, 2.0));
    }

    #[test]
    fn another_model_may_have_the_averages() {
        let device = Device::cpu();
        let parameter = |len, v: f32| Parameter::new(&Tensor::<F32>::full(len, v, &device).unwrap()).unwrap();
        let [(a, b), (c, d)] = [1.0, 9.0].map(|v| (parameter(1, v), parameter(2, v)));
        let mut ema = Ema::new([a.clone(), b], 0.5).unwrap();
        a.set(&Tensor::full(1, 3.0, &device).unwrap()).unwrap();
        ema.update(&Step::taken()).unwrap();
        ema.copy_to([c.clone(), d.clone()]).unwrap();
        let all = || [&c, &d].map(|p| p.to_vec().unwrap()).concat();
        assert_eq!((all(), a.to_vec().unwrap()), (vec![2.0, 1.0, 1.0], vec![3.0]));
        for wrong in [vec![c.clone()], vec![parameter(1, 0.0), parameter(3, 0.0)]] {
            assert!(ema.copy_to(wrong).is_err());
        }
        ema.swap().unwrap();
        assert!(ema.copy_to([c.clone(), d.clone()]).is_err());
        assert_eq!(all(), [2.0, 1.0, 1.0]);
    }
}
