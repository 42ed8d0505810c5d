//! Optimizers, their schedules, averages of weights and the scale of the loss.

use super::rule;
use crate::args::{
    AnyNonFiniteArgs, AverageArgs, CHOSEN, CountStepsArgs, FACTORS, FLAGS, Factors, Gradient, JoinFlagsArgs,
    JoinPartsArgs, MOVES, MagnitudeArgs, MoveScheduleArgs, NextScaleArgs, Parameter, ScaleOfArgs, SquareSumsArgs,
    TENSORS, UpdateArgs,
};
use crate::device::{Gpu, Memory, THREADS};
use crate::error::foreign;
use crate::module::Family::Optimizer as FAMILY;
use crate::operand::Operand;
use amp_core::backend::{
    Buffer, DType, Operand as CoreOperand, Optimize, ScaleRule, ScheduleMove, UpdateSettings, UpdateSlot,
};
use amp_core::{Error, Result};
use std::sync::Arc;

/// Elements that one thread handles before another block would help.
const PER_THREAD: usize = 16;
/// Blocks that fill a large GPU with one tensor.
const MOST_PARTS: usize = 512;
/// Numbers of a group in [`Optimize::rates`].
const RATES: usize = 3;

/// Blocks per tensor of a launch whose largest tensor has `largest` elements.
fn parts(largest: usize) -> usize {
    largest.div_ceil(THREADS as usize * PER_THREAD).clamp(1, MOST_PARTS)
}

impl Gpu {
    /// Address of memory of at least `len` elements of a type.
    fn typed(&self, buffer: &Buffer, dtype: DType, len: usize) -> Result<u64> {
        let memory =
            buffer.downcast::<Memory>().filter(|m| m.belongs_to(self)).ok_or_else(|| foreign(self, "update"))?;
        if memory.dtype() != dtype {
            return Err(Error::Unsupported { op: "update", device: self.name().into(), dtype: memory.dtype() });
        }
        if memory.len() < len {
            let message = format!("memory of {} elements where {len} are needed", memory.len());
            return Err(Error::Backend { op: "update", device: self.name().into(), message });
        }
        Ok(memory.address())
    }

    fn factors(&self, factors: &[&Buffer]) -> Result<Factors> {
        if factors.len() > FACTORS {
            let message = format!("{} factors of a gradient, at most {FACTORS} are taken", factors.len());
            return Err(Error::Backend { op: "update", device: self.name().into(), message });
        }
        let mut each = [0; FACTORS];
        for (slot, factor) in each.iter_mut().zip(factors) {
            *slot = self.typed(factor, DType::F32, 1)?;
        }
        Ok(Factors { each, count: factors.len() as i32 })
    }

    fn gradient(&self, x: &CoreOperand<'_>) -> Result<Gradient> {
        let operand = Operand::new(self, "update", *x)?;
        if x.buffer.dtype() != DType::F32 || x.logical != DType::F32 || !x.layout.is_contiguous() {
            return Err(Error::Unsupported { op: "update", device: self.name().into(), dtype: x.logical });
        }
        Ok(Gradient { data: operand.data, n: x.layout.count() as i64 })
    }

    fn parameter(&self, slot: &UpdateSlot<'_>) -> Result<Parameter> {
        let gradient = self.gradient(&slot.grad)?;
        let n = gradient.n as usize;
        let mut p = Parameter {
            master: self.typed(slot.master, DType::F32, n)?,
            grad: gradient.data,
            steps: self.typed(slot.steps, DType::I64, 1)?,
            n: gradient.n,
            ..Parameter::default()
        };
        self.attach(&mut p, slot, n)?;
        Ok(p)
    }

    /// State and copies of a parameter of `n` elements.
    fn attach(&self, p: &mut Parameter, slot: &UpdateSlot<'_>, n: usize) -> Result<()> {
        for (to, moment) in p.moments.iter_mut().zip(slot.moments.iter()) {
            *to = self.typed(moment, DType::F32, n)?;
        }
        for copy in &slot.copies {
            let dtype = copy.dtype();
            p.copy[usize::from(dtype == DType::BF16)] = self.typed(copy, dtype, n)?;
        }
        Ok(())
    }

