//! Products together with the activation after them, and with the derivative of the one before them.
//!
//! A strip of sums is rounded, put through the function and stored while it is in the first-level cache. The results are
//! bit for bit those of the product and the element-wise kernel one after the other.

use super::product::Sink;
use super::{Epilogue, Places, Problem, dot, matmul};
use crate::convert::Compute;
use crate::elementwise::{backward, forward, unary, unary_grad};
use crate::load::{computes_in_f64, load, load_all};
use crate::output::Output;
use crate::{DType, Layout, Storage, Unary, View};
use half::bf16;
use std::ops::Range;

/// Values that go through the function at a time.
const CHUNK: usize = 256;

/// `a · b`, with the bias, rounded to `out`, and `op` of that, rounded to `out` too: what [`matmul`] gives and what
/// [`unary`] makes of it.
pub fn matmul_unary(a: &View, b: &View, epilogue: &Epilogue, op: Unary, out: DType) -> (Storage, Storage) {
    let problem = Problem::new(a, b);
    let (rows, columns) = (problem.count * problem.a.rows, problem.b.rows);
    if computes_in_f64(a) || out == DType::F64 {
        let x = matmul(a, b, epilogue, out);
        let layout = flat(x.len());
        let y = unary(op, &View { data: x.as_slice(), layout: &layout, logical: out }, out);
        return (x, y);
    }
    let (mut x, mut y) = (Storage::unwritten(out, rows * columns), Storage::unwritten(out, rows * columns));
    let mut bias = Vec::new();
    if let Some(view) = &epilogue.bias {
        bias.resize(columns, 0.0);
        load_all(view, &mut bias);
    }
    let (to, through) = (Output::new(&mut y), Output::new(&mut x));
    run(a, b, problem.fold_batch_into_rows(), &|places| Activated { to, through, places, bias: &bias, op, out });
    (x, y)
}

/// `grad * op'(..)` for the gradient `a · b` rounded to `out`; `saved` is as for [`unary_grad`], `[.., M, N]`.
pub fn matmul_unary_grad(a: &View, b: &View, op: Unary, saved: &View, out: DType) -> Storage {
    let wide = computes_in_f64(a) || computes_in_f64(saved) || out == DType::F64;
    if wide || !saved.layout.is_contiguous() {
        let grad = matmul(a, b, &Epilogue::default(), out);
        let layout = Layout::contiguous(saved.layout.shape);
        return unary_grad(op, saved, &View { data: grad.as_slice(), layout: &layout, logical: out }, out);
    }
    let mut result = Storage::unwritten(out, saved.layout.count());
    let to = Output::new(&mut result);
    let problem = Problem::new(a, b).fold_batch_into_rows();
    run(a, b, problem, &|places| Derived { to, places, saved: *saved, op, out });
    result
}

fn flat(len: usize) -> Layout {
    Layout::contiguous(crate::Dims::new(&[len]).expect("one dimension"))
}

fn run<S: Sink<f32>>(a: &View, b: &View, problem: Problem, sink: &(dyn Fn(Places) -> S + Sync)) {
    if dot::multiplies_halves(a, b) || dot::multiplies(a, b) {
        problem.run::<bf16, S>(sink);
    } else {
        problem.run::<f32, S>(sink);
    }
}

/// Adds the bias, rounds, stores, applies the function, rounds and stores.
struct Activated<'a> {
    to: Output<'a>,
    through: Output<'a>,
    places: Places,
    bias: &'a [f32],
    op: Unary,
    out: DType,
}

impl Sink<f32> for Activated<'_> {
    fn expect(&self, rows: Range<usize>, columns: Range<usize>) {
        self.places.expect(&self.to, rows.clone(), columns.clone());
        self.places.expect(&self.through, rows, columns);
    }

    fn store(&self, row: usize, column: usize, values: &mut [f32]) {
        let (start, stride) = (self.places.at(row, column), self.places.column_stride);
        self.places.add_bias(self.bias, row, column, values);
        f32::round_to(self.out, values);
        let mut activated = [0.0; CHUNK];
        // SAFETY: each task stores its own block of both results (`Sink`), and products of a batch have their own.
        unsafe {
            self.through.store(start, stride, values);
            for (i, values) in values.chunks(CHUNK).enumerate() {
                let activated = &mut activated[..values.len()];
                forward(self.op, values, activated);
                self.to.store(start + i * CHUNK * stride, stride, activated);
            }
        }
    }
}

/// Rounds, multiplies by the derivative, rounds and stores.
struct Derived<'a> {
    to: Output<'a>,
    places: Places,
    saved: View<'a>,
    op: Unary,
    out: DType,
}

impl Sink<f32> for Derived<'_> {
    fn expect(&self, rows: Range<usize>, columns: Range<usize>) {
        self.places.expect(&self.to, rows, columns);
    }

    fn store(&self, row: usize, column: usize, values: &mut [f32]) {
        let (start, stride) = (self.places.at(row, column), self.places.column_stride);
        f32::round_to(self.out, values);
        let (mut saved, mut derived) = ([0.0; CHUNK], [0.0; CHUNK]);
        for (i, values) in values.chunks(CHUNK).enumerate() {
            let (saved, derived) = (&mut saved[..values.len()], &mut derived[..values.len()]);
            let start = start + i * CHUNK * stride;
            load(&self.saved, self.saved.layout.offset + start, stride, saved);
            backward(self.op, saved, values, derived);
            // SAFETY: each task stores its own block of the result (`Sink`), and products of a batch have their own.
            unsafe { self.to.store(start, stride, derived) }
        }
    }
}
