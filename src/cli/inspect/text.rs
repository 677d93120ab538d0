//! Runs of language models on text, and the windows that they read.

use super::{InspectArgs, output};
use crate::data::{Split, View};
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::experiment::data_files::{self, OtherData};
use crate::experiment::open::{self, Lengths, Opened};
use crate::inspect::reader::windows;
use crate::inspect::{Reader, Window};
use std::path::{Path, PathBuf};

/// Segments of a window where state is carried, at least, unless a flag says the tokens; a memory is full before the last.
const SEGMENTS: usize = 4;

/// A run and the tokens that it reads.
pub(super) struct Inspected {
    pub folder: PathBuf,
    pub opened: Opened,
    /// Tokens of its windows.
    pub length: usize,
}

impl Inspected {
    /// Opens a run of a language model on text.
    pub fn open(args: &InspectArgs, folder: &Path) -> Result<Self> {
        let device = args.device.as_deref();
        let carries = open::stored(folder)?.train.carry_state;
        let asked = args.context.map(|n| n as usize);
        let lengths = Lengths {
            context: asked.filter(|_| !carries),
            ..Lengths::default()
        };
        let opened = open::open_at(folder, args.checkpoint, device, lengths)?;
        let segment = opened.shape.context;
        let filling = opened
            .experiment
            .model
            .remembered()
            .div_ceil(segment.max(1));
        let segments = if carries {
            SEGMENTS.max(filling + 1)
        } else {
            1
        };
        let length = asked.unwrap_or(segments * segment);
        if !continues(&opened.experiment) {
            let (task, data) = (opened.experiment.task.kind(), opened.experiment.data.kind());
            return Err(Error::usage(format!(
                "{} is a run of {task} on data of kind {data}; inspect looks at language models on text for their \
                 context",
                folder.display()
            )));
        }
        Ok(Self {
            folder: folder.to_path_buf(),
            opened,
            length,
        })
    }

    /// The model as it reads.
    pub fn reader(&self) -> Result<Reader<'_>> {
        let network = self.opened.model.networks().language_model;
        let train = &self.opened.experiment.train;
        Ok(Reader {
            network: network.ok_or_else(|| Error::usage("the run continues no text"))?,
            segment: self.opened.shape.context,
            carries: train.carry_state,
            rows: train.eval_batch_size(),
        })
    }

    /// Windows of `length` tokens, spread over the validation text as it was when the run began.
    pub fn windows(&self, args: &InspectArgs, length: usize) -> Result<Vec<Window>> {
        let notice = |text: &str| output::note(text);
        let (folder, opened) = (&self.folder, &self.opened);
        if opened.experiment.model.retrieval().is_some() {
            return Err(Error::usage(
                "the model reads the neighbours of a text's chunks ([model.retrieval]), and windows that begin anywhere have none",
            ));
        }
        let data = data_files::assembled(folder, opened, OtherData::UNTAKEN, notice, |data| {
            let windows = data.in_every_window(length);
            windows.ok_or_else(|| Error::usage("the data of the run is no text"))
        })?;
        windows(data.source(Split::Valid)?.as_ref(), args.examples())
    }

    pub fn name(&self) -> String {
        let name = self.folder.file_name().unwrap_or(self.folder.as_os_str());
        name.to_string_lossy().into_owned()
    }
}

/// Whether a run continues a text, of which windows of any length can be cut.
pub(super) fn continues(experiment: &Experiment) -> bool {
    let text = experiment.data.in_every_window(1).is_some();
    text && experiment.task.view() == View::AsItIs
}
