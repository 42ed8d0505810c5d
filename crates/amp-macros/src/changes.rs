//! What a body may change through exclusive references, by the way it is written.
//!
//! A variable that is not `mut` may be such a reference, or hold one; only some types say that it is none. What is named
//! neither where it is assigned to, nor borrowed exclusively, nor given to somebody else, stays as it is all the same.

use crate::emit::names;
use crate::region;
use crate::rules::{Rule, Rules};
use crate::walk::consumed::{consumed_by, passes_on, takes_function};
use quote::ToTokens;
use syn::parse::Parser;
use syn::visit::{self, Visit};
use syn::{BinOp, Block, Expr, ExprMethodCall, ItemMacro, Macro, UnOp};

/// Methods that are no operations and only look at what they are called on.
const LOOKING: &[&str] = &[
    "iter", "len", "is_empty", "as_ref", "first", "last", "get", "to_owned", "dims", "size", "rank", "count", "device",
];

/// The places that may change: variables and fields of them, `s.k`.
#[derive(Default)]
pub(crate) struct Changes {
    whole: Vec<String>,
    /// Places of which only what is in their fields may change: they are borrowed by a method, which may not be a tensor's.
    within: Vec<String>,
    /// The names in macros that the body defines: who calls them uses these variables, and it is not seen how.
    in_macros: Vec<String>,
}

impl Changes {
    pub(crate) fn of(body: &Block, rules: &Rules) -> Self {
        let mut search = Search { rules, found: Self::default(), consumed: false };
        search.visit_block(body);
        search.found
    }

    /// Whether a macro that the body defines names this variable.
    pub(crate) fn in_macros(&self, variable: &str) -> bool {
        self.in_macros.iter().any(|name| name == variable)
    }

    /// Whether a place, or what it is a part of, may change, or what is a part of it.
    pub(crate) fn reach(&self, place: &str) -> bool {
        self.whole.iter().any(|changed| lies_in(place, changed) || lies_in(changed, place))
            || self.within.iter().any(|changed| place != changed && lies_in(place, changed))
    }
}

/// Whether a place is the other one or a part of it.
fn lies_in(place: &str, other: &str) -> bool {
    place.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// A variable or a field of one; of an element, what holds it.
fn place(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Path(path) => path.path.get_ident().map(ToString::to_string),
        Expr::Field(field) => Some(format!("{}.{}", place(&field.base)?, field.member.to_token_stream())),
        Expr::Index(index) => place(&index.expr),
        Expr::Unary(unary) if matches!(unary.op, UnOp::Deref(_)) => place(&unary.expr),
        Expr::Paren(inner) => place(&inner.expr),
        Expr::Group(inner) => place(&inner.expr),
        _ => None,
    }
}

/// `+=` and the like.
fn assigns(op: BinOp) -> bool {
    op.to_token_stream().to_string().ends_with('=')
        && !matches!(op, BinOp::Eq(_) | BinOp::Ne(_) | BinOp::Le(_) | BinOp::Ge(_))
}

struct Search<'a> {
    rules: &'a Rules,
    found: Changes,
    /// What is visited next is used up where it stands, with the closures in it.
    consumed: bool,
}

impl Search<'_> {
    /// What is assigned to or borrowed exclusively.
    fn change(&mut self, expr: &Expr) {
        self.found.whole.extend(place(expr));
        self.look(expr);
    }

    /// What is only looked at, if it is a place: the places that it is found by are too.
    fn look(&mut self, expr: &Expr) {
        match expr {
            Expr::Path(_) => {}
            Expr::Field(field) => self.look(&field.base),
            Expr::Index(index) => {
                self.look(&index.expr);
                self.look(&index.index);
            }
            Expr::Unary(unary) => self.look(&unary.expr),
            Expr::Paren(inner) => self.look(&inner.expr),
            Expr::Group(inner) => self.look(&inner.expr),
            Expr::Reference(inner) if inner.mutability.is_none() => self.look(&inner.expr),
            expr => self.visit_expr(expr),
        }
    }

    fn method(&mut self, call: &ExprMethodCall) {
        let name = call.method.to_string();
        let operation = self.rules.find(&name).is_some_and(|found| found.rule != Rule::Skip);
        match place(&call.receiver) {
            Some(receiver) if operation || LOOKING.contains(&name.as_str()) => self.found.within.push(receiver),
            changed => self.found.whole.extend(changed),
        }
        let consumed = consumed_by(&name, self.consumed);
        self.consumed = consumed;
        self.look(&call.receiver);
        self.consumed = false;
        for (i, arg) in call.args.iter().enumerate() {
            let function = consumed && i + 1 == call.args.len() && takes_function(&name);
            if operation || function { self.look(arg) } else { self.visit_expr(arg) }
        }
    }
}

