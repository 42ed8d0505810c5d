//! Every kernel on the emulated device: the same bits under several orders of threads, and the values of the CPU's F64.

#[path = "../standin/mod.rs"]
mod standin;

mod case;
mod elementwise;
mod lines;
mod memory;
mod products;
