//! Everything that talks to the driver without a safety net: libraries, memory, launches. The crate's only unsafe code; what
//! calls cuBLASLt, cuDNN and the run-time compiler is in files of its own.
//!
//! What the proofs rest on:
//! 1. A kernel takes one struct by value. Its Rust twin is `repr(C)`, and the size is compared with the compiled kernel's
//!    parameter when the kernel is loaded (drivers from 12.4 on).
//! 2. Addresses in argument structs come from [`Region`] alone, by way of [`crate::operand::Operand`], which checks that a
//!    layout lies within its memory, or of freshly allocated results.
//! 3. All work of a device goes to one stream. A block is freed in stream order, so a kernel that was launched before has
//!    finished with it. What a graph reads and writes is kept until the graph is gone.

pub(crate) mod dnn;
pub(crate) mod lt;
mod rtc;

pub(crate) use dnn::{ConvPlan, Dnn};
pub(crate) use lt::{Lt, Plan};
pub(crate) use rtc::{compiler, machine_code};

use crate::args::Args;
use crate::record::Region;
use cudarc::driver::{CudaContext, CudaFunction, CudaGraph, CudaModule, CudaSlice, CudaStream, DriverError};
use cudarc::driver::{DevicePtr, result, sys};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

/// Runs before `main`, so that a program which links the crate need not call anything.
///
/// It stores one function pointer: nothing that could fail, allocate or depend on the standard library being set up.
// SAFETY: the section holds pointers to functions without arguments, which the loader calls once; this is one.
#[used]
#[cfg_attr(any(target_os = "linux", target_os = "freebsd"), unsafe(link_section = ".init_array"))]
#[cfg_attr(target_os = "windows", unsafe(link_section = ".CRT$XCU"))]
#[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func"))]
static REGISTER: extern "C" fn() = {
    extern "C" fn register() {
        crate::register();
    }
    register
};

/// Bytes of device memory, freed in stream order when dropped.
#[derive(Debug)]
pub(crate) struct Block {
    slice: CudaSlice<u8>,
    address: u64,
}

impl Block {
    /// Address of the first byte.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.slice.len()
    }
}

/// Element types of host data that are copied as they are.
pub(crate) trait Plain: Copy + Default {}
impl Plain for u8 {}
impl Plain for u16 {}
impl Plain for i32 {}
impl Plain for i64 {}
impl Plain for f32 {}
impl Plain for f64 {}

/// The bytes of host data as words, if they are as few.
pub(crate) fn words<T: Plain, const N: usize>(data: &[T]) -> Option<[u64; N]> {
    let (mut words, bytes) = ([0; N], size_of_val(data));
    if bytes > size_of_val(&words) {
        return None;
    }
    // SAFETY: both hold so many bytes and are apart; numbers have no padding, and any bytes make a word.
    unsafe { std::ptr::copy_nonoverlapping(data.as_ptr().cast::<u8>(), words.as_mut_ptr().cast(), bytes) };
    Some(words)
}

/// Opens a library for good, so that a later request for its name finds it wherever it lies.
pub(crate) fn preload(path: &Path) -> bool {
    // SAFETY: initialisers of the vendor's libraries have no preconditions; the handle is never closed.
    match unsafe { libloading::Library::new(path) } {
        Ok(library) => {
            std::mem::forget(library);
            true
        }
        Err(error) => {
            log::debug!("{}: {error}", path.display());
            false
        }
    }
}

/// Whether a library can be opened and has these functions: whatever else may be found under its name has none of them.
macro_rules! usable {
    ($library:path, $names:expr) => {{
        use $library as library;
        // SAFETY: tries to open a library, nothing else.
        let present = unsafe { library::is_culib_present() };
        // SAFETY: the library was found just now, and what is found in it is not used here.
        present && $names.iter().all(|name| unsafe { library::culib().get::<*const std::ffi::c_void>(*name) }.is_ok())
    }};
}
pub(crate) use usable;

