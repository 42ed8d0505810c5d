//! What every training example does around its training: seeds and precisions in turn, the tables, the plot.

use super::report::{self, Run};
use super::{Failure, Options, Output, Precision, plot};

/// What is compared, in words.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// Name of the example and of its plot.
    pub name: &'static str,
    /// Title of the plot.
    pub title: &'static str,
    /// What the score measures.
    pub score: &'static str,
}

/// Trains in every wanted precision from every wanted seed, prints the tables and writes the plot (of the first seed).
pub fn compare(
    options: &Options,
    subject: Subject,
    mut train: impl FnMut(Precision, u64) -> Result<Run, Failure>,
) -> Result<(), Failure> {
    let place = options.out.clone().unwrap_or_else(|| format!("{}.svg", subject.name).into());
    let plot_file = Output::new(place, "svg")?;
    let mut seeds: Vec<Vec<Run>> = Vec::new();
    for seed in (0..options.seeds).map(|i| options.seed.wrapping_add(i)) {
        let runs = options.precision.iter().map(|&precision| train(precision, seed)).collect::<Result<Vec<_>, _>>()?;
        if options.seeds > 1 {
            println!("seed {seed}");
        }
        print!("{}", report::table(subject.score, &runs));
        seeds.push(runs);
    }
    if options.seeds > 1 {
        print!("\nmean ± standard deviation over {} seeds\n{}", options.seeds, report::summary(subject.score, &seeds));
    }
    plot_file.write(&plot::svg(subject.title, &seeds[0]))?;
    println!("losses and loss scale: {}", plot_file.path().display());
    Ok(())
}
