//! Recurrent layers.

use super::{Module, Visitor, init};
use crate::param::Parameter;
use crate::precision::{F32, Float};
use crate::tensor::Tensor;
use crate::{Device, Error, Result};

/// Parameters of one layer in one direction: as many gates as the kind of cell has, stacked.
#[derive(Debug)]
struct Cell {
    weight_ih: Parameter,
    weight_hh: Parameter,
    bias_ih: Parameter,
    bias_hh: Parameter,
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
            bias_ih: init::uniform([rows], bound, device)?,
            bias_hh: init::uniform([rows], bound, device)?,
            suffix,
            reverse,
        })
    }

    /// The inputs' part of all gates of all steps in one product, `[N, T, gates * H]`.
    #[track_caller]
    fn inputs<P: Float>(&self, x: &Tensor<P>) -> Result<Tensor<P>> {
        x.linear(&self.weight_ih.to::<P>()?, Some(&self.bias_ih.to::<P>()?))
    }

    /// The state's part of all gates of one step, `[N, gates * H]`.
    #[track_caller]
    fn hidden<P: Float>(&self, h: &Tensor<P>) -> Result<Tensor<P>> {
        h.linear(&self.weight_hh.to::<P>()?, Some(&self.bias_hh.to::<P>()?))
    }
}

/// Gate number `i` of `[N, gates * H]`, widened for the arithmetic of the cell.
#[track_caller]
fn gate<P: Float>(gates: &Tensor<P>, i: usize, hidden: usize) -> Result<Tensor<F32>> {
    gates.narrow(1, i * hidden, hidden)?.to()
}

/// Two parts of gate number `i`, added.
#[track_caller]
fn sum<P: Float>(a: &Tensor<P>, b: &Tensor<P>, i: usize, hidden: usize) -> Result<Tensor<F32>> {
    gate(a, i, hidden)? + gate(b, i, hidden)?
}

/// One kind of cell, with the states to start from. Methods and not closures, so that what they call is blamed on the
/// line that called the layer.
trait Recurrence<P: Float> {
    /// What a cell hands to itself from step to step.
    type State;

    /// The state of cell number `i` before the first step.
    #[track_caller]
    fn start(&self, i: usize) -> Result<Self::State>;

    /// Hidden state `[N, H]` and state after one step, from the inputs' part of the gates.
    #[track_caller]
    fn step(&self, cell: &Cell, from_inputs: &Tensor<P>, state: Self::State) -> Result<(Tensor<P>, Self::State)>;
}

/// All layers and directions of a recurrent network.
#[derive(Debug)]
struct Stack {
    cells: Vec<Cell>,
    inputs: usize,
    hidden: usize,
    directions: usize,
}

