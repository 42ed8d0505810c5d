//! Closures and async blocks that share tensors with what is around them.

use super::{T, random};
use amp::nn::{LayerNorm, Linear};
use amp::prelude::*;
use std::task::{Context, Poll, Waker};

/// A reference that a closure owns is narrowed outside of it too.
#[autocast(f16)]
fn shared(x: &T, w: &T) -> Result<T> {
    let by_x = move |t: &Tensor<F32>| x.matmul(t);
    let a = x.matmul(w)?;
    let b = by_x(w)?;
    let c = w.matmul(x)?;
    (&a + &b)? + &c
}

#[autocast(f16)]
async fn awaited(x: &T, w: &T) -> Result<T> {
    let a = x.matmul(w)?;
    let later = async move { x.matmul(w) };
    let b = w.matmul(x)?;
    (a + later.await?)? + &b
}

/// Given away after it was used for the last time, in a closure that is called once and after a loop.
#[autocast(f16)]
fn given_away(x: &T, owned: T, other: T) -> Result<(T, Vec<T>)> {
    let mut kept = Vec::new();
    let once = |t: &Tensor<F32>| {
        let y = t.matmul(&owned)?.matmul(&owned)?;
        drop(owned);
        Ok::<_, Error>(y)
    };
    let mut h = once(x)?;
    for _ in 0..2 {
        h = other.matmul(&h)?;
    }
    kept.push(other);
    Ok((h, kept))
}

fn now<F: Future>(future: F) -> F::Output {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("nothing to wait for"),
    }
}

#[test]
fn what_owns_a_reference_narrows_for_itself() -> Result<()> {
    let (x, w) = (random([4, 4])?, random([4, 4])?);
    let (x16, w16) = (x.to::<F16>()?, w.to::<F16>()?);
    let a = x16.matmul(&w16)?;
    let by_hand = ((&a + &a)? + w16.matmul(&x16)?)?.to::<F32>()?.to_vec()?;
    assert_eq!(shared(&x, &w)?.to_vec()?, by_hand);
    assert_eq!(now(awaited(&x, &w))?.to_vec()?, by_hand);
    Ok(())
}

#[test]
fn a_tensor_is_given_away_after_its_last_use() -> Result<()> {
    let (x, owned, other) = (random([4, 4])?, random([4, 4])?, random([4, 4])?);
    let [x16, owned16, other16] = [x.to::<F16>()?, owned.to::<F16>()?, other.to::<F16>()?];
    let y = other16.matmul(&other16.matmul(&x16.matmul(&owned16)?.matmul(&owned16)?)?)?;
    let (region, kept) = given_away(&x, owned, other)?;
    assert_eq!(region.to_vec()?, y.to::<F32>()?.to_vec()?);
    assert_eq!(kept.len(), 1);
    Ok(())
}

/// Who calls a closure says what it returns.
fn each(ws: &[T], f: impl Fn(&T) -> Result<T>) -> Result<Vec<T>> {
    ws.iter().map(f).collect()
}

fn timed<R>(f: impl FnOnce() -> R) -> R {
    f()
}

struct Layers(Vec<T>);

impl Layers {
    fn map_all(&self, f: impl Fn(usize, &T) -> Result<T>) -> Result<Vec<T>> {
        self.0.iter().enumerate().map(|(i, layer)| f(i, layer)).collect()
    }
}

#[autocast(f16)]
fn passed_on(x: &T, layers: &Layers, start: Option<T>) -> Result<Vec<T>> {
    let mut all = each(&layers.0, |w| x.matmul(w)?.relu())?;
    all.extend(layers.map_all(|i, w| {
        if i == 0 {
            return x.exp();
        }
        w.matmul(x)
    })?);
    let half = timed(|| x.matmul(x))?;
    all.push(half.matmul(x)?);
    let start: T = start.map_or_else(|| x.matmul(x), Ok)?;
    all.push(start);
    Ok(all)
}

