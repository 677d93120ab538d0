//! Reading run folders and the folders of sweeps.

pub mod changes;
pub mod diagnostics;
pub mod find;
pub mod journal;
pub mod run;
pub mod rungs;
mod samples;
pub mod sweep;
