use super::pixel_norm::Pixels;
use super::reduction::Axes;
use super::{PACK, WARP, line_team, team};
use crate::args::{NormArgs, NormGradArgs, PixelNormArgs, PixelNormGradArgs};
use crate::convolve::{ALIGNMENT, lies};
use crate::device::{Gpu, Memory};
use crate::module::Family::Norm as FAMILY;
use crate::operand::{Compute, Operand, size, tag};
use amp_core::Result;
use amp_core::backend::{
    Buffer, DType, Memory as _, NormGrads, NormKind, Normalization, Normalized, Operand as CoreOperand, Rectified,
    Statistics,
};

/// Elements of a channel that one thread or block sums, and rows that a block sums where channels are read in packs.
const PER_THREAD: usize = 128;
const PER_BLOCK: usize = 1 << 14;
const PER_PACKS: usize = 64;

/// `x` as `[samples, channels, repeat]`, and the rows that share statistics.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    rows: usize,
    len: usize,
    channels: usize,
    repeat: usize,
    /// Groups of channels of one sample; 0 for batch normalisation.
    groups: usize,
}

impl Rows {
    pub fn new(x: CoreOperand<'_>, kind: NormKind) -> Self {
        let (shape, count) = (&x.layout.shape, x.layout.count());
        match kind {
            NormKind::Layer { inner } | NormKind::Rms { inner } => {
                let rows = count.checked_div(inner).unwrap_or(0);
                Self { rows, len: inner, channels: inner, repeat: 1, groups: 1 }
            }
            NormKind::Group { groups } => {
                let (channels, repeat) = (shape[1], shape[2..].iter().product());
                Self { rows: shape[0] * groups, len: channels / groups.max(1) * repeat, channels, repeat, groups }
            }
            NormKind::Batch => {
                let (channels, repeat) = (shape[1], shape[2..].iter().product());
                Self { rows: channels, len: shape[0] * repeat, channels, repeat, groups: 0 }
            }
        }
    }

    fn count(&self) -> usize {
        self.rows * self.len
    }

    /// A batch whose channels lie together, if all tensors of a call lie in whole packs of them.
    pub fn pixels(self, compute: Compute, read: &[&Operand], out: i32) -> Option<Pixels> {
        let together = self.groups == 0 && self.repeat == 1;
        Pixels::new([self.len, self.channels], compute, read, out).filter(|_| together)
    }
}

/// What threads of a loop over all of `x` have to read.
fn pieces(rows: Rows, x: &Operand) -> usize {
    if x.is_in_packs() { rows.count().div_ceil(PACK) } else { rows.count() }
}

/// The same gradient where channels lie together.
fn pixel_args(args: &NormGradArgs) -> PixelNormGradArgs {
    let &NormGradArgs { grad, x, weight, mean, rstd, dx, dead, out, narrow, narrow_type, .. } = args;
    let (sum_normal, sum_grad, parts, pixels, channels, per_split, splits) = (0, 0, 0, 0, 0, 0, 0);
    PixelNormGradArgs {
        grad,
        x,
        weight,
        mean,
        rstd,
        sum_normal,
        sum_grad,
        parts,
        dx,
        narrow,
        dead,
        pixels,
        channels,
        per_split,
        splits,
        out,
        narrow_type,
    }
}

/// Where statistics are.
pub(super) fn address(statistics: &Buffer) -> u64 {
    statistics.downcast::<Memory>().map_or(0, Memory::address)
}

/// Where kernels read mean and variance of each channel, as aligned contiguous numbers of the type that they compute in.
pub(super) struct ChannelStatistics {
    pub mean: u64,
    pub var: u64,
    /// Mean, variance and `1 / sqrt(var + eps)`; of given ones, empty buffers or copies.
    pub made: [Buffer; 3],
}

/// The gradient of a normalisation's result.
pub(super) struct Arriving<'a> {
    pub grad: CoreOperand<'a>,
    /// Batch normalisation: where relu behind it let nothing pass, a bit for each element.
    pub dead: Option<&'a Buffer>,
    /// Rows and groups: an earlier gradient of the input, to which this one is added.
    pub onto: Option<CoreOperand<'a>>,
}

