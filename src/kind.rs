//! A kind: an entry in the list of values of a `kind` key, which `list`, the README, diagnostics and the contract tests iterate
//! over.

/// One kind of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The value of the `kind` key.
    pub kind: &'static str,
    /// One-line description.
    pub summary: &'static str,
    /// Its origin: authors, year, section.
    pub source: &'static str,
    /// The text that selects it in an experiment file.
    pub example: &'static str,
}
