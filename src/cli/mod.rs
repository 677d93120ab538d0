//! The command line.

pub mod compare;
