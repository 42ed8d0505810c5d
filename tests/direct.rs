//! A `full` operation whose result is only ever narrowed writes it in 16 bits itself: the same bits as by hand, without
//! the pass that narrows.

use amp::memory::cast_kernels;
use amp::nn::{BatchNorm2d, Conv2d, GroupNorm, LayerNorm, Linear, MaxPool2d, Relu, RmsNorm, Softmax};
use amp::prelude::*;
use amp::{AutocastPrecision, saved_bytes};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The counters and the random generator are the program's: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a program gave: the bits of its result and of the gradients, how often it narrowed, what it saved.
#[derive(Debug, PartialEq)]
struct Trace {
    bits: Vec<Vec<u32>>,
    casts: usize,
    saved: usize,
}

fn bits(x: &Tensor<F32>) -> Vec<u32> {
    x.to_vec().unwrap().into_iter().map(f32::to_bits).collect()
}

fn wave(shape: &[usize], phase: f32) -> Tensor<F32> {
    let mut i = 0.0_f32;
    let next = |_: &[usize]| {
        i += 1.0;
        (i * 1.7 + phase).sin() * 2.0 + 0.3
    };
    Tensor::from_fn(shape, next, &Device::cpu()).unwrap()
}

/// Runs `f` on leaves of these shapes.
fn trace(shapes: &[&[usize]], f: impl Fn(&[Tensor<F32>]) -> Result<Tensor<F32>>) -> Trace {
    let leaves: Vec<_> = shapes.iter().zip(0_u8..).map(|(s, i)| wave(s, f32::from(i)).tracked()).collect();
    let (casts, saved) = (cast_kernels(), saved_bytes().now);
    let y = f(&leaves).unwrap();
    let (casts, saved) = (cast_kernels() - casts, saved_bytes().now - saved);
    let grads = y.backward_with(&wave(y.dims(), 9.0)).unwrap();
    let mut all = vec![bits(&y)];
    all.extend(leaves.iter().map(|leaf| grads.get(leaf).unwrap().as_ref().map_or_else(Vec::new, bits)));
    Trace { bits: all, casts, saved }
}

/// The region gives the same bits as the program by hand, with `fewer` casts and without saving more.
fn compare(
    what: &str,
    shapes: &[&[usize]],
    fewer: usize,
    region: impl Fn(&[Tensor<F32>]) -> Result<Tensor<F32>>,
    by_hand: impl Fn(&[Tensor<F32>]) -> Result<Tensor<F32>>,
) {
    let (region, by_hand) = (trace(shapes, region), trace(shapes, by_hand));
    assert!(region.bits == by_hand.bits, "{what}: {:?} is not {:?}", region.bits, by_hand.bits);
    assert_eq!(region.casts + fewer, by_hand.casts, "{what}");
    assert!(region.saved <= by_hand.saved, "{what}: {} bytes saved, {} by hand", region.saved, by_hand.saved);
}

const EPS: f64 = 1e-5;

mod methods {
    use super::*;

