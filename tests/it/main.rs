//! The one integration-test binary.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout
)]

mod checkpoint;
mod contracts;
mod data;
mod diagnostics;
mod goldens;
mod house;
mod interop;
mod interruption;
mod optim;
mod oracle;
mod presets;
mod report;
mod run_dir;
mod schedule;
mod small_run;
mod trajectory;
