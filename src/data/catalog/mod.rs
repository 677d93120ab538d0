//! Public data sets: their manifests, how they are fetched, where they are looked for, whether they changed.

pub mod fingerprint;
pub mod manifest;
pub mod pull;
pub mod search_path;
