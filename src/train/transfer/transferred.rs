//! What happened to the parameters of a model that begins from other runs.

use super::initial::InitialCheckpoint;

/// Paths of the parameters, by what was done with them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Transferred {
    /// Parameters taken from the other run.
    pub loaded: Vec<String>,
    /// Whether the other run's adapters were merged into the weights taken.
    pub merged: bool,
    /// Parameters taken with another length, with a note of both shapes.
    pub resampled: Vec<String>,
    /// Parameters taken with further rows for tokens that the other run lacks, with a note of both shapes.
    pub grown: Vec<String>,
    /// Those of the grown parameters that are frozen next to adapters, so that the rows of new tokens keep their initialisation.
    pub drawn: Vec<String>,
    /// Projections of global tokens, copied from the ordinary projections.
    pub copied: Vec<String>,
    /// Newly initialised parameters.
    pub new: Vec<String>,
    /// Parameters of the other run that were not taken.
    pub skipped: Vec<String>,
    /// Keys of `[model]` that make the other run's network compute something else from the same weights.
    pub differing: Vec<String>,
    /// Why the model cannot be exported as a Hugging Face folder, though the other run was imported from one.
    pub without_family: Vec<String>,
    /// Checkpoints that they were taken from.
    pub checkpoints: Vec<InitialCheckpoint>,
}

impl Transferred {
    /// Adds the results of another network of the same model.
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
            ("with another length", &self.resampled),
            ("with rows of new tokens", &self.grown),
            ("copies of the projections of all tokens", &self.copied),
            ("new", &self.new),
            ("skipped", &self.skipped),
        ] {
            if !paths.is_empty() {
                write!(f, "; {what}: {}", paths.join(", "))?;
            }
        }
        if !self.drawn.is_empty() {
            write!(
                f,
                "; the rows of new tokens keep their random values in {}, since [lora] freezes them: list them in in_full to train them",
                self.drawn.join(", ")
            )?;
        }
        if !self.differing.is_empty() {
            let keys = self.differing.join(", ");
            write!(
                f,
                "; the parameters taken were trained in a model that computes differently: {keys}"
            )?;
        }
        for why in &self.without_family {
            write!(
                f,
                "; unlike the other run, this run cannot be exported as a Hugging Face folder: {why}"
            )?;
        }
        Ok(())
    }
}

/// Returns the fault of a parameter whose shape differs between the other run and this model. `resampled` says that it
/// is a position table which can get the other length, and `moved` that its rows mean other places in the other run, so
/// that its length alone does not make it fit.
pub(super) fn shape_fault(
    path: &str,
    [there, here]: [&[usize]; 2],
    resampled: bool,
    moved: bool,
) -> String {
    let mut remedies = Vec::new();
    if resampled {
        // The length of distance tables in blocks depends on the window.
        let of_stack = path.contains("position.table") && !path.contains("blocks.") && !moved;
        if let (Some(rows), true) = (there.first(), of_stack)
            && there > here
        {
            remedies.push(format!(
                "`max_len = {rows}` in [model.position] keeps its length"
            ));
        }
        remedies.push("`resample` changes its length".into());
    }
    remedies.push("`new` initialises it".into());
    let remedies = remedies.join(", ");
    format!("`{path}` has the shape {there:?} in the file and {here:?} in the model ({remedies})")
}
