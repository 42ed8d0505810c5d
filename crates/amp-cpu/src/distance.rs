//! Euclidean distances between rows, and their gradients, without the memory of all differences: of 512 rows of 64 F32 from as
//! many, both took 15 ms of passes over 67 MB, on two threads of a Zen 5.

use crate::line::Span;
use crate::num::{Num, Real, in_real};
use crate::reduce::block::{Accumulators, BLOCK, GROUP, Tree};
use crate::simd::{Kernel, LANES, Lanes, Level, Simd, dispatch};
use crate::split::for_chunks_of;
use crate::{DType, Storage, View, line, scratch};

/// Terms of a gradient that are summed before their sum is added to the others.
const TERMS: usize = 32;
/// Vectors of a row that are summed at a time: one after the other, they would each read a line of every row.
const AT_ONCE: usize = 8;

/// `sqrt(Σ (a - b)²)` of each row of `a` `[B, P, M]` and each of `b` `[B, R, M]`, as `[B, P, R]`; nothing is empty.
///
/// Differences are taken one by one, in F32 (F64), and the root is rounded to `out`.
pub fn distances(a: &View, b: &View, out: DType) -> Storage {
    let (rows, others) = (a.layout.shape[1], b.layout.shape[1]);
    in_real!(a.logical, A => {
        let (mut a_room, mut b_room) = (Vec::new(), Vec::new());
        let (a_span, b_span) = (Span::row_major(a), Span::row_major(b));
        let (from, to) = (Matrices::<A>::new(&a_span, a, &mut a_room), Matrices::<A>::new(&b_span, b, &mut b_room));
        let mut storage = Storage::unwritten(out, a.layout.shape[0] * rows * others);
        for_chunks_of(&mut storage, others, a.layout.count() * others, &|row, mut piece| {
            scratch::with(others, |room: &mut [A]| line::store(&mut piece, room, |out| {
                dispatch(Distances { from: from.row(row), to: to.matrix(row / rows), out });
            }));
        });
        storage
    })
}

/// Gradient with respect to `a` of [`distances`] `y` from the gradient of these; 0 where a distance is.
///
/// That with respect to `b` is the same of operands that have changed places, and distances that are transposed.
pub fn distances_grad(a: &View, b: &View, y: &View, grad: &View, out: DType) -> Storage {
    let (rows, size, others) = (a.layout.shape[1], a.layout.shape[2], b.layout.shape[1]);
    in_real!(a.logical, A => {
        let (mut a_room, mut b_room) = (Vec::new(), Vec::new());
        let (a_span, b_span) = (Span::row_major(a), Span::row_major(b));
        let (from, to) = (Matrices::<A>::new(&a_span, a, &mut a_room), Matrices::<A>::new(&b_span, b, &mut b_room));
        let (lengths, grads) = (Span::row_major(y), Span::row_major(grad));
        let mut storage = Storage::unwritten(out, a.layout.count());
        for_chunks_of(&mut storage, size, a.layout.count() * others, &|row, mut piece| {
            scratch::with(size + 2 * others, |room: &mut [A]| {
                let (room, terms) = room.split_at_mut(size);
                let (inverse, grad) = terms.split_at_mut(others);
                lengths.load(row * others, inverse);
                grads.load(row * others, grad);
                // The root of a square that is not 0 is far from where its inverse would overflow.
                inverse.iter_mut().for_each(|y| *y = if *y == A::ZERO { A::ZERO } else { A::ONE / *y });
                let distances = Row { from: from.row(row), to: to.matrix(row / rows), inverse, grad };
                line::store(&mut piece, room, |out| dispatch(RowGrad { distances, out }));
            });
        });
        storage
    })
}

/// All elements of `[B, P, M]`.
struct Matrices<'a, A> {
    elements: &'a [A],
    rows: usize,
    size: usize,
}

impl<'a, A: Real> Matrices<'a, A> {
    fn new(span: &'a Span<'a>, view: &View, room: &'a mut Vec<A>) -> Self {
        if !span.is_wide::<A>() {
            room.resize(span.len(), A::ZERO);
        }
        let [_, rows, size] = view.layout.shape[..] else { unreachable!("callers give batches of matrices") };
        Self { elements: span.read(0, span.len(), room), rows, size }
    }

