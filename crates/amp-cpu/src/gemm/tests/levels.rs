//! Products at every level, whatever that of this process: bits that agree, and numbers that few tests have.

use super::*;
use crate::gemm::kernel::MicroKernel;

/// The product at a level, whatever the level of this process.
pub(super) fn product_at<E: Multiply>(level: Level, a: &Tensor, b: &Tensor) -> Tensor {
    product_by(E::kernel(level), a, b)
}

fn product_by<E: Multiply>(kernel: MicroKernel<E>, a: &Tensor, b: &Tensor) -> Tensor {
    let problem = Problem::new(&a.view(), &b.view());
    let (rows, columns) = (problem.a.rows, problem.b.rows);
    let sink = Collect::new(rows, columns);
    product_with(kernel, &problem.a, &problem.b, &sink, Threads::Many);
    let values: Vec<f64> = sink.values().iter().map(|&v| v.converted()).collect();
    Tensor::from_values(&[rows, columns], E::Sum::DTYPE, &values)
}

fn check_levels<E: Multiply>(dtype: DType) {
    let mut random = Random::new(7);
    for (m, k, n) in [(53, 300, 71), (1, 1, 1), (5, 7, 3), (13, 31, 33), (31, 33, 1), (7, 1027, 40)] {
        let (a, b) = (random.tensor(&[m, k], dtype), random.tensor(&[k, n], dtype));
        let turned = [&a, &b].map(|t| random.tensor(&[t.shape()[1], t.shape()[0]], dtype).transposed(0, 1));
        for level in Level::ALL {
            compare(&a, &b, None, &product_at::<E>(level, &a, &b));
            compare(&turned[0], &turned[1], None, &product_at::<E>(level, &turned[0], &turned[1]));
        }
    }
}

#[test]
fn every_level_of_this_machine() {
    check_levels::<f32>(DType::F32);
    check_levels::<f64>(DType::F64);
    check_levels::<bf16>(DType::BF16);
}

/// Which of them multiplies is a matter of the result's columns and of the processor.
#[cfg(target_arch = "x86_64")]
#[test]
fn wide_tiles_of_f32_give_the_bits_of_high_ones() {
    if Level::best() < Level::Avx512 {
        return;
    }
    let mut random = Random::new(22);
    let sizes = [(1, 1, 1), (5, 4, 63), (6, 5, 64), (7, 3, 65), (13, 300, 130), (100, 515, 257), (37, 1030, 640)];
    for (m, k, n) in sizes {
        let (a, b) = (random.tensor(&[m, k], DType::F32), random.tensor(&[k, n], DType::F32));
        let turned = random.tensor(&[k, m], DType::F32).transposed(0, 1);
        for a in [&a, &turned] {
            let [high, wide] = [avx512::kernel(), avx512::wide_kernel()].map(|kernel| product_by(kernel, a, &b));
            compare(a, &b, None, &wide);
            assert_eq!(high.storage, wide.storage, "{m} x {k} x {n}");
        }
    }
}

/// The left side is multiplied where it lies, if it lies in lines.
#[test]
fn lines_give_the_bits_that_panels_give() {
    let mut random = Random::new(10);
    for (m, k, n) in
        [(12, 2, 1), (25, 64, 40), (37, 1030, 33), (26, 513, 70), (24, 512, 256), (48, 96, 257), (37, 515, 300)]
            .into_iter()
            .chain((4..30).map(|m| (m, 34, 64)))
            .chain((1..10).map(|k| (13, k, 33)))
    {
        check_lines::<bf16>(&mut random, [m, k, n], DType::BF16);
        check_lines::<f32>(&mut random, [m, k, n], DType::F32);
    }
}

fn check_lines<E: Multiply>(random: &mut Random, [m, k, n]: [usize; 3], dtype: DType) {
    let (wide, b) = (random.tensor(&[m, 2 * k], dtype), random.tensor(&[k, n], dtype));
    let lines = wide.narrow(1, k, k);
    let mut columns = vec![0.0; m * k];
    for index in lines.indices() {
        columns[index[1] * m + index[0]] = lines.at(&index);
    }
    let turned = Tensor::from_values(&[k, m], dtype, &columns).transposed(0, 1);
    for level in Level::ALL {
        let got = product_at::<E>(level, &lines, &b);
        compare(&lines, &b, None, &got);
        assert_eq!(got.storage, product_at::<E>(level, &turned, &b).storage, "{level:?}: {m} x {k} x {n} {dtype:?}");
    }
}

