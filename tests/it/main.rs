//! The one integration-test binary.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, clippy::print_stdout)]

mod kernels;
