//! How a loss scale moves.

/// Settings of a loss scale. Scales are powers of two, held as exponents: scaling and unscaling are exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaleRule {
    /// Exponent added after enough clean updates; 0 for a scale that never grows.
    pub growth: i32,
    /// Exponent added when something was not finite (negative or 0).
    pub backoff: i32,
    /// Clean updates before the scale grows; 0 for never.
    pub interval: u64,
    /// Least exponent.
    pub floor: i32,
    /// Greatest exponent.
    pub ceiling: i32,
    /// Updates with something not finite, since the last clean one, before the scale backs off (at least 1).
    pub hysteresis: u64,
}

/// Where a loss scale stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScaleState {
    /// The scale is 2 to this power.
    pub exponent: i32,
    /// Clean updates since the scale last moved or something was not finite.
    pub clean: u64,
    /// Updates with something not finite, since the last clean one.
    pub bad: u64,
    /// How many of those could not lower the scale because it was at the floor, since one that could.
    pub refused: u64,
}

impl ScaleState {
    /// The state after one update.
    pub fn next(self, rule: &ScaleRule, found: bool) -> Self {
        if found { self.backed_off(rule) } else { self.grown(rule) }
    }

    fn backed_off(self, rule: &ScaleRule) -> Self {
        let bad = self.bad.saturating_add(1);
        let backs_off = bad >= rule.hysteresis;
        let at_floor = self.exponent <= rule.floor || rule.backoff == 0;
        let exponent = if backs_off { (self.exponent + rule.backoff).max(rule.floor) } else { self.exponent };
        let refused = match (backs_off, at_floor) {
            (false, _) => self.refused,
            (true, true) => self.refused.saturating_add(1),
            (true, false) => 0,
        };
        Self { exponent: exponent.min(self.exponent), clean: 0, bad, refused }
    }

    fn grown(self, rule: &ScaleRule) -> Self {
        let clean = self.clean.saturating_add(1);
        let grows = rule.interval > 0 && clean >= rule.interval;
        let exponent =
            if grows { (self.exponent + rule.growth).min(rule.ceiling).max(self.exponent) } else { self.exponent };
        Self { exponent, clean: if grows { 0 } else { clean }, bad: 0, refused: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: ScaleRule = ScaleRule { growth: 1, backoff: -2, interval: 2, floor: 0, ceiling: 5, hysteresis: 1 };

    fn run(rule: &ScaleRule, exponent: i32, found: &[bool]) -> ScaleState {
        let start = ScaleState { exponent, clean: 0, bad: 0, refused: 0 };
        found.iter().fold(start, |state, &f| state.next(rule, f))
    }

    #[test]
    fn moves_saturate_at_floor_and_ceiling() {
        assert_eq!(run(&RULE, 4, &[false; 20]).exponent, 5);
        let low = run(&RULE, 3, &[true; 4]);
        assert_eq!((low.exponent, low.refused), (0, 2));
        assert_eq!(low.next(&RULE, false).refused, 0);
    }

    #[test]
    fn a_smaller_interval_takes_effect_at_once() {
        let waiting = run(&ScaleRule { interval: 100, ..RULE }, 2, &[false; 50]);
        assert_eq!(waiting.exponent, 2);
        assert_eq!(waiting.next(&RULE, false).exponent, 3);
    }

    #[test]
    fn hysteresis_delays_the_backoff_until_a_clean_update_restores_it() {
        let rule = ScaleRule { hysteresis: 3, backoff: -1, ..RULE };
        assert_eq!(run(&rule, 4, &[true, true]).exponent, 4);
        assert_eq!(run(&rule, 4, &[true, true, true, true]).exponent, 2);
        assert_eq!(run(&rule, 4, &[true, true, false, true, true]).exponent, 4);
    }

    /// A scale that was raised from the floor has room again.
    #[test]
    fn a_backoff_that_lowers_the_scale_ends_the_refusals() {
        let raised = ScaleState { exponent: 6, clean: 0, bad: 3, refused: 3 };
        let lowered = raised.next(&RULE, true);
        assert_eq!((lowered.exponent, lowered.refused), (4, 0));
        // One that only waits for more says nothing.
        let waiting = ScaleState { bad: 0, ..raised }.next(&ScaleRule { hysteresis: 3, ..RULE }, true);
        assert_eq!((waiting.exponent, waiting.refused), (6, 3));
    }
}
