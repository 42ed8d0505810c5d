//! Functions of a 16-bit number as tables of all its values.
//!
//! An activation such as gelu takes some fifty instructions for sixteen F32, but has only 65536 different 16-bit
//! arguments. Of these a tensor of activations uses a few thousand, whose table entries stay in the first-level cache:
//! looking a value up takes half a cycle, a third of computing it. Tables are made by the functions themselves, so results
//! are the same bit for bit.

use super::bits::{bits, bits_mut};
use super::stream::{Body, stream};
use super::{computed, computed_grad};
use crate::output::prefetch_at;
use crate::parallel::{Cost, for_each_part};
use crate::simd::Simd;
use crate::{DType, Dims, Layout, Slice, Storage, Unary, View};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use std::sync::OnceLock;

/// Values of 16 bits.
const VALUES: usize = 1 << 16;
/// Elements from which looking up is preferred: as many as a table has.
const LEAST: usize = VALUES;
/// Functions that have tables.
const FUNCTIONS: [Unary; 7] =
    [Unary::Gelu, Unary::GeluTanh, Unary::Silu, Unary::Tanh, Unary::Sigmoid, Unary::LogSigmoid, Unary::Erf];

/// One table for each function and each of F16 and BF16, made when it is first needed.
type Tables<T> = [[OnceLock<Vec<T>>; 2]; FUNCTIONS.len()];

static RESULTS: Tables<u16> = [const { [const { OnceLock::new() }; 2] }; FUNCTIONS.len()];
static DERIVATIVES: Tables<f32> = [const { [const { OnceLock::new() }; 2] }; FUNCTIONS.len()];

/// Bits of the elements of `x`, where looking them up pays.
fn enough<'a>(x: &View<'a>) -> Option<&'a [u16]> {
    bits(x).filter(|x| x.len() >= LEAST)
}

fn index(op: Unary, dtype: DType) -> Option<(usize, usize)> {
    Some((FUNCTIONS.iter().position(|f| *f == op)?, usize::from(dtype == DType::BF16)))
}

/// All values of a 16-bit precision, in the order of their bits.
fn all(dtype: DType) -> Storage {
    let bits = 0..=u16::MAX;
    if dtype == DType::BF16 {
        Storage::BF16(bits.map(bf16::from_bits).collect())
    } else {
        Storage::F16(bits.map(f16::from_bits).collect())
    }
}

/// Calls `f` with a view of all values of a 16-bit precision.
fn tabulate(dtype: DType, f: impl FnOnce(&View) -> Storage) -> Storage {
    let values = all(dtype);
    let layout = Layout::contiguous(Dims::new(&[VALUES]).expect("one dimension"));
    f(&View { data: values.as_slice(), layout: &layout, logical: dtype })
}

/// `op(x)` by looking it up, where that is faster.
pub(super) fn unary(op: Unary, x: &View, out: DType) -> Option<Storage> {
    let (function, precision) = index(op, x.logical)?;
    let x = (out == x.logical).then(|| enough(x)).flatten()?;
    let table = RESULTS[function][precision].get_or_init(|| match tabulate(out, |x| computed(op, x, out)) {
        Storage::F16(v) => v.reinterpret_cast().to_vec(),
        Storage::BF16(v) => v.reinterpret_cast().to_vec(),
        _ => unreachable!("a 16-bit precision was asked for"),
    });
    let mut y = Storage::unwritten(out, x.len());
    for_each_part(y.as_mut_slice(), Cost::Light, &|start, part| {
        let y = bits_mut(part);
        let table: &[u16; VALUES] = table.as_slice().try_into().expect("a value for every argument");
        let x = &x[start..][..y.len()];
        for (at, y) in (0..).step_by(AHEAD).zip(y.chunks_mut(AHEAD)) {
            prefetch_at(x.as_ptr().wrapping_add(at + AHEAD), y.len());
            look_up(table, &x[at..][..y.len()], y);
        }
    });
    Some(y)
}

