//! One GPU: its context, stream, kernels and memory.

use crate::args::{Args, PutArgs};
use crate::checks::Checks;
use crate::convolve::Convolutions;
use crate::error;
use crate::launch::{self, Argument, Notice, Notices, Plain};
use crate::library::Library;
use crate::module::{Family, Modules};
use crate::operand::{Compute, size};
use crate::product::Products;
use crate::record::{Recorder, Region, Turn};
use amp_core::backend::{Buffer, DType, DeviceBuffer};
use amp_core::{Error, Result};
use cudarc::driver::sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
use cudarc::driver::{CudaContext, CudaStream};
use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock, Weak};

/// Threads of a block, unless a kernel wants otherwise; `THREADS` of `common.cuh`.
pub(crate) const THREADS: u32 = 256;

/// The first compute capability whose tensor cores multiply BF16. On others cuBLASLt refuses, and `kernels/matmul.cu` does it.
const BF16_ARITHMETIC: (i32, i32) = (8, 0);

/// A GPU that kernels run on, one after the other.
pub struct Gpu {
    index: usize,
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    modules: Modules,
    multiprocessors: u64,
    products: Library<Products>,
    convolutions: Library<Convolutions>,
    notices: OnceLock<Option<Arc<Notices>>>,
    recorder: Arc<Recorder>,
    this: Weak<Self>,
    pub(crate) checks: Checks,
}

