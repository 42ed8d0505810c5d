//! Tensor arguments as kernels see them: address, type tags, merged shape and strides.

use crate::device::{Gpu, Memory};
use crate::error::foreign;
use amp_core::backend::{DType, Layout, MAX_RANK, Operand as CoreOperand};
use amp_core::{Dims, Error, Result};

/// The twin of `Operand` in `common.cuh`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operand {
    pub data: u64,
    pub stored: i32,
    pub rounds: i32,
    pub rank: i32,
    pub packed: i32,
    pub quads: i32,
    pub shape: [i64; MAX_RANK],
    pub strides: [i64; MAX_RANK],
}

/// Number of an element type, as in `enum DType` of `elements.cuh`.
pub(crate) fn tag(dtype: DType) -> i32 {
    match dtype {
        DType::F16 => 0,
        DType::BF16 => 1,
        DType::F32 => 2,
        DType::F64 => 3,
        DType::I64 => 4,
        DType::U8 => 5,
        DType::Bool => 6,
    }
}

/// Bytes of an element of a packable type with that number.
pub(crate) fn size(stored: i32) -> u64 {
    match stored {
        _ if stored == tag(DType::F32) => 4,
        _ if stored == tag(DType::F16) || stored == tag(DType::BF16) => 2,
        _ => 1,
    }
}

/// Whether elements of the type with that number are read and written in packs; `in_packs` of `lines.cuh`.
pub(crate) fn in_packs(stored: i32) -> bool {
    [DType::F16, DType::BF16, DType::F32].map(tag).contains(&stored)
}

/// The type that a kernel computes in; part of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Compute {
    F32,
    F64,
    I64,
}

impl Compute {
    /// The widest that any of the types needs: F64, else F32 where one is a float, else I64.
    pub fn of(dtypes: &[DType]) -> Self {
        match dtypes {
            _ if dtypes.contains(&DType::F64) => Self::F64,
            _ if dtypes.iter().any(|d| d.is_float()) => Self::F32,
            _ => Self::I64,
        }
    }

    /// As [`of`](Self::of), for kernels that have no integer form.
    pub fn real(dtypes: &[DType]) -> Self {
        if dtypes.contains(&DType::F64) { Self::F64 } else { Self::F32 }
    }

    /// The element type of that name.
    pub fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::F64 => DType::F64,
            Self::I64 => DType::I64,
        }
    }

    /// Ending of the names of its kernels.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::F32 => "_f32",
            Self::F64 => "_f64",
            Self::I64 => "_i64",
        }
    }
}

impl Operand {
    /// No tensor: kernels test for a null address.
    pub const NONE: Self = Self {
        data: 0,
        stored: 0,
        rounds: -1,
        rank: 1,
        packed: 0,
        quads: 0,
        shape: [0; MAX_RANK],
        strides: [0; MAX_RANK],
    };

    /// The tensor `x` of device `gpu`.
    ///
    /// # Errors
    /// [`Error::Device`] when the memory is another device's, [`Error::Backend`] when the layout reaches past its end.
    pub fn new(gpu: &Gpu, op: &'static str, x: CoreOperand<'_>) -> Result<Self> {
        Self::with_layout(gpu, op, x, x.layout)
    }

    /// The tensor in `x`'s memory that `layout` describes.
    pub fn with_layout(gpu: &Gpu, op: &'static str, x: CoreOperand<'_>, layout: &Layout) -> Result<Self> {
        let memory = x.buffer.downcast::<Memory>().filter(|m| m.belongs_to(gpu)).ok_or_else(|| foreign(gpu, op))?;
        let last =
            layout.shape.iter().zip(layout.strides.iter()).map(|(&n, &s)| n.saturating_sub(1) * s).sum::<usize>();
        if layout.count() > 0 && layout.offset + last >= x.buffer.len() {
            let message = format!("a layout of {layout:?} in memory of {} elements", x.buffer.len());
            return Err(Error::Backend { op, device: gpu.name().into(), message });
        }
        let stored = x.buffer.dtype();
        let narrower = stored.is_float() && x.logical.is_float() && x.logical != stored;
        let rounds = if narrower && x.logical.size() <= stored.size() { tag(x.logical) } else { -1 };
        let data = memory.address() + (layout.offset * stored.size()) as u64;
        Ok(Self { data, stored: tag(stored), rounds, ..Self::NONE }.laid_out(&layout.shape, &layout.strides))
    }

    /// `x` or nothing.
    pub fn optional(gpu: &Gpu, op: &'static str, x: Option<CoreOperand<'_>>) -> Result<Self> {
        x.map_or(Ok(Self::NONE), |x| Self::new(gpu, op, x))
    }

    /// A whole buffer in row-major order.
    pub fn whole(memory: &Memory) -> Self {
        let shape = Dims::new(&[memory.len()]).expect("one dimension");
        Self { data: memory.address(), stored: tag(memory.dtype()), ..Self::NONE }
            .laid_out(&shape, &shape.contiguous_strides())
    }

    /// The same memory with other dimensions, merged where they can be walked as one.
    pub fn laid_out(mut self, shape: &[usize], strides: &[usize]) -> Self {
        let mut rank = 0;
        (self.shape, self.strides) = ([1; MAX_RANK], [0; MAX_RANK]);
        for (&size, &stride) in shape.iter().zip(strides).filter(|(size, _)| **size != 1) {
            let (size, stride) = (size as i64, stride as i64);
            if rank > 0 && self.strides[rank - 1] == size * stride {
                self.shape[rank - 1] *= size;
                self.strides[rank - 1] = stride;
            } else {
                (self.shape[rank], self.strides[rank]) = (size, stride);
                rank += 1;
            }
        }
        self.rank = rank.max(1) as i32;
        self.packed = i32::from(rank <= 1 && self.is_dense() && self.data.is_multiple_of(16) && self.packable());
        self.quads = self.quads();
        self
    }

    /// How four elements lie that begin at a multiple of four: `enum Quads` of `common.cuh`.
    fn quads(&self) -> i32 {
        const SCATTERED: i32 = 0;
        const ADJACENT: i32 = 1;
        const REPEATED: i32 = 2;
        let fits = |of: i64| of % 4 == 0;
        let last = self.rank as usize - 1;
        if !self.packable() || (last > 0 && !fits(self.shape[last])) {
            return SCATTERED;
        }
        let begins = self.data.is_multiple_of(4 * size(self.stored)) && self.strides[..last].iter().all(|&s| fits(s));
        match self.strides[last] {
            0 => REPEATED,
            1 if begins => ADJACENT,
            _ => SCATTERED,
        }
    }

    /// The axis along which elements lie side by side, if that is not the last one and tiles of both are worth while: of the 9
    /// pixels of a kernel they are not (54 us for 512 x 512 of them on an H200).
    pub fn turned(&self) -> Option<usize> {
        const LEAST: i64 = 16;
        let last = self.rank as usize - 1;
        let wide = |axis: usize| self.shape[axis] >= LEAST;
        let axis = (0..last).find(|&axis| self.strides[axis] == 1 && wide(axis))?;
        (wide(last) && self.strides[last] > 1).then_some(axis)
    }

    /// Whether kernels read the tensor in packs.
    pub fn is_in_packs(&self) -> bool {
        self.packed != 0 && in_packs(self.stored)
    }

    fn is_dense(&self) -> bool {
        self.shape[0] == 1 || self.strides[0] == 1
    }

    fn packable(&self) -> bool {
        self.stored != tag(DType::F64) && self.stored != tag(DType::I64)
    }
}
