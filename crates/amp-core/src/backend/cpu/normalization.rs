use super::{CpuBackend, view};
use crate::Result;
use crate::backend::{Buffer, NormGrads, Normalization, Normalized, Operand, Statistics};
use amp_cpu::{DType, NormKind, View};

impl Normalization for CpuBackend {
    fn normalize(
        &self,
        x: Operand<'_>,
        kind: NormKind,
        weight: Option<Operand<'_>>,
        bias: Option<Operand<'_>>,
        eps: f64,
        out: DType,
    ) -> Result<Normalized> {
        let (weight, bias) = (optional(weight)?, optional(bias)?);
        let n = amp_cpu::normalize(&view("normalize", x)?, kind, weight.as_ref(), bias.as_ref(), eps, out);
        Ok(Normalized {
            y: Buffer::new(n.y),
            mean: Buffer::new(n.mean),
            var: Buffer::new(n.var),
            rstd: Buffer::new(n.rstd),
        })
    }

    fn normalize_with(
        &self,
        x: Operand<'_>,
        statistics: Statistics<'_>,
        weight: Option<Operand<'_>>,
        bias: Option<Operand<'_>>,
        eps: f64,
        out: DType,
    ) -> Result<Buffer> {
        let (mean, var) = (view("normalize", statistics.mean)?, view("normalize", statistics.var)?);
        let (weight, bias) = (optional(weight)?, optional(bias)?);
        let x = view("normalize", x)?;
        Ok(Buffer::new(amp_cpu::normalize_with(&x, &mean, &var, weight.as_ref(), bias.as_ref(), eps, out)))
    }

    fn normalize_grad(
        &self,
        grad: Operand<'_>,
        x: Operand<'_>,
        saved: (Operand<'_>, Operand<'_>),
        weight: Option<Operand<'_>>,
        kind: NormKind,
        out: (DType, Option<DType>),
    ) -> Result<NormGrads> {
        let (grad, x, weight) = (view("normalize", grad)?, view("normalize", x)?, optional(weight)?);
        let (mean, rstd) = (view("normalize", saved.0)?, view("normalize", saved.1)?);
        let grads = amp_cpu::normalize_grad(&grad, &x, &mean, &rstd, weight.as_ref(), kind, out);
        let [x, weight, bias] = [grads.x, grads.weight, grads.bias].map(Buffer::new);
        Ok(NormGrads { x, narrowed: grads.narrowed.map(Buffer::new), weight, bias })
    }
}

fn optional(x: Option<Operand<'_>>) -> Result<Option<View<'_>>> {
    x.map(|x| view("normalize", x)).transpose()
}
