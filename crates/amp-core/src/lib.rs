//! amp-core