impl Gpu {
    /// Opens GPU number `index`.
    ///
    /// # Errors
    /// [`Error::DeviceUnavailable`] with the reason: no driver, too old a driver, no such GPU, too old a GPU.
    pub(crate) fn open(index: usize) -> Result<Arc<Self>> {
        let unavailable = |reason: String| Error::DeviceUnavailable { device: format!("cuda:{index}"), reason };
        let driver = |e| unavailable(error::text(&e));
        let version = crate::library::driver().map_err(unavailable)?;
        let count = CudaContext::device_count().map_err(driver)?;
        if index >= count as usize {
            return Err(unavailable(format!("the driver sees {count} GPUs")));
        }
        let (context, stream) = launch::open(index).map_err(driver)?;
        let capability = context.compute_capability().map_err(driver)?;
        let modules = Modules::new(capability, version).map_err(unavailable)?;
        let multiprocessors = context.attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT).map_err(driver)? as u64;
        log::info!(
            "cuda:{index} is {}, compute capability {}.{}",
            context.name().map_err(driver)?,
            capability.0,
            capability.1
        );
        if capability < BF16_ARITHMETIC {
            log::warn!(
                "cuda:{index} has no BF16 arithmetic (compute capability 8.0): products of BF16 are slow, use F16"
            );
        }
        if !modules.can_run(Family::FlashAttention) {
            log::warn!("cuda:{index}: attention runs on kernels that do not use tensor cores (compute capability 8.0)");
        }
        Ok(Arc::new_cyclic(|this| Self {
            index,
            context,
            stream,
            modules,
            multiprocessors,
            products: Library::default(),
            convolutions: Library::default(),
            notices: OnceLock::new(),
            recorder: Arc::default(),
            this: this.clone(),
            checks: Checks::default(),
        }))
    }

    pub(crate) fn name(&self) -> String {
        format!("cuda:{}", self.index)
    }

    pub(crate) fn refusal(&self, op: &'static str, message: String) -> Error {
        Error::Backend { op, device: self.name().into(), message }
    }

    /// The device itself, to be kept.
    pub(crate) fn handle(&self) -> Arc<Self> {
        self.this.upgrade().expect("a device is made within its `Arc`")
    }

    pub(crate) fn recorder(&self) -> &Arc<Recorder> {
        &self.recorder
    }

    /// The right to give the stream work; an error while another thread records.
    pub(crate) fn turn(&self, op: &'static str) -> Result<Turn<'_>> {
        self.recorder.turn().map_err(|reason| self.refusal(op, reason))
    }

    /// Host memory that kernels write to, if it can be had.
    pub(crate) fn notices(&self) -> Option<&Arc<Notices>> {
        self.notices.get_or_init(|| Notices::new(&self.context).map(Arc::new).ok()).as_ref()
    }

    /// Free and total bytes.
    pub(crate) fn free_memory(&self) -> Option<(usize, usize)> {
        self.context.mem_get_info().ok()
    }

    pub(crate) fn stream(&self) -> &CudaStream {
        &self.stream
    }

    pub(crate) fn shared_stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// cuBLASLt, opened with the first product or recording.
    pub(crate) fn products(&self) -> Result<Option<&Products>> {
        self.products.get(|| Products::open(self))
    }

    /// cuDNN, opened with the first convolution or recording.
    pub(crate) fn convolutions(&self) -> Result<Option<&Convolutions>> {
        self.convolutions.get(|| Convolutions::open(self))
    }

    /// Memory for `len` elements, to be written by what is launched next.
    pub(crate) fn memory(&self, op: &'static str, len: usize, dtype: DType) -> Result<Memory> {
        let bytes = len * dtype.size();
        let region = self.recorder.allocate(self, op, bytes)?;
        Ok(Memory { region, dtype, len, device: self.index, notice: None, passes: None })
    }

    /// Memory of `len` zeros.
    pub(crate) fn zeros(&self, op: &'static str, len: usize, dtype: DType) -> Result<Memory> {
        let memory = self.memory(op, len, dtype)?;
        self.clear(op, &memory)?;
        Ok(memory)
    }

    /// Sets all bytes to 0.
    pub(crate) fn clear(&self, op: &'static str, memory: &Memory) -> Result<()> {
        let _turn = self.turn(op)?;
        launch::clear(&self.stream, &memory.region).map_err(|e| error::driver(self, op, e))
    }

    /// Copies host data to the start of memory.
    pub(crate) fn write<T: Plain>(&self, op: &'static str, data: &[T], memory: &Memory) -> Result<()> {
        if let Some(words) = launch::words(data) {
            let n = size_of_val(data);
            let args = PutArgs { y: memory.address(), n: n as i64, words };
            return self.launch(Family::Copy, "put", None, self.spread(n), args);
        }
        let turn = self.turn(op)?;
        let written = match turn {
            Some(_) => launch::upload(&self.stream, data, &memory.region),
            // The host's memory may be gone when the graph is replayed.
            None => {
                self.recorder.constant(self, data).and_then(|from| launch::copy(&self.stream, &from, &memory.region))
            }
        };
        written.map_err(|e| error::driver(self, op, e))
    }

    /// Copies the start of memory to the host, waiting for all work before.
    pub(crate) fn read<T: Plain>(&self, op: &'static str, memory: &Memory, data: &mut [T]) -> Result<()> {
        let turn = self.turn(op)?;
        if turn.is_none() {
            let message = "the host would wait for the device, which a graph that is being captured cannot".into();
            return Err(self.refusal(op, message));
        }
        launch::download(&self.stream, &memory.region, data).map_err(|e| error::driver(self, op, e))
    }

    /// Launches kernel `stem` + the type it computes in; does nothing when the grid is empty.
    pub(crate) fn launch<A: Args>(
        &self,
        family: Family,
        stem: &'static str,
        compute: Option<Compute>,
        blocks: ([u64; 3], u32),
        args: A,
    ) -> Result<()> {
        self.launch_any(None, family, stem, compute, blocks, Argument::new(&args))
    }

    /// As [`launch`](Self::launch), in the caller's turn: no recording begins between this and what else is launched in it.
    pub(crate) fn launch_in<A: Args>(
        &self,
        turn: &Turn<'_>,
        family: Family,
        stem: &'static str,
        blocks: ([u64; 3], u32),
        args: A,
    ) -> Result<()> {
        self.launch_any(Some(turn), family, stem, None, blocks, Argument::new(&args))
    }

    fn launch_any(
        &self,
        turn: Option<&Turn<'_>>,
        family: Family,
        stem: &'static str,
        compute: Option<Compute>,
        (grid, threads): ([u64; 3], u32),
        args: Argument<'_>,
    ) -> Result<()> {
        if grid.contains(&0) {
            return Ok(());
        }
        let refused = |message| self.refusal(stem, message);
        let function = self.modules.function(&self.context, family, stem, compute, args.size()).map_err(refused)?;
        let fits = grid[0] <= i32::MAX as u64 && grid[1] <= u64::from(u16::MAX) && grid[2] <= u64::from(u16::MAX);
        if !fits {
            return Err(refused(format!("a grid of {grid:?} blocks is larger than a launch can be")));
        }
        // A thread that asks for a second turn may wait for a recording that waits for its first.
        let _turn = if turn.is_some() { None } else { self.turn(stem)? };
        launch::launch(&self.stream, &function, grid.map(|n| n as u32), threads, args)
            .map_err(|e| error::driver(self, stem, e))
    }

    /// Whether this GPU can run the kernels of a family.
    pub(crate) fn can_run(&self, family: Family) -> bool {
        self.modules.can_run(family)
    }

    pub(crate) fn multiprocessors(&self) -> usize {
        self.multiprocessors as usize
    }

    /// Blocks for a loop over `work` items with every thread of the grid.
    pub(crate) fn spread(&self, work: usize) -> ([u64; 3], u32) {
        const BLOCKS_PER_MULTIPROCESSOR: u64 = 16;
        let blocks = (work as u64).div_ceil(u64::from(THREADS)).min(self.multiprocessors * BLOCKS_PER_MULTIPROCESSOR);
        ([blocks, 1, 1], THREADS)
    }

    /// As [`spread`](Self::spread) for `n` elements of a result whose type has number `out`: a thread handles many where
    /// others keep the GPU full, four accesses of 16 bytes of F32 or of 16-bit types.
    pub(crate) fn spread_elements(&self, n: usize, out: i32) -> ([u64; 3], u32) {
        const LEAST_PER_MULTIPROCESSOR: u64 = 8;
        let elements_per_thread = if size(out) == 2 { 32 } else { 16 };
        let most = (n as u64).div_ceil(u64::from(THREADS));
        let full = most.min(self.multiprocessors * LEAST_PER_MULTIPROCESSOR);
        ([most.div_ceil(elements_per_thread).max(full), 1, 1], THREADS)
    }
}

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// Device memory holding elements of one type.
#[derive(Debug)]
pub(crate) struct Memory {
    region: Arc<Region>,
    dtype: DType,
    len: usize,
    device: usize,
    /// Where the host sees a number of what is here.
    pub(crate) notice: Option<Arc<Notice>>,
    /// Of a ReLU within a product: a bit of each element, whether it lets gradients pass.
    pub(crate) passes: Option<Box<Memory>>,
}

impl Memory {
    /// Address of the first element.
    pub fn address(&self) -> u64 {
        self.region.address()
    }

    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn belongs_to(&self, gpu: &Gpu) -> bool {
        self.device == gpu.index
    }

    pub fn into_buffer(self) -> Buffer {
        Buffer::new(self)
    }
}

impl DeviceBuffer for Memory {
    fn dtype(&self) -> DType {
        self.dtype
    }

    fn len(&self) -> usize {
        self.len
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}
