//! Operators under the rules of the operations that they are.

use super::{T, random};
use amp::nn::*;
use amp::prelude::*;
use std::cell::Cell;

/// What a number is divided by is widened, as `recip` is.
#[autocast(f16)]
fn number_over(l: &Linear, x: &T, t: f64) -> Result<[T; 5]> {
    let (y, s) = (l.forward(x)?, 2.0);
    let sigmoid = 1.0 / (1.0 + (-l.forward(x)?)?.exp()?)?;
    Ok([
        (1.0 / l.forward(x)?)?,
        (1.0 / &y)?,
        ((t / (l.forward(x)?.abs()? + 0.5)?)? + (s / y.exp()?)?)?,
        sigmoid?,
        (1.0 / x)?,
    ])
}

#[autocast(P)]
fn generic<P: AutocastPrecision>(l: &Linear, x: &T) -> Result<T> {
    (1.0 / l.forward(x)?)? * x
}

fn div(a: usize, b: usize) -> usize {
    a / b
}

#[autocast(f16, full(add, mul), lower(sub), skip(div))]
fn listed(l: &Linear, x: &Tensor<F32>) -> Result<(T, T, Tensor<F16>, T)> {
    let y = l.forward(x)?;
    Ok(((&y + &y)?, (&y * 3.0)?, (x - x.relu()?)?, (&y / (x * div(4, 2) as f64)?)?))
}

/// What runs in F32 by its type anyway, what is exact, and what is wanted in 16 bits: nothing here is lost.
#[autocast(f16, full(layer_norm, softmax, dropout), lower(gelu), skip(tanh), keep(silu))]
fn listed_for_modules(l: &Linear, norm: &LayerNorm, x: &T) -> Result<T> {
    norm.forward(&l.forward(x)?)
}

#[autocast(f16)]
fn masked(l: &Linear, x: &T, a: &Tensor<Bool>, b: &Tensor<Bool>) -> Result<T> {
    let y = l.forward(x)?;
    let both = (a & b)?;
    let chosen = ((both | y.lt(0.0)?)? ^ (!b)?)?;
    let large = (y.gt(0.0)? & y.lt(100.0)?)?;
    y.masked_fill(&(chosen & &large)?, 0.0)
}

#[test]
fn what_a_number_is_divided_by_is_widened() -> Result<()> {
    let (l, x) = (Linear::new(4, 4, &Device::cpu())?, (random([4, 4])? + 3.0)?);
    let y = l.forward(&x.to::<F16>()?)?;
    let wide = y.to::<F32>()?;
    let [first, second, third, sigmoid, of_x] = number_over(&l, &x, 3.0)?;
    let quotient = (1.0 / &wide)?.to_vec()?;
    assert_eq!((first.to_vec()?, second.to_vec()?), (quotient.clone(), quotient));
    let divisor = (y.abs()? + 0.5)?.to::<F32>()?;
    assert_eq!(third.to_vec()?, ((3.0 / divisor)? + (2.0 / wide.exp()?)?)?.to_vec()?);
    assert_eq!(sigmoid.to_vec()?, (1.0 / (1.0 + (-&wide)?.exp()?)?)?.to_vec()?);
    assert_eq!(of_x.to_vec()?, (1.0 / &x)?.to_vec()?);
    assert_eq!(generic::<F16>(&l, &x)?.to_vec()?, ((1.0 / &wide)? * &x)?.to_vec()?);
    assert_eq!(generic::<F32>(&l, &x)?.to_vec()?, ((1.0 / l.forward(&x)?)? * &x)?.to_vec()?);
    Ok(())
}

#[test]
fn operators_follow_the_rules_that_an_attribute_lists() -> Result<()> {
    let (l, x) = (Linear::new(4, 4, &Device::cpu())?, random([4, 4])?);
    let y = l.forward(&x.to::<F16>()?)?;
    let wide = y.to::<F32>()?;
    let (sum, product, difference, quotient) = listed(&l, &x)?;
    let norm = LayerNorm::new(4, &Device::cpu())?;
    assert_eq!(listed_for_modules(&l, &norm, &x)?.to_vec()?, norm.forward(&wide)?.to_vec()?);
    assert_eq!(sum.to_vec()?, (&wide + &wide)?.to_vec()?);
    assert_eq!(product.to_vec()?, (&wide * 3.0)?.to_vec()?);
    assert_eq!(difference.to_vec()?, (x.to::<F16>()? - x.relu()?.to::<F16>()?)?.to_vec()?);
    assert_eq!(quotient.to_vec()?, (wide / (x * 2.0)?)?.to_vec()?);
    Ok(())
}

