use super::Cut;
use crate::args::{CheckArgs, GatherArgs, IndexSelectArgs, SegmentAddArgs, TargetsArgs};
use crate::device::{Gpu, Memory, THREADS};
use crate::module::Family::Index as FAMILY;
use crate::operand::{Compute, Operand, tag};
use amp_core::backend::{Buffer, DType, Indexing, Layout, MAX_RANK, Operand as CoreOperand};
use amp_core::{Error, Result};

/// Where gather reads and scatter adds: shape of the index, row-major strides of the tensor it points into.
fn named(gpu: &Gpu, op: &'static str, shape: &[usize], axis: usize, index: CoreOperand<'_>) -> Result<GatherArgs> {
    let cut = Cut::new(shape, axis);
    let (mut sizes, mut steps) = ([1; MAX_RANK], [0; MAX_RANK]);
    for (i, &n) in index.layout.shape.iter().enumerate() {
        sizes[i] = n as i64;
        steps[i] = if i == axis { 0 } else { shape[i + 1..].iter().product::<usize>() as i64 };
    }
    Ok(GatherArgs {
        x: Operand::NONE,
        index: Operand::new(gpu, op, index)?,
        y: 0,
        n: index.layout.count() as i64,
        shape: sizes,
        steps,
        step: cut.inner as i64,
        size: cut.len as i64,
        rank: index.layout.shape.len() as i32,
        out: 0,
    })
}

impl Gpu {
    /// `base` (or zeros) with the slices of `source` added at `targets`, in their order; the last one in the place of all if
    /// `last`.
    pub(super) fn segments(
        &self,
        last: bool,
        y: &Memory,
        (base, source): (Operand, Operand),
        (targets, cut): (&Memory, Cut),
        len: usize,
    ) -> Result<()> {
        if cut.outer * cut.len * cut.inner == 0 {
            return Ok(());
        }
        let line = Cut { outer: 1, len: cut.len, inner: 1 };
        let order = self.order(Operand::whole(targets), line, false, Compute::I64)?;
        let args = SegmentAddArgs {
            source,
            target: targets.address(),
            order: order.memory.address(),
            base,
            y: y.address(),
            outer: cut.outer as i64,
            count: cut.len as i64,
            inner: cut.inner as i64,
            len: len as i64,
            out: tag(y.dtype()),
            last: i32::from(last),
        };
        let grid = self.spread(cut.outer * cut.len * cut.inner);
        self.launch(FAMILY, "segment_add", Some(Compute::of(&[y.dtype()])), grid, args)
    }
}

impl Indexing for Gpu {
    fn check_indices(&self, op: &'static str, index: CoreOperand<'_>, size: usize, ignored: Option<i64>) -> Result<()> {
        let n = index.layout.count();
        let index = Operand::new(self, op, index)?;
        let (ignored, has_ignored) = (ignored.unwrap_or(0), i32::from(ignored.is_some()));
        self.checks.make(self, op, size, |bad, check| {
            let args = CheckArgs { index, bad, n: n as i64, size: size as i64, ignored, check, has_ignored };
            self.launch(FAMILY, "check_indices", None, ([u64::from(n > 0), 1, 1], THREADS), args)
        })
    }

    fn index_select(&self, x: CoreOperand<'_>, axis: usize, index: CoreOperand<'_>) -> Result<Buffer> {
        let (cut, count) = (Cut::new(&x.layout.shape, axis), index.layout.count());
        let n = cut.outer * count * cut.inner;
        let y = self.memory("index_select", n, x.logical)?;
        let args = IndexSelectArgs {
            x: Operand::new(self, "index_select", x)?,
            index: Operand::new(self, "index_select", index)?,
            y: y.address(),
            n: if cut.len == 0 { 0 } else { n as i64 },
            len: cut.len as i64,
            inner: cut.inner as i64,
            count: count as i64,
            out: tag(x.logical),
        };
        self.launch(FAMILY, "index_select", Some(Compute::of(&[x.logical])), self.spread(n), args)?;
        Ok(y.into_buffer())
    }

