//! Precision as a type: the markers that tensors carry and the rules between them.

use amp_cpu::{DType, Storage};
use half::{bf16, f16};

mod sealed {
    pub trait Sealed {}
}

/// Element type of a tensor, as a type: the `P` of [`Tensor<P>`](crate::Tensor).
pub trait Element: sealed::Sealed + Clone + Copy + Send + Sync + 'static + std::fmt::Debug {
    /// The Rust type of one element on the host.
    type Host: Copy + Default + Send + Sync + PartialEq + std::fmt::Debug + 'static;

    /// The element type as a value.
    const DTYPE: DType;

    /// The precision to which `full` operations round their results as they write them, if it is another than their own.
    #[doc(hidden)]
    const WRITES: Option<DType> = None;

    /// The precision of the result of a `full` operation that is called as a function. It differs from `Self` only for
    /// [`Rounding`], so that a region can tell this library's functions from others of the same name.
    #[doc(hidden)]
    type Written: Element;

    /// Wraps host elements into a buffer.
    #[doc(hidden)]
    fn wrap(data: Vec<Self::Host>) -> Storage;

    /// Unwraps the host elements of a buffer of this type.
    #[doc(hidden)]
    fn unwrap(data: Storage) -> Option<Vec<Self::Host>>;
}

/// Floating-point precision: [`F16`], [`BF16`], [`F32`], [`F64`].
pub trait Float: Numeric {
    /// The precision of what lies between the steps of a composed operation: F32, or F64 for F64.
    #[doc(hidden)]
    type Wide: FullRange;
}

/// Precision with arithmetic: the floats, [`I64`] and [`U8`].
pub trait Numeric: Element + SamePrecision<Self> {}

/// Precision with the range and digits of at least F32: [`F32`], [`F64`].
///
/// Operations that are unsafe in half precision exist for these only.
pub trait FullRange: Float {}

/// 16-bit precision: [`F16`], [`BF16`].
pub trait HalfPrecision: Float {}

/// Precision that an autocast region can run in: [`F16`], [`BF16`], and [`F32`] for "leave everything in full precision".
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a precision that autocast can use",
    note = "expected `F16`, `BF16` or `F32`"
)]
pub trait AutocastPrecision: Float {}

macro_rules! element {
    ($(#[$doc:meta])* $name:ident, $host:ty) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $name;

        impl sealed::Sealed for $name {}

        impl Element for $name {
            type Host = $host;
            type Written = Self;
            const DTYPE: DType = DType::$name;

            fn wrap(data: Vec<$host>) -> Storage {
                Storage::$name(data.into())
            }

            fn unwrap(data: Storage) -> Option<Vec<$host>> {
                match data {
                    Storage::$name(data) => Some(data.into_vec()),
                    _ => None,
                }
            }
        }
    };
}

element!(
    /// IEEE half precision: largest finite value 65504, smallest normal 6.1e-5, 11 significant bits.
    F16, f16
);
element!(
    /// bfloat16: the range of F32 with 8 significant bits.
    BF16, bf16
);
element!(
    /// Single precision.
    F32, f32
);
element!(
    /// Double precision; never touched by autocast.
    F64, f64
);
element!(
    /// 64-bit integers: indices and labels.
    I64, i64
);
element!(
    /// Bytes.
    U8, u8
);
element!(
    /// Truth values: masks and comparisons.
    Bool, bool
);

/// F32 whose `full` operations store their results in `L`: they compute in F32, round once, and the result counts as F32.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rounding<L>(std::marker::PhantomData<L>);

impl<L: AutocastPrecision> sealed::Sealed for Rounding<L> {}

impl<L: AutocastPrecision> Element for Rounding<L> {
    type Host = f32;
    type Written = Rounded<L>;
    const DTYPE: DType = DType::F32;
    const WRITES: Option<DType> = Some(L::DTYPE);

    fn wrap(data: Vec<f32>) -> Storage {
        F32::wrap(data)
    }

    fn unwrap(data: Storage) -> Option<Vec<f32>> {
        F32::unwrap(data)
    }
}

/// F32 that a function of this library has rounded to `L` as it wrote it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rounded<L>(std::marker::PhantomData<L>);

impl<L: AutocastPrecision> sealed::Sealed for Rounded<L> {}

impl<L: AutocastPrecision> Element for Rounded<L> {
    type Host = f32;
    type Written = Self;
    const DTYPE: DType = DType::F32;

    fn wrap(data: Vec<f32>) -> Storage {
        F32::wrap(data)
    }

    fn unwrap(data: Storage) -> Option<Vec<f32>> {
        F32::unwrap(data)
    }
}

impl<L: AutocastPrecision> Numeric for Rounding<L> {}
impl<L: AutocastPrecision> Float for Rounding<L> {
    type Wide = F32;
}
impl<L: AutocastPrecision> FullRange for Rounding<L> {}
impl<L: AutocastPrecision> SamePrecision<Rounding<L>> for Rounding<L> {}
impl<L: AutocastPrecision> Numeric for Rounded<L> {}
impl<L: AutocastPrecision> Float for Rounded<L> {
    type Wide = F32;
}
impl<L: AutocastPrecision> SamePrecision<Rounded<L>> for Rounded<L> {}

macro_rules! implement {
    ($($trait:ident: $($type:ident),*;)*) => { $($(impl $trait for $type {})*)* };
}
implement! {
    Numeric: F16, BF16, F32, F64, I64, U8;
    FullRange: F32, F64;
    HalfPrecision: F16, BF16;
    AutocastPrecision: F16, BF16, F32;
}

macro_rules! floats {
    ($($type:ident => $wide:ident),*) => { $(impl Float for $type { type Wide = $wide; })* };
}
floats!(F16 => F32, BF16 => F32, F32 => F32, F64 => F64);

/// Widest of two precisions, for operations whose arguments meet there.
///
/// F16 and BF16 never meet: neither holds the other, so there the cast must be written.
#[diagnostic::on_unimplemented(
    message = "`{Self}` and `{Q}` tensors do not meet in one operation",
    note = "F16 and BF16 never promote to each other, and F64, integer and boolean tensors are never cast for you; \
            write the cast with `.to()`"
)]
pub trait Promote<Q>: Element {
    /// The precision they meet in.
    type Output: Element;
}

