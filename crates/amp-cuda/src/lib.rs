//! amp-cuda
