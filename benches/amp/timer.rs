//! Median wall time of a closure, sampled as `torch_bench.py` does.

use amp::Result;
use std::time::Instant;

/// Every sample lasts at least `FLOOR` seconds (short calls are looped), there are at least `repeat` samples, and sampling
/// goes on until `budget` seconds are spent.
#[derive(Debug)]
pub struct Timer {
    repeat: usize,
    budget: f64,
}

/// Seconds per call.
#[derive(Clone, Debug)]
pub struct Timing {
    sorted: Vec<f64>,
}

const FLOOR: f64 = 2e-4;
const MOST_SAMPLES: usize = 400;
const WARM_UP: f64 = 0.15;
/// Calls slower than this are timed once.
const HOPELESS: f64 = 3.0;

impl Timer {
    /// At least `repeat` samples and `budget` seconds.
    pub fn new(repeat: usize, budget: f64) -> Self {
        Self { repeat, budget }
    }

    /// Measures `call`; what it returns is dropped inside the measured time, as Python does.
    pub fn time<T>(&self, mut call: impl FnMut() -> Result<T>) -> Result<Timing> {
        let mut timed = |times: usize| -> Result<f64> {
            let start = Instant::now();
            for _ in 0..times {
                std::hint::black_box(call()?);
            }
            Ok(start.elapsed().as_secs_f64() / times as f64)
        };
        let first = timed(1)?;
        if first > HOPELESS {
            return Ok(Timing { sorted: vec![first] });
        }
        let inner = (FLOOR / timed(1)?.max(1e-9)).max(1.0) as usize;
        let warm = Instant::now();
        while warm.elapsed().as_secs_f64() < WARM_UP.min(self.budget / 2.0) {
            timed(1)?;
        }
        let mut samples = Vec::new();
        self.sample(|| {
            samples.push(timed(inner)?);
            Ok(())
        })?;
        Ok(Timing::new(samples))
    }

    /// Calls `sample`, which measures by itself, as often as a measurement should be repeated.
    pub fn sample(&self, mut sample: impl FnMut() -> Result<()>) -> Result<()> {
        let (mut count, start) = (0, Instant::now());
        while count < self.repeat || (start.elapsed().as_secs_f64() < self.budget && count < MOST_SAMPLES) {
            sample()?;
            count += 1;
        }
        Ok(())
    }
}

impl Timing {
    /// Samples, in seconds.
    pub fn new(mut samples: Vec<f64>) -> Self {
        samples.sort_by(f64::total_cmp);
        Self { sorted: samples }
    }

    /// Median in milliseconds.
    pub fn ms(&self) -> f64 {
        self.median() * 1e3
    }

    /// Median, as the samples were given.
    pub fn median(&self) -> f64 {
        let middle = self.sorted.len() / 2;
        match self.sorted.len() % 2 {
            0 => (self.sorted[middle - 1] + self.sorted[middle]) / 2.0,
            _ => self.sorted[middle],
        }
    }

    /// Fastest sample in milliseconds.
    pub fn ms_min(&self) -> f64 {
        self.sorted[0] * 1e3
    }

    /// Ninetieth percentile in milliseconds.
    pub fn ms_p90(&self) -> f64 {
        self.sorted[(self.sorted.len() as f64 * 0.9) as usize] * 1e3
    }

    /// Number of samples.
    pub fn samples(&self) -> usize {
        self.sorted.len()
    }
}
