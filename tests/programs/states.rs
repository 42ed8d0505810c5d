//! States of an LSTM: they are cast like the tensors beside them, alone, in options and lists, and out of the function.

use super::*;

#[autocast(f16)]
fn goes_on(l: &Lstm, x: &Tensor<F32>, s: &LstmState<F32>) -> Result<(Tensor<F32>, LstmState<F32>)> {
    l.forward_from(x, s)
}

#[autocast(f16)]
fn of_parts(l: &Lstm, x: &Tensor<F32>, h: Tensor<F32>, c: Tensor<F32>) -> Result<(Tensor<F32>, LstmState<F32>)> {
    l.forward_from(x, &LstmState { h, c })
}

#[autocast(f16)]
fn perhaps(l: &Lstm, x: &Tensor<F32>, s: Option<&LstmState<F32>>) -> Result<(Tensor<F32>, LstmState<F32>)> {
    match s {
        Some(s) => l.forward_from(x, s),
        None => l.forward(x),
    }
}

#[autocast(f16)]
fn kept(l: &Lstm, x: &Tensor<F32>, state: &mut Option<LstmState<F32>>) -> Result<Tensor<F32>> {
    let (y, next) = match state {
        Some(state) => l.forward_from(x, state)?,
        None => l.forward(x)?,
    };
    *state = Some(next.detach());
    Ok(y)
}

#[autocast(f16)]
fn layers(ls: &[Lstm], x: &Tensor<F32>, states: &mut [LstmState<F32>]) -> Result<(Tensor<F32>, Vec<LstmState<F32>>)> {
    let mut h = x.clone();
    let mut ends = vec![];
    for (l, s) in ls.iter().zip(states.iter_mut()) {
        let (y, next) = l.forward_from(&h, s)?;
        h = y;
        ends.push(next.clone());
        *s = next;
    }
    Ok((h, ends))
}

#[autocast(f16)]
fn decodes(l: &Lstm, x: &Tensor<F32>, start: &Tensor<F32>, steps: usize) -> Result<(Tensor<F32>, LstmState<F32>)> {
    let (_, mut s) = l.forward(x)?;
    let mut y = start.clone();
    for _ in 0..steps {
        (y, s) = l.forward_from(&y, &s)?;
    }
    Ok((y, LstmState { h: s.h, c: s.c }))
}

#[autocast(f16)]
fn made_anew(l: &Lstm, x: &Tensor<F32>, keep: &Tensor<F32>) -> Result<LstmState<F32>> {
    let (y, s) = l.forward(x)?;
    let s: LstmState<F32> = LstmState { h: (&s.h * keep)?, c: (&s.c * keep)? };
    let (_, s) = l.forward_from(&y, &s)?;
    Ok(s)
}

fn assert_same((y, s): &(Tensor<F32>, LstmState<F32>), (by_hand, state): &(Tensor<F16>, LstmState<F16>)) -> Result<()> {
    assert_eq!(bits(y), bits(&by_hand.to()?));
    assert_eq!(bits(&s.h), bits(&state.h.to()?));
    assert_eq!(bits(&s.c), bits(&state.c));
    Ok(())
}

#[test]
fn states_are_cast_with_what_they_are_given_beside() -> Result<()> {
    let cpu = Device::cpu();
    let (l, x) = (Lstm::new(4, 4, &cpu)?, random([2, 3, 4])?);
    let x16 = x.to::<F16>()?;
    let (h, c) = (random([1, 2, 4])?, random([1, 2, 4])?);
    let state = LstmState { h: h.clone(), c: c.clone() };
    let from = l.forward_from(&x16, &state.to()?)?;
    assert_same(&goes_on(&l, &x, &state)?, &from)?;
    assert_same(&of_parts(&l, &x, h, c)?, &from)?;
    assert_same(&perhaps(&l, &x, Some(&state))?, &from)?;
    let first = l.forward(&x16)?;
    assert_same(&perhaps(&l, &x, None)?, &first)?;
    let mut so_far = None;
    let y = kept(&l, &x, &mut so_far)?;
    assert_same(&(y, so_far.clone().expect("kept")), &first)?;
    let y = kept(&l, &x, &mut so_far)?;
    assert_same(&(y, so_far.expect("kept")), &l.forward_from(&x16, &first.1)?)
}

