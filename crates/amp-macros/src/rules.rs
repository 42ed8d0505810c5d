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
