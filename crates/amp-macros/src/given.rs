//! What an expression gives away.

use syn::visit::{Visit, visit_expr};
use syn::{BinOp, Expr};

/// The variables that an expression names by value, whole or in part, by the way it is written.
pub(crate) fn given(expr: &Expr) -> Vec<String> {
    let mut found = Given(Vec::new());
    found.visit_expr(expr);
    found.0
}

struct Given(Vec<String>);

impl Given {
    /// What is borrowed, called or taken an element of stays where it is.
    fn lent(&mut self, expr: &Expr) {
        match expr {
            Expr::Path(_) => {}
            Expr::Field(field) => self.lent(&field.base),
            Expr::Paren(inner) => self.lent(&inner.expr),
            expr => self.visit_expr(expr),
        }
    }
}

impl Visit<'_> for Given {
    fn visit_expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Path(path) => self.0.extend(path.path.get_ident().map(ToString::to_string)),
            Expr::Reference(inner) => self.lent(&inner.expr),
            Expr::Unary(unary) => self.lent(&unary.expr),
            Expr::Assign(assign) => {
                self.lent(&assign.left);
                self.visit_expr(&assign.right);
            }
            Expr::Index(index) => {
                self.lent(&index.expr);
                self.visit_expr(&index.index);
            }
            Expr::MethodCall(call) => {
                self.lent(&call.receiver);
                call.args.iter().for_each(|arg| self.visit_expr(arg));
            }
            Expr::Call(call) => {
                self.lent(&call.func);
                call.args.iter().for_each(|arg| self.visit_expr(arg));
            }
            Expr::Binary(binary) if matches!(binary.op, BinOp::Eq(_) | BinOp::Ne(_)) => {
                self.lent(&binary.left);
                self.lent(&binary.right);
            }
            expr => visit_expr(self, expr),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::given;

    #[test]
    fn what_stands_by_value_is_given_away() {
        for (text, names) in [
            ("f(&a, b)", "b"),
            ("a.relu()?.matmul(&b)", ""),
            ("{ let c = a.0; &b[i] + c }", "a i c"),
            ("Out { x: a, y: b.len() }", "a"),
            ("if a == b { return c } else { *d }", "c"),
            ("move || [a, b.c]", "a b"),
            ("match a { Some(x) => x, None => b }", "a x b"),
            ("{ a = b; a += c; }", "b a c"),
        ] {
            assert_eq!(given(&syn::parse_str(text).unwrap()).join(" "), names, "{text}");
        }
    }
}
