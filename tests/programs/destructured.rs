//! Assignments to several places at once.

use super::*;

struct Pair {
    a: T,
    b: T,
}
struct Both(T, T);

#[autocast(f16)]
fn swapped(x: &T, w: &T) -> Result<T> {
    let (mut a, mut b) = (x.matmul(w)?, x.clone());
    [a, b] = [b, a];
    let mut c;
    [c] = [x.clone()];
    [c, _] = [(&c + &a)?, x.clone()];
    (a + (b * 2.0)?)? + c
}

#[autocast(f16)]
fn given(x: &T, w: &T) -> Result<T> {
    let (mut a, mut b) = (x.matmul(w)?, x.clone());
    [a, b] = two(&a, &b)?;
    let halves = [x.matmul(w)?, w.matmul(x)?];
    let (c, d);
    [c, ..] = [x.clone(), w.clone()];
    [(d, _), _] = [(x.clone(), 1), (w.clone(), 2)];
    let e;
    [e, _] = halves;
    let (mut f, mut g) = (x.clone(), x.clone());
    Pair { a: f, b: g } = Pair { a: (&f + &g)?, b: f };
    Both(f, g) = Both(g, f);
    (((((a + b)? + c)? + d)? + e)? + f)? + g
}

fn two(a: &T, b: &T) -> Result<[T; 2]> {
    Ok([b.clone(), a.clone()])
}

#[test]
fn elements_of_arrays_and_structs_are_assigned_to_places() -> Result<()> {
    let x = T::ones([2, 2], &Device::cpu())?;
    assert_eq!(swapped(&x, &x)?.to_vec()?, [1.0 + 4.0 + 2.0; 4]);
    assert_eq!(given(&x, &x)?.to_vec()?, [1.0 + 2.0 + 1.0 + 1.0 + 2.0 + 3.0; 4]);
    Ok(())
}
