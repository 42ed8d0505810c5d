//! The receiver of a call that may be no tensor: what the method named does with it is what the call as written does.

use super::operand::{braced, ident};
use super::{Operand, called, ends, local, names, only_asked, outlined, scrutinee};
use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::{AngleBracketedGenericArguments, Expr, ExprMethodCall, GenericArgument};

/// What may become of a receiver that is no tensor, besides being borrowed.
#[derive(Clone, Copy)]
pub(crate) struct Asks {
    pub(crate) moves: bool,
    pub(crate) mutates: bool,
    /// It may be an exclusive reference.
    pub(crate) reborrows: bool,
}

/// A call as it is written; arguments that compute something are locals.
pub(crate) struct AsWritten {
    asks: Asks,
    place: Expr,
    method: Ident,
    turbofish: Option<AngleBracketedGenericArguments>,
    args: Vec<Expr>,
    /// The parentheses round them.
    list: Span,
    bound: Vec<(Ident, Expr)>,
}

impl AsWritten {
    /// The call, if it can be made for its types alone; its operands were taken out of it, the receiver first.
    /// Arguments that compute something become locals; `lend` gives each to the method as it is written.
    pub(crate) fn of(
        asks: Asks,
        call: &mut ExprMethodCall,
        operands: &mut [Operand],
        positions: &[usize],
        lend: &dyn Fn(usize, Expr) -> Expr,
    ) -> Option<Self> {
        let types =
            |list: &AngleBracketedGenericArguments| list.args.iter().all(|arg| matches!(arg, GenericArgument::Type(_)));
        if !call.turbofish.as_ref().is_none_or(types) {
            return None;
        }
        let (mut bound, mut args) = (Vec::new(), Vec::new());
        let operand = |i: usize| positions.iter().position(|&at| at == i + 1);
        // What the arguments name that compute something, by their places: they may change what is read before them.
        let written = call.args.iter().enumerate().map(|(i, arg)| operand(i).map_or(arg, |at| &operands[at].expr));
        let changing: Vec<Vec<String>> =
            written.map(|arg| if is_repeatable(arg) { Vec::new() } else { names(&arg.to_token_stream()) }).collect();
        read_indices(&mut operands.first_mut()?.expr, &changing, &mut bound);
        for (i, arg) in call.args.iter_mut().enumerate() {
            let arg = match operand(i) {
                Some(at) => &mut operands[at].expr,
                None => arg,
            };
            if !is_repeatable(arg) || is_read_before(arg, &changing[i + 1..]) {
                let name = local("a", i, ends(arg).0);
                bound.push((name.clone(), std::mem::replace(arg, ident(name))));
            }
            args.push(lend(i + 1, arg.clone()));
        }
        Some(Self {
            asks,
            place: operands.first()?.expr.clone(),
            method: call.method.clone(),
            turbofish: call.turbofish.clone(),
            args,
            list: call.paren_token.span.join(),
            bound,
        })
    }

    /// The local that holds a receiver which the method must not change.
    pub(super) fn fixed(&self) -> Option<Ident> {
        (!self.asks.mutates).then(|| local("s", 0, ends(&self.place).0))
    }

