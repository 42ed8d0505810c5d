//! Programs that must not compile, and what the compiler says.
//!
//! The first line of each case says what the first error must contain, `//~ error: ..`; `//~ ^ here` stands below the
//! line it must point at. Both are held against the expected output, so that blessing cannot hide a change.
//! `TRYBUILD=overwrite cargo test -p amp-ui-tests` writes the expected output anew.

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn mistakes_do_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("fail/*/*.rs");
}

/// A constant beside what only a type tells is judged when code is generated: these are built, not only checked.
#[test]
fn mistakes_that_only_code_shows_do_not_build() {
    let cases = trybuild::TestCases::new();
    cases.pass("built/pass/*.rs");
    cases.compile_fail("built/fail/*.rs");
}

#[test]
fn the_first_error_says_what_the_case_expects() {
    let mut faults = Vec::new();
    let all = cases(Path::new("fail"));
    assert!(all.len() >= 90, "only {} cases", all.len());
    for case in all.into_iter().chain(cases(Path::new("built/fail"))) {
        if let Err(fault) = judge(&case) {
            faults.push(format!("{}: {fault}", case.display()));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn cases(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder of cases").map(|entry| entry.expect("an entry").path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let sources = files.into_iter().filter(|path| path.extension().is_some_and(|ext| ext == "rs"));
    sources.chain(folders.iter().flat_map(|folder| cases(folder))).collect()
}

fn judge(case: &Path) -> Result<(), String> {
    let source = fs::read_to_string(case).map_err(|error| error.to_string())?;
    let output = fs::read_to_string(case.with_extension("stderr")).map_err(|_| "no expected output".to_owned())?;
    let expected = source.lines().next().and_then(|line| line.strip_prefix("//~ error: ")).ok_or("no first line")?;
    let first = output.lines().find(|line| line.starts_with("error")).ok_or("no error")?;
    if !first.contains(expected) {
        return Err(format!("expected `{expected}`, found `{first}`"));
    }
    let count = output.lines().filter(|line| line.starts_with("error")).count();
    if count != 1 {
        return Err(format!("{count} errors instead of one"));
    }
    let Some(mark) = source.lines().position(|line| line.trim() == "//~ ^ here") else { return Ok(()) };
    // Lines count from 1, and the mark stands one below the place.
    let place = output.lines().find_map(|line| line.trim().strip_prefix("--> ")).ok_or("no place")?;
    let line = place.split(':').nth(1).and_then(|line| line.parse::<usize>().ok()).ok_or("no line")?;
    if line == mark { Ok(()) } else { Err(format!("expected line {mark}, found {line}")) }
}
