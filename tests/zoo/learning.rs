//! Losses and loops: contrast, distillation, reinforcement, experts, alignment.

use crate::{agree, falls, train};
use amp::nn::*;
use amp::optim::*;
use amp::prelude::*;

#[derive(Module)]
struct Mlp {
    fc1: Linear,
    fc2: Linear,
}
impl Mlp {
    fn new(i: usize, h: usize, o: usize, d: &Device) -> Result<Self> {
        Ok(Self { fc1: Linear::new(i, h, d)?, fc2: Linear::new(h, o, d)? })
    }
    #[autocast(P)]
    fn forward<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        self.fc2.forward(&self.fc1.forward(x)?.relu()?)
    }
}

#[autocast(f16)]
fn info_nce(a: &Tensor<F32>, b: &Tensor<F32>, log_scale: &Tensor<F32>) -> Result<Tensor<F32>> {
    let a = a.normalize(2.0, -1, 1e-12)?;
    let b = b.normalize(2.0, -1, 1e-12)?;
    let logits = (a.matmul(&b.t()?)? * log_scale.exp()?)?;
    let labels = Tensor::<I64>::arange(0, logits.dims()[0], logits.device())?;
    let loss = (logits.cross_entropy(&labels)? + logits.t()?.cross_entropy(&labels)?)?;
    loss / 2.0
}
#[test]
fn contrastive() -> Result<()> {
    let d = Device::best();
    let _turn = crate::seed(1);
    let (a, b) = (Mlp::new(8, 16, 8, &d)?, Mlp::new(8, 16, 8, &d)?);
    let scale = Parameter::new(&Tensor::scalar(2.6592, &d)?)?;
    let mut opt = AdamW::new(a.parameters(), 1e-2).group(b.parameters()).group([scale.clone()]).weight_decay(0.0);
    let x = Tensor::<F32>::randn([6, 8], &d)?;
    let losses =
        train(&mut opt, true, 10, |_| info_nce(&a.forward::<F16>(&x)?, &b.forward::<F16>(&x)?, &scale.tensor()))?;
    falls("clip", &losses);
    Ok(())
}

#[test]
fn distillation() -> Result<()> {
    let d = Device::best();
    let _turn = crate::seed(2);
    let teacher = Mlp::new(8, 32, 5, &d)?;
    teacher.eval();
    teacher.set_trainable(false);
    let student = Mlp::new(8, 8, 5, &d)?;
    let mut opt = Sgd::new(student.parameters(), 0.5);
    let x = Tensor::<F32>::randn([16, 8], &d)?;
    let y = Tensor::<I64>::randint(0, 5, [16], &d)?;
    let t = 4.0;
    let losses = train(&mut opt, true, 10, |_| {
        let soft = no_grad(|| (teacher.forward::<BF16>(&x)? / t)?.softmax(-1))?;
        let logits = student.forward::<F16>(&x)?;
        let kd = ((&logits / t)?.log_softmax(-1)?.kl_div_with(&soft, false, amp::LossReduction::BatchMean)? * (t * t))?;
        (kd * 0.7)? + (logits.cross_entropy(&y)? * 0.3)?
    })?;
    falls("distill", &losses);
    Ok(())
}

#[test]
fn dqn() -> Result<()> {
    let d = Device::best();
    let _turn = crate::seed(3);
    let (net, target) = (Mlp::new(4, 16, 2, &d)?, Mlp::new(4, 16, 2, &d)?);
    target.load_state(&net.state())?;
    target.set_trainable(false);
    let mut opt = Adam::new(net.parameters(), 1e-2);
    let mut scaler = GradScaler::builder().init_scale(32.0).build(&d)?;
    let mut losses = vec![];
    let s = Tensor::<F32>::randn([16, 4], &d)?;
    let next = Tensor::<F32>::randn([16, 4], &d)?;
    let a = Tensor::<I64>::randint(0, 2, [16], &d)?;
    let r = Tensor::<F32>::rand([16], &d)?;
    let done = Tensor::<F32>::rand([16], &d)?.lt(0.1)?;
    for _ in 0..10 {
        let q = net.forward::<F16>(&s)?.gather(1, &a.unsqueeze(1)?)?.squeeze(1)?;
        let goal = no_grad(|| -> Result<_> {
            let best = target.forward::<F16>(&next)?.max(1, false)?;
            &r + &(best * 0.99)?.masked_fill(&done, 0.0)?
        })?;
        let loss = q.smooth_l1_loss(&goal, 1.0)?;
        let grads = scaler.scale(&loss)?.backward()?;
        let mut grads = scaler.unscale(grads)?;
        grads.clip_value(10.0)?;
        if scaler.step(&mut opt, grads)?.was_taken()? {
            for (t, p) in target.parameters().iter().zip(net.parameters()) {
                t.set(&t.tensor().lerp(&p.tensor().detach(), 0.05)?)?;
            }
        }
        scaler.update()?;
        losses.push(loss.item()?);
    }
    falls("dqn", &losses);
    Ok(())
}

