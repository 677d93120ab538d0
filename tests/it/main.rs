//! The one integration-test binary.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout
)]

mod beam;
mod binary;
mod checkpoint;
mod commands;
mod contracts;
mod data;
mod diagnostics;
mod going_on;
mod goldens;
mod goldens_details;
mod house;
mod interop;
mod interruption;
mod kernels;
mod kinds;
mod limits;
mod memory;
mod optim;
mod optim_faults;
mod oracle;
mod presets;
mod report;
mod resume;
mod run_dir;
mod schedule;
mod small_run;
mod training;
mod trajectory;
