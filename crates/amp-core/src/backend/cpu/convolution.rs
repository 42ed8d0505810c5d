use super::{CpuBackend, room, storage_mut, view};
use crate::Result;
use crate::backend::{Buffer, Convolution, Operand};
use amp_cpu::{Conv2d, DType, MemoryOrder};

impl Convolution for CpuBackend {
    fn conv2d_order(&self, x: Operand<'_>, w: Operand<'_>, spec: &Conv2d) -> Result<MemoryOrder> {
        Ok(amp_cpu::conv2d_order(&view("conv2d", x)?, &view("conv2d", w)?, spec))
    }

    fn conv_transpose2d_order(&self, x: Operand<'_>, w: Operand<'_>, spec: &Conv2d) -> Result<MemoryOrder> {
        const OP: &str = "conv_transpose2d";
        Ok(amp_cpu::conv_transpose2d_order(&view(OP, x)?, &view(OP, w)?, spec))
    }

    fn conv2d(
        &self,
        x: Operand<'_>,
        w: Operand<'_>,
        bias: Option<Operand<'_>>,
        spec: &Conv2d,
        out: DType,
    ) -> Result<Buffer> {
        let bias = bias.map(|bias| view("conv2d", bias)).transpose()?;
        let (x, w) = (view("conv2d", x)?, view("conv2d", w)?);
        let (input, kernel) = (x.layout.shape, w.layout.shape);
        let size = spec.output_size([input[2], input[3]], [kernel[2], kernel[3]]).unwrap_or_default();
        room("conv2d", input[0] * kernel[0] * size[0] * size[1], out)?;
        let out = (out, amp_cpu::conv2d_order(&x, &w, spec));
        Ok(Buffer::new(amp_cpu::conv2d(&x, &w, bias.as_ref(), spec, out)))
    }

    fn conv_transpose2d(
        &self,
        x: Operand<'_>,
        w: Operand<'_>,
        bias: Option<Operand<'_>>,
        output: [usize; 4],
        spec: &Conv2d,
        out: DType,
    ) -> Result<Buffer> {
        const OP: &str = "conv_transpose2d";
        let bias = bias.map(|bias| view(OP, bias)).transpose()?;
        let (x, w) = (view(OP, x)?, view(OP, w)?);
        room(OP, output.iter().product(), out)?;
        let out = (out, amp_cpu::conv_transpose2d_order(&x, &w, spec));
        Ok(Buffer::new(amp_cpu::conv_transpose2d(&x, &w, bias.as_ref(), output, spec, out)))
    }

    fn conv_transpose2d_accumulate(
        &self,
        x: Operand<'_>,
        w: Operand<'_>,
        output: [usize; 4],
        spec: &Conv2d,
        into: &mut Buffer,
    ) -> Result<bool> {
        const OP: &str = "conv_transpose2d";
        let (x, w) = (view(OP, x)?, view(OP, w)?);
        Ok(amp_cpu::conv_transpose2d_acc(&x, &w, output, spec, storage_mut(OP, into)?))
    }

    fn conv2d_grad_weight(
        &self,
        grad: Operand<'_>,
        x: Operand<'_>,
        weight: [usize; 4],
        spec: &Conv2d,
    ) -> Result<Buffer> {
        let (grad, x) = (view("conv2d_grad", grad)?, view("conv2d_grad", x)?);
        Ok(Buffer::new(amp_cpu::conv2d_grad_weight(&grad, &x, weight, spec)))
    }

    fn conv2d_grad_weight_accumulate(
        &self,
        grad: Operand<'_>,
        x: Operand<'_>,
        weight: [usize; 4],
        spec: &Conv2d,
        into: &mut Buffer,
    ) -> Result<()> {
        let (grad, x) = (view("conv2d_grad", grad)?, view("conv2d_grad", x)?);
        amp_cpu::conv2d_grad_weight_acc(&grad, &x, weight, spec, storage_mut("conv2d_grad", into)?);
        Ok(())
    }
}
