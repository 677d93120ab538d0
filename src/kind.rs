//! One row of a family's table: what `list`, the README, diagnostics and the contract tests iterate.

/// One kind of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The value of the `kind` key.
    pub kind: &'static str,
    /// One line that says what it is.
    pub summary: &'static str,
    /// Where it comes from: authors, year, section.
    pub source: &'static str,
    /// What selects it in an experiment file.
    pub example: &'static str,
}
