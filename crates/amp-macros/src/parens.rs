//! Parentheses that what stands around them needs: a region may put the expression where nothing does.

use proc_macro2::{Delimiter, Group, Span, TokenStream};
use syn::visit_mut::{self, VisitMut};
use syn::{Block, Expr, ExprParen};

/// Makes the compiler say nothing of the use of such parentheses.
pub(crate) fn quiet(block: &Block) -> Block {
    let mut block = block.clone();
    Needed.visit_block_mut(&mut block);
    block
}

struct Needed;

impl VisitMut for Needed {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        visit_mut::visit_expr_mut(self, expr);
        match expr {
            Expr::MethodCall(call) => disown(&mut call.receiver),
            Expr::Reference(inner) => disown(&mut inner.expr),
            Expr::Binary(both) => {
                disown(&mut both.left);
                disown(&mut both.right);
            }
            _ => {}
        }
    }
}

/// Makes parentheses those of the expansion, which lints leave alone.
fn disown(expr: &mut Expr) {
    if let Expr::Paren(paren) = expr {
        own(paren);
    }
}

fn own(paren: &mut ExprParen) {
    let mut group = Group::new(Delimiter::Parenthesis, TokenStream::new());
    group.set_span(Span::mixed_site().located_at(paren.paren_token.span.join()));
    paren.paren_token.span = group.delim_span();
}

/// The same of parentheses around what a region has rewritten: without them the compiler would suggest what it takes for it.
pub(crate) fn quiet_around(paren: &mut ExprParen) {
    if let Expr::Verbatim(_) = *paren.expr {
        own(paren);
    }
}
