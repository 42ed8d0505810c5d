//! Iterators and lists that functions of `std` make of values and closures.

use super::closure::Given;
use super::{Expect, Walker};
use crate::lattice::Value;
use crate::shape::Shape;
use syn::{Expr, ExprCall};

impl Walker<'_> {
    /// What such a function is given are the elements of what it makes.
    pub(super) fn iterator(&mut self, call: &mut ExprCall, name: &str) -> Option<Value> {
        let mut args = call.args.iter_mut();
        let value = match (name, args.next()?, args.next()) {
            // It is collected.
            ("once" | "repeat", element, None) => {
                let expect = self.collected.take()?;
                self.tail(element, &expect)
            }
            ("repeat_n", element, Some(count)) => {
                let expect = self.collected.take()?;
                let value = self.tail(element, &expect);
                self.expr(count);
                value
            }
            ("from_fn" | "repeat_with", Expr::Closure(closure), None) => {
                let place = self.collected.take().unwrap_or(Expect::Open);
                self.closure_into(closure, place)
            }
            // What the closure makes is what it is given next.
            ("successors", first, Some(Expr::Closure(next))) => {
                let place = self.collected.take().unwrap_or(Expect::Open);
                let begun = self.tail(first, &place).shaped(Shape::Unknown);
                let given = Given { place, kept: true, ..Given::default() };
                self.closure_over(next, std::slice::from_ref(&begun), given).join(&begun)
            }
            _ => return None,
        };
        Some(value.shaped(Shape::Unknown))
    }
}
