//! Containers that are made of others, extended and filled up.

/// A list of F32 is extended with what another one holds.
mod extended {
    use amp::prelude::*;

    #[autocast(f16)]
    fn cloned(x: &Tensor<F32>, w: &Tensor<F32>, out: &mut Vec<Tensor<F32>>) -> Result<()> {
        let hs = x.matmul(w)?.chunk(2, 0)?;
        out.extend(hs.iter().cloned());
        Ok(())
    }

    #[autocast(f16)]
    fn drained(x: &Tensor<F32>, w: &Tensor<F32>, out: &mut Vec<Tensor<F32>>) -> Result<()> {
        let mut hs = x.matmul(w)?.chunk(2, 0)?;
        out.extend(hs.drain(..));
        Ok(())
    }

    #[autocast(f16)]
    fn skipped(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Vec<Tensor<F32>>> {
        let mut out: Vec<Tensor<F32>> = vec![x.clone()];
        let hs = x.matmul(w)?.chunk(2, 0)?;
        out.extend(hs.iter().rev().skip(1).cloned());
        Ok(out)
    }

    #[autocast(f16)]
    fn taken(x: &Tensor<F32>, w: &Tensor<F32>, out: &mut Vec<Tensor<F32>>) -> Result<()> {
        let mut last = Some(x.matmul(w)?);
        out.extend(last.take());
        Ok(())
    }

    #[test]
    fn runs() -> Result<()> {
        let d = Device::cpu();
        let x = Tensor::<F32>::ones([2, 2], &d)?;
        let mut out = Vec::new();
        cloned(&x, &x, &mut out)?;
        drained(&x, &x, &mut out)?;
        taken(&x, &x, &mut out)?;
        assert_eq!(out.len(), 5);
        assert_eq!(skipped(&x, &x)?.len(), 2);
        Ok(())
    }
}

/// Containers are made of iterators by their own functions.
mod made {
    use amp::prelude::*;
    use std::collections::{HashMap, VecDeque};

