//! Methods of one's own types, and one's own methods of tensors, whose names mean something else to a region.

use super::{T, bits, half_product, random};
use amp::DType;
use amp::nn::*;
use amp::prelude::*;

/// A reader with the names of what trains.
struct Cursor {
    at: usize,
}

impl Cursor {
    fn backward(&self) -> usize {
        self.at - 1
    }

    fn backward_for(&mut self, steps: usize) -> &mut Self {
        self.at -= steps;
        self
    }

    fn backward_with(self, steps: usize) -> Self {
        Self { at: self.at - steps }
    }

    fn backward_retained(&self) -> Option<usize> {
        self.at.checked_sub(1)
    }

    fn update(&mut self, at: usize) {
        self.at = at;
    }

    fn schedule(&self) -> f64 {
        self.at as f64
    }

    fn new(at: usize) -> Self {
        Self { at }
    }

    #[autocast(f16)]
    fn scaled(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        x.matmul(x)? * self.backward() as f32
    }
}

#[autocast(f16)]
fn borrowed(x: &Tensor<F32>, c: &Cursor) -> Result<Tensor<F32>> {
    x.matmul(x)? * c.backward() as f32
}

#[autocast(f16)]
fn exclusive(x: &Tensor<F32>, c: &mut Cursor) -> Result<Tensor<F32>> {
    c.update(9);
    let at = c.backward_for(2).backward_for(3).backward();
    x.matmul(x)? * at as f32
}

#[autocast(f16)]
fn owned(x: &Tensor<F32>, c: Cursor) -> Result<Tensor<F32>> {
    let at = c.backward_with(1).backward_retained().unwrap_or(0);
    x.matmul(x)? * at as f32
}

#[autocast(f16)]
fn elsewhere(x: &Tensor<F32>, list: &[Cursor], boxed: Box<Cursor>) -> Result<Tensor<F32>> {
    let sum = list.iter().map(|c| c.backward()).sum::<usize>() + list[0].backward() + boxed.backward();
    let sum = sum + Cursor::backward(&list[1]) + Cursor { at: 2 }.backward() + Cursor::new(3).backward();
    x.matmul(x)? * (sum as f64 + boxed.schedule())
}

/// A module that runs in the precision of what it is given.
struct Block {
    fc: Linear,
}

impl Block {
    #[autocast(P)]
    fn forward<P: AutocastPrecision>(&self, x: &Tensor<P>) -> Result<Tensor<P>> {
        self.fc.forward(x)?.relu()
    }
}

#[autocast(f16)]
fn behind_a_norm(norm: &LayerNorm, block: &Block, x: &Tensor<F32>) -> Result<[DType; 3]> {
    let h = norm.forward(x)?;
    let (wide, narrow) = (block.forward(&h)?, block.forward(&h.to::<F16>()?)?);
    Ok([wide.dtype(), narrow.dtype(), block.forward(&x.matmul(x)?)?.dtype()])
}

#[autocast(P)]
fn behind_a_norm_in<P: AutocastPrecision>(norm: &LayerNorm, block: &Block, x: &Tensor<F32>) -> Result<DType> {
    Ok(block.forward(&norm.forward(x)?.to::<P>()?)?.dtype())
}

#[test]
fn generic_modules_run_in_what_they_are_given() -> Result<()> {
    let (cpu, x) = (Device::cpu(), random([4, 4])?);
    let (norm, block) = (LayerNorm::new(4, &cpu)?, Block { fc: Linear::new(4, 4, &cpu)? });
    assert_eq!(behind_a_norm(&norm, &block, &x)?, [DType::F32, DType::F16, DType::F16]);
    assert_eq!(behind_a_norm_in::<BF16>(&norm, &block, &x)?, DType::BF16);
    Ok(())
}

trait Swish: Sized {
    fn swish(&self) -> Result<Self>;
}

impl<P: Float> Swish for Tensor<P> {
    fn swish(&self) -> Result<Self> {
        self.clamp(0.0, 1.0)
    }
}

trait Wide {
    fn wide(&self) -> Result<Tensor<F32>>;
}

