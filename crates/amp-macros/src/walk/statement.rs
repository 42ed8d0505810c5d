//! Statements: `let`, expressions, macros, items.

use super::cell::cell;
use super::configured::{is_conditional, under};
use super::expect::{list_of_any, names_container};
use super::gathered::moves_on;
use super::methods::collects;
use super::pattern::has_struct;
use super::tupled::is_vector;
use super::{Expect, Growth, Walker};
use crate::emit;
use crate::lattice::{Prec, Value};
use crate::named;
use crate::parts;
use crate::pin::Pin;
use crate::place::Place;
use crate::scope::Hold;
use std::rc::Rc;
use syn::{
    Block, Expr, ExprMacro, GenericArgument, Item, ItemConst, ItemStatic, Local, LocalInit, Pat, PatIdent,
    PathArguments, Stmt, StmtMacro, Type, TypePath, parse_quote,
};

/// What the initial value of a declaration tells before it is walked.
struct Begun {
    place: Option<Rc<Place>>,
    growth: Option<Growth>,
    apart: bool,
    vector: bool,
    iterator: bool,
    constants: Vec<(String, Rc<Expr>)>,
    hold: Option<Hold>,
    shared: bool,
}

impl Walker<'_> {
    /// Walks a statement; gives its value, if it is the block's last, and statements to add after it.
    pub(super) fn statement(&mut self, stmt: &mut Stmt, last: bool, expect: &Expect) -> (Value, Vec<Stmt>) {
        match stmt {
            Stmt::Local(local) if is_conditional(&local.attrs) => (Value::other(), self.conditional_local(local)),
            Stmt::Local(local) => (Value::other(), self.local(local)),
            Stmt::Expr(Expr::Block(inner), semi) if is_conditional(&inner.attrs) => {
                let ends = last && semi.is_none();
                let value = self.conditional_block(&mut inner.block, if ends { expect } else { &Expect::Nothing });
                (if ends { value } else { Value::other() }, Vec::new())
            }
            Stmt::Expr(expr, None) if last => (self.begins(expr, expect), Vec::new()),
            Stmt::Expr(expr, semi) => {
                let value = self.expr(expr);
                // A statement that never ends makes the block's value neutral.
                let ends = last && semi.is_some() && value.prec == Prec::Never && diverges(expr);
                (if ends { Value::never() } else { Value::other() }, Vec::new())
            }
            Stmt::Macro(StmtMacro { attrs, mac, semi_token: None }) if last && !matches!(expect, Expect::Nothing) => {
                let (attrs, mac) = (std::mem::take(attrs), mac.clone());
                let mut expr = Expr::Macro(ExprMacro { attrs, mac });
                let value = self.begins(&mut expr, expect);
                *stmt = Stmt::Expr(expr, None);
                (value, Vec::new())
            }
            Stmt::Macro(stmt_macro) => {
                let semi = stmt_macro.semi_token;
                let (value, replaced) = self.macro_call(&stmt_macro.mac);
                let value = if last && value.prec == Prec::Never { value } else { Value::other() };
                if let Some(replaced) = replaced {
                    // A macro in braces needs no `;`.
                    *stmt = Stmt::Expr(replaced, Some(semi.unwrap_or_default()));
                }
                (value, Vec::new())
            }
            Stmt::Item(item) => {
                self.imports |= matches!(item, Item::Use(_));
                if let Item::Const(ItemConst { ident, .. }) | Item::Static(ItemStatic { ident, .. }) = item {
                    let item = self.scopes.declare(&ident.to_string(), Value::other(), self.steps.len(), true, true);
                    self.scopes.vars[item].item = true;
                }
                (Value::other(), Vec::new())
            }
        }
    }

    /// Declares the functions of a block, which are in scope in all of it: they are no operations.
    pub(super) fn functions(&mut self, block: &Block) {
        for stmt in &block.stmts {
            if let Stmt::Item(Item::Fn(function)) = stmt {
                let name = function.sig.ident.to_string();
                self.scopes.declare(&name, Value::other(), self.steps.len(), true, true);
            }
        }
    }

    fn conditional_local(&mut self, local: &mut Local) -> Vec<Stmt> {
        let first = self.scopes.vars.len();
        let (more, errors) = self.conditionally(|walker| walker.local(local));
        self.may_be_others(first);
        more.iter().chain(&errors).map(|stmt| under(&local.attrs, stmt)).collect()
    }

    fn local(&mut self, local: &mut Local) -> Vec<Stmt> {
        let (pat, named) = match &local.pat {
            Pat::Type(typed) => ((*typed.pat).clone(), Some((*typed.ty).clone())),
            pat => (pat.clone(), None),
        };
        let declared = named.as_ref().map(|ty| self.type_value(ty));
        let Some(init) = &mut local.init else {
            let first = self.scopes.vars.len();
            self.bind(&pat, &declared.clone().unwrap_or_else(Value::never), declared.is_some());
            (first..self.scopes.vars.len()).for_each(|var| self.flows.unset(var));
            return Vec::new();
        };
        let mut begun = self.begun(&pat, named.as_ref(), &init.expr);
        let expect = named.as_ref().map_or(Expect::Nothing, |ty| Expect::of_type(ty, self.cx.param.as_deref()));
        let narrow = declared.as_ref().map(|declared| &declared.prec).filter(|prec| matches!(prec, Prec::Half(_)));
        let narrow = narrow.map(|prec| (prec.clone(), init.expr.clone()));
        let (mut value, gives) = self.initial(init, (&pat, named.as_ref()), &expect.clone().of_variable());
        if let (Pat::Ident(pat), Some((declared, given))) = (&pat, &narrow) {
            self.check_declared(given, &value, declared, &pat.ident.to_string());
        }
        let list = named.as_ref().map_or(matches!(pat, Pat::Slice(_)), names_container);
        value.inferred &= !(list && collects(&init.expr));
        let declared = declared.filter(|declared| declared.prec != Prec::Opaque);
        let opens = expect.opens(&value) && !self.cx.host;
        let is_declared = declared.is_some() || named.as_ref().is_some_and(is_state) || opens;
        let value = match declared {
            Some(declared) => asserted(declared, value),
            // It may begin as `None`.
            None if opens => expect.clone().given(),
            None if is_declared && value.prec == Prec::Never => Value::opaque(),
            None if named.is_some() && value.prec != Prec::Never => value.in_declared_place(),
            None => value,
        };
        let first = self.scopes.vars.len();
        match init.diverge.is_some() {
            true => self.bind(&pat, &value, is_declared),
            false => self.declare(&pat, &value, is_declared),
        }
        if self.scopes.vars.len() == first {
            return Vec::new();
        }
        let place = begun.place.take().filter(|_| init.diverge.is_none() || !has_struct(&pat));
        let tuple = Some(expect.of_tuple()).filter(|tuple| !matches!(tuple, Expect::Nothing));
        self.begins_as(&pat, first, begun, tuple);
        self.made_of(&pat, place.as_ref());
        if let Some(ty) = &named {
            self.hold_as(&pat, first, ty);
        }
        let Local { pat, init: Some(init), .. } = local else { return Vec::new() };
        if let Pat::Ident(_) = pat {
            self.scopes.vars[first].untyped = untyped_parameters(&init.expr);
            self.scopes.vars[first].gives = gives;
            self.begin_grown(first, &mut init.expr, &value);
        }
        self.widen_declared(first, pat, &value, &mut init.expr)
    }

    /// What the initial value of a declaration tells as it is written.
    fn begun(&mut self, pat: &Pat, named: Option<&Type>, init: &Expr) -> Begun {
        // A type that is named says these itself.
        let untyped = named.is_none();
        Begun {
            place: untyped.then(|| self.place(init)).flatten(),
            growth: untyped.then(|| self.growth(init)).flatten(),
            apart: untyped && matches!(init, Expr::Tuple(_)),
            vector: untyped && is_vector(init),
            iterator: untyped && moves_on(init),
            constants: self.constants_of(pat, init, false),
            hold: self.held_by(init),
            shared: self.is_shared(init),
        }
    }

    /// Notes with the variables of a declaration, of which `first` is the first, how they begin.
    fn begins_as(&mut self, pat: &Pat, first: usize, begun: Begun, tuple: Option<Expect>) {
        self.taken_out_of(begun.shared, first);
        self.stands_for(begun.constants);
        let Pat::Ident(PatIdent { by_ref, .. }) = pat else { return };
        let var = &mut self.scopes.vars[first];
        if let (None, Some(hold)) = (by_ref, begun.hold) {
            var.hold = hold;
        }
        var.tuple = tuple.or_else(|| var.tuple.take());
        (var.growth, var.apart, var.vector, var.iterator) = (begun.growth, begun.apart, begun.vector, begun.iterator);
    }

    /// Notes the constants that variables, which are declared, stand for.
    pub(super) fn stands_for(&mut self, constants: Vec<(String, Rc<Expr>)>) {
        for (name, constant) in constants {
            if let Some(var) = self.scopes.find(&name) {
                self.scopes.vars[var].constant = Some(constant);
            }
        }
    }

    /// The variables of a declaration that begin as constants of the program's own and do not change; `apart`, as parts of one.
    pub(super) fn constants_of(&self, pat: &Pat, init: &Expr, apart: bool) -> Vec<(String, Rc<Expr>)> {
        match (pat, init) {
            (Pat::Tuple(pats), Expr::Tuple(elems)) if pats.elems.len() == elems.elems.len() => pats
                .elems
                .iter()
                .zip(&elems.elems)
                .flat_map(|(pat, elem)| self.constants_of(pat, elem, false))
                .collect(),
            (Pat::Ident(ident), init) if is_unchanging(pat) && (apart || named::is_named(init, &self.scopes)) => {
                vec![(ident.ident.to_string(), Rc::new(init.clone()))]
            }
            (pat, init) => {
                let parts = parts::taken_apart(pat, init, &self.scopes);
                parts.iter().flat_map(|(pat, part)| self.constants_of(pat, part, true)).collect()
            }
        }
    }

    /// How a variable holds what it is given, where the expression says so.
    fn held_by(&self, init: &Expr) -> Option<Hold> {
        match init {
            Expr::Reference(init) if init.mutability.is_some() => Some(Hold::Exclusive),
            Expr::Reference(_) => Some(Hold::Shared),
            Expr::Path(_) => Some(self.scopes.vars[self.variable(init)?].hold).filter(|hold| *hold == Hold::Shared),
            init => is_construction(init).then_some(Hold::Owned),
        }
    }

    /// What a variable begins with, and what calls of it give if it is a closure.
    fn initial(
        &mut self,
        init: &mut LocalInit,
        (pat, named): (&Pat, Option<&Type>),
        expect: &Expect,
    ) -> (Value, Value) {
        let lends = named.filter(|named| Expect::lends(named, self.cx.param.as_deref()));
        if let Some(list) = lends.and_then(list_of_any) {
            collect_into(&mut init.expr, &list);
        }
        let (mut value, gives) = match &mut *init.expr {
            Expr::Closure(closure) if let Expect::Function(result) = expect => {
                let gives = self.closure_into(closure, (**result).clone());
                (Value { flow: gives.flow.clone(), ..Value::other() }, gives)
            }
            Expr::Closure(closure) => {
                let given = !matches!(pat, Pat::Ident(pat) if !self.changes.reach(&pat.ident.to_string()));
                self.closure_variable(closure, given)
            }
            init => match Some(&mut *init).filter(|_| named.is_none()).and_then(cell) {
                Some(held) => (self.begin_cell(held), Value::opaque()),
                None => (self.begins(init, expect), Value::opaque()),
            },
        };
        if lends.is_some() {
            self.lent(&mut init.expr, &mut value);
        }
        if let Some((_, diverge)) = &mut init.diverge {
            let matched = self.flows.state();
            self.expr(diverge);
            self.flows.resume(matched);
        }
        (value, gives)
    }

    /// Makes those of the variables from `first` on F32 that have to be; gives statements to add for them.
    fn widen_declared(&mut self, first: usize, pat: &mut Pat, value: &Value, init: &mut Expr) -> Vec<Stmt> {
        let widened: Vec<usize> = (first..self.scopes.vars.len()).filter(|&var| self.widens(var)).collect();
        match pat {
            pat if !widened.is_empty() && is_name_only(pat) => {
                widened.into_iter().for_each(|var| self.widen(var));
                let named = match pat {
                    Pat::Type(typed) if collects(init) => Some(&*typed.ty),
                    _ => None,
                };
                self.rewrite(init, |inner| match named {
                    Some(ty) => self.widened(emit::typed(ty, inner), value),
                    None => self.widened(inner, value),
                });
                Vec::new()
            }
            pat if widened.is_empty() && is_name_only(pat) => {
                self.widen_tuple(first, init);
                Vec::new()
            }
            pat => self.redeclared(first, &mut [pat]),
        }
    }

    /// Makes those elements of the tuple that a variable begins with F32 that have to be.
    fn widen_tuple(&mut self, var: usize, init: &mut Expr) {
        let Some(expect) = self.chosen_elements(var) else { return };
        let mut value = self.scopes.vars[var].value.clone();
        match self.scopes.vars[var].vector {
            true => self.widen_listed(init, &mut value, &expect),
            false => self.widen_elements(init, &mut value, &expect),
        }
        self.scopes.vars[var].value = value;
    }
}

