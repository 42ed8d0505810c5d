//! Median wall time of a closure, sampled as `torch_bench.py` does.

use std::time::Instant;

/// Every sample lasts at least this many seconds.
const FLOOR: f64 = 2e-4;
/// Calls slower than this are timed once.
const HOPELESS: f64 = 3.0;

/// Measures and remembers.
pub struct Report {
    repeat: usize,
    budget: f64,
    records: Vec<String>,
}

impl Report {
    pub fn new(repeat: usize, budget: f64) -> Self {
        Self { repeat, budget, records: Vec::new() }
    }

    /// Adds the median time of `call` under `name`.
    pub fn time<T, E>(&mut self, name: &str, mut call: impl FnMut() -> Result<T, E>) -> Result<(), E> {
        let mut timed = |times: usize| -> Result<f64, E> {
            let start = Instant::now();
            for _ in 0..times {
                std::hint::black_box(call()?);
            }
            Ok(start.elapsed().as_secs_f64() / times as f64)
        };
        let first = timed(1)?;
        let mut samples = vec![first];
        if first <= HOPELESS {
            let inner = (FLOOR / timed(1)?.max(1e-9)).max(1.0) as usize;
            let start = Instant::now();
            samples.clear();
            while samples.len() < self.repeat || start.elapsed().as_secs_f64() < self.budget {
                samples.push(timed(inner)?);
            }
        }
        samples.sort_by(f64::total_cmp);
        let ms = samples[samples.len() / 2] * 1e3;
        println!("{name:46} {ms:10.4} ms");
        self.records.push(format!(r#"{{"name": "{name}", "ms": {ms}}}"#));
        Ok(())
    }

    /// All records as a JSON array.
    pub fn json(&self) -> String {
        format!("[{}]\n", self.records.join(",\n "))
    }
}