impl Wide for Tensor<F32> {
    fn wide(&self) -> Result<Tensor<F32>> {
        self * 2.0
    }
}

#[autocast(f16)]
fn extended(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    let h = x.matmul(x)?;
    let y = h.swish()?.matmul(x)?;
    let z = h.to::<F32>()?.wide()? + &x.wide()?.swish()?;
    z? + &h.exp()?.wide()?.matmul(&y)?
}

#[test]
fn extensions_of_tensors_are_methods_as_others() -> Result<()> {
    let x = random([4, 4])?;
    assert_eq!(extended(&x)?.dims(), [4, 4]);
    Ok(())
}

#[test]
fn methods_of_own_types_are_called_as_written() -> Result<()> {
    let x = random([4, 4])?;
    let product = x.to::<F16>()?.matmul(&x.to::<F16>()?)?;
    let times = |n: f64| -> Result<Vec<f32>> { (&product * n)?.to::<F32>()?.to_vec() };
    assert_eq!(borrowed(&x, &Cursor { at: 3 })?.to_vec()?, times(2.0)?);
    assert_eq!(Cursor { at: 3 }.scaled(&x)?.to_vec()?, times(2.0)?);
    let mut c = Cursor { at: 0 };
    assert_eq!((exclusive(&x, &mut c)?.to_vec()?, c.at), (times(3.0)?, 4));
    assert_eq!(owned(&x, Cursor { at: 4 })?.to_vec()?, times(2.0)?);
    let list = [Cursor { at: 1 }, Cursor { at: 2 }];
    assert_eq!(elsewhere(&x, &list, Box::new(Cursor { at: 1 }))?.to_vec()?, times(6.0)?);
    Ok(())
}

/// Methods that are called as operations are.
struct Attention {
    calls: usize,
    bias: Tensor<F32>,
    narrow: Tensor<F16>,
}

impl Attention {
    fn softmax(&self, x: &Tensor<F32>, axis: isize) -> Result<Tensor<F32>> {
        x.softmax(axis)
    }

    fn add(&mut self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        self.calls += 1;
        x + &self.bias
    }

    fn linear(self, x: &Tensor<F32>, y: Tensor<F32>) -> Result<Tensor<F32>> {
        x.exp()? + y
    }

    fn gelu(&self, (a, b): (&Tensor<F32>, Option<&Tensor<F32>>)) -> Result<Tensor<F32>> {
        a * b.expect("given")
    }

    fn cat(&self, all: &[Tensor<F32>]) -> Result<Tensor<F32>> {
        all[0].exp()
    }

    fn mul<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<P>> {
        Ok(x.clone())
    }
}

#[autocast(f16)]
fn called_as_operations(mut a: Attention, x: &Tensor<F32>) -> Result<Vec<Tensor<F32>>> {
    let h = x.matmul(x)?;
    let narrow: Tensor<F16> = a.mul(&h)?;
    let all = vec![a.softmax(&h, -1)?, a.add(&h)?, a.gelu((&h, Some(&h)))?, a.cat(&[h.clone(), narrow])?];
    // The fields are tensors.
    let fields = (a.bias.matmul(&h)?.add(&a.bias)? + a.narrow.add(&h)?)?;
    assert_eq!(a.calls, 1);
    let linear = a.linear(&h, h.clone())?;
    Ok([all, vec![fields, linear]].concat())
}

#[test]
fn methods_that_are_called_as_operations_are_take_f32() -> Result<()> {
    let (x, bias) = (random([4, 4])?, random([4, 4])?);
    let attention = Attention { calls: 0, narrow: bias.to()?, bias: bias.clone() };
    let (x16, bias16) = (x.to::<F16>()?, bias.to::<F16>()?);
    let h16 = x16.matmul(&x16)?;
    let h = h16.to::<F32>()?;
    let field = (bias16.matmul(&h16)?.to::<F32>()? + &bias)?;
    let by_hand = [
        h.softmax(-1)?,
        (&h + &bias)?,
        (&h * &h)?,
        h.exp()?,
        (field + (bias16 + &h16)?.to::<F32>()?)?,
        (h.exp()? + &h)?,
    ];
    let found = called_as_operations(attention, &x)?;
    for (found, by_hand) in found.iter().zip(&by_hand) {
        assert_eq!(found.to_vec()?, by_hand.to_vec()?);
    }
    assert_eq!(found.len(), by_hand.len());
    Ok(())
}

