//! The autocast macros of amp.

mod derive_module;

use proc_macro::TokenStream;

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
