//! stand-in
pub mod plan;
pub mod terminal;
