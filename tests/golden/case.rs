//! One case of the golden file: its inputs as tensors, its options, and the comparison with what PyTorch computed.

use std::cell::RefCell;

use amp::prelude::*;
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use serde_json::Value;

use crate::device;

/// How the inputs lie in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Memory {
    /// Row-major.
    Contiguous,
    /// The last two axes swapped, and part of a larger buffer whose other elements are NaN.
    Strided,
}

/// How far a result may lie from the stored one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// Elements are only moved, chosen or compared, each at most once: equal values, equal gradients.
    Exact,
    /// Elements are chosen, some several times: equal values; gradients are sums.
    Chosen,
    /// One elementary function per element: 8 units in the last place forward; gradients as `Accumulated`.
    Pointwise,
    /// Sums, products and what is made of them: as near to the true values as the file asks of PyTorch's own F32
    /// results, in proportion to the largest magnitude of the tensor.
    Accumulated,
}

/// What [`Tolerance::Accumulated`] allows unless the case says more (`F32_AGREES` in `record.py`).
const AGREES: f64 = 2e-5;

/// An output of an operation.
pub enum Out {
    Float(Tensor<F32>),
    Int(Tensor<I64>),
    Bool(Tensor<Bool>),
}

/// All outputs of an operation, whatever their number and types.
pub struct Outs(pub Vec<Out>);

impl From<Tensor<F32>> for Outs {
    fn from(x: Tensor<F32>) -> Self {
        Self(vec![Out::Float(x)])
    }
}

impl From<Tensor<I64>> for Outs {
    fn from(x: Tensor<I64>) -> Self {
        Self(vec![Out::Int(x)])
    }
}

impl From<Tensor<Bool>> for Outs {
    fn from(x: Tensor<Bool>) -> Self {
        Self(vec![Out::Bool(x)])
    }
}

impl From<(Tensor<F32>, Tensor<I64>)> for Outs {
    fn from((x, i): (Tensor<F32>, Tensor<I64>)) -> Self {
        Self(vec![Out::Float(x), Out::Int(i)])
    }
}

impl From<Vec<Tensor<F32>>> for Outs {
    fn from(xs: Vec<Tensor<F32>>) -> Self {
        Self(xs.into_iter().map(Out::Float).collect())
    }
}

/// A case of the file, with the input tensors that were asked for so far.
pub struct Case<'a> {
    pub name: &'a str,
    pub options: &'a Value,
    file: &'a SafeTensors<'a>,
    memory: Memory,
    leaves: RefCell<Vec<(usize, Leaf)>>,
}

/// What stands for an input and collects its gradient.
enum Leaf {
    Tensor(Tensor<F32>),
    Parameter(Parameter),
}

impl Leaf {
    fn gradient(&self, grads: &Gradients) -> Result<Option<Tensor<F32>>> {
        match self {
            Self::Tensor(tensor) => grads.get(tensor),
            Self::Parameter(parameter) => grads.get(parameter),
        }
    }
}

impl<'a> Case<'a> {
    pub fn new(name: &'a str, options: &'a Value, file: &'a SafeTensors<'a>, memory: Memory) -> Self {
        Self { name, options, file, memory, leaves: RefCell::default() }
    }

