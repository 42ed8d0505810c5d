//! What the graph keeps for the backward pass.

use super::{turn, vector};
use amp_core::nn::{BatchNorm2d, LayerNorm};
use amp_core::{BF16, ConvOptions, Device, F16, F32, Float, Parameter, Result, Tensor, saved_bytes};

#[test]
fn parameters_share_one_16_bit_copy_and_keep_f32_gradients() -> Result<()> {
    let _turn = turn();
    let w = Parameter::new(&vector(&[1.0, 2.0, 3.0]))?;
    let loss = (w.to::<BF16>()?.tanh()? * 2.0)?.to::<F32>()?.sum_all()?;
    let grad = loss.backward()?.get(&w)?.unwrap();
    assert_eq!((grad.dtype(), grad.stored_dtype()), (w.tensor().dtype(), w.tensor().dtype()));
    let before = w.tensor();
    w.set(&vector(&[4.0, 5.0, 6.0]))?;
    assert_eq!(before.to_vec()?, [1.0, 2.0, 3.0], "a tensor taken earlier does not change");
    assert_eq!(w.to::<BF16>()?.to_vec()?.iter().map(|v| v.to_f32()).collect::<Vec<_>>(), [4.0, 5.0, 6.0]);
    w.set_trainable(false);
    assert!(!w.tensor().requires_grad());
    Ok(())
}

/// Gradients of `x` and of the weight, bytes held before the product, after it, and after the output is dropped.
fn rectified(x: &Tensor<F32>, w: &Parameter, narrow: bool) -> Result<(Vec<f32>, Vec<f32>, usize)> {
    let before = saved_bytes().now;
    let y = (x * 1.0)?.relu()?;
    let product = match narrow {
        true => y.to::<BF16>()?.matmul(&w.tensor().to::<BF16>()?)?.to::<F32>()?,
        false => y.matmul(&w.tensor())?,
    };
    let loss = (product.sum_all()? + (&y * 0.5)?.sum_all()?)?;
    drop((y, product));
    let held = saved_bytes().now - before;
    let grads = loss.backward()?;
    Ok((grads.get(x)?.unwrap().to_vec()?, grads.get(w)?.unwrap().to_vec()?, held))
}

#[test]
fn relu_keeps_bits_where_a_16_bit_copy_takes_its_output() -> Result<()> {
    let _turn = turn();
    let device = Device::cpu();
    // Small integers are exact in BF16, so both runs compute the same numbers.
    let x = Tensor::<F32>::from_fn([32, 8], |i| ((i[0] * 7 + i[1] * 3) % 9) as f32 - 4.0, &device)?.tracked();
    let w = Parameter::new(&Tensor::from_fn([8, 4], |i| (i[0] + i[1]) as f32 - 3.0, &device)?)?;
    let (wide, narrow) = (rectified(&x, &w, false)?, rectified(&x, &w, true)?);
    assert_eq!((wide.0, wide.1), (narrow.0, narrow.1));
    assert_eq!(wide.2, 4 * 32 * 8);
    assert_eq!(narrow.2, 32 * 8 / 8 + 2 * 32 * 8, "bits for relu and the copy for the product");
    let odd = Tensor::<F32>::from_vec(vec![f32::NAN, -0.0, 1e-30, -1.0], [1, 4], &device)?.tracked();
    let y = odd.relu()?;
    let sum = (y.to::<F16>()?.to::<F32>()?.sum_all()? + y.sum_all()?)?;
    assert_eq!(sum.backward()?.get(&odd)?.unwrap().to_vec()?, [2.0, 0.0, 2.0, 0.0]);
    Ok(())
}

#[test]
fn a_product_keeps_the_input_of_an_activation_and_not_its_output() -> Result<()> {
    let _turn = turn();
    let device = Device::cpu();
    let [up, down] = [[48, 16], [16, 48]].map(|size| Parameter::new(&Tensor::<F32>::full(size, 0.1, &device).unwrap()));
    let (up, down) = (up?, down?);
    let x = Tensor::<F32>::full([32, 16], 1.0, &device)?.to::<BF16>()?;
    let before = saved_bytes().now;
    let hidden = x.linear(&up.to::<BF16>()?, None)?;
    let held = saved_bytes().now - before;
    let y = hidden.gelu()?.linear(&down.to::<BF16>()?, None)?;
    assert_eq!(saved_bytes().now - before, held + 2 * 32 * 48);
    drop(hidden);
    let grads = y.to::<F32>()?.sum_all()?.backward()?;
    assert_eq!(saved_bytes().now, before);
    assert!(grads.get(&up)?.is_some() && grads.get(&down)?.is_some());
    Ok(())
}

