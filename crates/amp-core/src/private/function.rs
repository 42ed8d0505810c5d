//! A function called by its bare name: this library's, or another one of the same name.
//!
//! Neither name nor arguments tell them apart; the type of the result does. Given a tensor whose results are to be written in
//! `L`, only the library's functions return a tensor whose type says that this was done.

use super::probe::Two;
use super::{Keep, Probe, To, to};
use crate::precision::{AutocastPrecision, Rounded, Rounding};
use crate::{Result, Tensor};
use std::marker::PhantomData;

/// Whether this is a function of the library's that writes its result in `L`, if `K` is `To<L>`: `.ours2()` asks for one
/// of two arguments.
pub const fn function<'a, F, K: Copy>(_function: &F, _to: K) -> Two<'a, F, K> {
    &&Probe(PhantomData, PhantomData)
}

macro_rules! arities {
    ($($ours:ident $asked:ident: $($arg:ident),+;)*) => {
        $(
            /// A function of the library's.
            pub trait $ours<$($arg),+> {
                /// The region's precision.
                type Lower;
                /// It is.
                fn $asked(&self) -> To<Self::Lower> {
                    to()
                }
            }

            impl<F, L: AutocastPrecision, $($arg),+> $ours<$($arg),+> for &Probe<F, To<L>>
            where
                F: Fn(&Tensor<Rounding<L>>, $($arg),+) -> Result<Tensor<Rounded<L>>>,
            {
                type Lower = L;
            }
        )*

        /// Any other function.
        pub trait Others {
            $(
                /// It is not.
                fn $asked(&self) -> Keep {
                    Keep
                }
            )*
        }
    };
}
arities! {
    Ours2 ours2: A;
    Ours3 ours3: A, B;
    Ours4 ours4: A, B, C;
    Ours5 ours5: A, B, C, D;
}

impl<F, K> Others for Probe<F, K> {}
