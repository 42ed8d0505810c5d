use super::{gather, index_add, index_select, indices, outside, scatter, scatter_add};
use crate::testing::{Random, Tensor};
use crate::{DType, Storage, with_num_threads};

#[test]
fn slices_along_every_axis_of_every_layout() {
    let mut random = Random::new(1);
    for dtype in [DType::F16, DType::F32, DType::F64, DType::I64, DType::Bool] {
        let x = random.tensor(&[4, 3, 5], dtype);
        for view in [x.clone(), x.transposed(0, 2), x.every(1, 2)] {
            for axis in 0..3 {
                let index = [0, view.shape()[axis] as i64 - 1, 0];
                let mut shape = view.shape().to_vec();
                shape[axis] = index.len();
                let found = Tensor::contiguous(&shape, index_select(&view.view(), axis, &index));
                assert_eq!(found.logical(), dtype);
                for mut at in found.indices() {
                    let value = found.at(&at);
                    at[axis] = index[at[axis]] as usize;
                    assert_eq!(value, view.at(&at));
                }
            }
        }
    }
}

#[test]
fn gathered_and_scattered_elements() {
    let mut random = Random::new(2);
    let x = random.tensor(&[4, 3, 5], DType::F32);
    for view in [x.clone(), x.transposed(0, 2), x.clone().meant_as(DType::BF16)] {
        for axis in 0..3 {
            let shape = [2, 3, 2];
            let places: Vec<f64> = (0..12).map(|i| (i * 7 % view.shape()[axis]) as f64).collect();
            let index = Tensor::from_values(&shape, DType::I64, &places);
            let found = Tensor::contiguous(&shape, gather(&view.view(), axis, &index.view()));
            assert_eq!(found.logical(), view.logical());
            let src = random.tensor(&shape, DType::F32);
            let base = random.tensor(view.shape(), DType::F32);
            let sums = scatter_add(&base.view(), axis, &index.view(), &src.view(), DType::F64);
            let sums = Tensor::contiguous(view.shape(), sums);
            let last = scatter(&base.view(), axis, &index.view(), &src.view(), DType::F32);
            let last = Tensor::contiguous(view.shape(), last);
            let (mut expected, mut replaced) = (base.values(), base.values());
            for at in index.indices() {
                let mut from = at.clone();
                from[axis] = index.at(&at) as usize;
                assert_eq!(found.at(&at), view.at(&from));
                let place = from.iter().zip(view.shape()).fold(0, |place, (i, size)| place * size + i);
                expected[place] += src.at(&at);
                replaced[place] = src.at(&at);
            }
            assert_eq!(sums.values(), expected);
            assert_eq!(last.values(), replaced);
        }
    }
}

/// An index that names whole slices, since it was expanded, and the same that was copied.
#[test]
fn expanded_indices_name_whole_slices() {
    let mut random = Random::new(4);
    for (logical, out) in [(DType::F32, DType::F32), (DType::BF16, DType::F32), (DType::F32, DType::F16)] {
        let base = random.tensor(&[4, 3, 20], DType::F32).meant_as(logical);
        for axis in 0..3 {
            let mut shape = [4, 3, 20];
            shape[axis] = 7;
            let places: Vec<f64> = (0..7).map(|i| (i * 5 % base.shape()[axis]) as f64).collect();
            let mut line = [1; 3];
            line[axis] = 7;
            let index = Tensor::from_values(&line, DType::I64, &places).broadcast(&shape);
            let copied = Tensor::from_values(&shape, DType::I64, &index.values());
            // Larger than the index: the rest does not count.
            let src = random.tensor(&[8, 7, 21], DType::F32);
            let [picked, expected] = [&index, &copied].map(|index| gather(&base.view(), axis, &index.view()));
            assert_eq!(picked, expected);
            let [sums, expected] =
                [&index, &copied].map(|index| scatter_add(&base.view(), axis, &index.view(), &src.view(), out));
            assert_eq!(sums, expected);
            assert_eq!(outside(&index.view(), 1, Some(0)), outside(&copied.view(), 1, Some(0)));
            assert_eq!(outside(&index.view(), base.shape()[axis], None), None);
        }
    }
}

