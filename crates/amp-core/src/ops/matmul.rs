//! Matrix products.

use crate::autograd::{Pass, Saved, Spread, record};
use crate::backend::{Buffer, Operand};
use crate::precision::{Element, Float, SamePrecision};
use crate::raw::RawTensor;
use crate::tensor::Tensor;
use crate::{Error, Result, shape};
use amp_cpu::{DType, Dims, Layout};

impl<P: Float> Tensor<P> {
    /// Matrix product of `[.., M, K]` and `[.., K, N]` (`torch.matmul`).
    ///
    /// Leading dimensions broadcast. A vector `[K]` on the left counts as a row, on the right as a column, and the
    /// dimension it stands for is missing from the result.
    ///
    /// # Precision
    /// Accumulates in F32 (F64 for F64) and rounds once. Gradients of narrowed F32 values come straight from the
    /// accumulators in F32.
    #[track_caller]
    pub fn matmul<Q: Element>(&self, other: &Tensor<Q>) -> Result<Self>
    where
        P: SamePrecision<Q>,
    {
        Ok(Self::from_raw(matmul("matmul", &self.raw, &other.raw)?))
    }
}

/// The product, whose operands are refused in the name of `op`.
#[track_caller]
pub(super) fn matmul(op: &'static str, a: &RawTensor, b: &RawTensor) -> Result<RawTensor> {
    a.device().check_same(b.device(), op)?;
    let plan = Plan::new(op, a, b)?;
    let (left, right, [m, _, n]) = (plan.left(a)?, plan.right(b)?, plan.sizes);
    let buffer = a.backend().matmul(left.factor(n)?, right.factor(m)?, None, a.logical)?;
    let y = RawTensor::new(a.device(), buffer, plan.result);
    record("matmul", &[a, b], y, |_| {
        let (a, b) = (Saved::new(a)?, Saved::new(b)?);
        Ok(Box::new(move |pass: &mut Pass<'_>| {
            let [grad, a, b] = [pass.grad(), &a, &b].map(RawTensor::detached);
            pass.give_or_defer(0, [grad.clone(), b], move |pass, [grad, b]| plan.give_left(pass, grad, b))?;
            pass.give_or_defer(1, [grad, a], move |pass, [grad, a]| plan.give_right(pass, grad, a))
        }))
    })
}

/// How two operands meet: their matrices, their common batch, the shape of the result.
#[derive(Clone, Copy)]
struct Plan {
    batch: Dims,
    /// Sizes M, K, N.
    sizes: [usize; 3],
    vectors: [bool; 2],
    result: Dims,
}

impl Plan {
    fn new(op: &'static str, a: &RawTensor, b: &RawTensor) -> Result<Self> {
        let (left, right) = (*a.shape(), *b.shape());
        for found in [left, right] {
            if found.is_empty() {
                return Err(Error::Rank {
                    op,
                    what: "each operand",
                    expected: "at least 1 dimension",
                    found: found.into(),
                });
            }
        }
        let vectors = [left.len() == 1, right.len() == 1];
        let (outer_left, m) = if vectors[0] { (0, 1) } else { (left.len() - 2, left[left.len() - 2]) };
        let (outer_right, n) = if vectors[1] { (0, 1) } else { (right.len() - 2, right[right.len() - 1]) };
        let (k, rows) = (left[left.len() - 1], if vectors[1] { right[0] } else { right[right.len() - 2] });
        if k != rows {
            return Err(Error::InnerDimensions { op, left: left.into(), right: right.into() });
        }
        let outer = |dims: &Dims, count: usize| Dims::new(&dims[..count]).expect("fewer dimensions");
        let batch = shape::broadcast(op, &outer(&left, outer_left), &outer(&right, outer_right))
            .map_err(|_| Error::Broadcast { op, left: left.into(), right: right.into() })?;
        let mut result = batch.to_vec();
        result.extend((!vectors[0]).then_some(m));
        result.extend((!vectors[1]).then_some(n));
        let result = shape::IntoShape::into_shape(result, op)?;
        Ok(Self { batch, sizes: [m, k, n], vectors, result })
    }

