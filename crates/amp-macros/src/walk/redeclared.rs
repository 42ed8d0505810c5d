//! Variables that a pattern binds and that are to be F32: what is taken out of something cannot be cast where it lies, so they are
//! declared once more where the pattern has matched.

use super::Walker;
use super::pattern::find_ident;
use crate::lattice::{Prec, Value};
use crate::scope::Var;
use quote::quote;
use syn::visit_mut::{self, VisitMut};
use syn::{BinOp, Block, Expr, ExprBlock, Pat, PatIdent, Stmt};

impl Walker<'_> {
    /// Makes those of the variables from `first` on that are in scope and have to be F32 so; gives statements for where what the
    /// patterns bind is used.
    pub(super) fn redeclared(&mut self, first: usize, pats: &mut [&mut Pat]) -> Vec<Stmt> {
        let mut again = Vec::new();
        for var in first..self.scopes.vars.len() {
            let name = self.scopes.vars[var].name().to_owned();
            let pat = pats.iter_mut().rev().find(|pat| find_ident(pat, &name).is_some());
            if let Some(pat) = pat.filter(|_| self.scopes.find(&name) == Some(var) && self.widens(var)) {
                let late = self.scopes.vars[var].value.late && !self.cx.host;
                self.widen(var);
                again.push(self.redeclare(pat, var, late));
            }
        }
        again
    }

    /// Whether a variable has to become F32 where it is declared.
    pub(super) fn widens(&self, var: usize) -> bool {
        let Var { value, open, .. } = &self.scopes.vars[var];
        let chosen = self.chosen(var) == Some(Prec::F32);
        chosen && !open && value.prec != Prec::Never && !value.is_surely(&Prec::F32)
    }

    /// A variable becomes F32 where it is declared.
    pub(super) fn widen(&mut self, var: usize) {
        self.scopes.vars[var].value = Value::sure(Prec::F32);
        self.scopes.vars[var].widened = true;
    }

    /// `let mut h = widened(h);` of a variable whose type may be found out `late`.
    fn redeclare(&self, pat: &mut Pat, var: usize, late: bool) -> Stmt {
        let var = &self.scopes.vars[var];
        let (name, made) = (var.name(), var.made);
        let ident = find_ident(pat, name).expect("a variable has an identifier in its pattern").clone();
        // What the pattern declares is not what changes.
        Unchanging(name).visit_pat_mut(pat);
        let value = if late {
            // What is assigned to it is a tensor: its type need not be asked.
            let target = self.target(&Prec::F32);
            Expr::Verbatim(quote!(__amp::late(#ident, #target)))
        } else {
            self.widened(Expr::Verbatim(quote!(#ident)), &Value { made, ..Value::opaque() })
        };
        Stmt::Expr(Expr::Verbatim(quote!(let mut #ident = #value;)), None)
    }
}

/// Makes the variable of this name one that does not change.
struct Unchanging<'a>(&'a str);

impl VisitMut for Unchanging<'_> {
    fn visit_pat_ident_mut(&mut self, pat: &mut PatIdent) {
        pat.mutability.take_if(|_| pat.ident == self.0);
        visit_mut::visit_pat_ident_mut(self, pat);
    }
}

/// The patterns of a condition: `let Some(h) = a && let Some(k) = b`.
pub(super) fn patterns_of(condition: &mut Expr) -> Vec<&mut Pat> {
    match condition {
        Expr::Let(one) => vec![&mut *one.pat],
        Expr::Binary(both) if matches!(both.op, BinOp::And(_)) => {
            let mut pats = patterns_of(&mut both.left);
            pats.extend(patterns_of(&mut both.right));
            pats
        }
        _ => Vec::new(),
    }
}

/// Puts statements in front of an expression.
pub(super) fn begin_with(stmts: Vec<Stmt>, expr: &mut Expr) {
    match expr {
        _ if stmts.is_empty() => {}
        Expr::Block(inner) if inner.label.is_none() && inner.attrs.is_empty() => {
            drop(inner.block.stmts.splice(0..0, stmts))
        }
        expr => {
            let inner = std::mem::replace(expr, Expr::Verbatim(Default::default()));
            let stmts = stmts.into_iter().chain([Stmt::Expr(inner, None)]).collect();
            let block = Block { brace_token: Default::default(), stmts };
            *expr = Expr::Block(ExprBlock { attrs: Vec::new(), label: None, block });
        }
    }
}
