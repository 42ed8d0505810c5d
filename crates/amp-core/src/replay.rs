//! Whole steps as CUDA graphs: recorded once, done again and again without the host's work.

use crate::backend::{Buffer, Replay};
use crate::optim::Step;
use crate::precision::Element;
use crate::random::{RandomState, drawn, random_state, reserve, take_back};
use crate::raw::{RawTensor, Value};
use crate::shape::check_same;
use crate::tensor::Tensor;
use crate::{Device, Error, Result};
use std::array;
use std::fmt;
use std::sync::Arc;

/// A step that a GPU does as a whole (`torch.cuda.CUDAGraph`).
///
/// [`capture`](Self::capture) runs the step's code once and records what it launches; [`replay`](Self::replay) does the
/// recorded work, without running the code. What the step changes in place changes with every replay as with every call
/// of the code, bit for bit: parameters, optimizers' state, running statistics, averages, the loss scale with its growth
/// and its skipped steps, and dropout's masks, which follow the global random stream.
///
/// Learning rates and weight decays may change between replays: [`Schedule::step`](crate::optim::Schedule::step) takes the
/// step that a replay returns. What else the code decided on the host is decided once and for all: shapes, branches, the
/// memory that a parameter had (after [`Parameter::set`](crate::Parameter::set) or loading a checkpoint, capture anew). Errors that
/// [`GradScaler::update`](crate::GradScaler::update) would report are not; [`GradScaler::state`](crate::GradScaler::state)
/// tells of refused backoffs.
///
/// ```no_run
/// use amp_core::cuda::{Graph, Input};
/// use amp_core::{Device, F16, F32, GradScaler, Module, Tensor, nn::Linear, optim::AdamW};
/// let device = Device::cuda(0)?;
/// let net = Linear::new(8, 1, &device)?;
/// let mut optimizer = AdamW::new(net.parameters(), 1e-3);
/// let mut scaler = GradScaler::new(&device)?;
/// let x = Input::new(&Tensor::<F32>::zeros([32, 8], &device)?)?;
/// let mut step = || {
///     let loss = net.forward(&x.tensor().to::<F16>()?)?.to::<F32>()?.mean_all()?;
///     let grads = scaler.scale(&loss)?.backward()?;
///     scaler.step(&mut optimizer, grads)?;
///     scaler.update()?;
///     Ok(loss)
/// };
/// // Once or twice as it is, so that everything that outlives a step is there.
/// step()?;
/// step()?;
/// let graph = Graph::capture(&device, step)?;
/// for _ in 0..1000 {
///     x.set(&Tensor::<F32>::randn([32, 8], &device)?)?;
///     let loss = graph.replay()?;
///     # drop(loss);
/// }
/// # Ok::<_, amp_core::Error>(())
/// ```
pub struct Graph<T> {
    work: Box<dyn Replay>,
    /// How far a replay moves the random stream.
    draws: u64,
    results: T,
}

impl<T: Results> Graph<T> {
    /// Records what `step` launches on `device`. Nothing of it is done yet.
    ///
    /// The step must have been taken before, so that everything that outlives it is there (an optimizer's state, 16-bit
    /// copies of weights). Memory that it makes, and memory that it uses, is kept for the graph. Meanwhile other threads
    /// can launch nothing on the device.
    ///
    /// # Errors
    /// [`Error::Backend`] on a device without graphs, when the step waits for the device (reading a tensor or
    /// [`Step::was_taken`], for example), and when it makes tensors that outlive it without being its results. Whatever
    /// the error, what was recorded up to then has been done once, as if the step had been taken outside of a capture.
    pub fn capture(device: &Device, step: impl FnOnce() -> Result<T>) -> Result<Self> {
        let recording = Recording::begin(device)?;
        let before = drawn();
        let results = step()?.detached();
        let end = random_state();
        let start = recording.start;
        let own = drawn().wrapping_sub(before);
        // With what others drew meanwhile, which lies between the step's own draws.
        let moved = end.offset.wrapping_sub(start.offset);
        let draws = if own == 0 { 0 } else { moved };
        let work = recording.end()?;
        let checked = check(&*work, &results, device).and_then(|()| match end.seed == start.seed {
            true => Ok(()),
            false => Err(refusal(device, "the step seeds the random generator anew".into())),
        });
        match checked {
            Ok(()) => {
                // What others drew is theirs.
                if own == moved {
                    take_back(start, end);
                }
                Ok(Self { work, draws, results })
            }
            Err(error) => work.replay(start).and(Err(error)),
        }
    }

    /// Does the step once more and returns its results, in memory that the next replay overwrites. Does not wait for the
    /// device.
    pub fn replay(&self) -> Result<T> {
        self.work.replay(reserve(self.draws as usize))?;
        Ok(self.results.detached())
    }
}

impl<T> fmt::Debug for Graph<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.work.fmt(f)
    }
}

fn refusal(device: &Device, message: String) -> Error {
    Error::Backend { op: "Graph", device: device.name().into(), message }
}