#[test]
fn truth_values_are_joined_in_regions() -> Result<()> {
    let (l, x) = (Linear::new(4, 4, &Device::cpu())?, random([4, 4])?);
    let (a, b) = (x.gt(0.0)?, x.lt(0.25)?);
    let y = l.forward(&x.to::<F16>()?)?;
    let (in_a, in_b) = (a.to_vec()?, b.to_vec()?);
    let expected = y.to_vec()?.into_iter().enumerate().map(|(i, value)| {
        let chosen = (in_a[i] && in_b[i] || value.to_f32() < 0.0) ^ !in_b[i];
        let large = value.to_f32() > 0.0 && value.to_f32() < 100.0;
        if chosen && large { 0.0 } else { value.to_f32() }
    });
    assert_eq!(masked(&l, &x, &a, &b)?.to_vec()?, expected.collect::<Vec<_>>());
    Ok(())
}

const HALF: f64 = 0.5;

/// Weights of which the macro sees no type, with numbers.
struct Scaled {
    weight: Tensor<F32>,
    all: Vec<Tensor<F32>>,
    gain: f32,
    narrow: Tensor<F16>,
    steps: usize,
}

impl Scaled {
    fn own(&self) -> Result<Tensor<F32>> {
        Ok(self.weight.clone())
    }

    #[autocast(bf16)]
    fn products(&self, fc: &Linear, w: &Tensor<F32>) -> Result<Vec<Tensor<F32>>> {
        let Self { weight, .. } = self;
        let given = self.own()?;
        let mut all = vec![
            (&self.weight * 1.0)?.matmul(w)?,
            (1.0 * weight)?.matmul(w)?,
            ((&self.all[0] * HALF)? / HALF)?.matmul(w)?,
            (self.own()? * self.gain)?.matmul(w)?,
            (given - 0.0)?.t()?.t()?.matmul(w)?,
            fc.forward(&(&self.weight + 0.0)?)?,
        ];
        for t in &self.all {
            all.push((t * 1.0)?.matmul(w)?);
        }
        Ok(all)
    }

    #[autocast(f16)]
    fn narrow(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let rows = self.steps * 2 / 2;
        let half = ((&self.narrow + 1.0)?.exp()? + (&self.narrow * 2.0)?)? + x;
        half?.narrow(0, 0, rows - 1 + 1)
    }
}

/// 65793 is exact in F32 and becomes 66048 in BF16: what it is multiplied by was narrowed.
#[test]
fn numbers_beside_what_has_no_type_hide_no_tensor() -> Result<()> {
    let cpu = Device::cpu();
    let big = Tensor::<F32>::from_vec(vec![65793.0], [1, 1], &cpu)?;
    let one = Tensor::<F32>::ones([1, 1], &cpu)?;
    let fc = Linear::new(1, 1, &cpu)?.without_bias();
    fc.weight().set(&one)?;
    let model =
        Scaled { weight: big.clone(), all: vec![big], gain: 1.0, narrow: Tensor::ones([1, 1], &cpu)?, steps: 1 };
    for product in model.products(&fc, &one)? {
        assert_eq!(product.to_vec()?, [66048.0]);
    }
    let expected = 2f32.exp() + 3.0;
    let given = model.narrow(&one)?.to_vec()?[0];
    assert!((given - expected).abs() <= 4.0 * expected * f32::EPSILON, "{given} {expected}");
    Ok(())
}

struct Pool {
    served: Cell<usize>,
    list: Vec<T>,
}
impl Pool {
    fn next(&self, x: &T) -> Result<(Tensor<F16>, Box<Tensor<F16>>)> {
        Ok((x.to()?, Box::new(x.to()?)))
    }
    fn served(&self) -> usize {
        self.served.set(self.served.get() + 1);
        0
    }
    fn give(&self, x: &T) -> Result<(Tensor<F16>, Box<Tensor<F16>>)> {
        self.served();
        self.next(x)
    }
}

