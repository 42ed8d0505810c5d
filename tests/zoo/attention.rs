//! Transformers with windows, tied weights, adapters, relative positions; graphs.

use crate::{agree, falls, train};
use amp::nn::*;
use amp::optim::*;
use amp::prelude::*;

#[derive(Module)]
struct WindowAttention {
    qkv: Linear,
    proj: Linear,
    bias_table: Parameter,
    window: usize,
    heads: usize,
}

impl WindowAttention {
    fn relative_index(&self, d: &Device) -> Result<Tensor<I64>> {
        let w = self.window;
        Tensor::from_fn(
            [w * w * w * w],
            |i| {
                let (a, b) = (i[0] / (w * w), i[0] % (w * w));
                let (dy, dx) = (a / w + w - 1 - b / w, a % w + w - 1 - b % w);
                (dy * (2 * w - 1) + dx) as i64
            },
            d,
        )
    }

    #[autocast(P)]
    fn forward<P: AutocastPrecision>(&self, x: &Tensor<F32>, mask: Option<&Tensor<Bool>>) -> Result<Tensor<F32>> {
        let &[b, n, c] = x.dims() else {
            return Err(Error::argument("WindowAttention", "x", "3 dimensions", x.rank()));
        };
        let qkv = self.qkv.forward(x)?.reshape([b, n, 3, self.heads, c / self.heads])?.permute([2, 0, 3, 1, 4])?;
        let [q, k, v] = [qkv.select(0, 0)?, qkv.select(0, 1)?, qkv.select(0, 2)?];
        let q = (q * (c as f64 / self.heads as f64).powf(-0.5))?;
        let attn = q.matmul(&k.transpose(-2, -1)?)?;
        let index = self.relative_index(x.device())?;
        let bias = self.bias_table.tensor().index_select(0, &index)?.reshape([n, n, self.heads])?.permute([2, 0, 1])?;
        let mut attn = (attn + bias.unsqueeze(0)?)?;
        if let Some(mask) = mask {
            attn = attn.masked_fill(mask, Fill::NegInf)?;
        }
        let attn = attn.softmax(-1)?;
        let y = attn.matmul(&v)?.transpose(1, 2)?.reshape([b, n, c])?;
        self.proj.forward(&y)
    }
}

fn window_partition<P: Float>(x: &Tensor<P>, w: usize) -> Result<Tensor<P>> {
    let &[b, h, ww, c] = x.dims() else { unreachable!() };
    x.reshape([b, h / w, w, ww / w, w, c])?.permute([0, 1, 3, 2, 4, 5])?.reshape([b * (h / w) * (ww / w), w * w, c])
}

fn window_reverse<P: Float>(x: &Tensor<P>, w: usize, h: usize, ww: usize) -> Result<Tensor<P>> {
    let c = x.size(-1)?;
    let b = x.dims()[0] / (h / w * (ww / w));
    x.reshape([b, h / w, ww / w, w, w, c])?.permute([0, 1, 3, 2, 4, 5])?.reshape([b, h, ww, c])
}

#[derive(Module)]
struct SwinBlock {
    norm1: LayerNorm,
    attn: WindowAttention,
    norm2: LayerNorm,
    mlp: Sequential<(Linear, Gelu, Linear)>,
    shift: usize,
}

impl SwinBlock {
    #[autocast(P)]
    fn forward<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let (h, w) = (x.dims()[1], x.dims()[2]);
        let s = self.shift as isize;
        let y = self.norm1.forward(x)?;
        let y = if s > 0 { y.roll([-s, -s], [1, 2])? } else { y };
        let windows = window_partition(&y, self.attn.window)?;
        let y = self.attn.forward::<P>(&windows, None)?;
        let y = window_reverse(&y, self.attn.window, h, w)?;
        let y = if s > 0 { y.roll([s, s], [1, 2])? } else { y };
        let x = (x + y)?;
        &x + &self.mlp.forward(&self.norm2.forward(&x)?)?
    }
}

