//! A step of long short-term memory (Hochreiter and Schmidhuber, 1997) behind its products, and its gradient.
//!
//! One pass in the place of some fifteen operations, each too short for a second thread. Training steps of a language model
//! (two layers of 256, 32 sequences of 64 words out of 2000) took two threads of Zen 4 138 ms in F32 and 86 in BF16 with those
//! and take 125 and 72; of one layer of 16 for 512 sequences of 8, where rows are handled together, 1.9 and 2.5 ms and 1.6.

use super::{cut, pieces, rows_of};
use crate::line::{Span, store};
use crate::math::Float;
use crate::output::Output;
use crate::simd::{Kernel, Simd, dispatch};
use crate::storage::Element;
use crate::{DType, Storage, View, scratch};

/// The states `[2, N, H]` after a step, hidden and cell, and its gates `[N, 4 H]` (in, forget, new, out), which the gradient
/// needs; both F32.
///
/// What goes into the gates is the sum of `from_inputs` and `from_state` `[N, 4 H]`; `c` `[N, H]` is the cell state before.
/// PyTorch: `_thnn_fused_lstm_cell`. Computed in F32, which is nowhere rounded.
pub fn lstm_cell(from_inputs: &View, from_state: &View, c: &View) -> [Storage; 2] {
    let [rows, width] = [c.layout.shape[0], c.layout.shape[1]];
    let [mut states, mut gates] = [2, 4].map(|n| Storage::unwritten(DType::F32, n * rows * width));
    let [to_states, to_gates] = [&mut states, &mut gates].map(Output::new);
    let [a, b, c] = [from_inputs, from_state, c].map(Span::row_major);
    pieces(rows, width, |piece| {
        let (at, len) = (piece.start * width, piece.len() * width);
        scratch::with(9 * len, |room: &mut [f32]| {
            let [of_a, of_b, of_c] = cut(room, [4 * len, 4 * len, len]);
            let a = a.read(4 * at, 4 * len, of_a);
            let (b, c) = (b.read(4 * at, 4 * len, of_b), c.read(at, len, of_c));
            // SAFETY: no other task has these rows of the states or the gates, and these parts do not overlap.
            let mut parts = unsafe {
                let hidden = to_states.part(at, len);
                [to_gates.part(4 * at, 4 * len), hidden, to_states.part(rows * width + at, len)]
            };
            let [gates, h, next] = parts.each_mut().map(|part| f32::same_mut(part).expect("made of this type"));
            dispatch(Step { width, a, b, c, gates, h, next });
        });
    });
    [states, gates]
}

struct Step<'a> {
    width: usize,
    a: &'a [f32],
    b: &'a [f32],
    c: &'a [f32],
    gates: &'a mut [f32],
    h: &'a mut [f32],
    next: &'a mut [f32],
}

impl Kernel for Step<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { width, a, b, c, gates, h, next } = self;
        for ((gate, &a), &b) in gates.iter_mut().zip(a).zip(b) {
            *gate = a + b;
        }
        let states = h.chunks_exact_mut(width).zip(next.chunks_exact_mut(width));
        for ((gates, c), (h, next)) in gates.chunks_exact_mut(4 * width).zip(c.chunks_exact(width)).zip(states) {
            let [keep_in, keep_old, new, out] = cut(gates, [width; 4]);
            for gate in [&mut *keep_in, &mut *keep_old, &mut *out] {
                gate.iter_mut().for_each(|gate| *gate = gate.sigmoid::<S>());
            }
            new.iter_mut().for_each(|new| *new = Float::tanh::<S>(*new));
            for i in 0..width {
                next[i] = keep_old[i] * c[i] + keep_in[i] * new[i];
            }
            for i in 0..width {
                h[i] = out[i] * Float::tanh::<S>(next[i]);
            }
        }
    }
}

/// The gradients of what goes into the gates `[N, 4 H]`, in precision `out`, and of the cell state before `[N, H]`, F32; from
/// that of the states `[2, N, H]` that [`lstm_cell`] gave for these gates and this `c`.
pub fn lstm_cell_grad(gates: &View, states: &View, c: &View, grad: &View, out: DType) -> [Storage; 2] {
    let [rows, width] = [c.layout.shape[0], c.layout.shape[1]];
    let (mut of_gates, mut of_c) =
        (Storage::unwritten(out, 4 * rows * width), Storage::unwritten(DType::F32, rows * width));
    let [to_gates, to_c] = [&mut of_gates, &mut of_c].map(Output::new);
    let [gates, states, c, grad] = [gates, states, c, grad].map(Span::row_major);
    pieces(rows, width, |piece| {
        let (at, len) = (piece.start * width, piece.len() * width);
        scratch::with(12 * len, |room: &mut [f32]| {
            let [of_read, of_gates, of_rows] = cut(room, [4 * len; 3]);
            let [of_states, of_c, of_h_grad, of_c_grad] = cut(of_rows, [len; 4]);
            let (gates, c) = (gates.read(4 * at, 4 * len, of_read), c.read(at, len, of_c));
            let next = states.read(rows * width + at, len, of_states);
            let of_h = grad.read(at, len, of_h_grad);
            let of_next = grad.read(rows * width + at, len, of_c_grad);
            // SAFETY: no other task has these rows of either.
            let (mut part, mut of_c) = unsafe { (to_gates.part(4 * at, 4 * len), to_c.part(at, len)) };
            let of_c = f32::same_mut(&mut of_c).expect("made of this type");
            store(&mut part, of_gates, |of_gates| {
                dispatch(Gradient { width, gates, c, next, of_h, of_next, of_gates, of_c });
            });
        });
    });
    [of_gates, of_c]
}

