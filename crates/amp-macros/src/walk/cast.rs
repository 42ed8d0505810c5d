//! Casts of operands: which are made, where, and what they undo.

use super::direct::Written;
use super::{Walker, shared};
use crate::emit::{self, Hoisted, Operand, Role, Treatment};
use crate::error::spanned;
use crate::hoist::{Step, Use};
use crate::lattice::{Prec, Value};
use crate::scope::Hold;
use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::{Expr, ExprMethodCall, Type};

/// What the tensor arguments of a call are cast to.
pub(super) enum Goal {
    To(Prec),
    /// Rounded to this precision and widened again: a `full` operation that was forced.
    Through(Prec),
    Meet,
    /// Widened, for an operation that writes its result narrow; one of `keep` takes what is narrow already as it is.
    Write(Written, bool),
}

impl Walker<'_> {
    pub(super) fn marker(&self, ty: &Type) -> Value {
        let wrapped: Type = syn::parse_quote!(Tensor<#ty>);
        self.type_value(&wrapped)
    }

    /// Takes the tensor arguments out of a call, each with its treatment.
    pub(super) fn take_operands(
        &mut self,
        call: &mut ExprMethodCall,
        values: &[Value],
        tensors: &[usize],
        goal: &Goal,
        source: &Expr,
    ) -> Option<Vec<Operand>> {
        let name = call.method.clone();
        let gated = !(values[0].sure && values[0].prec.is_tensor());
        let mut operands = Vec::new();
        for &i in tensors {
            let slot = if i == 0 { &mut *call.receiver } else { call.args.get_mut(i - 1)? };
            let role = match shared::argument(source, i) {
                _ if i == 0 => Role::Receiver,
                Role::Argument if !gated && self.is_lent(slot) => Role::Shared,
                role => role,
            };
            operands.push(self.take(slot, (values, i), goal, (source, &name), (role, gated)));
        }
        Some(operands)
    }

    /// Whether an argument that a tensor's method takes is, or may be, an exclusive reference that stays where it is.
    fn is_lent(&self, arg: &Expr) -> bool {
        match arg {
            Expr::Index(_) => true,
            arg => self.variable(arg).is_some_and(|var| self.scopes.vars[var].hold == Hold::Exclusive),
        }
    }

    /// Takes operand `i` of the call of `name` out of it; it is `gated` if the call may be none of an operation.
    pub(super) fn take(
        &mut self,
        slot: &mut Expr,
        (values, i): (&[Value], usize),
        goal: &Goal,
        (source, name): (&Expr, &Ident),
        (role, gated): (Role, bool),
    ) -> Operand {
        let name = &name.to_string();
        let (value, receiver) = (&values[i], role == Role::Receiver);
        let blamed = |i: usize| self.undone(as_written(source, i), &values[i], goal, name);
        // One way out serves the whole call.
        if let (Some(error), None) = (blamed(i), (0..i).find_map(blamed)) {
            self.errors.push(error);
        }
        let deferred = if receiver || gated { None } else { self.deferred(value, goal, values) };
        let (treatment, tally) = match deferred {
            Some(treatment) => (treatment, None),
            None => self.treatment(slot, value, goal, receiver, gated),
        };
        let expr = self.taken(slot, &treatment);
        Operand { expr, role, treatment, late: value.is_unsettled(), tally }
    }

    /// A cast the user wrote must not be undone.
    pub(super) fn undone(&self, place: &Expr, value: &Value, goal: &Goal, name: &str) -> Option<syn::Error> {
        let (Goal::To(Prec::Half(half)) | Goal::Through(Prec::Half(half))) = goal else { return None };
        if let Some(other) = value.fixed_half()
            && other != half
            && matches!(half.as_str(), "F16" | "BF16")
        {
            return Some(never_cast(place, [other, half], &format!(" in `{name}`")));
        }
        if !value.is_pinned() || self.marked(value).is_some() {
            return None;
        }
        let error = spanned(
            place,
            format!("this cast to `F32` would be undone by `{name}`"),
            format!(
                "run it in full precision with `amp_region!(f32, ..)`, or write `.to::<{half}>()` where it may be rounded"
            ),
        );
        Some(error)
    }

    /// What is F16 does not go where others are BF16, nor the other way round.
    pub(super) fn check_half(&mut self, place: &Expr, value: &Value, beside: &Value) {
        if let (Some(other), Some(half)) = (value.fixed_half(), beside.fixed_half())
            && other != half
        {
            self.errors.push(never_cast(place, [other, half], ""));
        }
    }

    /// A tensor that is never cast, before the dot or the operator: its result would be a second mistake.
    pub(super) fn check_apart(&mut self, first: &Value, others: &[&Value], place: &Expr, name: &str) {
        let apart = first.prec == Prec::Other && first.shape.lends() && !self.cx.host;
        let other = others.iter().find(|value| value.sure && value.prec.is_known() && value.shape.lends());
        if let (true, Some(other)) = (apart, other) {
            let precision = other.prec.label();
            self.errors.push(spanned(
                place,
                format!("cannot combine this tensor with a `{precision}` tensor in `{name}`"),
                "F64, integer and boolean tensors are never cast for you: write the cast with `.to()`",
            ));
        }
    }

    /// What is done with an argument whose type is found out later: beside what certainly is a tensor it is one, or a
    /// number.
    pub(super) fn deferred(&self, value: &Value, goal: &Goal, beside: &[Value]) -> Option<Treatment> {
        if !value.late || self.cx.host {
            return None;
        }
        match goal {
            Goal::To(prec) => Some(Treatment::Late(self.target(prec))),
            // F32 is where everything meets it.
            Goal::Meet if beside.iter().any(|value| value.is_surely(&Prec::F32)) => {
                Some(Treatment::Late(self.target(&Prec::F32)))
            }
            _ => None,
        }
    }

    /// What is done with an operand, and the tally that its type is asked for.
    pub(super) fn treatment(
        &mut self,
        expr: &Expr,
        value: &Value,
        goal: &Goal,
        receiver: bool,
        gated: bool,
    ) -> (Treatment, Option<Ident>) {
        match goal {
            Goal::Write(..) if is_direct(value) => (Treatment::MeetDirect, None),
            Goal::Meet | Goal::Write(..) => (Treatment::Meet, None),
            Goal::Through(prec) => {
                self.cost(value, prec, false);
                (Treatment::To(self.through(prec)), None)
            }
            Goal::To(prec) if value.is_surely(prec) => (Treatment::Nothing, None),
            Goal::To(prec @ Prec::Half(_)) if let Some(mark) = self.marked(value) => {
                let target = emit::unless_f32(&mark, &self.target(prec), emit::ends(expr));
                (Treatment::To(target), self.cost(value, prec, true))
            }
            Goal::To(prec) => match self.hoist(expr, value, prec, receiver, gated) {
                Some((number, hoisted, moves)) => {
                    let (direct, target) = (is_direct(value), self.target(prec));
                    if !self.counted.iter().any(|(counted, _)| *counted == number) {
                        let tally = self.cost(value, prec, self.is_doubtful(expr, value));
                        self.counted.push((number, tally));
                    }
                    let later = emit::is_later(expr);
                    (Treatment::Hoisted(Hoisted { local: hoisted, later, direct, moves, target }), None)
                }
                None => {
                    let target = self.target(prec);
                    match is_direct(value) {
                        true => {
                            self.cost(value, prec, false);
                            (Treatment::Direct(target), None)
                        }
                        false => (Treatment::To(target), self.cost(value, prec, self.is_doubtful(expr, value))),
                    }
                }
            },
        }
    }

    /// What is done with an operand that stays where it is written, and its tally.
    pub(super) fn in_place(&mut self, written: &Expr, value: &Value, prec: &Prec) -> (Treatment, Option<Ident>) {
        if value.is_surely(prec) || value.prec == Prec::Other {
            return (Treatment::Nothing, None);
        }
        let (target, half) = (self.target(prec), matches!(prec, Prec::Half(_)));
        let target = match self.marked(value).filter(|_| half) {
            Some(mark) => emit::unless_f32(&mark, &target, emit::ends(written)),
            None => target,
        };
        (Treatment::To(target), self.cost(value, prec, self.is_doubtful(written, value)))
    }

    /// Whether a value may be narrow already: what a module or a function of the user's gave. What comes from outside, in a
    /// field or a variable, is taken to be F32, so that the error can count.
    fn is_doubtful(&self, expr: &Expr, value: &Value) -> bool {
        let place = emit::unreferenced(expr);
        let local = self.variable(place).is_some_and(|var| self.scopes.vars[var].scope > 0);
        value.prec == Prec::Unknown || value.prec == Prec::Opaque && (local || !emit::is_place(place))
    }

    /// Adds a narrowing to the plan of the call that is being walked; it may be `doubtful` whether it is one. Gives the
    /// tally that the types are asked for.
    pub(super) fn cost(&mut self, value: &Value, prec: &Prec, doubtful: bool) -> Option<Ident> {
        let costs = value.prec != *prec && !self.is_free(value);
        let (Prec::Half(_), true, Some(row)) = (prec, costs, self.rows.last_mut()) else { return None };
        row.costed += 1;
        row.doubtful += u32::from(doubtful);
        if !doubtful || !self.tallies {
            return None;
        }
        let tally = emit::local("n", self.tallied, Span::call_site());
        self.tallied += 1;
        row.tallies.push(tally.clone());
        Some(tally)
    }

    /// A value given away, as F32.
    pub(super) fn widened(&self, expr: Expr, value: &Value) -> Expr {
        let target = self.target(&Prec::F32);
        match value.sure && value.prec.is_known() && value.shape.gives() {
            // Its type is what it is asked for.
            _ if value.made && !self.cx.host => emit::of_f32(expr),
            true => emit::recast_tensor(expr, &target),
            false => emit::recast(expr, &target),
        }
    }

    /// `through::<P>()`: rounded to a precision, and widened again.
    pub(super) fn through(&self, prec: &Prec) -> TokenStream {
        let to = self.target(prec);
        quote!(__amp::through(#to))
    }

    /// The local that holds this narrowing, if it is made ahead, with its number and whether the place may be moved from.
    pub(super) fn hoist(
        &mut self,
        expr: &Expr,
        value: &Value,
        prec: &Prec,
        receiver: bool,
        gated: bool,
    ) -> Option<(usize, Ident, bool)> {
        let Prec::Half(half) = prec else { return None };
        let (place, referenced) = match expr {
            Expr::Reference(inner) if inner.mutability.is_none() => (&*inner.expr, true),
            other => (other, false),
        };
        let (var, fields) = self.fixed_place(place)?;
        // A value that may be no tensor is passed on as it was written, so it must be a reference already; and the
        // arguments of a call that may be no operation are not touched ahead of it.
        let known = value.prec.is_tensor();
        if !receiver && !known && !referenced || gated && !known {
            return None;
        }
        let number = self.uses.len();
        let scope = self.scopes.vars[var].scope;
        self.uses.push(Use {
            key: (var, fields, half.clone()),
            place: expr.clone(),
            direct: is_direct(value),
            steps: self.steps.clone(),
            scope,
            owned: self.owned(var, scope),
        });
        let hoist = self.hoists.of(number)?;
        // Nothing is moved out of what a parameter borrows.
        let moves = self.scopes.vars[var].hold != Hold::Shared;
        Some((hoist, emit::local("h", hoist, emit::ends(place).0), moves))
    }

    /// Where the innermost closure or block begins that would own a cast of this variable, or gives the variable away.
    fn owned(&self, var: usize, scope: usize) -> usize {
        let owns = |step: &Step| match step {
            Step::Barrier(_) => true,
            Step::Closure(number) => self.givers.contains(&(*number, var)),
            Step::Block(..) | Step::Branch(..) | Step::Loop(_) => false,
        };
        self.steps.iter().skip(scope).rposition(owns).map_or(scope, |at| scope + at + 1)
    }
}

/// Operand `i` of a call or an operator, 0 for the receiver of a method, before anything was rewritten in it.
pub(super) fn as_written(source: &Expr, i: usize) -> &Expr {
    let operand = match source {
        Expr::MethodCall(call) => [&*call.receiver].into_iter().chain(&call.args).nth(i),
        Expr::Call(call) => call.args.iter().nth(i),
        Expr::Binary(binary) => [&*binary.left, &*binary.right].into_iter().nth(i),
        _ => None,
    };
    operand.unwrap_or(source)
}

/// Whether a value certainly is a tensor of a known precision: it is cast without asking its type.
pub(super) fn is_direct(value: &Value) -> bool {
    value.sure && value.prec.is_known() && value.shape.lends()
}

/// The error of a tensor of one 16-bit precision where the other one is computed or held in.
pub(super) fn never_cast(place: &Expr, [other, half]: [&str; 2], within: &str) -> syn::Error {
    spanned(
        place,
        format!("this `{other}` tensor meets `{half}`{within}"),
        format!("the two are never cast to each other for you: write `.to::<{half}>()`"),
    )
}
