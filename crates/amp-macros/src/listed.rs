//! Classes on an attribute that change nothing: modules go by their own types, whatever the option says of an operation.

use crate::args::Args;
use crate::error::{Errors, at};
use crate::rules::Rule;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Operations and the modules that run them.
const MODULES: &[(&str, &str)] = &[
    ("linear", "Linear"),
    ("conv1d", "Conv1d"),
    ("conv2d", "Conv2d"),
    ("conv_transpose1d", "ConvTranspose1d"),
    ("conv_transpose2d", "ConvTranspose2d"),
    ("scaled_dot_product_attention", "MultiHeadAttention"),
    ("lstm_cell", "Lstm"),
    ("gru_cell", "Gru"),
    ("embedding", "Embedding"),
    ("layer_norm", "LayerNorm"),
    ("rms_norm", "RmsNorm"),
    ("group_norm", "GroupNorm"),
    ("batch_norm", "BatchNorm2d"),
    ("softmax", "Softmax"),
    ("relu", "Relu"),
    ("gelu", "Gelu"),
    ("silu", "Silu"),
    ("tanh", "Tanh"),
    ("sigmoid", "Sigmoid"),
    ("leaky_relu", "LeakyRelu"),
    ("elu", "Elu"),
    ("dropout", "Dropout"),
    ("max_pool2d", "MaxPool2d"),
    ("avg_pool2d", "AvgPool2d"),
];

/// Rejects an option that names the operation of a module where the body calls modules and no such operation.
pub(crate) fn check(args: &Args, body: &TokenStream, errors: &mut Errors) {
    if args.listed.is_empty() || !calls(body, &|name| name.starts_with("forward")) {
        return;
    }
    for (op, rule) in &args.listed {
        let Some((name, module)) = MODULES.iter().find(|(name, _)| op == name) else { continue };
        if !calls(body, &|called| called == *name) {
            let help = match rule {
                Rule::Full => format!("`nn::{module}` goes by its own type: run it in `amp_region!(f32, ..)`"),
                _ => format!("`nn::{module}` goes by its own type: call the operation, `x.{name}(..)`, in its place"),
            };
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
