//! `cat(&[&a, &b], axis)`: the elements of a literal list meet at the widest.

use super::Walker;
use super::called::judged;
use super::cast::{Goal, as_written};
use super::made::meets;
use super::names::on_tensor;
use crate::emit::{self, Joint, Operand, Role, Treatment};
use crate::flow::Flow;
use crate::lattice::{Prec, Value};
use crate::pin::Pin;
use crate::plan::Row;
use crate::rules::{Found, Rule};
use crate::shape::Shape;
use proc_macro2::{Ident, Span};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{Expr, ExprCall};

impl Walker<'_> {
    /// A call of an operation that joins the elements of a list, whose rule is `found`.
    pub(super) fn list(&mut self, expr: &mut Expr, source: &Expr, name: &Ident, found: Found) -> Value {
        let Expr::Call(call) = expr else { return Value::opaque() };
        let (mut values, mut others) = (Vec::new(), Vec::new());
        let mut whole = Value::opaque();
        for (i, arg) in call.args.iter_mut().enumerate() {
            match (i, literal_list(arg)) {
                (0, Some(elems)) => values = elems.into_iter().map(|elem| self.expr(elem)).collect(),
                (0, None) => whole = self.expr(arg),
                (i, _) => others.push((i, self.expr(arg))),
            }
        }
        let (prec, op) = (if values.is_empty() { whole.prec.clone() } else { joined(&values) }, name.to_string());
        let prec = if found.rule.casts() { self.of_rule(found.rule) } else { prec };
        for (i, number) in others.iter().filter(|(i, number)| judged(&op, *i, number)) {
            self.check_constant(&mut call.args[*i], number, &prec, &op);
        }
        match values.is_empty() {
            true => result_of_list(call, whole),
            false if found.rule == Rule::Widest => self.meet_elements(expr, source, &op, values),
            false => self.ruled_elements(expr, (source, name), found.rule, values),
        }
    }

    fn meet_elements(&mut self, expr: &mut Expr, source: &Expr, name: &str, mut values: Vec<Value>) -> Value {
        let Expr::Call(call) = &mut *expr else { return Value::opaque() };
        if values.iter().any(meets) {
            let elems = literal_list(&mut call.args[0]).into_iter().flatten();
            elems.zip(&mut values).for_each(|(elem, value)| self.settle(elem, value, false));
        }
        let at = call.func.span();
        let flow = Flow::all(values.iter_mut().map(|value| std::mem::take(&mut value.flow)).collect());
        let flow = self.flows.pass(&flow, None);
        let prec = joined(&values);
        let inputs: Vec<&Value> = values.iter().collect();
        self.rows.push(Row::new(name, "widest", source, &inputs, &prec).at(at).with_meeting(&inputs));
        let agree = values.iter().all(|value| value.sure && value.prec == values[0].prec);
        if !agree && values.len() > 1 {
            let late = values.iter().any(Value::is_late_f32);
            let treatment = |value: &Value| match late {
                true if value.is_surely(&Prec::F32) => Treatment::Late(self.target(&Prec::F32)),
                true => Treatment::To(self.target(&Prec::F32)),
                false => Treatment::Meet,
            };
            let treated = values.iter().map(|value| (treatment(value), None)).collect();
            self.cast_elements(expr, source, at, &values, treated);
        }
        let sure = values.iter().all(|value| value.sure || value.prec == Prec::Never) && prec.is_known();
        Value { sure, flow, ..Value::new(prec) }
    }

    /// Elements whose rule is not to meet at the widest.
    fn ruled_elements(
        &mut self,
        expr: &mut Expr,
        (source, name): (&Expr, &Ident),
        rule: Rule,
        values: Vec<Value>,
    ) -> Value {
        let prec = if rule == Rule::Full { Prec::F32 } else { self.lower() };
        let (op, inputs): (_, Vec<&Value>) = (name.to_string(), values.iter().collect());
        self.rows.push(Row::new(&op, rule.name(), source, &inputs, &prec).at(name.span()).with_target(&inputs, &prec));
        let goal = Goal::To(prec.clone());
        let mut list = as_written(source, 0).clone();
        let written: Vec<&mut Expr> = literal_list(&mut list).unwrap_or_default();
        let blamed = written.iter().zip(&values).find_map(|(elem, value)| self.undone(elem, value, &goal, &op));
        if let Some(error) = blamed {
            self.errors.push(error);
        }
        let treated = written.iter().zip(&values).map(|(elem, value)| self.in_place(elem, value, &prec)).collect();
        self.cast_elements(expr, source, name.span(), &values, treated);
        Value::new(prec)
    }

    /// A list that is a value may be one of references, which is cast as one of what they refer to, in the call itself.
    pub(super) fn referred_elements(&self, list: &mut Operand) {
        if let Treatment::Hoisted(hoisted) = &list.treatment {
            list.treatment = Treatment::To(hoisted.target.clone());
        }
        self.rewrite(&mut list.expr, emit::tensors);
    }

    /// Casts each element as it is to be treated.
    fn cast_elements(
        &mut self,
        expr: &mut Expr,
        source: &Expr,
        at: Span,
        values: &[Value],
        treated: Vec<(Treatment, Option<Ident>)>,
    ) {
        let Expr::Call(call) = expr else { return };
        let end = call.paren_token.span.join();
        let mut whole = call.clone();
        let operand = |((elem, value), (treatment, tally)): ((&mut Expr, &Value), (Treatment, Option<Ident>))| {
            let expr = self.taken(elem, &treatment);
            Operand { expr, role: Role::Argument, treatment, late: value.is_unsettled(), tally }
        };
        let elems = literal_list(&mut call.args[0]).into_iter().flatten();
        let operands = elems.zip(values).zip(treated).map(operand).collect();
        self.rewrite(expr, |_| {
            emit::call((emit::ends(source).0, at, end), operands, Joint::None, None, |passed| {
                let elems = literal_list(&mut whole.args[0]).into_iter().flatten();
                elems.zip(passed).for_each(|(elem, with)| *elem = with);
                Expr::Verbatim(whole.into_token_stream())
            })
        });
    }
}

/// Where elements meet.
fn joined(values: &[Value]) -> Prec {
    values.iter().fold(Prec::Never, |all, value| all.join(&value.prec))
}

/// What a call gives whose list is a value: of its elements' precision.
fn result_of_list(call: &ExprCall, list: Value) -> Value {
    let tensor = matches!(&*call.func, Expr::Path(path) if on_tensor(path));
    let prec = if tensor && list.prec == Prec::Opaque { Prec::Unknown } else { list.prec };
    Value {
        prec,
        pinned: Pin::No,
        inferred: false,
        constants: Vec::new(),
        shape: Shape::Unknown,
        parts: Vec::new(),
        ..list
    }
}

/// Whether a call is given a list that is written there, of elements that can be cast one by one.
pub(super) fn is_given_list(call: &ExprCall) -> bool {
    call.args.first().is_some_and(|arg| literal_list(&mut arg.clone()).is_some_and(|elems| !elems.is_empty()))
}

/// The elements of `&[..]`, `[..]`.
fn literal_list(expr: &mut Expr) -> Option<Vec<&mut Expr>> {
    match expr {
        Expr::Array(array) => Some(array.elems.iter_mut().collect()),
        Expr::Reference(inner) => literal_list(&mut inner.expr),
        Expr::Paren(inner) => literal_list(&mut inner.expr),
        _ => None,
    }
}
