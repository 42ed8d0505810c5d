//! Factors of square matrices, and systems of equations by triangles; in F32 (F64 for F64).
//!
//! A matrix is one thread's work, row by row: the rows of what is left are steps of a loop over neighbouring elements, which the
//! compiler makes lanes of. Nothing is summed in another order for another number of threads or another instruction set.

mod cholesky;
mod lu;
mod triangle;

pub use cholesky::cholesky;
pub use lu::lu;
pub use triangle::{Triangle, solve_triangular};

use crate::num::Real;

/// `to - share * from`, element by element.
#[inline(always)]
fn reduce_by<A: Real>(to: &mut [A], share: A, from: &[A]) {
    for (to, &from) in to.iter_mut().zip(from) {
        *to = *to - share * from;
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Random, Tensor, epsilon};
    use crate::{DType, Storage, Triangle, View, cholesky, lu, solve_triangular, with_num_threads};

    const SIZES: [usize; 6] = [0, 1, 2, 3, 17, 64];
    const PRECISIONS: [DType; 2] = [DType::F32, DType::F64];

    /// Row-major matrices of F64.
    type Matrix = Vec<f64>;

    fn product(a: &[f64], b: &[f64], n: usize, columns: usize) -> Matrix {
        let of = |i: usize, j: usize| (0..n).map(|k| a[i * n + k] * b[k * columns + j]).sum();
        (0..n * columns).map(|at| of(at / columns.max(1), at % columns.max(1))).collect()
    }

    fn part(x: &[f64], n: usize, keep: impl Fn(usize, usize) -> bool) -> Matrix {
        x.iter().enumerate().map(|(at, &v)| if keep(at / n, at % n) { v } else { 0.0 }).collect()
    }

    fn assert_near(found: &[f64], exact: &[f64], tolerance: f64, what: &str) {
        assert_eq!(found.len(), exact.len(), "{what}");
        for (i, (f, e)) in found.iter().zip(exact).enumerate() {
            assert!((f - e).abs() <= tolerance, "{what}[{i}]: {f} is not {e}");
        }
    }

    /// The same to the last bit with one thread and with two.
    fn for_any_threads<R: std::fmt::Debug + Send>(run: impl Fn() -> R + Sync + Send) -> R {
        let [one, two] = [1, 2].map(|threads| with_num_threads(threads, &run));
        assert_eq!(format!("{one:?}"), format!("{two:?}"), "one thread and two");
        two
    }

    fn values(storage: Storage) -> Vec<f64> {
        let len = storage.len();
        Tensor::contiguous(&[len], storage).values()
    }

    fn batch(random: &mut Random, n: usize, dtype: DType) -> Tensor {
        random.tensor(&[3, n, n], dtype)
    }

    #[test]
    fn products_of_lu_are_the_rows() {
        let mut random = Random::new(1);
        for (n, dtype) in SIZES.into_iter().flat_map(|n| PRECISIONS.map(|dtype| (n, dtype))) {
            let x = batch(&mut random, n, dtype);
            let [factors, rows, sign] = for_any_threads(|| lu(&x.view()));
            let (all, factors, rows, sign) = (x.values(), values(factors), values(rows), values(sign));
            assert_eq!(sign.len(), 3);
            for m in 0..3 {
                let (x, factors, rows) =
                    (&all[m * n * n..][..n * n], &factors[m * n * n..][..n * n], &rows[m * n..][..n]);
                let mut lower = part(factors, n, |i, j| j < i);
                (0..n).for_each(|i| lower[i * n + i] = 1.0);
                assert!(lower.iter().all(|v| v.abs() <= 1.0), "pivots are the largest");
                let exchanged: Matrix = rows.iter().flat_map(|&row| x[row as usize * n..][..n].to_vec()).collect();
                // Each of n subtractions rounds what is at most as large as U's largest element.
                let largest = factors.iter().fold(1.0_f64, |most, v| most.max(v.abs()));
                let tolerance = 2.0 * n as f64 * epsilon(dtype) * largest;
                let found = product(&lower, &part(factors, n, |i, j| i <= j), n, n);
                assert_near(&found, &exchanged, tolerance, &format!("{n} {dtype}"));
                let swaps = (0..n).flat_map(|i| (0..i).map(move |j| (i, j))).filter(|&(i, j)| rows[i] < rows[j]);
                assert_eq!(sign[m], if swaps.count() % 2 == 0 { 1.0 } else { -1.0 });
            }
        }
    }

    #[test]
    fn squares_of_cholesky_are_the_matrices() {
        let mut random = Random::new(2);
        for (n, dtype) in SIZES.into_iter().flat_map(|n| PRECISIONS.map(|dtype| (n, dtype))) {
            let x = batch(&mut random, n, DType::F64).values();
            let transposed =
                |x: &[f64]| -> Matrix { (0..n * n).map(|at| x[at % n.max(1) * n + at / n.max(1)]).collect() };
            let squares: Vec<f64> = (0..3)
                .flat_map(|m| {
                    let x = &x[m * n * n..][..n * n];
                    let mut square = product(x, &transposed(x), n, n);
                    (0..n).for_each(|i| square[i * n + i] += 1.0);
                    square
                })
                .collect();
            let squares = Tensor::from_values(&[3, n, n], dtype, &squares);
            let found = values(for_any_threads(|| cholesky(&squares.view())));
            for (found, exact) in found.chunks(n.max(1) * n.max(1)).zip(squares.values().chunks(n.max(1) * n.max(1))) {
                assert_eq!(found, part(found, n, |i, j| j <= i));
                let tolerance =
                    2.0 * n as f64 * epsilon(dtype) * exact.iter().fold(1.0_f64, |most, v| most.max(v.abs()));
                assert_near(&product(found, &transposed(found), n, n), exact, tolerance, &format!("{n} {dtype}"));
            }
        }
    }

    #[test]
    fn pivots_that_are_missing_are_told() {
        let x = Tensor::from_values(&[2, 2], DType::F32, &[1.0, 2.0, 2.0, 4.0]);
        assert!(values(cholesky(&x.view()))[3].is_nan());
        assert_eq!(values(lu(&x.view())[0].clone()), [2.0, 4.0, 0.5, 0.0]);
        let none = Tensor::from_values(&[1, 1], DType::F64, &[-1.0]);
        assert!(values(cholesky(&none.view()))[0].is_nan());
        // What is above the diagonal does not count.
        let half = Tensor::from_values(&[2, 2], DType::F64, &[4.0, f64::NAN, 2.0, 2.0]);
        assert_eq!(values(cholesky(&half.view())), [2.0, 0.0, 1.0, 1.0]);
    }

    #[test]
    fn triangles_are_solved_as_they_lie() {
        let mut random = Random::new(3);
        for (n, dtype) in SIZES.into_iter().flat_map(|n| PRECISIONS.map(|dtype| (n, dtype))) {
            for (upper, unit, columns) in [(false, false, 1), (false, true, 5), (true, false, 33), (true, true, 2)] {
                // Small elements beside the diagonal, so that nothing grows.
                let mut a: Vec<f64> = (0..3 * n * n).map(|_| random.number() / n as f64).collect();
                for (m, i) in (0..3).flat_map(|m| (0..n).map(move |i| (m, i))) {
                    a[m * n * n + i * n + i] = 1.0 + random.number() / 4.0;
                }
                let (a, b) = (Tensor::from_values(&[3, n, n], dtype, &a), random.tensor(&[3, n, columns], dtype));
                let solve = |a: &View, upper| values(solve_triangular(a, &b.view(), Triangle { upper, unit }));
                let x = for_any_threads(|| solve(&a.view(), upper));
                let (a_values, b_values) = (a.values(), b.values());
                for m in 0..3 {
                    let (x, b) = (&x[m * n * columns..][..n * columns], &b_values[m * n * columns..][..n * columns]);
                    let mut triangle =
                        part(&a_values[m * n * n..][..n * n], n, |i, j| if upper { i <= j } else { j <= i });
                    (0..if unit { n } else { 0 }).for_each(|i| triangle[i * n + i] = 1.0);
                    // n terms and a quotient; the solution is at most four times as large as what is given.
                    let tolerance = 8.0 * (n + 1) as f64 * epsilon(dtype);
                    assert_near(
                        &product(&triangle, x, n, columns),
                        b,
                        tolerance,
                        &format!("{n} {dtype} {upper} {unit}"),
                    );
                }
                let turned = a.transposed(1, 2);
                let copied = Tensor::from_values(&[3, n, n], dtype, &turned.values());
                assert_eq!(solve(&copied.view(), !upper), solve(&turned.view(), !upper));
            }
        }
    }
}
