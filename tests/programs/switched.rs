//! Regions that a condition switches on at run time: what is of the region's precision in one of its two bodies and F32 in
//! the other joins at F32.

use super::{T, random};
use amp::nn::*;
use amp::prelude::*;

fn lower(x: &T, on: bool) -> Result<T> {
    let y = amp_region!(f16, enabled = on, { x.matmul(x)? });
    Ok(y)
}

fn module(l: &Linear, x: &T, on: bool) -> Result<T> {
    let y = amp_region!(bf16, enabled = on, {
        let h = l.forward(x)?;
        l.forward(&h)?
    });
    Ok(y)
}

fn fallible(x: &T, on: bool) -> Result<T> {
    amp_region!(f16, enabled = on, x.matmul(x))
}

fn wrapped(x: &T, on: bool) -> Result<T> {
    amp_region!(f16, enabled = on, {
        let h = x.matmul(x)?;
        Ok(h)
    })
}

fn tuple(x: &T, on: bool) -> Result<(T, usize, T)> {
    let (a, n, b) = amp_region!(f16, enabled = on, {
        let h = x.matmul(x)?;
        (h.clone(), 1, h.exp()?)
    });
    Ok((a, n, b))
}

fn pair(x: &T, on: bool) -> Result<(T, T)> {
    let p = amp_region!(f16, enabled = on, {
        let h = x.matmul(x)?;
        (h.relu()?, h)
    });
    Ok(p)
}

fn number(x: &T, on: bool) -> Result<f32> {
    Ok(amp_region!(f16, enabled = on, { x.matmul(x)?.mean_all()?.item()? }))
}

fn unit(x: &mut T, on: bool) -> Result<()> {
    amp_region!(f16, enabled = on, {
        *x = x.matmul(x)?;
    });
    Ok(())
}

fn list(x: &T, on: bool) -> Result<Vec<T>> {
    let v = amp_region!(f16, enabled = on, { vec![x.matmul(x)?, x.matmul(x)?] });
    Ok(v)
}

fn same(x: &T, on: bool) -> Result<T> {
    Ok(amp_region!(f16, enabled = on, { x.matmul(x)?.softmax(-1)? }))
}

fn left(x: &T, on: bool) -> Result<T> {
    let y = amp_region!(f16, enabled = on, {
        if x.dims().len() > 3 {
            return x.relu();
        }
        x.matmul(x)?
    });
    y.relu()
}

#[autocast(bf16)]
fn nested(x: &T, on: bool) -> Result<T> {
    let y = amp_region!(f16, enabled = on, { x.matmul(x)? });
    y.exp()
}

fn generic<P: AutocastPrecision>(x: &T, on: bool) -> Result<T> {
    let y = amp_region!(P, enabled = on, { x.matmul(x)? });
    Ok(y)
}

fn own(x: &T, on: bool) -> Result<T> {
    let y = amp_region!(f16, enabled = on, own2(&x.matmul(x)?)?);
    Ok(y)
}

fn branch(x: &T, on: bool) -> Result<T> {
    let y = amp_region!(f16, enabled = on, { if on { x.matmul(x)? } else { x.exp()? } });
    Ok(y)
}

fn option(x: &T, on: bool) -> Result<Option<T>> {
    let y = amp_region!(f16, enabled = on, { Some(x.matmul(x)?) });
    Ok(y)
}

fn stmt(x: &T, on: bool) -> Result<()> {
    amp_region!(f16, enabled = on, { x.matmul(x)? });
    Ok(())
}

fn collected(x: &T, on: bool) -> Result<Vec<T>> {
    amp_region!(f16, enabled = on, { (0..2).map(|_| x.matmul(x)?.exp()).collect() })
}
fn own2(x: &T) -> Result<T> {
    x.relu()
}

#[test]
fn region_that_is_switched_at_run_time_gives_f32() -> Result<()> {
    let x = random([4, 4])?;
    let narrow = x.to::<F16>()?;
    let by_hand = [x.matmul(&x)?, narrow.matmul(&narrow)?.to::<F32>()?];
    for (on, expected) in [false, true].into_iter().zip(by_hand) {
        let expected = expected.to_vec()?;
        let (h, n, _) = tuple(&x, on)?;
        assert_eq!((h.to_vec()?, n), (expected.clone(), 1));
        for y in [lower(&x, on)?, fallible(&x, on)?, wrapped(&x, on)?, generic::<F16>(&x, on)?, list(&x, on)?.remove(0)]
        {
            assert_eq!(y.to_vec()?, expected);
        }
    }
    Ok(())
}

/// Items of a body are there once, though it is there twice.
mod items {
    use super::T;
    use amp::prelude::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    #[autocast(f16, enabled = on)]
    pub(super) fn of_a_function(x: &T, on: bool) -> Result<(T, usize)> {
        static CALLS: AtomicUsize = AtomicUsize::new(FIRST);
        const FIRST: usize = 0;
        let y = x.matmul(x)?;
        Ok((y, CALLS.fetch_add(1, Relaxed)))
    }

    pub(super) fn of_a_region(x: &T, on: bool) -> Result<usize> {
        amp_region!(f16, enabled = on, {
            static CALLS: AtomicUsize = AtomicUsize::new(0);
            fn next() -> usize {
                CALLS.fetch_add(1, Relaxed)
            }
            x.matmul(x)?;
            Ok(next())
        })
    }

    #[autocast(f16)]
    pub(super) fn of_a_region_within(x: &T, on: bool) -> Result<(T, usize)> {
        let y = amp_region!(bf16, enabled = on, {
            static CALLS: AtomicUsize = AtomicUsize::new(0);
            (x.matmul(x)?, CALLS.fetch_add(1, Relaxed))
        });
        Ok(y)
    }

    /// A macro among them may name a variable.
    #[autocast(f16, enabled = on)]
    pub(super) fn with_a_macro(x: &T, on: bool) -> Result<(T, usize)> {
        let rank = x.rank();
        macro_rules! rank {
            () => {
                rank
            };
        }
        const TWICE: usize = 2;
        Ok((x.matmul(x)?, rank!() * TWICE))
    }
}

#[test]
fn items_of_a_body_in_two_precisions_are_there_once() -> Result<()> {
    let x = random([2, 2])?;
    for (i, on) in [true, false, true].into_iter().enumerate() {
        assert_eq!(items::of_a_function(&x, on)?.1, i);
        assert_eq!(items::of_a_region(&x, on)?, i);
        assert_eq!(items::of_a_region_within(&x, on)?.1, i);
        assert_eq!(items::with_a_macro(&x, on)?.1, 4);
    }
    Ok(())
}
