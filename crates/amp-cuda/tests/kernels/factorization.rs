//! Factors of matrices and systems of equations, against the CPU's in F64.

use crate::case::{Input, check};
use amp_core::backend::{DType, Triangle};

/// Batches and sizes: none, one element, an odd size, more rows than a block has warps.
const SIZES: [[usize; 2]; 5] = [[2, 0], [3, 1], [2, 5], [1, 37], [0, 4]];
/// Roundings that a result gathers: of a sum for each row, and of quotients; nothing grows by more than a few times.
const TERMS: f64 = 64.0;

/// Matrices whose diagonal outweighs the rest by `weight`, symmetric ones if asked for.
fn matrices([count, n]: [usize; 2], dtype: DType, weight: f64, symmetric: bool, seed: u64) -> Input {
    let mut input = Input::noise(&[count, n, n], dtype, 1.0, seed);
    let values = input.values.clone();
    for (at, value) in input.values.iter_mut().enumerate() {
        let (m, i, j) = (at / (n * n), at / n % n, at % n);
        if symmetric {
            *value = values[m * n * n + i.max(j) * n + i.min(j)];
        }
        if i == j {
            *value += weight * n as f64;
        }
    }
    input
}

#[test]
fn factors_of_matrices() {
    for (size, dtype) in SIZES.into_iter().flat_map(|size| [DType::F32, DType::F64].map(|dtype| (size, dtype))) {
        let definite = [matrices(size, dtype, 1.0, true, 1)];
        check(&format!("cholesky {size:?}"), &definite, dtype, TERMS, &|b, x, _| Ok(vec![b.cholesky(x[0])?]));
        // Rows that have to be exchanged: without a diagonal that outweighs them.
        let any = [matrices(size, dtype, 0.0, false, 2)];
        check(&format!("lu {size:?}"), &any, dtype, 16.0 * TERMS, &|b, x, _| Ok(b.lu(x[0])?.into()));
    }
    let turned = Input::strided(&[2, 4, 4], &[16, 1, 4], 3, DType::F32, 3);
    check("lu of what lies turned", &[turned], DType::F32, TERMS, &|b, x, _| Ok(b.lu(x[0])?.into()));
}

#[test]
fn pivots_that_are_missing_are_told() {
    let singular = Input::new(vec![1.0, 2.0, 2.0, 4.0], &[1, 2, 2], DType::F32);
    let zeros = Input::new(vec![0.0; 9], &[1, 3, 3], DType::F32);
    for x in [singular, zeros] {
        let x = [x];
        check("cholesky", &x, DType::F32, 1.0, &|b, x, _| Ok(vec![b.cholesky(x[0])?]));
        check("lu", &x, DType::F32, 1.0, &|b, x, _| Ok(b.lu(x[0])?.into()));
    }
}

#[test]
fn systems_of_triangles() {
    for (size, dtype) in SIZES.into_iter().flat_map(|size| [DType::F32, DType::F64].map(|dtype| (size, dtype))) {
        for (columns, upper, unit) in [(1, false, false), (3, true, false), (67, false, true), (0, true, true)] {
            // Beside a diagonal of 1 that is not read, elements are small.
            let mut a = matrices(size, dtype, 1.0, false, 4);
            if unit {
                a.values.iter_mut().for_each(|v| *v /= 4.0 * size[1] as f64);
            }
            let inputs = [a, Input::noise(&[size[0], size[1], columns], dtype, 1.0, 5)];
            let call = Triangle { upper, unit };
            check(&format!("{size:?} {call:?}"), &inputs, dtype, TERMS, &|b, x, _| {
                Ok(vec![b.solve_triangular(x[0], x[1], call)?])
            });
        }
    }
}
