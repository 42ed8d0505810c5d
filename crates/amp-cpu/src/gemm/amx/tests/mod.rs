//! The engine's machine code, emulated where the processor lacks AMX, against sums in F64 and against the portable tile.

mod halves;

use super::emulator::{self, Instruction, Unit, decode};
use super::*;
use crate::gemm::product::{Threads, product_with};
use crate::gemm::tests::{Collect, compare};
use crate::gemm::{Problem, dot};
use crate::simd::Level;
use crate::testing::{Random, Tensor, run_again};
use crate::{DType, with_num_threads};
use half::bf16;

fn product(kernel: MicroKernel<bf16>, a: &Tensor, b: &Tensor) -> Tensor {
    emulator::install();
    let problem = Problem::new(&a.view(), &b.view());
    let (rows, columns) = (problem.a.rows, problem.b.rows);
    let sink = Collect::new(rows, columns);
    product_with(kernel, &problem.a, &problem.b, &sink, Threads::Many);
    assert!(!emulator::is_configured(), "this thread's tiles are released");
    Tensor::contiguous(&[rows, columns], sink.values().into())
}

fn bits(tensor: &Tensor) -> Vec<u32> {
    let crate::Storage::F32(values) = &tensor.storage else { unreachable!("sums are F32") };
    values.iter().map(|value| value.to_bits()).collect()
}

/// Small integers: sums are exact in every order.
fn integers(random: &mut Random, shape: &[usize]) -> Tensor {
    let values: Vec<f64> = (0..shape.iter().product()).map(|_| (random.next() % 31) as f64 - 15.0).collect();
    Tensor::from_values(shape, DType::BF16, &values)
}

#[test]
fn a_small_product_comes_out_right() {
    emulator::install();
    assert!(detect::computes_right());
}

#[test]
fn every_size_agrees_with_the_reference_and_with_the_portable_tile() {
    let mut random = Random::new(21);
    let sizes = [1, 15, 16, 17, 31, 32, 33, 63, 100];
    let depths = [0, 1, 2, 31, 32, 33, 257];
    for (i, m) in sizes.into_iter().enumerate() {
        for (j, n) in sizes.into_iter().enumerate() {
            let k = depths[(i + 2 * j) % depths.len()];
            let (a, b) = (integers(&mut random, &[m, k]), integers(&mut random, &[k, n]));
            assert_eq!(bits(&product(kernel(), &a, &b)), bits(&product(dot::portable(), &a, &b)), "{m} {k} {n}");
            let (a, b) = (random.tensor(&[m, k], DType::BF16), random.tensor(&[k, n], DType::BF16));
            compare(&a, &b, None, &product(kernel(), &a, &b));
        }
    }
    for (m, k, n) in [(700, 5, 3), (3, 5, 700), (5, 1300, 7), (33, 257, 40), (1, 513, 1)] {
        let (a, b) = (random.tensor(&[m, k], DType::BF16), random.tensor(&[k, n], DType::BF16));
        compare(&a, &b, None, &product(kernel(), &a, &b));
    }
}

#[test]
fn every_layout_and_stored_precision() {
    let mut random = Random::new(22);
    for stored in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        let a = random.tensor(&[43, 70], stored).meant_as(DType::BF16);
        let b = random.tensor(&[70, 37], stored).meant_as(DType::BF16);
        let turned_a = random.tensor(&[70, 43], stored).meant_as(DType::BF16).transposed(0, 1);
        let turned_b = random.tensor(&[37, 70], stored).meant_as(DType::BF16).transposed(0, 1);
        let spread = random.tensor(&[43, 142], stored).meant_as(DType::BF16).every(1, 2).every(1, 1);
        let row = random.tensor(&[1, 37], stored).meant_as(DType::BF16).broadcast(&[70, 37]);
        for (a, b) in [(&a, &b), (&turned_a, &b), (&a, &turned_b), (&turned_a, &turned_b), (&spread, &b), (&a, &row)] {
            compare(a, b, None, &product(kernel(), a, b));
        }
    }
}

