use super::{CpuBackend, foreign, storage_mut};
use crate::backend::{Buffer, Elementwise, Operand, Optimize, UpdateSettings, UpdateSlot};
use crate::{Error, Result};
use amp_cpu::optim::{self, ScaleRule, ScaleState};
use amp_cpu::{DType, Layout, Slice, SliceMut, Storage, Ternary, Unary};

impl Optimize for CpuBackend {
    fn square_sums(&self, grads: &[Operand<'_>], factors: &[&Buffer]) -> Result<Buffer> {
        let grads = grads.iter().map(contiguous_f32).collect::<Result<Vec<_>>>()?;
        Ok(Buffer::new(Storage::from(optim::square_sums(&grads, product(factors)?))))
    }

    fn peaks(&self, grads: &[Operand<'_>]) -> Result<Option<Vec<f32>>> {
        let copies = grads.iter().map(packed).collect::<Result<Vec<_>>>()?;
        let slices = grads.iter().zip(&copies).map(|(grad, copy)| match copy {
            Some(Storage::F32(values)) => Ok(values.as_slice()),
            _ => contiguous_f32(grad),
        });
        Ok(Some(optim::peaks(&slices.collect::<Result<Vec<_>>>()?)))
    }

    fn any_non_finite(&self, sums: &Buffer, which: &[usize]) -> Result<Buffer> {
        let Some(Storage::F64(sums)) = sums.downcast() else { return Err(mismatch(sums)) };
        let found = which.iter().any(|&i| !sums[i].is_finite());
        Ok(Buffer::new(Storage::U8(vec![u8::from(found)].into())))
    }

    fn update(
        &self,
        settings: UpdateSettings<'_>,
        slots: Vec<UpdateSlot<'_>>,
        factors: &[&Buffer],
        skip: Option<&Buffer>,
    ) -> Result<()> {
        if skip.map(flag).transpose()?.unwrap_or(false) {
            return Ok(());
        }
        let factor = product(factors)?;
        optim::update(settings.rule, factor, prepared(slots.into_iter())?);
        Ok(())
    }

    fn update_rows(
        &self,
        settings: UpdateSettings<'_>,
        slots: Vec<(UpdateSlot<'_>, Operand<'_>)>,
        factors: &[&Buffer],
        skip: Option<&Buffer>,
    ) -> Result<()> {
        if skip.map(flag).transpose()?.unwrap_or(false) {
            return Ok(());
        }
        let factor = product(factors)?;
        let rows = slots.iter().map(|(_, rows)| row_numbers(rows)).collect::<Result<Vec<_>>>()?;
        let slots = prepared(slots.into_iter().map(|(slot, _)| slot))?;
        let rows = slots.into_iter().zip(rows).flat_map(|(slot, rows)| slot.rows(rows));
        optim::update(settings.rule, factor, rows.collect());
        Ok(())
    }

    fn scale_state(&self, numbers: [i64; 4]) -> Result<Buffer> {
        Ok(Buffer::new(Storage::from(numbers.to_vec())))
    }

    fn scale_of(&self, state: &Buffer) -> Result<(Buffer, Buffer)> {
        let exponent = f64::from(numbers(state)?[0] as i32);
        let power = |exponent: f64| Buffer::new(Storage::F32(vec![exponent.exp2() as f32].into()));
        Ok((power(exponent), power(-exponent)))
    }

    fn next_scale(&self, rule: &ScaleRule, flags: &[&Buffer], state: &mut Buffer) -> Result<()> {
        let found = flags.iter().try_fold(false, |found, f| Ok::<_, Error>(found | flag(f)?))?;
        let Storage::I64(state) = storage_mut("next_scale", state)? else { return Err(foreign("next_scale")) };
        let [exponent, clean, bad, refused] = state.as_mut_slice() else { return Err(foreign("next_scale")) };
        let now =
            ScaleState { exponent: *exponent as i32, clean: *clean as u64, bad: *bad as u64, refused: *refused as u64 };
        let next = now.next(rule, found);
        (*exponent, *clean) = (i64::from(next.exponent), next.clean as i64);
        (*bad, *refused) = (next.bad as i64, next.refused as i64);
        Ok(())
    }

    fn refused(&self, state: &Buffer) -> Result<u64> {
        Ok(numbers(state)?[3] as u64)
    }

    fn average(&self, into: &mut Buffer, x: Operand<'_>, share: f64, skip: Option<&Buffer>) -> Result<()> {
        if skip.map(flag).transpose()?.unwrap_or(false) {
            return Ok(());
        }
        let layout = Layout::contiguous(x.layout.shape);
        let share = Buffer::new(Storage::F32(vec![share as f32].into()));
        let mut same = layout;
        same.strides.fill(0);
        let operand = |buffer, layout| Operand { buffer, layout, logical: DType::F32 };
        let moved = self.ternary(Ternary::Lerp, operand(into, &layout), x, operand(&share, &same), DType::F32)?;
        *into = moved;
        Ok(())
    }

    fn track(
        &self,
        [mean, var]: [&mut Buffer; 2],
        ([batch_mean, batch_var], factor): ([Operand<'_>; 2], f64),
        counter: &mut Buffer,
        share: f64,
        skip: Option<&Buffer>,
    ) -> Result<()> {
        if skip.map(flag).transpose()?.unwrap_or(false) {
            return Ok(());
        }
        self.average(mean, batch_mean, share, None)?;
        let scaled = self.unary(Unary::Affine { mul: factor, add: 0.0 }, batch_var, batch_var.logical)?;
        let layout = Layout::contiguous(batch_var.layout.shape);
        self.average(var, Operand { buffer: &scaled, layout: &layout, ..batch_var }, share, None)?;
        let Storage::I64(number) = storage_mut("track", counter)? else { return Err(foreign("track")) };
        number.iter_mut().for_each(|n| *n = n.saturating_add(1));
        Ok(())
    }

    fn magnitude(&self, x: Operand<'_>) -> Result<(usize, f64)> {
        let view = super::view("magnitude", x)?;
        Ok(optim::magnitude(amp_cpu::copy(&view, x.logical).as_slice()))
    }
}

fn numbers(state: &Buffer) -> Result<[i64; 4]> {
    match state.downcast() {
        Some(Storage::I64(numbers)) => numbers.as_slice().try_into().map_err(|_| foreign("GradScaler")),
        _ => Err(foreign("GradScaler")),
    }
}

/// The slots with their buffers opened and their steps counted. Everything that can fail comes before the first write.
fn prepared<'a>(slots: impl ExactSizeIterator<Item = UpdateSlot<'a>>) -> Result<Vec<optim::UpdateSlot<'a>>> {
    let (mut opened, mut counters) = (Vec::with_capacity(slots.len()), Vec::with_capacity(slots.len()));
    for slot in slots {
        let Storage::I64(steps) = storage_mut("update", slot.steps)? else { return Err(foreign("update")) };
        let steps = steps.first_mut().ok_or_else(|| foreign("update"))?;
        let copies =
            slot.copies.into_iter().map(|c| Ok(storage_mut("update", c)?.as_mut_slice())).collect::<Result<_>>()?;
        let moments = slot.moments.iter_mut().map(f32_mut).collect::<Result<_>>()?;
        let (master, grad, step) = (f32_mut(slot.master)?, contiguous_f32(&slot.grad)?, steps.saturating_add(1));
        opened.push(optim::UpdateSlot { master, grad, moments, copies, step: step as u64 });
        counters.push(steps);
    }
    counters.into_iter().for_each(|steps| *steps = steps.saturating_add(1));
    Ok(opened)
}

fn row_numbers<'a>(rows: &Operand<'a>) -> Result<&'a [i64]> {
    match rows.buffer.downcast() {
        Some(Storage::I64(numbers)) if rows.layout.is_contiguous() => {
            Ok(&numbers[rows.layout.offset..][..rows.layout.count()])
        }
        _ => Err(foreign("update_rows")),
    }
}

