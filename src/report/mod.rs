//! Comparing runs: reads run folders, groups them into arms, and shows them as a table, as curves in a
//! terminal, as one JSON object and as one self-contained HTML page.
//!
//! Everything here works from the files of a run folder; no model is loaded.

pub mod analyse;
pub mod plan;
pub mod read;
pub mod render;