#[derive(Module)]
struct ActorCritic {
    body: Linear,
    pi: Linear,
    v: Linear,
}
impl ActorCritic {
    #[autocast(bf16)]
    fn forward(&self, x: &Tensor<F32>) -> Result<(Tensor<F32>, Tensor<F32>)> {
        let h = self.body.forward(x)?.tanh()?;
        Ok((self.pi.forward(&h)?, self.v.forward(&h)?.squeeze(-1)?))
    }
}
#[test]
fn ppo() -> Result<()> {
    let d = Device::best();
    let _turn = crate::seed(4);
    let net = ActorCritic { body: Linear::new(4, 16, &d)?, pi: Linear::new(16, 3, &d)?, v: Linear::new(16, 1, &d)? };
    let mut opt = Adam::new(net.parameters(), 1e-2);
    let obs = Tensor::<F32>::randn([12, 4], &d)?;
    let returns = Tensor::<F32>::randn([12], &d)?;
    let (act, old) = no_grad(|| -> Result<_> {
        let (logits, _) = net.forward(&obs)?;
        let p = logits.softmax(-1)?;
        let act = p.multinomial(1, true)?;
        let old = logits.log_softmax(-1)?.gather(1, &act)?.squeeze(1)?;
        Ok((act, old))
    })?;
    let mut losses = vec![];
    for _ in 0..6 {
        let (logits, value) = net.forward(&obs)?;
        let logp = logits.log_softmax(-1)?;
        let new = logp.gather(1, &act)?.squeeze(1)?;
        let adv = (&returns - &value.detach())?;
        let adv = ((&adv - &adv.mean_all()?)? / (adv.std(0, false)? + 1e-8)?)?;
        let ratio = (new - &old)?.exp()?;
        let surr = (&ratio * &adv)?.minimum(&(ratio.clamp(0.8, 1.2)? * &adv)?)?.mean_all()?;
        let entropy = (logp.exp()? * &logp)?.sum(-1, false)?.mean_all()?.neg()?;
        let loss = ((value.mse_loss(&returns)? * 0.5)? - (surr + (entropy * 0.01)?)?)?;
        let mut grads = loss.backward()?;
        grads.clip_norm(0.5)?;
        opt.step(&grads)?;
        losses.push(loss.item()?);
    }
    falls("ppo", &losses);
    Ok(())
}

fn contrastive_loss(a: &Tensor<F32>, b: &Tensor<F32>, same: &Tensor<Bool>, margin: f64) -> Result<Tensor<F32>> {
    let dist = ((a - b)?.sqr()?.sum(-1, false)? + 1e-9)?.sqrt()?;
    let far = (margin - &dist)?.clamp_min(0.0)?.sqr()?;
    same.where_(&dist.sqr()?, &far)?.mean_all()
}
fn focal(logits: &Tensor<F32>, target: &Tensor<F32>, gamma: f64) -> Result<Tensor<F32>> {
    let ce = logits.bce_with_logits_with(target, None, None, amp::LossReduction::None)?;
    let p = logits.sigmoid()?;
    let pt = ((&p * target)? + ((1.0 - &p)? * (1.0 - target)?)?)?;
    (ce * (1.0 - pt)?.pow(gamma)?)?.mean_all()
}
#[test]
fn siamese() -> Result<()> {
    let d = Device::best();
    let _turn = crate::seed(5);
    let net = Mlp::new(6, 16, 4, &d)?;
    let mut opt = Adam::new(net.parameters(), 1e-2);
    let (a, b, n) =
        (Tensor::<F32>::randn([8, 6], &d)?, Tensor::<F32>::randn([8, 6], &d)?, Tensor::<F32>::randn([8, 6], &d)?);
    let same = Tensor::<I64>::arange(0, 8, &d)?.lt(4)?;
    let target = same.to::<F32>()?;
    let losses = train(&mut opt, true, 12, |_| {
        let (ea, eb, en) = (net.forward::<F16>(&a)?, net.forward::<F16>(&b)?, net.forward::<F16>(&n)?);
        let c = contrastive_loss(&ea, &eb, &same, 1.0)?;
        let triplet = ea.triplet_margin_loss(&eb, &en, 1.0)?;
        let cos = ea.cosine_similarity(&eb, -1, 1e-8)?;
        (c + triplet)? + focal(&cos, &target, 2.0)?
    })?;
    falls("siamese", &losses);
    Ok(())
}

