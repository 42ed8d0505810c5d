//! Cells that are made in a body: what they hold is changed through them, and may be F32 then.

use super::Walker;
use super::path::is_pointer;
use super::tail::may_differ;
use crate::lattice::Value;
use syn::Expr;

const CELLS: &[&str] = &["RefCell", "Mutex", "RwLock"];

impl Walker<'_> {
    /// Walks and widens what a cell begins with; gives what is known of the cell.
    pub(super) fn begin_cell(&mut self, held: &mut Expr) -> Value {
        let value = self.expr(held);
        if may_differ(&value) && !self.cx.host {
            self.rewrite(held, |inner| self.widened(inner, &value));
        }
        value.kept().unwrap_or_else(Value::inferred)
    }
}

/// What a cell that is made here, or in a pointer, begins with: `RefCell::new(h)`, `Arc::new(Mutex::new(h))`.
pub(super) fn cell(expr: &mut Expr) -> Option<&mut Expr> {
    let Expr::Call(call) = expr else { return None };
    let Expr::Path(path) = &*call.func else { return None };
    let [kind, name] = path.path.segments.iter().rev().take(2).collect::<Vec<_>>()[..] else { return None };
    if kind.ident != "new" || call.args.len() != 1 {
        return None;
    }
    match CELLS.iter().any(|cell| name.ident == cell) {
        true => call.args.first_mut(),
        false if is_pointer(&path.path) => cell(call.args.first_mut()?),
        false => None,
    }
}
