use crate::case::{self, check_same, noise, on_gpu, to_f64};
use crate::standin;
use amp_core::backend::{Backend, DType, Layout, Operand, Storage};
use amp_core::cuda::Input;
use amp_core::{BF16, Device, F16, F32, F64, RandomState, Result, Tensor};
use amp_core::{Dims, Error};

const ALL: [DType; 7] = [DType::F16, DType::BF16, DType::F32, DType::F64, DType::I64, DType::U8, DType::Bool];

#[test]
fn every_pair_of_types_converts_as_on_the_cpu() {
    let mut values = vec![
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        65504.0,
        65519.99,
        65520.0,
        1e300,
        -1e300,
        5.96e-8,
        2.98e-8,
        1e-45,
        255.5,
        256.0,
        -1.0,
        0.0,
        -0.0,
        2049.0,
        2051.0,
        9.3e18,
        257.0,
    ];
    values.extend(noise(300, 3).iter().map(|v| v * 300.0));
    let n = values.len();
    for from in ALL {
        for to in ALL {
            let x = case::Input::new(values.clone(), &[n], from);
            check_same(&format!("{from} to {to}"), &[x], to, 0.0, &|b, x, out| Ok(vec![b.copy(x[0], out)?]));
        }
    }
}

#[test]
fn all_16_bit_patterns_widen_and_round_exactly() {
    let bits: Vec<u16> = (0..=u16::MAX).collect();
    let (_, _alone) = standin::open();
    let gpu = standin::gpu();
    let layout = Layout::contiguous(Dims::new(&[bits.len()]).expect("rank 1"));
    let halves: Vec<half::f16> = bits.iter().map(|&b| half::f16::from_bits(b)).collect();
    let buffer = gpu.upload(Storage::from(halves.clone())).expect("an upload");
    let wide = gpu.copy(Operand { buffer: &buffer, layout: &layout, logical: DType::F16 }, DType::F32).expect("a copy");
    let Storage::F32(values) = gpu.download(&wide).expect("a download") else { panic!("F32 was asked for") };
    for (half, value) in halves.iter().zip(&values) {
        assert!(half.to_f32().to_bits() == value.to_bits() || (half.is_nan() && value.is_nan()), "{half:?}");
    }
    let back = gpu.copy(Operand { buffer: &wide, layout: &layout, logical: DType::F32 }, DType::F16).expect("a copy");
    let Storage::F16(again) = gpu.download(&back).expect("a download") else { panic!("F16 was asked for") };
    for (half, value) in halves.iter().zip(&again) {
        assert!(half.to_bits() == value.to_bits() || (half.is_nan() && value.is_nan()), "{half:?}");
    }
}

/// F32 would make ties of these, which round the other way.
#[test]
fn casts_of_f64_round_to_16_bits_once() -> Result<()> {
    let (_, _alone) = standin::open();
    let device = Device::cuda(0)?;
    let little = f64::powi(2.0, -40);
    let x = Tensor::<F64>::from_vec(vec![1.0 + f64::powi(2.0, -11) + little; 12], [4, 3], &device)?;
    for x in [x.clone(), x.narrow(0, 1, 1)?, x.transpose(0, 1)?] {
        let narrow = x.to::<F16>()?;
        assert!(narrow.to_vec()?.iter().all(|v| v.to_f64() == 1.0 + f64::powi(2.0, -10)));
        assert!(narrow.to::<F64>()?.to_vec()?.iter().all(|v| *v == 1.0 + f64::powi(2.0, -10)));
        let sums = narrow.to::<F32>()?.sum([0], false)?;
        assert!(sums.to_vec()?.iter().all(|v| *v == x.dims()[0] as f32 * (1.0 + f32::powi(2.0, -10))));
    }
    let input = Input::new(&Tensor::<BF16>::zeros([3], &device)?)?;
    let x = Tensor::<F64>::from_vec(vec![1.0 + f64::powi(2.0, -8) + little; 3], [3], &device)?;
    input.set(&x.to::<BF16>()?)?;
    assert!(input.tensor().to_vec()?.iter().all(|v| v.to_f64() == 1.0 + f64::powi(2.0, -7)));
    Ok(())
}