    /// The operation: what stands before the slash.
    pub fn op(&self) -> &'a str {
        self.name.split('/').next().expect("split gives at least one part")
    }

    fn view(&self, what: &str) -> Option<TensorView<'a>> {
        self.file.tensor(&format!("{}/{what}", self.name)).ok()
    }

    /// Shape and values of a stored float tensor.
    pub fn floats(&self, what: &str) -> Option<(Vec<usize>, Vec<f32>)> {
        let view = self.view(what)?;
        let values = view.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().expect("four bytes")));
        Some((view.shape().to_vec(), values.collect()))
    }

    /// Shape and values of a stored integer tensor.
    pub fn integers(&self, what: &str) -> (Vec<usize>, Vec<i64>) {
        let view = self.view(what).unwrap_or_else(|| panic!("{}: no {what}", self.name));
        let values = view.data().chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().expect("eight bytes")));
        (view.shape().to_vec(), values.collect())
    }

    /// Whether the case has input number `i`.
    pub fn has(&self, i: usize) -> bool {
        self.view(&format!("in{i}")).is_some()
    }

    /// Number of inputs.
    pub fn count(&self) -> usize {
        (0..).take_while(|&i| self.has(i)).count()
    }

    /// Float input `i`, tracked.
    pub fn x(&self, i: usize) -> Tensor<F32> {
        let (shape, values) = self.floats(&format!("in{i}")).unwrap_or_else(|| panic!("{}: no in{i}", self.name));
        let tensor = match self.memory {
            Memory::Contiguous => Tensor::from_vec(values, shape, &device()),
            Memory::Strided => strided(values, &shape, f32::NAN),
        };
        let leaf = tensor.expect("a stored tensor fits its shape").tracked();
        self.leaves.borrow_mut().push((i, Leaf::Tensor(leaf.clone())));
        leaf
    }

    /// Sets a module's parameter to float input `i`, which collects its gradient from now on.
    pub fn set(&self, i: usize, parameter: &Parameter) -> Result<()> {
        parameter.set(&self.x(i))?;
        let mut leaves = self.leaves.borrow_mut();
        leaves.retain(|(j, _)| *j != i);
        leaves.push((i, Leaf::Parameter(parameter.clone())));
        Ok(())
    }

    /// Float input `i` if the case has it.
    pub fn maybe(&self, i: usize) -> Option<Tensor<F32>> {
        self.has(i).then(|| self.x(i))
    }

    /// Integer input `i`.
    pub fn index(&self, i: usize) -> Tensor<I64> {
        let (shape, values) = self.integers(&format!("in{i}"));
        let tensor = match self.memory {
            Memory::Contiguous => Tensor::from_vec(values, shape, &device()),
            Memory::Strided => strided(values, &shape, i64::MIN),
        };
        tensor.expect("a stored tensor fits its shape")
    }

    /// Boolean input `i`.
    pub fn mask(&self, i: usize) -> Tensor<Bool> {
        let view = self.view(&format!("in{i}")).unwrap_or_else(|| panic!("{}: no in{i}", self.name));
        let values: Vec<bool> = view.data().iter().map(|&b| b != 0).collect();
        let tensor = match self.memory {
            Memory::Contiguous => Tensor::from_vec(values, view.shape().to_vec(), &device()),
            Memory::Strided => strided(values, view.shape(), true),
        };
        tensor.expect("a stored tensor fits its shape")
    }

    fn option(&self, key: &str) -> &Value {
        let value = &self.options[key];
        assert!(!value.is_null(), "{}: no option {key}", self.name);
        value
    }

    pub fn given(&self, key: &str) -> bool {
        !self.options[key].is_null()
    }

    pub fn float(&self, key: &str) -> f64 {
        let value = self.option(key);
        value.as_f64().or_else(|| value.as_str()?.parse().ok()).expect("a number")
    }

    pub fn float_or(&self, key: &str, default: f64) -> f64 {
        if self.given(key) { self.float(key) } else { default }
    }

    pub fn floats_of(&self, key: &str) -> Vec<f64> {
        let list = self.option(key).as_array().expect("a list");
        list.iter().map(|v| v.as_f64().expect("a number")).collect()
    }

    pub fn int(&self, key: &str) -> i64 {
        self.option(key).as_i64().expect("an integer")
    }

    pub fn axis(&self) -> isize {
        self.int("axis") as isize
    }

    pub fn size(&self, key: &str) -> usize {
        usize::try_from(self.int(key)).expect("a size")
    }

    pub fn flag(&self, key: &str) -> bool {
        self.given(key) && self.option(key).as_bool().expect("true or false")
    }

    pub fn text(&self, key: &str) -> &str {
        self.option(key).as_str().expect("a string")
    }

    pub fn texts(&self, key: &str) -> Vec<&str> {
        let list = self.option(key).as_array().expect("a list");
        list.iter().map(|v| v.as_str().expect("a string")).collect()
    }

    pub fn sizes(&self, key: &str) -> Vec<usize> {
        self.axes(key).into_iter().map(|i| usize::try_from(i).expect("a size")).collect()
    }

    pub fn pair(&self, key: &str) -> [usize; 2] {
        self.extent(key)
    }

    pub fn extent<const N: usize>(&self, key: &str) -> [usize; N] {
        self.sizes(key).try_into().expect("as many sizes")
    }

    pub fn axes(&self, key: &str) -> Vec<isize> {
        let list = self.option(key).as_array().expect("a list");
        list.iter().map(|v| v.as_i64().expect("an integer") as isize).collect()
    }

    /// Compares outputs and gradients with the stored ones; the text says what differs.
    pub fn check(&self, outs: &Outs, tolerance: Tolerance) -> Result<(), String> {
        let stored = (0..).take_while(|i| self.view(&format!("out{i}")).is_some()).count();
        if outs.0.len() != stored {
            return Err(format!("{} outputs, PyTorch has {stored}", outs.0.len()));
        }
        for (i, out) in outs.0.iter().enumerate() {
            self.check_out(&format!("out{i}"), out, tolerance)?;
        }
        self.check_gradients(outs, tolerance)
    }

    fn check_out(&self, what: &str, out: &Out, tolerance: Tolerance) -> Result<(), String> {
        let text = |e: amp::Error| e.to_string();
        match out {
            Out::Float(x) => {
                let (shape, values) = self.floats(what).expect("the number of outputs was compared");
                let exact = matches!(tolerance, Tolerance::Exact | Tolerance::Chosen);
                let agrees = if exact { 0.0 } else { self.agrees() };
                let (each, scale) = match tolerance {
                    Tolerance::Pointwise => (8.0 * f64::from(f32::EPSILON), 0.0),
                    _ => (agrees, agrees * magnitude(&values)),
                };
                same(what, x.dims(), &x.to_vec().map_err(text)?, &shape, &values, each, scale)
            }
            Out::Int(x) => {
                let (shape, values) = self.integers(what);
                let found = x.to_vec().map_err(text)?;
                let equal = found == values && x.dims() == shape;
                equal
                    .then_some(())
                    .ok_or_else(|| format!("{what}: {:?} {found:?}, PyTorch {shape:?} {values:?}", x.dims()))
            }
            Out::Bool(x) => {
                let view = self.view(what).expect("the number of outputs was compared");
                let values: Vec<bool> = view.data().iter().map(|&b| b != 0).collect();
                let found = x.to_vec().map_err(text)?;
                let equal = found == values && x.dims() == view.shape();
                equal.then_some(()).ok_or_else(|| format!("{what}: {found:?}, PyTorch {values:?}"))
            }
        }
    }

    fn agrees(&self) -> f64 {
        self.float_or("agrees", AGREES)
    }

    fn check_gradients(&self, outs: &Outs, tolerance: Tolerance) -> Result<(), String> {
        let stored: Vec<_> = (0..self.count()).filter_map(|i| Some((i, self.floats(&format!("d_in{i}"))?))).collect();
        if stored.is_empty() {
            return Ok(());
        }
        let grads = self.gradients(outs).map_err(|e| format!("backward: {e}"))?;
        let allowed = if tolerance == Tolerance::Exact { 0.0 } else { self.agrees() };
        let scale = stored.iter().map(|(_, (_, v))| magnitude(v)).fold(0.0, f64::max);
        for (i, (shape, values)) in stored {
            let leaves = self.leaves.borrow();
            let (_, leaf) = leaves.iter().find(|(j, _)| *j == i).ok_or_else(|| format!("in{i} was not used"))?;
            let grad = leaf.gradient(&grads).map_err(|e| e.to_string())?;
            let (found_shape, found) = match grad {
                Some(g) => (g.dims().to_vec(), g.to_vec().map_err(|e| e.to_string())?),
                None => (shape.clone(), vec![0.0; values.len()]),
            };
            same(&format!("d_in{i}"), &found_shape, &found, &shape, &values, allowed, allowed * scale)?;
        }
        Ok(())
    }

    /// Gradients for the stored `grad_out`s: those of the sum of each output times its own.
    fn gradients(&self, outs: &Outs) -> amp::Result<Gradients> {
        let mut loss = Tensor::<F32>::zeros((), &device())?;
        for (i, out) in outs.0.iter().enumerate() {
            if let (Out::Float(x), Some((shape, g))) = (out, self.floats(&format!("grad_out{i}"))) {
                let g = Tensor::<F32>::from_vec(g, shape, &device())?;
                loss = (loss + (x * g)?.sum_all()?)?;
            }
        }
        loss.backward()
    }
}

