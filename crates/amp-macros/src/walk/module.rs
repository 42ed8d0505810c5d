//! Calls of modules: the type of a module says what it takes and gives.

use super::called::castable;
use super::cast::as_written;
use super::tail::may_differ;
use super::wrapper::is_built;
use super::{Walker, shared};
use crate::emit::{self, Mark, Operand, Role, Treatment};
use crate::flow::{Site, Writer};
use crate::lattice::{Prec, Value};
use crate::pin::Pin;
use crate::plan::Row;
use crate::shape::Shape;
use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;
use syn::{Expr, ExprMethodCall};

/// What a module is given.
struct Inputs {
    values: Vec<Value>,
    /// The arguments whose types are asked.
    asked: Vec<usize>,
    /// Of each of these, whether its type is found out later, and what counts its cast.
    late: Vec<bool>,
    tallies: Vec<Option<Ident>>,
}

impl Walker<'_> {
    /// A module's forward pass: its type says what it takes.
    pub(super) fn module(&mut self, expr: &mut Expr, source: &Expr, name: &str) -> Value {
        let Expr::MethodCall(call) = expr else { return Value::opaque() };
        let (at, site, lower) = (call.method.span(), self.site(), self.lower());
        self.expr(&mut call.receiver);
        let inputs = self.inputs(call, source, (name, at));
        let Inputs { values, asked, .. } = &inputs;
        self.given(as_written(source, 0), site, asked.iter().map(|&i| &values[i]));
        let full = lower == Prec::F32 && asked.iter().all(|&i| values[i].is_surely(&Prec::F32));
        let pinned = match Pin::of_region(self.switched_off.is_some()) {
            Pin::No => self.pin_of_module(as_written(source, 0), values.first().filter(|_| asked.contains(&0))),
            pin => pin,
        };
        let result = Value { pinned, ..Value::new(Prec::Unknown) }.shaped(Shape::Fallible);
        if asked.is_empty() || full {
            return result;
        }
        self.forward(expr, source, site, inputs);
        Value { flow: self.produce(site, Writer::Module), ..result }
    }

    /// Walks the arguments and notes the call in the plan.
    fn inputs(&mut self, call: &mut ExprMethodCall, source: &Expr, (name, at): (&str, Span)) -> Inputs {
        // What is no tensor is given to a module of the user's, which says by its signature what it takes.
        let given = call.args.iter_mut().map(|arg| match self.listed(arg) {
            Some(list) => (list, true),
            None if is_built(arg) => (self.argument(arg), true),
            None => (self.expr(arg), false),
        });
        let (values, is_built): (Vec<Value>, Vec<bool>) = given.unzip();
        // Whether it takes integers, its type says too.
        let input = |i: usize| i == 0 && values[i].prec == Prec::Other && values[i].shape.lends();
        // What a layer is added to keeps the precision that it has.
        let added = |i: usize| i > 0 && matches!(name, "forward_add" | "forward_add_relu");
        let asks =
            |&i: &usize| !added(i) && !is_built[i] && (castable(as_written(source, i + 1), &values[i]) || input(i));
        let asked: Vec<usize> = (0..values.len()).filter(asks).collect();
        let (tensors, lower) =
            (values.iter().filter(|value| value.prec != Prec::Other).collect::<Vec<_>>(), self.lower());
        let row = Row::new(name, "module", source, &tensors, &Prec::Unknown).at(at).with_target(&tensors, &lower);
        self.rows.push(row);
        // The first input whose type is found out later is a tensor, if the module is the library's.
        let late = asked.iter().map(|&i| i == 0 && values[i].late && !self.cx.host).collect();
        let tallies = asked.iter().map(|&i| self.cost(&values[i], &lower, true)).collect();
        Inputs { values, asked, late, tallies }
    }

    /// Writes the call, which takes what its module's type says.
    fn forward(&mut self, expr: &mut Expr, source: &Expr, site: Site, inputs: Inputs) {
        let Expr::MethodCall(call) = expr else { return };
        let Inputs { values, asked, late, tallies } = inputs;
        let region = self.target(&self.lower());
        // A module of the user's says by its signature what it takes.
        let by_signature = |i: usize| may_differ(&values[i]) && !self.cx.host;
        let spans: Vec<(Span, Span)> = call.args.iter().map(emit::ends).collect();
        // What its own type says of it, it says better than the module's.
        let other_half = |i: usize| matches!(values[i].prec, Prec::Half(_)) && values[i].prec != self.lower();
        let asked_of = |i: usize| other_half(i) || i == 0 && !values[i].prec.is_known();
        let operand = |(&i, (late, tally)): (&usize, (bool, Option<Ident>))| {
            let treatment = if late { Treatment::Late(region.clone()) } else { Treatment::To(region.clone()) };
            let role = if late || asked_of(i) { Role::Input } else { shared::argument(source, i + 1) };
            Operand {
                expr: self.taken(&mut call.args[i], &treatment),
                role,
                treatment,
                late: values[i].is_unsettled(),
                tally,
            }
        };
        let operands = asked.iter().zip(late.into_iter().zip(tallies)).map(operand).collect();
        let receiver = std::mem::replace(&mut *call.receiver, Expr::Verbatim(TokenStream::new()));
        let receiver = self.referred(receiver);
        let place = (emit::ends(source).0, call.method.span(), call.paren_token.span.join());
        let mut whole = call.clone();
        let half = matches!(self.lower(), Prec::Half(_));
        let written = self.written(site, None).map(|written| written.condition(&region));
        let pinned = asked.iter().filter(|_| half).filter_map(|&i| match self.marked(&values[i]) {
            Some(mark) => Some((spans[i], Some(mark))),
            None => values[i].is_pinned().then_some((spans[i], None)),
        });
        let mut pinned: Vec<((Span, Span), Option<Mark>)> = pinned.collect();
        // Of what the types may allow, all is asked; one that they cannot is one error.
        if let Some(certain) = pinned.iter().position(|(_, mark)| mark.is_none()) {
            pinned = vec![pinned.swap_remove(certain)];
        }
        let given = |callee: Expr, passed: Vec<Expr>| {
            *whole.receiver = callee;
            for (&i, arg) in asked.iter().zip(passed) {
                whole.args[i] = match by_signature(i) {
                    true if values[i].shape.gives() => emit::expected(arg),
                    true => emit::expected_reference(arg),
                    false => arg,
                };
            }
            Expr::Verbatim(whole.into_token_stream())
        };
        self.rewrite(expr, |_| emit::module_call(place, receiver, (&region, written), &pinned, operands, given));
    }
}
