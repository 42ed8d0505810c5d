//! Who uses a closure up where it stands: what is cast for that lives as long as the statement. Anybody else may keep it.

use super::methods::handing;
use syn::Expr;

/// Methods that adapt an iterator, an option or a result by a closure or another iterator, which may be kept for later.
const HANDING_ON: &[&str] =
    &["map", "flat_map", "filter_map", "map_while", "inspect", "scan", "zip", "enumerate", "flatten"];
/// Methods that use an iterator, an option or a result up, and their closures: what they give keeps none of it.
const CONSUMING: &[&str] = &[
    "collect",
    "try_collect",
    "sum",
    "product",
    "count",
    "max",
    "min",
    "max_by",
    "min_by",
    "max_by_key",
    "min_by_key",
    "fold",
    "try_fold",
    "rfold",
    "try_rfold",
    "reduce",
    "try_reduce",
    "for_each",
    "try_for_each",
    "any",
    "all",
    "find",
    "find_map",
    "position",
    "partition",
    "unzip",
    "next",
    "nth",
    "last",
    "unwrap",
    "expect",
    "unwrap_or",
    "unwrap_or_else",
    "unwrap_or_default",
    "map_or",
    "map_or_else",
    "and_then",
    "or_else",
    "ok_or",
    "ok_or_else",
    "ok",
    "map_err",
    "with_context",
    "transpose",
    "then",
    "is_some_and",
    "is_none_or",
    "is_ok_and",
    "or_insert_with",
    "get_or_insert_with",
    "retain",
    "sort_by",
    "sort_by_key",
    "sort_unstable_by",
    "extend",
    "resize_with",
];

/// Of these methods those whose last argument is a value.
const OF_VALUES: &[&str] = &["zip", "nth", "expect", "unwrap_or", "ok_or", "extend"];

/// Whether what such a method is given last is a function, or a closure that a variable holds.
pub(crate) fn takes_function(name: &str) -> bool {
    !OF_VALUES.contains(&name)
}

/// Whether what such a method is called on is used up with its closures: by itself, or by who uses what it gives.
pub(crate) fn consumed_by(name: &str, outer: bool) -> bool {
    CONSUMING.contains(&name) || outer && hands_on(name)
}

/// Whether what is used up is what stands in an expression.
pub(crate) fn passes_on(expr: &Expr) -> bool {
    matches!(expr, Expr::MethodCall(_) | Expr::Try(_) | Expr::Paren(_))
}

/// Whether what is made of an iterator, an option or a result by this method keeps its closures, for the next method.
fn hands_on(name: &str) -> bool {
    HANDING_ON.contains(&name) || handing(name).is_some_and(|method| method.adapts)
}
