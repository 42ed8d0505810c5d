//! The reference table as text.

use crate::{Op, all};
use std::fmt::Write;

/// The reference table in Markdown, as `POLICY.md` and the documentation show it.
pub fn markdown() -> String {
    let mut out = String::from("| operation | PyTorch | class | here | reason |\n|---|---|---|---|---|\n");
    for op in all() {
        let here = op.instead.unwrap_or(if op.implemented { "yes" } else { "no" });
        // Writing to a String cannot fail.
        let _ = writeln!(out, "| `{}` | `{}` | {} | {here} | {} |", op.name, op.torch, op.class, reason(op));
    }
    out
}

fn reason(op: &Op) -> String {
    let mut text = op.reason.replace('|', "\\|");
    if let Some(why) = op.departure {
        let _ = write!(text, "; departs from PyTorch: {why}");
    }
    if let Some(name) = op.replacement {
        let _ = write!(text, "; use `{name}`");
    }
    text
}
