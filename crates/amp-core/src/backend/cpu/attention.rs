use super::{CpuBackend, foreign, view};
use crate::Result;
use crate::backend::{Attention, AttentionScores, Buffer, Operand};
use amp_cpu::{AttentionGrads, DType, Scores, Storage};

const OP: &str = "scaled_dot_product_attention";

impl Attention for CpuBackend {
    fn interleaves_heads(&self) -> bool {
        true
    }

    fn attention(
        &self,
        q: Operand<'_>,
        k: Operand<'_>,
        v: Operand<'_>,
        scores: &AttentionScores<'_>,
        out: DType,
    ) -> Result<(Buffer, Buffer)> {
        let attended = amp_cpu::attention(&view(OP, q)?, &view(OP, k)?, &view(OP, v)?, &of(scores)?, out);
        Ok((Buffer::new(attended.y), Buffer::new(attended.lse)))
    }

    fn attention_grad(
        &self,
        grad: Operand<'_>,
        [q, k, v]: [Operand<'_>; 3],
        y: Operand<'_>,
        lse: &Buffer,
        scores: &AttentionScores<'_>,
        out: DType,
    ) -> Result<AttentionGrads<Buffer>> {
        let lse = lse.downcast::<Storage>().ok_or_else(|| foreign(OP))?;
        let qkv = [&view(OP, q)?, &view(OP, k)?, &view(OP, v)?];
        let grads = amp_cpu::attention_grad(&view(OP, grad)?, qkv, &view(OP, y)?, lse, &of(scores)?, out);
        Ok(grads.map(Buffer::new))
    }
}

fn of<'a>(scores: &AttentionScores<'a>) -> Result<Scores<'a>> {
    let mask = scores.mask.map(|mask| view(OP, mask)).transpose()?;
    Ok(Scores { mask, causal: scores.causal, scale: scores.scale })
}