    /// A parameter of which the gradient has some rows only.
    fn rows(&self, slot: &UpdateSlot<'_>, rows: &CoreOperand<'_>) -> Result<Parameter> {
        let gradient = self.gradient(&slot.grad)?;
        if rows.buffer.dtype() != DType::I64 || !rows.layout.is_contiguous() {
            return Err(Error::Unsupported { op: "update_rows", device: self.name().into(), dtype: rows.logical });
        }
        let n = slot.master.len();
        let mut p = Parameter {
            master: self.typed(slot.master, DType::F32, n)?,
            grad: gradient.data,
            steps: self.typed(slot.steps, DType::I64, 1)?,
            n: gradient.n,
            rows: Operand::new(self, "update_rows", *rows)?.data,
            width: gradient.n / (rows.layout.count().max(1) as i64),
            ..Parameter::default()
        };
        self.attach(&mut p, slot, n)?;
        Ok(p)
    }

    /// Updates parameters, then counts their steps; in one turn, or a recording that another thread begins meanwhile would have
    /// some of them updated and the others not.
    fn update_all(&self, settings: UpdateArgs, parameters: &[Parameter]) -> Result<()> {
        let turn = self.turn("update")?;
        for chunk in parameters.chunks(TENSORS) {
            let mut tensor = [Parameter::default(); TENSORS];
            tensor[..chunk.len()].copy_from_slice(chunk);
            let per = parts(chunk.iter().map(|p| p.n as usize).max().unwrap_or(0));
            let grid = ([per as u64, chunk.len() as u64, 1], THREADS);
            self.launch_in(&turn, FAMILY, "update", grid, UpdateArgs { tensor, ..settings })?;
        }
        for chunk in parameters.chunks(CHOSEN) {
            let mut steps = [0; CHOSEN];
            steps.iter_mut().zip(chunk).for_each(|(to, p)| *to = p.steps);
            let args = CountStepsArgs { steps, skip: settings.skip, count: chunk.len() as i32 };
            self.launch_in(&turn, FAMILY, "count_steps", self.spread(chunk.len()), args)?;
        }
        Ok(())
    }

    fn settings(&self, of: UpdateSettings<'_>, factors: &[&Buffer], skip: Option<&Buffer>) -> Result<UpdateArgs> {
        let rates = match of.rates {
            Some((rates, group)) => {
                self.typed(rates, DType::F64, RATES * (group + 1))? + (RATES * group * size_of::<f64>()) as u64
            }
            None => 0,
        };
        Ok(UpdateArgs { rates, ..rule::settings(of.rule, self.factors(factors)?, self.flag(skip)?) })
    }

    /// Where kernels write the number that the host sees of a state, 0 for nowhere.
    fn notice(&self, state: &Buffer) -> u64 {
        let notice = state.downcast::<Memory>().and_then(|memory| memory.notice.as_ref());
        notice.map_or(0, |notice| self.recorder().notice_address(notice))
    }

    fn flag(&self, flag: Option<&Buffer>) -> Result<u64> {
        flag.map_or(Ok(0), |f| self.typed(f, DType::U8, 1))
    }

    /// Addresses of at most as many flags as a launch takes.
    fn flags(&self, flags: &[&Buffer]) -> Result<[u64; FLAGS]> {
        let mut addresses = [0; FLAGS];
        for (to, flag) in addresses.iter_mut().zip(flags) {
            *to = self.flag(Some(flag))?;
        }
        Ok(addresses)
    }

    /// A flag that is set where one of any number of flags is.
    fn joined(&self, flags: &[&Buffer]) -> Result<Buffer> {
        let joined = self.zeros("next_scale", 1, DType::U8)?;
        for chunk in flags.chunks(FLAGS) {
            let args = JoinFlagsArgs { flags: self.flags(chunk)?, joined: joined.address(), count: chunk.len() as i32 };
            self.launch(FAMILY, "join_flags", None, self.spread(1), args)?;
        }
        Ok(joined.into_buffer())
    }

