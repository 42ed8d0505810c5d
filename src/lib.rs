//! Automatic mixed precision for Rust, decided at compile time.
//!
//! [`#[autocast]`](macro@autocast) rewrites a function so that each of its operations runs in the precision that one table
//! gives it: products in 16 bits, what needs range or digits in F32. Precision is part of a tensor's type, so that what would
//! overflow, vanish or be undone does not compile, and neither does a training step in the wrong order.
//!
//! ```
//! use amp::{nn::Linear, optim::AdamW, prelude::*};
//!
//! #[derive(Module)]
//! struct Net { fc1: Linear, fc2: Linear }
//!
//! impl Net {
//!     #[autocast(bf16)]
//!     fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
//!         self.fc2.forward(&self.fc1.forward(x)?.relu()?)
//!     }
//! }
//!
//! let device = Device::best();
//! let net = Net { fc1: Linear::new(16, 32, &device)?, fc2: Linear::new(32, 4, &device)? };
//! let mut opt = AdamW::new(net.parameters(), 1e-3);
//! let (x, y) = (Tensor::randn([64, 16], &device)?, Tensor::randint(0, 4, [64], &device)?);
//! for _ in 0..3 {
//!     let grads = net.forward(&x)?.cross_entropy(&y)?.backward()?;
//!     opt.step(&grads)?; // F16, of less range than BF16, needs a `GradScaler` here
//! }
//! # Ok::<_, amp::Error>(())
//! ```
//!
//! # Where to find what
//!
//! | for | see |
//! |---|---|
//! | mixed precision | [`#[autocast]`](macro@autocast), [`amp_region!`], [`#[amp_op]`](macro@amp_op), [`amp_policy!`]; [`plan`] lists what was decided |
//! | tensors and their operations | [`Tensor`] of [`F16`], [`BF16`], [`F32`], [`F64`], [`I64`], [`U8`] or [`Bool`]; [`functional`] |
//! | models | [`nn`], [`#[derive(Module)]`](derive@Module), [`Parameter`] |
//! | gradients | [`Tensor::backward`], [`Gradients`], [`no_grad`], [`checkpoint`]; [`gradcheck`] and [`diagnose`] where they are wrong |
//! | training | [`optim`] with its schedules and averages, [`GradScaler`], [`train`] for checkpoints |
//! | weights in files | [`Module::save`], [`Module::load`], [`io`] |
//! | devices and memory | [`Device`], [`mod@cuda`], [`memory`], [`set_num_threads`] |
//! | what goes wrong | [`Error`] |
//! | a device of one's own | [`backend`], [`autograd`] |
//!
//! # From PyTorch
//!
//! Operations have PyTorch's names and orders of arguments, and return a [`Result`]. Where they differ:
//!
//! | PyTorch | here |
//! |---|---|
//! | `x.view(-1, n)`, `x.reshape(-1, n)`, `x.view(-1)` | `x.reshape((.., n))?`, `x.reshape(..)?` |
//! | `x.half()`, `x.float()`, `x.type(torch.bfloat16)` | `x.to::<F16>()?`, `x.to::<F32>()?`, `x.to::<BF16>()?` |
//! | `x.shape`, `x.size(i)`, `x.ndim`, `x.numel()` | `x.dims()`, `x.size(i)?`, `x.rank()`, `x.count()` |
//! | `x.sum()`, `x.sum(1, keepdim=True)`, `x[:, 0]`, `x[:, 2:5]` | `x.sum_all()?`, `x.sum(1, true)?`, `x.select(1, 0)?`, `x.slice(1, 2..5)?` |
//! | `x[:, None]`, `x[..., None]`, `x.mean((2, 3))`, `x.permute(0, 2, 1)` | `x.unsqueeze(1)?`, `x.unsqueeze(-1)?`, `x.mean((2, 3), false)?`, `x.permute((0, 2, 1))?` |
//! | `torch.arange(n)`, `torch.arange(0., n)`, `torch.arange(0., 1., 0.1)` | `Tensor::<I64>::arange(0, n, &d)?`, `Tensor::<F32>::arange(0, n, &d)?`, `arange_step(0, 1, 0.1, &d)?`; `n` of any type of number |
//! | `(x.argmax(-1) == y).sum().item()`, `x.split([2, 5])` | `x.argmax(-1, false)?.eq(&y)?.sum_all()?.item()?`, `x.split([2, 5], 0)?` |
//! | `x.std()`, `mask.any()`, `x.view(b, h, w, -1)` | `x.std([], false)?`, `mask.any([], false)?`, `x.reshape((b, h, w, ..))?` |
//! | `sum(losses)`, `torch.cat(parts, 1)` of a list | `losses.iter().sum::<Result<Tensor<F32>>>()?`, `Tensor::cat(&parts, 1)?` |
//! | `x * 2 + y` | `((x * 2.0)? + y)?`: an operator, too, returns a result |
//! | `x.max(1)`, `x.max(1).indices`, `x.squeeze()` | `x.amax(1, false)?`, `x.argmax(1, false)?`, `x.squeeze(axis)?` for each |
//! | `F.binary_cross_entropy_with_logits(x, y)`, `F.interpolate(x, size)` | `x.bce_with_logits(&y)?`, `x.upsample_nearest(size)?`, or bilinear, bicubic |
//! | `F.cross_entropy(x, labels)`, of probabilities | `x.cross_entropy(&labels)?`, `x.soft_cross_entropy(&probabilities)?` |
//! | `nn.Sequential(a, b)`, `nn.ModuleList`, `register_buffer` | `Sequential((a, b))`, a `Vec`, a field of type [`nn::Statistics`] |
//! | `x.masked_fill(m, float("-inf"))`, `torch.where(m, a, b)` | `x.masked_fill(&m, Fill::NegInf)?`, `m.where_(&a, &b)?` |
//! | `torch.full_like(ids, pad)`, `ids.masked_fill(m, pad)` of integers | `ids.full_like(pad)?`, `ids.masked_fill(&m, pad)?`, `pad` an `i64` or a literal |
//! | `F.pad(x, p, mode="reflect")`, `"replicate"` | `x.reflection_pad2d(p)?`, `x.replication_pad2d(p)?`, or 1d, 3d |
//! | `F.unfold(x, 3, padding=1)` | `x.unfold(3, ConvOptions::default().padding(1))?` |
//! | `x // y`, `x % y`, `torch.logit(x, eps)`, `torch.nan_to_num(x, nan=0.5, ..)` | `x.floor_divide(&y)?`, `x.remainder(&y)?`, `x.logit_with(eps)?`, `x.nan_to_num_with(0.5, ..)?` |
//! | `nn.init.normal_(p, 0, 0.02)`, `decoder.weight = encoder.weight` | `p.set(&Tensor::normal(p.dims(), 0.0, 0.02, &d)?)?`, `Linear::from_parameters(encoder.weight().clone(), None)?` |
//! | `F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)` | `q.scaled_dot_product_attention(&k, &v, None, AttentionOptions::new().causal(true).dropout(p))?` |
//! | `F.scaled_dot_product_attention(q, k, v, enable_gqa=True)` | `q.scaled_dot_product_attention(&k, &v, None, AttentionOptions::new().grouped(true))?` |
//! | `x * cos + rotate_half(x) * sin` (rotary embedding) | `let h = x.chunk(2, -1)?`, then `(x * &cos)? + (Tensor::cat(&[&(-&h[1])?, &h[0]], -1)? * &sin)?` |
//! | `nn.Conv2d(i, o, 3, groups=g, bias=False)`, `nn.LSTM(i, h, num_layers=2, dropout=0.5)` | `Conv2d::grouped(i, o, 3, g, &d)?.without_bias()`, `Lstm::stacked(i, h, 2, false, &d)?.dropout(0.5)` |
//! | `AdamW([dict(params=a), dict(params=b, lr=r)], lr)` | `AdamW::new(a, lr).group(b).lr(r)` |
//! | `x.requires_grad_()`, `p.grad` | `x.tracked()`, `grads.get(&p)?` |
//! | `opt.zero_grad()` | not needed: `backward` returns its gradients, [`Gradients::accumulator`] adds those of several |
//! | `model.state_dict()`, `load_state_dict(s, strict=False)` | `model.state()`, `model.load_state_matching(&s)?` |
//! | `copy.deepcopy(model)` | another model that takes the first one's state: `copy.load_state(&model.state())?` |
//! | a block called under `torch.autocast` | `block.forward::<P>(&x)?` where it is `#[autocast(P)] fn forward<P: AutocastPrecision>`: each call says its precision |
//!
//! # Debug builds
//!
//! Kernels without optimisation are some eighty times slower: a program that runs without `--release` wants
//! `[profile.dev.package.amp-cpu]` with `opt-level = 3` in the `Cargo.toml` of its package, or of its workspace.
//!
//! # Features
//!
//! * `cuda` (default): GPUs, by way of a driver that is looked for when the program asks for one; nothing is needed to build.
//! * `cuda-12`: the same with the bindings of CUDA 12, for programs whose other dependencies fix them; instead of `cuda`, with
//!   `default-features = false`.
//!
//! # Environment
//!
//! * `AMP_NUM_THREADS`: threads of CPU kernels.
//! * `AMP_CPU`: a lower instruction set than the machine has (`portable`, `avx2`, `avx512`, `avx512bf16`, `amx`).
//! * `AMP_CUDA_LIB_DIR`: folders of the driver, cuBLASLt, cuDNN and NVRTC where they are not found.
//! * `AMP_CUDA_CACHE_DIR`: where compiled CUDA kernels are kept; by default `amp-cuda` in the user's cache folder.

#![forbid(unsafe_code)]

pub use amp_core::*;
pub use amp_macros::{Module, amp_op, amp_policy, amp_region, autocast};

// Being linked is enough: the crate makes itself known to `Device::cuda`.
#[cfg(any(feature = "cuda", feature = "cuda-12"))]
use amp_cuda as _;

/// What expansions of the macros name. Not public API.
#[doc(hidden)]
pub mod __private {
    pub use amp_core::private::*;
    pub use amp_macros::{autocast_with, region_with};
}

/// Everything a training program needs: `use amp::prelude::*;`.
pub mod prelude {
    pub use amp_core::{
        AutocastPrecision, BF16, Bool, Device, Element, Error, F16, F32, F64, Fill, Float, FloatRange, FullRange,
        GradScaler, Gradients, HalfPrecision, I64, IntegerSums, Module, Optimizer, Parameter, Result, Step, Tensor, U8,
        no_grad, optim::Schedule,
    };
    pub use amp_macros::{Module, amp_op, amp_policy, amp_region, autocast};
}

// Its first example compiles and runs as it stands.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
