//! Files in: documents, archives, and the paths that an experiment names.

pub mod archive;
pub mod documents;
pub(super) mod paths;
