//! Input files: documents, articles, archives, columnar tables, packed files, and the paths that an
//! experiment names.

pub mod archive;
pub(in crate::data) mod articles;
pub mod columnar;
pub(in crate::data) mod delimiter;
pub mod discovery;
pub mod documents;
pub(in crate::data) mod guard;
pub(in crate::data) mod json_line;
pub mod packed;
pub(super) mod paths;
pub(in crate::data) mod records;
pub(in crate::data) mod row_lines;
pub(super) mod splits;
mod splitting;