impl Visit<'_> for Search<'_> {
    fn visit_expr(&mut self, expr: &Expr) {
        self.consumed &= passes_on(expr);
        match expr {
            Expr::Path(_) | Expr::Field(_) | Expr::Index(_) => self.change(expr),
            Expr::Unary(unary) if matches!(unary.op, UnOp::Deref(_)) => self.change(expr),
            Expr::Reference(inner) if inner.mutability.is_some() => self.change(&inner.expr),
            Expr::Reference(_) | Expr::Unary(_) => self.look(expr),
            Expr::Assign(assign) => {
                // What is not `mut` gets its only value so.
                if !matches!(*assign.left, Expr::Path(_)) {
                    self.change(&assign.left);
                }
                self.visit_expr(&assign.right);
            }
            Expr::Binary(binary) => {
                if assigns(binary.op) {
                    self.change(&binary.left)
                } else {
                    self.look(&binary.left)
                }
                self.look(&binary.right);
            }
            Expr::MethodCall(call) => self.method(call),
            // What is called holds no tensors that it could be asked for.
            Expr::Call(call) => {
                self.look(&call.func);
                call.args.iter().for_each(|arg| self.visit_expr(arg));
            }
            Expr::Verbatim(tokens) => self.found.whole.extend(names(tokens)),
            expr => visit::visit_expr(self, expr),
        }
    }

    fn visit_item_macro(&mut self, item: &ItemMacro) {
        self.found.in_macros.extend(names(&item.mac.tokens));
        self.visit_macro(&item.mac);
    }

    /// Of the tokens of a macro nobody knows what becomes of them, but of those of a region.
    fn visit_macro(&mut self, mac: &Macro) {
        let is_region = mac.path.segments.last().is_some_and(|last| last.ident == "amp_region");
        match is_region.then(|| region::parse.parse2(mac.tokens.clone())) {
            Some(Ok((args, body))) => args.enabled.iter().chain([&body]).for_each(|expr| self.visit_expr(expr)),
            _ => self.found.whole.extend(names(&mac.tokens)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Changes;
    use crate::rules::Rules;

    #[test]
    fn what_is_only_looked_at_does_not_change() {
        for (text, changed, kept) in [
            ("{ *k = u.clone(); }", "k k.a", "u"),
            ("{ s.k += u; s.list[i].n = 1; }", "s s.k s.list", "s.w u i"),
            ("{ let k; k = x; }", "x", "k"),
            ("{ let r = &mut s.k; let v = &w.k; }", "s s.k", "s.w w w.k"),
            ("{ up(k, &u); s.k.up(u.len()); f(*r); }", "k s.k s r", "u s.w"),
            ("{ x.matmul(k)?.add(&s.k)?; -v * w }", "", "x k s.k v w"),
            ("{ s.add(k); s.iter(); }", "s.k", "s k"),
            ("{ all.last_mut().unwrap().k = u[0].relu()?; }", "all", "u"),
            ("{ if let Some(k) = s.slot { renew!(k.w) } }", "s.slot k.w w", "s.k"),
            ("{ amp_region!(f32, { *k = x.relu()? }) }", "k", "x"),
            ("{ amp_region!(f32, enabled = on(k), { *s.k = x.relu()? }) }", "k s.k", "x"),
            ("{ xs.iter().map(|x| x.matmul(k)).collect() }", "", "xs x k"),
            ("{ xs.iter().map(|x| f(&x)).collect::<Vec<_>>() }", "", "xs f"),
            ("{ xs.iter().map(head).collect()?; xs.last().map_or(k, add) }", "k", "xs head add"),
            ("{ let it = xs.iter().map(head); g(xs.iter().map(tail)).collect() }", "head tail", "xs"),
        ] {
            let changes = Changes::of(&syn::parse_str(text).unwrap(), &Rules::default());
            changed.split_whitespace().for_each(|place| assert!(changes.reach(place), "{text} changes {place}"));
            kept.split_whitespace().for_each(|place| assert!(!changes.reach(place), "{text} leaves {place}"));
        }
    }
}
