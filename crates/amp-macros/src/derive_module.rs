//! `#[derive(Module)]`: shows a model's fields to a visitor.
//!
//! Which fields are modules is not for the macro to know: each is wrapped in a probe whose method resolves to a visit
//! where the field's type implements `Module`, to an error where it holds modules that a visitor would not reach (a map or a
//! cell of them, a struct that does not derive `Module`), and to nothing elsewhere.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use std::collections::HashSet;
use syn::spanned::Spanned;
use syn::{
    Data, DeriveInput, Error, Field, Fields, GenericArgument, Generics, Ident, Index, Path, PathArguments, PathSegment,
    Result, Type, TypeParam, TypeParamBound, WherePredicate,
};

/// The whole derive; on a mistake, its message beside an empty implementation, so that one mistake gives one error.
pub(crate) fn expand(input: DeriveInput) -> TokenStream {
    let options = match Options::of(&input) {
        Ok(options) => options,
        Err(error) => return with_error(&input, &Options::default(), &error),
    };
    match body(&input, &options) {
        Ok(body) => implementation(&input, &options, &body),
        Err(error) => with_error(&input, &options, &error),
    }
}

fn with_error(input: &DeriveInput, options: &Options, error: &Error) -> TokenStream {
    let (error, empty) = (error.to_compile_error(), implementation(input, options, &TokenStream::new()));
    quote!(#error #empty)
}

/// What stands in `#[module(..)]` on the type.
struct Options {
    amp: Path,
}

impl Default for Options {
    fn default() -> Self {
        Self { amp: syn::parse_quote!(::amp) }
    }
}

impl Options {
    fn of(input: &DeriveInput) -> Result<Self> {
        let mut options = Self::default();
        for attr in input.attrs.iter().filter(|a| a.path().is_ident("module")) {
            attr.parse_nested_meta(|meta| {
                if !meta.path.is_ident("crate") {
                    let name = meta.path.to_token_stream();
                    return Err(
                        meta.error(format!("`{name}` is not an option of a module\nhelp: expected `crate = path`"))
                    );
                }
                options.amp = meta.value()?.parse()?;
                Ok(())
            })?;
        }
        Ok(options)
    }
}

/// What stands in `#[module(..)]` on a field.
#[derive(Default)]
struct FieldOptions {
    skip: bool,
    name: Option<String>,
}

impl FieldOptions {
    fn of(field: &Field) -> Result<Self> {
        let mut options = Self::default();
        for attr in field.attrs.iter().filter(|a| a.path().is_ident("module")) {
            attr.parse_nested_meta(|meta| {
                if meta.path.is_ident("skip") {
                    if meta.input.peek(syn::Token![=]) {
                        return Err(meta.error("`skip` takes no value\nhelp: write `#[module(skip)]`"));
                    }
                    options.skip = true;
                } else if meta.path.is_ident("name") {
                    options.name = Some(meta.value()?.parse::<syn::LitStr>()?.value());
                } else {
                    let name = meta.path.to_token_stream();
                    let help = "expected `skip` or `name = \"..\"`";
                    return Err(meta.error(format!("`{name}` is not an option of a field\nhelp: {help}")));
                }
                Ok(())
            })?;
        }
        Ok(options)
    }
}

fn implementation(input: &DeriveInput, options: &Options, body: &TokenStream) -> TokenStream {
    let (name, amp) = (&input.ident, &options.amp);
    let mut generics = input.generics.clone();
    let modules = module_parameters(input);
    if !modules.is_empty() {
        let bounds = modules.iter().map(|p| -> WherePredicate { syn::parse_quote!(#p: #amp::nn::Module) });
        generics.make_where_clause().predicates.extend(bounds);
    }
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    quote! {
        #[automatically_derived]
        impl #impl_generics #amp::nn::Module for #name #type_generics #where_clause {
            #[allow(unused_imports, unused_variables, clippy::all)]
            fn visit(&self, __amp_visitor: &mut #amp::nn::Visitor<'_>) {
                use #amp::nn::derive::{RefuseField as _, VisitField as _};
                #body
            }
        }
    }
}

fn body(input: &DeriveInput, options: &Options) -> Result<TokenStream> {
    match &input.data {
        Data::Struct(data) => fields(&data.fields, &input.generics, options, |i, field| match &field.ident {
            Some(ident) => quote!(&self.#ident),
            None => {
                let index = Index::from(i);
                quote!(&self.#index)
            }
        }),
        Data::Enum(data) => {
            let arms = data.variants.iter().map(|variant| {
                let visits = fields(&variant.fields, &input.generics, options, |i, _| binding(i).to_token_stream())?;
                let bindings = variant.fields.iter().enumerate().map(|(i, field)| {
                    let (member, binding) = (member(i, field), binding(i));
                    quote!(#member: #binding)
                });
                let name = &variant.ident;
                Ok(quote!(Self::#name { #(#bindings),* } => { #visits }))
            });
            let arms = arms.collect::<Result<Vec<_>>>()?;
            // An enum without variants has no value to look at.
            Ok(if arms.is_empty() { TokenStream::new() } else { quote!(match self { #(#arms)* }) })
        }
        Data::Union(data) => Err(Error::new(
            data.union_token.span,
            "`Module` cannot be derived for a union\nhelp: use a struct or an enum",
        )),
    }
}

fn fields(
    fields: &Fields,
    generics: &Generics,
    options: &Options,
    access: impl Fn(usize, &Field) -> TokenStream,
) -> Result<TokenStream> {
    let amp = &options.amp;
    let mut names = HashSet::new();
    let visits = fields.iter().enumerate().map(|(i, field)| {
        let FieldOptions { skip, name } = FieldOptions::of(field)?;
        if skip {
            return Ok(TokenStream::new());
        }
        let name = name.unwrap_or_else(|| match &field.ident {
            Some(ident) => syn::ext::IdentExt::unraw(ident).to_string(),
            None => i.to_string(),
        });
        if !names.insert(name.clone()) {
            let message = format!("two fields of this module are called `{name}`");
            let help = "a file of its state would hold one of them: give this one another `#[module(name = \"..\")]`";
            return Err(Error::new(field.span(), format!("{message}\nhelp: {help}")));
        }
        let value = access(i, field);
        let visit = quote_spanned!(field.ty.span().resolved_at(Span::mixed_site())=> visit_field);
        let otherwise = match mentions(field.ty.to_token_stream(), generics) {
            true if holds_modules(&field.ty, generics) => quote!(DenyField as _),
            true => quote!(IgnoreGeneric as _),
            false => quote!(IgnoreField as _, DenyField as _),
        };
        Ok(quote!({
            use #amp::nn::derive::{#otherwise};
            (&&#amp::nn::derive::Field(#value)).#visit(#name, __amp_visitor);
        }))
    });
    visits.collect()
}

/// Whether a type parameter stands in the tokens of a type.
fn mentions(ty: TokenStream, generics: &Generics) -> bool {
    ty.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => generics.type_params().any(|p| p.ident == ident),
        TokenTree::Group(group) => mentions(group.stream(), generics),
        _ => false,
    })
}

/// Whether a type may hold what its type parameters stand for, and one of these is a module by its bounds.
fn holds_modules(ty: &Type, generics: &Generics) -> bool {
    match ty {
        Type::Array(array) => holds_modules(&array.elem, generics),
        Type::Group(group) => holds_modules(&group.elem, generics),
        Type::Paren(paren) => holds_modules(&paren.elem, generics),
        Type::Tuple(tuple) => tuple.elems.iter().any(|ty| holds_modules(ty, generics)),
        Type::Path(path) => {
            let last = path.path.segments.last();
            let marker = last.is_some_and(|last| last.ident == "PhantomData");
            !marker && (stands_for_module(&path.path, generics) || last.is_some_and(|last| any_holds(last, generics)))
        }
        _ => false,
    }
}

fn any_holds(segment: &PathSegment, generics: &Generics) -> bool {
    let PathArguments::AngleBracketed(arguments) = &segment.arguments else { return false };
    arguments.args.iter().any(|argument| matches!(argument, GenericArgument::Type(ty) if holds_modules(ty, generics)))
}

fn stands_for_module(path: &Path, generics: &Generics) -> bool {
    let parameter = |p: &&TypeParam| path.is_ident(&p.ident);
    generics
        .type_params()
        .find(parameter)
        .is_some_and(|p| p.bounds.iter().any(is_module) || where_bounds(&p.ident, generics).any(is_module))
}

fn is_module(bound: &TypeParamBound) -> bool {
    matches!(bound, TypeParamBound::Trait(bound) if bound.path.segments.last().is_some_and(|last| last.ident == "Module"))
}

/// The bounds of a type parameter in the `where` clause.
fn where_bounds<'g>(parameter: &'g Ident, generics: &'g Generics) -> impl Iterator<Item = &'g TypeParamBound> {
    let predicates = generics.where_clause.iter().flat_map(|clause| &clause.predicates);
    predicates.flat_map(move |predicate| match predicate {
        WherePredicate::Type(bound) if matches!(&bound.bounded_ty, Type::Path(ty) if ty.path.is_ident(parameter)) => {
            bound.bounds.iter().collect()
        }
        _ => Vec::new(),
    })
}

fn binding(i: usize) -> Ident {
    format_ident!("__amp_{i}")
}

fn member(i: usize, field: &Field) -> TokenStream {
    match &field.ident {
        Some(ident) => ident.to_token_stream(),
        None => Index::from(i).to_token_stream(),
    }
}

/// Type parameters that are a field's whole type, or what a container of it holds: they must be modules.
fn module_parameters(input: &DeriveInput) -> Vec<Ident> {
    let parameters: Vec<&Ident> = input.generics.type_params().map(|p| &p.ident).collect();
    let fields: Vec<&Field> = match &input.data {
        Data::Struct(data) => data.fields.iter().collect(),
        Data::Enum(data) => data.variants.iter().flat_map(|v| v.fields.iter()).collect(),
        Data::Union(_) => Vec::new(),
    };
    let mut found = Vec::new();
    for field in fields.into_iter().filter(|field| !FieldOptions::of(field).is_ok_and(|o| o.skip)) {
        for ident in held(&field.ty) {
            if parameters.contains(&&ident) && !found.contains(&ident) {
                found.push(ident);
            }
        }
    }
    found
}

fn held(ty: &Type) -> Vec<Ident> {
    match ty {
        Type::Array(array) => held(&array.elem),
        Type::Slice(slice) => held(&slice.elem),
        Type::Reference(reference) => held(&reference.elem),
        Type::Group(group) => held(&group.elem),
        Type::Paren(paren) => held(&paren.elem),
        Type::Tuple(tuple) => tuple.elems.iter().flat_map(held).collect(),
        Type::Path(path) if path.qself.is_none() => {
            if let Some(ident) = path.path.get_ident() {
                return vec![ident.clone()];
            }
            let Some(last) = path.path.segments.last() else { return Vec::new() };
            let PathArguments::AngleBracketed(arguments) = &last.arguments else { return Vec::new() };
            let one = ["Vec", "Option", "Box", "Rc", "Arc", "Sequential"].iter().any(|name| last.ident == name);
            // What its keys are is no module.
            let map = ["BTreeMap", "HashMap"].iter().any(|name| last.ident == name);
            let argument = match one {
                true => arguments.args.first(),
                false => arguments.args.iter().nth(1).filter(|_| map),
            };
            match argument {
                Some(GenericArgument::Type(inner)) => held(inner),
                _ => Vec::new(),
            }
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(tokens: TokenStream) -> String {
        expand(syn::parse2(tokens).expect("an item")).to_string()
    }

    #[test]
    fn generic_parameters_that_are_fields_must_be_modules() {
        let text = expanded(quote! {
            struct Block<M, N, P> { inner: M, many: Vec<Option<N>>, marker: PhantomData<P> }
        });
        assert!(text.contains("where M : :: amp :: nn :: Module , N : :: amp :: nn :: Module {"), "{text}");
    }

    #[test]
    fn parameters_that_containers_hold_must_be_modules() {
        let text = expanded(quote! {
            struct Block<'a, A, B, C, D, K> { both: (A, [B; 2]), inner: &'a C, layers: Box<[Option<D>]>, keys: BTreeMap<K, A> }
        });
        for name in ["A", "B", "C", "D"] {
            assert!(text.contains(&format!("{name} : :: amp :: nn :: Module")), "{text}");
        }
        assert!(!text.contains("K : :: amp"), "{text}");
    }

    #[test]
    fn names_paths_and_skipped_fields() {
        let text = expanded(quote! {
            #[module(crate = crate::renamed)]
            struct Net { r#fn: A, #[module(skip)] cache: B, #[module(name = "head.0")] head: C }
        });
        assert!(text.contains("\"fn\"") && text.contains("\"head.0\"") && !text.contains("cache"), "{text}");
        assert!(text.contains("crate :: renamed :: nn :: Module") && !text.contains(":: amp"), "{text}");
    }

    #[test]
    fn a_mistake_gives_one_error_and_an_implementation() {
        for tokens in [
            quote!(union U { a: u8 }),
            quote!(
                struct S {
                    #[module(ignore)]
                    a: A,
                }
            ),
            quote!(
                struct S {
                    #[module(name = "b")]
                    a: A,
                    b: A,
                }
            ),
            quote!(
                #[module(path = x)]
                struct S;
            ),
        ] {
            let text = expanded(tokens);
            assert_eq!(text.matches("compile_error").count(), 1, "{text}");
            assert!(text.contains("Module for"), "{text}");
        }
    }
}