/// An operand that is part of what a call gives is computed once.
#[autocast(f16)]
fn parts_of_calls(pool: &Pool, x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let left = (pool.give(x)?.0 + x)?;
    let right = (x * *pool.give(x)?.1)?;
    let both = (pool.give(x)?.0.matmul(&pool.give(x)?.0)? + pool.give(x)?.0)?;
    let lent = pool.list[pool.served()].matmul(&pool.list[pool.served()])?;
    ((left + right)? + both)? + lent
}

#[test]
fn operands_are_computed_once() -> Result<()> {
    let x = random([3, 3])?;
    let pool = Pool { served: Cell::new(0), list: vec![x.clone()] };
    let x16 = x.to::<F16>()?;
    let (given, product) = (x16.to::<F32>()?, x16.matmul(&x16)?);
    let expected = ((&given + &x)? + (&x * &given)?)?;
    let expected = ((expected + (&product + &x16)?.to::<F32>()?)? + product.to::<F32>()?)?;
    assert_eq!(parts_of_calls(&pool, &x)?.to_vec()?, expected.to_vec()?);
    assert_eq!(pool.served.get(), 7);
    Ok(())
}

struct Temperature {
    scale: f64,
    keys: Tensor<F16>,
}
impl Temperature {
    fn scale(&self) -> f64 {
        self.scale
    }

    /// Whether the left side is a number only its type tells.
    #[autocast(P)]
    fn quotients<P: AutocastPrecision>(&self, l: &Linear, x: &Tensor<F32>) -> Result<[T; 4]> {
        let (y, root) = (l.forward(x)?, (x.size(1)? as f64).sqrt());
        Ok([(self.scale / &y)?, (self.scale() / x.matmul(x)?)?, (root / l.forward(x)?)?, ((self.scale * 2.0) / &y)?])
    }

    #[autocast(f16)]
    fn of_tensors(&self, l: &Linear, x: &Tensor<F32>) -> Result<Tensor<F16>> {
        &self.keys / l.forward(x)?
    }
}

#[test]
fn what_a_number_of_unknown_type_is_divided_by_is_widened() -> Result<()> {
    let (l, x) = (Linear::new(4, 4, &Device::cpu())?, (random([4, 4])? + 3.0)?);
    let half = x.to::<F16>()?;
    let (y, product) = (l.forward(&half)?, half.matmul(&half)?.to::<F32>()?);
    let wide = y.to::<F32>()?;
    let t = Temperature { scale: 3.0, keys: half };
    let expected = [(3.0 / &wide)?, (3.0 / &product)?, (2.0 / &wide)?, (6.0 / &wide)?];
    for (given, expected) in t.quotients::<F16>(&l, &x)?.iter().zip(&expected) {
        assert_eq!(given.to_vec()?, expected.to_vec()?);
    }
    assert_eq!(t.of_tensors(&l, &x)?.to_vec()?, (&t.keys / y)?.to_vec()?);
    Ok(())
}

/// A matrix of another library, which is moved into its operators.
struct Matrix(Vec<f64>);

impl Matrix {
    fn exp(&self) -> Self {
        Self(self.0.iter().map(|v| v.exp()).collect())
    }
}

impl std::ops::Add for Matrix {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.into_iter().zip(other.0).map(|(a, b)| a + b).collect())
    }
}

struct Settings {
    scale: f64,
    name: String,
    width: usize,
    matrix: Matrix,
}

/// What operations make of fields meets beside an operator; numbers, strings and others' matrices stay what they are.
#[autocast(f16)]
fn made_of_fields(lstm: &Lstm, x: &T, set: &Settings) -> Result<T> {
    let (_, state) = lstm.forward(x)?;
    let met = (state.h.squeeze(0)? + state.c.squeeze(0)?)?;
    let (h, c) = (state.h.relu()?, state.c.relu()?);
    let both = (h * c)?.squeeze(0)?;
    let scale = set.scale.abs() * set.scale.sqrt();
    let width = set.width.max(2) - set.width.min(1);
    let name = set.name.repeat(2) + &set.name.repeat(3);
    let matrix = set.matrix.exp() + set.matrix.exp();
    let number = scale + (width + name.len()) as f64 + matrix.0[0];
    (met + both)? * number
}

