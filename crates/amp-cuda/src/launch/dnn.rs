//! cuDNN: handle, descriptions and calls. A handle is used by one thread at a time, which the caller sees to.

use super::usable;
use crate::convolve::{Convolved, Pass, Tensors};
use crate::library::Unopened;
use amp_core::backend::DType;
use cudarc::cudnn::result::{self as dnn, CudnnError};
use cudarc::cudnn::sys;
use cudarc::driver::CudaStream;
use std::ffi::c_void;
use std::sync::Arc;

/// cuDNN of one GPU.
#[derive(Debug)]
pub(crate) struct Dnn {
    handle: sys::cudnnHandle_t,
    identity: sys::cudnnActivationDescriptor_t,
    stream: Arc<CudaStream>,
}

// SAFETY: a handle may go from thread to thread; `Convolutions` lets one at a time use it.
unsafe impl Send for Dnn {}

/// What cuDNN knows about a convolution: the tensors' descriptions, the algorithm, and the memory that it needs.
#[derive(Debug)]
pub(crate) struct ConvPlan {
    image: sys::cudnnTensorDescriptor_t,
    result: sys::cudnnTensorDescriptor_t,
    bias: sys::cudnnTensorDescriptor_t,
    kernel: sys::cudnnFilterDescriptor_t,
    convolution: sys::cudnnConvolutionDescriptor_t,
    algorithm: Algorithm,
    pub workspace: usize,
    wide: bool,
}

// SAFETY: descriptions belong to no thread; each is used behind one lock.
unsafe impl Send for ConvPlan {}

#[derive(Clone, Copy, Debug)]
enum Algorithm {
    Forward(sys::cudnnConvolutionFwdAlgo_t),
    Data(sys::cudnnConvolutionBwdDataAlgo_t),
    Filter(sys::cudnnConvolutionBwdFilterAlgo_t),
}

impl Dnn {
    /// The first version with the numbers that the binding knows: 9.0.
    const OLDEST: usize = 90_000;

    /// Opens the library on the stream's device, or says why it cannot be used.
    pub fn open(stream: &Arc<CudaStream>) -> Result<Self, Unopened> {
        if !usable!(sys, [&b"cudnnGetVersion\0"[..], b"cudnnConvolutionForward\0"]) {
            return Err(Unopened::Unusable("cuDNN was not found (libcudnn)".into()));
        }
        let version = dnn::get_version();
        if version < Self::OLDEST {
            let (major, minor) = (version / 1000, version % 1000 / 100);
            let reason = format!("cuDNN {major}.{minor} is too old, at least 9.0 is needed");
            return Err(Unopened::Unusable(reason));
        }
        let failed = |e: CudnnError| match wants_memory(e) {
            true => Unopened::Wanting(e.to_string()),
            false => Unopened::Unusable(format!("cuDNN cannot be used: {e}")),
        };
        stream.context().bind_to_thread().map_err(|e| Unopened::Unusable(crate::error::text(&e)))?;
        let handle = dnn::create_handle().map_err(failed)?;
        let identity = std::ptr::null_mut();
        let mut opened = Self { handle, identity, stream: stream.clone() };
        opened.identity = dnn::create_activation_descriptor().map_err(failed)?;
        let (mode, nan) =
            (sys::cudnnActivationMode_t::CUDNN_ACTIVATION_IDENTITY, sys::cudnnNanPropagation_t::CUDNN_PROPAGATE_NAN);
        // SAFETY: handle and description were made just now; the stream lives as long as the handle.
        unsafe {
            dnn::set_stream(handle, stream.cu_stream().cast()).map_err(failed)?;
            dnn::set_activation_descriptor(opened.identity, mode, nan, 0.0).map_err(failed)?;
        }
        Ok(opened)
    }

    /// Makes the GPU's context that of the calling thread.
    fn bind(&self) -> Result<(), CudnnError> {
        let unbound = |_| CudnnError(sys::cudnnStatus_t::CUDNN_STATUS_NOT_INITIALIZED);
        self.stream.context().bind_to_thread().map_err(unbound)
    }

