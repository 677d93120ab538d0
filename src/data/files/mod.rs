//! Files in: documents, articles, archives, and the paths that an experiment names.

pub mod archive;
pub(in crate::data) mod articles;
pub mod documents;
pub(super) mod paths;
