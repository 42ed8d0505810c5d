//! The plan of a function: a row an operation, as data and as documentation.

use crate::args::Region;
use crate::lattice::{Prec, Value};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote};
use std::cell::OnceCell;
use std::fmt::Write;
use syn::Expr;
use syn::spanned::Spanned;

/// The plan of one operation.
pub(crate) struct Row {
    /// Where the line is counted, if not at the call's beginning.
    at: Option<Span>,
    source: Expr,
    text: OnceCell<String>,
    op: String,
    class: &'static str,
    input: String,
    output: String,
    pub(crate) casts: u32,
    /// Narrowings made for this call and not shared with an earlier one.
    pub(crate) costed: u32,
    /// How many of them are made only if types say so: those of a module, of what it is given and of the operands.
    pub(crate) doubtful: u32,
    /// The locals of the expansion that those types are written to.
    pub(crate) tallies: Vec<Ident>,
}

impl Row {
    pub(crate) fn new(op: &str, class: &'static str, source: &Expr, inputs: &[&Value], output: &Prec) -> Self {
        let labels: Vec<&str> = inputs.iter().map(|value| value.prec.label()).collect();
        let input = if labels.is_empty() { "-".to_owned() } else { labels.join(", ") };
        Self {
            at: None,
            source: source.clone(),
            text: OnceCell::new(),
            op: op.to_owned(),
            class,
            input,
            output: output.label().to_owned(),
            casts: 0,
            costed: 0,
            doubtful: 0,
            tallies: Vec::new(),
        }
    }

    /// A narrowing whose tally is asked nowhere counts, whatever the types say.
    pub(crate) fn make_certain(&mut self, tally: &Ident) {
        self.doubtful -= 1;
        self.tallies.retain(|one| one != tally);
    }

    /// The call as written; rows of all rounds but the last are never printed.
    fn text(&self) -> &str {
        self.text.get_or_init(|| snippet(&self.source))
    }

    fn line(&self) -> usize {
        self.at.unwrap_or_else(|| self.source.span()).start().line
    }

    pub(crate) fn at(mut self, span: Span) -> Self {
        self.at = Some(span);
        self
    }

    /// All inputs are cast to one precision.
    pub(crate) fn with_target(mut self, inputs: &[&Value], target: &Prec) -> Self {
        self.casts = inputs.iter().filter(|value| value.prec != *target).count() as u32;
        self
    }

    /// The result is rounded to `lower` as it is written.
    pub(crate) fn writing(mut self, lower: &Prec) -> Self {
        self.output = format!("{} as {}", self.output, lower.label());
        self
    }

    /// All inputs are cast to the widest of them.
    pub(crate) fn with_meeting(self, inputs: &[&Value]) -> Self {
        let widest = inputs.iter().fold(Prec::Other, |all, value| all.widest(&value.prec));
        let casts = inputs.iter().filter(|value| value.prec != widest).count() as u32;
        Self { casts, ..self }
    }
}

/// The source of a call.
fn snippet(source: &Expr) -> String {
    const LONGEST: usize = 60;
    let line = as_written(source);
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}..", &line[..end]),
        None => line,
    }
}

/// An expression on one line, spaced as people write it.
pub(crate) fn as_written(source: &Expr) -> String {
    let text = source.to_token_stream().to_string();
    let mut line = String::with_capacity(text.len());
    for word in text.split_ascii_whitespace() {
        if spaced(&line, word) {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

/// Whether people write a space between what stands in a line and the next word of tokens.
///
/// Looks at single bytes: this code is not optimised in a user's build, and runs for every call of a region.
fn spaced(line: &str, word: &str) -> bool {
    let (line, word) = (line.as_bytes(), word.as_bytes());
    let Some(&last) = line.last() else { return false };
    let opens = match last {
        b'.' | b'(' | b'[' | b'!' => true,
        b':' => line.ends_with(b"::"),
        b'<' => line.ends_with(b"::<"),
        b'-' | b'&' | b'*' => is_prefix(&line[..line.len() - 1]),
        _ => false,
    };
    let closes = match word[0] {
        b'.' | b'?' | b',' | b')' | b']' => true,
        b'(' | b'[' => last.is_ascii_alphanumeric() || matches!(last, b'_' | b')' | b']' | b'>' | b'?'),
        b':' => word.starts_with(b"::"),
        b'>' => {
            word == b">"
                && line.rsplit(|&byte| byte == b'>').next().is_some_and(|open| open.windows(3).any(|at| at == b"::<"))
        }
        b'!' => word == b"!" && (last.is_ascii_alphanumeric() || last == b'_'),
        _ => false,
    };
    !opens && !closes
}

/// Whether an operator after this is one of a single operand.
fn is_prefix(before: &[u8]) -> bool {
    before.trim_ascii_end().last().is_none_or(|last| b"(,[{=+-*/%<>|&".contains(last))
}

/// Casts that cost something, over all operations.
pub(crate) fn costed(rows: &[Row]) -> u32 {
    rows.iter().map(|row| row.costed).sum()
}

/// As [`costed`], of those that are certain.
pub(crate) fn certain(rows: &[Row]) -> u32 {
    rows.iter().map(|row| row.costed - row.doubtful).sum()
}

/// The plan as documentation of the function.
pub(crate) fn document(rows: &[Row], region: &Region) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let casts: u32 = rows.iter().map(|row| row.casts).sum();
    let mut text = format!(
        "\n\n# Precision plan\n\nRegion `{}`: {} operations, {casts} casts, {} of them costed.\n\n| call | class | in | out | casts | costed |\n|---|---|---|---|---|---|\n",
        region.name(),
        rows.len(),
        costed(rows),
    );
    for row in rows {
        let source = row.text().replace('|', "\\|").replace('`', "'");
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| `{source}` | {} | {} | {} | {} | {} |",
            row.class, row.input, row.output, row.casts, row.costed
        );
    }
    text
}

/// The item that registers the plan: a line of text a row, which costs the compiler next to nothing.
pub(crate) fn register(rows: &[Row], region: &Region, private: &TokenStream, function: Option<&Ident>) -> TokenStream {
    let region = region.name();
    let function = match function {
        Some(ident) => {
            let name = ident.to_string();
            quote!(::core::option::Option::Some(#name))
        }
        None => quote!(::core::option::Option::None),
    };
    let mut text = String::new();
    for row in rows {
        let Row { op, class, input, output, casts, costed, .. } = row;
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}\t{}\t{op}\t{class}\t{input}\t{output}\t{casts}\t{costed}", row.line(), row.text());
    }
    quote! {
        #private::inventory::submit! {
            #private::Registered::new(::core::module_path!(), #function, #region, #text)
        }
    }
}

/// Which calls pay for `casts`, for the message of `max_casts`.
pub(crate) fn explain(rows: &[Row], casts: impl Fn(&Row) -> u32) -> String {
    let paying = rows.iter().filter(|row| casts(row) > 0);
    let paying: Vec<String> = paying.map(|row| format!("{} at `{}`", casts(row), row.text())).collect();
    paying.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_shown_as_people_write_them() {
        for written in [
            "x.matmul(&self.w)?.softmax(-1)",
            "functional::softmax(&s, -1)",
            "k.transpose(-2, -1)",
            "&a + &b",
            "x - (y * 2.0)",
            "(a & b) | !c",
            "m[0].scale(*s, -*t)",
            "x.clamp(-1.0, a - 1.0)",
            "vec![x, y].sum::<F32>()",
        ] {
            let expr: Expr = syn::parse_str(written).unwrap();
            assert_eq!(snippet(&expr), written);
        }
    }
}
