//! `cat(&[&a, &b], axis)`: the elements of a literal list meet at the widest.

use super::Walker;
use super::made::meets;
use super::names::on_tensor;
use crate::emit::{self, Joint, Operand, Role, Treatment};
use crate::flow::Flow;
use crate::lattice::{Prec, Value};
use crate::pin::Pin;
use crate::plan::Row;
use crate::shape::Shape;
use proc_macro2::Span;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{Expr, ExprCall};

impl Walker<'_> {
    pub(super) fn list(&mut self, expr: &mut Expr, source: &Expr, name: &str) -> Value {
        let Expr::Call(call) = expr else { return Value::opaque() };
        let mut values = Vec::new();
        let mut whole = Value::opaque();
        for (i, arg) in call.args.iter_mut().enumerate() {
            match (i, literal_list(arg)) {
                (0, Some(elems)) => values = elems.into_iter().map(|elem| self.expr(elem)).collect(),
                (0, None) => whole = self.expr(arg),
                _ => drop(self.expr(arg)),
            }
        }
        match values.is_empty() {
            true => result_of_list(call, whole),
            false => self.meet_elements(expr, source, name, values),
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
        let prec = values.iter().fold(Prec::Never, |all, value| all.join(&value.prec));
        let inputs: Vec<&Value> = values.iter().collect();
        self.rows.push(Row::new(name, "widest", source, &inputs, &prec).at(at).with_meeting(&inputs));
        let agree = values.iter().all(|value| value.sure && value.prec == values[0].prec);
        if !agree && values.len() > 1 {
            self.cast_elements(expr, source, at, &values);
        }
        let sure = values.iter().all(|value| value.sure || value.prec == Prec::Never) && prec.is_known();
        Value { sure, flow, ..Value::new(prec) }
    }

    /// Casts each element to where all of them meet.
    fn cast_elements(&mut self, expr: &mut Expr, source: &Expr, at: Span, values: &[Value]) {
        let Expr::Call(call) = expr else { return };
        let late = values.iter().any(Value::is_late_f32);
        let treatment = |value: &Value| match late {
            true if value.is_surely(&Prec::F32) => Treatment::Late(self.target(&Prec::F32)),
            true => Treatment::To(self.target(&Prec::F32)),
            false => Treatment::Meet,
        };
        let end = call.paren_token.span.join();
        let mut whole = call.clone();
        let operand = |(elem, value): (&mut Expr, &Value)| {
            let treatment = treatment(value);
            let expr = self.taken(elem, &treatment);
            Operand { expr, role: Role::Argument, treatment, late: value.is_unsettled(), tally: None }
        };
        let elems = literal_list(&mut call.args[0]).into_iter().flatten();
        let operands = elems.zip(values).map(operand).collect();
        self.rewrite(expr, |_| {
            emit::call((emit::ends(source).0, at, end), operands, Joint::None, None, |passed| {
                let elems = literal_list(&mut whole.args[0]).into_iter().flatten();
                elems.zip(passed).for_each(|(elem, with)| *elem = with);
                Expr::Verbatim(whole.into_token_stream())
            })
        });
    }
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

/// The elements of `&[..]`, `[..]`.
fn literal_list(expr: &mut Expr) -> Option<Vec<&mut Expr>> {
    match expr {
        Expr::Array(array) => Some(array.elems.iter_mut().collect()),
        Expr::Reference(inner) => literal_list(&mut inner.expr),
        Expr::Paren(inner) => literal_list(&mut inner.expr),
        _ => None,
    }
}