/// Whether a CUDA driver can be opened.
pub(crate) fn driver_present() -> bool {
    usable!(sys, [&b"cuInit\0"[..], b"cuDriverGetVersion\0"])
}

/// Version of the driver, as 1000 major + 10 minor.
pub(crate) fn driver_version() -> Result<i32, DriverError> {
    let mut version = 0;
    // SAFETY: the pointer is to a local that outlives the call.
    unsafe { sys::cuDriverGetVersion(&mut version) }.result()?;
    Ok(version)
}

/// Context and the one stream of GPU `index`.
pub(crate) fn open(index: usize) -> Result<(Arc<CudaContext>, Arc<CudaStream>), DriverError> {
    let context = CudaContext::new(index)?;
    // SAFETY: events would order accesses of several streams; there is one (premise 3).
    unsafe { context.disable_event_tracking() };
    let stream = context.new_stream()?;
    keep_freed_memory(&context);
    Ok((context, stream))
}

/// Lets the driver's pool keep what is freed instead of giving it back at every synchronisation.
fn keep_freed_memory(context: &CudaContext) {
    let (mut pool, mut threshold) = (std::ptr::null_mut(), u64::MAX);
    let attribute = sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
    // SAFETY: the device handle is the context's; the pointer is to a local that outlives the call.
    let found = unsafe { sys::cuDeviceGetDefaultMemPool(&mut pool, context.cu_device()) }.result();
    // SAFETY: the pool is the one just asked for, and the attribute's value is a u64.
    let kept = found
        .and_then(|()| unsafe { sys::cuMemPoolSetAttribute(pool, attribute, (&raw mut threshold).cast()) }.result());
    if let Err(error) = kept {
        log::debug!("the driver's memory pool keeps its threshold: {error}");
    }
}

/// Uninitialised memory of at least one byte.
pub(crate) fn allocate(stream: &Arc<CudaStream>, bytes: usize) -> Result<Block, DriverError> {
    // SAFETY: every caller has a kernel or a copy write all of it before anything reads it.
    let slice = unsafe { stream.alloc::<u8>(bytes.max(1)) }?;
    let address = slice.device_ptr(stream).0;
    Ok(Block { slice, address })
}

/// As [`allocate`], made by stream `beside` and freed in the order of `stream`: usable once `beside` was waited for.
pub(crate) fn allocate_beside(
    beside: &Arc<CudaStream>,
    stream: &Arc<CudaStream>,
    bytes: usize,
) -> Result<Block, DriverError> {
    let bytes = bytes.max(1);
    // SAFETY: as in `allocate`.
    let address = unsafe { beside.alloc::<u8>(bytes) }?.leak();
    // SAFETY: the memory was made just now, nobody else owns it, and both streams are of one context.
    let slice = unsafe { stream.upgrade_device_ptr::<u8>(address, bytes) };
    Ok(Block { slice, address })
}

/// Sets all bytes to 0.
pub(crate) fn clear(stream: &CudaStream, memory: &Arc<Region>) -> Result<(), DriverError> {
    stream.context().bind_to_thread()?;
    // SAFETY: the range is the whole of the memory (premise 2).
    unsafe { result::memset_d8_async(memory.address(), 0, memory.bytes(), stream.cu_stream()) }
}

/// Copies the whole of `from` to the start of `to`.
pub(crate) fn copy(stream: &CudaStream, from: &Arc<Region>, to: &Arc<Region>) -> Result<(), DriverError> {
    assert!(from.bytes() <= to.bytes(), "a copy fits its memory");
    stream.context().bind_to_thread()?;
    // SAFETY: both ranges lie within their memory (asserted).
    unsafe { result::memcpy_dtod_async(to.address(), from.address(), from.bytes(), stream.cu_stream()) }
}

