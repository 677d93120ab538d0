//! The task and the shape of an imported run, if they differ from those of the folder.

use crate::data::Shape;
use crate::error::{Error, Result};
use crate::interop::HfModel;
use crate::task::TaskConfig;

/// Replaces a regression task by the reward task, which has the same parameters.
pub(super) fn reward_task(hf: &HfModel) -> Result<TaskConfig> {
    hf.shape.task.as_reward().ok_or_else(|| {
        Error::usage(format!(
            "--reward: {} contains a model for {}, but rewards need a class ForSequenceClassification with num_labels = 1; \
             remove --reward",
            hf.dir.display(),
            hf.shape.task.kind()
        ))
    })
}

/// The shape of the inputs: sentence-transformers may truncate texts before the end of the position table.
pub(super) fn input_shape(hf: &HfModel) -> Shape {
    let shape = &hf.shape.shape;
    let longest = hf.modules.as_ref().and_then(|modules| modules.max_length);
    Shape {
        context: longest.unwrap_or(shape.context).min(shape.context),
        ..shape.clone()
    }
}