    fn gather(&self, x: CoreOperand<'_>, axis: usize, index: CoreOperand<'_>) -> Result<Buffer> {
        let n = index.layout.count();
        let y = self.memory("gather", n, x.logical)?;
        let args = named(self, "gather", &x.layout.shape, axis, index)?;
        let n_read = if x.layout.count() == 0 { 0 } else { args.n };
        let args =
            GatherArgs { x: Operand::new(self, "gather", x)?, y: y.address(), n: n_read, out: tag(x.logical), ..args };
        self.launch(FAMILY, "gather", Some(Compute::of(&[x.logical])), self.spread(n), args)?;
        Ok(y.into_buffer())
    }

    fn scatter_add(
        &self,
        base: CoreOperand<'_>,
        axis: usize,
        index: CoreOperand<'_>,
        src: CoreOperand<'_>,
        out: DType,
    ) -> Result<Buffer> {
        self.scattered("scatter_add", base, axis, index, src, out)
    }

    fn scatter(
        &self,
        base: CoreOperand<'_>,
        axis: usize,
        index: CoreOperand<'_>,
        src: CoreOperand<'_>,
        out: DType,
    ) -> Result<Buffer> {
        self.scattered("scatter", base, axis, index, src, out)
    }

    fn index_add(
        &self,
        base: Option<CoreOperand<'_>>,
        len: usize,
        axis: usize,
        index: CoreOperand<'_>,
        src: CoreOperand<'_>,
        out: DType,
    ) -> Result<Buffer> {
        use amp_core::backend::Memory as _;
        let cut = Cut::new(&src.layout.shape, axis);
        let y = match base {
            Some(base) => self.copy(base, out)?,
            None => self.fill(0.0, cut.outer * len * cut.inner, out)?,
        };
        let base = base.map_or(Ok(Operand::NONE), |base| Operand::new(self, "index_add", base))?;
        let Some(sums) = y.downcast::<Memory>() else { return Err(crate::error::foreign(self, "index_add")) };
        let targets = self.memory("index_add", cut.len, DType::I64)?;
        let index = Operand::new(self, "index_add", index)?;
        let args = TargetsArgs { index, y: targets.address(), n: cut.len as i64, size: len as i64 };
        self.launch(FAMILY, "slice_targets", None, self.spread(cut.len), args)?;
        let source = Operand::new(self, "index_add", src)?;
        if len > 0 {
            self.segments(false, sums, (base, source), (&targets, cut), len)?;
        }
        Ok(y)
    }
}

impl Gpu {
    /// `base` with the elements of `src` added to it, or in its place, where `index` says.
    fn scattered(
        &self,
        op: &'static str,
        base: CoreOperand<'_>,
        axis: usize,
        index: CoreOperand<'_>,
        src: CoreOperand<'_>,
        out: DType,
    ) -> Result<Buffer> {
        use amp_core::backend::Memory as _;
        let (n, total) = (index.layout.count(), base.layout.count());
        let copy = self.copy(base, out)?;
        let targets = self.memory(op, n, DType::I64)?;
        let args = GatherArgs { y: targets.address(), ..named(self, op, &base.layout.shape, axis, index)? };
        self.launch(FAMILY, "scatter_targets", None, self.spread(n), args)?;
        // `src` may be larger than `index`: only the part of its shape counts.
        let part = Layout { shape: index.layout.shape, ..*src.layout };
        let source = Operand::with_layout(self, op, src, &part)?;
        let base = Operand::new(self, op, base)?;
        let Some(y) = copy.downcast::<Memory>() else { return Err(crate::error::foreign(self, op)) };
        if total > 0 {
            let line = Cut { outer: 1, len: n, inner: 1 };
            self.segments(op == "scatter", y, (base, source), (&targets, line), total)?;
        }
        Ok(copy)
    }

    /// Reports an index that a check has refused since the last call; the device has been waited for.
    pub(super) fn bad_index(&self) -> Result<()> {
        match self.checks.found(self)? {
            Some((op, index, size)) => Err(Error::IndexOutOfRange { op, index, size }),
            None => Ok(()),
        }
    }
}
