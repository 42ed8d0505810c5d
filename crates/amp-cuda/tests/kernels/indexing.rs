//! Selecting, gathering and adding by index.

use crate::FLOATS;
use crate::case::{Input, check};
use amp_core::backend::{DType, Operand};

#[test]
fn selecting_gathering_and_adding_by_index() {
    for (i, dtype) in FLOATS.into_iter().enumerate() {
        let x = Input::strided(&[4, 9, 5], &[45, 1, 9], 0, dtype, i as u64);
        let slices = Input::new(vec![3.0, 0.0, 3.0, 8.0, 3.0], &[5], DType::I64);
        let src = Input::noise(&[4, 5, 5], dtype, 1.0, 2);
        let index = Input::new((0..80).map(|k| f64::from(k * 7 % 9)).collect(), &[4, 4, 5], DType::I64);
        check("index", &[x, slices, src, index], dtype, 20.0, &|b, x, out| {
            b.check_indices("index", x[1], 9, None)?;
            Ok(vec![
                b.index_select(x[0], 1, x[1])?,
                b.index_add(None, 9, 1, x[1], x[2], out)?,
                b.index_add(Some(x[0]), 9, 1, x[1], x[2], out)?,
                b.gather(x[0], 1, x[3])?,
                b.scatter_add(x[0], 1, x[3], x[2], out)?,
                b.scatter(x[0], 1, x[3], x[2], out)?,
            ])
        });
    }
    let many = Input::new((0..1300).map(|k| f64::from(k * 31 % 11)).collect(), &[1300], DType::I64);
    let src = Input::noise(&[1300, 3], DType::F32, 1.0, 2);
    check("embedding gradient", &[many, src], DType::F32, 200.0, &|b, x, out| {
        Ok(vec![b.index_add(None, 11, 0, x[0], x[1], out)?])
    });
}

#[test]
fn a_bad_index_is_reported_with_the_next_download() {
    let (_, _alone) = crate::standin::open();
    let gpu = crate::standin::gpu();
    let layout = amp_core::backend::Layout::contiguous(amp_core::Dims::new(&[3]).expect("rank 1"));
    let index = gpu.upload(amp_core::backend::Storage::I64(vec![1, 12, -1].into())).expect("an upload");
    let operand = Operand { buffer: &index, layout: &layout, logical: DType::I64 };
    gpu.check_indices("embedding", operand, 10, None).expect("the check does not wait");
    let error = gpu.download(&index).expect_err("12 is past the end");
    assert_eq!(error.to_string(), "embedding: index 12 is out of range for size 10");
    gpu.download(&index).expect("an error is reported once");
}
