//! Which rule an operation follows: the policy table, changed by the attribute and by policies.

use crate::error::at;
use amp_policy::{Class, find};
use std::collections::HashMap;
use syn::{Ident, Result};

/// What is done at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    Lower,
    Full,
    Widest,
    Keep,
    /// The call stays as written and its result is whatever its type says.
    Skip,
    /// A `full` operation on values of the region's precision; the user asked for it by name.
    ForceLower,
    Banned,
}

impl Rule {
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "lower" => Self::Lower,
            "full" => Self::Full,
            "widest" => Self::Widest,
            "keep" => Self::Keep,
            "skip" => Self::Skip,
            "force_lower" => Self::ForceLower,
            _ => return None,
        })
    }

    /// Whether it names the precision that it casts to.
    pub(crate) const fn casts(self) -> bool {
        matches!(self, Self::Lower | Self::ForceLower | Self::Full)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Lower => "lower",
            Self::Full => "full",
            Self::Widest => "widest",
            Self::Keep => "keep",
            Self::Skip => "skip",
            Self::ForceLower => "lower (forced)",
            Self::Banned => "banned",
        }
    }
}

impl From<Class> for Rule {
    fn from(class: Class) -> Self {
        match class {
            Class::Lower => Self::Lower,
            Class::Full => Self::Full,
            Class::Widest => Self::Widest,
            Class::Keep => Self::Keep,
            Class::Banned => Self::Banned,
        }
    }
}

/// An operation at a call site.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub(crate) rule: Rule,
    /// Positions of tensor arguments, 0 for the receiver; `None` for an operation of the user's: any may be one.
    pub(crate) tensors: Option<&'static [u8]>,
    pub(crate) list: bool,
    /// Named on the attribute or in a policy.
    pub(crate) listed: bool,
    pub(crate) replacement: Option<&'static str>,
    pub(crate) direct: bool,
    pub(crate) commutes: bool,
}

/// The table and what the user changed in it.
#[derive(Clone, Default)]
pub(crate) struct Rules(HashMap<String, Rule>);

impl Rules {
    pub(crate) fn insert(&mut self, op: &Ident, rule: Rule) -> Result<()> {
        let name = op.to_string();
        let class = find(&name).map(|op| op.class);
        if class.is_none()
            && let Some(meant) = amp_policy::all().find(|op| is_slip(&name, op.name))
        {
            let help = format!("write `{}`", meant.name);
            return Err(at(op.span(), format!("there is no operation `{name}`"), help));
        }
        if rule == Rule::Lower && class == Some(Class::Full) {
            let help = format!(
                "if that is meant, write `force_lower({name})`: its inputs and result are rounded to the region's precision"
            );
            return Err(at(op.span(), format!("`{name}` needs the range of `F32`"), help));
        }
        if rule == Rule::ForceLower && class != Some(Class::Full) {
            let help = format!("write `lower({name})`");
            return Err(at(
                op.span(),
                format!("`{name}` is not a `full` operation, so nothing has to be forced"),
                help,
            ));
        }
        if class == Some(Class::Banned) && rule != Rule::Skip {
            let help = "use the safe operation, or `skip(..)` to leave the call as it is written";
            return Err(at(op.span(), format!("`{name}` is unsafe under autocast in any class"), help));
        }
        match self.0.insert(name.clone(), rule) {
            Some(_) => Err(at(op.span(), format!("`{name}` is listed twice"), "keep one of its classes")),
            None => Ok(()),
        }
    }

    /// Adds the rules of a policy; what the attribute says wins.
    pub(crate) fn add_policy(&mut self, policy: Self) {
        for (name, rule) in policy.0 {
            self.0.entry(name).or_insert(rule);
        }
    }

    pub(crate) fn find(&self, name: &str) -> Option<Found> {
        let row = find(name);
        let listed = self.0.get(name).copied();
        let rule = listed.or_else(|| row.map(|op| op.class.into()))?;
        Some(Found {
            rule,
            tensors: row.map(|op| op.tensors),
            list: row.is_some_and(|op| op.list),
            listed: listed.is_some(),
            replacement: row.and_then(|op| op.replacement),
            direct: row.is_some_and(|op| op.direct && rule == Rule::from(op.class)),
            commutes: rule == Rule::Keep && row.is_some_and(|op| op.commutes),
        })
    }
}

/// Whether a name is another one with two letters swapped, one doubled or one inside left out: names of the user's own
/// operations differ by more.
pub(crate) fn is_slip(written: &str, meant: &str) -> bool {
    let (written, meant) = (written.as_bytes(), meant.as_bytes());
    if written.len() < 5 || written.len().abs_diff(meant.len()) > 1 {
        return false;
    }
    let same = written.iter().zip(meant).take_while(|(a, b)| a == b).count();
    let (rest, of) = (&written[same..], &meant[same..]);
    match (rest, of) {
        ([a, b, rest @ ..], [c, d, of @ ..]) if written.len() == meant.len() => (a, b) == (d, c) && rest == of,
        ([a, rest @ ..], of) if written.len() > meant.len() => same > 0 && *a == written[same - 1] && rest == of,
        (rest @ [_, ..], [a, of @ ..]) if meant.len() > written.len() => a.is_ascii_alphabetic() && rest == of,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_slip;

    #[test]
    fn slips_are_told_from_names_of_their_own() {
        for (written, meant) in [("gellu", "gelu"), ("sofmax", "softmax"), ("mamtul", "matmul"), ("linaer", "linear")] {
            assert!(is_slip(written, meant), "{written}");
        }
        for (own, other) in [
            ("geglu", "gelu"),
            ("layernorm", "layer_norm"),
            ("softmax2", "softmax"),
            ("conv4d", "conv3d"),
            ("selu", "gelu"),
            ("gelus", "gelu"),
            ("gelu", "gelu"),
        ] {
            assert!(!is_slip(own, other), "{own}");
        }
    }
}