macro_rules! promote {
    ($($a:ident, $b:ident => $out:ident;)*) => { $(impl Promote<$b> for $a { type Output = $out; })* };
}
promote! {
    F16, F16 => F16; BF16, BF16 => BF16; F32, F32 => F32; F64, F64 => F64; I64, I64 => I64; U8, U8 => U8;
    Bool, Bool => Bool; F16, F32 => F32; F32, F16 => F32; BF16, F32 => F32; F32, BF16 => F32;
}

/// Bound of operations on two tensors outside a region: both must have one precision.
///
/// The text is that of pairs without one of their own below: a type parameter, bytes, truth values.
#[diagnostic::on_unimplemented(
    message = "cannot combine a `{Self}` tensor with a `{Q}` tensor",
    label = "this tensor is `{Q}`, the other is `{Self}`",
    note = "outside an autocast region no operand is cast for you; in one, 16 bits are widened beside F32, and nothing else is",
    note = "cast one side with `.to()`: a bound `SamePrecision` holds where both have one precision only"
)]
pub trait SamePrecision<Q>: Element {}

/// A second implementation for every type keeps the compiler from guessing `Q` from a single candidate, so that a
/// mismatch is reported in the words below instead of as "mismatched types".
#[doc(hidden)]
#[derive(Debug)]
pub struct Sentinel;

macro_rules! same {
    ($($type:ident),*) => { $(
        impl SamePrecision<$type> for $type {}
        #[diagnostic::do_not_recommend]
        impl SamePrecision<Sentinel> for $type {}
    )* };
}
same!(F16, BF16, F32, F64, I64, U8, Bool);

