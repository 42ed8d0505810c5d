//! What the macro knows about a value's precision, and how two such facts join.

use crate::args::param_name;
use crate::flow::Flow;
use crate::pin::Pin;
use crate::shape::Shape;
use syn::{GenericArgument, PathArguments, Type};

/// Precision of the tensors in a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Prec {
    /// Control does not come back, or the value holds nothing (`Err(..)`, `None`).
    Never,
    /// Not a tensor that autocast casts.
    Other,
    /// A 16-bit marker or the region's type parameter, by name.
    Half(String),
    F32,
    /// A tensor; its type decides.
    Unknown,
    /// One that would be F16 and BF16, which do not meet: the compiler finds the mistake in what stays as it is written.
    Apart,
    /// Nothing is known, not even whether it is a tensor.
    Opaque,
}

impl Prec {
    /// Whether the precision itself is known.
    pub(crate) fn is_known(&self) -> bool {
        matches!(self, Self::Half(_) | Self::F32)
    }

    /// Whether the value is a tensor.
    pub(crate) fn is_tensor(&self) -> bool {
        matches!(self, Self::Half(_) | Self::F32 | Self::Unknown | Self::Apart)
    }

    /// The precision of a value that may be either.
    pub(crate) fn join(&self, other: &Self) -> Self {
        match (self, other) {
            (a, b) if a == b => a.clone(),
            (Self::Never, x) | (x, Self::Never) => x.clone(),
            (Self::F32, a) | (a, Self::F32) if a.is_tensor() => Self::F32,
            (a, b) if a.is_apart_from(b) => Self::Apart,
            (a, b) if a.is_tensor() && b.is_tensor() => Self::Unknown,
            (Self::Other, _) | (_, Self::Other) => Self::Opaque,
            (a, b) if a.is_tensor() || b.is_tensor() => Self::Unknown,
            _ => Self::Opaque,
        }
    }

    /// The precision in which operands of a `widest` operation meet.
    pub(crate) fn widest(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Other, x) | (x, Self::Other) => x.clone(),
            (a, b) => a.join(b),
        }
    }

    /// As the plan prints it.
    pub(crate) fn label(&self) -> &str {
        match self {
            Self::Never | Self::Other => "-",
            Self::Half(name) => name,
            Self::F32 => "F32",
            Self::Unknown | Self::Apart | Self::Opaque => "?",
        }
    }
}

/// What is known about a value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Value {
    pub(crate) prec: Prec,
    /// The precision follows from declared types or from operations on such values, not from names alone.
    pub(crate) sure: bool,
    /// The user widened it by an explicit cast, or a region that is switched off made it.
    pub(crate) pinned: Pin,
    /// Nothing but the name of the method it came out of says that it is a tensor.
    pub(crate) by_name: bool,
    /// The numeric constants that it may be, as written; those of a list of such, one by one.
    pub(crate) constants: Vec<(String, f64)>,
    /// How many elements it has, if it is a list that is written out.
    pub(crate) count: Option<usize>,
    /// Its type comes from the context (`collect()`, `None`): a cast would leave it without one.
    pub(crate) inferred: bool,
    /// The compiler may find its type out only later than it is asked for it.
    pub(crate) late: bool,
    /// It was made without a type, `Tensor::zeros(..)?`: it is F32 where it meets others.
    pub(crate) made: bool,
    /// How it holds its tensor.
    pub(crate) shape: Shape,
    /// Elements of a tuple, or fields of a struct.
    pub(crate) parts: Vec<Value>,
    /// Names of the fields of a struct, sorted.
    pub(crate) names: Vec<String>,
    /// The results of `full` operations that this is a use of.
    pub(crate) flow: Flow,
}

impl Value {
    /// Whether its type alone tells its precision, if it is a tensor: a parameter of the region, a result of a module, a field.
    pub(crate) fn precision_is_open(&self) -> bool {
        match self.prec {
            Prec::Half(_) => crate::literal::half(&self.prec).is_none(),
            Prec::Unknown => true,
            Prec::Opaque => !self.is_unsettled(),
            Prec::Never | Prec::Other | Prec::F32 | Prec::Apart => false,
        }
    }

    pub(crate) fn new(prec: Prec) -> Self {
        let (constants, parts, names, flow, shape) = Default::default();
        let (sure, pinned, by_name, count, inferred, late, made) = Default::default();
        Self { prec, sure, pinned, by_name, constants, count, inferred, late, made, shape, parts, names, flow }
    }

    pub(crate) fn sure(prec: Prec) -> Self {
        Self { sure: true, ..Self::new(prec) }
    }

    /// What is known about it and its parts, as no use of a result.
    pub(crate) fn without_uses(&self) -> Self {
        self.clone()
    }

    pub(crate) fn never() -> Self {
        Self { inferred: true, late: true, ..Self::new(Prec::Never) }
    }

    /// In a place whose type is declared elsewhere: what begins as `None` may be anything later.
    pub(crate) fn in_declared_place(self) -> Self {
        match self.prec {
            Prec::Never => Self::opaque(),
            _ => Self { parts: self.parts.into_iter().map(Self::in_declared_place).collect(), ..self },
        }
    }