#[test]
fn copies_into_a_part_leave_the_rest() {
    let x = case::Input::strided(&[3, 4], &[1, 3], 0, DType::F32, 1);
    let base = case::Input::noise(&[40], DType::BF16, 1.0, 2);
    check_same("copy_into", &[x, base], DType::BF16, 0.0, &|b, x, out| {
        let mut into = b.copy(x[1], out)?;
        let dims = |d: &[usize]| Dims::new(d).expect("a rank");
        b.copy_into(x[0], &mut into, &Layout { shape: dims(&[3, 4]), strides: dims(&[10, 2]), offset: 3 })?;
        Ok(vec![into])
    });
}

#[test]
fn copies_of_turned_tensors_are_row_major() {
    use DType::{BF16, Bool, F16, F32, F64};
    for (from, to) in [(F32, BF16), (BF16, F32), (F16, F16), (F64, F32), (Bool, F32), (BF16, F64)] {
        for strides in [[63, 9, 1], [9, 45, 1], [1, 5, 35], [1, 50, 5], [45, 1, 5], [0, 3, 0]] {
            let x = case::Input::strided(&[5, 7, 9], &strides, 3, from, 1);
            check_same("turned", &[x], to, 0.0, &|b, x, out| Ok(vec![b.copy(x[0], out)?]));
        }
    }
    for (i, shape) in [[33, 8], [8, 65], [32, 31], [129, 70]].into_iter().enumerate() {
        let (dtype, [rows, columns]) = (ALL[i], shape);
        let x = [
            case::Input::strided(&shape, &[1, rows + 3], 1, dtype, 1),
            case::Input::strided(&[2, rows, 3, columns], &[4, 1, 4 * rows, 12 * rows], 0, dtype, 2),
            case::Input::strided(&[rows, 2, 3, columns], &[1, 7 * rows, 0, 14 * rows], 5, dtype, 3),
        ];
        for (x, to) in x.iter().flat_map(|x| [(x, dtype), (x, ALL[(i + 2) % 4]), (x, DType::F64)]) {
            check_same("transposed", &[x.clone()], to, 0.0, &|b, x, out| Ok(vec![b.copy(x[0], out)?]));
        }
    }
    let (standin, _alone) = standin::open();
    let tiled = ["transpose_f32", "transpose_f64"].map(|kernel| standin.calls(kernel));
    assert!(!standin.counts() || !tiled.contains(&0), "{tiled:?}");
}

/// What F32 and F64 would round to a tie of BF16, which goes to even; as it lies and turned.
#[test]
fn integers_become_bf16_in_one_rounding() {
    let integers: [i64; 4] = [16_842_753, -16_842_753, (1 << 62) + (1 << 54) + 1, -(1 << 62) - (1 << 54) - 1];
    let far = 2f64.powi(62) + 2f64.powi(55);
    let expected = [16_908_288.0, -16_908_288.0, far, -far];
    let (_standin, _alone) = standin::open();
    let gpu = standin::gpu();
    let x = gpu.upload(Storage::I64(integers.to_vec().into())).expect("an upload");
    let dims = |d: &[usize]| Dims::new(d).expect("a rank");
    for (strides, order) in [([2, 1], [0, 1, 2, 3]), ([1, 2], [0, 2, 1, 3])] {
        let layout = Layout { shape: dims(&[2, 2]), strides: dims(&strides), offset: 0 };
        let x = Operand { buffer: &x, layout: &layout, logical: DType::I64 };
        let mut into = gpu.fill(0.0, 4, DType::BF16).expect("a fill");
        gpu.copy_into(x, &mut into, &Layout::contiguous(dims(&[2, 2]))).expect("a copy");
        for y in [gpu.copy(x, DType::BF16).expect("a copy"), into] {
            assert_eq!(to_f64(gpu.download(&y).expect("a download")), order.map(|i| expected[i]));
        }
    }
}

#[test]
fn copies_into_rows_leave_the_rest() {
    use DType::{BF16, F16, F32, F64, I64};
    for (from, to) in [(F32, BF16), (BF16, BF16), (F16, F32), (F32, F64), (I64, I64)] {
        for (columns, strides, offset) in
            [(8, [12, 1], 4), (8, [12, 1], 2), (8, [1, 9], 0), (6, [8, 1], 0), (8, [8, 1], 8), (8, [8, 1], 4)]
        {
            let x = case::Input::noise(&[5, columns], from, 9.0, 1);
            let base = case::Input::noise(&[80], to, 9.0, 2);
            check_same("copy_into", &[x, base], to, 0.0, &|b, x, out| {
                let mut into = b.copy(x[1], out)?;
                let dims = |d: &[usize]| Dims::new(d).expect("a rank");
                b.copy_into(x[0], &mut into, &Layout { shape: dims(&[5, columns]), strides: dims(&strides), offset })?;
                Ok(vec![into])
            });
        }
    }
}

