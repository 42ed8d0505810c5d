//! Values that the macro sees little of: constants, containers, guards, state that starts as nothing, fields.

use super::*;
use std::sync::LazyLock;

const NEARLY_NOTHING: f64 = 1e-8;

#[autocast(P)]
fn doubtful<P: AutocastPrecision>(fc: &Linear, norm: &LayerNorm, other: Option<&Linear>, x: &T) -> Result<T> {
    let y = norm.forward(&fc.forward(x)?)?;
    let y = ((y + NEARLY_NOTHING)? + 1e-12)?; // F32, by the type of the normalisation's result
    let tiny = (x.dims()[0] as f64 * 1e-9).max(1e-30) + [1.0].iter().map(|a| a + 1e-12).sum::<f64>();
    let z = match other.map(|other| other.forward(x)).transpose()? {
        Some(z) => (0.5 * (z + 1e-5)?)?,
        None => y.to::<P>()?,
    };
    let h = (fc.forward(x)? + NEARLY_NOTHING)?.clamp_min(1e-9)?;
    ((&y + z)? + (h * tiny)?)?.softmax(-1)? + 1e-12
}

/// What F16 cannot hold is fine beside F32 and BF16, and beside numbers.
#[test]
fn constants_are_judged_by_what_they_meet() -> Result<()> {
    let cpu = Device::cpu();
    let (fc, norm) = (Linear::new(4, 4, &cpu)?, LayerNorm::new(4, &cpu)?);
    for other in [None, Some(&fc)] {
        let (a, b) = (
            doubtful::<F32>(&fc, &norm, other, &random([3, 4])?)?,
            doubtful::<BF16>(&fc, &norm, other, &random([3, 4])?)?,
        );
        assert_eq!((a.dims(), b.dims()), (&[3, 4][..], &[3, 4][..]));
    }
    Ok(())
}

