//! The dense layer's product, added to another tensor.

use super::arithmetic;
use super::linear::{check, count, matrices, recorded, repeated};
use super::matmul::turned;
use crate::Result;
use crate::backend::Operand;
use crate::raw::RawTensor;

/// `residual + x · wᵀ + bias` in the precision of `residual`, which broadcasts to the result's shape; added to the accumulators
/// and rounded once. In the graph it is a layer in the precision of `x`, and a sum.
#[track_caller]
pub(crate) fn linear_add(
    residual: &RawTensor,
    x: &RawTensor,
    w: &RawTensor,
    bias: Option<&RawTensor>,
) -> Result<RawTensor> {
    const OP: &str = "linear_add";
    let shape = check(OP, x, *x.shape(), w, bias)?;
    x.device().check_same(residual.device(), OP)?;
    let added = residual.broadcast_to(OP, &shape)?;
    let fold = x.layout.is_contiguous() && added.layout.is_contiguous();
    let (left, added) = (matrices(x, fold), matrices(&added, fold));
    let weight = repeated(w, &left)?;
    let right = turned(&weight.layout);
    let right = Operand { layout: &right, ..weight.factor(count(&left))? };
    let operand = bias.map(RawTensor::operand).transpose()?;
    let buffer = x.backend().matmul_add(left.operand()?, right, operand, added.operand()?, residual.logical)?;
    let sum = RawTensor::new(x.device(), buffer, shape);
    // Nobody reads the layer's own output: the tensor in its place is there for its edge.
    let layer = recorded(x, w, bias, sum.clone().counted(x.logical))?;
    arithmetic::recorded_sum(residual, &layer, sum)
}

#[cfg(test)]
mod tests {
    use super::super::linear::tests::layer;
    use super::linear_add;
    use crate::precision::Float;
    use crate::testing::numbers;
    use crate::{BF16, DType, Device, F32, F64, Tensor, gradcheck};

    #[test]
    fn gradients_of_a_layer_added_agree_with_differences() {
        let (w, b) = (numbers(&[3, 4], 0.1), numbers(&[3], 0.2));
        for (shape, residual) in [
            (vec![4], vec![3]),
            (vec![2, 4], vec![2, 3]),
            (vec![2, 5, 4], vec![2, 5, 3]),
            (vec![2, 5, 4], vec![2, 1, 1]),
            (vec![0, 4], vec![3]),
        ] {
            let inputs = [numbers(&residual, 0.3), numbers(&shape, 0.4), w.clone(), b.clone()];
            let f = |x: &[Tensor<F64>]| {
                let y = linear_add(&x[0].raw, &x[1].raw, &x[2].raw, x.get(3).map(|b| &b.raw))?;
                Ok(Tensor::from_raw(y))
            };
            for inputs in [&inputs[..], &inputs[..3]] {
                let worst = gradcheck(f, inputs).unwrap();
                assert!(worst.agrees(), "{shape:?} to {residual:?}: {worst:?}");
            }
        }
        let strided = |x: &[Tensor<F64>]| {
            let (residual, x1) = (x[0].transpose(0, 2)?, x[1].transpose(0, 2)?);
            linear_add(&residual.raw, &x1.raw, &x[2].raw, Some(&x[3].raw)).map(Tensor::from_raw)
        };
        let worst = gradcheck(strided, &[numbers(&[3, 2, 3], 0.3), numbers(&[4, 2, 3], 0.4), w, b]).unwrap();
        assert!(worst.agrees(), "strided: {worst:?}");
    }

    /// Result, and gradients of what is added, of the input and of the parameters.
    fn added<P: Float, R: Float>(fused: bool) -> Vec<Vec<f64>> {
        let layer = layer(&numbers(&[7, 40], 0.1), Some(&numbers(&[7], 0.2)));
        let x = numbers(&[6, 5, 40], 0.3).to::<P>().unwrap().tracked();
        let residual = numbers(&[6, 5, 7], 0.4).to::<R>().unwrap().tracked();
        let y = if fused {
            layer.forward_add(&x, &residual).unwrap()
        } else {
            residual.add(layer.forward(&x).unwrap().to::<R>().unwrap()).unwrap()
        };
        // The slopes are the same whatever was rounded on the way to `y`.
        let slopes = numbers(&[6, 5, 7], 0.7).to::<F32>().unwrap();
        let loss = (&y.to::<F32>().unwrap() * &slopes).unwrap().sum_all().unwrap();
        let grads = loss.backward().unwrap();
        let wide = |x: Tensor<F32>| x.to::<F64>().unwrap().to_vec().unwrap();
        let mut found = vec![y.to::<F64>().unwrap().to_vec().unwrap()];
        found.push(grads.get(&residual).unwrap().unwrap().to::<F64>().unwrap().to_vec().unwrap());
        found.push(grads.get(&x).unwrap().unwrap().to::<F64>().unwrap().to_vec().unwrap());
        let parameters = [layer.weight(), layer.bias().unwrap()];
        found.extend(parameters.map(|parameter| wide(grads.get(parameter).unwrap().unwrap())));
        found
    }

    /// Gradients are those of the sum of both, bit for bit; the sum itself is rounded once and not twice.
    fn check_added<P: Float, R: Float>() {
        let [fused, parts] = [true, false].map(added::<P, R>);
        assert!(fused[1..] == parts[1..], "gradients of {:?} added to {:?}", P::DTYPE, R::DTYPE);
        let epsilon = |dtype| match dtype {
            DType::BF16 => 2.0_f64.powi(-8),
            _ => 2.0_f64.powi(-23) * 42.0,
        };
        // Products are below 10 in magnitude; they are rounded to `P`, and their sums to `R`.
        let tolerance = 10.0 * epsilon(P::DTYPE) + 11.0 * 2.0 * epsilon(R::DTYPE);
        for (fused, parts) in fused[0].iter().zip(&parts[0]) {
            assert!((fused - parts).abs() <= tolerance, "{fused} and {parts}: {:?} to {:?}", P::DTYPE, R::DTYPE);
        }
    }

    #[test]
    fn a_layer_is_added_in_the_precision_of_the_other_summand() {
        check_added::<F32, F32>();
        check_added::<BF16, F32>();
        check_added::<BF16, BF16>();
        check_added::<F32, F64>();
        check_added::<F64, F32>();
    }

    #[test]
    fn shapes_that_do_not_broadcast_are_errors() {
        let zeros = |shape: &[usize]| Tensor::<F32>::zeros(shape, &Device::cpu()).unwrap();
        let residual = layer(&numbers(&[3, 4], 0.1), None).forward_add(&zeros(&[2, 4]), &zeros(&[3, 3]));
        assert_eq!(residual.err().unwrap().to_string(), "linear_add: shapes [3, 3] and [2, 3] do not broadcast");
    }
}
