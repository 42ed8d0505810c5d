use super::split_axes;
use crate::args::{ArgReduceArgs, MomentsArgs, ReduceArgs, VarianceArgs};
use crate::device::{Gpu, Memory, THREADS};
use crate::module::Family::Reduce as FAMILY;
use crate::operand::{Compute, Operand, tag};
use amp_core::Result;
use amp_core::backend::{Buffer, DType, Operand as CoreOperand, Reduce, Reduction, Scan};

/// Elements that one thread of a column folds at most, and one block of a row.
const PER_COLUMN: usize = 256;
const PER_ROW: usize = 1 << 14;
/// Rows shorter than this are folded by a thread each, and those shorter than `MANY_SHORT` if there are many.
const SHORT: usize = 32;
const MANY_SHORT: usize = 128;
const MANY: usize = 4096;
/// Threads that share a column of at least `TALL` elements, unless there are columns for all threads of a GPU.
const HEIGHT: usize = 8;
const TALL: usize = 32;
const ENOUGH: usize = 1 << 16;
/// Threads that join the parts of an output of a normalisation, at most; `JOINING` of `pixel_norm.cu`.
pub(super) const JOINING: usize = 32;

fn code(op: Reduce) -> i32 {
    match op {
        Reduce::Sum => 0,
        Reduce::Mean => 1,
        Reduce::Prod => 2,
        Reduce::Max => 3,
        Reduce::Min => 4,
        Reduce::SumSquares => 5,
        Reduce::SumAbs => 6,
        Reduce::All => 7,
        Reduce::Any => 8,
    }
}

/// What is left to do with partial results: the elements have been mapped already.
fn join_of(op: Reduce) -> Reduce {
    match op {
        Reduce::SumSquares | Reduce::SumAbs => Reduce::Sum,
        other => other,
    }
}

/// The elements of every output: at `kept` position plus `inner` distance.
#[derive(Clone, Copy)]
pub(super) struct Axes {
    /// The tensor as it is.
    pub x: Operand,
    pub kept: Operand,
    pub inner: Operand,
    pub outputs: usize,
    pub count: usize,
    columns: bool,
    height: usize,
}

/// How the elements of an output are divided.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    pub per_split: usize,
    pub splits: usize,
}

/// Means and sums of squared deviations `[splits, outputs]` of parts of `per_split` of the `count` elements of each output.
pub(super) struct Moments {
    pub mean: Memory,
    pub squares: Memory,
    pub outputs: usize,
    pub count: usize,
    pub per_split: usize,
    pub splits: usize,
}

impl Axes {
    pub fn new(gpu: &Gpu, op: &'static str, x: CoreOperand<'_>, axes: &[usize]) -> Result<Self> {
        let operand = Operand::new(gpu, op, x)?;
        let [kept, inner] = split_axes(x.layout, axes);
        let (outputs, count) = (kept.0.iter().product(), inner.0.iter().product());
        let fastest = |strides: &[usize], shape: &[usize]| {
            strides.iter().zip(shape).filter(|(s, n)| **s > 0 && **n > 1).map(|(&s, _)| s).min().unwrap_or(usize::MAX)
        };
        let side_by_side = fastest(&kept.1, &kept.0) < fastest(&inner.1, &inner.0);
        let short = count < SHORT || (count < MANY_SHORT && outputs >= MANY);
        Ok(Self {
            x: operand,
            kept: operand.laid_out(&kept.0, &kept.1),
            inner: operand.laid_out(&inner.0, &inner.1),
            outputs,
            count,
            columns: short || side_by_side,
            height: if side_by_side { Self::height(outputs, count) } else { 1 },
        })
    }

    /// Threads of a column.
    fn height(outputs: usize, count: usize) -> usize {
        if count >= TALL && outputs < ENOUGH { HEIGHT } else { 1 }
    }

    /// Partial results `[splits, outputs]` as elements to fold over the splits.
    fn partial(memory: &Memory, splits: usize, outputs: usize) -> Self {
        let whole = Operand::whole(memory);
        let (kept, inner) = (whole.laid_out(&[outputs], &[1]), whole.laid_out(&[splits], &[outputs]));
        Self { x: whole, kept, inner, outputs, count: splits, columns: true, height: Self::height(outputs, splits) }
    }

    pub fn parts(&self) -> Parts {
        let per_split = if self.columns { PER_COLUMN } else { PER_ROW };
        let splits = self.count.div_ceil(per_split).clamp(1, usize::from(u16::MAX));
        let per_split = self.count.div_ceil(splits).max(1);
        Parts { per_split, splits: self.count.div_ceil(per_split).max(1) }
    }

    /// `rows` or `columns` of a pair of kernels, and the grid.
    pub fn grid(&self, parts: Parts, [rows, columns]: [&'static str; 2]) -> (&'static str, ([u64; 3], u32)) {
        let (stem, ([blocks, ..], threads)) = if self.columns {
            (columns, super::team(self.outputs * self.height, true))
        } else {
            let (grid, threads) = super::line_team(self.outputs, parts.per_split, 2);
            (rows, (grid, threads.next_power_of_two())) // `Lanes` of `lines.cuh` divide them
        };
        (stem, ([blocks, parts.splits as u64, 1], threads))
    }
}

impl Gpu {
    /// Folds `axes` in rounds, the partial results of one being the elements of the next.
    fn fold(&self, op: Reduce, axes: Axes, divisor: f64, compute: Compute, out: DType) -> Result<Memory> {
        let parts = axes.parts();
        let last = parts.splits == 1;
        let round = if last || op != Reduce::Mean { op } else { Reduce::Sum };
        let dtype = if last { out } else { compute.dtype() };
        let y = self.memory("reduce", parts.splits * axes.outputs, dtype)?;
        let args = ReduceArgs {
            x: axes.x,
            kept: axes.kept,
            inner: axes.inner,
            y: y.address(),
            outputs: axes.outputs as i64,
            count: axes.count as i64,
            per_split: parts.per_split as i64,
            op: code(round),
            out: tag(dtype),
            divisor,
            height: axes.height as i32,
        };
        let (stem, grid) = axes.grid(parts, ["reduce_rows", "reduce_columns"]);
        self.launch(FAMILY, stem, Some(compute), grid, args)?;
        if last {
            return Ok(y);
        }
        self.fold(join_of(op), Axes::partial(&y, parts.splits, axes.outputs), divisor, compute, out)
    }

