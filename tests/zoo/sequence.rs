//! Recurrent networks, encoders and decoders, generation with a cache.

use crate::{agree, falls, train};
use amp::nn::*;
use amp::optim::*;
use amp::prelude::*;

#[derive(Module)]
struct LanguageModel {
    table: Embedding,
    lstm: Lstm,
    drop: Dropout,
    out: Linear,
}
impl LanguageModel {
    #[autocast(P)]
    fn forward<P: AutocastPrecision>(
        &self,
        tokens: &Tensor<I64>,
        state: Option<&LstmState<P>>,
    ) -> Result<(Tensor<F32>, LstmState<P>)> {
        let x = self.drop.forward(&self.table.forward(tokens)?)?;
        let (h, state) = match state {
            Some(s) => self.lstm.forward_from(&x, s)?,
            None => self.lstm.forward(&x)?,
        };
        Ok((self.out.forward(&h)?, state))
    }
}
fn lm<P: AutocastPrecision>(scaled: bool) -> Result<Vec<f32>> {
    let d = Device::best();
    let _turn = crate::seed(1);
    let net = LanguageModel {
        table: Embedding::new(20, 8, &d)?,
        lstm: Lstm::stacked(8, 16, 2, false, &d)?,
        drop: Dropout::new(0.0),
        out: Linear::new(16, 20, &d)?,
    };
    let mut opt = Adam::new(net.parameters(), 1e-2);
    let text = Tensor::<I64>::from_fn([3, 13], |i| ((i[0] * 3 + i[1] * 2) % 20) as i64, &d)?;
    let (x, y) = (text.slice(1, ..12)?, text.slice(1, 1..)?);
    let mut carried: Option<LstmState<P>> = None;
    train(&mut opt, scaled, 8, |_| {
        let (logits, state) = net.forward::<P>(&x, carried.as_ref())?;
        carried = Some(LstmState { h: state.h.detach(), c: state.c.detach() });
        logits.reshape([36, 20])?.cross_entropy(&y.reshape([36])?)
    })
}
#[test]
fn lstm_language_model() -> Result<()> {
    let a = lm::<F32>(false)?;
    falls("lm", &a);
    agree("lm bf16", &a, &lm::<BF16>(false)?, 0.05);
    agree("lm f16", &a, &lm::<F16>(true)?, 0.01);
    Ok(())
}

#[derive(Module)]
struct Seq2Seq {
    src: Embedding,
    dst: Embedding,
    enc: Gru,
    dec: Gru,
    att: Linear,
    out: Linear,
}
impl Seq2Seq {
    #[autocast(f16)]
    fn forward(&self, src: &Tensor<I64>, dst: &Tensor<I64>, pad: &Tensor<Bool>) -> Result<Tensor<F32>> {
        let (memory, last) = self.enc.forward(&self.src.forward(src)?)?;
        let mut state = last;
        let mut outputs = vec![];
        let steps = dst.size(1)?;
        for t in 0..steps {
            let word = self.dst.forward(&dst.narrow(1, t, 1)?)?;
            let (h, next) = self.dec.forward_from(&word, &state)?;
            state = next;
            let query = self.att.forward(&h)?;
            let scores = query.matmul(&memory.transpose(1, 2)?)?;
            let scores = scores.masked_fill(&pad.unsqueeze(1)?, f32::NEG_INFINITY)?;
            let context = scores.softmax(-1)?.matmul(&memory)?;
            let both = Tensor::cat(&[&h, &context], -1)?;
            outputs.push(self.out.forward(&both)?);
        }
        Tensor::cat(&outputs.iter().collect::<Vec<_>>(), 1)
    }
}
#[test]
fn gru_seq2seq() -> Result<()> {
    let d = Device::best();
    let _turn = crate::seed(2);
    let net = Seq2Seq {
        src: Embedding::new(9, 8, &d)?,
        dst: Embedding::new(9, 8, &d)?,
        enc: Gru::new(8, 16, &d)?,
        dec: Gru::new(8, 16, &d)?,
        att: Linear::new(16, 16, &d)?,
        out: Linear::new(32, 9, &d)?,
    };
    let mut opt = Adam::new(net.parameters(), 2e-2);
    let src = Tensor::<I64>::from_fn([2, 5], |i| ((i[0] + 2 * i[1]) % 9) as i64, &d)?;
    let pad = src.eq(0)?;
    let dst = Tensor::<I64>::from_fn([2, 4], |i| ((3 * i[0] + i[1]) % 9) as i64, &d)?;
    let losses = train(&mut opt, true, 8, |_| {
        let logits = net.forward(&src, &dst, &pad)?;
        logits.flatten(0, 1)?.cross_entropy_with(&dst.flatten(0, -1)?, &CrossEntropy::new().ignore_index(0))
    })?;
    falls("seq2seq", &losses);
    Ok(())
}
use amp::CrossEntropy;