/// Copies host data to the start of device memory.
pub(crate) fn upload<T: Plain>(stream: &CudaStream, from: &[T], to: &Arc<Region>) -> Result<(), DriverError> {
    assert!(size_of_val(from) <= to.bytes(), "an upload fits its memory");
    if from.is_empty() {
        return Ok(());
    }
    stream.context().bind_to_thread()?;
    // SAFETY: the destination is large enough (asserted); pageable host memory was read when the driver returns, or is waited
    // for below.
    unsafe { result::memcpy_htod_async(to.address(), from, stream.cu_stream()) }?;
    if reads_pageable(stream.context())? { stream.synchronize() } else { Ok(()) }
}

/// Whether the device reads the host's pageable memory as the host does (Grace Hopper). Then the driver need not stage what it
/// copies from there, and may do so after it returned.
fn reads_pageable(context: &CudaContext) -> Result<bool, DriverError> {
    use sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES as HOST_PAGES;
    Ok(context.attribute(HOST_PAGES)? != 0)
}

/// Copies the start of device memory to the host, waiting for all work before.
pub(crate) fn download<T: Plain>(stream: &CudaStream, from: &Arc<Region>, to: &mut [T]) -> Result<(), DriverError> {
    assert!(size_of_val(to) <= from.bytes(), "a download stays within its memory");
    if to.is_empty() {
        return Ok(());
    }
    stream.context().bind_to_thread()?;
    // SAFETY: the source is large enough (asserted), any bytes are a valid `Plain`, and the copy is over before `to`'s
    // borrow ends, for the stream is waited for.
    unsafe { result::memcpy_dtoh_async(to, from.address(), stream.cu_stream()) }?;
    stream.synchronize()
}

/// A kernel of a module, once its parameter has been compared with an argument of `bytes` bytes.
pub(crate) fn function(
    module: &Arc<CudaModule>,
    name: &str,
    bytes: usize,
    version: i32,
) -> Result<CudaFunction, String> {
    let function = module.load_function(name).map_err(|e| format!("kernel {name}: {e}"))?;
    match parameter_size(&function, version) {
        Some(size) if size != bytes => Err(format!("kernel {name} takes {size} bytes, its argument has {bytes}")),
        _ => Ok(function),
    }
}

#[cfg(feature = "cuda-13")]
fn parameter_size(function: &CudaFunction, version: i32) -> Option<usize> {
    const FIRST_WITH_PARAMETER_INFO: i32 = 12040;
    if version < FIRST_WITH_PARAMETER_INFO {
        return None;
    }
    let (mut offset, mut size) = (0, 0);
    // SAFETY: the function belongs to a loaded module; both pointers are to locals that outlive the call.
    unsafe { sys::cuFuncGetParamInfo(function.cu_function(), 0, &mut offset, &mut size) }.result().ok()?;
    Some(size)
}

#[cfg(not(feature = "cuda-13"))]
fn parameter_size(_: &CudaFunction, _: i32) -> Option<usize> {
    None
}

/// A kernel's argument as the driver takes it, whatever its type: what launches it is compiled once.
#[derive(Clone, Copy)]
pub(crate) struct Argument<'a> {
    address: *const std::ffi::c_void,
    size: usize,
    of: PhantomData<&'a ()>,
}

impl<'a> Argument<'a> {
    /// The argument `args`.
    pub fn new<A: Args>(args: &'a A) -> Self {
        Self { address: (&raw const *args).cast(), size: size_of::<A>(), of: PhantomData }
    }

    /// Its bytes.
    pub fn size(self) -> usize {
        self.size
    }
}

/// Launches a kernel with its argument.
pub(crate) fn launch(
    stream: &CudaStream,
    function: &CudaFunction,
    [x, y, z]: [u32; 3],
    threads: u32,
    args: Argument<'_>,
) -> Result<(), DriverError> {
    stream.context().bind_to_thread()?;
    let mut parameters = [args.address.cast_mut()];
    let block = (threads, 1, 1);
    // SAFETY: the kernel takes one struct of this size (premise 1), which the driver reads at once and does not change; its
    // addresses cover what the kernel's documented bounds touch (premise 2) and stay valid until it has run (premise 3).
    unsafe { result::launch_kernel(function.cu_function(), (x, y, z), block, 0, stream.cu_stream(), &mut parameters) }
}

