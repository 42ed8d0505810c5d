//! Variables in scope and what is known about them.

use crate::lattice::{Prec, Value};
use crate::place::Place;
use crate::walk::{Expect, Growth};
use std::rc::Rc;
use syn::{Expr, Type};

/// A variable of the function.
pub(crate) struct Var {
    name: String,
    pub(crate) value: Value,
    /// It begins with a tensor that was made without a type.
    pub(crate) made: bool,
    /// What is assigned to it after its declaration.
    pub(crate) assigned: Option<Value>,
    /// What is assigned to it is known to have one precision here and not known there.
    pub(crate) mixed: bool,
    /// Length of the path at which it is in scope.
    pub(crate) scope: usize,
    /// Its value never changes while it is in scope, so a cast of it can be made ahead.
    pub(crate) fixed: bool,
    /// It gets its only value after its declaration.
    pub(crate) once: bool,
    /// The last statement of its block that assigns to it.
    pub(crate) given: Option<usize>,
    /// Its fields do not change either.
    pub(crate) fixed_fields: bool,
    /// Its type was declared: nothing is chosen for it.
    pub(crate) declared: bool,
    /// The variable that its name means where the compiler leaves its declaration out.
    pub(crate) otherwise: Option<usize>,
    /// What it expects of its elements, if its declaration says that it holds a tuple.
    pub(crate) tuple: Option<Expect>,
    /// It begins with a tuple that is written out: it can be taken apart.
    pub(crate) apart: bool,
    /// It begins with a vector that is written out.
    pub(crate) vector: bool,
    /// It begins with an iterator.
    pub(crate) iterator: bool,
    /// What the calls of the closure that it is are given, and whether some of them differ from others in precision.
    pub(crate) arguments: Vec<(Value, bool)>,
    /// What calls of the closure that it is give.
    pub(crate) gives: Value,
    /// Which parameters of the closure that it is have no type.
    pub(crate) untyped: Vec<bool>,
    /// It starts as `None`: what is assigned to it says what it holds, also where it is read before that.
    pub(crate) empty: bool,
    /// In how many places it is assigned to, and in how many of them something is put into what it holds.
    pub(crate) given_in: usize,
    pub(crate) filled_in: usize,
    /// It is read before it is given anything.
    pub(crate) early: bool,
    /// It is borrowed by an exclusive reference, whose type may say what it holds.
    pub(crate) lent: bool,
    /// It starts as an empty container: what is put into it says what it holds.
    pub(crate) open: bool,
    /// It leaves for a place that declares tensors of F32 in it.
    pub(crate) wanted: bool,
    /// It begins with what may be narrow and is F32 because of what it is assigned.
    pub(crate) widened: bool,
    pub(crate) hold: Hold,
    /// It was taken out of what is shared.
    pub(crate) shared: bool,
    /// What it was made of, if its declaration says so: an expression of its type.
    pub(crate) origin: Option<Rc<Place>>,
    /// The method that made it of a list, if that is all it is.
    pub(crate) growth: Option<Growth>,
    /// It is no variable, but a constant or a static of the function's own.
    pub(crate) item: bool,
    /// The constant of the program's own that it stands for.
    pub(crate) constant: Option<Rc<Expr>>,
}

/// What a name stands for where a constant is judged.
pub(crate) enum Meaning<'a> {
    /// Something that is declared outside of code: the compiler knows it.
    Item,
    /// A variable that is this constant.
    Constant(&'a Expr),
    /// What is known when the program runs.
    Variable,
}

/// How a variable has what it stands for.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Hold {
    /// By a shared reference.
    Shared,
    /// By an exclusive reference.
    Exclusive,
    /// By value.
    Owned,
    Unknown,
}

impl Hold {
    /// What a declared type says.
    pub(crate) fn of_type(ty: &Type) -> Self {
        match ty {
            Type::Group(inner) => Self::of_type(&inner.elem),
            Type::Paren(inner) => Self::of_type(&inner.elem),
            Type::Reference(reference) if reference.mutability.is_some() => Self::Exclusive,
            Type::Reference(_) => Self::Shared,
            _ => Self::Owned,
        }
    }
}

/// All variables of one round, and which names mean which.
#[derive(Default)]
pub(crate) struct Scopes {
    pub(crate) vars: Vec<Var>,
    names: Vec<(String, usize)>,
}

impl Scopes {
    /// Declares a variable and returns its number.
    pub(crate) fn declare(&mut self, name: &str, value: Value, scope: usize, fixed: bool, declared: bool) -> usize {
        let number = self.vars.len();
        let name = name.to_owned();
        self.names.push((name.clone(), number));
        let fixed_fields = fixed && name != "self";
        let open = value.inferred && value.prec == Prec::Opaque && !declared;
        let made = value.made;
        // What it is assigned later says its type.
        let value = Value { made: made && fixed, ..value };
        self.vars.push(Var {
            name,
            value,
            made,
            assigned: None,
            mixed: false,
            scope,
            fixed,
            once: false,
            given: None,
            fixed_fields,
            declared,
            otherwise: None,
            tuple: None,
            apart: false,
            vector: false,
            iterator: false,
            arguments: Vec::new(),
            gives: Value::opaque(),
            untyped: Vec::new(),
            empty: false,
            given_in: 0,
            filled_in: 0,
            early: false,
            lent: false,
            open,
            wanted: false,
            widened: false,
            hold: Hold::Unknown,
            shared: false,
            origin: None,
            growth: None,
            item: false,
            constant: None,
        });
        number
    }

