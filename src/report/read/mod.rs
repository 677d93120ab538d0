//! Reading run folders and sweep folders.

pub mod changes;
pub mod diagnostics;
pub mod find;
pub mod journal;
pub mod journal_summary;
pub mod line;
pub mod listing;
pub mod origins;
mod patience;
pub mod rate;
pub mod resolved;
pub mod run;
pub mod rungs;
pub mod samples;
pub mod sweep;
pub mod tail;
