use super::{CpuBackend, foreign, view};
use crate::Result;
use crate::backend::{Buffer, NormGrads, Normalization, Normalized, Operand, Rectified, Statistics};
use amp_cpu::{DType, NormKind, Storage, View};

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
        Ok(normalized(n))
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
        gradients((grad, None), x, saved, weight, kind, out)
    }

    fn normalize_grad_onto(
        &self,
        (grad, onto): (Operand<'_>, Operand<'_>),
        x: Operand<'_>,
        saved: (Operand<'_>, Operand<'_>),
        weight: Option<Operand<'_>>,
        kind: NormKind,
        out: (DType, Option<DType>),
    ) -> Result<Option<NormGrads>> {
        gradients((grad, Some(onto)), x, saved, weight, kind, out).map(Some)
    }

    fn batch_norm_relu(
        &self,
        x: Operand<'_>,
        given: Option<Statistics<'_>>,
        (weight, bias): (Option<Operand<'_>>, Option<Operand<'_>>),
        eps: f64,
        (residual, signs): (Option<Operand<'_>>, bool),
        out: DType,
    ) -> Result<Option<Rectified>> {
        let (x, weight, bias, residual) =
            (view("batch_norm", x)?, optional(weight)?, optional(bias)?, optional(residual)?);
        let given = given.map(|given| Ok((view("batch_norm", given.mean)?, view("batch_norm", given.var)?)));
        let given = given.transpose()?;
        let given = given.as_ref().map(|(mean, var)| (mean, var));
        let affine = (weight.as_ref(), bias.as_ref());
        let (n, dead) = amp_cpu::batch_norm_relu(&x, given, affine, eps, residual.as_ref(), signs, out);
        Ok(Some(Rectified { normalized: normalized(n), dead: dead.map(Buffer::new) }))
    }

    fn batch_norm_relu_grad(
        &self,
        (grad, dead): (Operand<'_>, &Buffer),
        x: Operand<'_>,
        saved: (Operand<'_>, Operand<'_>),
        weight: Option<Operand<'_>>,
        out: DType,
    ) -> Result<NormGrads> {
        let Some(Storage::U8(dead)) = dead.downcast::<Storage>() else { return Err(foreign("batch_norm")) };
        let (grad, x, weight) = (view("batch_norm", grad)?, view("batch_norm", x)?, optional(weight)?);
        let (mean, rstd) = (view("batch_norm", saved.0)?, view("batch_norm", saved.1)?);
        let grads = amp_cpu::batch_norm_relu_grad((&grad, dead), &x, &mean, &rstd, weight.as_ref(), out);
        let [x, weight, bias] = [grads.x, grads.weight, grads.bias].map(Buffer::new);
        Ok(NormGrads { x, narrowed: None, weight, bias })
    }
}

fn gradients(
    (grad, onto): (Operand<'_>, Option<Operand<'_>>),
    x: Operand<'_>,
    saved: (Operand<'_>, Operand<'_>),
    weight: Option<Operand<'_>>,
    kind: NormKind,
    out: (DType, Option<DType>),
) -> Result<NormGrads> {
    let (grad, x, weight, onto) = (view("normalize", grad)?, view("normalize", x)?, optional(weight)?, optional(onto)?);
    let (mean, rstd) = (view("normalize", saved.0)?, view("normalize", saved.1)?);
    let grads = amp_cpu::normalize_grad((&grad, onto.as_ref()), &x, &mean, &rstd, weight.as_ref(), kind, out);
    let [x, weight, bias] = [grads.x, grads.weight, grads.bias].map(Buffer::new);
    Ok(NormGrads { x, narrowed: grads.narrowed.map(Buffer::new), weight, bias })
}

fn normalized(n: amp_cpu::Normalized) -> Normalized {
    let [y, mean, var, rstd] = [n.y, n.mean, n.var, n.rstd].map(Buffer::new);
    Normalized { y, mean, var, rstd }
}

fn optional(x: Option<Operand<'_>>) -> Result<Option<View<'_>>> {
    x.map(|x| view("normalize", x)).transpose()
}
