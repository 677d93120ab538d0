//! The one integration-test binary.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout
)]

mod contracts;
mod data;
mod goldens;
mod goldens_details;
mod house;
mod interop;
mod oracle;
mod report;
mod trajectory;
