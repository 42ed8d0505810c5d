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
