use crate::args::MatmulArgs;
use crate::device::{Gpu, Memory};
use crate::module::Family::MatMul as FAMILY;
use crate::operand::{Compute, Operand, tag};
use crate::product::{Product, takes_bias};
use amp_core::Result;
use amp_core::backend::{
    Buffer, DType, Layout, MAX_RANK, MatMul, Memory as _, Operand as CoreOperand, Unary, unary_after, unary_grad_after,
};

/// Rows and columns of the tile that one block computes; `TILE` of `gemm.cuh`.
const TILE: usize = 64;

/// `[.., rows, columns]` as batch dimensions and a matrix.
struct Matrices<'a> {
    batch: &'a [usize],
    batch_strides: &'a [usize],
    shape: [usize; 2],
    strides: [i64; 2],
}

impl<'a> Matrices<'a> {
    fn new(x: &CoreOperand<'a>) -> Self {
        let (shape, strides) = (&x.layout.shape, &x.layout.strides);
        let lead = shape.len() - 2;
        Self {
            batch: &shape[..lead],
            batch_strides: &strides[..lead],
            shape: [shape[lead], shape[lead + 1]],
            strides: [strides[lead] as i64, strides[lead + 1] as i64],
        }
    }
}

pub(super) fn padded(sizes: &[usize]) -> [i64; MAX_RANK] {
    std::array::from_fn(|i| sizes.get(i).map_or(0, |&n| n as i64))
}

/// The copy where there is one.
pub(super) fn replaced<'a>(x: CoreOperand<'a>, copy: &'a Option<(Buffer, Layout)>) -> CoreOperand<'a> {
    copy.as_ref().map_or(x, |(buffer, layout)| CoreOperand { buffer, layout, logical: x.logical })
}

impl Gpu {
    /// Everything but bias, result and mode.
    fn product(&self, a: CoreOperand<'_>, b: CoreOperand<'_>) -> Result<(MatmulArgs, Compute)> {
        let (left, right) = (Matrices::new(&a), Matrices::new(&b));
        let args = MatmulArgs {
            l: Operand::new(self, "matmul", a)?,
            r: Operand::new(self, "matmul", b)?,
            bias: Operand::NONE,
            y: 0,
            batch_shape: padded(left.batch),
            l_batch: padded(left.batch_strides),
            r_batch: padded(right.batch_strides),
            rows: left.shape[0] as i64,
            columns: right.shape[1] as i64,
            terms: left.shape[1] as i64,
            l_strides: left.strides,
            r_strides: right.strides,
            batch: left.batch.iter().product::<usize>() as i64,
            batch_rank: left.batch.len() as i32,
            out: 0,
            accumulate: 0,
            sum_batch: 0,
        };
        Ok((args, Compute::real(&[a.logical, b.logical])))
    }

    /// Copies of the operands that are stored in another type than they count as, when `a · b` is large enough for the
    /// tensor cores to win back what the copies cost. Small products convert as they load.
    fn alike(&self, a: &CoreOperand<'_>, b: &CoreOperand<'_>) -> Result<[Option<(Buffer, Layout)>; 2]> {
        const WORTH_COPIES: usize = 1 << 24;
        let work = a.layout.count().saturating_mul(b.layout.shape.last().map_or(0, |&n| n));
        let stored = [a, b].map(|x| x.buffer.dtype());
        let rounds = [a, b].iter().any(|x| x.logical.size() < x.buffer.dtype().size());
        if work < WORTH_COPIES || a.logical != b.logical || (stored[0] == stored[1] && !rounds) {
            return Ok([None, None]);
        }
        if self.products()?.is_none() {
            return Ok([None, None]);
        }
        let copied = |x: &CoreOperand<'_>| -> Result<Option<(Buffer, Layout)>> {
            if x.buffer.dtype() == x.logical {
                return Ok(None);
            }
            Ok(Some((self.copy(*x, x.logical)?, Layout::contiguous(x.layout.shape))))
        };
        Ok([copied(a)?, copied(b)?])
    }

    /// The product with the sums of its left rows, if cuBLASLt does both at once.
    fn multiply_and_sum(&self, args: MatmulArgs, compute: Compute) -> Result<Option<Memory>> {
        let Some((products, (product, at))) = self.products()?.zip(Product::new(&args)) else { return Ok(None) };
        if product.with_sums(at, 0).is_none() {
            return Ok(None);
        }
        let sums = self.memory("matmul", args.rows as usize, compute.dtype())?;
        let Some((product, at)) = product.with_sums(at, sums.address()) else { return Ok(None) };
        Ok(products.multiply(self, product, at, args.accumulate != 0)?.then_some(sums))
    }

    /// `into += a · b`, and the sums of the rows of `a` if they are wanted and come with it.
    fn accumulate(
        &self,
        a: CoreOperand<'_>,
        b: CoreOperand<'_>,
        into: &mut Buffer,
        sums: bool,
    ) -> Result<Option<Memory>> {
        let copies = self.alike(&a, &b)?;
        let (args, compute) = self.product(replaced(a, &copies[0]), replaced(b, &copies[1]))?;
        let matrix = (args.rows * args.columns) as usize;
        let memory = into.downcast_mut::<Memory>().ok_or_else(|| crate::error::foreign(self, "matmul"))?;
        let args = MatmulArgs {
            y: memory.address(),
            out: tag(memory.dtype()),
            accumulate: 1,
            sum_batch: i32::from(memory.len() == matrix && args.batch != 1),
            ..args
        };
        let summed = if sums { self.multiply_and_sum(args, compute)? } else { None };
        if summed.is_none() {
            self.multiply(args, compute)?;
        }
        Ok(summed)
    }

    pub(super) fn multiply(&self, args: MatmulArgs, compute: Compute) -> Result<()> {
        if let (Some(products), Some((product, at))) = (self.products()?, Product::new(&args))
            && products.multiply(self, product, at, args.accumulate != 0)?
        {
            return Ok(());
        }
        let tiles = |n: i64| (n as u64).div_ceil(TILE as u64);
        let matrices = if args.sum_batch != 0 { 1 } else { args.batch as u64 };
        let blocks = tiles(args.rows) * tiles(args.columns) * matrices;
        self.launch(FAMILY, "matmul", Some(compute), ([blocks, 1, 1], crate::device::THREADS), args)
    }
}