/// A tensor of these elements that lies strided, at an offset, inside a buffer filled with `padding`.
fn strided<P: Element>(values: Vec<P::Host>, shape: &[usize], padding: P::Host) -> amp::Result<Tensor<P>> {
    let rank = shape.len();
    if rank == 0 {
        return Tensor::from_vec(values, (), &device());
    }
    let mut stored = shape.to_vec();
    if rank >= 2 {
        stored.swap(rank - 1, rank - 2);
    }
    let (rows, row) = (stored[0], stored[1..].iter().product::<usize>());
    stored[0] += 2;
    let (height, width) = if rank >= 2 { (shape[rank - 2], shape[rank - 1]) } else { (1, row) };
    let mut buffer = vec![padding; (rows + 2) * row];
    if rank == 1 {
        buffer[1..=rows].copy_from_slice(&values);
    } else {
        for (i, value) in values.into_iter().enumerate() {
            let (plane, r, c) = (i / (height * width), i / width % height, i % width);
            buffer[row + plane * height * width + c * height + r] = value;
        }
    }
    let inner = Tensor::from_vec(buffer, stored, &device())?.narrow(0, 1, rows)?;
    if rank >= 2 { inner.transpose(-1, -2) } else { Ok(inner) }
}

/// Largest finite magnitude; values near the end of F32's range do not count.
fn magnitude(values: &[f32]) -> f64 {
    values.iter().map(|v| f64::from(v.abs())).filter(|v| *v < 3e38).fold(0.0, f64::max)
}

/// Compares element by element so that NaN fails unless NaN is expected.
fn same(
    what: &str,
    found_shape: &[usize],
    found: &[f32],
    shape: &[usize],
    expected: &[f32],
    relative: f64,
    absolute: f64,
) -> Result<(), String> {
    if found_shape != shape {
        return Err(format!("{what}: shape {found_shape:?}, PyTorch {shape:?}"));
    }
    for (i, (&f, &e)) in found.iter().zip(expected).enumerate() {
        let allowed = relative * f64::from(e.abs()) + absolute + 4.0 * f64::from(f32::from_bits(1));
        let equal = f == e || (f.is_nan() && e.is_nan());
        if !(equal || (f64::from(f) - f64::from(e)).abs() <= allowed && e.is_finite()) {
            return Err(format!("{what}[{i}] is {f:e}, PyTorch has {e:e}, allowed is {allowed:e}"));
        }
    }
    Ok(())
}
