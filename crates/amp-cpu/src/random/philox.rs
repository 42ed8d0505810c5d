//! Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).

use crate::simd::{Kernel, Simd};

/// The ten rounds: four random words from a key and a counter.
#[inline(always)]
fn philox(mut key: [u32; 2], mut c: [u32; 4]) -> [u32; 4] {
    for _ in 0..10 {
        let p0 = u64::from(c[0]) * 0xD251_1F53;
        let p1 = u64::from(c[2]) * 0xCD9E_8D57;
        c = [(p1 >> 32) as u32 ^ c[1] ^ key[0], p1 as u32, (p0 >> 32) as u32 ^ c[3] ^ key[1], p0 as u32];
        key = [key[0].wrapping_add(0x9E37_79B9), key[1].wrapping_add(0xBB67_AE85)];
    }
    c
}

/// Writes the four words of block `first` of a stream to the first four places, those of `first + 1` to the next, and so on.
pub(super) struct Blocks<'a> {
    pub seed: u64,
    pub stream: u32,
    pub first: u64,
    pub words: &'a mut [[u32; 4]],
}

impl Kernel for Blocks<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self) {
        let key = [self.seed as u32, (self.seed >> 32) as u32];
        for (i, words) in self.words.iter_mut().enumerate() {
            let block = self.first.wrapping_add(i as u64);
            *words = philox(key, [block as u32, (block >> 32) as u32, self.stream, 0]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::philox;

    #[test]
    fn the_published_vectors_come_out() {
        let ones = u32::MAX;
        for (key, counter, expected) in [
            ([0; 2], [0; 4], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([ones; 2], [ones; 4], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0xa409_3822, 0x299f_31d0],
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ] {
            assert_eq!(philox(key, counter), expected);
        }
    }
}