    /// The left operand as `[batch.., M, K]`.
    fn left(&self, a: &RawTensor) -> Result<RawTensor> {
        let layout = if self.vectors[0] { with_axis(&a.layout, 0)? } else { a.layout };
        self.repeated(&a.with_layout(layout), self.sizes[0], self.sizes[1])
    }

    /// The right operand as `[batch.., K, N]`.
    fn right(&self, b: &RawTensor) -> Result<RawTensor> {
        let layout = if self.vectors[1] { with_axis(&b.layout, 1)? } else { b.layout };
        self.repeated(&b.with_layout(layout), self.sizes[1], self.sizes[2])
    }

    /// Gives input 0 the gradient of the result, times the turned right operand.
    fn give_left(&self, pass: &mut Pass<'_>, grad: &RawTensor, b: &RawTensor) -> Result<()> {
        let (grad, right) = (self.grad(grad)?, self.right(b)?);
        let layout = turned(&right.layout);
        give_product(pass, 0, grad.operand()?, Operand { layout: &layout, ..right.factor(self.sizes[0])? })
    }

    /// Gives input 1 the turned left operand, times the gradient of the result.
    fn give_right(&self, pass: &mut Pass<'_>, grad: &RawTensor, a: &RawTensor) -> Result<()> {
        let (grad, left) = (self.grad(grad)?, self.left(a)?);
        let layout = turned(&left.layout);
        give_product(pass, 1, Operand { layout: &layout, ..left.factor(self.sizes[2])? }, grad.operand()?)
    }

    fn repeated(&self, x: &RawTensor, rows: usize, columns: usize) -> Result<RawTensor> {
        let too_many = || Error::TooManyDimensions { op: "matmul", rank: self.batch.len() + 2 };
        let shape = self.batch.pushed(rows).and_then(|dims| dims.pushed(columns)).ok_or_else(too_many)?;
        x.broadcast_to("matmul", &shape)
    }

    /// The gradient of the result as `[batch.., M, N]`.
    fn grad(&self, grad: &RawTensor) -> Result<RawTensor> {
        let mut layout = grad.layout;
        for at in (0..2).filter(|&i| self.vectors[i]).map(|i| self.batch.len() + i) {
            layout = with_axis(&layout, at)?;
        }
        Ok(grad.with_layout(layout))
    }
}

pub(super) fn with_axis(layout: &Layout, at: usize) -> Result<Layout> {
    let inserted = layout.shape.inserted(at, 1).zip(layout.strides.inserted(at, 0));
    let (shape, strides) = inserted.ok_or(Error::TooManyDimensions { op: "matmul", rank: layout.shape.len() + 1 })?;
    Ok(Layout { shape, strides, offset: layout.offset })
}

/// Adds `a · b` to the gradient of input `i`, which may lack the dimension of a vector and broadcast ones.
///
/// Where gradients are collected in the accumulators' precision, the product adds to the one that is there already.
pub(super) fn give_product(pass: &mut Pass<'_>, i: usize, a: Operand<'_>, b: Operand<'_>) -> Result<()> {
    let Some(shape) = pass.shape(i) else { return Ok(()) };
    let device = pass.grad().device().clone();
    let (backend, rank) = (device.backend(), a.layout.shape.len());
    let (batch, rows) = a.layout.shape.split_at(rank - 2);
    let (rows, columns) = (rows[0], b.layout.shape[rank - 1]);
    let (one, all) = (rows * columns, batch.iter().product::<usize>() * rows * columns);
    let product = |dtype: DType| backend.matmul(a, b, None, dtype);
    let add = |into: &mut Buffer| backend.matmul_accumulate(a, b, into);
    let depth = all / one.max(1) * a.layout.shape[rank - 1];
    let spread = Spread::of(a.logical, b.logical, depth, 1).filter(|_| *shape == [rows, columns]);
    let collected = pass.dtype(i) == accumulator(a.logical);
    if collected && shape.count() == all {
        return accumulate(pass, i, spread, product, add);
    }
    if collected && shape.count() == one {
        let sum = |dtype: DType| {
            let mut buffer = backend.fill(0.0, one, dtype)?;
            add(&mut buffer)?;
            Ok(buffer)
        };
        return accumulate(pass, i, spread, sum, add);
    }
    if shape.count() == all {
        let buffer = product(pass.dtype(i))?;
        return pass.give(i, RawTensor::new(&device, buffer, shape));
    }
    let buffer = product(accumulator(a.logical))?;
    let mut dims = batch.to_vec();
    dims.extend(if shape.len() == 1 { vec![one] } else { vec![rows, columns] });
    let dims = Dims::new(&dims).ok_or(Error::TooManyDimensions { op: "matmul", rank: dims.len() })?;
    pass.give(i, RawTensor::new(&device, buffer, dims))
}

