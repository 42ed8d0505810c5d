//! Recurrent layers and their cells.

mod elman;
mod gru;
mod lstm;

pub use elman::{Rnn, RnnCell};
pub use gru::{Gru, GruCell};
pub use lstm::{Lstm, LstmCell, LstmState};

use super::{Dropout, Module, Visitor, init};
use crate::param::Parameter;
use crate::precision::{Bool, Float};
use crate::tensor::Tensor;
use crate::{Device, Error, Result};

/// Parameters of one layer in one direction: as many gates as the kind of cell has, stacked.
#[derive(Debug)]
struct Cell {
    weight_ih: Parameter,
    weight_hh: Parameter,
    /// Of the inputs' part and of the state's.
    biases: Option<[Parameter; 2]>,
    /// What PyTorch appends to the names: `_l0`, `_l1_reverse`.
    suffix: String,
    reverse: bool,
}

impl Cell {
    fn new(inputs: usize, hidden: usize, gates: usize, suffix: String, device: &Device) -> Result<Self> {
        let bound = 1.0 / (hidden.max(1) as f64).sqrt();
        let rows = gates.saturating_mul(hidden);
        let reverse = suffix.ends_with("reverse");
        Ok(Self {
            weight_ih: init::uniform([rows, inputs], bound, device)?,
            weight_hh: init::uniform([rows, hidden], bound, device)?,
            biases: Some([init::uniform([rows], bound, device)?, init::uniform([rows], bound, device)?]),
            suffix,
            reverse,
        })
    }

    /// The inputs' part of all gates of all steps in one product, `[N, T, gates * H]`.
    #[track_caller]
    fn inputs<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<P>> {
        x.linear(&self.weight_ih.to::<P>()?, self.bias(0)?.as_ref())
    }

    /// The state's part of all gates of one step, `[N, gates * H]`.
    #[track_caller]
    fn hidden<P: Float>(&self, h: &Tensor<P>) -> Result<Tensor<P>> {
        h.linear(&self.weight_hh.to::<P>()?, self.bias(1)?.as_ref())
    }

    fn bias<P: Float>(&self, i: usize) -> Result<Option<Tensor<P>>> {
        self.biases.as_ref().map(|biases| biases[i].to::<P>()).transpose()
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        let biases = self.biases.iter().flat_map(|[ih, hh]| [("bias_ih", ih), ("bias_hh", hh)]);
        for (name, parameter) in
            [("weight_ih", &self.weight_ih), ("weight_hh", &self.weight_hh)].into_iter().chain(biases)
        {
            visitor.field(&format!("{name}{}", self.suffix), parameter);
        }
    }
}

/// One kind of cell, with the states to start from. A trait and not closures, because `#[track_caller]` methods pass on the
/// line that called the layer.
trait Recurrence<P: Float> {
    /// What a cell hands to itself from step to step.
    type State: Held;

    /// The state of cell number `i` before the first step.
    #[track_caller]
    fn start(&self, i: usize) -> Result<Self::State>;

    /// Hidden state `[N, H]` and state after one step, from the inputs' part of the gates.
    #[track_caller]
    fn step(&self, cell: &Cell, from_inputs: &Tensor<P>, state: Self::State) -> Result<(Tensor<P>, Self::State)>;
}

/// What a cell hands to itself, which stays as it was for sequences that have ended.
trait Held: Clone {
    /// This for the sequences that are `present` `[N, 1]`, and what was `before` for the others.
    #[track_caller]
    fn held(&self, present: &Tensor<Bool>, before: &Self) -> Result<Self>;
}

impl<P: Float> Held for Tensor<P> {
    #[track_caller]
    fn held(&self, present: &Tensor<Bool>, before: &Self) -> Result<Self> {
        present.where_(self, before)
    }
}

impl<A: Held, B: Held> Held for (A, B) {
    #[track_caller]
    fn held(&self, present: &Tensor<Bool>, before: &Self) -> Result<Self> {
        Ok((self.0.held(present, &before.0)?, self.1.held(present, &before.1)?))
    }
}

