//! amp-policy
