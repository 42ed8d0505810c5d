//! What others change: what is lent exclusively, swapped, or lies behind a reference.

/// A state and its next one change places.
mod swapped {
    use amp::prelude::*;

    struct Cell {
        h: Tensor<F32>,
        w: Tensor<F32>,
    }

    impl Cell {
        #[autocast(f16)]
        fn step(&mut self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
            let mut next = (x.matmul(&self.w)? + self.h.matmul(&self.w)?)?.tanh()?;
            std::mem::swap(&mut self.h, &mut next);
            Ok(next)
        }
    }

    #[test]
    fn runs() -> Result<()> {
        let d = Device::cpu();
        let mut cell = Cell { h: Tensor::zeros([2, 2], &d)?, w: Tensor::full([2, 2], 0.5, &d)? };
        let x = Tensor::<F32>::ones([2, 2], &d)?;
        assert_eq!(cell.step(&x)?.to_vec()?, [0.0; 4]);
        assert!(cell.h.to_vec()?[0] > 0.7);
        Ok(())
    }
}

/// A function of one's own changes what it is lent.
mod helpers {
    use amp::prelude::*;

    fn rescale(h: &mut Tensor<F32>) -> Result<()> {
        *h = (&*h * 0.5)?;
        Ok(())
    }

    fn grow(hs: &mut Vec<Tensor<F32>>) {
        let last = hs[hs.len() - 1].clone();
        hs.push(last);
    }

    struct Noise(f64);

    impl Noise {
        fn apply(&self, h: &mut Tensor<F32>) -> Result<()> {
            *h = (&*h + self.0)?;
            Ok(())
        }

        fn disturb(&self, h: &mut Tensor<F32>) -> Result<()> {
            self.apply(h)
        }
    }

    #[autocast(f16)]
    fn by_function(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let mut h = x.matmul(w)?;
        rescale(&mut h)?;
        h.matmul(w)
    }

    #[autocast(f16)]
    fn by_method(x: &Tensor<F32>, w: &Tensor<F32>, noise: &Noise) -> Result<Tensor<F32>> {
        let mut h = x.matmul(w)?;
        noise.disturb(&mut h)?;
        h.matmul(w)
    }

    #[autocast(f16)]
    fn of_a_list(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let mut hs = vec![x.matmul(w)?];
        grow(&mut hs);
        Tensor::cat(&hs, 0)
    }

    #[test]
    fn runs() -> Result<()> {
        let x = Tensor::<F32>::ones([2, 2], &Device::cpu())?;
        assert_eq!(by_function(&x, &x)?.to_vec()?, [2.0; 4]);
        assert_eq!(by_method(&x, &x, &Noise(1.0))?.to_vec()?, [6.0; 4]);
        assert_eq!(of_a_list(&x, &x)?.dims(), [4, 2]);
        Ok(())
    }
}

/// What is assigned by a pattern of which a function gives the parts.
mod places {
    use amp::prelude::*;

    struct State {
        h: Tensor<F32>,
        n: usize,
    }

    struct Pair(Tensor<F32>, Tensor<F32>);

    fn step(h: &Tensor<F32>, n: usize) -> Result<State> {
        Ok(State { h: (h * 2.0)?, n: n + 1 })
    }

    fn pair(h: &Tensor<F32>) -> Result<Pair> {
        Ok(Pair(h.clone(), (h * 3.0)?))
    }

    fn counted(h: &Tensor<F32>) -> Result<(Tensor<F32>, usize, usize)> {
        Ok(((h + 1.0)?, 1, 2))
    }

    #[autocast(f16)]
    fn by_struct(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let (mut h, mut n) = (x.matmul(w)?, 0);
        while n < 2 {
            State { h, n } = step(&h, n)?;
        }
        Ok(h)
    }

    #[autocast(f16)]
    fn by_tuple_struct(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let (mut a, mut b) = (x.matmul(w)?, x.matmul(w)?);
        Pair(a, b) = pair(&(&a + &b)?)?;
        a + b
    }

    #[autocast(f16)]
    fn by_rest(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let mut h = x.matmul(w)?;
        for _ in 0..2 {
            (h, ..) = counted(&h)?;
        }
        Ok(h)
    }

    #[test]
    fn runs() -> Result<()> {
        let x = Tensor::<F32>::ones([2, 2], &Device::cpu())?;
        assert_eq!(by_struct(&x, &x)?.to_vec()?, [8.0; 4]);
        assert_eq!(by_tuple_struct(&x, &x)?.to_vec()?, [16.0; 4]);
        assert_eq!(by_rest(&x, &x)?.to_vec()?, [4.0; 4]);
        Ok(())
    }
}

/// Elements are assigned through exclusive references into a list.
mod pieces {
    use amp::prelude::*;

