//! How elements fall into rows and channels.

use super::NormKind;
use crate::line::Span;
use crate::num::Real;
use crate::split::for_chunks;
use crate::{DType, Storage, View};
use std::ops::Range;

/// Elements of one piece of work.
const WORK: usize = 1 << 14;
/// Runs shorter than this are taken together with their neighbours: a third faster for 512 channels of 4 by 4.
const SHORT: usize = 32;

/// Rows of elements with shared statistics, and how parameters repeat along them.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    /// Number of rows.
    pub rows: usize,
    /// Elements of a row.
    pub len: usize,
    /// Parameters altogether.
    pub channels: usize,
    /// Consecutive elements with one parameter.
    pub repeat: usize,
}

impl Rows {
    /// Rows of `x` for a kind other than `Batch`; for `Batch`, the samples.
    pub fn new(x: &View, kind: NormKind) -> Self {
        let (shape, count) = (&x.layout.shape, x.layout.count());
        match kind {
            NormKind::Layer { inner } | NormKind::Rms { inner } => {
                Self { rows: count.checked_div(inner).unwrap_or(0), len: inner, channels: inner, repeat: 1 }
            }
            NormKind::Group { .. } | NormKind::Batch => {
                let groups = if let NormKind::Group { groups } = kind { groups } else { 1 };
                let (channels, repeat) = (shape[1], shape[2..].iter().product());
                Self { rows: shape[0] * groups, len: channels / groups.max(1) * repeat, channels, repeat }
            }
        }
    }

    /// Rows that one piece of work takes: a number that depends on sizes alone.
    pub fn per_piece(&self) -> usize {
        (WORK / self.len.max(1)).clamp(1, 64)
    }

    /// As [`Self::per_piece`], where each piece has sums of its own for all parameters: fewer pieces, fewer sums to join.
    pub fn per_piece_with_sums(&self) -> usize {
        (4 * WORK / self.len.max(1)).clamp(1, 64)
    }

    /// The first parameter of `row`.
    pub fn first_channel(&self, row: usize) -> usize {
        row * (self.len / self.repeat.max(1)) % self.channels.max(1)
    }
}

/// All elements of a parameter, or `default` for each of `channels`.
pub(crate) fn parameters<A: Real>(parameter: Option<&View>, channels: usize, default: f64) -> Vec<A> {
    let mut values = vec![A::of(default); channels];
    if let Some(view) = parameter {
        Span::row_major(view).load(0, &mut values);
    }
    values
}

/// Samples as runs of elements of one channel each; where runs are short, the elements of a sample count as channels.
pub(super) struct PerChannel {
    channels: usize,
    repeat: usize,
    /// How often each parameter is repeated to make that so.
    copies: usize,
    count: usize,
}

impl PerChannel {
    pub fn new(rows: Rows) -> Self {
        let count = rows.rows * rows.len;
        match rows.repeat {
            repeat if repeat < SHORT => Self { channels: rows.channels * repeat, repeat: 1, copies: repeat, count },
            repeat => Self { channels: rows.channels, repeat, copies: 1, count },
        }
    }

    /// Parameters, one for each channel.
    pub fn spread<A: Copy>(&self, parameters: impl Iterator<Item = A>) -> Vec<A> {
        parameters.flat_map(|p| std::iter::repeat_n(p, self.copies)).collect()
    }

    /// Changes all runs of `x`: `f(run, channels, position of its first element)`. A run has one channel, or one for each
    /// element.
    pub fn map<A: Real>(&self, x: &View, out: DType, f: impl Fn(&mut [A], Range<usize>, usize) + Sync) -> Storage {
        let span = Span::row_major(x);
        let mut y = Storage::unwritten(out, self.count);
        let runs = (WORK / self.repeat.max(1)).max(1);
        for_chunks(&mut y, runs * self.repeat, &|i, mut piece| {
            let first = i * runs * self.repeat;
            let mut line = vec![A::ZERO; piece.len()];
            span.load(first, &mut line);
            let (mut at, mut channel) = (0, first / self.repeat % self.channels);
            while at < line.len() {
                let channels = if self.repeat == 1 { (line.len() - at).min(self.channels - channel) } else { 1 };
                let end = at + channels * self.repeat;
                f(&mut line[at..end], channel..channel + channels, first + at);
                (at, channel) = (end, (channel + channels) % self.channels);
            }
            A::narrow(&line, &mut piece);
        });
        y
    }
}
