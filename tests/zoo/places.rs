//! Models that sample, shuffle and resize: spatial transformers, volumes, super-resolution, bags of words.

use crate::{agree, falls, seed, train};
use amp::nn::*;
use amp::optim::*;
use amp::prelude::*;
use amp::{BagMode, GridOptions};

#[derive(Module)]
struct SpatialTransformer {
    localization: Sequential<(Conv2d, MaxPool2d, Relu, Flatten)>,
    regress: Sequential<(Linear, Relu, Linear)>,
    classify: Sequential<(Conv2d, LocalResponseNorm, Relu, AdaptiveAvgPool2d, Flatten, Linear)>,
}

impl SpatialTransformer {
    fn new(d: &Device) -> Result<Self> {
        let net = Self {
            localization: Sequential((Conv2d::new(1, 4, 3, d)?, MaxPool2d::new(2), Relu, Flatten)),
            regress: Sequential((Linear::new(4 * 3 * 3, 8, d)?, Relu, Linear::new(8, 6, d)?)),
            classify: Sequential((
                Conv2d::new(1, 8, 3, d)?,
                LocalResponseNorm::new(3),
                Relu,
                AdaptiveAvgPool2d::new(2),
                Flatten,
                Linear::new(8 * 4, 3, d)?,
            )),
        };
        let last = &net.regress.0.2;
        last.weight().set(&Tensor::zeros([6, 8], d)?)?;
        last.bias().expect("a bias").set(&Tensor::from_vec(vec![1.0, 0.0, 0.0, 0.0, 1.0, 0.0], [6], d)?)?;
        Ok(net)
    }

    #[autocast(P)]
    fn forward<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let n = x.dims()[0];
        let theta = self.regress.forward(&self.localization.forward(x)?)?.reshape([n, 2, 3])?;
        let grid = theta.affine_grid([8, 8], false)?;
        let straight = x.grid_sample(&grid, GridOptions::default())?;
        self.classify.forward(&straight)
    }
}

fn transformer<P: AutocastPrecision>(scaled: bool) -> Result<Vec<f32>> {
    let _guard = seed(61);
    let d = Device::best();
    let net = SpatialTransformer::new(&d)?;
    let x = Tensor::<F32>::randn([12, 1, 8, 8], &d)?;
    let labels = Tensor::<I64>::from_vec((0..12).map(|i| i % 3).collect(), [12], &d)?;
    let mut opt = AdamW::new(net.parameters(), 5e-3);
    train(&mut opt, scaled, 12, |_| net.forward::<P>(&x)?.cross_entropy(&labels))
}

#[test]
fn a_spatial_transformer_learns() -> Result<()> {
    let [f32, bf16, f16] = [transformer::<F32>(false)?, transformer::<BF16>(false)?, transformer::<F16>(true)?];
    falls("spatial transformer", &f16);
    agree("spatial transformer in F16", &f32, &f16, 0.05);
    agree("spatial transformer in BF16", &f32, &bf16, 0.1);
    Ok(())
}

#[derive(Module)]
struct UNet3d {
    down: Sequential<(Conv3d, BatchNorm3d, Relu)>,
    bottom: Sequential<(Conv3d, BatchNorm3d, Relu)>,
    up: ConvTranspose3d,
    join: Sequential<(Conv3d, Dropout3d, Relu)>,
    head: Conv3d,
}

impl UNet3d {
    fn new(d: &Device) -> Result<Self> {
        Ok(Self {
            down: Sequential((Conv3d::new(1, 4, 3, d)?.padding(1), BatchNorm3d::new(4, d)?, Relu)),
            bottom: Sequential((Conv3d::new(4, 8, 3, d)?.padding(1), BatchNorm3d::new(8, d)?, Relu)),
            up: ConvTranspose3d::new(8, 4, 2, d)?.stride(2),
            join: Sequential((Conv3d::new(12, 4, 3, d)?.padding(1), Dropout3d::new(0.0), Relu)),
            head: Conv3d::new(4, 2, 1, d)?,
        })
    }

    #[autocast(P)]
    fn forward<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let skip = self.down.forward(x)?;
        let deep = self.bottom.forward(&skip.max_pool3d(2)?)?;
        let up = self.up.forward(&deep)?;
        let smooth = deep.upsample_trilinear3d([4, 4, 4], true)?.narrow(1, 0, 4)?;
        let joined = Tensor::cat(&[&skip, &up, &smooth], 1)?;
        self.head.forward(&self.join.forward(&joined)?)
    }
}

