//! The table against the list it was made from: `reference.csv`, PyTorch 2.15's dispatcher dumped by name.

use amp_policy::{Class, Op, all, find};
use std::collections::{HashMap, HashSet};

struct Listed {
    cuda: &'static str,
}

fn listed() -> HashMap<&'static str, Listed> {
    include_str!("reference.csv")
        .lines()
        .skip(1)
        .map(|line| {
            let mut cells = line.split(',');
            let name = cells.next().expect("a name");
            (name, Listed { cuda: cells.nth(1).expect("a CUDA class") })
        })
        .collect()
}

/// What PyTorch's CUDA list asks for, and `None` where it leaves the operation alone.
fn class_on_cuda(op: &Listed) -> Option<Class> {
    match op.cuda {
        "lower" => Some(Class::Lower),
        "promote" => Some(Class::Widest),
        "banned" => Some(Class::Banned),
        "neutral" => None,
        full if full.starts_with("fp32") => Some(Class::Full),
        other => panic!("unknown class {other} in reference.csv"),
    }
}

#[test]
fn every_listed_operation_has_a_row() {
    let rows: HashSet<_> = all().map(|op| op.torch).collect();
    let missing: Vec<_> = listed().into_keys().filter(|name| !rows.contains(name)).collect();
    assert!(missing.is_empty(), "no row for {missing:?}");
}

#[test]
fn a_class_is_pytorchs_or_says_why_not() {
    let listed = listed();
    for op in all() {
        let cuda = class_on_cuda(&listed[op.torch]);
        let follows = match cuda {
            Some(class) => class == op.class,
            // Left alone means native type promotion: one tensor keeps its type, several meet at the widest.
            None => matches!(op.class, Class::Keep | Class::Widest),
        };
        assert_eq!(follows, op.departure.is_none(), "{}: {:?} here, {cuda:?} on CUDA", op.name, op.class);
    }
}

#[test]
fn names_are_unique() {
    let mut seen = HashSet::new();
    for op in all() {
        assert!(seen.insert(op.name), "two rows for {}", op.name);
    }
}

#[test]
fn lookup_is_const_and_finds_every_row() {
    const MATMUL: Option<&Op> = find("matmul");
    assert_eq!(MATMUL.map(|op| op.class), Some(Class::Lower));
    assert!(find("").is_none() && find("matmu").is_none() && find("matmul ").is_none());
    for op in all() {
        assert_eq!(find(op.name).map(|found| found.torch), Some(op.torch));
    }
}

#[test]
fn banned_operations_name_a_safe_one() {
    for op in all() {
        let safe = op.replacement.and_then(find);
        assert_eq!(op.class == Class::Banned, safe.is_some(), "{}", op.name);
        assert!(safe.is_none_or(|op| op.class == Class::Full));
    }
}

#[test]
fn every_row_has_a_reason_and_a_line_in_the_reference() {
    let text = amp_policy::markdown();
    for op in all() {
        assert!(!op.reason.is_empty(), "{}", op.name);
        assert!(!(op.implemented && op.instead.is_some()), "{} is here, and so is what stands for it", op.name);
        assert!(text.contains(&format!("| `{}` | `{}` | {} |", op.name, op.torch, op.class)));
    }
}

/// `AMP_RENEW=1 cargo test -p amp-policy` writes the document anew.
#[test]
fn the_document_shows_every_row_as_it_is() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/POLICY.md");
    let text = std::fs::read_to_string(path).expect("a readable POLICY.md");
    let (introduction, _) = text.split_once("| operation |").expect("a table");
    let renewed = format!("{introduction}{}", amp_policy::markdown());
    if std::env::var_os("AMP_RENEW").is_some() {
        std::fs::write(path, &renewed).expect("a writable POLICY.md");
    } else {
        assert!(text == renewed, "POLICY.md is not what the table says");
    }
}
