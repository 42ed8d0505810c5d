//! Everything that talks to the driver without a safety net: libraries, memory, launches. The crate's only unsafe code.
//!
//! What the proofs rest on:
//! 1. A kernel takes one struct by value. Its Rust twin is `repr(C)`, and the size is compared with the compiled kernel's
//!    parameter when the kernel is loaded (drivers from 12.4 on).
//! 2. Addresses in argument structs come from [`Block`] alone, by way of [`crate::operand::Operand`], which checks that a
//!    layout lies within its memory, or of freshly allocated results.
//! 3. All work of a device goes to one stream. Block is freed in stream order, so a kernel that was launched before has
//!    finished with it.

use crate::args::Args;
use cudarc::driver::{CudaContext, CudaFunction, CudaModule, CudaSlice, CudaStream, DeviceRepr, DriverError};
use cudarc::driver::{DevicePtr, LaunchConfig, PushKernelArg, result, sys};
use std::path::Path;
use std::sync::Arc;

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

/// Whether a CUDA driver can be opened.
pub(crate) fn driver_present() -> bool {
    // SAFETY: tries to open a library, nothing else.
    unsafe { sys::is_culib_present() }
}

/// Whether a run-time compiler can be opened.
pub(crate) fn compiler_present() -> bool {
    // SAFETY: tries to open a library, nothing else.
    unsafe { cudarc::nvrtc::sys::is_culib_present() }
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

/// Sets all bytes to 0.
pub(crate) fn clear(stream: &CudaStream, memory: &mut Block) -> Result<(), DriverError> {
    stream.context().bind_to_thread()?;
    // SAFETY: the range is the whole of memory that is borrowed for writing.
    unsafe { result::memset_d8_async(memory.address, 0, memory.bytes(), stream.cu_stream()) }
}

/// Copies host data to the start of device memory.
pub(crate) fn upload<T: Plain>(stream: &CudaStream, from: &[T], to: &mut Block) -> Result<(), DriverError> {
    assert!(size_of_val(from) <= to.bytes(), "an upload fits its memory");
    if from.is_empty() {
        return Ok(());
    }
    stream.context().bind_to_thread()?;
    // SAFETY: the destination is large enough (asserted); the driver has read pageable host memory when it returns.
    unsafe { result::memcpy_htod_async(to.address, from, stream.cu_stream()) }
}

/// Copies the start of device memory to the host, waiting for all work before.
pub(crate) fn download<T: Plain>(stream: &CudaStream, from: &Block, to: &mut [T]) -> Result<(), DriverError> {
    assert!(size_of_val(to) <= from.bytes(), "a download stays within its memory");
    if to.is_empty() {
        return Ok(());
    }
    stream.context().bind_to_thread()?;
    // SAFETY: the source is large enough (asserted), any bytes are a valid `Plain`, and the copy is over before `to`'s
    // borrow ends, for the stream is waited for.
    unsafe { result::memcpy_dtoh_async(to, from.address, stream.cu_stream()) }?;
    stream.synchronize()
}

/// A kernel of a module, once its parameter has been compared with `A`.
pub(crate) fn function<A: Args>(module: &Arc<CudaModule>, name: &str, version: i32) -> Result<CudaFunction, String> {
    let function = module.load_function(name).map_err(|e| format!("kernel {name}: {e}"))?;
    match parameter_size(&function, version) {
        Some(size) if size != size_of::<A>() => {
            Err(format!("kernel {name} takes {size} bytes, its argument has {}", size_of::<A>()))
        }
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

/// An argument struct as the driver's binding wants it.
#[repr(transparent)]
struct ByValue<A>(A);

// SAFETY: `Args` are `repr(C)` structs of numbers, copied byte for byte (premise 1).
unsafe impl<A: Args> DeviceRepr for ByValue<A> {}

/// Launches a kernel with its argument.
pub(crate) fn launch<A: Args>(
    stream: &CudaStream,
    function: &CudaFunction,
    grid: [u32; 3],
    threads: u32,
    args: A,
) -> Result<(), DriverError> {
    let config =
        LaunchConfig { grid_dim: (grid[0], grid[1], grid[2]), block_dim: (threads, 1, 1), shared_mem_bytes: 0 };
    let args = ByValue(args);
    // SAFETY: the kernel takes one struct of this size (premise 1), whose addresses cover what the kernel's documented
    // bounds touch (premise 2), and which stays alive until the kernel has run (premise 3).
    unsafe { stream.launch_builder(function).arg(&args).launch(config) }?;
    Ok(())
}
