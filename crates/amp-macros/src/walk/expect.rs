//! What the places declare that values go to.

use crate::lattice::{Prec, Value};
use syn::punctuated::Punctuated;
use syn::{
    GenericArgument, ParenthesizedGenericArguments, PathArguments, ReturnType, Token, Type, TypeBareFn, TypeParamBound,
    TypePath, parse_quote,
};

/// What the place that a value goes to declares.
#[derive(Clone, Debug, Default)]
pub(crate) enum Expect {
    #[default]
    Nothing,
    /// A tensor (or a container of tensors) of this precision.
    Prec(Prec),
    Tuple(Vec<Expect>),
    /// A type that says nothing to the macro: the compiler knows what is expected.
    Open,
    /// A type that only its name is known of (an alias): the compiler says whether it is a tensor of F32.
    Named(Box<Type>),
    /// A trait object: values of several types are coerced to it.
    Object,
    /// An iterator over such, of a type that is not written.
    Items(Box<Expect>),
    /// A closure that returns such.
    Function(Box<Expect>),
    /// An async block that ends in such.
    Future(Box<Expect>),
}

impl Expect {
    /// What a declared return type expects.
    pub(crate) fn of_return(output: &ReturnType, param: Option<&str>) -> Self {
        match output {
            ReturnType::Default => Self::Nothing,
            ReturnType::Type(_, ty) => Self::of_type(ty, param),
        }
    }

    pub(super) fn of_type(ty: &Type, param: Option<&str>) -> Self {
        // A reference is handed on; there is no owned value to widen.
        match ty {
            ty if let Some(item) = item_of(ty).map(|item| Self::of_type(item, param)).filter(Self::wants_f32) => {
                Self::Items(Box::new(item))
            }
            ty if let Some(output) = output_of(ty) => Self::Future(Box::new(Self::of_type(output, param))),
            ty if is_object(ty) => Self::Object,
            Type::ImplTrait(_) | Type::BareFn(_) => match result_of(ty).map(|result| Self::of_type(result, param)) {
                Some(result) => Self::Function(Box::new(result)),
                None => elements_of(ty).map_or(Self::Nothing, |item| Self::of_type(item, param)),
            },
            Type::Reference(_) => Self::Nothing,
            Type::Tuple(tuple) => Self::Tuple(tuple.elems.iter().map(|ty| Self::of_type(ty, param)).collect()),
            Type::Array(array) => Self::of_type(&array.elem, param),
            Type::Slice(slice) => Self::of_type(&slice.elem, param),
            Type::Path(path) => match (container(&path.path), Self::of_value(&Value::of_type(ty, param))) {
                (Some(inner), _) => Self::of_type(inner, param),
                // References in a list are handed on, too.
                (None, _) if Self::lends(ty, param) => Self::Nothing,
                // What a map holds.
                (None, Self::Tuple(_)) if let Some(tuple) = listed(&path.path) => Self::of_type(tuple, param),
                // A map is made of pairs.
                (None, Self::Nothing) if let Some(pair) = mapped(&path.path) => {
                    Self::Tuple(pair.map(|ty| Self::of_type(ty, param)).to_vec())
                }
                (None, Self::Nothing) if let Some(held) = listed(&path.path) => match Self::of_type(held, param) {
                    _ if matches!(held, Type::Infer(_)) => Self::Nothing,
                    expect @ (Self::Prec(_) | Self::Named(_) | Self::Object) => expect,
                    _ => Self::Open,
                },
                (None, Self::Nothing) if is_name(path, param) => Self::Named(Box::new(ty.clone())),
                (None, Self::Nothing) if path.path.segments.iter().any(|segment| !segment.arguments.is_none()) => {
                    Self::Open
                }
                (None, expect) => expect,
            },
            _ => Self::of_value(&Value::of_type(ty, param)),
        }
    }

    /// Whether what a type, or a list of it, borrows is expected to be F32.
    pub(super) fn lends(ty: &Type, param: Option<&str>) -> bool {
        lent(ty).is_some_and(|ty| Self::of_type(ty, param).wants_f32())
    }

    /// What a variable that holds a tuple of which this is expected expects of what it is given: that elements of F32
    /// stay so.
    pub(super) fn of_tuple(self) -> Self {
        match self {
            Self::Tuple(parts) => Self::Tuple(parts.into_iter().map(Self::of_element).collect()),
            _ => Self::Nothing,
        }
    }

    fn of_element(self) -> Self {
        match self {
            Self::Prec(Prec::F32) | Self::Named(_) => self,
            other => other.of_tuple(),
        }
    }

    /// Whether elements of F32 are expected, or may be.
    pub(super) fn wants_f32(&self) -> bool {
        match self {
            Self::Prec(prec) => *prec == Prec::F32,
            Self::Tuple(parts) => parts.iter().any(Self::wants_f32),
            Self::Named(_) => true,
            Self::Nothing | Self::Open | Self::Object | Self::Items(_) | Self::Function(_) | Self::Future(_) => false,
        }
    }