fn check<T: Results>(work: &dyn Replay, results: &T, device: &Device) -> Result<()> {
    let mut buffers = Vec::new();
    results.visit(&mut |buffer| buffers.push(buffer.clone()));
    let (outliving, bytes) = work.outliving(&buffers.iter().collect::<Vec<_>>());
    if outliving == 0 {
        return Ok(());
    }
    let message = format!(
        "{outliving} tensors made by the step outlive it ({bytes} bytes with its results), and every replay would make them \
         anew; take the step twice before capturing it, and return what is to be read"
    );
    Err(refusal(device, message))
}

/// A recording that runs. Dropped before its end, by an error or a panic, it does what was recorded.
struct Recording<'a> {
    device: &'a Device,
    start: RandomState,
    over: bool,
}

impl<'a> Recording<'a> {
    fn begin(device: &'a Device) -> Result<Self> {
        let start = random_state();
        device.backend().begin_recording(start)?;
        Ok(Self { device, start, over: false })
    }

    fn end(mut self) -> Result<Box<dyn Replay>> {
        self.over = true;
        self.device.backend().end_recording()
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if !self.over
            && let Err(error) = self.device.backend().end_recording().and_then(|work| work.replay(self.start))
        {
            log::warn!("what was captured before an error is lost: {error}");
        }
    }
}

/// A tensor at a place that graphs read, to be filled before each replay.
///
/// Unlike other tensors, every handle of it changes with [`set`](Self::set).
#[derive(Debug)]
pub struct Input<P: Element> {
    tensor: Tensor<P>,
}

impl<P: Element> Input<P> {
    /// A place for tensors of this shape on its device, filled with `start`.
    pub fn new(start: &Tensor<P>) -> Result<Self> {
        let raw = &start.raw;
        let buffer = raw.backend().copy(raw.operand()?, P::DTYPE)?;
        Ok(Self { tensor: Tensor::from_raw(RawTensor::new(raw.device(), buffer, *raw.shape())) })
    }

    /// The tensor for the step to read.
    pub fn tensor(&self) -> Tensor<P> {
        self.tensor.clone()
    }

    /// Overwrites the elements, in the order of the device's work and without waiting for it.
    ///
    /// # Errors
    /// [`Error::Shape`] when the shapes differ.
    pub fn set(&self, tensor: &Tensor<P>) -> Result<()> {
        let own = &self.tensor.raw;
        check_same("set", "the new value", own.shape(), tensor.dims())?;
        let mut from = tensor.raw.to_device(own.device())?;
        // A view of this place would be read while it is written, and by each of the copies anew.
        if own.value.copies().any(|buffer| from.value.copies().any(|source| source.ptr_eq(buffer))) {
            let copy = own.backend().copy(from.operand()?, P::DTYPE)?;
            from = RawTensor::new(own.device(), copy, *own.shape());
        }
        own.value.copies().try_for_each(|buffer| own.backend().overwrite(from.operand()?, buffer))
    }
}

/// What a captured step may return: tensors, a [`Step`], nothing, and tuples, arrays and vectors of those.
pub trait Results: Sized {
    /// The same values without the graph that they come from, in handles of their own.
    #[doc(hidden)]
    fn detached(&self) -> Self;

    /// Every buffer.
    #[doc(hidden)]
    fn visit(&self, visit: &mut dyn FnMut(&Buffer));
}

impl Results for () {
    fn detached(&self) -> Self {}

    fn visit(&self, _: &mut dyn FnMut(&Buffer)) {}
}

impl<P: Element> Results for Tensor<P> {
    fn detached(&self) -> Self {
        let raw = self.raw.detached();
        let value = Value::new(raw.device().clone(), raw.value.buffer.clone(), false);
        Self::from_raw(RawTensor { value: Arc::new(value), ..raw })
    }

    fn visit(&self, visit: &mut dyn FnMut(&Buffer)) {
        visit(&self.raw.value.buffer);
    }
}

impl Results for Step {
    fn detached(&self) -> Self {
        self.clone()
    }

    fn visit(&self, visit: &mut dyn FnMut(&Buffer)) {
        self.flag().into_iter().for_each(|skip| visit(skip.buffer()));
    }
}

impl<T: Results> Results for Vec<T> {
    fn detached(&self) -> Self {
        self.iter().map(T::detached).collect()
    }

    fn visit(&self, visit: &mut dyn FnMut(&Buffer)) {
        self.iter().for_each(|result| result.visit(visit));
    }
}

impl<T: Results, const N: usize> Results for [T; N] {
    fn detached(&self) -> Self {
        array::from_fn(|i| self[i].detached())
    }

    fn visit(&self, visit: &mut dyn FnMut(&Buffer)) {
        self.iter().for_each(|result| result.visit(visit));
    }
}

macro_rules! tuples {
    ($($($name:ident $index:tt),*;)*) => { $(
        impl<$($name: Results),*> Results for ($($name,)*) {
            fn detached(&self) -> Self {
                ($(self.$index.detached(),)*)
            }

            fn visit(&self, visit: &mut dyn FnMut(&Buffer)) {
                $(self.$index.visit(visit);)*
            }
        }
    )* };
}
tuples! {
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
}
