//! Casts that the user wrote: what their place holds before and after them is narrowed as ever.

use super::random;
use amp::prelude::*;

struct State {
    h: Tensor<F32>,
    w: Tensor<F32>,
}

#[autocast(bf16)]
fn before(x: &Tensor<F32>, last: bool) -> Result<Tensor<F32>> {
    let mut p = x.clone();
    let y = p.matmul(x)?;
    if last {
        p = y.to::<F32>()?;
        return p.exp();
    }
    p.matmul(x)
}

#[autocast(bf16)]
fn after(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut p = x.to::<F32>()?;
    let y = p.exp()?;
    p = y;
    p.matmul(x)
}

#[autocast(bf16)]
fn behind_a_loop(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut p = x.clone();
    for i in 0..3 {
        p = p.matmul(x)?;
        if i == 2 {
            p = p.to::<F32>()?;
            break;
        }
    }
    p.exp()
}

#[autocast(bf16)]
fn made_new_in_each_pass(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut sum = x.clone();
    let mut p;
    for _ in 0..3 {
        p = x.matmul(x)?;
        let y = p.matmul(x)?;
        p = y.to::<F32>()?;
        sum = (sum + p)?;
    }
    Ok(sum)
}

#[autocast(bf16)]
fn joined(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut p = x.to::<F32>()?;
    p = (p + x)?;
    p.matmul(x)
}

#[autocast(bf16)]
fn other_element(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut pair = (x.clone(), x.clone());
    pair.0 = pair.0.to::<F32>()?;
    (&pair.0 + pair.1.matmul(x)?)?.exp()
}

#[autocast(bf16)]
fn other_field(state: &mut State, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    state.h = x.to::<F32>()?;
    let y = x.matmul(&state.w)?;
    state.h = (&state.h + y)?;
    state.h.matmul(x)
}

#[autocast(bf16)]
fn within_its_region(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    amp_region!(f32, {
        let mut p = x.exp()?;
        p = p.matmul(x)?;
        let y = amp_region!(bf16, p.matmul(x)?);
        (p + y)?
    })
    .exp()
}

#[autocast(bf16)]
fn collected(xs: &[Tensor<F32>], w: &Tensor<F32>) -> Result<Vec<Tensor<F32>>> {
    let mut all = Vec::new();
    let mut h = w.clone();
    for x in xs {
        h = h.matmul(x)?;
        all.push(h.to::<F32>()?);
    }
    Ok(all)
}

#[autocast(bf16)]
fn concatenated(xs: &[Tensor<F32>], w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut all = Vec::new();
    for x in xs {
        all.push(x.exp()?.to::<F32>()?);
    }
    let all: Vec<&Tensor<F32>> = all.iter().collect();
    Tensor::cat(&all, 0)?.matmul(w)
}

/// Truth values and integers have no precision that a cast could keep.
#[autocast(bf16)]
fn of_integers(x: &Tensor<F32>, ids: &Tensor<I64>) -> Result<Tensor<F32>> {
    let table = x.matmul(x)?;
    let rows = ids.one_hot(3)?.to::<F32>()?.matmul(&table)?;
    table.gt(0.0)?.to::<F32>()?.matmul(&rows)
}

#[test]
fn what_was_no_float_is_narrowed() -> Result<()> {
    let x = random([3, 3])?;
    let ids = Tensor::from_vec(vec![2, 0, 1], [3], &Device::cpu())?;
    let half = x.to::<BF16>()?;
    let table = half.matmul(&half)?;
    let rows = ids.one_hot(3)?.to::<BF16>()?.matmul(&table)?;
    let by_hand = table.gt(0.0)?.to::<BF16>()?.matmul(&rows)?;
    assert_eq!(of_integers(&x, &ids)?.to_vec()?, by_hand.to::<F32>()?.to_vec()?);
    Ok(())
}