    /// Row `number` of all matrices.
    fn row(&self, number: usize) -> &'a [A] {
        &self.elements[number * self.size..][..self.size]
    }

    fn matrix(&self, number: usize) -> &'a [A] {
        &self.elements[number * self.rows * self.size..][..self.rows * self.size]
    }
}

/// Distances of one row from all rows of a matrix.
struct Distances<'a, A> {
    from: &'a [A],
    to: &'a [A],
    out: &'a mut [A],
}

impl<A: Real> Kernel for Distances<'_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        for (out, to) in self.out.iter_mut().zip(self.to.chunks_exact(self.from.len())) {
            *out = squares::<S, A>(self.from, to).sqrt();
        }
    }
}

/// `Σ (a - b)²`
#[inline(always)]
fn squares<S: Simd, A: Real>(a: &[A], b: &[A]) -> A {
    if a.len() <= BLOCK {
        return block_of_squares::<S, A>(a, b);
    }
    let mut tree = Tree::new(A::ZERO);
    for (a, b) in a.chunks(BLOCK).zip(b.chunks(BLOCK)) {
        tree.push(block_of_squares::<S, A>(a, b), Num::add);
    }
    tree.finish(Num::add)
}

#[inline(always)]
fn block_of_squares<S: Simd, A: Real>(a: &[A], b: &[A]) -> A {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut sums = Accumulators::<S, A>::new();
    for (a, b) in a.chunks(GROUP).zip(b.chunks(GROUP)) {
        for (i, (a, b)) in a.iter().zip(b).enumerate() {
            let difference = A::Lanes::<S>::load(a) - Lanes::load(b);
            sums.add_product(i, difference, difference);
        }
    }
    if !a_rest.is_empty() {
        let difference = A::Lanes::<S>::load_part(a_rest, A::ZERO) - Lanes::load_part(b_rest, A::ZERO);
        sums.add_product(1, difference, difference);
    }
    sums.total()
}

/// A row, what its distances are from, and their inverses and gradients.
#[derive(Clone, Copy)]
struct Row<'a, A> {
    from: &'a [A],
    to: &'a [A],
    inverse: &'a [A],
    grad: &'a [A],
}

/// The gradient of one row from those of its distances.
struct RowGrad<'a, A> {
    distances: Row<'a, A>,
    out: &'a mut [A],
}

impl<A: Real> Kernel for RowGrad<'_, A> {
    type Output = ();
    const WIDEST: Level = A::WIDEST;

    #[inline(always)]
    fn run<S: Simd>(self) {
        let (distances, (vectors, rest)) = (self.distances, self.out.as_chunks_mut::<LANES>());
        let start = vectors.len() * LANES;
        // Without vectors of the machine they would all be in memory.
        let wide = if S::LEVEL == Level::Portable { 0 } else { vectors.len() / AT_ONCE * AT_ONCE };
        let (together, others) = vectors.split_at_mut(wide);
        for (i, out) in together.as_chunks_mut::<AT_ONCE>().0.iter_mut().enumerate() {
            distances.columns::<S, AT_ONCE>(i * AT_ONCE, out);
        }
        for (i, out) in others.iter_mut().enumerate() {
            distances.columns::<S, 1>(wide + i, std::array::from_mut(out));
        }
        rest.iter_mut().enumerate().for_each(|(i, out)| *out = distances.column(start + i));
    }
}

