//! Files that are either whole or not there: written under a temporary name, then renamed.

use super::Failure;
use std::fs;
use std::path::{Path, PathBuf};

/// A place that a file can be written to, found out before the work starts.
#[derive(Debug)]
pub struct Output(PathBuf);

impl Output {
    /// Checks that a file of this name can be made.
    pub fn new(path: impl Into<PathBuf>, extension: &str) -> Result<Self, Failure> {
        let path = path.into();
        if path.extension().is_none_or(|e| !e.eq_ignore_ascii_case(extension)) {
            return Err(Failure::file(&path, format_args!("the plot is written as .{extension}, give such a name")));
        }
        if path.is_dir() {
            return Err(Failure::file(&path, "is a directory"));
        }
        let output = Self(path);
        let probe = output.temporary();
        fs::File::create_new(&probe).map_err(|e| Failure::file(output.path(), cannot_write(&e)))?;
        fs::remove_file(&probe).map_err(|e| Failure::file(&probe, cannot_write(&e)))?;
        Ok(output)
    }

    /// The name of the finished file.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes the file; an older one of that name is replaced at once or not at all.
    pub fn write(&self, contents: &str) -> Result<(), Failure> {
        let temporary = self.temporary();
        let written = fs::write(&temporary, contents).and_then(|()| fs::rename(&temporary, &self.0));
        written.map_err(|e| {
            fs::remove_file(&temporary).ok();
            Failure::file(&self.0, cannot_write(&e))
        })
    }

    fn temporary(&self) -> PathBuf {
        let mut name = self.0.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.tmp", std::process::id()));
        self.0.with_file_name(name)
    }
}

fn cannot_write(error: &std::io::Error) -> String {
    format!("cannot be written: {error}")
}
