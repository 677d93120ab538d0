//! Fused tensor operations, each with its own backward.