#[autocast(f16)]
fn lists(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<(Vec<Tensor<F32>>, [Tensor<F32>; 3])> {
    let h = x.matmul(w)?;
    let mut features = vec![x.clone(), h.relu()?];
    for _ in 0..2 {
        let all = Tensor::cat(&features.iter().collect::<Vec<_>>(), 0)?;
        features.push(all.matmul(w)?.narrow(0, 0, 4)?);
    }
    features.insert(0, x.matmul(w)?);
    let mut log: Vec<Tensor<F32>> = Vec::new();
    for _ in 0..2 {
        log.push(h.clone());
    }
    let kept = [h.tanh()?, h.exp()?, h];
    let [first, ..] = &kept;
    assert_eq!(first.dims(), log[0].dims());
    Ok((features, kept))
}

#[test]
fn elements_beside_f32_are_widened() -> Result<()> {
    let (x, w) = (random([4, 4])?, random([4, 4])?);
    let h = x.to::<F16>()?.matmul(&w.to::<F16>()?)?;
    let (features, kept) = lists(&x, &w)?;
    assert_eq!(features.len(), 5);
    assert_eq!(features[0].to_vec()?, h.to::<F32>()?.to_vec()?);
    assert_eq!(features[1].to_vec()?, x.to_vec()?);
    assert_eq!(kept[0].to_vec()?, h.tanh()?.to::<F32>()?.to_vec()?);
    assert_eq!(kept[1].to_vec()?, h.to::<F32>()?.exp()?.to_vec()?);
    Ok(())
}

/// What modules give into containers of F32, also into those that only their first element says this of.
#[autocast(f16)]
fn collected(fc: &Linear, x: &Tensor<F32>) -> Result<Vec<Tensor<F32>>> {
    let mut pair = vec![x.clone(), fc.forward(x)?];
    pair.push(fc.forward(x)?);
    let mut empty = Vec::new();
    empty.push(x.clone());
    empty.push(fc.forward(x)?);
    empty.push(x.matmul(x)?);
    Ok(pair.into_iter().chain(empty).collect())
}

#[test]
fn results_of_modules_beside_f32_are_widened() -> Result<()> {
    let x = random([4, 4])?;
    let fc = Linear::new(4, 4, &Device::cpu())?;
    let h = fc.forward(&x.to::<F16>()?)?.to::<F32>()?.to_vec()?;
    let (own, product) = (x.to_vec()?, x.to::<F16>()?.matmul(&x.to::<F16>()?)?.to::<F32>()?.to_vec()?);
    let all: Vec<_> = collected(&fc, &x)?.iter().map(Tensor::to_vec).collect::<Result<_>>()?;
    assert_eq!(all, [own.clone(), h.clone(), h.clone(), own, h, product]);
    Ok(())
}

/// Tensors behind guards of cells and locks are operands like any other.
#[autocast(f16)]
fn guarded(
    x: &Tensor<F32>,
    cell: &RefCell<Tensor<F32>>,
    lock: &Mutex<Tensor<F32>>,
    w: Cow<'_, Tensor<F32>>,
) -> Result<Tensor<F32>> {
    let h = x.matmul(&cell.borrow())?;
    let held = lock.lock().expect("nobody panics");
    h.matmul(&held)?.matmul(&w)
}

#[test]
fn guards_are_operands() -> Result<()> {
    let (x, w) = (random([4, 4])?, random([4, 4])?);
    let found = guarded(&x, &RefCell::new(w.clone()), &Mutex::new(w.clone()), Cow::Borrowed(&w))?;
    let w16 = w.to::<F16>()?;
    let expected = x.to::<F16>()?.matmul(&w16)?.matmul(&w16)?.matmul(&w16)?.to::<F32>()?;
    assert_eq!(found.to_vec()?, expected.to_vec()?);
    Ok(())
}

/// State that starts as `None`: what is put into it says what comes out of it, before and behind.
#[autocast(f16)]
fn accumulated(xs: &[Tensor<F32>], w: &Tensor<F32>) -> Result<(Tensor<F32>, Tensor<F32>, Tensor<F32>)> {
    let (mut sum, mut last, mut mixed) = (None, None, None);
    for (i, x) in xs.iter().enumerate() {
        let y = x.matmul(w)?;
        let z = if i % 2 == 0 { y.softmax(-1)? } else { y.clone() };
        last = Some(match &last {
            Some(last) => Tensor::cat(&[last, &y], 0)?,
            None => y.clone(),
        });
        sum = match sum {
            None => Some(y),
            Some(sum) => Some((sum + y)?),
        };
        mixed = match mixed {
            None => Some(z),
            Some(mixed) => Some((mixed + z)?),
        };
    }
    let missing = || Error::NothingChecked;
    Ok((sum.ok_or_else(missing)?, last.ok_or_else(missing)?, mixed.ok_or_else(missing)?))
}

#[test]
fn state_that_starts_as_none_has_the_precision_of_what_it_is_given() -> Result<()> {
    let (xs, w) = ([random([2, 4])?, random([2, 4])?, random([2, 4])?], random([4, 4])?);
    let ys: Vec<_> = xs.iter().map(|x| x.to::<F16>()?.matmul(&w.to::<F16>()?)).collect::<Result<_>>()?;
    let (sum, last, mixed) = accumulated(&xs, &w)?;
    let narrow = ((&ys[0] + &ys[1])? + &ys[2])?;
    assert_eq!(sum.to_vec()?, narrow.to::<F32>()?.to_vec()?);
    assert_eq!(last.to_vec()?, Tensor::cat(&[&ys[0], &ys[1], &ys[2]], 0)?.to::<F32>()?.to_vec()?);
    let wide = |i: usize| ys[i].to::<F32>();
    let expected = ((wide(0)?.softmax(-1)? + wide(1)?)? + wide(2)?.softmax(-1)?)?;
    assert_eq!(mixed.to_vec()?, expected.to_vec()?);
    Ok(())
}

/// A closure that folds is given what has been folded so far, not an item, first.
#[autocast(f16)]
fn folded(xs: &[Tensor<F32>], w: &Tensor<F32>, zero: Tensor<F32>) -> Result<(Tensor<F16>, Tensor<F32>)> {
    let first = xs[0].matmul(w)?;
    let narrow = xs[1..].iter().try_fold(first, |sum, x| sum + x.matmul(w)?)?;
    let wide = xs.iter().try_fold(zero, |sum, x| sum + x.matmul(w)?)?;
    Ok((narrow, wide))
}

#[test]
fn folds_keep_the_precision_they_begin_with() -> Result<()> {
    let (xs, w) = ([random([2, 4])?, random([2, 4])?, random([2, 4])?], random([4, 4])?);
    let ys: Vec<_> = xs.iter().map(|x| x.to::<F16>()?.matmul(&w.to::<F16>()?)).collect::<Result<_>>()?;
    let (narrow, wide) = folded(&xs, &w, Tensor::zeros([2, 4], &Device::cpu())?)?;
    assert_eq!(narrow.to_vec()?, ((&ys[0] + &ys[1])? + &ys[2])?.to_vec()?);
    let y = |i: usize| ys[i].to::<F32>();
    assert_eq!(wide.to_vec()?, ((y(0)? + y(1)?)? + y(2)?)?.to_vec()?);
    Ok(())
}

struct Kept {
    half: Tensor<F16>,
    full: Tensor<F32>,
    name: String,
    count: usize,
}

/// Fields whose types the macro does not see meet where both are tensors, and stay as they are where they are not.
#[autocast(f16)]
fn of_fields(kept: &Kept) -> Result<(Tensor<F32>, String)> {
    let product = (&kept.half * &kept.full)?;
    let count = &kept.count * &kept.count;
    Ok(((&kept.full - &kept.half)? + product, format!("{}{count}", kept.name)))
        .and_then(|(sum, name): (Result<Tensor<F32>>, String)| Ok((sum?, name)))
}

#[test]
fn fields_of_different_precisions_meet() -> Result<()> {
    let (half, full) = (random([2, 4])?.to::<F16>()?, random([2, 4])?);
    let (found, name) = of_fields(&Kept { half: half.clone(), full: full.clone(), name: "n".into(), count: 3 })?;
    let wide = half.to::<F32>()?;
    assert_eq!(found.to_vec()?, ((&full - &wide)? + (&wide * &full)?)?.to_vec()?);
    assert_eq!(name, "n9");
    Ok(())
}

/// A variable that gets its only value after its declaration is narrowed once, behind the statement that gives it.
#[autocast(f16, max_casts = 3)]
fn deferred(x: &Tensor<F32>, w: &Tensor<F32>, v: &Tensor<F32>, first: bool) -> Result<Tensor<F32>> {
    let n;
    if first {
        n = (x + 1.0)?;
    } else {
        n = (x * x)?;
    }
    let mut sum = n.matmul(w)?;
    for _ in 0..2 {
        sum = (sum + n.matmul(v)?)?;
    }
    Ok(sum)
}

/// As above, with a use before all branches have given it one.
#[autocast(f16)]
fn used_at_once(x: &Tensor<F32>, w: &Tensor<F32>, first: bool) -> Result<Tensor<F32>> {
    let n;
    let early = match first {
        true => {
            n = (x + 1.0)?;
            n.matmul(w)?
        }
        false => {
            n = (x * x)?;
            w.matmul(w)?
        }
    };
    early + (n.matmul(w)? + n.matmul(w)?)?
}

#[test]
fn deferred_values_are_narrowed_once() -> Result<()> {
    let (x, w, v) = (random([4, 4])?, random([4, 4])?, random([4, 4])?);
    let narrow = |x: &T| x.to::<F16>();
    for first in [true, false] {
        let n = narrow(&if first { (&x + 1.0)? } else { (&x * &x)? })?;
        let (a, b) = (n.matmul(&narrow(&w)?)?, n.matmul(&narrow(&v)?)?);
        assert_eq!(deferred(&x, &w, &v, first)?.to_vec()?, ((&a + &b)? + &b)?.to::<F32>()?.to_vec()?);
        let early = if first { a.clone() } else { narrow(&w)?.matmul(&narrow(&w)?)? };
        assert_eq!(used_at_once(&x, &w, first)?.to_vec()?, (early + (&a + &a)?)?.to::<F32>()?.to_vec()?);
    }
    Ok(())
}

struct Duo {
    a: T,
    on: bool,
}

impl Duo {
    /// No operation, on a value that is moved.
    fn exp(self) -> bool {
        self.on
    }
}

/// Structs are written out where operands, receivers, modules' inputs and conditions stand.
#[autocast(f16, enabled = Duo { a: x.clone(), on: true }.on)]
fn written_out(fc: &Linear, x: &T) -> Result<T> {
    let on = Duo { a: x.clone(), on: true }.exp();
    let h = x.matmul(&Duo { a: x.clone(), on }.a)?;
    let h = fc.forward(&Duo { a: h.to::<F32>()?, on }.a)?;
    let p = Duo { a: x.clone(), on }.a.softmax(-1)?.matmul(&h)?;
    let z = (&Duo { a: x.clone(), on }.a + p)?;
    let k = { Duo { a: z, on }.a };
    Duo { a: k.clone(), on }.a.matmul(&k)
}

#[test]
fn structs_are_written_out_in_operands() -> Result<()> {
    let (fc, x) = (Linear::new(4, 4, &Device::cpu())?, random([4, 4])?);
    let narrow = x.to::<F16>()?;
    let h = fc.forward(&narrow.matmul(&narrow)?)?;
    let p = x.softmax(-1)?.to::<F16>()?.matmul(&h)?;
    let z = (&x + p.to::<F32>()?)?.to::<F16>()?;
    assert_eq!(written_out(&fc, &x)?.to_vec()?, z.matmul(&z)?.to::<F32>()?.to_vec()?);
    Ok(())
}

/// Somebody's own types with names of operations.
struct Stats;

impl Stats {
    fn add(&self, value: f64) -> f64 {
        value
    }

    fn log(&self, text: String) -> usize {
        text.len()
    }

    fn mul(&mut self, values: Vec<u8>) -> usize {
        values.len()
    }

    fn matmul(&self, value: &Option<u8>) -> bool {
        value.is_none()
    }
}

/// A module that takes more than tensors.
struct Named {
    layer: Linear,
    stats: Stats,
}

impl Named {
    #[autocast(f16)]
    fn forward(&self, x: &T, name: String, factor: Option<f64>, sizes: Vec<usize>) -> Result<T> {
        let y = self.layer.forward(x)?;
        assert_eq!((name.as_str(), sizes.len()), ("a", 2));
        y.mul(factor.unwrap_or(2.0))
    }
}

/// Arguments that have whatever type is asked of them.
#[autocast(f16)]
fn asked(named: &Named, x: &T) -> Result<(T, f64)> {
    let mut stats = Stats;
    let total = named.stats.add(1.5_f32.into());
    let length = named.stats.log("text".into()) + stats.mul((1..3).collect());
    assert!(named.stats.matmul(&Default::default()));
    assert_eq!(length, 6);
    let y =
        named.forward(&x.relu()?, "a".into(), Default::default(), x.dims().iter().map(|size| size - 1).collect())?;
    Ok((y, total))
}

#[test]
fn arguments_without_a_type_of_their_own_have_the_one_that_is_asked_for() -> Result<()> {
    let named = Named { layer: Linear::new(4, 4, &Device::cpu())?, stats: Stats };
    let x = random([4, 4])?;
    let (y, total) = asked(&named, &x)?;
    let by_hand = (named.layer.forward(&x.relu()?.to::<F16>()?)? * 2.0)?;
    assert_eq!(y.to_vec()?, by_hand.to::<F32>()?.to_vec()?);
    assert!((total - 1.5).abs() < 1e-9);
    Ok(())
}

static BASIS: LazyLock<Tensor<F32>> = LazyLock::new(|| random([4, 4]).unwrap());
static GAIN: f64 = 4.0;

#[autocast(f16)]
fn on_a_basis(x: &Tensor<F32>) -> Result<[Tensor<F16>; 3]> {
    let left = BASIS.matmul(x)?;
    let sum = ((&*BASIS + &left)?.sum_all()? * GAIN.sqrt())?;
    Ok([x.matmul(&BASIS)?, left, sum.to()?])
}

/// A tensor that is a `static` takes part by its type, whatever its name.
#[test]
fn a_static_is_a_tensor_where_its_type_says_so() -> Result<()> {
    let x = random([4, 4])?;
    let (basis, half) = (BASIS.to::<F16>()?, x.to::<F16>()?);
    let [right, left, sum] = on_a_basis(&x)?;
    assert_eq!(right.to_vec()?, half.matmul(&basis)?.to_vec()?);
    assert_eq!(left.to_vec()?, basis.matmul(&half)?.to_vec()?);
    let by_hand = ((&*BASIS + &left.to::<F32>()?)?.sum_all()? * 2.0)?;
    assert_eq!(sum.to_vec()?, by_hand.to::<F16>()?.to_vec()?);
    Ok(())
}
