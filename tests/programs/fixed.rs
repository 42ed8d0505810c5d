//! Numbers that are none that a tensor meets, or other ones by then.

/// A size is no number that meets elements, and its type no exponent.
mod sizes {
    use amp::prelude::*;

    #[autocast(f16)]
    fn rows(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let h = x.matmul(w)?;
        h.reshape([70_000usize, 1])
    }

    #[autocast(f16)]
    fn of_a_variable(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let vocab = 70_000usize;
        x.matmul(w)?.reshape([vocab, 1])
    }

    #[autocast(f16)]
    fn narrowed(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        x.matmul(w)?.narrow(0, 69_000usize, 4)
    }

    #[autocast(f16)]
    fn computed(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        x.matmul(w)?.reshape([35_000usize * 2, 1])
    }

    #[autocast(f16)]
    fn cast(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        x.matmul(w)?.reshape([7e4 as usize, 1])
    }

    #[test]
    fn runs() -> Result<()> {
        let d = Device::cpu();
        let (x, w) = (Tensor::<F32>::ones([70_000, 1], &d)?, Tensor::<F32>::ones([1, 1], &d)?);
        for f in [rows, of_a_variable, computed, cast] {
            assert_eq!(f(&x, &w)?.dims(), [70_000, 1]);
        }
        assert_eq!(narrowed(&x, &w)?.dims(), [4, 1]);
        Ok(())
    }
}

/// A number is what it was changed to.
mod assigned {
    use amp::prelude::*;

    #[autocast(f16)]
    fn shifted(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let mut scale = 131_072;
        scale >>= 16;
        x.matmul(w)? * scale as f64
    }

    #[autocast(f16)]
    fn wrapped(x: &Tensor<F32>, w: &Tensor<F32>, step: f64) -> Result<Tensor<F32>> {
        let mut phase = 1e6;
        phase %= 7.0 + step;
        x.matmul(w)? + phase
    }

    #[autocast(f16)]
    fn masked(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let mut bits = 0xFFFFF;
        bits &= 0xFF;
        x.matmul(w)? * f64::from(bits)
    }

    #[test]
    fn runs() -> Result<()> {
        let d = Device::cpu();
        let (x, w) = (Tensor::<F32>::ones([2, 1], &d)?, Tensor::<F32>::ones([1, 2], &d)?);
        assert_eq!(shifted(&x, &w)?.to_vec()?, [2.0; 4]);
        assert!(wrapped(&x, &w, 1.0)?.to_vec()?.iter().all(|v| *v < 10.0));
        assert_eq!(masked(&x, &w)?.to_vec()?, [255.0; 4]);
        Ok(())
    }
}

/// A number may be changed by a macro.
mod by_macros {
    use amp::prelude::*;

    macro_rules! halve {
        ($v:ident) => {
            $v /= 1e6
        };
    }

    #[autocast(f16)]
    fn scaled(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let mut scale = 1e9;
        halve!(scale);
        x.matmul(w)? * scale
    }

    #[test]
    fn runs() -> Result<()> {
        let d = Device::cpu();
        let (x, w) = (Tensor::<F32>::ones([2, 1], &d)?, Tensor::<F32>::ones([1, 2], &d)?);
        assert_eq!(scaled(&x, &w)?.to_vec()?, [1000.0; 4]);
        Ok(())
    }
}

/// Numbers that are read out of a tensor.
mod read {
    use amp::prelude::*;

    struct Row {
        first: f32,
        all: Vec<f32>,
    }

    #[autocast(f16)]
    fn numbers(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<(f32, Vec<f32>)> {
        let h = x.matmul(w)?;
        let v = h.to_vec()?;
        let total: f32 = v.iter().sum();
        let wide = h.to::<F32>()?.to_vec()?;
        let first = wide[0] * 2.0 + 1.0;
        let scaled: Vec<f32> = wide.iter().map(|v| v * 0.5).collect();
        let best = wide.iter().copied().fold(f32::MIN, f32::max);
        Ok((total + first + best, scaled))
    }

    #[autocast(f16)]
    fn row(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Row> {
        let all = x.matmul(w)?.softmax(-1)?.to_vec()?;
        Ok(Row { first: all[0], all })
    }

    #[autocast(f16)]
    fn scaled(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let h = x.matmul(w)?;
        let v = h.softmax(-1)?.to_vec()?;
        let mut out = h * f64::from(v[0]);
        for n in v {
            out = out? * f64::from(n);
        }
        out
    }

    #[test]
    fn runs() -> Result<()> {
        let x = Tensor::<F32>::ones([2, 2], &Device::cpu())?;
        assert_eq!(numbers(&x, &x)?.0, 8.0 + 5.0 + 2.0);
        assert_eq!(row(&x, &x)?.first, 0.5);
        assert_eq!(row(&x, &x)?.all.len(), 4);
        assert_eq!(scaled(&x, &x)?.to_vec()?[0], 2.0 * 0.5f32.powi(5));
        Ok(())
    }
}