#[test]
fn what_is_made_of_fields_meets() -> Result<()> {
    let (lstm, x) = (Lstm::new(4, 4, &Device::cpu())?, random([2, 3, 4])?);
    let set = Settings { scale: 4.0, name: "ab".into(), width: 5, matrix: Matrix(vec![0.0]) };
    let (_, state) = lstm.forward(&x.to::<F16>()?)?;
    let (h, c) = (state.h.to::<F32>()?.squeeze(0)?, state.c.squeeze(0)?);
    let by_hand = (((&h + &c)? + (h.relu()? * c.relu()?)?)? * (8.0 + 14.0 + 2.0))?;
    assert_eq!(made_of_fields(&lstm, &x, &set)?.to_vec()?, by_hand.to_vec()?);
    Ok(())
}

/// A field of what a module gave is what the function gives, behind a named type.
#[autocast(f16)]
fn first_of(lstm: &Lstm, x: &T) -> Result<T> {
    Ok(lstm.forward(x)?.0)
}

#[autocast(f16)]
fn of_state(lstm: &Lstm, x: &T) -> Result<(T, usize)> {
    let given = lstm.forward(x)?;
    let width = given.0.dims()[2];
    let c: T = given.1.c;
    Ok((c, width))
}

#[test]
fn fields_of_what_a_module_gives_are_widened() -> Result<()> {
    let (lstm, x) = (Lstm::new(4, 4, &Device::cpu())?, random([2, 3, 4])?);
    let (out, state) = lstm.forward(&x.to::<F16>()?)?;
    assert_eq!(first_of(&lstm, &x)?.to_vec()?, out.to::<F32>()?.to_vec()?);
    let (c, width) = of_state(&lstm, &x)?;
    assert_eq!((c.to_vec()?, width), (state.c.to::<F32>()?.to_vec()?, 4));
    Ok(())
}

/// The traits of the operators, by their names.
#[autocast(f16)]
fn by_trait(fc: &Linear, x: &Tensor<F32>, scale: f64) -> Result<Tensor<F32>> {
    use std::ops::{Add, Div, Mul, Sub};
    let h = fc.forward(x)?;
    let sum = std::ops::Add::add(&h, x)?;
    let all = [h, x.clone()].into_iter().map(Ok).reduce(|a, b| a.and_then(|a| Add::add(a, b?)));
    let scaled = Mul::mul(Sub::sub(sum, all.expect("two")?)?, Mul::mul(scale + 1.0, 2.0))?;
    Add::add(scaled, Div::div(x, if scale > 0.0 { 2.0 } else { 4.0 })?)
}

#[test]
fn operators_by_the_names_of_their_traits_meet_at_f32() -> Result<()> {
    let (fc, x) = (Linear::new(4, 4, &Device::cpu())?, random([2, 4])?);
    let sum = (fc.forward(&x.to::<F16>()?)?.to::<F32>()? + &x)?;
    let by_hand = (((&sum - &sum)? * 6.0)? + (&x / 2.0)?)?;
    assert_eq!(by_trait(&fc, &x, 2.0)?.to_vec()?, by_hand.to_vec()?);
    Ok(())
}

/// A sum of one's own, which takes tensors of F32.
struct Total(T);

impl std::ops::AddAssign<&T> for Total {
    fn add_assign(&mut self, x: &T) {
        self.0 = (&self.0 + x).expect("one shape");
    }
}

impl std::ops::SubAssign<T> for Total {
    fn sub_assign(&mut self, x: T) {
        self.0 = (&self.0 - x).expect("one shape");
    }
}

struct Ledger {
    total: Total,
}

#[autocast(P)]
fn booked<P: AutocastPrecision>(l: &Linear, x: &T) -> Result<T> {
    let mut total = Total(x.clone());
    let y = l.forward(x)?;
    total += &y;
    total -= x.matmul(x)?;
    let mut ledger = Ledger { total };
    ledger.total += &y;
    Ok(ledger.total.0)
}

#[test]
fn what_changes_a_sum_of_ones_own_is_widened() -> Result<()> {
    let (l, x) = (Linear::new(4, 4, &Device::cpu())?, random([4, 4])?);
    let half = x.to::<BF16>()?;
    let y = l.forward(&half)?.to::<F32>()?;
    let by_hand = (((&x + &y)? - half.matmul(&half)?.to::<F32>()?)? + &y)?;
    assert_eq!(booked::<BF16>(&l, &x)?.to_vec()?, by_hand.to_vec()?);
    Ok(())
}
