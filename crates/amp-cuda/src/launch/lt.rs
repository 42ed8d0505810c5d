//! cuBLASLt: handle, descriptions and calls.

use super::{Block, allocate, usable};
use crate::library::Unopened;
use crate::product::{Addresses, Epilogue, Product};
use amp_core::backend::DType;
use cudarc::cublaslt::result::{self as lt, CublasError};
use cudarc::cublaslt::sys as lt_sys;
use cudarc::driver::sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY as OUT_OF_MEMORY;
use cudarc::driver::{CudaStream, DriverError};
use std::sync::Arc;

/// cuBLASLt of one GPU: its handle, and memory that its algorithms may use one after the other.
#[derive(Debug)]
pub(crate) struct Lt {
    handle: lt_sys::cublasLtHandle_t,
    workspace: Block,
    stream: Arc<CudaStream>,
}

// SAFETY: cuBLASLt's handles may be used from any thread.
unsafe impl Send for Lt {}
// SAFETY: as above; none of the functions that take the handle changes it.
unsafe impl Sync for Lt {}

/// What cuBLASLt knows about a product: its description, the layouts of both factors and of the result, the algorithm.
#[derive(Debug)]
pub(crate) struct Plan {
    product: lt_sys::cublasLtMatmulDesc_t,
    layouts: Vec<lt_sys::cublasLtMatrixLayout_t>,
    algorithm: lt_sys::cublasLtMatmulAlgo_t,
    wide: bool,
    epilogue: Epilogue,
}

// SAFETY: descriptions belong to no thread; each is used behind one lock.
unsafe impl Send for Plan {}

impl Lt {
    /// What NVIDIA recommends for its larger GPUs.
    const WORKSPACE: usize = 32 << 20;

    /// Opens the library on the stream's device, or says why it cannot be used.
    pub fn open(stream: &Arc<CudaStream>) -> Result<Self, Unopened> {
        if !usable!(lt_sys, [&b"cublasLtCreate\0"[..], b"cublasLtMatmul\0"]) {
            return Err(Unopened::Unusable("cuBLASLt was not found (libcublasLt)".into()));
        }
        let driver = |e: DriverError| match e.0 {
            OUT_OF_MEMORY => Unopened::Wanting(format!("out of memory: {} bytes asked for", Self::WORKSPACE)),
            _ => Unopened::Unusable(crate::error::text(&e)),
        };
        stream.context().bind_to_thread().map_err(driver)?;
        let workspace = allocate(stream, Self::WORKSPACE).map_err(driver)?;
        let handle = lt::create_handle().map_err(|e| match wants_memory(e) {
            true => Unopened::Wanting(e.to_string()),
            false => Unopened::Unusable(format!("cuBLASLt cannot be used: {e}")),
        })?;
        Ok(Self { handle, workspace, stream: stream.clone() })
    }

    /// Makes the GPU's context that of the calling thread.
    fn bind(&self) -> Result<(), CublasError> {
        let unbound = |_| CublasError(lt_sys::cublasStatus_t::CUBLAS_STATUS_NOT_INITIALIZED);
        self.stream.context().bind_to_thread().map_err(unbound)
    }

    /// Descriptions and algorithm of a product, which depends on how its operands are aligned.
    pub fn plan(&self, of: &Product, at: &Addresses) -> Result<Plan, CublasError> {
        self.bind()?;
        let [input, output] = of.types.map(element);
        let wide = of.types[0] == DType::F64;
        // Never TF32: products of F32 keep all their bits.
        let (compute, scale) = match wide {
            true => (lt_sys::cublasComputeType_t::CUBLAS_COMPUTE_64F, lt_sys::cudaDataType::CUDA_R_64F),
            false => (lt_sys::cublasComputeType_t::CUBLAS_COMPUTE_32F, lt_sys::cudaDataType::CUDA_R_32F),
        };
        let mut plan = Plan {
            product: lt::create_matmul_desc(compute, scale)?,
            layouts: Vec::new(),
            algorithm: lt_sys::cublasLtMatmulAlgo_t { data: [0; 8] },
            wide,
            epilogue: of.epilogue,
        };
        plan.describe(of)?;
        plan.point(at)?;
        for (i, dtype) in [input, input, output].into_iter().enumerate() {
            plan.add_layout(of, i, dtype)?;
        }
        self.choose(of, &mut plan)?;
        Ok(plan)
    }

