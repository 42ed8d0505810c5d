//! The macros of amp: `#[autocast]`, `amp_region!`, `#[amp_op]`, `amp_policy!`.
//!
//! One file a phase: `args` (grammar), `item` (what an attribute stands on), `rules` (the policy table and what the user
//! changed in it), `lattice` and `scope` (what is known about values), `walk` (the interpreter that rewrites), `hoist`
//! (where narrowings are made), `literal` (constants), `emit` (tokens of casts), `plan` (what was decided), `expand`,
//! `region`, `policy`, `amp_op` (entry points), `error` (messages). `derive_module` stands apart: `#[derive(Module)]`.

#![forbid(unsafe_code)]

mod amp_op;
mod args;
mod derive_module;
mod emit;
mod error;
mod expand;
mod hoist;
mod item;
mod lattice;
mod literal;
mod plan;
mod policy;
mod region;
mod rules;
mod scope;
mod walk;

use proc_macro::TokenStream;

/// Runs a function in mixed precision, decided at compile time.
#[proc_macro_attribute]
pub fn autocast(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::autocast(args.into(), item.into()).into()
}

/// Runs a block or an expression in mixed precision.
#[proc_macro]
pub fn amp_region(input: TokenStream) -> TokenStream {
    region::amp_region(input.into()).into()
}

/// Declares the class of an operation of one's own.
#[proc_macro_attribute]
pub fn amp_op(args: TokenStream, item: TokenStream) -> TokenStream {
    amp_op::amp_op(args.into(), item.into()).into()
}

/// Defines a reusable policy.
#[proc_macro]
pub fn amp_policy(input: TokenStream) -> TokenStream {
    policy::amp_policy(input.into()).into()
}

/// What a policy macro expands an annotated function with.
#[doc(hidden)]
#[proc_macro]
pub fn autocast_with(input: TokenStream) -> TokenStream {
    expand::autocast_with(input.into()).into()
}

/// What a policy macro expands a region with.
#[doc(hidden)]
#[proc_macro]
pub fn region_with(input: TokenStream) -> TokenStream {
    region::region_with(input.into()).into()
}

/// Implements `amp::nn::Module`: named parameters, running statistics, nested modules, train/eval mode.
///
/// Every field whose type implements `Module` belongs to the model: layers, parameters, other models, and Vec, Option,
/// Box, Arc, arrays and tuples of them. Other fields (sizes, names, constant tensors) are passed over. A type parameter
/// that is a field must be a module.
///
/// `#[module(skip)]` leaves a field out and `#[module(name = "..")]` renames it, as in a file from elsewhere;
/// `#[module(crate = path)]` on the type names the crate where it is not called `amp`.
#[proc_macro_derive(Module, attributes(module))]
pub fn derive_module(input: TokenStream) -> TokenStream {
    derive_module::expand(syn::parse_macro_input!(input)).into()
}