    #[autocast(f16)]
    fn vector(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Vec<Tensor<F32>>> {
        let hs = x.matmul(w)?.chunk(2, 0)?;
        Ok(Vec::from_iter(hs.into_iter().rev()))
    }

    #[autocast(f16)]
    fn deque(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<VecDeque<Tensor<F32>>> {
        let hs = x.matmul(w)?.chunk(2, 0)?;
        let out: VecDeque<Tensor<F32>> = VecDeque::from_iter(hs);
        Ok(out)
    }

    #[autocast(f16)]
    fn map(x: &Tensor<F32>, w: &Tensor<F32>, names: &[String]) -> Result<HashMap<String, Tensor<F32>>> {
        let hs = x.matmul(w)?.chunk(2, 0)?;
        Ok(HashMap::from_iter(names.iter().cloned().zip(hs)))
    }

    #[test]
    fn runs() -> Result<()> {
        let x = Tensor::<F32>::ones([2, 2], &Device::cpu())?;
        assert_eq!(vector(&x, &x)?.len() + deque(&x, &x)?.len(), 4);
        assert_eq!(map(&x, &x, &["a".into(), "b".into()])?.len(), 2);
        Ok(())
    }
}

/// Slices that are shared.
mod shared {
    use amp::prelude::*;
    use std::rc::Rc;
    use std::sync::Arc;

    #[autocast(f16)]
    fn boxed(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Box<[Tensor<F32>]>> {
        let hs = x.matmul(w)?.chunk(2, 0)?;
        Ok(hs.into_boxed_slice())
    }

    #[autocast(f16)]
    fn shared(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Arc<[Tensor<F32>]>> {
        let hs = x.matmul(w)?.chunk(2, 0)?;
        Ok(Arc::from(hs))
    }

    #[autocast(f16)]
    fn counted(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Rc<[Tensor<F32>]>> {
        let hs = x.matmul(w)?.chunk(2, 0)?;
        let out: Rc<[Tensor<F32>]> = Rc::from(hs);
        Ok(out)
    }

    #[test]
    fn runs() -> Result<()> {
        let x = Tensor::<F32>::ones([2, 2], &Device::cpu())?;
        assert_eq!(boxed(&x, &x)?.len() + shared(&x, &x)?.len() + counted(&x, &x)?.len(), 6);
        Ok(())
    }
}

/// A list is filled up with F32.
mod filled_up {
    use amp::prelude::*;

    #[autocast(f16)]
    fn pushed(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let mut hs = x.matmul(w)?.chunk(2, 0)?;
        while hs.len() < 4 {
            hs.push(Tensor::<F32>::zeros([1, 2], x.device())?);
        }
        Tensor::cat(&hs, 0)
    }

    #[autocast(f16)]
    fn resized(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let mut hs = x.matmul(w)?.chunk(2, 0)?;
        hs.resize(4, Tensor::<F32>::zeros([1, 2], x.device())?);
        Tensor::cat(&hs, 0)
    }

    #[autocast(f16)]
    fn made(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let mut hs = x.matmul(w)?.chunk(2, 0)?;
        hs.resize_with(4, || Tensor::<F32>::zeros([1, 2], x.device()).unwrap());
        Tensor::cat(&hs, 0)
    }

    #[autocast(f16)]
    fn all_the_same(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let mut hs = vec![x.matmul(w)?; 4];
        hs.fill(x.softmax(-1)?);
        Tensor::cat(&hs, 0)
    }

    #[test]
    fn runs() -> Result<()> {
        let x = Tensor::<F32>::ones([2, 2], &Device::cpu())?;
        for f in [pushed, resized, made] {
            assert_eq!(f(&x, &x)?.dims(), [4, 2]);
        }
        assert_eq!(all_the_same(&x, &x)?.dims(), [8, 2]);
        Ok(())
    }
}

/// `clone_from` assigns.
mod cloned {
    use amp::nn::LayerNorm;
    use amp::prelude::*;

    #[autocast(f16)]
    fn of_an_operation(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let mut h = x.matmul(w)?;
        for _ in 0..2 {
            h.clone_from(&h.softmax(-1)?.matmul(w)?.exp()?);
        }
        Ok(h)
    }

    #[autocast(bf16)]
    fn of_a_module(norm: &LayerNorm, x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let mut best = x.matmul(w)?;
        let y = norm.forward(&best)?;
        if y.max_all()?.item()? > 0.0 {
            best.clone_from(&y);
        }
        best.matmul(w)
    }

    #[test]
    fn runs() -> Result<()> {
        let d = Device::cpu();
        let x = Tensor::<F32>::eye(2, 2, &d)?;
        assert_eq!(of_an_operation(&x, &x)?.dims(), [2, 2]);
        assert_eq!(of_a_module(&LayerNorm::new(2, &d)?, &x, &x)?.dims(), [2, 2]);
        Ok(())
    }
}

/// What is repeated goes into a list.
mod repeated {
    use amp::prelude::*;
    use std::iter;

    #[autocast(f16)]
    fn once(x: &Tensor<F32>, w: &Tensor<F32>, out: &mut Vec<Tensor<F32>>) -> Result<()> {
        out.extend(iter::once(x.matmul(w)?));
        Ok(())
    }

    #[autocast(f16)]
    fn repeated(x: &Tensor<F32>, w: &Tensor<F32>, out: &mut Vec<Tensor<F32>>) -> Result<()> {
        let h = x.matmul(w)?;
        out.extend(iter::repeat(h).enumerate().map(|(_, h)| h).take(2));
        Ok(())
    }

    #[autocast(f16)]
    fn repeated_n(x: &Tensor<F32>, w: &Tensor<F32>, out: &mut Vec<Tensor<F32>>) -> Result<()> {
        out.extend(iter::repeat_n(x.matmul(w)?, 3));
        Ok(())
    }

    #[autocast(f16)]
    fn collected(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Vec<Tensor<F32>>> {
        let h = x.matmul(w)?;
        Ok(iter::repeat_n(h, 3).collect())
    }

    #[test]
    fn runs() -> Result<()> {
        let x = Tensor::<F32>::ones([2, 2], &Device::cpu())?;
        let mut out = Vec::new();
        once(&x, &x, &mut out)?;
        repeated(&x, &x, &mut out)?;
        repeated_n(&x, &x, &mut out)?;
        out.extend(collected(&x, &x)?);
        assert_eq!(out.len(), 9);
        Ok(())
    }
}
