//! The parts of a transformer: norms, activations, feed-forward layers, attention, positions, embeddings.
//!
//! A part is a config (plain data, strict), a Burn module, and nothing else's code. No part does I/O or
//! knows a loss. Families (norms, positions …) are enums that own the parameters and hand out one trait
//! object that acts.

pub mod attention;
pub mod embed;
pub mod feed_forward;
pub mod init;
pub mod linear;
pub mod norm;
pub mod pass;
pub mod position;

/// One kind of a family, for `list`, the README, diagnostics and the contract tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The value of the `kind` key.
    pub kind: &'static str,
    /// One line that says what it is.
    pub summary: &'static str,
    /// Where it comes from: authors, year, section.
    pub source: &'static str,
    /// The inline table that selects it in an experiment file.
    pub example: &'static str,
}