/// What all layers have besides: dropout between them, and passes over sequences of different lengths; `$state` is what they
/// begin and end with, `$stack` the field that has the layers.
macro_rules! padded {
    ($layer:ident, $stack:tt, $state:ty) => {
        impl $layer {
            /// The probability with which elements that one layer hands to the next are dropped in training (none by default).
            pub fn dropout(mut self, p: f64) -> Self {
                self.$stack.dropout = Some($crate::nn::Dropout::new(p));
                self
            }

            /// As [`forward`](Self::forward), over sequences that end after so many of the T steps each, one or more: outputs
            /// beyond are 0, the last state is that of a sequence's own last step, and the reverse direction begins there. PyTorch
            /// does this with `pack_padded_sequence` and `pad_packed_sequence` around the layer. What lies beyond is not read,
            /// but takes as long as steps that count.
            ///
            /// # Errors
            /// [`Error::Argument`](crate::Error::Argument) unless there is a length from 1 to T for each sequence.
            #[doc(alias("pack_padded_sequence", "pad_packed_sequence"))]
            #[track_caller]
            pub fn forward_padded<P: Float>(&self, x: &Tensor<P>, lengths: &[usize]) -> Result<(Tensor<P>, $state)> {
                self.run(x, Some(lengths), None)
            }

            /// As [`forward_padded`](Self::forward_padded), going on from `state`.
            #[track_caller]
            pub fn forward_padded_from<P: Float>(
                &self,
                x: &Tensor<P>,
                lengths: &[usize],
                state: &$state,
            ) -> Result<(Tensor<P>, $state)> {
                self.run(x, Some(lengths), Some(state))
            }
        }
    };
}
use padded;

/// What layers and single cells have alike; `$cells` is the field that has their parameters.
macro_rules! biased {
    ($layer:ident, $cells:tt) => {
        impl $layer {
            /// Removes the biases.
            pub fn without_bias(mut self) -> Self {
                self.$cells.remove_biases();
                self
            }
        }
    };
}
use biased;

/// All layers and directions of a recurrent network.
#[derive(Debug)]
struct Stack {
    cells: Vec<Cell>,
    inputs: usize,
    hidden: usize,
    directions: usize,
    /// What stands between the layers.
    dropout: Option<Dropout>,
}

impl Stack {
    fn new(
        op: &'static str,
        gates: usize,
        inputs: usize,
        hidden: usize,
        layers: usize,
        bidirectional: bool,
        device: &Device,
    ) -> Result<Self> {
        if layers == 0 {
            return Err(Error::argument(op, "layers", "at least 1", layers));
        }
        let directions = 1 + usize::from(bidirectional);
        let mut cells = Vec::new();
        for layer in 0..layers {
            let from = if layer == 0 { inputs } else { directions.saturating_mul(hidden) };
            for direction in 0..directions {
                let suffix = format!("_l{layer}{}", if direction == 1 { "_reverse" } else { "" });
                cells.push(Cell::new(from, hidden, gates, suffix, device)?);
            }
        }
        Ok(Self { cells, inputs, hidden, directions, dropout: None })
    }

    fn remove_biases(&mut self) {
        self.cells.iter_mut().for_each(|cell| cell.biases = None);
    }

    /// Runs all layers over sequences of these lengths, if they are given; returns the outputs and the last state of each cell.
    #[track_caller]
    fn run<P: Float, R: Recurrence<P>>(
        &self,
        op: &'static str,
        x: &Tensor<P>,
        lengths: Option<&[usize]>,
        kind: &R,
    ) -> Result<(Tensor<P>, Vec<R::State>)> {
        let &[n, steps, inputs] = x.dims() else {
            let (what, expected) = ("the input", "3 dimensions, [N, T, inputs]");
            return Err(Error::Rank { op, what, expected, found: x.raw.shape().into() });
        };
        if inputs != self.inputs || steps == 0 {
            let expected = format!("[N, T, {}] with T at least 1", self.inputs);
            return Err(Error::Shape { op, what: "the input", expected, found: x.raw.shape().into() });
        }
        let present = lengths.map(|lengths| present(op, lengths, [n, steps], x.device())).transpose()?;
        // Padding has no part in anything, whatever it is. (A closure would not be on the caller's line.)
        let mut x = match &present {
            Some(present) => present.where_(x, 0.0)?,
            None => x.clone(),
        };
        let mut ends = Vec::new();
        for (layer, cells) in self.cells.chunks(self.directions).enumerate() {
            if let (Some(dropout), true) = (&self.dropout, layer > 0) {
                x = dropout.forward(&x)?;
            }
            let mut sides = Vec::new();
            for (d, cell) in cells.iter().enumerate() {
                let start = kind.start(layer * self.directions + d)?;
                let (outputs, end) = walked(cell, &x, present.as_ref(), kind, start)?;
                sides.push(outputs);
                ends.push(end);
            }
            x = Tensor::cat(&sides, 2)?;
        }
        Ok((x, ends))
    }

    /// States of all layers and directions, `[layers * directions, N, H]`, or zeros.
    fn state<P: Float>(&self, op: &'static str, x: &Tensor<P>, given: Option<&Tensor<P>>) -> Result<Tensor<P>> {
        let n = x.dims().first().copied().unwrap_or(0);
        let shape = [self.cells.len(), n, self.hidden];
        match given {
            None => Tensor::zeros(shape, x.device()),
            Some(state) => of_shape(op, state, &shape),
        }
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.cells.iter().for_each(|cell| cell.visit(visitor));
        visitor.field("dropout", &self.dropout);
    }
}