    /// Descriptions and algorithm of a convolution: one that sums like a matrix product, always in the same order.
    pub fn plan(&self, of: &Convolved) -> Result<ConvPlan, CudnnError> {
        self.bind()?;
        let mut plan = ConvPlan::new(of)?;
        plan.describe(of)?;
        let (x, y, w, c) = (plan.image, plan.result, plan.kernel, plan.convolution);
        let (algorithm, workspace) = match of.pass {
            Pass::Forward { .. } => {
                let algorithm = sys::cudnnConvolutionFwdAlgo_t::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
                // SAFETY: handle and descriptions are alive.
                let size = unsafe { dnn::get_convolution_forward_workspace_size(self.handle, x, w, c, y, algorithm) };
                (Algorithm::Forward(algorithm), size)
            }
            Pass::Data => {
                let algorithm = sys::cudnnConvolutionBwdDataAlgo_t::CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
                // SAFETY: handle and descriptions are alive.
                let size =
                    unsafe { dnn::get_convolution_backward_data_workspace_size(self.handle, w, y, c, x, algorithm) };
                (Algorithm::Data(algorithm), size)
            }
            Pass::Filter => {
                let algorithm = sys::cudnnConvolutionBwdFilterAlgo_t::CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;
                // SAFETY: handle and descriptions are alive.
                let size =
                    unsafe { dnn::get_convolution_backward_filter_workspace_size(self.handle, x, y, c, w, algorithm) };
                (Algorithm::Filter(algorithm), size)
            }
        };
        (plan.algorithm, plan.workspace) = (algorithm, workspace?);
        Ok(plan)
    }

    /// Runs a convolution in stream order; with `accumulate` the result is added to what the memory holds.
    pub fn run(&self, plan: &ConvPlan, at: &Tensors, accumulate: bool) -> Result<(), CudnnError> {
        self.bind()?;
        let (one, zero) = (Scalar::new(1.0), Scalar::new(0.0));
        let (one, zero) = (one.pointer(plan.wide), zero.pointer(plan.wide));
        let beta = if accumulate { one } else { zero };
        let [image, kernel, result, bias, workspace] =
            [at.image, at.kernel, at.result, at.bias, at.workspace].map(|address| address as *mut c_void);
        let (x, w, y, c, handle, bytes) =
            (plan.image, plan.kernel, plan.result, plan.convolution, self.handle, plan.workspace);
        // SAFETY: handle and descriptions are alive; the addresses cover what the descriptions say (premise 2, `Convolved` is
        // made from checked operands) and the workspace's size; scalars outlive the calls, which read them at once; memory
        // stays until the stream has passed (premise 3).
        unsafe {
            match plan.algorithm {
                Algorithm::Forward(algorithm) if at.bias != 0 => dnn::convolution_bias_activation_forward(
                    handle,
                    one,
                    x,
                    image,
                    w,
                    kernel,
                    c,
                    algorithm,
                    workspace,
                    bytes,
                    zero,
                    y,
                    result,
                    plan.bias,
                    bias,
                    self.identity,
                    y,
                    result,
                ),
                Algorithm::Forward(algorithm) => dnn::convolution_forward(
                    handle, one, x, image, w, kernel, c, algorithm, workspace, bytes, beta, y, result,
                ),
                Algorithm::Data(algorithm) => dnn::convolution_backward_data(
                    handle, one, w, kernel, y, result, c, algorithm, workspace, bytes, beta, x, image,
                ),
                Algorithm::Filter(algorithm) => dnn::convolution_backward_filter(
                    handle, one, x, image, y, result, c, algorithm, workspace, bytes, beta, w, kernel,
                ),
            }
        }
    }
}

/// Whether cuDNN says that it cannot do something at all: all its words for that are numbers of one thousand.
pub(crate) fn unsupported(error: CudnnError) -> bool {
    error.0 as u32 / 1000 == sys::cudnnStatus_t::CUDNN_STATUS_NOT_SUPPORTED as u32 / 1000
}

/// Whether cuDNN had no memory for what it was to do.
pub(crate) fn wants_memory(error: CudnnError) -> bool {
    use sys::cudnnStatus_t as Status;
    let words = [
        Status::CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED,
        Status::CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED,
    ];
    words.contains(&error.0)
}

impl Drop for Dnn {
    fn drop(&mut self) {
        if !self.identity.is_null() {
            // SAFETY: created by `open`, destroyed once.
            let _ = unsafe { sys::cudnnDestroyActivationDescriptor(self.identity) };
        }
        // SAFETY: as above.
        let _ = unsafe { dnn::destroy_handle(self.handle) };
    }
}

