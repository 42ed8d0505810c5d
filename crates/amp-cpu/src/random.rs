//! Seeded random fills: Philox 4x32-10 with a counter, so any part of a draw can be made on its own.
//!
//! Element `i` of a draw depends on `seed` and `offset + i` alone; not on threads, chunks or the instruction set's width.

use crate::convert::Compute;
use crate::parallel::{CHUNK, for_each_chunk, for_each_part};
use crate::{DType, Storage};
use std::f64::consts::TAU;

/// `len` values of the uniform distribution on `[low, high)`, computed in F32 (F64 for F64) and rounded to `dtype`.
pub fn random_uniform(seed: u64, offset: u64, low: f64, high: f64, len: usize, dtype: DType) -> Storage {
    draw(len, dtype, move |i| {
        let u = match dtype {
            DType::F64 => unit_53(half_block(seed, offset.wrapping_add(i))),
            _ => f64::from(word(seed, offset.wrapping_add(i)) >> 8) / f64::from(1u32 << 24),
        };
        low + u * (high - low)
    })
}

/// `len` values of the normal distribution by Box-Muller, computed in F32 (F64 for F64) and rounded to `dtype`.
pub fn random_normal(seed: u64, offset: u64, mean: f64, std: f64, len: usize, dtype: DType) -> Storage {
    draw(len, dtype, move |i| {
        let index = offset.wrapping_add(i);
        let (radius, angle) = match dtype {
            DType::F64 => {
                let [a, b, c, d] = philox(seed, index / 2);
                (unit_53((a, b)), unit_53((c, d)))
            }
            _ => {
                let pair = index & !1;
                let unit = |w: u32| (f64::from(w) + 0.5) / 4294967296.0;
                (unit(word(seed, pair)), unit(word(seed, pair + 1)))
            }
        };
        let radius = (-2.0 * (1.0 - radius).ln()).sqrt();
        let (sin, cos) = (TAU * angle).sin_cos();
        mean + std * radius * if index & 1 == 0 { cos } else { sin }
    })
}

/// `len` truth values, each true with probability `keep`.
pub fn random_mask(seed: u64, offset: u64, keep: f64, len: usize) -> Storage {
    let threshold = (keep.clamp(0.0, 1.0) * 4294967296.0) as u64;
    draw(len, DType::Bool, move |i| f64::from(u64::from(word(seed, offset.wrapping_add(i))) < threshold))
}

fn draw(len: usize, dtype: DType, f: impl Fn(u64) -> f64 + Sync) -> Storage {
    let mut out = Storage::zeros(dtype, len);
    for_each_part(out.as_mut_slice(), &|start, part| {
        let mut buffer = [0.0; CHUNK];
        for_each_chunk(start, part, |at, chunk| {
            let buffer = &mut buffer[..chunk.len()];
            for (i, v) in buffer.iter_mut().enumerate() {
                *v = f((at + i) as u64);
            }
            f64::narrow(buffer, chunk);
        });
    });
    out
}

fn word(seed: u64, index: u64) -> u32 {
    philox(seed, index / 4)[(index % 4) as usize]
}

fn half_block(seed: u64, index: u64) -> (u32, u32) {
    let [a, b, c, d] = philox(seed, index / 2);
    if index & 1 == 0 { (a, b) } else { (c, d) }
}

fn unit_53((high, low): (u32, u32)) -> f64 {
    ((u64::from(high) << 32 | u64::from(low)) >> 11) as f64 / (1u64 << 53) as f64
}

/// One block of Philox 4x32-10 (Salmon et al., 2011): key `seed`, counter `block`.
fn philox(seed: u64, block: u64) -> [u32; 4] {
    let mut key = [seed as u32, (seed >> 32) as u32];
    let mut c = [block as u32, (block >> 32) as u32, 0, 0];
    for _ in 0..10 {
        let p0 = u64::from(c[0]) * 0xD251_1F53;
        let p1 = u64::from(c[2]) * 0xCD9E_8D57;
        c = [(p1 >> 32) as u32 ^ c[1] ^ key[0], p1 as u32, (p0 >> 32) as u32 ^ c[3] ^ key[1], p0 as u32];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    c
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_gives_the_published_vectors() {
        assert_eq!(philox(0, 0), [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
    }

    #[test]
    fn an_element_depends_on_seed_and_position_alone() {
        for dtype in [DType::F16, DType::F32, DType::F64] {
            let whole = random_normal(7, 0, 0.0, 1.0, 5000, dtype);
            let part = random_normal(7, 1234, 0.0, 1.0, 77, dtype);
            for i in 0..77 {
                assert_eq!(
                    format!("{:?}", whole.as_slice().range(1234 + i, 1)),
                    format!("{:?}", part.as_slice().range(i, 1))
                );
            }
        }
    }
}
