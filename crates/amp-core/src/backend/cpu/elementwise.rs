use super::{CpuBackend, foreign, view};
use crate::Result;
use crate::backend::{Buffer, Elementwise, Operand};
use amp_cpu::{Binary, Compare, DType, PairLoss, Storage, Ternary, Unary};

impl Elementwise for CpuBackend {
    fn unary(&self, op: Unary, x: Operand<'_>, out: DType) -> Result<Buffer> {
        Ok(Buffer::new(amp_cpu::unary(op, &view("unary", x)?, out)))
    }

    fn unary_grad(&self, op: Unary, saved: Operand<'_>, grad: Operand<'_>, out: DType) -> Result<Buffer> {
        let (saved, grad) = (view("unary_grad", saved)?, view("unary_grad", grad)?);
        Ok(Buffer::new(amp_cpu::unary_grad(op, &saved, &grad, out)))
    }

    fn binary(&self, op: Binary, a: Operand<'_>, b: Operand<'_>, out: DType) -> Result<Buffer> {
        Ok(Buffer::new(amp_cpu::binary(op, &view("binary", a)?, &view("binary", b)?, out)))
    }

    fn binary_narrowed(
        &self,
        op: Binary,
        a: Operand<'_>,
        b: Operand<'_>,
        out: DType,
        also: DType,
    ) -> Result<(Buffer, Option<Buffer>)> {
        if out != DType::F32 || [a.logical, b.logical].contains(&DType::F64) {
            return Ok((self.binary(op, a, b, out)?, None));
        }
        let (wide, copy) = amp_cpu::binary_narrowed(op, &view("binary", a)?, &view("binary", b)?, also);
        Ok((Buffer::new(wide), Some(Buffer::new(copy))))
    }

    fn compare(&self, op: Compare, a: Operand<'_>, b: Operand<'_>) -> Result<Buffer> {
        Ok(Buffer::new(amp_cpu::compare(op, &view("compare", a)?, &view("compare", b)?)))
    }

    fn select(&self, condition: Operand<'_>, a: Operand<'_>, b: Operand<'_>, out: DType) -> Result<Buffer> {
        let condition = view("where", condition)?;
        Ok(Buffer::new(amp_cpu::select(&condition, &view("where", a)?, &view("where", b)?, out)))
    }

    fn dead(&self, x: Operand<'_>) -> Result<Option<Buffer>> {
        Ok(Some(Buffer::new(amp_cpu::dead(&view("relu", x)?))))
    }

    fn alive(&self, dead: &Buffer, grad: Operand<'_>, out: DType) -> Result<Option<Buffer>> {
        let Some(Storage::U8(dead)) = dead.downcast::<Storage>() else { return Err(foreign("relu")) };
        Ok(Some(Buffer::new(amp_cpu::alive(dead, &view("relu", grad)?, out))))
    }

    fn ternary(&self, op: Ternary, a: Operand<'_>, b: Operand<'_>, c: Operand<'_>, out: DType) -> Result<Buffer> {
        let (a, b, c) = (view("ternary", a)?, view("ternary", b)?, view("ternary", c)?);
        Ok(Buffer::new(amp_cpu::ternary(op, &a, &b, &c, out)))
    }

    fn glu(&self, x: Operand<'_>, axis: usize, out: DType) -> Result<Option<Buffer>> {
        Ok(Some(Buffer::new(amp_cpu::glu(&view("glu", x)?, axis, out))))
    }

    fn glu_grad(&self, x: Operand<'_>, grad: Operand<'_>, axis: usize, out: DType) -> Result<Option<Buffer>> {
        Ok(Some(Buffer::new(amp_cpu::glu_grad(&view("glu", x)?, &view("glu", grad)?, axis, out))))
    }

    fn losses(&self, loss: PairLoss, x: Operand<'_>, t: Operand<'_>, out: DType) -> Result<Option<Buffer>> {
        Ok(Some(Buffer::new(amp_cpu::losses(loss, &view("loss", x)?, &view("loss", t)?, out))))
    }

    fn loss_total(
        &self,
        loss: PairLoss,
        x: Operand<'_>,
        t: Operand<'_>,
        mean: bool,
        out: DType,
    ) -> Result<Option<Buffer>> {
        Ok(Some(Buffer::new(amp_cpu::loss_total(loss, &view("loss", x)?, &view("loss", t)?, mean, out))))
    }

    fn loss_grad(
        &self,
        loss: PairLoss,
        [x, t]: [Operand<'_>; 2],
        grad: Operand<'_>,
        of_target: bool,
        out: DType,
    ) -> Result<Buffer> {
        let (x, t, grad) = (view("loss", x)?, view("loss", t)?, view("loss", grad)?);
        Ok(Buffer::new(amp_cpu::loss_grad(loss, &x, &t, &grad, of_target, out)))
    }
}
