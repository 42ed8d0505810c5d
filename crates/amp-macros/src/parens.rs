//! Parentheses that what stands around them needs: a region may put the expression where nothing does. And names that need
//! not be written raw.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use syn::ext::IdentExt;
use syn::token::Paren;
use syn::visit_mut::{self, VisitMut};
use syn::{Block, Expr, ExprParen, LocalInit, MacroDelimiter, Signature, Type, TypeParen};

/// Makes the compiler say nothing of the use of such parentheses.
pub(crate) fn quiet(block: &Block) -> Block {
    let mut block = block.clone();
    Grouped.visit_block_mut(&mut block);
    Needed.visit_block_mut(&mut block);
    block
}

/// Writes parentheses where what `macro_rules` was given as an expression needs them: it stands in delimiters that nobody
/// has written, and those that a macro prints are nothing to the compiler's parser.
pub(crate) fn grouped(expr: &mut Expr) {
    bare(expr);
    Grouped.visit_expr_mut(expr);
}

/// The same of the types in a signature.
pub(crate) fn grouped_in(sig: &mut Signature) {
    Grouped.visit_signature_mut(sig);
}

struct Grouped;

impl VisitMut for Grouped {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Group(_) => enclose(expr),
            Expr::Call(call) => {
                enclose_field(&mut call.func);
                call.args.iter_mut().for_each(bare);
            }
            Expr::MethodCall(call) => {
                plain(&mut call.method);
                call.args.iter_mut().for_each(bare);
            }
            Expr::Path(path) => path.path.segments.iter_mut().skip(1).for_each(|segment| plain(&mut segment.ident)),
            // A `<` behind it would begin its arguments.
            Expr::Cast(cast) => enclose_type(&mut cast.ty),
            _ => {}
        }
        visit_mut::visit_expr_mut(self, expr);
    }

    fn visit_local_init_mut(&mut self, init: &mut LocalInit) {
        // An `else` does not follow a brace.
        if init.diverge.is_none() {
            bare(&mut init.expr);
        }
        visit_mut::visit_local_init_mut(self, init);
    }

    fn visit_type_mut(&mut self, ty: &mut Type) {
        // What is behind `&` ends at the first `+`.
        if matches!(ty, Type::Group(group) if matches!(*group.elem, Type::TraitObject(_))) {
            enclose_type(ty);
        }
        visit_mut::visit_type_mut(self, ty);
    }
}

/// Writes a name as that of an operation is written, if it need not be raw: `x.r#matmul(w)`.
fn plain(name: &mut Ident) {
    let written = name.unraw();
    if written != *name && written != "gen" && syn::parse_str::<Ident>(&written.to_string()).is_ok() {
        *name = written;
    }
}

/// Takes an expression out of its delimiters, where nothing but the whole of it can be meant.
fn bare(expr: &mut Expr) {
    while let Expr::Group(group) = expr {
        *expr = std::mem::replace(&mut group.expr, Expr::Verbatim(TokenStream::new()));
    }
}

fn enclose(expr: &mut Expr) {
    let span = if let Expr::Group(group) = &*expr { group.group_token.span } else { return };
    bare(expr);
    if !is_one_piece(expr) {
        parenthesize(expr, span);
    }
}

/// A field that is called: without parentheses it would be a method.
fn enclose_field(func: &mut Expr) {
    if let Expr::Group(group) = &*func
        && let Expr::Field(_) = *group.expr
    {
        let span = group.group_token.span;
        bare(func);
        parenthesize(func, span);
    }
}

fn enclose_type(ty: &mut Type) {
    if let Type::Group(group) = ty {
        let (paren_token, elem) = (of_expansion(group.group_token.span), group.elem.clone());
        *ty = Type::Paren(TypeParen { paren_token, elem });
    }
}

fn parenthesize(expr: &mut Expr, span: Span) {
    let inner = std::mem::replace(expr, Expr::Verbatim(TokenStream::new()));
    *expr = Expr::Paren(ExprParen { attrs: Vec::new(), paren_token: of_expansion(span), expr: Box::new(inner) });
}

/// Whether no operator that stands beside an expression takes a part of it.
fn is_one_piece(expr: &Expr) -> bool {
    match expr {
        Expr::Path(_) | Expr::Lit(_) | Expr::Paren(_) | Expr::Tuple(_) | Expr::Array(_) | Expr::Repeat(_) => true,
        Expr::Field(_) | Expr::Index(_) | Expr::Call(_) | Expr::MethodCall(_) | Expr::Try(_) | Expr::Await(_) => true,
        Expr::Macro(call) => !matches!(call.mac.delimiter, MacroDelimiter::Brace(_)),
        _ => false,
    }
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
    paren.paren_token = of_expansion(paren.paren_token.span.join());
}

fn of_expansion(at: Span) -> Paren {
    let mut group = Group::new(Delimiter::Parenthesis, TokenStream::new());
    group.set_span(Span::mixed_site().located_at(at));
    Paren { span: group.delim_span() }
}

/// The same of parentheses around what a region has rewritten: without them the compiler would suggest what it takes for it.
pub(crate) fn quiet_around(paren: &mut ExprParen) {
    if let Expr::Verbatim(_) = *paren.expr {
        own(paren);
    }
}