/// One trait a pair, because a diagnostic's text can name the pair only literally. The bound is on `()`: rustc then
/// reports this trait and not `SamePrecision`; the lifetime keeps the never-true bound from being rejected outright.
macro_rules! apart {
    ($($why:literal, $help:literal: $($trait:ident: $a:ident, $b:ident, $message:literal, $label:literal;)*)*) => { $($(
        #[doc(hidden)]
        #[diagnostic::on_unimplemented(message = $message, label = $label, note = $why, note = $help)]
        pub trait $trait<'a> {}
        impl SamePrecision<$b> for $a where for<'a> (): $trait<'a> {}
    )*)* };
}
apart! {
    "outside an autocast region, and inside a macro of your own, no operand is cast for you", "cast one side with `.to()`, or move the expression into `#[autocast(..)]`":
    F16MeetsF32: F16, F32, "cannot combine a `F16` tensor with a `F32` tensor", "this tensor is `F32`, the other is `F16`";
    BF16MeetsF32: BF16, F32, "cannot combine a `BF16` tensor with a `F32` tensor", "this tensor is `F32`, the other is `BF16`";
    F32MeetsF16: F32, F16, "cannot combine a `F32` tensor with a `F16` tensor", "this tensor is `F16`, the other is `F32`";
    F32MeetsBF16: F32, BF16, "cannot combine a `F32` tensor with a `BF16` tensor", "this tensor is `BF16`, the other is `F32`";
    "F16 and BF16 are never cast to each other for you, not even in a region", "cast one side with `.to()`":
    F16MeetsBF16: F16, BF16, "cannot combine a `F16` tensor with a `BF16` tensor", "this tensor is `BF16`, the other is `F16`";
    BF16MeetsF16: BF16, F16, "cannot combine a `BF16` tensor with a `F16` tensor", "this tensor is `F16`, the other is `BF16`";
    "F64 and integer tensors are never cast for you, not even in a region", "cast one side with `.to()`":
    F16MeetsF64: F16, F64, "cannot combine a `F16` tensor with a `F64` tensor", "this tensor is `F64`, the other is `F16`";
    F16MeetsI64: F16, I64, "cannot combine a `F16` tensor with a `I64` tensor", "this tensor is `I64`, the other is `F16`";
    BF16MeetsF64: BF16, F64, "cannot combine a `BF16` tensor with a `F64` tensor", "this tensor is `F64`, the other is `BF16`";
    BF16MeetsI64: BF16, I64, "cannot combine a `BF16` tensor with a `I64` tensor", "this tensor is `I64`, the other is `BF16`";
    F32MeetsF64: F32, F64, "cannot combine a `F32` tensor with a `F64` tensor", "this tensor is `F64`, the other is `F32`";
    F32MeetsI64: F32, I64, "cannot combine a `F32` tensor with a `I64` tensor", "this tensor is `I64`, the other is `F32`";
    F64MeetsF16: F64, F16, "cannot combine a `F64` tensor with a `F16` tensor", "this tensor is `F16`, the other is `F64`";
    F64MeetsBF16: F64, BF16, "cannot combine a `F64` tensor with a `BF16` tensor", "this tensor is `BF16`, the other is `F64`";
    F64MeetsF32: F64, F32, "cannot combine a `F64` tensor with a `F32` tensor", "this tensor is `F32`, the other is `F64`";
    F64MeetsI64: F64, I64, "cannot combine a `F64` tensor with a `I64` tensor", "this tensor is `I64`, the other is `F64`";
    I64MeetsF16: I64, F16, "cannot combine a `I64` tensor with a `F16` tensor", "this tensor is `F16`, the other is `I64`";
    I64MeetsBF16: I64, BF16, "cannot combine a `I64` tensor with a `BF16` tensor", "this tensor is `BF16`, the other is `I64`";
    I64MeetsF32: I64, F32, "cannot combine a `I64` tensor with a `F32` tensor", "this tensor is `F32`, the other is `I64`";
    I64MeetsF64: I64, F64, "cannot combine a `I64` tensor with a `F64` tensor", "this tensor is `F64`, the other is `I64`";
}

/// Declares the bound of one operation that must run in full precision, beside that operation:
/// `full_range! { ExpPrecision, "`exp` must run in `F32`"; }`.
///
/// It is [`FullRange`] under a name of its own, so that the error can name the operation. An operation that is composed of
/// another one also names that one's bound. Ahead of them stands what to do instead, where a region inserts no cast.
macro_rules! full_range {
    ($($trait:ident $(: $base:path)?, $message:literal;)*) => { $crate::precision::full_range! {
        "inside `#[autocast(..)]` the cast to `F32` is inserted for you; here write `.to::<F32>()?` first, \
         or bound a parameter `P` by `FullRange`":
        $($trait $(: $base)?, $message;)*
    } };
    ($note:literal: $($trait:ident $(: $base:path)?, $message:literal;)*) => { $(
        #[doc(hidden)]
        #[diagnostic::on_unimplemented(
            message = $message,
            label = "this tensor has too little range or precision for it",
            note = $note
        )]
        pub trait $trait: $crate::precision::FullRange $(+ $base)? {}
        #[diagnostic::do_not_recommend]
        impl<P: $crate::precision::FullRange> $trait for P {}
    )* };
}
pub(crate) use full_range;
