//! Comparing runs. [`read`] reads run folders and sweeps, [`analyse`] groups runs into arms and tests their
//! differences, [`render`] shows the result: a table, one JSON object, one HTML page, the files of a paper.
//!
//! Everything here works from the files of run folders; no model is loaded.

pub mod analyse;
pub mod read;
pub mod render;