#[autocast(f16)]
fn banned_but_off(x: &Tensor<F32>, target: &Tensor<F32>) -> Result<Tensor<F32>> {
    let p = x.matmul(x)?.sigmoid()?;
    amp_region!(f32, p.binary_cross_entropy(target)? + Tensor::binary_cross_entropy(&p, target)?)
}

#[test]
fn what_is_banned_in_half_precision_runs_where_it_is_switched_off() -> Result<()> {
    let (x, target) = (random([4, 4])?, random([4, 4])?.gt(0.0)?.to::<F32>()?);
    let x16 = x.to::<F16>()?;
    let p = x16.matmul(&x16)?.sigmoid()?.to::<F32>()?;
    assert_eq!(banned_but_off(&x, &target)?.item()?, (p.binary_cross_entropy(&target)? * 2.0)?.item()?);
    Ok(())
}

trait Scaled {
    const SCALE: f64;
}

struct Scaling<Config, const DIM: usize>(Config);

impl<Config: Scaled, const DIM: usize> Scaling<Config, DIM> {
    #[autocast(f16)]
    fn scaled(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let scale = 1.0 / DIM as f64;
        let dim = DIM;
        let h = ((x.matmul(x)? * scale)? / (DIM * 2) as f64)? * (dim as f64 / 2.0);
        (h? * Config::SCALE)? * (2.0 * Config::SCALE)
    }
}

#[test]
fn numbers_that_are_parameters_of_what_surrounds_the_function_are_used() -> Result<()> {
    struct Half;
    impl Scaled for Half {
        const SCALE: f64 = 0.5;
    }
    let x = random([4, 4])?;
    let x16 = x.to::<F16>()?;
    let by_hand = (((((x16.matmul(&x16)? * 0.25)? / 8.0)? * 2.0)? * 0.5)? * 1.0)?;
    assert_eq!(Scaling::<Half, 4>(Half).scaled(&x)?.to_vec()?, by_hand.to::<F32>()?.to_vec()?);
    Ok(())
}

mod layers {
    use super::*;

    pub fn flatten(x: &Tensor<F32>) -> Result<Tensor<F32>> {
        x.exp()
    }
}

fn relu(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.tanh()
}

#[autocast(f16)]
fn named_as_operations(fc: &Linear, x: &Tensor<F32>) -> Result<[Tensor<F32>; 3]> {
    let h = x.matmul(x)?;
    Ok([relu(&h)?, layers::flatten(&h)?, relu(&fc.forward(x)?)?])
}

#[test]
fn functions_that_are_called_as_operations_that_keep_are_take_f32() -> Result<()> {
    let (fc, x) = (Linear::new(4, 4, &Device::cpu())?, random([4, 4])?);
    let x16 = x.to::<F16>()?;
    let (h, of_fc) = (x16.matmul(&x16)?.to::<F32>()?, fc.forward(&x16)?.to::<F32>()?);
    let by_hand = [h.tanh()?, h.exp()?, of_fc.tanh()?];
    for (got, expected) in named_as_operations(&fc, &x)?.iter().zip(by_hand) {
        assert_eq!(got.to_vec()?, expected.to_vec()?);
    }
    Ok(())
}

/// Policies of one name in two modules, which other crates may use.
mod wide_gelu {
    amp::amp_policy! { pub wide { full: [gelu] } }
}

mod wide_tanh {
    amp::amp_policy! { pub wide { full: [tanh] } }
}

#[autocast(f16, policy = wide_gelu::wide)]
fn with_wide_gelu(x: &Tensor<F32>) -> Result<(Tensor<F32>, Tensor<F16>)> {
    let h = x.matmul(x)?;
    Ok((h.gelu()?, h.tanh()?))
}

