//! Which of two ways attention takes: tiles where their kernels do a call, unless `FORMWORK_ATTENTION` is `products`. On an NVIDIA H200
//! tiles took a third of the time of products forward and three quarters backward (384 heads of 256 queries and keys of width
//! 64, causal, with dropout; 2026-11-27, beside other work).

use std::sync::OnceLock;

/// The variable that settles it.
pub const SWITCH: &str = "FORMWORK_ATTENTION";

/// Its values.
pub const SWITCHES: &[&str] = &["products", "tiles"];

/// Whether a call that tiles can do is done in them.
pub fn takes_tiles() -> bool {
    static TAKES: OnceLock<bool> = OnceLock::new();
    *TAKES.get_or_init(|| std::env::var(SWITCH).as_deref() != Ok("products"))
}
