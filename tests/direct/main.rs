//! A `full` operation whose result is only ever narrowed writes it in 16 bits itself: the same bits as by hand, without
//! the pass that narrows.

mod assigned;
mod fields;
mod functions;
mod given;
mod methods;
mod modules;
mod places;
mod rows;
mod special;
mod takers;

use amp::memory::cast_kernels;
use amp::prelude::*;
use amp::{AutocastPrecision, saved_bytes};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The counters and the random generator are the program's: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a program gave: the bits of its result and of the gradients, how often it narrowed, what it saved.
#[derive(Debug, PartialEq)]
struct Trace {
    bits: Vec<Vec<u32>>,
    casts: usize,
    saved: usize,
}

fn bits(x: &Tensor<F32>) -> Vec<u32> {
    x.to_vec().unwrap().into_iter().map(f32::to_bits).collect()
}

fn wave(shape: &[usize], phase: f32) -> Tensor<F32> {
    let mut i = 0.0_f32;
    let next = |_: &[usize]| {
        i += 1.0;
        (i * 1.7 + phase).sin() * 2.0 + 0.3
    };
    Tensor::from_fn(shape, next, &Device::cpu()).unwrap()
}

/// Runs `f` on leaves of these shapes.
fn trace(shapes: &[&[usize]], f: impl Fn(&[Tensor<F32>]) -> Result<Tensor<F32>>) -> Trace {
    let leaves: Vec<_> = shapes.iter().zip(0_u8..).map(|(s, i)| wave(s, f32::from(i)).tracked()).collect();
    let (casts, saved) = (cast_kernels(), saved_bytes().now);
    let y = f(&leaves).unwrap();
    let (casts, saved) = (cast_kernels() - casts, saved_bytes().now - saved);
    let grads = y.backward_with(&wave(y.dims(), 9.0)).unwrap();
    let mut all = vec![bits(&y)];
    all.extend(leaves.iter().map(|leaf| grads.get(leaf).unwrap().as_ref().map_or_else(Vec::new, bits)));
    Trace { bits: all, casts, saved }
}

/// The region gives the same bits as the program by hand, with `fewer` casts and without saving more.
fn compare(
    what: &str,
    shapes: &[&[usize]],
    fewer: usize,
    region: impl Fn(&[Tensor<F32>]) -> Result<Tensor<F32>>,
    by_hand: impl Fn(&[Tensor<F32>]) -> Result<Tensor<F32>>,
) {
    let (region, by_hand) = (trace(shapes, region), trace(shapes, by_hand));
    assert!(region.bits == by_hand.bits, "{what}: {:?} is not {:?}", region.bits, by_hand.bits);
    assert_eq!(region.casts + fewer, by_hand.casts, "{what}");
    assert!(region.saved <= by_hand.saved, "{what}: {} bytes saved, {} by hand", region.saved, by_hand.saved);
}

const EPS: f64 = 1e-5;
