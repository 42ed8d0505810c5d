//! Scaled dot-product attention.

use super::{Buffer, Operand};
use crate::Result;
use amp_cpu::{AttentionGrads, DType};

/// Which scores of an attention count, and their scale.
#[derive(Clone, Copy, Debug)]
pub struct AttentionScores<'a> {
    /// Bool `[B, H, T, S]`, true where a query may attend to a key.
    pub mask: Option<Operand<'a>>,
    /// Whether query `t` attends to keys `0..=t` only.
    pub causal: bool,
    /// Factor of the dot products.
    pub scale: f64,
}

/// Attention of `q` `[B, H, T, D]` over `k` `[B, H, S, D]` and `v` `[B, H, S, E]`; scores, statistics and sums in F32 (F64
/// for F64). A query that may attend to no key gives zeros.
pub trait Attention {
    /// Whether results lie as `[B, T, H, E]`, the heads of a query beside each other.
    fn interleaves_heads(&self) -> bool {
        false
    }

    /// The result `[B, H, T, E]` (or as [`interleaves_heads`](Self::interleaves_heads) says), rounded once to `out`, and the
    /// log-sum-exp of each row of scores `[B, H, T]` in F32.
    fn attention(
        &self,
        q: Operand<'_>,
        k: Operand<'_>,
        v: Operand<'_>,
        scores: &AttentionScores<'_>,
        out: DType,
    ) -> Result<(Buffer, Buffer)>;

    /// Gradients with respect to `q`, `k` and `v`, each rounded once to `out`.
    fn attention_grad(
        &self,
        grad: Operand<'_>,
        qkv: [Operand<'_>; 3],
        y: Operand<'_>,
        lse: &Buffer,
        scores: &AttentionScores<'_>,
        out: DType,
    ) -> Result<AttentionGrads<Buffer>>;
}