impl Stack {
    fn new(
        gates: usize,
        inputs: usize,
        hidden: usize,
        layers: usize,
        bidirectional: bool,
        device: &Device,
    ) -> Result<Self> {
        if layers == 0 {
            return Err(Error::argument("RNN", "layers", "at least 1", layers));
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
        Ok(Self { cells, inputs, hidden, directions })
    }

    /// Runs all layers; returns the outputs and the last state of each cell.
    #[track_caller]
    fn run<P: Float, R: Recurrence<P>>(
        &self,
        op: &'static str,
        x: &Tensor<P>,
        kind: &R,
    ) -> Result<(Tensor<P>, Vec<R::State>)> {
        let &[_, steps, inputs] = x.dims() else {
            let (what, expected) = ("the input", "3 dimensions, [N, T, inputs]");
            return Err(Error::Rank { op, what, expected, found: x.raw.shape().into() });
        };
        if inputs != self.inputs || steps == 0 {
            let expected = format!("[N, T, {}] with T at least 1", self.inputs);
            return Err(Error::Shape { op, what: "the input", expected, found: x.raw.shape().into() });
        }
        let (mut x, mut ends) = (x.clone(), Vec::new());
        for (layer, cells) in self.cells.chunks(self.directions).enumerate() {
            let mut sides = Vec::new();
            for (d, cell) in cells.iter().enumerate() {
                let gates = cell.inputs(&x)?;
                let mut state = kind.start(layer * self.directions + d)?;
                let mut outputs = Vec::with_capacity(steps);
                for t in 0..steps {
                    let t = if cell.reverse { steps - 1 - t } else { t };
                    let (h, next) = kind.step(cell, &gates.select(1, t)?, state)?;
                    (state, outputs) = (next, pushed(outputs, h));
                }
                if cell.reverse {
                    outputs.reverse();
                }
                sides.push(Tensor::stack(&outputs.iter().collect::<Vec<_>>(), 1)?);
                ends.push(state);
            }
            x = Tensor::cat(&sides.iter().collect::<Vec<_>>(), 2)?;
        }
        Ok((x, ends))
    }

    /// States of all layers and directions, `[layers * directions, N, H]`, or zeros.
    fn state<P: Float>(&self, op: &'static str, x: &Tensor<P>, given: Option<&Tensor<P>>) -> Result<Tensor<P>> {
        let n = x.dims().first().copied().unwrap_or(0);
        let shape = [self.cells.len(), n, self.hidden];
        match given {
            None => Tensor::zeros(shape, x.device()),
            Some(state) if state.dims() == shape => Ok(state.clone()),
            Some(state) => {
                let (what, expected) = ("the state", format!("{shape:?}"));
                Err(Error::Shape { op, what, expected, found: state.raw.shape().into() })
            }
        }
    }

    fn visit(&self, visitor: &mut Visitor<'_>) {
        for cell in &self.cells {
            let parts = [
                ("weight_ih", &cell.weight_ih),
                ("weight_hh", &cell.weight_hh),
                ("bias_ih", &cell.bias_ih),
                ("bias_hh", &cell.bias_hh),
            ];
            for (name, parameter) in parts {
                visitor.field(&format!("{name}{}", cell.suffix), parameter);
            }
        }
    }
}

fn pushed<T>(mut list: Vec<T>, item: T) -> Vec<T> {
    list.push(item);
    list
}

/// Long short-term memory (`torch.nn.LSTM`, batch first).
#[derive(Debug)]
pub struct Lstm(Stack);

/// Where an LSTM stands after a sequence; both `[layers * directions, N, H]`.
#[derive(Clone, Debug)]
pub struct LstmState<P: Float> {
    /// Hidden states.
    pub h: Tensor<P>,
    /// Cell states: sums over many steps, in F32.
    pub c: Tensor<F32>,
}

impl<P: Float> LstmState<P> {
    /// The same values out of the graph: what follows starts from them, and its gradients end there (truncated
    /// back-propagation). A [`Gru`]'s state is a tensor, which has [`Tensor::detach`].
    pub fn detach(&self) -> Self {
        Self { h: self.h.detach(), c: self.c.detach() }
    }

    /// The hidden states in another precision, as by [`Tensor::to`].
    #[track_caller]
    pub fn to<Q: Float>(&self) -> Result<LstmState<Q>> {
        Ok(LstmState { h: self.h.to()?, c: self.c.clone() })
    }
}

impl Lstm {
    /// One layer; parameters are uniform in `±1 / sqrt(hidden)`.
    pub fn new(inputs: usize, hidden: usize, device: &Device) -> Result<Self> {
        Self::stacked(inputs, hidden, 1, false, device)
    }

    /// Several layers, each optionally in both directions.
    pub fn stacked(inputs: usize, hidden: usize, layers: usize, both: bool, device: &Device) -> Result<Self> {
        Ok(Self(Stack::new(4, inputs, hidden, layers, both, device)?))
    }

    /// `[N, T, inputs]` to `[N, T, directions * H]` and the last state, starting from zeros.
    ///
    /// # Precision
    /// Products in the precision of `x`; gates and cell states in F32.
    #[track_caller]
    pub fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<(Tensor<P>, LstmState<P>)> {
        self.run(x, None)
    }

    /// As [`forward`](Self::forward), going on from `state`.
    #[track_caller]
    pub fn forward_from<P: Float>(&self, x: &Tensor<P>, state: &LstmState<P>) -> Result<(Tensor<P>, LstmState<P>)> {
        self.run(x, Some(state))
    }

    #[track_caller]
    fn run<P: Float>(&self, x: &Tensor<P>, from: Option<&LstmState<P>>) -> Result<(Tensor<P>, LstmState<P>)> {
        const OP: &str = "Lstm";
        let h = self.0.state(OP, x, from.map(|s| &s.h))?;
        let c = self.0.state(OP, &x.to::<F32>()?, from.map(|s| &s.c))?;
        let (y, ends) = self.0.run(OP, x, &LstmState { h, c })?;
        let h = Tensor::stack(&ends.iter().map(|(h, _)| h).collect::<Vec<_>>(), 0)?;
        let c = Tensor::stack(&ends.iter().map(|(_, c)| c).collect::<Vec<_>>(), 0)?;
        Ok((y, LstmState { h, c }))
    }
}

impl<P: Float> Recurrence<P> for LstmState<P> {
    type State = (Tensor<P>, Tensor<F32>);

