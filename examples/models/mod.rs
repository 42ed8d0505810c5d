//! Models that examples and benches share.

#![allow(dead_code)] // every program uses a part of it

pub mod gpt;
pub mod mlp;
pub mod resnet;
pub mod resnet50;
pub mod transformer;
pub mod vit;
