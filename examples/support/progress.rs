//! Progress bars; silent when the output is not a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over `steps` steps with a name in front and a message behind.
pub fn bar(name: impl ToString, steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix:>6} [{bar:30}] {pos:>5}/{len} {elapsed}, {eta} left  {msg}")
        .expect("a fixed template")
        .progress_chars("=> ");
    ProgressBar::new(steps).with_style(style).with_prefix(name.to_string())
}
