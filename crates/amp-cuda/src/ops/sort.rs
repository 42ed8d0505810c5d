use super::Cut;
use crate::args::{SortArgs, SortStepArgs, SortedArgs};
use crate::device::{Gpu, Memory, THREADS};
use crate::module::Family::Sort as FAMILY;
use crate::operand::{Compute, Operand, tag};
use amp_core::Result;
use amp_core::backend::{Buffer, DType, Operand as CoreOperand};

/// Positions sorted in shared memory by one block, where a line has so many; `SORT_TILE` of `sort.cu`.
const TILE: usize = 512;

/// Positions of each line of keys in sorted order, `[lines, padded]`.
pub(super) struct Order {
    pub memory: Memory,
    pub padded: usize,
}

impl Gpu {
    /// The stable order of the lines of `keys`.
    pub(super) fn order(&self, keys: Operand, cut: Cut, descending: bool, compute: Compute) -> Result<Order> {
        let (padded, lines) = (cut.len.next_power_of_two(), cut.lines());
        let memory = self.memory("sort", lines * padded, DType::I64)?;
        let args = |span: usize, step: usize, first: bool| SortArgs {
            x: keys,
            order: memory.address(),
            len: cut.len as i64,
            inner: cut.inner as i64,
            padded: padded as i64,
            span: span as i64,
            step: step as i64,
            descending: i32::from(descending),
            first: i32::from(first),
        };
        let tiles = ([(lines * padded / padded.min(TILE)) as u64, 1, 1], THREADS);
        self.launch(FAMILY, "sort_tile", Some(compute), tiles, args(TILE, 0, true))?;
        let mut span = 2 * TILE;
        while span <= padded {
            let mut step = span / 2;
            while step >= TILE {
                let pairs = self.spread(lines * padded / 2);
                let sort = SortStepArgs { sort: args(span, step, false), lines: lines as i64 };
                self.launch(FAMILY, "sort_step", Some(compute), pairs, sort)?;
                step /= 2;
            }
            self.launch(FAMILY, "sort_tile", Some(compute), tiles, args(span, 0, false))?;
            span *= 2;
        }
        Ok(Order { memory, padded })
    }

    pub(super) fn sorted(&self, x: CoreOperand<'_>, axis: usize, descending: bool) -> Result<(Buffer, Buffer)> {
        let (cut, n, compute) = (Cut::new(&x.layout.shape, axis), x.layout.count(), Compute::of(&[x.logical]));
        let (values, positions) = (self.memory("sort", n, x.logical)?, self.memory("sort", n, DType::I64)?);
        if n > 0 {
            let x_operand = Operand::new(self, "sort", x)?;
            let order = self.order(x_operand, cut, descending, compute)?;
            let args = SortedArgs {
                x: x_operand,
                order: order.memory.address(),
                values: values.address(),
                positions: positions.address(),
                n: n as i64,
                len: cut.len as i64,
                inner: cut.inner as i64,
                padded: order.padded as i64,
                out: tag(x.logical),
            };
            self.launch(FAMILY, "sorted", Some(compute), self.spread(n), args)?;
        }
        Ok((values.into_buffer(), positions.into_buffer()))
    }
}