    pub(crate) fn other() -> Self {
        Self::new(Prec::Other)
    }

    pub(crate) fn opaque() -> Self {
        Self::new(Prec::Opaque)
    }

    /// A value that nothing has told the type of where it is declared.
    pub(crate) fn late() -> Self {
        Self { late: true, ..Self::opaque() }
    }

    /// What comes out of a region that is switched off: what is F32 in it stays so.
    pub(crate) fn pinned(mut self) -> Self {
        if self.prec == Prec::F32 {
            self.pinned = Pin::Kept;
        }
        self.parts = self.parts.into_iter().map(Self::pinned).collect();
        self
    }

    /// Its precision if it certainly is one of the two 16-bit ones.
    pub(crate) fn fixed_half(&self) -> Option<&str> {
        self.prec.fixed_half().filter(|_| self.sure)
    }

    /// Whether the compiler may not know its type where it is asked for it.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.late || self.inferred && self.prec == Prec::Opaque
    }

    /// A value whose type the context gives.
    pub(crate) fn inferred() -> Self {
        Self { inferred: true, ..Self::opaque() }
    }

    pub(crate) fn tuple(parts: Vec<Self>) -> Self {
        let prec = parts.iter().fold(Prec::Never, |all, part| all.join(&part.prec));
        let sure = prec.is_known() && parts.iter().all(|part| part.is_surely(&prec));
        Self { parts, sure, ..Self::new(if prec == Prec::Never { Prec::Other } else { prec }) }
    }

    /// The value of one element of a tuple, or of a container of like elements.
    pub(crate) fn part(&self, index: usize) -> Self {
        match self.parts.get(index) {
            Some(part) if self.shape == Shape::Wrapped => part.clone(),
            // A pattern may have bound it by reference.
            Some(part) => part.clone().shaped(part.shape.behind()),
            None if self.parts.is_empty() && self.prec != Prec::Other => self.clone().shaped(Shape::Unknown),
            None => Self::opaque(),
        }
    }

    /// Whether it is a tensor, or a tuple with some.
    pub(crate) fn holds_tensors(&self) -> bool {
        self.prec.is_tensor() || self.parts.iter().any(Self::holds_tensors)
    }

    /// Whether it is a tuple, or holds like ones, of which the elements are known.
    pub(crate) fn is_tuple(&self) -> bool {
        !self.parts.is_empty() && self.names.is_empty()
    }

    /// What element `index` of the tuple, or field `index` of the struct, is called.
    pub(crate) fn part_name(&self, index: usize) -> String {
        self.names.get(index).cloned().unwrap_or_else(|| index.to_string())
    }

    /// As [`part`](Self::part), with its uses.
    pub(crate) fn same_part(&self, index: usize) -> Self {
        let mut part = self.part(index);
        if let Some(from) = self.parts.get(index) {
            part.use_as(from);
        }
        part
    }

    fn use_as(&mut self, from: &Self) {
        self.flow = from.flow.same();
        self.parts.iter_mut().zip(&from.parts).for_each(|(part, from)| part.use_as(from));
    }

    /// This type, which is that of `value`, with its uses where they are of F32.
    pub(crate) fn asserted_of(mut self, value: Self) -> Self {
        if self.prec == Prec::F32 {
            self.flow = value.flow;
        }
        for (part, from) in self.parts.iter_mut().zip(value.parts) {
            *part = part.clone().asserted_of(from);
        }
        self
    }

    /// Is certainly a tensor of this precision.
    pub(crate) fn is_surely(&self, prec: &Prec) -> bool {
        self.sure && self.prec == *prec
    }

    /// Is F32, where everything meets it, whatever the compiler finds its type to be.
    pub(crate) fn is_late_f32(&self) -> bool {
        self.late && self.is_surely(&Prec::F32)
    }

    /// Whether it is a cast of the user's to F32 where it joins another value: a cast that takes its type from that is one
    /// to what the other is.
    fn pinned_beside(&self, other: &Self) -> Pin {
        let open = |value: &Self| value.inferred && value.prec == Prec::Opaque;
        if open(self) && !open(other) && other.prec != Prec::F32 { Pin::No } else { self.pinned }
    }

    pub(crate) fn join(&self, other: &Self) -> Self {
        if self.prec == Prec::Never {
            return other.clone();
        }
        if other.prec == Prec::Never {
            return self.clone();
        }
        let parts = if self.parts.len() == other.parts.len() && self.names == other.names {
            self.parts.iter().zip(&other.parts).map(|(a, b)| a.join(b)).collect()
        } else {
            Vec::new()
        };
        Self {
            prec: self.prec.join(&other.prec),
            sure: self.sure && other.sure,
            pinned: self.pinned_beside(other).or(other.pinned_beside(self)),
            by_name: self.by_name || other.by_name,
            constants: self.constants_with(other),
            count: self.count.filter(|_| self.count == other.count),
            inferred: self.inferred && other.inferred,
            late: self.late && other.late,
            made: self.made && other.made,
            shape: if self.shape == other.shape { self.shape } else { Shape::Unknown },
            names: if parts.is_empty() { Vec::new() } else { self.names.clone() },
            parts,
            flow: Flow::default(),
        }
    }

    /// The result of an operation that is this use of it; what comes beside its tensor is no use.
    pub(crate) fn made_by(mut self, flow: Flow) -> Self {
        match self.parts.first_mut() {
            Some(tensor) => tensor.flow = flow,
            None => self.flow = flow,
        }
        self
    }

    /// Makes the uses of these values, one of which it is, its own.
    pub(crate) fn take_flows(&mut self, mut from: Vec<&mut Self>) {
        for (i, part) in self.parts.iter_mut().enumerate() {
            part.take_flows(from.iter_mut().filter_map(|value| value.parts.get_mut(i)).collect());
        }
        self.flow = Flow::either(from.into_iter().map(|value| std::mem::take(&mut value.flow)).collect());
    }

    /// What a declared type says; `param` is the region's type parameter.
    pub(crate) fn of_type(ty: &Type, param: Option<&str>) -> Self {
        Self::in_type(ty, param).shaped(Shape::of_type(ty))
    }

    fn in_type(ty: &Type, param: Option<&str>) -> Self {
        match ty {
            Type::Reference(reference) => Self::of_type(&reference.elem, param),
            Type::Paren(inner) => Self::of_type(&inner.elem, param),
            Type::Group(inner) => Self::of_type(&inner.elem, param),
            Type::Slice(slice) => Self::of_type(&slice.elem, param),
            Type::Array(array) => Self::of_type(&array.elem, param),
            Type::Tuple(tuple) => Self::tuple(tuple.elems.iter().map(|ty| Self::of_type(ty, param)).collect()),
            Type::Never(_) => Self::never(),
            Type::BareFn(_) | Type::Ptr(_) => Self::other(),
            Type::Path(path) => Self::of_path(&path.path, param),
            _ => Self::opaque(),
        }
    }

    fn of_path(path: &syn::Path, param: Option<&str>) -> Self {
        let Some(last) = path.segments.last() else { return Self::opaque() };
        let name = last.ident.to_string();
        let first = match &last.arguments {
            PathArguments::AngleBracketed(list) => list.args.iter().find_map(|arg| match arg {
                GenericArgument::Type(ty) => Some(ty),
                _ => None,
            }),
            _ => None,
        };
        match (name.as_str(), first) {
            ("Tensor", Some(ty)) => Self::of_marker(ty, param),
            ("Option" | "Result" | "Vec" | "Box" | "Rc" | "Arc" | "VecDeque", Some(ty)) => Self::of_type(ty, param),
            ("Tensor", None) => Self::new(Prec::Unknown),
            // Not sure: a parameter becomes a tensor only by a cast.
            ("Parameter", None) => Self::new(Prec::F32),
            (
                "bool" | "char" | "str" | "String" | "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i8" | "i16"
                | "i32" | "i64" | "i128" | "isize" | "f32" | "f64" | "Device" | "Fill",
                None,
            ) => Self::other(),
            (name, _) if has_operators(name) => Self::other(),
            _ => Self::opaque(),
        }
    }

    fn of_marker(ty: &Type, param: Option<&str>) -> Self {
        let Type::Path(path) = ty else { return Self::new(Prec::Unknown) };
        let Some(last) = path.path.segments.last() else { return Self::new(Prec::Unknown) };
        if param == Some(param_name(&path.path).as_str()) {
            return Self::sure(Prec::Half(param_name(&path.path)));
        }
        match last.ident.to_string().as_str() {
            "F32" => Self::sure(Prec::F32),
            half @ ("F16" | "BF16") => Self::sure(Prec::Half(half.into())),
            "F64" | "I64" | "U8" | "Bool" => Self::other(),
            _ => Self::new(Prec::Unknown),
        }
    }
}

