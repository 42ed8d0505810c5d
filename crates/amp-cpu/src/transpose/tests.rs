use super::*;
use half::bf16;

fn check<T: Plain + PartialEq + std::fmt::Debug, const G: usize>(of: impl Fn(usize) -> T) {
    for level in Level::ALL {
        for rows in [1, 3, 4, 7, 8, 9, 12, 15, 16, 17, 33] {
            for columns in [1, 3, 4, 8, 9, 16, 31, 32, 33, 70] {
                let (wide, tall) = (columns * G + rows % 3, rows + columns % 2);
                let from: Vec<T> = (0..rows * wide).map(&of).collect();
                let mut to = vec![of(1 << 14); columns * tall * G];
                let last = ((columns - 1) * tall + rows) * G;
                transpose_at::<T, G>(level, &from, wide, [rows, columns], &mut to[..last], tall);
                for (at, &value) in to.iter().enumerate() {
                    let (column, row, i) = (at / G / tall, at / G % tall, at % G);
                    let expected = if row < rows { from[row * wide + column * G + i] } else { of(1 << 14) };
                    assert_eq!(value, expected, "{level:?}, {rows} x {columns}, row {row}, column {column}");
                }
            }
        }
    }
}

fn check_every<T: Plain + PartialEq + std::fmt::Debug>(of: impl Fn(usize) -> T) {
    for level in Level::ALL {
        for step in [1, 2, 3] {
            for rows in [1, 2, 9, 16, 17, 33] {
                for columns in [1, 2, 7, 8, 9, 16, 17, 35] {
                    let (wide, tall) = ((columns - 1) * step + 1 + rows % 3, rows + columns % 2);
                    // Nothing lies behind the last element.
                    let from: Vec<T> = (0..(rows - 1) * wide + (columns - 1) * step + 1).map(&of).collect();
                    let mut to = vec![of(1 << 14); columns * tall];
                    let last = (columns - 1) * tall + rows;
                    transpose_every_at(level, step, &from, wide, [rows, columns], &mut to[..last], tall);
                    for (at, &value) in to.iter().enumerate() {
                        let (column, row) = (at / tall, at % tall);
                        let expected = if row < rows { from[row * wide + column * step] } else { of(1 << 14) };
                        assert_eq!(value, expected, "{level:?}, step {step}, {rows} x {columns}, row {row}");
                    }
                }
            }
        }
    }
}

#[test]
fn every_second_column_finds_its_place() {
    check_every::<f32>(|i| i as f32);
    check_every::<f64>(|i| i as f64);
    check_every::<bf16>(|i| bf16::from_bits(i as u16 % 0x7000));
}

#[test]
fn every_element_finds_its_place_and_nothing_else_is_written() {
    check::<f32, 1>(|i| i as f32);
    check::<f64, 1>(|i| i as f64);
    check::<bf16, 1>(|i| bf16::from_bits(i as u16 % 0x7000));
    check::<bf16, 2>(|i| bf16::from_bits(i as u16 % 0x7000));
    check::<bf16, 32>(|i| bf16::from_bits(i as u16 % 0x7000));
}

#[test]
fn products_of_rows_are_those_of_one_column_after_the_other() {
    let special = [f32::NAN, f32::INFINITY, -0.0, 1e-40];
    for (rows, columns, stride) in [(1, 1, 1), (15, 13, 13), (16, 16, 16), (17, 17, 40), (300, 64, 64), (33, 5, 0)] {
        let numbers = |count: usize, seed: usize| (0..count).map(move |i| ((i * 37 + seed) % 101) as f32 / 7.0 - 7.0);
        let mut from: Vec<f32> = numbers(rows * stride.max(1) + columns, 3).collect();
        let (factors, start): (Vec<f32>, Vec<f32>) = (numbers(columns, 5).collect(), numbers(rows, 7).collect());
        if stride == 64 {
            from.iter_mut().step_by(997).zip(special.iter().cycle()).for_each(|(x, &y)| *x = y);
        }
        let mut sums = start.clone();
        let can = cfg!(target_arch = "x86_64") && Level::current() >= Level::Avx512;
        assert_eq!(super::add_products(&from, stride, &factors, &mut sums), can);
        if !can {
            assert_eq!(sums, start);
            continue;
        }
        for (row, (sum, start)) in sums.into_iter().zip(start).enumerate() {
            let line = from[row * stride..].iter().zip(&factors);
            let expected = line.fold(start, |sum, (&x, &factor)| x.mul_add(factor, sum));
            assert!(sum.to_bits() == expected.to_bits() || sum.is_nan() && expected.is_nan(), "{rows} × {columns}");
        }
    }
}