/// A factor in both precisions that cuDNN may want it in.
struct Scalar(f32, f64);

impl Scalar {
    fn new(value: f32) -> Self {
        Self(value, value.into())
    }

    fn pointer(&self, wide: bool) -> *const c_void {
        if wide { (&raw const self.1).cast() } else { (&raw const self.0).cast() }
    }
}

impl ConvPlan {
    /// Descriptions that say nothing yet.
    fn new(of: &Convolved) -> Result<Self, CudnnError> {
        let forward = sys::cudnnConvolutionFwdAlgo_t::CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
        let mut plan = Self {
            image: std::ptr::null_mut(),
            result: std::ptr::null_mut(),
            bias: std::ptr::null_mut(),
            kernel: std::ptr::null_mut(),
            convolution: std::ptr::null_mut(),
            algorithm: Algorithm::Forward(forward),
            workspace: 0,
            wide: of.types[0] == DType::F64,
        };
        for tensor in [&mut plan.image, &mut plan.result, &mut plan.bias] {
            *tensor = dnn::create_tensor_descriptor()?;
        }
        plan.kernel = dnn::create_filter_descriptor()?;
        plan.convolution = dnn::create_convolution_descriptor()?;
        Ok(plan)
    }

    fn describe(&self, of: &Convolved) -> Result<(), CudnnError> {
        let order = match of.channels_last {
            true => sys::cudnnTensorFormat_t::CUDNN_TENSOR_NHWC,
            false => sys::cudnnTensorFormat_t::CUDNN_TENSOR_NCHW,
        };
        let [factor, written] = of.types.map(element);
        let (image, kernel, result) = match of.pass {
            Pass::Forward { .. } => (factor, factor, written),
            Pass::Data => (written, factor, factor),
            Pass::Filter => (factor, written, factor),
        };
        let ([pad_h, pad_w], [down, right], [dilation_h, dilation_w]) = (of.padding, of.stride, of.dilation);
        let (mode, compute) = (
            sys::cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION,
            if self.wide { factor } else { element(DType::F32) },
        );
        // Never TF32: convolutions of F32 keep all their bits.
        let math = match of.types[0].is_half() {
            true => sys::cudnnMathType_t::CUDNN_TENSOR_OP_MATH,
            false => sys::cudnnMathType_t::CUDNN_FMA_MATH,
        };
        // SAFETY: all descriptions were made by `new`.
        unsafe {
            dnn::set_tensor4d_descriptor(self.image, order, image, of.image)?;
            dnn::set_tensor4d_descriptor(self.result, order, result, of.result)?;
            dnn::set_tensor4d_descriptor(self.bias, order, written, [1, of.kernel[0], 1, 1])?;
            dnn::set_filter4d_descriptor(self.kernel, kernel, order, of.kernel)?;
            let c = self.convolution;
            dnn::set_convolution2d_descriptor(c, pad_h, pad_w, down, right, dilation_h, dilation_w, mode, compute)?;
            dnn::set_convolution_group_count(c, of.groups)?;
            dnn::set_convolution_math_type(c, math)
        }
    }
}

impl Drop for ConvPlan {
    fn drop(&mut self) {
        for tensor in [self.image, self.result, self.bias].into_iter().filter(|d| !d.is_null()) {
            // SAFETY: created by `new`, destroyed once.
            let _ = unsafe { dnn::destroy_tensor_descriptor(tensor) };
        }
        if !self.kernel.is_null() {
            // SAFETY: as above.
            let _ = unsafe { dnn::destroy_filter_descriptor(self.kernel) };
        }
        if !self.convolution.is_null() {
            // SAFETY: as above.
            let _ = unsafe { dnn::destroy_convolution_descriptor(self.convolution) };
        }
    }
}

fn element(dtype: DType) -> sys::cudnnDataType_t {
    match dtype {
        DType::F16 => sys::cudnnDataType_t::CUDNN_DATA_HALF,
        DType::BF16 => sys::cudnnDataType_t::CUDNN_DATA_BFLOAT16,
        DType::F64 => sys::cudnnDataType_t::CUDNN_DATA_DOUBLE,
        _ => sys::cudnnDataType_t::CUDNN_DATA_FLOAT,
    }
}
