//! amp-macros