/// `grad * op'(saved)` with the derivative looked up, where that is faster.
pub(super) fn unary_grad(op: Unary, saved: &View, grad: &View, out: DType) -> Option<Storage> {
    let (function, precision) = index(op, saved.logical)?;
    if op.grad_from_output() || grad.logical == DType::F64 || out == DType::F64 {
        return None;
    }
    let (x, dtype) = (enough(saved)?, saved.logical);
    let table = DERIVATIVES[function][precision].get_or_init(|| {
        let (one, shape) = ([1.0_f32], Dims::new(&[VALUES]).expect("one dimension"));
        let layout = Layout { shape, strides: Dims::new(&[0]).expect("one dimension"), offset: 0 };
        let ones = View { data: Slice::F32(&one), layout: &layout, logical: DType::F32 };
        match tabulate(dtype, |x| computed_grad(op, x, &ones, DType::F32)) {
            Storage::F32(v) => v.into_vec(),
            _ => unreachable!("F32 was asked for"),
        }
    });
    let table: &[f32; VALUES] = table.as_slice().try_into().expect("a derivative for every argument");
    Some(stream::<f32, 1>([grad], out, Cost::Light, TimesDerivative { table, x }))
}

/// `grad` times the derivative at the element of `x` at the same place.
#[derive(Clone, Copy)]
struct TimesDerivative<'a> {
    table: &'a [f32; VALUES],
    x: &'a [u16],
}

impl Body<f32, 1> for TimesDerivative<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, at: usize, [grad]: [&[f32]; 1], y: &mut [f32]) {
        let x = &self.x[at..][..y.len()];
        for ((y, x), grad) in y.chunks_mut(BLOCK).zip(x.chunks(BLOCK)).zip(grad.chunks(BLOCK)) {
            prefetch_at(x.as_ptr().wrapping_add(AHEAD), x.len());
            look_up(self.table, x, y);
            y.iter_mut().zip(grad).for_each(|(y, &grad)| *y *= grad);
        }
    }
}

/// Derivatives that are looked up before they are multiplied: with products of single numbers between them gelu's gradient of 4 M
/// BF16 took 1.80 ms, and not 1.57.
const BLOCK: usize = 256;

/// Numbers that are prefetched, as [`crate::lockstep`] does: 62 % of the time that looking up took in a step of ViT was
/// spent waiting for them.
const AHEAD: usize = 1024;

/// What tables hold.
trait Entry: Copy {
    /// The entries at four numbers.
    fn four(table: &[Self; VALUES], x: &[u16; 4]) -> [Self; 4];
}

