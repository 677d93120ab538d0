//! A TOML file becomes a run.