/// Which parameters of a closure have no type.
fn untyped_parameters(init: &Expr) -> Vec<bool> {
    match init {
        Expr::Closure(closure) => closure.inputs.iter().map(is_untyped).collect(),
        _ => Vec::new(),
    }
}

/// `h`, `h: &_`
fn is_untyped(pat: &Pat) -> bool {
    let Pat::Type(typed) = pat else { return true };
    match &*typed.ty {
        Type::Reference(lent) => matches!(*lent.elem, Type::Infer(_)),
        ty => matches!(ty, Type::Infer(_)),
    }
}

/// Whether a declaration has one name, and what it has does not change.
fn is_unchanging(pat: &Pat) -> bool {
    matches!(pat, Pat::Ident(PatIdent { by_ref: None, mutability: None, subpat: None, .. }))
}

/// Whether a declaration has one name for the whole of its value.
fn is_name_only(pat: &Pat) -> bool {
    match pat {
        Pat::Type(typed) => is_name_only(&typed.pat),
        pat => matches!(pat, Pat::Ident(_)),
    }
}

/// A type that is written says more than the interpreter knows, and rustc checks it.
fn asserted(declared: Value, mut value: Value) -> Value {
    let pinned = if declared.prec == Prec::F32 { value.pinned } else { Pin::No };
    let constants = std::mem::take(&mut value.constants);
    Value { pinned, constants, ..declared.asserted_of(value) }
}

