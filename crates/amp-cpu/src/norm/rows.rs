//! How elements fall into rows and channels.

use super::NormKind;
use crate::View;
use crate::line::Span;
use crate::lockstep::Upcoming;
use crate::num::Real;

/// Elements of one piece of work.
pub(super) const WORK: usize = 1 << 14;

/// Elements of a row up to which several are handled together.
pub(super) const SHORT: usize = 128;

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

    /// Rows whose gradients are loaded, computed and stored together: finding each took longer than a row of 64 elements.
    pub fn together(&self) -> usize {
        const ELEMENTS: usize = 2048;
        if self.has_all_parameters() && self.len <= SHORT { ELEMENTS / self.len.max(1) } else { 1 }
    }

    /// The memory of a row that will be read soon after `row`.
    pub fn after(&self, row: usize, span: &Span) -> Upcoming {
        const ELEMENTS: usize = 1024;
        span.upcoming((row + ELEMENTS.div_ceil(self.len.max(1))) * self.len)
    }

    /// Whether each row has an element for every parameter.
    pub fn has_all_parameters(&self) -> bool {
        self.repeat == 1 && self.len == self.channels
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

/// Joins neighbouring rows, element by element, until one is left.
pub(super) fn halved<A: Copy, R: AsRef<[A]> + AsMut<[A]>>(mut all: Vec<R>, join: impl Fn(A, A) -> A) -> Option<R> {
    while all.len() > 1 {
        let (mut rows, mut half) = (all.into_iter(), Vec::new());
        while let Some(mut row) = rows.next() {
            if let Some(next) = rows.next() {
                row.as_mut().iter_mut().zip(next.as_ref()).for_each(|(a, &b)| *a = join(*a, b));
            }
            half.push(row);
        }
        all = half;
    }
    all.pop()
}
