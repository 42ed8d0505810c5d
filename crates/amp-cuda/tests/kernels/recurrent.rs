//! Steps of recurrent layers behind their products, against the CPU's.

use crate::case::{Input, check_same};
use amp_core::Dims;
use amp_core::backend::{Buffer, DType, Layout, Operand};

/// Rows and widths: one element, an odd width, more elements than a block has threads, none.
const SIZES: [[usize; 2]; 4] = [[1, 1], [3, 7], [5, 130], [0, 4]];
const FLOATS: [DType; 3] = [DType::F16, DType::BF16, DType::F32];
/// Roundings of F32 that a result gathers, those of exponentials among them.
const TERMS: f64 = 32.0;

fn kept<'a>(buffer: &'a Buffer, layout: &'a Layout) -> Operand<'a> {
    Operand { buffer, layout, logical: buffer.dtype() }
}

fn contiguous(shape: &[usize]) -> Layout {
    Layout::contiguous(Dims::new(shape).expect("a rank"))
}

/// One step of several of a sequence `[N, T, gates * H]`, as its inputs' products leave it.
fn step_of_sequence([n, width]: [usize; 2], gates: usize, dtype: DType) -> Input {
    const STEPS: usize = 3;
    let row = gates * width;
    Input::strided(&[n, row], &[STEPS * row, 1], row, dtype, 1)
}

#[test]
fn cells_of_lstms_and_their_gradients() {
    for (i, size @ [n, h]) in SIZES.into_iter().enumerate() {
        for dtype in FLOATS {
            let out = FLOATS[(i + 1) % 3];
            let inputs = [
                step_of_sequence(size, 4, dtype),
                Input::noise(&[n, 4 * h], dtype, 3.0, 2),
                Input::noise(&[n, h], DType::F32, 2.0, 3),
                Input::noise(&[2, n, h], DType::F32, 1.0, 4),
            ];
            check_same(&format!("LSTM {size:?}"), &inputs, out, TERMS, &|b, x, out| {
                let [states, gates] = b.lstm_cell(x[0], x[1], x[2])?;
                let (of_gates, of_states) = (contiguous(&[n, 4 * h]), contiguous(&[2, n, h]));
                let (gates_kept, states_kept) = (kept(&gates, &of_gates), kept(&states, &of_states));
                let grads = b.lstm_cell_grad(gates_kept, states_kept, x[2], x[3], out)?;
                Ok([[states, gates], grads].concat())
            });
        }
    }
}

#[test]
fn cells_of_grus_and_their_gradients() {
    for (i, size @ [n, h]) in SIZES.into_iter().enumerate() {
        for dtype in FLOATS {
            let out = FLOATS[(i + 1) % 3];
            let inputs = [
                step_of_sequence(size, 3, dtype),
                Input::noise(&[n, 3 * h], dtype, 3.0, 2),
                Input::noise(&[n, h], dtype, 2.0, 3),
                Input::noise(&[n, h], DType::F32, 1.0, 4),
            ];
            check_same(&format!("GRU {size:?}"), &inputs, out, TERMS, &|b, x, out| {
                let [next, gates] = b.gru_cell(x[0], x[1], x[2], out)?;
                let of_gates = contiguous(&[n, 4 * h]);
                let grads = b.gru_cell_grad(kept(&gates, &of_gates), x[2], x[3], [dtype, DType::F32, out])?;
                Ok([vec![next, gates], grads.into()].concat())
            });
        }
    }
}
