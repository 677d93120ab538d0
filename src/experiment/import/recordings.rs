//! Imports speech models: how audio becomes inputs, and the tokens that a transcript begins with.

use super::ImportReport;
use crate::data::SpeechShape;
use crate::error::{Error, Result};
use crate::interop::generation::ImportedGeneration;
use crate::interop::generation::opening::LANGUAGE;
use crate::interop::image_processor::{NAME, PROCESSOR};
use crate::interop::{HfModel, feature_extractor, sample_extractor};
use crate::tokenizer::Tokenizer;

/// Checks the folder's audio settings against the model's inputs. If it has none, adds a note on what is done instead.
///
/// # Errors
/// If the settings file is damaged, or gives features that the model does not read or that are not supported.
pub(super) fn settings(
    hf: &mut HfModel,
    speech: SpeechShape,
    imported: &mut ImportReport,
) -> Result<()> {
    if speech.n_mels == 0 {
        let found = sample_extractor::normalizes(&hf.dir).map_err(Error::into_usage_error)?;
        if found.is_none() {
            imported.notes.push(format!(
                "the folder has no audio settings ({NAME}, or `feature_extractor` in {PROCESSOR}): the samples of a recording \
                 at 16 kHz are normalised to mean 0 and variance 1"
            ));
        }
        hf.shape.shape.speech = Some(SpeechShape {
            normalized: found.unwrap_or(speech.normalized),
            ..speech
        });
        return Ok(());
    }
    let found = feature_extractor::check(&hf.dir, speech).map_err(Error::into_usage_error)?;
    if !found {
        imported.notes.push(format!(
            "the folder has no audio settings ({NAME}, or `feature_extractor` in {PROCESSOR}): recordings are converted to \
             log-mel features at 16 kHz in steps of 10 ms, as in Whisper"
        ));
    }
    Ok(())
}

/// Returns the tokenizer with the tokens that the folder's generation settings put around a text.
///
/// # Errors
/// If the vocabulary lacks one of the tokens.
pub(super) fn with_text_start(
    tokenizer: Tokenizer,
    settings: &ImportedGeneration,
    imported: &mut ImportReport,
) -> Result<Tokenizer> {
    let (Some(opening), Some(end)) = (settings.transcript_prefix(), settings.end.first()) else {
        return Ok(tokenizer);
    };
    if opening.language_is_open {
        imported.notes.push(format!(
            "the generation settings leave the language of a text open; transformers detects it from the recording, and this \
             run uses {LANGUAGE} instead; formwork transcribe --language sets another language"
        ));
    }
    let tokens = opening.tokens.iter().map(|token| {
        let named = token.or_else(|| tokenizer.id(LANGUAGE));
        named.ok_or_else(|| {
            Error::usage(format!(
                "{}: `forced_decoder_ids` leaves the language of a text open, and the vocabulary has no token {LANGUAGE} to use \
                 instead; write the id of a language there",
                settings.file.display()
            ))
        })
    });
    let tokens = tokens.collect::<Result<Vec<u32>>>()?;
    tokenizer.with_tokens_around(&tokens, &[*end])
}
