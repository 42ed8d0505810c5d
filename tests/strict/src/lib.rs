//! What the macros expand to must not trip a lint the user has switched on, need a prelude, or know the crate's name.

#![no_implicit_prelude]
#![deny(warnings, missing_docs, missing_debug_implementations, unreachable_pub, unused_qualifications, unused_results)]
#![deny(let_underscore_drop, elided_lifetimes_in_paths, single_use_lifetimes, trivial_casts, trivial_numeric_casts)]
#![deny(clippy::all, clippy::pedantic, clippy::nursery, clippy::cargo)]
#![deny(
    clippy::shadow_unrelated,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_const_for_fn
)]
#![allow(clippy::cargo_common_metadata, clippy::multiple_crate_versions)]

pub mod forms;

use ::mixed::{AutocastPrecision, F16, F32, Result, Tensor, amp_op, amp_policy, amp_region, autocast, functional};
use ::std::iter::Iterator;
use ::std::option::Option::{self, None, Some};
use ::std::result::Result::Ok;
use ::std::vec::Vec;

/// A model with weights of its own.
#[derive(Debug)]
pub struct Model {
    w: Tensor<F32>,
    layers: Vec<Tensor<F32>>,
}

/// What a model gives.
#[derive(Debug)]
pub struct Out {
    /// The scores.
    pub logits: Tensor<F32>,
    /// What came before them, in the order of the layers.
    pub hidden: Vec<Tensor<F32>>,
    /// How many there are.
    pub layers: usize,
}

/// Variables that one pattern declares and that change: of those that are widened there, too, each is mutable once.
///
/// # Errors
/// As the operations in it.
#[autocast(f16, crate = ::mixed)]
pub fn swapped(x: &Tensor<F32>, w: &Tensor<F32>, steps: &mut [Tensor<F32>]) -> Result<Tensor<F32>> {
    let (mut last, mut before) = (x.matmul(w)?, x.relu()?);
    for step in steps.iter_mut() {
        *step = w.matmul(step)?;
        let next = (&last + &before)?;
        before = last;
        last = next;
    }
    last + before
}

/// What is given away in fields, arguments and containers.
///
/// # Errors
/// As the operations in it.
#[autocast(f16, crate = ::mixed)]
pub fn given(model: &Model, x: &Tensor<F32>) -> Result<Out> {
    let mut hidden = Vec::new();
    let mut logits = x.matmul(&model.w)?;
    for layer in &model.layers {
        hidden.push(twice(logits.matmul(layer)?)?);
        logits = logits.matmul(layer)?;
    }
    let last = logits.matmul(&model.w)?;
    hidden.push(borrowed(&last)?);
    let layers = hidden.len();
    Ok(Out { logits, hidden, layers })
}

fn borrowed(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x * 3.0
}

fn twice(x: Tensor<F32>) -> Result<Tensor<F32>> {
    x * 2.0
}

amp_policy! {
    /// Keeps gelu in F32.
    pub careful {
        full: [gelu, spread],
    }
}

/// An operation of one's own.
///
/// # Errors
/// As the operations in it.
#[amp_op(full)]
pub fn spread(x: &Tensor<F32>) -> Result<Tensor<F32>> {
    x.var([], false)
}

/// A count with methods that are named like operations.
#[derive(Debug)]
pub struct Count(Vec<usize>);

impl Count {
    /// Takes the count.
    #[must_use]
    pub fn softmax(mut self, more: usize) -> Self {
        self.0.push(more);
        self
    }

    /// Changes the count.
    pub fn exp(&mut self) {
        self.0.push(0);
    }

    /// Reads the count.
    #[must_use]
    pub const fn log(&self) -> usize {
        self.0.len()
    }
}

/// Methods of something else.
///
/// # Errors
/// As the operations in it.
#[autocast(P, crate = ::mixed)]
pub fn counted<P: AutocastPrecision>(x: &Tensor<F32>, count: Count, mut other: Count) -> Result<(Tensor<F32>, usize)> {
    let mut count = count.softmax(x.dims().len());
    count.exp();
    other.exp();
    let total = count.log() + other.log();
    Ok((x.matmul(x)?, total))
}

