//! Batch normalisation with running statistics that wait for the step.

use super::norm::tensor;
use super::{Mode, Module, Statistics, Visitor, Waiting, init};
use crate::ops::{
    Affine, Moments, Relu, batch_norm_eval, batch_norm_eval_relu, batch_norm_train, batch_norm_train_relu,
};
use crate::optim::Skip;
use crate::param::Parameter;
use crate::precision::{F32, Float};
use crate::tensor::Tensor;
use crate::{Device, Error, Result};
use std::ops::RangeInclusive;

/// Normalises each channel over batch and space (`torch.nn.BatchNorm2d`).
///
/// In training, statistics are the batch's own, and the running statistics move only when the step is taken: until then
/// the change travels with the gradients. [`Module::commit`] makes it without a step. Where nothing in the layer or below it
/// is trained, no graph records the forward and no step decides: they move at once. Under `no_grad` they wait for `commit`.
#[derive(Debug)]
pub struct BatchNorm2d {
    weight: Option<Parameter>,
    bias: Option<Parameter>,
    running_mean: Statistics,
    running_var: Statistics,
    num_batches_tracked: Statistics,
    waiting: Waiting,
    mode: Mode,
    channels: usize,
    eps: f64,
    momentum: f64,
}

impl BatchNorm2d {
    /// Weight 1, bias 0, running mean 0 and running variance 1 for each channel.
    pub fn new(channels: usize, device: &Device) -> Result<Self> {
        Ok(Self {
            weight: Some(init::ones([channels], device)?),
            bias: Some(init::zeros([channels], device)?),
            running_mean: Statistics::new(&Tensor::zeros([channels], device)?),
            running_var: Statistics::new(&Tensor::ones([channels], device)?),
            num_batches_tracked: Statistics::counter(device)?,
            waiting: Waiting::new(),
            mode: Mode::new(),
            channels,
            eps: 1e-5,
            momentum: 0.1,
        })
    }

    /// Added to the variance (1e-5 by default).
    pub fn eps(mut self, eps: f64) -> Self {
        self.eps = eps;
        self
    }

    /// Share of a batch in the running statistics (0.1 by default).
    pub fn momentum(mut self, momentum: f64) -> Self {
        self.momentum = momentum;
        self
    }

    /// Removes weight and bias.
    pub fn without_affine(mut self) -> Self {
        (self.weight, self.bias) = (None, None);
        self
    }

    /// Weight, one value for each channel.
    pub fn weight(&self) -> Option<&Parameter> {
        self.weight.as_ref()
    }

    /// Bias, one value for each channel.
    pub fn bias(&self) -> Option<&Parameter> {
        self.bias.as_ref()
    }

    /// Running mean of each channel.
    pub fn running_mean(&self) -> &Statistics {
        &self.running_mean
    }

    /// Running variance of each channel, divided by `n - 1`.
    pub fn running_var(&self) -> &Statistics {
        &self.running_var
    }

