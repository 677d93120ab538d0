//! Choice between the two ways of attention: tiles if their kernels support a call, unless `FORMWORK_ATTENTION` is
//! `products`. On an NVIDIA H200, tiles took a third of the time of products forward and three quarters backward (384
//! heads of 256 queries and keys of width 64, causal, with dropout; 2026-11-27, beside other work).

use std::sync::OnceLock;

/// Environment variable that chooses.
pub const SWITCH: &str = "FORMWORK_ATTENTION";

/// Values of the environment variable.
pub const SWITCHES: &[&str] = &["products", "tiles"];

/// Returns whether a call that tiles support is done in tiles.
pub fn uses_tiles() -> bool {
    static TAKES: OnceLock<bool> = OnceLock::new();
    *TAKES.get_or_init(|| std::env::var(SWITCH).as_deref() != Ok("products"))
}