#[test]
fn states_go_round_loops_and_into_lists() -> Result<()> {
    let cpu = Device::cpu();
    let (a, b, x) = (Lstm::new(4, 4, &cpu)?, Lstm::new(4, 4, &cpu)?, random([2, 3, 4])?);
    let x16 = x.to::<F16>()?;
    let state = LstmState { h: random([1, 2, 4])?, c: random([1, 2, 4])? };
    let first = a.forward_from(&x16, &state.to()?)?;
    let second = b.forward_from(&first.0, &state.to()?)?;
    let decoded = {
        let (y, s) = a.forward_from(&x16, &a.forward(&x16)?.1)?;
        a.forward_from(&y, &s)?
    };
    assert_same(&decodes(&a, &x, &x, 2)?, &decoded)?;
    let keep = random([1, 2, 4])?;
    let (y, s) = a.forward(&x16)?;
    let dropped = LstmState { h: (s.h.to::<F32>()? * &keep)?.to()?, c: (s.c * &keep)? };
    let (y, s) = a.forward_from(&y, &dropped)?;
    assert_same(&(y.to()?, made_anew(&a, &x, &keep)?), &(y, s))?;
    let mut states = [state.clone(), state];
    let (y, ends) = layers(&[a, b], &x, &mut states)?;
    assert_same(&(first.0.to()?, ends[0].clone()), &first)?;
    assert_same(&(y.clone(), ends[1].clone()), &second)?;
    assert_same(&(y, states[1].clone()), &second)
}

/// Keys and values of the steps before.
#[derive(Default)]
struct Cache {
    keys: Option<Tensor<F32>>,
    values: Option<Tensor<F32>>,
}

/// Attention over what came before: pairs of which only the types tell the precision join element by element.
#[autocast(bf16)]
fn attend(key: &Linear, value: &Linear, x: &Tensor<F32>, cache: &mut Cache) -> Result<Tensor<F32>> {
    let (k, v) = (key.forward(x)?, value.forward(x)?);
    let (k, v, steps) = match (cache.keys.take(), cache.values.take()) {
        (Some(before), Some(and)) => (Tensor::cat(&[&before, &k], 0)?, Tensor::cat(&[&and, &v], 0)?, 2),
        _ => (k, v, 1),
    };
    (cache.keys, cache.values) = (Some(k.clone()), Some(v.clone()));
    let scores = (x.matmul(&k.t()?)? / (steps as f64))?;
    scores.softmax(-1)?.matmul(&v)
}

fn attend_by_hand(key: &Linear, value: &Linear, x: &Tensor<F32>, cache: &mut Cache) -> Result<Tensor<F32>> {
    let layer = |layer: &Linear| -> Result<Tensor<F32>> { amp_region!(bf16, { layer.forward(x)? }).to() };
    let (k, v) = (layer(key)?, layer(value)?);
    let (k, v, steps) = match (cache.keys.take(), cache.values.take()) {
        (Some(before), Some(and)) => (Tensor::cat(&[&before, &k], 0)?, Tensor::cat(&[&and, &v], 0)?, 2),
        _ => (k, v, 1),
    };
    (cache.keys, cache.values) = (Some(k.clone()), Some(v.clone()));
    let scores = (x.to::<BF16>()?.matmul(&k.to::<BF16>()?.t()?)? / (steps as f64))?;
    let weights = scores.to::<F32>()?.softmax(-1)?;
    weights.to::<BF16>()?.matmul(&v.to::<BF16>()?)?.to()
}

