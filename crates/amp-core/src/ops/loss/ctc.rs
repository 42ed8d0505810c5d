//! Connectionist temporal classification: the probability of all alignments of labels with steps.

use super::{LossReduction, reduced};
use crate::autograd::{Pass, record};
use crate::memory::filled;
use crate::ops::kernel::binary;
use crate::precision::{Float, I64, full_range};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result};
use amp_cpu::{Binary, DType, Dims, Layout, Storage};

full_range! {
    CtcPrecision, "`ctc_loss` must run in `F32`";
}

const OP: &str = "ctc_loss";
const NEVER: f64 = f64::NEG_INFINITY;

/// `ln(e^a + e^b)`.
fn either(a: f64, b: f64) -> f64 {
    // A NaN is the greater.
    let (most, least) = if a > b || a.is_nan() { (a, b) } else { (b, a) };
    if most == NEVER { NEVER } else { most + (least - most).exp().ln_1p() }
}

/// The log-probabilities `[T, N, C]` of one sequence.
struct Sequence<'a> {
    data: &'a [f64],
    /// Elements from a step to the next, and before this sequence.
    stride: usize,
    start: usize,
    steps: usize,
    /// The labels with a blank before, between and after them.
    states: Vec<usize>,
    blank: usize,
}

impl Sequence<'_> {
    fn at(&self, step: usize, state: usize) -> f64 {
        self.data[step * self.stride + self.start + self.states[state]]
    }

    /// Whether one may come to `state` from the one before the blank before it.
    fn leaps(&self, state: usize) -> bool {
        state > 1 && self.states[state] != self.blank && self.states[state] != self.states[state - 2]
    }

    /// Log-probabilities of all ways to each state at each step.
    fn forward(&self) -> Vec<f64> {
        let count = self.states.len();
        let mut ways = vec![NEVER; self.steps * count];
        for step in 0..self.steps {
            for state in 0..count {
                let before = match step {
                    0 if state < 2 => 0.0,
                    0 => NEVER,
                    _ => {
                        let last = &ways[(step - 1) * count..step * count];
                        let near = if state > 0 { either(last[state], last[state - 1]) } else { last[state] };
                        if self.leaps(state) { either(near, last[state - 2]) } else { near }
                    }
                };
                ways[step * count + state] = before + self.at(step, state);
            }
        }
        ways
    }

    /// Log-probabilities of all ways from each state at each step to the end, without the step itself.
    fn backward(&self) -> Vec<f64> {
        let count = self.states.len();
        let mut ways = vec![NEVER; self.steps * count];
        for step in (0..self.steps).rev() {
            for state in 0..count {
                let next = |to: usize| ways[(step + 1) * count + to] + self.at(step + 1, to);
                ways[step * count + state] = match step + 1 == self.steps {
                    true if state + 2 >= count => 0.0,
                    true => NEVER,
                    false => {
                        let near = if state + 1 < count { either(next(state), next(state + 1)) } else { next(state) };
                        if state + 2 < count && self.leaps(state + 2) { either(near, next(state + 2)) } else { near }
                    }
                };
            }
        }
        ways
    }

    fn loss(&self, ways: &[f64]) -> f64 {
        let Some(first) = self.steps.checked_sub(1).map(|last| last * self.states.len()) else {
            return if self.states.len() == 1 { 0.0 } else { f64::INFINITY };
        };
        let last = &ways[first..];
        -last.iter().rev().take(2).fold(NEVER, |all, &way| either(all, way))
    }

    /// Subtracts from `slopes` the share of each class in the ways at each step.
    fn shares(&self, loss: f64, ways: &[f64], slopes: &mut [f64]) {
        let (count, rest) = (self.states.len(), self.backward());
        for (i, (way, rest)) in ways.iter().zip(&rest).enumerate() {
            let (step, state) = (i / count, i % count);
            slopes[step * self.stride + self.start + self.states[state]] -= (way + rest + loss).exp();
        }
    }
}

/// What is checked and on the host.
struct Batch {
    data: Vec<f64>,
    /// Steps, sequences and classes.
    sizes: [usize; 3],
    labels: Vec<usize>,
    inputs: Vec<usize>,
    targets: Vec<usize>,
    blank: usize,
    /// Sequences that no way leads through cost nothing.
    forgiving: bool,
}

impl Batch {
    fn sequence(&self, n: usize) -> Sequence<'_> {
        let [_, count, classes] = self.sizes;
        let longest = self.labels.len() / count.max(1);
        let own = &self.labels[n * longest..][..self.targets[n]];
        let states = std::iter::once(self.blank).chain(own.iter().flat_map(|&label| [label, self.blank])).collect();
        let (stride, start) = (count * classes, n * classes);
        Sequence { data: &self.data, stride, start, steps: self.inputs[n], states, blank: self.blank }
    }

    fn losses(&self) -> Vec<f64> {
        let loss = |n| {
            let sequence = self.sequence(n);
            sequence.loss(&sequence.forward())
        };
        (0..self.sizes[1]).map(loss).map(|loss| if self.forgives(loss) { 0.0 } else { loss }).collect()
    }

    fn forgives(&self, loss: f64) -> bool {
        self.forgiving && loss == f64::INFINITY
    }

    fn slopes(&self) -> Result<Vec<f64>> {
        let mut slopes = filled(OP, self.data.len(), 0.0)?;
        for n in 0..self.sizes[1] {
            let sequence = self.sequence(n);
            let ways = sequence.forward();
            let loss = sequence.loss(&ways);
            if !self.forgives(loss) {
                sequence.shares(loss, &ways, &mut slopes);
            }
        }
        Ok(slopes)
    }
}