#[derive(Module)]
struct Ffn {
    a: Linear,
    b: Linear,
    drop: Dropout,
}
impl Ffn {
    #[autocast(P)]
    fn forward<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<P>> {
        self.drop.forward(&self.b.forward(&self.a.forward(x)?.relu()?)?)?.to::<P>()
    }
}
#[derive(Module)]
struct EncoderLayer {
    att: MultiHeadAttention,
    ffn: Ffn,
    n1: LayerNorm,
    n2: LayerNorm,
}
#[derive(Module)]
struct DecoderLayer {
    own: MultiHeadAttention,
    cross: MultiHeadAttention,
    ffn: Ffn,
    n1: LayerNorm,
    n2: LayerNorm,
    n3: LayerNorm,
}
#[derive(Module)]
struct Transformer {
    embed: Embedding,
    pos: Parameter,
    enc: Vec<EncoderLayer>,
    dec: Vec<DecoderLayer>,
    out: Linear,
}
impl Transformer {
    fn new(d: &Device, w: usize, heads: usize) -> Result<Self> {
        let ffn = || {
            Ok::<_, Error>(Ffn { a: Linear::new(w, 4 * w, d)?, b: Linear::new(4 * w, w, d)?, drop: Dropout::new(0.0) })
        };
        let norm = || LayerNorm::new([w], d);
        let att = || MultiHeadAttention::new(w, heads, d);
        Ok(Self {
            embed: Embedding::new(11, w, d)?,
            pos: Parameter::new(&(Tensor::<F32>::randn([16, w], d)? * 0.02)?)?,
            enc: vec![EncoderLayer { att: att()?, ffn: ffn()?, n1: norm()?, n2: norm()? }],
            dec: vec![DecoderLayer {
                own: att()?.causal(true),
                cross: att()?,
                ffn: ffn()?,
                n1: norm()?,
                n2: norm()?,
                n3: norm()?,
            }],
            out: Linear::new(w, 11, d)?,
        })
    }
    fn position(&self, tokens: &Tensor<I64>) -> Result<Tensor<F32>> {
        let x = self.embed.forward(tokens)?;
        x + &self.pos.tensor().slice(0, ..tokens.dims()[1])?
    }
    #[autocast(P)]
    fn forward<P: AutocastPrecision>(&self, src: &Tensor<I64>, dst: &Tensor<I64>) -> Result<Tensor<F32>> {
        let pad = src.ne(0)?.unsqueeze(1)?.unsqueeze(1)?;
        let mut m = self.position(src)?;
        for layer in &self.enc {
            let a = layer.att.forward(&m, &m, &m, Some(&pad))?;
            m = layer.n1.forward(&(m + a)?)?;
            m = layer.n2.forward(&(&m + &layer.ffn.forward::<P>(&m)?)?)?;
        }
        let mut h = self.position(dst)?;
        for layer in &self.dec {
            h = layer.n1.forward(&(&h + &layer.own.forward(&h, &h, &h, None)?)?)?;
            h = layer.n2.forward(&(&h + &layer.cross.forward(&h, &m, &m, Some(&pad))?)?)?;
            h = layer.n3.forward(&(&h + &layer.ffn.forward::<P>(&h)?)?)?;
        }
        self.out.forward(&h)
    }
}
fn transformer<P: AutocastPrecision>(scaled: bool) -> Result<Vec<f32>> {
    let d = Device::best();
    let _turn = crate::seed(3);
    let net = Transformer::new(&d, 16, 2)?;
    let mut opt = AdamW::new(net.parameters(), 5e-3).eps(1e-6);
    let src = Tensor::<I64>::from_vec(vec![1, 2, 3, 4, 5, 6, 7, 0, 0, 0], [2, 5], &d)?;
    let dst = Tensor::<I64>::from_vec(vec![1, 5, 4, 3, 2, 1, 7, 6, 9, 9], [2, 5], &d)?;
    let (x, y) = (dst.slice(1, ..4)?, dst.slice(1, 1..)?);
    train(&mut opt, scaled, 8, |_| {
        let logits = net.forward::<P>(&src, &x)?;
        logits.transpose(1, 2)?.cross_entropy(&y)
    })
}
#[test]
fn transformer_with_masks() -> Result<()> {
    let a = transformer::<F32>(false)?;
    falls("transformer", &a);
    agree("transformer bf16", &a, &transformer::<BF16>(false)?, 0.05);
    agree("transformer f16", &a, &transformer::<F16>(true)?, 0.01);
    Ok(())
}