fn volumes<P: AutocastPrecision>(scaled: bool) -> Result<Vec<f32>> {
    let _guard = seed(62);
    let d = Device::best();
    let net = UNet3d::new(&d)?;
    let x = Tensor::<F32>::randn([2, 1, 4, 4, 4], &d)?;
    let labels = x.select(1, 0)?.gt(0.0)?.to::<I64>()?;
    let mut opt = Adam::new(net.parameters(), 1e-2);
    train(&mut opt, scaled, 10, |_| {
        let logits = net.forward::<P>(&x)?.permute([0, 2, 3, 4, 1])?.reshape((.., 2))?;
        logits.cross_entropy(&labels.flatten(0, -1)?)
    })
}

#[test]
fn a_unet_of_volumes_learns() -> Result<()> {
    let [f32, bf16, f16] = [volumes::<F32>(false)?, volumes::<BF16>(false)?, volumes::<F16>(true)?];
    falls("volumes", &f16);
    agree("volumes in F16", &f32, &f16, 0.05);
    agree("volumes in BF16", &f32, &bf16, 0.1);
    Ok(())
}

#[derive(Module)]
struct SuperResolution {
    first: Conv2d,
    mixed: Sequential<(Conv2d, ChannelShuffle, Conv2d)>,
    last: Sequential<(Conv2d, PixelShuffle)>,
}

impl SuperResolution {
    #[autocast(f16)]
    fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let &[_, _, height, width] = x.dims() else { return Err(Error::argument("x", "x", "an image", x.rank())) };
        let rough = x.upsample_bicubic2d([2 * height, 2 * width], false)?;
        let h = self.first.forward(x)?.tanh()?;
        let h = (self.mixed.forward(&h)?.relu()? + &h)?;
        self.last.forward(&h)? + rough
    }
}

#[test]
fn super_resolution_learns() -> Result<()> {
    let _guard = seed(63);
    let d = Device::best();
    let net = SuperResolution {
        first: Conv2d::new(1, 8, 3, &d)?.padding(1),
        mixed: Sequential((
            Conv2d::grouped(8, 8, 1, 2, &d)?,
            ChannelShuffle::new(2),
            Conv2d::grouped(8, 8, 3, 8, &d)?.padding(1),
        )),
        last: Sequential((Conv2d::new(8, 4, 3, &d)?.padding(1), PixelShuffle::new(2))),
    };
    let large = Tensor::<F32>::randn([4, 1, 12, 12], &d)?;
    let small = large.avg_pool2d(2)?;
    let mut opt = Adam::new(net.parameters(), 5e-3);
    let losses = train(&mut opt, true, 12, |_| net.forward(&small)?.mse_loss(&large))?;
    falls("super-resolution", &losses);
    Ok(())
}

#[derive(Module)]
struct Recommender {
    words: EmbeddingBag,
    user: Linear,
    meets: Bilinear,
    rest: Linear,
}

impl Recommender {
    #[autocast(bf16)]
    fn forward(&self, words: &Tensor<I64>, offsets: &Tensor<I64>, user: &Tensor<F32>) -> Result<Tensor<F32>> {
        let text = self.words.forward(words, Some(offsets))?;
        let user = self.user.forward(user)?.relu()?;
        let met = self.meets.forward(&text, &user)?;
        let choice = met.gumbel_softmax(1.0, false, -1)?;
        self.rest.forward(&choice)? + self.meets.forward(&text, &user)?.sum(-1, true)?
    }
}

#[test]
fn a_recommender_of_bags_learns() -> Result<()> {
    let _guard = seed(64);
    let d = Device::best();
    let net = Recommender {
        words: EmbeddingBag::new(20, 6, &d)?.mode(BagMode::Mean),
        user: Linear::new(5, 4, &d)?,
        meets: Bilinear::new(6, 4, 3, &d)?,
        rest: Linear::new(3, 1, &d)?,
    };
    let words = Tensor::<I64>::from_vec((0..24).map(|i| i * 7 % 20).collect(), [24], &d)?;
    let offsets = Tensor::from_vec(vec![0, 3, 9, 9, 12, 18], [6], &d)?;
    let user = Tensor::<F32>::randn([6, 5], &d)?;
    let target = Tensor::<F32>::from_vec(vec![1.0, -1.0, 0.5, 2.0, 0.0, -0.5], [6, 1], &d)?;
    let mut opt = AdamW::new(net.parameters(), 2e-2);
    let losses = train(&mut opt, false, 30, |_| net.forward(&words, &offsets, &user)?.mse_loss(&target))?;
    falls("recommender", &losses);
    Ok(())
}