    /// Asks for the algorithm that cuBLASLt expects to be the fastest, of those that never round a part of a sum.
    fn choose(&self, of: &Product, plan: &mut Plan) -> Result<(), CublasError> {
        use lt_sys::cublasLtMatmulPreferenceAttributes_t as Attribute;
        let alignments = [
            Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
            Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
            Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
            Attribute::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
        ];
        let [a, b, c] = of.alignments;
        let preference = lt::create_matmul_pref()?;
        let set = |attribute, value: *const std::ffi::c_void, bytes| {
            // SAFETY: the preference lives until the end of this function; every value is of the attribute's type.
            unsafe { lt::set_matmul_pref_attribute(preference, attribute, value, bytes) }
        };
        let (size, bytes) = (Self::WORKSPACE, size_of::<usize>());
        let mut outcome = set(Attribute::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, (&raw const size).cast(), bytes);
        // Sums of split terms are joined neither in 16 bits nor in the order of arrival, as other schemes do it.
        let joined = lt_sys::cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE as u32;
        let (scheme, bytes) = (Attribute::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, size_of::<u32>());
        outcome = outcome.and_then(|()| set(scheme, (&raw const joined).cast(), bytes));
        for (attribute, value) in alignments.into_iter().zip([a, b, c, c]) {
            outcome = outcome.and_then(|()| set(attribute, (&raw const value).cast(), bytes));
        }
        let found = outcome.and_then(|()| {
            let [l, r, y] = [plan.layouts[0], plan.layouts[1], plan.layouts[2]];
            // SAFETY: handle, descriptions and preference are alive.
            unsafe { lt::get_matmul_algo_heuristic(self.handle, plan.product, l, r, y, y, preference) }
        });
        // SAFETY: created above, destroyed once.
        unsafe { lt::destroy_matmul_pref(preference) }?;
        plan.algorithm = found?.algo;
        Ok(())
    }

    /// Runs a product in stream order; with `accumulate` the result is added to what the memory holds.
    pub fn multiply(&self, plan: &mut Plan, at: Addresses, accumulate: bool) -> Result<(), CublasError> {
        self.bind()?;
        plan.point(&at)?;
        let beta = if accumulate { 1.0f64 } else { 0.0 };
        let (alpha, wide, narrow) = (1.0f64, beta, beta as f32);
        let one = 1.0f32;
        let (alpha, beta): (*const std::ffi::c_void, *const std::ffi::c_void) = match plan.wide {
            true => ((&raw const alpha).cast(), (&raw const wide).cast()),
            false => ((&raw const one).cast(), (&raw const narrow).cast()),
        };
        let [a, b, y] = at.matrices.map(|address| address as *mut std::ffi::c_void);
        // SAFETY: the addresses cover what the layouts describe (premise 2, `Product` is made from checked operands), the
        // scalars outlive the call, which reads them at once, and memory stays until the stream has passed (premise 3).
        unsafe {
            lt::matmul(
                self.handle,
                plan.product,
                alpha,
                beta,
                a,
                plan.layouts[0],
                b,
                plan.layouts[1],
                y,
                plan.layouts[2],
                y,
                plan.layouts[2],
                &plan.algorithm,
                self.workspace.address as *mut std::ffi::c_void,
                Self::WORKSPACE,
                self.stream.cu_stream().cast(),
            )
        }
    }
}

/// Whether cuBLASLt says that it cannot do something at all.
pub(crate) fn unsupported(error: CublasError) -> bool {
    error.0 == lt_sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED
}

/// Whether cuBLASLt had no memory for what it was to do.
pub(crate) fn wants_memory(error: CublasError) -> bool {
    error.0 == lt_sys::cublasStatus_t::CUBLAS_STATUS_ALLOC_FAILED
}

impl Drop for Lt {
    fn drop(&mut self) {
        // SAFETY: the handle was created with this value and is destroyed once.
        let _ = unsafe { lt::destroy_handle(self.handle) };
    }
}

