//! Operations that an attribute wants in F32 and that modules alone run: these go by their own types, whatever it says.

use crate::args::Args;
use crate::error::{Errors, at};
use crate::rules::Rule;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Operations and the modules that run them in 16 bits.
const MODULES: &[(&str, &str)] = &[
    ("linear", "Linear"),
    ("conv1d", "Conv1d"),
    ("conv2d", "Conv2d"),
    ("conv_transpose1d", "ConvTranspose1d"),
    ("conv_transpose2d", "ConvTranspose2d"),
    ("scaled_dot_product_attention", "MultiHeadAttention"),
    ("prelu", "PRelu"),
    ("lstm_cell", "Lstm"),
    ("gru_cell", "Gru"),
    ("gelu", "Gelu"),
    ("silu", "Silu"),
    ("tanh", "Tanh"),
    ("sigmoid", "Sigmoid"),
    ("elu", "Elu"),
];

/// Rejects `full(op)` of a module's operation where the body calls modules and no such operation: it would run in 16 bits.
pub(crate) fn check(args: &Args, body: &TokenStream, errors: &mut Errors) {
    if args.listed.is_empty() || !calls(body, &|name| name.starts_with("forward")) {
        return;
    }
    for (op, _) in args.listed.iter().filter(|(_, rule)| *rule == Rule::Full) {
        let Some((name, module)) = MODULES.iter().find(|(name, _)| op == name) else { continue };
        if !calls(body, &|called| called == *name) {
            let help = format!("`nn::{module}` goes by its own type: run it in `amp_region!(f32, ..)`");
            errors.push(at(op.span(), format!("no call of `{name}` here that this option could change"), help));
        }
    }
}

/// Whether a function of such a name is called.
fn calls(body: &TokenStream, wanted: &dyn Fn(&str) -> bool) -> bool {
    let mut named = false;
    body.clone().into_iter().any(|token| match token {
        TokenTree::Group(group) => {
            std::mem::take(&mut named) && group.delimiter() == Delimiter::Parenthesis || calls(&group.stream(), wanted)
        }
        token => {
            named = matches!(&token, TokenTree::Ident(name) if wanted(&name.to_string()));
            false
        }
    })
}
