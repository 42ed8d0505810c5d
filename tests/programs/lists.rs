//! Values that patterns bind, and lists and options of them: what a list, a function or a module of one's own takes as F32
//! is widened, and what takes any precision gets the one that they have.

use super::*;
use amp::DType;
use std::collections::BTreeMap;

#[autocast(f16)]
fn conditions(x: &Tensor<F32>, out: &mut Vec<Tensor<F32>>) {
    if let Ok(h) = x.matmul(x)
        && h.dims()[0] == 4
    {
        out.push(h);
    }
    while let Ok(h) = x.matmul(x) {
        let h = h;
        out.insert(0, h);
        if out.len() > 1 {
            break;
        }
    }
    let Ok(h) = x.matmul(x) else { return };
    out.push(h);
}

#[autocast(f16)]
fn arms(x: &Tensor<F32>, out: &mut Vec<Tensor<F32>>) -> Result<()> {
    match x.matmul(x) {
        Ok(h) if h.dims().len() == 2 => out.push(h),
        _ => {}
    }
    match (x.matmul(x)?, out.len()) {
        (h, 1) => out.push(h),
        (h, n) => out[n - 1] = h,
    }
    Ok(())
}

#[autocast(f16)]
fn elements(x: &Tensor<F32>, out: &mut Vec<Tensor<F32>>) -> Result<()> {
    let (h, n) = (x.matmul(x)?, 0);
    out.insert(n, h);
    let [a, b] = [x.matmul(x)?, x.matmul(x)?];
    out.push(a);
    out.push(b);
    for h in [x.matmul(x)?, x.matmul(x)?] {
        out.push(h);
    }
    let Some(h) = x.matmul(x)?.chunk(1, 0)?.pop() else { return Ok(()) };
    out.push(h);
    Ok(())
}

#[autocast(f16)]
fn parameters(x: &Tensor<F32>, out: &mut Vec<Tensor<F32>>) -> Result<()> {
    x.matmul(x).map(|h| out.push(h))?;
    x.matmul(x)?.chunk(1, 0)?.into_iter().for_each(|h| out.push(h));
    let mut put = |h: Tensor<F32>| out.push(h);
    put(x.matmul(x)?);
    Ok(())
}

#[autocast(f16)]
fn returned(x: &Tensor<F32>) -> Result<Vec<Tensor<F32>>> {
    let mut out = vec![];
    if let Ok(h) = x.matmul(x) {
        out.push(h);
    }
    Ok(out)
}

#[test]
fn what_a_pattern_binds_is_widened_where_it_is_put() -> Result<()> {
    let x = random([4, 4])?;
    let narrow = x.to::<F16>()?;
    let h = narrow.matmul(&narrow)?.to::<F32>()?.to_vec()?;
    let mut out = returned(&x)?;
    conditions(&x, &mut out);
    out.truncate(1);
    arms(&x, &mut out)?;
    elements(&x, &mut out)?;
    parameters(&x, &mut out)?;
    assert_eq!(out.len(), 11);
    for y in out {
        assert_eq!(y.to_vec()?, h);
    }
    Ok(())
}

/// A dense layer.
struct Dense {
    fc: Linear,
}

impl Dense {
    fn forward(&self, xs: &[T]) -> Result<T> {
        xs.iter().try_fold(self.fc.forward(&xs[0])?, |sum, x| sum + x)
    }

    fn fuse(&self, xs: &[&T]) -> Result<T> {
        xs.iter().try_fold(self.fc.forward(xs[0])?, |sum, x| sum + *x)
    }

    fn masked(&self, x: &T, mask: Option<&T>) -> Result<T> {
        let h = self.fc.forward(x)?;
        match mask {
            Some(mask) => h + mask,
            None => Ok(h),
        }
    }
}

fn added(xs: &[T]) -> Result<T> {
    xs[1..].iter().try_fold(xs[0].clone(), |sum, x| sum + x)
}

fn added_of(xs: &[&T]) -> Result<T> {
    xs[1..].iter().try_fold(xs[0].clone(), |sum, x| sum + *x)
}

fn of_two(xs: &[T; 2]) -> Result<T> {
    &xs[0] + &xs[1]
}

#[allow(clippy::ptr_arg)] // it is the form that is tested
fn of_a_vec(xs: &Vec<Tensor<F32>>) -> Result<T> {
    added(xs)
}

fn of_an_option(x: &Option<T>) -> Result<T> {
    Ok(x.clone().expect("it is given"))
}

fn or_zeros(x: Option<&T>, like: &T) -> Result<T> {
    x.map_or_else(|| like * 0.0, |x| Ok(x.clone()))
}