/// Products of which the right side stays in the cache, in several blocks of columns, and of which the sums do.
#[test]
fn blocks_of_every_kind_give_the_same_bits_for_any_number_of_threads() {
    let mut random = Random::new(25);
    for (m, k, n) in [(40, 33, 900), (70, 600, 40), (33, 1100, 100), (200, 520, 64)] {
        let turned = |t: &Tensor| Tensor::contiguous(t.shape(), t.storage.clone()).transposed(0, 1);
        let (a, b) = (random.tensor(&[m, k], DType::BF16), random.tensor(&[k, n], DType::BF16));
        let across = turned(&random.tensor(&[k, m], DType::BF16));
        for a in [&a, &across] {
            let run = |threads| with_num_threads(threads, || product(kernel(), a, &b));
            let one = run(1);
            compare(a, &b, None, &one);
            assert_eq!(bits(&one), bits(&run(2)), "{m} {k} {n}");
            assert_eq!(bits(&one), bits(&run(3)), "{m} {k} {n}");
        }
        let (a, b) = (turned(&integers(&mut random, &[k, m])), integers(&mut random, &[k, n]));
        assert_eq!(bits(&product(kernel(), &a, &b)), bits(&product(dot::portable(), &a, &b)), "{m} {k} {n}");
    }
}

#[test]
fn infinities_and_nans_arrive_where_they_belong() {
    let inf = f64::INFINITY;
    for (special, other) in [(inf, 1.0), (-inf, 1.0), (f64::NAN, 1.0), (inf, 0.0)] {
        for place in [0, 1, 31, 32, 40] {
            let mut values = vec![1.0; 35 * 41];
            values[17 * 41 + place] = special;
            let a = Tensor::from_values(&[35, 41], DType::BF16, &values);
            let b = Tensor::filled(&[41, 33], DType::BF16, other);
            let y = product(kernel(), &a, &b);
            for index in y.indices() {
                let expected = if index[0] == 17 { special * other } else { 41.0 * other };
                let got = y.at(&index);
                assert!(got == expected || got.is_nan() && expected.is_nan(), "{got} instead of {expected}");
            }
        }
    }
}

/// `n * 2^-126 * (2 + max|a| + max|b|)` on top of the usual bound.
#[test]
fn subnormals_are_lost_within_the_bound() {
    let mut random = Random::new(23);
    let depth = 37;
    for (left, right) in [(1e-38, 1.0), (1.0, 1e-38), (1e-20, 1e-19), (1e-39, 1e30), (3e-39, 3e38), (1e-40, 1e-3)] {
        let mut scaled = |shape: &[usize], factor: f64| {
            let values: Vec<f64> = (0..shape.iter().product()).map(|_| factor * random.number()).collect();
            Tensor::from_values(shape, DType::BF16, &values)
        };
        let (a, b) = (scaled(&[14, depth], left), scaled(&[depth, 35], right));
        let flushed = depth as f64 * 2.0_f64.powi(-126) * (2.0 + left + right);
        let got = product(kernel(), &a, &b);
        for index in got.indices() {
            let terms = (0..depth).map(|d| a.at(&[index[0], d]) * b.at(&[d, index[1]]));
            let (sum, magnitude) = terms.fold((0.0, 0.0), |(s, m), term| (s + term, m + term.abs()));
            let tolerance = (depth + 2) as f64 * 2.0_f64.powi(-24) * magnitude + flushed;
            let diff = (got.at(&index) - sum).abs();
            assert!(diff <= tolerance, "{} instead of {sum}, off by {diff}", got.at(&index));
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits_and_releases_its_tiles() {
    let mut random = Random::new(24);
    let (a, b) = (random.tensor(&[300, 300], DType::BF16), random.tensor(&[300, 130], DType::BF16));
    let run = |threads| with_num_threads(threads, || bits(&product(kernel(), &a, &b)));
    let one = run(1);
    assert_eq!(one, run(2));
    assert_eq!(one, run(3));
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| run(2))).collect();
        threads.into_iter().for_each(|thread| assert_eq!(one, thread.join().expect("a product")));
    });
}