#[test]
fn closures_give_what_their_callers_want() -> Result<()> {
    let x = random([4, 4])?;
    let layers = Layers(vec![random([4, 4])?, random([4, 4])?]);
    let x16 = x.to::<F16>()?;
    let [a, b] = [layers.0[0].to::<F16>()?, layers.0[1].to::<F16>()?];
    let half = x16.matmul(&x16)?;
    let by_hand = [
        x16.matmul(&a)?.relu()?.to::<F32>()?,
        x16.matmul(&b)?.relu()?.to::<F32>()?,
        x.exp()?,
        b.matmul(&x16)?.to::<F32>()?,
        half.matmul(&x16)?.to::<F32>()?,
        half.to::<F32>()?,
    ];
    let region = passed_on(&x, &layers, None)?;
    assert_eq!(region.len(), by_hand.len());
    for (one, other) in region.iter().zip(&by_hand) {
        assert_eq!(one.to_vec()?, other.to_vec()?);
    }
    Ok(())
}

#[autocast(f16)]
fn chosen(fc: &Linear, x: &Tensor<F32>, mask: Option<&Tensor<F32>>) -> Result<[Tensor<F32>; 3]> {
    let h = fc.forward(x)?;
    let rows = mask.map_or(0, |mask| mask.dims()[0]);
    let other = mask.map_or_else(|| Ok(h.clone()), |mask| &h + mask)?;
    let both = mask.map_or(Ok(h.clone()), |mask| &h * mask)?;
    let halves = mask.map_or_else(|| h.relu(), |_| h.tanh())?;
    assert_eq!(rows, mask.map_or_else(|| 0, |mask| mask.dims()[0]));
    Ok([other, both, halves])
}

#[test]
fn one_of_what_two_arguments_make_joins_as_branches_do() -> Result<()> {
    let (fc, x, mask) = (Linear::new(4, 4, &Device::cpu())?, random([3, 4])?, random([3, 4])?);
    let half = fc.forward(&x.to::<F16>()?)?;
    let h = half.to::<F32>()?;
    let with = [(&h + &mask)?, (&h * &mask)?, half.tanh()?.to()?];
    let without = [h.clone(), h, half.relu()?.to()?];
    for (mask, expected) in [(Some(&mask), with), (None, without)] {
        for (got, expected) in chosen(&fc, &x, mask)?.iter().zip(expected) {
            assert_eq!(got.to_vec()?, expected.to_vec()?);
        }
    }
    Ok(())
}

/// A parameter without a type has one type in all calls: what the results of several modules meet in.
#[autocast(f16)]
fn called_with_several(fc: &Linear, ln: &LayerNorm, x: &T) -> Result<T> {
    let scaled = |h, k: f64| h * k;
    let last = |h: &_| fc.forward(h);
    let (a, b) = (scaled(fc.forward(x)?, 2.0)?, scaled(ln.forward(x)?, 0.5)?);
    (last(&a)? + last(&b)?)? + last(&ln.forward(x)?)?
}

#[test]
fn parameters_without_a_type_hold_the_results_of_all_modules() -> Result<()> {
    let (fc, ln) = (Linear::new(4, 4, &Device::cpu())?, LayerNorm::new(4, &Device::cpu())?);
    let x = random([3, 4])?;
    let last = |h: Tensor<F32>| fc.forward(&h.to::<F16>()?);
    let a = (fc.forward(&x.to::<F16>()?)?.to::<F32>()? * 2.0)?;
    let normed = ln.forward(&x)?;
    let by_hand = ((last(a)? + last((&normed * 0.5)?)?)? + last(normed)?)?;
    assert_eq!(called_with_several(&fc, &ln, &x)?.to_vec()?, by_hand.to::<F32>()?.to_vec()?);
    Ok(())
}

type Call<'a> = Box<dyn Fn(&Tensor<F32>) -> Result<Tensor<F32>> + 'a>;