#[test]
fn added_slices_accumulate_in_f32() {
    let ones = Tensor::filled(&[5000, 3], DType::F16, 1.0);
    let index: Vec<i64> = (0..5000).map(|i| i % 2 * 2).collect();
    let sums = index_add(None, 4, 0, &index, &ones.view(), DType::F32);
    let row = |v: f32| [v; 3];
    assert_eq!(sums, Storage::from([row(2500.0), row(0.0), row(2500.0), row(0.0)].concat()));
    let x = Tensor::from_values(&[2, 3], DType::F64, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let sums = index_add(None, 2, 1, &[1, 0, 1], &x.view(), DType::F64);
    assert_eq!(sums, Storage::F64(vec![2.0, 4.0, 5.0, 10.0].into()));
}

/// Few and many blocks before the axis, slices of one element, a few and many, on any number of threads.
#[test]
fn slices_of_every_size_are_picked_and_added() {
    let mut random = Random::new(3);
    for shape in [[1, 70, 1], [1, 70, 40], [300, 70, 1], [17, 70, 3], [40, 70, 33], [3, 70, 400]] {
        let index: Vec<i64> = (0..50).map(|_| random.below(70) as i64).collect();
        let across = [shape[0], index.len(), shape[2]];
        for dtype in [DType::F16, DType::F32, DType::I64] {
            let x = random.tensor(&shape, dtype);
            let turned = random.tensor(&[shape[2], shape[1], shape[0]], dtype).transposed(0, 2);
            for x in [x.clone(), turned, x.narrow(2, 0, 1)] {
                let across = [across[0], across[1], x.shape()[2]];
                let found = with_num_threads(2, || index_select(&x.view(), 1, &index));
                let found = Tensor::contiguous(&across, found);
                let from = |at: &Vec<usize>| [at[0], index[at[1]] as usize, at[2]];
                assert!(found.indices().iter().all(|at| found.at(at) == x.at(&from(at))), "{shape:?} {dtype}");
            }
            let wide = if dtype.is_float() { DType::F32 } else { dtype };
            let src = Tensor::from_values(&across, dtype, &ramp(across.iter().product()));
            for out in [wide, dtype] {
                let base = Tensor::from_values(&shape, dtype, &ramp(shape.iter().product()));
                let base = if out == dtype { Some(base) } else { None };
                let view = base.as_ref().map(Tensor::view);
                let sums =
                    |threads| with_num_threads(threads, || index_add(view.as_ref(), 70, 1, &index, &src.view(), out));
                let mut expected = base.as_ref().map_or(vec![0.0; shape.iter().product()], Tensor::values);
                for at in src.indices() {
                    expected[(at[0] * 70 + index[at[1]] as usize) * shape[2] + at[2]] += src.at(&at);
                }
                assert_eq!(Tensor::contiguous(&shape, sums(2)).values(), expected, "{shape:?} {dtype}");
                assert_eq!(sums(1), sums(2), "{shape:?} {dtype}");
            }
        }
    }
}

/// Indices that are smaller than the tensor beside the axis, sources that are larger or repeat, on any number of threads.
#[test]
fn elements_of_many_lines_are_gathered_and_scattered() {
    let mut random = Random::new(4);
    for (shape, across) in [([9, 70, 130], [8, 33, 129]), ([2, 3, 20_000], [2, 3, 19_999]), ([1, 1, 7], [1, 0, 7])] {
        for (axis, dtype) in (0..3).flat_map(|axis| [DType::F32, DType::BF16, DType::I64].map(|dtype| (axis, dtype))) {
            let places: Vec<f64> = (0..across.iter().product()).map(|_| random.below(shape[axis]) as f64).collect();
            let index = Tensor::from_values(&across, DType::I64, &places);
            let base = Tensor::from_values(&shape, dtype, &ramp(shape.iter().product()));
            let large = across.map(|size| size + 1);
            let src = Tensor::from_values(&large, dtype, &ramp(large.iter().product()));
            let turned = src.transposed(0, 2).transposed(0, 2);
            for src in [src, turned, Tensor::filled(&[1, 1, 1], dtype, 3.0).broadcast(&across)] {
                let sums = |threads| {
                    let (base, index, src) = (base.view(), index.view(), src.view());
                    with_num_threads(threads, || [scatter_add, scatter].map(|f| f(&base, axis, &index, &src, dtype)))
                };
                let (mut added, mut replaced) = (base.values(), base.values());
                let picked =
                    Tensor::contiguous(&across, with_num_threads(2, || gather(&base.view(), axis, &index.view())));
                for at in index.indices() {
                    let mut to = at.clone();
                    to[axis] = index.at(&at) as usize;
                    assert_eq!(picked.at(&at), base.at(&to));
                    let place = to.iter().zip(shape).fold(0, |place, (i, size)| place * size + i);
                    (added[place], replaced[place]) = (added[place] + src.at(&at), src.at(&at));
                }
                let [sums, last] = sums(2).map(|sums| Tensor::contiguous(&shape, sums));
                assert_eq!(sums.values(), added, "{shape:?} {axis} {dtype}");
                assert_eq!(last.values(), replaced, "{shape:?} {axis} {dtype}");
            }
        }
    }
}

/// Small integers, whose sums are exact.
fn ramp(len: usize) -> Vec<f64> {
    (0..len).map(|i| (i % 13) as f64 - 6.0).collect()
}

#[test]
fn bounds_and_order() {
    let index = Tensor::from_values(&[2, 3], DType::I64, &[5.0, -2.0, 0.0, 9.0, 1.0, 3.0]);
    assert_eq!(outside(&index.view(), 9, None), Some(-2));
    assert_eq!(outside(&index.transposed(0, 1).view(), 9, Some(-2)), Some(9));
    assert_eq!(outside(&index.view(), 10, Some(-2)), None);
    let mut many: Vec<f64> = (0..100_003).map(|i| f64::from(i % 7)).collect();
    (many[70_001], many[100_002]) = (7.0, -1.0);
    let many = Tensor::from_values(&[many.len()], DType::I64, &many);
    for threads in [1, 2] {
        let found = |size, ignored| with_num_threads(threads, || outside(&many.view(), size, ignored));
        assert_eq!(
            [found(7, None), found(7, Some(7)), found(8, Some(-1)), found(0, None)],
            [Some(7), Some(-1), None, Some(0)]
        );
    }
    assert_eq!(*indices(&index.transposed(0, 1).view()), [5, 9, -2, 1, 0, 3]);
    let empty = Tensor::from_values(&[0], DType::I64, &[]);
    assert_eq!(outside(&empty.view(), 0, None), None);
    let x = Tensor::filled(&[2, 2], DType::F32, 1.0);
    assert_eq!(index_select(&x.view(), 0, &[]), Storage::F32(vec![].into()));
    assert_eq!(index_add(None, 2, 0, &[], &Tensor::from_values(&[0, 2], DType::F32, &[]).view(), DType::F32).len(), 4);
}