#[test]
fn pairs_of_a_cache_and_of_layers_join() -> Result<()> {
    let device = Device::cpu();
    let (key, value) = (Linear::new(4, 4, &device)?, Linear::new(4, 4, &device)?);
    let (mut ours, mut theirs) = (Cache::default(), Cache::default());
    for _ in 0..3 {
        let x = random([2, 4])?;
        let left = attend(&key, &value, &x, &mut ours)?;
        assert_eq!(left.to_vec()?, attend_by_hand(&key, &value, &x, &mut theirs)?.to_vec()?);
    }
    Ok(())
}

impl Cache {
    fn grow(&mut self, k: Tensor<F32>, v: Tensor<F32>) -> Result<(Tensor<F32>, Tensor<F32>)> {
        let before = self.keys.take().zip(self.values.take());
        let (k, v) = match before {
            Some((keys, values)) => (Tensor::cat(&[&keys, &k], 0)?, Tensor::cat(&[&values, &v], 0)?),
            None => (k, v),
        };
        (self.keys, self.values) = (Some(k.clone()), Some(v.clone()));
        Ok((k, v))
    }
}

/// A pair that a function of one's own gives joins with one of layers.
#[autocast(bf16)]
fn cached(key: &Linear, value: &Linear, x: &Tensor<F32>, cache: Option<&mut Cache>) -> Result<Tensor<F32>> {
    let (k, v) = (key.forward(x)?, value.forward(x)?);
    let (k, v) = match cache {
        Some(cache) => cache.grow(k, v)?,
        None => (k, v),
    };
    x.matmul(&k.t()?)?.softmax(-1)?.matmul(&v)
}

#[test]
fn pairs_of_a_call_and_of_layers_join() -> Result<()> {
    let device = Device::cpu();
    let (key, value) = (Linear::new(4, 4, &device)?, Linear::new(4, 4, &device)?);
    let mut cache = Cache::default();
    let mut lines = Vec::new();
    for _ in 0..2 {
        lines.push(random([2, 4])?);
        let x = lines.last().expect("pushed").to::<BF16>()?;
        let of = |fc: &Linear, lines: &[Tensor<F32>]| -> Result<Tensor<BF16>> {
            fc.forward(&Tensor::cat(&lines.iter().collect::<Vec<_>>(), 0)?.to::<BF16>()?)
        };
        for (lines, cache) in [(&lines[..], Some(&mut cache)), (&lines[lines.len() - 1..], None)] {
            let weights = x.matmul(&of(&key, lines)?.t()?)?.to::<F32>()?.softmax(-1)?.to::<BF16>()?;
            let by_hand = weights.matmul(&of(&value, lines)?)?.to::<F32>()?;
            let given = cached(&key, &value, &x.to()?, cache)?;
            assert_eq!(given.to_vec()?, by_hand.to_vec()?);
        }
    }
    Ok(())
}

/// A pair that is cloned out of a list of F32 is still a pair of F32.
#[autocast(f16)]
fn last_or_made(all: &[(Tensor<F32>, Tensor<F32>)], x: &Tensor<F32>, at: usize) -> Result<Tensor<F32>> {
    let (h, c) = if let Some(last) = all.last() { last.clone() } else { (x.matmul(x)?, x.clone()) };
    let (g, d) = if at < all.len() { all[at].clone() } else { (x.matmul(x)?, x.matmul(x)?) };
    ((h + c)? + g)? + d
}

#[test]
fn cloned_pairs_join_with_pairs_that_are_made() -> Result<()> {
    let (x, y) = (random([4, 4])?, random([4, 4])?);
    let half = x.to::<F16>()?;
    let h = half.matmul(&half)?.to::<F32>()?;
    let made = (((&h + &x)? + &h)? + &h)?;
    assert_eq!(last_or_made(&[], &x, 0)?.to_vec()?, made.to_vec()?);
    let given = (((&y + &x)? + &h)? + &h)?;
    assert_eq!(last_or_made(&[(y, x.clone())], &x, 1)?.to_vec()?, given.to_vec()?);
    Ok(())
}