impl Gpu {
    /// A copy of a bias that cuBLASLt does not take as it lies.
    fn vector(&self, bias: CoreOperand<'_>, out: DType) -> Result<Option<(Buffer, Layout)>> {
        let taken = takes_bias(&Operand::new(self, "matmul", bias)?, out);
        if taken || bias.logical != out || out == DType::F64 || self.products()?.is_none() {
            return Ok(None);
        }
        Ok(Some((self.copy(bias, out)?, Layout::contiguous(bias.layout.shape))))
    }

    /// Makes memory for `a · b (+ bias)` and has `run` fill it.
    fn biased<T>(
        &self,
        a: CoreOperand<'_>,
        b: CoreOperand<'_>,
        bias: Option<CoreOperand<'_>>,
        out: DType,
        run: impl FnOnce(MatmulArgs, Compute, Memory) -> Result<T>,
    ) -> Result<T> {
        let copies = self.alike(&a, &b)?;
        let (a, b) = (replaced(a, &copies[0]), replaced(b, &copies[1]));
        let vector = bias.map(|bias| self.vector(bias, out)).transpose()?.flatten();
        let bias = bias.map(|bias| replaced(bias, &vector));
        let (args, compute) = self.product(a, b)?;
        let y = self.memory("matmul", (args.batch * args.rows * args.columns) as usize, out)?;
        let bias = Operand::optional(self, "matmul", bias)?;
        run(MatmulArgs { bias, y: y.address(), out: tag(out), ..args }, compute, y)
    }
}

impl MatMul for Gpu {
    fn matmul(
        &self,
        a: CoreOperand<'_>,
        b: CoreOperand<'_>,
        bias: Option<CoreOperand<'_>>,
        out: DType,
    ) -> Result<Buffer> {
        self.biased(a, b, bias, out, |args, compute, y| {
            self.multiply(args, compute)?;
            Ok(y.into_buffer())
        })
    }

    fn matmul_unary(
        &self,
        a: CoreOperand<'_>,
        b: CoreOperand<'_>,
        bias: Option<CoreOperand<'_>>,
        op: Unary,
        out: DType,
    ) -> Result<[Buffer; 2]> {
        self.biased(a, b, bias, out, |args, compute, y| {
            let y = match self.multiply_with(op, &args, y)? {
                Ok(results) => return Ok(results),
                Err(y) => y,
            };
            self.multiply(args, compute)?;
            unary_after(self, y.into_buffer(), op, out)
        })
    }

    fn matmul_unary_grad(
        &self,
        a: CoreOperand<'_>,
        b: CoreOperand<'_>,
        op: Unary,
        saved: CoreOperand<'_>,
        out: DType,
    ) -> Result<Buffer> {
        self.biased(a, b, None, out, |args, compute, y| {
            if self.multiply_with_grad(op, &args, saved, out)? {
                return Ok(y.into_buffer());
            }
            self.multiply(args, compute)?;
            unary_grad_after(self, y.into_buffer(), op, saved, out)
        })
    }

    fn matmul_accumulate(&self, a: CoreOperand<'_>, b: CoreOperand<'_>, into: &mut Buffer) -> Result<()> {
        self.accumulate(a, b, into, false).map(|_| ())
    }

    fn matmul_sums(&self, a: CoreOperand<'_>, b: CoreOperand<'_>, out: DType) -> Result<(Buffer, Option<Buffer>)> {
        let copies = self.alike(&a, &b)?;
        let (args, compute) = self.product(replaced(a, &copies[0]), replaced(b, &copies[1]))?;
        let y = self.memory("matmul", (args.batch * args.rows * args.columns) as usize, out)?;
        let args = MatmulArgs { y: y.address(), out: tag(out), ..args };
        let sums = self.multiply_and_sum(args, compute)?;
        if sums.is_none() {
            self.multiply(args, compute)?;
        }
        Ok((y.into_buffer(), sums.map(Memory::into_buffer)))
    }

    fn matmul_accumulate_sums(
        &self,
        a: CoreOperand<'_>,
        b: CoreOperand<'_>,
        into: &mut Buffer,
    ) -> Result<Option<Buffer>> {
        Ok(self.accumulate(a, b, into, true)?.map(Memory::into_buffer))
    }
}
