//! Compile-fail tests live in `tests/`; there is no code here.
//!
//! What a constant beside a module's result becomes, the compiler judges when it generates code, which the cases in `tests/`
//! do without.
//!
//! ```compile_fail,E0080
//! use amp::{nn::Linear, prelude::*};
//!
//! #[autocast(f16)]
//! fn f(layer: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
//!     layer.forward(x)? + 1e-8
//! }
//! let _ = f as fn(&_, &_) -> _;
//! ```
//! ```compile_fail,E0080
//! # use amp::{nn::Linear, prelude::*};
//! #[autocast(f16)]
//! fn f(layer: &Linear, x: &Tensor<F32>, mask: &Tensor<Bool>) -> Result<Tensor<F32>> {
//!     let h = layer.forward(x)?;
//!     mask.where_(&h, -1e9)?.softmax(-1)
//! }
//! let _ = f as fn(&_, &_, &_) -> _;
//! ```
//! ```compile_fail,E0080
//! # use amp::{nn::Linear, prelude::*};
//! const NEG: f32 = -1e9;
//! #[autocast(f16)]
//! fn f(layer: &Linear, x: &Tensor<F32>, mask: &Tensor<Bool>) -> Result<Tensor<F32>> {
//!     mask.where_(&layer.forward(x)?, NEG)?.softmax(-1)
//! }
//! let _ = f as fn(&_, &_, &_) -> _;
//! ```
//! The same of a constant whose name has one letter, which may be a parameter of what surrounds it.
//!
//! ```compile_fail,E0080
//! # use amp::prelude::*;
//! const D: f32 = 1e-9;
//! #[autocast(f16)]
//! fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
//!     x.matmul(x)? + D
//! }
//! let _ = f as fn(&_) -> _;
//! ```
//! So is one beside a field, where that turns out to be narrow, and one that a `const` block or a trait says.
//!
//! ```compile_fail,E0080
//! # use amp::prelude::*;
//! # struct Cache { keys: Tensor<F16> }
//! #[autocast(f16)]
//! fn f(cache: &Cache) -> Result<Tensor<F16>> {
//!     &cache.keys + 1e-8
//! }
//! let _ = f as fn(&_) -> _;
//! ```
//! ```compile_fail,E0080
//! # use amp::prelude::*;
//! # struct Cache { keys: Tensor<F16> }
//! #[autocast(f16)]
//! fn f(cache: &Cache, mask: &Tensor<Bool>) -> Result<Tensor<F16>> {
//!     cache.keys.masked_fill(mask, -1e9)
//! }
//! let _ = f as fn(&_, &_) -> _;
//! ```
//! ```compile_fail,E0080
//! # use amp::prelude::*;
//! #[autocast(f16)]
//! fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
//!     x.matmul(x)? + const { 1e-4 * 1e-4 }
//! }
//! let _ = f as fn(&_) -> _;
//! ```
//! ```compile_fail,E0080
//! # use amp::prelude::*;
//! # trait Stable { const EPS: f64; }
//! # struct Model;
//! # impl Stable for Model { const EPS: f64 = 1e-8; }
//! #[autocast(f16)]
//! fn f(x: &Tensor<F32>) -> Result<Tensor<F32>> {
//!     x.matmul(x)? + <Model as Stable>::EPS
//! }
//! let _ = f as fn(&_) -> _;
//! ```
//! What the region's precision holds is accepted, and so is every number that a tensor is only held against; a variable may
//! have a constant's name.
//!
//! ```
//! # use amp::{nn::Linear, prelude::*};
//! const NEG: f32 = -1e9;
//! const D: f32 = 1e-6;
//! #[autocast(f16)]
//! fn f(layer: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
//!     let (N, B) = (3.0, 4.0);
//!     let h = ((layer.forward(x)? * N)? / B)?;
//!     let h = x.matmul(&h)? + D;
//!     h?.gt(1e-9)?.where_(&x.matmul(x)?, -1e4)
//! }
//! #[autocast(bf16)]
//! fn g(layer: &Linear, x: &Tensor<F32>) -> Result<Tensor<F32>> {
//!     let h = layer.forward(x)?;
//!     h.lt(1e39)?.eq(&h.gt(-1e9)?)?.where_(&h, NEG)
//! }
//! # let _ = (f as fn(&_, &_) -> _, g as fn(&_, &_) -> _);
//! ```
