//! Casts that the user wrote, and what says that they are not to be undone.

use super::Walker;
use crate::emit::Mark;
use crate::hoist::Step;
use crate::lattice::{Prec, Value};
use crate::pin::Pin;
use crate::place::Place;
use crate::plan::Row;
use crate::rules::Rule;
use crate::shape::Shape;
use std::rc::Rc;
use syn::{AngleBracketedGenericArguments, Expr, ExprMethodCall, PathArguments, Type};

impl Walker<'_> {
    pub(super) fn explicit_cast(&mut self, call: &mut ExprMethodCall, source: &Expr) -> Value {
        let place = self.cast_place(&call.receiver);
        let from = self.expr(&mut call.receiver);
        self.cast_to(&from, place, call.turbofish.as_ref(), source)
    }

    /// `x.to()`, whose target is the precision that is asked for where it stands: F32, or nothing is held to it.
    pub(super) fn open_cast(&mut self, call: &mut ExprMethodCall) -> Value {
        let place = self.cast_place(&call.receiver);
        let from = self.beginning(&mut call.receiver, call.dot_token.span);
        Value { pinned: self.pin_of_cast(&from, place), ..Value::inferred() }
    }

    /// `Tensor::to::<F32>(&x)`.
    pub(super) fn path_cast(&mut self, expr: &mut Expr, source: &Expr) -> Value {
        let Expr::Call(call) = expr else { return Value::opaque() };
        let place = self.cast_place(&call.args[0]);
        let from = self.expr(&mut call.args[0]);
        let Expr::Path(path) = &*call.func else { return Value::opaque() };
        let turbofish = path.path.segments.last().and_then(|last| match &last.arguments {
            PathArguments::AngleBracketed(list) => Some(list),
            _ => None,
        });
        self.cast_to(&from, place, turbofish, source)
    }

    fn cast_to(
        &mut self,
        from: &Value,
        place: Option<Rc<Place>>,
        list: Option<&AngleBracketedGenericArguments>,
        source: &Expr,
    ) -> Value {
        let target = list.and_then(|list| match list.args.first() {
            Some(syn::GenericArgument::Type(ty)) => Some(ty),
            _ => None,
        });
        let to = target.map_or_else(Value::opaque, |ty| self.marker(ty));
        if to.prec == self.lower() {
            self.narrowed(std::iter::once(from));
        }
        let pinned = match (&to.prec, target) {
            (Prec::F32, _) => self.pin_of_cast(from, place),
            (Prec::Unknown, Some(ty)) => self.named_pin(ty),
            _ => Pin::No,
        };
        let mut row = Row::new("to", "cast", source, &[from], &to.prec);
        row.casts = u32::from(from.prec != to.prec);
        row.costed = u32::from(matches!(to.prec, Prec::Half(_)) && from.prec != to.prec && !self.is_free(from));
        self.rows.push(row);
        Value { pinned, ..to }.shaped(Shape::Fallible)
    }

    /// What a cast to F32 holds its value to.
    fn pin_of_cast(&mut self, from: &Value, place: Option<Rc<Place>>) -> Pin {
        match (&from.prec, place) {
            (Prec::F32, _) => Pin::Kept,
            // Truth values and integers become floats: nothing says of which precision.
            (Prec::Other, _) => Pin::No,
            (Prec::Opaque | Prec::Unknown, Some(place)) if from.prec == Prec::Opaque || from.by_name => {
                let cast = (place, self.closures());
                let known = self.cast.iter().position(|other| *other == cast);
                Pin::Of(known.unwrap_or_else(|| {
                    self.cast.push(cast);
                    self.cast.len() - 1
                }))
            }
            _ => Pin::Widened,
        }
    }

    /// A cast of the user's to a precision that has another name here.
    fn named_pin(&mut self, ty: &Type) -> Pin {
        if matches!(ty, Type::Infer(_)) {
            return Pin::No;
        }
        let known = self.marked.iter().position(|other| other == ty);
        Pin::Named(known.unwrap_or_else(|| {
            self.marked.push(ty.clone());
            self.marked.len() - 1
        }))
    }

    /// The place of which a value is, or its elements are: what it is made of it by keeps their kind.
    fn cast_place(&self, expr: &Expr) -> Option<Rc<Place>> {
        let keeps = |call: &ExprMethodCall| {
            self.rule_of(&call.method.to_string()).is_some_and(|found| found.rule == Rule::Keep)
        };
        match expr {
            _ if self.cx.host => None,
            Expr::Try(inner) => self.cast_place(&inner.expr),
            Expr::Paren(inner) => self.cast_place(&inner.expr),
            Expr::Reference(inner) => self.cast_place(&inner.expr),
            Expr::MethodCall(call) if keeps(call) => self.cast_place(&call.receiver),
            expr => self.place(expr),
        }
    }

    /// What the compiler has to be asked about the cast of the user's that a value is of.
    pub(super) fn marked(&self, value: &Value) -> Option<Mark> {
        match value.pinned {
            Pin::Named(number) => self.marked.get(number).cloned().map(Mark::To),
            Pin::Of(number) => {
                let (place, closures) = self.cast.get(number)?;
                let view = place.seen_from(&self.scopes).filter(|view| view.typed)?;
                self.may_name(closures).then_some(Mark::Of(view.expr))
            }
            Pin::By(number) => {
                let (places, closures) = self.given.get(number)?;
                let seen = |place: &Rc<Place>| place.seen_from(&self.scopes).filter(|view| view.typed);
                let views = places.iter().map(|place| Some(seen(place)?.expr)).collect::<Option<_>>()?;
                self.may_name(closures).then_some(Mark::By(views))
            }
            _ => None,
        }
    }

    /// Whether what is named in these closures may be named here. A closure captures it, even where that does not run: one that
    /// borrows may.
    fn may_name(&self, closures: &[u32]) -> bool {
        let owns = |step: &Step| matches!(step, Step::Barrier(number) if !closures.contains(number));
        let here = self.closures();
        here.starts_with(closures) && !self.steps.iter().any(owns) || closures.starts_with(&here)
    }

    /// What holds the result of a module that is given what the user cast to F32: it is that still if the module keeps its
    /// precision, which its type says.
    pub(super) fn pin_of_module(&mut self, module: &Expr, input: Option<&Value>) -> Pin {
        let Some(input) = input.filter(|_| !self.cx.host) else { return Pin::No };
        let mut places = match input.pinned {
            Pin::Kept | Pin::Widened if input.is_pinned() => Vec::new(),
            Pin::By(number) => self.given.get(number).map(|(places, _)| places.clone()).unwrap_or_default(),
            _ => return Pin::No,
        };
        let Some(place) = self.place(module) else { return Pin::No };
        places.push(place);
        let given = (places, self.closures());
        let known = self.given.iter().position(|other| *other == given);
        Pin::By(known.unwrap_or_else(|| {
            self.given.push(given);
            self.given.len() - 1
        }))
    }
}