    /// Whether all tensors that are expected are F32, and some are.
    pub(super) fn is_f32(&self) -> bool {
        let may_be = |part: &Self| matches!(part, Self::Nothing | Self::Open) || part.is_f32();
        match self {
            Self::Prec(prec) => *prec == Prec::F32,
            Self::Tuple(parts) => parts.iter().any(Self::is_f32) && parts.iter().all(may_be),
            _ => false,
        }
    }

    /// Whether a value holds nothing yet where only the name of a type is known: the compiler knows what it will hold.
    pub(super) fn opens(&self, value: &Value) -> bool {
        match self {
            Self::Named(_) => value.prec == Prec::Never,
            Self::Tuple(parts) if parts.len() == value.parts.len() => {
                let mut empty =
                    parts.iter().zip(&value.parts).filter(|(_, value)| value.prec != Prec::Other).peekable();
                empty.peek().is_some() && empty.all(|(part, value)| part.opens(value))
            }
            _ => false,
        }
    }

    /// The name of the type of all tensors that are expected.
    pub(super) fn name(&self) -> Option<&Type> {
        match self {
            Self::Named(ty) => Some(ty),
            Self::Tuple(parts) => {
                let mut tensors = parts.iter().filter(|part| !matches!(part, Self::Nothing | Self::Open));
                let name = tensors.next()?.name()?;
                tensors.all(|part| part.name() == Some(name)).then_some(name)
            }
            _ => None,
        }
    }

    /// Whether trait objects are expected, or tuples with some.
    pub(super) fn coerces(&self) -> bool {
        match self {
            Self::Object => true,
            Self::Tuple(parts) => parts.iter().any(Self::coerces),
            _ => false,
        }
    }

    /// What is known of a value that the compiler was asked to make this.
    pub(super) fn given(&self) -> Value {
        match self {
            Self::Prec(prec) => Value::sure(prec.clone()),
            Self::Tuple(parts) => Value::tuple(parts.iter().map(Self::given).collect()),
            _ => Value::opaque(),
        }
    }

    /// What the written type of a variable expects of what it begins with: that F32 stays so. Of what is narrower it is an
    /// assertion.
    pub(super) fn of_variable(self) -> Self {
        match self {
            Self::Tuple(parts) => Self::Tuple(parts.into_iter().map(Self::of_variable).collect()),
            Self::Prec(prec) if prec != Prec::F32 => Self::Nothing,
            other => other,
        }
    }

    pub(super) fn of_value(value: &Value) -> Self {
        if !value.parts.is_empty() {
            return Self::Tuple(value.parts.iter().map(Self::of_value).collect());
        }
        match &value.prec {
            prec @ (Prec::F32 | Prec::Half(_)) if value.sure => Self::Prec(prec.clone()),
            _ => Self::Nothing,
        }
    }
}

pub(super) fn all_f32(parts: &[Expect]) -> bool {
    parts.iter().all(|part| matches!(part, Expect::Prec(Prec::F32)))
}

/// Whether only the name of the type of an element is known.
pub(super) fn names_element(parts: &[Expect]) -> bool {
    parts.iter().any(|part| matches!(part, Expect::Named(_)))
}

/// Whether elements of pairs are F32, and no others are known.
pub(super) fn holds_f32(parts: &[Expect]) -> bool {
    parts.iter().any(|part| matches!(part, Expect::Prec(Prec::F32)))
        && parts.iter().all(|part| matches!(part, Expect::Prec(Prec::F32) | Expect::Nothing | Expect::Open))
}

/// Whether a type is a pointer to a trait object, or a list of such pointers.
fn is_object(ty: &Type) -> bool {
    match ty {
        Type::TraitObject(_) => true,
        Type::Reference(reference) => is_object(&reference.elem),
        Type::Array(array) => is_object(&array.elem),
        Type::Slice(slice) => is_object(&slice.elem),
        Type::Paren(inner) => is_object(&inner.elem),
        Type::Group(inner) => is_object(&inner.elem),
        Type::Path(path) => {
            let last =
                path.path.segments.last().filter(|last| ["Box", "Rc", "Arc"].iter().any(|name| last.ident == name));
            last.and_then(|last| type_arguments(last).next()).is_some_and(is_object)
        }
        _ => false,
    }
}

/// What the iterator gives that this type stands for: `impl Iterator<Item = Tensor<F32>>`, `Box<dyn Iterator<Item = ..>>`.
fn item_of(ty: &Type) -> Option<&Type> {
    associated(ty, |name| name.ends_with("Iterator") && name != "IntoIterator", "Item")
}

/// What may be iterated over gives that is returned as such: `impl IntoIterator<Item = Tensor<F32>>`, a list more often than not.
fn elements_of(ty: &Type) -> Option<&Type> {
    associated(ty, |name| name == "IntoIterator", "Item")
}

/// What the future gives that this type stands for: `impl Future<Output = Tensor<F32>>`, `Pin<Box<dyn Future<Output = ..>>>`.
fn output_of(ty: &Type) -> Option<&Type> {
    associated(ty, |name| name == "Future", "Output")
}