#[test]
fn a_panic_inside_a_block_releases_the_tiles() {
    emulator::install();
    let panicked = std::panic::catch_unwind(|| {
        let _prepared = kernel().prepared();
        assert!(emulator::is_configured() || detect::is_available());
        panic!("on purpose");
    });
    assert!(panicked.is_err() && !emulator::is_configured());
}

#[test]
fn tiles_stay_until_the_outer_of_nested_pairs_ends() {
    emulator::install();
    let outer = kernel().prepared();
    drop(kernel().prepared());
    assert!(emulator::is_configured() || detect::is_available());
    drop(outer);
    assert!(!emulator::is_configured());
}

/// The last element of each operand and of the result is the last byte before memory that nobody may touch.
#[test]
fn a_tile_touches_its_operands_alone() {
    emulator::install();
    const STRIDE: usize = 40;
    for depth in [32, 64, 256] {
        let [a, b] = [1, 2].map(|seed| {
            let mut random = Random::new(seed);
            Guarded::new((0..SIDE * depth).map(|_| bf16::from_f64(random.number())).collect())
        });
        let c = Guarded::new(vec![1.0_f32; (SIDE - 1) * STRIDE + SIDE]);
        let kernel = kernel();
        let _prepared = kernel.prepared();
        // SAFETY: whole panels and a whole tile; this thread is prepared.
        unsafe { (kernel.tile)(depth, a.start, b.start, c.start, STRIDE, true) };
        for row in 0..SIDE - 1 {
            // SAFETY: inside the buffer, which nobody else uses.
            let between = unsafe { std::slice::from_raw_parts(c.start.add(row * STRIDE + SIDE), STRIDE - SIDE) };
            assert_eq!(between, [1.0; STRIDE - SIDE]);
        }
    }
}

/// Elements that end where an inaccessible page begins, in pages of which the first is inaccessible as well.
struct Guarded<T> {
    start: *mut T,
    mapping: (*mut libc::c_void, usize),
}

impl<T> Guarded<T> {
    fn new(values: Vec<T>) -> Self {
        const PAGE: usize = 4096;
        let bytes = size_of_val(values.as_slice());
        let inner = bytes.next_multiple_of(PAGE);
        // SAFETY: a fresh private mapping of which only whole inner pages are opened; the elements fit them and are aligned,
        // for they end at a page's end.
        unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let mapping = libc::mmap(std::ptr::null_mut(), inner + 2 * PAGE, libc::PROT_NONE, flags, -1, 0);
            assert_ne!(mapping, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(mapping.byte_add(PAGE), inner, libc::PROT_READ | libc::PROT_WRITE), 0);
            let start = mapping.byte_add(PAGE + inner - bytes).cast::<T>();
            start.copy_from_nonoverlapping(values.as_ptr(), values.len());
            Self { start, mapping: (mapping, inner + 2 * PAGE) }
        }
    }
}

impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        // SAFETY: this mapping's own address and length; nothing borrows from it any more.
        unsafe { libc::munmap(self.mapping.0, self.mapping.1) };
    }
}

