//! Every layout and dtype pair of the element-wise kernels against plain loops in F64.

mod functions;
mod losses;

use crate::*;

/// Sizes around vector and chunk borders, and primes.
const SIZES: [usize; 12] = [0, 1, 7, 8, 15, 16, 17, 31, 127, 1023, 1025, 2111];

fn values(len: usize) -> Vec<f64> {
    (0..len).map(|i| ((i * 7919 + 13) % 1009) as f64 / 64.0 - 8.0).collect()
}

fn storage(values: &[f64], dtype: DType) -> Storage {
    let layout = Layout::contiguous(Dims::new(&[values.len()]).expect("rank 1"));
    let data = Storage::from(values.to_vec());
    copy(&View { data: data.as_slice(), layout: &layout, logical: DType::F64 }, dtype)
}

fn to_f64(s: &Storage) -> Vec<f64> {
    let layout = Layout::contiguous(Dims::new(&[s.len()]).expect("rank 1"));
    match copy(&View { data: s.as_slice(), layout: &layout, logical: s.dtype() }, DType::F64) {
        Storage::F64(v) => v.into_vec(),
        other => unreachable!("asked for F64, got {}", other.dtype()),
    }
}

fn layout(shape: &[usize], strides: &[usize], offset: usize) -> Layout {
    Layout { shape: Dims::new(shape).expect("rank"), strides: Dims::new(strides).expect("rank"), offset }
}

/// Row-major values of a strided layout, one index at a time.
fn strided(data: &[f64], at: &Layout) -> Vec<f64> {
    let mut out = Vec::new();
    for flat in 0..at.count() {
        let (mut rest, mut position) = (flat, at.offset);
        for axis in (0..at.shape.len()).rev() {
            position += rest % at.shape[axis] * at.strides[axis];
            rest /= at.shape[axis];
        }
        out.push(data[position]);
    }
    out
}

#[test]
fn sums_have_the_reference_value_for_every_size() {
    for n in SIZES {
        let (x, at) = (values(n), layout(&[n], &[1], 0));
        for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64, DType::I64] {
            let a = storage(&x, dtype);
            let view = View { data: a.as_slice(), layout: &at, logical: dtype };
            let sum = to_f64(&binary(Binary::Add, &view, &view, dtype));
            let exact: Vec<f64> = to_f64(&a).iter().map(|v| 2.0 * v).collect();
            assert_eq!(sum, exact, "{n} elements of {dtype}");
        }
    }
}

#[test]
fn strided_and_broadcast_operands_are_read_in_row_major_order() {
    let data = values(6000);
    let layouts = [
        layout(&[5, 7, 11], &[77, 11, 1], 3),
        layout(&[5, 7, 11], &[1, 55, 5], 0),
        layout(&[5, 7, 11], &[0, 11, 1], 1),
        layout(&[5, 7, 11], &[7, 1, 0], 2),
        layout(&[5, 7, 11], &[0, 0, 0], 9),
        layout(&[5, 7, 11], &[770, 110, 10], 0),
        layout(&[13, 1, 97], &[97, 5, 1], 0),
        layout(&[1300, 2], &[1, 1300], 0),
        layout(&[], &[], 4),
        layout(&[3, 0, 4], &[0, 4, 1], 0),
    ];
    for at in layouts {
        for dtype in [DType::F16, DType::F32, DType::F64, DType::I64] {
            let stored = storage(&data, dtype);
            let view = View { data: stored.as_slice(), layout: &at, logical: dtype };
            assert_eq!(to_f64(&copy(&view, dtype)), strided(&to_f64(&stored), &at), "{at:?} of {dtype}");
        }
    }
}

fn viewed<'a>(stored: &'a Storage, layout: &'a Layout) -> View<'a> {
    View { data: stored.as_slice(), layout, logical: stored.dtype() }
}

