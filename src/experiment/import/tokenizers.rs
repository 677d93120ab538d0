//! Converts the tokenizers of a folder to files of a run.

use super::{ImportReport, recordings};
use crate::error::{Error, Result};
use crate::experiment::run_contents::{self, VocabularyOverflow};
use crate::interop::HfModel;
use crate::interop::generation::ImportedGeneration;
use crate::model::Use;
use crate::tokenizer::hf::HfTokenizer;
use crate::tokenizer::{MarkNames, Tokenizer, hf};
use crate::train::run_dir;

/// The forced first token of every text if it is a language token: a special token that is not a begin, end or padding token.
fn language(tokenizer: &Tokenizer, settings: &ImportedGeneration) -> Option<String> {
    let id = settings.search.first?;
    let frame = tokenizer.frame().map(|frame| frame.begin);
    let others = [frame, settings.begin, settings.pad];
    let is_other = others.contains(&Some(id)) || settings.end.contains(&id);
    let named = !is_other && tokenizer.specials().contains(&id);
    tokenizer.token(id).filter(|_| named)
}

/// Returns the folder's tokenizers by the names of their files in a run, with the special tokens that its generation config
/// names, and the folder's other tokenizer settings.
pub(super) fn tokenizer_files(
    hf: &HfModel,
    settings: Option<&ImportedGeneration>,
    imported: &mut ImportReport,
) -> Result<Vec<(&'static str, Vec<u8>)>> {
    let pairs = hf.shape.task.network_use() == Use::TextToText;
    let found = hf::read(&hf.dir).map_err(Error::into_usage_error)?;
    let Some(found) = found else {
        imported.lacks_tokenizer = hf.shape.shape.vocab_size > 0;
        return Ok(Vec::new());
    };
    let HfTokenizer {
        tokenizer,
        target,
        chat,
        ignored,
        notes,
        kept_settings: said,
        ..
    } = found;
    let both = [Some(&tokenizer), target.as_ref()];
    if let Some(VocabularyOverflow {
        max_id: last,
        vocabulary: known,
        ..
    }) = run_contents::vocabulary_overflow(both, &hf.shape.shape)
    {
        return Err(Error::usage(format!(
            "{}: the tokenizer has ids up to {last}, but config.json specifies {known} tokens: one of them belongs to another model",
            hf.dir.display()
        )));
    }
    imported.unsupported.extend(ignored);
    imported.notes.extend(notes);
    let tokenizer = match settings {
        Some(settings) if hf.shape.task.network_use() == Use::SpeechToText => {
            recordings::with_text_start(tokenizer, settings, imported)?
        }
        _ => tokenizer,
    };
    let marked = |tokenizer: Tokenizer| -> Result<Vec<u8>> {
        let Some(settings) = settings.filter(|_| pairs) else {
            return Ok(tokenizer.json().to_vec());
        };
        let name = |id: Option<u32>| id.and_then(|id| tokenizer.token(id));
        let marks = MarkNames {
            begin: name(settings.begin),
            end: name(settings.end.first().copied()),
            pad: name(settings.pad),
            target_language: language(&tokenizer, settings),
            ..MarkNames::default()
        };
        Ok(tokenizer.with_marks(&marks)?.json().to_vec())
    };
    let mut files = vec![(run_dir::TOKENIZER, marked(tokenizer)?)];
    if let Some(target) = target {
        files.push((run_dir::TARGET_TOKENIZER, marked(target)?));
    }
    if let Some(chat) = chat {
        files.push((run_dir::CHAT, chat.json()?));
    }
    if !said.is_empty() {
        let said = serde_json::to_vec_pretty(&said);
        let said = said.map_err(|e| Error::run(format!("cannot serialise the tokenizer: {e}")))?;
        files.push((run_dir::HF_TOKENIZER, said));
    }
    Ok(files)
}