#[autocast(f16, policy = wide_tanh::wide)]
fn with_wide_tanh(x: &Tensor<F32>) -> Result<(Tensor<F16>, Tensor<F32>)> {
    let h = x.matmul(x)?;
    Ok((h.gelu()?, h.tanh()?))
}

#[test]
fn policies_of_one_name_are_those_of_their_modules() -> Result<()> {
    let x = random([4, 4])?;
    let (wide, narrow) = with_wide_gelu(&x)?;
    let (narrow_too, wide_too) = with_wide_tanh(&x)?;
    assert_eq!(wide.to::<F16>()?.to_vec()?, narrow_too.to_vec()?);
    assert_eq!(wide_too.to::<F16>()?.to_vec()?, narrow.to_vec()?);
    Ok(())
}

/// Takes several tensors.
#[amp_op(full)]
fn log_mean(xs: &[Tensor<F32>]) -> Result<Tensor<F32>> {
    Tensor::stack(xs, 0)?.logsumexp(0, false)
}

/// Takes references to several.
#[amp_op(full)]
fn weighed(xs: &[&Tensor<F32>], weight: &Tensor<F32>) -> Result<Tensor<F32>> {
    (Tensor::stack(xs, 0)? * weight)?.sum(0, false)
}

/// Takes several tensors of the region's precision.
#[amp_op(lower)]
fn chain<P: AutocastPrecision>(xs: &[Tensor<P>]) -> Result<Tensor<P>> {
    xs[0].matmul(&xs[1])
}

amp_policy! {
    /// Operations over lists.
    listing {
        full: [log_mean, weighed],
        lower: [chain],
    }
}

#[autocast(f16, policy = listing)]
fn over_lists(fc: &Linear, xs: &[Tensor<F32>], pair: &[T; 2]) -> Result<[T; 5]> {
    let hs = xs.iter().map(|x| fc.forward(x)).collect::<Result<Vec<_>>>()?;
    Ok([log_mean(&hs)?, chain(xs)?.to()?, chain(pair)?.to()?, chain(&hs)?.to()?, weighed(&[&hs[0], &hs[1]], &hs[0])?])
}

#[test]
fn lists_are_cast_for_operations_of_ones_own() -> Result<()> {
    let (fc, pair) = (Linear::new(4, 4, &Device::cpu())?, [random([4, 4])?, random([4, 4])?]);
    let [a, b] = [pair[0].to::<F16>()?, pair[1].to::<F16>()?];
    let hs = [fc.forward(&a)?, fc.forward(&b)?];
    let product: T = a.matmul(&b)?.to()?;
    let (of_hs, [a, b]) = (hs[0].matmul(&hs[1])?.to()?, [hs[0].to()?, hs[1].to()?]);
    let weighed = weighed(&[&a, &b], &a)?;
    let by_hand = [&log_mean(&[a, b])?, &product, &product, &of_hs, &weighed].map(bits);
    assert_eq!(over_lists(&fc, &pair, &pair)?.each_ref().map(bits), by_hand);
    Ok(())
}

trait Expert {
    const SCALE: f64;
}

struct Mild;

impl Expert for Mild {
    const SCALE: f64 = 0.5;
}

struct Router;

impl Router {
    /// Takes what it sends, which a cast does not.
    fn to<E: Expert>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        x * E::SCALE
    }
}

fn to<E: Expert>(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x * E::SCALE
}

#[autocast(f16)]
fn routed(x: &T, w: &T) -> Result<T> {
    Router.to::<Mild>(&x.matmul(w)?)
}

#[autocast(f16)]
fn routed_by_a_function(x: &T, w: &T) -> Result<T> {
    to::<Mild>(&x.matmul(w)?)
}

#[test]
fn what_is_given_to_a_method_called_to_is_no_cast() -> Result<()> {
    let (x, w) = (random([4, 4])?, random([4, 4])?);
    let scaled = bits(&(half_product(&x, &w)? * 0.5)?);
    assert_eq!([routed, routed_by_a_function].map(|f| bits(&f(&x, &w).expect("runs"))), [scaled.clone(), scaled]);
    Ok(())
}
