//! What variables hold: a value, and the fields of one that was written as a tuple or a struct.

use super::Walker;
use super::gathered::gathers;
use super::tail::may_differ;
use crate::flow::Slot;
use crate::lattice::{Prec, Value};
use crate::pin::Pin;
use quote::ToTokens;
use syn::{Expr, ExprField, ExprStruct, Member};

impl Walker<'_> {
    /// From here on the slot holds the value.
    pub(super) fn hold(&mut self, slot: &Slot, value: &Value) {
        self.flows.forget(slot);
        self.hold_parts(slot, value);
        self.pin(slot, value);
        if self.changes.in_macros(self.scopes.vars[slot.var].name()) {
            self.needed(slot);
        }
    }

    /// What the slot holds is needed as it is.
    pub(super) fn needed(&mut self, slot: &Slot) {
        self.flows.read(slot);
        self.flows.read_fields(slot);
    }

    /// The slot may hold the value, or something of it: a cast to F32 that the user wrote is not undone there either.
    pub(super) fn pin(&mut self, slot: &Slot, value: &Value) {
        let outlives = self.switched_off.is_some_and(|before| slot.var < before);
        let pin = if outlives && value.prec == Prec::F32 { Pin::Kept } else { value.pinned };
        self.flows.pin(slot, pin);
        for (i, part) in value.parts.iter().enumerate() {
            self.pin(&slot.field(&value.part_name(i)), part);
        }
    }

    fn hold_parts(&mut self, slot: &Slot, value: &Value) {
        self.flows.bind(slot.clone(), &value.flow);
        self.flows.hold_constants(slot, &value.constants);
        for (i, part) in value.parts.iter().enumerate() {
            self.hold_parts(&slot.field(&value.part_name(i)), part);
        }
    }

    /// The value is put into a place, or into what the place is within.
    pub(super) fn put(&mut self, place: &Expr, value: &Value) {
        let Some(slot) = self.slot_around(place) else { return };
        self.pin(&slot, value);
        // What a reference was made of holds it.
        if let (Expr::Unary(_), Some(origin)) = (place, self.scopes.vars[slot.var].origin.clone()) {
            origin.variables().into_iter().for_each(|var| self.pin(&Slot::of(var), value));
        }
    }

    /// The variable that starts as `None`, or as a list of it, and that a place is of: by its name, or by that of a
    /// reference into it.
    pub(super) fn empty_variable(&self, place: &Expr) -> Option<usize> {
        match place {
            Expr::Index(index) => self.empty_variable(&index.expr),
            Expr::Unary(unary) => self.empty_variable(&unary.expr),
            Expr::Paren(inner) => self.empty_variable(&inner.expr),
            place => {
                let var = self.variable(place)?;
                let made_of = self.scopes.vars[var].origin.iter().flat_map(|origin| origin.variables());
                made_of.chain([var]).find(|&var| self.scopes.vars[var].empty)
            }
        }
    }

    /// Walks a place that a value is put into, which is no use of what the variable holds.
    pub(super) fn filling<T>(&mut self, var: Option<usize>, walk: impl FnOnce(&mut Self) -> T) -> T {
        let early = var.map(|var| self.scopes.vars[var].early);
        let walked = walk(self);
        if let (Some(var), Some(early)) = (var, early) {
            self.scopes.vars[var].early = early;
        }
        walked
    }

    /// What is put into such a variable is assigned to it; of what may be a reference, nothing is known there.
    pub(super) fn put_into(&mut self, var: usize, value: &Value) {
        match may_differ(value) && !value.shape.is_owned() {
            true => self.assign_var(var, &Value::opaque()),
            false => self.assign_var(var, value),
        }
        self.scopes.vars[var].filled_in += 1;
    }

    /// As [`put_into`](Self::put_into), of what an expression gives; tells whether it is known what the variable holds.
    pub(super) fn fill(&mut self, var: usize, given: &mut Expr, value: &Value) -> bool {
        self.put_into(var, value);
        let chosen = self.chosen(var);
        if chosen == Some(Prec::F32) && may_differ(value) {
            self.rewrite(given, |inner| self.widened(inner, value));
        }
        chosen.is_some()
    }

    /// What a field held is gone.
    pub(super) fn clear(&mut self, field: &ExprField) {
        if let Some(slot) = self.slot_of_field(field).filter(|slot| !self.is_captured(slot.var)) {
            self.flows.unpin(&slot);
        }
    }

    /// The number in a place is no constant any more.
    pub(super) fn changed(&mut self, place: &Expr) {
        let Some(slot) = self.slot_around(place) else { return };
        self.flows.forget_constants(&slot);
        if self.is_captured(slot.var) {
            self.flows.distrust_constants(slot.var);
        }
    }

    /// The variable or the field that a place is, or is within.
    fn slot_around(&self, place: &Expr) -> Option<Slot> {
        match place {
            Expr::Field(field) => self.slot_of_field(field),
            Expr::Index(index) => self.slot_around(&index.expr),
            Expr::Unary(unary) => self.slot_around(&unary.expr),
            Expr::Paren(inner) => self.slot_around(&inner.expr),
            place => self.variable(place).map(Slot::of),
        }
    }

    fn slot_of_field(&self, field: &ExprField) -> Option<Slot> {
        Some(self.slot_around(&field.base)?.field(&field.member.to_token_stream().to_string()))
    }

    /// The value that a slot holds, which is `known` but for its uses.
    pub(super) fn held(&mut self, slot: &Slot, known: Value) -> Value {
        if known.parts.is_empty() {
            self.flows.read_fields(slot);
        }
        let names: Vec<Slot> = (0..known.parts.len()).map(|i| slot.field(&known.part_name(i))).collect();
        let flow = self.flows.read(slot);
        let parts = known.parts.into_iter().zip(&names).map(|(part, slot)| self.held(slot, part)).collect();
        Value { parts, flow, pinned: self.flows.pin_of(slot), constants: self.flows.constants_of(slot), ..known }
    }

    /// What is known about the value of a variable.
    pub(super) fn known(&self, var: usize) -> Value {
        let var = &self.scopes.vars[var];
        match &var.assigned {
            // Declared without a value: it holds what was assigned.
            Some(assigned) if var.value.prec == Prec::Never => assigned.clone(),
            _ => var.value.clone(),
        }
    }

    /// A field.
    pub(super) fn field(&mut self, field: &mut ExprField) -> Value {
        if let Some((slot, value)) = self.field_of_variable(field) {
            self.mentions.push((slot.var, self.steps.clone()));
            return self.held(&slot, value);
        }
        let slot = self.slot_of_field(field);
        let base = self.expr(&mut field.base);
        match &field.member {
            Member::Unnamed(index) if !base.parts.is_empty() => base.part(index.index as usize),
            _ => {
                let pinned = slot.map(|slot| self.flows.pin_of(&slot)).unwrap_or_default();
                Value { pinned, ..of_unseen(&base) }
            }
        }
    }

    /// The slot that a field is, and what is known about its value, if it is one of a variable that holds a tuple or a struct
    /// as it was written.
    pub(super) fn field_of_variable(&self, field: &ExprField) -> Option<(Slot, Value)> {
        let (slot, base) = match &*field.base {
            Expr::Field(base) => self.field_of_variable(base)?,
            base => {
                let var = self.variable(base)?;
                (Slot::of(var), self.known(var))
            }
        };
        let name = field.member.to_token_stream().to_string();
        let index = (0..base.parts.len()).find(|&i| base.part_name(i) == name)?;
        Some((slot.field(&name), base.part(index)))
    }

    /// A struct as it is written.
    pub(super) fn structure(&mut self, literal: &mut ExprStruct) -> Value {
        let mut fields: Vec<(String, Value)> = Vec::new();
        for field in &mut literal.fields {
            let mut value = self.expr(&mut field.expr);
            match (&value.prec, &field.expr) {
                // What somebody's own function gives may be a tensor.
                (Prec::Opaque, Expr::MethodCall(_) | Expr::Call(_) | Expr::Try(_) | Expr::Macro(_))
                    if !value.inferred && !gathers(&field.expr, &value) =>
                {
                    self.expected_of(&mut field.expr);
                }
                _ => self.expected(&mut field.expr, &mut value),
            }
            // `Out { logits }` has no colon.
            if !matches!(field.expr, Expr::Path(_)) {
                field.colon_token = Some(Default::default());
            }
            fields.push((field.member.to_token_stream().to_string(), value.in_declared_place()));
        }
        // `..base` gives what is not written.
        let rest = literal.rest.as_mut().map(|rest| self.expr(rest)).unwrap_or_else(Value::opaque);
        for (i, part) in rest.parts.iter().enumerate() {
            let name = rest.part_name(i);
            if fields.iter().all(|(written, _)| *written != name) {
                fields.push((name, part.clone()));
            }
        }
        fields.sort_by(|one, other| one.0.cmp(&other.0));
        let (names, parts) = fields.into_iter().unzip();
        Value { parts, names, ..Value::opaque() }
    }
}

/// A field of a value of which the fields are not known. A tensor has none: what may be narrow is a tuple or a struct that a
/// module gave, and tensors may lie in it.
pub(super) fn of_unseen(base: &Value) -> Value {
    Value::new(if may_differ(base) { Prec::Unknown } else { Prec::Opaque })
}

/// The value of a tuple struct or a variant with these in its fields, whose types are that one's business.
pub(super) fn fields_of(path: &syn::Path, values: &[Value]) -> Value {
    let part = |value: &Value| Value { pinned: value.pinned, constants: value.constants.clone(), ..Value::opaque() };
    let parts = values.iter().map(part).collect();
    Value { names: (0..values.len()).map(|i| field_name(path, i)).collect(), parts, ..Value::opaque() }
}

/// The name of a field without one: of a variant, which stands behind its type, with the variant, as others have such fields too.
pub(super) fn field_name(path: &syn::Path, i: usize) -> String {
    let mut segments = path.segments.iter().rev().map(|segment| segment.ident.to_string());
    let (name, of) = (segments.next().unwrap_or_default(), segments.next().unwrap_or_default());
    if of.starts_with(char::is_uppercase) { format!("{name}.{i}") } else { i.to_string() }
}
