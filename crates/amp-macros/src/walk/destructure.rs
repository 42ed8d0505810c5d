//! Assignments to several places at once: `(a, b) = (b, a)`.

use super::Walker;
use crate::emit;
use crate::flow::Slot;
use crate::lattice::Value;
use crate::shape::Shape;
use proc_macro2::Ident;
use quote::quote;
use syn::punctuated::Punctuated;
use syn::token::Paren;
use syn::{Expr, ExprTuple, Token};

impl Walker<'_> {
    /// Assigns the elements of a tuple or an array that is not written out.
    pub(super) fn assign_elements(&mut self, place: &mut Expr, whole: &mut Expr, value: &Value) {
        let is_array = matches!(place, Expr::Array(_));
        let Some(places) = elements(place) else { return };
        let at = emit::ends(whole).0;
        let names: Vec<Ident> = (0..places.len()).map(|i| emit::local("p", i, at)).collect();
        let mut changes = false;
        let mut elems = Vec::new();
        for (i, place) in places.iter_mut().enumerate() {
            let name = &names[i];
            let mut elem = Expr::Verbatim(quote!(#name));
            let part = if is_array { value.element(i).shaped(Shape::Unknown) } else { value.same_part(i) };
            self.assign_value(place, &mut elem, part);
            changes |= elem != Expr::Verbatim(quote!(#name));
            elems.push(elem);
        }
        if changes {
            let pattern = if is_array { quote!([#(#names),*]) } else { quote!((#(#names,)*)) };
            self.rewrite(whole, |inner| emit::taken_apart(&inner, &pattern, &elems));
            as_tuple(place);
        }
    }

    /// Walks the places in a pattern of which it is not seen what each is assigned.
    pub(super) fn assign_unseen(&mut self, place: &mut Expr) {
        if let Some(var) = self.variable(place) {
            self.reassigned(&Slot::of(var), &Value::opaque());
            self.given_by_others(var);
        }
        match place {
            Expr::Array(places) => places.elems.iter_mut().for_each(|place| self.assign_unseen(place)),
            Expr::Tuple(places) => places.elems.iter_mut().for_each(|place| self.assign_unseen(place)),
            Expr::Call(variant) => variant.args.iter_mut().for_each(|place| self.assign_unseen(place)),
            Expr::Struct(fields) => fields.fields.iter_mut().for_each(|field| self.assign_unseen(&mut field.expr)),
            place => drop(self.expr(place)),
        }
    }
}

/// The places of a destructuring assignment beside what is assigned to each, as far as both sides are written out.
pub(super) fn pair_up<'e>(place: &'e mut Expr, expr: &'e mut Expr, pairs: &mut Vec<(&'e mut Expr, &'e mut Expr)>) {
    let arrays = matches!((&*place, &*expr), (Expr::Array(_), Expr::Array(_)));
    let tuples = matches!((&*place, &*expr), (Expr::Tuple(_), Expr::Tuple(_)));
    let alike = elements(place).map(|places| places.len()) == elements(expr).map(|values| values.len());
    if !(arrays || tuples) || !alike || !is_taken_apart(place) {
        return pairs.push((place, expr));
    }
    // What is widened for one place would be no element of an array any more.
    as_tuple(place);
    as_tuple(expr);
    if let (Some(places), Some(values)) = (elements(place), elements(expr)) {
        places.iter_mut().zip(values).for_each(|(place, value)| pair_up(place, value, pairs));
    }
}

/// The elements of a tuple or an array as it is written.
fn elements(expr: &mut Expr) -> Option<&mut Punctuated<Expr, Token![,]>> {
    match expr {
        Expr::Tuple(tuple) => Some(&mut tuple.elems),
        Expr::Array(array) => Some(&mut array.elems),
        _ => None,
    }
}

fn as_tuple(expr: &mut Expr) {
    if let Expr::Array(array) = expr {
        let elems = std::mem::take(&mut array.elems);
        let paren_token = Paren(array.bracket_token.span.join());
        *expr = Expr::Tuple(ExprTuple { attrs: Vec::new(), paren_token, elems });
    }
}

/// Whether a place is a tuple or an array of places, one for each element.
pub(super) fn is_taken_apart(place: &Expr) -> bool {
    let is_rest = |place: &Expr| matches!(place, Expr::Range(_));
    match place {
        Expr::Tuple(places) => !places.elems.iter().any(is_rest),
        Expr::Array(places) => !places.elems.iter().any(is_rest),
        _ => false,
    }
}

/// Whether a place is a pattern of places.
pub(super) fn is_pattern(place: &Expr) -> bool {
    matches!(place, Expr::Array(_) | Expr::Tuple(_) | Expr::Struct(_) | Expr::Call(_))
}