fn swin<P: AutocastPrecision>(scaled: bool) -> Result<Vec<f32>> {
    let d = Device::best();
    let _turn = crate::seed(1);
    let block = |shift| -> Result<SwinBlock> {
        Ok(SwinBlock {
            norm1: LayerNorm::new(8, &d)?,
            attn: WindowAttention {
                qkv: Linear::new(8, 24, &d)?,
                proj: Linear::new(8, 8, &d)?,
                bias_table: init::normal([9, 2], 0.0, 0.02, &d)?,
                window: 2,
                heads: 2,
            },
            norm2: LayerNorm::new(8, &d)?,
            mlp: Sequential((Linear::new(8, 16, &d)?, Gelu, Linear::new(16, 8, &d)?)),
            shift,
        })
    };
    let blocks = vec![block(0)?, block(1)?];
    let mut opt = AdamW::new(blocks.parameters(), 1e-2);
    let x = Tensor::<F32>::randn([2, 4, 4, 8], &d)?;
    train(&mut opt, scaled, 8, |_| blocks.iter().try_fold(x.clone(), |x, b| b.forward::<P>(&x))?.mse_loss(&x))
}

#[test]
fn swin_learns() -> Result<()> {
    let a = swin::<F32>(false)?;
    falls("swin", &a);
    agree("swin bf16", &a, &swin::<BF16>(false)?, 0.05);
    agree("swin f16", &a, &swin::<F16>(true)?, 0.01);
    Ok(())
}

// Bert: tied weights, token types, padding, masked tokens
#[derive(Module)]
struct Bert {
    words: Embedding,
    types: Embedding,
    positions: Embedding,
    norm: LayerNorm,
    drop: Dropout,
    attn: MultiHeadAttention,
    norm2: LayerNorm,
    transform: Linear,
    bias: Parameter,
}

impl Bert {
    #[autocast(bf16)]
    fn forward(&self, tokens: &Tensor<I64>, types: &Tensor<I64>) -> Result<Tensor<F32>> {
        let (n, t) = (tokens.dims()[0], tokens.dims()[1]);
        let pos = Tensor::<I64>::arange(0, t, tokens.device())?.unsqueeze(0)?.expand([n, t])?;
        let x = (self.words.forward(tokens)? + self.types.forward(types)?)?;
        let x = (x + self.positions.forward(&pos)?)?;
        let x = self.drop.forward(&self.norm.forward(&x)?)?;
        let keep = tokens.ne(0)?.reshape([n, 1, 1, t])?;
        let x = self.norm2.forward(&(&x + &self.attn.forward(&x, &x, &x, Some(&keep))?)?)?;
        let h = self.transform.forward(&x)?.gelu()?;
        let logits = h.matmul(&self.words.weight().tensor().t()?)?;
        logits + &self.bias.tensor()
    }
}

#[test]
fn bert_fills_in_words() -> Result<()> {
    let d = Device::best();
    let _turn = crate::seed(2);
    let net = Bert {
        words: Embedding::new(12, 8, &d)?,
        types: Embedding::new(2, 8, &d)?,
        positions: Embedding::new(6, 8, &d)?,
        norm: LayerNorm::new([8], &d)?,
        drop: Dropout::new(0.1),
        attn: MultiHeadAttention::new(8, 2, &d)?,
        norm2: LayerNorm::new([8], &d)?,
        transform: Linear::new(8, 8, &d)?,
        bias: init::zeros(12, &d)?,
    };
    let (decay, no_decay): (Vec<_>, Vec<_>) =
        net.named_parameters().into_iter().partition(|(name, p)| p.dims().len() > 1 && !name.contains("norm"));
    let mut opt = AdamW::new(decay.into_iter().map(|(_, p)| p), 1e-2)
        .weight_decay(0.1)
        .group(no_decay.into_iter().map(|(_, p)| p))
        .weight_decay(0.0);
    let tokens = Tensor::<I64>::from_vec(vec![3, 4, 5, 11, 0, 0, 6, 7, 8, 9, 10, 11], [2, 6], &d)?;
    let types = tokens.gt(7)?.to::<I64>()?;
    let labels = Tensor::<I64>::from_vec(vec![-100, 4, -100, 3, -100, -100, -100, 7, -100, 9, 10, -100], [2, 6], &d)?;
    let losses = train(&mut opt, false, 10, |_| {
        net.forward(&tokens, &types)?.reshape([12, 12])?.cross_entropy(&labels.reshape(12)?)
    })?;
    falls("bert", &losses);
    Ok(())
}