fn doubles(x: &RawTensor) -> Result<Vec<f64>> {
    match x.cast_view(DType::F64)?.contiguous()?.to_storage()? {
        Storage::F64(data) => Ok(data.into_vec()),
        _ => unreachable!("cast to F64"),
    }
}

fn uploaded(beside: &RawTensor, data: Vec<f64>, shape: Dims) -> Result<RawTensor> {
    let buffer = beside.backend().upload(Storage::F64(data.into()))?;
    RawTensor::new(beside.device(), buffer, shape).cast_view(beside.logical)
}

/// Lengths from 0 to `most`, one for each sequence.
fn check_lengths(what: &'static str, lengths: &[usize], count: usize, most: usize) -> Result<()> {
    if lengths.len() != count {
        return Err(Error::argument(OP, what, format!("{count} lengths, one for each sequence"), lengths.len()));
    }
    match lengths.iter().find(|&&length| length > most) {
        Some(length) => Err(Error::argument(OP, what, format!("at most {most}, which there are"), length)),
        None => Ok(()),
    }
}

fn batch<P: Float>(
    x: &Tensor<P>,
    labels: &Tensor<I64>,
    (inputs, targets): (&[usize], &[usize]),
    (blank, forgiving): (usize, bool),
) -> Result<Batch> {
    let (&[steps, count, classes], &[rows, longest]) = (x.dims(), labels.dims()) else {
        let (what, shape) =
            if x.rank() == 3 { ("the target", labels.raw.shape()) } else { ("the input", x.raw.shape()) };
        let expected = if x.rank() == 3 { "2 dimensions, [N, S]" } else { "3 dimensions, [T, N, C]" };
        return Err(Error::Rank { op: OP, what, expected, found: shape.into() });
    };
    if rows != count {
        let (expected, found) = (format!("[{count}, S]"), labels.raw.shape().into());
        return Err(Error::Shape { op: OP, what: "the target", expected, found });
    }
    if blank >= classes {
        return Err(Error::argument(OP, "blank", format!("one of the {classes} classes"), blank));
    }
    check_lengths("the lengths of the inputs", inputs, count, steps)?;
    check_lengths("the lengths of the targets", targets, count, longest)?;
    let mut given = labels.to_vec()?;
    for (i, label) in given.iter_mut().enumerate() {
        // Labels behind the target of a shorter sequence are padding.
        if i % longest.max(1) >= targets[i / longest.max(1)] {
            *label = 0;
        } else if usize::try_from(*label).ok().is_none_or(|label| label >= classes) {
            return Err(Error::IndexOutOfRange { op: OP, index: *label, size: classes });
        }
    }
    let labels = given.into_iter().map(|label| label as usize).collect();
    let (inputs, targets) = (inputs.to_vec(), targets.to_vec());
    Ok(Batch { data: doubles(&x.raw)?, sizes: [steps, count, classes], labels, inputs, targets, blank, forgiving })
}

/// The loss of each sequence.
#[track_caller]
fn each(x: &RawTensor, batch: &Batch) -> Result<RawTensor> {
    let shape = Dims::new(&[batch.sizes[1]]).expect("one dimension");
    let losses = uploaded(x, batch.losses(), shape)?;
    record(OP, &[x], losses, |_| {
        let slopes = uploaded(x, batch.slopes()?, *x.shape())?;
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let grad = pass.grad().contiguous()?;
            let column = Dims::new(&[grad.layout.count(), 1]).expect("two dimensions");
            let grad = grad.with_layout(Layout { offset: grad.layout.offset, ..Layout::contiguous(column) });
            pass.give(0, binary(OP, Binary::Mul, &slopes, &grad, pass.dtype(0))?)
        }))
    })
}

impl<P: Float> Tensor<P> {
    /// Mean loss of log-probabilities `[T, N, C]` of classes at each step of each sequence and of `labels` `[N, S]`, which
    /// come in this order at any of the steps, apart from `blank` (`F.ctc_loss`). `inputs` and `targets` are the lengths of
    /// the sequences and of their labels. Each loss is divided by the number of its labels.
    ///
    /// # Precision
    /// Computed in F64 by the host, rounded once: a GPU is waited for.
    ///
    /// # Errors
    /// [`Error::Argument`] for lengths that do not fit, [`Error::IndexOutOfRange`] for a label that is no class.
    #[track_caller]
    pub fn ctc_loss(
        &self,
        labels: &Tensor<I64>,
        inputs: impl AsRef<[usize]>,
        targets: impl AsRef<[usize]>,
        blank: usize,
    ) -> Result<Self>
    where
        P: CtcPrecision,
    {
        self.ctc_loss_with(labels, inputs, targets, blank, false, LossReduction::Mean)
    }

