//! Forms of expressions that stand for others.

/// An operation is named where something else may be given.
mod named_instead {
    use amp::prelude::*;

    #[autocast(f16)]
    fn otherwise(x: &Tensor<F32>, w: &Tensor<F32>, there: bool) -> Result<Tensor<F32>> {
        let h = if there { Some(x.matmul(w)?) } else { None };
        h.as_ref().map_or_else(|| x.exp(), Tensor::exp)
    }

    #[autocast(f16)]
    fn or_this(x: &Tensor<F32>, w: &Tensor<F32>, there: bool) -> Result<Tensor<F32>> {
        let h = if there { Some(x.matmul(w)?) } else { None };
        h.as_ref().map_or(x.softplus(), Tensor::softplus)
    }

    #[test]
    fn runs() -> Result<()> {
        let x = Tensor::<F32>::ones([2, 2], &Device::cpu())?;
        for there in [true, false] {
            assert_eq!(otherwise(&x, &x, there)?.dims(), [2, 2]);
            assert_eq!(or_this(&x, &x, there)?.dims(), [2, 2]);
        }
        Ok(())
    }
}

/// A trait of one's own may have any method.
mod own_method {
    use amp::prelude::*;

    trait Judge {
        fn judged(&self) -> Result<Tensor<F32>>;
    }

    impl<P: Float> Judge for Tensor<P> {
        fn judged(&self) -> Result<Tensor<F32>> {
            self.to::<F32>()
        }
    }

    #[autocast(f16)]
    fn critic(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        x.matmul(w)?.judged()
    }

    #[test]
    fn runs() -> Result<()> {
        let x = Tensor::<F32>::ones([2, 2], &Device::cpu())?;
        assert_eq!(critic(&x, &x)?.to_vec()?, [2.0; 4]);
        Ok(())
    }
}

/// Branches, conditions and closures within each other.
mod within {
    use amp::prelude::*;

    struct Found {
        h: Tensor<F32>,
        at: usize,
    }

    #[autocast(f16)]
    fn branches(x: &Tensor<F32>, w: &Tensor<F32>, wide: bool) -> Result<Tensor<F32>> {
        let h = if wide { x.exp() } else { x.matmul(w) }?;
        let k = {
            let t = x.matmul(w)?;
            t.relu()?
        }
        .abs()?;
        (if wide { &h } else { &k }).add(&match wide {
            true => h.clone(),
            false => k.relu()?,
        })
    }

    #[autocast(f16)]
    fn searched(xs: &[Tensor<F32>], w: &Tensor<F32>) -> Result<Found> {
        let mut it = xs.iter().enumerate();
        let mut last = w.matmul(w)?;
        Ok(Found {
            at: xs.len(),
            h: loop {
                let Some((i, x)) = it.next() else { break last };
                if let Some(first) = x.chunk(2, 0)?.first()
                    && first.matmul(w)?.sum_all()?.item()? > 1e3
                    && i > 0
                {
                    break first.matmul(w)?;
                }
                last = match i {
                    0 if x.matmul(w)?.max_all()?.item()? > 0.0 => x.matmul(w)?,
                    _ => x.softmax(-1)?,
                };
            },
        })
    }

    #[autocast(f16)]
    fn made(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let make = |by: f64| {
            let w = w.clone();
            move |x: &Tensor<F32>| -> Result<Tensor<F32>> { x.matmul(&w)? * by }
        };
        let steps = [make(1.0), make(0.5)];
        let h = steps.iter().try_fold(x.clone(), |h, step| step(&h))?;
        make(2.0)(&h)
    }

    #[test]
    fn runs() -> Result<()> {
        let d = Device::cpu();
        let x = Tensor::<F32>::ones([2, 2], &d)?;
        assert_eq!(branches(&x, &x, false)?.to_vec()?, [4.0; 4]);
        assert_eq!(branches(&x, &x, true)?.to_vec()?, x.exp()?.to_vec()?.iter().map(|v| 2.0 * v).collect::<Vec<_>>());
        let found = searched(&[x.clone(), x.clone()], &x)?;
        assert_eq!((found.h.to_vec()?, found.at), (vec![0.5; 4], 2));
        assert_eq!(made(&x, &x)?.to_vec()?, [8.0; 4]);
        Ok(())
    }
}