    /// Moves one average or two towards what they follow, times a factor, and counts that at an address other than 0.
    fn move_averages(
        &self,
        moves: &[(&mut Buffer, CoreOperand<'_>, f64)],
        counter: u64,
        share: f64,
        skip: Option<&Buffer>,
    ) -> Result<()> {
        let mut args = AverageArgs {
            into: [0; 2],
            x: [Operand::NONE; 2],
            n: [0; 2],
            factor: [1.0; 2],
            counter,
            skip: self.flag(skip)?,
            share: share as f32,
        };
        for (i, (into, x, factor)) in moves.iter().enumerate() {
            let n = x.layout.count();
            args.into[i] = self.typed(into, DType::F32, n)?;
            args.x[i] = Operand::new(self, "average", *x)?;
            args.n[i] = n as i64;
            args.factor[i] = *factor as f32;
        }
        let [first, second] = args.n;
        self.launch(FAMILY, "average", None, self.spread(first.max(second).max(1) as usize), args)
    }
}

impl Optimize for Gpu {
    fn square_sums(&self, grads: &[CoreOperand<'_>], factors: &[&Buffer]) -> Result<Buffer> {
        let factors = self.factors(factors)?;
        let per = parts(grads.iter().map(|g| g.layout.count()).max().unwrap_or(0));
        let partial = self.memory("square_sums", grads.len() * per, DType::F64)?;
        for (i, chunk) in grads.chunks(TENSORS).enumerate() {
            let mut tensor = [Gradient::default(); TENSORS];
            for (to, grad) in tensor.iter_mut().zip(chunk) {
                *to = self.gradient(grad)?;
            }
            let first = (i * TENSORS * per * size_of::<f64>()) as u64;
            let args = SquareSumsArgs { tensor, factors, parts: partial.address() + first };
            self.launch(FAMILY, "square_sums", None, ([per as u64, chunk.len() as u64, 1], THREADS), args)?;
        }
        let sums = self.memory("square_sums", grads.len(), DType::F64)?;
        let args = JoinPartsArgs { parts: partial.address(), sums: sums.address(), per: per as i64 };
        self.launch(FAMILY, "join_parts", None, ([grads.len() as u64, 1, 1], THREADS), args)?;
        Ok(sums.into_buffer())
    }

    fn any_non_finite(&self, sums: &Buffer, which: &[usize]) -> Result<Buffer> {
        let least = which.iter().max().map_or(0, |&i| i + 1);
        let sums = self.typed(sums, DType::F64, least)?;
        let flag = self.zeros("any_non_finite", 1, DType::U8)?;
        for chunk in which.chunks(CHOSEN) {
            let mut numbers = [0; CHOSEN];
            numbers.iter_mut().zip(chunk).for_each(|(to, &i)| *to = i as i32);
            let args = AnyNonFiniteArgs { sums, flag: flag.address(), which: numbers, count: chunk.len() as i32 };
            self.launch(FAMILY, "any_non_finite", None, self.spread(chunk.len()), args)?;
        }
        Ok(flag.into_buffer())
    }

    fn update(
        &self,
        settings: UpdateSettings<'_>,
        slots: Vec<UpdateSlot<'_>>,
        factors: &[&Buffer],
        skip: Option<&Buffer>,
    ) -> Result<()> {
        let settings = self.settings(settings, factors, skip)?;
        // Everything that can fail for a slot comes before the first write.
        let parameters = slots.iter().map(|s| self.parameter(s)).collect::<Result<Vec<_>>>()?;
        self.update_all(settings, &parameters)
    }

    fn update_rows(
        &self,
        settings: UpdateSettings<'_>,
        slots: Vec<(UpdateSlot<'_>, CoreOperand<'_>)>,
        factors: &[&Buffer],
        skip: Option<&Buffer>,
    ) -> Result<()> {
        let settings = self.settings(settings, factors, skip)?;
        let parameters = slots.iter().map(|(s, rows)| self.rows(s, rows)).collect::<Result<Vec<_>>>()?;
        self.update_all(settings, &parameters)
    }

    fn rates(&self, groups: &[[f64; 3]]) -> Result<Option<Buffer>> {
        let memory = self.memory("update", RATES * groups.len(), DType::F64)?;
        self.write("update", groups.as_flattened(), &memory)?;
        Ok(Some(memory.into_buffer()))
    }

    fn schedule_state(&self) -> Result<Buffer> {
        let mut memory = self.zeros("schedule", 2, DType::I64)?;
        memory.notice = self.notices().and_then(|page| page.slot(0)).map(Arc::new);
        Ok(memory.into_buffer())
    }

    fn schedule(&self, to: &ScheduleMove<'_>, state: &mut Buffer, rates: &Buffer) -> Result<()> {
        if to.factors.len() > MOVES {
            let message = format!("{} numbers of steps that a move may lead to, at most {MOVES}", to.factors.len());
            return Err(self.refusal("schedule", message));
        }
        let mut factors = [0.0; MOVES];
        factors[..to.factors.len()].copy_from_slice(to.factors);
        let notice = self.notice(state);
        let args = MoveScheduleArgs {
            factors,
            skip: self.flag(to.skip)?,
            state: self.typed(state, DType::I64, 2)?,
            notice,
            rates: self.typed(rates, DType::F64, 0)?,
            groups: (rates.len() / RATES) as i64,
            first: to.first as i64,
            count: to.factors.len() as i32,
        };
        self.launch(FAMILY, "move_schedule", None, self.spread(1), args)
    }

    fn scheduled(&self, state: &Buffer) -> Result<[u64; 2]> {
        let memory = state.downcast::<Memory>().ok_or_else(|| foreign(self, "schedule"))?;
        let both = memory.notice.as_ref().map_or(0, |notice| notice.read()) as u64;
        Ok([both >> 32, both & u64::from(u32::MAX)])
    }

    fn scale_state(&self, numbers: [i64; 4]) -> Result<Buffer> {
        let mut memory = self.memory("GradScaler", numbers.len(), DType::I64)?;
        self.write("GradScaler", &numbers, &memory)?;
        memory.notice = self.notices().and_then(|page| page.slot(numbers[3])).map(Arc::new);
        Ok(memory.into_buffer())
    }

    fn scale_of(&self, state: &Buffer) -> Result<(Buffer, Buffer)> {
        let (scale, inverse) = (self.memory("GradScaler", 1, DType::F32)?, self.memory("GradScaler", 1, DType::F32)?);
        let state = self.typed(state, DType::I64, 4)?;
        let args = ScaleOfArgs { state, scale: scale.address(), inverse: inverse.address() };
        self.launch(FAMILY, "scale_of", None, self.spread(1), args)?;
        Ok((scale.into_buffer(), inverse.into_buffer()))
    }

    fn refused(&self, state: &Buffer) -> Result<u64> {
        let memory = state.downcast::<Memory>().ok_or_else(|| foreign(self, "GradScaler"))?;
        Ok(memory.notice.as_ref().map_or(0, |slot| u64::try_from(slot.read()).unwrap_or(0)))
    }

    fn average(&self, into: &mut Buffer, x: CoreOperand<'_>, share: f64, skip: Option<&Buffer>) -> Result<()> {
        self.move_averages(&[(into, x, 1.0)], 0, share, skip)
    }

    fn track(
        &self,
        [mean, var]: [&mut Buffer; 2],
        (batch, factor): ([CoreOperand<'_>; 2], f64),
        counter: &mut Buffer,
        share: f64,
        skip: Option<&Buffer>,
    ) -> Result<()> {
        let counter = self.typed(counter, DType::I64, 1)?;
        self.move_averages(&[(mean, batch[0], 1.0), (var, batch[1], factor)], counter, share, skip)
    }

    fn next_scale(&self, rule: &ScaleRule, flags: &[&Buffer], state: &mut Buffer) -> Result<()> {
        if flags.len() > FLAGS {
            return self.next_scale(rule, &[&self.joined(flags)?], state);
        }
        let addresses = self.flags(flags)?;
        let notice = self.notice(state);
        let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let args = NextScaleArgs {
            flags: addresses,
            state: self.typed(state, DType::I64, 4)?,
            notice,
            interval: count(rule.interval),
            hysteresis: count(rule.hysteresis),
            growth: rule.growth,
            backoff: rule.backoff,
            floor: rule.floor,
            ceiling: rule.ceiling,
            count: flags.len() as i32,
        };
        self.launch(FAMILY, "next_scale", None, self.spread(1), args)
    }

    fn magnitude(&self, x: CoreOperand<'_>) -> Result<(usize, f64)> {
        let n = x.layout.count();
        let ([blocks, ..], threads) = self.spread(n);
        let (mut bad, mut largest) = (vec![0i64; blocks as usize], vec![0f64; blocks as usize]);
        let bad_memory = self.memory("magnitude", bad.len(), DType::I64)?;
        let largest_memory = self.memory("magnitude", bad.len(), DType::F64)?;
        let args = MagnitudeArgs {
            x: Operand::new(self, "magnitude", x)?,
            n: n as i64,
            bad: bad_memory.address(),
            largest: largest_memory.address(),
        };
        self.launch(FAMILY, "magnitude", None, ([blocks, 1, 1], threads), args)?;
        self.read("magnitude", &bad_memory, &mut bad)?;
        self.read("magnitude", &largest_memory, &mut largest)?;
        Ok((bad.iter().sum::<i64>() as usize, largest.into_iter().fold(0.0, f64::max)))
    }
}