mod kept {
    use super::{Call, T};
    use amp::nn::{LayerNorm, Linear};
    use amp::prelude::*;
    use std::collections::HashMap;

    #[autocast(f16)]
    pub fn pushed(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<T> {
        let mut all: Vec<Call<'_>> = Vec::new();
        all.push(Box::new(|t| t.matmul(w)));
        all[0](x)
    }

    #[autocast(f16)]
    pub fn pushed_by_name(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<T> {
        let mut all: Vec<Call<'_>> = Vec::new();
        for _ in 0..2 {
            let one = |t: &Tensor<F32>| -> Result<Tensor<F32>> { t.matmul(w) };
            all.push(Box::new(one));
        }
        all[1](x)
    }

    #[autocast(f16)]
    pub fn in_branches(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<T> {
        let one: Call<'_> = if x.rank() == 2 { Box::new(|t| t.matmul(w)) } else { Box::new(|t| w.matmul(t)) };
        one(x)
    }

    #[autocast(f16)]
    pub fn borrowed_in_branches(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<T> {
        let one: &dyn Fn(&Tensor<F32>) -> Result<Tensor<F32>> =
            if x.rank() == 2 { &|t| t.matmul(w) } else { &|t| w.matmul(t) };
        one(x)
    }

    #[autocast(f16)]
    pub fn later(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<T> {
        let one: Call<'_>;
        if x.rank() == 2 {
            one = Box::new(|t| t.matmul(w));
        } else {
            one = Box::new(|t| w.matmul(t));
        }
        one(x)
    }

    #[autocast(f16)]
    pub fn inserted(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<T> {
        let mut all: HashMap<&str, Call<'_>> = HashMap::new();
        all.insert("a", Box::new(|t| t.matmul(w)));
        all["a"](x)
    }

    #[autocast(f16)]
    pub fn of_a_block(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<T> {
        let one = {
            let v = w;
            |t: &Tensor<F32>| t.matmul(v)
        };
        one(x)
    }

    #[autocast(f16)]
    pub fn iterated(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<T> {
        let list = [x];
        let mut all: Vec<Box<dyn Iterator<Item = Result<Tensor<F32>>> + '_>> = Vec::new();
        all.push(Box::new(list.iter().map(|t| -> Result<Tensor<F32>> { t.matmul(w) })));
        all[0].next().unwrap()
    }

    fn hold<'a>(all: &mut Vec<Call<'a>>, one: impl Fn(&Tensor<F32>) -> Result<Tensor<F32>> + 'a) {
        all.push(Box::new(one));
    }

    #[autocast(f16)]
    pub fn handed_on(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<T> {
        let mut all = Vec::new();
        hold(&mut all, |t| t.matmul(w));
        all[0](x)
    }

    #[autocast(f16)]
    pub fn by_another_name(x: &T, w: &T) -> Result<T> {
        let one = {
            let w: &T = w;
            |t: &T| w.matmul(t)?.matmul(w)
        };
        one(w)?.matmul(x)
    }

    #[autocast(f16)]
    fn made<'a>(w: &'a Tensor<F32>) -> Call<'a> {
        Box::new(|t| t.matmul(w))
    }

    /// Each captures what the parameters refer to, and outlives them.
    #[autocast(f16)]
    pub fn of_modules<'a>(fc: &'a Linear, ln: &'a LayerNorm, w: &'a Tensor<F32>) -> Vec<Call<'a>> {
        let mut all: Vec<Call<'a>> = Vec::new();
        all.push(Box::new(|t| ln.forward(&fc.forward(t)?)));
        all.push(Box::new(|t| fc.forward(&w.softmax(-1)?.matmul(t)?)));
        all.push(Box::new(|t| amp::functional::linear(t, w, None)));
        all.push(Box::new(|t| Tensor::cat(&[w, &t.matmul(w)?], 0)));
        all
    }

    pub fn returned(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<T> {
        made(w)(x)
    }
}

/// What is used up where it stands shares its casts with what is around it.
#[autocast(f16, max_casts = 4)]
fn used_up(x: &Tensor<F32>, ws: &[Tensor<F32>; 1]) -> Result<T> {
    let h = x.matmul(x)?;
    let by_x = |t: &Tensor<F32>| t.matmul(x);
    let mut all = ws.iter().map(|w| w.matmul(x)).collect::<Result<Vec<_>>>()?;
    all.extend(ws.iter().map(|w| by_x(&w.relu()?)).collect::<Result<Vec<_>>>()?);
    for y in ws.iter().map(|w| x.matmul(w)) {
        all.push(y?);
    }
    all.iter().try_fold(h.to::<F32>()?, |sum, y| sum + y)
}

#[test]
fn closures_that_are_kept_narrow_for_themselves() -> Result<()> {
    let (x, w) = (random([4, 4])?, random([4, 4])?);
    let by_hand = x.to::<F16>()?.matmul(&w.to::<F16>()?)?.to::<F32>()?.to_vec()?;
    let kept = [
        kept::pushed,
        kept::pushed_by_name,
        kept::in_branches,
        kept::borrowed_in_branches,
        kept::later,
        kept::inserted,
        kept::of_a_block,
        kept::iterated,
        kept::handed_on,
        kept::returned,
    ];
    for (i, f) in kept.iter().enumerate() {
        assert_eq!(f(&x, &w)?.to_vec()?, by_hand, "{i}");
    }
    let (fc, ln) = (Linear::new(4, 4, &Device::cpu())?, LayerNorm::new(4, &Device::cpu())?);
    for f in kept::of_modules(&fc, &ln, &w) {
        assert_eq!(f(&x)?.dims()[1], 4);
    }
    assert_eq!(kept::by_another_name(&x, &w)?.dims(), [4, 4]);
    assert_eq!(used_up(&x, &[w])?.dims(), [4, 4]);
    Ok(())
}

/// A cast says what the closure in it returns.
#[autocast(f16)]
fn cast<'a>(ws: &'a [Tensor<F32>]) -> Vec<Box<Kernel<'a>>> {
    let mut all: Vec<_> = ws.iter().map(|w| Box::new(move |x: &Tensor<F32>| x.matmul(w)) as Box<Kernel<'a>>).collect();
    all.push(Box::new(|x: &Tensor<F32>| x.exp()) as Box<dyn Fn(&Tensor<F32>) -> Result<Tensor<F32>>>);
    all
}

type Kernel<'a> = dyn Fn(&Tensor<F32>) -> Result<Tensor<F32>> + 'a;

#[test]
fn closures_that_are_cast_to_objects_give_what_these_do() -> Result<()> {
    let (x, w) = (random([4, 4])?, random([4, 4])?);
    let by_hand = x.to::<F16>()?.matmul(&w.to::<F16>()?)?.to::<F32>()?;
    let ws = [w];
    let calls = cast(&ws);
    assert_eq!(calls[0](&x)?.to_vec()?, by_hand.to_vec()?);
    assert_eq!(calls[1](&x)?.to_vec()?, x.exp()?.to_vec()?);
    Ok(())
}

/// Closures that are given to one's own functions, and end in branches.
mod in_branches {
    use super::T;
    use amp::nn::*;
    use amp::prelude::*;

    fn each<R>(ws: &[T], f: impl Fn(&T) -> Result<R>) -> Result<Vec<R>> {
        ws.iter().map(f).collect()
    }

    fn full(ws: &[T], f: impl Fn(&T) -> Result<T>) -> Result<Vec<T>> {
        each(ws, f)
    }

    fn half(ws: &[T], f: impl Fn(&T) -> Result<Tensor<F16>>) -> Result<Vec<Tensor<F16>>> {
        each(ws, f)
    }

    fn numbered(ws: &[T], f: impl Fn(&T) -> Result<(T, usize)>) -> Result<Vec<(T, usize)>> {
        each(ws, f)
    }

    #[autocast(f16)]
    pub(super) fn of_if(x: &T, ws: &[T], way: usize) -> Result<Vec<T>> {
        full(ws, |w| {
            if way == 0 {
                w.matmul(x)
            } else if way == 1 {
                x.matmul(w)
            } else {
                return w.exp();
            }
        })
    }

    #[autocast(f16)]
    pub(super) fn of_match(fc: &Linear, x: &T, ws: &[T], way: usize) -> Result<Vec<T>> {
        full(ws, |w| {
            let h = x.matmul(w)?;
            match way {
                0 => h.relu(),
                _ => fc.forward(&h),
            }
        })
    }

    #[autocast(f16)]
    pub(super) fn of_tuples(x: &T, ws: &[T], way: usize) -> Result<Vec<(T, usize)>> {
        numbered(ws, |w| match way {
            0 => Ok((w.matmul(x)?, x.rank())),
            _ => Ok((x.matmul(w)?, w.rank())),
        })
    }

    #[autocast(f16)]
    pub(super) fn boxed<'a>(x: &'a T, flip: bool) -> Vec<Box<super::Kernel<'a>>> {
        let mut all: Vec<Box<super::Kernel<'a>>> = Vec::new();
        all.push(Box::new(move |w| if flip { w.matmul(x) } else { x.matmul(w) }));
        all
    }

    /// What is declared to be narrow stays so, and what nothing is declared of is what its type says.
    #[autocast(f16)]
    pub(super) fn narrow(norm: &LayerNorm, ws: &[T], on: bool) -> Result<Vec<Tensor<F16>>> {
        let kept = each(ws, |w| if on { norm.forward(w) } else { w.add(w) })?;
        half(&kept, |w| if on { w.matmul(w) } else { w.matmul(w)?.relu() })
    }
}

#[test]
fn closures_that_end_in_branches_give_what_is_declared() -> Result<()> {
    let (x, w) = (random([3, 3])?, random([3, 3])?);
    let (fc, norm) = (Linear::new(3, 3, &Device::cpu())?, LayerNorm::new(3, &Device::cpu())?);
    let product = |a: &T, b: &T| a.to::<F16>()?.matmul(&b.to::<F16>()?);
    let (xw, wx) = (product(&x, &w)?, product(&w, &x)?.to::<F32>()?.to_vec()?);
    let wide = xw.to::<F32>()?;
    let ws = [w];
    assert_eq!(in_branches::of_if(&x, &ws, 0)?[0].to_vec()?, wx);
    assert_eq!(in_branches::of_if(&x, &ws, 1)?[0].to_vec()?, wide.to_vec()?);
    assert_eq!(in_branches::of_if(&x, &ws, 2)?[0].to_vec()?, ws[0].exp()?.to_vec()?);
    assert_eq!(in_branches::of_match(&fc, &x, &ws, 0)?[0].to_vec()?, wide.relu()?.to_vec()?);
    assert_eq!(in_branches::of_match(&fc, &x, &ws, 1)?[0].to_vec()?, fc.forward(&xw)?.to::<F32>()?.to_vec()?);
    assert_eq!(in_branches::of_tuples(&x, &ws, 0)?[0].0.to_vec()?, wx);
    assert_eq!(in_branches::of_tuples(&x, &ws, 1)?[0].0.to_vec()?, wide.to_vec()?);
    assert_eq!(in_branches::boxed(&x, true)[0](&ws[0])?.to_vec()?, wx);
    let normed = norm.forward(&ws[0])?;
    assert_eq!(in_branches::narrow(&norm, &ws, true)?[0].to_vec()?, product(&normed, &normed)?.to_vec()?);
    Ok(())
}
