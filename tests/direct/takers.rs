//! Who takes a result that could be written narrow decides by its type: modules of every class, and one that has none.

use super::*;
use amp::nn::{Dropout, LayerNorm, Linear, Relu, RmsNorm, Softmax};

/// A module of the user's: nothing is known about what it takes.
struct Own;

impl Own {
    fn forward(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        x * 0.5
    }
}

struct Takers {
    lower: Linear,
    full: Softmax,
    rows: LayerNorm,
    squares: RmsNorm,
    commutes: Dropout,
    signs: Relu,
    own: Own,
}

impl Takers {
    fn new() -> Result<Self> {
        let device = &Device::cpu();
        amp::manual_seed(5);
        Ok(Self {
            lower: Linear::new(4, 4, device)?,
            full: Softmax::new(-1),
            rows: LayerNorm::new([4], device)?,
            squares: RmsNorm::new([4], device)?,
            commutes: Dropout::new(0.0),
            signs: Relu,
            own: Own,
        })
    }
}

/// What is given to a module that narrows, and to one that does not.
macro_rules! given {
    (narrow, $x:expr) => {
        &$x.to::<P>()?
    };
    (wide, $x:expr) => {
        $x
    };
}

macro_rules! takers {
    ($($taker:ident: $given:ident;)*) => { $(
        mod $taker {
            use super::*;

            /// The producer is certainly an operation; the result of its taker is narrowed.
            #[autocast(P)]
            fn region<P: AutocastPrecision>(m: &Takers, x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
                let s = x.matmul(w)?.softmax(-1)?;
                m.$taker.forward(&s)?.matmul(w)
            }

            /// The same of what is a tensor only by its name.
            #[autocast(P)]
            fn chained<P: AutocastPrecision>(m: &Takers, x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
                let s = m.lower.forward(x)?.softmax(-1)?;
                m.$taker.forward(&s)?.matmul(w)
            }

            fn by_hand<P: AutocastPrecision>(m: &Takers, s: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
                let s = s.softmax(-1)?;
                m.$taker.forward(given!($given, &s))?.to::<P>()?.matmul(&w.to::<P>()?)?.to()
            }

            fn agree<P: AutocastPrecision>() {
                let _alone = alone();
                // Each with modules of its own, whose weights have no narrow copies yet.
                let run = |f: &dyn Fn(&Takers, &[Tensor<F32>]) -> Result<Tensor<F32>>| {
                    let m = Takers::new().unwrap();
                    trace(&[&[3, 4], &[4, 4]], |leaves| f(&m, leaves))
                };
                let product = |t: &[Tensor<F32>]| t[0].to::<P>()?.matmul(&t[1].to::<P>()?)?.to();
                let pairs = [
                    (
                        run(&|m, t| region::<P>(m, &t[0], &t[1])),
                        run(&|m, t| by_hand::<P>(m, &product(t)?, &t[1])),
                    ),
                    (
                        run(&|m, t| chained::<P>(m, &t[0], &t[1])),
                        run(&|m, t| by_hand::<P>(m, &m.lower.forward(&t[0].to::<P>()?)?.to()?, &t[1])),
                    ),
                ];
                for (ours, hand) in pairs {
                    assert_eq!(ours.bits, hand.bits);
                    assert!(ours.casts <= hand.casts, "{} casts, {} by hand", ours.casts, hand.casts);
                }
            }

            #[test]
            fn decides_in_f16() {
                agree::<F16>();
            }

            #[test]
            fn decides_in_bf16() {
                agree::<BF16>();
            }
        }
    )* };
}
takers! {
    lower: narrow;
    full: wide;
    rows: wide;
    squares: wide;
    commutes: wide;
    signs: wide;
    own: wide;
}
