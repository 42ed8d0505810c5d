//! How an example ends: exit code 2 for input that cannot be used, 1 for anything that goes wrong later.

use std::fmt;
use std::path::Path;
use std::process::ExitCode;

/// Why an example stops.
#[derive(Debug)]
pub enum Failure {
    /// What the user gave cannot be used: an option, a data file, a place to write to.
    Input(String),
    /// The library refused an operation.
    Library(amp::Error),
}

impl Failure {
    /// Trouble with a file: its name, then what is wrong with it.
    pub fn file(path: &Path, problem: impl fmt::Display) -> Self {
        Self::Input(format!("{}: {problem}", path.display()))
    }
}

impl From<amp::Error> for Failure {
    fn from(error: amp::Error) -> Self {
        Self::Library(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(text) => f.write_str(text),
            Self::Library(error) => error.fmt(f),
        }
    }
}

/// Prints the failure, if any, as clap prints its own, and turns it into an exit code.
pub fn finish(result: Result<(), Failure>) -> ExitCode {
    let Err(failure) = result else { return ExitCode::SUCCESS };
    eprintln!("error: {failure}");
    match failure {
        Failure::Input(_) => ExitCode::from(2),
        Failure::Library(_) => ExitCode::FAILURE,
    }
}