/// Whether a type is that of a module's state, or of an option of one, which says its precision.
fn is_state(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    let Some(last) = path.path.segments.last() else { return false };
    match &last.arguments {
        PathArguments::AngleBracketed(list) => match list.args.first() {
            Some(GenericArgument::Type(inner)) if last.ident == "LstmState" => !matches!(inner, Type::Infer(_)),
            Some(GenericArgument::Type(inner)) => last.ident == "Option" && is_state(inner),
            _ => false,
        },
        _ => false,
    }
}

/// Names the list that references are collected into, unless it is named: they may be others than those that it is declared to
/// hold.
fn collect_into(init: &mut Expr, list: &TypePath) {
    if let Expr::MethodCall(call) = init
        && call.method == "collect"
    {
        call.turbofish.get_or_insert_with(|| parse_quote!(::<#list>));
    }
}

/// Whether an expression makes a value of a type that it names and that is no tensor's: `Timer { .. }`, `Timer::new(..)`.
fn is_construction(expr: &Expr) -> bool {
    match expr {
        Expr::Struct(_) => true,
        Expr::Call(call) => match &*call.func {
            Expr::Path(path) => path.path.segments.iter().rev().take(2).any(|segment| {
                let name = segment.ident.to_string();
                name.starts_with(char::is_uppercase) && !matches!(name.as_str(), "Tensor" | "Some" | "Ok")
            }),
            _ => false,
        },
        _ => false,
    }
}

/// Whether control never passes an expression because of what it is written as.
fn diverges(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Return(_) | Expr::Break(_) | Expr::Continue(_) | Expr::Macro(_) | Expr::Loop(_) | Expr::Verbatim(_)
    )
}