    /// The input of a `layer` that takes these shapes, normalised, with what follows it.
    #[track_caller]
    fn normalized<P: Float>(
        &self,
        (layer, shapes, ranks): (&'static str, &str, RangeInclusive<usize>),
        x: &Tensor<P>,
        after: Option<Relu<'_>>,
    ) -> Result<Tensor<F32>> {
        if !ranks.contains(&x.rank()) || x.dims()[1] != self.channels {
            let expected = shapes.replace('`', "").replace('C', &self.channels.to_string());
            return Err(Error::Shape { op: layer, what: "the input", expected, found: x.raw.shape().into() });
        }
        let (x, weight, bias) = (x.to::<F32>()?, tensor(&self.weight), tensor(&self.bias));
        let affine = Affine::new(weight.as_ref(), bias.as_ref());
        if !self.mode.is_training() {
            let (mean, var) = (self.running_mean.tensor(), self.running_var.tensor());
            let given = [&mean.raw, &var.raw];
            let y = match after {
                None => batch_norm_eval(&x.raw, given, affine, self.eps, P::WRITES),
                Some(relu) => batch_norm_eval_relu(&x.raw, given, affine, self.eps, relu, P::WRITES),
            };
            return y.map(Tensor::from_raw);
        }
        let made = match after {
            None => batch_norm_train(&x.raw, affine, self.eps, P::WRITES),
            Some(relu) => batch_norm_train_relu(&x.raw, affine, self.eps, relu, P::WRITES),
        };
        let (y, Moments { mean, var, correction }) = made.map_err(|e| e.given(layer, x.raw.shape()))?;
        if x.raw.layout.count() == 0 {
            // Nothing was seen that the running statistics could follow.
            return Ok(Tensor::from_raw(y));
        }
        let (running_mean, running_var) = (self.running_mean.clone(), self.running_var.clone());
        let (counter, momentum) = (self.num_batches_tracked.clone(), self.momentum);
        let change = move |skip: Option<&Skip>| {
            let flag = skip.map(|skip| skip.on(mean.device())).transpose()?;
            let (backend, batch) = (mean.backend(), ([mean.operand()?, var.operand()?], correction));
            running_mean.change(|mean| {
                running_var.change(|var| {
                    counter.change(|counter| backend.track([mean, var], batch, counter, momentum, flag.as_ref()))
                })
            })
        };
        let parameters = self.weight.iter().chain(&self.bias).map(Parameter::id).collect();
        self.waiting.add(&y, parameters, Box::new(change))?;
        Ok(Tensor::from_raw(y))
    }
}

/// The forward passes of a layer that normalises by `norm`.
macro_rules! forwards {
    ($name:ident, $shapes:literal, $ranks:expr, |$layer:ident| $norm:expr) => {
        impl $name {
            #[doc = concat!($shapes, ", same shape, in F32.")]
            ///
            /// # Errors
            /// [`Error::Shape`] when the channels do not fit, and in training when a channel has a single value.
            #[track_caller]
            pub fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<F32>> {
                self.with(x, None)
            }

            /// `relu(forward(x))` in the passes of the normalisation, forward and backward, where the device has a kernel for
            /// that (`bn_relu`, `fuse_relu` elsewhere).
            ///
            /// # Errors
            /// As [`forward`](Self::forward).
            #[track_caller]
            pub fn forward_relu<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<F32>> {
                self.with(x, Some(Relu { residual: None }))
            }

            /// `relu(forward(x) + residual)`, likewise (`bn_add_relu` elsewhere): the end of a residual block. `residual`
            /// broadcasts to the shape of `x`; in a region `x` is narrowed, and `residual` stays in the precision that it has.
            ///
            /// # Precision
            /// Normalised, added and cut off in F32, then rounded once, if at all; gradients are those of the operations one
            /// after the other.
            ///
            /// # Errors
            /// As [`forward`](Self::forward), and [`Error::Broadcast`] when the residual does not fit.
            #[track_caller]
            pub fn forward_add_relu<P: Float, R: Float>(
                &self,
                x: &Tensor<P>,
                residual: &Tensor<R>,
            ) -> Result<Tensor<F32>> {
                self.with(x, Some(Relu { residual: Some(&residual.to::<F32>()?.raw) }))
            }

            #[track_caller]
            fn with<P: Float>(&self, x: &Tensor<P>, after: Option<Relu<'_>>) -> Result<Tensor<F32>> {
                let $layer = self;
                $norm.normalized((stringify!($name), $shapes, $ranks), x, after)
            }
        }
    };
}
forwards!(BatchNorm2d, "`[N, C, H, W]`", 4..=4, |layer| layer);

macro_rules! of_other_shapes {
    ($(
        $(#[$doc:meta])*
        $name:ident, $shapes:literal, $ranks:expr;
    )*) => { $(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name(BatchNorm2d);

        impl $name {
            /// Weight 1, bias 0, running mean 0 and running variance 1 for each feature.
            pub fn new(features: usize, device: &Device) -> Result<Self> {
                BatchNorm2d::new(features, device).map(Self)
            }

            /// Added to the variance (1e-5 by default).
            pub fn eps(self, eps: f64) -> Self {
                Self(self.0.eps(eps))
            }

            /// Share of a batch in the running statistics (0.1 by default).
            pub fn momentum(self, momentum: f64) -> Self {
                Self(self.0.momentum(momentum))
            }

            /// Removes weight and bias.
            pub fn without_affine(self) -> Self {
                Self(self.0.without_affine())
            }

            /// Weight, one value for each feature.
            pub fn weight(&self) -> Option<&Parameter> {
                self.0.weight()
            }

            /// Bias, one value for each feature.
            pub fn bias(&self) -> Option<&Parameter> {
                self.0.bias()
            }

            /// Running mean of each feature.
            pub fn running_mean(&self) -> &Statistics {
                self.0.running_mean()
            }

            /// Running variance of each feature, divided by `n - 1`.
            pub fn running_var(&self) -> &Statistics {
                self.0.running_var()
            }
        }
        forwards!($name, $shapes, $ranks, |layer| layer.0);

        impl Module for $name {
            fn visit(&self, visitor: &mut Visitor<'_>) {
                self.0.visit(visitor);
            }
        }
    )* };
}
of_other_shapes! {
    /// [`BatchNorm2d`] of features or lines (`torch.nn.BatchNorm1d`); its state has the same names.
    BatchNorm1d, "`[N, C]` or `[N, C, L]`", 2..=3;
    /// [`BatchNorm2d`] of volumes (`torch.nn.BatchNorm3d`); its state has the same names.
    BatchNorm3d, "`[N, C, D, H, W]`", 5..=5;
}

impl Module for BatchNorm2d {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.field("weight", &self.weight);
        visitor.field("bias", &self.bias);
        visitor.field("running_mean", &self.running_mean);
        visitor.field("running_var", &self.running_var);
        visitor.field("num_batches_tracked", &self.num_batches_tracked);
        visitor.field("waiting", &self.waiting);
        visitor.field("mode", &self.mode);
    }
}

#[cfg(test)]
mod tests {
    use super::{BatchNorm1d, BatchNorm2d, BatchNorm3d};
    use crate::optim::Sgd;
    use crate::{Device, F16, F32, GradScaler, Module, Tensor};

