//! The order in which the parts of a call are read stays.

/// What is written first is read first, whatever an argument behind it changes.
mod arguments {
    use amp::prelude::*;

    fn embed(x: &Tensor<F32>) -> Result<Tensor<F32>> {
        Ok(x.clone())
    }

    fn bias<'a>(bs: &'a [Tensor<F32>], at: &mut usize) -> Option<&'a Tensor<F32>> {
        let b = &bs[*at];
        *at += 1;
        Some(b)
    }

    fn plain(x: &Tensor<F32>, ws: &[Tensor<F32>], bs: &[Tensor<F32>]) -> Result<Tensor<F32>> {
        let mut at = 0;
        let h = embed(x)?;
        h.linear(&ws[at], bias(bs, &mut at))
    }

    #[autocast(bf16)]
    fn region(x: &Tensor<F32>, ws: &[Tensor<F32>], bs: &[Tensor<F32>]) -> Result<Tensor<F32>> {
        let mut at = 0;
        let h = embed(x)?;
        h.linear(&ws[at], bias(bs, &mut at))
    }

    #[autocast(f16)]
    fn addmm_order(x: &Tensor<F32>, ws: &[Tensor<F32>]) -> Result<Tensor<F32>> {
        let mut at = 0;
        let mut next = || {
            at += 1;
            at
        };
        let h = embed(x)?;
        h.addmm(&ws[next() - 1], &ws[next() - 1])
    }

    #[test]
    fn runs() -> Result<()> {
        let d = Device::cpu();
        let full = |v: f32| Tensor::<F32>::full([2, 2], v, &d);
        let x = full(1.0)?;
        let (ws, bs) =
            ([full(2.0)?, full(4.0)?], [Tensor::<F32>::full([2], 16.0, &d)?, Tensor::<F32>::full([2], 64.0, &d)?]);
        assert_eq!(plain(&x, &ws, &bs)?.to_vec()?, [20.0; 4]);
        assert_eq!(addmm_order(&x, &ws)?.to_vec()?, [1.0 + 16.0; 4]);
        assert_eq!(region(&x, &ws, &bs)?.to_vec()?, [20.0; 4]);
        Ok(())
    }
}

/// A receiver is found before its arguments run.
mod receivers {
    use amp::prelude::*;

    fn next<'a>(ws: &'a [Tensor<F32>], i: &mut usize) -> &'a Tensor<F32> {
        *i += 1;
        &ws[*i - 1]
    }

    #[autocast(bf16)]
    fn region(x: &Tensor<F32>, ws: &[Tensor<F32>]) -> Result<Tensor<F32>> {
        let xs = x.chunk(2, 0)?.into_iter().collect::<Vec<_>>();
        let mut i = 0;
        xs[i].matmul(next(ws, &mut i))
    }

    #[autocast(bf16)]
    fn in_a_loop(x: &Tensor<F32>, ws: &[Tensor<F32>]) -> Result<Tensor<F32>> {
        let xs = x.chunk(2, 0)?.into_iter().collect::<Vec<_>>();
        let mut i = 0;
        let mut out: Vec<Tensor<F32>> = Vec::new();
        while i < xs.len() {
            out.push(xs[i].matmul({
                i += 1;
                &ws[i - 1]
            })?);
        }
        Tensor::cat(&out, 0)
    }

    #[test]
    fn runs() -> Result<()> {
        let d = Device::cpu();
        let x = Tensor::<F32>::from_vec(vec![1.0, 1.0, 3.0, 3.0], [2, 2], &d)?;
        let ws = [Tensor::<F32>::full([2, 2], 2.0, &d)?, Tensor::<F32>::full([2, 2], 4.0, &d)?];
        assert_eq!(region(&x, &ws)?.to_vec()?, [4.0; 2]);
        assert_eq!(in_a_loop(&x, &ws)?.to_vec()?, [4.0, 4.0, 24.0, 24.0]);
        Ok(())
    }
}