/// Rows, columns, channels and a scalar that are repeated, of lengths around that of a chunk, in parts of several threads.
#[test]
fn repeated_operands_meet_the_elements_of_their_places() {
    for n in [1_usize, 3, 100, 512, 1023, 1024, 1025, 2100] {
        let m = 210_000 / n;
        let (rows, shape) = (m.div_ceil(3), [3, m.div_ceil(3), n]);
        let whole = layout(&shape, &[rows * n, n, 1], 0);
        let repeated = [[0, 0, 1], [0, 1, 0], [1, 0, 0], [rows, 1, 0], [0, n, 1], [0, 0, 0]];
        for dtype in [DType::F32, DType::BF16, DType::I64] {
            let stored = storage(&values(shape.iter().product()), dtype);
            for at in repeated.map(|strides| layout(&shape, &strides, 0)) {
                let pairs = strided(&to_f64(&stored), &whole).into_iter().zip(strided(&to_f64(&stored), &at));
                let expected: Vec<f64> = pairs.map(|(a, b)| a - 2.0 * b).collect();
                let found = with_num_threads(2, || {
                    let once = binary(Binary::Sub, &viewed(&stored, &whole), &viewed(&stored, &at), DType::F64);
                    binary(Binary::Sub, &viewed(&once, &whole), &viewed(&stored, &at), DType::F64)
                });
                assert_eq!(to_f64(&found), expected, "{shape:?} {at:?} of {dtype}");
                let twice =
                    with_num_threads(2, || binary(Binary::Sub, &viewed(&stored, &at), &viewed(&stored, &whole), dtype));
                let turned = binary(Binary::Sub, &viewed(&stored, &whole), &viewed(&stored, &at), dtype);
                let negative: Vec<f64> = to_f64(&turned).iter().map(|v| -v).collect();
                assert_eq!(to_f64(&twice), negative, "{shape:?} {at:?} of {dtype}");
            }
        }
    }
}

/// Operands of which dimensions are repeated, turned or left out in every combination: what one of them comes in cuts the others.
#[test]
fn operands_of_different_layouts_meet_place_by_place() {
    let shapes: [&[usize]; 7] =
        [&[3, 5, 128], &[2, 700], &[40, 64], &[7, 300, 1], &[3, 1100], &[2, 3, 2, 150], &[11, 150, 130]];
    for shape in shapes {
        let count: usize = shape.iter().product();
        let plain = layout(shape, &Layout::contiguous(Dims::new(shape).expect("few dimensions")).strides, 0);
        let layouts: Vec<Layout> = (0..1_usize << shape.len())
            .map(|kept| {
                let mut step = 1 + kept % 2;
                let mut strides = vec![0; shape.len()];
                for axis in (0..shape.len()).rev().filter(|axis| kept >> axis & 1 == 1) {
                    (strides[axis], step) = (step, step * shape[axis]);
                }
                layout(shape, &strides, kept % 3)
            })
            .chain([plain])
            .collect();
        for (dtype, logical) in [(DType::F32, DType::F32), (DType::BF16, DType::BF16), (DType::F32, DType::BF16)] {
            let stored = storage(&values(2 * count + 3), dtype);
            let rounded =
                to_f64(&copy(&View { logical, ..viewed(&stored, &layout(&[2 * count + 3], &[1], 0)) }, DType::F64));
            for (a, b) in layouts.iter().flat_map(|a| layouts.iter().map(move |b| (a, b))) {
                let view = |at| View { logical, ..viewed(&stored, at) };
                let pairs = || strided(&rounded, a).into_iter().zip(strided(&rounded, b));
                let (less, difference, which) = with_num_threads(2, || {
                    let less = compare(Compare::Lt, &view(a), &view(b));
                    let which = select(&view(&plain), &view(a), &view(b), DType::F32);
                    (less, binary(Binary::Sub, &view(a), &view(b), DType::F32), which)
                });
                let (less, difference, which) = (to_f64(&less), to_f64(&difference), to_f64(&which));
                for (i, (a_i, b_i)) in pairs().enumerate() {
                    let chosen = if rounded[i] != 0.0 { a_i } else { b_i };
                    let expected = (f64::from(a_i < b_i), f64::from((a_i - b_i) as f32), chosen);
                    assert_eq!((less[i], difference[i], which[i]), expected, "element {i} of {a:?} and {b:?}");
                }
            }
        }
    }
}

