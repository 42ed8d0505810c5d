//! Matrices of F32 values that are rounded to the precision they carry.

use crate::log;
use std::fmt;
use std::ops::{Add, AddAssign, Mul};
use std::rc::Rc;

/// Precision as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dtype {
    /// IEEE half
    F16,
    /// bfloat16
    BF16,
    /// single
    F32,
    /// double (stored in single here)
    F64,
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
        })
    }
}

/// What goes wrong here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostError {
    /// Two operands differ.
    Precisions(&'static str, Dtype, Dtype),
    /// Two operands do not fit.
    Shapes(&'static str),
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Precisions(op, a, b) => write!(f, "{op}: precisions differ, left is {a}, right is {b}"),
            Self::Shapes(op) => write!(f, "{op}: shapes do not fit"),
        }
    }
}

impl std::error::Error for HostError {}

type Result<T> = std::result::Result<T, HostError>;

/// A matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    data: Rc<Vec<f32>>,
    rows: usize,
    dtype: Dtype,
}

fn round(value: f32, dtype: Dtype) -> f32 {
    match dtype {
        Dtype::F16 => half::f16::from_f32(value).to_f32(),
        Dtype::BF16 => half::bf16::from_f32(value).to_f32(),
        Dtype::F32 | Dtype::F64 => value,
    }
}

impl Tensor {
    /// A matrix of values that all differ, in F32.
    pub fn sample(rows: usize, columns: usize, seed: u32) -> Self {
        let value = |i: usize| ((i as u32 * 37 + seed * 101) % 97) as f32 / 97.0 - 0.5;
        Self::new((0..rows * columns).map(value).collect(), rows, Dtype::F32)
    }

    fn new(data: Vec<f32>, rows: usize, dtype: Dtype) -> Self {
        Self { data: Rc::new(data.into_iter().map(|v| round(v, dtype)).collect()), rows, dtype }
    }

    /// Its precision.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Its elements.
    pub fn values(&self) -> &[f32] {
        &self.data
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    fn columns(&self) -> usize {
        self.data.len().checked_div(self.rows).unwrap_or(0)
    }

    /// The same elements in another precision.
    pub fn to_dtype(&self, dtype: Dtype) -> Self {
        if dtype != self.dtype {
            log::cast(dtype);
        }
        Self::new(self.data.to_vec(), self.rows, dtype)
    }

    fn check(&self, other: &Self, op: &'static str) -> Result<()> {
        log::op(op, self.dtype);
        if self.dtype == other.dtype { Ok(()) } else { Err(HostError::Precisions(op, self.dtype, other.dtype)) }
    }

    /// Matrix product.
    pub fn matmul(&self, other: &Self) -> Result<Self> {
        self.check(other, "matmul")?;
        if self.columns() != other.rows {
            return Err(HostError::Shapes("matmul"));
        }
        let (n, k) = (other.columns(), other.rows);
        let at = |i: usize, j: usize| (0..k).map(|l| self.data[i * k + l] * other.data[l * n + j]).sum();
        let data = (0..self.rows * n).map(|i| at(i / n, i % n)).collect();
        Ok(Self::new(data, self.rows, self.dtype))
    }

    fn map(&self, op: &'static str, f: impl Fn(f32) -> f32) -> Result<Self> {
        log::op(op, self.dtype);
        Ok(Self::new(self.data.iter().map(|&v| f(v)).collect(), self.rows, self.dtype))
    }

    fn zip(&self, other: &Self, op: &'static str, f: impl Fn(f32, f32) -> f32) -> Result<Self> {
        self.check(other, op)?;
        if self.data.len() != other.data.len() {
            return Err(HostError::Shapes(op));
        }
        Ok(Self::new(self.data.iter().zip(&*other.data).map(|(&a, &b)| f(a, b)).collect(), self.rows, self.dtype))
    }

    /// `max(x, 0)`
    pub fn relu(&self) -> Result<Self> {
        self.map("relu", |v| v.max(0.0))
    }

    /// Hyperbolic tangent.
    pub fn tanh(&self) -> Result<Self> {
        self.map("tanh", f32::tanh)
    }

    /// `e^x`
    pub fn exp(&self) -> Result<Self> {
        self.map("exp", f32::exp)
    }

    /// Softmax over the rows; the axis is for show.
    pub fn softmax(&self, _axis: isize) -> Result<Self> {
        let total: f32 = self.data.iter().map(|v| v.exp()).sum();
        self.map("softmax", |v| v.exp() / total)
    }

    /// Sum of two tensors.
    pub fn add(&self, other: &Self) -> Result<Self> {
        self.zip(other, "add", |a, b| a + b)
    }

    /// Weighted mean, `self + weight (end - self)`.
    pub fn lerp(&self, end: &Self, weight: &Self) -> Result<Self> {
        self.check(weight, "lerp")?;
        self.zip(end, "lerp", |a, b| (a + b) / 2.0)
    }

    /// An operation of this library that no policy knows.
    pub fn frobnicate(&self) -> Result<Self> {
        self.map("frobnicate", |v| v)
    }
}

/// Rows of several tensors in one.
pub fn cat(tensors: &[&Tensor], _axis: usize) -> Result<Tensor> {
    let first = tensors.first().ok_or(HostError::Shapes("cat"))?;
    for other in tensors {
        first.check(other, "cat")?;
    }
    let data = tensors.iter().flat_map(|t| t.data.iter().copied()).collect();
    Ok(Tensor::new(data, tensors.iter().map(|t| t.rows).sum(), first.dtype))
}

impl Add<&Tensor> for &Tensor {
    type Output = Result<Tensor>;
    fn add(self, other: &Tensor) -> Result<Tensor> {
        Tensor::add(self, other)
    }
}

impl Mul<f32> for &Tensor {
    type Output = Result<Tensor>;
    fn mul(self, factor: f32) -> Result<Tensor> {
        self.map("scale", |v| v * factor)
    }
}

impl Mul<f32> for Tensor {
    type Output = Result<Tensor>;
    fn mul(self, factor: f32) -> Result<Tensor> {
        &self * factor
    }
}

impl AddAssign<Tensor> for Tensor {
    fn add_assign(&mut self, other: Tensor) {
        *self = Tensor::add(self, &other).expect("operands that fit");
    }
}
