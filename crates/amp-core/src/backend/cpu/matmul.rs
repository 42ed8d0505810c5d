use super::{CpuBackend, room, storage_mut, view};
use crate::Result;
use crate::backend::{Buffer, MatMul, Operand, unary_grad_after};
use amp_cpu::simd::Level;
use amp_cpu::{DType, Epilogue, Storage, Unary, View};
use std::sync::Once;

impl MatMul for CpuBackend {
    /// From where on the products themselves take most of the time. Fewer rows, as of a recurrent layer's step or of a token that
    /// is generated, wait for memory, and a copy is half of it.
    fn rounds_as_it_packs(&self, met: usize) -> bool {
        met >= 512
    }

    fn matmul(&self, a: Operand<'_>, b: Operand<'_>, bias: Option<Operand<'_>>, out: DType) -> Result<Buffer> {
        product(a, b, [bias, None], out).map(Buffer::new)
    }

    fn matmul_add(
        &self,
        a: Operand<'_>,
        b: Operand<'_>,
        bias: Option<Operand<'_>>,
        residual: Operand<'_>,
        out: DType,
    ) -> Result<Buffer> {
        product(a, b, [bias, Some(residual)], out).map(Buffer::new)
    }

    fn matmul_accumulate(&self, a: Operand<'_>, b: Operand<'_>, into: &mut Buffer) -> Result<()> {
        amp_cpu::matmul_acc(&view("matmul", a)?, &view("matmul", b)?, storage_mut("matmul", into)?);
        Ok(())
    }

    fn matmul_unary_grad(
        &self,
        a: Operand<'_>,
        b: Operand<'_>,
        op: Unary,
        saved: Operand<'_>,
        out: DType,
    ) -> Result<Buffer> {
        let mut grad = product(a, b, [None, None], out)?;
        if op == Unary::Relu && amp_cpu::relu_grad_in_place(&view("relu", saved)?, &mut grad) {
            return Ok(Buffer::new(grad));
        }
        unary_grad_after(self, Buffer::new(grad), op, saved, out)
    }

    fn matmul_sums(&self, a: Operand<'_>, b: Operand<'_>, out: DType) -> Result<(Buffer, Option<Buffer>)> {
        let (left, right) = (view("matmul", a)?, view("matmul", b)?);
        room("matmul", elements(&left, &right), out)?;
        match amp_cpu::matmul_sums(&left, &right, out) {
            Some([product, sums]) => Ok((Buffer::new(product), Some(Buffer::new(sums)))),
            None => Ok((self.matmul(a, b, None, out)?, None)),
        }
    }
}

/// The product of two operands with what is added to it: a bias, a residual.
fn product(a: Operand<'_>, b: Operand<'_>, added: [Option<Operand<'_>>; 2], out: DType) -> Result<Storage> {
    let (a, b, mut epilogue) = (view("matmul", a)?, view("matmul", b)?, Epilogue::default());
    for (operand, place) in added.into_iter().zip([&mut epilogue.bias, &mut epilogue.residual]) {
        if let Some(operand) = operand {
            *place = Some(view("matmul", operand)?);
        }
    }
    room("matmul", elements(&a, &b), out)?;
    say_what_is_slow(a.logical);
    Ok(amp_cpu::matmul(&a, &b, &epilogue, out))
}

/// Says once, in the log, that products in a 16-bit precision are none of this processor's own.
fn say_what_is_slow(dtype: DType) {
    static SAID: [Once; 2] = [const { Once::new() }; 2];
    let (said, native) = match dtype {
        DType::BF16 => (&SAID[0], Level::Avx512Bf16),
        DType::F16 => (&SAID[1], Level::Amx),
        _ => return,
    };
    let level = Level::current();
    if level < native {
        let level = level.name();
        said.call_once(|| {
            log::info!(
                "cpu: products of {dtype} run in F32 arithmetic here ({level}): they save memory rather than time"
            );
        });
    }
}

/// Number of elements of a product.
fn elements(a: &View, b: &View) -> usize {
    let columns = b.layout.shape.last().copied().unwrap_or(0);
    let rows: usize = a.layout.shape[..a.layout.shape.len() - 1].iter().product();
    rows.saturating_mul(columns)
}
