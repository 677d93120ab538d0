//! What a run can be asked for.

use super::{Pool, has_class_token};
use crate::error::{Error, Result};
use crate::experiment::open::OpenedRun;
use crate::task::Networks;

/// Checks that a run supports a pooling and a choice of layer.
///
/// # Errors
/// If there is no class token; if an image has no last token; if a run that compares images with texts has no states to give.
pub fn require(opened: &OpenedRun, pool: Pool, layer: Option<usize>) -> Result<()> {
    let images = opened.shape.image.is_some();
    let networks = opened.model.networks();
    if networks.image_text.is_some() && (pool != Pool::Trained || layer.is_some()) {
        return Err(Error::usage(
            "a run of image_text returns the vectors with which it compares images and texts: remove --layer and --pool",
        ));
    }
    require_texts(&networks)?;
    let writes = networks.language_model.is_some() || networks.text_to_text.is_some();
    let edges = opened
        .tokenizers
        .text
        .as_ref()
        .and_then(|t| t.special_token_layout());
    let begun = edges.is_some_and(|edges| !edges.before().is_empty());
    let recordings = opened.shape.speech.is_some();
    match pool {
        Pool::Class if images && !has_class_token(opened) => Err(Error::usage(
            "--pool cls: this run has no class token before the patches of an image; use mean",
        )),
        Pool::Class if recordings => Err(Error::usage(
            "--pool cls: this run reads recordings, whose frames have no class token; use mean",
        )),
        Pool::Class if !images && (writes || !begun) => Err(Error::usage(
            "--pool cls: this run has no class token at the beginning of its inputs; use mean or last",
        )),
        Pool::Last if images => Err(Error::usage(
            "--pool last: the patches of an image have no last one; use mean",
        )),
        Pool::Class | Pool::Mean | Pool::Max | Pool::Last | Pool::None | Pool::Trained => Ok(()),
    }
}

/// Returns an error for a run that reads its texts together with another input.
pub(super) fn require_texts(networks: &Networks) -> Result<()> {
    let (task, read, command) = match (networks.captioning, networks.transcription) {
        (Some(_), _) => ("captioning", "an image and its caption", "caption"),
        (None, Some(_)) => ("transcription", "a recording and its text", "transcribe"),
        (None, None) => return Ok(()),
    };
    Err(Error::usage(format!(
        "a run of {task} reads {read} together and produces no vectors of them: use formwork {command}"
    )))
}