impl Gpu {
    fn norm_args(
        &self,
        x: CoreOperand<'_>,
        rows: Rows,
        [weight, bias]: [Option<CoreOperand<'_>>; 2],
        eps: f64,
        (y, out): (&Memory, DType),
    ) -> Result<NormArgs> {
        Ok(NormArgs {
            x: Operand::new(self, "normalize", x)?,
            weight: Operand::optional(self, "normalize", weight)?,
            bias: Operand::optional(self, "normalize", bias)?,
            y: y.address(),
            mean: 0,
            var: 0,
            rstd: 0,
            n: rows.count() as i64,
            len: rows.len as i64,
            channels: rows.channels as i64,
            repeat: rows.repeat as i64,
            eps,
            rms: 0,
            out: tag(out),
        })
    }

    /// Mean, variance and `1 / sqrt(var + eps)` of each channel, where they are not given.
    pub(super) fn channel_statistics(
        &self,
        x: CoreOperand<'_>,
        given: Option<Statistics<'_>>,
        eps: f64,
        compute: Compute,
    ) -> Result<ChannelStatistics> {
        let dtype = compute.dtype();
        if let Some(Statistics { mean, var }) = given {
            let ((mean, first), (var, second)) = (self.dense(mean, dtype)?, self.dense(var, dtype)?);
            let made = [first, second, self.memory("normalize", 0, dtype)?.into_buffer()];
            return Ok(ChannelStatistics { mean, var, made });
        }
        let (rows, operand) = (Rows::new(x, NormKind::Batch), Operand::new(self, "normalize", x)?);
        let moments = match rows.pixels(compute, &[&operand], operand.stored) {
            Some(of) => self.pixel_moments(of, operand)?,
            None => {
                let others: Vec<usize> = (0..x.layout.shape.len()).filter(|&axis| axis != 1).collect();
                self.moments(Axes::new(self, "normalize", x, &others)?, compute)?
            }
        };
        let (mean, var, rstd) = self.variances(&moments, 0.0, Some(eps), compute, dtype)?;
        let rstd = rstd.map_or_else(|| self.memory("normalize", 0, dtype), Ok)?;
        let made = [mean, var, rstd].map(Memory::into_buffer);
        Ok(ChannelStatistics { mean: address(&made[0]), var: address(&made[1]), made })
    }

    /// Where kernels read a vector as contiguous numbers of a type, and a copy if it has to be one.
    fn dense(&self, x: CoreOperand<'_>, dtype: DType) -> Result<(u64, Buffer)> {
        let operand = Operand::new(self, "normalize", x)?;
        if lies(&operand, tag(dtype)) && operand.data.is_multiple_of(ALIGNMENT) {
            return Ok((operand.data, self.memory("normalize", 0, dtype)?.into_buffer()));
        }
        let copy = self.copy(x, dtype)?;
        Ok((address(&copy), copy))
    }

    /// Normalises each channel by its mean and variance.
    fn norm_apply(&self, args: NormArgs, rows: Rows, by: &ChannelStatistics, compute: Compute) -> Result<()> {
        let args = NormArgs { mean: by.mean, var: by.var, ..args };
        if let Some(of) = rows.pixels(compute, &[&args.x, &args.weight, &args.bias], args.out) {
            let NormArgs { x, weight, bias, mean, var, y, eps, out, .. } = args;
            let (residual, dead, relu) = (Operand::NONE, 0, 0);
            let args =
                PixelNormArgs { x, residual, weight, bias, mean, var, y, dead, pixels: 0, channels: 0, eps, relu, out };
            return self.pixel_norm(of, args);
        }
        self.launch(FAMILY, "norm_apply", Some(compute), self.spread(pieces(rows, &args.x)), args)
    }

    /// Sums over each channel of `grad * normal` and of `grad`.
    fn norm_sums(&self, args: NormGradArgs, rows: Rows, compute: Compute) -> Result<(Memory, Memory)> {
        let columns = rows.repeat == 1;
        let packs = columns && compute == Compute::F32 && rows.groups == 1 && rows.channels.is_multiple_of(PACK);
        let packs = packs && args.grad.is_in_packs() && args.x.is_in_packs();
        let count = rows.count().checked_div(rows.channels).unwrap_or(0);
        let (stem, per_split, (grid, threads)) = match (packs, columns) {
            (true, _) => ("norm_sums_packs", PER_PACKS, team(rows.channels.div_ceil(PACK * WARP), false)),
            (_, true) => ("norm_sums_columns", PER_THREAD, team(rows.channels, true)),
            _ => ("norm_sums_rows", PER_BLOCK, team(rows.channels, false)),
        };
        let splits = count.div_ceil(per_split).clamp(1, usize::from(u16::MAX));
        let per_split = count.div_ceil(splits).max(1);
        let half = splits * rows.channels;
        let parts = self.memory("normalize", 2 * half, compute.dtype())?;
        let args = NormGradArgs { parts: parts.address(), count: count as i64, per_split: per_split as i64, ..args };
        self.launch(FAMILY, stem, Some(compute), ([grid[0], splits as u64, 1], threads), args)?;
        let [normal, grad] = [0, 1].map(|i| self.sum_part(&parts, i, splits, rows.channels, compute));
        Ok((normal?, grad?))
    }

    /// As [`norm_sums`](Self::norm_sums), and the gradient of the input.
    fn row_grads(&self, args: NormGradArgs, rows: Rows, compute: Compute) -> Result<(Memory, Memory)> {
        let (sum_normal, sum_grad) = self.norm_sums(args, rows, compute)?;
        if rows.groups == 0 {
            let args = NormGradArgs { sum_grad: sum_grad.address(), sum_normal: sum_normal.address(), ..args };
            self.launch(FAMILY, "norm_apply_grad", Some(compute), self.spread(pieces(rows, &args.x)), args)?;
        } else {
            let grid = line_team(if rows.len == 0 { 0 } else { rows.rows }, rows.len, 1);
            self.launch(FAMILY, "norm_rows_grad", Some(compute), grid, args)?;
        }
        Ok((sum_normal, sum_grad))
    }

    /// Gradients with respect to the input and the parameters.
    pub(super) fn norm_grads(
        &self,
        Arriving { grad, dead, onto }: Arriving<'_>,
        x: CoreOperand<'_>,
        (mean, rstd): (CoreOperand<'_>, CoreOperand<'_>),
        weight: Option<CoreOperand<'_>>,
        kind: NormKind,
        (out, also): (DType, Option<DType>),
    ) -> Result<NormGrads> {
        let (rows, compute) = (Rows::new(x, kind), Compute::real(&[x.logical]));
        let dx = self.memory("normalize", rows.count(), out)?;
        let also = also.filter(|_| out == DType::F32 && compute == Compute::F32);
        let narrowed = also.map(|also| self.memory("normalize", rows.count(), also)).transpose()?;
        let dead = dead.map_or(Ok(0), |dead| self.bits("batch_norm", dead, rows.count()))?;
        let statistic = |s: CoreOperand<'_>| Operand::new(self, "normalize", s).map(|s| s.data);
        let args = NormGradArgs {
            grad: Operand::new(self, "normalize", grad)?,
            x: Operand::new(self, "normalize", x)?,
            weight: Operand::optional(self, "normalize", weight)?,
            mean: statistic(mean)?,
            rstd: statistic(rstd)?,
            sum_grad: 0,
            sum_normal: 0,
            dx: dx.address(),
            parts: 0,
            n: rows.count() as i64,
            len: rows.len as i64,
            channels: rows.channels as i64,
            repeat: rows.repeat as i64,
            groups: rows.groups as i64,
            count: rows.len as i64,
            per_split: 0,
            rms: i32::from(matches!(kind, NormKind::Rms { .. })),
            out: tag(out),
            narrow: narrowed.as_ref().map_or(0, Memory::address),
            narrow_type: also.map_or(0, tag),
            onto: Operand::optional(self, "normalize", onto)?,
            dead,
        };
        let aligned = args.mean.is_multiple_of(ALIGNMENT) && args.rstd.is_multiple_of(ALIGNMENT);
        let pixels = rows.pixels(compute, &[&args.grad, &args.x, &args.weight], args.out).filter(|_| aligned);
        let (sum_normal, sum_grad) = match pixels {
            Some(of) => self.pixel_norm_grad(of, pixel_args(&args))?,
            None => self.row_grads(args, rows, compute)?,
        };
        let [x, weight, bias] = [dx, sum_normal, sum_grad].map(Memory::into_buffer);
        Ok(NormGrads { x, narrowed: narrowed.map(Memory::into_buffer), weight, bias })
    }
}

impl Normalization for Gpu {
    fn normalize(
        &self,
        x: CoreOperand<'_>,
        kind: NormKind,
        weight: Option<CoreOperand<'_>>,
        bias: Option<CoreOperand<'_>>,
        eps: f64,
        out: DType,
    ) -> Result<Normalized> {
        let (rows, compute) = (Rows::new(x, kind), Compute::real(&[x.logical]));
        let y = self.memory("normalize", rows.count(), out)?;
        let args = self.norm_args(x, rows, [weight, bias], eps, (&y, out))?;
        if kind == NormKind::Batch {
            let statistics = self.channel_statistics(x, None, eps, compute)?;
            self.norm_apply(args, rows, &statistics, compute)?;
            let [mean, var, rstd] = statistics.made;
            return Ok(Normalized { y: y.into_buffer(), mean, var, rstd });
        }
        let statistic = || self.memory("normalize", rows.rows, compute.dtype());
        let (mean, var, rstd) = (statistic()?, statistic()?, statistic()?);
        let args = NormArgs {
            mean: mean.address(),
            var: var.address(),
            rstd: rstd.address(),
            rms: i32::from(matches!(kind, NormKind::Rms { .. })),
            ..args
        };
        // 64 bytes of a row, which a thread keeps.
        let packs = if size(args.x.stored) == 2 { 4 } else { 2 };
        let grid = line_team(rows.rows, rows.len, packs);
        self.launch(FAMILY, "norm_rows", Some(compute), grid, args)?;
        let [mean, var, rstd] = [mean, var, rstd].map(Memory::into_buffer);
        Ok(Normalized { y: y.into_buffer(), mean, var, rstd })
    }