// LoRA: the base is frozen
#[derive(Module)]
struct Lora {
    base: Linear,
    a: Parameter,
    b: Parameter,
    scale: f32,
}

impl Lora {
    fn new(base: Linear, rank: usize, d: &Device) -> Result<Self> {
        base.set_trainable(false);
        let [o, i] = *base.weight().dims() else { unreachable!() };
        Ok(Self { base, a: init::normal([rank, i], 0.0, 0.1, d)?, b: init::zeros([o, rank], d)?, scale: 2.0 })
    }

    #[autocast(f16)]
    fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let low = x.matmul(&self.a.tensor().t()?)?.matmul(&self.b.tensor().t()?)?;
        self.base.forward(x)? + &(low * self.scale)?
    }
}

#[test]
fn adapters_train_and_the_base_stays() -> Result<()> {
    let d = Device::best();
    let _turn = crate::seed(3);
    let net = Lora::new(Linear::new(6, 4, &d)?, 2, &d)?;
    let before = net.base.weight().to_vec()?;
    let mut opt = Adam::new(net.parameters().into_iter().filter(Parameter::is_trainable), 2e-2);
    let (x, y) = (Tensor::<F32>::randn([8, 6], &d)?, Tensor::<F32>::randn([8, 4], &d)?);
    falls("lora", &train(&mut opt, true, 10, |_| net.forward(&x)?.mse_loss(&y))?);
    assert_eq!(net.base.weight().to_vec()?, before);
    assert_ne!(net.b.to_vec()?, vec![0.0; 8]);
    Ok(())
}

// graphs: convolution and attention over edges
#[derive(Module)]
struct Gat {
    lin: Linear,
    src: Parameter,
    dst: Parameter,
    out: Linear,
}

impl Gat {
    #[autocast(P)]
    fn forward<P: AutocastPrecision>(
        &self,
        x: &Tensor<F32>,
        from: &Tensor<I64>,
        to: &Tensor<I64>,
    ) -> Result<Tensor<F32>> {
        let n = x.dims()[0];
        let h = self.lin.forward(x)?;
        let a = (&h * &self.src.tensor())?.sum(-1, false)?;
        let b = (&h * &self.dst.tensor())?.sum(-1, false)?;
        let e = (a.index_select(0, from)? + b.index_select(0, to)?)?.leaky_relu(0.2)?;
        let e = (&e - &e.max_all()?.detach())?.exp()?;
        let total = Tensor::<F32>::zeros(n, x.device())?.index_add(0, to, &e)?;
        let alpha = (e / total.index_select(0, to)?)?;
        let messages = (h.index_select(0, from)? * alpha.unsqueeze(-1)?)?;
        let h = Tensor::<F32>::zeros([n, h.dims()[1]], x.device())?.index_add(0, to, &messages)?;
        self.out.forward(&h.elu(1.0)?)
    }
}

fn gat<P: AutocastPrecision>(scaled: bool) -> Result<Vec<f32>> {
    let d = Device::best();
    let _turn = crate::seed(4);
    let net = Gat {
        lin: Linear::new(5, 8, &d)?,
        src: init::normal(8, 0.0, 0.1, &d)?,
        dst: init::normal(8, 0.0, 0.1, &d)?,
        out: Linear::new(8, 3, &d)?,
    };
    let mut opt = Adam::new(net.parameters(), 1e-2);
    let x = Tensor::<F32>::randn([6, 5], &d)?;
    let from = Tensor::<I64>::from_vec(vec![0, 1, 2, 3, 4, 5, 0, 2, 4, 1], 10, &d)?;
    let to = Tensor::<I64>::from_vec(vec![1, 2, 3, 4, 5, 0, 0, 0, 1, 4], 10, &d)?;
    let y = Tensor::<I64>::from_vec(vec![0, 1, 2, 0, 1, 2], 6, &d)?;
    train(&mut opt, scaled, 8, |_| net.forward::<P>(&x, &from, &to)?.cross_entropy(&y))
}

