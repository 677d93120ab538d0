//! How layers are wired.