struct Gradient<'a> {
    width: usize,
    gates: &'a [f32],
    c: &'a [f32],
    next: &'a [f32],
    of_h: &'a [f32],
    of_next: &'a [f32],
    of_gates: &'a mut [f32],
    of_c: &'a mut [f32],
}

impl Kernel for Gradient<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let Self { width, gates, c, next, of_h, of_next, of_gates, of_c } = self;
        for (row, (gates, of_gates)) in
            gates.chunks_exact(4 * width).zip(of_gates.chunks_exact_mut(4 * width)).enumerate()
        {
            let [keep_in, keep_old, new, out] = rows_of(gates, width);
            let [of_in, of_old, of_new, of_out] = cut(of_gates, [width; 4]);
            let [c, next, of_h, of_next] = [c, next, of_h, of_next].map(|all| &all[row * width..][..width]);
            let of_c = &mut of_c[row * width..][..width];
            for i in 0..width {
                let shown = Float::tanh::<S>(next[i]);
                let of_cell = of_next[i] + of_h[i] * out[i] * (1.0 - shown * shown);
                of_in[i] = of_cell * new[i] * keep_in[i] * (1.0 - keep_in[i]);
                of_old[i] = of_cell * c[i] * keep_old[i] * (1.0 - keep_old[i]);
                of_new[i] = of_cell * keep_in[i] * (1.0 - new[i] * new[i]);
                of_out[i] = of_h[i] * shown * out[i] * (1.0 - out[i]);
                of_c[i] = of_cell * keep_old[i];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{PRECISIONS, SIZES, assert_near, for_any_threads, sigmoid};
    use super::{lstm_cell, lstm_cell_grad};
    use crate::DType;
    use crate::testing::{Random, Tensor};

    /// The gradients of every element's gates and cell state, against F64.
    fn check(from_inputs: &Tensor, from_state: &Tensor, c: &Tensor, grad: &Tensor, out: DType) {
        let &[rows, width] = c.shape() else { unreachable!("[N, H]") };
        let [states, of_gates, of_c] = for_any_threads(|| {
            let [states, gates] = lstm_cell(&from_inputs.view(), &from_state.view(), &c.view());
            let states = Tensor::contiguous(&[2, rows, width], states);
            let gates = Tensor::contiguous(&[rows, 4 * width], gates);
            let [of_gates, of_c] = lstm_cell_grad(&gates.view(), &states.view(), &c.view(), &grad.view(), out);
            let of_gates = Tensor::contiguous(&[rows, 4 * width], of_gates);
            [states, of_gates, Tensor::contiguous(c.shape(), of_c)]
        });
        for at in c.indices() {
            let (row, i) = (at[0], at[1]);
            let place = |gate: usize| [row, gate * width + i];
            let [keep_in, keep_old, new, out_gate] =
                std::array::from_fn(|gate| from_inputs.at(&place(gate)) + from_state.at(&place(gate)));
            let (keep_in, keep_old, new, shows) = (sigmoid(keep_in), sigmoid(keep_old), new.tanh(), sigmoid(out_gate));
            let before = c.at(&at);
            let next = keep_old * before + keep_in * new;
            assert_near(states.at(&[1, row, i]), &[keep_old * before, keep_in * new], DType::F32, "cell state");
            assert_near(states.at(&[0, row, i]), &[shows * next.tanh()], DType::F32, "hidden state");
            let (of_h, of_next) = (grad.at(&[0, row, i]), grad.at(&[1, row, i]));
            let cell = [of_next, of_h * shows * (1.0 - next.tanh().powi(2))];
            let times = |factor: f64| cell.map(|term| term * factor);
            for (gate, terms) in [
                (0, times(new * keep_in * (1.0 - keep_in))),
                (1, times(before * keep_old * (1.0 - keep_old))),
                (2, times(keep_in * (1.0 - new * new))),
                (3, [of_h * next.tanh() * shows * (1.0 - shows), 0.0]),
            ] {
                assert_near(of_gates.at(&place(gate)), &terms, out, "gate");
            }
            assert_near(of_c.at(&at), &times(keep_old), DType::F32, "cell state before");
        }
    }

    #[test]
    fn steps_of_every_size_and_precision_are_those_of_f64() {
        let mut random = Random::new(1);
        for [rows, width] in SIZES {
            for dtype in PRECISIONS {
                let steps = random.tensor(&[rows, 12 * width], dtype);
                let [state, c] = [4 * width, width].map(|n| random.tensor(&[rows, n], DType::F32));
                let grad = random.tensor(&[2, rows, width], DType::F32);
                check(&steps.narrow(1, 4 * width, 4 * width), &state, &c, &grad, dtype);
            }
        }
    }
}