impl<A: Real> Row<'_, A> {
    /// `N` vectors of the gradient, from vector `first` on.
    ///
    /// Both gradients of 256 rows of 1024 from as many take a core of Zen 4 6.5 ms, and 24 ms a vector at a time.
    #[inline(always)]
    fn columns<S: Simd, const N: usize>(&self, first: usize, out: &mut [[A; LANES]; N]) {
        let of = |row: &[A]| -> [A::Lanes<S>; N] {
            let vectors = &row.as_chunks::<LANES>().0[first..first + N];
            std::array::from_fn(|i| Lanes::load(&vectors[i]))
        };
        let (a, mut sums) = (of(self.from), [A::Lanes::<S>::splat(A::ZERO); N]);
        let mut rows = self.to.chunks_exact(self.from.len());
        for (inverse, grad) in self.inverse.chunks(TERMS).zip(self.grad.chunks(TERMS)) {
            let mut part = [A::Lanes::<S>::splat(A::ZERO); N];
            for ((&inverse, &grad), b) in inverse.iter().zip(grad).zip(&mut rows) {
                let (inverse, grad) = (A::Lanes::<S>::splat(inverse), A::Lanes::<S>::splat(grad));
                for ((part, a), b) in part.iter_mut().zip(a).zip(of(b)) {
                    *part = ((a - b) * inverse).mul_add(grad, *part);
                }
            }
            sums.iter_mut().zip(part).for_each(|(sum, part)| *sum = *sum + part);
        }
        sums.into_iter().zip(out).for_each(|(sum, out)| sum.store(out));
    }

    /// One element of the gradient.
    fn column(&self, at: usize) -> A {
        let rows = self.inverse.iter().zip(self.grad).zip(self.to.chunks_exact(self.from.len()));
        rows.fold(A::ZERO, |sum, ((&inverse, &grad), b)| sum + (self.from[at] - b[at]) * inverse * grad)
    }
}

#[cfg(test)]
mod tests {
    use super::{distances, distances_grad};
    use crate::testing::{Random, Tensor, epsilon};
    use crate::{DType, with_num_threads};

    #[test]
    fn distances_and_gradients_agree_with_their_definition() {
        let mut random = Random::new(1);
        for dtype in [DType::F32, DType::BF16, DType::F64] {
            for [batch, rows, others, size] in
                [[1, 1, 1, 1], [2, 5, 70, 3], [3, 40, 33, 16], [1, 9, 65, 67], [1, 3, 4, 2100]]
            {
                let x = [random.tensor(&[batch, rows, size], dtype), random.tensor(&[batch, others, size], dtype)];
                let turned = random.tensor(&[batch, size, rows], dtype).transposed(1, 2);
                for a in [&x[0], &turned] {
                    check(a, &x[1], &random.tensor(&[batch, rows, others], DType::F64));
                }
            }
        }
    }

    fn check(a: &Tensor, b: &Tensor, g: &Tensor) {
        let out = if a.logical() == DType::F64 { DType::F64 } else { DType::F32 };
        let ([batch, rows, size], others) = (<[usize; 3]>::try_from(a.shape()).expect("matrices"), b.shape()[1]);
        let found = with_num_threads(2, || distances(&a.view(), &b.view(), out));
        assert_eq!(found, with_num_threads(1, || distances(&a.view(), &b.view(), out)));
        let y = Tensor::contiguous(&[batch, rows, others], found);
        let grads =
            Tensor::contiguous(a.shape(), distances_grad(&a.view(), &b.view(), &y.view(), &g.view(), out)).values();
        let mut expected = vec![0.0; grads.len()];
        for at in y.indices() {
            let [n, i, j] = <[usize; 3]>::try_from(&at[..]).expect("three");
            let differences: Vec<f64> = (0..size).map(|k| a.at(&[n, i, k]) - b.at(&[n, j, k])).collect();
            let exact = differences.iter().map(|d| d * d).sum::<f64>().sqrt();
            let error = (y.at(&at) - exact).abs();
            assert!(error <= 30.0 * epsilon(out) * exact, "{at:?}: {} is not {exact}", y.at(&at));
            for (k, d) in differences.iter().enumerate() {
                expected[(n * rows + i) * size + k] += d / exact * g.at(&at);
            }
        }
        for (found, expected) in grads.iter().zip(expected) {
            let tolerance = 40.0 * epsilon(out) * others as f64;
            assert!((found - expected).abs() <= tolerance, "{found} is not {expected} ± {tolerance}");
        }
    }

    #[test]
    fn rows_that_are_alike_have_no_gradient() {
        let x = Tensor::filled(&[1, 2, 20], DType::F32, 0.3);
        let y = Tensor::contiguous(&[1, 2, 2], distances(&x.view(), &x.view(), DType::F32));
        assert_eq!(y.values(), [0.0; 4]);
        let found = distances_grad(
            &x.view(),
            &x.view(),
            &y.view(),
            &Tensor::filled(&[1, 2, 2], DType::F32, 1.0).view(),
            DType::F32,
        );
        assert_eq!(Tensor::contiguous(&[1, 2, 20], found).values(), [0.0; 40]);
    }
}