    /// [`ctc_loss`](Self::ctc_loss), where sequences too short for their labels cost nothing if `zero_infinity`, with another
    /// reduction.
    ///
    /// # Errors
    /// As [`ctc_loss`](Self::ctc_loss).
    #[track_caller]
    pub fn ctc_loss_with(
        &self,
        labels: &Tensor<I64>,
        inputs: impl AsRef<[usize]>,
        targets: impl AsRef<[usize]>,
        blank: usize,
        zero_infinity: bool,
        reduction: LossReduction,
    ) -> Result<Self>
    where
        P: CtcPrecision,
    {
        self.device().check_same(labels.device(), OP)?;
        let batch = batch(self, labels, (inputs.as_ref(), targets.as_ref()), (blank, zero_infinity))?;
        let losses = Self::from_raw(each(&self.raw, &batch)?);
        if reduction != LossReduction::Mean {
            return reduced(losses, reduction);
        }
        let lengths: Vec<f64> = batch.targets.iter().map(|&length| length.max(1) as f64).collect();
        let shape = *losses.raw.shape();
        losses.div(Self::from_raw(uploaded(&self.raw, lengths, shape)?))?.mean_all()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, F64, I64, LossReduction, Result, Tensor, gradcheck};

    fn logits(shape: [usize; 3]) -> Tensor<F64> {
        let value = |i: &[usize]| (i.iter().fold(1, |all, i| all * 7 + i) as f64 * 0.83).sin();
        Tensor::from_fn(shape, value, &Device::cpu()).unwrap()
    }

    fn labels(data: &[i64], shape: [usize; 2]) -> Tensor<I64> {
        Tensor::from_slice(data, shape, &Device::cpu()).unwrap()
    }

    #[test]
    fn gradients_agree_with_differences() {
        let (x, t) = ([logits([5, 2, 4])], labels(&[1, 1, 3, 2, 3, 0], [2, 3]));
        for reduction in [LossReduction::Mean, LossReduction::Sum, LossReduction::None] {
            let worst = gradcheck(|x| x[0].ctc_loss_with(&t, [5, 4], [3, 2], 0, false, reduction), &x).unwrap();
            assert!(worst.agrees(), "{reduction:?}: {worst:?}");
        }
    }

    #[test]
    fn all_ways_are_summed() -> Result<()> {
        // Of two steps, one label: it and a blank, a blank and it, it twice.
        let x = logits([2, 1, 3]).log_softmax(-1)?;
        let p = x.exp()?.to_vec()?;
        let truth = -(p[1] * p[3] + p[0] * p[4] + p[1] * p[4]).ln();
        let loss = x.ctc_loss(&labels(&[1], [1, 1]), [2], [1], 0)?.item()?;
        assert!((loss - truth).abs() < 1e-12, "{loss} is not {truth}");
        Ok(())
    }

    #[test]
    fn too_few_steps() -> Result<()> {
        let (x, t) = (logits([2, 1, 3]).tracked(), labels(&[1, 1], [1, 2]));
        assert_eq!(x.ctc_loss(&t, [2], [2], 0)?.item()?, f64::INFINITY);
        let loss = x.ctc_loss_with(&t, [2], [2], 0, true, LossReduction::Mean)?;
        assert_eq!(loss.item()?, 0.0);
        assert!(loss.backward()?.get(&x)?.unwrap().to_vec()?.iter().all(|&slope| slope == 0.0));
        Ok(())
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let (x, t) = (logits([2, 1, 3]), labels(&[1, 3], [1, 2]));
        let text = |result: Result<Tensor<F64>>| result.unwrap_err().to_string();
        assert_eq!(text(x.ctc_loss(&t, [2], [2], 0)), "ctc_loss: index 3 is out of range for size 3");
        assert_eq!(text(x.ctc_loss(&t, [2], [1], 3)), "ctc_loss: blank must be one of the 3 classes, found 3");
        assert_eq!(
            text(x.ctc_loss(&t, [3], [1], 0)),
            "ctc_loss: the lengths of the inputs must be at most 2, which there are, found 3"
        );
        assert!(text(x.ctc_loss(&t, [2, 2], [1], 0)).contains("1 lengths, one for each sequence"));
        assert!(text(x.select(1, 0).and_then(|x| x.ctc_loss(&t, [2], [1], 0))).contains("3 dimensions"));
    }

    #[test]
    fn nan_is_not_lost_beside_what_is_impossible() -> Result<()> {
        let mut data = [-1.0; 6];
        data[1] = f64::NAN;
        let x = Tensor::<F64>::from_slice(&data, [2, 1, 3], &Device::cpu())?.tracked();
        let loss = x.ctc_loss(&labels(&[1], [1, 1]), [2], [1], 0)?;
        assert!(loss.item()?.is_nan());
        for pair in [(f64::NAN, super::NEVER), (super::NEVER, f64::NAN)] {
            assert!(super::either(pair.0, pair.1).is_nan());
        }
        Ok(())
    }
}
