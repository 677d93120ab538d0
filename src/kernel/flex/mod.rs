//! The kernels for Burn's CPU backend.