/// The associated type of this name that a trait has among the bounds of a type.
fn associated<'t>(ty: &'t Type, is_trait: fn(&str) -> bool, name: &str) -> Option<&'t Type> {
    bounds_of(ty)?.iter().find_map(|bound| {
        let TypeParamBound::Trait(bound) = bound else { return None };
        let last = bound.path.segments.last().filter(|last| is_trait(&last.ident.to_string()))?;
        let PathArguments::AngleBracketed(list) = &last.arguments else { return None };
        list.args.iter().find_map(|arg| match arg {
            GenericArgument::AssocType(item) if item.ident == name => Some(&item.ty),
            _ => None,
        })
    })
}

/// What the closure returns that this type stands for: `impl Fn(&Tensor<F32>) -> Result<Tensor<F32>>`, `fn(&Tensor<F32>) -> ..`.
fn result_of(ty: &Type) -> Option<&Type> {
    if let Type::BareFn(TypeBareFn { output: ReturnType::Type(_, ty), .. }) = ty {
        return Some(ty);
    }
    bounds_of(ty)?.iter().find_map(|bound| {
        let TypeParamBound::Trait(bound) = bound else { return None };
        match &bound.path.segments.last()?.arguments {
            PathArguments::Parenthesized(ParenthesizedGenericArguments { output: ReturnType::Type(_, ty), .. }) => {
                Some(&**ty)
            }
            _ => None,
        }
    })
}

/// The traits that are all that is known of a type.
fn bounds_of(ty: &Type) -> Option<&Punctuated<TypeParamBound, Token![+]>> {
    match ty {
        Type::ImplTrait(ty) => Some(&ty.bounds),
        Type::TraitObject(ty) => Some(&ty.bounds),
        Type::Paren(inner) => bounds_of(&inner.elem),
        Type::Group(inner) => bounds_of(&inner.elem),
        Type::Path(path) => {
            let last = path.path.segments.last().filter(|last| last.ident == "Box" || last.ident == "Pin")?;
            type_arguments(last).next().and_then(bounds_of)
        }
        _ => None,
    }
}

/// The types of the keys and the values of a map.
fn mapped(path: &syn::Path) -> Option<[&Type; 2]> {
    let last = path.segments.last().filter(|last| last.ident == "HashMap" || last.ident == "BTreeMap")?;
    let mut types = type_arguments(last);
    Some([types.next()?, types.next()?])
}

/// The type of the elements of a list.
fn listed(path: &syn::Path) -> Option<&Type> {
    let last = path.segments.last().filter(|last| last.ident == "Vec" || last.ident == "VecDeque")?;
    type_arguments(last).next()
}

/// The first type argument of a container whose elements leave one by one.
fn container(path: &syn::Path) -> Option<&Type> {
    let last = path.segments.last().filter(|last| ["Result", "Option", "Cow"].iter().any(|name| last.ident == name))?;
    type_arguments(last).next()
}

fn type_arguments(segment: &syn::PathSegment) -> impl Iterator<Item = &Type> {
    let args = match &segment.arguments {
        PathArguments::AngleBracketed(list) => Some(&list.args),
        _ => None,
    };
    args.into_iter().flatten().filter_map(|arg| match arg {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

/// Whether a type says what something is collected into, if not of what: `Result<Vec<_>>`.
pub(super) fn names_container(ty: &Type) -> bool {
    match ty {
        Type::Path(path) => container(&path.path).is_none_or(names_container),
        Type::Array(_) => true,
        _ => false,
    }
}

/// A path without arguments that may be an alias of a tensor's type, or the type that somebody's trait has there.
fn is_name(path: &TypePath, param: Option<&str>) -> bool {
    let plain = path.path.segments.iter().all(|segment| segment.arguments.is_none());
    (plain || path.qself.is_some())
        && !path.path.is_ident("Self")
        && param.is_none_or(|param| !path.path.is_ident(param))
        && !matches!(Value::of_type(&Type::Path(path.clone()), param).prec, Prec::Other)
}

/// The type of what a variable borrows, or what a list in it does.
fn lent(ty: &Type) -> Option<&Type> {
    match ty {
        Type::Reference(reference) => Some(&*reference.elem).filter(|_| reference.mutability.is_none()),
        Type::Array(array) => borrowed(&array.elem),
        Type::Path(path) => listed(&path.path).map_or_else(|| container(&path.path).and_then(lent), borrowed),
        _ => None,
    }
}

/// The type of a list, whatever its elements are: `Vec<_>`.
pub(super) fn list_of_any(ty: &Type) -> Option<TypePath> {
    let Type::Path(path) = ty else { return None };
    listed(&path.path)?;
    let mut list = path.clone();
    list.path.segments.last_mut()?.arguments = PathArguments::AngleBracketed(parse_quote!(<_>));
    Some(list)
}

/// The type that a reference is to.
fn borrowed(ty: &Type) -> Option<&Type> {
    lent(ty).filter(|_| matches!(ty, Type::Reference(_)))
}
