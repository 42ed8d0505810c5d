use super::{CpuBackend, view};
use crate::Result;
use crate::backend::{Buffer, Labels, Operand, Softmax};
use amp_cpu::DType;

impl Softmax for CpuBackend {
    fn softmax(&self, x: Operand<'_>, axis: usize, log: bool, out: DType) -> Result<Buffer> {
        Ok(Buffer::new(amp_cpu::softmax(&view("softmax", x)?, axis, log, out)))
    }

    fn softmax_grad(&self, y: Operand<'_>, grad: Operand<'_>, axis: usize, log: bool, out: DType) -> Result<Buffer> {
        let (y, grad) = (view("softmax", y)?, view("softmax", grad)?);
        Ok(Buffer::new(amp_cpu::softmax_grad(&y, &grad, axis, log, out)))
    }

    fn softmax_grad_of_input(
        &self,
        x: Operand<'_>,
        grad: Operand<'_>,
        axis: usize,
        log: bool,
        out: DType,
    ) -> Result<Option<Buffer>> {
        let (x, grad) = (view("softmax", x)?, view("softmax", grad)?);
        Ok(Some(Buffer::new(amp_cpu::softmax_grad_of_input(&x, &grad, axis, log, out))))
    }

    fn logsumexp(&self, x: Operand<'_>, axis: usize, out: DType) -> Result<Buffer> {
        Ok(Buffer::new(amp_cpu::logsumexp(&view("logsumexp", x)?, axis, out)))
    }

    fn cross_entropy(&self, logits: Operand<'_>, axis: usize, labels: Labels<'_>) -> Result<(Buffer, Buffer)> {
        with_labels(labels, |labels| {
            let rows = amp_cpu::cross_entropy(&view("cross_entropy", logits)?, axis, labels);
            Ok((Buffer::new(rows.loss), Buffer::new(rows.lse)))
        })
    }

    fn cross_entropy_grad(
        &self,
        logits: Operand<'_>,
        axis: usize,
        labels: Labels<'_>,
        lse: Operand<'_>,
        scale: Operand<'_>,
        out: (DType, Option<DType>),
    ) -> Result<(Buffer, Option<Buffer>)> {
        let logits = view("cross_entropy", logits)?;
        let (lse, scale) = (view("cross_entropy", lse)?, view("cross_entropy", scale)?);
        with_labels(labels, |labels| {
            let (dx, copy) = amp_cpu::cross_entropy_grad(&logits, axis, labels, &lse, &scale, out);
            Ok((Buffer::new(dx), copy.map(Buffer::new)))
        })
    }
}

fn with_labels<R>(labels: Labels<'_>, f: impl FnOnce(amp_cpu::Labels<'_>) -> Result<R>) -> Result<R> {
    let targets = amp_cpu::indices(&view("cross_entropy", labels.targets)?);
    let weight = labels.weight.map(|w| view("cross_entropy", w)).transpose()?;
    f(amp_cpu::Labels {
        targets: &targets,
        weight: weight.as_ref(),
        ignore_index: labels.ignore_index,
        smoothing: labels.smoothing,
    })
}
