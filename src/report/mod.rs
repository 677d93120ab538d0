//! Comparing runs.
