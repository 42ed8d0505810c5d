//! Forward functions as people write them: each compiles as it stands, and those that are called run.

#![allow(dead_code, clippy::needless_late_init, clippy::type_complexity)]
#![allow(clippy::or_then_unwrap, clippy::unnecessary_literal_unwrap)] // many are here to compile; their forms are the test

mod accumulators;
mod alike;
mod attributes;
mod begun;
mod behind;
mod bound;
mod budget;
mod called;
mod callers;
mod chained;
mod changed;
mod classes;
mod closures;
mod collected;
mod compared;
mod conditional;
mod control;
mod destructured;
mod elements;
mod exclusive;
mod filled;
mod fixed;
mod forms;
mod functions;
mod given;
mod grown;
mod joined;
mod kinds;
mod late;
mod lazy;
mod lent;
mod lints;
mod lists;
mod macros;
mod made;
mod many;
mod models;
mod named_alike;
mod narrow;
mod nested;
mod numbered;
mod numbers;
mod objects;
mod operators;
mod options;
mod order;
mod own;
mod owners;
mod pairs;
mod parameters;
mod pasted;
mod paths;
mod patterns;
mod places;
mod read;
mod receivers;
mod references;
mod signatures;
mod states;
mod sticky;
mod switched;
mod tupled;
mod typed;
mod values;
mod wrapped;
mod written;

use amp::nn::*;
use amp::prelude::*;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Mutex;

type T = Tensor<F32>;

fn random<const N: usize>(shape: [usize; N]) -> Result<T> {
    Tensor::normal(shape, 0.0, 0.5, &Device::cpu())
}

fn bits(x: &T) -> Vec<f32> {
    x.to_vec().expect("on the CPU")
}

/// The product in F16, as F32.
fn half_product(x: &T, w: &T) -> Result<T> {
    x.to::<F16>()?.matmul(&w.to::<F16>()?)?.to()
}