/// Encodings from an assembler (GNU as), for every way of addressing.
#[test]
fn instructions_are_decoded_as_an_assembler_encodes_them() {
    let registers: [usize; 16] = std::array::from_fn(|i| 0x1000 * (i + 1));
    let load = |tile, start, stride| Instruction::Load { tile, start, stride };
    for (code, expected) in [
        // ldtilecfg [rax], [r13 + 8], [rip + 16]
        (&[0xc4, 0xe2, 0x78, 0x49, 0x00][..], Instruction::Configure { address: 0x1000 }),
        (&[0xc4, 0xc2, 0x78, 0x49, 0x45, 0x08], Instruction::Configure { address: 0xe008 }),
        (&[0xc4, 0xe2, 0x78, 0x49, 0x05, 0x10, 0, 0, 0], Instruction::Configure { address: 0x7f_0019 }),
        (&[0xc4, 0xe2, 0x78, 0x49, 0xc0], Instruction::Release),
        // tilezero tmm5
        (&[0xc4, 0xe2, 0x7b, 0x49, 0xe8], Instruction::Zero { tile: 5 }),
        // tileloadd tmm4, [rax + rcx]; tileloaddt1 tmm5, [rax + rcx + 0x400]
        (&[0xc4, 0xe2, 0x7b, 0x4b, 0x24, 0x08], load(4, 0x1000, 0x2000)),
        (&[0xc4, 0xe2, 0x79, 0x4b, 0xac, 0x08, 0, 4, 0, 0], load(5, 0x1400, 0x2000)),
        // tileloadd tmm7, [r9 + r14 * 2 - 64]; tileloadd tmm1, [rbp]; tileloadd tmm2, [r12 + r12 * 8]
        (&[0xc4, 0x82, 0x7b, 0x4b, 0x7c, 0x71, 0xc0], load(7, 0x9fc0, 0x1_e000)),
        (&[0xc4, 0xe2, 0x7b, 0x4b, 0x4c, 0x25, 0x00], load(1, 0x6000, 0)),
        (&[0xc4, 0x82, 0x7b, 0x4b, 0x14, 0xe4], load(2, 0xd000, 0x6_8000)),
        // tilestored [rsi + rdi + 64], tmm3
        (&[0xc4, 0xe2, 0x7a, 0x4b, 0x5c, 0x3e, 0x40], Instruction::Store { tile: 3, start: 0x7040, stride: 0x8000 }),
        // tdpbf16ps tmm3, tmm5, tmm7
        (&[0xc4, 0xe2, 0x42, 0x5c, 0xdd], Instruction::Dot { sums: 3, left: 5, right: 7 }),
    ] {
        let mut padded = code.to_vec();
        padded.resize(10, 0x90);
        assert_eq!(decode(&padded, 0x7f_0000, &registers), Some((expected, code.len())), "{code:x?}");
    }
    // vaddps, ud2, tdpbssd, tilestored to a register
    for code in [
        [0xc4, 0xe1, 0x74, 0x58, 0xc2],
        [0x0f, 0x0b, 0, 0, 0],
        [0xc4, 0xe2, 0x43, 0x5e, 0xdd],
        [0xc4, 0xe2, 0x7a, 0x4b, 0xc0],
    ] {
        assert_eq!(decode(&code, 0, &registers), None, "{code:x?}");
    }
}

#[test]
fn the_emulated_unit_refuses_what_a_processor_refuses() {
    let form = |rows: [u8; 8], row_bytes: [u8; 8]| {
        let mut config = [0_u8; 64];
        config[0] = 1;
        config[48..56].copy_from_slice(&rows);
        (0..8).for_each(|i| config[16 + 2 * i] = row_bytes[i]);
        config
    };
    let mut unit = Unit::new();
    assert!(unit.zero(0).is_err(), "not configured");
    for config in [form([17; 8], [64; 8]), form([16; 8], [65; 8]), form([16; 8], [0; 8]), form([0; 8], [4; 8])] {
        assert!(unit.configure(&config).is_err() && !unit.is_configured());
    }
    for (at, value) in [(0, 2), (2, 1), (40, 1), (60, 1)] {
        let mut config = form([16; 8], [64; 8]);
        config[at] = value;
        assert!(unit.configure(&config).is_err(), "byte {at}");
    }
    // Sums 3 × 5 from 3 × 4 pairs and 4 × 5 pairs; then forms that do not fit.
    let rows = [3, 3, 4, 0, 3, 3, 5, 16];
    unit.configure(&form(rows, [20, 16, 20, 0, 16, 18, 20, 64])).expect("a valid configuration");
    unit.dot(0, 1, 2).expect("forms that fit");
    for (sums, left, right) in
        [(0, 0, 2), (0, 1, 1), (0, 1, 0), (0, 1, 3), (4, 1, 2), (0, 5, 2), (0, 1, 6), (7, 1, 2), (8, 1, 2)]
    {
        assert!(unit.dot(sums, left, right).is_err(), "{sums} {left} {right}");
    }
    unit.release();
    assert!(unit.dot(0, 1, 2).is_err(), "released");
}

