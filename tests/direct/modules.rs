//! Modules, whose types say what they narrow and what they can write.

use super::*;
use amp::nn::{
    BatchNorm2d, Conv2d, GroupNorm, Identity, LayerNorm, Linear, LogSoftmax, MaxPool2d, Relu, RmsNorm, Softmax,
};

#[derive(Module)]
struct Net {
    conv1: Conv2d,
    norm: BatchNorm2d,
    act: Relu,
    pool: MaxPool2d,
    conv2: Conv2d,
    rows: LayerNorm,
    squares: RmsNorm,
    groups: GroupNorm,
    soft: Softmax,
    log: LogSoftmax,
    same: Identity,
    fc: Linear,
}

impl Net {
    fn new() -> Result<Self> {
        amp::manual_seed(3);
        let device = &Device::cpu();
        Ok(Self {
            conv1: Conv2d::new(2, 4, 3, device)?.padding(1),
            norm: BatchNorm2d::new(4, device)?,
            act: Relu,
            pool: MaxPool2d::new(2),
            conv2: Conv2d::new(4, 8, 3, device)?,
            rows: LayerNorm::new([8], device)?,
            squares: RmsNorm::new([8], device)?,
            groups: GroupNorm::new(2, 8, device)?,
            soft: Softmax::new(-1),
            log: LogSoftmax::new(-1),
            same: Identity,
            fc: Linear::new(8, 8, device)?,
        })
    }

    #[autocast(P)]
    fn conv_norm_relu_conv<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let h = self.norm.forward(&self.conv1.forward(x)?)?.relu()?;
        self.conv2.forward(&h)
    }

    fn conv_norm_relu_conv_by_hand<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let h = self.norm.forward(&self.conv1.forward(&x.to::<P>()?)?)?.relu()?;
        self.conv2.forward(&h.to::<P>()?)?.to()
    }

    #[autocast(P)]
    fn all_modules<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let h = self.norm.forward(&self.conv1.forward(x)?)?;
        let h = self.act.forward(&h)?;
        self.conv2.forward(&h)
    }

    /// `Relu` is seen through where rounding makes no zeros, which its gradient would take for zeros of the input.
    #[autocast(bf16)]
    fn all_modules_in_bf16(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let h = self.norm.forward(&self.conv1.forward(x)?)?;
        let h = self.act.forward(&h)?;
        self.conv2.forward(&h)
    }

    /// Which value of a window is the greatest is decided before rounding.
    #[autocast(P)]
    fn pooled<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let h = self.norm.forward(&self.conv1.forward(x)?)?;
        let h = self.pool.forward(&h)?;
        self.conv2.forward(&h)
    }

    fn pooled_by_hand<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let h = self.pool.forward(&self.norm.forward(&self.conv1.forward(&x.to::<P>()?)?)?)?;
        self.conv2.forward(&h.to::<P>()?)?.to()
    }

    fn all_modules_by_hand<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let h = self.act.forward(&self.norm.forward(&self.conv1.forward(&x.to::<P>()?)?)?)?;
        self.conv2.forward(&h.to::<P>()?)?.to()
    }

    #[autocast(P)]
    fn rows<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let mut h = x.clone();
        for _ in 0..2 {
            let n = self.rows.forward(&h)?;
            let n = self.fc.forward(&n)?;
            let n = if n.rank() == 2 { self.squares.forward(&n)? } else { self.rows.forward(&n)? };
            let n = self.fc.forward(&n)?;
            h = (h + self.fc.forward(&self.groups.forward(&n)?)?)?;
        }
        let h = self.fc.forward(&self.soft.forward(&h)?)?;
        self.fc.forward(&self.same.forward(&self.log.forward(&h)?)?)
    }

    fn rows_by_hand<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let mut h = x.clone();
        for _ in 0..2 {
            let n = self.fc.forward(&self.rows.forward(&h)?.to::<P>()?)?;
            let n = self.fc.forward(&self.squares.forward(&n)?.to::<P>()?)?;
            h = (h + self.fc.forward(&self.groups.forward(&n)?.to::<P>()?)?.to::<F32>()?)?;
        }
        let h = self.fc.forward(&self.soft.forward(&h)?.to::<P>()?)?;
        self.fc.forward(&self.log.forward(&h)?.to::<P>()?)?.to()
    }

    /// The sum needs the normalised value in F32, and so do those behind it.
    #[autocast(P)]
    fn residual<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let n = self.rows.forward(x)?;
        let m = self.fc.forward(&n)?;
        n + m
    }

    fn residual_by_hand<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let n = self.rows.forward(x)?;
        let m = self.fc.forward(&n.to::<P>()?)?;
        n + m.to::<F32>()?
    }

    /// One module narrows it, another does not.
    #[autocast(P)]
    fn both<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let n = self.rows.forward(x)?;
        let m = self.fc.forward(&n)?;
        self.soft.forward(&n)? + m
    }

    fn both_by_hand<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let n = self.rows.forward(x)?;
        let m = self.fc.forward(&n.to::<P>()?)?;
        self.soft.forward(&n)? + m.to::<F32>()?
    }
}

fn all<P: AutocastPrecision>() {
    let _turn = alone();
    let (a, b) = (Net::new().unwrap(), Net::new().unwrap());
    for mode in [true, false] {
        for net in [&a, &b] {
            if mode { net.train() } else { net.eval() }
        }
        compare(
            "conv, norm, relu, conv",
            &[&[2, 2, 8, 8]],
            1,
            |t| a.conv_norm_relu_conv::<P>(&t[0]),
            |t| b.conv_norm_relu_conv_by_hand::<P>(&t[0]),
        );
        let images: &[&[usize]] = &[&[2, 2, 8, 8]];
        compare("modules", images, 0, |t| a.all_modules::<P>(&t[0]), |t| b.all_modules_by_hand::<P>(&t[0]));
        if P::DTYPE == BF16::DTYPE {
            compare("modules", images, 1, |t| a.all_modules_in_bf16(&t[0]), |t| b.all_modules_by_hand::<P>(&t[0]));
        }
    }
    compare("pooled", &[&[2, 2, 8, 8]], 0, |t| a.pooled::<P>(&t[0]), |t| b.pooled_by_hand::<P>(&t[0]));
    compare("rows", &[&[4, 8]], 8, |t| a.rows::<P>(&t[0]), |t| b.rows_by_hand::<P>(&t[0]));
    compare("residual", &[&[4, 8]], 0, |t| a.residual::<P>(&t[0]), |t| b.residual_by_hand::<P>(&t[0]));
    compare("both", &[&[4, 8]], 0, |t| a.both::<P>(&t[0]), |t| b.both_by_hand::<P>(&t[0]));
}

#[test]
fn in_f16() {
    all::<F16>();
}

#[test]
fn in_bf16() {
    all::<BF16>();
}