#[autocast(f16)]
fn to_functions(fc: &Linear, x: &Tensor<F32>) -> Result<Vec<Tensor<F32>>> {
    let h = fc.forward(x)?;
    let hs = vec![h.clone(), fc.forward(x)?];
    let pair = [h.clone(), h.clone()];
    let (one, none) = (Some(h.clone()), hs.get(5));
    let borrowed: Vec<&Tensor<_>> = hs.iter().collect();
    Ok(vec![
        added(&hs)?,
        added(&hs[..])?,
        added(&pair)?,
        added(&[h.clone(), h.clone()])?,
        added(&vec![h.clone(), fc.forward(x)?])?,
        added_of(&[&h, &hs[1]])?,
        added_of(&borrowed)?,
        added_of(&hs.iter().collect::<Vec<_>>())?,
        of_two(&pair)?,
        of_two(&[h.clone(), h.clone()])?,
        of_a_vec(&hs)?,
        (of_an_option(&one)? * 2.0)?,
        (or_zeros(hs.last(), x)? * 2.0)?,
        (or_zeros(one.as_ref(), x)? * 2.0)?,
        ((&h + &h)? + or_zeros(none, x)?)?,
    ])
}

#[autocast(f16)]
fn to_modules(fc: &Linear, dense: &Dense, x: &Tensor<F32>) -> Result<Vec<Tensor<F32>>> {
    let h = fc.forward(x)?;
    let mut collected = [fc, fc].iter().map(|fc| fc.forward(x)).collect::<Result<Vec<_>>>()?;
    let mut out = vec![dense.forward(&collected)?];
    let mut list = Vec::new();
    if x.dims()[0] == 3 {
        list.push(fc.forward(x)?);
    }
    list.push(x.clone());
    out.push(dense.forward(&list[..1])?);
    out.push(dense.forward(&[h.clone(), fc.forward(x)?])?);
    out.push(dense.fuse(&[&h, &collected[0]])?);
    out.push(dense.fuse(&[&h, x])?);
    out.push(dense.masked(x, collected.last())?);
    out.push(dense.masked(&h, collected.pop().as_ref())?);
    Ok(out)
}

#[test]
fn lists_and_options_are_widened_for_who_takes_f32() -> Result<()> {
    let (fc, x) = (Linear::new(4, 4, &Device::cpu())?, random([3, 4])?);
    let h: T = fc.forward(&x.to::<F16>()?)?.to()?;
    for y in to_functions(&fc, &x)? {
        assert_eq!(y.to_vec()?, (&h * 2.0)?.to_vec()?);
    }
    let dense = Dense { fc: Linear::new(4, 4, &Device::cpu())? };
    let (of_h, of_x) = (dense.fc.forward(&h)?, dense.fc.forward(&x)?);
    let two = ((&of_h + &h)? + &h)?;
    let expected = [&two, &(&of_h + &h)?, &two, &two, &((&of_h + &h)? + &x)?, &(of_x + &h)?, &(of_h + &h)?];
    let given = to_modules(&fc, &dense, &x)?;
    assert_eq!(given.len(), expected.len());
    for (given, expected) in given.iter().zip(expected) {
        assert_eq!(given.to_vec()?, expected.to_vec()?);
    }
    Ok(())
}

fn dtype<P: Float>(xs: &[Tensor<P>]) -> DType {
    xs[0].dtype()
}

fn dtype_of<P: Float>(xs: &[&Tensor<P>]) -> DType {
    xs[0].dtype()
}

fn dtype_held<P: Float>(x: Option<&Tensor<P>>) -> DType {
    x.expect("it is given").dtype()
}

fn narrow(xs: &[Tensor<F16>]) -> Result<Tensor<F16>> {
    Ok(xs[0].clone())
}

#[autocast(f16)]
fn of_any_precision(fc: &Linear, x: &Tensor<F32>) -> Result<Vec<DType>> {
    let h = fc.forward(x)?;
    let hs = vec![h.clone(), narrow(&[h.clone(), h.clone()])?];
    let pair = [h.clone(), narrow(&hs)?];
    Ok(vec![
        dtype(&hs),
        dtype(&hs[..]),
        dtype(&pair),
        dtype(&[h.clone(), h.clone()]),
        dtype(&vec![h.clone()]),
        dtype_of(&[&h, &hs[1]]),
        dtype_of(&hs.iter().collect::<Vec<_>>()),
        dtype_held(hs.last()),
        dtype_held(Some(&h)),
    ])
}

#[test]
fn who_takes_any_precision_gets_the_one_there_is() -> Result<()> {
    let (fc, x) = (Linear::new(4, 4, &Device::cpu())?, random([3, 4])?);
    assert_eq!(of_any_precision(&fc, &x)?, [DType::F16; 9]);
    Ok(())
}

