//! Lists that grow by what a module of one's own makes of them, as in a dense block: the type of what it gives says
//! whether they hold F32 from the beginning.

use super::Walker;
use super::tail::may_differ;
use crate::emit;
use crate::lattice::{Prec, Value};
use crate::place::Place;
use proc_macro2::Ident;
use std::rc::Rc;
use syn::{Expr, ExprMethodCall};

/// A method that is given a list, and whose result may go into the list.
#[derive(Clone)]
pub(crate) struct Growth {
    /// The number of the variable that is the list.
    list: usize,
    receiver: Rc<Place>,
    method: Ident,
}

impl Walker<'_> {
    /// The method that gives the value of an expression, which was not walked yet, if it is given a list alone.
    pub(super) fn growth(&self, expr: &Expr) -> Option<Growth> {
        match expr {
            Expr::Path(_) => self.scopes.vars[self.variable(expr)?].growth.clone(),
            Expr::Try(inner) => self.growth(&inner.expr),
            Expr::MethodCall(call) if call.method == "unwrap" || call.method == "expect" => self.growth(&call.receiver),
            Expr::MethodCall(call) => self.method_of_list(call),
            _ => None,
        }
    }

    fn method_of_list(&self, call: &ExprMethodCall) -> Option<Growth> {
        let Some(Expr::Reference(list)) = call.args.first() else { return None };
        let alone = call.args.len() == 1 && call.turbofish.is_none() && list.mutability.is_none();
        let list = self.variable(&list.expr).filter(|_| alone)?;
        Some(Growth { list, receiver: self.place(&call.receiver)?, method: call.method.clone() })
    }

    /// Notes that a list grows by what is made of it.
    pub(super) fn grows(&mut self, place: &Expr, by: Option<Growth>) {
        let list = self.variable(place);
        self.grown.extend(by.filter(|growth| Some(growth.list) == list));
    }

    /// Widens what a list begins with if the round before found that it grows by values of F32.
    pub(super) fn begin_grown(&mut self, list: usize, init: &mut Expr, value: &Value) {
        if self.widen_grown(list, init, value, emit::grown) {
            let held = &mut self.scopes.vars[list].value;
            (held.prec, held.sure) = (Prec::Unknown, false);
        }
    }

    /// Does the same for what is put into one that was made empty; tells whether it did.
    pub(super) fn fill_grown(&mut self, place: &Expr, given: &mut Expr, value: &mut Value) -> bool {
        let list = self.variable(place).filter(|&var| self.scopes.vars[var].open);
        let grown = list.is_some_and(|list| self.widen_grown(list, given, value, emit::grown_by));
        if grown {
            (value.prec, value.sure) = (Prec::Unknown, false);
        }
        grown
    }

    fn widen_grown(&self, list: usize, expr: &mut Expr, value: &Value, emit: fn(Expr, &Expr, &Ident) -> Expr) -> bool {
        let Some(growth) = self.settled.grown.iter().find(|growth| growth.list == list) else { return false };
        let receiver = growth.receiver.seen_from(&self.scopes).filter(|view| view.typed);
        let Some(receiver) = receiver.filter(|_| may_differ(value) && !self.cx.host) else { return false };
        self.rewrite(expr, |inner| emit(inner, &receiver.expr, &growth.method));
        true
    }
}

/// Whether two rounds found the same lists to grow.
pub(super) fn same_lists(one: &[Growth], other: &[Growth]) -> bool {
    one.iter().map(|growth| growth.list).eq(other.iter().map(|growth| growth.list))
}
