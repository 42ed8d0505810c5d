//! Compiled kernels: their sources, how they become code for this GPU, and where that code is kept.

use crate::operand::Compute;
use crate::{compile, error, launch};
use cudarc::driver::{CudaContext, CudaFunction, CudaModule, DriverError};
use cudarc::nvrtc::Ptx;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

macro_rules! families {
    ($($name:ident $file:literal;)*) => {
        /// One file of kernels.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Family { $($name,)* }

        impl Family {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Name of the file, without its ending.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $file,)* }
            }

            /// Code for every GPU from compute capability [`least`](Self::least) on.
            pub fn shipped(self) -> &'static str {
                match self { $(Self::$name => include_str!(concat!("../kernels/ptx/", $file, ".ptx")),)* }
            }

            fn text(self) -> &'static str {
                match self { $(Self::$name => include_str!(concat!("../kernels/", $file, ".cu")),)* }
            }
        }
    };
}
families! {
    Unary "unary";
    Binary "binary";
    Copy "copy";
    Random "random";
    Reduce "reduce";
    Scan "scan";
    Sort "sort";
    Softmax "softmax";
    CrossEntropy "cross_entropy";
    Norm "norm";
    BatchNormRelu "batch_norm_relu";
    PixelNorm "pixel_norm";
    Index "index";
    MatMul "matmul";
    Conv "conv";
    PixelConv "pixel_conv";
    Pool "pool";
    Recurrent "recurrent";
    Factor "factor";
    Attention "attention";
    FlashAttention "flash_attention";
    FlashAttentionGrad "flash_attention_grad";
    Optimizer "optimizer";
}

/// The oldest GPUs that are supported.
const LEAST: (i32, i32) = (7, 0);

impl Family {
    /// What the text of the shipped code begins with: a hash of everything it was compiled from.
    #[cfg(test)]
    pub fn stamp(self) -> String {
        format!("// sources {:016x}\n", crate::compile::fnv(self.source().bytes()))
    }

    /// The first compute capability that can run these kernels.
    pub fn least(self) -> (i32, i32) {
        if matches!(self, Self::FlashAttention | Self::FlashAttentionGrad) { (8, 0) } else { LEAST }
    }

    /// The whole program, headers included.
    pub fn source(self) -> String {
        const HEADERS: [(&str, &str); 9] = [
            ("#include \"conv.cuh\"", include_str!("../kernels/conv.cuh")),
            ("#include \"flash.cuh\"", include_str!("../kernels/flash.cuh")),
            ("#include \"gemm.cuh\"", include_str!("../kernels/gemm.cuh")),
            ("#include \"mma.cuh\"", include_str!("../kernels/mma.cuh")),
            ("#include \"attention.cuh\"", include_str!("../kernels/attention.cuh")),
            ("#include \"quads.cuh\"", include_str!("../kernels/quads.cuh")),
            ("#include \"lines.cuh\"", include_str!("../kernels/lines.cuh")),
            ("#include \"common.cuh\"", include_str!("../kernels/common.cuh")),
            ("#include \"elements.cuh\"", include_str!("../kernels/elements.cuh")),
        ];
        let once = |text: &str| text.replace("#pragma once", "");
        HEADERS.iter().fold(self.text().into(), |text, (line, header)| text.replacen(line, &once(header), 1))
    }
}

/// The kernels of one GPU, compiled and loaded file by file when they are first asked for.
pub(crate) struct Modules {
    capability: (i32, i32),
    version: i32,
    modules: Mutex<HashMap<Family, Arc<CudaModule>>>,
    functions: Mutex<HashMap<(&'static str, Option<Compute>), CudaFunction>>,
}

impl Modules {
    /// Kernels for a GPU of this compute capability under this version of the driver.
    pub fn new(capability: (i32, i32), version: i32) -> Result<Self, String> {
        if capability < LEAST {
            let (major, minor) = capability;
            return Err(format!("its compute capability is {major}.{minor}, at least 7.0 is needed"));
        }
        Ok(Self { capability, version, modules: Mutex::default(), functions: Mutex::default() })
    }

    /// Whether the GPU can run the kernels of a family.
    pub fn can_run(&self, family: Family) -> bool {
        self.capability >= family.least()
    }

    /// Kernel `stem` for that type of computation, with an argument of `bytes` bytes.
    pub fn function(
        &self,
        context: &Arc<CudaContext>,
        family: Family,
        stem: &'static str,
        compute: Option<Compute>,
        bytes: usize,
    ) -> Result<CudaFunction, String> {
        let mut functions = self.functions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = functions.get(&(stem, compute)) {
            return Ok(function.clone());
        }
        let module = self.module(context, family)?;
        // A module that another thread has loaded says nothing of this one's context.
        context.bind_to_thread().map_err(|e| error::text(&e))?;
        let name = format!("{stem}{}", compute.map_or("", Compute::suffix));
        let function = launch::function(&module, &name, bytes, self.version)?;
        functions.insert((stem, compute), function.clone());
        Ok(function)
    }

    fn module(&self, context: &Arc<CudaContext>, family: Family) -> Result<Arc<CudaModule>, String> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = modules.get(&family) {
            return Ok(module.clone());
        }
        let refused = |e: DriverError| format!("module {}: {}", family.name(), error::text(&e));
        // A compiler of a newer major version than the driver's writes code that the driver cannot read.
        let compiled = compile::code(family, self.capability).map(|code| context.load_module(code));
        let module = match compiled {
            Some(Ok(module)) => module,
            Some(Err(e)) => {
                log::warn!("{}; the driver compiles what ships", refused(e));
                context.load_module(Ptx::from_src(family.shipped())).map_err(refused)?
            }
            None => context.load_module(Ptx::from_src(family.shipped())).map_err(refused)?,
        };
        modules.insert(family, module.clone());
        Ok(module)
    }
}