struct Narrow(Linear);

impl Narrow {
    fn forward(&self, xs: &[Tensor<F16>]) -> Result<Tensor<F16>> {
        self.0.forward(&xs[xs.len() - 1])
    }
}

struct Latest;

#[allow(clippy::ptr_arg)] // it is the form that is tested
impl Latest {
    fn of_a_list<P: Float>(&self, xs: &Vec<Tensor<P>>) -> Tensor<P> {
        xs[0].clone()
    }

    fn taken<P: Float>(&mut self, xs: &mut Vec<Tensor<P>>) -> Tensor<P> {
        xs.remove(0)
    }

    fn forward<P: Float>(&self, xs: &[Tensor<P>]) -> Result<Tensor<P>> {
        Ok(xs[xs.len() - 1].clone())
    }
}

#[autocast(f16)]
fn dense_block(stem: &Linear, layers: &[Dense], x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut features = vec![stem.forward(x)?];
    for layer in layers {
        let y = layer.forward(&features)?;
        features.push(y);
    }
    let mut others = Vec::new();
    others.push(stem.forward(x)?);
    for layer in layers.iter().take(1) {
        others.push(layer.forward(&others)?);
    }
    assert_eq!(dtype(&others), DType::F32);
    Tensor::cat(&features.iter().collect::<Vec<_>>(), -1)
}

#[autocast(f16)]
fn of_products(layers: &[Dense], x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let mut features = vec![x.matmul(x)?];
    for (i, _) in layers.iter().enumerate() {
        let y = layers[i].forward(&features).unwrap();
        features.push(y);
    }
    assert_eq!(dtype(&features), DType::F32);
    features[0].matmul(&features[1])
}

#[autocast(f16)]
fn narrow_block(stem: &Linear, layers: &[Narrow], latest: &mut Latest, x: &Tensor<F32>) -> Result<[DType; 2]> {
    let mut features = vec![stem.forward(x)?];
    for layer in layers {
        let y = layer.forward(&features)?;
        features.push(y);
    }
    let mut others = Vec::new();
    others.push(x.matmul(x)?);
    others.push(latest.forward(&others)?);
    others.push(latest.of_a_list(&others));
    let first = latest.taken(&mut others);
    others.push(first);
    Ok([dtype(&features), dtype(&others)])
}

#[test]
fn a_list_that_a_module_takes_and_grows_holds_what_it_gives() -> Result<()> {
    let device = Device::cpu();
    let (stem, x) = (Linear::new(4, 4, &device)?, random([4, 4])?);
    let layers = [Dense { fc: Linear::new(4, 4, &device)? }, Dense { fc: Linear::new(4, 4, &device)? }];
    let narrow = x.to::<F16>()?;
    let first: T = stem.forward(&narrow)?.to()?;
    let second = layers[0].forward(std::slice::from_ref(&first))?;
    let third = layers[1].forward(&[first.clone(), second.clone()])?;
    let block = dense_block(&stem, &layers, &x)?;
    assert_eq!(block.to_vec()?, Tensor::cat(&[&first, &second, &third], -1)?.to_vec()?);
    let first: T = narrow.matmul(&narrow)?.to()?;
    let second = layers[0].forward(std::slice::from_ref(&first))?;
    let product = first.to::<F16>()?.matmul(&second.to::<F16>()?)?;
    assert_eq!(of_products(&layers, &x)?.to_vec()?, product.to::<F32>()?.to_vec()?);
    let narrow = [Narrow(Linear::new(4, 4, &device)?)];
    assert_eq!(narrow_block(&stem, &narrow, &mut Latest, &x)?, [DType::F16; 2]);
    Ok(())
}

fn exchange(one: &mut Tensor<F32>, other: &mut Tensor<F32>) {
    std::mem::swap(one, other);
}

#[autocast(f16)]
fn in_pairs(x: &Tensor<F32>, pairs: &mut Vec<(Tensor<F32>, usize)>) -> Result<BTreeMap<&'static str, Tensor<F32>>> {
    let h = x.matmul(x)?;
    pairs.push((x.clone(), 1));
    pairs[0] = (h.clone(), 2);
    pairs.extend(vec![(h.clone(), 3)]);
    exchange(&mut pairs[1].0, &mut x.matmul(x)?);
    let one: BTreeMap<&str, Tensor<F32>> = std::iter::once(("c", h.clone())).collect();
    assert_eq!(one.len(), 1);
    Ok([("a", h.clone()), ("b", h)].into())
}

