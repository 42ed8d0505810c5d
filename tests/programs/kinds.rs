//! Casts to F32 of what was no float: nothing says that they must not be undone.

use super::*;

struct Batch {
    pixels: Tensor<U8>,
    labels: Tensor<I64>,
    mask: Option<Tensor<Bool>>,
}

/// A cast whose target is written at the variable, of a parameter.
#[autocast(f16)]
fn written_at_a_variable(mask: &Tensor<Bool>, labels: &Tensor<I64>, w: &T) -> Result<T> {
    let kept: Tensor<F32> = mask.to()?;
    let one_hot: Tensor<F32> = labels.one_hot(3)?.to()?;
    kept.matmul(w)?.add(&one_hot.matmul(w)?)
}

/// Casts of fields: only the compiler knows what these hold.
#[autocast(f16)]
fn of_fields(fc: &Linear, batch: &Batch, w: &T) -> Result<T> {
    let x = (batch.pixels.to::<F32>()? / 255.0)?;
    let rows = batch.pixels.reshape([3, 3])?.to::<F32>()?;
    let one_hot: Tensor<F32> = batch.labels.one_hot(3)?.to()?;
    let mut sum = (fc.forward(&x)? + rows.matmul(w)?)?;
    if let Some(mask) = &batch.mask {
        let kept: T = mask.to()?;
        sum = (sum + w.matmul(&kept)?)?;
    }
    let labels = batch.labels.clone();
    let scale = labels.to::<F32>()?;
    let all = [&scale].map(|scale| scale.clone());
    ((sum + one_hot.matmul(w)?)? + scale.unsqueeze(0)?.matmul(w)?)? + all[0].unsqueeze(0)?.matmul(w)?
}

#[test]
fn what_was_no_float_is_narrowed_behind_its_cast() -> Result<()> {
    let device = Device::cpu();
    let (x, w) = (random([3, 3])?, random([3, 3])?);
    let w16 = w.to::<F16>()?;
    let (mask, labels) = (x.gt(0.0)?, Tensor::<I64>::from_vec(vec![0, 2, 1], [3], &device)?);
    let one_hot = labels.one_hot(3)?.to::<F16>()?.matmul(&w16)?;
    let by_hand = mask.to::<F16>()?.matmul(&w16)?.add(&one_hot)?;
    assert_eq!(bits(&written_at_a_variable(&mask, &labels, &w)?), bits(&by_hand.to()?));

    let pixels = Tensor::<U8>::from_vec(vec![7, 1, 2, 3, 4, 5, 6, 7, 255], [3, 3], &device)?;
    let fc = Linear::new(3, 3, &device)?;
    let first = fc.forward(&(pixels.to::<F32>()? / 255.0)?.to::<F16>()?)?;
    let sum = (first + pixels.to::<F16>()?.matmul(&w16)?)?.to::<F32>()?;
    let sum = (sum + w16.matmul(&mask.to::<F16>()?)?.to::<F32>()?)?;
    let scale = labels.to::<F16>()?.unsqueeze(0)?.matmul(&w16)?;
    let [one_hot, scale] = [one_hot, scale].map(|x| x.to::<F32>().expect("floats"));
    let by_hand = (((sum + one_hot)? + &scale)? + &scale)?;
    let batch = Batch { pixels, labels, mask: Some(mask) };
    assert_eq!(bits(&of_fields(&fc, &batch, &w)?), bits(&by_hand));
    Ok(())
}

/// A closure stands between the cast and its use.
#[autocast(f16)]
fn cast_in_a_closure(batch: &Batch, w: &T) -> Result<T> {
    let kept = batch.mask.as_ref().map(|mask| mask.to::<F32>()).transpose()?;
    match kept {
        Some(kept) => w.matmul(&kept),
        None => w.relu(),
    }
}

#[autocast(f16)]
fn used_in_a_closure(batch: &Batch, ws: &[T]) -> Result<Vec<T>> {
    let pixels = batch.pixels.to::<F32>()?;
    ws.iter().map(|w| w.matmul(&pixels)).collect()
}

/// One field in both branches.
#[autocast(f16)]
fn cast_in_both_branches(batch: &Batch, w: &T, turned: bool) -> Result<T> {
    let h = if turned { batch.pixels.to::<F32>()?.t()? } else { batch.pixels.to::<F32>()? };
    h.matmul(w)
}

#[test]
fn casts_of_fields_are_narrowed_behind_closures_and_branches() -> Result<()> {
    let (w, device) = (random([3, 3])?, Device::cpu());
    let pixels = Tensor::<U8>::from_vec(vec![7, 1, 2, 3, 4, 5, 6, 7, 255], [3, 3], &device)?;
    let mask = w.gt(0.0)?;
    let (w16, pixels16) = (w.to::<F16>()?, pixels.to::<F16>()?);
    let of_mask = w16.matmul(&mask.to::<F16>()?)?.to::<F32>()?;
    let labels = Tensor::<I64>::from_vec(vec![0, 2, 1], [3], &device)?;
    let batch = Batch { pixels, labels, mask: Some(mask) };
    assert_eq!(bits(&cast_in_a_closure(&batch, &w)?), bits(&of_mask));
    let all = used_in_a_closure(&batch, std::slice::from_ref(&w))?;
    assert_eq!(bits(&all[0]), bits(&w16.matmul(&pixels16)?.to()?));
    let straight = cast_in_both_branches(&batch, &w, false)?;
    assert_eq!(bits(&straight), bits(&pixels16.matmul(&w16)?.to()?));
    assert_eq!(bits(&cast_in_both_branches(&batch, &w, true)?), bits(&pixels16.t()?.matmul(&w16)?.to()?));
    Ok(())
}