#[test]
fn random_streams_are_the_cpus() {
    let at = RandomState { seed: 0x1234_5678_9abc, offset: 1023 };
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        check_same("uniform", &[], dtype, 1.0, &|b, _, out| Ok(vec![b.uniform(at, -1.0, 3.0, 777, out)?]));
        // The CPU takes the logarithm and the angle (up to 2π) in F32: 1.5 ulp each, times a radius below 7.
        check_same("normal", &[], dtype, 16.0, &|b, _, out| Ok(vec![b.normal(at, 0.5, 2.0, 777, out)?]));
        check_same("fill", &[], dtype, 0.0, &|b, _, out| Ok(vec![b.fill(-1e9, 33, out)?, b.fill(0.0, 5, out)?]));
    }
    check_same("mask", &[], DType::Bool, 0.0, &|b, _, _| Ok(vec![b.mask(at, 0.9, 1000)?, b.mask(at, 1.0, 9)?]));
}

#[test]
fn uniform_values_stay_below_the_end_in_every_precision() {
    let at = RandomState { seed: 5, offset: 0 };
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        for (low, high) in [(0.0, 1.0), (-1.0, 0.0), (1000.0, 1001.0), (-3.0, -2.5), (2.0, 2.0)] {
            let call = |b: &dyn Backend, _: &[Operand<'_>], out| Ok(vec![b.uniform(at, low, high, 20_000, out)?]);
            let values = on_gpu("uniform", &[], dtype, &call).pop().map(to_f64).expect("one result");
            let outside = values.iter().find(|v| !(**v >= low && (**v < high || low == high)));
            assert_eq!(outside, None, "{dtype} on {low}..{high}");
        }
    }
}

#[test]
fn running_out_of_memory_says_what_was_asked_for() {
    let (standin, _alone) = standin::open();
    let gpu = standin::gpu();
    let before = standin.bytes();
    let error = gpu.fill(1.0, 1 << 40, DType::F32).expect_err("8 GiB are not enough for 4 TiB");
    let Error::Backend { message, .. } = &error else { panic!("{error}") };
    let (total, asked) = (8u64 << 30, 4u64 << 40);
    let free = total - before;
    assert_eq!(*message, format!("out of memory: {asked} bytes asked for, {free} of {total} are free"));
    assert_eq!(standin.bytes(), before);
}

#[test]
fn short_lines_are_sorted_in_memory_of_about_their_own_size() {
    let (standin, _alone) = standin::open();
    let gpu = standin::gpu();
    standin.idle(true);
    // 512 positions of each would take all 8 GiB.
    let lines = 1 << 21;
    let layout = Layout::contiguous(Dims::new(&[lines, 2]).expect("rank 2"));
    let x = gpu.fill(0.0, 2 * lines, DType::F32).expect("a fill");
    let sorted = gpu.sort(Operand { buffer: &x, layout: &layout, logical: DType::F32 }, 1, false);
    standin.idle(false);
    sorted.expect("memory for it");
}

#[test]
fn results_are_freed_and_work_does_not_wait() {
    let (standin, _alone) = standin::open();
    let gpu = standin::gpu();
    let layout = Layout::contiguous(Dims::new(&[1000]).expect("rank 1"));
    let x = gpu.fill(2.0, 1000, DType::F32).expect("a fill");
    let counted = ["cuStreamSynchronize", "cuCtxSynchronize", "cuMemcpyDtoHAsync_v2"];
    let (bytes, calls) = (standin.bytes(), counted.map(|c| standin.calls(c)));
    for _ in 0..10_000 {
        let x = Operand { buffer: &x, layout: &layout, logical: DType::F32 };
        gpu.copy(x, DType::F16).expect("a copy");
    }
    assert_eq!((standin.bytes(), counted.map(|c| standin.calls(c))), (bytes, calls));
}
