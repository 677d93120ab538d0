//! Public data sets: their manifests, how they are downloaded, where they are looked up, and whether they
//! have changed.

pub mod fingerprint;
pub mod manifest;
pub mod pull;
pub mod search_path;