#[test]
fn what_is_not_the_cast_is_narrowed() -> Result<()> {
    let x = random([2, 2])?;
    let half = |a: &Tensor<F32>, b: &Tensor<F32>| a.to::<BF16>()?.matmul(&b.to::<BF16>()?)?.to::<F32>();
    let same = |a: Tensor<F32>, b: Tensor<F32>| -> Result<()> {
        assert_eq!(a.to_vec()?, b.to_vec()?);
        Ok(())
    };
    let square = half(&x, &x)?;
    same(before(&x, true)?, square.exp()?)?;
    same(before(&x, false)?, square.clone())?;
    same(after(&x)?, half(&x.exp()?, &x)?)?;
    same(behind_a_loop(&x)?, half(&half(&square, &x)?, &x)?.exp()?)?;
    let cube = half(&square, &x)?;
    same(made_new_in_each_pass(&x)?, (((&x + &cube)? + &cube)? + &cube)?)?;
    same(joined(&x)?, half(&(&x + &x)?, &x)?)?;
    same(other_element(&x)?, (&x + &square)?.exp()?)?;
    let mut state = State { h: x.clone(), w: x.clone() };
    same(other_field(&mut state, &x)?, half(&(&x + &square)?, &x)?)?;
    let p = x.exp()?.matmul(&x)?;
    same(within_its_region(&x)?, (&p + half(&p, &x)?)?.exp()?)?;
    let all = collected(&[x.clone(), x.clone()], &x)?;
    same(all[0].clone(), square.clone())?;
    same(all[1].clone(), cube)?;
    let e = x.exp()?;
    same(concatenated(&[x.clone(), x.clone()], &x)?, half(&Tensor::cat(&[&e, &e], 0)?, &x)?)
}

use amp::F32 as Full;
type Half = BF16;

/// A precision that only its type tells: what was rounded is narrow, what was widened is used in F32.
#[autocast(bf16)]
fn renamed<Q: AutocastPrecision>(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let (h, wide) = (x.exp()?.to::<Half>()?, x.matmul(x)?.to::<Full>()?);
    let any = x.to::<Q>()?.relu()?;
    let mut p = x.clone();
    for _ in 0..2 {
        p = p.matmul(&h)?.to::<Full>()?;
    }
    (any.matmul(&h)? + wide.exp()?)? + p
}

#[test]
fn casts_to_a_precision_by_another_name_are_told_by_type() -> Result<()> {
    let x = random([2, 2])?;
    let half = |a: &Tensor<F32>, b: &Tensor<F32>| a.to::<BF16>()?.matmul(&b.to::<BF16>()?)?.to::<F32>();
    let h = x.exp()?;
    let p = half(&half(&x, &h)?, &h)?;
    let expected = ((half(&x.relu()?, &h)? + half(&x, &x)?.exp()?)? + p)?.to_vec()?;
    assert_eq!(renamed::<F32>(&x)?.to_vec()?, expected);
    assert_eq!(renamed::<BF16>(&x)?.to_vec()?, expected);
    Ok(())
}

#[autocast(bf16)]
fn exchanged(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let (mut a, mut b) = (x.matmul(x)?.to::<F32>()?, x.clone());
    std::mem::swap(&mut a, &mut b);
    let y = a.matmul(x)?;
    let before = std::mem::replace(&mut b, y.matmul(x)?);
    b.matmul(x)? + before
}

#[test]
fn what_took_the_place_of_a_cast_is_narrowed() -> Result<()> {
    let x = random([4, 4])?;
    let half = x.to::<BF16>()?;
    let by_hand = half.matmul(&half)?.matmul(&half)?.matmul(&half)?.to::<F32>()? + half.matmul(&half)?.to::<F32>()?;
    assert_eq!(exchanged(&x)?.to_vec()?, by_hand?.to_vec()?);
    Ok(())
}

/// What is held beside such a cast, and what is done with it in F32, is as it was written.
#[autocast(f16)]
#[expect(clippy::redundant_closure_call)] // the form is the case
fn held(x: &Tensor<F32>) -> Result<(Vec<Tensor<F32>>, usize)> {
    let wide = x.matmul(x)?.to::<F32>()?;
    let by_key = std::collections::BTreeMap::from([(3, wide.clone()), (4, x.clone())]);
    let mut total = 0;
    let mut given = Vec::new();
    for (key, wide) in &by_key {
        total += key + 1;
        given.push((wide * *key as f32)?.exp()?);
    }
    for (key, wide) in by_key.clone() {
        total += key * 2;
        let half = x.matmul(x)?;
        given.push((half + wide)?);
    }
    total += by_key.keys().sum::<usize>();
    let cell = std::cell::RefCell::new(vec![wide.clone()]);
    cell.borrow_mut().push(x.exp()?);
    total += cell.borrow().len();
    given.extend(cell.into_inner());
    let (pair, count) = (|| (wide.clone(), total + 1))();
    total += count;
    let counted = |t: &Tensor<F32>| Ok::<_, Error>((t.to::<F32>()?, 1));
    let (again, one) = counted(&pair)?;
    total += one;
    given.push((again + pair)?);
    let shared = std::sync::Mutex::new(Some(wide));
    given.extend(shared.lock().expect("not poisoned").take());
    Ok((given, total))
}