impl Model {
    /// A model of these weights.
    #[must_use]
    pub const fn new(w: Tensor<F32>, layers: Vec<Tensor<F32>>) -> Self {
        Self { w, layers }
    }

    /// Results that are written narrow, by free functions and in branches.
    ///
    /// # Errors
    /// As the operations in it.
    #[autocast(f16, crate = ::mixed)]
    pub fn narrow(&self, x: &Tensor<F32>, sharp: bool) -> Result<Tensor<F32>> {
        const FACTOR: f64 = 0.5;
        let h = if sharp { functional::softmax(x, -1)? } else { x.log_softmax(-1)? };
        let h = functional::relu(&h)?.matmul(&self.w)?;
        h * FACTOR
    }

    /// Branches, loops, closures, operators and returns.
    ///
    /// # Errors
    /// As the operations in it.
    #[autocast(f16, crate = ::mixed, max_casts = 12)]
    pub fn forward(&self, x: &Tensor<F32>, sharp: bool) -> Result<Tensor<F32>> {
        let mut h = x.matmul(&self.w)?;
        for layer in &self.layers {
            h = h.matmul(layer)?.tanh()?;
        }
        let k = if sharp { h.softmax(-1)? } else { h.matmul(&self.w)? };
        let head = |w: &Tensor<F32>| k.matmul(w);
        let all = self.layers.iter().map(head).collect::<Result<Vec<_>>>()?;
        let Some(last) = all.last() else { return Ok(k) };
        let sum = (last + &h)?;
        let exact: Tensor<F32> = amp_region!(f32, sum.matmul(&self.w)?);
        exact * 0.5
    }

    /// A switch at run time.
    ///
    /// # Errors
    /// As the operations in it.
    #[autocast(bf16, enabled = on, crate = ::mixed)]
    pub fn switched(&self, x: &Tensor<F32>, bias: Option<&Tensor<F32>>, on: bool) -> Result<Tensor<F32>> {
        let y = x.matmul(&self.w)?;
        match bias {
            Some(bias) => y.add(bias),
            None => Ok(y),
        }
    }

    /// A policy and a generic precision.
    ///
    /// # Errors
    /// As the operations in it.
    #[autocast(P, policy = careful, crate = ::mixed)]
    pub fn generic<P: AutocastPrecision>(&self, x: &Tensor<F32>) -> Result<Tensor<F32>> {
        let h = x.matmul(&self.w)?.gelu()?;
        spread(&h)?.exp()
    }
}

/// A region in a plain function.
///
/// # Errors
/// As the operations in it.
pub fn region(x: &Tensor<F32>, w: &Tensor<F32>) -> Result<Tensor<F16>> {
    let y = amp_region!(f16, crate = ::mixed, { x.matmul(w)?.relu()? });
    Ok(y)
}

#[cfg(test)]
mod tests {
    use super::{Model, given, region};
    use ::mixed::{BF16, Device, F32, Result, Tensor, plan};
    use ::std::iter::Iterator;
    use ::std::option::Option::{None, Some};
    use ::std::result::Result::Ok;
    use ::std::{assert, assert_eq, vec};

    #[test]
    fn it_runs() -> Result<()> {
        let device = Device::cpu();
        let sample = || Tensor::<F32>::randn([4, 4], &device);
        let model = Model::new(sample()?, vec![sample()?, sample()?]);
        let x = sample()?;
        for sharp in [false, true] {
            assert_eq!(model.forward(&x, sharp)?.dims(), [4, 4]);
            assert_eq!(model.switched(&x, Some(&x), sharp)?.dims(), [4, 4]);
            assert_eq!(model.switched(&x, None, sharp)?.dims(), [4, 4]);
        }
        assert!(model.generic::<BF16>(&x)?.dims().is_empty());
        assert_eq!(region(&x, &x)?.dims(), [4, 4]);
        let out = given(&model, &x)?;
        assert_eq!((out.logits.dims(), out.hidden.len()), ([4, 4].as_slice(), out.layers));
        assert!(plan::all().iter().any(|plan| plan.function.ends_with("forward")));
        Ok(())
    }
}
