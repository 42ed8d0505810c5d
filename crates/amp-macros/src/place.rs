//! Where a module is, written so that its type can be asked for at another point of the function.

use crate::rules::Rules;
use crate::scope::Scopes;
use std::rc::Rc;
use syn::visit_mut::{self, VisitMut};
use syn::{Expr, ExprField, ExprPath, Member, parse_quote};

/// An expression that has a value's type; it is looked at and never run.
#[derive(Debug, PartialEq)]
pub(crate) struct Place {
    expr: Expr,
    /// What the names in it mean, in the order of a visit; `None` for what is no variable.
    names: Vec<Option<Mention>>,
}

/// A place at a point of the function.
pub(crate) struct View {
    pub(crate) expr: Expr,
    /// All its variables are in scope.
    pub(crate) whole: bool,
    /// The types of its variables are known there.
    pub(crate) typed: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct Mention {
    var: usize,
    origin: Option<Rc<Place>>,
}

impl Place {
    /// The place that an expression is, if it can be written again elsewhere.
    pub(crate) fn of(expr: &Expr, scopes: &Scopes, rules: &Rules) -> Option<Rc<Self>> {
        let mut names = Vec::new();
        is_repeatable(expr, rules, &mut |path| names.push(mention(path, scopes))).then_some(())?;
        Some(Rc::new(Self { expr: expr.clone(), names }))
    }

    /// What a variable without a name holds: its type cannot be asked for anywhere.
    pub(crate) fn unnamed(var: usize) -> Rc<Self> {
        Rc::new(Self { expr: parse_quote!(unnamed), names: vec![Some(Mention { var, origin: None })] })
    }

    /// An element of it, as a loop or a pattern takes it out.
    pub(crate) fn item(&self) -> Rc<Self> {
        let expr = &self.expr;
        Rc::new(Self { expr: parse_quote!(__amp::item(#expr)), names: self.names.clone() })
    }

    /// A field of it.
    pub(crate) fn field(&self, member: Member) -> Rc<Self> {
        let base = Box::new(parenthesised(self.expr.clone()));
        let expr = Expr::Field(ExprField { attrs: Vec::new(), base, dot_token: Default::default(), member });
        Rc::new(Self { expr, names: self.names.clone() })
    }

    /// The variables that it is made of, and those that these were made of.
    pub(crate) fn variables(&self) -> Vec<usize> {
        let mentions = self.names.iter().flatten();
        let origins = |mention: &Mention| mention.origin.as_ref().map(|origin| origin.variables()).unwrap_or_default();
        mentions.flat_map(|mention| origins(mention).into_iter().chain([mention.var])).collect()
    }

    /// The place at another point of the function. Instead of a variable that is not in scope there stands what it was made
    /// of.
    pub(crate) fn seen_from(&self, scopes: &Scopes) -> Option<View> {
        let mut expr = self.expr.clone();
        let mut seen = Seen { names: self.names.iter(), scopes, whole: true, typed: true, fails: false };
        seen.visit_expr_mut(&mut expr);
        (!seen.fails).then_some(View { expr, whole: seen.whole, typed: seen.typed })
    }
}

fn mention(path: &ExprPath, scopes: &Scopes) -> Option<Mention> {
    let var = scopes.find(&path.path.get_ident()?.to_string())?;
    Some(Mention { var, origin: scopes.vars[var].origin.clone() })
}

struct Seen<'a> {
    names: std::slice::Iter<'a, Option<Mention>>,
    scopes: &'a Scopes,
    whole: bool,
    typed: bool,
    fails: bool,
}

impl VisitMut for Seen<'_> {
    fn visit_expr_mut(&mut self, expr: &mut Expr) {
        let Expr::Path(path) = expr else { return visit_mut::visit_expr_mut(self, expr) };
        if path.path.get_ident().is_none() {
            return;
        }
        let name = path.path.get_ident().map(ToString::to_string).unwrap_or_default();
        let Some(Some(mention)) = self.names.next() else { return };
        if self.scopes.find(&name) == Some(mention.var) {
            let value = &self.scopes.vars[mention.var].value;
            self.typed &= !value.inferred && !value.late;
            return;
        }
        self.whole = false;
        match mention.origin.as_ref().and_then(|origin| origin.seen_from(self.scopes)) {
            Some(origin) => {
                self.typed &= origin.typed;
                *expr = parenthesised(origin.expr);
            }
            None => self.fails = true,
        }
    }
}

fn parenthesised(expr: Expr) -> Expr {
    match expr {
        Expr::Path(_) | Expr::Field(_) | Expr::Index(_) | Expr::MethodCall(_) | Expr::Call(_) | Expr::Paren(_) => expr,
        expr => parse_quote!((#expr)),
    }
}

/// Whether an expression has the same type wherever its variables have theirs: places, and calls of methods that are no
/// operations. `named` gets its names.
fn is_repeatable(expr: &Expr, rules: &Rules, named: &mut impl FnMut(&ExprPath)) -> bool {
    match expr {
        Expr::Path(path) => {
            if path.path.get_ident().is_some() {
                named(path);
            }
            path.qself.is_none()
        }
        Expr::Lit(_) => true,
        Expr::Field(field) => is_repeatable(&field.base, rules, named),
        Expr::Reference(inner) => is_repeatable(&inner.expr, rules, named),
        Expr::Paren(inner) => is_repeatable(&inner.expr, rules, named),
        Expr::Unary(inner) => is_repeatable(&inner.expr, rules, named),
        Expr::Index(index) => is_repeatable(&index.expr, rules, named) && is_repeatable(&index.index, rules, named),
        Expr::Binary(both) => is_repeatable(&both.left, rules, named) && is_repeatable(&both.right, rules, named),
        Expr::Array(array) => array.elems.iter().all(|elem| is_repeatable(elem, rules, named)),
        Expr::Tuple(tuple) => tuple.elems.iter().all(|elem| is_repeatable(elem, rules, named)),
        Expr::Range(range) => range.start.iter().chain(&range.end).all(|end| is_repeatable(end, rules, named)),
        Expr::MethodCall(call) => {
            let name = call.method.to_string();
            let operation = name.starts_with("forward") || name == "to" || rules.find(&name).is_some();
            !operation
                && is_repeatable(&call.receiver, rules, named)
                && call.args.iter().all(|arg| is_repeatable(arg, rules, named))
        }
        _ => false,
    }
}
