//! Convolutions on cuDNN: which ones it can do, and the plans of those that were done before.

use crate::args::ConvArgs;
use crate::device::{Gpu, Memory};
use crate::launch::dnn::{unsupported, wants_memory};
use crate::launch::{ConvPlan, Dnn};
use crate::library::Unopened;
use crate::operand::{Operand, tag};
use amp_core::Result;
use amp_core::backend::{DType, MemoryOrder};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, PoisonError};

/// Which of a convolution's three tensors is computed from the other two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Pass {
    /// The result, with a bias or without.
    Forward { bias: bool },
    /// The image.
    Data,
    /// The kernel.
    Filter,
}

/// A convolution as cuDNN counts it: tensors `[N, C, H, W]`, all of them in row-major order or with the channels last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Convolved {
    pub pass: Pass,
    pub image: [i32; 4],
    pub kernel: [i32; 4],
    pub result: [i32; 4],
    pub stride: [i32; 2],
    pub padding: [i32; 2],
    pub dilation: [i32; 2],
    pub groups: i32,
    pub channels_last: bool,
    /// Element types of what is read and of what is written.
    pub types: [DType; 2],
}

/// Where a convolution's tensors are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tensors {
    pub image: u64,
    pub kernel: u64,
    pub result: u64,
    pub bias: u64,
    pub workspace: u64,
}

const FLOATS: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];

impl Convolved {
    /// The convolution that `args` asks for, if cuDNN can do it on the operands as they lie in memory, in that order.
    pub fn new(pass: Pass, order: MemoryOrder, args: &ConvArgs) -> Option<(Self, Tensors)> {
        let read = match pass {
            Pass::Forward { .. } => [&args.x, &args.w],
            Pass::Data => [&args.grad, &args.w],
            Pass::Filter => [&args.grad, &args.x],
        };
        let factor = *FLOATS.iter().find(|t| read.iter().all(|x| lies(x, tag(**t))))?;
        let written = *FLOATS.iter().find(|t| tag(**t) == args.out)?;
        let bias = args.bias.data != 0;
        if bias && !(pass == Pass::Forward { bias } && lies(&args.bias, args.out)) {
            return None;
        }
        let of = Self {
            pass,
            image: sizes([args.batch, args.channels, args.height, args.width])?,
            kernel: sizes([args.filters, args.channels / args.groups.max(1), args.kh, args.kw])?,
            result: sizes([args.batch, args.filters, args.oh, args.ow])?,
            stride: pair(args.stride)?,
            padding: pair(args.padding)?,
            dilation: pair(args.dilation)?,
            groups: i32::try_from(args.groups).ok()?,
            channels_last: order == MemoryOrder::ChannelsLast,
            types: [factor, written],
        };
        let (image, kernel, result) = match pass {
            Pass::Forward { .. } => (args.x.data, args.w.data, args.y),
            Pass::Data => (args.y, args.w.data, args.grad.data),
            Pass::Filter => (args.x.data, args.y, args.grad.data),
        };
        if ![image, kernel, result, args.bias.data].iter().all(|at| at.is_multiple_of(ALIGNMENT)) {
            return None;
        }
        Some((of, Tensors { image, kernel, result, bias: args.bias.data, workspace: 0 }))
    }
}

/// Sizes as cuDNN takes them; none may be 0.
fn sizes(of: [i64; 4]) -> Option<[i32; 4]> {
    let fits = of.iter().all(|&n| n > 0 && i32::try_from(n).is_ok());
    fits.then(|| of.map(|n| n as i32))
}

fn pair(of: [i64; 2]) -> Option<[i32; 2]> {
    let fits = of.iter().all(|&n| i32::try_from(n).is_ok());
    fits.then(|| of.map(|n| n as i32))
}

/// Bytes that divide the addresses of cuDNN's tensors: plans are made without addresses, for kernels that read so many at once.
pub(crate) const ALIGNMENT: u64 = 16;

/// Whether the elements lie side by side and in this type, in the order in which the operand sees them.
pub(crate) fn lies(x: &Operand, stored: i32) -> bool {
    x.stored == stored && x.rounds < 0 && x.rank == 1 && (x.shape[0] == 1 || x.strides[0] == 1)
}

/// cuDNN with the plans of convolutions done before; `None` for those that it refused.
#[derive(Debug)]
pub(crate) struct Convolutions(Mutex<State>);

#[derive(Debug)]
struct State {
    plans: HashMap<Convolved, Option<ConvPlan>>,
    dnn: Dnn,
}

impl Convolutions {
    /// Plans kept: a training step needs dozens.
    const MOST: usize = 1024;

    /// cuDNN, if it can be had; says once what it means if not.
    ///
    /// # Errors
    /// Want of memory.
    pub fn open(gpu: &Gpu) -> Result<Option<Self>> {
        match Dnn::open(gpu.shared_stream()) {
            Ok(dnn) => Ok(Some(Self(Mutex::new(State { plans: HashMap::new(), dnn })))),
            Err(Unopened::Wanting(reason)) => Err(gpu.refusal("conv2d", format!("cuDNN: {reason}"))),
            Err(Unopened::Unusable(reason)) => {
                log::warn!(
                    "{}: {reason}; convolutions run on the library's own kernels, without tensor cores but for F32 gradients in 16 bits. \
                     `AMP_CUDA_LIB_DIR` can name its folder",
                    gpu.name()
                );
                Ok(None)
            }
        }
    }

    /// Runs the convolution, or returns `false` when cuDNN has no algorithm for it that sums in a fixed order.
    pub fn convolve(&self, gpu: &Gpu, op: &'static str, of: Convolved, at: Tensors, accumulate: bool) -> Result<bool> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let State { plans, dnn } = &mut *state;
        if plans.len() >= Self::MOST {
            plans.clear();
        }
        let plan = match plans.entry(of) {
            Entry::Occupied(kept) => kept.into_mut(),
            Entry::Vacant(place) => place.insert(match dnn.plan(&of) {
                Err(e) if wants_memory(e) => return Err(gpu.refusal(op, format!("cuDNN: {e}"))),
                plan => plan.inspect_err(|e| log::debug!("cuDNN has no algorithm for {of:?}: {e}")).ok(),
            }),
        };
        let Some(plan) = plan else { return Ok(false) };
        let workspace = gpu.memory(op, plan.workspace, DType::U8)?;
        let at = Tensors { workspace: Memory::address(&workspace), ..at };
        let turn = gpu.turn(op)?;
        let done = dnn.run(plan, &at, accumulate);
        drop(turn);
        match done {
            // That there is a workspace for it does not promise that there is code.
            Err(e) if unsupported(e) => {
                log::debug!("cuDNN does not do what it planned, {of:?}: {e}");
                plans.insert(of, None);
                Ok(false)
            }
            done => done.map(|()| true).map_err(|e| gpu.refusal(op, format!("cuDNN: {e}"))),
        }
    }
}
