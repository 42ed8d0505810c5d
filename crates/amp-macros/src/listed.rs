//! Operations that an attribute lists and that its code does not name: the option would have no effect. Those of modules go
//! by the types of these, whatever the attribute says.

use crate::args::Args;
use crate::error::{Errors, at};
use crate::rules::Rule;
use proc_macro2::{Delimiter, LineColumn, Span, TokenStream, TokenTree};
use syn::ext::IdentExt;

/// Operations and the modules that run them in 16 bits.
const MODULES: &[(&str, &str)] = &[
    ("linear", "Linear"),
    ("conv1d", "Conv1d"),
    ("conv2d", "Conv2d"),
    ("conv3d", "Conv3d"),
    ("conv_transpose1d", "ConvTranspose1d"),
    ("conv_transpose2d", "ConvTranspose2d"),
    ("conv_transpose3d", "ConvTranspose3d"),
    ("scaled_dot_product_attention", "MultiHeadAttention"),
    ("prelu", "PRelu"),
    ("lstm_cell", "Lstm"),
    ("gru_cell", "Gru"),
    ("rnn_tanh_cell", "Rnn"),
    ("rnn_relu_cell", "Rnn"),
    ("gelu", "Gelu"),
    ("silu", "Silu"),
    ("tanh", "Tanh"),
    ("sigmoid", "Sigmoid"),
    ("elu", "Elu"),
];

/// Operators, and the operations that they are.
const OPERATORS: &[(char, &[&str])] =
    &[('+', &["add"]), ('-', &["sub", "neg"]), ('*', &["mul"]), ('/', &["div", "__rtruediv__"])];

/// Rejects an operation that is listed where the body neither names it nor calls modules, and `full(op)` of a module's
/// operation where the body calls modules and no such operation: it would run in 16 bits.
///
/// A macro of the user's may write functions with other operations in them and one attribute, of which nothing is asked.
pub(crate) fn check(args: &Args, body: &TokenStream, errors: &mut Errors) {
    // They run the operations that the list may mean, and lose nothing by it.
    let modules = calls(body, &|name| name.starts_with("forward"));
    for (op, rule) in &args.listed {
        let name = op.unraw().to_string();
        let module = MODULES.iter().find(|(of, _)| name == *of).filter(|_| *rule == Rule::Full);
        let help = match module {
            Some((_, module)) if modules && !calls(body, &|called| called == name) => {
                format!("`nn::{module}` goes by its own type: run it in `amp_region!(f32, ..)`")
            }
            _ if modules || names(body, &name) || !is_one_piece(args.region_span, op.span(), body) => continue,
            _ => format!("take `{name}` off the list; a list for many functions is an `amp_policy!`"),
        };
        errors.push(at(op.span(), format!("no call of `{name}` here that this option could change"), help));
    }
}

/// Whether a body stands where it is written, behind an attribute that does.
fn is_one_piece(region: Span, op: Span, body: &TokenStream) -> bool {
    let Some(TokenTree::Group(body)) = body.clone().into_iter().next() else { return false };
    let (from, to) = (body.span_open().start(), body.span_close().end());
    let one_file = region.file() == op.file() && op.file() == body.span_open().file();
    one_file && region.start() < op.start() && op.start() < from && lies_within(body.stream(), from, to)
}

fn lies_within(tokens: TokenStream, from: LineColumn, to: LineColumn) -> bool {
    tokens.into_iter().all(|token| {
        let span = token.span();
        let inner = match &token {
            TokenTree::Group(group) => lies_within(group.stream(), from, to),
            _ => true,
        };
        inner && from <= span.start() && span.end() <= to
    })
}

/// Whether an operation is named anywhere, also in a macro or as a value, or an operator stands for it.
fn names(body: &TokenStream, op: &str) -> bool {
    let stands_for = |sign: char| OPERATORS.iter().any(|(of, ops)| *of == sign && ops.contains(&op));
    body.clone().into_iter().any(|token| match token {
        TokenTree::Group(group) => names(&group.stream(), op),
        TokenTree::Ident(name) => name.unraw() == op,
        TokenTree::Punct(sign) => stands_for(sign.as_char()),
        TokenTree::Literal(_) => false,
    })
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
