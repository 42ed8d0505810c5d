//! Records of one process: a line each on the terminal, all of them as JSON.

use crate::Precision;
use crate::timer::Timing;

/// Collects the records of one case in one precision.
#[derive(Debug)]
pub struct Report {
    case: String,
    precision: Precision,
    threads: u16,
    records: Vec<String>,
}

impl Report {
    /// An empty report.
    pub fn new(case: &str, precision: Precision, threads: u16) -> Self {
        Self { case: case.into(), precision, threads, records: Vec::new() }
    }

    /// Adds a measurement and further figures of it.
    pub fn add(&mut self, name: &str, timing: &Timing, extra: &[(&str, f64)]) {
        let (ms, least) = (timing.ms(), timing.ms_min());
        let notes: String = extra.iter().map(|(key, value)| format!("  {key} {value:.4}")).collect();
        println!("{name:46} {:5} t{} {ms:10.4} ms (min {least:.4}){notes}", self.precision.name(), self.threads);
        let extra: String = extra.iter().map(|(key, value)| format!(r#", "{key}": {value}"#)).collect();
        self.records.push(format!(
            r#"{{"system": "amp", "case": "{}", "name": "{name}", "precision": "{}", "threads": {}, "ms": {ms}, "ms_min": {least}, "ms_p90": {}, "samples": {}{extra}}}"#,
            self.case,
            self.precision.name(),
            self.threads,
            timing.ms_p90(),
            timing.samples(),
        ));
    }

    /// All records as a JSON array. Names are plain ASCII without quotes.
    pub fn json(&self) -> String {
        format!("[{}]\n", self.records.join(",\n "))
    }
}