/// What a driver call reports that makes no sense where it stands.
pub(crate) const INVALID: sys::CUresult = sys::CUresult::CUDA_ERROR_INVALID_VALUE;

/// From now on the stream keeps what it is given, instead of doing it.
pub(crate) fn begin_capture(stream: &CudaStream) -> Result<(), DriverError> {
    // Other threads, and loading of kernels by this one, go on as always.
    stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)
}

/// What the stream was given since [`begin_capture`].
pub(crate) fn end_capture(stream: &Arc<CudaStream>) -> Result<Graph, DriverError> {
    let graph = stream.end_capture(sys::CUgraphInstantiate_flags(0))?;
    Ok(Graph { graph: Mutex::new(graph.ok_or(DriverError(INVALID))?) })
}

/// Work that is launched as a whole. Its memory must be kept by the owner.
pub(crate) struct Graph {
    graph: Mutex<CudaGraph>,
}

// SAFETY: a graph belongs to no thread; the lock lets one at a time use it.
unsafe impl Send for Graph {}
// SAFETY: as above.
unsafe impl Sync for Graph {}

impl Graph {
    /// Does the work in stream order.
    pub fn launch(&self) -> Result<(), DriverError> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner).launch()
    }
}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Graph")
    }
}

/// Numbers in host memory that kernels write and the host reads without asking the driver.
#[derive(Debug)]
pub(crate) struct Notices {
    numbers: NonNull<i64>,
    /// The one that was in use least lately comes first: kernels of its last owner have run.
    free: Mutex<VecDeque<usize>>,
    _context: Arc<CudaContext>,
}

// SAFETY: every number is read and written as a whole, by `Notice` alone.
unsafe impl Send for Notices {}
// SAFETY: as above.
unsafe impl Sync for Notices {}

impl Notices {
    const COUNT: usize = 512;

    /// Host memory that the GPU can write to.
    pub fn new(context: &Arc<CudaContext>) -> Result<Self, DriverError> {
        const MAPPED: u32 = 2;
        context.bind_to_thread()?;
        // SAFETY: asks for memory, nothing else; where addresses are unified the GPU knows it under the same address.
        let memory = unsafe { result::malloc_host(Self::COUNT * size_of::<i64>(), MAPPED) }?;
        let numbers = NonNull::new(memory.cast()).ok_or(DriverError(INVALID))?;
        Ok(Self { numbers, free: Mutex::new((0..Self::COUNT).collect()), _context: context.clone() })
    }

    /// A number of one's own, `None` when all are in use.
    pub fn slot(self: &Arc<Self>, value: i64) -> Option<Notice> {
        let index = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop_front()?;
        let notice = Notice { page: self.clone(), index };
        // SAFETY: the number lies within the page; nobody else has this index.
        unsafe { notice.number().write_volatile(value) };
        Some(notice)
    }
}

impl Drop for Notices {
    fn drop(&mut self) {
        // SAFETY: allocated by `new`, freed once; the device whose kernels wrote here is gone.
        let _ = unsafe { result::free_host(self.numbers.as_ptr().cast()) };
    }
}

/// One number that kernels write.
#[derive(Debug)]
pub(crate) struct Notice {
    page: Arc<Notices>,
    index: usize,
}

impl Notice {
    fn number(&self) -> *mut i64 {
        // SAFETY: the index is below `Notices::COUNT`.
        unsafe { self.page.numbers.as_ptr().add(self.index) }
    }

    /// Where kernels write it.
    pub fn address(&self) -> u64 {
        self.number() as u64
    }

    /// What a kernel wrote last, as far as the host sees it by now.
    pub fn read(&self) -> i64 {
        // SAFETY: the page lives as long as `self`; an aligned number of 64 bits is written as a whole.
        unsafe { self.number().read_volatile() }
    }
}

impl Drop for Notice {
    fn drop(&mut self) {
        self.page.free.lock().unwrap_or_else(PoisonError::into_inner).push_back(self.index);
    }
}
