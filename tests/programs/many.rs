//! As many elements, branches, variables and names as one likes.

/// Tuples of more than four.
mod five {
    use amp::prelude::*;

    type Five = (Tensor<F32>, Tensor<F32>, Tensor<F32>, Tensor<F32>, Tensor<F32>);

    #[autocast(bf16)]
    fn kept(
        x: &Tensor<F32>,
        w: &Tensor<F32>,
    ) -> Result<(Tensor<F32>, Tensor<F32>, Tensor<F32>, Tensor<F32>, Tensor<F32>)> {
        let h = x.matmul(w)?;
        let out = (h.relu()?, h.tanh()?, h.softmax(-1)?, h.abs()?, h);
        Ok(out)
    }

    #[autocast(bf16)]
    fn of_a_loop(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let mut n = 0;
        let (a, b, c, d, e) = loop {
            n += 1;
            let h = x.matmul(w)?;
            if n > 1 {
                break (h.relu()?, h.softmax(-1)?, h.tanh()?, h.abs()?, h);
            }
            if n > 10 {
                break (h.softmax(-1)?, h.relu()?, h.tanh()?, h.abs()?, h);
            }
        };
        (((a + b)? + c)? + d)? + e
    }

    #[autocast(bf16)]
    fn by_a_name(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Five> {
        let h = x.matmul(w)?;
        let out = (h.relu()?, h.tanh()?, h.softmax(-1)?, h.abs()?, h);
        Ok(out)
    }

    #[test]
    fn runs() -> Result<()> {
        let x = Tensor::<F32>::ones([2, 2], &Device::cpu())?;
        assert_eq!(kept(&x, &x)?.4.to_vec()?, [2.0; 4]);
        assert_eq!(by_a_name(&x, &x)?.0.to_vec()?, [2.0; 4]);
        assert_eq!(of_a_loop(&x, &x)?.dims(), [2, 2]);
        Ok(())
    }
}

/// A tensor beside a type of one's own.
mod apart {
    use amp::prelude::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Stage {
        Warm,
        Hot,
    }

    #[derive(Debug)]
    struct Stats {
        rows: usize,
    }

    fn stage(x: &Tensor<F32>) -> Stage {
        if x.rank() > 1 { Stage::Hot } else { Stage::Warm }
    }

