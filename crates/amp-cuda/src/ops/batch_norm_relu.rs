//! Batch normalisation with relu behind it in one pass.

use super::PACK;
use super::normalization::Rows;
use crate::args::{NormReluArgs, PixelNormArgs};
use crate::device::{Gpu, Memory};
use crate::module::Family::BatchNormRelu as FAMILY;
use crate::operand::{Compute, Operand, tag};
use amp_core::Result;
use amp_core::backend::{DType, NormKind, Normalized, Operand as CoreOperand, Rectified, Statistics};

/// The same call where channels lie together.
fn pixel_args(args: &NormReluArgs) -> PixelNormArgs {
    let &NormReluArgs { x, weight, bias, residual, mean, var, y, dead, eps, out, .. } = args;
    PixelNormArgs { x, residual, weight, bias, mean, var, y, dead, pixels: 0, channels: 0, eps, relu: 1, out }
}

impl Gpu {
    pub(super) fn normalize_batch_relu(
        &self,
        x: CoreOperand<'_>,
        given: Option<Statistics<'_>>,
        (weight, bias): (Option<CoreOperand<'_>>, Option<CoreOperand<'_>>),
        eps: f64,
        (residual, signs): (Option<CoreOperand<'_>>, bool),
        out: DType,
    ) -> Result<Rectified> {
        let (n, compute) = (x.layout.count(), Compute::real(&[x.logical]));
        let statistics = self.channel_statistics(x, given, eps, compute)?;
        let y = self.memory("normalize", n, out)?;
        let dead = signs.then(|| self.memory("normalize", n.div_ceil(PACK), DType::U8)).transpose()?;
        let operand = |x| Operand::optional(self, "normalize", x);
        let args = NormReluArgs {
            x: Operand::new(self, "normalize", x)?,
            weight: operand(weight)?,
            bias: operand(bias)?,
            residual: operand(residual)?,
            mean: statistics.mean,
            var: statistics.var,
            y: y.address(),
            dead: dead.as_ref().map_or(0, Memory::address),
            n: n as i64,
            channels: x.layout.shape[1] as i64,
            repeat: x.layout.shape[2..].iter().product::<usize>() as i64,
            eps,
            out: tag(out),
        };
        match Rows::new(x, NormKind::Batch).pixels(
            compute,
            &[&args.x, &args.residual, &args.weight, &args.bias],
            args.out,
        ) {
            Some(of) => self.pixel_norm(of, pixel_args(&args))?,
            None => self.launch(FAMILY, "batch_norm_relu", Some(compute), self.spread(n.div_ceil(PACK)), args)?,
        }
        let [mean, var, rstd] = statistics.made;
        let normalized = Normalized { y: y.into_buffer(), mean, var, rstd };
        Ok(Rectified { normalized, dead: dead.map(Memory::into_buffer) })
    }
}
