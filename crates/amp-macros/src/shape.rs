//! How a tensor is wrapped, where the macro can tell: what certainly is a tensor is cast without asking its type.

use crate::lattice::Value;
use syn::{Expr, Type, UnOp};

/// The form in which a value holds its tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Not known: a container, or no tensor at all.
    #[default]
    Unknown,
    /// A tensor.
    Tensor,
    /// A reference or a smart pointer to one.
    Pointer,
    /// What an operation returns: a tensor, or an error in its place.
    Fallible,
    /// What was made of such, or holds them: an option, a box, a tuple that was written out.
    Wrapped,
}

/// Operations that return several tensors.
const SEVERAL: &[&str] = &["split", "chunk"];
/// Methods that give what they are called on.
const SAME: &[&str] = &["clone", "detach", "tracked", "map_err", "context", "with_context"];

impl Shape {
    /// What a declared type says.
    pub(crate) fn of_type(ty: &Type) -> Self {
        match ty {
            Type::Paren(inner) => Self::of_type(&inner.elem),
            Type::Group(inner) => Self::of_type(&inner.elem),
            Type::Reference(reference) => Self::of_type(&reference.elem).behind(),
            Type::Path(path) => match path.path.segments.last() {
                Some(last) if last.ident == "Tensor" => Self::Tensor,
                _ => Self::Unknown,
            },
            _ => Self::Unknown,
        }
    }

    /// A reference to this.
    pub(crate) fn behind(self) -> Self {
        match self {
            Self::Tensor | Self::Pointer => Self::Pointer,
            _ => Self::Unknown,
        }
    }

    /// Whether a cast can borrow the tensor.
    pub(crate) fn lends(self) -> bool {
        matches!(self, Self::Tensor | Self::Pointer)
    }

    /// Whether a cast can take the tensor and give another of its kind.
    pub(crate) fn gives(self) -> bool {
        matches!(self, Self::Tensor | Self::Fallible)
    }

    /// What is made of it by `Some(..)` and the like.
    pub(crate) fn wrapped(self) -> Self {
        if self.gives() { Self::Wrapped } else { Self::Unknown }
    }

    /// Whether it certainly is no reference.
    pub(crate) fn is_owned(self) -> bool {
        self.gives() || self == Self::Wrapped
    }

    /// What the value of an operation is.
    pub(crate) fn of_operation(name: &str) -> Self {
        if SEVERAL.contains(&name) { Self::Unknown } else { Self::Fallible }
    }

    /// What a method that is no operation makes of its receiver.
    pub(crate) fn of_method(self, name: &str) -> Self {
        match (self, name) {
            (_, name) if SAME.contains(&name) => self,
            (Self::Fallible, "unwrap" | "expect") => Self::Tensor,
            (Self::Tensor | Self::Pointer, "to_device") => Self::Fallible,
            _ => Self::Unknown,
        }
    }

    /// What an expression of this form makes of its value; forms that are not listed hide it.
    pub(crate) fn of_expr(form: &Expr) -> fn(Self) -> Self {
        match form {
            Expr::Path(_) | Expr::Paren(_) | Expr::Group(_) | Expr::Block(_) | Expr::If(_) | Expr::Match(_) => {
                |shape| shape
            }
            // They say it themselves.
            Expr::MethodCall(_) | Expr::Call(_) | Expr::Binary(_) | Expr::Tuple(_) => |shape| shape,
            Expr::Reference(_) => Self::behind,
            Expr::Unary(unary) if matches!(unary.op, UnOp::Deref(_)) => Self::behind,
            Expr::Try(_) => |shape| if shape == Self::Fallible { Self::Tensor } else { Self::Unknown },
            _ => |_| Self::Unknown,
        }
    }
}

impl Value {
    /// The same value in another form.
    pub(crate) fn shaped(self, shape: Shape) -> Self {
        Self { shape, ..self }
    }
}
