//! Pairs that iterators collect, what stands in for an option's value, and branches of which there are many.

use super::*;
use std::collections::{BTreeMap, HashMap};

type Pairs = Vec<(Tensor<F32>, usize)>;

#[autocast(f16)]
fn counted(x: &Tensor<F32>) -> Result<Vec<(Tensor<F32>, usize)>> {
    x.split(1, 0)?.iter().enumerate().map(|(i, p)| Ok((p.matmul(x)?, i))).collect()
}

#[autocast(bf16)]
fn declared(x: &Tensor<F32>) -> Result<Vec<(Tensor<F32>, usize)>> {
    let all: Vec<(Tensor<F32>, usize)> =
        x.split(1, 0)?.iter().enumerate().map(|(i, p)| Ok((p.matmul(x)?, i))).collect::<Result<_>>()?;
    Ok(all)
}

#[autocast(f16)]
fn counted_behind(x: &Tensor<F32>) -> Vec<(usize, Tensor<F32>)> {
    (0..4).map(|_| x.matmul(x).expect("square")).enumerate().collect()
}

#[autocast(f16)]
fn zipped(x: &Tensor<F32>, names: &[&'static str]) -> Result<Vec<(Tensor<F32>, &'static str)>> {
    Ok((0..4).map(|_| x.matmul(x).expect("square")).zip(names.iter().copied()).collect())
}

#[autocast(f16)]
fn of_blocks(x: &Tensor<F32>) -> Result<Vec<(Tensor<F32>, Tensor<F32>, bool)>> {
    (0..4)
        .map(|i| {
            let y = x.matmul(x)?;
            if i == 2 {
                return Ok((y.exp()?, x.clone(), true));
            }
            let z = y.relu()?;
            Ok((y.exp()?, x.clone(), z.rank() == 2))
        })
        .collect()
}

#[autocast(f16)]
fn filtered(x: &Tensor<F32>) -> Result<Vec<(usize, Tensor<F32>)>> {
    let rows = x.split(1, 0)?;
    Ok(rows.iter().enumerate().filter_map(|(i, p)| Some((i, p.matmul(x).ok()?))).filter(|(i, _)| *i != 1).collect())
}

#[autocast(f16)]
fn listed(x: &Tensor<F32>) -> Result<Vec<(usize, Tensor<F32>)>> {
    let h = x.matmul(x)?;
    Ok([(0, h.clone()), (1, h)].into_iter().rev().collect())
}

#[autocast(f16)]
fn mapped(x: &Tensor<F32>) -> Result<BTreeMap<usize, Tensor<F32>>> {
    x.split(1, 0)?.iter().enumerate().map(|(i, p)| Ok((i, p.matmul(x)?))).collect()
}

/// Types of other names.
mod named {
    use super::{T, random};
    use amp::prelude::*;

    #[autocast(f16)]
    fn tail(x: &T) -> Result<Vec<T>> {
        x.split(1, 0)?.iter().map(|p| p.matmul(x)).collect()
    }

    #[autocast(f16)]
    fn of_pairs(x: &T) -> Result<Vec<(T, usize)>> {
        x.split(1, 0)?.iter().enumerate().map(|(i, p)| Ok((p.matmul(x)?, i))).collect()
    }

    #[autocast(f16)]
    fn annotated(x: &T, n: usize) -> Result<T> {
        let rows: Vec<T> = x.split(1, 0)?.iter().map(|p| p.matmul(x)).collect::<Result<_>>()?;
        let pair: (f32, T) = (0.5, rows[0].matmul(x)?);
        let mut best: Option<(usize, T)> = None;
        for (i, row) in rows.iter().enumerate() {
            let h = row.matmul(x)?;
            if i == n {
                best = Some((i, h));
            }
        }
        best.unwrap_or((0, pair.1)).1.exp()
    }

    #[autocast(f16)]
    fn counts(x: &T) -> Result<Vec<usize>> {
        type Size = usize;
        let sizes: Vec<Size> = x.split(1, 0)?.iter().map(|p| p.dims()[0]).collect();
        Ok(sizes.into_iter().map(|size| size + 1).collect())
    }

    #[deny(unused_parens)]
    #[autocast(f16)]
    fn in_parentheses(x: &T, w: &T, c: bool) -> Result<T> {
        let h = x.matmul(w)?;
        let a = (if c { w } else { x }).exp()?;
        let b = (match c {
            true => &h,
            false => &a,
        })
        .matmul(&(if c { w } else { x }).t()?)?;
        let d = ((if c { &a } else { x }) + &b)?;
        let e = (x).matmul(&(&d).relu()?.t()?)?;
        own(&(if c { e } else { d }))
    }

    fn own(x: &T) -> Result<T> {
        x.relu()
    }

    struct Count;

    impl From<usize> for Count {
        fn from(_: usize) -> Self {
            Self
        }
    }

    #[autocast(f16)]
    fn generic<S: From<usize>>(x: &T) -> Result<Vec<S>> {
        let h = x.matmul(x)?;
        Ok((0..h.rank()).map(S::from).collect())
    }

    #[test]
    fn types_of_other_names_are_seen_through() -> Result<()> {
        let x = random([4, 4])?;
        assert!(tail(&x)?.iter().zip(of_pairs(&x)?).all(|(a, (b, _))| super::bits(a) == super::bits(&b)));
        assert_eq!(in_parentheses(&x, &x, true)?.dims(), [4, 4]);
        assert_eq!(annotated(&x, 2)?.dims(), [1, 4]);
        assert_eq!((counts(&x)?, generic::<Count>(&x).is_ok()), (vec![2; 4], true));
        Ok(())
    }
}

#[autocast(f16)]
fn narrow(x: &Tensor<F32>) -> Result<Vec<(Tensor<F16>, usize)>> {
    x.split(1, 0)?.iter().enumerate().map(|(i, p)| Ok((p.matmul(x)?, i))).collect()
}

#[autocast(f16)]
fn instead(x: &Tensor<F32>, c: bool) -> Result<Tensor<F32>> {
    let o = if c { Some(x.matmul(x)?) } else { None };
    o.unwrap_or_else(|| x.clone()).relu()
}

#[autocast(f16)]
fn instead_of_an_error(x: &Tensor<F32>) -> Tensor<F32> {
    x.matmul(x).unwrap_or_else(|_| x.clone())
}

#[autocast(f16)]
fn instead_narrow(x: &Tensor<F32>, o: Option<Tensor<F32>>) -> Result<Tensor<F32>> {
    let h = x.matmul(x)?;
    o.unwrap_or_else(|| h).exp()
}

#[autocast(f16)]
fn instead_never(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h: Tensor<F16> = x.matmul(x).ok().unwrap_or_else(|| panic!("square"));
    h.matmul(x)
}

#[autocast(f16)]
fn seven(x: &Tensor<F32>, w: &Tensor<F32>, n: usize) -> Result<Tensor<F32>> {
    let h = x.matmul(w)?;
    let e = h.exp()?;
    let y = match n {
        0 => &h,
        1 => x,
        2 => &e,
        3 => w,
        4 => &h.relu()?,
        5 => &h.tanh()?,
        _ => &w.matmul(x)?,
    };
    y.matmul(w)
}

#[autocast(f16)]
fn six_by_if(x: &Tensor<F32>, w: &Tensor<F32>, n: usize) -> Result<Tensor<F32>> {
    let h = x.matmul(w)?;
    let y = if n == 0 {
        &h
    } else if n == 1 {
        x
    } else if n == 2 {
        w
    } else if n == 3 {
        return h.exp();
    } else if n == 4 {
        &h.exp()?
    } else {
        &h.relu()?
    };
    y.exp()
}

#[autocast(f16)]
fn nested(x: &Tensor<F32>, w: &Tensor<F32>, n: usize) -> Result<Tensor<F32>> {
    let h = x.matmul(w)?;
    let y = if n < 3 {
        let few = n < 2;
        match n {
            0 => &h.relu()?,
            _ if few => {
                let e = &h;
                if e.rank() == 2 { &e.exp()? } else { x }
            }
            _ => x,
        }
    } else {
        let z = w;
        if n == 3 { &h } else { &z.matmul(x)? }
    };
    y.exp()
}

#[autocast(f16)]
fn variables(x: &Tensor<F32>, w: &Tensor<F32>, n: usize) -> Result<Tensor<F32>> {
    let h = x.matmul(w)?;
    let narrow = &h;
    let wide = x;
    let y = if n == 0 { narrow } else { wide };
    let z = match n {
        0 => wide,
        1 => y,
        _ => narrow,
    };
    z.exp()? + &y.exp()?
}

#[autocast(f16)]
fn in_loops(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut sum = x.clone();
    for i in 0..4 {
        let h = sum.matmul(w)?;
        let y = if i == 0 {
            x
        } else if i == 1 {
            &h
        } else {
            let k = i - 2;
            if k == 0 { &h.relu()? } else { &h.exp()? }
        };
        sum = (&sum + y)?;
    }
    let pick = |i: usize| -> Result<Tensor<F32>> {
        let h = sum.matmul(w)?;
        if i == 0 {
            x
        } else if i == 1 {
            &h.relu()?
        } else {
            &h.exp()?
        }
        .relu()
    };
    pick(0)? + &pick(1)?
}

#[deny(unused_parens)]
#[autocast(f16)]
fn in_parentheses(x: &Tensor<F32>, w: &Tensor<F32>, c: bool) -> Result<Tensor<F32>> {
    let h = x.matmul(w)?;
    let a = (if c { w } else { x }).exp()?;
    let b = (if c { &h } else { x }).exp()?;
    let d = (match c {
        true => h.clone(),
        false => x.clone(),
    })
    .softmax(-1)?;
    let e = (x.matmul(w)).unwrap_or_else(|_| x.clone());
    let f = ((&a + &b)? * (&d + &e)?)?;
    let g = if c { h } else { f.clone() };
    (f + &g)?.matmul(if c { &a } else { x })
}

#[test]
fn pairs_are_widened_one_by_one() -> Result<()> {
    let x = random([4, 4])?;
    let x16 = x.to::<F16>()?;
    let product = x16.matmul(&x16)?.to::<F32>()?;
    let rows: Pairs = counted(&x)?;
    assert_eq!(rows.iter().map(|(_, i)| *i).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(bits(&rows[2].0), bits(&x16.narrow(0, 2, 1)?.matmul(&x16)?.to()?));
    assert_eq!(declared(&x)?.len(), 4);
    assert!(counted_behind(&x).iter().all(|(_, y)| bits(y) == bits(&product)));
    assert!(zipped(&x, &["a", "b"])?.iter().all(|(y, _)| bits(y) == bits(&product)));
    assert_eq!(bits(&of_blocks(&x)?[2].0), bits(&product.exp()?));
    assert_eq!(filtered(&x)?.iter().map(|(i, _)| *i).collect::<Vec<_>>(), [0, 2, 3]);
    assert!(listed(&x)?.iter().all(|(_, y)| bits(y) == bits(&product)));
    assert_eq!(bits(&mapped(&x)?[&2]), bits(&rows[2].0));
    assert_eq!(bits(&narrow(&x)?[2].0.to()?), bits(&rows[2].0));
    Ok(())
}

#[test]
fn what_stands_in_for_a_value_is_joined_with_it() -> Result<()> {
    let x = random([4, 4])?;
    let x16 = x.to::<F16>()?;
    let product = x16.matmul(&x16)?.to::<F32>()?;
    assert_eq!(bits(&instead(&x, true)?), bits(&product.relu()?));
    assert_eq!(bits(&instead(&x, false)?), bits(&x.relu()?));
    assert_eq!(bits(&instead_of_an_error(&x)), bits(&product));
    assert_eq!(bits(&instead_narrow(&x, None)?), bits(&product.exp()?));
    assert_eq!(bits(&instead_narrow(&x, Some(x.clone()))?), bits(&x.exp()?));
    assert_eq!(bits(&instead_never(&x)?), bits(&product.to::<F16>()?.matmul(&x16)?.to()?));
    Ok(())
}

#[test]
fn many_branches_of_references_join() -> Result<()> {
    let (x, w) = (random([4, 4])?, random([4, 4])?);
    let (x16, w16) = (x.to::<F16>()?, w.to::<F16>()?);
    let h = x16.matmul(&w16)?;
    assert_eq!(bits(&seven(&x, &w, 0)?), bits(&h.matmul(&w16)?.to()?));
    assert_eq!(bits(&seven(&x, &w, 1)?), bits(&x16.matmul(&w16)?.to()?));
    assert_eq!(bits(&seven(&x, &w, 5)?), bits(&h.tanh()?.matmul(&w16)?.to()?));
    assert_eq!(bits(&six_by_if(&x, &w, 1)?), bits(&x.exp()?));
    assert_eq!(bits(&nested(&x, &w, 0)?), bits(&h.relu()?.to::<F32>()?.exp()?));
    assert_eq!(bits(&nested(&x, &w, 1)?), bits(&h.to::<F32>()?.exp()?.exp()?));
    assert_eq!(bits(&nested(&x, &w, 2)?), bits(&x.exp()?));
    assert_eq!(bits(&nested(&x, &w, 3)?), bits(&h.to::<F32>()?.exp()?));
    assert_eq!(bits(&variables(&x, &w, 1)?), bits(&(x.exp()? + &x.exp()?)?));
    assert_eq!(bits(&variables(&x, &w, 2)?), bits(&(h.to::<F32>()?.exp()? + &x.exp()?)?));
    assert_eq!(in_loops(&x, &w)?.dims(), [4, 4]);
    assert_eq!(in_parentheses(&x, &w, true)?.dims(), [4, 4]);
    assert_eq!(bits(&six_by_if(&x, &w, 5)?), bits(&h.relu()?.to::<F32>()?.exp()?));
    Ok(())
}

fn taken_wide(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.exp()
}

fn sum_of(sizes: &[usize], first: &usize, name: &str) -> usize {
    sizes.iter().sum::<usize>() + first + name.len()
}

#[autocast(f16)]
fn out_of_maps(x: &Tensor<F32>) -> Result<Vec<Tensor<F32>>> {
    let counted: HashMap<_, _> = (0..2_usize).map(|i| Ok((i, x.matmul(x)?))).collect::<Result<_>>()?;
    let named: BTreeMap<&str, _> = [("h", x.matmul(x)?)].into();
    let turbofish = vec![(1, x.matmul(x)?)].into_iter().collect::<BTreeMap<_, _>>();
    Ok(vec![taken_wide(&counted[&1])?, taken_wide(&named["h"])?, taken_wide(&turbofish[&1])?])
}

#[autocast(f16)]
fn out_of_other_lists(x: &Tensor<F32>) -> Result<usize> {
    let sizes: Vec<_> = x.split(1, 0)?.iter().map(|row| row.dims().to_vec()).collect();
    let names: Vec<_> = (0..2).map(|i| i.to_string()).collect();
    Ok(sum_of(&sizes[0], &sizes[0][1], &names[1]))
}

#[test]
fn what_lies_in_a_map_is_widened_for_ones_own_function() -> Result<()> {
    let x = random([4, 4])?;
    let h: Tensor<F32> = x.to::<F16>()?.matmul(&x.to::<F16>()?)?.to()?;
    let by_hand = bits(&taken_wide(&h)?);
    assert!(out_of_maps(&x)?.iter().all(|y| bits(y) == by_hand));
    assert_eq!(out_of_other_lists(&x)?, 1 + 4 + 4 + 1);
    Ok(())
}

struct Cache {
    kv: Option<(T, T)>,
}

impl Cache {
    #[autocast(bf16)]
    fn extended(&mut self, fc: &Linear, x: &Tensor<F32>) -> Result<T> {
        let (k, v) = (fc.forward(x)?, fc.forward(x)?.relu()?);
        let (k, v) = match &self.kv {
            Some((before_k, before_v)) => (Tensor::cat(&[before_k, &k], 0)?, Tensor::cat(&[before_v, &v], 0)?),
            None => (k, v),
        };
        self.kv = Some((k.clone(), v.clone()));
        k.transpose(0, 1)?.matmul(&v)
    }

    #[autocast(bf16)]
    fn crossed(&self, fc: &Linear, x: &Tensor<F32>) -> Result<T> {
        let (k, v) = match self.kv.as_ref() {
            Some((k, v)) => (k.clone(), v.clone()),
            None => (fc.forward(x)?, fc.forward(x)?),
        };
        k.transpose(0, 1)?.matmul(&v)
    }
}

#[test]
fn pairs_of_fields_join_pairs_of_modules() -> Result<()> {
    let fc = Linear::new(4, 4, &Device::cpu())?;
    let (x, y) = (random([2, 4])?, random([3, 4])?);
    let mut cache = Cache { kv: None };
    let product = |k: &T, v: &T| k.to::<BF16>()?.transpose(0, 1)?.matmul(&v.to::<BF16>()?)?.to::<F32>();
    let given = |x: &T| fc.forward(&x.to::<BF16>()?)?.to::<F32>();
    let (k, v) = (given(&x)?, given(&x)?.relu()?);
    assert_eq!(cache.crossed(&fc, &x)?.to_vec()?, product(&k, &k)?.to_vec()?);
    assert_eq!(cache.extended(&fc, &x)?.to_vec()?, product(&k, &v)?.to_vec()?);
    let k = Tensor::cat(&[&k, &given(&y)?], 0)?;
    let v = Tensor::cat(&[&v, &given(&y)?.relu()?], 0)?;
    assert_eq!(cache.extended(&fc, &y)?.to_vec()?, product(&k, &v)?.to_vec()?);
    assert_eq!(cache.crossed(&fc, &x)?.to_vec()?, product(&k, &v)?.to_vec()?);
    Ok(())
}

#[autocast(f16)]
fn staged(fc: &Linear, norm: &LayerNorm, x: &Tensor<F32>, stage: usize) -> Result<T> {
    let (h, scale) = if stage == 0 {
        (fc.forward(x)?, 1.0)
    } else if stage == 1 {
        (norm.forward(x)?, 2.0)
    } else if stage == 2 {
        let pair = (x.matmul(x)?, 3.0);
        assert_eq!(pair.0.dims(), x.dims());
        pair
    } else {
        return x.relu();
    };
    h.add(&h)? * scale
}

#[test]
fn pairs_of_several_branches_join() -> Result<()> {
    let (fc, norm, x) = (Linear::new(4, 4, &Device::cpu())?, LayerNorm::new([4], &Device::cpu())?, random([4, 4])?);
    let x16 = x.to::<F16>()?;
    let stages = [fc.forward(&x16)?.to::<F32>()?, norm.forward(&x)?, x16.matmul(&x16)?.to::<F32>()?];
    for (stage, h) in stages.iter().enumerate() {
        let expected = (h.add(h)? * (stage as f64 + 1.0))?;
        assert_eq!(staged(&fc, &norm, &x, stage)?.to_vec()?, expected.to_vec()?, "stage {stage}");
    }
    Ok(())
}

#[autocast(bf16)]
fn alike(fc: &Linear, x: &Tensor<F32>, twice: bool) -> Result<Tensor<BF16>> {
    let (h, _): (Tensor<BF16>, usize) = if twice { (fc.forward(&fc.forward(x)?)?, 2) } else { (fc.forward(x)?, 1) };
    Ok(h)
}
