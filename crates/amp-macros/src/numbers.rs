//! Numbers that a value may be, or of which it is a list.

use crate::lattice::Value;

impl Value {
    /// The constants of either.
    pub(crate) fn constants_with(&self, other: &Self) -> Vec<(String, f64)> {
        let new = other.constants.iter().filter(|number| !self.constants.contains(number));
        self.constants.iter().chain(new).cloned().collect()
    }

    /// What is known of element `i` of a list.
    pub(crate) fn element(&self, i: usize) -> Self {
        let constants = self.constants.get(i).map_or_else(|| self.constants.clone(), |number| vec![number.clone()]);
        Self { constants, ..self.clone() }
    }

    /// What is known of the element of a list that is so far `before` the end.
    pub(crate) fn element_before_end(&self, before: usize) -> Self {
        self.element(self.count.and_then(|count| count.checked_sub(before)).unwrap_or(usize::MAX))
    }

    /// What is known of the elements of a list between its first and its last ones.
    pub(crate) fn elements(&self, first: usize, last: usize) -> Self {
        let between = self.count.and_then(|count| self.constants.get(first..count.checked_sub(last)?));
        let constants = between.map_or_else(|| self.constants.clone(), <[_]>::to_vec);
        Self { constants, count: self.count.and_then(|count| count.checked_sub(first + last)), ..self.clone() }
    }
}