/// A state whose precision is written is given what has it.
#[autocast(f16)]
fn carried_in_f16(cell: &LstmCell, norm: &LayerNorm, xs: &[Tensor<F32>]) -> Result<Tensor<F32>> {
    let mut state: Option<LstmState<F16>> = None;
    for (i, x) in xs.iter().enumerate() {
        let x = if i == 1 { norm.forward(x)? } else { x.clone() };
        let next = match &state {
            Some(state) => cell.forward_from(&x, state)?,
            None => cell.forward(&x)?,
        };
        state = Some(next);
    }
    state.map_or_else(|| Ok(xs[0].clone()), |state| Ok(state.h))
}

#[test]
fn options_of_states_have_the_precision_that_is_written() -> Result<()> {
    let (cell, norm) = (LstmCell::new(4, 4, &Device::cpu())?, LayerNorm::new([4], &Device::cpu())?);
    let x = Tensor::<F32>::randn([2, 4], &Device::cpu())?;
    let first = cell.forward(&x.to::<F16>()?)?;
    let second = cell.forward_from(&norm.forward(&x)?.to::<F16>()?, &first)?;
    assert_eq!(carried_in_f16(&cell, &norm, &[x.clone(), x])?.to_vec()?, second.h.to::<F32>()?.to_vec()?);
    Ok(())
}

struct Remembered {
    h: Tensor<F32>,
    c: Tensor<F32>,
    steps: usize,
}

#[autocast(f16)]
fn taken_apart(l: &LstmCell, fc: &Linear, x: &Tensor<F32>, s: Remembered) -> Result<(Tensor<F32>, Remembered)> {
    let Remembered { h, c, steps } = s;
    let LstmState { h, c } = l.forward_from(x, &LstmState { h, c })?;
    let y = fc.forward(&h)?;
    Ok((y, Remembered { h, c, steps: steps + 1 }))
}

#[autocast(f16)]
fn in_a_tuple(l: &Lstm, x: &Tensor<F32>) -> Result<Remembered> {
    let (y, LstmState { h: last, c }) = l.forward(x)?;
    let h = (y.mean(1, false)?.unsqueeze(0)? + &last)?;
    Ok(Remembered { h, c, steps: x.dims()[1].pow(1) })
}

#[test]
fn parts_of_a_state_that_a_pattern_names_are_widened_where_others_hold_them() -> Result<()> {
    let cpu = Device::cpu();
    let (cell, fc, x) = (LstmCell::new(4, 4, &cpu)?, Linear::new(4, 2, &cpu)?, random([2, 4])?);
    let (h, c) = (random([2, 4])?, random([2, 4])?);
    let state = LstmState { h: h.clone(), c: c.clone() }.to::<F16>()?;
    let by_hand = cell.forward_from(&x.to::<F16>()?, &state)?;
    let (y, s) = taken_apart(&cell, &fc, &x, Remembered { h, c, steps: 1 })?;
    assert_eq!(bits(&y), bits(&fc.forward(&by_hand.h)?.to()?));
    assert_eq!((bits(&s.h), bits(&s.c), s.steps), (bits(&by_hand.h.to()?), bits(&by_hand.c.to()?), 2));

    let (l, x) = (Lstm::new(4, 4, &cpu)?, random([2, 3, 4])?);
    let (y, by_hand) = l.forward(&x.to::<F16>()?)?;
    let h = (y.to::<F32>()?.mean(1, false)?.unsqueeze(0)? + by_hand.h.to::<F32>()?)?;
    let s = in_a_tuple(&l, &x)?;
    assert_eq!((bits(&s.h), bits(&s.c), s.steps), (bits(&h), bits(&by_hand.c.to()?), 3));
    Ok(())
}
