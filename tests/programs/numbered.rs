//! Tensors beside numbers and names, in tuples that variables and lists hold.

use super::*;

#[autocast(bf16)]
fn counted_from_nothing(x: &Tensor<F32>) -> Result<(usize, T)> {
    let first = (0, x.matmul(x)?);
    Ok(first)
}

fn times((count, x): (usize, T)) -> Result<T> {
    x * count as f64
}

/// The function says what the number is.
#[autocast(bf16)]
fn lent_to_a_function(x: &Tensor<F32>) -> Result<T> {
    let third = (3, x.matmul(x)?);
    times(third)
}

#[autocast(bf16)]
fn last_of(x: &Tensor<F32>) -> Result<(usize, T)> {
    let mut last = (0, x.clone());
    for (i, row) in x.split(1, 0)?.iter().enumerate() {
        last = (i, row.matmul(x)?);
    }
    Ok(last)
}

#[autocast(bf16)]
fn named(x: &Tensor<F32>, name: String) -> Result<Vec<(String, T)>> {
    let all = vec![(name, x.matmul(x)?)];
    Ok(all)
}

#[autocast(bf16)]
fn grown(x: &Tensor<F32>) -> Result<Vec<(usize, T)>> {
    let mut all = vec![(0, x.matmul(x)?)];
    for (i, row) in x.split(1, 0)?.iter().enumerate() {
        all.push((i, row.matmul(x)?));
    }
    Ok(all)
}

#[test]
fn numbers_beside_tensors_have_the_type_that_is_expected() -> Result<()> {
    let x = random([4, 4])?;
    let x16 = x.to::<BF16>()?;
    let y = x16.matmul(&x16)?.to::<F32>()?;
    let row = x16.narrow(0, 3, 1)?.matmul(&x16)?.to::<F32>()?;
    let (count, first) = counted_from_nothing(&x)?;
    assert_eq!((count, first.to_vec()?), (0, y.to_vec()?));
    assert_eq!(lent_to_a_function(&x)?.to_vec()?, (&y * 3.0)?.to_vec()?);
    let (at, last) = last_of(&x)?;
    assert_eq!((at, last.to_vec()?), (3, row.to_vec()?));
    let all = named(&x, "y".to_owned())?;
    assert_eq!((&*all[0].0, all[0].1.to_vec()?), ("y", y.to_vec()?));
    let all = grown(&x)?;
    assert_eq!(all.iter().map(|(i, _)| *i).collect::<Vec<_>>(), [0, 0, 1, 2, 3]);
    assert_eq!((all[0].1.to_vec()?, all[4].1.to_vec()?), (y.to_vec()?, row.to_vec()?));
    Ok(())
}
