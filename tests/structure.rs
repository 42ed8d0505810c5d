//! Rules about the repository itself: who may import whom, where `unsafe` may stand, what documents may name.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// What each crate may import from its siblings (ARCHITECTURE.md).
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("amp-policy", &[]),
    ("amp-cpu", &[]),
    ("amp-macros", &["amp-policy"]),
    ("amp-core", &["amp-policy", "amp-cpu"]),
    ("amp-cuda", &["amp-core"]),
    ("amp", &["amp-policy", "amp-cpu", "amp-macros", "amp-core", "amp-cuda"]),
];

/// Crate roots that must carry `#![forbid(unsafe_code)]`.
const SAFE_CRATES: &[&str] =
    &["src/lib.rs", "crates/amp-core/src/lib.rs", "crates/amp-macros/src/lib.rs", "crates/amp-policy/src/lib.rs"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Every file below `dir` with one of the extensions, build outputs and hidden folders left out.
fn files(dir: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display())) {
        let path = entry.expect("a readable folder entry").path();
        let name = path.file_name().expect("an entry has a name").to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "target" && name != "local" && name != "out" && !name.starts_with('.') {
                found.extend(files(&path, extensions));
            }
        } else if extensions.iter().any(|e| name.ends_with(e)) {
            found.push(path);
        }
    }
    found
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).expect("a path below the root").to_string_lossy().into_owned()
}

/// The line without its `//` comment and without what stands between double quotes.
fn code(line: &str) -> String {
    let (mut kept, mut quoted, mut previous) = (String::new(), false, ' ');
    for c in line.chars() {
        match c {
            '"' if previous != '\\' && previous != '\'' => quoted = !quoted,
            '/' if previous == '/' && !quoted => {
                kept.pop();
                break;
            }
            _ if !quoted => kept.push(c),
            _ => {}
        }
        previous = c;
    }
    kept
}

fn has_word(text: &str, word: &str) -> bool {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(word)
        .any(|(at, _)| !part(text[..at].chars().next_back()) && !part(text[at + word.len()..].chars().next()))
}

#[test]
fn crates_import_only_what_the_design_allows() {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo metadata runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo metadata writes JSON");
    let packages = metadata["packages"].as_array().expect("a list of packages");
    // Crates below tests/ are users of the library, not parts of it.
    let tests = root().join("tests");
    let part =
        |package: &&Value| !package["manifest_path"].as_str().is_some_and(|path| Path::new(path).starts_with(&tests));
    let packages: Vec<&Value> = packages.iter().filter(part).collect();
    assert_eq!(packages.len(), MAY_IMPORT.len(), "a crate without a rule in MAY_IMPORT");
    for package in packages {
        let name = package["name"].as_str().expect("a package has a name");
        let (_, allowed) = MAY_IMPORT.iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("no rule for {name}"));
        let dependencies = package["dependencies"].as_array().expect("a list of dependencies");
        // A crate's tests are users too.
        for dependency in dependencies.iter().filter(|dependency| dependency["kind"] != "dev") {
            let imported = dependency["name"].as_str().expect("a dependency has a name");
            let sibling = MAY_IMPORT.iter().any(|(n, _)| *n == imported);
            assert!(!sibling || allowed.contains(&imported), "{name} must not import {imported}");
        }
    }
}

#[test]
fn safe_crates_forbid_unsafe_code() {
    for path in SAFE_CRATES {
        assert!(read(&root().join(path)).contains("#![forbid(unsafe_code)]"), "{path} does not forbid unsafe code");
    }
}

#[test]
fn unsafe_stands_only_where_kernels_are() {
    for path in files(root(), &[".rs"]) {
        let name = relative(&path);
        let text = read(&path);
        let forbidden = SAFE_CRATES.iter().any(|root| name.starts_with(root.trim_end_matches("lib.rs")));
        // The tests of amp-cuda open shared libraries: the compiler and the stand-in driver.
        let kernel = name.starts_with("crates/amp-cpu/src/") || name.starts_with("crates/amp-cuda/tests/");
        // What does not compile does not run.
        let refused = name.starts_with("tests/ui/fail/");
        if forbidden || kernel || refused || !text.lines().any(|l| has_word(&code(l), "unsafe")) {
            continue;
        }
        let launch = name.starts_with("crates/amp-cuda/src/launch/");
        assert!(launch, "{name}: unsafe code belongs into amp-cpu or the launch code of amp-cuda");
    }
}

