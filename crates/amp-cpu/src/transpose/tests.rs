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