/// The precision that sums for a tensor of precision `dtype` are kept in.
pub(crate) fn accumulator(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// Adds to the gradient of input `i` inside a kernel's own accumulation: `add` gets what was collected so far where that is
/// free to be written, otherwise `fresh` computes the new share alone. `spread` is that of the product's factors, if known.
pub(crate) fn accumulate(
    pass: &mut Pass<'_>,
    i: usize,
    spread: Option<Spread>,
    fresh: impl FnOnce(DType) -> Result<Buffer>,
    add: impl FnOnce(&mut Buffer) -> Result<()>,
) -> Result<()> {
    let Some(shape) = pass.shape(i) else { return Ok(()) };
    let device = pass.grad().device().clone();
    let buffer = match pass.take(i).map(RawTensor::into_buffer) {
        Some(Ok(mut buffer)) => {
            add(&mut buffer)?;
            buffer
        }
        Some(Err(shared)) => {
            pass.put_back(i, shared);
            fresh(pass.dtype(i))?
        }
        None => fresh(pass.dtype(i))?,
    };
    pass.give_product(i, RawTensor::new(&device, buffer, shape), spread)
}

/// The last two dimensions swapped.
pub(super) fn turned(layout: &Layout) -> Layout {
    let (mut layout, n) = (*layout, layout.shape.len());
    layout.shape.swap(n - 2, n - 1);
    layout.strides.swap(n - 2, n - 1);
    layout
}

#[cfg(test)]
mod tests {
    use crate::{BF16, Device, F32, F64, Tensor, gradcheck};

    fn numbers(shape: &[usize], seed: u64) -> Tensor<F64> {
        let mut state = seed;
        let mut next = |_: &[usize]| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 40) as f64 / f64::from(1 << 23) - 1.0
        };
        Tensor::<F64>::from_fn(shape, &mut next, &Device::cpu()).unwrap()
    }

    #[test]
    fn shapes_follow_pytorch_and_gradients_agree_with_differences() {
        for (a, b, y) in [
            (vec![3], vec![3], vec![]),
            (vec![3], vec![3, 4], vec![4]),
            (vec![2, 3], vec![3], vec![2]),
            (vec![2, 3], vec![3, 4], vec![2, 4]),
            (vec![5, 2, 3], vec![3, 4], vec![5, 2, 4]),
            (vec![2, 3], vec![5, 3, 1], vec![5, 2, 1]),
            (vec![3], vec![5, 3, 2], vec![5, 2]),
            (vec![5, 2, 3], vec![3], vec![5, 2]),
            (vec![2, 1, 2, 3], vec![4, 3, 2], vec![2, 4, 2, 2]),
            (vec![1, 2, 3], vec![3, 2], vec![1, 2, 2]),
            (vec![0, 2, 3], vec![3, 2], vec![0, 2, 2]),
            (vec![2, 0], vec![0, 2], vec![2, 2]),
        ] {
            let inputs = [numbers(&a, 1), numbers(&b, 2)];
            assert_eq!(inputs[0].matmul(&inputs[1]).unwrap().dims(), y, "{a:?} by {b:?}");
            let worst = gradcheck(|x| x[0].matmul(&x[1]), &inputs).unwrap();
            assert!(worst.agrees(), "{a:?} by {b:?}: {worst:?}");
        }
    }

    #[test]
    fn weight_gradients_stay_in_f32() {
        let x = Tensor::<F32>::full([64, 1], 300.0, &Device::cpu()).unwrap();
        let w = Tensor::<F32>::full([1, 2], 1.0, &Device::cpu()).unwrap().tracked();
        let y = x.to::<BF16>().unwrap().matmul(&w.to::<BF16>().unwrap()).unwrap();
        let loss = (y.to::<F32>().unwrap() * 100.0_f32).unwrap().sum_all().unwrap();
        let grads = loss.backward().unwrap();
        // 64 * 300 * 100 has 11 significant bits, BF16 holds 8.
        assert_eq!(grads.get(&w).unwrap().unwrap().to_vec().unwrap(), [1_920_000.0; 2]);
    }

    #[test]
    fn a_weight_used_twice_collects_both_gradients() {
        let w = numbers(&[3, 3], 7).to::<F32>().unwrap().tracked();
        let x = numbers(&[2, 3], 8).to::<F32>().unwrap();
        let twice = x.matmul(&w).unwrap().matmul(&w).unwrap().sum_all().unwrap();
        let got = twice.backward().unwrap().get(&w).unwrap().unwrap().to_vec().unwrap();
        let [w64, x64] = [w.detach().to::<F64>().unwrap(), x.to::<F64>().unwrap()];
        let w64 = w64.tracked();
        let exact = x64.matmul(&w64).unwrap().matmul(&w64).unwrap().sum_all().unwrap().backward().unwrap();
        for (got, exact) in got.iter().zip(exact.get(&w64).unwrap().unwrap().to_vec().unwrap()) {
            assert!((f64::from(*got) - exact).abs() <= 1e-5, "{got} instead of {exact}");
        }
    }

    #[test]
    fn mismatches_name_both_shapes() {
        let zeros = |shape: &[usize]| Tensor::<BF16>::zeros(shape, &Device::cpu()).unwrap();
        for (a, b, text) in [
            (vec![2, 3], vec![4, 5], "matmul: inner dimensions differ, left is [2, 3], right is [4, 5]"),
            (vec![2, 2, 3], vec![3, 3, 4], "matmul: shapes [2, 2, 3] and [3, 3, 4] do not broadcast"),
            (vec![], vec![3], "matmul: each operand must have at least 1 dimension, found shape []"),
        ] {
            assert_eq!(zeros(&a).matmul(&zeros(&b)).err().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_narrower_leaf_collects_what_wider_products_give_it() {
        let leaf = |shape: &[usize]| numbers(shape, 3).to::<F32>().unwrap().detach().tracked();
        for (x, w) in [(vec![2, 3, 4], vec![4, 5]), (vec![6, 4], vec![4, 5]), (vec![2, 3, 4], vec![2, 4, 5])] {
            let (x, w) = (numbers(&x, 1), leaf(&w));
            let wide = w.to::<F64>().unwrap();
            // Once for each product: the second adds to what the first has left.
            let y = (x.matmul(&wide).unwrap() + (&x * 0.5).unwrap().matmul(&wide).unwrap()).unwrap();
            let grads = y.sum_all().unwrap().backward().unwrap();
            let double = w.to::<F64>().unwrap().detach().tracked();
            let expected = (x.matmul(&double).unwrap() * 1.5).unwrap().sum_all().unwrap().backward().unwrap();
            let expected = expected.get(&double).unwrap().unwrap().to_vec().unwrap();
            for (found, expected) in grads.get(&w).unwrap().unwrap().to_vec().unwrap().into_iter().zip(expected) {
                assert!((f64::from(found) - expected).abs() <= 1e-6, "{found} is not {expected}");
            }
        }
    }
}
