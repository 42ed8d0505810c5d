//! Parameters of one's own, used as the tensors that they are.

use amp::nn::*;
use amp::prelude::*;

#[derive(Module)]
struct Tied {
    embedding: Embedding,
    mix: Parameter,
    gain: Parameter,
}

impl Tied {
    fn new() -> Result<Self> {
        let device = Device::cpu();
        Ok(Self {
            embedding: Embedding::new(6, 4, &device)?,
            mix: Parameter::new(&Tensor::randn([4, 8], &device)?)?,
            gain: Parameter::new(&Tensor::randn([4], &device)?)?,
        })
    }

    #[autocast(bf16)]
    fn logits(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let gate = self.mix.narrow(1, 0, 4)?.t()?;
        let h = (x.matmul(&gate)? * (1.0 + &self.gain)?.unsqueeze(0)?)?;
        h.matmul(&self.embedding.weight().t()?)
    }

    fn logits_by_hand(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let gate = self.mix.tensor().narrow(1, 0, 4)?.t()?;
        let h = x.to::<BF16>()?.matmul(&gate.to::<BF16>()?)?;
        let h = (h.to::<F32>()? * (1.0 + self.gain.tensor())?.unsqueeze(0)?)?;
        h.to::<BF16>()?.matmul(&self.embedding.weight().tensor().t()?.to::<BF16>()?)?.to()
    }

    #[autocast(bf16)]
    fn weighted(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let gain = &self.gain;
        let shares = gain.softmax(-1)?.reshape([1, self.gain.dims()[0]])?;
        let rows = self.mix.relu()?.chunk(2, 1)?;
        (x.matmul(&rows[1])? * shares)? - gain
    }

    fn weighted_by_hand(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let gain = self.gain.tensor();
        let shares = gain.softmax(-1)?.reshape([1, 4])?;
        let rows = self.mix.tensor().relu()?.chunk(2, 1)?;
        (x.to::<BF16>()?.matmul(&rows[1].to::<BF16>()?)?.to::<F32>()? * shares)? - gain
    }
}

/// Values and the gradients of all parameters agree bit for bit.
fn agree(model: &Tied, got: &Tensor<F32>, expected: &Tensor<F32>, reached: usize) -> Result<()> {
    assert_eq!(got.to_vec()?, expected.to_vec()?);
    let (got, expected) = (got.sqr()?.mean_all()?.backward()?, expected.sqr()?.mean_all()?.backward()?);
    let mut found = 0;
    for parameter in model.parameters() {
        let (got, expected) = (got.get(&parameter)?, expected.get(&parameter)?);
        found += usize::from(got.is_some());
        assert_eq!(got.map(|grad| grad.to_vec()).transpose()?, expected.map(|grad| grad.to_vec()).transpose()?);
    }
    assert_eq!(found, reached);
    Ok(())
}

#[test]
fn views_of_parameters_run_and_train_as_their_tensors_do() -> Result<()> {
    let (model, x) = (Tied::new()?, Tensor::randn([3, 4], &Device::cpu())?);
    agree(&model, &model.logits(&x)?, &model.logits_by_hand(&x)?, 3)?;
    agree(&model, &model.weighted(&x)?, &model.weighted_by_hand(&x)?, 2)
}

/// Outside of regions too.
fn penalty(model: &Tied) -> Result<Tensor<F32>> {
    let mut sum = Tensor::zeros([], &Device::cpu())?;
    for parameter in model.parameters() {
        sum = (sum + parameter.sqr()?.sum_all()?)?;
    }
    sum * 0.5
}

#[test]
fn the_gradient_of_half_a_square_is_the_weight() -> Result<()> {
    let model = Tied::new()?;
    let grads = penalty(&model)?.backward()?;
    for parameter in model.parameters() {
        assert_eq!(grads.get(&parameter)?.map(|grad| grad.to_vec()).transpose()?, Some(parameter.to_vec()?));
    }
    let gain = &model.gain;
    assert_eq!((-gain)?.to_vec()?, (0.0 - gain)?.to_vec()?);
    assert_eq!((gain / 2.0)?.to_vec()?, (gain - (gain * 0.5)?)?.to_vec()?);
    Ok(())
}