/// Whether this is a type of the standard library that has operators and holds no tensor.
pub(crate) fn has_operators(name: &str) -> bool {
    matches!(name, "Duration" | "Instant" | "SystemTime" | "Wrapping" | "Saturating")
}

#[cfg(test)]
mod tests {
    use super::Prec;

    fn all() -> Vec<Prec> {
        vec![
            Prec::Never,
            Prec::Other,
            Prec::Half("F16".into()),
            Prec::Half("P".into()),
            Prec::F32,
            Prec::Unknown,
            Prec::Apart,
            Prec::Opaque,
        ]
    }

    #[test]
    fn join_is_commutative_and_idempotent() {
        for a in all() {
            assert_eq!(a.join(&a), a);
            for b in all() {
                assert_eq!(a.join(&b), b.join(&a), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn half_and_f32_join_at_f32_and_nothing_narrows() {
        let half = Prec::Half("F16".into());
        assert_eq!(half.join(&Prec::F32), Prec::F32);
        assert_eq!(half.join(&Prec::Half("P".into())), Prec::Unknown);
        assert_eq!(half.join(&Prec::Half("BF16".into())), Prec::Apart);
        assert_eq!(half.join(&Prec::Apart), Prec::Apart);
        for x in all() {
            assert_ne!(x.join(&Prec::F32), half, "{x:?}");
        }
    }
}