/// `y[i] = table[x[i]]`, outside of the functions of a level: gathering by instruction takes a third longer.
///
/// On a Zen 5 0.23 ns an element by single loads and stores, whatever the compiler makes of them. With four numbers that are
/// read at once, and as many entries that are loaded into a vector, 16-bit entries take 0.16 ns, F32 0.19.
#[inline(never)]
fn look_up<T: Entry>(table: &[T; VALUES], x: &[u16], y: &mut [T]) {
    let ((x, x_rest), (y, y_rest)) = (x.as_chunks::<4>(), y.as_chunks_mut::<4>());
    y.iter_mut().zip(x).for_each(|(y, x)| *y = T::four(table, x));
    y_rest.iter_mut().zip(x_rest).for_each(|(y, &x)| *y = table[usize::from(x)]);
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Entry, VALUES};
    use std::arch::x86_64::*;
    use std::mem::transmute;

    /// The entries at all of `x`, which joined by shifts would be read one by one.
    #[inline(always)]
    fn entries<T: Copy>(table: &[T; VALUES], x: &[u16; 4]) -> [T; 4] {
        // SAFETY: four numbers of 16 bits, wherever they lie.
        let x = unsafe { x.as_ptr().cast::<u64>().read_unaligned() };
        let entry = |bits| table[usize::from((x >> bits) as u16)];
        [entry(0), entry(16), entry(32), entry(48)]
    }

    impl Entry for u16 {
        #[inline(always)]
        fn four(table: &[Self; VALUES], x: &[u16; 4]) -> [Self; 4] {
            let [a, b, c, d] = entries(table, x);
            // SAFETY: every processor of this architecture has the instructions; 64 bits are four numbers.
            unsafe {
                let y = _mm_insert_epi16::<1>(_mm_cvtsi32_si128(a.into()), b.into());
                let y = _mm_insert_epi16::<3>(_mm_insert_epi16::<2>(y, c.into()), d.into());
                transmute(_mm_cvtsi128_si64(y))
            }
        }
    }

    impl Entry for f32 {
        #[inline(always)]
        fn four(table: &[Self; VALUES], x: &[u16; 4]) -> [Self; 4] {
            let [a, b, c, d] = entries(table, x);
            // SAFETY: as above; 128 bits are four numbers.
            unsafe { transmute(_mm_setr_ps(a, b, c, d)) }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl<T: Copy> Entry for T {
    fn four(table: &[Self; VALUES], x: &[u16; 4]) -> [Self; 4] {
        x.map(|x| table[usize::from(x)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elementwise::bits::bits_of;

    #[test]
    fn looking_up_gives_what_computing_gives() {
        for dtype in [DType::F16, DType::BF16] {
            for op in FUNCTIONS {
                let looked_up = tabulate(dtype, |x| unary(op, x, dtype).expect("as many as the table has"));
                let found = tabulate(dtype, |x| computed(op, x, dtype));
                assert_eq!(bits_of(&looked_up), bits_of(&found), "{op:?} of {dtype}");
                let gradient = |f: &dyn Fn(&View, &View) -> Storage| {
                    // Every argument with the gradient whose bits are the reverse.
                    let mut turned = all(dtype);
                    match &mut turned {
                        Storage::F16(v) => v.reverse(),
                        Storage::BF16(v) => v.reverse(),
                        _ => unreachable!("16 bits"),
                    }
                    tabulate(dtype, |x| f(x, &View { data: turned.as_slice(), ..*x }))
                };
                let computed = gradient(&|x, g| computed_grad(op, x, g, dtype));
                let looked_up = gradient(&|x, g| unary_grad(op, x, g, dtype).unwrap_or_else(|| computed.clone()));
                assert_eq!(bits_of(&looked_up), bits_of(&computed), "gradient of {op:?} of {dtype}");
            }
        }
    }

    #[test]
    fn any_number_of_elements_is_looked_up_from_any_place() {
        let bits: Vec<u16> = (0..=u16::MAX).map(|bits| bits.wrapping_mul(31)).collect();
        let table: &[u16; VALUES] = bits.as_slice().try_into().expect("a value for every argument");
        for (start, len) in (0..4).flat_map(|start| (0..10).map(move |len| (start, len))) {
            let x: Vec<u16> = (0..13).map(|i| 0xffff - 4099 * i).collect();
            let mut y = vec![0; len];
            look_up(table, &x[start..][..len], &mut y);
            assert!(y.iter().zip(&x[start..]).all(|(&y, &x)| y == x.wrapping_mul(31)), "{len} from {start}");
        }
    }

    #[test]
    fn what_is_no_table_of_values_is_computed() {
        let x = all(DType::BF16);
        let layout = Layout::contiguous(Dims::new(&[VALUES / 2, 2]).expect("two dimensions"));
        let view = View { data: x.as_slice(), layout: &layout, logical: DType::BF16 };
        assert!(unary(Unary::Gelu, &view, DType::BF16).is_some());
        assert!(unary(Unary::Gelu, &view, DType::F32).is_none(), "another precision out");
        assert!(unary(Unary::Sqrt, &view, DType::BF16).is_none(), "not tabulated");
        assert!(unary(Unary::Gelu, &View { logical: DType::F32, ..view }, DType::F32).is_none(), "meant as F32");
        let few = Layout {
            shape: Dims::new(&[VALUES - 1]).expect("one dimension"),
            strides: Dims::new(&[1]).expect("one dimension"),
            offset: 1,
        };
        assert!(unary(Unary::Gelu, &View { layout: &few, ..view }, DType::BF16).is_none(), "too few");
    }
}
