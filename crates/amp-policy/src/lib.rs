//! The precision policy of every operation, as data.
//!
//! One row says in which precision an operation runs inside an autocast region, which of its arguments are
//! tensors, and why. The macros, the typed operations, the documentation, the printed plans and the tests are all
//! driven by these rows. Classes follow PyTorch's CUDA lists; a row that differs says so in [`Op::departure`].
//!
//! ```
//! use amp_policy::{Class, find};
//!
//! assert_eq!(find("matmul").unwrap().class, Class::Lower);
//! assert_eq!(find("softmax").unwrap().class, Class::Full);
//! assert!(find("my_op").is_none());
//! ```
//!
#![doc = include_str!("../POLICY.md")]
#![forbid(unsafe_code)]

mod half;
mod op;
mod render;
mod table;

pub use half::{Half, Part, Verdict};
pub use op::{Class, Family, Op};
pub use render::markdown;

use std::cmp::Ordering;

/// Every row, in the order of the reference table.
pub fn all() -> impl Iterator<Item = &'static Op> {
    table::GROUPS.iter().flat_map(|group| group.iter())
}

/// The row of the operation that is called `name` in this library.
///
/// Halves an index sorted by name: the macros ask for every call of a region, in a build without optimisation.
pub const fn find(name: &str) -> Option<&'static Op> {
    let (mut low, mut high) = (0, BY_NAME.len());
    while low < high {
        let middle = usize::midpoint(low, high);
        match compare(BY_NAME[middle].name, name) {
            Ordering::Equal => return Some(BY_NAME[middle]),
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
        }
    }
    None
}

/// Every row, sorted by its name.
static BY_NAME: [&Op; COUNT] = sorted();

const COUNT: usize = {
    let (mut count, mut group) = (0, 0);
    while group < table::GROUPS.len() {
        count += table::GROUPS[group].len();
        group += 1;
    }
    count
};

const fn sorted() -> [&'static Op; COUNT] {
    let mut rows = [&table::GROUPS[0][0]; COUNT];
    let (mut count, mut group) = (0, 0);
    while group < table::GROUPS.len() {
        let mut row = 0;
        while row < table::GROUPS[group].len() {
            insert(&mut rows, count, &table::GROUPS[group][row]);
            count += 1;
            row += 1;
        }
        group += 1;
    }
    rows
}

/// Puts `op` in its place among the first `count` rows, which are sorted.
const fn insert(rows: &mut [&'static Op; COUNT], count: usize, op: &'static Op) {
    let mut place = count;
    while place > 0 && matches!(compare(rows[place - 1].name, op.name), Ordering::Greater) {
        rows[place] = rows[place - 1];
        place -= 1;
    }
    rows[place] = op;
}

const fn compare(a: &str, b: &str) -> Ordering {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut i = 0;
    while i < a.len() && i < b.len() {
        if a[i] < b[i] {
            return Ordering::Less;
        }
        if a[i] > b[i] {
            return Ordering::Greater;
        }
        i += 1;
    }
    if a.len() < b.len() {
        Ordering::Less
    } else if a.len() > b.len() {
        Ordering::Greater
    } else {
        Ordering::Equal
    }
}
