use crate::case::{Input, check};
use amp_core::backend::DType;

#[test]
fn products_of_any_layout_and_precision() {
    for (i, dtype) in [DType::F16, DType::BF16, DType::F32, DType::F64].into_iter().enumerate() {
        let a = Input::strided(&[2, 65, 33], &[2145, 33, 1], 0, dtype, i as u64).stored(if i == 0 {
            DType::F32
        } else {
            dtype
        });
        let b = Input::strided(&[2, 33, 70], &[0, 1, 33], 0, dtype, 8);
        let bias = Input::noise(&[70], DType::F32, 1.0, 9);
        check("matmul", &[a, b, bias], dtype, 100.0, &|b, x, out| {
            Ok(vec![b.matmul(x[0], x[1], Some(x[2]), out)?, b.matmul(x[0], x[1], None, out)?])
        });
    }
    let (a, b) = (Input::noise(&[3, 5, 7], DType::BF16, 1.0, 1), Input::noise(&[3, 7, 4], DType::BF16, 1.0, 2));
    check("accumulate", &[a, b], DType::F32, 100.0, &|b, x, out| {
        let (mut all, mut one) = (b.fill(0.5, 60, out)?, b.fill(0.5, 20, out)?);
        b.matmul_accumulate(x[0], x[1], &mut all)?;
        b.matmul_accumulate(x[0], x[1], &mut one)?;
        Ok(vec![all, one])
    });
    let (a, b) = (Input::new(vec![], &[3, 0], DType::F32), Input::new(vec![], &[0, 2], DType::F32));
    check("no terms", &[a, b], DType::F32, 1.0, &|b, x, out| Ok(vec![b.matmul(x[0], x[1], None, out)?]));
}
