//! The contract between the macros' expansions and the tensors they run on.
//!
//! Expanded code names nothing but this module, so that a crate with tensors of its own (typed or with a precision
//! known at run time only) can be annotated too: it implements [`Inside`], [`Cast`] and [`Recast`] for its tensor,
//! plus [`Precise`] or [`RuntimePrecision`], re-exports this module as `__private`, and its users write
//! `#[autocast(f16, crate = that_crate)]`.
//!
//! Every cast is chosen by type, not by name: a call such as `x.exp()` is expanded to a probe of `x`, and method
//! resolution finds the tensor's implementation when `x` is one and the identity when it is anything else. Methods of
//! other types that share a name with an operation therefore compile as written.
//!
//! Nothing here is public API.

mod chain;
mod class;
mod direct;
mod function;
mod gather;
mod guard;
mod halves;
mod hold;
mod host;
mod input;
mod join;
mod later;
mod leave;
mod lend;
mod literal;
mod pairs;
mod probe;
mod receiver;
mod summand;
mod tally;
mod token;
pub mod training;
mod typed;

pub use crate::plan::Registered;
pub use crate::precision::{AutocastPrecision, BF16, Element, F16, F32};
pub use amp_policy::{Half, Part};
pub use chain::{Grown, Lending, chaining};
pub use class::{
    CastOf, Full, FullDirect, GivenTo, KeepClass, KeepCommuting, KeepSigns, KeepsF32, Lower, Marked, ModuleClass,
    Target, cast_of, given_to, marked, pinned,
};
pub use direct::{Commutes, Condition, FOREIGN, Narrows, OURS, WritesDirectly, Writing, finished, writing, written};
pub use function::function;
pub use gather::{Fails, gathering};
pub use guard::{CalledOn, HasPolicy, OnOther, OnTensor, Own};
pub use hold::{Casting, Given, Held, HeldOption, Moved};
pub use host::{Cast, Inside, Late, Plain, Precise, Recast, RuntimePrecision, RuntimeToken, cast, late, recast};
pub use join::{Join2, Join3, Join4, Join5, Join6, Join7, Join8, Join9, Join10, Join11, Join12};
pub use later::{Later, later};
pub use leave::{Nothing, Something, leaving};
pub use literal::{Asked, Found, HeldIn, HoldsAnything, HoldsAtRuntime, Judged, is_half, verdict};
pub use probe::{
    Probe, answered, declared, gate, input, item, module, owned, place, probe, receiver, slot, taker, token, writer,
};
pub use receiver::{ASKING, MISSING, Missing, absent, found, never};
pub use summand::{Summand, summands};
pub use tally::{More, Zero, sum, tally};
pub use token::{Keep, Pair, Quotient, TO_BF16, TO_F16, TO_F32, Through, To, pair, quotient, region, through, to};
pub use typed::{OfF32, of_f32, tensors};

/// The traits behind the probes, anonymous so that importing them all shadows nothing, and what a module of functions is
/// that says nothing else: somebody's own.
pub mod kinds {
    pub use super::FOREIGN as __AMP_FUNCTIONS;
    pub use super::chain::{ChainsAsIs as _, ChainsReferences as _, ChainsWidened as _};
    pub use super::class::{MarkedOther as _, NotModule as _};
    pub use super::direct::{
        IndirectTensor as _, KeepsOrWrites as _, NoTensor as _, NotDirectModule as _, OnlyKeeps as _, SeenThrough as _,
        TakesFull as _,
    };
    pub use super::function::{Others as _, Ours2 as _, Ours3 as _, Ours4 as _, Ours5 as _};
    pub use super::gather::{ReadyAsIs as _, ReadyWidened as _};
    pub use super::guard::{
        Anywhere as _, AtRuntimeReceiver as _, Loads as _, LoadsBehind as _, LoadsBehindTwo as _, LoadsNot as _,
        NeedsNone as _, NeedsPolicy as _, OfOthers as _, OfProbabilities as _, OtherReceiver as _, Outside as _,
        OutsideBehind as _, OutsideBehindThree as _, OutsideBehindTwo as _, WalksBack as _, WalksNot as _,
    };
    pub use super::hold::{AsIs as _, ByCopy as _, ByPlace as _, PlaceAsIs as _};
    pub use super::input::{
        AnyInput as _, BF16ForF16 as _, F16ForBF16 as _, F32Input as _, NoInput as _, Together as _, WrappedInput as _,
    };
    pub use super::join::{Differing as _, Equal as _, Halves as _, Runtime as _};
    pub use super::leave::{HandsWidened as _, LeavesAsIs as _, LeavesNarrowed as _, LeavesWidened as _};
    pub use super::lend::{HandsArray as _, HandsHeld as _, HandsList as _, HandsOptional as _, HandsReferences as _};
    pub use super::literal::{HoldsAnything as _, HoldsAtRuntime as _};
    pub use super::pairs::LeavesPairs as _;
    pub use super::probe::{
        AsIsOwned as _, GateShut as _, Known as _, OwnedTensor as _, SlotAsIs as _, SlotF32 as _, TokenNone as _,
        TokenRuntime as _, TokenTyped as _,
    };
    pub use super::receiver::{
        FoundExclusive as _, FoundShared as _, Give as _, Lend as _, NotFound as _, ReceiverArray as _,
        ReceiverExclusive as _, ReceiverExclusivePoints as _, ReceiverItself as _, ReceiverPoints as _,
        ReceiverPointsFar as _, ReceiverShared as _, ReceiverTensor as _, SurelyExclusive as _, SurelyShared as _,
    };
    pub use super::tally::{Counted as _, Narrow as _, Wide as _};
    pub use super::token::{
        LeftAbsent as _, LeftF32 as _, NeverMeet as _, OtherQuotient as _, RightAbsent as _, RightF32 as _,
        SameRuntime as _, SameToken as _,
    };
}

pub use inventory;