/// A left side that many blocks of columns multiply is widened in advance: it is then as if it had been stored so.
#[test]
fn lines_widened_in_advance_give_the_bits_of_lines_that_lie_there() {
    let mut random = Random::new(21);
    let (a, b) = (random.tensor(&[30, 2040], DType::F16), random.tensor(&[2040, 700], DType::F32));
    let wide = Tensor::from_values(a.shape(), DType::F32, &a.values());
    let epilogue = Epilogue::default();
    let [narrow, wide] = [a, wide].map(|a| matmul(&a.meant_as(DType::F32).view(), &b.view(), &epilogue, DType::F32));
    assert!(narrow == wide, "sums differ");
}

/// Lines that were packed in advance are multiplied by tiles that prefetch (AMX), in several parts of the depth and by strips that
/// end within the matrix and with it.
#[test]
fn lines_packed_in_advance_give_the_bits_of_a_cast() {
    let mut random = Random::new(22);
    // Lines of the second depth need no padding: a few columns read them where they lie, that many read them moved.
    for (k, n) in [(2070, 2000), (2080, 2900)] {
        let [a, b] = [[70, k], [k, n]].map(|shape| random.tensor(&shape, DType::F32));
        for dtype in [DType::BF16, DType::F16] {
            let [a, b] = [&a, &b].map(|wide| wide.clone().meant_as(dtype));
            let narrow = |of: &Tensor| Tensor::from_values(of.shape(), dtype, &of.values());
            let product = |a: &Tensor, b: &Tensor| matmul(&a.view(), &b.view(), &Epilogue::default(), dtype);
            let all = product(&a, &b);
            assert!(all == product(&narrow(&a), &narrow(&b)), "{k}, {dtype:?}: not the bits of a cast");
            let few = product(&narrow(&a), &narrow(&b).narrow(1, 0, 64));
            let [few, all] = [([70, 64], few), ([70, n], all)].map(|(shape, all)| Tensor::contiguous(&shape, all));
            assert_eq!(few.values(), all.narrow(1, 0, 64).values(), "{k}, {dtype:?}: columns by themselves differ");
        }
    }
}

/// F32 is rounded on the way into lines and panels as a cast would round it.
#[test]
fn operands_rounded_while_packed_give_the_bits_of_a_cast() {
    let mut random = Random::new(13);
    for (m, k, n) in [(26, 70, 64), (26, 71, 65), (4, 6, 96), (300, 530, 320), (32, 64, 300)] {
        let mut wide = [vec![m, k], vec![k, n], vec![9, m, k], vec![9, k, n]]
            .map(|shape| random.tensor(&shape, DType::F32).meant_as(DType::BF16));
        // The smallest subnormal that is rounded up to a normal number, a NaN whose upper half is infinite, and infinity.
        if let Storage::F32(values) = &mut wide[1].storage {
            let special = [0x007f_c000, 0x7f80_0001, 0x7f80_0000].map(f32::from_bits);
            values[..3].copy_from_slice(&special);
        }
        let narrow = wide.each_ref().map(|wide| {
            let rounded = wide.values();
            Tensor::from_values(wide.shape(), DType::BF16, &rounded)
        });
        let product = |a: &Tensor, b: &Tensor| matmul(&a.view(), &b.view(), &Epilogue::default(), DType::BF16);
        for [a, b] in [[0, 1], [2, 3]] {
            let [got, expected] = [&wide, &narrow].map(|of| bits(&product(&of[a], &of[b])));
            assert_eq!(got, expected, "{m} x {k} x {n}");
            let turned = [&wide, &narrow].map(|of| {
                let rank = of[a].shape().len();
                let (left, right) = (of[b].transposed(rank - 2, rank - 1), of[a].transposed(rank - 2, rank - 1));
                bits(&product(&left, &right))
            });
            assert_eq!(turned[0], turned[1], "turned: {m} x {k} x {n}");
        }
    }
}

