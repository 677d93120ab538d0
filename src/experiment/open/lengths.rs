//! Lengths of windows, segments and memories that a run is opened with, and the longest windows that it can read.

use super::super::{Experiment, assemble};
use super::stored_experiment;
use crate::data::Shape;
use crate::error::{Error, Result};
use crate::train::parameters::{self, Parameter};
use burn::tensor::Device;
use std::path::Path;

/// Lengths that replace those of a run; absent ones are kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lengths {
    /// Length of text windows in tokens, or of segments if state is carried between them.
    pub context: Option<usize>,
    /// Number of positions of earlier segments that attention sees.
    pub memory: Option<usize>,
    /// Tokens between the starts of two evaluation windows: `data.eval_stride`.
    pub stride: Option<usize>,
}

impl Lengths {
    /// Returns the lengths with which a query of this run sees at most `keys` keys: windows of `keys` tokens or, in a model
    /// with memory, a memory of `keys` minus the segment length.
    ///
    /// # Errors
    /// If there is no run in the folder or its experiment is invalid; if a segment leaves no room for a memory; if the run
    /// carries a state without keys.
    pub fn for_attention_length(self, keys: usize, folder: &Path) -> Result<Self> {
        let mut stored = stored_experiment(folder)?;
        let imported = stored.data.is_imported();
        if !imported && stored.data.with_unit_stride(keys).is_none() {
            return Err(Error::usage(format!(
                "--attention-length {keys} has no effect: the examples of [data] kind = \"{}\" are not windows of a text; remove \
                 it",
                stored.data.kind()
            )));
        }
        if !stored.train.carry_state {
            if let Some(context) = self.context {
                return Err(Error::usage(format!(
                    "--attention-length {keys} and --context {context} both set the length of a window; remove one"
                )));
            }
            return Ok(Self {
                context: Some(keys),
                ..self
            });
        }
        if !stored.model.set_evaluation_memory(0) {
            return Err(Error::usage(format!(
                "--attention-length {keys} has no effect: the run carries a state without keys; remove it"
            )));
        }
        let segment = self.context.unwrap_or(stored.data.context());
        match keys.checked_sub(segment) {
            Some(memory) if memory > 0 => Ok(Self {
                memory: Some(memory),
                ..self
            }),
            Some(_) | None => Err(Error::usage(format!(
                "--attention-length {keys} leaves no room for a memory beside segments of {segment} tokens; shorten the segments \
                 with --context"
            ))),
        }
    }

    /// Returns the keys of `[data]` that flags set: the key, the flag, the value.
    pub(super) fn data_overrides(
        &self,
    ) -> impl Iterator<Item = (&'static str, &'static str, usize)> {
        let all = [
            ("data.context", "--context", self.context),
            ("data.eval_stride", "--stride", self.stride),
        ];
        all.into_iter()
            .filter_map(|(key, flag, value)| Some((key, flag, value?)))
    }

    /// Rewords an error from opening a run at these lengths: names the flag that was given instead of the key it sets.
    pub(super) fn reword_error(&self, error: Error) -> Error {
        match (error, self.context) {
            (Error::Run(reason), Some(context)) => Error::usage(format!(
                "the run cannot read windows of {context} tokens: {reason}"
            )),
            (Error::Invalid(mut faults), _) => {
                for (key, flag, value) in self.data_overrides() {
                    let key = format!("--set {key}={value}: ");
                    for fault in &mut faults {
                        if fault.message.contains(&key) {
                            let flag = format!("{flag} {value}: ");
                            fault.message = reword_for_run(&fault.message.replace(&key, &flag));
                        }
                    }
                }
                Error::Invalid(faults)
            }
            (other, _) => other,
        }
    }
}

/// Rewords the error about position tables that are shorter than the windows, with a remedy that suits a trained run.
fn reword_for_run(fault: &str) -> String {
    const REMEDIES: [(&str, &str); 2] = [
        (
            "remove it to follow the data, or shorten texts with data.context = ",
            "the run reads at most --context ",
        ),
        ("; remove it to follow the data", ""),
    ];
    let told = |fault: String, (of_file, of_run): (&str, &str)| fault.replace(of_file, of_run);
    REMEDIES.into_iter().fold(fault.to_owned(), told)
}

/// Checks that windows are not longer than parameters whose size is the training context of `trained` tokens, such as position
/// tables and maps of whole windows.
///
/// # Errors
/// If there is such a parameter, or the model cannot learn the task.
pub(super) fn require_rows(
    used: &Experiment,
    built: &Shape,
    trained: usize,
    device: &Device,
) -> Result<()> {
    if built.context <= trained {
        return Ok(());
    }
    let of_training = Shape {
        context: trained,
        ..built.clone()
    };
    let all = |shape: &Shape| -> Result<Vec<Parameter>> {
        let model = assemble::objective(used, shape, device)?;
        Ok(parameters::list_with_state(&model))
    };
    let (own, longer) = (all(&of_training)?, all(built)?);
    let mut both = own.iter().zip(&longer);
    match both.find(|(own, longer)| own.shape != longer.shape) {
        None => Ok(()),
        Some((own, _)) => Err(Error::usage(format!(
            "the run cannot read windows of {} tokens: it reads at most {trained}, the length of its `{}`",
            built.context, own.path
        ))),
    }
}
