//! Pooling of images `[N, C, H, W]`, fixed windows and adaptive ones; sums in F32 (F64 for F64 operands).
//!
//! Results lie in the order that is asked for, whatever that of the operand. Both orders add and compare in the same sequence:
//! same bits.

mod average;
mod lanes;
mod max;
mod rows;
#[cfg(test)]
mod tests;

pub use average::{adaptive_avg_pool2d, adaptive_avg_pool2d_grad, avg_pool2d, avg_pool2d_grad};
pub use max::{adaptive_max_pool2d, max_pool2d, max_pool2d_grad, max_pool2d_values};

/// Windows of a pooling; pairs are (vertical, horizontal).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool2d {
    /// Size of a window.
    pub kernel: [usize; 2],
    /// Distance between windows.
    pub stride: [usize; 2],
    /// Pixels added on both sides, at most half a window: minus infinity for maxima, zeros for averages.
    pub padding: [usize; 2],
    /// Distance between the pixels of a window (maxima only).
    pub dilation: [usize; 2],
    /// Whether a last window may reach past the padding, as long as it begins before it.
    pub ceil_mode: bool,
}

impl Pool2d {
    /// Output size for an input; `None` when no window fits, a step is zero or the padding is over half a window.
    pub fn output_size(&self, input: [usize; 2]) -> Option<[usize; 2]> {
        let along = |i: usize| {
            let extent = self.dilation[i].checked_mul(self.kernel[i].checked_sub(1)?)?.checked_add(1)?;
            let padded = input[i].checked_add(self.padding[i].checked_mul(2)?)?;
            let beyond = if self.ceil_mode { self.stride[i].checked_sub(1)? } else { 0 };
            let last = padded.checked_add(beyond)?.checked_sub(extent)?.checked_div(self.stride[i])?;
            // The last window must begin before the padding behind the input.
            let behind = self.ceil_mode && last * self.stride[i] >= input[i] + self.padding[i];
            (self.padding[i] <= self.kernel[i] / 2).then_some(last + usize::from(!behind))
        };
        Some([along(0)?, along(1)?])
    }

    fn windows(&self, input: [usize; 2]) -> [Vec<Window>; 2] {
        let count = self.output_size(input).unwrap_or_default();
        std::array::from_fn(|axis| self.windows_along(axis, input[axis], count[axis]))
    }

    fn windows_along(&self, axis: usize, input: usize, count: usize) -> Vec<Window> {
        let [kernel, stride, padding, step] = [self.kernel, self.stride, self.padding, self.dilation].map(|p| p[axis]);
        (0..count)
            .map(|i| {
                let (low, high) = (i * stride, i * stride + (kernel - 1) * step + 1);
                let skipped = padding.saturating_sub(low).div_ceil(step) * step;
                let start = low + skipped - padding;
                let end = high.saturating_sub(padding).min(input);
                Window { start, end, step, size: high.min(input + 2 * padding) - low }
            })
            .collect()
    }
}

/// The pixels of one window along one axis: every `step`-th of `start..end`.
struct Window {
    start: usize,
    end: usize,
    step: usize,
    /// Length with the padding that it covers.
    size: usize,
}

impl Window {
    /// The windows along both axes: those of `spec`, or such as divide the plane into `size` parts.
    fn axes(spec: Option<&Pool2d>, input: [usize; 2], size: [usize; 2]) -> [Vec<Self>; 2] {
        match spec {
            Some(spec) => spec.windows(input),
            None => std::array::from_fn(|i| Self::adaptive(input[i], size[i])),
        }
    }

    /// Windows that divide `input` pixels into `output` parts as evenly as possible, overlapping where they must.
    fn adaptive(input: usize, output: usize) -> Vec<Self> {
        (0..output)
            .map(|i| {
                let (start, end) = (i * input / output, ((i + 1) * input).div_ceil(output));
                Self { start, end, step: 1, size: end - start }
            })
            .collect()
    }

    /// For each of `input` pixels the windows that cover it.
    fn covering(windows: &[Self], input: usize) -> Vec<Vec<usize>> {
        let mut covering = vec![Vec::new(); input];
        for (i, window) in windows.iter().enumerate() {
            window.pixels().for_each(|pixel| covering[pixel].push(i));
        }
        covering
    }

    fn pixels(&self) -> std::iter::StepBy<std::ops::Range<usize>> {
        (self.start..self.end).step_by(self.step)
    }
}