#[test]
fn a_convolution_of_volumes_keeps_them_and_not_the_slices_under_its_kernel() -> Result<()> {
    let _turn = turn();
    let x = ramp::<BF16>(&[2, 8, 6, 8], 0.25)?.reshape([1, 2, 8, 6, 8])?.tracked();
    let w = Parameter::new(&ramp(&[4, 2, 3, 3], 0.125)?.reshape([4, 2, 3, 3, 1])?)?;
    for transposed in [false, true] {
        let before = saved_bytes().now;
        let y = x.relu()?;
        let held = saved_bytes().now - before;
        let options = ConvOptions::<3>::default().padding(1);
        let w = w.to::<BF16>()?;
        let z = if transposed {
            y.conv_transpose3d(&w.permute([1, 0, 2, 3, 4])?, None, options)?
        } else {
            y.conv3d(&w, None, options)?
        };
        // Relu keeps its output, too.
        let bytes = 2 * (w.count() + y.count());
        assert!(saved_bytes().now - before <= held + bytes, "{} bytes", saved_bytes().now - before - held);
        drop(y);
        let grads = z.to::<F32>()?.sum_all()?.backward()?;
        assert_eq!(saved_bytes().now, before);
        assert!(grads.get(&x)?.is_some());
    }
    Ok(())
}

/// `scale * (i mod 11 - 5)`: exact in BF16 for the scales used here.
fn ramp<P: Float>(shape: &[usize], scale: f32) -> Result<Tensor<P>> {
    let strides = [7, 3, 5, 2];
    let at = |i: &[usize]| scale * ((i.iter().zip(strides).map(|(i, s)| i * s).sum::<usize>() % 11) as f32 - 5.0);
    Tensor::<F32>::from_fn(shape, at, &Device::cpu())?.to::<P>()
}

/// The weight's gradient of what `product` makes of `y`, and the bytes that are held for it.
fn through<P: Float>(
    y: &Tensor<P>,
    w: &Parameter,
    product: impl Fn(&Tensor<P>, &Tensor<P>) -> Result<Tensor<P>>,
) -> Result<(Vec<f32>, usize)> {
    let before = saved_bytes().now;
    let z = product(y, &w.to::<P>()?)?;
    let held = saved_bytes().now - before;
    let slopes = ramp::<F32>(z.dims(), 0.5)?;
    let grads = z.to::<F32>()?.backward_with(&slopes)?;
    Ok((grads.get(w)?.unwrap().to_vec()?, held))
}

fn normalised_again<P: Float>(computed: bool) -> Result<()> {
    let device = Device::cpu();
    let image = ramp::<P>(&[4, 8, 6, 5], 0.25)?.tracked();
    let norm = BatchNorm2d::new(8, &device)?;
    let w = Parameter::new(&ramp(&[4, 8, 3, 3], 0.125)?)?;
    let conv = |x: &Tensor<P>, w: &Tensor<P>| x.conv2d(w, None, ConvOptions::default().padding(1));
    let y = norm.forward_relu(&image)?.to::<P>()?;
    let held = y.to::<F32>()?.to_vec()?;
    let held = Tensor::<F32>::from_vec(held, y.dims(), &device)?.to::<P>()?;
    let bytes = y.count() * P::DTYPE.size();
    let (again, kept) = (through(&y, &w, conv)?, through(&held, &w, conv)?);
    assert_eq!((again.0, again.1, kept.1), (kept.0, if computed { 0 } else { bytes }, bytes));

    let lines = ramp::<P>(&[3, 10, 48], 0.25)?.tracked();
    let norm = LayerNorm::new([48], &device)?;
    let w = Parameter::new(&ramp(&[24, 48], 0.125)?)?;
    let linear = |x: &Tensor<P>, w: &Tensor<P>| x.linear(w, None);
    let y = norm.forward(&lines)?.to::<P>()?;
    let held = Tensor::<F32>::from_vec(y.to::<F32>()?.to_vec()?, y.dims(), &device)?.to::<P>()?;
    let bytes = y.count() * P::DTYPE.size();
    let (again, kept) = (through(&y, &w, linear)?, through(&held, &w, linear)?);
    assert_eq!((again.0, again.1, kept.1), (kept.0, if computed { 0 } else { bytes }, bytes));
    Ok(())
}

#[test]
fn a_product_computes_what_was_normalised_in_16_bits_again_to_the_same_bits() -> Result<()> {
    let _turn = turn();
    normalised_again::<F16>(true)?;
    normalised_again::<BF16>(true)?;
    normalised_again::<F32>(false)
}
