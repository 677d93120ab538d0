//! Reading run folders and sweep folders.

pub mod changes;
pub mod diagnostics;
pub mod find;
pub mod journal;
pub mod line;
pub mod listed;
pub mod origins;
mod patience;
pub mod rate;
pub mod resolved;
pub mod run;
pub mod rungs;
pub mod samples;
pub mod standing;
pub mod sweep;
pub mod tail;