    fn normalize_with(
        &self,
        x: CoreOperand<'_>,
        statistics: Statistics<'_>,
        weight: Option<CoreOperand<'_>>,
        bias: Option<CoreOperand<'_>>,
        eps: f64,
        out: DType,
    ) -> Result<Buffer> {
        let (rows, compute) = (Rows::new(x, NormKind::Batch), Compute::real(&[x.logical]));
        let y = self.memory("normalize", rows.count(), out)?;
        let statistics = self.channel_statistics(x, Some(statistics), eps, compute)?;
        let args = self.norm_args(x, rows, [weight, bias], eps, (&y, out))?;
        self.norm_apply(args, rows, &statistics, compute)?;
        Ok(y.into_buffer())
    }

    fn normalize_grad(
        &self,
        grad: CoreOperand<'_>,
        x: CoreOperand<'_>,
        saved: (CoreOperand<'_>, CoreOperand<'_>),
        weight: Option<CoreOperand<'_>>,
        kind: NormKind,
        out: (DType, Option<DType>),
    ) -> Result<NormGrads> {
        self.norm_grads(Arriving { grad, dead: None, onto: None }, x, saved, weight, kind, out)
    }

    fn normalize_grad_onto(
        &self,
        (grad, onto): (CoreOperand<'_>, CoreOperand<'_>),
        x: CoreOperand<'_>,
        saved: (CoreOperand<'_>, CoreOperand<'_>),
        weight: Option<CoreOperand<'_>>,
        kind: NormKind,
        out: (DType, Option<DType>),
    ) -> Result<Option<NormGrads>> {
        self.norm_grads(Arriving { grad, dead: None, onto: Some(onto) }, x, saved, weight, kind, out).map(Some)
    }

    fn batch_norm_relu(
        &self,
        x: CoreOperand<'_>,
        given: Option<Statistics<'_>>,
        affine: (Option<CoreOperand<'_>>, Option<CoreOperand<'_>>),
        eps: f64,
        after: (Option<CoreOperand<'_>>, bool),
        out: DType,
    ) -> Result<Option<Rectified>> {
        self.normalize_batch_relu(x, given, affine, eps, after, out).map(Some)
    }

    fn batch_norm_relu_grad(
        &self,
        (grad, dead): (CoreOperand<'_>, &Buffer),
        x: CoreOperand<'_>,
        saved: (CoreOperand<'_>, CoreOperand<'_>),
        weight: Option<CoreOperand<'_>>,
        out: DType,
    ) -> Result<NormGrads> {
        let arriving = Arriving { grad, dead: Some(dead), onto: None };
        self.norm_grads(arriving, x, saved, weight, NormKind::Batch, (out, None))
    }
}