#[derive(Module)]
struct LlamaBlock {
    norm: RmsNorm,
    q: Linear,
    k: Linear,
    v: Linear,
    o: Linear,
    norm2: RmsNorm,
    gate: Linear,
    up: Linear,
    down: Linear,
    #[module(skip)]
    heads: usize,
    #[module(skip)]
    kv_heads: usize,
}
fn rope_tables(len: usize, dim: usize, d: &Device) -> Result<(Tensor<F32>, Tensor<F32>)> {
    let pos = Tensor::<F32>::linspace(0.0, (len - 1) as f32, len, d)?;
    let freq = Tensor::<F32>::from_fn([dim / 2], |i| 10000f32.powf(-2.0 * i[0] as f32 / dim as f32), d)?;
    let angle = pos.unsqueeze(1)?.mul(&freq.unsqueeze(0)?)?;
    let angle = Tensor::cat(&[&angle, &angle], -1)?;
    Ok((angle.cos()?, angle.sin()?))
}
fn rotate_half<P: Float>(x: &Tensor<P>) -> Result<Tensor<P>> {
    let parts = x.chunk(2, -1)?;
    Tensor::cat(&[&(-&parts[1])?, &parts[0]], -1)
}
amp_policy! { llama { full: [rope] } }
#[amp_op(full)]
fn rope(x: &Tensor<F32>, cos: &Tensor<F32>, sin: &Tensor<F32>) -> Result<Tensor<F32>> {
    (x * cos)? + (rotate_half(x)? * sin)?
}
#[derive(Default)]
struct KvCache {
    k: Option<Tensor<F16>>,
    v: Option<Tensor<F16>>,
}
impl LlamaBlock {
    fn new(w: usize, heads: usize, kv_heads: usize, d: &Device) -> Result<Self> {
        let lin = |i, o| Ok::<_, Error>(Linear::new(i, o, d)?.without_bias());
        let hd = w / heads;
        Ok(Self {
            norm: RmsNorm::new([w], d)?,
            q: lin(w, w)?,
            k: lin(w, hd * kv_heads)?,
            v: lin(w, hd * kv_heads)?,
            o: lin(w, w)?,
            norm2: RmsNorm::new([w], d)?,
            gate: lin(w, 2 * w)?,
            up: lin(w, 2 * w)?,
            down: lin(2 * w, w)?,
            heads,
            kv_heads,
        })
    }
    #[autocast(f16, policy = llama)]
    fn forward(
        &self,
        x: &Tensor<F32>,
        cos: &Tensor<F32>,
        sin: &Tensor<F32>,
        cache: Option<&mut KvCache>,
    ) -> Result<Tensor<F32>> {
        let [n, t, w] = x.dims() else { panic!("three dimensions") };
        let (n, t, w) = (*n, *t, *w);
        let hd = w / self.heads;
        let h = self.norm.forward(x)?;
        let q = self.q.forward(&h)?.reshape([n, t, self.heads, hd])?.transpose(1, 2)?;
        let k = self.k.forward(&h)?.reshape([n, t, self.kv_heads, hd])?.transpose(1, 2)?;
        let mut v: Tensor<F16> = self.v.forward(&h)?.reshape([n, t, self.kv_heads, hd])?.transpose(1, 2)?;
        let q = rope(&q, cos, sin)?;
        let k = rope(&k, cos, sin)?;
        let mut k: Tensor<F16> = k.to::<F16>()?;
        let causal = cache.is_none();
        if let Some(cache) = cache {
            if let (Some(pk), Some(pv)) = (&cache.k, &cache.v) {
                k = Tensor::cat(&[pk, &k], 2)?;
                v = Tensor::cat(&[pv, &v], 2)?;
            }
            cache.k = Some(k.clone());
            cache.v = Some(v.clone());
        }
        let k = k.repeat_interleave(self.heads / self.kv_heads, 1)?;
        let v = v.repeat_interleave(self.heads / self.kv_heads, 1)?;
        let a = q.scaled_dot_product_attention(&k, &v, None, amp::AttentionOptions::new().causal(causal))?;
        let a = a.transpose(1, 2)?.reshape([n, t, w])?;
        let x = (x + &self.o.forward(&a)?)?;
        let h = self.norm2.forward(&x)?;
        let h = (self.gate.forward(&h)?.silu()? * self.up.forward(&h)?)?;
        x + self.down.forward(&h)?
    }
}
#[test]
fn cached_decoding_equals_full() -> Result<()> {
    let d = Device::best();
    let _turn = crate::seed(4);
    let block = LlamaBlock::new(16, 4, 2, &d)?;
    let x = Tensor::<F32>::randn([2, 5, 16], &d)?;
    let (cos, sin) = rope_tables(5, 4, &d)?;
    let full = no_grad(|| block.forward(&x, &cos, &sin, None))?;
    let mut cache = KvCache::default();
    let mut parts = vec![];
    for t in 0..5 {
        let y = no_grad(|| {
            block.forward(&x.narrow(1, t, 1)?, &cos.narrow(0, t, 1)?, &sin.narrow(0, t, 1)?, Some(&mut cache))
        })?;
        parts.push(y);
    }
    let cached = Tensor::cat(&parts.iter().collect::<Vec<_>>(), 1)?;
    agree("kv cache", &full.to_vec()?, &cached.to_vec()?, 5e-3);
    Ok(())
}

#[test]
fn sampling() -> Result<()> {
    let d = Device::best();
    let _turn = crate::seed(5);
    let table = Embedding::new(7, 8, &d)?;
    let head = Linear::new(8, 7, &d)?;
    let mut tokens = vec![3i64];
    for step in 0..6 {
        let next = no_grad(|| -> Result<i64> {
            let last = Tensor::<I64>::from_slice(&tokens[tokens.len() - 1..], [1], &d)?;
            let logits = amp_region!(bf16, head.forward(&table.forward(&last)?)?);
            let logits = logits.to::<F32>()?;
            if step % 2 == 0 {
                return logits.argmax(-1, false)?.squeeze(0)?.item();
            }
            let (top, index) = (logits / 0.8)?.topk(3, -1, true)?;
            let p = top.softmax(-1)?;
            let pick = p.multinomial(1, false)?;
            index.gather(1, &pick)?.reshape([1])?.item()
        })?;
        assert!((0..7).contains(&next));
        tokens.push(next);
    }
    Ok(())
}