#[test]
fn copy_into_writes_the_named_places_and_no_others() {
    let x = values(6);
    let source = storage(&x, DType::F32);
    let from = layout(&[2, 3], &[3, 1], 0);
    for at in [layout(&[2, 3], &[10, 2], 1), layout(&[2, 3], &[1, 4], 2), layout(&[2, 3], &[8, 1], 0)] {
        for dtype in [DType::F16, DType::F32, DType::F64] {
            let mut dst = fill(99.0, 40, dtype);
            copy_into(&View { data: source.as_slice(), layout: &from, logical: DType::F32 }, &mut dst, &at);
            let all = to_f64(&dst);
            assert_eq!(strided(&all, &at), x, "{at:?} of {dtype}");
            assert_eq!(all.iter().filter(|v| **v != 99.0).count(), 6, "{at:?} of {dtype}");
        }
    }
}

/// Enough elements for several threads: in places of every order, next to each other, apart, and between others.
#[test]
fn many_elements_are_copied_to_their_places() {
    let data = storage(&values(90_000), DType::F32);
    let shape = [3, 150, 200];
    for from in [layout(&shape, &[30_000, 200, 1], 0), layout(&shape, &[1, 3, 450], 0), layout(&shape, &[0, 200, 1], 0)]
    {
        for strides in [[60_000, 400, 2], [90_000, 600, 3], [31_000, 200, 1], [30_000, 1, 150], [1, 3, 450]] {
            let at = layout(&shape, &strides, 5);
            let mut dst = fill(99.0, 300_000, DType::F32);
            with_num_threads(2, || copy_into(&viewed(&data, &from), &mut dst, &at));
            let all = to_f64(&dst);
            assert_eq!(strided(&all, &at), strided(&to_f64(&data), &from), "{from:?} to {at:?}");
            assert_eq!(all.iter().filter(|v| **v != 99.0).count(), 90_000, "{from:?} to {at:?}");
        }
    }
}

#[test]
fn a_narrower_logical_precision_rounds_on_load() {
    let x = [1.0 + 2f64.powi(-12), 70000.0, 2f64.powi(-26)];
    let (data, at) = (storage(&x, DType::F32), layout(&[3], &[1], 0));
    let view = |logical| View { data: data.as_slice(), layout: &at, logical };
    assert_eq!(to_f64(&copy(&view(DType::F16), DType::F32)), [1.0, f64::INFINITY, 0.0]);
    assert_eq!(to_f64(&copy(&view(DType::BF16), DType::F32)), [1.0, 70144.0, 2f64.powi(-26)]);
}

/// As they are stored, strided, and where they only count as BF16.
#[test]
fn integers_become_bf16_in_one_rounding() {
    let integers = [16_842_753_i64, -16_842_753, 3, (1 << 62) + (1 << 54) + 1];
    let expected = [16_908_288.0, -16_908_288.0, 3.0, 2f64.powi(62) + 2f64.powi(55)];
    let (data, at) = (Storage::I64(integers.to_vec().into()), layout(&[4], &[1], 0));
    let backwards: Vec<f64> = [0, 2, 1, 3].map(|i| expected[i]).to_vec();
    let turned = layout(&[2, 2], &[1, 2], 0);
    for logical in [DType::I64, DType::BF16] {
        let view = |layout| View { data: data.as_slice(), layout, logical };
        assert_eq!(to_f64(&copy(&view(&at), DType::BF16)), expected, "{logical}");
        assert_eq!(to_f64(&copy(&view(&turned), DType::BF16)), backwards, "{logical}");
        for places in [layout(&[4], &[1], 0), layout(&[4], &[2], 1)] {
            let mut into = storage(&[0.0; 8], DType::BF16);
            copy_into(&view(&at), &mut into, &places);
            let found: Vec<f64> = to_f64(&into).into_iter().skip(places.offset).step_by(places.strides[0]).collect();
            assert_eq!(found[..4], expected, "{logical}");
        }
    }
}