/// Pairs of one row and one column: `sum + (Σ even + Σ odd)`, subnormal numbers being zero.
#[test]
fn the_emulated_unit_rounds_and_flushes_as_documented() {
    let dot = |sum: f32, terms: &[[f32; 2]]| {
        let pairs = terms.len() / 2;
        let mut config = [0_u8; 64];
        config[0] = 1;
        for (i, (rows, row_bytes)) in [(1, 4), (1, 4 * pairs), (pairs, 4)].into_iter().enumerate() {
            (config[48 + i], config[16 + 2 * i]) = (rows as u8, row_bytes as u8);
        }
        let [left, right] = [0, 1].map(|side| terms.iter().map(|term| bf16::from_f32(term[side])).collect::<Vec<_>>());
        let mut sums = [sum];
        let mut unit = Unit::new();
        unit.configure(&config).expect("a valid configuration");
        // SAFETY: rows of as many bytes as configured.
        unsafe {
            unit.load(0, (&raw mut sums).expose_provenance(), 0).expect("configured");
            unit.load(1, left.as_ptr().expose_provenance(), 0).expect("configured");
            unit.load(2, right.as_ptr().expose_provenance(), 4).expect("configured");
            unit.dot(0, 1, 2).expect("forms that fit");
            unit.store(0, (&raw mut sums).expose_provenance(), 0).expect("configured");
        }
        sums[0].to_bits()
    };
    let tiny = f32::MIN_POSITIVE;
    let half = 0.5_f32.powi(24);
    for (sum, terms, expected) in [
        (2.0, &[[3.0, 4.0], [5.0, 6.0]][..], 44.0),
        // A half is rounded to even, and even terms meet odd ones before the sum.
        (1.0, &[[half, 1.0], [0.0, 0.0]], 1.0),
        (1.0, &[[half, 1.0], [half, 1.0]], 1.0 + 2.0 * half),
        (1.0, &[[half, 1.0], [0.0, 0.0], [0.0, 0.0], [half, 1.0]], 1.0 + 2.0 * half),
        (0.0, &[[1.0, 1.0], [-1.0, 1.0], [half, 1.0], [0.0, 0.0]], 0.0),
        // Subnormal operands, products, partial sums and results.
        (0.0, &[[tiny / 2.0, 2.0], [0.0, 0.0]], 0.0),
        (0.0, &[[tiny, 0.5], [tiny, 0.5]], 0.0),
        (0.0, &[[tiny, 1.5], [tiny, -1.0]], 0.0),
        (tiny / 2.0, &[[tiny, 1.0], [0.0, 0.0]], tiny),
        (1.5 * tiny, &[[tiny, -1.0], [0.0, 0.0]], 0.0),
        (0.0, &[[tiny, -0.5], [0.0, -1.0]], 0.0),
    ] {
        assert_eq!(dot(sum, terms), f32::to_bits(expected), "{sum:e} {terms:?}");
    }
}

/// Whether a process that asks for AMX gets it here: only tiles are emulated, not what else such processors have.
fn may_have_amx() -> bool {
    std::env::var_os("AMP_CPU").is_none() && Level::best() >= Level::Avx512Bf16
}

/// Runs the tests of products again in a process whose kernels use AMX.
#[test]
fn products_of_a_process_with_amx_pass_their_tests() {
    if !may_have_amx() {
        return;
    }
    run_again("amx", &["gemm::tests", "a_process_that_asks_for_amx_gets_it"], &[]);
}

#[test]
fn a_process_that_asks_for_amx_gets_it() {
    if std::env::var_os("AMP_CPU").is_some_and(|level| level == "amx") {
        assert_eq!(Level::current(), Level::Amx);
    }
}

/// The tests of what multiplies by tiles, again in a process whose kernels use AMX. Where it is emulated, those that take most of
/// two minutes are left to `AMP_CPU=amx cargo test -p amp-cpu`.
#[test]
fn convolutions_and_attention_of_a_process_with_amx_pass_their_tests() {
    if !may_have_amx() {
        return;
    }
    let long = [
        "attention::tests::every_size_mask_and_precision",
        "conv::direct::tests::few_channels_at_every_level",
        "conv::short::tests",
    ];
    run_again("amx", &["conv::", "attention::"], if detect::is_available() { &[] } else { &long });
}