/// Whether the lines right above `at` (comments, attributes, the start of the same statement) contain `proof`.
fn proven(lines: &[&str], at: usize, proof: &str) -> bool {
    lines[at.saturating_sub(12)..=at].iter().rev().enumerate().any(|(distance, line)| {
        let text = line.trim_start();
        line.contains(proof) && (distance <= 3 || text.starts_with("//"))
    })
}

#[test]
fn every_unsafe_block_has_a_proof() {
    for path in files(&root().join("crates"), &[".rs"]) {
        let text = read(&path);
        let lines: Vec<&str> = text.lines().collect();
        for (i, line) in lines.iter().enumerate() {
            let code = code(line);
            let place = || format!("{}:{}", relative(&path), i + 1);
            if has_word(&code, "unsafe fn") && code.contains("pub") {
                assert!(proven(&lines, i, "# Safety"), "{}: no `# Safety` section", place());
            } else if has_word(&code, "unsafe impl") || code.contains("unsafe {") {
                assert!(proven(&lines, i, "SAFETY:"), "{}: no `SAFETY:` comment", place());
            }
        }
    }
}

#[test]
fn operations_on_a_gpu_stay_there() {
    // Downloads, reports on gradients, and the first try of an algorithm wait for the device; no operation has the host do its
    // work.
    let waiting = [("memory.rs", 1), ("optimizer.rs", 2), ("epilogue.rs", 1)];
    for path in files(&root().join("crates/amp-cuda/src/ops"), &[".rs"]) {
        let (text, name) = (read(&path), relative(&path));
        let brought = ["self.read(", ".download(", "CpuBackend"].map(|call| text.matches(call).count());
        let allowed =
            waiting.iter().find(|(file, _)| name.ends_with(&format!("/{file}"))).map_or(0, |(_, count)| *count);
        assert_eq!(brought, [allowed, 0, 0], "{name}");
    }
}

#[test]
fn nothing_is_left_open() {
    let open = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("to", "do!"),
        concat!("unimple", "mented!"),
        concat!("#[", "ignore"),
    ];
    for path in files(root(), &[".rs", ".md", ".cu", ".cuh", ".py", ".toml"]) {
        for (i, line) in read(&path).lines().enumerate() {
            for word in open {
                let found = if word.starts_with('#') { line.contains(word) } else { has_word(line, word) };
                assert!(!found, "{}:{}: {word}", relative(&path), i + 1);
            }
        }
    }
}

/// Spans in backticks and link targets that look like a path of this repository.
fn named_paths(text: &str) -> Vec<String> {
    let spans = text.split('`').skip(1).step_by(2);
    let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let extension = [".rs", ".md", ".toml", ".py", ".cu", ".cuh", ".safetensors", ".csv.gz", ".svg", ".lock", "/"];
    spans
        .chain(links)
        .filter(|s| !s.contains("://") && !s.starts_with('/') && !s.starts_with('#'))
        .filter(|s| s.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c)))
        .filter(|s| extension.iter().any(|e| s.ends_with(e)) && s.len() > 1)
        .map(str::to_owned)
        .collect()
}

#[test]
fn documents_name_only_files_that_exist() {
    let sources = ["", "src", "crates"].map(|d| root().join(d));
    let crates = MAY_IMPORT.iter().flat_map(|(name, _)| [format!("crates/{name}"), format!("crates/{name}/src")]);
    let places: Vec<PathBuf> = sources.into_iter().chain(crates.map(|c| root().join(c))).collect();
    for document in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        let path = root().join(document);
        if !path.exists() && !matches!(document, "README.md" | "ARCHITECTURE.md") {
            continue;
        }
        for named in named_paths(&read(&path)) {
            assert!(places.iter().any(|p| p.join(&named).exists()), "{document} names {named}, which does not exist");
        }
    }
}
