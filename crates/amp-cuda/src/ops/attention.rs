use super::flash_attention::Flash;
use crate::args::{AttentionArgs, AttentionDeltaArgs};
use crate::device::{Gpu, Memory};
use crate::error::foreign;
use crate::module::Family::Attention as FAMILY;
use crate::operand::{Compute, Operand, tag};
use amp_core::Result;
use amp_core::backend::{Attention, AttentionGrads, AttentionScores, Buffer, DType, Operand as CoreOperand};

pub(super) const OP: &str = "scaled_dot_product_attention";
/// `ATTENTION_THREADS` of `attention.cu`.
const THREADS: u32 = 128;

/// Kernels for vectors of up to so many elements, with the rows of their tiles forward and backward in F32 and F64.
struct Variant {
    width: usize,
    forward: &'static str,
    grad_q: &'static str,
    grad_k: &'static str,
    rows: [[usize; 2]; 2],
}

const VARIANTS: [Variant; 4] = [
    Variant {
        width: 64,
        forward: "attention_64",
        grad_q: "attention_grad_q_64",
        grad_k: "attention_grad_k_64",
        rows: [[32, 32], [16, 16]],
    },
    Variant {
        width: 128,
        forward: "attention_128",
        grad_q: "attention_grad_q_128",
        grad_k: "attention_grad_k_128",
        rows: [[32, 16], [16, 8]],
    },
    Variant {
        width: 256,
        forward: "attention_256",
        grad_q: "attention_grad_q_256",
        grad_k: "attention_grad_k_256",
        rows: [[16, 8], [8, 4]],
    },
    Variant {
        width: usize::MAX,
        forward: "attention_any",
        grad_q: "attention_grad_q_any",
        grad_k: "attention_grad_k_any",
        rows: [[1, 1], [1, 1]],
    },
];

impl Variant {
    /// The one that takes vectors of `width` elements.
    fn new(width: i64) -> &'static Self {
        VARIANTS.iter().find(|v| v.width >= width as usize).unwrap_or(&VARIANTS[3])
    }

    /// Memory for `len` sums, if they do not fit in registers.
    fn sums(&self, gpu: &Gpu, len: usize, compute: Compute) -> Result<Option<Memory>> {
        (self.width == usize::MAX).then(|| gpu.zeros(OP, len, compute.dtype())).transpose()
    }

    fn rows(&self, compute: Compute) -> [usize; 2] {
        self.rows[usize::from(compute == Compute::F64)]
    }
}

impl Gpu {
    fn attention_args(&self, [q, k, v]: [CoreOperand<'_>; 3], scores: &AttentionScores<'_>) -> Result<AttentionArgs> {
        Ok(AttentionArgs {
            q: Operand::new(self, OP, q)?,
            k: Operand::new(self, OP, k)?,
            v: Operand::new(self, OP, v)?,
            mask: Operand::optional(self, OP, scores.mask)?,
            y: Operand::NONE,
            grad: Operand::NONE,
            out: 0,
            out_k: 0,
            out_v: 0,
            lse: 0,
            delta: 0,
            sums: 0,
            sums_v: 0,
            heads: q.layout.shape[1] as i64,
            queries: q.layout.shape[2] as i64,
            keys: k.layout.shape[2] as i64,
            width: q.layout.shape[3] as i64,
            value_width: v.layout.shape[3] as i64,
            scale: scores.scale,
            causal: i32::from(scores.causal),
            dtype: 0,
        })
    }
}

/// Blocks for tiles of `rows` of each head.
fn grid(total: i64, rows: usize, heads: usize) -> ([u64; 3], u32) {
    ([(total as u64).div_ceil(rows as u64) * heads as u64, 1, 1], THREADS)
}

impl Attention for Gpu {
    fn interleaves_heads(&self) -> bool {
        true
    }

    fn attention(
        &self,
        q: CoreOperand<'_>,
        k: CoreOperand<'_>,
        v: CoreOperand<'_>,
        scores: &AttentionScores<'_>,
        out: DType,
    ) -> Result<(Buffer, Buffer)> {
        if let Some(flash) = Flash::new(self, [q, k, v], scores, out)? {
            return flash.run(self);
        }
        let args = self.attention_args([q, k, v], scores)?;
        let (variant, compute) = (Variant::new(args.width.max(args.value_width)), Compute::real(&[q.logical]));
        let heads = q.layout.shape[0] * q.layout.shape[1];
        let rows = heads * args.queries as usize;
        let y = self.memory(OP, rows * args.value_width as usize, out)?;
        let lse = self.memory(OP, rows, compute.dtype())?;
        let sums = variant.sums(self, y.len(), compute)?;
        let sums = sums.as_ref().map_or(0, Memory::address);
        let args = AttentionArgs { out: y.address(), lse: lse.address(), dtype: tag(out), sums, ..args };
        let blocks = grid(args.queries, variant.rows(compute)[0], heads);
        self.launch(FAMILY, variant.forward, Some(compute), blocks, args)?;
        Ok((y.into_buffer(), lse.into_buffer()))
    }

    fn attention_grad(
        &self,
        grad: CoreOperand<'_>,
        qkv: [CoreOperand<'_>; 3],
        y: CoreOperand<'_>,
        lse: &Buffer,
        scores: &AttentionScores<'_>,
        out: DType,
    ) -> Result<AttentionGrads<Buffer>> {
        if let Some(flash) = Flash::new(self, qkv, scores, out)?
            && let Some(grads) = flash.grad(self, qkv, [grad, y], lse)?
        {
            return Ok(grads);
        }
        let args = self.attention_args(qkv, scores)?;
        let (variant, compute) = (Variant::new(args.width.max(args.value_width)), Compute::real(&[grad.logical]));
        let heads = qkv[0].layout.shape[0] * qkv[0].layout.shape[1];
        let rows = heads * args.queries as usize;
        let delta = self.memory(OP, rows, compute.dtype())?;
        let [dq, dk, dv] = qkv.map(|x| self.memory(OP, x.layout.count(), out));
        let (dq, dk, dv) = (dq?, dk?, dv?);
        let args = AttentionArgs {
            y: Operand::new(self, OP, y)?,
            grad: Operand::new(self, OP, grad)?,
            out: dq.address(),
            out_k: dk.address(),
            out_v: dv.address(),
            lse: lse.downcast::<Memory>().ok_or_else(|| foreign(self, OP))?.address(),
            delta: delta.address(),
            dtype: tag(out),
            ..args
        };
        let summed = AttentionDeltaArgs { of: args, rows: rows as i64 };
        self.launch(FAMILY, "attention_delta", Some(compute), self.spread(rows), summed)?;
        let tile = variant.rows(compute)[1];
        let [sums_q, sums_k, sums_v] = qkv.map(|x| variant.sums(self, x.layout.count(), compute));
        let address = |sums: &Option<Memory>| sums.as_ref().map_or(0, Memory::address);
        let (sums_q, sums_k, sums_v) = (sums_q?, sums_k?, sums_v?);
        let args = AttentionArgs { sums: address(&sums_q), ..args };
        self.launch(FAMILY, variant.grad_q, Some(compute), grid(args.queries, tile, heads), args)?;
        let args = AttentionArgs { sums: address(&sums_k), sums_v: address(&sums_v), ..args };
        self.launch(FAMILY, variant.grad_k, Some(compute), grid(args.keys, tile, heads), args)?;
        Ok(AttentionGrads::Apart([dq, dk, dv].map(Memory::into_buffer)))
    }
}