    /// Sums over the middle axis of number `i` of `[numbers, splits, outputs]`.
    pub(super) fn sum_part(
        &self,
        parts: &Memory,
        i: usize,
        splits: usize,
        outputs: usize,
        compute: Compute,
    ) -> Result<Memory> {
        let mut axes = Axes::partial(parts, splits, outputs);
        axes.kept.data += (i * splits * outputs * compute.dtype().size()) as u64;
        self.fold(Reduce::Sum, axes, 1.0, compute, compute.dtype())
    }

    /// Mean and squared deviations of the elements of every output, in parts.
    pub(super) fn moments(&self, axes: Axes, compute: Compute) -> Result<Moments> {
        let Parts { per_split, splits } = axes.parts();
        let partial = || self.memory("variance", splits * axes.outputs, compute.dtype());
        let made = Moments {
            mean: partial()?,
            squares: partial()?,
            outputs: axes.outputs,
            count: axes.count,
            per_split,
            splits,
        };
        let args = MomentsArgs {
            x: axes.x,
            kept: axes.kept,
            inner: axes.inner,
            mean: made.mean.address(),
            squares: made.squares.address(),
            outputs: axes.outputs as i64,
            count: axes.count as i64,
            per_split: per_split as i64,
            height: axes.height as i32,
        };
        let (stem, grid) = axes.grid(Parts { per_split, splits }, ["moments_rows", "moments_columns"]);
        self.launch(FAMILY, stem, Some(compute), grid, args)?;
        Ok(made)
    }

    /// Mean, variance and, for a given epsilon, `1 / sqrt(variance + eps)` of every output.
    pub(super) fn variances(
        &self,
        of: &Moments,
        correction: f64,
        eps: Option<f64>,
        compute: Compute,
        out: DType,
    ) -> Result<(Memory, Memory, Option<Memory>)> {
        let result = || self.memory("variance", of.outputs, out);
        let (mean, var, rstd) = (result()?, result()?, eps.map(|_| result()).transpose()?);
        let height = of.splits.next_power_of_two().min(JOINING);
        let args = VarianceArgs {
            mean: of.mean.address(),
            squares: of.squares.address(),
            mean_out: mean.address(),
            var_out: var.address(),
            rstd_out: rstd.as_ref().map_or(0, Memory::address),
            outputs: of.outputs as i64,
            count: of.count as i64,
            per_split: of.per_split as i64,
            splits: of.splits as i64,
            correction,
            eps: eps.unwrap_or(0.0),
            out: tag(out),
            height: height as i32,
        };
        self.launch(FAMILY, "variance", Some(compute), super::team(of.outputs * height, true), args)?;
        Ok((mean, var, rstd))
    }
}

impl Reduction for Gpu {
    fn reduce(&self, op: Reduce, x: CoreOperand<'_>, axes: &[usize], out: DType) -> Result<Buffer> {
        let axes = Axes::new(self, "reduce", x, axes)?;
        let compute = if op == Reduce::Mean { Compute::real(&[x.logical]) } else { Compute::of(&[x.logical]) };
        Ok(self.fold(op, axes, axes.count as f64, compute, out)?.into_buffer())
    }

    fn variance(&self, x: CoreOperand<'_>, axes: &[usize], correction: f64, out: DType) -> Result<(Buffer, Buffer)> {
        let axes = Axes::new(self, "variance", x, axes)?;
        let compute = Compute::real(&[x.logical]);
        let (mean, var, _) = self.variances(&self.moments(axes, compute)?, correction, None, compute, out)?;
        Ok((mean.into_buffer(), var.into_buffer()))
    }

    fn arg_reduce(&self, max: bool, x: CoreOperand<'_>, axis: usize) -> Result<Buffer> {
        let axes = Axes::new(self, "arg_reduce", x, &[axis])?;
        let y = self.memory("arg_reduce", axes.outputs, DType::I64)?;
        let args = ArgReduceArgs {
            kept: axes.kept,
            inner: axes.inner,
            y: y.address(),
            outputs: axes.outputs as i64,
            count: axes.count as i64,
            max: i32::from(max),
        };
        let grid = ([axes.outputs as u64, 1, 1], THREADS);
        self.launch(FAMILY, "arg_reduce", Some(Compute::of(&[x.logical])), grid, args)?;
        Ok(y.into_buffer())
    }

    fn scan(&self, op: Scan, x: CoreOperand<'_>, axis: usize, reverse: bool, out: DType) -> Result<Buffer> {
        self.running(op, x, axis, reverse, out)
    }

    fn cumprod_grad(&self, x: CoreOperand<'_>, grad: CoreOperand<'_>, axis: usize, out: DType) -> Result<Buffer> {
        self.running_product_grad(x, grad, axis, out)
    }

    fn sort(&self, x: CoreOperand<'_>, axis: usize, descending: bool) -> Result<(Buffer, Buffer)> {
        self.sorted(x, axis, descending)
    }
}
