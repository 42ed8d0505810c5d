use super::{Cut, line_team, team};
use crate::args::{CrossEntropyArgs, SoftmaxArgs, SoftmaxGradArgs};
use crate::device::{Gpu, Memory};
use crate::module::Family;
use crate::operand::{Compute, Operand, tag};
use amp_core::Result;
use amp_core::backend::{Buffer, DType, Labels, Operand as CoreOperand, Softmax};

/// A block per line, or a thread where neighbouring lines lie side by side.
fn blocks(cut: Cut) -> ([u64; 3], u32) {
    if cut.inner > 1 { team(cut.lines(), true) } else { line_team(cut.lines(), cut.len, 2) }
}

impl Gpu {
    fn softmax_like(
        &self,
        stems: [&'static str; 2],
        x: CoreOperand<'_>,
        cut: Cut,
        log: bool,
        (y, out): (&Memory, DType),
    ) -> Result<()> {
        let args = SoftmaxArgs {
            x: Operand::new(self, stems[0], x)?,
            y: y.address(),
            lines: cut.lines() as i64,
            len: cut.len as i64,
            inner: cut.inner as i64,
            log: i32::from(log),
            out: tag(out),
        };
        let columns = cut.inner > 1;
        let grid = blocks(cut);
        self.launch(Family::Softmax, stems[usize::from(columns)], Some(Compute::real(&[x.logical])), grid, args)
    }

    fn labelled(&self, logits: CoreOperand<'_>, cut: Cut, labels: Labels<'_>) -> Result<CrossEntropyArgs> {
        Ok(CrossEntropyArgs {
            logits: Operand::new(self, "cross_entropy", logits)?,
            targets: Operand::new(self, "cross_entropy", labels.targets)?,
            weight: Operand::optional(self, "cross_entropy", labels.weight)?,
            lse: Operand::NONE,
            scale: Operand::NONE,
            loss: 0,
            lse_out: 0,
            dx: 0,
            lines: cut.lines() as i64,
            classes: cut.len as i64,
            inner: cut.inner as i64,
            ignore_index: labels.ignore_index,
            smoothing: labels.smoothing,
            out: 0,
            narrow: 0,
            narrow_type: 0,
        })
    }
}

impl Softmax for Gpu {
    fn softmax(&self, x: CoreOperand<'_>, axis: usize, log: bool, out: DType) -> Result<Buffer> {
        let cut = Cut::new(&x.layout.shape, axis);
        let y = self.memory("softmax", x.layout.count(), out)?;
        self.softmax_like(["softmax_rows", "softmax_columns"], x, cut, log, (&y, out))?;
        Ok(y.into_buffer())
    }

    fn softmax_grad(
        &self,
        y: CoreOperand<'_>,
        grad: CoreOperand<'_>,
        axis: usize,
        log: bool,
        out: DType,
    ) -> Result<Buffer> {
        let cut = Cut::new(&y.layout.shape, axis);
        let dx = self.memory("softmax", y.layout.count(), out)?;
        let args = SoftmaxGradArgs {
            y: Operand::new(self, "softmax", y)?,
            grad: Operand::new(self, "softmax", grad)?,
            dx: dx.address(),
            lines: cut.lines() as i64,
            len: cut.len as i64,
            inner: cut.inner as i64,
            log: i32::from(log),
            out: tag(out),
        };
        let columns = cut.inner > 1;
        let stem = if columns { "softmax_grad_columns" } else { "softmax_grad_rows" };
        let compute = Compute::real(&[grad.logical]);
        self.launch(Family::Softmax, stem, Some(compute), blocks(cut), args)?;
        Ok(dx.into_buffer())
    }

    fn logsumexp(&self, x: CoreOperand<'_>, axis: usize, out: DType) -> Result<Buffer> {
        let cut = Cut::new(&x.layout.shape, axis);
        let y = self.memory("logsumexp", cut.lines(), out)?;
        self.softmax_like(["logsumexp_rows", "logsumexp_columns"], x, cut, false, (&y, out))?;
        Ok(y.into_buffer())
    }

    fn cross_entropy(&self, logits: CoreOperand<'_>, axis: usize, labels: Labels<'_>) -> Result<(Buffer, Buffer)> {
        let (cut, compute) = (Cut::new(&logits.layout.shape, axis), Compute::real(&[logits.logical]));
        let result = || self.memory("cross_entropy", cut.lines(), compute.dtype());
        let (loss, lse) = (result()?, result()?);
        let labelled = self.labelled(logits, cut, labels)?;
        let args = CrossEntropyArgs { loss: loss.address(), lse_out: lse.address(), ..labelled };
        let columns = cut.inner > 1;
        let stem = if columns { "cross_entropy_columns" } else { "cross_entropy_rows" };
        self.launch(Family::CrossEntropy, stem, Some(compute), blocks(cut), args)?;
        Ok((loss.into_buffer(), lse.into_buffer()))
    }

    fn cross_entropy_grad(
        &self,
        logits: CoreOperand<'_>,
        axis: usize,
        labels: Labels<'_>,
        lse: CoreOperand<'_>,
        scale: CoreOperand<'_>,
        (out, also): (DType, Option<DType>),
    ) -> Result<(Buffer, Option<Buffer>)> {
        let cut = Cut::new(&logits.layout.shape, axis);
        let dx = self.memory("cross_entropy", logits.layout.count(), out)?;
        let also = also.filter(|_| out == DType::F32 && logits.logical != DType::F64);
        let narrowed = also.map(|also| self.memory("cross_entropy", logits.layout.count(), also)).transpose()?;
        let args = CrossEntropyArgs {
            lse: Operand::new(self, "cross_entropy", lse)?,
            scale: Operand::new(self, "cross_entropy", scale)?,
            dx: dx.address(),
            out: tag(out),
            narrow: narrowed.as_ref().map_or(0, Memory::address),
            narrow_type: also.map_or(0, tag),
            ..self.labelled(logits, cut, labels)?
        };
        let columns = cut.inner > 1;
        let stem = if columns { "cross_entropy_grad_columns" } else { "cross_entropy_grad_rows" };
        let compute = Compute::real(&[logits.logical]);
        self.launch(Family::CrossEntropy, stem, Some(compute), blocks(cut), args)?;
        Ok((dx.into_buffer(), narrowed.map(Memory::into_buffer)))
    }
}