#[derive(Module)]
struct Moe {
    gate: Linear,
    experts: Vec<Mlp>,
}
impl Moe {
    #[autocast(P)]
    fn forward<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let probs = self.gate.forward(x)?.softmax(-1)?;
        let (w, idx) = probs.topk(1, -1, true)?;
        let chosen = idx.squeeze(-1)?.to_vec()?;
        let mut out = Tensor::<F32>::zeros(x.dims(), x.device())?;
        for (e, expert) in self.experts.iter().enumerate() {
            let rows: Vec<i64> = (0..chosen.len()).filter(|&r| chosen[r] == e as i64).map(|r| r as i64).collect();
            let n = rows.len();
            let rows = Tensor::<I64>::from_vec(rows, [n], x.device())?;
            let y = expert.forward::<P>(&x.index_select(0, &rows)?)?;
            let y = (y * w.index_select(0, &rows)?)?;
            out = out.index_add(0, &rows, &y)?;
        }
        Ok(out)
    }
}
fn moe<P: AutocastPrecision>(scaled: bool) -> Result<Vec<f32>> {
    let d = Device::best();
    let _turn = crate::seed(6);
    let net =
        Moe { gate: Linear::new(6, 3, &d)?, experts: (0..3).map(|_| Mlp::new(6, 12, 6, &d)).collect::<Result<_>>()? };
    let mut opt = Adam::new(net.parameters(), 1e-2);
    let x = Tensor::<F32>::randn([7, 6], &d)?;
    train(&mut opt, scaled, 8, |_| net.forward::<P>(&x)?.mse_loss(&x))
}
#[test]
fn moe_learns() -> Result<()> {
    let a = moe::<F32>(false)?;
    falls("moe", &a);
    agree("moe bf16", &a, &moe::<BF16>(false)?, 0.05);
    agree("moe f16", &a, &moe::<F16>(true)?, 0.01);
    Ok(())
}

fn ctc(logp: &Tensor<F32>, labels: &[usize]) -> Result<Tensor<F32>> {
    let t = logp.dims()[0];
    let ext: Vec<usize> = std::iter::once(0).chain(labels.iter().flat_map(|&l| [l, 0])).collect();
    let idx = Tensor::<I64>::from_vec(ext.iter().map(|&l| l as i64).collect(), [ext.len()], logp.device())?;
    let emit = logp.index_select(1, &idx)?;
    let neg = f64::from(f32::MIN);
    let first = Tensor::<Bool>::from_fn([ext.len()], |i| i[0] > 1, logp.device())?;
    let no_skip = Tensor::<Bool>::from_fn(
        [ext.len()],
        |i| i[0] < 2 || ext[i[0]] == 0 || ext[i[0]] == ext[i[0] - 2],
        logp.device(),
    )?;
    let mut alpha = emit.select(0, 0)?.masked_fill(&first, neg)?;
    for s in 1..t {
        let one = alpha.pad([1, 0], neg)?.narrow(0, 0, ext.len())?;
        let two = alpha.pad([2, 0], neg)?.narrow(0, 0, ext.len())?.masked_fill(&no_skip, neg)?;
        let all = Tensor::stack(&[&alpha, &one, &two], 0)?;
        alpha = (all.logsumexp(0, false)? + emit.select(0, s)?)?;
    }
    alpha.slice(0, ext.len() - 2..)?.logsumexp(0, false)?.neg()
}
#[test]
fn ctc_learns() -> Result<()> {
    let d = Device::best();
    let _turn = crate::seed(7);
    let net = Mlp::new(5, 16, 4, &d)?;
    let mut opt = Adam::new(net.parameters(), 2e-2);
    let x = Tensor::<F32>::randn([6, 5], &d)?;
    let losses = train(&mut opt, true, 10, |_| ctc(&net.forward::<F16>(&x)?.log_softmax(-1)?, &[1, 2, 2]))?;
    falls("ctc", &losses);
    Ok(())
}

#[test]
fn multi_task() -> Result<()> {
    let d = Device::best();
    let _turn = crate::seed(8);
    let net = Mlp::new(6, 16, 5, &d)?;
    let log_var = Parameter::new(&Tensor::zeros([2], &d)?)?;
    let mut opt = Adam::new(net.parameters().into_iter().chain([log_var.clone()]), 1e-2);
    let x = Tensor::<F32>::randn([8, 6], &d)?;
    let cls = Tensor::<I64>::randint(0, 4, [8], &d)?;
    let reg = Tensor::<F32>::randn([8], &d)?;
    let losses = train(&mut opt, true, 10, |_| {
        let y = net.forward::<F16>(&x)?;
        let l1 = y.narrow(1, 0, 4)?.cross_entropy(&cls)?;
        let l2 = y.select(1, 4)?.huber_loss(&reg, 1.0)?;
        let s = log_var.tensor();
        let all = Tensor::stack(&[&l1, &l2], 0)?;
        ((all * s.neg()?.exp()?)? + &s)?.sum_all()
    })?;
    falls("multi task", &losses);
    Ok(())
}