/// Results by their bits, every NaN as the same one.
fn bits(storage: &Storage) -> Vec<u16> {
    match storage.as_slice() {
        Slice::BF16(values) => {
            values.iter().map(|value| if value.is_nan() { bf16::NAN } else { *value }.to_bits()).collect()
        }
        _ => unreachable!("results are BF16"),
    }
}

#[test]
fn panels_of_bf16_round_what_they_load() {
    let mut random = Random::new(8);
    for stored in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        let a = random.tensor(&[21, 72], stored).meant_as(DType::BF16).every(1, 2);
        let b = random.tensor(&[23, 36], stored).meant_as(DType::BF16).transposed(0, 1);
        let row = random.tensor(&[1, 23], stored).meant_as(DType::BF16).broadcast(&[36, 23]);
        for level in Level::ALL {
            compare(&a, &b, None, &product_at::<bf16>(level, &a, &b));
            compare(&a, &row, None, &product_at::<bf16>(level, &a, &row));
        }
    }
}

/// `n * 2^-126 * (2 + max|a| + max|b|)` on top of the usual bound (see `dot` and `amx`).
#[test]
fn subnormals_are_lost_within_the_bound() {
    let mut random = Random::new(9);
    let sizes = [(1e-38, 1.0), (1.0, 1e-38), (1e-20, 1e-19), (1e-39, 1e30), (3e-39, 3e38), (1e-40, 1e-3)];
    for ((left, right), (depth, columns)) in sizes.into_iter().flat_map(|sizes| [(sizes, (37, 35)), (sizes, (38, 20))])
    {
        let scaled = |shape: &[usize], factor: f64, random: &mut Random| {
            let count = shape.iter().product();
            let values: Vec<f64> = (0..count).map(|_| factor * random.number()).collect();
            Tensor::from_values(shape, DType::BF16, &values)
        };
        let (a, b) = (scaled(&[14, depth], left, &mut random), scaled(&[depth, columns], right, &mut random));
        let flushed = depth as f64 * 2.0_f64.powi(-126) * (2.0 + left + right);
        let alone = matmul(&a.view(), &b.view(), &Epilogue::default(), DType::F32);
        let alone = (None, Tensor::contiguous(&[14, columns], alone));
        let levels = Level::ALL.map(|level| (Some(level), product_at::<bf16>(level, &a, &b)));
        for (level, got) in levels.into_iter().chain([alone]) {
            for index in got.indices() {
                let terms = (0..depth).map(|d| a.at(&[index[0], d]) * b.at(&[d, index[1]]));
                let (sum, magnitude) = terms.fold((0.0, 0.0), |(s, m), term| (s + term, m + term.abs()));
                let tolerance = (depth + 2) as f64 * epsilon(DType::F32) * magnitude + flushed;
                let diff = (got.at(&index) - sum).abs();
                assert!(diff <= tolerance, "{level:?}: {} instead of {sum}, off by {diff}", got.at(&index));
            }
        }
    }
}

#[test]
fn infinities_and_nans_arrive_at_every_level() {
    for level in Level::ALL {
        for (special, other) in [(f64::INFINITY, 1.0), (f64::NEG_INFINITY, 1.0), (f64::NAN, 1.0), (f64::INFINITY, 0.0)]
        {
            for place in [0, 6, 8, 40] {
                let mut values = vec![1.0; 13 * 41];
                values[7 * 41 + place] = special;
                let a = Tensor::from_values(&[13, 41], DType::BF16, &values);
                let b = Tensor::filled(&[41, 33], DType::BF16, other);
                let y = product_at::<bf16>(level, &a, &b);
                for index in y.indices() {
                    let expected = if index[0] == 7 { special * other } else { 41.0 * other };
                    let got = y.at(&index);
                    assert!(got == expected || got.is_nan() && expected.is_nan(), "{level:?}: {got} not {expected}");
                }
            }
        }
    }
}