    /// `match` on what becomes of the receiver when tensors are cast to `target`; `kind` is it in the body.
    pub(super) fn asked(&self, kind: &Ident, target: &Ident, end: Span, body: TokenStream) -> TokenStream {
        let site = kind.span();
        let (place, named) = (&self.place, self.named(site));
        // What was not moved was borrowed, in one way or the other.
        let shared = self.asks.moves.then(|| self.ask("asks", "shared", kind));
        let exclusive = self.asks.mutates.then(|| self.ask("asks_exclusive", "exclusive", kind));
        let decided = Ident::new(if self.asks.moves { "decided" } else { "borrowed" }, site);
        let question = only_asked(&quote_spanned!(site=> {
            #named
            let #kind = __amp::receiver(&#place, #target).treatment();
            #shared
            #exclusive
            let #kind = #kind.next();
            #shared
            #exclusive
            #kind.#decided()
        }));
        // The type of the result may be left to who takes it.
        let result = local("r", 0, site);
        let given = called(&quote_spanned!(ends(place).0=> (#kind).of), quote!(#result), end);
        let arm = braced(quote_spanned!(site=> #result => #given), end);
        let body = scrutinee(&body);
        let body = quote_spanned!(site=> match #body #arm);
        let gate = braced(quote_spanned!(site=> #target => #body), end);
        let arm = braced(quote_spanned!(site=> #kind => match #kind.gate(#target) #gate), end);
        quote_spanned!(site=> match #question #arm)
    }

    /// A method of this name for every reference.
    fn named(&self, site: Span) -> TokenStream {
        let mut method = self.method.clone();
        method.set_span(site);
        let types = self.turbofish.iter().flat_map(|list| &list.args).enumerate().map(|(i, _)| local("T", i, site));
        let args = self.args.iter().map(|arg| match arg {
            Expr::Closure(closure) => {
                let inputs = closure.inputs.iter().map(|_| quote_spanned!(site=> __amp::Missing));
                quote_spanned!(site=> _: impl ::core::ops::FnOnce(#(#inputs),*) -> __amp::Missing)
            }
            arg if is_untyped(arg) => quote_spanned!(site=> _: __amp::Missing),
            _ => quote_spanned!(site=> _: impl ::core::marker::Sized),
        });
        let (types, args): (Vec<_>, Vec<_>) = (types.collect(), args.collect());
        let shared = self.asks.moves.then(|| quote_spanned!(site=> &));
        let exclusive = self.asks.mutates.then(|| quote_spanned!(site=> &mut));
        let references = shared.into_iter().chain(exclusive);
        quote_spanned!(site=>
            #[doc(hidden)]
            #[allow(dead_code, non_camel_case_types)]
            trait AutocastOperation {
                fn #method<#(#types),*>(&self, #(#args),*) -> __amp::Missing {
                    __amp::MISSING
                }
            }
            #(impl<T: ?::core::marker::Sized> AutocastOperation for #references T {})*
        )
    }

    /// One question.
    fn ask(&self, asks: &str, answer: &str, kind: &Ident) -> TokenStream {
        let site = kind.span();
        let (asks, answer) = (Ident::new(asks, site), Ident::new(answer, site));
        let Self { place, method, turbofish, .. } = self;
        let args = self.args.iter().map(|arg| match arg {
            Expr::Closure(closure) => {
                let inputs = closure.inputs.iter().map(|_| quote_spanned!(site=> _));
                quote_spanned!(site=> |#(#inputs),*| __amp::absent())
            }
            arg if is_untyped(arg) => quote_spanned!(site=> __amp::absent()),
            arg => arg.to_token_stream(),
        });
        // A mistake in the arguments is the same in the call itself, and what the compiler says of both it says once.
        let mut list = Group::new(Delimiter::Parenthesis, quote!(#(#args),*));
        list.set_span(self.list);
        let receiver = Expr::Verbatim(quote_spanned!(site=> #kind.#asks(&#place)));
        let receiver = outlined(receiver.into_token_stream(), ends(place));
        quote_spanned!(site=>
            let #kind = __amp::found(#kind, #receiver.#method #turbofish #list);
            let #kind = (&&&#kind).#answer();
        )
    }

    /// The receiver, as the treatment `kind` has it; a cast of it may have been made ahead.
    pub(super) fn taken(&self, kind: &Ident, target: &Ident, ahead: Option<&TokenStream>) -> TokenStream {
        let (site, place) = (kind.span(), &self.place);
        let taken = local("r", 0, site);
        let lent = match ahead {
            Some(_) => quote_spanned!(site=> lend(&#place)),
            None => quote_spanned!(site=> take(&#place, #target)),
        };
        let ahead = ahead
            .map(|hoisted| quote_spanned!(site=> if #kind.casts() { #kind.if_cast(); #kind.ahead(&#hoisted) } else));
        // An argument is what the compiler shows as moved; what has no size is none.
        let given = match place {
            Expr::Path(_) | Expr::Field(_) => quote_spanned!(site=> #place),
            place => quote_spanned!(site=> #place.__amp_move()),
        };
        let moves = self.asks.moves.then(|| {
            quote_spanned!(site=>
                if #kind.moves() { #kind.if_moved(); #kind.moved(#given) } else
            )
        });
        let mutates = (self.asks.mutates || self.asks.reborrows).then(|| {
            quote_spanned!(site=>
                if #kind.mutates() { #kind.if_mutated(); #kind.lent(#place.__amp_borrow()) } else
            )
        });
        quote_spanned!(site=> {
            #[allow(unreachable_code)]
            let #taken = #ahead #moves #mutates {
                #kind.if_shared();
                #kind.#lent
            };
            #taken
        })
    }

    /// The call in which the locals are.
    pub(super) fn bind(self, body: TokenStream, at: Span, end: Span) -> TokenStream {
        if self.bound.is_empty() {
            return body;
        }
        let site = Span::mixed_site().located_at(at);
        let (names, inits): (Vec<_>, Vec<_>) = self.bound.into_iter().unzip();
        let arm = braced(quote_spanned!(site=> (#(#names,)*) => #body), end);
        quote_spanned!(site=> match (#(#inits,)*) #arm)
    }
}

/// Whether an argument's type comes from the parameter it is given to: `None`, `&[]`.
fn is_untyped(expr: &Expr) -> bool {
    match expr {
        Expr::Path(path) => path.path.segments.last().is_some_and(|last| last.ident == "None"),
        Expr::Reference(reference) => is_untyped(&reference.expr),
        Expr::Array(array) => array.elems.is_empty(),
        _ => false,
    }
}

/// Makes the indices in a place locals that what is named in `changing` may change.
fn read_indices(place: &mut Expr, changing: &[Vec<String>], bound: &mut Vec<(Ident, Expr)>) {
    match place {
        Expr::Index(index) => {
            read_indices(&mut index.expr, changing, bound);
            if is_read_before(&index.index, changing) {
                let name = local("i", bound.len(), ends(&index.index).0);
                bound.push((name.clone(), std::mem::replace(&mut index.index, ident(name))));
            }
        }
        Expr::Field(field) => read_indices(&mut field.base, changing, bound),
        Expr::Reference(reference) => read_indices(&mut reference.expr, changing, bound),
        Expr::Paren(inner) => read_indices(&mut inner.expr, changing, bound),
        Expr::Unary(unary) => read_indices(&mut unary.expr, changing, bound),
        _ => {}
    }
}

/// Whether what can be written again is a number, or found by one, that what is named in `changing` may change.
fn is_read_before(expr: &Expr, changing: &[Vec<String>]) -> bool {
    let lent = |place: &Expr| !matches!(place, Expr::Index(_));
    match expr {
        Expr::Lit(_) | Expr::Closure(_) => false,
        Expr::Reference(reference) if lent(&reference.expr) => false,
        expr => names(&expr.to_token_stream()).iter().any(|name| changing.iter().flatten().any(|other| other == name)),
    }
}

/// Whether an argument can be written again where it does not run.
fn is_repeatable(expr: &Expr) -> bool {
    match expr {
        Expr::Lit(_) | Expr::Path(_) | Expr::Closure(_) => true,
        Expr::Field(field) => is_repeatable(&field.base),
        Expr::Reference(reference) => is_repeatable(&reference.expr),
        Expr::Unary(unary) => is_repeatable(&unary.expr),
        Expr::Paren(inner) => is_repeatable(&inner.expr),
        Expr::Group(inner) => is_repeatable(&inner.expr),
        Expr::Cast(cast) => is_repeatable(&cast.expr),
        Expr::Index(index) => is_repeatable(&index.expr) && is_repeatable(&index.index),
        Expr::Range(range) => range.start.iter().chain(&range.end).all(|end| is_repeatable(end)),
        Expr::Array(array) => array.elems.iter().all(is_repeatable),
        Expr::Tuple(tuple) => tuple.elems.iter().all(is_repeatable),
        _ => false,
    }
}
