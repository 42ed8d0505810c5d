//! Calls of modules: the type of a module says what it takes and gives.

use super::cast::as_written;
use super::operation::castable;
use super::tail::{is_built, may_differ};
use super::{Walker, shared};
use crate::emit::{self, Operand, Role, Treatment};
use crate::flow::Writer;
use crate::lattice::{Prec, Value};
use crate::pin::Pin;
use crate::plan::Row;
use crate::shape::Shape;
use proc_macro2::{Ident, Span, TokenStream};
use quote::ToTokens;
use syn::Expr;

impl Walker<'_> {
    /// A module's forward pass: its type says what it takes.
    pub(super) fn module(&mut self, expr: &mut Expr, source: &Expr, name: &str) -> Value {
        let Expr::MethodCall(call) = expr else { return Value::opaque() };
        let at = call.method.span();
        let site = self.site();
        self.expr(&mut call.receiver);
        // What is no tensor is given to a module of the user's, which says by its signature what it takes.
        let given = call.args.iter_mut().map(|arg| match self.listed(arg) {
            Some(list) => (list, true),
            None if is_built(arg) => (self.argument(arg), true),
            None => (self.expr(arg), false),
        });
        let (values, is_built): (Vec<Value>, Vec<bool>) = given.unzip();
        let inputs: Vec<&Value> = values.iter().filter(|value| value.prec != Prec::Other).collect();
        // Whether it takes integers, its type says too.
        let input = |i: usize| i == 0 && values[i].prec == Prec::Other && values[i].shape.lends();
        // What a layer is added to keeps the precision that it has.
        let added = |i: usize| i > 0 && matches!(name, "forward_add" | "forward_add_relu");
        let asked =
            |&i: &usize| !added(i) && !is_built[i] && (castable(as_written(source, i + 1), &values[i]) || input(i));
        let positions: Vec<usize> = (0..values.len()).filter(asked).collect();
        let row = Row::new(name, "module", source, &inputs, &Prec::Unknown).at(at).with_target(&inputs, &self.lower());
        self.rows.push(row);
        let lower = self.lower();
        // The first input whose type is found out later is a tensor, if the module is the library's.
        let is_late = |i: usize| i == 0 && values[i].late && !self.cx.host;
        let late: Vec<bool> = positions.iter().map(|&i| is_late(i)).collect();
        let tallies: Vec<Option<Ident>> = positions.iter().map(|&i| self.cost(&values[i], &lower, true)).collect();
        self.given(as_written(source, 0), site, positions.iter().map(|&i| &values[i]));
        let full = matches!(self.lower(), Prec::F32) && positions.iter().all(|&i| values[i].is_surely(&Prec::F32));
        let pinned = Pin::of_region(self.switched_off.is_some());
        let result = Value { pinned, ..Value::new(Prec::Unknown) }.shaped(Shape::Fallible);
        if positions.is_empty() || full {
            return result;
        }
        let region = self.target(&self.lower());
        // A module of the user's says by its signature what it takes.
        let asks = |i: &usize| may_differ(&values[*i]) && !self.cx.host;
        let asks: Vec<usize> = positions.iter().copied().filter(asks).collect();
        let spans: Vec<Span> = call.args.iter().map(|arg| emit::ends(arg).0).collect();
        // What its own type says of it, it says better than the module's.
        let other_half = |i: usize| matches!(values[i].prec, Prec::Half(_)) && values[i].prec != self.lower();
        let asked_of = |i: usize| other_half(i) || i == 0 && !values[i].prec.is_known();
        let take = |expr: &mut Expr| std::mem::replace(expr, Expr::Verbatim(TokenStream::new()));
        let operands = positions
            .iter()
            .zip(late.into_iter().zip(tallies))
            .map(|(&i, (late, tally))| Operand {
                treatment: if late { Treatment::Late(region.clone()) } else { Treatment::To(region.clone()) },
                expr: take(&mut call.args[i]),
                role: if late || asked_of(i) { Role::Input } else { shared::argument(source, i + 1) },
                late: values[i].is_unsettled(),
                tally,
            })
            .collect();
        let receiver = take(&mut call.receiver);
        let end = call.paren_token.span.join();
        let mut whole = call.clone();
        let half = matches!(self.lower(), Prec::Half(_));
        let written = self.written(site, None);
        let written = written.map(|written| written.condition(&region));
        let pinned = positions.iter().filter(|&&i| half && values[i].is_pinned());
        let pinned: Vec<Span> = pinned.map(|&i| spans[i]).take(1).collect();
        self.rewrite(expr, |_| {
            emit::module_call(
                (emit::ends(source).0, at, end),
                receiver,
                (&region, written),
                &pinned,
                operands,
                |callee, passed| {
                    *whole.receiver = callee;
                    for (&i, arg) in positions.iter().zip(passed) {
                        whole.args[i] = match asks.contains(&i) {
                            true if values[i].shape.gives() => emit::expected(arg),
                            true => emit::expected_reference(arg),
                            false => arg,
                        };
                    }
                    Expr::Verbatim(whole.into_token_stream())
                },
            )
        });
        Value { flow: self.produce(site, Writer::Module), ..result }
    }
}
