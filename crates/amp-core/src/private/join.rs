//! Branches whose precision the macro cannot know: the types decide whether they differ, and where they join.

use super::halves::{Halved, HalvesMeet, Start};
use super::{Cast, Inside, Probe, Recast, RuntimePrecision, To, to};
use crate::precision::F32;

/// The value of one of several branches, all of one type.
pub trait Alike {
    /// That type.
    type Output;
    /// The value.
    fn only(self) -> Self::Output;
}

/// The value of one of several branches that can meet at F32.
#[diagnostic::on_unimplemented(
    message = "the branches of this expression have incompatible types",
    label = "these types do not join"
)]
pub trait Joins {
    /// The F32 value.
    type Output;
    /// Widens whichever value it is.
    fn widen(self) -> Self::Output;
}

/// As [`Joins`], of branches that are references.
#[diagnostic::on_unimplemented(
    message = "the branches of this expression have incompatible types",
    label = "these types do not join"
)]
pub trait JoinsBehind {
    /// The F32 tensor.
    type Lent;
    /// Widens whichever value it is and lends it out of the slot.
    fn widen_in(self, slot: &mut Option<Self::Lent>) -> &Self::Lent;
}

/// Branches that carry their precision at run time.
pub trait AtRuntime {}

/// The value of one of several branches.
pub trait Several {
    /// Their types, each in a pair with those behind it.
    type List;
}

/// Treatment of branches of one type: as they are.
#[derive(Clone, Copy, Debug)]
pub struct Takes;

/// Treatment of branches that differ: F32.
#[derive(Clone, Copy, Debug)]
pub struct Widens;

impl Takes {
    /// Joins.
    pub fn join<J: Alike>(self, value: J) -> J::Output {
        value.only()
    }

    /// Joins references.
    pub fn join_behind<J: Alike>(self, value: J, _slot: &mut Option<()>) -> J::Output {
        value.only()
    }
}

impl Widens {
    /// Joins.
    pub fn join<J: Joins>(self, value: J) -> J::Output {
        value.widen()
    }

    /// Joins references: what is widened lives in the slot.
    pub fn join_behind<J: JoinsBehind>(self, value: J, slot: &mut Option<J::Lent>) -> &J::Lent {
        value.widen_in(slot)
    }
}

/// Branches that carry their precision at run time join at F32.
pub trait Runtime {
    /// The treatment.
    fn joined(&self) -> Widens;
}

/// Branches of one type join as they are.
pub trait Equal {
    /// The treatment.
    fn joined(&self) -> Takes;
}

/// Branches of F16 and BF16, and nothing else, do not join.
pub trait Halves<J> {
    /// Rejects them.
    fn joined(&self) -> Widens
    where
        J: HalvesMeet;
}

/// Branches that differ join at F32.
pub trait Differing {
    /// The treatment.
    fn joined(&self) -> Widens;
}

impl<J: AtRuntime, K> Runtime for &&&Probe<J, K> {
    fn joined(&self) -> Widens {
        Widens
    }
}

impl<J: Alike, K> Equal for &&Probe<J, K> {
    fn joined(&self) -> Takes {
        Takes
    }
}

impl<J: Several<List: Halved<Start>>, K> Halves<J> for &Probe<J, K> {
    fn joined(&self) -> Widens
    where
        J: HalvesMeet,
    {
        Widens
    }
}

impl<J, K> Differing for Probe<J, K> {
    fn joined(&self) -> Widens {
        Widens
    }
}

macro_rules! joins {
    ($($(#[$doc:meta])* $name:ident: $($variant:ident),+;)*) => { $(
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $name<$($variant),+> {
            $(
                /// The value of this branch.
                $variant($variant)
            ),+
        }

        impl<$($variant: Inside),+> AtRuntime for $name<$($variant),+> where $($variant::Tensor: RuntimePrecision),+ {}

        impl<$($variant),+> Several for $name<$($variant),+> {
            type List = joins!(@list $($variant)+);
        }

        impl<T> Alike for $name<$(joins!(@same $variant T)),+> {
            type Output = T;
            fn only(self) -> T {
                match self {
                    $(Self::$variant(value) => value,)+
                }
            }
        }

        #[diagnostic::do_not_recommend]
        impl<$($variant: Recast<To<F32>, Output = Out>,)+ Out> Joins for $name<$($variant),+> {
            type Output = Out;
            fn widen(self) -> Out {
                match self {
                    $(Self::$variant(value) => value.recast(to()),)+
                }
            }
        }

        #[diagnostic::do_not_recommend]
        impl<$($variant: Inside<Tensor: Cast<To<F32>, Output = Out>>,)+ Out> JoinsBehind for $name<$($variant),+> {
            type Lent = Out;
            fn widen_in(self, slot: &mut Option<Out>) -> &Out {
                slot.insert(match self {
                    $(Self::$variant(value) => value.inside().cast(to()),)+
                })
            }
        }
    )* };
    (@same $variant:ident $t:ident) => { $t };
    (@list $first:ident $($other:ident)*) => { ($first, joins!(@list $($other)*)) };
    (@list) => { () };
}
joins! {
    /// The value of one of two branches.
    Join2: A, B;
    /// The value of one of three branches.
    Join3: A, B, C;
    /// The value of one of four branches.
    Join4: A, B, C, D;
    /// The value of one of five branches.
    Join5: A, B, C, D, E;
    /// The value of one of six branches.
    Join6: A, B, C, D, E, F;
    /// The value of one of seven branches.
    Join7: A, B, C, D, E, F, G;
    /// The value of one of eight branches.
    Join8: A, B, C, D, E, F, G, H;
    /// The value of one of nine branches.
    Join9: A, B, C, D, E, F, G, H, I;
    /// The value of one of ten branches.
    Join10: A, B, C, D, E, F, G, H, I, J;
    /// The value of one of eleven branches.
    Join11: A, B, C, D, E, F, G, H, I, J, L;
    /// The value of one of twelve branches.
    Join12: A, B, C, D, E, F, G, H, I, J, L, M;
}