    #[track_caller]
    fn start(&self, i: usize) -> Result<Self::State> {
        Ok((self.h.select(0, i)?, self.c.select(0, i)?))
    }

    #[track_caller]
    fn step(&self, cell: &Cell, from_inputs: &Tensor<P>, (h, c): Self::State) -> Result<(Tensor<P>, Self::State)> {
        let (from_state, width) = (cell.hidden(&h)?, c.dims()[1]);
        let keep_in = sum(from_inputs, &from_state, 0, width)?.sigmoid()?;
        let keep_old = sum(from_inputs, &from_state, 1, width)?.sigmoid()?;
        let new = sum(from_inputs, &from_state, 2, width)?.tanh()?;
        let out = sum(from_inputs, &from_state, 3, width)?.sigmoid()?;
        let c = ((keep_old * c)? + (keep_in * new)?)?;
        let h = (out * c.tanh()?)?.to::<P>()?;
        Ok((h.clone(), (h, c)))
    }
}

/// Gated recurrent unit (`torch.nn.GRU`, batch first).
#[derive(Debug)]
pub struct Gru(Stack);

impl Gru {
    /// One layer; parameters are uniform in `±1 / sqrt(hidden)`.
    pub fn new(inputs: usize, hidden: usize, device: &Device) -> Result<Self> {
        Self::stacked(inputs, hidden, 1, false, device)
    }

    /// Several layers, each optionally in both directions.
    pub fn stacked(inputs: usize, hidden: usize, layers: usize, both: bool, device: &Device) -> Result<Self> {
        Ok(Self(Stack::new(3, inputs, hidden, layers, both, device)?))
    }

    /// `[N, T, inputs]` to `[N, T, directions * H]` and the last states `[layers * directions, N, H]`, from zeros.
    ///
    /// # Precision
    /// Products in the precision of `x`; gates in F32.
    #[track_caller]
    pub fn forward<P: Float>(&self, x: &Tensor<P>) -> Result<(Tensor<P>, Tensor<P>)> {
        self.run(x, None)
    }

    /// As [`forward`](Self::forward), going on from `state`.
    #[track_caller]
    pub fn forward_from<P: Float>(&self, x: &Tensor<P>, state: &Tensor<P>) -> Result<(Tensor<P>, Tensor<P>)> {
        self.run(x, Some(state))
    }

    #[track_caller]
    fn run<P: Float>(&self, x: &Tensor<P>, from: Option<&Tensor<P>>) -> Result<(Tensor<P>, Tensor<P>)> {
        const OP: &str = "Gru";
        let (y, ends) = self.0.run(OP, x, &GruState(self.0.state(OP, x, from)?))?;
        Ok((y, Tensor::stack(&ends.iter().collect::<Vec<_>>(), 0)?))
    }
}

/// Hidden states to start from, `[layers * directions, N, H]`.
struct GruState<P: Float>(Tensor<P>);

impl<P: Float> Recurrence<P> for GruState<P> {
    type State = Tensor<P>;

    #[track_caller]
    fn start(&self, i: usize) -> Result<Tensor<P>> {
        self.0.select(0, i)
    }

    #[track_caller]
    fn step(&self, cell: &Cell, from_inputs: &Tensor<P>, h: Tensor<P>) -> Result<(Tensor<P>, Tensor<P>)> {
        let (from_state, width) = (cell.hidden(&h)?, h.dims()[1]);
        let reset = sum(from_inputs, &from_state, 0, width)?.sigmoid()?;
        let keep = sum(from_inputs, &from_state, 1, width)?.sigmoid()?;
        let new = (gate(from_inputs, 2, width)? + (reset * gate(&from_state, 2, width)?)?)?.tanh()?;
        let change = (keep * (h.to::<F32>()? - &new)?)?;
        let h = (new + change)?.to::<P>()?;
        Ok((h.clone(), h))
    }
}

impl Module for Lstm {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.0.visit(visitor);
    }
}

impl Module for Gru {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        self.0.visit(visitor);
    }
}
