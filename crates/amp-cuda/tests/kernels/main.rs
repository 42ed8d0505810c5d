//! Every kernel on the emulated device: the same bits under several orders of threads, and the values of the CPU's F64.

#![allow(clippy::cloned_ref_to_slice_refs, reason = "lists of inputs read alike whether they hold one or several")]

#[path = "../standin/mod.rs"]
mod standin;

mod case;
mod convolve;
mod elementwise;
mod factorization;
mod lines;
mod memory;
mod mutants;
mod products;
mod recurrent;
mod training;
