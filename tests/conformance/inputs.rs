//! Seeded inputs in every memory layout and every pair of stored and logical precision.

use amp::DType;
use amp::prelude::*;

/// splitmix64: small, seedable, good enough for test data.
pub struct Rng(u64);

impl Rng {
    /// The seed is the text's hash (FNV-1a), so each case has its own numbers and adding one leaves the others alone.
    pub fn of(text: &str) -> Self {
        Self(text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// Which numbers an input holds.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    Uniform(f64, f64),
    /// NaN, infinities, zeros, subnormals, the largest and least numbers of the 16-bit types, ordinary numbers.
    Special,
}

const SPECIAL: [f64; 20] = [
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    0.0,
    -0.0,
    1.0,
    -1.0,
    65504.0,
    -65504.0,
    65520.0,
    6e-8,
    -6e-8,
    1e-40,
    3.0e38,
    -3.0e38,
    0.5,
    -2.25,
    1e-5,
    11.5,
    -11.5,
];

impl Values {
    fn draw(self, rng: &mut Rng) -> f64 {
        match self {
            Self::Uniform(low, high) => rng.uniform(low, high),
            Self::Special => SPECIAL[rng.below(SPECIAL.len())],
        }
    }
}

/// How an input lies in memory; everything outside the view is NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Memory {
    Contiguous,
    /// The last two axes swapped.
    Transposed,
    /// Inside a larger buffer, every axis cut at both ends.
    Sliced,
    /// The first axis repeats one entry with stride 0.
    Broadcast,
}

pub const MEMORIES: [Memory; 4] = [Memory::Contiguous, Memory::Transposed, Memory::Sliced, Memory::Broadcast];

/// The element type in memory; the tensor counts as another precision by a cast view.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stored {
    Own,
    F16,
    BF16,
    F32,
}

/// The storage types that a tensor of precision `P` can have.
pub fn storages<P: Float>() -> &'static [Stored] {
    match P::DTYPE {
        DType::F16 | DType::BF16 => &[Stored::Own, Stored::F32],
        DType::F32 => &[Stored::Own, Stored::F16, Stored::BF16],
        _ => &[Stored::Own],
    }
}

/// A tensor of `shape` in precision `P`, stored and laid out as asked.
pub fn tensor<P: Float>(
    rng: &mut Rng,
    values: Values,
    shape: &[usize],
    memory: Memory,
    stored: Stored,
    device: &Device,
) -> Result<Tensor<P>> {
    let base = in_buffer(rng, values, shape, memory, device)?;
    match stored {
        Stored::Own => view(&base.to::<P>()?, shape, memory),
        Stored::F16 => view(&base.to::<F16>()?, shape, memory)?.to::<P>(),
        Stored::BF16 => view(&base.to::<BF16>()?, shape, memory)?.to::<P>(),
        Stored::F32 => view(&base.to::<F32>()?, shape, memory)?.to::<P>(),
    }
}

/// The shape of the buffer that [`view`] cuts the tensor out of.
fn buffer_shape(shape: &[usize], memory: Memory) -> Vec<usize> {
    let mut stored = shape.to_vec();
    let rank = shape.len();
    match memory {
        Memory::Transposed if rank >= 2 => stored.swap(rank - 1, rank - 2),
        Memory::Sliced => stored.iter_mut().for_each(|d| *d += 2),
        Memory::Broadcast if rank >= 1 => stored[0] = 1,
        _ => {}
    }
    stored
}

fn in_buffer(rng: &mut Rng, values: Values, shape: &[usize], memory: Memory, device: &Device) -> Result<Tensor<F64>> {
    let stored = buffer_shape(shape, memory);
    let inside = |i: &[usize]| memory != Memory::Sliced || i.iter().zip(shape).all(|(&i, &d)| i >= 1 && i <= d);
    Tensor::from_fn(stored, |i| if inside(i) { values.draw(rng) } else { f64::NAN }, device)
}

fn view<P: Float>(buffer: &Tensor<P>, shape: &[usize], memory: Memory) -> Result<Tensor<P>> {
    match memory {
        Memory::Transposed if shape.len() >= 2 => buffer.transpose(-1, -2),
        Memory::Sliced => {
            let cut = |x: Tensor<P>, (axis, &size): (usize, &usize)| x.narrow(axis as isize, 1, size);
            shape.iter().enumerate().try_fold(buffer.clone(), cut)
        }
        Memory::Broadcast => buffer.expand(shape),
        _ => Ok(buffer.clone()),
    }
}
