//! Metrics on a split.