#[test]
fn tensors_beside_other_things_are_widened() -> Result<()> {
    let x = random([4, 4])?;
    let narrow = x.to::<F16>()?;
    let h = narrow.matmul(&narrow)?.to::<F32>()?.to_vec()?;
    let mut pairs = Vec::new();
    let map = in_pairs(&x, &mut pairs)?;
    for y in [&pairs[0].0, &pairs[1].0, &map["a"], &map["b"]] {
        assert_eq!(y.to_vec()?, h);
    }
    Ok(())
}

fn exp_of(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.exp()
}

/// What `std` hands out of a list is known as what lies in it.
#[autocast(f16)]
fn taken_out(fc: &Linear, x: &Tensor<F32>) -> Result<Vec<Tensor<F32>>> {
    let parts = fc.forward(x)?.chunk(4, 0)?;
    let (first, rest) = parts.split_first().expect("four of them");
    let (_, end) = parts.split_at(3);
    let highest = parts.iter().max_by_key(|part| part.rank()).expect("four of them");
    let mut all = vec![exp_of(first)?, exp_of(&rest[0])?, exp_of(&end[0])?, exp_of(highest)?];
    for pair in parts.windows(2) {
        all.push(exp_of(&pair[1])?);
    }
    let named = [(fc.forward(x)?, "narrow")];
    all.push(exp_of(&named[0].0)?);
    Ok(all)
}

#[autocast(bf16)]
fn unzipped(fc: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let pairs = vec![(fc.forward(x)?, fc.forward(x)?.exp()?)];
    let (narrow, wide): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
    let narrow: Vec<_> = narrow.iter().collect();
    let wide: Vec<_> = wide.iter().collect();
    Tensor::cat(&narrow, 0)? + Tensor::cat(&wide, 0)?
}

#[test]
fn what_is_taken_out_of_lists_is_what_lies_in_them() -> Result<()> {
    let (fc, x) = (Linear::new(4, 4, &Device::cpu())?, random([4, 4])?);
    let y = fc.forward(&x.to::<F16>()?)?.to::<F32>()?;
    let parts = y.exp()?.chunk(4, 0)?;
    let by_hand = [&parts[0], &parts[1], &parts[3], &parts[3], &parts[1], &parts[2], &parts[3], &y.exp()?].map(bits);
    assert_eq!(taken_out(&fc, &x)?.iter().map(bits).collect::<Vec<_>>(), by_hand);
    let y = fc.forward(&x.to::<BF16>()?)?.to::<F32>()?;
    assert_eq!(bits(&unzipped(&fc, &x)?), bits(&(&y + &y.exp()?)?));
    Ok(())
}

#[autocast(f16)]
fn references_of_both(x: &Tensor<F32>, w: &Tensor<F32>, fc: &Linear) -> Result<T> {
    let h = x.matmul(w)?;
    let mut sum = x.clone();
    for t in [&h, x, w] {
        sum = (sum + t)?;
    }
    let all = [&h, x].iter().map(|t| t.relu()).collect::<Result<Vec<_>>>()?;
    for (t, factor) in [(&h, 1.0), (x, 2.0), (&x.matmul(x)?, 3.0)] {
        sum = (sum + (t * factor)?)?;
    }
    let before = sum.clone();
    let kept = [&x.matmul(w)?, &before, x];
    let y = fc.forward(x)?;
    let open = vec![x, &y, &h];
    for t in all.iter().chain(kept).chain(open) {
        sum = (sum + t)?;
    }
    Ok(sum)
}

#[test]
fn references_are_widened_where_they_are_written_in_a_list() -> Result<()> {
    let x = T::ones([1, 1], &Device::cpu())?;
    let fc = Linear::new(1, 1, &Device::cpu())?;
    let given = fc.forward(&x)?.to::<F16>()?.to::<F32>()?.item()?;
    let sum = references_of_both(&x, &x, &fc)?.item()?;
    // Each is 1, but for factors, the sum before the last loop and what the layer gives.
    assert!(((4.0 + 6.0) * 2.0 + 6.0 + given - sum).abs() < 0.01, "{sum} {given}");
    Ok(())
}

#[autocast(f16)]
fn borrowed_by_another_name(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let all = vec![x.matmul(x)?, x.matmul(x)?];
    let slice: &[T] = &all;
    added(slice)
}

#[test]
fn slices_of_what_is_f32_by_another_name_hold_f32() -> Result<()> {
    let x = random([4, 4])?;
    let h: T = x.to::<F16>()?.matmul(&x.to::<F16>()?)?.to()?;
    assert_eq!(bits(&borrowed_by_another_name(&x)?), bits(&(&h * 2.0)?));
    Ok(())
}