    #[test]
    fn statistics_move_with_the_pass_of_a_retained_graph_that_is_stepped_with() {
        let device = Device::cpu();
        let norm = BatchNorm1d::new(1, &device).unwrap();
        let mut optimizer = Sgd::new(norm.parameters(), 0.1);
        let mut scaler = GradScaler::builder().init_scale(2f32.powi(127)).build(&device).unwrap();
        let x = Tensor::<F32>::from_vec(vec![1.0, 5.0], [2, 1], &device).unwrap();
        let loss = (norm.forward(&x).unwrap().sqr().unwrap().sum_all().unwrap() * 64.0).unwrap();
        let mut moved = Vec::new();
        for _ in 0..3 {
            let grads = scaler.scale(&loss).unwrap().backward_retained().unwrap();
            scaler.step(&mut optimizer, grads).unwrap();
            moved.push(norm.running_mean().tensor().to_vec().unwrap()[0]);
            scaler.update_to(1024.0).unwrap();
        }
        // Skipped, then taken, then taken again: the mean of 3 enters once, with a tenth of its weight.
        assert_eq!(moved[0], 0.0);
        assert!((moved[1] - 0.3).abs() < 1e-6 && moved[2] == moved[1], "{moved:?}");
    }

    #[test]
    fn features_and_lines_are_images() {
        let device = Device::cpu();
        let (line, image) = (BatchNorm1d::new(3, &device).unwrap(), BatchNorm2d::new(3, &device).unwrap());
        let x = Tensor::<F32>::from_fn([4, 3, 5], |i| (i[0] * 7 + i[1] * 3 + i[2] * i[2]) as f32, &device).unwrap();
        let x16 = x.to::<F16>().unwrap();
        let (a, b) = (line.forward(&x16).unwrap(), image.forward(&x16.unsqueeze(2).unwrap()).unwrap());
        assert_eq!((a.dims(), a.to_vec().unwrap()), ([4, 3, 5].as_slice(), b.to_vec().unwrap()));
        line.commit().unwrap();
        image.commit().unwrap();
        assert_ne!(line.running_mean().tensor().to_vec().unwrap(), [0.0; 3]);
        assert_eq!(line.state().names().collect::<Vec<_>>(), image.state().names().collect::<Vec<_>>());
        line.eval();
        image.eval();
        let features = x.select(2, 1).unwrap();
        let wide = features.reshape([4, 3, 1, 1]).unwrap();
        let (a, b) = (line.forward(&features).unwrap(), image.forward(&wide).unwrap());
        assert_eq!((a.dims(), a.to_vec().unwrap()), ([4, 3].as_slice(), b.to_vec().unwrap()));
        let error = line.forward(&wide).unwrap_err().to_string();
        assert_eq!(error, "BatchNorm1d: the input must have shape [N, 3] or [N, 3, L], found [4, 3, 1, 1]");
        line.train();
        let error = line.forward(&features.narrow(0, 0, 1).unwrap()).unwrap_err().to_string();
        let expected = "the input must have shape [N, C, ..] with more than one value per channel, found [1, 3]";
        assert_eq!(error, format!("BatchNorm1d: {expected}"));
    }

