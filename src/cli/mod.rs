//! The command line.
pub mod data;