    /// The variable that `name` means here.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.names.iter().rev().find(|(known, _)| known == name).map(|(_, number)| *number)
    }

    /// The variable that the name of this one meant before it was declared.
    pub(crate) fn before(&self, var: usize) -> Option<usize> {
        let name = &self.vars[var].name;
        self.names.iter().rev().find(|(known, number)| known == name && *number < var).map(|(_, number)| *number)
    }

    /// What a name stands for.
    pub(crate) fn meaning(&self, name: &str) -> Meaning<'_> {
        match self.find(name).map(|number| &self.vars[number]) {
            None | Some(Var { item: true, .. }) => Meaning::Item,
            Some(Var { constant: Some(constant), .. }) => Meaning::Constant(constant),
            Some(_) => Meaning::Variable,
        }
    }

    /// The variables in scope that may be assigned to.
    pub(crate) fn assignable(&self) -> impl Iterator<Item = usize> {
        self.names.iter().map(|(_, number)| *number).filter(|&number| !self.vars[number].fixed)
    }

    /// Where to return to with [`leave`](Self::leave).
    pub(crate) fn enter(&self) -> usize {
        self.names.len()
    }

    /// Forgets the names declared since.
    pub(crate) fn leave(&mut self, mark: usize) {
        self.names.truncate(mark);
    }

    /// The precision each reassigned variable has to have for all its values; `None` leaves it to the types.
    pub(crate) fn choose(&self) -> Vec<Option<Prec>> {
        self.vars.iter().map(Var::choose).collect()
    }

    /// The variables that hold tuples, or closures, of which some elements, or parameters, have to be F32, and which.
    pub(crate) fn choose_elements(&self) -> Vec<(usize, Vec<bool>)> {
        let chosen = self.vars.iter().map(Var::choose_elements).enumerate();
        chosen.filter(|(_, elements)| elements.contains(&true)).collect()
    }
}

impl Var {
    /// Notes what the closure that it is is called with.
    pub(crate) fn called_with(&mut self, values: &[Value]) {
        for (i, value) in values.iter().enumerate() {
            let open = self.untyped.get(i) == Some(&true) && value.prec == Prec::Unknown;
            match self.arguments.get_mut(i) {
                Some((before, differ)) => {
                    // Of modules' results, their types say how they differ: too late for a parameter that has none.
                    *differ |= open && before.prec == Prec::Unknown;
                    *differ |= before.may_differ_from(value) || before.prec != value.prec && before.joins_at_f32(value);
                    *before = before.join(value);
                }
                None => self.arguments.push((value.clone(), false)),
            }
        }
    }

    fn choose_elements(&self) -> Vec<bool> {
        if !self.arguments.is_empty() {
            return self.arguments.iter().map(|(_, differ)| *differ).collect();
        }
        let Some(assigned) = self.assigned.as_ref().filter(|_| !self.declared) else { return Vec::new() };
        let parts = self.value.parts.iter().zip(&assigned.parts);
        parts.map(|(held, given)| held.joins_at_f32(given)).collect()
    }

    fn choose(&self) -> Option<Prec> {
        if self.wanted {
            return Some(Prec::F32);
        }
        let assigned = self.assigned.as_ref()?;
        if self.declared || self.value.prec.join(&assigned.prec) == Prec::Apart {
            return None;
        }
        if self.lent && self.filled_in == self.given_in {
            return None;
        }
        if self.empty && assigned.sure && assigned.prec.is_known() {
            return Some(assigned.prec.clone());
        }
        // What is taken out of it is read before the compiler knows its type.
        if self.empty && assigned.prec.is_tensor() && assigned.parts.is_empty() {
            // What is put into it in one place has one type, and so has what is taken out behind it.
            let once = self.filled_in == 1 && self.given_in == 1 && !self.early && assigned.prec != Prec::F32;
            return Some(if once { Prec::Unknown } else { Prec::F32 });
        }
        // Its elements are chosen one by one.
        if (self.apart || self.holds_tuples()) && self.value.is_tuple() {
            return None;
        }
        let all = [&self.value.prec, &assigned.prec];
        if all.contains(&&Prec::Other) {
            return None;
        }
        // What the macro does not know may be either; F32 holds both, and widening is free.
        match self.value.prec.join(&assigned.prec) {
            Prec::F32 => Some(Prec::F32),
            Prec::Unknown if self.mixed || self.value.differs_by_type(assigned) => Some(Prec::F32),
            Prec::Unknown if all.iter().any(|prec| prec.is_known()) => Some(Prec::F32),
            Prec::Unknown if all.iter().all(|prec| **prec == Prec::Unknown) => Some(Prec::F32),
            _ => None,
        }
    }

    /// Whether what it holds, if these are tuples, lies in a container that is written out or was made empty.
    pub(crate) fn holds_tuples(&self) -> bool {
        self.vector || self.open
    }

    /// Whether it neither is nor holds an exclusive reference.
    pub(crate) fn is_shared(&self) -> bool {
        self.hold == Hold::Shared || self.shared || self.value.shape.is_owned()
    }

    /// The name, for messages and keys.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}