    #[autocast(P)]
    fn layer_norm<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
        let n = t[0].layer_norm([8], Some(&t[1]), None, EPS)?;
        n.matmul(&t[2])
    }

    fn layer_norm_by_hand<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
        let n = t[0].layer_norm([8], Some(&t[1]), None, EPS)?.to::<P>()?;
        n.matmul(&t[2].to::<P>()?)?.to()
    }

    #[autocast(P)]
    fn seen_through<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
        let n = t[0].rms_norm([8], Some(&t[1]), EPS)?.relu()?.neg()?.transpose(0, 1)?;
        let rows = n.dims()[0];
        let n = n.slice(0, 0..rows)?.reshape([4, 8])?;
        n.matmul(&t[2])
    }

    fn seen_through_by_hand<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
        let n = t[0].rms_norm([8], Some(&t[1]), EPS)?.relu()?.neg()?.transpose(0, 1)?;
        let rows = n.dims()[0];
        let n = n.slice(0, 0..rows)?.reshape([4, 8])?;
        n.to::<P>()?.matmul(&t[2].to::<P>()?)?.to()
    }

    #[autocast(P)]
    fn attention<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
        let scores = t[0].matmul(&t[2])?;
        let shares = scores.softmax(-1)?;
        shares.matmul(&t[2])
    }

    fn attention_by_hand<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
        let w = t[2].to::<P>()?;
        let shares = t[0].to::<P>()?.matmul(&w)?.to::<F32>()?.softmax(-1)?.to::<P>()?;
        shares.matmul(&w)?.to()
    }

    #[autocast(P)]
    fn path<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
        Tensor::matmul(&Tensor::log_softmax(&t[0], 1)?, &t[2])
    }

    fn path_by_hand<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
        t[0].log_softmax(1)?.to::<P>()?.matmul(&t[2].to()?)?.to()
    }

    #[autocast(P)]
    fn joined<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
        let a = t[0].softmax(-1)?;
        let b = t[0].log_softmax(-1)?;
        let n = if t[0].rank() == 2 { b } else { t[0].softmax(0)? };
        let both = Tensor::cat(&[&a, &n], 0)?;
        both.matmul(&t[2])
    }

    fn joined_by_hand<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
        let both = Tensor::cat(&[&t[0].softmax(-1)?, &t[0].log_softmax(-1)?], 0)?;
        both.to::<P>()?.matmul(&t[2].to()?)?.to()
    }

    #[autocast(P)]
    fn looped<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
        let mut h = t[0].clone();
        for _ in 0..3 {
            let n = h.layer_norm([8], None, None, EPS)?;
            h = n.matmul(&t[2])?;
        }
        Ok(h)
    }

    fn looped_by_hand<P: AutocastPrecision>(t: &[Tensor<F32>]) -> Result<Tensor<F32>> {
        let (mut h, w) = (t[0].clone(), t[2].to::<P>()?);
        for _ in 0..3 {
            h = h.layer_norm([8], None, None, EPS)?.to::<P>()?.matmul(&w)?.to()?;
        }
        Ok(h)
    }

    const SHAPES: &[&[usize]] = &[&[4, 8], &[8], &[8, 8]];

    fn all<P: AutocastPrecision>() {
        let _turn = alone();
        compare("layer_norm", SHAPES, 1, layer_norm::<P>, layer_norm_by_hand::<P>);
        compare("seen_through", SHAPES, 1, seen_through::<P>, seen_through_by_hand::<P>);
        compare("attention", SHAPES, 1, attention::<P>, attention_by_hand::<P>);
        compare("path", SHAPES, 1, path::<P>, path_by_hand::<P>);
        compare("joined", SHAPES, 1, joined::<P>, joined_by_hand::<P>);
        compare("looped", SHAPES, 3, looped::<P>, looped_by_hand::<P>);
    }

    #[test]
    fn in_f16() {
        all::<F16>();
    }

    #[test]
    fn in_bf16() {
        all::<BF16>();
    }
}

mod modules {
    use super::*;

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
            self.fc.forward(&self.soft.forward(&h)?)
        }

        fn rows_by_hand<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
            let mut h = x.clone();
            for _ in 0..2 {
                let n = self.fc.forward(&self.rows.forward(&h)?.to::<P>()?)?;
                let n = self.fc.forward(&self.squares.forward(&n)?.to::<P>()?)?;
                h = (h + self.fc.forward(&self.groups.forward(&n)?.to::<P>()?)?.to::<F32>()?)?;
            }
            self.fc.forward(&self.soft.forward(&h)?.to::<P>()?)?.to()
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
            compare(
                "modules",
                &[&[2, 2, 8, 8]],
                1,
                |t| a.all_modules::<P>(&t[0]),
                |t| b.all_modules_by_hand::<P>(&t[0]),
            );
        }
        compare("pooled", &[&[2, 2, 8, 8]], 0, |t| a.pooled::<P>(&t[0]), |t| b.pooled_by_hand::<P>(&t[0]));
        compare("rows", &[&[4, 8]], 7, |t| a.rows::<P>(&t[0]), |t| b.rows_by_hand::<P>(&t[0]));
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
}