/// Which steps the sequences have, `[N, T, 1]`.
#[track_caller]
fn present(op: &'static str, lengths: &[usize], [n, steps]: [usize; 2], device: &Device) -> Result<Tensor<Bool>> {
    if lengths.len() != n || lengths.iter().any(|length| !(1..=steps).contains(length)) {
        let expected = format!("{n} numbers from 1 to {steps}, one for each sequence");
        return Err(Error::argument(op, "lengths", expected, format!("{lengths:?}")));
    }
    Tensor::from_fn([n, steps, 1], |i| i[1] < lengths[i[0]], device)
}

/// Outputs `[N, T, H]` of one cell over all steps, and its last state; where a sequence is not present, its output is 0 and its
/// state stays.
#[track_caller]
fn walked<P: Float, R: Recurrence<P>>(
    cell: &Cell,
    x: &Tensor<P>,
    present: Option<&Tensor<Bool>>,
    kind: &R,
    mut state: R::State,
) -> Result<(Tensor<P>, R::State)> {
    let (gates, steps) = (cell.inputs(x)?, x.dims()[1]);
    let mut outputs = Vec::with_capacity(steps);
    for t in 0..steps {
        let t = if cell.reverse { steps - 1 - t } else { t };
        let before = present.map(|present| (present, state.clone()));
        let (mut h, mut next) = kind.step(cell, &gates.select(1, t)?, state)?;
        if let Some((present, before)) = before {
            let now = present.select(1, t)?;
            (h, next) = (now.where_(&h, 0.0)?, next.held(&now, &before)?);
        }
        (state, outputs) = (next, pushed(outputs, h));
    }
    if cell.reverse {
        outputs.reverse();
    }
    Ok((Tensor::stack(&outputs, 1)?, state))
}

/// One cell by itself, for sequences that are walked step by step.
#[derive(Debug)]
struct Single {
    cell: Cell,
    inputs: usize,
    hidden: usize,
}

impl Single {
    fn new(gates: usize, inputs: usize, hidden: usize, device: &Device) -> Result<Self> {
        Ok(Self { cell: Cell::new(inputs, hidden, gates, String::new(), device)?, inputs, hidden })
    }

    fn remove_biases(&mut self) {
        self.cell.biases = None;
    }

    /// The inputs' part of all gates, `[N, gates * H]`.
    #[track_caller]
    fn inputs<P: Float>(&self, op: &'static str, x: &Tensor<P>) -> Result<Tensor<P>> {
        if x.rank() != 2 || x.dims()[1] != self.inputs {
            let expected = format!("[N, {}]", self.inputs);
            return Err(Error::Shape { op, what: "the input", expected, found: x.raw.shape().into() });
        }
        self.cell.inputs(x)
    }

    /// The state `[N, H]` that was given, or zeros.
    fn state<P: Float>(&self, op: &'static str, n: usize, given: Option<&Tensor<P>>) -> Result<Tensor<P>> {
        let shape = [n, self.hidden];
        match given {
            None => Tensor::zeros(shape, self.cell.weight_hh.device()),
            Some(state) => of_shape(op, state, &shape),
        }
    }
}

impl Module for Single {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.cell.visit(visitor);
    }
}

/// The state, if it is of that shape.
fn of_shape<P: Float>(op: &'static str, state: &Tensor<P>, shape: &[usize]) -> Result<Tensor<P>> {
    if state.dims() == shape {
        return Ok(state.clone());
    }
    let (what, expected) = ("the state", format!("{shape:?}"));
    Err(Error::Shape { op, what, expected, found: state.raw.shape().into() })
}

fn pushed<T>(mut list: Vec<T>, item: T) -> Vec<T> {
    list.push(item);
    list
}

#[cfg(test)]
mod tests {
    use super::{Gru, Lstm, Rnn};
    use crate::testing::numbers;
    use crate::{Device, F32, Module, Result};

    #[test]
    fn dropout_stands_between_layers() -> Result<()> {
        let (d, x) = (Device::cpu(), numbers(&[2, 4, 3], 0.3).to::<F32>()?);
        let gru = Gru::stacked(3, 5, 2, true, &d)?.dropout(0.5);
        let run = || Ok::<_, crate::Error>(gru.forward(&x)?.0);
        assert!(!run()?.equal(&run()?)?);
        gru.eval();
        assert!(run()?.equal(&run()?)?);
        // Nothing reaches the second layer: it gives the same for every sequence.
        let (y, _) = Lstm::stacked(3, 5, 2, false, &d)?.dropout(1.0).forward(&x)?;
        assert!(y.select(0, 0)?.equal(&y.select(0, 1)?)?);
        let single = Rnn::new(3, 5, &d)?.dropout(0.5);
        assert!(single.forward(&x)?.0.equal(&single.forward(&x)?.0)?);
        Ok(())
    }
}
