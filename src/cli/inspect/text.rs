//! Language models on text, and the windows that they read.

use super::{InspectArgs, output};
use crate::data::{Split, View};
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::experiment::data_files::{self, ChangedFiles};
use crate::experiment::open::{self, Lengths, OpenedRun};
use crate::inspect::reader::windows;
use crate::inspect::{Reader, Window};
use std::path::{Path, PathBuf};

/// Minimum number of segments in a window if state is carried and no flag sets the length; the memory is full before the last
/// one.
const SEGMENTS: usize = 4;

/// A run and the length of its windows.
pub(super) struct InspectedTextRun {
    pub folder: PathBuf,
    pub opened: OpenedRun,
    /// Length of its windows in tokens.
    pub length: usize,
}

impl InspectedTextRun {
    /// Opens the run of a language model on text.
    pub fn open(args: &InspectArgs, folder: &Path) -> Result<Self> {
        let device = args.device.as_deref();
        let carries = open::stored_experiment(folder)?.train.carry_state;
        let asked = args.context.map(|n| n as usize);
        let lengths = Lengths {
            context: asked.filter(|_| !carries),
            ..Lengths::default()
        };
        let opened = open::open_with_lengths(folder, args.checkpoint, device, lengths)?;
        let segment = opened.shape.context;
        let filling = opened
            .experiment
            .model
            .evaluation_memory()
            .div_ceil(segment.max(1));
        let segments = if carries {
            SEGMENTS.max(filling + 1)
        } else {
            1
        };
        let length = asked.unwrap_or(segments * segment);
        if !has_text_windows(&opened.experiment) {
            let (task, data) = (opened.experiment.task.kind(), opened.experiment.data.kind());
            return Err(Error::usage(format!(
                "{} is a run of {task} on data of kind {data}; inspect context needs a language model on text",
                folder.display()
            )));
        }
        Ok(Self {
            folder: folder.to_path_buf(),
            opened,
            length,
        })
    }

    /// The model in the form that reads windows.
    pub fn reader(&self) -> Result<Reader<'_>> {
        let network = self.opened.model.networks().language_model;
        let train = &self.opened.experiment.train;
        Ok(Reader {
            network: network.ok_or_else(|| Error::usage("the run does not continue text"))?,
            segment: self.opened.shape.context,
            carries_state: train.carry_state,
            rows: train.eval_batch_size(),
        })
    }

    /// Windows of `length` tokens, spread over the validation text, which must be unchanged since the run began.
    pub fn windows(&self, args: &InspectArgs, length: usize) -> Result<Vec<Window>> {
        let notice = |text: &str| output::note(text);
        let (folder, opened) = (&self.folder, &self.opened);
        if opened.experiment.model.retrieval().is_some() {
            return Err(Error::usage(
                "the model reads retrieved neighbours of a text's chunks ([model.retrieval]), but windows that start anywhere \
                 have none",
            ));
        }
        let data =
            data_files::read_run_data(folder, opened, ChangedFiles::REFUSED, notice, |data| {
                let windows = data.with_unit_stride(length);
                windows.ok_or_else(|| Error::usage("the data of the run is not text"))
            })?;
        windows(data.source(Split::Valid)?.as_ref(), args.examples())
    }

    pub fn name(&self) -> String {
        let name = self.folder.file_name().unwrap_or(self.folder.as_os_str());
        name.to_string_lossy().into_owned()
    }
}

/// Whether a run continues a text that can be cut into windows of any length.
pub(super) fn has_text_windows(experiment: &Experiment) -> bool {
    let text = experiment.data.with_unit_stride(1).is_some();
    text && experiment.task.view() == View::Plain
}
