//! Options, and lists of them, that are filled by methods, by their index and by references into them.

use super::accumulators::{in_f16, layers};
use super::random;
use amp::nn::*;
use amp::prelude::*;

type T = Tensor<F32>;

/// What is put into an option at one place has the precision that it has.
#[autocast(f16)]
fn at_one_place(fc: &Linear, x: &Tensor<F32>) -> Result<Vec<T>> {
    let y = fc.forward(x)?;
    let (mut replaced, mut inserted, mut made) = (None, None, None);
    replaced.replace(y.clone());
    let lent: &Tensor<F16> = inserted.insert(x.matmul(x)?);
    let mut all: Vec<T> = vec![fc.forward(lent)?];
    let lent: &Tensor<F16> = made.get_or_insert_with(|| y.clone());
    all.push(fc.forward(lent)?);
    let mut list = vec![None; 2];
    for (i, x) in [x, &(x * 2.0)?].into_iter().enumerate() {
        list[i] = Some(fc.forward(x)?);
    }
    let (first, second): (&Option<Tensor<F16>>, _) = (&list[0], list[1].as_ref().expect("filled"));
    all.push(fc.forward(first.as_ref().expect("filled"))?);
    all.push(fc.forward(second)?);
    let kept: Tensor<F16> = replaced.expect("filled");
    all.push(fc.forward(&kept)?);
    Ok(all)
}

/// What gets values of both precisions holds F32, in whichever order they come.
#[autocast(f16)]
fn of_both_precisions(fc: &Linear, x: &Tensor<F32>) -> Result<Vec<T>> {
    let (mut option, mut first) = (None, None);
    first.get_or_insert(fc.forward(x)?);
    option.replace(fc.forward(x)?);
    let before = option.replace(x.clone());
    let seldom = first.replace(x.softmax(-1)?);
    let mut list = vec![None; 2];
    list[0] = Some(fc.forward(x)?);
    list[1] = Some(x.exp()?);
    let mut slots = [None, None];
    for (i, slot) in slots.iter_mut().enumerate() {
        if i == 0 {
            *slot = Some(fc.forward(x)?);
        } else {
            *slot = Some(x.clone());
        }
    }
    let all = [before, seldom, option, first].into_iter().chain(list).chain(slots);
    Ok(all.map(|tensor| tensor.expect("filled")).collect())
}

/// What is taken out before the type is known goes through a layer, and into a sum.
#[autocast(f16)]
fn read_before(fcs: &[Linear], x: &Tensor<F32>) -> Result<(T, T, T)> {
    let (mut state, mut replaced) = (None, None);
    let mut sums = vec![None; 1];
    for fc in fcs {
        let h = match &state {
            Some(h) => fc.forward(h)?,
            None => fc.forward(x)?,
        };
        state = Some(h);
        if let Some(h) = &replaced {
            fc.forward(h)?;
        }
        replaced.replace(fc.forward(x)?);
        let y = fc.forward(x)?;
        sums[0] = Some(match sums[0].take() {
            Some(sum) => (y + sum)?,
            None => y,
        });
    }
    let sum = sums.remove(0).expect("filled");
    Ok((state.expect("filled"), replaced.expect("filled"), sum))
}

fn put(slot: &mut [Option<T>], x: &T) {
    slot[0] = Some(x.clone());
}

/// The function says what the list holds.
#[autocast(f16)]
fn lent_to_a_function(fc: &Linear, x: &Tensor<F32>) -> Result<Vec<T>> {
    let mut list = vec![None; 2];
    list[1] = Some(fc.forward(x)?);
    put(&mut list, x);
    Ok(list.into_iter().flatten().collect())
}

#[test]
fn options_hold_what_they_are_filled_with() -> Result<()> {
    let (fcs, x) = (layers(2)?, random([4, 4])?);
    let (y, product) = (in_f16(&fcs[0], &x)?, x.to::<F16>()?.matmul(&x.to::<F16>()?)?.to()?);
    let z = in_f16(&fcs[0], &(&x * 2.0)?)?;
    for (cast, from) in at_one_place(&fcs[0], &x)?.iter().zip([&product, &y, &y, &z, &y]) {
        assert_eq!(cast.to_vec()?, in_f16(&fcs[0], from)?.to_vec()?);
    }
    let expected = [&y, &y, &x, &x.softmax(-1)?, &y, &x.exp()?, &y, &x];
    for (cast, by_hand) in of_both_precisions(&fcs[0], &x)?.iter().zip(expected) {
        assert_eq!(cast.to_vec()?, by_hand.to_vec()?);
    }
    let (state, replaced, sum) = read_before(&fcs, &x)?;
    let last = in_f16(&fcs[1], &x)?;
    assert_eq!(state.to_vec()?, in_f16(&fcs[1], &y)?.to_vec()?);
    assert_eq!(replaced.to_vec()?, last.to_vec()?);
    assert_eq!(sum.to_vec()?, (&last + &y)?.to_vec()?);
    let [first, second] = &lent_to_a_function(&fcs[0], &x)?[..] else { panic!("two are filled") };
    assert_eq!([first.to_vec()?, second.to_vec()?], [x.to_vec()?, y.to_vec()?]);
    Ok(())
}

struct Seen {
    all: Vec<T>,
}

#[autocast(f16)]
fn appended(fc: &Linear, x: &Tensor<F32>, seen: &mut Seen) -> Result<Tensor<F32>> {
    let mut all = vec![x.clone()];
    let mut more = vec![fc.forward(x)?, fc.forward(x)?];
    let mut others = more.clone();
    all.append(&mut more);
    seen.all.append(&mut others);
    assert_eq!(more.len() + others.len(), 0);
    Tensor::cat(&all, 0)
}

#[test]
fn what_a_list_is_emptied_of_is_widened_on_its_way() -> Result<()> {
    let (fc, x) = (Linear::new(4, 4, &Device::cpu())?, random([2, 4])?);
    let h: T = fc.forward(&x.to::<F16>()?)?.to()?;
    let mut seen = Seen { all: Vec::new() };
    assert_eq!(appended(&fc, &x, &mut seen)?.to_vec()?, Tensor::cat(&[&x, &h, &h], 0)?.to_vec()?);
    assert_eq!(seen.all.len(), 2);
    assert_eq!(seen.all[1].to_vec()?, h.to_vec()?);
    Ok(())
}