#[test]
fn graphs_learn() -> Result<()> {
    let a = gat::<F32>(false)?;
    falls("gat", &a);
    agree("gat bf16", &a, &gat::<BF16>(false)?, 0.05);
    agree("gat f16", &a, &gat::<F16>(true)?, 0.01);
    Ok(())
}

/// A block of a small GPT with dropout of attention weights, of what attention adds and of what the feed-forward part adds.
#[derive(Module)]
struct DroppedBlock {
    ln_1: LayerNorm,
    c_attn: Linear,
    c_proj: Linear,
    ln_2: LayerNorm,
    fc: Linear,
    proj: Linear,
    drop: Dropout,
    heads: usize,
    dropout: f64,
}

impl DroppedBlock {
    fn new(width: usize, heads: usize, dropout: f64, d: &Device) -> Result<Self> {
        Ok(Self {
            ln_1: LayerNorm::new([width], d)?,
            c_attn: Linear::new(width, 3 * width, d)?,
            c_proj: Linear::new(width, width, d)?,
            ln_2: LayerNorm::new([width], d)?,
            fc: Linear::new(width, 4 * width, d)?,
            proj: Linear::new(4 * width, width, d)?,
            drop: Dropout::new(dropout),
            heads,
            dropout,
        })
    }

    #[autocast(P)]
    fn forward<P: AutocastPrecision>(&self, x: &Tensor<F32>, training: bool) -> Result<Tensor<F32>> {
        let &[b, t, c] = x.dims() else { unreachable!("sequences") };
        let qkv = self.c_attn.forward(&self.ln_1.forward(x)?)?.chunk(3, 2)?;
        let split = |x: &Tensor<_>| x.reshape([b, t, self.heads, c / self.heads])?.transpose(1, 2);
        let (q, k, v) = (split(&qkv[0])?, split(&qkv[1])?, split(&qkv[2])?);
        let dropout = if training { self.dropout } else { 0.0 };
        let options = amp::AttentionOptions::new().causal(true).dropout(dropout);
        let y = q.scaled_dot_product_attention(&k, &v, None, options)?;
        let y = self.c_proj.forward(&y.transpose(1, 2)?.contiguous()?.reshape([b, t, c])?)?;
        let x = (x + self.drop.forward(&y)?)?;
        let fed = self.proj.forward(&self.fc.forward(&self.ln_2.forward(&x)?)?.gelu()?)?;
        x + self.drop.forward(&fed)?
    }
}

fn dropped_losses<P: AutocastPrecision>(scaled: bool) -> Result<Vec<f32>> {
    let (d, _turn) = (Device::best(), crate::seed(17));
    let block = DroppedBlock::new(16, 4, 0.1, &d)?;
    let x = Tensor::<F32>::randn([4, 6, 16], &d)?;
    let target = (&x * 0.5)?;
    let mut opt = AdamW::new(block.parameters(), 1e-2);
    let losses = train(&mut opt, scaled, 12, |_| block.forward::<P>(&x, true)?.mse_loss(&target))?;
    block.eval();
    let [a, b] = [block.forward::<P>(&x, false)?, block.forward::<P>(&x, false)?];
    assert!(a.equal(&b)?);
    Ok(losses)
}

#[test]
fn dropped_attention_learns_alike_in_all_precisions() -> Result<()> {
    let full = dropped_losses::<F32>(false)?;
    falls("dropped attention", &full);
    agree("dropped attention, bf16", &full, &dropped_losses::<BF16>(false)?, 0.05);
    agree("dropped attention, f16", &full, &dropped_losses::<F16>(true)?, 0.02);
    Ok(())
}