    #[test]
    fn volumes_are_images() {
        let device = Device::cpu();
        let (volume, image) = (BatchNorm3d::new(3, &device).unwrap(), BatchNorm2d::new(3, &device).unwrap());
        let x =
            Tensor::<F32>::from_fn([2, 3, 2, 2, 5], |i| (i[0] * 7 + i[2] * 3 + i[4] * i[4]) as f32, &device).unwrap();
        let (a, b) = (volume.forward(&x).unwrap(), image.forward(&x.reshape([2, 3, 4, 5]).unwrap()).unwrap());
        assert_eq!((a.dims(), a.to_vec().unwrap()), ([2, 3, 2, 2, 5].as_slice(), b.to_vec().unwrap()));
        let error = volume.forward(&b).unwrap_err().to_string();
        assert_eq!(error, "BatchNorm3d: the input must have shape [N, 3, D, H, W], found [2, 3, 4, 5]");
    }

    #[test]
    fn relu_and_residual_follow_on_every_shape() {
        let device = Device::cpu();
        let wave = |i: &[usize]| (i.iter().sum::<usize>() * 37 % 11) as f32 / 8.0 - 0.5;
        macro_rules! agrees {
            ($layer:ident, $shape:expr, $added:expr) => {
                let norm = $layer::new(3, &device).unwrap();
                for training in [true, false] {
                    if !training {
                        norm.eval();
                    }
                    let x = Tensor::<F32>::from_fn($shape, wave, &device).unwrap().tracked();
                    let added = Tensor::<F32>::from_fn($added, wave, &device).unwrap().tracked();
                    let results = |y: [Tensor<F32>; 2]| {
                        let [relu, sum] = y;
                        let grads = (&relu.sqr().unwrap() * &sum).unwrap().sum_all().unwrap().backward().unwrap();
                        let of = |t: &Tensor<F32>| grads.get(t).unwrap().unwrap().to_vec().unwrap();
                        [relu.to_vec().unwrap(), sum.to_vec().unwrap(), of(&x), of(&added)]
                    };
                    let fused = [norm.forward_relu(&x), norm.forward_add_relu(&x, &added)].map(Result::unwrap);
                    let plain = || norm.forward(&x).unwrap();
                    let parts = [plain().relu(), (plain() + &added).unwrap().relu()].map(Result::unwrap);
                    assert_eq!(results(fused), results(parts), "{} {training}", stringify!($layer));
                }
            };
        }
        agrees!(BatchNorm1d, [4, 3], [4, 3]);
        agrees!(BatchNorm1d, [4, 3, 5], [3, 1]);
        agrees!(BatchNorm3d, [2, 3, 2, 2, 5], [2, 3, 1, 1, 1]);
    }

    #[test]
    fn an_empty_batch_changes_nothing() {
        let device = Device::cpu();
        let norm = BatchNorm2d::new(2, &device).unwrap();
        for shape in [[0, 2, 3, 3], [4, 2, 0, 3]] {
            let x = Tensor::<F32>::zeros(shape, &device).unwrap().tracked();
            let forwards = [norm.forward(&x), norm.forward_relu(&x), norm.forward_add_relu(&x, &x)];
            for y in forwards.map(Result::unwrap) {
                assert_eq!(y.dims(), shape);
                let grads = y.sum_all().unwrap().backward().unwrap();
                assert_eq!(grads.get(&x).unwrap().unwrap().dims(), shape);
                for p in norm.parameters() {
                    assert_eq!(grads.get(&p).unwrap().unwrap().to_vec().unwrap(), [0.0; 2]);
                }
                norm.commit().unwrap();
            }
        }
        assert_eq!(norm.running_mean().tensor().to_vec().unwrap(), [0.0; 2]);
        assert_eq!(norm.running_var().tensor().to_vec().unwrap(), [1.0; 2]);
    }
}
