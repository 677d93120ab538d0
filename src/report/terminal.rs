//! stand-in
/// x
pub fn number(x: f64) -> String { format!("{x:.4}") }
/// x
pub fn duration(s: f64) -> String { format!("{s:.1} s") }
