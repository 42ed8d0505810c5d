//! What a training run leaves behind, and the table of several.

use super::Precision;
use amp::optim::Step;
use amp::{GradScaler, Result};
use std::time::Duration;

/// One run of a training loop.
#[derive(Debug)]
pub struct Run {
    /// Recipe of the run.
    pub precision: Precision,
    /// Score on held-out data, by the example's own measure.
    pub score: f64,
    /// Passes over the training data.
    pub epochs: usize,
    /// Training loss of each step.
    pub losses: Vec<f32>,
    /// Loss scale after each step; empty without a scaler.
    pub scales: Vec<f32>,
    /// Steps that the scaler skipped.
    pub skipped: usize,
    /// Wall time of the training epochs, evaluation left out.
    pub training_time: Duration,
    /// Peak of [`amp::saved_bytes`].
    pub saved_bytes: usize,
}

impl Run {
    /// An empty record.
    pub fn new(precision: Precision, epochs: usize) -> Self {
        let (losses, scales) = (Vec::new(), Vec::new());
        Self {
            precision,
            score: 0.0,
            epochs,
            losses,
            scales,
            skipped: 0,
            training_time: Duration::ZERO,
            saved_bytes: 0,
        }
    }

    /// Adds one step.
    pub fn record(&mut self, loss: f32, scaler: &GradScaler, step: &Step) -> Result<()> {
        self.losses.push(loss);
        if scaler.is_enabled() {
            self.scales.push(scaler.scale_value()?);
        }
        self.count_skipped(scaler, step)
    }

    /// Counts a step that was skipped: what [`record`](Self::record) does, for further optimizers.
    pub fn count_skipped(&mut self, scaler: &GradScaler, step: &Step) -> Result<()> {
        if scaler.is_enabled() {
            self.skipped += usize::from(!step.was_taken()?);
        }
        Ok(())
    }

    /// Mean loss of the last steps, for a progress bar.
    pub fn recent_loss(&self) -> f32 {
        let last = &self.losses[self.losses.len().saturating_sub(20)..];
        last.iter().sum::<f32>() / last.len() as f32
    }

    /// Mean loss of the last epoch.
    pub fn final_loss(&self) -> f32 {
        let last = &self.losses[self.losses.len() - self.losses.len() / self.epochs.max(1)..];
        last.iter().sum::<f32>() / last.len() as f32
    }

    fn row(&self) -> [String; 7] {
        [
            self.precision.to_string(),
            format!("{:.2}", self.score),
            format!("{:.4}", self.final_loss()),
            format!("{:.1} ms", self.training_time.as_secs_f64() * 1e3 / self.epochs.max(1) as f64),
            bytes(self.saved_bytes),
            self.scales.last().map_or("-".into(), f32::to_string),
            if self.scales.is_empty() { "-".into() } else { self.skipped.to_string() },
        ]
    }
}

/// The table of several runs; `score` names the measure.
pub fn table(score: &str, runs: &[Run]) -> String {
    let head = ["precision", score, "final loss", "time per epoch", "peak saved", "final scale", "skipped steps"];
    let rows: Vec<_> = std::iter::once(head.map(String::from)).chain(runs.iter().map(Run::row)).collect();
    aligned(&rows)
}

/// Mean and deviation of several seeds' runs, each in the same precisions; differences are those from the first precision,
/// seed by seed.
pub fn summary(score: &str, seeds: &[Vec<Run>]) -> String {
    let head = ["precision", score, "final loss", "difference in score", "difference in loss"].map(String::from);
    let row = |i: usize| {
        let of = |value: &dyn Fn(&Run) -> f64| spread(seeds.iter().map(|runs| value(&runs[i])));
        let from_first =
            |value: &dyn Fn(&Run) -> f64| spread(seeds.iter().map(|runs| value(&runs[i]) - value(&runs[0])));
        let loss = |run: &Run| f64::from(run.final_loss());
        let [score, score_off] = [of(&|run| run.score), from_first(&|run| run.score)];
        [seeds[0][i].precision.to_string(), score, of(&loss), score_off, from_first(&loss)]
    };
    let rows: Vec<_> = std::iter::once(head).chain((0..seeds[0].len()).map(row)).collect();
    aligned(&rows)
}

/// Mean ± standard deviation.
fn spread(values: impl ExactSizeIterator<Item = f64> + Clone) -> String {
    let n = values.len() as f64;
    let mean = values.clone().sum::<f64>() / n;
    let variance = values.map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    format!("{mean:.4} ± {:.4}", variance.sqrt())
}

/// Columns aligned to the right, the first row underlined.
pub fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let widths: [usize; N] = std::array::from_fn(|i| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0));
    let line = |row: &[String; N]| -> String {
        let cells: Vec<_> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        cells.join("  ") + "\n"
    };
    let mut text = String::new();
    for (i, row) in rows.iter().enumerate() {
        text += &line(row);
        if i == 0 {
            text += &line(&widths.map(|width| "-".repeat(width)));
        }
    }
    text
}

fn bytes(count: usize) -> String {
    match count {
        0..10_240 => format!("{count} B"),
        10_240..10_485_760 => format!("{:.1} KiB", count as f64 / 1024.0),
        _ => format!("{:.1} MiB", count as f64 / 1_048_576.0),
    }
}
