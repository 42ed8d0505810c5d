//! What iterators give on its way into sums and containers: `losses.iter().sum::<Result<Tensor<F32>>>()`, `ys.collect()`.

use super::methods::{MAPPING, handing, is_list, is_made_here};
use super::tail::{holds_narrow, may_differ};
use super::{Expect, Walker};
use crate::emit;
use crate::lattice::{Prec, Value};
use syn::{Expr, Type};

impl Walker<'_> {
    /// Widens what the iterator `elements` gives, which may be narrow, where the sum is declared to be F32.
    pub(super) fn widen_summands(&self, elements: &mut Expr, value: &mut Value, sum: Option<&Expect>) {
        if !matches!(elements, Expr::MethodCall(_)) || !may_differ(value) || self.cx.host {
            return;
        }
        match sum {
            Some(Expect::Prec(Prec::F32)) => {
                self.rewrite(elements, emit::summands);
                (value.prec, value.sure) = (Prec::F32, true);
            }
            Some(Expect::Named(ty)) => self.widen_each(elements, value, ty),
            _ => {}
        }
    }

    /// Widens what the iterator `elements` gives if this type says that it is F32.
    fn widen_each(&self, elements: &mut Expr, value: &mut Value, ty: &Type) {
        self.rewrite(elements, |inner| emit::each(inner, |element| emit::declared(ty, element)));
        (value.prec, value.sure) = (Prec::Unknown, false);
    }

    /// Widens a list that becomes what is declared to hold F32.
    pub(super) fn widen_converted(&self, list: &mut Expr, value: &mut Value, container: Option<&Expect>) {
        match container {
            Some(Expect::Prec(Prec::F32)) => self.widen_held(list, value),
            Some(Expect::Named(ty)) if may_differ(value) && !self.cx.host => {
                self.rewrite(list, |inner| emit::declared(ty, inner));
                (value.prec, value.sure) = (Prec::Unknown, false);
            }
            _ => {}
        }
    }

    /// Widens what the iterator `elements` gives where it is collected into what is declared to hold F32. What closures
    /// that are written there make is F32 already.
    pub(super) fn widen_collected(&self, elements: &mut Expr, value: &mut Value, container: Option<&Expect>) {
        let narrow =
            holds_narrow(value) || value.prec == Prec::Opaque && !value.inferred && is_mapped_by_name(elements);
        if self.cx.host || !narrow || is_made_there(elements) {
            return;
        }
        let Some(expect) = container else { return };
        if expect.is_f32() {
            self.widen_each_part(elements, value);
        } else if let Some(ty) = expect.name() {
            self.widen_each(elements, value, ty);
        }
    }

    /// Widens what the iterator `elements` gives.
    pub(super) fn widen_each_part(&self, elements: &mut Expr, value: &mut Value) {
        self.rewrite(elements, |inner| emit::each(inner, |element| self.widened_parts(element, value)));
        (value.prec, value.sure) = (Prec::F32, true);
    }

    /// An element that is widened; of a tuple, what may be a tensor in it.
    fn widened_parts(&self, element: Expr, value: &Value) -> Expr {
        let widened = |part: Expr| self.widened(part, &Value::opaque());
        if !value.is_tuple() {
            return widened(element);
        }
        let places: Vec<bool> = value.parts.iter().map(|part| part.prec != Prec::Other).collect();
        emit::rewrapped(&element, &places, |part| widened(part.clone()))
    }
}

/// Whether closures or lists that are written there make what an iterator gives.
fn is_made_there(elements: &Expr) -> bool {
    match elements {
        Expr::MethodCall(call) if MAPPING.iter().any(|name| call.method == name) => {
            matches!(call.args.last(), Some(Expr::Closure(_)))
        }
        Expr::MethodCall(call) => {
            let name = call.method.to_string();
            let hands = matches!(name.as_str(), "enumerate" | "zip" | "into_iter") || handing(&name).is_some();
            // Pairs are made there if both halves are.
            let beside = call.args.iter().filter(|_| name == "zip");
            hands && beside.chain([&*call.receiver]).all(is_made_there)
        }
        elements => is_list(elements) || is_made_here(elements),
    }
}

/// `ys.map(Tensor::relu)`
fn is_mapped_by_name(elements: &Expr) -> bool {
    matches!(elements, Expr::MethodCall(call) if call.method == "map" && matches!(call.args.first(), Some(Expr::Path(_))))
}