impl Plan {
    /// The algorithm in the words of cuBLASLt: the same words are the same code.
    pub fn algorithm(&self) -> [u64; 8] {
        self.algorithm.data
    }

    fn set<T: Copy>(&self, attribute: lt_sys::cublasLtMatmulDescAttributes_t, value: &T) -> Result<(), CublasError> {
        // SAFETY: the description is alive; the caller passes a value of the attribute's type.
        unsafe { lt::set_matmul_desc_attribute(self.product, attribute, (&raw const *value).cast(), size_of::<T>()) }
    }

    fn describe(&self, of: &Product) -> Result<(), CublasError> {
        use lt_sys::cublasLtMatmulDescAttributes_t as Attribute;
        let [a, b] = of.transposed.map(i32::from);
        self.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSA, &a)?;
        self.set(Attribute::CUBLASLT_MATMUL_DESC_TRANSB, &b)?;
        let epilogue = match of.epilogue {
            Epilogue::Nothing => return Ok(()),
            Epilogue::Bias => lt_sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BIAS,
            Epilogue::Sums => lt_sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_BGRADB,
            Epilogue::Gelu { bias: false } => lt_sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_GELU_AUX,
            Epilogue::Gelu { bias: true } => lt_sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
            Epilogue::GeluGrad => lt_sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_DGELU,
            Epilogue::Relu => lt_sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_RELU_AUX_BIAS,
            Epilogue::ReluGrad => lt_sys::cublasLtEpilogue_t::CUBLASLT_EPILOGUE_DRELU,
        };
        self.set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue)?;
        if self.keeps() {
            self.set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &of.kept_leading())?;
        }
        Ok(())
    }

    /// Whether the epilogue writes or reads a second matrix.
    fn keeps(&self) -> bool {
        matches!(self.epilogue, Epilogue::Gelu { .. } | Epilogue::GeluGrad | Epilogue::Relu | Epilogue::ReluGrad)
    }

    /// Where the epilogue's vector and second matrix are.
    fn point(&self, at: &Addresses) -> Result<(), CublasError> {
        use lt_sys::cublasLtMatmulDescAttributes_t as Attribute;
        if matches!(self.epilogue, Epilogue::Bias | Epilogue::Sums | Epilogue::Gelu { bias: true } | Epilogue::Relu) {
            self.set(Attribute::CUBLASLT_MATMUL_DESC_BIAS_POINTER, &at.vector)?;
        }
        if self.keeps() {
            self.set(Attribute::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &at.kept)?;
        }
        Ok(())
    }

    fn add_layout(&mut self, of: &Product, i: usize, dtype: lt_sys::cudaDataType) -> Result<(), CublasError> {
        use lt_sys::cublasLtMatrixLayoutAttribute_t as Attribute;
        let [rows, columns] = of.shape(i);
        let layout = lt::create_matrix_layout(dtype, rows, columns, of.leading[i])?;
        self.layouts.push(layout);
        let (batch, stride) = (of.batch, of.batch_strides[i]);
        // SAFETY: the layout was just made; the values are of the attributes' types.
        unsafe {
            lt::set_matrix_layout_attribute(
                layout,
                Attribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                (&raw const batch).cast(),
                size_of::<i32>(),
            )?;
            lt::set_matrix_layout_attribute(
                layout,
                Attribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                (&raw const stride).cast(),
                size_of::<i64>(),
            )
        }
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        for layout in &self.layouts {
            // SAFETY: created by `add_layout`, destroyed once.
            let _ = unsafe { lt::destroy_matrix_layout(*layout) };
        }
        // SAFETY: created by `Lt::plan`, destroyed once.
        let _ = unsafe { lt::destroy_matmul_desc(self.product) };
    }
}

fn element(dtype: DType) -> lt_sys::cudaDataType {
    match dtype {
        DType::F16 => lt_sys::cudaDataType::CUDA_R_16F,
        DType::BF16 => lt_sys::cudaDataType::CUDA_R_16BF,
        DType::F64 => lt_sys::cudaDataType::CUDA_R_64F,
        _ => lt_sys::cudaDataType::CUDA_R_32F,
    }
}
