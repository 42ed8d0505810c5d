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
#![forbid(unsafe_code)]

mod half;
mod op;
mod render;
mod table;

pub use half::{Half, Verdict};
pub use op::{Class, Family, Op};
pub use render::markdown;

/// Every row, in the order of the reference table.
pub fn all() -> impl Iterator<Item = &'static Op> {
    table::GROUPS.iter().flat_map(|group| group.iter())
}

/// The row of the operation that is called `name` in this library.
pub const fn find(name: &str) -> Option<&'static Op> {
    let mut group = 0;
    while group < table::GROUPS.len() {
        let rows = table::GROUPS[group];
        let mut row = 0;
        while row < rows.len() {
            if same(rows[row].name, name) {
                return Some(&rows[row]);
            }
            row += 1;
        }
        group += 1;
    }
    None
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}