    fn start(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Vec<Tensor<F32>>> {
        x.matmul(w)?.chunk(2, 0)
    }

    #[autocast(f16)]
    fn by_iter(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let mut hs = x.matmul(w)?.chunk(2, 0)?;
        for h in hs.iter_mut() {
            *h = h.softmax(-1)?;
        }
        Tensor::cat(&hs, 0)
    }

    #[autocast(f16)]
    fn by_last(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let mut hs = x.matmul(w)?.chunk(2, 0)?;
        let _ = hs.last_mut().map(|h| {
            *h = h.softmax(-1).unwrap();
            h.rank()
        });
        Tensor::cat(&hs, 0)
    }

    #[autocast(f16)]
    fn by_halves(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let mut hs = x.matmul(w)?.chunk(2, 0)?;
        let (a, b) = hs.split_at_mut(1);
        a[0] = b[0].softmax(-1)?;
        Tensor::cat(&hs, 0)
    }

    #[autocast(f16)]
    fn by_chunks(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let mut hs = x.matmul(w)?.chunk(2, 0)?;
        for pair in hs.chunks_mut(2) {
            pair[1] = pair[0].softmax(-1)?;
        }
        Tensor::cat(&hs, 0)
    }

    #[test]
    fn runs() -> Result<()> {
        let x = Tensor::<F32>::ones([2, 2], &Device::cpu())?;
        assert_eq!(start(&x, &x)?.len(), 2);
        for f in [by_iter, by_last, by_halves, by_chunks] {
            assert_eq!(f(&x, &x)?.dims(), [2, 2]);
        }
        Ok(())
    }
}

/// What lies in a box or in a cell is changed there.
mod cells {
    use amp::prelude::*;
    use std::cell::RefCell;
    use std::sync::Mutex;

    #[autocast(f16)]
    fn boxed(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let mut h = Box::new(x.matmul(w)?);
        for _ in 0..2 {
            *h = h.softmax(-1)?;
        }
        Ok(*h)
    }

    #[autocast(f16)]
    fn in_a_cell(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let state = RefCell::new(x.matmul(w)?);
        let step = || -> Result<()> {
            let next = state.borrow().softmax(-1)?;
            *state.borrow_mut() = next;
            Ok(())
        };
        step()?;
        step()?;
        Ok(state.into_inner())
    }

    #[autocast(f16)]
    fn replaced(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let state = RefCell::new(x.matmul(w)?);
        let old = state.replace(x.softmax(-1)?);
        old + state.into_inner()
    }

    #[autocast(f16)]
    fn in_a_mutex(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let state = Mutex::new(x.matmul(w)?);
        *state.lock().unwrap() = x.softmax(-1)?;
        Ok(state.into_inner().unwrap())
    }

    #[test]
    fn runs() -> Result<()> {
        let x = Tensor::<F32>::ones([2, 2], &Device::cpu())?;
        for f in [boxed, in_a_cell, replaced, in_a_mutex] {
            assert_eq!(f(&x, &x)?.dims(), [2, 2]);
        }
        Ok(())
    }
}

/// What is lent exclusively and stays as narrow as it is: an iterator, what is declared, a number; narrow fields.
mod moved {
    use amp::prelude::*;
    use std::sync::Arc;

    struct Cache {
        keys: Arc<[Tensor<F16>]>,
        one: Box<Tensor<F16>>,
    }

    #[autocast(f16)]
    fn zipped(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let hs = x.matmul(w)?.chunk(2, 0)?;
        let mut it = hs.iter();
        let mut out = Vec::new();
        for (a, b) in hs.iter().zip(&mut it) {
            out.push((a + b)?);
        }
        Tensor::cat(&out, 0)
    }

    fn second<I: Iterator>(it: &mut I) -> Option<I::Item> {
        it.next();
        it.next()
    }

    #[autocast(f16)]
    fn generic(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let hs = x.matmul(w)?.chunk(2, 0)?;
        let mut it = hs.iter();
        let h = second(&mut it).expect("two");
        h.matmul(w)
    }

    #[autocast(f16)]
    fn narrow_field(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Cache> {
        let hs = x.matmul(w)?.chunk(2, 0)?;
        let one = Box::from(x.matmul(w)?);
        Ok(Cache { keys: Arc::from(hs), one })
    }

    fn half(h: &mut Tensor<F16>) -> Result<()> {
        *h = (&*h * 0.5)?;
        Ok(())
    }

    #[autocast(f16)]
    fn declared(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        let mut h: Tensor<F16> = x.matmul(w)?;
        half(&mut h)?;
        h.matmul(w)
    }

    #[autocast(f16)]
    fn count(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
        fn bump(n: &mut usize) -> usize {
            *n += 1;
            *n
        }
        let mut n = 0;
        let mut h = x.matmul(w)?;
        while bump(&mut n) < 3 {
            h = h.matmul(w)?;
        }
        Ok(h)
    }

    #[test]
    fn runs() -> Result<()> {
        let x = Tensor::<F32>::ones([2, 2], &Device::cpu())?;
        assert_eq!(zipped(&x, &x)?.to_vec()?, [4.0; 4]);
        assert_eq!(generic(&x, &x)?.dims(), [1, 2]);
        let c = narrow_field(&x, &x)?;
        assert_eq!((c.keys.len(), c.one.rank()), (2, 2));
        assert_eq!(declared(&x, &x)?.dims(), [2, 2]);
        assert_eq!(count(&x, &x)?.dims(), [2, 2]);
        Ok(())
    }
}
