//! Settings of a scaler in the middle of training.

use super::{GradScaler, builder};
use crate::Result;
use amp_cpu::optim::ScaleRule;

impl GradScaler {
    /// What the scale is multiplied by after enough clean steps (`get_growth_factor`); 1 for a static one.
    #[doc(alias = "get_growth_factor")]
    pub fn growth_factor(&self) -> f32 {
        (self.rule.growth as f32).exp2()
    }

    /// What the scale is multiplied by when a gradient is not finite (`get_backoff_factor`); 1 for a static one.
    #[doc(alias = "get_backoff_factor")]
    pub fn backoff_factor(&self) -> f32 {
        (self.rule.backoff as f32).exp2()
    }

    /// Clean steps between two growths (`get_growth_interval`); 0 for never.
    #[doc(alias = "get_growth_interval")]
    pub fn growth_interval(&self) -> u64 {
        self.rule.interval
    }

    /// Sets what the scale is multiplied by after enough clean steps. A static scale stays as it is; steps that were captured
    /// keep what they were captured with, here and in the two below.
    ///
    /// # Errors
    /// [`Error::Argument`](crate::Error::Argument) for what is no power of two above 1. Nothing has changed then.
    pub fn set_growth_factor(&mut self, factor: f32) -> Result<()> {
        let growth = builder::growth(factor)?;
        self.change(|rule| rule.growth = growth);
        Ok(())
    }

    /// Sets what the scale is multiplied by when a gradient is not finite. A static scale stays as it is.
    ///
    /// # Errors
    /// [`Error::Argument`](crate::Error::Argument) for what is no power of two below 1. Nothing has changed then.
    pub fn set_backoff_factor(&mut self, factor: f32) -> Result<()> {
        let backoff = builder::backoff(factor)?;
        self.change(|rule| rule.backoff = backoff);
        Ok(())
    }

    /// Sets the number of clean steps between two growths, 0 for never; a scale that has already waited as long grows at the
    /// next clean step, where PyTorch's, which asks for equality, would not any more. A static scale stays as it is.
    pub fn set_growth_interval(&mut self, steps: u64) {
        self.change(|rule| rule.interval = steps);
    }

    fn change(&mut self, change: impl FnOnce(&mut ScaleRule)) {
        let is_static = self.rule.backoff == 0;
        if !is_static {
            change(&mut self.rule);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, GradScaler, Parameter, Result, Tensor};

    fn clean_step(scaler: &mut GradScaler) -> Result<f32> {
        let w = Parameter::new(&Tensor::ones([1], &Device::cpu())?)?;
        let grads = scaler.scale(&w.tensor().sum_all()?)?.backward()?;
        drop(scaler.unscale(grads)?);
        scaler.update()?;
        scaler.scale_value()
    }

    #[test]
    fn settings_change_in_the_middle_of_training() -> Result<()> {
        let mut scaler = GradScaler::builder().init_scale(8.0).growth_interval(100).build(&Device::cpu())?;
        for _ in 0..3 {
            assert_eq!(clean_step(&mut scaler)?, 8.0);
        }
        assert_eq!((scaler.growth_factor(), scaler.backoff_factor(), scaler.growth_interval()), (2.0, 0.5, 100));
        scaler.set_growth_factor(4.0)?;
        scaler.set_backoff_factor(0.25)?;
        scaler.set_growth_interval(2);
        // It has waited for three already.
        assert_eq!(clean_step(&mut scaler)?, 32.0);
        assert_eq!(clean_step(&mut scaler)?, 32.0);
        assert_eq!(clean_step(&mut scaler)?, 128.0);
        let error = scaler.set_growth_factor(3.0).unwrap_err().to_string();
        assert_eq!(error, "GradScaler: growth_factor must be a power of two, so that scaling is exact, found 3");
        assert!(scaler.set_backoff_factor(2.0).is_err() && scaler.set_growth_factor(f32::NAN).is_err());
        assert_eq!((scaler.growth_factor(), scaler.backoff_factor(), scaler.growth_interval()), (4.0, 0.25, 2));
        Ok(())
    }

    #[test]
    fn a_static_scale_stays_static() -> Result<()> {
        let mut scaler = GradScaler::builder().static_scale(16.0).build(&Device::cpu())?;
        scaler.set_growth_interval(1);
        scaler.set_growth_factor(2.0)?;
        scaler.set_backoff_factor(0.5)?;
        assert_eq!((clean_step(&mut scaler)?, scaler.growth_factor(), scaler.backoff_factor()), (16.0, 1.0, 1.0));
        Ok(())
    }
}
