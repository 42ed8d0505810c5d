//! `VecDeque::from(list)`, `<[T; 2]>::try_from(list)`: a container of the same elements, or of those that its type names.

use super::methods::is_list;
use super::tail::holds_narrow;
use super::{Expect, Walker};
use crate::lattice::Value;
use crate::shape::Shape;
use syn::{ExprCall, ExprPath, QSelf, Type};

/// Containers that hold what they are made of; one that is written out is walked where it is collected.
const CONTAINERS: &[&str] = &["Vec", "VecDeque", "LinkedList", "Box", "Rc", "Arc"];

impl Walker<'_> {
    /// Walks a conversion of a list of tensors.
    pub(super) fn conversion(&mut self, call: &mut ExprCall, path: &ExprPath) -> Option<Value> {
        let named = container_of(path).filter(|_| call.args.len() == 1 && !is_list(&call.args[0]))?;
        let expect = named.map_or(Expect::Nothing, |ty| Expect::of_type(ty, self.cx.param.as_deref()));
        let list = &mut call.args[0];
        let mut value = self.expr(list);
        self.widen_converted(list, &mut value, Some(&expect));
        let value = if holds_narrow(&value) || expect.wants_f32() { value } else { Value::inferred() };
        Some(value.shaped(Shape::Unknown))
    }
}

/// The type that a path names as that of a container, if it says more than its kind.
fn container_of(path: &ExprPath) -> Option<Option<&Type>> {
    match &path.qself {
        Some(QSelf { ty, position: 0, .. }) if matches!(**ty, Type::Array(_)) => Some(Some(ty)),
        Some(_) => None,
        None => {
            let kind = path.path.segments.iter().rev().nth(1)?;
            CONTAINERS.iter().any(|name| kind.ident == name).then_some(None)
        }
    }
}