fn f32_mut(buffer: &mut Buffer) -> Result<&mut [f32]> {
    match storage_mut("update", buffer)?.as_mut_slice() {
        SliceMut::F32(values) => Ok(values),
        other => Err(Error::Unsupported { op: "update", device: "cpu".into(), dtype: other.dtype() }),
    }
}

fn contiguous_f32<'a>(x: &Operand<'a>) -> Result<&'a [f32]> {
    let storage = x.buffer.downcast::<Storage>().ok_or_else(|| foreign("update"))?;
    match storage.as_slice() {
        Slice::F32(values) if x.layout.is_contiguous() && x.logical == DType::F32 => {
            Ok(&values[x.layout.offset..][..x.layout.count()])
        }
        other => Err(Error::Unsupported { op: "update", device: "cpu".into(), dtype: other.dtype() }),
    }
}

/// The different elements of a gradient that is not contiguous F32 as it stands.
fn packed(x: &Operand<'_>) -> Result<Option<Storage>> {
    if x.layout.is_contiguous() && x.logical == DType::F32 && x.buffer.dtype() == DType::F32 {
        return Ok(None);
    }
    let mut layout = *x.layout;
    for (size, stride) in layout.shape.iter_mut().zip(&*layout.strides) {
        *size = if *stride == 0 { 1.min(*size) } else { *size };
    }
    let view = super::view("peaks", Operand { layout: &layout, ..*x })?;
    Ok(Some(amp_cpu::copy(&view, DType::F32)))
}

fn product(factors: &[&Buffer]) -> Result<f32> {
    factors.iter().try_fold(1.0, |product, factor| match factor.downcast() {
        Some(Storage::F32(values)) if values.len() == 1 => Ok(product * values[0]),
        _ => Err(mismatch(factor)),
    })
}

fn flag(buffer: &Buffer) -> Result<bool> {
    match buffer.downcast() {
        Some(Storage::U8(values)) => Ok(values.iter().any(|&v| v != 0)),
        _ => Err(mismatch(buffer)),
    }
}

fn mismatch(buffer: &Buffer) -> Error {
    Error::Unsupported { op: "update", device: "cpu".into(), dtype: buffer.dtype() }
}