    #[autocast(f16)]
    fn with_an_enum(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<(Tensor<F32>, Stage)> {
        let stage = stage(x);
        let out = (x.matmul(w)?, stage);
        Ok(out)
    }

    #[autocast(f16)]
    fn with_a_struct(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<(Tensor<F32>, Stats)> {
        let out = (x.matmul(w)?, Stats { rows: x.dims()[0] });
        Ok(out)
    }

    #[test]
    fn runs() -> Result<()> {
        let x = Tensor::<F32>::ones([2, 2], &Device::cpu())?;
        assert_eq!(with_an_enum(&x, &x)?.1, Stage::Hot);
        assert_eq!(with_a_struct(&x, &x)?.1.rows, 2);
        Ok(())
    }
}

/// A line of variables that hand on what they hold.
mod delayed {
    use amp::prelude::*;

    #[autocast(f16)]
    fn four(x: &Tensor<F32>, w: &Tensor<F32>, n: usize) -> Result<Tensor<F32>> {
        let start = x.matmul(w)?;
        let (mut a, mut b, mut c, mut d) = (start.clone(), start.clone(), start.clone(), start);
        for _ in 0..n {
            d = c.clone();
            c = b.clone();
            b = a.clone();
            a = x.exp()?;
        }
        ((a + b)? + c)? + d
    }

    #[autocast(f16)]
    #[allow(clippy::many_single_char_names)]
    fn eight(x: &Tensor<F32>, w: &Tensor<F32>, n: usize) -> Result<Tensor<F32>> {
        let start = x.matmul(w)?;
        let mut a = start.clone();
        let mut b = start.clone();
        let mut c = start.clone();
        let mut d = start.clone();
        let mut e = start.clone();
        let mut f = start.clone();
        let mut g = start.clone();
        let mut h = start;
        for _ in 0..n {
            h = g.clone();
            g = f.clone();
            f = e.clone();
            e = d.clone();
            d = c.clone();
            c = b.clone();
            b = a.clone();
            a = x.exp()?;
        }
        ((((((a + b)? + c)? + d)? + e)? + f)? + g)? + h
    }

    #[test]
    fn runs() -> Result<()> {
        let x = Tensor::<F32>::zeros([2, 2], &Device::cpu())?;
        assert_eq!(four(&x, &x, 4)?.to_vec()?, [4.0; 4]);
        assert_eq!(eight(&x, &x, 8)?.to_vec()?, [8.0; 4]);
        Ok(())
    }
}

/// As many branches as one likes have one precision.
mod five_modules {
    use amp::nn::Linear;
    use amp::prelude::*;

    #[autocast(f16)]
    fn of_four(fcs: &[Linear], x: &Tensor<F32>, k: usize) -> Result<(amp::DType, Tensor<F32>)> {
        let h = match k {
            0 => fcs[0].forward(x)?,
            1 => fcs[1].forward(x)?,
            2 => fcs[2].forward(x)?,
            _ => fcs[3].forward(x)?,
        };
        let sum = (&h + &h)?;
        Ok((sum.dtype(), sum))
    }

    #[autocast(f16)]
    fn of_five(fcs: &[Linear], x: &Tensor<F32>, k: usize) -> Result<(amp::DType, Tensor<F32>)> {
        let h = match k {
            0 => fcs[0].forward(x)?,
            1 => fcs[1].forward(x)?,
            2 => fcs[2].forward(x)?,
            3 => fcs[3].forward(x)?,
            _ => fcs[4].forward(x)?,
        };
        let sum = (&h + &h)?;
        Ok((sum.dtype(), sum))
    }

    #[test]
    fn runs() -> Result<()> {
        let d = Device::cpu();
        let fcs = (0..5).map(|_| Linear::new(4, 4, &d)).collect::<Result<Vec<_>>>()?;
        let x = Tensor::<F32>::randn([2, 4], &d)?;
        assert_eq!(of_four(&fcs, &x, 1)?.0, amp::DType::F16);
        assert_eq!(of_five(&fcs, &x, 1)?.0, amp::DType::F16);
        Ok(())
    }
}

/// References in many branches.
mod nine_references {
    use amp::prelude::*;

    macro_rules! picks {
        ($name:ident: $($i:literal)*) => {
            #[autocast(f16)]
            fn $name(xs: &[Tensor<F32>], w: &Tensor<F32>, k: usize) -> Result<Tensor<F32>> {
                let h = xs[0].matmul(w)?;
                let chosen = match k {
                    $($i => &xs[$i],)*
                    _ => &h,
                };
                chosen.exp()
            }
        };
    }
    picks!(eight: 0 1 2 3 4 5 6);
    picks!(nine: 0 1 2 3 4 5 6 7);

    #[test]
    fn runs() -> Result<()> {
        let xs = vec![Tensor::<F32>::zeros([2, 2], &Device::cpu())?; 9];
        for k in 0..9 {
            assert_eq!(eight(&xs, &xs[0], k)?.to_vec()?, [1.0; 4]);
            assert_eq!(nine(&xs, &xs[0], k)?.to_vec()?, [1.0; 4]);
        }
        Ok(())
    }
}

/// Pointers by a name of one's own.
mod named {
    use amp::prelude::*;
    use std::sync::Arc;

    type Shared = Arc<Tensor<F32>>;
    type Boxed = Box<Tensor<F32>>;
    type Slice = Box<[Tensor<F32>]>;
    type Out = Result<Tensor<F32>>;

    #[autocast(f16)]
    fn plain(x: &Tensor<F32>, w: &Tensor<F32>) -> Out {
        x.matmul(w)
    }

    #[autocast(f16)]
    fn written_out(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Arc<Tensor<F32>>> {
        Ok(Arc::new(x.matmul(w)?))
    }

    #[autocast(f16)]
    fn shared(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Shared> {
        Ok(Arc::new(x.matmul(w)?))
    }

    #[autocast(f16)]
    fn boxed(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Boxed> {
        Ok(Box::new(x.matmul(w)?))
    }

    #[autocast(f16)]
    fn in_a_variable(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Shared> {
        let h: Shared = Arc::new(x.matmul(w)?);
        Ok(h)
    }

    #[autocast(f16)]
    fn in_a_list(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Vec<Shared>> {
        let all: Vec<Shared> = vec![Arc::new(x.matmul(w)?), Arc::new(x.softmax(-1)?)];
        Ok(all)
    }

    #[autocast(f16)]
    fn slice(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Slice> {
        let hs = x.matmul(w)?.chunk(2, 0)?;
        Ok(hs.into_boxed_slice())
    }

    #[test]
    fn runs() -> Result<()> {
        let x = Tensor::<F32>::ones([2, 2], &Device::cpu())?;
        assert_eq!(plain(&x, &x)?.to_vec()?, [2.0; 4]);
        assert_eq!(written_out(&x, &x)?.to_vec()?, [2.0; 4]);
        assert_eq!(shared(&x, &x)?.to_vec()?, [2.0; 4]);
        assert_eq!(boxed(&x, &x)?.to_vec()?, [2.0; 4]);
        assert_eq!(in_a_variable(&x, &x)?.to_vec()?, [2.0; 4]);
        assert_eq!(in_a_list(&x, &x)?.len() + slice(&x, &x)?.len(), 4);
        Ok(())
    }
}
