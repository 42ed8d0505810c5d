//! Attention of 16-bit vectors of up to 128 elements, on GPUs whose tensor cores multiply both 16-bit types.

use super::attention::OP;
use crate::args::{FlashArgs, Heads};
use crate::device::{Gpu, Memory};
use crate::error::foreign;
use crate::module::Family;
use crate::operand::Operand;
use amp_core::Result;
use amp_core::backend::{AttentionGrads, AttentionScores, Buffer, DType, Layout, Operand as CoreOperand, take_apart};

/// `FLASH_THREADS` of `flash.cuh`.
const THREADS: u32 = 128;
/// Queries and keys are counted in 32 bits, with room for a tile's.
const MOST: usize = 1 << 30;

/// Kernels for vectors of up to so many elements of a type: forward, gradient of queries, gradient of keys. A block has so
/// many rows, queries or keys, as `Block` of `flash.cuh`.
struct Variant {
    dtype: DType,
    width: usize,
    rows: u64,
    stems: [&'static str; 3],
}

/// Where these three are.
const FAMILIES: [Family; 3] = [Family::FlashAttention, Family::FlashAttentionGrad, Family::FlashAttentionGrad];

const VARIANTS: [Variant; 4] = [
    Variant {
        dtype: DType::F16,
        width: 64,
        rows: 128,
        stems: ["flash_attention_64_f16", "flash_attention_grad_q_64_f16", "flash_attention_grad_k_64_f16"],
    },
    Variant {
        dtype: DType::BF16,
        width: 64,
        rows: 128,
        stems: ["flash_attention_64_bf16", "flash_attention_grad_q_64_bf16", "flash_attention_grad_k_64_bf16"],
    },
    Variant {
        dtype: DType::F16,
        width: 128,
        rows: 64,
        stems: ["flash_attention_128_f16", "flash_attention_grad_q_128_f16", "flash_attention_grad_k_128_f16"],
    },
    Variant {
        dtype: DType::BF16,
        width: 128,
        rows: 64,
        stems: ["flash_attention_128_bf16", "flash_attention_grad_q_128_bf16", "flash_attention_grad_k_128_bf16"],
    },
];

/// An attention that the tensor cores can do.
pub(super) struct Flash {
    variant: &'static Variant,
    args: FlashArgs,
    out: DType,
}

impl Flash {
    /// `None` on GPUs and for operands that `attention.cu` serves.
    pub fn new(
        gpu: &Gpu,
        [q, k, v]: [CoreOperand<'_>; 3],
        scores: &AttentionScores<'_>,
        out: DType,
    ) -> Result<Option<Self>> {
        let [batch, heads, queries, width] = std::array::from_fn(|i| q.layout.shape[i]);
        let (keys, value_width) = (k.layout.shape[2], v.layout.shape[3]);
        let wanted = |variant: &&Variant| variant.dtype == q.logical && variant.width >= width.max(value_width);
        let able = FAMILIES.iter().all(|&family| gpu.can_run(family));
        let Some(variant) = VARIANTS.iter().find(wanted).filter(|_| able) else { return Ok(None) };
        let heads_of = |x| Heads::new(gpu, x, variant.dtype);
        let (Some(q), Some(k), Some(v)) = (heads_of(q)?, heads_of(k)?, heads_of(v)?) else { return Ok(None) };
        if (out != variant.dtype && out != DType::F32) || queries.max(keys).max(batch * heads) > MOST {
            return Ok(None);
        }
        let mask = scores.mask.map(|mask| Ok((Operand::new(gpu, OP, mask)?.data, mask.layout.strides)));
        let (mask, strides) = mask.transpose()?.map_or((0, None), |(data, strides)| (data, Some(strides)));
        let args = FlashArgs {
            q,
            k,
            v,
            y: Heads::default(),
            grad: Heads::default(),
            out: Heads::default(),
            out_k: Heads::default(),
            out_v: Heads::default(),
            mask,
            mask_strides: std::array::from_fn(|i| strides.map_or(0, |s| s[i] as i64)),
            lse: 0,
            delta: 0,
            batch: batch as i64,
            heads: heads as i64,
            queries: queries as i64,
            keys: keys as i64,
            width: width as i64,
            value_width: value_width as i64,
            scale: scores.scale,
            causal: i32::from(scores.causal),
            narrow: i32::from(out == variant.dtype),
        };
        Ok(Some(Self { variant, args, out }))
    }

    /// The result and the log-sum-exp of the scores.
    pub fn run(&self, gpu: &Gpu) -> Result<(Buffer, Buffer)> {
        let FlashArgs { batch, heads, queries, value_width, .. } = self.args;
        let lse = gpu.memory(OP, (batch * heads * queries) as usize, DType::F32)?;
        let y = gpu.memory(OP, lse.len() * value_width as usize, self.out)?;
        let row = heads * value_width;
        let out = Heads { data: y.address(), batch: queries * row, head: value_width, row, packed: 0 };
        self.launch(gpu, 0, queries, FlashArgs { out, lse: lse.address(), ..self.args })?;
        Ok((y.into_buffer(), lse.into_buffer()))
    }

    /// Gradients of queries, keys and values; `None` where `grad` or `y` are not what the tensor cores read.
    pub fn grad(
        &self,
        gpu: &Gpu,
        qkv: [CoreOperand<'_>; 3],
        [grad, y]: [CoreOperand<'_>; 2],
        lse: &Buffer,
    ) -> Result<Option<AttentionGrads<Buffer>>> {
        let heads_of = |x| Heads::new(gpu, x, self.variant.dtype);
        let (Some(grad), Some(y)) = (heads_of(grad)?, heads_of(y)?) else { return Ok(None) };
        let FlashArgs { batch, heads, queries, keys, .. } = self.args;
        let delta = gpu.memory(OP, (batch * heads * queries) as usize, DType::F32)?;
        let (grads, [out, out_k, out_v]) = self.places(gpu, qkv)?;
        let args = FlashArgs {
            grad,
            y,
            out,
            out_k,
            out_v,
            lse: lse.downcast::<Memory>().ok_or_else(|| foreign(gpu, OP))?.address(),
            delta: delta.address(),
            ..self.args
        };
        self.launch(gpu, 1, queries, args)?;
        self.launch(gpu, 2, keys, args)?;
        Ok(Some(grads.map(Memory::into_buffer)))
    }

    /// Memory for the gradients of these operands, and where in it each of them goes.
    fn places(&self, gpu: &Gpu, qkv: [CoreOperand<'_>; 3]) -> Result<(AttentionGrads<Memory>, [Heads; 3])> {
        let memory = |len| gpu.memory(OP, len, self.out);
        let (len, layouts) = (qkv[0].buffer.len(), qkv.map(|x| x.layout));
        let address = |x: &CoreOperand<'_>| x.buffer.downcast::<Memory>().map(Memory::address);
        if qkv.iter().all(|x| address(x) == address(&qkv[0])) && take_apart(len, layouts) {
            let grads = memory(len)?;
            let places = layouts.map(|layout| Heads::within(&grads, layout));
            return Ok((AttentionGrads::Together(grads), places));
        }
        let [q, k, v] = layouts.map(|layout| memory(layout.count()));
        let grads = [q?, k?, v?];
        let places = std::array::from_fn(|i| Heads::within(&grads[i], &Layout::contiguous(layouts[i].shape)));
        Ok((AttentionGrads::Apart(grads), places))
    }

    /// One of the three kernels, for all tiles of `rows` of each head.
    fn launch(&self, gpu: &Gpu, which: usize, rows: i64, args: FlashArgs) -> Result<()> {
        let blocks = (rows as u64).div_ceil(self.variant.rows) * (args.batch * args.heads) as u64;
        gpu.launch(FAMILIES[which], self.variant.stems[which], None, ([blocks, 1, 1], THREADS), args)
    }
}

impl Heads {
    /// `[batch, heads, rows, width]` with the elements of a row side by side, stored in `dtype` as they count.
    fn new(gpu: &Gpu, x: CoreOperand<'_>, dtype: DType) -> Result<Option<Self>> {
        let Layout { shape, strides, .. } = x.layout;
        if x.buffer.dtype() != dtype || x.logical != dtype || (shape[3] > 1 && strides[3] != 1) {
            return Ok(None);
        }
        let data = Operand::new(gpu, OP, x)?.data;
        let far = (0..3).all(|i| shape[i] <= 1 || strides[i].is_multiple_of(8));
        let packed = far && shape[3].is_multiple_of(8) && data.is_multiple_of(16);
        let [batch, head, row] = std::array::from_fn(|i| strides[i] as i64);
        Ok(Some(Self { data, batch, head, row, packed: i64::from(packed) }))
    }

    /// The part of `memory` that `layout` describes, to be written.
    fn within(memory: &Memory, layout: &Layout) -> Self {
        let data = memory.address() + (layout.offset * memory.dtype().size()) as u64;
        let [batch, head, row] = std::array::from_fn(|i| layout.strides[i] as i64);
        Self { data, batch, head, row, packed: 0 }
    }
}
