//! What became of the parameters of a model that begins from other runs.

use super::initial::InitialCheckpoint;

/// The parameters by what was done with them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transferred {
    /// Taken from the other run.
    pub loaded: Vec<String>,
    /// Whether the other run's adapters were merged into what was taken.
    pub merged: bool,
    /// Taken in another length, with a note of both shapes.
    pub resampled: Vec<String>,
    /// Taken with further rows for tokens that the other run lacks, with a note of both shapes.
    pub grown: Vec<String>,
    /// Those of them that do not learn beside adapters, so that the rows of new tokens stay as they were drawn.
    pub drawn: Vec<String>,
    /// Copies of other ones: projections of global tokens, of those of all tokens.
    pub copied: Vec<String>,
    /// They begin anew.
    pub new: Vec<String>,
    /// In the other run, and not taken.
    pub skipped: Vec<String>,
    /// Keys of `[model]` by which the other run's network computes something else from the same weights.
    pub differing: Vec<String>,
    /// Why the model becomes no folder of Hugging Face's, though the other run was made of one.
    pub without_family: Vec<String>,
    /// The checkpoints that they were taken from.
    pub checkpoints: Vec<InitialCheckpoint>,
}

impl Transferred {
    /// Takes in what became of those of another network of the same model.
    pub fn join(&mut self, other: Self) {
        self.loaded.extend(other.loaded);
        self.merged |= other.merged;
        self.resampled.extend(other.resampled);
        self.grown.extend(other.grown);
        self.drawn.extend(other.drawn);
        self.copied.extend(other.copied);
        self.new.extend(other.new);
        self.skipped.extend(other.skipped);
        self.differing.extend(other.differing);
        self.without_family.extend(other.without_family);
        self.checkpoints.extend(other.checkpoints);
    }
}

impl std::fmt::Display for Transferred {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} parameters taken", self.loaded.len())?;
        if self.merged {
            f.write_str("; its adapters are merged into the weights")?;
        }
        for (what, paths) in [
            ("in another length", &self.resampled),
            ("with rows of new tokens", &self.grown),
            ("copies of the projections of all tokens", &self.copied),
            ("new", &self.new),
            ("left out", &self.skipped),
        ] {
            if !paths.is_empty() {
                write!(f, "; {what}: {}", paths.join(", "))?;
            }
        }
        if !self.drawn.is_empty() {
            write!(
                f,
                "; the rows of new tokens stay as they are drawn in {}, for [lora] freezes them: name them in in_full to learn them",
                self.drawn.join(", ")
            )?;
        }
        if !self.differing.is_empty() {
            let keys = self.differing.join(", ");
            write!(
                f,
                "; those taken were trained in a model that computes otherwise: {keys}"
            )?;
        }
        for why in &self.without_family {
            write!(
                f,
                "; the run will not become a folder of Hugging Face's as the other one was: {why}"
            )?;
        }
        Ok(())
    }
}

/// The fault of a parameter that has one shape there and another one here; `resampled` says that it is a table of positions
/// which can get the other length, and `moved` that its rows are other places there, so that its length does not make them fit.
pub(super) fn unlike(
    path: &str,
    [there, here]: [&[usize]; 2],
    resampled: bool,
    moved: bool,
) -> String {
    let mut remedies = Vec::new();
    if resampled {
        // Tables of distances in blocks are as long as windows make them.
        let of_stack = path.contains("position.table") && !path.contains("blocks.") && !moved;
        if let (Some(rows), true) = (there.first(), of_stack)
            && there > here
        {
            remedies.push(format!(
                "`max_len = {rows}` in [model.position] keeps its length"
            ));
        }
        remedies.push("`resample` gives it the length of here".into());
    }
    remedies.push("`new` lets it begin anew".into());
    let remedies = remedies.join(", ");
    format!("`{path}` has the shape {there:?} there and {here:?} here ({remedies})")
}
