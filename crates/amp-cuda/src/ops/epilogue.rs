//! Activations that cuBLASLt applies within products, and their derivatives.
//!
//! NaN has to reach the loss scale's check, and whether cuBLASLt's ReLU lets it pass is documented nowhere. So each of its
//! algorithms is tried once, the first time that a product wants ReLU of it: with a bias of NaN, every result has to be NaN and
//! every bit that is kept for the gradient set. Otherwise ReLU is a kernel of its own after the product. GELU multiplies by
//! its argument, which hides nothing.

use crate::args::MatmulArgs;
use crate::convolve::lies;
use crate::device::{Gpu, Memory};
use crate::operand::{Operand, tag};
use crate::product::{Addresses, Product, Products};
use amp_core::backend::{Buffer, DType, Layout, Memory as _, Operand as CoreOperand, Optimize, Unary};
use amp_core::{Dims, Result};
use std::sync::PoisonError;

impl Gpu {
    /// Both results of `MatMul::matmul_unary` with the second in `y`, or `y` again where cuBLASLt does not apply `op`.
    pub(super) fn multiply_with(
        &self,
        op: Unary,
        args: &MatmulArgs,
        mut y: Memory,
    ) -> Result<std::result::Result<[Buffer; 2], Memory>> {
        match op {
            Unary::GeluTanh => {
                let x = self.memory("matmul", y.len(), y.dtype())?;
                let done = self.multiply_with_gelu(args, x.address(), false)?;
                Ok(if done { Ok([x, y].map(Memory::into_buffer)) } else { Err(y) })
            }
            Unary::Relu => Ok(match self.multiply_with_relu(args, y.dtype())? {
                Some(passes) => {
                    y.passes = Some(Box::new(passes));
                    let y = y.into_buffer();
                    Ok([y.clone(), y])
                }
                None => Err(y),
            }),
            _ => Ok(Err(y)),
        }
    }

    /// The product times `op`'s derivative at `saved`, if cuBLASLt does it.
    pub(super) fn multiply_with_grad(
        &self,
        op: Unary,
        args: &MatmulArgs,
        saved: CoreOperand<'_>,
        out: DType,
    ) -> Result<bool> {
        let kept = Operand::new(self, "matmul", saved)?;
        if !lies(&kept, tag(out)) {
            return Ok(false);
        }
        match op {
            Unary::GeluTanh => self.multiply_with_gelu(args, kept.data, true),
            Unary::Relu => {
                let whole = saved.layout.count() == saved.buffer.len();
                let passes = saved.buffer.downcast::<Memory>().and_then(|memory| memory.passes.as_deref());
                passes.filter(|_| whole).map_or(Ok(false), |passes| self.multiply_with_relu_grad(args, passes))
            }
            _ => Ok(false),
        }
    }

    /// The product with GELU of what is kept at `kept`, or `backward` times its derivative there.
    fn multiply_with_gelu(&self, args: &MatmulArgs, kept: u64, backward: bool) -> Result<bool> {
        let Some((products, (product, at))) = self.products()?.zip(Product::new(args)) else { return Ok(false) };
        let Some((product, at)) = product.with_gelu(at, kept, backward) else { return Ok(false) };
        products.multiply(self, product, at, false)
    }

    /// The product's ReLU; returns which elements let gradients pass.
    fn multiply_with_relu(&self, args: &MatmulArgs, out: DType) -> Result<Option<Memory>> {
        let Some(products) = self.products()? else { return Ok(None) };
        // One kind of product to be tried, with a bias or without.
        let none = if args.bias.data == 0 { Some(self.zeros("matmul", args.columns as usize, out)?) } else { None };
        let bias = none.as_ref().map_or(args.bias, Operand::whole);
        let product = Product::new(&MatmulArgs { bias, ..*args });
        let Some((product, at)) = product.and_then(|(product, at)| product.with_relu(at, 0, false)) else {
            return Ok(None);
        };
        let passes = self.memory("matmul", product.kept_bytes(), DType::U8)?;
        let at = Addresses { kept: passes.address(), ..at };
        let taken = self.keeps_nan(products, product, at, &passes)? && products.multiply(self, product, at, false)?;
        Ok(taken.then_some(passes))
    }

    fn multiply_with_relu_grad(&self, args: &MatmulArgs, passes: &Memory) -> Result<bool> {
        let Some((products, (product, at))) = self.products()?.zip(Product::new(args)) else { return Ok(false) };
        let Some((product, at)) = product.with_relu(at, passes.address(), true) else { return Ok(false) };
        Ok(passes.len() == product.kept_bytes() && products.multiply(self, product, at, false)?)
    }

    /// Whether the algorithm that does the product lets NaN through its ReLU. Waits for the device once for each.
    fn keeps_nan(&self, products: &Products, product: Product, at: Addresses, passes: &Memory) -> Result<bool> {
        let Some(tried) = products.algorithm(self, product, &at)? else { return Ok(false) };
        let mut keeping = products.keeping.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&keeps) = keeping.get(&tried) {
            return Ok(keeps);
        }
        // A graph that is being captured cannot wait: the next step outside of one will know.
        if self.recorder().number() != 0 {
            return Ok(false);
        }
        let [columns, rows, _] = product.sizes.map(|n| n as usize);
        let y = self.memory("matmul", columns * rows, product.types[1])?;
        let nan = self.fill(f64::NAN, columns, product.types[1])?;
        let vector = nan.downcast::<Memory>().map_or(0, Memory::address);
        let [first, second, _] = at.matrices;
        let at = Addresses { matrices: [first, second, y.address()], vector, ..at };
        if !products.multiply(self, product, at, false)? {
            return Ok(false);
        }
        let mut bits = vec![0u8; passes.len()];
        self.read("matmul", passes, &mut bits)?;
        let set = bits.chunks(bits.len() / rows).all(|row| row[..columns / 8].iter().all(|&byte| byte == u8::MAX));
        let (buffer, layout) = (y.into_buffer(), Layout::contiguous(Dims::new(&[columns * rows]).unwrap_or_default()));
        let (bad, _) = self.magnitude(CoreOperand { buffer: &buffer, layout: &layout, logical: product.types[1] })?;
        let keeps = set && bad == columns * rows;
        if !keeps {
            log::info!(
                "{}: an algorithm of cuBLASLt hides NaN in ReLU, which is a kernel of its own there",
                self.name()
            );
        }
        keeping.insert(tried, keeps);
        Ok(keeps)
    }
}
